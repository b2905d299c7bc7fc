/* SPDX-License-Identifier: MIT */
/* test_cuda_tensors.c -- sums and products of tensors, runs of columns and borders of zeros on a
 * GPU have the reference's bits.
 *
 * As test_cuda_products.c.
 */
#include "support/test.h"

#include "kernels/reference/reference.h"
#include "support/fresh_process.h"
#include "support/gpu_arrays.h"
#include "support/gpu_machines.h"
#include "support/naive.h"

/* -- sums and products ------------------------------------------------------------------------ */

/* y is an output of its own, or a, or b. */
static void check_pair(gpu_arrays *g, naive_random *n, size_t count, int place)
{
    const size_t bytes = count * sizeof(float);
    float *a = naive_values(n, count, NAIVE_ALL), *b = naive_values(n, count, NAIVE_ALL), *want;
    for (int how = 0; how < 3; how++) {
        ls_add_args d = { .count = count, .relu = how == 1 };
        d.y = place == 0 ? gpu_output(g, bytes, &want)
                         : gpu_updated(g, place == 1 ? a : b, bytes, &want);
        d.a = place == 1 ? d.y : gpu_copy_of(g, a, bytes);
        d.b = place == 2 ? d.y : gpu_copy_of(g, b, bytes);
        if (how == 2) {
            MUST(ls_multiply_reference(NULL, &(ls_multiply_args){ count, a, b, want }));
            MUST(ls_multiply(&g->stream, &(ls_multiply_args){ count, d.a, d.b, d.y }));
        } else {
            MUST(ls_add_reference(NULL, &(ls_add_args){ count, d.relu, a, b, want }));
            MUST(ls_add(&g->stream, &d));
        }
        gpu_same_floats(g, how == 2 ? "product" : "sum", want, d.y, count);
        gpu_arrays_drop(g);
    }
    free(a);
    free(b);
}

static int case_pairs(void)
{
    static const size_t counts[] = { 0, 1, 3, 4, 5, 1023, 1024, 1029 };
    gpu_arrays g;
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        g.shift = i % 3 / 2 * sizeof(float);
        for (int place = 0; place < 3; place++) check_pair(&g, &n, counts[i], place);
    }
    gpu_arrays_close(&g);
    return 0;
}

/* -- runs of columns -------------------------------------------------------------------------- */

/* `columns` from column `from` of rows of from_stride to column `to` of rows of to_stride. */
static void check_columns(gpu_arrays *g, naive_random *n, size_t rows, size_t columns, size_t from,
                          size_t from_stride, size_t to, size_t to_stride)
{
    float *source = naive_values(n, rows * from_stride, NAIVE_ALL);
    float *before = naive_values(n, rows * to_stride, 0), *want;
    const float *source_dev = gpu_copy_of(g, source, rows * from_stride * sizeof *source);
    float *y = gpu_updated(g, before, rows * to_stride * sizeof *before, &want);
    const ls_copy_columns_args h = { rows, columns, source + from, from_stride, want + to,
                                     to_stride };
    const ls_copy_columns_args d = { rows, columns, source_dev + from, from_stride, y + to,
                                     to_stride };
    MUST(ls_copy_columns_reference(NULL, &h));
    MUST(ls_copy_columns(&g->stream, &d));
    gpu_same_floats(g, "columns", want, y, rows * to_stride);
    gpu_arrays_drop(g);
    free(source);
    free(before);
}

static int case_columns(void)
{
    gpu_arrays g;
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    for (size_t shift = 0; shift < 2; shift++) {
        g.shift = shift * sizeof(float);
        check_columns(&g, &n, 7, 8, 0, 8, 4, 20);    /* four at a time */
        check_columns(&g, &n, 7, 8, 4, 20, 0, 8);
        check_columns(&g, &n, 7, 8, 1, 20, 0, 8);    /* off alignment */
        check_columns(&g, &n, 7, 8, 0, 8, 0, 9);
        check_columns(&g, &n, 7, 6, 0, 8, 0, 8);
        check_columns(&g, &n, 300, 1, 2, 3, 0, 1);
        check_columns(&g, &n, 1, 1500, 0, 1500, 0, 1500);
        check_columns(&g, &n, 0, 8, 0, 8, 0, 8);
        check_columns(&g, &n, 3, 0, 0, 8, 0, 8);
    }
    gpu_arrays_close(&g);
    return 0;
}

/* -- borders of zeros ------------------------------------------------------------------------- */

static void check_pad(gpu_arrays *g, naive_random *n, ls_pad_args p)
{
    const size_t in = p.samples * p.height * p.width * p.channels;
    const size_t out = p.samples * p.out_height * p.out_width * p.channels;
    float *x = naive_values(n, in, NAIVE_ALL), *want;
    ls_pad_args d = p;
    d.x = gpu_copy_of(g, x, in * sizeof *x);
    d.y = gpu_output(g, out * sizeof *x, &want);
    p.x = x;
    p.y = want;
    MUST(ls_pad_reference(NULL, &p));
    MUST(ls_pad(&g->stream, &d));
    gpu_same_floats(g, "pad", want, d.y, out);
    gpu_arrays_drop(g);
    free(x);
}

static int case_pad(void)
{
    static const ls_pad_args pads[] = {
        { .samples = 2, .height = 5, .width = 4, .channels = 3, .top = 1, .left = 1,
          .out_height = 7, .out_width = 6 },
        { .samples = 2, .height = 5, .width = 4, .channels = 8, .top = 2, .left = 0,
          .out_height = 8, .out_width = 9 },
        { .samples = 3, .height = 7, .width = 6, .channels = 4, .top = -1, .left = -2,
          .out_height = 5, .out_width = 3 },
        { .samples = 2, .height = 8, .width = 9, .channels = 5, .top = -2, .left = 3,
          .out_height = 9, .out_width = 9 },
        { .samples = 2, .height = 3, .width = 3, .channels = 4, .top = 1000, .left = 0,
          .out_height = 4, .out_width = 4 },
        { .samples = 2, .height = 3, .width = 3, .channels = 1, .top = PTRDIFF_MIN / 2,
          .left = PTRDIFF_MAX / 2, .out_height = 4, .out_width = 4 },
        { .samples = 0, .height = 3, .width = 3, .channels = 1, .out_height = 4, .out_width = 4 },
        { .samples = 2, .height = 0, .width = 3, .channels = 4, .out_height = 4, .out_width = 4 },
        { .samples = 2, .height = 3, .width = 3, .channels = 4, .out_height = 0, .out_width = 4 },
    };
    gpu_arrays g;
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof pads / sizeof pads[0]; i++) {
        for (size_t shift = 0; shift < 2; shift++) {
            g.shift = shift * sizeof(float);
            check_pad(&g, &n, pads[i]);
        }
    }
    gpu_arrays_close(&g);
    return 0;
}

/* -- tests ------------------------------------------------------------------------------------ */

static void test_sums_and_products_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_machines("pairs");
}

static void test_runs_of_columns_land_where_the_reference_puts_them(void **state)
{
    (void)state;
    on_three_machines("columns");
}

static void test_borders_are_zeros_and_crops_are_copies(void **state)
{
    (void)state;
    on_three_machines("pad");
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "pairs", case_pairs }, { "columns", case_columns }, { "pad", case_pad }, { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_and_products_have_the_bits_of_the_reference),
        cmocka_unit_test(test_runs_of_columns_land_where_the_reference_puts_them),
        cmocka_unit_test(test_borders_are_zeros_and_crops_are_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
