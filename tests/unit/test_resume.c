/* SPDX-License-Identifier: MIT */
/* test_resume.c -- a run that stops and continues, elsewhere, is the run that never stopped.
 *
 * TINY: an MLP 4-8-3 on 37 lines, batch 8: five steps an epoch, the last with five samples.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "io/checkpoint.h"
#include "support/training.h"

static training *tiny_create(void)
{
    training *t = training_create();
    char data[600], *lines = training_table(11, 46, 4, 3);
    training_write(t, "tiny.model", "input 4\ndense 8 relu\ndense 3\nloss softmax-crossentropy\n");
    training_write(t, "data.csv", lines);
    free(lines);
    snprintf(data, sizeof data, "csv:%s", training_path(t, "data.csv"));
    training_set(t, "model", training_path(t, "tiny.model"));
    training_set(t, "data", data);
    training_set(t, "global-batch", "8");
    training_set(t, "epochs", "3");
    return t;
}

/* Continue t's latest checkpoint on `devices`, stopping after `stop` further steps (0: to the
 * end). */
static void resume(training *t, const char *devices, int stop)
{
    char checkpoint[1200];
    snprintf(checkpoint, sizeof checkpoint, "%s", t->result.checkpoint);
    training_reset(t);
    training_set(t, "resume", checkpoint);
    training_set(t, "devices", devices);
    t->stop_after = (uint64_t)stop;
    training_must_run(t);
}

static void test_momentum_started_on_four_ends_alike_on_any_number(void **state)
{
    (void)state;
    static const char *const devices[] = { "host:1", "host:2", "host:3", "host:8" };
    training *t = tiny_create();
    char weights[65], slots[65], half[1200];
    training_set(t, "optimizer", "momentum");
    training_set(t, "steps", "10");
    training_must_run(t);
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    memcpy(slots, t->result.optimizer_sha256, sizeof slots);
    training_set(t, "devices", "host:4");
    t->stop_after = 5;
    training_must_run(t);
    memcpy(half, t->result.checkpoint, sizeof half);
    for (int d = 0; d < 4; d++) {
        memcpy(t->result.checkpoint, half, sizeof half);
        resume(t, devices[d], 0);
        assert_int_equal(t->result.steps, 10);
        assert_string_equal(t->result.weights_sha256, weights);
        assert_string_equal(t->result.optimizer_sha256, slots);
    }
    training_destroy(t);
}

static void test_interruptions_repeat_and_skip_nothing(void **state)
{
    (void)state;
    training *t = tiny_create();
    char weights[65], line[256];
    training_set(t, "accumulate", "2");
    training_must_run(t);
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    t->stop_after = 3;
    training_set(t, "devices", "host:4");
    training_must_run(t);
    resume(t, "host:2", 4); /* to step 7 */
    resume(t, "host:3", 1); /* to step 8 */
    resume(t, "host:1", 0);
    assert_int_equal(t->result.steps, 15);
    assert_string_equal(t->result.weights_sha256, weights);
    /* One history for all parts: a header and three lines, an epoch each. */
    char path[1300];
    snprintf(path, sizeof path, "%s/../../history.csv", t->result.checkpoint);
    char *end = strstr(path, "/checkpoints/");
    strcpy(end, "/history.csv");
    FILE *history = fopen(path, "r");
    assert_non_null(history);
    int lines = 0;
    while (fgets(line, sizeof line, history)) lines++;
    fclose(history);
    assert_int_equal(lines, 4);
    training_destroy(t);
}

static void test_the_learning_rate_goes_on_where_it_was(void **state)
{
    (void)state;
    enum { STEPS = 100, STOP = 40 };
    training *t = tiny_create();
    double lr[STEPS];
    training_set(t, "epochs", "auto");
    training_set(t, "steps", "100");
    training_set(t, "schedule", "cosine");
    training_set(t, "warmup", "7");
    training_set(t, "optimizer", "sgd");
    training_must_run(t);
    assert_int_equal(t->step_count, STEPS);
    for (int s = 0; s < STEPS; s++) lr[s] = t->step[s].lr;
    assert_true(lr[STEPS - 1] < lr[50] && lr[50] < lr[7] && lr[0] < lr[7]);
    t->stop_after = STOP;
    training_must_run(t);
    resume(t, "host:3", 0);
    assert_int_equal(t->step_count, STEPS - STOP);
    for (int s = STOP; s < STEPS; s++) {
        assert_true(t->step[s - STOP].lr == lr[s]);
        assert_int_equal(t->step[s - STOP].step, s + 1);
    }
    training_destroy(t);
}

static void test_adam_keeps_its_moments_and_its_count(void **state)
{
    (void)state;
    training *t = tiny_create();
    char weights[65], slots[65];
    training_set(t, "steps", "10");
    training_must_run(t);
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    memcpy(slots, t->result.optimizer_sha256, sizeof slots);
    t->stop_after = 5;
    training_must_run(t);
    resume(t, "host:1", 0);
    assert_string_equal(t->result.weights_sha256, weights);
    assert_string_equal(t->result.optimizer_sha256, slots);
    assert_non_null(strstr(t->resume, "step 5"));
    training_destroy(t);
}

/* Every optimizer with everything that may surround it: the run on one device that never stopped,
 * that on others, and that which stops in the middle of an epoch and goes on elsewhere. */
static void test_every_optimizer_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const optimizers[] = { "sgd", "momentum", "nesterov", "adam", "adamw",
                                              "rmsprop" };
    static const char *const clips[] = { "clip-value", "clip-norm", "clip-global-norm" };
    static const char *const schedules[] = { "exponential:4,0.5", "polynomial:12,0.001,0.7",
                                             "table:0=0.02,3=0.05,9=0.001" };
    for (int o = 0; o < 6; o++) {
        training *t = tiny_create();
        training_bits whole;
        training_set(t, "optimizer", optimizers[o]);
        training_set(t, "lr", "0.02");
        training_set(t, clips[o % 3], "0.05");
        training_set(t, "ema", "0.8");
        training_set(t, "weight-decay", "0.1");
        training_set(t, "l2", "0.01");
        training_set(t, "schedule", schedules[o % 3]);
        training_set(t, "warmup", "2");
        training_set(t, "lr-scale", "linear");
        training_set(t, "base-batch", "4");
        training_set(t, "rules", "*/bias=lr:2;dense1/kernel=decay:0.5,l2:0.1");
        training_must_run(t);
        training_remember(t, &whole);
        for (int n = 2; n <= 3; n++) {
            char devices[32];
            snprintf(devices, sizeof devices, "host:%d", n);
            training_set(t, "devices", devices);
            training_must_run(t);
            if (!training_same(t, &whole, devices)) fail_msg("%s", optimizers[o]);
        }
        training_set(t, "devices", "host:2");
        t->stop_after = 1; /* the average has just begun */
        training_must_run(t);
        resume(t, "host:3", 6);
        resume(t, "host:1", 0);
        if (!training_same(t, &whole, "resumed")) fail_msg("%s", optimizers[o]);
        training_destroy(t);
    }
}

static void test_a_file_of_weights_does_not_resume_but_starts_a_run(void **state)
{
    (void)state;
    training *t = tiny_create();
    const float w[4] = { 0 };
    char path[512];
    snprintf(path, sizeof path, "%s", training_weights(t, "w", "dense1/kernel", 1, 4, w));
    training_set(t, "resume", path);
    assert_int_equal(training_run(t), LS_ERR_FORMAT);
    assert_non_null(strstr(ls_last_error(), "--init"));
    training_destroy(t);
}

/* Another value of a tensor; of none where `tensor` is NULL. */
typedef struct {
    const char *tensor;
    size_t element;
    float value;
} forged_value;

/* The checkpoint at `from` again at `to`, sound but with another text under `key`, and another
 * value. */
static void forge(const char *from, const char *to, const char *key, const char *text,
                  forged_value forged)
{
    enum { TENSORS_MAX = 32 };
    static const char *const keys[] = { "format", "class", "step", "epoch", "step_of_epoch",
                                        "epoch_sums", "guard", "callbacks", "best", "last", "world",
                                        "data", "data_identity", "model_name", "model", "config" };
    enum { KEY_COUNT = sizeof keys / sizeof keys[0] };
    ls_checkpoint *checkpoint;
    ls_saved_tensor tensor[TENSORS_MAX];
    ls_saved_text texts[KEY_COUNT];
    float *copy = NULL;
    assert_int_equal(ls_checkpoint_open(from, &checkpoint), LS_OK);
    const int count = ls_checkpoint_tensor_count(checkpoint);
    assert_true(count <= TENSORS_MAX);
    for (int i = 0; i < count; i++) {
        tensor[i] = *ls_checkpoint_tensor_at(checkpoint, i);
        if (!forged.tensor || strcmp(tensor[i].name, forged.tensor) != 0) continue;
        const size_t bytes = ls_saved_tensor_count(&tensor[i]) * sizeof(float);
        copy = malloc(bytes);
        assert_true(copy && forged.element < ls_saved_tensor_count(&tensor[i]));
        memcpy(copy, tensor[i].data, bytes);
        copy[forged.element] = forged.value;
        tensor[i].data = copy;
    }
    assert_true((forged.tensor != NULL) == (copy != NULL));
    for (int k = 0; k < KEY_COUNT; k++) {
        texts[k].key = keys[k];
        texts[k].text = ls_checkpoint_text(checkpoint, keys[k]);
        assert_non_null(texts[k].text);
        if (strcmp(keys[k], key) == 0) texts[k].text = text;
    }
    assert_int_equal(ls_checkpoint_save(to, tensor, count, texts, KEY_COUNT), LS_OK);
    ls_checkpoint_close(checkpoint);
    free(copy);
}

/* Its CRCs hold, so only the sense of what it says can be checked: a run that went on from there
 * would count wrongly, never end, or go on with other bits. */
static void test_a_checkpoint_that_makes_no_sense_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *key, *text, *words;
    } wrong[] = {
        { "format", "lockstep checkpoint 2", "expected \"lockstep checkpoint 1\"" },
        { "class", "f32/2 V=8 B=8 reduction=mean order=exact", "expected \"f32/1" },
        { "class", "f32/1 V=8 B=80 reduction=mean order=exact", "--init" },
        { "step", "-1", "whole number" },
        { "step", " 5", "whole number" },
        { "step", "18446744073709551615", "at most 15 digits" },
        { "step", "1000", "5 steps an epoch" },
        { "epoch", "4294967296", "5 steps an epoch" },
        { "step_of_epoch", "5", "5 steps an epoch" },
        { "epoch_sums", "1 0 1 -5 nan", "counts among them whole" },
        { "guard", "0.5 0 0 0", "a loss scale of 1 to 2^24" },
        { "guard", "2 0 0 -1", "three counts" },
        { "callbacks", "nan nan 0 nan 0 0 2", "a factor of at most 1" },
        { "callbacks", "nan nan 0", "7 numbers" },
        { "best", "1e300 1 1 1 1 1 1 1 1 1 1", "counts among them whole" },
        { "last", "1 2", "11 or more" },
        { "config", "lr nan\n", "its configuration: line:1: --lr" },
        { "config", "", "its configuration: no MODEL" },
        { "model", "input 4\n", "its model: line:2:1: " },
    };
    training *t = tiny_create();
    char checkpoint[1200], path[512];
    t->stop_after = 7;
    training_must_run(t);
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    snprintf(path, sizeof path, "%s", training_path(t, "wrong.safetensors"));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        forge(checkpoint, path, wrong[i].key, wrong[i].text, (forged_value){ NULL, 0, 0 });
        training_reset(t);
        training_set(t, "resume", path);
        assert_int_equal(training_run(t), LS_ERR_FORMAT);
        if (!strstr(ls_last_error(), path) || !strstr(ls_last_error(), wrong[i].words))
            fail_msg("%s \"%s\": found '%s', expected '%s'", wrong[i].key, wrong[i].text,
                     ls_last_error(), wrong[i].words);
    }
    training_destroy(t);
}

/* What no run could have saved is refused where it is loaded, not after an epoch, and is no result
 * of an evaluation. */
static void test_an_impossible_value_is_refused_where_it_is_read(void **state)
{
    (void)state;
    static const struct {
        forged_value value;
        bool init; /* is it looked at there? */
    } wrong[] = {
        { { "weights/dense1/kernel", 5, NAN }, true },
        { { "weights/dense2/bias", 1, -INFINITY }, true },
        { { "statistics/batchnorm1/mean", 2, INFINITY }, true },
        { { "statistics/batchnorm1/variance", 0, -0.5f }, true },
        { { "optimizer/m/batchnorm1/gamma", 1, NAN }, false },
        { { "optimizer/v/dense1/bias", 2, -1e-9f }, false },
        { { "optimizer/ema/dense1/kernel", 0, INFINITY }, false },
    };
    training *t = training_create();
    char *table = training_table(3, 30, 4, 3), data[600], checkpoint[1200], path[512], words[100];
    training_write(t, "n.csv", table);
    training_write(t, "n.model", "input 4\ndense 3\nbatchnorm relu\ndense 3\nloss auto\n");
    snprintf(data, sizeof data, "csv:%s", training_path(t, "n.csv"));
    training_set(t, "model", training_path(t, "n.model"));
    training_set(t, "data", data);
    training_set(t, "ema", "0.9");
    training_set(t, "steps", "2");
    training_must_run(t);
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    snprintf(path, sizeof path, "%s", training_path(t, "wrong.safetensors"));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const forged_value *v = &wrong[i].value;
        forge(checkpoint, path, "world", "1xhost", *v);
        snprintf(words, sizeof words, "impossible %s: element %zu is ", v->tensor, v->element);
        for (int init = 0; init < 2; init++) {
            training_reset(t);
            training_set(t, init ? "init" : "resume", path);
            training_set(t, "steps", "3");
            const bool looks = !init || wrong[i].init;
            assert_int_equal(training_run(t), looks ? LS_ERR_FORMAT : LS_OK);
            if (looks && !strstr(ls_last_error(), words))
                fail_msg("found '%s', expected '%s'", ls_last_error(), words);
        }
    }
    free(table);
    training_destroy(t);
}

static void test_a_start_that_fails_leaves_no_folder(void **state)
{
    (void)state;
    training *t = tiny_create();
    char out[512], weights[512];
    const float w[4] = { 0 };
    snprintf(out, sizeof out, "%s", training_path(t, "never"));
    training_set(t, "out", out);
    training_set(t, "init", training_path(t, "absent"));
    assert_int_equal(training_run(t), LS_ERR_FORMAT);
    assert_int_not_equal(access(out, F_OK), 0);
    snprintf(weights, sizeof weights, "%s", training_weights(t, "w", "dense1/kernel", 1, 4, w));
    training_set(t, "init", weights);
    assert_int_equal(training_run(t), LS_ERR_FORMAT);
    assert_int_not_equal(access(out, F_OK), 0);
    training_destroy(t);
}

static void test_what_would_change_bits_is_refused_and_shown(void **state)
{
    (void)state;
    static const char *const options[][2] = { { "shards", "4" }, { "global-batch", "16" },
                                              { "lr", "0.5" }, { "optimizer", "sgd" },
                                              { "reduction", "sum" }, { "seed", "9" },
                                              { "order", "fast" }, { "shuffle", "no" },
                                              { "ema", "0.9" }, { "clip-norm", "3" },
                                              { "weight-decay", "0.2" },
                                              { "rules", "*=lr:0.1" },
                                              { "schedule", "table:0.1" } };
    training *t = tiny_create();
    char checkpoint[1200];
    t->stop_after = 2;
    training_must_run(t);
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        training_reset(t);
        training_set(t, "resume", checkpoint);
        training_set(t, options[i][0], options[i][1]);
        assert_int_equal(training_run(t), LS_ERR_ARGUMENT);
        assert_non_null(strstr(ls_last_error(), options[i][0]));
        assert_non_null(strstr(ls_last_error(), options[i][1]));
    }
    training_destroy(t);
}

/* What a unit file calls after a power cut: the same words, whether there is something to go on
 * with or not. */
static void test_the_command_that_began_a_run_continues_it(void **state)
{
    (void)state;
    training *t = tiny_create();
    char weights[65];
    training_set(t, "schedule", "cosine");
    training_set(t, "warmup", "2");
    training_set(t, "optimizer", "adamw");
    training_set(t, "ema", "0.9");
    training_set(t, "clip-global-norm", "1");
    training_set(t, "lr-scale", "linear");
    training_set(t, "base-batch", "4");
    training_set(t, "rules", "dense1/*=lr:0.5");
    training_must_run(t);
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    training_set(t, "out", training_path(t, "again"));
    training_set(t, "resume", "auto");
    t->stop_after = 6;
    training_must_run(t);
    t->stop_after = 0;
    training_must_run(t);
    assert_int_equal(t->step_count, 15 - 6);
    assert_string_equal(t->result.weights_sha256, weights);
    training_destroy(t);
}

static void test_other_data_are_refused(void **state)
{
    (void)state;
    training *t = tiny_create();
    char checkpoint[1200], data[600], *lines = training_table(12, 46, 4, 3);
    t->stop_after = 2;
    training_must_run(t);
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    training_write(t, "other.csv", lines);
    free(lines);
    training_reset(t);
    snprintf(data, sizeof data, "csv:%s", training_path(t, "other.csv"));
    training_set(t, "data", data);
    training_set(t, "resume", checkpoint);
    assert_int_equal(training_run(t), LS_ERR_FORMAT);
    assert_non_null(strstr(ls_last_error(), "identity"));
    training_destroy(t);
}

static void test_a_longer_run_may_be_asked_for(void **state)
{
    (void)state;
    training *t = tiny_create();
    char weights[65];
    training_must_run(t);
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    training_set(t, "epochs", "2");
    training_must_run(t);
    char checkpoint[1200];
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    training_reset(t);
    training_set(t, "resume", checkpoint);
    training_set(t, "epochs", "3");
    training_must_run(t);
    assert_string_equal(t->result.weights_sha256, weights);
    training_destroy(t);
}

/* What a unit file starts again and again must not train on. */
static void test_a_run_that_has_reached_its_aim_does_no_more(void **state)
{
    (void)state;
    training *t = tiny_create();
    char checkpoint[1200];
    training_set(t, "until", "val_loss<=1e9");
    training_must_run(t);
    assert_true(t->result.reached_until);
    assert_int_equal(t->result.epochs, 1);
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    for (int again = 0; again < 2; again++) {
        training_reset(t);
        training_set(t, "resume", checkpoint);
        training_must_run(t);
        assert_true(t->result.reached_until);
        assert_int_equal(t->step_count, 0);
    }
    training_set(t, "until", "none");
    training_must_run(t);
    assert_int_equal(t->result.epochs, 3);
    training_destroy(t);
}

/* Best and last are what an undisturbed run reports. */
static void test_the_best_epoch_is_not_forgotten(void **state)
{
    (void)state;
    training *t = tiny_create();
    training_set(t, "lr", "0.3");
    training_must_run(t);
    const ls_history_line best = t->result.best;
    t->stop_after = 12;
    training_must_run(t);
    resume(t, "host:2", 0);
    assert_int_equal(t->result.best.epoch, best.epoch);
    assert_true(t->result.best.val_loss == best.val_loss);
    training_destroy(t);
}

/* The folders are named to be mistaken for one another. */
static void test_a_continued_run_writes_into_no_folder_but_its_own(void **state)
{
    (void)state;
    training *t = tiny_create();
    char one[512], ten[512], checkpoint[600];
    snprintf(one, sizeof one, "%s", training_path(t, "checkpoints/run1"));
    snprintf(ten, sizeof ten, "%s", training_path(t, "checkpoints/run10"));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/last.safetensors", ten);
    training_set(t, "out", one);
    training_must_run(t);
    training_set(t, "out", ten);
    training_must_run(t);

    training_reset(t);
    training_set(t, "resume", ten);
    training_set(t, "out", one);
    training_set(t, "epochs", "4");
    assert_int_equal(training_run(t), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "not empty"));

    training_reset(t);
    training_set(t, "resume", ten);
    training_set(t, "epochs", "4");
    training_must_run(t);
    assert_string_equal(t->result.checkpoint, checkpoint);
    snprintf(ten + strlen(ten), 2, "/");
    training_reset(t);
    training_set(t, "resume", checkpoint);
    training_set(t, "out", ten);
    training_set(t, "epochs", "5");
    training_must_run(t);
    training_destroy(t);
}

static void test_evaluation_is_exact_on_any_number_of_replicas(void **state)
{
    (void)state;
    static const char *const devices[] = { "host:1", "host:2", "host:3", "host:8" };
    training *t = tiny_create();
    ls_evaluation result[4];
    training_must_run(t);
    for (int d = 0; d < 4; d++) {
        const ls_evaluation_request request = {
            .checkpoint = t->result.checkpoint, .data = t->config.data, .devices = devices[d],
            .threads = 1, .timeout_s = 60, .want_rows = true, .stuck = training_stuck };
        assert_int_equal(ls_evaluate(&request, &result[d]), LS_OK);
        assert_int_equal(result[d].samples, 9);
        assert_true(result[d].loss == t->result.last.val_loss);
        assert_true(result[d].metric[0] == t->result.last.val_metric[0]);
        assert_memory_equal(result[d].rows, result[0].rows,
                            9 * result[d].columns * sizeof(float));
    }
    for (int d = 0; d < 4; d++) ls_evaluation_free(&result[d]);
    training_destroy(t);
}

/* The loss of t's latest checkpoint on its test part. */
static double loss_on(const training *t, const char *devices, bool raw_weights)
{
    ls_evaluation result;
    const ls_evaluation_request request = {
        .checkpoint = t->result.checkpoint, .data = t->config.data, .devices = devices,
        .threads = 1, .timeout_s = 60, .raw_weights = raw_weights, .stuck = training_stuck };
    assert_int_equal(ls_evaluate(&request, &result), LS_OK);
    const double loss = result.loss;
    ls_evaluation_free(&result);
    return loss;
}

/* What is evaluated is the average of the weights; --weights raw asks for the others. */
static void test_the_average_of_the_weights_is_what_is_evaluated(void **state)
{
    (void)state;
    training *t = tiny_create();
    float kernel[32], average[32], plain[32];
    training_set(t, "optimizer", "sgd");
    training_set(t, "lr", "0.5");
    training_set(t, "ema", "0.9");
    training_set(t, "l2", "0.001");
    training_set(t, "devices", "host:2");
    training_must_run(t);
    training_tensor(t, "weights/dense1/kernel", kernel, 32);
    training_tensor(t, "optimizer/ema/dense1/kernel", average, 32);
    assert_memory_not_equal(kernel, average, sizeof kernel);
    const double raw = loss_on(t, "host:3", true);
    assert_true(loss_on(t, "host:1", false) == t->result.last.val_loss);
    assert_true(raw != t->result.last.val_loss);
    training_set(t, "ema", "off"); /* training itself does not see the average */
    training_must_run(t);
    training_tensor(t, "weights/dense1/kernel", plain, 32);
    assert_memory_equal(plain, kernel, sizeof plain);
    assert_true(t->result.last.val_loss == raw);
    assert_true(loss_on(t, "host:1", false) == raw && loss_on(t, "host:2", true) == raw);
    training_destroy(t);
}

/* One update: the average is what it made of the weights. */
static void test_the_average_begins_with_the_first_update(void **state)
{
    (void)state;
    training *t = tiny_create();
    float kernel[32], average[32];
    training_set(t, "ema", "0.99");
    training_set(t, "steps", "1");
    training_must_run(t);
    training_tensor(t, "weights/dense1/kernel", kernel, 32);
    training_tensor(t, "optimizer/ema/dense1/kernel", average, 32);
    for (int i = 0; i < 32; i++) assert_true(fabsf(kernel[i] - average[i]) <= 1e-7f);
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_momentum_started_on_four_ends_alike_on_any_number),
        cmocka_unit_test(test_interruptions_repeat_and_skip_nothing),
        cmocka_unit_test(test_the_learning_rate_goes_on_where_it_was),
        cmocka_unit_test(test_adam_keeps_its_moments_and_its_count),
        cmocka_unit_test(test_every_optimizer_goes_on_with_the_same_bits),
        cmocka_unit_test(test_the_average_of_the_weights_is_what_is_evaluated),
        cmocka_unit_test(test_the_average_begins_with_the_first_update),
        cmocka_unit_test(test_a_file_of_weights_does_not_resume_but_starts_a_run),
        cmocka_unit_test(test_a_checkpoint_that_makes_no_sense_is_refused_by_name),
        cmocka_unit_test(test_an_impossible_value_is_refused_where_it_is_read),
        cmocka_unit_test(test_a_start_that_fails_leaves_no_folder),
        cmocka_unit_test(test_what_would_change_bits_is_refused_and_shown),
        cmocka_unit_test(test_the_command_that_began_a_run_continues_it),
        cmocka_unit_test(test_other_data_are_refused),
        cmocka_unit_test(test_a_longer_run_may_be_asked_for),
        cmocka_unit_test(test_a_run_that_has_reached_its_aim_does_no_more),
        cmocka_unit_test(test_the_best_epoch_is_not_forgotten),
        cmocka_unit_test(test_a_continued_run_writes_into_no_folder_but_its_own),
        cmocka_unit_test(test_evaluation_is_exact_on_any_number_of_replicas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
