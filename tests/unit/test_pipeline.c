/* SPDX-License-Identifier: MIT */
/* test_pipeline.c -- every rank is given the samples that are its own, in the order that fold.h
 * plans, with the same bytes for any number of readers, from any starting point, and every wait
 * ends. */
#include "io/pipeline.h"

#include <stdio.h>

#include "io/sampler.h"
#include "kernels/fold.h"
#include "support/data_folder.h"
#include "support/ranks.h"
#include "support/test.h"

static ls_dataset *digits;   /* classification, 1438 samples */
static ls_dataset *small;    /* regression, 16 samples, 2 targets */
static ls_dataset *wide;     /* regression, 21 samples of 30 numbers, 2 targets */
static ls_dataset *pictures; /* classification, 53 images of 5x3 bytes */
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

static int open_data(void **state)
{
    (void)state;
    folder = data_folder_create();
    small = open_table("small.csv", 16, 1);
    wide = open_table("wide.csv", 21, 30);
    digits = must_open("digits");
    data_folder_idx(folder, "train", 3, 53, 5, 3);
    pictures = must_open("idx:%s", data_folder_path(folder));
    return 0;
}

static int close_data(void **state)
{
    (void)state;
    ls_dataset_close(digits);
    ls_dataset_close(small);
    ls_dataset_close(wide);
    ls_dataset_close(pictures);
    data_folder_destroy(folder);
    return 0;
}

/* A pipeline and its staging. */
typedef struct {
    ls_pipeline_config config;
    void *staging[LS_SHARD_MAX];
    ls_pipeline *pipeline;
} feed;

static ls_pipeline_config config_of(const ls_dataset *dataset, size_t global_batch, int world_size)
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

static void feed_create(feed *f, ls_pipeline_config config)
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

static void feed_destroy(feed *f)
{
    ls_pipeline_destroy(f->pipeline);
    for (int r = 0; r < f->config.world_size; r++) free(f->staging[r]);
}

/* Do the batch's arrays hold the samples that its index names? */
static bool rows_match(const ls_pipeline_config *config, const ls_batch *batch)
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

/* Is the batch what fold.h plans for this rank, of the order of its epoch? */
static bool batch_is_planned(const ls_pipeline_config *config, int rank, const ls_batch *batch)
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
    return good && row == batch->samples && rows_match(config, batch);
}

static void take_all(feed *f)
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
            assert_true(batch_is_planned(&f->config, r, &batch));
            ls_pipeline_release(f->pipeline, r);
            samples += batch.samples;
            batch_samples = batch.batch_samples;
        }
        assert_int_equal(samples, batch_samples);
    }
}

static void test_ranks_get_the_rows_that_fold_plans(void **state)
{
    (void)state;
    static const int shard_counts[] = { 1, 3, 8, 24 };
    for (size_t v = 0; v < 4; v++) {
        for (int world = 1; world <= shard_counts[v] && world <= 9; world++) {
            for (int accumulate = 1; accumulate <= shard_counts[v]; accumulate *= 2) {
                feed f;
                ls_pipeline_config config = config_of(digits, 300, world);
                config.shard_count = shard_counts[v];
                config.accumulate = accumulate;
                config.step_count = 6; /* 5 steps, the last of 238, and one of the next epoch */
                feed_create(&f, config);
                take_all(&f);
                feed_destroy(&f);
            }
        }
    }
}

static void test_any_number_of_readers_and_slots_gives_the_same_batches(void **state)
{
    (void)state;
    for (int readers = 1; readers <= 5; readers++) {
        for (int depth = 2; depth <= 7; depth += 5) {
            feed f;
            ls_pipeline_config config = config_of(digits, 128, 3);
            config.reader_count = readers;
            config.depth = depth;
            feed_create(&f, config);
            take_all(&f);
            feed_destroy(&f);
        }
    }
}

static void test_epochs_shorter_than_the_queue_are_kept_apart(void **state)
{
    (void)state;
    feed f;
    ls_pipeline_config config = config_of(small, 32, 4); /* one step per epoch */
    config.reader_count = 3;
    config.depth = 6;
    feed_create(&f, config);
    take_all(&f);
    feed_destroy(&f);
}

/* Each sample as its epoch sees it: a function of (seed, epoch, sample). So any other number of
 * replicas, readers or passes, and a resumption within an epoch, see the same. */
static void test_samples_are_augmented_as_their_epoch_says(void **state)
{
    (void)state;
    for (int world = 1; world <= 5; world += 2) {
        feed f;
        ls_pipeline_config config = config_of(digits, 200, world);
        config.augment = (ls_augment){ .crop = 2, .flip = true, .contrast = 0.5, .cutout = 3 };
        config.accumulate = world;
        config.reader_count = world;
        config.first_epoch = 2;
        config.first_step = 6;
        config.step_count = 12;
        feed_create(&f, config);
        take_all(&f);
        feed_destroy(&f);
    }
}

static void test_images_of_bytes_are_staged_as_bytes(void **state)
{
    (void)state;
    feed f;
    ls_pipeline_config config = config_of(pictures, 16, 3);
    const size_t staged = ls_pipeline_staging_bytes(&config, 0); /* 4 samples, 2 slots */
    assert_int_equal(staged, 2 * (64 + 64 + 64));
    config.accumulate = 2;
    feed_create(&f, config);
    take_all(&f);
    feed_destroy(&f);
}

/* V = 8: of 21 samples in batches of 11 and 10, shard 3 gets one of the first and two of the
 * second, so slots sized by the full batch would be too small. */
static void test_a_short_batch_may_be_larger_for_one_rank(void **state)
{
    (void)state;
    feed f;
    ls_pipeline_config config = config_of(wide, 11, 8);
    config.step_count = 2;
    config.shuffle = false;
    feed_create(&f, config);
    for (int r = 0; r < 8; r++) {
        ls_batch full, rest;
        assert_int_equal(ls_pipeline_next(f.pipeline, r, &full), LS_OK);
        assert_int_equal(ls_pipeline_next(f.pipeline, r, &rest), LS_OK);
        assert_true(batch_is_planned(&config, r, &full));
        assert_true(batch_is_planned(&config, r, &rest));
        if (r == 3) {
            assert_int_equal(full.samples, 1);
            assert_int_equal(rest.samples, 2);
        }
    }
    feed_destroy(&f);
}

static void test_without_shuffle_and_remainder(void **state)
{
    (void)state;
    feed f;
    ls_pipeline_config config = config_of(digits, 100, 2);
    config.shuffle = false;
    config.drop_remainder = true;
    feed_create(&f, config); /* 14 steps per epoch */
    take_all(&f);
    feed_destroy(&f);

    config.global_batch = 1439;
    ls_pipeline *none = NULL;
    void *staging[2] = { NULL, NULL };
    assert_int_equal(ls_pipeline_create(&config, staging, &none), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "1438 training samples, global batch 1439"));
}

/* The samples of `turns` global batches from (epoch, step) on, each batch's ascending. */
static size_t collect(uint32_t epoch, size_t step, uint64_t turns, int world, int accumulate,
                      uint32_t *out)
{
    feed f;
    size_t count = 0;
    ls_pipeline_config config = config_of(digits, 200, world);
    config.first_epoch = epoch;
    config.first_step = step;
    config.step_count = turns;
    config.accumulate = accumulate;
    feed_create(&f, config);
    for (uint64_t t = 0; t < turns; t++) {
        /* What a resumption at another N must keep is the set of a step's samples. */
        bool seen[2048] = { false };
        for (int r = 0; r < world; r++) {
            ls_batch batch;
            assert_int_equal(ls_pipeline_next(f.pipeline, r, &batch), LS_OK);
            for (size_t i = 0; i < batch.samples; i++) seen[batch.index[i]] = true;
            ls_pipeline_release(f.pipeline, r);
        }
        for (uint32_t i = 0; i < 2048; i++) {
            if (seen[i]) out[count++] = i;
        }
    }
    feed_destroy(&f);
    return count;
}

static void test_a_resumed_run_sees_what_the_undisturbed_one_saw(void **state)
{
    (void)state;
    enum { STEPS = 8, TURNS = 3 * STEPS, SAMPLES = 3 * 1438 }; /* 3 epochs of 8 steps */
    static const int stops[] = { 3, 7, 8, 15 };
    static const int worlds[] = { 2, 3, 1, 5 };
    static uint32_t whole[SAMPLES], parts[SAMPLES];
    assert_int_equal(collect(0, 0, TURNS, 1, 2, whole), SAMPLES);
    size_t at = 0;
    int from = 0;
    for (size_t i = 0; i < 4; i++) {
        at += collect((uint32_t)(from / STEPS), (size_t)(from % STEPS), (uint64_t)(stops[i] - from),
                      worlds[i], 2, parts + at);
        from = stops[i];
    }
    /* As "the end of epoch 1" rather than "the start of epoch 2", where that is the place. */
    at += collect(1, 7, TURNS - 15, 2, 1, parts + at);
    assert_int_equal(at, SAMPLES);
    assert_memory_equal(whole, parts, sizeof whole);
    uint32_t end_of_epoch[200], start_of_next[200];
    assert_int_equal(collect(0, STEPS, 1, 2, 1, end_of_epoch), 200);
    assert_int_equal(collect(1, 0, 1, 2, 1, start_of_next), 200);
    assert_memory_equal(end_of_epoch, start_of_next, sizeof start_of_next);
}

/* -- what is counted --------------------------------------------------------------------------- */

/* Wait until the readers have filled `batches` in all. */
static void wait_filled(ls_group *group, unsigned long batches)
{
    ls_status status = LS_OK;
    ls_wait wait = ls_wait_begin(group);
    while (status == LS_OK && atomic_load(ls_group_progress(group)) < batches) {
        status = ls_wait_poll(&wait);
    }
    assert_int_equal(status, LS_OK);
}

static void test_a_batch_tells_how_many_were_ready_when_it_was_asked_for(void **state)
{
    (void)state;
    feed f;
    ls_batch batch;
    ls_group *group = NULL;
    assert_int_equal(ls_group_create(1, 60, &group), LS_OK);
    ls_pipeline_config config = config_of(digits, 64, 1);
    config.group = group;
    config.depth = 3;
    config.step_count = 4;
    feed_create(&f, config);
    wait_filled(group, 3);
    for (int ready = 3; ready >= 1; ready--) { /* the slots are held */
        assert_int_equal(ls_pipeline_next(f.pipeline, 0, &batch), LS_OK);
        assert_int_equal(batch.ready, ready);
    }
    ls_pipeline_release(f.pipeline, 0);
    wait_filled(group, 4);
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &batch), LS_OK);
    assert_int_equal(batch.ready, 1); /* the last of all */
    assert_int_equal(ls_pipeline_counts(f.pipeline).waited_ns, 0);
    feed_destroy(&f);
    ls_group_destroy(group);
}

/* 1438 digits of 64 floats, twice; and 53 pictures of 15 bytes. */
static void test_the_bytes_of_all_samples_are_counted_and_the_readers_time(void **state)
{
    (void)state;
    const ls_dataset *data[] = { digits, pictures };
    const size_t bytes[] = { 1438 * 64 * sizeof(float), 53 * 15 };
    for (size_t d = 0; d < 2; d++) {
        for (int world = 1; world <= 3; world += 2) {
            feed f;
            ls_pipeline_config config = config_of(data[d], 25, world);
            const size_t samples = ls_dataset_describe(data[d])->count[LS_PART_TRAIN];
            config.reader_count = 3;
            config.step_count = 2 * ls_sampler_step_count(samples, 25, false);
            feed_create(&f, config);
            take_all(&f);
            const ls_input_counts counts = ls_pipeline_counts(f.pipeline);
            assert_int_equal(counts.bytes, 2 * bytes[d]);
            assert_true(counts.busy_ns > 0);
            feed_destroy(&f);
        }
    }
}

/* Three epochs with room for all, for some and for no samples; with and without augmentation. What
 * was cached is not read again. */
static void test_cached_samples_are_the_same_and_are_read_once(void **state)
{
    (void)state;
    const size_t sample = 64 * sizeof(float), rooms[] = { 1438, 500, 0 };
    for (int augmented = 0; augmented < 2; augmented++) {
        for (size_t i = 0; i < 3; i++) {
            feed f;
            ls_pipeline_config config = config_of(digits, 100, 3);
            if (augmented) config.augment = (ls_augment){ .crop = 1, .flip = true, .cutout = 2 };
            config.cache_bytes = rooms[i] * sample + 10;
            config.reader_count = 3;
            config.step_count = 3 * 15;
            feed_create(&f, config);
            take_all(&f);
            assert_int_equal(ls_pipeline_counts(f.pipeline).bytes,
                             (1438 + 2 * (1438 - rooms[i])) * sample);
            feed_destroy(&f);
        }
    }
}

static void test_bytes_are_cached_as_bytes(void **state)
{
    (void)state;
    feed f;
    ls_pipeline_config config = config_of(pictures, 16, 2);
    config.cache_bytes = 20 * 15;
    config.step_count = 8; /* two epochs */
    config.augment = (ls_augment){ .vflip = true, .brightness = 0.3 };
    feed_create(&f, config);
    take_all(&f);
    assert_int_equal(ls_pipeline_counts(f.pipeline).bytes, (53 + 33) * 15);
    feed_destroy(&f);
}

/* -- ranks at their own pace ------------------------------------------------------------------ */

static ls_status take_on_rank(int rank, void *arg)
{
    feed *f = arg;
    for (uint64_t t = 0; t < f->config.step_count; t++) {
        ls_batch batch;
        LS_TRY(ls_pipeline_next(f->pipeline, rank, &batch));
        if (!rows_match(&f->config, &batch)) {
            return ls_fail(LS_ERR_VERIFY, "rank %d, turn %llu: wrong rows", rank,
                           (unsigned long long)t);
        }
        ls_pipeline_release(f->pipeline, rank);
    }
    return LS_OK;
}

static void test_ranks_on_threads_of_their_own_read_what_readers_wrote(void **state)
{
    (void)state;
    feed f;
    ls_group *group = NULL;
    assert_int_equal(ls_group_create(4, 60, &group), LS_OK);
    ls_pipeline_config config = config_of(digits, 64, 4);
    config.group = group;
    config.reader_count = 3;
    config.step_count = 60;
    feed_create(&f, config);
    assert_int_equal(run_ranks_in(group, take_on_rank, &f, NULL), LS_OK);
    assert_int_equal(atomic_load(ls_group_progress(group)) >= 60 * 4, 1);
    feed_destroy(&f);
    ls_group_destroy(group);
}

/* -- waits ------------------------------------------------------------------------------------ */

static void test_held_batches_are_not_overwritten_and_the_wait_for_more_ends(void **state)
{
    (void)state;
    feed f;
    ls_group *group = NULL;
    assert_int_equal(ls_group_create(1, 0.5, &group), LS_OK);
    ls_pipeline_config config = config_of(digits, 50, 1);
    config.group = group;
    feed_create(&f, config);
    ls_batch first, second, third;
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &first), LS_OK);
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &second), LS_OK);
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &third), LS_ERR_TIMEOUT);
    assert_non_null(strstr(ls_last_error(), "epoch 1, step 3"));
    assert_true(ls_pipeline_counts(f.pipeline).waited_ns >= 400000000u); /* of the 0.5 s */
    assert_true(batch_is_planned(&config, 0, &first));
    assert_true(batch_is_planned(&config, 0, &second));
    ls_pipeline_release(f.pipeline, 0);
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &third), LS_OK);
    assert_true(batch_is_planned(&config, 0, &third));
    feed_destroy(&f);
    ls_group_destroy(group);
}

static void test_an_abort_ends_the_wait(void **state)
{
    (void)state;
    feed f;
    ls_group *group = NULL;
    assert_int_equal(ls_group_create(2, 60, &group), LS_OK);
    ls_pipeline_config config = config_of(digits, 50, 2);
    config.group = group;
    feed_create(&f, config);
    ls_batch batch;
    assert_int_equal(ls_pipeline_next(f.pipeline, 1, &batch), LS_OK);
    assert_int_equal(ls_pipeline_next(f.pipeline, 1, &batch), LS_OK);
    ls_group_abort(group, 0, ls_fail(LS_ERR_IO, "rank 0 is gone"));
    assert_int_equal(ls_pipeline_next(f.pipeline, 1, &batch), LS_ERR_ABORTED);
    feed_destroy(&f);
    ls_group_destroy(group);
}

static void test_it_can_be_destroyed_in_any_state(void **state)
{
    (void)state;
    ls_pipeline_destroy(NULL);
    for (int taken = 0; taken <= 2; taken++) {
        for (int released = 0; released <= taken; released++) {
            feed f;
            feed_create(&f, config_of(digits, 64, 2)); /* rank 0 takes nothing: readers sleep */
            for (int t = 0; t < taken; t++) {
                ls_batch batch;
                assert_int_equal(ls_pipeline_next(f.pipeline, 1, &batch), LS_OK);
            }
            for (int t = 0; t < released; t++) ls_pipeline_release(f.pipeline, 1);
            feed_destroy(&f);
        }
    }
}

static void test_asking_after_the_last_step_is_an_error(void **state)
{
    (void)state;
    feed f;
    ls_batch batch;
    ls_pipeline_config config = config_of(digits, 64, 1);
    config.step_count = 1;
    feed_create(&f, config);
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &batch), LS_OK);
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &batch), LS_ERR_ARGUMENT);
    feed_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_get_the_rows_that_fold_plans),
        cmocka_unit_test(test_any_number_of_readers_and_slots_gives_the_same_batches),
        cmocka_unit_test(test_epochs_shorter_than_the_queue_are_kept_apart),
        cmocka_unit_test(test_samples_are_augmented_as_their_epoch_says),
        cmocka_unit_test(test_images_of_bytes_are_staged_as_bytes),
        cmocka_unit_test(test_a_short_batch_may_be_larger_for_one_rank),
        cmocka_unit_test(test_without_shuffle_and_remainder),
        cmocka_unit_test(test_a_resumed_run_sees_what_the_undisturbed_one_saw),
        cmocka_unit_test(test_a_batch_tells_how_many_were_ready_when_it_was_asked_for),
        cmocka_unit_test(test_the_bytes_of_all_samples_are_counted_and_the_readers_time),
        cmocka_unit_test(test_cached_samples_are_the_same_and_are_read_once),
        cmocka_unit_test(test_bytes_are_cached_as_bytes),
        cmocka_unit_test(test_ranks_on_threads_of_their_own_read_what_readers_wrote),
        cmocka_unit_test(test_held_batches_are_not_overwritten_and_the_wait_for_more_ends),
        cmocka_unit_test(test_an_abort_ends_the_wait),
        cmocka_unit_test(test_it_can_be_destroyed_in_any_state),
        cmocka_unit_test(test_asking_after_the_last_step_is_an_error),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}
