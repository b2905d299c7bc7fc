/* SPDX-License-Identifier: MIT */
/* batch_slot.c -- which samples a rank's batch holds, in which order, and how they get there.
 *
 * With A passes, the rank's shards s with s mod A = 0 ascending, then those with s mod A = 1, and
 * so on; each shard's samples in the order of the epoch. This is the order in which fold.h plans
 * the rank's rows.
 *
 * All of a batch's samples are announced before the first is read: those that lie on a disk are
 * brought in side by side, while one after the other would cost the disk's delay each.
 */
#include "io/batch_slot.h"

#include <assert.h>
#include <string.h>

#include "numerics.h"

enum { ALIGNMENT = 64 }; /* of a slot's arrays */

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t ls_slot_samples(const ls_pipeline_config *config, int rank, size_t batch_samples)
{
    const int begin = ls_rank_shard_begin(rank, config->shard_count, config->world_size);
    const int end = ls_rank_shard_begin(rank + 1, config->shard_count, config->world_size);
    return ls_shard_begin(end, batch_samples, config->shard_count) -
           ls_shard_begin(begin, batch_samples, config->shard_count);
}

/* The most samples that a batch of `rank` can have. A short batch can give a rank MORE than a full
 * one (V = 8: of 11 samples shard 3 gets one, of 10 two), so both that occur are asked. */
static size_t rank_capacity(const ls_pipeline_config *config, int rank)
{
    const size_t count = ls_dataset_describe(config->dataset)->count[LS_PART_TRAIN];
    size_t most = 0;
    if (count >= config->global_batch) most = ls_slot_samples(config, rank, config->global_batch);
    const size_t last = config->drop_remainder ? 0 : count % config->global_batch;
    const size_t in_last = ls_slot_samples(config, rank, last);
    return in_last > most ? in_last : most;
}

static bool has_weights(const ls_pipeline_config *config)
{
    return config->class_weight || ls_dataset_describe(config->dataset)->weighted;
}

ls_slot_layout ls_slot_layout_of(const ls_pipeline_config *config, int rank)
{
    const ls_dataset_info *info = ls_dataset_describe(config->dataset);
    const size_t capacity = rank_capacity(config, rank);
    const size_t answer = info->task == LS_TASK_CLASSIFY ? sizeof(int32_t)
                                                         : info->outputs * sizeof(float);
    ls_slot_layout at = { .x = 0 };
    at.answer = round_up(capacity * ls_dataset_raw_bytes(info));
    at.weight = at.answer + round_up(capacity * answer);
    at.index = at.weight + round_up(has_weights(config) ? capacity * sizeof(float) : 0);
    at.bytes = at.index + round_up(capacity * sizeof(uint32_t));
    if (at.bytes == 0) at.bytes = ALIGNMENT; /* a rank without samples has slots too */
    return at;
}

ls_slot ls_slot_at(const ls_pipeline_config *config, const ls_slot_layout *layout, void *base)
{
    unsigned char *byte = base;
    void *answer = byte + layout->answer;
    const bool classify = ls_dataset_describe(config->dataset)->task == LS_TASK_CLASSIFY;
    return (ls_slot){
        .x = (void *)(byte + layout->x),
        .label = classify ? answer : NULL,
        .target = classify ? NULL : answer,
        .weight = has_weights(config) ? (void *)(byte + layout->weight) : NULL,
        .index = (void *)(byte + layout->index),
    };
}

/* Which samples the rank's batch holds, into slot->index; returns how many. */
static size_t choose_samples(const ls_pipeline_config *config, int rank, const uint32_t *order,
                             size_t batch_samples, const ls_slot *slot)
{
    const int shards = config->shard_count;
    const int first = ls_rank_shard_begin(rank, shards, config->world_size);
    const int end = ls_rank_shard_begin(rank + 1, shards, config->world_size);
    size_t rows = 0;
    for (int pass = 0; pass < config->accumulate; pass++) {
        for (int s = first; s < end; s++) {
            if (s % config->accumulate != pass) continue;
            const size_t stop = ls_shard_begin(s + 1, batch_samples, shards);
            for (size_t i = ls_shard_begin(s, batch_samples, shards); i < stop; i++) {
                slot->index[rows++] = order[i];
            }
        }
    }
    return rows;
}

/* The numbers of sample `index` as `epoch` sees them, into x; returns whether they were read from
 * the data set. What is cached is what augmenting starts from. */
static bool fill_numbers(const ls_pipeline_config *config, uint32_t epoch, ls_sample_cache *cache,
                         void *scratch, uint32_t index, char *x)
{
    const ls_dataset *dataset = config->dataset;
    const bool is_plain = ls_augment_is_none(&config->augment);
    const void *kept = ls_sample_cache_find(cache, index);
    if (is_plain && kept) {
        memcpy(x, kept, ls_dataset_raw_bytes(ls_dataset_describe(dataset)));
    } else if (is_plain) {
        ls_dataset_read_raw(dataset, LS_PART_TRAIN, index, x);
        ls_sample_cache_keep(cache, index, x);
    } else {
        if (!kept) ls_dataset_read_stored(dataset, LS_PART_TRAIN, index, scratch);
        if (!kept) ls_sample_cache_keep(cache, index, scratch);
        ls_augment_apply(&config->augment, dataset, index, config->seed, epoch,
                         kept ? kept : scratch, x);
    }
    return !kept;
}

/* The answer and the weight of the sample that slot->index names in row `row`. */
static void fill_answer(const ls_pipeline_config *config, const ls_slot *slot, size_t row)
{
    const ls_dataset *dataset = config->dataset;
    const uint32_t index = slot->index[row];
    if (slot->label) {
        slot->label[row] = ls_dataset_label(dataset, LS_PART_TRAIN, index);
    } else {
        const size_t outputs = ls_dataset_describe(dataset)->outputs;
        ls_dataset_target(dataset, LS_PART_TRAIN, index, slot->target + row * outputs);
    }
    if (slot->weight) {
        const float of_class = config->class_weight ? config->class_weight[slot->label[row]] : 1.0f;
        slot->weight[row] = ls_dataset_weight(dataset, index) * of_class;
    }
}

size_t ls_slot_fill(const ls_pipeline_config *config, int rank, uint32_t epoch,
                    const uint32_t *order, size_t batch_samples, ls_sample_cache *cache,
                    void *scratch, const ls_slot *slot)
{
    const size_t rows = choose_samples(config, rank, order, batch_samples, slot);
    const size_t raw_bytes = ls_dataset_raw_bytes(ls_dataset_describe(config->dataset));
    size_t read = 0;
    assert(rows == ls_slot_samples(config, rank, batch_samples));
    for (size_t row = 0; row < rows; row++) {
        if (ls_sample_cache_find(cache, slot->index[row])) continue;
        ls_dataset_want(config->dataset, LS_PART_TRAIN, slot->index[row]);
    }
    for (size_t row = 0; row < rows; row++) {
        read += fill_numbers(config, epoch, cache, scratch, slot->index[row],
                             slot->x + row * raw_bytes);
        fill_answer(config, slot, row);
    }
    return read;
}
