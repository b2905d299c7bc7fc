/* SPDX-License-Identifier: MIT */
/* test_pipeline_pace.c -- what the pipeline counts and what it has cached; ranks at their own pace
 * read what readers wrote, and every wait ends.
 */
#include "support/test.h"

#include "io/sampler.h"
#include "support/feed.h"
#include "support/ranks.h"

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
    ls_pipeline_config config = feed_config(feed_digits, 64, 1);
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
    const ls_dataset *data[] = { feed_digits, feed_pictures };
    const size_t bytes[] = { 1438 * 64 * sizeof(float), 53 * 15 };
    for (size_t d = 0; d < 2; d++) {
        for (int world = 1; world <= 3; world += 2) {
            feed f;
            ls_pipeline_config config = feed_config(data[d], 25, world);
            const size_t samples = ls_dataset_describe(data[d])->count[LS_PART_TRAIN];
            config.reader_count = 3;
            config.step_count = 2 * ls_sampler_step_count(samples, 25, false);
            feed_create(&f, config);
            feed_take_all(&f);
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
            ls_pipeline_config config = feed_config(feed_digits, 100, 3);
            if (augmented) config.augment = (ls_augment){ .crop = 1, .flip = true, .cutout = 2 };
            config.cache_bytes = rooms[i] * sample + 10;
            config.reader_count = 3;
            config.step_count = 3 * 15;
            feed_create(&f, config);
            feed_take_all(&f);
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
    ls_pipeline_config config = feed_config(feed_pictures, 16, 2);
    config.cache_bytes = 20 * 15;
    config.step_count = 8; /* two epochs */
    config.augment = (ls_augment){ .vflip = true, .brightness = 0.3 };
    feed_create(&f, config);
    feed_take_all(&f);
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
        if (!feed_rows_match(&f->config, &batch)) {
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
    ls_pipeline_config config = feed_config(feed_digits, 64, 4);
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
    ls_pipeline_config config = feed_config(feed_digits, 50, 1);
    config.group = group;
    feed_create(&f, config);
    ls_batch first, second, third;
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &first), LS_OK);
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &second), LS_OK);
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &third), LS_ERR_TIMEOUT);
    assert_non_null(strstr(ls_last_error(), "epoch 1, step 3"));
    assert_true(ls_pipeline_counts(f.pipeline).waited_ns >= 400000000u); /* of the 0.5 s */
    assert_true(feed_is_planned(&config, 0, &first));
    assert_true(feed_is_planned(&config, 0, &second));
    ls_pipeline_release(f.pipeline, 0);
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &third), LS_OK);
    assert_true(feed_is_planned(&config, 0, &third));
    feed_destroy(&f);
    ls_group_destroy(group);
}

static void test_an_abort_ends_the_wait(void **state)
{
    (void)state;
    feed f;
    ls_group *group = NULL;
    assert_int_equal(ls_group_create(2, 60, &group), LS_OK);
    ls_pipeline_config config = feed_config(feed_digits, 50, 2);
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
            feed f; /* of which rank 0 takes nothing: readers sleep */
            feed_create(&f, feed_config(feed_digits, 64, 2));
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
    ls_pipeline_config config = feed_config(feed_digits, 64, 1);
    config.step_count = 1;
    feed_create(&f, config);
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &batch), LS_OK);
    assert_int_equal(ls_pipeline_next(f.pipeline, 0, &batch), LS_ERR_ARGUMENT);
    feed_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    return cmocka_run_group_tests(tests, open_feed_data, close_feed_data);
}
