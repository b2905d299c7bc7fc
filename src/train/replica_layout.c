/* SPDX-License-Identifier: MIT */
/* replica_layout.c -- where each array of a replica lies in its one block of memory.
 *
 * ls_replica_layout walks through every array in order. With a base of NULL it only counts; with
 * the allocated memory it hands out places. So the two cannot disagree.
 */
#include "train/replica_layout.h"

#include "sizes.h"

enum { CARVE_UNIT = 128 }; /* bytes: an arena's alignment, and a GPU's cache line */

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
        most = ls_max_size(most, shards * shard_rows);
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
    const size_t affordable = ls_max_size(EVALUATION_BYTES / (sample * sizeof(float)), 1);
    return affordable < config->capacity_min ? affordable : config->capacity_min;
}

size_t ls_replica_capacity(const ls_replica_config *config, int rank)
{
    const size_t rows = pass_rows_max(config->shard_count, config->world_size, rank,
                                      config->accumulate, config->global_batch);
    return ls_max_size(rows, evaluation_rows(config));
}

static size_t batch_capacity(const ls_replica_config *config, int rank)
{
    const size_t rows = pass_rows_max(config->shard_count, config->world_size, rank, 1,
                                      config->global_batch);
    return ls_max_size(rows, ls_replica_capacity(config, rank));
}

size_t ls_results_layout(ls_results *results, const ls_replica_config *config, char *base)
{
    carver c = { .base = base };
    const size_t count = (size_t)config->model->parameter_count;
    results->gradient_square = carve(&c, count * sizeof(double));
    results->update_square = carve(&c, count * sizeof(double));
    results->weight_square = carve(&c, count * sizeof(double));
    results->weight_absolute = carve(&c, count * sizeof(double));
    results->nonfinite = carve(&c, (count + 1) * sizeof(uint64_t));
    results->digest = carve(&c, 2 * sizeof(uint64_t));
    results->sums_digest = carve(&c, sizeof(uint64_t));
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

static void layout_batchnorm(ls_replica *r, const ls_replica_config *config, carver *c)
{
    const size_t shards = (size_t)config->shard_count;
    for (int l = 0; l < config->model->layer_count; l++) {
        const ls_layer *layer = &config->model->layer[l];
        if (layer->op != LS_OP_BATCHNORM) continue;
        const size_t row = 2 * layer->out.channels * sizeof(float);
        ls_batchnorm_rows *rows = &r->batchnorm[l];
        rows->rows = carve(c, shards * row);
        rows->merged = carve(c, row);
        rows->sum_rows = carve(c, shards * row);
        rows->merged_sums = carve(c, row);
    }
}

static size_t largest_activation(const ls_model *model)
{
    size_t most = 0;
    for (int l = 0; l < model->layer_count; l++)
        most = ls_max_size(most, ls_shape_floats(model->layer[l].out));
    return most;
}

static size_t largest_kernel(const ls_model *model)
{
    size_t most = 0;
    for (int p = 0; p < model->parameter_count; p++)
        if (model->parameter[p].is_kernel) most = ls_max_size(most, model->parameter[p].count);
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
    layout_batchnorm(r, config, c);
    r->parts.activation_gradients = end_part(c);
}

static void layout_samples(ls_replica *r, const ls_replica_config *config, carver *c)
{
    const size_t rows = batch_capacity(config, r->rank);
    const size_t pass = ls_replica_capacity(config, r->rank);
    const ls_model *model = config->model;
    const size_t outputs = ls_model_outputs(model);
    const size_t sample = ls_shape_floats(model->layer[0].out);
    if (config->table) {
        r->bytes = carve(c, rows * sample);
        r->table = carve(c, ls_replica_table_bytes(config));
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

size_t ls_replica_layout(ls_replica *replica, char *base, int piece_count)
{
    ls_replica *r = replica;
    const ls_replica_config *config = r->config;
    carver c = { .base = base };
    const ls_model *model = config->model;
    const size_t arena = model->arena_floats * sizeof(float);
    const size_t pass = ls_replica_capacity(config, r->rank);
    r->weights = carve(&c, arena);
    r->statistics = carve(&c, model->statistic_floats * sizeof(float));
    r->moved = carve(&c, model->statistic_floats * sizeof(float));
    if (is_narrow(config)) r->narrow_weights = carve(&c, model->arena_floats * sizeof(uint16_t));
    r->parts.weights = end_part(&c);
    if (config->training) layout_gradients(r, config, pass, piece_count, &c);
    layout_scratch(r, config, pass, &c);
    layout_activations(r, config, pass, &c);
    r->parts.activations = end_part(&c);
    layout_samples(r, config, &c);
    r->parts.samples = end_part(&c);
    r->table_device = carve(&c, (size_t)model->parameter_count * sizeof(ls_arena_tensor));
    r->step_device = carve(&c, (size_t)model->parameter_count * sizeof(ls_tensor_step));
    r->results_bytes = ls_results_layout(&r->results, config, NULL);
    char *results = carve(&c, r->results_bytes);
    ls_results_layout(&r->results, config, results);
    r->parts.other = end_part(&c);
    return c.used;
}

size_t ls_replica_table_bytes(const ls_replica_config *config)
{
    return config->data->channels * 256 * sizeof(float);
}
