/* SPDX-License-Identifier: MIT */
/* test_pipeline.c -- every rank is given the samples that are its own, in the order that fold.h
 * plans, with the same bytes for any number of readers and from any starting point. For what is
 * counted and for waits see test_pipeline_pace.c.
 */
#include "support/test.h"

#include "support/feed.h"

static void test_ranks_get_the_rows_that_fold_plans(void **state)
{
    (void)state;
    static const int shard_counts[] = { 1, 3, 8, 24 };
    for (size_t v = 0; v < 4; v++) {
        for (int world = 1; world <= shard_counts[v] && world <= 9; world++) {
            for (int accumulate = 1; accumulate <= shard_counts[v]; accumulate *= 2) {
                feed f;
                ls_pipeline_config config = feed_config(feed_digits, 300, world);
                config.shard_count = shard_counts[v];
                config.accumulate = accumulate;
                config.step_count = 6; /* 5 steps, the last of 238, and one of the next epoch */
                feed_create(&f, config);
                feed_take_all(&f);
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
            ls_pipeline_config config = feed_config(feed_digits, 128, 3);
            config.reader_count = readers;
            config.depth = depth;
            feed_create(&f, config);
            feed_take_all(&f);
            feed_destroy(&f);
        }
    }
}

static void test_epochs_shorter_than_the_queue_are_kept_apart(void **state)
{
    (void)state;
    feed f;
    ls_pipeline_config config = feed_config(feed_small, 32, 4); /* one step per epoch */
    config.reader_count = 3;
    config.depth = 6;
    feed_create(&f, config);
    feed_take_all(&f);
    feed_destroy(&f);
}

/* Each sample as its epoch sees it: a function of (seed, epoch, sample). So any other number of
 * replicas, readers or passes, and a resumption within an epoch, see the same. */
static void test_samples_are_augmented_as_their_epoch_says(void **state)
{
    (void)state;
    for (int world = 1; world <= 5; world += 2) {
        feed f;
        ls_pipeline_config config = feed_config(feed_digits, 200, world);
        config.augment = (ls_augment){ .crop = 2, .flip = true, .contrast = 0.5, .cutout = 3 };
        config.accumulate = world;
        config.reader_count = world;
        config.first_epoch = 2;
        config.first_step = 6;
        config.step_count = 12;
        feed_create(&f, config);
        feed_take_all(&f);
        feed_destroy(&f);
    }
}

static void test_images_of_bytes_are_staged_as_bytes(void **state)
{
    (void)state;
    feed f;
    ls_pipeline_config config = feed_config(feed_pictures, 16, 3);
    const size_t staged = ls_pipeline_staging_bytes(&config, 0); /* 4 samples, 2 slots */
    assert_int_equal(staged, 2 * (64 + 64 + 64));
    config.accumulate = 2;
    feed_create(&f, config);
    feed_take_all(&f);
    feed_destroy(&f);
}

/* V = 8: of 21 samples in batches of 11 and 10, shard 3 gets one of the first and two of the
 * second, so slots sized by the full batch would be too small. */
static void test_a_short_batch_may_be_larger_for_one_rank(void **state)
{
    (void)state;
    feed f;
    ls_pipeline_config config = feed_config(feed_wide, 11, 8);
    config.step_count = 2;
    config.shuffle = false;
    feed_create(&f, config);
    for (int r = 0; r < 8; r++) {
        ls_batch full, rest;
        assert_int_equal(ls_pipeline_next(f.pipeline, r, &full), LS_OK);
        assert_int_equal(ls_pipeline_next(f.pipeline, r, &rest), LS_OK);
        assert_true(feed_is_planned(&config, r, &full));
        assert_true(feed_is_planned(&config, r, &rest));
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
    ls_pipeline_config config = feed_config(feed_digits, 100, 2);
    config.shuffle = false;
    config.drop_remainder = true;
    feed_create(&f, config); /* 14 steps per epoch */
    feed_take_all(&f);
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
    ls_pipeline_config config = feed_config(feed_digits, 200, world);
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
    };
    return cmocka_run_group_tests(tests, open_feed_data, close_feed_data);
}
