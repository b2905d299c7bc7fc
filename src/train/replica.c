/* SPDX-License-Identifier: MIT */
/* replica.c -- a replica's memory: measured, allocated once, carved, filled and read back.
 *
 * What runs on that memory is in forward.c and backward.c.
 *
 * One function, layout, walks through every array in order. With a base of NULL it only counts;
 * with the allocated memory it hands out places. So the two cannot disagree.
 */
#include "train/replica.h"

#include <stdlib.h>
#include <string.h>

enum { CARVE_UNIT = 128 }; /* bytes: an arena's alignment, and a GPU's cache line */

#define BOUNCE_BYTES ((size_t)1 << 20)
#define EVALUATION_BYTES ((size_t)64 << 20) /* of activations, for the sake of an evaluation */

typedef struct {
    char *base;     /* NULL: count only */
    size_t used;    /* bytes */
    size_t counted; /* of them, before the part that is being handed out */
} carver;

static void *carve(carver *c, size_t bytes)
{
    void *place = c->base ? c->base + c->used : NULL;
    c->used += (bytes + CARVE_UNIT - 1) / CARVE_UNIT * CARVE_UNIT;
    return place;
}

/* The bytes of a part that has been handed out. */
static size_t end_part(carver *c)
{
    const size_t part = c->used - c->counted;
    c->counted = c->used;
    return part;
}

static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

/* Rows of the largest pass that a batch of `samples` or fewer can give this rank.
 * Shard sizes of a batch of b samples are floor or ceil of b / V, so no shard of a shorter batch
 * has more than ceil(B / V); a pass has at most that many times the owned shards that it visits. */
static size_t pass_rows_max(int shard_count, int world_size, int rank, int accumulate,
                            size_t samples)
{
    const int begin = ls_rank_shard_begin(rank, shard_count, world_size);
    const int end = ls_rank_shard_begin(rank + 1, shard_count, world_size);
    const size_t shard_rows = (samples + (size_t)shard_count - 1) / (size_t)shard_count;
    size_t most = 0;
    for (int pass = 0; pass < accumulate; pass++) {
        size_t shards = 0;
        for (int s = begin; s < end; s++) shards += s % accumulate == pass;
        most = max_size(most, shards * shard_rows);
    }
    return most;
}

/* Rows that an evaluation is given where training asks for fewer: `capacity_min`, or as many as
 * keep activations small. Few rows cost time, not bits. */
static size_t evaluation_rows(const ls_replica_config *config)
{
    size_t sample = 1; /* floats of all layers */
    for (int l = 0; l < config->model->layer_count; l++)
        sample += ls_shape_floats(config->model->layer[l].out);
    const size_t affordable = max_size(EVALUATION_BYTES / (sample * sizeof(float)), 1);
    return affordable < config->capacity_min ? affordable : config->capacity_min;
}

static size_t pass_capacity(const ls_replica_config *config, int rank)
{
    const size_t rows = pass_rows_max(config->shard_count, config->world_size, rank,
                                      config->accumulate, config->global_batch);
    return max_size(rows, evaluation_rows(config));
}

static size_t batch_capacity(const ls_replica_config *config, int rank)
{
    const size_t rows = pass_rows_max(config->shard_count, config->world_size, rank, 1,
                                      config->global_batch);
    return max_size(rows, pass_capacity(config, rank));
}

/* Places of the results one after another, on either side of the read-back copy. */
static size_t layout_results(ls_results *results, const ls_replica_config *config, char *base)
{
    carver c = { .base = base };
    const size_t count = (size_t)config->model->parameter_count;
    results->gradient_square = carve(&c, count * sizeof(double));
    results->update_square = carve(&c, count * sizeof(double));
    results->weight_square = carve(&c, count * sizeof(double));
    results->weight_absolute = carve(&c, count * sizeof(double));
    results->nonfinite = carve(&c, (count + 1) * sizeof(uint64_t));
    results->digest = carve(&c, 2 * sizeof(uint64_t));
    results->shard_sum = carve(&c, (size_t)config->shard_count * sizeof(ls_shard_sum));
    return c.used;
}

static bool is_narrow(const ls_replica_config *config)
{
    return config->precision == LS_PRECISION_BF16 || config->precision == LS_PRECISION_F16;
}

/* Is layer `l`'s output the last's, perhaps under another name? Then it stays in fp32. */
static bool is_output(const ls_model *model, int l)
{
    int last = model->layer_count - 1;
    while (last != l && (model->layer[last].op == LS_OP_FLATTEN ||
                         model->layer[last].op == LS_OP_DROPOUT))
        last = model->layer[last].input[0];
    return last == l;
}

/* Layers whose output is another layer's memory make no activation; nor do layers that the loss
 * does not depend on. The input is rounded where activations are. */
static bool makes_activation(const ls_replica_config *config, int l)
{
    const ls_op op = config->model->layer[l].op;
    if (op == LS_OP_FLATTEN || !config->model->layer[l].is_used) return false;
    return op != LS_OP_INPUT || is_narrow(config);
}

static ls_stored carve_stored(carver *c, size_t count, bool narrow)
{
    return (ls_stored){ .at = carve(c, count * (narrow ? sizeof(uint16_t) : sizeof(float))),
                        .is_narrow = narrow };
}

static void layout_activations(ls_replica *r, const ls_replica_config *config, size_t rows,
                               carver *c)
{
    const ls_model *model = config->model;
    for (int l = 0; l < model->layer_count; l++) {
        const size_t floats = rows * ls_shape_floats(model->layer[l].out);
        if (makes_activation(config, l))
            r->activation[l] = carve_stored(c, floats, is_narrow(config) && !is_output(model, l));
        if (model->layer[l].op == LS_OP_MAX_POOL) r->place[l] = carve(c, floats);
    }
}

static void layout_norm(ls_replica *r, const ls_replica_config *config, carver *c)
{
    const size_t shards = (size_t)config->shard_count;
    for (int l = 0; l < config->model->layer_count; l++) {
        const ls_layer *layer = &config->model->layer[l];
        if (layer->op != LS_OP_BATCHNORM) continue;
        const size_t row = 2 * layer->out.channels * sizeof(float);
        r->norm[l] = (ls_norm_state){ .rows = carve(c, shards * row), .merged = carve(c, row),
                                      .sum_rows = carve(c, shards * row),
                                      .merged_sums = carve(c, row) };
    }
}

static size_t largest_activation(const ls_model *model)
{
    size_t most = 0;
    for (int l = 0; l < model->layer_count; l++)
        most = max_size(most, ls_shape_floats(model->layer[l].out));
    return most;
}

static size_t table_floats(const ls_replica_config *config) { return config->data->channels * 256; }

static size_t largest_kernel(const ls_model *model)
{
    size_t most = 0;
    for (int p = 0; p < model->parameter_count; p++)
        if (model->parameter[p].is_kernel) most = max_size(most, model->parameter[p].count);
    return most;
}

/* What 16-bit precisions need beside: one layer's numbers in fp32. */
static void layout_scratch(ls_replica *r, const ls_replica_config *config, size_t rows, carver *c)
{
    const ls_model *model = config->model;
    if (!is_narrow(config)) return;
    r->kernel_scratch = carve(c, largest_kernel(model) * sizeof(float));
    for (int i = 0; i < LS_SCRATCH_COUNT; i++)
        r->scratch[i] = carve(c, rows * largest_activation(model) * sizeof(float));
}

static void layout_gradients(ls_replica *r, const ls_replica_config *config, size_t rows,
                             int piece_count, carver *c)
{
    const size_t arena = config->model->arena_floats * sizeof(float);
    for (int s = 0; s < config->slot_count; s++) r->slot[s] = carve(c, arena);
    if (config->average) r->average = carve(c, arena);
    if (config->keeps_good)
        r->good = carve(c, arena * (size_t)(1 + config->slot_count + config->average)
                               + config->model->statistic_floats * sizeof(float));
    r->parts.slots = end_part(c);
    r->gradients = carve(c, arena * (size_t)piece_count);
    r->parts.gradients = end_part(c);
    for (int i = 0; i < r->backward.slot_count; i++)
        r->gradient_slot[i] = carve_stored(c, rows * r->backward.slot_floats[i],
                                           is_narrow(config));
    layout_norm(r, config, c);
    r->parts.activation_gradients = end_part(c);
}

static void layout_samples(ls_replica *r, const ls_replica_config *config, int rank, carver *c)
{
    const size_t rows = batch_capacity(config, rank), pass = pass_capacity(config, rank);
    const ls_model *model = config->model;
    const size_t outputs = ls_model_outputs(model);
    const size_t sample = ls_shape_floats(model->layer[0].out);
    if (config->table) {
        r->bytes = carve(c, rows * sample);
        r->table = carve(c, table_floats(config) * sizeof(float));
    }
    r->x = carve(c, (config->table ? pass : rows) * sample * sizeof(float));
    r->label = carve(c, rows * sizeof(int32_t));
    r->target = carve(c, rows * config->data->outputs * sizeof(float));
    r->weight = carve(c, rows * sizeof(float));
    r->index = carve(c, rows * sizeof(uint32_t));
    r->loss = carve(c, pass * sizeof(float));
    r->absolute_error = carve(c, pass * sizeof(float));
    r->squared_error = carve(c, pass * sizeof(float));
    r->label_place = carve(c, pass * sizeof(int32_t));
    r->predicted = carve(c, pass * sizeof(int32_t));
    r->probability = carve(c, pass * outputs * sizeof(float));
}

/* Hand out (base given) or count (base NULL) every array of device memory. Returns the bytes. */
static size_t layout(ls_replica *r, const ls_replica_config *config, int rank, char *base,
                     int piece_count)
{
    carver c = { .base = base };
    const ls_model *model = config->model;
    const size_t arena = model->arena_floats * sizeof(float);
    const size_t pass = pass_capacity(config, rank);
    r->weights = carve(&c, arena);
    r->statistics = carve(&c, model->statistic_floats * sizeof(float));
    r->moved = carve(&c, model->statistic_floats * sizeof(float));
    if (is_narrow(config)) r->narrow_weights = carve(&c, model->arena_floats * sizeof(uint16_t));
    r->parts.weights = end_part(&c);
    if (config->training) layout_gradients(r, config, pass, piece_count, &c);
    layout_scratch(r, config, pass, &c);
    layout_activations(r, config, pass, &c);
    r->parts.activations = end_part(&c);
    layout_samples(r, config, rank, &c);
    r->parts.samples = end_part(&c);
    r->table_device = carve(&c, (size_t)model->parameter_count * sizeof(ls_arena_tensor));
    r->step_device = carve(&c, (size_t)model->parameter_count * sizeof(ls_tensor_step));
    r->results_bytes = layout_results(&r->results, config, NULL);
    char *results = carve(&c, r->results_bytes);
    layout_results(&r->results, config, results);
    r->parts.other = end_part(&c);
    return c.used;
}

static int plan_piece_count(const ls_replica_config *config, int rank, ls_fold_plan *plan)
{
    ls_fold_plan_init(plan, config->shard_count, config->world_size, rank, config->accumulate,
                      config->global_batch);
    return plan->piece_count;
}

int ls_replica_threads(int asked, int world_size)
{
    const int share = ls_core_count() / world_size;
    return asked > 0 ? asked : share > 1 ? share : 1;
}

static void fill_table(ls_arena_tensor *table, const ls_replica_config *config)
{
    for (int p = 0; p < config->model->parameter_count; p++) {
        const ls_parameter *parameter = &config->model->parameter[p];
        table[p] = (ls_arena_tensor){
            .begin = parameter->begin,
            .count = parameter->count,
            .l2_twice = (float)(2 * config->rule[p].l2),
            .l1 = (float)config->rule[p].l1,
        };
    }
}

static ls_status alloc_host(ls_replica *r)
{
    const size_t layers = (size_t)r->config->model->layer_count;
    const size_t parameters = (size_t)r->config->model->parameter_count;
    r->activation = calloc(layers, sizeof *r->activation);
    r->place = calloc(layers, sizeof *r->place);
    r->view = calloc(layers, sizeof *r->view);
    r->norm = calloc(layers, sizeof *r->norm);
    r->table_host = calloc(parameters + 1, sizeof *r->table_host);
    r->gradient_slot = calloc((size_t)r->backward.slot_count + 1, sizeof *r->gradient_slot);
    if (!r->activation || !r->place || !r->view || !r->norm || !r->table_host ||
        !r->gradient_slot)
        return ls_fail(LS_ERR_MEMORY, "no memory for the tables of %zu layers", layers);
    return LS_OK;
}

/* The first passes of a step exchange the rows of shards that come later, too. */
static ls_status clear_norm(ls_replica *r)
{
    const ls_model *model = r->config->model;
    for (int l = 0; l < model->layer_count; l++) {
        const size_t row = 2 * model->layer[l].out.channels * sizeof(float);
        const size_t bytes = (size_t)r->config->shard_count * row;
        if (!r->norm[l].rows) continue;
        LS_TRY(ls_fill(&r->compute, r->norm[l].rows, 0, bytes));
        LS_TRY(ls_fill(&r->compute, r->norm[l].sum_rows, 0, bytes));
    }
    return LS_OK;
}

/* Padding must be zero (digests, buckets), and slots start from zero. */
static ls_status clear(ls_replica *r, int piece_count)
{
    const size_t arena = r->config->model->arena_floats * sizeof(float);
    const size_t statistics = r->config->model->statistic_floats * sizeof(float);
    LS_TRY(ls_fill(&r->compute, r->weights, 0, arena));
    LS_TRY(ls_fill(&r->compute, r->statistics, 0, statistics));
    LS_TRY(ls_fill(&r->compute, r->moved, 0, statistics));
    for (int s = 0; s < LS_SLOT_MAX; s++)
        if (r->slot[s]) LS_TRY(ls_fill(&r->compute, r->slot[s], 0, arena));
    if (r->average) LS_TRY(ls_fill(&r->compute, r->average, 0, arena));
    if (r->gradients)
        LS_TRY(ls_fill(&r->compute, r->gradients, 0, arena * (size_t)piece_count));
    LS_TRY(clear_norm(r));
    return ls_fill(&r->compute, r->results.gradient_square, 0, r->results_bytes);
}

/* Copies touch pinned memory only, and an arena on the host is not pinned: it goes through
 * `bounce`, a part at a time. Blocks until all has been copied. */
static ls_status store(ls_replica *r, void *to, const void *from_host, size_t bytes,
                       ls_group *group, const char *what)
{
    for (size_t done = 0; done < bytes; done += BOUNCE_BYTES) {
        const size_t part = bytes - done < BOUNCE_BYTES ? bytes - done : BOUNCE_BYTES;
        memcpy(r->bounce, (const char *)from_host + done, part);
        LS_TRY(ls_copy_to_device(&r->compute, (char *)to + done, r->bounce, part));
        LS_TRY(ls_stream_drain(&r->compute, group, what));
    }
    return LS_OK;
}

static ls_status fetch(ls_replica *r, void *to_host, const void *from, size_t bytes,
                       ls_group *group, const char *what)
{
    for (size_t done = 0; done < bytes; done += BOUNCE_BYTES) {
        const size_t part = bytes - done < BOUNCE_BYTES ? bytes - done : BOUNCE_BYTES;
        LS_TRY(ls_copy_to_host(&r->compute, r->bounce, (const char *)from + done, part));
        LS_TRY(ls_stream_drain(&r->compute, group, what));
        memcpy((char *)to_host + done, r->bounce, part);
    }
    return LS_OK;
}

ls_status ls_replica_init(ls_replica *replica, const ls_replica_config *config, int rank,
                          ls_device *device)
{
    ls_replica *r = replica;
    r->rank = rank;
    r->config = config;
    r->device = device;
    r->capacity = pass_capacity(config, rank);
    r->loss_scale = 1;
    LS_TRY(ls_gradient_plan_init(&r->backward, config->model, config->rule));
    LS_TRY(alloc_host(r));
    LS_TRY(ls_stream_init(&r->compute, device));
    const int pieces = plan_piece_count(config, rank, &r->plan);
    const size_t bytes = layout(r, config, rank, NULL, pieces);
    LS_TRY(ls_device_alloc(device, bytes, &r->memory));
    layout(r, config, rank, r->memory, pieces);
    const size_t table = (size_t)config->model->parameter_count * sizeof(ls_arena_tensor);
    LS_TRY(ls_pinned_alloc(device, r->results_bytes, &r->pinned));
    LS_TRY(ls_pinned_alloc(device, BOUNCE_BYTES, &r->bounce));
    void *step;
    const size_t step_bytes = (size_t)config->model->parameter_count * sizeof(ls_tensor_step);
    LS_TRY(ls_pinned_alloc(device, step_bytes, &step));
    r->step_host = step;
    layout_results(&r->results_host, config, r->pinned);
    fill_table(r->table_host, config);
    r->tensors = (ls_arena_table){ .count = config->model->parameter_count,
                                   .host = r->table_host,
                                   .device = r->table_device };
    LS_TRY(clear(r, pieces));
    LS_TRY(store(r, r->table_device, r->table_host, table, NULL, "setting up a replica"));
    if (config->table)
        LS_TRY(store(r, r->table, config->table, table_floats(config) * sizeof(float), NULL,
                     "setting up a replica"));
    return ls_stream_drain(&r->compute, NULL, "setting up a replica");
}

void ls_replica_free(ls_replica *replica)
{
    if (replica->device) {
        (void)ls_stream_settles(&replica->compute, 1); /* when setting it up has failed half-way */
        ls_pinned_release(replica->device, replica->step_host);
        ls_pinned_release(replica->device, replica->bounce);
        ls_pinned_release(replica->device, replica->pinned);
        ls_device_release(replica->device, replica->memory);
    }
    ls_stream_free(&replica->compute);
    free(replica->gradient_slot);
    free(replica->table_host);
    free(replica->norm);
    free(replica->view);
    free(replica->place);
    free(replica->activation);
    ls_gradient_plan_free(&replica->backward);
    *replica = (ls_replica){ 0 };
}

ls_status ls_replica_store(ls_replica *replica, float *to, const float *from_host,
                           ls_group *group)
{
    const size_t bytes = replica->config->model->arena_floats * sizeof(float);
    return store(replica, to, from_host, bytes, group, "storing an arena");
}

ls_status ls_replica_fetch(ls_replica *replica, float *to_host, const float *from,
                           ls_group *group)
{
    const size_t bytes = replica->config->model->arena_floats * sizeof(float);
    return fetch(replica, to_host, from, bytes, group, "fetching an arena");
}

void *ls_replica_samples(const ls_replica *replica)
{
    return replica->bytes ? (void *)replica->bytes : (void *)replica->x;
}

ls_status ls_replica_decode(ls_replica *replica, const ls_pass_input *input)
{
    const ls_replica_config *config = replica->config;
    if (!input->bytes) return LS_OK;
    return ls_decode(&replica->compute, &(ls_decode_args){
        .count = input->samples * ls_shape_floats(config->model->layer[0].out),
        .channels = config->data->channels,
        .x = input->bytes,
        .table = replica->table,
        .y = input->x });
}

ls_status ls_replica_exchange_average(ls_replica *replica)
{
    float *weights = replica->weights;
    if (!replica->average) return LS_OK;
    replica->weights = replica->average;
    replica->average = weights;
    return ls_replica_weights_changed(replica);
}

ls_status ls_replica_store_statistics(ls_replica *replica, const float *from_host,
                                      ls_group *group)
{
    const size_t bytes = replica->config->model->statistic_floats * sizeof(float);
    LS_TRY(store(replica, replica->moved, from_host, bytes, group, "storing statistics"));
    return ls_replica_commit_statistics(replica, true);
}

ls_status ls_replica_fetch_statistics(ls_replica *replica, float *to_host, ls_group *group)
{
    const size_t bytes = replica->config->model->statistic_floats * sizeof(float);
    return fetch(replica, to_host, replica->statistics, bytes, group, "fetching statistics");
}

ls_status ls_replica_commit_statistics(ls_replica *replica, bool applied)
{
    ls_replica *r = replica;
    const size_t floats = r->config->model->statistic_floats;
    if (floats == 0) return LS_OK;
    float *to = applied ? r->statistics : r->moved;
    const float *from = applied ? r->moved : r->statistics;
    LS_TRY(ls_copy_within(&r->compute, to, from, floats * sizeof(float)));
    return ls_digest(&r->compute, &(ls_digest_args){
        .count = floats, .x = r->statistics, .out = &r->results.digest[1] });
}

uint64_t ls_replica_digest(const ls_replica *replica)
{
    const uint64_t *digest = replica->results_host.digest;
    return digest[0] + 0x9e3779b97f4a7c15u * digest[1]; /* any odd factor tells the two apart */
}

ls_status ls_replica_load(ls_replica *replica, const ls_batch *batch)
{
    ls_replica *r = replica;
    const ls_replica_config *config = r->config;
    const size_t n = batch->samples;
    const size_t sample_bytes = ls_dataset_raw_bytes(config->data);
    ls_fold_plan_init(&r->plan, config->shard_count, config->world_size, r->rank,
                      config->accumulate, batch->batch_samples);
    r->batch_samples = batch->batch_samples;
    LS_TRY(ls_copy_to_device(&r->compute, ls_replica_samples(r), batch->x, n * sample_bytes));
    LS_TRY(ls_copy_to_device(&r->compute, r->index, batch->index, n * sizeof(uint32_t)));
    if (batch->label)
        LS_TRY(ls_copy_to_device(&r->compute, r->label, batch->label, n * sizeof(int32_t)));
    if (batch->weight)
        LS_TRY(ls_copy_to_device(&r->compute, r->weight, batch->weight, n * sizeof(float)));
    if (batch->target)
        LS_TRY(ls_copy_to_device(&r->compute, r->target, batch->target,
                                 n * config->data->outputs * sizeof(float)));
    return LS_OK;
}

ls_pass_input ls_replica_pass(const ls_replica *replica, int pass, uint32_t epoch)
{
    const ls_replica *r = replica;
    const ls_dataset_info *data = r->config->data;
    const ls_fold *fold = &r->plan.pass[pass];
    size_t first = 0; /* rows of the passes before */
    for (int p = 0; p < pass; p++) first += r->plan.pass[p].sample[r->plan.pass[p].leaf_count];
    const bool classify = data->task == LS_TASK_CLASSIFY;
    const size_t sample = ls_shape_floats(r->config->model->layer[0].out);
    return (ls_pass_input){
        .kind = LS_PASS_TRAINING,
        .pass = pass,
        .samples = fold->sample[fold->leaf_count],
        .bytes = r->bytes ? r->bytes + first * sample : NULL,
        .x = r->bytes ? r->x : r->x + first * sample,
        .label = classify ? r->label + first : NULL,
        .target = classify ? NULL : r->target + first * data->outputs,
        .weight = r->config->weighted ? r->weight + first : NULL,
        .index = r->index + first,
        .epoch = epoch,
    };
}

ls_status ls_replica_read_results(ls_replica *replica, ls_group *group, const char *what)
{
    LS_TRY(ls_copy_to_host(&replica->compute, replica->pinned, replica->results.gradient_square,
                           replica->results_bytes));
    return ls_stream_drain(&replica->compute, group, what);
}
