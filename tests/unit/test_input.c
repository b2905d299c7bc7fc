/* SPDX-License-Identifier: MIT */
/* test_input.c -- what a run says of its input: a line a step, a share an epoch, and the page at
 * the end with what to do about it. */
#include <math.h>
#include <stdio.h>

#include "cli/console.h"
#include "cli/report.h"
#include "support/test.h"
#include "support/training.h"
#include "train/run.h"

/* -- a training ------------------------------------------------------------------------------ */

/* All batches of two epochs are taken, so each sample is read twice: 1438 of 64 floats. A single
 * rank has waited in the steps that found no batch ready, and in no others. */
static void check_training(const char *devices, int readers)
{
    enum { BYTES = 2 * 1438 * 64 * (int)sizeof(float) };
    training *t = training_create();
    char number[16];
    snprintf(number, sizeof number, "%d", readers);
    training_set(t, "model", "digits-cnn");
    training_set(t, "data", "digits");
    training_set(t, "global-batch", "128");
    training_set(t, "devices", devices);
    training_set(t, "readers", number);
    training_set(t, "epochs", "2");
    const double begin = ls_clock();
    assert_int_equal(training_run(t), LS_OK);
    const double wall = ls_clock() - begin;
    const ls_input_summary *input = &t->result.input;
    uint64_t bytes = 0;
    double ready = 0, seconds = 0, late = 0;
    int late_steps = 0;
    for (int i = 0; i < t->step_count; i++) {
        assert_in_range(t->step[i].queue, 0, input->depth);
        ready += t->step[i].queue;
        bytes += t->step[i].read_bytes;
        seconds += t->step[i].reader_seconds;
        if (t->step[i].queue > 0) continue;
        late += t->step[i].input_wait;
        late_steps++;
    }
    assert_int_equal(input->readers, readers);
    assert_int_equal(bytes, BYTES);
    assert_int_equal(input->bytes, BYTES);
    assert_true(input->ready == ready / t->step_count);
    assert_true(input->reader_seconds > 0 && input->reader_seconds <= readers * wall);
    assert_true(fabs(input->reader_seconds - seconds) < 1e-6);
    if (strcmp(devices, "host:1") == 0) {
        assert_true((input->waited > 0) == (late_steps > 0));
        assert_true(input->waited <= late);
    }
    training_destroy(t);
}

static void test_steps_and_run_count_the_same_bytes_and_seconds(void **state)
{
    (void)state;
    check_training("host:1", 1);
    check_training("host:3", 2);
}

/* The same weights, from far fewer bytes: two epochs of digits, the second from the cache. */
static void test_a_cache_changes_what_is_read_and_no_bit(void **state)
{
    (void)state;
    static const char *const lists[] = { "none", "crop:1,contrast:0.2" };
    for (size_t i = 0; i < 2; i++) {
        char weights[65] = "";
        for (int cached = 0; cached < 2; cached++) {
            training *t = training_create();
            training_set(t, "model", "digits-cnn");
            training_set(t, "data", "digits");
            training_set(t, "augment", lists[i]);
            training_set(t, "cache", cached ? "1M" : "off");
            training_set(t, "devices", "host:2");
            training_set(t, "epochs", "2");
            assert_int_equal(training_run(t), LS_OK);
            assert_int_equal(t->result.input.bytes, (cached ? 1438 : 2 * 1438) * 256);
            if (cached) assert_string_equal(t->result.weights_sha256, weights);
            memcpy(weights, t->result.weights_sha256, sizeof weights);
            training_destroy(t);
        }
    }
}

/* -- an epoch -------------------------------------------------------------------------------- */

/* Wait until the readers have filled `batches` in all. */
static void fill(ls_group *group, unsigned long batches)
{
    ls_status status = LS_OK;
    ls_wait wait = ls_wait_begin(NULL);
    while (status == LS_OK && atomic_load(ls_group_progress(group)) < batches)
        status = ls_wait_poll(&wait);
    assert_int_equal(status, LS_OK);
}

/* Rank `rank` takes the batches that fit its slots, keeps them and waits in vain for one more. */
static void stall(ls_pipeline *pipeline, int rank)
{
    ls_batch batch;
    for (int i = 0; i < LS_PIPELINE_DEPTH; i++)
        assert_int_equal(ls_pipeline_next(pipeline, rank, &batch), LS_OK);
    assert_int_equal(ls_pipeline_next(pipeline, rank, &batch), LS_ERR_TIMEOUT);
}

/* By the run's counts, rank 1 catches up with what rank 0 has waited, and no more. */
static void test_an_epochs_share_is_that_of_the_rank_that_waited_in_it(void **state)
{
    (void)state;
    enum { WORLD = 2 };
    const double timeout = 0.1; /* seconds of waiting without progress */
    void *staging[WORLD];
    ls_run *run = calloc(1, sizeof *run);
    ls_rank *rank = calloc(1, sizeof *rank);
    assert_true(run && rank);
    rank->run = run;
    run->world_size = WORLD;
    assert_int_equal(ls_dataset_open("digits", &run->dataset), LS_OK);
    assert_int_equal(ls_group_create(WORLD, timeout, &run->group), LS_OK);
    const ls_pipeline_config config = {
        .dataset = run->dataset, .global_batch = 16, .world_size = WORLD, .shard_count = WORLD,
        .accumulate = 1, .reader_count = 1, .depth = LS_PIPELINE_DEPTH, .step_count = 9,
        .group = run->group };
    for (int r = 0; r < WORLD; r++) {
        staging[r] = aligned_alloc(64, ls_pipeline_staging_bytes(&config, r));
        assert_non_null(staging[r]);
    }
    assert_int_equal(ls_pipeline_create(&config, staging, &run->pipeline), LS_OK);
    fill(run->group, WORLD * LS_PIPELINE_DEPTH);
    for (int r = 0; r < WORLD; r++) {
        stall(run->pipeline, r);
        assert_true(ls_input_end_epoch(rank, 1) >= 0.9 * timeout);
    }
    assert_true(ls_input_end_epoch(rank, 1) == 0); /* nobody has asked since */
    ls_pipeline_destroy(run->pipeline);
    for (int r = 0; r < WORLD; r++) free(staging[r]);
    ls_group_destroy(run->group);
    ls_dataset_close(run->dataset);
    free(rank);
    free(run);
}

/* -- what is printed ------------------------------------------------------------------------- */

/* All that was written to `file`, which is closed. */
static const char *printed(FILE *file)
{
    static char text[8192];
    rewind(file);
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = '\0';
    fclose(file);
    return text;
}

/* The page after a run whose steps took `seconds`. */
static const char *page_after(const ls_input_summary *input, double seconds)
{
    ls_config config;
    ls_config_init(&config);
    FILE *file = tmpfile();
    assert_non_null(file);
    ls_report_result(file, "lockstep", &config, &(ls_train_result){
        .steps = 10, .seconds = seconds, .time = { .steps = seconds }, .input = *input });
    return printed(file);
}

static const char *page_of(const ls_input_summary *input) { return page_after(input, 4); }

static void test_the_page_tells_queue_readers_and_bytes_a_second(void **state)
{
    (void)state;
    const char *page = page_of(&(ls_input_summary){
        .readers = 2, .depth = 3, .ready = 2.75, .reader_seconds = 0.5, .bytes = 8u << 20,
        .waited = 0.1 });
    assert_non_null(strstr(page, "2.8 of 3 batches ready on average; 2 readers at work 6.2 % of "
                                 "the time; 2.0 MiB/s read\n"));
    assert_null(strstr(page, "input-bound"));
}

static void test_a_run_that_waited_is_told_by_how_much_and_what_helps(void **state)
{
    (void)state;
    const char *page = page_of(&(ls_input_summary){
        .readers = 1, .depth = 3, .ready = 0.25, .reader_seconds = 4, .bytes = 1000,
        .waited = 1.36 });
    assert_non_null(strstr(page, "0.2 of 3 batches ready on average; 1 reader at work 100.0 % of "
                                 "the time; 250 B/s read\n"));
    assert_non_null(strstr(page, "input-bound by 34 %: more --readers, or data on a faster disk, "
                                 "would help"));
    assert_null(strstr(page, "--threads"));
}

/* Two readers at work for just less than half of 4 seconds, and for half of them. */
static void test_a_run_whose_readers_were_idle_is_told_that_they_found_no_core(void **state)
{
    (void)state;
    ls_input_summary input = { .readers = 2, .depth = 3, .reader_seconds = 3.9, .waited = 1 };
    const char *page = page_of(&input);
    assert_non_null(strstr(page, "input-bound by 25 %: readers found no core: fewer --threads "
                                 "would help"));
    assert_null(strstr(page, "--readers"));
    input.reader_seconds = 4;
    assert_non_null(strstr(page_of(&input), "input-bound by 25 %: more --readers"));
}

static void test_of_steps_that_took_less_than_a_second_nothing_is_advised(void **state)
{
    (void)state;
    const ls_input_summary input = { .readers = 2, .depth = 3, .waited = 0.9 };
    assert_null(strstr(page_after(&input, 0.95), "input-bound"));
    assert_non_null(strstr(page_after(&input, 1), "input-bound by 90 %"));
}

static const char *line_of(double share, double seconds)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    ls_console_print_epoch(file, &(ls_history_line){
        .epoch = 2, .loss = 0.5, .val_loss = (double)NAN, .seconds = seconds,
        .samples_per_second = 900, .input_share = share }, 3);
    return printed(file);
}

static void test_an_epoch_names_its_share_without_input_from_a_twentieth_on(void **state)
{
    (void)state;
    assert_string_equal(line_of(0.34, 1.5), "epoch 2/3  loss 0.5000  900 samples/s  1.5 s  "
                                       "input-bound by 34 %\n");
    assert_string_equal(line_of(0.05, 1.5), "epoch 2/3  loss 0.5000  900 samples/s  1.5 s  "
                                       "input-bound by 5 %\n");
    assert_string_equal(line_of(0.049, 1.5), "epoch 2/3  loss 0.5000  900 samples/s  1.5 s\n");
    assert_string_equal(line_of(0.34, 0.9), "epoch 2/3  loss 0.5000  900 samples/s  0.9 s\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_and_run_count_the_same_bytes_and_seconds),
        cmocka_unit_test(test_a_cache_changes_what_is_read_and_no_bit),
        cmocka_unit_test(test_an_epochs_share_is_that_of_the_rank_that_waited_in_it),
        cmocka_unit_test(test_the_page_tells_queue_readers_and_bytes_a_second),
        cmocka_unit_test(test_a_run_that_waited_is_told_by_how_much_and_what_helps),
        cmocka_unit_test(test_a_run_whose_readers_were_idle_is_told_that_they_found_no_core),
        cmocka_unit_test(test_of_steps_that_took_less_than_a_second_nothing_is_advised),
        cmocka_unit_test(test_an_epoch_names_its_share_without_input_from_a_twentieth_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
