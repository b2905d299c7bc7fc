/* SPDX-License-Identifier: MIT */
/* test_tensors.c -- sums and products of tensors, runs of columns, borders of zeros: on every
 * machine the bits of a definition written down here again.
 */
#include <math.h>

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

static const size_t counts[] = { 0,  1,  2,  3,    7,     15,    16,    17,
                                 63, 64, 65, 1000, 32767, 32769, 100001 };
enum { COUNTS = sizeof counts / sizeof counts[0] };

/* -- sums and products ------------------------------------------------------------------------- */

typedef enum { SUM, SUM_RELU, PRODUCT, WAYS } way;

static float combined(way how, float a, float b)
{
    if (how == PRODUCT) return a * b;
    const float sum = a + b;
    return how == SUM_RELU && !(sum > 0.0f) && !isnan(sum) ? 0.0f : sum;
}

static void combine(machine *m, way how, size_t count, const float *a, const float *b, float *y)
{
    if (how == PRODUCT) {
        assert_int_equal(ls_multiply(&m->stream, &(ls_multiply_args){ count, a, b, y }), LS_OK);
    } else {
        const ls_add_args args = { count, how == SUM_RELU, a, b, y };
        assert_int_equal(ls_add(&m->stream, &args), LS_OK);
    }
}

static void check_pair(way how, size_t n, uint64_t seed)
{
    naive_random random = { seed };
    float *a = naive_values(&random, n, NAIVE_ALL), *b = naive_values(&random, n, NAIVE_ALL);
    float *y = malloc(n * sizeof *y), *want = malloc(n * sizeof *want);
    float *square = malloc(n * sizeof *square);
    for (size_t i = 0; i < n; i++) {
        if (i % 5 == 4) b[i] = -a[i]; /* sums that are 0 */
        want[i] = combined(how, a[i], b[i]);
        square[i] = combined(how, a[i], a[i]);
    }
    for (int m = 0; m < all.count; m++) {
        machine *at = &all.machine[m];
        combine(at, how, n, a, b, y);
        assert_true(naive_same("pair", at->name, want, y, n));
        if (n > 0) memcpy(y, a, n * sizeof *y);
        combine(at, how, n, y, b, y);
        assert_true(naive_same("pair in place of a", at->name, want, y, n));
        if (n > 0) memcpy(y, b, n * sizeof *y);
        combine(at, how, n, a, y, y);
        assert_true(naive_same("pair in place of b", at->name, want, y, n));
        if (n > 0) memcpy(y, a, n * sizeof *y);
        combine(at, how, n, y, y, y);
        assert_true(naive_same("pair of one", at->name, square, y, n));
    }
    free(a);
    free(b);
    free(y);
    free(want);
    free(square);
}

static void test_sums_and_products_have_the_bits_of_one_operation(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNTS; k++) {
        for (int how = 0; how < WAYS; how++) check_pair((way)how, counts[k], 10 * k + (size_t)how);
    }
}

static void test_a_sums_relu_passes_a_nan_and_makes_minus_zero_plus(void **state)
{
    (void)state;
    const float a[5] = { -0.0f, NAN, 1.0f, INFINITY, 2.0f };
    const float b[5] = { -0.0f, 1.0f, -2.0f, -INFINITY, 1.0f };
    const float plain[5] = { -0.0f, NAN, -1.0f, NAN, 3.0f };
    const float relu[5] = { 0.0f, NAN, 0.0f, NAN, 3.0f };
    for (int m = 0; m < all.count; m++) {
        float y[5];
        combine(&all.machine[m], SUM, 5, a, b, y);
        assert_true(naive_same("sum", all.machine[m].name, plain, y, 5));
        combine(&all.machine[m], SUM_RELU, 5, a, b, y);
        assert_true(naive_same("sum's relu", all.machine[m].name, relu, y, 5));
    }
}

/* -- runs of columns --------------------------------------------------------------------------- */

static bool all_bytes_are(const void *memory, unsigned char value, size_t bytes)
{
    const unsigned char *at = memory;
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != value) return false;
    }
    return true;
}

/* Three tensors of rows, side by side and apart again; what lies beside a run is not touched. */
static void check_columns(size_t rows, const size_t width[3], uint64_t seed)
{
    naive_random random = { seed };
    const size_t total = width[0] + width[1] + width[2];
    float *whole = malloc(rows * total * sizeof *whole);
    for (int m = 0; m < all.count; m++) {
        memset(whole, 0x5a, rows * total * sizeof *whole);
        ls_stream *stream = &all.machine[m].stream;
        float *part[3];
        size_t first = 0;
        for (int i = 0; i < 3; i++) {
            part[i] = naive_values(&random, rows * width[i], NAIVE_ALL);
            const ls_copy_columns_args args = { rows, width[i], part[i], width[i], whole + first,
                                                total };
            assert_int_equal(ls_copy_columns(stream, &args), LS_OK);
            first += width[i];
            for (size_t r = 0; r < rows; r++) {
                assert_true(all_bytes_are(whole + r * total + first, 0x5a,
                                          (total - first) * sizeof *whole));
            }
        }
        first = 0;
        for (int i = 0; i < 3; i++) {
            for (size_t e = 0; e < rows * width[i]; e++) {
                const float *at = &whole[e / width[i] * total + first + e % width[i]];
                assert_memory_equal(at, &part[i][e], sizeof *at);
            }
            float *back = malloc(rows * width[i] * sizeof *back);
            const ls_copy_columns_args args = { rows, width[i], whole + first, total, back,
                                                width[i] };
            assert_int_equal(ls_copy_columns(stream, &args), LS_OK);
            if (rows * width[i] > 0) {
                assert_memory_equal(back, part[i], rows * width[i] * sizeof *back);
            }
            first += width[i];
            free(back);
            free(part[i]);
        }
    }
    free(whole);
}

static void test_columns_go_beside_each_other_and_come_back(void **state)
{
    (void)state;
    static const size_t widths[][3] = { { 1, 1, 1 },  { 3, 5, 2 },     { 16, 32, 16 },
                                        { 4, 0, 7 },  { 64, 128, 256 }, { 1, 200, 33 } };
    static const size_t rows[] = { 0, 1, 2, 7, 300 };
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            check_columns(rows[k], widths[i], 7 * i + k);
        }
    }
}

/* -- borders of zeros -------------------------------------------------------------------------- */

static void check_pad(ls_pad_args p, uint64_t seed)
{
    naive_random random = { seed };
    const size_t in = p.samples * p.height * p.width * p.channels;
    const size_t out = p.samples * p.out_height * p.out_width * p.channels;
    float *x = naive_values(&random, in, NAIVE_ALL), *y = malloc(out * sizeof *y);
    float *want = malloc(out * sizeof *want);
    for (size_t o = 0; o < out; o++) {
        const size_t place = o / p.channels, row = place / p.out_width;
        const long h = (long)(row % p.out_height) - (long)p.top;
        const long w = (long)(place % p.out_width) - (long)p.left;
        const bool inside = h >= 0 && h < (long)p.height && w >= 0 && w < (long)p.width;
        const size_t n = row / p.out_height;
        want[o] = inside ? x[((n * p.height + (size_t)h) * p.width + (size_t)w) * p.channels +
                             o % p.channels]
                         : 0.0f;
    }
    p.x = x;
    p.y = y;
    for (int m = 0; m < all.count; m++) {
        memset(y, 0xff, out * sizeof *y);
        assert_int_equal(ls_pad(&all.machine[m].stream, &p), LS_OK);
        assert_true(naive_same("pad", all.machine[m].name, want, y, out));
    }
    free(x);
    free(y);
    free(want);
}

static void test_borders_are_plus_zero_and_the_inside_is_copied(void **state)
{
    (void)state;
    check_pad((ls_pad_args){ 2, 5, 4, 3, 1, 1, 7, 6, NULL, NULL }, 1);     /* all around */
    check_pad((ls_pad_args){ 2, 5, 4, 8, 2, 0, 8, 9, NULL, NULL }, 2);     /* each side another */
    check_pad((ls_pad_args){ 3, 1, 1, 1, 3, 3, 7, 7, NULL, NULL }, 3);     /* one pixel */
    check_pad((ls_pad_args){ 2, 5, 4, 3, 0, 0, 5, 4, NULL, NULL }, 4);     /* none: a copy */
    check_pad((ls_pad_args){ 40, 33, 35, 5, 2, 1, 36, 38, NULL, NULL }, 5); /* several tasks */
}

static void test_negative_offsets_crop(void **state)
{
    (void)state;
    check_pad((ls_pad_args){ 2, 7, 6, 3, -1, -1, 5, 4, NULL, NULL }, 1);
    check_pad((ls_pad_args){ 2, 8, 9, 4, -2, 0, 5, 4, NULL, NULL }, 2);
    check_pad((ls_pad_args){ 2, 8, 9, 4, -2, 3, 9, 9, NULL, NULL }, 3); /* crops and pads */
    check_pad((ls_pad_args){ 2, 3, 3, 2, 1, -1, 2, 2, NULL, NULL }, 4); /* shows a corner */
}

static void test_an_input_out_of_sight_leaves_zeros(void **state)
{
    (void)state;
    static const ptrdiff_t far[] = { 4, 5, 1000, -3, -4, -1000, PTRDIFF_MAX / 2, PTRDIFF_MIN / 2 };
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        check_pad((ls_pad_args){ 2, 3, 3, 2, far[i], 0, 4, 4, NULL, NULL }, 2 * i);
        check_pad((ls_pad_args){ 2, 3, 3, 2, 0, far[i], 4, 4, NULL, NULL }, 2 * i + 1);
    }
    check_pad((ls_pad_args){ 2, 0, 3, 2, 1, 1, 4, 4, NULL, NULL }, 90); /* none */
    check_pad((ls_pad_args){ 2, 3, 3, 2, 1, 1, 0, 4, NULL, NULL }, 91); /* nothing to show it in */
    check_pad((ls_pad_args){ 2, 3, 3, 2, 1, 1, 4, 0, NULL, NULL }, 92);
    check_pad((ls_pad_args){ 0, 3, 3, 2, 1, 1, 4, 4, NULL, NULL }, 93);
}

/* What a border took in, cropping gives back: pad's gradient is its crop. */
static void test_cropping_undoes_padding(void **state)
{
    (void)state;
    naive_random random = { 12 };
    float *x = naive_values(&random, 2 * 5 * 4 * 3, NAIVE_ALL);
    float padded[2 * 9 * 7 * 3], back[2 * 5 * 4 * 3];
    for (int m = 0; m < all.count; m++) {
        ls_stream *stream = &all.machine[m].stream;
        assert_int_equal(ls_pad(stream, &(ls_pad_args){ 2, 5, 4, 3, 1, 2, 9, 7, x, padded }),
                         LS_OK);
        assert_int_equal(ls_pad(stream, &(ls_pad_args){ 2, 9, 7, 3, -1, -2, 5, 4, padded, back }),
                         LS_OK);
        assert_true(naive_same("crop", all.machine[m].name, x, back, 2 * 5 * 4 * 3));
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_and_products_have_the_bits_of_one_operation),
        cmocka_unit_test(test_a_sums_relu_passes_a_nan_and_makes_minus_zero_plus),
        cmocka_unit_test(test_columns_go_beside_each_other_and_come_back),
        cmocka_unit_test(test_borders_are_plus_zero_and_the_inside_is_copied),
        cmocka_unit_test(test_negative_offsets_crop),
        cmocka_unit_test(test_an_input_out_of_sight_leaves_zeros),
        cmocka_unit_test(test_cropping_undoes_padding),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
