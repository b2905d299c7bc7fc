/* SPDX-License-Identifier: MIT */
/* test_cuda_elements.c -- pooling, activations, losses, the arena and whole buffers on a GPU have
 * the reference's bits.
 *
 * As test_cuda_products.c: each case on three virtual machines, or on the real GPU that is there.
 * Values include NaN, infinities, denormals and zeros of both signs.
 */
#include "support/test.h"

#include <stdio.h>

#include "kernels/reference/reference.h"
#include "support/fresh_process.h"
#include "support/gpu_arrays.h"
#include "support/gpu_machines.h"
#include "support/naive.h"

enum {
    ALL = NAIVE_ZEROS | NAIVE_TINY | NAIVE_HUGE | NAIVE_INFINITE | NAIVE_NAN,
    FINITE = NAIVE_ZEROS | NAIVE_TINY
};

static naive_random random_of_machine(void)
{
    const char *seed = getenv("LOCKSTEP_VGPU_SEED");
    return (naive_random){ .state = seed == NULL ? 1 : strtoull(seed, NULL, 10) };
}

/* -- pooling ---------------------------------------------------------------------------------- */

static void check_pool(gpu_arrays *g, naive_random *n, ls_pool_shape s, int mix, bool masked)
{
    const size_t in = s.samples * s.height * s.width * s.channels;
    const size_t out = s.samples * s.out_height * s.out_width * s.channels;
    float *x = naive_values(n, in, mix), *dy = naive_values(n, out, mix), *y, *dx;
    uint8_t *place;
    for (size_t i = 0; i + 3 < in; i += 4) x[i] = x[i + 3]; /* equals */
    ls_max_pool_args a = { .shape = s, .x = gpu_copy_of(g, x, in * sizeof *x) };
    a.y = gpu_output(g, out * sizeof *y, &y);
    a.place = gpu_output(g, out, &place);
    ls_max_pool_gradient_args b = { .shape = s, .dy = gpu_copy_of(g, dy, out * sizeof *dy),
                                    .place = a.place };
    b.dx = gpu_output(g, in * sizeof *dx, &dx);
    MUST(ls_max_pool_reference(NULL, &(ls_max_pool_args){ s, x, y, place }));
    ls_max_pool_gradient_args want = { s, dy, place, dx, masked ? y : NULL };
    if (masked) b.relu_y = a.y;
    MUST(ls_max_pool_gradient_reference(NULL, &want));
    MUST(ls_max_pool(&g->stream, &a));
    MUST(ls_max_pool_gradient(&g->stream, &b));
    gpu_same_floats(g, "max pool", y, a.y, out);
    gpu_same_bytes(g, "max pool's places", place, a.place, out);
    gpu_same_floats(g, "max pool's gradient", dx, b.dx, in);
    gpu_arrays_drop(g);
    free(x);
    free(dy);
}

static void check_average(gpu_arrays *g, naive_random *n, ls_pool_shape s)
{
    const size_t in = s.samples * s.height * s.width * s.channels;
    const size_t out = s.samples * s.out_height * s.out_width * s.channels;
    float *x = naive_values(n, in, ALL), *dy = naive_values(n, out, ALL), *y, *dx;
    ls_average_pool_args a = { .shape = s, .x = gpu_copy_of(g, x, in * sizeof *x) };
    a.y = gpu_output(g, out * sizeof *y, &y);
    ls_average_pool_gradient_args b = { .shape = s, .dy = gpu_copy_of(g, dy, out * sizeof *dy) };
    b.dx = gpu_output(g, in * sizeof *dx, &dx);
    MUST(ls_average_pool_reference(NULL, &(ls_average_pool_args){ s, x, y }));
    MUST(ls_average_pool_gradient_reference(NULL, &(ls_average_pool_gradient_args){ s, dy, dx }));
    MUST(ls_average_pool(&g->stream, &a));
    MUST(ls_average_pool_gradient(&g->stream, &b));
    gpu_same_floats(g, "average pool", y, a.y, out);
    gpu_same_floats(g, "average pool's gradient", dx, b.dx, in);
    gpu_arrays_drop(g);
    free(x);
    free(dy);
}

static int case_pool(void)
{
    const ls_pool_shape shapes[] = {
        { 3, 6, 6, 5, 2, 2, 2, 2, 0, 0, 3, 3 },  { 2, 7, 9, 3, 3, 3, 2, 2, 1, 1, 4, 5 },
        { 2, 5, 5, 4, 3, 2, 1, 1, 2, 1, 6, 5 },  { 1, 8, 8, 33, 2, 2, 3, 3, 0, 0, 3, 3 },
        { 1, 16, 16, 1, 16, 16, 1, 1, 0, 0, 1, 1 }, { 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1 },
        { 0, 4, 4, 2, 2, 2, 2, 2, 0, 0, 2, 2 },
    };
    gpu_arrays g;
    naive_random n = random_of_machine();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        g.shift = i % 2 * sizeof(float);
        check_pool(&g, &n, shapes[i], ALL, i % 2 == 0);
        check_pool(&g, &n, shapes[i], FINITE, i % 2 != 0);
        check_average(&g, &n, shapes[i]);
    }
    check_average(&g, &n, (ls_pool_shape){ 2, 20, 17, 3, 20, 17, 1, 1, 0, 0, 1, 1 }); /* global */
    gpu_arrays_close(&g);
    return 0;
}

/* -- activations ------------------------------------------------------------------------------ */

static void check_activation(gpu_arrays *g, naive_random *n, int kind, size_t count, bool in_place)
{
    float *x = naive_values(n, count, ALL), *dy = naive_values(n, count, ALL), *want;
    for (size_t i = 0; i < count; i += 3) x[i] *= 30.0f;
    const size_t bytes = count * sizeof *x;
    ls_activate_args a = { .kind = (ls_activation)kind, .slope = 0.3f, .count = count };
    ls_activate_args h = a;
    a.y = in_place ? gpu_updated(g, x, bytes, &want) : gpu_output(g, bytes, &want);
    a.x = in_place ? a.y : gpu_copy_of(g, x, bytes);
    h.x = x;
    h.y = want;
    MUST(ls_activate_reference(NULL, &h));
    MUST(ls_activate(&g->stream, &a));
    gpu_same_floats(g, "activation", want, a.y, count);
    /* x serves as the output too. */
    ls_activate_gradient_args b = { .kind = h.kind, .slope = 0.3f, .count = count };
    ls_activate_gradient_args r = b;
    b.x = b.y = gpu_copy_of(g, x, bytes);
    b.dx = in_place ? gpu_updated(g, dy, bytes, &want) : gpu_output(g, bytes, &want);
    b.dy = in_place ? b.dx : gpu_copy_of(g, dy, bytes);
    r.x = r.y = x;
    r.dy = dy;
    r.dx = want;
    MUST(ls_activate_gradient_reference(NULL, &r));
    MUST(ls_activate_gradient(&g->stream, &b));
    gpu_same_floats(g, "activation's gradient", want, b.dx, count);
    gpu_arrays_drop(g);
    free(x);
    free(dy);
}

static void check_dropout(gpu_arrays *g, naive_random *n, size_t samples, size_t elements,
                          size_t channels)
{
    float *x = naive_values(n, samples * elements, ALL), *want;
    uint32_t *index = malloc(samples * sizeof *index + 1);
    for (size_t i = 0; i < samples; i++) index[i] = (uint32_t)naive_next(n);
    ls_dropout_args a = {
        .samples = samples, .elements = elements, .channels = channels, .index = index,
        .seed = naive_next(n), .epoch = 7, .layer = 3, .threshold = 0x60000000u, .scale = 1.6f,
        .x = x };
    ls_dropout_args d = a;
    d.index = gpu_copy_of(g, index, samples * sizeof *index);
    d.x = gpu_copy_of(g, x, samples * elements * sizeof *x);
    d.y = gpu_output(g, samples * elements * sizeof *x, &want);
    a.y = want;
    MUST(ls_dropout_reference(NULL, &a));
    MUST(ls_dropout(&g->stream, &d));
    gpu_same_floats(g, "dropout", want, d.y, samples * elements);
    gpu_arrays_drop(g);
    free(x);
    free(index);
}

static int case_activations(void)
{
    static const size_t counts[] = { 0, 1, 3, 4, 5, 1023, 1024, 1029 };
    gpu_arrays g;
    naive_random n = random_of_machine();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        g.shift = i % 3 / 2 * sizeof(float);
        for (int kind = LS_ACTIVATION_RELU; kind <= LS_ACTIVATION_SILU; kind++) {
            check_activation(&g, &n, kind, counts[i], i % 2 == 0);
            check_activation(&g, &n, kind, counts[i], i % 2 == 1);
        }
        check_dropout(&g, &n, i, counts[i], 0);
        check_dropout(&g, &n, counts[i] % 50, 4 * i, 0);
        check_dropout(&g, &n, 3, 7 * (i + 1), i + 1); /* 1 .. 8 channels */
    }
    gpu_arrays_close(&g);
    return 0;
}

/* -- losses ----------------------------------------------------------------------------------- */

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
    float *x = some_logits(n, count, mix), *weight = naive_values(n, samples, FINITE);
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
    float *z = some_logits(n, count, mix), *target = naive_values(n, count, FINITE);
    float *weight = naive_values(n, samples, FINITE);
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
    float *weight = naive_values(n, samples, FINITE);
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
    float *loss = naive_values(n, SAMPLES, FINITE), *weight = naive_values(n, SAMPLES, FINITE);
    float *square = naive_values(n, SAMPLES, FINITE);
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
    naive_random n = random_of_machine();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        g.shift = i % 2 * sizeof(float);
        for (int k = 0; k < 4; k++) {
            if (shapes[i][1] > 200 && k > 1) break;
            const int mix = k == 1 ? ALL : FINITE;
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

/* -- the arena -------------------------------------------------------------------------------- */

enum { TENSORS_MAX = 700 };

typedef struct {
    int count;
    size_t floats;
    ls_arena_tensor tensor[TENSORS_MAX];
} arena;

static void add_tensor(arena *a, size_t count, float l2, float l1)
{
    a->tensor[a->count++] = (ls_arena_tensor){ a->floats, count, 2 * l2, l1 };
    a->floats += (count + 31) / 32 * 32;
}

/* Values in tensors, +0 in the padding. */
static float *arena_values(naive_random *n, const arena *a, int mix)
{
    float *all = calloc(a->floats + 1, sizeof *all);
    for (int t = 0; t < a->count; t++) {
        float *some = naive_values(n, a->tensor[t].count, mix);
        memcpy(all + a->tensor[t].begin, some, a->tensor[t].count * sizeof *some);
        free(some);
    }
    return all;
}

/* The table on both sides: `device` is the GPU's. */
static ls_arena_table table_of(gpu_arrays *g, const arena *a)
{
    const size_t shift = g->shift;
    g->shift = 0;
    const ls_arena_tensor *device =
        gpu_copy_of(g, a->tensor, (size_t)a->count * sizeof a->tensor[0]);
    g->shift = shift;
    return (ls_arena_table){ a->count, a->tensor, device };
}

/* What an update does to each tensor, on the GPU. */
static const ls_tensor_step *steps_of(gpu_arrays *g, const ls_tensor_step *step, size_t count)
{
    const size_t shift = g->shift;
    g->shift = 0;
    const ls_tensor_step *device = gpu_copy_of(g, step, count * sizeof *step);
    g->shift = shift;
    return device;
}

/* An output of 8-byte numbers. */
static void *words_output(gpu_arrays *g, size_t count, void *host_pointer)
{
    const size_t shift = g->shift;
    g->shift = 0;
    void *device = gpu_output(g, count * 8, host_pointer);
    g->shift = shift;
    return device;
}

static void check_gradient_finish(gpu_arrays *g, naive_random *n, const arena *a, int mix)
{
    const ls_arena_table table = table_of(g, a);
    const size_t bytes = a->floats * sizeof(float), count = (size_t)a->count;
    float *w = arena_values(n, a, FINITE), *gradient = arena_values(n, a, mix), *want;
    double *square, *absolute;
    uint64_t *nonfinite;
    ls_gradient_finish_args d = { .tensors = &table, .scale = 0.37f };
    d.w = gpu_copy_of(g, w, bytes);
    d.g = gpu_updated(g, gradient, bytes, &want);
    d.square_sum = words_output(g, count, &square);
    d.nonfinite = words_output(g, count, &nonfinite);
    const ls_gradient_finish_args h = { &table, 0.37f, w, want, square, nonfinite };
    MUST(ls_gradient_finish_reference(NULL, &h));
    MUST(ls_gradient_finish(&g->stream, &d));
    gpu_same_floats(g, "finished gradient", want, d.g, a->floats);
    gpu_same_bytes(g, "first that is not finite", nonfinite, d.nonfinite, count * 8);
    if ((mix & (NAIVE_NAN | NAIVE_INFINITE)) == 0) {
        gpu_same_bytes(g, "squares of the gradient", square, d.square_sum, count * 8);
    }
    ls_weight_sums_args ds = { .tensors = &table, .w = d.w };
    ds.square_sum = words_output(g, count, &square);
    ds.absolute_sum = words_output(g, count, &absolute);
    MUST(ls_weight_sums_reference(NULL, &(ls_weight_sums_args){ &table, w, square, absolute }));
    MUST(ls_weight_sums(&g->stream, &ds));
    gpu_same_bytes(g, "squares of the weights", square, ds.square_sum, count * 8);
    gpu_same_bytes(g, "absolutes of the weights", absolute, ds.absolute_sum, count * 8);
    gpu_arrays_drop(g);
    free(w);
    free(gradient);
}

static void check_update(gpu_arrays *g, naive_random *n, const arena *a, ls_optimizer optimizer)
{
    const ls_arena_table table = table_of(g, a);
    const size_t bytes = a->floats * sizeof(float), count = (size_t)a->count;
    float *w = arena_values(n, a, FINITE), *gradient = arena_values(n, a, FINITE);
    float *slot0 = arena_values(n, a, FINITE), *slot1 = arena_values(n, a, FINITE);
    float *average = arena_values(n, a, FINITE);
    const bool more = optimizer != LS_OPTIMIZER_ADAM; /* clip values, keep an average */
    static ls_tensor_step step[TENSORS_MAX];
    for (int t = 0; t < a->count; t++) {
        step[t] = (ls_tensor_step){ .rate = 0.01f, .decay = t % 3 == 1 ? 0.02f : 0.0f,
                                    .clip = t % 2 ? 0.5f : 1.0f, .frozen = t % 4 == 3 };
    }
    for (size_t i = 0; i < a->floats; i++) {
        slot1[i] *= slot1[i];
        if (optimizer == LS_OPTIMIZER_RMSPROP) slot0[i] *= slot0[i];
    }
    ls_update_args h = { .tensors = &table, .step_host = step, .optimizer = optimizer,
                         .momentum = 0.9f, .one_minus_beta1 = 0.1f, .one_minus_beta2 = 0.001f,
                         .one_minus_rho = 0.1f, .epsilon = 1e-7f,
                         .clip_value = more ? 0.3f : 0.0f, .one_minus_ema = 0.01f,
                         .g = gradient };
    ls_update_args d = h;
    d.step_device = steps_of(g, step, count);
    d.g = gpu_copy_of(g, gradient, bytes);
    d.w = gpu_updated(g, w, bytes, &h.w);
    d.slot0 = gpu_updated(g, slot0, bytes, &h.slot0);
    d.slot1 = gpu_updated(g, slot1, bytes, &h.slot1);
    if (more) d.average = gpu_updated(g, average, bytes, &h.average);
    d.update_square_sum = words_output(g, count, &h.update_square_sum);
    d.digest = words_output(g, 1, &h.digest);
    MUST(ls_update_reference(NULL, &h));
    MUST(ls_update(&g->stream, &d));
    gpu_same_floats(g, "updated weights", h.w, d.w, a->floats);
    gpu_same_floats(g, "slot 0", h.slot0, d.slot0, a->floats);
    gpu_same_floats(g, "slot 1", h.slot1, d.slot1, a->floats);
    if (more) gpu_same_floats(g, "average of the weights", h.average, d.average, a->floats);
    gpu_same_bytes(g, "squares of the update", h.update_square_sum, d.update_square_sum, count * 8);
    gpu_same_bytes(g, "digest of the weights", h.digest, d.digest, 8);
    gpu_arrays_drop(g);
    free(w);
    free(gradient);
    free(slot0);
    free(slot1);
    free(average);
}

static int case_arena(void)
{
    static arena some, many;
    gpu_arrays g;
    naive_random n = random_of_machine();
    add_tensor(&some, 4096 * 5 + 77, 0.01f, 0.0f);
    add_tensor(&some, 10, 0.0f, 0.0f);
    add_tensor(&some, 0, 0.0f, 0.0f);
    add_tensor(&some, 4096, 0.0f, 0.02f);
    add_tensor(&some, 65, 0.3f, 0.2f);
    add_tensor(&some, 4097, 0.0f, 0.0f);
    while (many.count < TENSORS_MAX) add_tensor(&many, naive_below(&n, 40), 0.0f, 0.0f);
    gpu_arrays_open(&g);
    for (int k = LS_OPTIMIZER_SGD; k <= LS_OPTIMIZER_RMSPROP; k++) {
        g.shift = (size_t)(k % 2) * sizeof(float);
        check_gradient_finish(&g, &n, &some, k == 1 ? ALL : FINITE);
        check_update(&g, &n, &some, (ls_optimizer)k);
    }
    check_gradient_finish(&g, &n, &many, FINITE);
    check_update(&g, &n, &many, LS_OPTIMIZER_ADAM);
    gpu_arrays_close(&g);
    return 0;
}

/* More blocks than a tensor may have groups: groups of two. */
static int case_long_tensor(void)
{
    static arena one;
    gpu_arrays g;
    naive_random n = random_of_machine();
    add_tensor(&one, (size_t)4096 * 1024 + 5, 0.0f, 0.0f);
    gpu_arrays_open(&g);
    check_gradient_finish(&g, &n, &one, FINITE);
    gpu_arrays_close(&g);
    return 0;
}

/* -- whole buffers ---------------------------------------------------------------------------- */

static void check_whole(gpu_arrays *g, naive_random *n, size_t count, int mix)
{
    float *x = naive_values(n, count, mix);
    uint64_t *digest, *nonfinite;
    ls_digest_args d = { .count = count, .x = gpu_copy_of(g, x, count * sizeof *x) };
    ls_nonfinite_args f = { .count = count, .x = d.x };
    d.out = words_output(g, 1, &digest);
    f.out = words_output(g, 1, &nonfinite);
    MUST(ls_digest_reference(NULL, &(ls_digest_args){ count, x, digest }));
    MUST(ls_nonfinite_reference(NULL, &(ls_nonfinite_args){ count, x, nonfinite }));
    MUST(ls_digest(&g->stream, &d));
    MUST(ls_nonfinite(&g->stream, &f));
    gpu_same_bytes(g, "digest", digest, d.out, 8);
    gpu_same_bytes(g, "nonfinite", nonfinite, f.out, 8);
    gpu_arrays_drop(g);
    free(x);
}

/* `adds` as ls_merge_args has them; outputs beside the sources, and the first source if
 * `in_place`. */
static void check_merge(gpu_arrays *g, naive_random *n, size_t count, int sources,
                        const unsigned char *adds, int outs, bool in_place, bool digests)
{
    ls_merge_args h = { .count = count, .source_count = sources, .out_count = outs };
    memcpy(h.adds, adds, (size_t)sources);
    ls_merge_args d = h;
    float *x[LS_MERGE_MAX];
    for (int s = 0; s < sources; s++) {
        x[s] = naive_values(n, count, s % 5 == 2 ? ALL : FINITE);
        h.source[s] = x[s];
        d.source[s] = gpu_copy_of(g, x[s], count * sizeof(float));
    }
    for (int o = 0; o < outs; o++) d.out[o] = gpu_output(g, count * sizeof(float), &h.out[o]);
    if (in_place) {
        d.out[0] = gpu_updated(g, x[0], count * sizeof(float), &h.out[0]);
        d.source[0] = d.out[0];
        h.source[0] = h.out[0];
    }
    if (digests) {
        d.source_digest = words_output(g, (size_t)sources, &h.source_digest);
        d.out_digest = words_output(g, 1, &h.out_digest);
    }
    MUST(ls_merge_reference(NULL, &h));
    MUST(ls_merge(&g->stream, &d));
    for (int o = 0; o < outs; o++) gpu_same_floats(g, "merge", h.out[o], d.out[o], count);
    if (digests) {
        gpu_same_bytes(g, "digests of what was merged", h.source_digest, d.source_digest,
                       (size_t)sources * 8);
        gpu_same_bytes(g, "digest of the sum", h.out_digest, d.out_digest, 8);
    }
    gpu_arrays_drop(g);
    for (int s = 0; s < sources; s++) free(x[s]);
}

static int case_whole(void)
{
    static const size_t counts[] = { 0, 1, 5, 127, 128, 1024, 5003 };
    unsigned char chain[LS_MERGE_MAX] = { 0 }, tree[8] = { 0, 1, 0, 2, 0, 1, 0, 3 };
    unsigned char late[LS_MERGE_MAX] = { 0 };
    for (int i = 1; i < LS_MERGE_MAX; i++) chain[i] = 1;
    late[LS_MERGE_MAX - 1] = LS_MERGE_MAX - 1; /* the deepest stack */
    gpu_arrays g;
    naive_random n = random_of_machine();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        g.shift = i % 2 * sizeof(float);
        check_whole(&g, &n, counts[i], ALL);
        check_whole(&g, &n, counts[i], FINITE);
        check_merge(&g, &n, counts[i], 1, chain, 1, false, i % 2 == 0);
        check_merge(&g, &n, counts[i], 2, chain, 3, true, true);
        check_merge(&g, &n, counts[i], 8, tree, 1, i % 2 == 0, i % 3 == 0);
    }
    check_merge(&g, &n, 300, LS_MERGE_MAX, chain, 2, false, true);
    check_merge(&g, &n, 300, LS_MERGE_MAX, late, 1, true, true);
    check_merge(&g, &n, 131, LS_MERGE_MAX, late, 1, false, false);
    gpu_arrays_close(&g);
    return 0;
}

/* -- the tests -------------------------------------------------------------------------------- */

static void test_pooling_has_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_machines("pool");
}

static void test_activations_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_machines("activations");
}

static void test_losses_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_machines("losses");
}

static void test_updates_and_norms_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_machines("arena");
}

static void test_digests_and_merges_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_machines("whole");
}

static void test_a_long_tensors_blocks_are_summed_in_groups(void **state)
{
    (void)state;
    need_gpus(1);
    assert_case("long tensor", "LOCKSTEP_VGPU_SEED=1");
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "pool", case_pool },     { "activations", case_activations }, { "losses", case_losses },
        { "arena", case_arena },   { "whole", case_whole },
        { "long tensor", case_long_tensor }, { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pooling_has_the_bits_of_the_reference),
        cmocka_unit_test(test_activations_have_the_bits_of_the_reference),
        cmocka_unit_test(test_losses_have_the_bits_of_the_reference),
        cmocka_unit_test(test_updates_and_norms_have_the_bits_of_the_reference),
        cmocka_unit_test(test_digests_and_merges_have_the_bits_of_the_reference),
        cmocka_unit_test(test_a_long_tensors_blocks_are_summed_in_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
