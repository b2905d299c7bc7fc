/* SPDX-License-Identifier: MIT */
/* test_model_graph.c -- layers with several inputs, batch normalisation's tensors, initialisers.
 *
 * Shapes are counted by hand, initial values against the formulas of docs/numerics.md 7 written out
 * here again (with libm, so to a few ulp), their moments against what Keras promises.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "philox.h"
#include "support/models.h"
#include "train/model.h"

static const ls_layer *layer_called(const ls_model *m, const char *name)
{
    for (int l = 0; l < m->layer_count; l++) {
        if (strcmp(m->layer[l].name, name) == 0) return &m->layer[l];
    }
    fail_msg("no layer %s", name);
    return NULL;
}

static void assert_shape(const ls_layer *layer, size_t height, size_t width, size_t channels)
{
    assert_int_equal(layer->out.height, height);
    assert_int_equal(layer->out.width, width);
    assert_int_equal(layer->out.channels, channels);
}

/* -- the graph ------------------------------------------------------------------------------ */

static void test_a_layer_feeds_several_and_a_join_reads_what_it_names(void **state)
{
    (void)state;
    ls_model m = model_of("input 6x5x4\na = conv 3 1x1\nb = conv 3 1x1 from input\n"
                          "s = add relu from b a\np = multiply from s a b\n"
                          "c = concat from a p input\nflatten\ndense 2\nloss mse", NULL);
    const ls_layer *s = layer_called(&m, "s"), *p = layer_called(&m, "p"),
                   *c = layer_called(&m, "c");
    assert_true(s->op == LS_OP_ADD && s->relu && s->input_count == 2);
    assert_true(s->input[0] == 2 && s->input[1] == 1);
    assert_true(p->op == LS_OP_MULTIPLY && !p->relu && p->input_count == 3);
    assert_shape(p, 6, 5, 3);
    assert_true(c->op == LS_OP_CONCAT && c->input_count == 3 && c->input[2] == 0);
    assert_shape(c, 6, 5, 3 + 3 + 4);
    assert_int_equal(layer_called(&m, "dense1")->in.channels, 6 * 5 * 10);
    for (int l = 0; l < m.layer_count; l++) assert_true(m.layer[l].is_used);
    ls_model_free(&m);
}

static void test_what_the_loss_does_not_depend_on_is_marked_and_keeps_its_weights(void **state)
{
    (void)state;
    ls_model m = model_of("input 4\nlost = dense 3\ndense 2 from lost\nkept = dense 5 from input\n"
                          "dense 2\nloss mse", NULL);
    static const bool used[] = { true, false, false, true, true };
    for (int l = 0; l < 5; l++) assert_int_equal(m.layer[l].is_used, used[l]);
    assert_int_equal(m.parameter_count, 8);
    double forward, step;
    ls_model_macs(&m, &forward, &step);
    assert_true(forward == 4 * 5 + 5 * 2);
    char *text = NULL;
    assert_int_equal(ls_model_describe(&m, &text), LS_OK);
    const char *note = strstr(text, "unused");
    assert_non_null(note);
    assert_non_null(strstr(note + 1, "unused"));
    assert_non_null(strstr(text, "  from input\n"));
    free(text);
    ls_model_free(&m);
}

static void test_eight_inputs_are_joined_and_nine_refused(void **state)
{
    (void)state;
    char text[400] = "input 4\n";
    for (int i = 0; i < 9; i++) {
        snprintf(text + strlen(text), 40, "d%d = dense 3 from input\n", i);
    }
    const size_t head = strlen(text);
    strcat(text, "add from d0 d1 d2 d3 d4 d5 d6 d7\nloss mse");
    ls_model m = model_of(text, NULL);
    assert_int_equal(m.layer[m.layer_count - 1].input_count, LS_LAYER_INPUTS_MAX);
    assert_false(m.layer[m.layer_count - 2].is_used);
    ls_model_free(&m);
    strcpy(text + head, "add from d0 d1 d2 d3 d4 d5 d6 d7 d8\nloss mse");
    assert_int_equal(ls_model_init(&m, "m", text, NULL), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "m:11:34: found 'd8', expected the end of the line: "
                                            "add has at most 8 inputs"));
}

/* -- ops ------------------------------------------------------------------------------------- */

static void test_padding_by_a_number_is_as_much_on_every_side(void **state)
{
    (void)state;
    ls_model m = model_of("input 224x112x3\nconv 8 7x7 stride=2 pad=3\nmaxpool 3x3 stride=2 pad=1\n"
                          "avgpool 2x2\nglobalavgpool\nloss mse\n", NULL);
    assert_shape(&m.layer[1], 112, 56, 8);
    assert_true(m.layer[1].conv.pad_top == 3 && m.layer[1].conv.pad_left == 3);
    assert_shape(&m.layer[2], 56, 28, 8);
    assert_true(m.layer[2].pool.pad_top == 1 && m.layer[2].pool.pad_left == 1);
    assert_shape(&m.layer[3], 28, 14, 8);
    assert_shape(&m.layer[4], 1, 1, 8);
    assert_true(m.layer[4].op == LS_OP_AVERAGE_POOL && m.layer[4].pool.window_height == 28 &&
                m.layer[4].pool.window_width == 14);
    ls_model_free(&m);
}

static void test_zeropad_takes_one_two_or_four_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *size;
        size_t height, width, top, left;
    } known[] = { { "2", 9, 8, 2, 2 }, { "0x3", 5, 10, 0, 3 }, { "1,2,3,4", 8, 11, 1, 3 },
                  { "0", 5, 4, 0, 0 } };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char text[100];
        snprintf(text, sizeof text, "input 5x4x2\nzeropad %s\nflatten\ndense 1\nloss mse",
                 known[i].size);
        ls_model m = model_of(text, NULL);
        assert_shape(&m.layer[1], known[i].height, known[i].width, 2);
        assert_int_equal(m.layer[1].pad_top, known[i].top);
        assert_int_equal(m.layer[1].pad_left, known[i].left);
        ls_model_free(&m);
    }
}

static void test_activations_and_dropouts_are_told_apart(void **state)
{
    (void)state;
    ls_model m = model_of("input 2x2x1\nrelu\nleakyrelu\nleakyrelu slope=0.2\nsigmoid\ntanh\n"
                          "gelu\nsilu\ndropout 0.5\nspatialdropout 0.25\nflatten\ndense 2\n"
                          "loss softmax-crossentropy smoothing=0.1\n", NULL);
    static const ls_activation kinds[] = {
        LS_ACTIVATION_RELU, LS_ACTIVATION_LEAKY_RELU, LS_ACTIVATION_LEAKY_RELU,
        LS_ACTIVATION_SIGMOID, LS_ACTIVATION_TANH, LS_ACTIVATION_GELU, LS_ACTIVATION_SILU
    };
    for (int i = 0; i < 7; i++) {
        assert_true(m.layer[1 + i].op == LS_OP_ACTIVATION);
        assert_int_equal(m.layer[1 + i].activation, kinds[i]);
    }
    assert_true(m.layer[2].slope == 0.3 && m.layer[3].slope == 0.2);
    assert_string_equal(m.layer[3].name, "leakyrelu2");
    assert_true(m.layer[8].op == LS_OP_DROPOUT && !m.layer[8].is_spatial);
    assert_true(m.layer[9].op == LS_OP_DROPOUT && m.layer[9].is_spatial);
    assert_true(m.smoothing == 0.1);
    ls_model_free(&m);
}

static void test_every_loss_is_read_by_its_name(void **state)
{
    (void)state;
    static const char *const names[] = { "softmax-crossentropy", "sigmoid-crossentropy", "mse",
                                         "mae" };
    for (int i = 0; i < 4; i++) {
        char text[100];
        snprintf(text, sizeof text, "input 4\ndense 2\nloss %s\n", names[i]);
        ls_model m = model_of(text, NULL);
        assert_int_equal((int)m.loss, i);
        assert_true(m.smoothing == 0);
        ls_model_free(&m);
    }
}

static void test_auto_with_a_size_means_it_where_there_are_no_data(void **state)
{
    (void)state;
    static const char text[] = "input auto:8x8x3\nflatten\ndense auto:7\nloss mse\n";
    ls_model m = model_of(text, NULL);
    assert_string_equal(m.text, "input 8x8x3\nflatten\ndense 7\nloss mse\n");
    ls_model_free(&m);
    const ls_dataset_info data = { .height = 1, .width = 1, .channels = 5,
                                   .task = LS_TASK_REGRESS, .outputs = 2 };
    assert_int_equal(ls_model_init(&m, "m", text, &data), LS_OK);
    assert_string_equal(m.text, "input 5\nflatten\ndense 2\nloss mse\n");
    ls_model_free(&m);
    assert_int_equal(ls_model_init(&m, "m", "input auto:\nloss mse", NULL), LS_ERR_ARGUMENT);
    assert_int_equal(ls_model_init(&m, "m", "input autos\nloss mse", NULL), LS_ERR_ARGUMENT);
    assert_int_equal(ls_model_init(&m, "m", "input 4\ndense auto:0\nloss mse", NULL),
                     LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "m:2:7: found 'auto:0'"));
}

/* -- tensors --------------------------------------------------------------------------------- */

static void test_batchnorm_has_two_tensors_to_train_and_two_to_keep(void **state)
{
    (void)state;
    ls_model m = model_of("input 4x4x2\nconv 33 3x3 bias=no\nbatchnorm relu momentum=0.9 "
                          "epsilon=1e-5\nnorm = batchnorm\nflatten\ndense 3\nloss mse", NULL);
    static const char *const names[] = { "conv1/kernel", "batchnorm1/gamma", "batchnorm1/beta",
                                         "norm/gamma", "norm/beta", "dense1/kernel",
                                         "dense1/bias" };
    static const char *const kept[] = { "batchnorm1/mean", "batchnorm1/variance", "norm/mean",
                                        "norm/variance" };
    assert_int_equal(m.parameter_count, 7);
    for (int p = 0; p < 7; p++) assert_string_equal(m.parameter[p].name, names[p]);
    assert_int_equal(m.statistic_count, 4);
    const ls_layer *first = layer_called(&m, "batchnorm1"), *second = layer_called(&m, "norm");
    assert_true(first->relu && first->momentum == 0.9 && first->epsilon == 1e-5);
    assert_true(!second->relu && second->momentum == 0.99 && second->epsilon == 0.001);
    assert_true(first->gamma == 1 && first->beta == 2 && first->mean == 0 && first->variance == 1);
    assert_int_equal(m.statistic_floats, 4 * 33);
    float arena[4 * 33];
    memset(arena, 0xff, sizeof arena);
    ls_model_init_statistics(&m, arena);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(m.statistic[i].name, kept[i]);
        assert_int_equal(m.statistic[i].begin, 33 * i); /* a layer's two are one row */
        assert_false(m.statistic[i].is_kernel);
        for (int e = 0; e < 33; e++) assert_true(arena[33 * i + e] == i % 2);
    }
    float *weights = malloc(m.arena_floats * sizeof *weights);
    assert_non_null(weights);
    ls_model_init_weights(&m, 1, weights);
    for (int p = 1; p < 5; p++) {
        assert_false(m.parameter[p].is_kernel);
        for (size_t e = 0; e < 33; e++) assert_true(weights[m.parameter[p].begin + e] == p % 2);
    }
    /* The arena has the last layer first, within a layer gamma first. */
    assert_true(m.parameter[3].begin < m.parameter[4].begin);
    assert_true(m.parameter[4].begin < m.parameter[1].begin);
    free(weights);
    ls_model_free(&m);
}

/* -- initial values -------------------------------------------------------------------------- */

enum { FAN_IN = 3 * 3 * 20, FAN_OUT = 3 * 3 * 60, COUNT = FAN_IN * 60 };

/* The kernel of a convolution with these fans. */
static void kernel_of(const char *init, float out[COUNT])
{
    char text[160];
    snprintf(text, sizeof text, "input 3x3x20\nconv 60 3x3 init=%s\nflatten\nloss mse", init);
    ls_model m = model_of(text, NULL);
    float *arena = malloc(m.arena_floats * sizeof *arena);
    assert_non_null(arena);
    ls_model_init_weights(&m, 77, arena);
    assert_int_equal(m.parameter[0].count, COUNT);
    memcpy(out, arena + m.parameter[0].begin, COUNT * sizeof *out);
    for (int e = 0; e < 60; e++) assert_true(arena[m.parameter[1].begin + (size_t)e] == 0);
    free(arena);
    ls_model_free(&m);
}

static void moments(const float *x, double *mean, double *variance, double *most)
{
    *mean = *variance = *most = 0;
    for (int e = 0; e < COUNT; e++) *mean += x[e] / (double)COUNT;
    for (int e = 0; e < COUNT; e++) {
        *variance += (x[e] - *mean) * (x[e] - *mean) / COUNT;
        *most = fmax(*most, fabs((double)x[e]));
    }
}

static void test_initialisers_have_the_variances_that_their_names_promise(void **state)
{
    (void)state;
    static const struct {
        const char *init;
        double variance;
        bool is_normal;
    } known[] = { { "glorot-uniform", 2.0 / (FAN_IN + FAN_OUT), false },
                  { "glorot-normal", 2.0 / (FAN_IN + FAN_OUT), true },
                  { "he-uniform", 2.0 / FAN_IN, false },
                  { "he-normal", 2.0 / FAN_IN, true },
                  { "lecun-uniform", 1.0 / FAN_IN, false },
                  { "lecun-normal", 1.0 / FAN_IN, true },
                  { "uniform:0.25", 0.25 * 0.25 / 3, false },
                  { "normal:0.5", 0.25 * 0.87962566103423978 * 0.87962566103423978, true } };
    float x[COUNT];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        double mean, variance, most;
        kernel_of(known[i].init, x);
        moments(x, &mean, &variance, &most);
        const double deviation = sqrt(known[i].variance);
        const double limit = known[i].is_normal ? 2 * deviation / 0.87962566103423978
                                                : sqrt(3.0) * deviation;
        assert_true(fabs(mean) < 4 * deviation / sqrt(COUNT));
        assert_true(fabs(variance / known[i].variance - 1) < 0.05);
        assert_true(most <= limit * 1.0000001 && most > 0.99 * limit);
    }
}

static void test_constants_fill_a_kernel(void **state)
{
    (void)state;
    static const struct {
        const char *init;
        float value;
    } known[] = { { "zeros", 0 }, { "ones", 1 }, { "constant:-0.375", -0.375F },
                  { "uniform:0", 0 }, { "normal:0", 0 } };
    float x[COUNT];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        kernel_of(known[i].init, x);
        for (int e = 0; e < COUNT; e++) assert_true(x[e] == known[i].value);
    }
}

/* Attempt k of element e, by the formula, with libm. */
static double attempt(uint64_t seed, uint32_t ordinal, uint32_t e, uint32_t k)
{
    const uint32_t counter[4] = { e, k / 2, 0, 1u << 16 | ordinal };
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t word[4];
    ls_philox(counter, key, word);
    const double a = ldexp((double)word[2 * (k % 2)] + 1, -32);
    const double b = ldexp((double)word[2 * (k % 2) + 1] + 0.5, -32);
    return sqrt(-2 * log(a)) * cos(3.14159265358979312 * b);
}

static void test_a_truncated_normal_number_is_the_first_within_two_deviations(void **state)
{
    (void)state;
    float x[COUNT];
    int redrawn = 0, redrawn_twice = 0;
    kernel_of("normal:0.5", x);
    for (uint32_t e = 0; e < COUNT; e++) {
        uint32_t k = 0;
        while (fabs(attempt(77, 1, e, k)) > 2) k++;
        const double want = 0.5 * attempt(77, 1, e, k);
        assert_true(fabs(x[e] - want) <= 1e-7 * fabs(want) + 1e-12);
        redrawn += k > 0;
        redrawn_twice += k > 1;
    }
    assert_true(redrawn > 0.04 * COUNT && redrawn < 0.051 * COUNT && redrawn_twice > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_layer_feeds_several_and_a_join_reads_what_it_names),
        cmocka_unit_test(test_what_the_loss_does_not_depend_on_is_marked_and_keeps_its_weights),
        cmocka_unit_test(test_eight_inputs_are_joined_and_nine_refused),
        cmocka_unit_test(test_padding_by_a_number_is_as_much_on_every_side),
        cmocka_unit_test(test_zeropad_takes_one_two_or_four_numbers),
        cmocka_unit_test(test_activations_and_dropouts_are_told_apart),
        cmocka_unit_test(test_every_loss_is_read_by_its_name),
        cmocka_unit_test(test_auto_with_a_size_means_it_where_there_are_no_data),
        cmocka_unit_test(test_batchnorm_has_two_tensors_to_train_and_two_to_keep),
        cmocka_unit_test(test_initialisers_have_the_variances_that_their_names_promise),
        cmocka_unit_test(test_constants_fill_a_kernel),
        cmocka_unit_test(test_a_truncated_normal_number_is_the_first_within_two_deviations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
