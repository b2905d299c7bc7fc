/* SPDX-License-Identifier: MIT */
/* feed.c -- see feed.h. */
#include "support/test.h"

#include "support/feed.h"

#include <stdio.h>

#include "io/sampler.h"
#include "support/data_folder.h"

ls_dataset *feed_digits, *feed_small, *feed_wide, *feed_pictures;

/* `count` records of `features` numbers and two targets. */
static ls_dataset *open_table(const char *name, int count, int features)
{
    static char text[8192];
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < features; k++) {
            at += (size_t)snprintf(text + at, sizeof text - at, "%d,", 50 * i + k);
        }
        at += (size_t)snprintf(text + at, sizeof text - at, "%d,%d\n", 100 + i, -i);
    }
    assert_true(at < sizeof text - 1);
    data_folder_text(folder, name, text);
    return must_open("csv:%s/%s,task=regress,outputs=2,test=none", data_folder_path(folder), name);
}

int open_feed_data(void **state)
{
    (void)state;
    folder = data_folder_create();
    feed_small = open_table("small.csv", 16, 1);
    feed_wide = open_table("wide.csv", 21, 30);
    feed_digits = must_open("digits");
    data_folder_idx(folder, "train", 3, 53, 5, 3);
    feed_pictures = must_open("idx:%s", data_folder_path(folder));
    return 0;
}

int close_feed_data(void **state)
{
    (void)state;
    ls_dataset_close(feed_digits);
    ls_dataset_close(feed_small);
    ls_dataset_close(feed_wide);
    ls_dataset_close(feed_pictures);
    data_folder_destroy(folder);
    return 0;
}

ls_pipeline_config feed_config(const ls_dataset *dataset, size_t global_batch, int world_size)
{
    return (ls_pipeline_config){
        .dataset = dataset,
        .seed = 5,
        .shuffle = true,
        .global_batch = global_batch,
        .world_size = world_size,
        .shard_count = 8,
        .accumulate = 1,
        .reader_count = 2,
        .depth = 2,
        .step_count = 30,
    };
}

void feed_create(feed *f, ls_pipeline_config config)
{
    *f = (feed){ .config = config };
    for (int r = 0; r < config.world_size; r++) {
        const size_t bytes = ls_pipeline_staging_bytes(&config, r);
        f->staging[r] = aligned_alloc(64, bytes);
        assert_non_null(f->staging[r]);
        memset(f->staging[r], 0xa5, bytes);
    }
    assert_int_equal(ls_pipeline_create(&config, f->staging, &f->pipeline), LS_OK);
}

void feed_destroy(feed *f)
{
    ls_pipeline_destroy(f->pipeline);
    for (int r = 0; r < f->config.world_size; r++) free(f->staging[r]);
}

bool feed_rows_match(const ls_pipeline_config *config, const ls_batch *batch)
{
    const ls_dataset *dataset = config->dataset;
    const ls_dataset_info *info = ls_dataset_describe(dataset);
    const size_t raw = ls_dataset_raw_bytes(info);
    for (size_t i = 0; i < batch->samples; i++) {
        float x[64], scratch[64], y[2];
        ls_augment_read(&config->augment, dataset, LS_PART_TRAIN, batch->index[i], config->seed,
                        batch->epoch, scratch, x);
        if (memcmp(x, (const char *)batch->x + i * raw, raw) != 0) return false;
        if (info->task == LS_TASK_CLASSIFY) {
            if (batch->target) return false;
            if (batch->label[i] != ls_dataset_label(dataset, LS_PART_TRAIN, batch->index[i])) {
                return false;
            }
        } else {
            if (batch->label) return false;
            ls_dataset_target(dataset, LS_PART_TRAIN, batch->index[i], y);
            if (memcmp(y, batch->target + i * 2, sizeof y) != 0) return false;
        }
    }
    return true;
}

bool feed_is_planned(const ls_pipeline_config *config, int rank, const ls_batch *batch)
{
    static uint32_t order[2048];
    const size_t count = ls_dataset_describe(config->dataset)->count[LS_PART_TRAIN];
    ls_sampler_order(config->seed, batch->epoch, config->shuffle, count, order);
    ls_fold_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return false;
    ls_fold_plan_init(plan, config->shard_count, config->world_size, rank, config->accumulate,
                      batch->batch_samples);
    size_t row = 0;
    bool good = batch->samples == plan->sample_count;
    for (int k = 0; k < plan->pass_count; k++) {
        const ls_fold *fold = &plan->pass[k];
        for (size_t i = 0; good && i < fold->sample[fold->leaf_count]; i++, row++) {
            const size_t sample = ls_fold_sample_at(plan, k, i, config->shard_count,
                                                    batch->batch_samples);
            good = row < batch->samples &&
                   batch->index[row] == order[batch->step * config->global_batch + sample];
        }
    }
    free(plan);
    return good && row == batch->samples && feed_rows_match(config, batch);
}

void feed_take_all(feed *f)
{
    const ls_dataset_info *info = ls_dataset_describe(f->config.dataset);
    const size_t steps = ls_sampler_step_count(info->count[LS_PART_TRAIN], f->config.global_batch,
                                               f->config.drop_remainder);
    for (uint64_t t = 0; t < f->config.step_count; t++) {
        size_t samples = 0, batch_samples = 0;
        for (int r = 0; r < f->config.world_size; r++) {
            ls_batch batch;
            assert_int_equal(ls_pipeline_next(f->pipeline, r, &batch), LS_OK);
            const uint64_t turn = f->config.first_step + t;
            assert_int_equal(batch.epoch, f->config.first_epoch + turn / steps);
            assert_int_equal(batch.step, turn % steps);
            assert_true(feed_is_planned(&f->config, r, &batch));
            ls_pipeline_release(f->pipeline, r);
            samples += batch.samples;
            batch_samples = batch.batch_samples;
        }
        assert_int_equal(samples, batch_samples);
    }
}
