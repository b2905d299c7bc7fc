/* SPDX-License-Identifier: MIT */
/* test_resume_refused.c -- a run is not continued, and none is begun, from what does not fit.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/checkpoint.h"
#include "support/training.h"

static void test_a_file_of_weights_does_not_resume_but_starts_a_run(void **state)
{
    (void)state;
    training *t = training_tiny();
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
    training *t = training_tiny();
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
    training *t = training_tiny();
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
                                              { "weight-decay", "0.2" }, { "init", "elsewhere" },
                                              { "rules", "*=lr:0.1" },
                                              { "schedule", "table:0.1" } };
    training *t = training_tiny();
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

static void test_other_data_are_refused(void **state)
{
    (void)state;
    training *t = training_tiny();
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_of_weights_does_not_resume_but_starts_a_run),
        cmocka_unit_test(test_a_checkpoint_that_makes_no_sense_is_refused_by_name),
        cmocka_unit_test(test_an_impossible_value_is_refused_where_it_is_read),
        cmocka_unit_test(test_a_start_that_fails_leaves_no_folder),
        cmocka_unit_test(test_what_would_change_bits_is_refused_and_shown),
        cmocka_unit_test(test_other_data_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
