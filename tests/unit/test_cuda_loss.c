/* SPDX-License-Identifier: MIT */
/* test_cuda_loss.c -- losses on a GPU, and their sums over a shard, have the reference's bits.
 *
 * As test_cuda_products.c: each case on three virtual machines, or on the real GPU that is there.
 * Values include NaN, infinities, denormals and zeros of both signs.
 */
#include "support/test.h"

#include "kernels/reference/reference.h"
#include "support/fresh_process.h"
#include "support/gpu_arrays.h"
#include "support/gpu_machines.h"
#include "support/naive.h"

/* Labels of rows of `classes`. Owned by the caller. */
static int32_t *some_labels(naive_random *n, size_t samples, size_t classes)
{
    int32_t *label = malloc(samples * sizeof *label + 1);
    for (size_t i = 0; i < samples; i++) label[i] = (int32_t)naive_below(n, classes);
    return label;
}

/* Logits with ties, and such that exp matters. Owned by the caller. */
static float *some_logits(naive_random *n, size_t count, int mix)
{
    float *x = naive_values(n, count, mix);
    for (size_t i = 0; i < count; i++) {
        if (x[i] == x[i]) x[i] *= 20.0f;
        if (i % 7 == 3) x[i] = x[i - 2];
    }
    return x;
}

static void check_softmax(gpu_arrays *g, naive_random *n, size_t samples, size_t classes, int mix,
                          bool weighted, bool all)
{
    const size_t count = samples * classes, rows = samples * sizeof(float);
    float *x = some_logits(n, count, mix), *weight = naive_values(n, samples, NAIVE_SMALL);
    int32_t *label = some_labels(n, samples, classes);
    ls_softmax_loss_args a = { .samples = samples, .classes = classes, .loss_scale = 4.0f,
                               .smooth_hot = 0.75f, .smooth_all = weighted ? 0.125f : 0.0f,
                               .logits = x, .label = label, .weight = weighted ? weight : NULL };
    ls_softmax_loss_args d = a;
    d.logits = gpu_copy_of(g, x, count * sizeof *x);
    d.label = gpu_copy_of(g, label, rows);
    d.weight = weighted ? gpu_copy_of(g, weight, rows) : NULL;
    d.probability = gpu_output(g, count * sizeof *x, &a.probability);
    if (all) {
        d.loss = gpu_output(g, rows, &a.loss);
        d.place = gpu_output(g, rows, &a.place);
        d.predicted = gpu_output(g, rows, &a.predicted);
        d.dlogits = gpu_output(g, count * sizeof *x, &a.dlogits);
    }
    MUST(ls_softmax_loss_reference(NULL, &a));
    MUST(ls_softmax_loss(&g->stream, &d));
    gpu_same_floats(g, "probability", a.probability, d.probability, count);
    if (all) {
        gpu_same_floats(g, "softmax loss", a.loss, d.loss, samples);
        gpu_same_bytes(g, "place", a.place, d.place, rows);
        gpu_same_bytes(g, "predicted", a.predicted, d.predicted, rows);
        gpu_same_floats(g, "dlogits", a.dlogits, d.dlogits, count);
    }
    gpu_arrays_drop(g);
    free(x);
    free(weight);
    free(label);
}

/* Of labels, or of targets. */
static void check_sigmoid(gpu_arrays *g, naive_random *n, size_t samples, size_t outputs, int mix,
                          bool labels, bool all)
{
    const size_t count = samples * outputs, rows = samples * sizeof(float);
    float *z = some_logits(n, count, mix), *target = naive_values(n, count, NAIVE_SMALL);
    float *weight = naive_values(n, samples, NAIVE_SMALL);
    int32_t *label = some_labels(n, samples, outputs == 1 ? 2 : outputs);
    ls_sigmoid_loss_args a = { .samples = samples, .outputs = outputs, .loss_scale = 4.0f,
                               .smooth_hot = 0.75f, .smooth_all = labels ? 0.125f : 0.0f,
                               .logits = z, .label = labels ? label : NULL,
                               .target = labels ? NULL : target, .weight = all ? weight : NULL };
    ls_sigmoid_loss_args d = a;
    d.logits = gpu_copy_of(g, z, count * sizeof *z);
    d.label = labels ? gpu_copy_of(g, label, rows) : NULL;
    d.target = labels ? NULL : gpu_copy_of(g, target, count * sizeof *z);
    d.weight = all ? gpu_copy_of(g, weight, rows) : NULL;
    d.loss = gpu_output(g, rows, &a.loss);
    if (labels) d.place = gpu_output(g, rows, &a.place);
    if (all) {
        d.predicted = gpu_output(g, rows, &a.predicted);
        d.absolute_error = gpu_output(g, rows, &a.absolute_error);
        d.squared_error = gpu_output(g, rows, &a.squared_error);
        d.dlogits = gpu_output(g, count * sizeof *z, &a.dlogits);
        d.probability = gpu_output(g, count * sizeof *z, &a.probability);
    }
    MUST(ls_sigmoid_loss_reference(NULL, &a));
    MUST(ls_sigmoid_loss(&g->stream, &d));
    gpu_same_floats(g, "sigmoid loss", a.loss, d.loss, samples);
    if (labels) gpu_same_bytes(g, "place", a.place, d.place, rows);
    if (all) {
        gpu_same_bytes(g, "predicted", a.predicted, d.predicted, rows);
        gpu_same_floats(g, "absolute error", a.absolute_error, d.absolute_error, samples);
        gpu_same_floats(g, "squared error", a.squared_error, d.squared_error, samples);
        gpu_same_floats(g, "dlogits", a.dlogits, d.dlogits, count);
        gpu_same_floats(g, "probability", a.probability, d.probability, count);
    }
    gpu_arrays_drop(g);
    free(z);
    free(target);
    free(weight);
    free(label);
}

static void check_regression(gpu_arrays *g, naive_random *n, size_t samples, size_t outputs,
                             int mix, bool absolute, bool all)
{
    const size_t count = samples * outputs, rows = samples * sizeof(float);
    float *p = naive_values(n, count, mix), *t = naive_values(n, count, mix);
    float *weight = naive_values(n, samples, NAIVE_SMALL);
    ls_regression_loss_args a = { .kind = absolute ? LS_REGRESSION_ABSOLUTE : LS_REGRESSION_SQUARED,
                                  .samples = samples, .outputs = outputs, .loss_scale = 4.0f,
                                  .prediction = p, .target = t, .weight = all ? weight : NULL };
    ls_regression_loss_args d = a;
    for (size_t i = 0; i < count; i += 5) t[i] = p[i]; /* no difference: slope 0 */
    d.prediction = gpu_copy_of(g, p, count * sizeof *p);
    d.target = gpu_copy_of(g, t, count * sizeof *t);
    d.weight = all ? gpu_copy_of(g, weight, rows) : NULL;
    d.loss = gpu_output(g, rows, &a.loss);
    if (all) {
        d.absolute_error = gpu_output(g, rows, &a.absolute_error);
        d.squared_error = gpu_output(g, rows, &a.squared_error);
        d.dprediction = gpu_output(g, count * sizeof *p, &a.dprediction);
    }
    MUST(ls_regression_loss_reference(NULL, &a));
    MUST(ls_regression_loss(&g->stream, &d));
    gpu_same_floats(g, "regression loss", a.loss, d.loss, samples);
    if (all) {
        gpu_same_floats(g, "absolute error", a.absolute_error, d.absolute_error, samples);
        gpu_same_floats(g, "squared error", a.squared_error, d.squared_error, samples);
        gpu_same_floats(g, "dprediction", a.dprediction, d.dprediction, count);
    }
    gpu_arrays_drop(g);
    free(p);
    free(t);
    free(weight);
}

/* Shards 1 and 3 of four, the second with more samples than a block of a flat sum. */
static void check_shard_sums(gpu_arrays *g, naive_random *n, bool all)
{
    enum { SAMPLES = 9000, BYTES = SAMPLES * sizeof(float) };
    const ls_fold fold = { .leaf_count = 3, .piece_count = 3, .slot_count = 3,
                           .shard = { 1, 3, 4 }, .sample = { 0, 37, SAMPLES, SAMPLES },
                           .store = { 0, 1, 2 } };
    float *loss = naive_values(n, SAMPLES, NAIVE_SMALL);
    float *weight = naive_values(n, SAMPLES, NAIVE_SMALL);
    float *square = naive_values(n, SAMPLES, NAIVE_SMALL);
    int32_t *place = some_labels(n, SAMPLES, 7);
    ls_shard_sum before[6], *want;
    memset(before, 0x55, sizeof before);
    ls_shard_sums_args a = { .fold = &fold, .top_k = all ? 5 : 0, .loss = loss };
    if (all) {
        a.weight = a.absolute_error = weight;
        a.squared_error = square;
        a.place = place;
    }
    ls_shard_sums_args d = a;
    d.loss = gpu_copy_of(g, loss, BYTES);
    d.weight = gpu_copy_of(g, a.weight, BYTES);
    d.absolute_error = gpu_copy_of(g, a.absolute_error, BYTES);
    d.squared_error = gpu_copy_of(g, a.squared_error, BYTES);
    d.place = gpu_copy_of(g, a.place, BYTES);
    g->shift = 0; /* doubles lie at multiples of 8 */
    d.out = gpu_updated(g, before, sizeof before, &want);
    a.out = want;
    MUST(ls_shard_sums_reference(NULL, &a));
    MUST(ls_shard_sums(&g->stream, &d));
    gpu_same_bytes(g, "shard sums", want, d.out, sizeof before);
    gpu_arrays_drop(g);
    free(loss);
    free(weight);
    free(square);
    free(place);
}

static int case_losses(void)
{
    static const size_t shapes[][2] = { { 5, 10 }, { 1, 1 }, { 3, 33 }, { 2, 64 }, { 4, 100 },
                                        { 2, 5000 }, { 1, 13000 }, { 0, 10 } };
    gpu_arrays g;
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        g.shift = i % 2 * sizeof(float);
        for (int k = 0; k < 4; k++) {
            if (shapes[i][1] > 200 && k > 1) break;
            const int mix = k == 1 ? NAIVE_ALL : NAIVE_SMALL;
            check_softmax(&g, &n, shapes[i][0], shapes[i][1], mix, k % 2 == 0, k != 3);
            check_sigmoid(&g, &n, shapes[i][0], shapes[i][1], mix, k % 2 == 0, k != 3);
            check_regression(&g, &n, shapes[i][0], shapes[i][1], mix, k % 2 == 0, k != 3);
        }
    }
    g.shift = sizeof(float);
    check_shard_sums(&g, &n, true);
    check_shard_sums(&g, &n, false);
    gpu_arrays_close(&g);
    return 0;
}

static void test_losses_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_machines("losses");
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "losses", case_losses }, { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_have_the_bits_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
