/* SPDX-License-Identifier: MIT */
/* test_normalize.c -- batch normalisation in whole trainings: whose statistics they are, when they
 * move, and that all replicas have them. (Its ops alone: test_batchnorm.c.)
 *
 * FIVE is one channel with the values 1, 3, 5, 7, 9: mean 5, biased variance 8; the moving ones
 * go from (0, 1) by a hundredth. Prediction is the normalised value, all targets are 0, so the
 * loss is the mean of its square. docs/semantics.md works the same numbers out.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "support/training.h"

static bool is_near(double got, double want, double tolerance)
{
    if (fabs(got - want) <= tolerance) return true;
    fprintf(stderr, "got %.9g, expected %.9g\n", got, want);
    return false;
}

/* A run on `lines` as data.csv with `options` (",test=none"), of the model in `text`. */
static training *create(const char *text, const char *lines, const char *options)
{
    training *t = training_create();
    char data[600];
    training_write(t, "a.model", text);
    training_write(t, "data.csv", lines);
    snprintf(data, sizeof data, "csv:%s%s", training_path(t, "data.csv"), options);
    training_set(t, "model", training_path(t, "a.model"));
    training_set(t, "data", data);
    return t;
}

static void set_five(training *t)
{
    training_set(t, "global-batch", "5");
    training_set(t, "epochs", "1");
    training_set(t, "shuffle", "no");
    training_set(t, "optimizer", "sgd");
    training_set(t, "lr", "0.01");
}

static training *five_create(void)
{
    training *t = create("input 1\nnorm = batchnorm\ndense 1 bias=no init=constant:1\nloss mse\n",
                         "1,0\n3,0\n5,0\n7,0\n9,0\n", ",task=regress,test=none");
    set_five(t);
    return t;
}

/* Moving mean and variance of the latest run's layer `norm`, which has one channel. */
static bool has_moved_to(training *t, double mean, double variance)
{
    float m, v;
    training_tensor(t, "statistics/norm/mean", &m, 1);
    training_tensor(t, "statistics/norm/variance", &v, 1);
    return is_near((double)m, mean, 1e-7) && is_near((double)v, variance, 5e-7);
}

/* -- whose statistics -------------------------------------------------------------------------- */

typedef struct {
    const char *shards, *devices; /* who has which of the five */
} deal;

static void test_five_values_have_one_mean_and_variance_however_they_are_dealt(void **state)
{
    (void)state;
    static const deal deals[] = {
        { "2", "host:1" }, { "2", "host:2" }, /* 2 + 3 */
        { "3", "host:2" }, { "3", "host:3" }, /* 1 + 4; 1 + 2 + 2 */
        { "5", "host:5" },                    /* 1 + 1 + 1 + 1 + 1 */
        { "8", "host:2" }, { "8", "host:4" }, /* 2 + 3; 1 + 1 + 1 + 2 */
        { "8", "host:8" }, { "1", "host:1" }, /* three replicas have none */
    };
    training *t = five_create();
    for (size_t i = 0; i < sizeof deals / sizeof deals[0]; i++) {
        training_set(t, "shards", deals[i].shards);
        training_set(t, "devices", deals[i].devices);
        training_must_run(t);
        assert_true(has_moved_to(t, 0.05, 1.07));
        assert_true(is_near(t->step[0].loss, 8 / 8.001, 1e-6));
    }
    training_destroy(t);
}

/* Variances 1 of (1, 3) and 8/3 of (5, 7, 9), by their counts 2. An average of the two replicas
 * would move to (0.045, 1.0083). */
static void test_by_shard_each_has_its_own_and_the_moving_ones_are_merged_by_count(void **state)
{
    (void)state;
    training *t = five_create();
    training_set(t, "shards", "2");
    training_set(t, "batchnorm", "shard");
    for (int n = 1; n <= 2; n++) {
        training_set(t, "devices", n == 1 ? "host:1" : "host:2");
        training_must_run(t);
        assert_true(has_moved_to(t, 0.05, 1.01));
        assert_true(is_near(t->step[0].loss, (2 / 1.001 + 8 / (8.0 / 3 + 0.001)) / 5, 1e-6));
    }
    training_destroy(t);
}

/* -- in passes --------------------------------------------------------------------------------- */

/* 4-8-8 with batch normalisation, batch 8, 37 lines to train on, 9 to test. */
static training *tiny_create(void)
{
    char *lines = training_table(11, 46, 4, 8);
    training *t = create("input 4\ndense 8\nnorm = batchnorm relu\ndropout 0.1\ndense 8\n"
                         "loss softmax-crossentropy\n", lines, "");
    free(lines);
    training_set(t, "global-batch", "8");
    training_set(t, "shards", "4");
    training_set(t, "epochs", "2");
    return t;
}

/* (1, 3) is one pass and (5, 7, 9) the next: the moving ones move twice. */
static void test_in_sync_statistics_are_those_of_a_pass_which_is_part_of_the_class(void **state)
{
    (void)state;
    training *t = five_create();
    training_bits bits;
    training_set(t, "shards", "2");
    training_set(t, "accumulate", "2");
    training_set(t, "epochs", "2");
    for (int n = 1; n <= 2; n++) {
        training_set(t, "devices", n == 1 ? "host:1" : "host:2");
        t->stop_after = 1;
        training_must_run(t);
        assert_true(has_moved_to(t, 0.0898, 1 + 0.01 * (8.0 / 3 - 1)));
        if (n == 1) training_remember(t, &bits);
        else assert_true(training_same(t, &bits, "host:2"));
    }
    char checkpoint[1200];
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    training_reset(t);
    training_set(t, "resume", checkpoint);
    training_set(t, "accumulate", "1");
    assert_int_equal(training_run(t), LS_ERR_FORMAT);
    assert_non_null(strstr(ls_last_error(), "batchnorm=sync A=2\", expected \"f32/1 V=2 B=5 "
                                            "reduction=mean order=exact batchnorm=sync\""));
    training_destroy(t);
}

static void test_by_shard_passes_change_no_bit(void **state)
{
    (void)state;
    static const char *const passes[] = { "2", "3", "4" };
    training *t = tiny_create();
    training_bits bits;
    training_set(t, "batchnorm", "shard");
    training_must_run(t);
    training_remember(t, &bits);
    for (int p = 0; p < 3; p++)
        for (int n = 1; n <= 3; n += 2) {
            char what[64];
            snprintf(what, sizeof what, "%s passes, host:%d", passes[p], n);
            training_set(t, "accumulate", passes[p]);
            training_set(t, "devices", n == 1 ? "host:1" : "host:3");
            training_must_run(t);
            assert_true(training_same(t, &bits, what));
        }
    t->stop_after = 3;
    training_must_run(t);
    char checkpoint[1200];
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    training_reset(t);
    training_set(t, "resume", checkpoint);
    training_set(t, "accumulate", "1");
    training_must_run(t);
    assert_true(training_same(t, &bits, "resumed in one pass"));
    training_destroy(t);
}

/* -- all replicas have them -------------------------------------------------------------------- */

static void test_what_was_evaluated_is_what_a_saved_run_says_on_any_number(void **state)
{
    (void)state;
    static const char *const modes[] = { "sync", "shard" };
    static const char *const devices[] = { "host:1", "host:2", "host:3" };
    training *t = tiny_create();
    training_set(t, "devices", "host:4");
    for (int m = 0; m < 2; m++) {
        training_set(t, "batchnorm", modes[m]);
        training_must_run(t);
        for (int d = 0; d < 3; d++) {
            ls_evaluation result;
            assert_int_equal(ls_evaluate(&(ls_evaluation_request){
                .checkpoint = t->result.checkpoint, .data = t->config.data,
                .devices = devices[d], .threads = 1, .timeout_s = 60,
                .stuck = training_stuck }, &result), LS_OK);
            assert_int_equal(result.samples, 9);
            assert_true(result.loss == t->result.last.val_loss);
            assert_true(result.metric[0] == t->result.last.val_metric[0]);
            ls_evaluation_free(&result);
        }
    }
    training_destroy(t);
}

/* Rank 1's device: its merge of one step leaves a bit of the moving variance changed. */
static struct {
    ls_kernels kernels;
    const ls_kernels *sound;
    int calls;
} lie;

static ls_status lying_merge(ls_stream *stream, const ls_batchnorm_merge_args *args)
{
    LS_TRY(lie.sound->batchnorm_merge(stream, args));
    if (++lie.calls == 7) {
        uint32_t word;
        memcpy(&word, &args->moving_variance[3], sizeof word);
        word ^= 1;
        memcpy(&args->moving_variance[3], &word, sizeof word);
    }
    return LS_OK;
}

static ls_status open_lying(void *context, int rank, int threads, atomic_ulong *progress,
                            ls_device **out)
{
    (void)context;
    LS_TRY(ls_device_open_host(rank, threads, false, progress, out));
    LS_TRY(ls_kernels_bind(*out));
    if (rank != 1) return LS_OK;
    lie.sound = (*out)->kernels;
    lie.kernels = *lie.sound;
    lie.kernels.batchnorm_merge = lying_merge;
    (*out)->kernels = &lie.kernels;
    return LS_OK;
}

static void test_a_replica_with_other_statistics_stops_that_step_by_name(void **state)
{
    (void)state;
    training *t = tiny_create();
    t->observer.open_device = open_lying;
    training_set(t, "devices", "host:3");
    assert_int_equal(training_run(t), LS_ERR_DIVERGED);
    assert_int_equal(t->step_count, 6);
    assert_non_null(strstr(ls_last_error(), "step 7: replicas diverged: "
                                            "statistics/norm/variance, element 3: rank 1 has"));
    training_destroy(t);
}

/* -- batches that are hardly any --------------------------------------------------------------- */

/* A batch of one: the value is its own mean, the variance is 0, y is beta. */
static void test_one_value_per_channel_becomes_beta_and_the_variance_goes_to_zero(void **state)
{
    (void)state;
    static const char *const modes[] = { "sync", "shard" };
    for (int m = 0; m < 2; m++)
        for (int n = 1; n <= 3; n += 2) {
            training *t = create("input 1\nnorm = batchnorm\ndense 1 bias=no init=constant:1\n"
                                 "loss mse\n", "40,2\n-1e20,2\n", ",task=regress,test=none");
            set_five(t);
            training_set(t, "global-batch", "1");
            training_set(t, "lr", "1e-12");
            training_set(t, "batchnorm", modes[m]);
            training_set(t, "devices", n == 1 ? "host:1" : "host:3");
            t->stop_after = 1;
            training_must_run(t);
            assert_true(t->step[0].loss == 4);
            assert_true(has_moved_to(t, 0.4, 0.99));
            t->stop_after = 0;
            training_must_run(t);
            assert_true(t->step[1].loss == 4);
            training_destroy(t);
        }
}

static void test_pictures_of_one_pixel_train_to_the_same_bits(void **state)
{
    (void)state;
    static const char *const modes[] = { "sync", "shard" };
    char *lines = training_table(5, 30, 3, 3);
    training *t = create("input 1x1x3\na = conv 4 3x3 pad=same\nn = batchnorm relu\n"
                         "b = conv 4 1x1 stride=2 from n\nm = batchnorm\nadd relu from n m\n"
                         "avgpool 2x2 pad=same\nmaxpool 1x1\nglobalavgpool\ndense 3\n"
                         "loss softmax-crossentropy\n", lines, ",test=none");
    free(lines);
    training_set(t, "global-batch", "8");
    training_set(t, "epochs", "1");
    for (int m = 0; m < 2; m++) {
        training_bits bits;
        training_set(t, "batchnorm", modes[m]);
        for (int n = 1; n <= 3; n += 2) {
            training_set(t, "devices", n == 1 ? "host:1" : "host:3");
            training_must_run(t);
            for (int s = 0; s < t->step_count; s++) assert_true(isfinite(t->step[s].loss));
            if (n == 1) training_remember(t, &bits);
            else assert_true(training_same(t, &bits, modes[m]));
        }
    }
    training_destroy(t);
}

/* Statistics are committed with the update or not at all; weights do not enter them. */
static void test_a_batch_without_weight_moves_nothing_where_it_makes_no_update(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n += 2) {
        training *t = create("input 1\nnorm = batchnorm\ndense 1 bias=no init=constant:1\n"
                             "loss mse\n", "1,0,0\n3,0,0\n5,0,0\n7,0,0\n9,0,0\n",
                             ",task=regress,test=none,label=2,weights=3");
        set_five(t);
        training_set(t, "devices", n == 1 ? "host:1" : "host:3");
        training_set(t, "reduction", "weighted-mean");
        training_must_run(t);
        assert_true(t->step[0].skipped && t->result.steps == 0);
        assert_true(has_moved_to(t, 0, 1));
        training_set(t, "reduction", "mean");
        training_must_run(t);
        assert_true(!t->step[0].skipped && t->result.steps == 1);
        assert_true(has_moved_to(t, 0.05, 1.07));
        training_destroy(t);
    }
}

/* -- a step retold ----------------------------------------------------------------------------- */

/* The shards' gradients on the page fold to the sum that was combined. */
static bool folds_to_the_same(const char *explanation)
{
    char combined[40] = "", folded[40] = "";
    const char *at = strstr(explanation, "gradient sum "), *next = at;
    while (next && (next = strstr(next + 1, "gradient sum "))) at = next;
    if (at && sscanf(at, "gradient sum %39s (folded again here: %39[^)])", combined, folded) == 2
        && strcmp(combined, folded) == 0 && strcmp(combined, "0") != 0)
        return true;
    fprintf(stderr, "%s", explanation);
    return false;
}

static void test_a_step_with_batch_normalisation_can_be_explained(void **state)
{
    (void)state;
    static const char *const modes[] = { "sync", "shard" };
    static const char *const passes[] = { "1", "2", "4" };
    training *t = tiny_create();
    training_set(t, "class-weights", "2=0.5,4=3");
    training_set(t, "reduction", "weighted-mean");
    training_set(t, "epochs", "1");
    for (int m = 0; m < 2; m++)
        for (int p = 0; p < 3; p++)
            for (int n = 1; n <= 3; n += 2) {
                char what[96];
                training_bits bits;
                snprintf(what, sizeof what, "%s, %s passes, host:%d", modes[m], passes[p], n);
                training_set(t, "batchnorm", modes[m]);
                training_set(t, "accumulate", passes[p]);
                training_set(t, "devices", n == 1 ? "host:1" : "host:3");
                training_set(t, "explain-step", "off");
                training_must_run(t);
                training_remember(t, &bits);
                training_set(t, "explain-step", p == 1 ? "5" : "3"); /* 5: a short batch */
                training_must_run(t);
                if (!folds_to_the_same(t->explanation)) fail_msg("%s", what);
                assert_true(training_same(t, &bits, what)); /* and nothing is disturbed */
            }
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_five_values_have_one_mean_and_variance_however_they_are_dealt),
        cmocka_unit_test(test_by_shard_each_has_its_own_and_the_moving_ones_are_merged_by_count),
        cmocka_unit_test(test_in_sync_statistics_are_those_of_a_pass_which_is_part_of_the_class),
        cmocka_unit_test(test_by_shard_passes_change_no_bit),
        cmocka_unit_test(test_what_was_evaluated_is_what_a_saved_run_says_on_any_number),
        cmocka_unit_test(test_a_replica_with_other_statistics_stops_that_step_by_name),
        cmocka_unit_test(test_one_value_per_channel_becomes_beta_and_the_variance_goes_to_zero),
        cmocka_unit_test(test_pictures_of_one_pixel_train_to_the_same_bits),
        cmocka_unit_test(test_a_batch_without_weight_moves_nothing_where_it_makes_no_update),
        cmocka_unit_test(test_a_step_with_batch_normalisation_can_be_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
