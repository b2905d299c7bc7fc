/* SPDX-License-Identifier: MIT */
/* test_golden_layers.c -- small models of every layer, against Keras' numbers for the same.
 *
 * tests/golden/make_layers.py made the numbers, in double. Both sides start from the same weights
 * and moving statistics (a formula, exact fractions) and take ten steps of momentum on the digits.
 * Agreement to 1e-5, relative: of each loss; of a gradient or a statistic to the largest number of
 * its tensor, or to a hundredth of the largest of all tensors. (A bias before batch normalisation
 * has gradient 0, of which rounding leaves something else.)
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "io/checkpoint.h"
#include "support/training.h"

enum { STEPS = 10, ROWS = 2, CLASSES = 10, GRADIENT_MAX = 512, STATISTIC_MAX = 32 };

static const struct golden {
    const char *options, *model;
    double loss[STEPS], test_loss, probability[ROWS * CLASSES];
    int gradient_count;
    double gradient[GRADIENT_MAX]; /* of the first step, in the order of the model file */
    int statistic_count;
    double moved[STATISTIC_MAX], last[STATISTIC_MAX]; /* after the first step, after the last */
} golden[] = {
#include "golden/layers.inc"
};
enum { GOLDEN_COUNT = sizeof golden / sizeof golden[0] };

static const double tolerance = 1e-5, rate = 0.05;

/* The script's formula. */
static float first_value(bool around_one, int tensor, size_t e)
{
    const int x = (int)((e * e * 37 + e * 5 + (size_t)tensor * 61) % 101) - 50;
    return (float)x / 128 + (around_one ? 1 : 0);
}

static bool is_around_one(const char *name)
{
    const char *kind = strrchr(name, '/');
    return strcmp(kind, "/gamma") == 0 || strcmp(kind, "/variance") == 0;
}

static void fill(const ls_parameter *list, int count, float *arena)
{
    for (int p = 0; p < count; p++)
        for (size_t e = 0; e < list[p].count; e++)
            arena[list[p].begin + e] = first_value(is_around_one(list[p].name), p, e);
}

static const char *first_weights(training *t, const ls_model *model)
{
    float *weights = calloc(model->arena_floats, sizeof *weights);
    float *statistics = calloc(model->statistic_floats + 1, sizeof *statistics);
    assert_true(weights && statistics);
    fill(model->parameter, model->parameter_count, weights);
    fill(model->statistic, model->statistic_count, statistics);
    const char *path = training_start(t, "first.safetensors", model, weights, statistics);
    free(weights);
    free(statistics);
    return path;
}

static double largest(const double *x, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(x[i]));
    return most;
}

/* Tensors PREFIX/<name> of the latest run, times `factor`, against `want`, all in a row. */
static void check_tensors(training *t, const struct golden *g, const char *prefix,
                          const ls_parameter *list, int count, double factor, const double *want,
                          int want_count)
{
    const double overall = largest(want, (size_t)want_count);
    float x[GRADIENT_MAX];
    size_t done = 0;
    for (int p = 0; p < count; p++) {
        char name[LS_TENSOR_NAME_BYTES];
        snprintf(name, sizeof name, "%s/%s", prefix, list[p].name);
        assert_true(done + list[p].count <= (size_t)want_count);
        training_tensor(t, name, x, list[p].count);
        const double scale = fmax(largest(want + done, list[p].count), 0.01 * overall);
        for (size_t e = 0; e < list[p].count; e++, done++)
            if (!(fabs((double)x[e] * factor - want[done]) <= tolerance * scale))
                fail_msg("%s%s: %s, element %zu: %.9g, Keras has %.9g", g->options, g->model, name,
                         e, (double)x[e] * factor, want[done]);
    }
    assert_int_equal(done, want_count);
}

static void check_losses(const training *t, const struct golden *g)
{
    for (int s = 0; s < t->step_count; s++)
        if (!(fabs(t->step[s].loss - g->loss[s]) <= tolerance * g->loss[s]))
            fail_msg("%s%s: step %d: loss %.9g, Keras has %.9g", g->options, g->model, s + 1,
                     t->step[s].loss, g->loss[s]);
}

/* The test part, with moving statistics. */
static void check_inference(const training *t, const struct golden *g)
{
    ls_evaluation found;
    const ls_evaluation_request request = { .checkpoint = t->result.checkpoint, .data = "digits",
                                            .devices = "host:1", .timeout_s = 60,
                                            .want_rows = true, .stuck = training_stuck };
    if (ls_evaluate(&request, &found) != LS_OK) fail_msg("%s", ls_last_error());
    if (!(fabs(found.loss - g->test_loss) <= tolerance * g->test_loss))
        fail_msg("%s%s: test loss %.9g, Keras has %.9g", g->options, g->model, found.loss,
                 g->test_loss);
    for (int i = 0; i < ROWS * CLASSES; i++)
        if (!(fabs((double)found.rows[i] - g->probability[i]) <= tolerance))
            fail_msg("%s%s: probability %d is %.9g, Keras has %.9g", g->options, g->model, i,
                     (double)found.rows[i], g->probability[i]);
    ls_evaluation_free(&found);
}

/* "name=value name=value". */
static void set_all(training *t, const char *options)
{
    char text[200], *rest = text;
    snprintf(text, sizeof text, "%s", options);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        training_set(t, word, equals + 1);
    }
}

static void check_model(const struct golden *g, const char *devices)
{
    training *t = training_create();
    ls_model model;
    if (ls_model_init(&model, "golden.model", g->model, NULL) != LS_OK)
        fail_msg("%s: %s", g->model, ls_last_error());
    training_write(t, "golden.model", g->model);
    training_set(t, "model", training_path(t, "golden.model"));
    training_set(t, "data", "digits");
    training_set(t, "init", first_weights(t, &model));
    training_set(t, "optimizer", "momentum");
    training_set(t, "lr", "0.05");
    training_set(t, "shuffle", "no");
    training_set(t, "global-batch", "32");
    training_set(t, "devices", devices);
    set_all(t, g->options);

    training_set(t, "steps", "1");
    training_must_run(t);
    check_losses(t, g);
    check_tensors(t, g, "optimizer/momentum", model.parameter, model.parameter_count, -1 / rate,
                  g->gradient, g->gradient_count);
    check_tensors(t, g, "statistics", model.statistic, model.statistic_count, 1, g->moved,
                  g->statistic_count);

    training_set(t, "steps", "10");
    training_must_run(t);
    check_losses(t, g);
    check_tensors(t, g, "statistics", model.statistic, model.statistic_count, 1, g->last,
                  g->statistic_count);
    check_inference(t, g);
    ls_model_free(&model);
    training_destroy(t);
}

static void test_every_layer_has_the_losses_gradients_and_statistics_of_keras(void **state)
{
    static const char *const devices[] = { "host:1", "host:3" };
    (void)state;
    for (int g = 0; g < GOLDEN_COUNT; g++) check_model(&golden[g], devices[g % 2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layer_has_the_losses_gradients_and_statistics_of_keras),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
