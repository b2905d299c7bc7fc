/* SPDX-License-Identifier: MIT */
/* test_model.c -- model files: what they mean.
 *
 * Shapes are checked against a walk over windows and what padding promises, parameters and initial
 * weights against the formulas of docs/numerics.md written out here again.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "philox.h"
#include "support/models.h"
#include "train/model.h"

/* -- shapes --------------------------------------------------------------------------------- */

/* Whole windows of k in 0 .. n-1 that start at 0, s, 2s ... */
static size_t count_windows(int n, int k, int s)
{
    size_t count = 0;
    for (int begin = 0; begin + k <= n; begin += s) count++;
    return count;
}

/* What padding `same` promises: ceil(n / s) windows; each holds an element; no more padding than
 * needed; as much before as after, or one less. */
static void check_same(int n, int k, int s, int out, int pad)
{
    const int last = (out - 1) * s - pad, after = last + k - n;
    assert_int_equal(out, (n + s - 1) / s);
    assert_true(pad >= 0 && pad < k && last < n);
    if (after > 0) assert_true(after == pad || after == pad + 1);
    else assert_int_equal(pad, 0);
}

static void test_valid_and_same_windows_are_those_that_a_walk_finds(void **state)
{
    (void)state;
    for (int n = 1; n <= 12; n++) {
        for (int k = 1; k <= 6; k++) {
            for (int s = 1; s <= 5; s++) {
                char text[160];
                const char *format = "input %dx9x2\nconv 3 %dx2 stride=%dx1 pad=%s\nflatten\n"
                                     "dense 2\nloss mse\n";
                snprintf(text, sizeof text, format, n, k, s, "same");
                ls_model same = model_of(text, NULL);
                const ls_conv_shape *c = &same.layer[1].conv;
                check_same(n, k, s, (int)c->out_height, (int)c->pad_top);
                check_same(9, 2, 1, (int)c->out_width, (int)c->pad_left);
                ls_model_free(&same);

                snprintf(text, sizeof text, format, n, k, s, "valid");
                ls_model valid;
                const ls_status status = ls_model_init(&valid, "m", text, NULL);
                assert_int_equal(status, k <= n ? LS_OK : LS_ERR_ARGUMENT);
                if (status != LS_OK) continue;
                assert_int_equal(valid.layer[1].out.height, count_windows(n, k, s));
                assert_int_equal(valid.layer[1].conv.pad_top, 0);
                ls_model_free(&valid);
            }
        }
    }
}

static void test_same_padding_is_that_of_the_tensorflow_guide(void **state)
{
    (void)state; /* width 13, window 6, stride 5: 1 before, 2 after, 3 windows */
    ls_model m = model_of("input 1x13x1\nconv 1 1x6 stride=5 pad=same\nflatten\ndense 1\nloss mse",
                          NULL);
    assert_int_equal(m.layer[1].out.width, 3);
    assert_int_equal(m.layer[1].conv.pad_left, 1);
    ls_model_free(&m);
}

static void test_a_pool_strides_by_its_window_unless_told(void **state)
{
    (void)state;
    ls_model m = model_of("input 9x9x4\nmaxpool 3x2\nmaxpool 2x2 stride=1\nmaxpool 2x2 pad=same\n"
                          "flatten\ndense 2\nloss mse", NULL);
    assert_int_equal(m.layer[1].out.height, 3);
    assert_int_equal(m.layer[1].out.width, 4);
    assert_int_equal(m.layer[2].pool.stride_height, 1);
    assert_int_equal(m.layer[2].out.height, 2);
    assert_int_equal(m.layer[2].out.width, 3);
    assert_int_equal(m.layer[3].out.height, 1);
    assert_int_equal(m.layer[3].out.width, 2);
    assert_int_equal(m.layer[3].out.channels, 4);
    assert_int_equal(m.layer[4].out.channels, 8);
    ls_model_free(&m);
}

/* -- built-in models ------------------------------------------------------------------------ */

static void test_every_built_in_model_fits_its_data(void **state)
{
    (void)state;
    const struct {
        const char *name;
        const ls_dataset_info *data;
        size_t parameters;
    } known[] = { { "digits-cnn", &digits_info, 160 + 4640 + 512 * 64 + 64 + 650 },
                  { "cifar10-cnn", &cifar_info, 896 + 460864 + 650 },
                  { "mnist-mlp", &mnist_info, 100480 + 8256 + 650 },
                  { "mlp", &mnist_info, 784 * 128 + 128 + 1290 },
                  { "mlp", &diabetes_info, 10 * 128 + 128 + 129 },
                  { "linear", &diabetes_info, 11 } };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ls_model m;
        assert_int_equal(ls_model_init(&m, known[i].name, ls_model_builtin(known[i].name),
                                       known[i].data), LS_OK);
        assert_int_equal(m.parameter_total, known[i].parameters);
        assert_int_equal(m.loss, known[i].data->task == LS_TASK_REGRESS
                                     ? LS_LOSS_MSE : LS_LOSS_SOFTMAX_CROSSENTROPY);
        ls_model_free(&m);
    }
    for (const char *const *name = ls_model_builtin_names(); *name; name++) {
        assert_non_null(ls_model_builtin(*name));
    }
    assert_null(ls_model_builtin("no-such-model"));
}

/* Weights that are trained, and all numbers that a checkpoint of weights has, as published:
 * torchvision's resnet18 and resnet50, the resnet20 of Keras' CIFAR-10 example. */
static void test_the_residual_networks_have_the_published_numbers_of_weights(void **state)
{
    (void)state;
    const struct {
        const char *name;
        size_t trained, all;
        int layers; /* convolutions and dense layers off the shortcuts: the name's number */
        double macs;
    } known[] = { { "resnet20", 273066, 274442, 20, 40.8e6 },
                  { "resnet18", 11689512, 11689512 + 2 * 4800, 18, 1.814e9 },
                  { "resnet50", 25557032, 25557032 + 2 * 26560, 50, 4.089e9 } };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ls_model m = model_of(ls_model_builtin(known[i].name), NULL);
        size_t moving = 0;
        int layers = 0;
        for (int s = 0; s < m.statistic_count; s++) moving += m.statistic[s].count;
        for (int l = 0; l < m.layer_count; l++) {
            const ls_layer *layer = &m.layer[l];
            const bool is_shortcut = layer->op == LS_OP_CONV && layer->input[0] != l - 1;
            layers += layer->kernel >= 0 && !is_shortcut;
            assert_true(layer->is_used);
        }
        double forward, step;
        ls_model_macs(&m, &forward, &step);
        assert_int_equal(m.parameter_total, known[i].trained);
        assert_int_equal(m.parameter_total + moving, known[i].all);
        assert_int_equal(layers, known[i].layers);
        assert_true(fabs(forward / known[i].macs - 1) < 0.01);
        ls_model_free(&m);
    }
}

static void test_a_residual_network_fits_its_data(void **state)
{
    (void)state;
    static const char *const names[] = { "resnet20", "resnet18", "resnet50" };
    ls_dataset_info dot = digits_info; /* an image of one pixel */
    dot.height = dot.width = 1;
    const ls_dataset_info *const data[] = { &digits_info, &cifar_info, &mnist_info, &dot };
    for (int i = 0; i < 3; i++) {
        for (int d = 0; d < 4; d++) {
            ls_model m = model_of(ls_model_builtin(names[i]), data[d]);
            assert_int_equal(m.layer[0].out.height, data[d]->height);
            assert_int_equal(ls_model_outputs(&m), 10);
            assert_int_equal(m.layer[m.layer_count - 2].out.height, 1);
            ls_model_free(&m);
        }
    }
}

static void test_cifar10_cnn_is_the_tutorials(void **state)
{
    (void)state;
    ls_model m = model_of(ls_model_builtin("cifar10-cnn"), &cifar_info);
    static const char *const names[] = { "conv1/kernel", "conv1/bias", "dense1/kernel",
                                         "dense1/bias", "dense2/kernel", "dense2/bias" };
    assert_int_equal(m.parameter_count, 6);
    for (int p = 0; p < 6; p++) assert_string_equal(m.parameter[p].name, names[p]);
    const size_t conv[4] = { 32, 3, 3, 3 };
    assert_memory_equal(m.parameter[0].shape, conv, sizeof conv);
    assert_int_equal(m.parameter[2].shape[0], 64);
    assert_int_equal(m.parameter[2].shape[1], 7200);
    double forward, step;
    ls_model_macs(&m, &forward, &step);
    assert_true(forward == 777600.0 + 460800 + 640);
    assert_true(step == 2 * 777600.0 + 3 * (460800.0 + 640));
    ls_model_free(&m);
}

static void test_text_without_auto_can_be_read_without_the_data(void **state)
{
    (void)state;
    ls_model m = model_of("input auto # a\nflatten\nout = dense  auto bias=no\nloss auto # z",
                          &digits_info);
    assert_string_equal(m.text, "input 8x8x1 # a\nflatten\nout = dense  10 bias=no\n"
                                "loss softmax-crossentropy # z");
    ls_model again = model_of(m.text, NULL);
    assert_string_equal(again.text, m.text);
    assert_int_equal(again.parameter_total, m.parameter_total);
    ls_model_free(&again);
    ls_model_free(&m);
}

/* -- the arena ------------------------------------------------------------------------------ */

static void test_the_arena_holds_the_last_layer_first(void **state)
{
    (void)state;
    ls_model m = model_of(ls_model_builtin("digits-cnn"), &digits_info);
    size_t end = 0;
    for (int i = m.layer_count - 1; i >= 0; i--) {
        const int own[2] = { m.layer[i].kernel, m.layer[i].bias };
        for (int k = 0; k < 2; k++) {
            if (own[k] < 0) continue;
            const ls_parameter *p = &m.parameter[own[k]];
            assert_int_equal(p->begin, (end + 31) / 32 * 32);
            assert_int_equal(p->layer, i);
            assert_int_equal(p->is_kernel, k == 0);
            end = p->begin + p->count;
        }
    }
    assert_int_equal(m.arena_floats, (end + 31) / 32 * 32);
    ls_model_free(&m);
}

/* Element e of a kernel, by the formula. */
static float initial_weight(uint64_t seed, uint32_t ordinal, size_t e, double fan_sum)
{
    const uint32_t counter[4] = { (uint32_t)(e / 4), 0, 0, 1u << 16 | ordinal };
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t word[4];
    ls_philox(counter, key, word);
    return (float)(sqrt(6 / fan_sum) * (ldexp((double)word[e % 4], -31) - 1));
}

static void test_initial_weights_are_addressed_by_layer_and_element(void **state)
{
    (void)state;
    const uint64_t seed = 0x123456789abcdef0u;
    ls_model m = model_of("input 5x5x3\nrelu\nconv 7 3x2\nflatten\ndropout 0.5\ndense 3\nloss mse",
                          NULL);
    float *w = malloc(m.arena_floats * sizeof *w);
    bool *seen = calloc(m.arena_floats, sizeof *seen);
    assert_true(w && seen);
    memset(w, 0xff, m.arena_floats * sizeof *w);
    ls_model_init_weights(&m, seed, w);
    const double fans[2] = { 3 * 2 * (3 + 7), 3 * 4 * 7 + 3 };
    const uint32_t ordinal[2] = { 2, 5 };
    for (int p = 0; p < m.parameter_count; p++) {
        const ls_parameter *t = &m.parameter[p];
        for (size_t e = 0; e < t->count; e++) {
            const float want = t->is_kernel ? initial_weight(seed, ordinal[p / 2], e, fans[p / 2])
                                            : 0;
            assert_memory_equal(&w[t->begin + e], &want, sizeof want);
            assert_false(seen[t->begin + e]);
            seen[t->begin + e] = true;
        }
    }
    const float zero = 0;
    for (size_t i = 0; i < m.arena_floats; i++) {
        if (!seen[i]) assert_memory_equal(&w[i], &zero, sizeof zero);
    }
    free(seen);
    free(w);
    ls_model_free(&m);
}

/* -- what a line means ---------------------------------------------------------------------- */

static void test_names_counts_and_connections(void **state)
{
    (void)state;
    ls_model m = model_of("\xef\xbb\xbf\tinput 16 \r\n\r\n# c\nfirst = dense 8 relu#c\r\n"
                          "  dense 4 bias=no from first\nrelu\ndropout 0\n"
                          "loss mse from dropout1", NULL);
    static const char *const names[] = { "input", "first", "dense2", "relu1", "dropout1" };
    static const int lines[] = { 1, 4, 5, 6, 7 };
    assert_int_equal(m.layer_count, 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(m.layer[i].name, names[i]);
        assert_int_equal(m.layer[i].input[0], i - 1);
        assert_int_equal(m.layer[i].ordinal, i);
        assert_int_equal(m.layer[i].line, lines[i]);
    }
    assert_true(m.layer[1].relu && m.layer[1].has_bias);
    assert_false(m.layer[2].relu || m.layer[2].has_bias);
    assert_int_equal(m.layer[2].bias, -1);
    assert_int_equal(m.parameter_count, 3);
    ls_model_free(&m);
}

static void test_a_row_of_data_may_feed_an_image_of_as_many_numbers(void **state)
{
    (void)state;
    const ls_dataset_info row = { .height = 1, .width = 1, .channels = 784, .classes = 10 };
    ls_model m = model_of(ls_model_builtin("mnist-mlp"), &row);
    assert_int_equal(m.layer[0].out.height, 28);
    ls_model_free(&m);
    m = model_of("input 64\ndense 10\nloss softmax-crossentropy", &digits_info);
    assert_int_equal(m.layer[0].out.channels, 64);
    ls_model_free(&m);
}

static void test_a_model_may_have_more_outputs_than_the_data_have_classes(void **state)
{
    (void)state;
    ls_dataset_info few = digits_info;
    few.classes = 7;
    ls_model m = model_of(ls_model_builtin("digits-cnn"), &few);
    ls_model_free(&m);
}

/* -- MODEL on the command line -------------------------------------------------------------- */

static void test_a_model_argument_is_a_built_in_name_or_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/lockstep-model-XXXXXX", *text = NULL;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "input 4\n", 8), 8);
    assert_int_equal(ls_model_text(path, &text), LS_OK);
    assert_string_equal(text, "input 4\n");
    free(text);
    assert_int_equal(write(fd, "\0x", 2), 2);
    assert_int_equal(ls_model_text(path, &text), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "byte 8 is 0"));
    close(fd);
    unlink(path);
    assert_int_equal(ls_model_text("cifar10-cnn", &text), LS_OK);
    assert_string_equal(text, ls_model_builtin("cifar10-cnn"));
    free(text);
    assert_int_equal(ls_model_text("cifar-cnn", &text), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "did you mean 'cifar10-cnn'?"));
    assert_int_equal(ls_model_text("/", &text), LS_ERR_ARGUMENT);
    assert_null(text);
}

static void test_a_description_adds_up(void **state)
{
    (void)state;
    ls_model m = model_of(ls_model_builtin("cifar10-cnn"), &cifar_info);
    char *text = NULL;
    assert_int_equal(ls_model_describe(&m, &text), LS_OK);
    assert_non_null(strstr(text, "30x30x32"));
    assert_non_null(strstr(text, "462,410 in 6 tensors"));
    assert_non_null(strstr(text, "2.478 MFLOP a sample forward, 5.879 MFLOP with backward"));
    free(text);
    ls_model_free(&m);
    m = model_of(ls_model_builtin("resnet50"), NULL);
    assert_int_equal(ls_model_describe(&m, &text), LS_OK);
    assert_non_null(strstr(text, "8.178 GFLOP a sample forward, 24.3 GFLOP with backward"));
    free(text);
    ls_model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid_and_same_windows_are_those_that_a_walk_finds),
        cmocka_unit_test(test_same_padding_is_that_of_the_tensorflow_guide),
        cmocka_unit_test(test_a_pool_strides_by_its_window_unless_told),
        cmocka_unit_test(test_every_built_in_model_fits_its_data),
        cmocka_unit_test(test_the_residual_networks_have_the_published_numbers_of_weights),
        cmocka_unit_test(test_a_residual_network_fits_its_data),
        cmocka_unit_test(test_cifar10_cnn_is_the_tutorials),
        cmocka_unit_test(test_text_without_auto_can_be_read_without_the_data),
        cmocka_unit_test(test_the_arena_holds_the_last_layer_first),
        cmocka_unit_test(test_initial_weights_are_addressed_by_layer_and_element),
        cmocka_unit_test(test_names_counts_and_connections),
        cmocka_unit_test(test_a_row_of_data_may_feed_an_image_of_as_many_numbers),
        cmocka_unit_test(test_a_model_may_have_more_outputs_than_the_data_have_classes),
        cmocka_unit_test(test_a_model_argument_is_a_built_in_name_or_a_file),
        cmocka_unit_test(test_a_description_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
