/* SPDX-License-Identifier: MIT */
/* replica.c -- a replica's memory: allocated once, filled and read back.
 *
 * replica_layout.c says where each array lies in it; what runs on it is in forward.c and
 * backward.c.
 */
#include "train/replica.h"

#include <stdlib.h>
#include <string.h>

#include "train/replica_layout.h"

#define BOUNCE_BYTES ((size_t)1 << 20)

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
    r->batchnorm = calloc(layers, sizeof *r->batchnorm);
    r->table_host = calloc(parameters + 1, sizeof *r->table_host);
    r->gradient_slot = calloc((size_t)r->backward.slot_count + 1, sizeof *r->gradient_slot);
    if (!r->activation || !r->place || !r->view || !r->batchnorm || !r->table_host ||
        !r->gradient_slot)
        return ls_fail(LS_ERR_MEMORY, "no memory for the tables of %zu layers", layers);
    return LS_OK;
}

/* The first passes of a step exchange the rows of shards that come later, too. */
static ls_status clear_batchnorm(ls_replica *r)
{
    const ls_model *model = r->config->model;
    for (int l = 0; l < model->layer_count; l++) {
        const size_t row = 2 * model->layer[l].out.channels * sizeof(float);
        const size_t bytes = (size_t)r->config->shard_count * row;
        if (!r->batchnorm[l].rows) continue;
        LS_TRY(ls_fill(&r->compute, r->batchnorm[l].rows, 0, bytes));
        LS_TRY(ls_fill(&r->compute, r->batchnorm[l].sum_rows, 0, bytes));
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
    LS_TRY(clear_batchnorm(r));
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
    r->capacity = ls_replica_capacity(config, rank);
    r->batch_samples = config->global_batch;
    r->loss_scale = 1;
    LS_TRY(ls_gradient_plan_init(&r->backward, config->model, config->rule));
    LS_TRY(alloc_host(r));
    LS_TRY(ls_stream_init(&r->compute, device));
    const int pieces = plan_piece_count(config, rank, &r->plan);
    const size_t bytes = ls_replica_layout(r, NULL, pieces);
    LS_TRY(ls_device_alloc(device, bytes, &r->memory));
    ls_replica_layout(r, r->memory, pieces);
    const size_t table = (size_t)config->model->parameter_count * sizeof(ls_arena_tensor);
    LS_TRY(ls_pinned_alloc(device, r->results_bytes, &r->pinned));
    LS_TRY(ls_pinned_alloc(device, BOUNCE_BYTES, &r->bounce));
    void *step;
    const size_t step_bytes = (size_t)config->model->parameter_count * sizeof(ls_tensor_step);
    LS_TRY(ls_pinned_alloc(device, step_bytes, &step));
    r->step_host = step;
    ls_results_layout(&r->results_host, config, r->pinned);
    fill_table(r->table_host, config);
    r->tensors = (ls_arena_table){ .count = config->model->parameter_count,
                                   .host = r->table_host,
                                   .device = r->table_device };
    LS_TRY(clear(r, pieces));
    LS_TRY(store(r, r->table_device, r->table_host, table, NULL, "setting up a replica"));
    if (config->table)
        LS_TRY(store(r, r->table, config->table, ls_replica_table_bytes(config), NULL,
                     "setting up a replica"));
    return ls_stream_drain(&r->compute, NULL, "setting up a replica");
}

void ls_replica_free(ls_replica *replica)
{
    if (replica->device) {
        /* When setting it up has failed half-way. */
        (void)ls_stream_settles(&replica->compute, LS_SETTLE_SECONDS);
        ls_pinned_release(replica->device, replica->step_host);
        ls_pinned_release(replica->device, replica->bounce);
        ls_pinned_release(replica->device, replica->pinned);
        ls_device_release(replica->device, replica->memory);
    }
    ls_stream_free(&replica->compute);
    free(replica->gradient_slot);
    free(replica->table_host);
    free(replica->batchnorm);
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

float *ls_replica_sums(const ls_replica *replica)
{
    return replica->gradients
           + (size_t)replica->plan.final_slot[0] * replica->config->model->arena_floats;
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
    if (r->batch_samples != batch->batch_samples) { /* a plan takes some microseconds */
        ls_fold_plan_init(&r->plan, config->shard_count, config->world_size, r->rank,
                          config->accumulate, batch->batch_samples);
        r->batch_samples = batch->batch_samples;
    }
    r->epoch = batch->epoch;
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

ls_pass_input ls_replica_pass(const ls_replica *replica, int pass)
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
        .epoch = r->epoch,
    };
}

ls_status ls_replica_read_word(ls_replica *replica, const void *from, void *out, ls_group *group,
                               const char *what)
{
    LS_TRY(ls_copy_to_host(&replica->compute, replica->pinned, from, sizeof(uint32_t)));
    LS_TRY(ls_stream_drain(&replica->compute, group, what));
    memcpy(out, replica->pinned, sizeof(uint32_t));
    return LS_OK;
}

ls_status ls_replica_read_results(ls_replica *replica, ls_group *group, const char *what)
{
    LS_TRY(ls_copy_to_host(&replica->compute, replica->pinned, replica->results.gradient_square,
                           replica->results_bytes));
    return ls_stream_drain(&replica->compute, group, what);
}
