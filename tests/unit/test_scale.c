/* SPDX-License-Identifier: MIT */
/* test_scale.c -- what a model was trained with is what it is applied with: the scale of its data.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "io/checkpoint.h"
#include "support/data_folder.h"
#include "support/training.h"

enum { FEW = 12, COLUMNS = 3 }; /* records applied to; classes */

/* TINY's table, also its first FEW lines alone, whose mean and deviation are not the table's. */
static training *create(const char *keys)
{
    training *t = training_tiny();
    char *lines = training_table(11, 46, 4, COLUMNS), *end = lines, data[700];
    for (int i = 0; i < FEW; i++) end = strchr(end, '\n') + 1;
    *end = '\0';
    training_write(t, "few.csv", lines);
    free(lines);
    snprintf(data, sizeof data, "csv:%s,test=none%s", training_path(t, "data.csv"), keys);
    training_set(t, "data", data);
    training_must_run(t);
    return t;
}

static ls_status apply(const char *checkpoint, const char *data, ls_evaluation *result)
{
    return ls_evaluate(&(ls_evaluation_request){
        .checkpoint = checkpoint, .data = data, .devices = "host:2", .threads = 1,
        .timeout_s = 60, .train_part = true, .want_rows = true, .stuck = training_stuck }, result);
}

static void must_apply(const char *checkpoint, const char *data, ls_evaluation *result)
{
    if (apply(checkpoint, data, result) != LS_OK) fail_msg("%s: %s", data, ls_last_error());
}

/* Are the predictions for few.csv, with these keys, those for the same records of the training?
 * The note must have these words, or, for NULL, none of a scale. */
static void check_few(training *t, const char *keys, const char *words, bool same)
{
    char data[700];
    ls_evaluation whole, few;
    snprintf(data, sizeof data, "csv:%s,test=none%s", training_path(t, "few.csv"), keys);
    must_apply(t->result.checkpoint, t->config.data, &whole);
    assert_string_equal(whole.data_note, "");
    must_apply(t->result.checkpoint, data, &few);
    assert_int_equal(few.samples, FEW);
    if (words ? !strstr(few.data_note, words) : strstr(few.data_note, "; ") != NULL)
        fail_msg("%s: '%s', expected '%s'", keys, few.data_note, words ? words : "no scale");
    assert_non_null(strstr(few.data_note, "is not the data of the training run"));
    const size_t bytes = FEW * COLUMNS * sizeof(float);
    if ((memcmp(whole.rows, few.rows, bytes) == 0) != same)
        fail_msg("'%s': predictions are %s", keys, same ? "others" : "the same");
    ls_evaluation_free(&whole);
    ls_evaluation_free(&few);
}

static void test_other_data_get_the_mean_and_deviation_of_the_training(void **state)
{
    (void)state;
    training *t = create(",scale=standard");
    check_few(t, ",scale=standard", "scale=standard of the training run is taken, with its mean",
              true);
    check_few(t, "", "scale=standard of the training run is taken, with its mean", true);
    check_few(t, ",scale=none", "scale=none is given, but the training run had "
              "scale=standard", false);
    training_destroy(t);
}

static void test_other_data_get_the_fixed_scale_of_the_training(void **state)
{
    (void)state;
    training *t = create(",scale=16");
    check_few(t, ",scale=16", NULL, true);
    check_few(t, "", "scale=16 of the training run is taken", true);
    check_few(t, ",scale=255", "scale=255", false);
    check_few(t, ",scale=standard", "scale=standard", false);
    training_destroy(t);
    t = create("");
    check_few(t, "", NULL, true);
    check_few(t, ",scale=standard", "scale=standard is given, but the training run had "
              "scale=none", false);
    training_destroy(t);
}

static void test_the_same_data_without_a_scale_are_the_data_of_the_training(void **state)
{
    (void)state;
    training *t = create(",scale=standard");
    char data[700];
    ls_evaluation result;
    snprintf(data, sizeof data, "csv:%s,test=none", training_path(t, "data.csv"));
    must_apply(t->result.checkpoint, data, &result);
    assert_string_equal(result.data_note, "no scale key is given: scale=standard of the training "
                        "run is taken, with its mean and deviation");
    assert_true(isfinite(result.loss));
    ls_evaluation_free(&result);
    training_destroy(t);
}

/* Bytes become floats by a table, on the device. */
static void test_pictures_get_the_mean_and_deviation_of_the_training(void **state)
{
    (void)state;
    training *t = training_create();
    char data[700];
    ls_evaluation whole, few;
    snprintf(data, sizeof data, "%s,scale=standard", training_pictures(t, 40));
    training_set(t, "model", "linear");
    training_set(t, "data", data);
    training_set(t, "epochs", "1");
    training_must_run(t);
    must_apply(t->result.checkpoint, data, &whole);
    (void)training_pictures(t, 10); /* the first of them, in the same place */
    must_apply(t->result.checkpoint, data, &few);
    assert_int_equal(few.samples, 10);
    assert_memory_equal(whole.rows, few.rows, 10 * few.columns * sizeof(float));
    ls_evaluation_free(&whole);
    ls_evaluation_free(&few);
    training_destroy(t);
}

static void test_data_of_another_width_are_refused(void **state)
{
    (void)state;
    training *t = create(",scale=standard");
    char data[700];
    ls_evaluation result;
    training_write(t, "narrow.csv", "1,2,3,0\n4,5,6,1\n7,8,9,2\n");
    snprintf(data, sizeof data, "csv:%s,test=none", training_path(t, "narrow.csv"));
    assert_int_equal(apply(t->result.checkpoint, data, &result), LS_ERR_FORMAT);
    assert_non_null(strstr(ls_last_error(), "a sample has 3 fields, expected 4"));
    training_destroy(t);
}

/* Floats of 0 .. 255 are what the bytes were, to a rounding of the unit. */
static void test_bytes_and_floats_of_one_value_are_scaled_alike(void **state)
{
    (void)state;
    enum { COUNT = 6, NUMBERS = 8 };
    unsigned char byte[COUNT * NUMBERS], label[COUNT] = { 0, 1, 0, 1, 0, 1 };
    float number[COUNT * NUMBERS];
    for (int i = 0; i < COUNT * NUMBERS; i++) number[i] = byte[i] = (unsigned char)(i * i * 7);
    data_folder_npy(folder, "y.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }", label, COUNT);
    data_folder_npy(folder, "u8.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 2, 2, 2), }", byte,
                    sizeof byte);
    data_folder_npy(folder, "f32.npy",
                    "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2, 2, 2), }", number,
                    sizeof number);
    const char *path = data_folder_path(folder);
    const char *const from[] = { "u8", "f32" };
    for (int k = 0; k < 2; k++) {
        char other[1200];
        ls_dataset *there = NULL;
        ls_dataset *here = must_open("npy:%s/%s.npy,%s/y.npy,scale=standard", path, from[k], path);
        const ls_scale_rule rule = ls_dataset_scale_rule(here);
        snprintf(other, sizeof other, "npy:%s/%s.npy,%s/y.npy", path, from[1 - k], path);
        assert_int_equal(ls_dataset_open_scaled(other, &rule, &there), LS_OK);
        assert_int_equal(ls_dataset_scale_origin(there), LS_SCALE_TAKEN);
        for (size_t n = 0; n < COUNT; n++) {
            float x[NUMBERS], y[NUMBERS];
            ls_dataset_read(here, LS_PART_TRAIN, n, x);
            ls_dataset_read(there, LS_PART_TRAIN, n, y);
            for (int i = 0; i < NUMBERS; i++)
                assert_true(fabsf(x[i] - y[i]) <= 0x1p-23f * fabsf(x[i]) + 1e-12f);
        }
        ls_dataset_close(there);
        ls_dataset_close(here);
    }
}

/* -- in the checkpoint ------------------------------------------------------------------------- */

static void test_a_resumed_run_keeps_its_bits_and_its_scale(void **state)
{
    (void)state;
    training *t = create(",scale=standard");
    char weights[65], optimizer[65], checkpoint[1200], first[1200];
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    memcpy(optimizer, t->result.optimizer_sha256, sizeof optimizer);
    memcpy(first, t->result.checkpoint, sizeof first);
    t->stop_after = 7;
    training_must_run(t);
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    training_reset(t);
    training_set(t, "resume", checkpoint);
    training_set(t, "devices", "host:3");
    training_must_run(t);
    assert_string_equal(t->result.weights_sha256, weights);
    assert_string_equal(t->result.optimizer_sha256, optimizer);
    const char *const path[] = { first, t->result.checkpoint };
    char digest[2][65];
    for (int i = 0; i < 2; i++) {
        ls_checkpoint *c;
        assert_int_equal(ls_checkpoint_open(path[i], &c), LS_OK);
        assert_int_equal(ls_checkpoint_group_sha256(c, "scale/", digest[i]), LS_OK);
        assert_int_equal(strlen(digest[i]), 64);
        assert_string_equal(ls_checkpoint_text(c, "scale"), "standard 1");
        ls_checkpoint_close(c);
    }
    assert_string_equal(digest[0], digest[1]);
    training_destroy(t);
}

/* A run's checkpoint again at `to`, sound, with another text of the scale (NULL: none, as earlier
 * versions wrote) and, if `tensor` is not NULL, another value there; no scale's tensors at all for
 * NULL or "". */
static void forge(const char *from, const char *to, const char *text, const char *tensor,
                  double value)
{
    enum { TENSORS_MAX = 32, CHANNELS_MAX = 8 };
    static const char *const keys[] = { "format", "class", "step", "epoch", "step_of_epoch",
                                        "epoch_sums", "guard", "callbacks", "best", "last", "world",
                                        "data", "data_identity", "model_name", "model", "config",
                                        "scale" };
    enum { KEY_COUNT = sizeof keys / sizeof keys[0] };
    ls_checkpoint *c;
    ls_saved_tensor out[TENSORS_MAX];
    ls_saved_text texts[KEY_COUNT];
    double changed[CHANNELS_MAX];
    int count = 0;
    assert_int_equal(ls_checkpoint_open(from, &c), LS_OK);
    for (int i = 0; i < ls_checkpoint_tensor_count(c); i++) {
        out[count] = *ls_checkpoint_tensor_at(c, i);
        if (strncmp(out[count].name, "scale/", 6) == 0 && !tensor) continue;
        if (tensor && strcmp(out[count].name, tensor) == 0) {
            memcpy(changed, out[count].data, ls_saved_tensor_count(&out[count]) * sizeof *changed);
            changed[1] = value;
            out[count].data = changed;
        }
        count++;
    }
    for (int k = 0; k < KEY_COUNT; k++)
        texts[k] = (ls_saved_text){ keys[k], ls_checkpoint_text(c, keys[k]) };
    texts[KEY_COUNT - 1].text = text;
    assert_int_equal(ls_checkpoint_save(to, out, count, texts, KEY_COUNT - !text), LS_OK);
    ls_checkpoint_close(c);
}

static void test_a_scale_that_no_run_could_have_saved_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *tensor;
        double value;
        const char *words;
    } wrong[] = {
        { "", NULL, 0, "its scale is \"\"" },
        { "standard", NULL, 0, "its scale is \"standard\"" },
        { "standard -1", NULL, 0, "standard UNIT" },
        { "divide 0", NULL, 0, "divide D" },
        { "divide 2x", NULL, 0, "divide D" },
        { "standard 1", NULL, 0, "no tensor scale/mean" },
        { "standard 1", "scale/mean", (double)NAN, "scale/mean: element 1 is" },
        { "standard 1", "scale/deviation", 0, "scale/deviation: element 1 is 0, expected a finite "
                                              "number above 0" },
    };
    training *t = create(",scale=standard");
    char path[600];
    ls_evaluation result;
    snprintf(path, sizeof path, "%s", training_path(t, "wrong.safetensors"));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        forge(t->result.checkpoint, path, wrong[i].text, wrong[i].tensor, wrong[i].value);
        assert_int_equal(apply(path, t->config.data, &result), LS_ERR_FORMAT);
        if (!strstr(ls_last_error(), path) || !strstr(ls_last_error(), wrong[i].words))
            fail_msg("'%s': %s", wrong[i].text, ls_last_error());
    }
    training_destroy(t);
}

static void test_a_checkpoint_without_a_scale_goes_on_and_is_applied_with_a_warning(void **state)
{
    (void)state;
    training *t = create(",scale=standard");
    char path[600], data[700];
    ls_evaluation result;
    snprintf(path, sizeof path, "%s", training_path(t, "old.safetensors"));
    forge(t->result.checkpoint, path, NULL, NULL, 0);
    must_apply(path, t->config.data, &result);
    assert_string_equal(result.data_note, "");
    ls_evaluation_free(&result);
    snprintf(data, sizeof data, "csv:%s,test=none,scale=standard", training_path(t, "few.csv"));
    must_apply(path, data, &result);
    assert_non_null(strstr(result.data_note, "it was trained with scale=standard"));
    ls_evaluation_free(&result);
    training_reset(t);
    training_set(t, "resume", path);
    training_set(t, "epochs", "4");
    training_set(t, "out", training_path(t, "goes-on"));
    training_must_run(t);
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_data_get_the_mean_and_deviation_of_the_training),
        cmocka_unit_test(test_other_data_get_the_fixed_scale_of_the_training),
        cmocka_unit_test(test_the_same_data_without_a_scale_are_the_data_of_the_training),
        cmocka_unit_test(test_pictures_get_the_mean_and_deviation_of_the_training),
        cmocka_unit_test(test_data_of_another_width_are_refused),
        cmocka_unit_test_setup_teardown(test_bytes_and_floats_of_one_value_are_scaled_alike,
                                        make_folder, remove_folder),
        cmocka_unit_test(test_a_resumed_run_keeps_its_bits_and_its_scale),
        cmocka_unit_test(test_a_scale_that_no_run_could_have_saved_is_refused),
        cmocka_unit_test(test_a_checkpoint_without_a_scale_goes_on_and_is_applied_with_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
