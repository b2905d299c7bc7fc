/* SPDX-License-Identifier: MIT */
/* test_cuda_elements.c -- pooling, activations and dropout on a GPU have the reference's bits.
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
    float *x = naive_values(n, in, NAIVE_ALL), *dy = naive_values(n, out, NAIVE_ALL), *y, *dx;
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
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        g.shift = i % 2 * sizeof(float);
        check_pool(&g, &n, shapes[i], NAIVE_ALL, i % 2 == 0);
        check_pool(&g, &n, shapes[i], NAIVE_SMALL, i % 2 != 0);
        check_average(&g, &n, shapes[i]);
    }
    check_average(&g, &n, (ls_pool_shape){ 2, 20, 17, 3, 20, 17, 1, 1, 0, 0, 1, 1 }); /* global */
    gpu_arrays_close(&g);
    return 0;
}

/* -- activations ------------------------------------------------------------------------------ */

static void check_activation(gpu_arrays *g, naive_random *n, int kind, size_t count, bool in_place)
{
    float *x = naive_values(n, count, NAIVE_ALL), *dy = naive_values(n, count, NAIVE_ALL), *want;
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
    float *x = naive_values(n, samples * elements, NAIVE_ALL), *want;
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
    naive_random n = gpu_random();
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

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "pool", case_pool }, { "activations", case_activations }, { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pooling_has_the_bits_of_the_reference),
        cmocka_unit_test(test_activations_have_the_bits_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
