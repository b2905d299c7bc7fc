/* SPDX-License-Identifier: MIT */
/* test_network_gradients.c -- gradients of whole networks against finite differences of their loss.
 *
 * A run takes one step of momentum with rate 1 from given weights, so that its momentum is minus
 * the gradient that the trainer found: forward, backward, exchange and division. The loss is
 * computed once more in double (support/network.h), at w + h and at w - h for every single weight:
 * (L(w + h) - L(w - h)) / 2h is the gradient but for h^2 times a third derivative (1e-12) and the
 * rounding of L over h (1e-9), unless a relu or a maximum changes its mind in between, which the
 * seed avoids. Agreement to 2e-5 of the largest gradient of the tensor, or of a hundredth of the
 * largest of all: what float chains of these lengths lose.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "io/checkpoint.h"
#include "support/data_folder.h"
#include "support/naive.h"
#include "support/network.h"
#include "support/training.h"

enum { SAMPLES = 7, HEIGHT = 6, WIDTH = 5, CHANNELS = 2, CLASSES = 3, TARGETS = 2 };
enum { PIXELS = SAMPLES * HEIGHT * WIDTH * CHANNELS };

static const char residual[] =
    "input 6x5x2\n"
    "conv 3 3x3 pad=same bias=no\n"
    "a = batchnorm relu\n"
    "conv 3 3x3 pad=same\n"
    "b = batchnorm epsilon=0.01\n"
    "s = add relu from a b\n"
    "conv 2 3x3\n"          /* nobody reads this branch */
    "batchnorm relu\n"
    "p = conv 4 1x1 stride=2 bias=no from s\n"
    "conv 4 3x3 pad=same stride=2 from s\n"
    "batchnorm relu\n"
    "conv 4 3x2 pad=same\n"
    "q = batchnorm\n"
    "q2 = sigmoid\n"
    "t = add from p q q2\n"
    "globalavgpool\n"
    "dense 3\n"
    "loss softmax-crossentropy\n";

static const char branches[] =
    "input 6x5x2\n"
    "a = conv 3 3x3\n"
    "g = gelu from a\n"
    "t = tanh from a\n"
    "l = leakyrelu slope=0.2 from a\n"
    "s = sigmoid from a\n"
    "u = silu from a\n"
    "r = relu from a\n"
    "m = multiply from g t s\n"
    "m2 = multiply from m a\n"
    "c = concat from m l u r m2\n"
    "d = conv 3 1x1 from c\n"
    "add from d a g\n"
    "avgpool 3x2 stride=2x1 pad=same\n"
    "zeropad 1,0,2,1\n"
    "conv 2 2x2 stride=2\n"
    "flatten\n"
    "dense 3 bias=no\n"
    "loss softmax-crossentropy smoothing=0.2\n";

static const char dropping[] =
    "input 6x5x2\n"
    "conv 4 3x3 pad=1 stride=1x2 relu\n"
    "spatialdropout 0.3\n"
    "maxpool 3x2 stride=1 pad=same\n"
    "avgpool 2x2 stride=1\n"
    "flatten\n"
    "dropout 0.4\n"
    "dense 5\n"
    "batchnorm\n"
    "tanh\n"
    "dense 3\n"
    "loss sigmoid-crossentropy smoothing=0.1\n";

static const char regression[] =
    "input 6x5x2\n"
    "conv 3 2x2\n"
    "batchnorm\n"
    "silu\n"
    "maxpool 2x2\n"
    "flatten\n"
    "dense 4 relu\n"
    "dense 2\n";

/* -- a batch, and weights to start from -------------------------------------------------------- */

typedef struct {
    training *run;
    data_folder *data;
    ls_model model;
    network net;
    float *x, *target, *weights, *statistics; /* owned */
    int32_t label[SAMPLES];
    int group[SAMPLES];
} fixture;

static void write_data(fixture *f)
{
    data_folder_npy(f->data, "x.npy", "{'descr': '<f4', 'fortran_order': False, "
                    "'shape': (7, 6, 5, 2), }\n", f->x, PIXELS * sizeof *f->x);
    data_folder_npy(f->data, "label.npy", "{'descr': '<i4', 'fortran_order': False, "
                    "'shape': (7,), }\n", f->label, sizeof f->label);
    data_folder_npy(f->data, "target.npy", "{'descr': '<f4', 'fortran_order': False, "
                    "'shape': (7, 2), }\n", f->target, SAMPLES * TARGETS * sizeof *f->target);
}

/* Numbers in (-1/2, 1/2), around 1 for what multiplies. */
static float *start(const ls_parameter *list, int count, size_t floats, naive_random *random)
{
    float *arena = calloc(floats + 1, sizeof *arena);
    assert_non_null(arena);
    for (int p = 0; p < count; p++) {
        const char *kind = strrchr(list[p].name, '/');
        const bool multiplies = strcmp(kind, "/gamma") == 0 || strcmp(kind, "/variance") == 0;
        for (size_t e = 0; e < list[p].count; e++)
            arena[list[p].begin + e] = naive_unit(random) / 2 + (multiplies ? 1.0f : 0.0f);
    }
    return arena;
}

static void open_fixture(fixture *f, const char *text)
{
    naive_random random = { 11 };
    *f = (fixture){ .run = training_create(), .data = data_folder_create(),
                    .label = { 0, 2, 1, 1, 0, 2, 2 } };
    f->x = naive_values(&random, PIXELS, 0);
    f->target = naive_values(&random, SAMPLES * TARGETS, 0);
    write_data(f);
    if (ls_model_init(&f->model, "network", text, NULL) != LS_OK) fail_msg("%s", ls_last_error());
    f->weights = start(f->model.parameter, f->model.parameter_count, f->model.arena_floats,
                       &random);
    f->statistics = start(f->model.statistic, f->model.statistic_count, f->model.statistic_floats,
                          &random);
    const bool regress = f->model.loss == LS_LOSS_MSE || f->model.loss == LS_LOSS_MAE;
    char spec[600];
    snprintf(spec, sizeof spec, "npy:%s/x.npy,%s/%s.npy", data_folder_path(f->data),
             data_folder_path(f->data), regress ? "target" : "label");
    training_write(f->run, "network.model", text);
    training_set(f->run, "model", training_path(f->run, "network.model"));
    training_set(f->run, "data", spec);
    f->net = (network){ .model = &f->model, .samples = SAMPLES, .x = f->x, .seed = 5,
                        .label = regress ? NULL : f->label,
                        .target = regress ? f->target : NULL };
}

static void close_fixture(fixture *f)
{
    training_destroy(f->run);
    data_folder_destroy(f->data);
    ls_model_free(&f->model);
    free(f->x);
    free(f->target);
    free(f->weights);
    free(f->statistics);
}

/* -- one step, and what it found --------------------------------------------------------------- */

/* Which samples batch normalisation takes together: those of a shard, or of a pass. */
static void group_samples(fixture *f)
{
    const ls_config *c = &f->run->config;
    for (int shard = 0; shard < c->shards; shard++)
        for (int s = shard * SAMPLES / c->shards; s < (shard + 1) * SAMPLES / c->shards; s++)
            f->group[s] = c->batchnorm == LS_BATCHNORM_SHARD ? shard : shard % c->accumulate;
    f->net.group = f->group;
    f->net.group_count = c->batchnorm == LS_BATCHNORM_SHARD ? c->shards : c->accumulate;
}

/* "name=value name=value" besides what every run has. */
static void take_step(fixture *f, const char *options)
{
    training *t = f->run;
    char text[200], *rest = text;
    training_reset(t);
    training_set(t, "init", training_start(t, "start.safetensors", &f->model, f->weights,
                                           f->statistics));
    training_set(t, "optimizer", "momentum");
    training_set(t, "lr", "1");
    training_set(t, "seed", "5");
    training_set(t, "shuffle", "no");
    training_set(t, "global-batch", "7");
    training_set(t, "steps", "1");
    snprintf(text, sizeof text, "%s", options);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        training_set(t, word, equals + 1);
    }
    training_must_run(t);
    group_samples(f);
}

/* Tensors PREFIX/<name> after the step, as doubles in the arena's places. */
static double *fetch(fixture *f, const char *prefix, const ls_parameter *list, int count,
                     size_t floats)
{
    double *arena = calloc(floats + 1, sizeof *arena);
    float *x = malloc((floats + 1) * sizeof *x);
    assert_true(arena && x);
    for (int p = 0; p < count; p++) {
        char name[LS_TENSOR_NAME_BYTES];
        snprintf(name, sizeof name, "%s/%s", prefix, list[p].name);
        training_tensor(f->run, name, x, list[p].count);
        for (size_t e = 0; e < list[p].count; e++) arena[list[p].begin + e] = (double)x[e];
    }
    free(x);
    return arena;
}

static double *fetch_parameters(fixture *f, const char *prefix)
{
    return fetch(f, prefix, f->model.parameter, f->model.parameter_count, f->model.arena_floats);
}

/* The loss's differences by every weight, in the arena's places. */
static double *differences(const fixture *f)
{
    const double h = 1e-6;
    const size_t floats = f->model.arena_floats;
    double *w = calloc(floats, sizeof *w), *out = calloc(floats, sizeof *out);
    assert_true(w && out);
    for (size_t i = 0; i < floats; i++) w[i] = (double)f->weights[i];
    for (int p = 0; p < f->model.parameter_count; p++) {
        const ls_parameter *parameter = &f->model.parameter[p];
        for (size_t i = parameter->begin; i < parameter->begin + parameter->count; i++) {
            w[i] = (double)f->weights[i] + h;
            const double above = network_loss(&f->net, w, NULL);
            w[i] = (double)f->weights[i] - h;
            out[i] = (above - network_loss(&f->net, w, NULL)) / (2 * h);
            w[i] = (double)f->weights[i];
        }
    }
    free(w);
    return out;
}

static double largest(const double *x, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(x[i]));
    return most;
}

/* Is nothing to happen to a parameter: frozen (a list of layers' names, or NULL), or without effect
 * on the loss? */
static bool is_still(const ls_layer *layer, const char *const *frozen)
{
    for (; frozen && *frozen; frozen++)
        if (strcmp(layer->name, *frozen) == 0) return true;
    return !layer->is_used;
}

static void check_parameter(const fixture *f, const ls_parameter *p, bool still,
                            const double *want, const double *minus, const double *after)
{
    const double overall = largest(want, f->model.arena_floats);
    const double scale = fmax(largest(want + p->begin, p->count), 0.01 * overall);
    for (size_t i = p->begin; i < p->begin + p->count; i++) {
        const double wanted = still ? 0 : want[i], tolerance = still ? 0 : 2e-5 * scale;
        if (!naive_near("gradient", wanted, -minus[i], tolerance) ||
            !naive_near("update", (double)f->weights[i] + minus[i], after[i], 1e-6))
            fail_msg("%s, element %zu", p->name, i - p->begin);
        if (still) assert_true(after[i] == (double)f->weights[i]);
    }
}

/* The run's loss, its momentum against the differences, and what became of the weights. */
static void check_step(fixture *f, const char *options, const char *const *frozen)
{
    take_step(f, options);
    double *want = differences(f), *minus = fetch_parameters(f, "optimizer/momentum");
    double *after = fetch_parameters(f, "weights"), *w = calloc(f->model.arena_floats, sizeof *w);
    assert_non_null(w);
    for (size_t i = 0; i < f->model.arena_floats; i++) w[i] = (double)f->weights[i];
    assert_true(naive_near(options, network_loss(&f->net, w, NULL), f->run->step[0].loss, 1e-6));
    for (int p = 0; p < f->model.parameter_count; p++) {
        const ls_parameter *parameter = &f->model.parameter[p];
        const ls_layer *layer = &f->model.layer[parameter->layer];
        if (!layer->is_used) assert_true(largest(want + parameter->begin, parameter->count) == 0);
        check_parameter(f, parameter, is_still(layer, frozen), want, minus, after);
    }
    free(want);
    free(minus);
    free(after);
    free(w);
}

/* The batch evaluated after the step, with the moving statistics that the step left. */
static void check_inference(fixture *f)
{
    ls_evaluation found;
    const ls_evaluation_request request = {
        .checkpoint = f->run->result.checkpoint, .data = f->run->config.data,
        .devices = "host:2", .timeout_s = 60, .train_part = true, .stuck = training_stuck };
    if (ls_evaluate(&request, &found) != LS_OK) fail_msg("%s", ls_last_error());
    double *weights = fetch_parameters(f, "weights");
    double *statistics = fetch(f, "statistics", f->model.statistic, f->model.statistic_count,
                               f->model.statistic_floats);
    const double want = network_loss(&f->net, weights, statistics);
    assert_true(naive_near("inference", want, found.loss, 2e-6 * want));
    ls_evaluation_free(&found);
    free(weights);
    free(statistics);
}

static void check_network(const char *text)
{
    fixture f;
    open_fixture(&f, text);
    check_step(&f, "batchnorm=sync devices=host:1", NULL);
    check_inference(&f);
    check_step(&f, "batchnorm=sync shards=5 devices=host:3", NULL);
    check_step(&f, "batchnorm=sync accumulate=2 devices=host:2", NULL);
    check_step(&f, "batchnorm=shard shards=3 accumulate=2 devices=host:2", NULL);
    check_inference(&f);
    close_fixture(&f);
}

/* -- tests ------------------------------------------------------------------------------------- */

static void test_residual_blocks_have_the_gradients_of_their_differences(void **state)
{
    (void)state;
    check_network(residual);
}

static void test_a_layer_that_several_read_gets_the_sum_of_their_gradients(void **state)
{
    (void)state;
    check_network(branches);
}

static void test_dropout_and_pools_have_the_gradients_of_their_differences(void **state)
{
    (void)state;
    check_network(dropping);
}

static void test_regression_losses_have_the_gradients_of_their_differences(void **state)
{
    char text[400];
    (void)state;
    snprintf(text, sizeof text, "%sloss mse\n", regression);
    check_network(text);
    snprintf(text, sizeof text, "%sloss mae\n", regression);
    check_network(text);
}

static void test_frozen_layers_and_a_branch_without_effect_stay_as_they_are(void **state)
{
    static const char *const first[] = { "conv1", "a", NULL }, *const inner[] = { "q", "p", NULL };
    static const char *const last[] = { "dense1", NULL };
    fixture f;
    (void)state;
    open_fixture(&f, residual);
    check_step(&f, "devices=host:2 rules=conv1/*=freeze;a/*=freeze", first);
    check_step(&f, "devices=host:3 rules=q/*=freeze;p/*=freeze", inner);
    check_step(&f, "devices=host:1 rules=dense1/*=freeze", last);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_residual_blocks_have_the_gradients_of_their_differences),
        cmocka_unit_test(test_a_layer_that_several_read_gets_the_sum_of_their_gradients),
        cmocka_unit_test(test_dropout_and_pools_have_the_gradients_of_their_differences),
        cmocka_unit_test(test_frozen_layers_and_a_branch_without_effect_stay_as_they_are),
        cmocka_unit_test(test_regression_losses_have_the_gradients_of_their_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
