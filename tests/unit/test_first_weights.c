/* SPDX-License-Identifier: MIT */
/* test_first_weights.c -- fine-tuning: some tensors of a checkpoint, the others anew.
 *
 * A model is trained on the digits, ten classes; one with another head, on pictures of three,
 * starts from its body. Frozen tensors are at the end what they were before the first step.
 */
#include "support/test.h"

#include <stdio.h>
#include <unistd.h>

#include "support/training.h"

enum { PICTURES = 24, PIXELS = 64, CLASSES = 3, FLOATS_MAX = 40000, NOTES_BYTES = 4096 };

static const char body[] = "input 8x8x1\nconv 4 3x3\nbatchnorm relu\nflatten\ndense 8 relu\n";
static char notes[NOTES_BYTES];

static void keep_note(void *context, const char *text)
{
    (void)context;
    const size_t used = strlen(notes);
    snprintf(notes + used, sizeof notes - used, "%s\n", text);
}

static void write_npy(training *t, const char *name, const char *header, const void *data,
                      size_t bytes)
{
    FILE *file = fopen(training_path(t, name), "wb");
    assert_non_null(file);
    fprintf(file, "\x93NUMPY\x01%cv%c%-117s\n", 0, 0, header); /* 118 bytes of header */
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Pictures of three classes, as x.npy and y.npy: the brighter, the higher. */
static void write_three_classes(training *t)
{
    float x[PICTURES * PIXELS];
    int32_t y[PICTURES];
    for (int i = 0; i < PICTURES; i++) {
        y[i] = i % CLASSES;
        for (int p = 0; p < PIXELS; p++)
            x[i * PIXELS + p] = (float)(y[i] + 1) * 0.25f + (float)((i * 7 + p * 5) % 11) * 0.03f;
    }
    write_npy(t, "x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (24, 8, 8), }", x,
              sizeof x);
    write_npy(t, "y.npy", "{'descr': '<i4', 'fortran_order': False, 'shape': (24,), }", y,
              sizeof y);
}

/* The model `text` with a dense layer of `classes` at its end, as the file `name`. */
static void write_model(training *t, const char *name, const char *text, int classes)
{
    char whole[400];
    snprintf(whole, sizeof whole, "%sdense %d\nloss softmax-crossentropy\n", text, classes);
    training_write(t, name, whole);
}

/* A trained run of `model` on the digits, and all set to start from it with `three` on three
 * classes; its checkpoint's path in trained[]. */
static training *start(const char *model, const char *text, char trained[1200])
{
    training *t = training_create();
    char data[600];
    notes[0] = '\0';
    write_model(t, "three.model", text, CLASSES);
    write_model(t, "ten.model", text, 10);
    training_set(t, "model", model ? model : training_path(t, "ten.model"));
    training_set(t, "data", "digits");
    training_set(t, "steps", "3");
    training_set(t, "lr", "0.01");
    training_must_run(t);
    memcpy(trained, t->result.checkpoint, 1200);
    write_three_classes(t);
    snprintf(data, sizeof data, "npy:%s,%s", training_path(t, "x.npy"),
             training_path(t, "y.npy"));
    training_set(t, "model", training_path(t, "three.model"));
    training_set(t, "data", data);
    training_set(t, "global-batch", "8");
    training_set(t, "init", trained);
    t->observer.note = keep_note;
    return t;
}

/* Is `tensor` of the latest run the bits of that in the checkpoint at `path`? */
static bool is_as_in(training *t, const char *path, const char *tensor, size_t count)
{
    static float here[FLOATS_MAX], there[FLOATS_MAX];
    training other = { .runs = 0 };
    assert_true(count <= FLOATS_MAX);
    snprintf(other.result.checkpoint, sizeof other.result.checkpoint, "%s", path);
    training_tensor(t, tensor, here, count);
    training_tensor(&other, tensor, there, count);
    return memcmp(here, there, count * sizeof *here) == 0;
}

static const char cnn[] = "input 8x8x1\nconv 16 3x3 pad=same relu\nconv 32 3x3 pad=same relu\n"
                          "maxpool 2x2\nflatten\ndropout 0.25\ndense 64 relu\n";

static void test_a_new_head_starts_anew_on_a_trained_body_for_any_number_of_replicas(void **state)
{
    (void)state;
    static const char *const devices[] = { "host:1", "host:2", "host:3" };
    char trained[1200], drawn[1200];
    training_bits one;
    training *t = start("digits-cnn", cnn, trained);
    training_set(t, "rules", "conv*=freeze;dense1/*=freeze;dense2/kernel=freeze");
    for (int d = 0; d < 3; d++) {
        notes[0] = '\0';
        training_set(t, "devices", devices[d]);
        training_set(t, "init", trained);
        training_set(t, "init-only", "conv*, dense1/*");
        training_must_run(t);
        if (d == 0) training_remember(t, &one);
        assert_true(training_same(t, &one, devices[d]));
        assert_true(is_as_in(t, trained, "weights/conv1/kernel", 144));
        assert_true(is_as_in(t, trained, "weights/conv1/bias", 16));
        assert_true(is_as_in(t, trained, "weights/conv2/kernel", 4608));
        assert_true(is_as_in(t, trained, "weights/dense1/kernel", 32768));
        assert_non_null(strstr(notes, ": conv1/kernel, conv1/bias, conv2/kernel, conv2/bias, "
                                      "dense1/kernel, dense1/bias\n"));
        assert_non_null(strstr(notes, "begins anew: dense2/kernel, dense2/bias\n"));
    }
    t->config.init[0] = t->config.init_only[0] = '\0';
    memcpy(drawn, t->result.checkpoint, sizeof drawn);
    training_must_run(t);
    assert_true(is_as_in(t, drawn, "weights/dense2/kernel", 64 * CLASSES));
    assert_false(is_as_in(t, drawn, "weights/conv1/kernel", 144));
    training_destroy(t);
}

static void test_statistics_are_taken_by_name_and_an_average_begins_as_the_weights(void **state)
{
    (void)state;
    static const char *const rest[] = { "weights/conv1/kernel", "weights/batchnorm1/gamma" };
    char trained[1200], before[1200];
    training *t = start(NULL, body, trained);
    training_set(t, "rules", "conv1/*=freeze;batchnorm1/*=freeze;dense1/*=freeze");
    training_set(t, "ema", "0.5");
    training_set(t, "steps", "1");
    training_set(t, "init-only", "conv1/*,batchnorm1/*,dense1/*");
    training_must_run(t);
    for (int i = 0; i < 2; i++)
        assert_true(is_as_in(t, trained, rest[i], i == 0 ? 36 : 4));
    memcpy(before, t->result.checkpoint, sizeof before);
    float average[36], kernel[36];
    training_tensor(t, "optimizer/ema/conv1/kernel", average, 36);
    training_tensor(t, "weights/conv1/kernel", kernel, 36);
    assert_memory_equal(average, kernel, sizeof kernel);
    training_set(t, "init-only", "conv1/*,batchnorm1/gamma,batchnorm1/beta,dense1/*");
    training_must_run(t); /* statistics from the start, moved once: others than those above */
    assert_true(is_as_in(t, before, "weights/conv1/kernel", 36));
    assert_false(is_as_in(t, before, "statistics/batchnorm1/mean", 4));
    assert_non_null(strstr(notes, "begins anew: dense2/kernel, dense2/bias, batchnorm1/mean, "
                                  "batchnorm1/variance\n"));
    training_destroy(t);
}

/* Only one of the two runs has standardised data. Other scales are not compared. */
static void test_weights_from_data_of_another_scale_are_told(void **state)
{
    (void)state;
    static const char *const data[] = { "digits,scale=none", "digits,scale=standard", "digits" };
    static const char *const says[] = { "scale=16, these have scale=standard: say scale=16 in",
                                        "scale=standard, these have scale=16: say scale=standard" };
    char trained[1200];
    training *t = training_create();
    training_set(t, "model", "linear");
    training_set(t, "steps", "1");
    t->observer.note = keep_note;
    for (int from = 0; from < 3; from++) {
        training_set(t, "data", data[from]);
        t->config.init[0] = '\0';
        training_must_run(t);
        memcpy(trained, t->result.checkpoint, sizeof trained);
        training_set(t, "init", trained);
        for (int to = 0; to < 3; to++) {
            notes[0] = '\0';
            training_set(t, "data", data[to]);
            training_must_run(t);
            const bool differs = (from == 1) != (to == 1);
            if ((strstr(notes, "were trained on data of scale=") != NULL) != differs)
                fail_msg("%s to %s: %s", data[from], data[to], notes);
            if (from == 2 && to == 1) assert_non_null(strstr(notes, says[0]));
            if (from == 1 && to == 2) assert_non_null(strstr(notes, says[1]));
        }
    }
    training_destroy(t);
}

static void test_what_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *only;
        ls_status status;
        const char *says;
    } wrong[] = {
        { "conv*,dnse1/bias", LS_ERR_ARGUMENT, "--init-only: 'dnse1/bias' matches no tensor of the "
                                               "model or of the checkpoint; the nearest is "
                                               "dense1/bias" },
        { "conv*,,dense1/*", LS_ERR_ARGUMENT, "--init-only: '' matches no tensor" },
        { "conv*,", LS_ERR_ARGUMENT, "--init-only: '' matches no tensor" },
        { "*", LS_ERR_FORMAT, "2 tensors do not fit model" },
        { "dense2/kernel", LS_ERR_FORMAT, "1 tensor does not fit model" },
        { "dense*/bias", LS_ERR_FORMAT, "misshapen weights/dense2/bias is F32 [10], expected F32 "
                                        "[3]" },
    };
    char trained[1200];
    training *t = start(NULL, body, trained);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        training_set(t, "init-only", wrong[i].only);
        assert_int_equal(training_run(t), wrong[i].status);
        if (!strstr(ls_last_error(), wrong[i].says)) fail_msg("%s", ls_last_error());
    }
    write_model(t, "deep.model", "input 8x8x1\nflatten\nextra = dense 8 relu\n", CLASSES);
    training_set(t, "model", training_path(t, "deep.model"));
    training_set(t, "init-only", "extra/*");
    assert_int_equal(training_run(t), LS_ERR_FORMAT);
    assert_non_null(strstr(ls_last_error(), "missing weights/extra/kernel"));
    training_set(t, "init-only", "conv1/kernel");
    assert_int_equal(training_run(t), LS_ERR_FORMAT);
    assert_non_null(strstr(ls_last_error(), "extra weights/conv1/kernel"));
    t->config.init[0] = '\0';
    assert_int_equal(training_run(t), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "--init-only conv1/kernel needs --init"));
    training_destroy(t);
}

static void test_a_run_that_continues_does_not_start_from_the_checkpoint_again(void **state)
{
    (void)state;
    char trained[1200], half[1200];
    training_bits whole;
    training *t = start(NULL, body, trained);
    training_set(t, "init-only", "conv*,batchnorm*,dense1/*");
    training_set(t, "steps", "4");
    training_must_run(t);
    training_remember(t, &whole);
    training_set(t, "steps", "2");
    training_must_run(t);
    memcpy(half, t->result.checkpoint, sizeof half);
    ls_config saved;
    assert_int_equal(ls_checkpoint_config(half, &saved), LS_OK);
    assert_string_equal(saved.init_only, "conv*,batchnorm*,dense1/*");
    assert_int_equal(unlink(trained), 0);
    training_reset(t);
    notes[0] = '\0';
    training_set(t, "resume", half);
    training_set(t, "devices", "host:2");
    training_set(t, "steps", "4");
    training_must_run(t);
    assert_true(training_same(t, &whole, "continued"));
    assert_null(strstr(notes, "taken"));
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_a_new_head_starts_anew_on_a_trained_body_for_any_number_of_replicas),
        cmocka_unit_test(
            test_statistics_are_taken_by_name_and_an_average_begins_as_the_weights),
        cmocka_unit_test(test_weights_from_data_of_another_scale_are_told),
        cmocka_unit_test(test_what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(test_a_run_that_continues_does_not_start_from_the_checkpoint_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
