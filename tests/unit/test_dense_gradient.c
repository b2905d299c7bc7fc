/* SPDX-License-Identifier: MIT */
/* test_dense_gradient.c -- a dense layer's weight gradient has the reference's bits from every set
 * of kernels: for any tree of shards, ranks and passes, any tile, and numbers of every kind.
 */
#include "support/test.h"

#include <stdio.h>

#include "support/convolution.h"

static ls_conv_shape dense_shape(size_t samples, size_t columns, size_t filters)
{
    return shape_of(samples, 1, 1, columns, filters, 1, 1, 0, 0);
}

static void check_gradient(ls_conv_shape shape, sharing s, int mix)
{
    naive_random n = {.state = 1 + shape.samples * 1000 + shape.channels * 10 + shape.filters};
    convolution c = convolution_of(&n, shape, mix);
    size_t count;
    float *want = run_weight_gradient(&c, &all.machine[0], s, &count);
    for (int k = 1; k < all.count; k++) {
        machine *m = &all.machine[k];
        char op[80];
        snprintf(op, sizeof op, "weight gradient, V %d, rank %d of %d, %d passes", s.V,
                 s.rank, s.N, s.A);
        convolution_check_equal(&c, op, m, want, run_weight_gradient(&c, m, s, &count),
                                count);
    }
    free(want);
    convolution_free(&c);
}

/* Whole subtrees of every height, trees that are none, and shards that outnumber the samples. */
static void test_any_number_of_shards_is_added_up_by_the_tree(void **state)
{
    (void)state;
    static const size_t samples[] = {1, 2, 7, 8, 31, 64, 67};
    for (int V = 1; V <= 64; V += V < 18 ? 1 : 23) {
        for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
            check_gradient(dense_shape(samples[i], 19, 9), (sharing){V, 1, 0, 1}, NAIVE_ZEROS);
        }
    }
}

static void test_ranks_and_passes_end_with_their_pieces(void **state)
{
    (void)state;
    static const int shards[] = {3, 8, 9, 12, 16, 64};
    static const size_t samples[] = {5, 40, 130};
    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
        for (int N = 1; N <= 3; N++) {
            for (int A = 1; A <= 3; A++) {
                for (size_t s = 0; s < sizeof samples / sizeof *samples; s++) {
                    check_gradient(dense_shape(samples[s], 18, 7),
                                   (sharing){shards[i], N, N - 1, A}, NAIVE_ZEROS);
                }
            }
        }
    }
}

/* Rows from one to more than two tiles, columns about whole words, with and without copies. */
static void test_any_tile_has_the_same_bits(void **state)
{
    (void)state;
    static const size_t columns[] = {1, 3, 4, 8, 15, 16, 17, 31, 32, 33, 48, 65};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        for (size_t filters = 1; filters <= 18; filters++) {
            check_gradient(dense_shape(11, columns[i], filters), (sharing){4, 1, 0, 1},
                           NAIVE_ZEROS);
        }
        check_gradient(dense_shape(9, columns[i], 67), (sharing){3, 1, 0, 1}, NAIVE_ZEROS);
    }
    check_gradient(dense_shape(21, 512, 13), (sharing){8, 1, 0, 1}, NAIVE_ZEROS);
    check_gradient(dense_shape(21, 100, 99), (sharing){8, 1, 0, 1}, NAIVE_ZEROS);
    check_gradient(dense_shape(21, 1024, 64), (sharing){8, 1, 0, 1}, NAIVE_ZEROS);
}

/* So small that it is used where it lies: several groups of columns, of whole words and tiles and
 * not, and tiles of rows that differ. */
static void test_a_small_gradient_has_the_same_bits(void **state)
{
    (void)state;
    static const size_t columns[] = {64, 80, 112, 128, 160};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        for (size_t filters = 10; filters <= 40; filters += 15) {
            check_gradient(dense_shape(64, columns[i], filters), (sharing){1, 1, 0, 1},
                           NAIVE_ZEROS);
            check_gradient(dense_shape(64, columns[i], filters), (sharing){8, 3, 1, 2},
                           NAIVE_ZEROS);
        }
    }
}

/* Of several passes, some of which add nothing: with a dw and an x that lines are asked for. */
static void test_passes_without_samples_add_nothing(void **state)
{
    (void)state;
    check_gradient(dense_shape(1, 7200, 64), (sharing){4, 1, 0, 4}, NAIVE_ZEROS);
    check_gradient(dense_shape(2, 7200, 64), (sharing){8, 2, 1, 4}, NAIVE_ZEROS);
}

/* Rows of dy that are far apart, in one block and in more. */
static void test_many_filters_have_the_same_bits(void **state)
{
    (void)state;
    check_gradient(dense_shape(12, 257, 32), (sharing){8, 1, 0, 1}, NAIVE_ZEROS);
    check_gradient(dense_shape(1, 257, 33), (sharing){8, 1, 0, 1}, NAIVE_ZEROS);
    check_gradient(dense_shape(12, 257, 33), (sharing){8, 1, 0, 1}, NAIVE_ZEROS);
    check_gradient(dense_shape(13, 230, 256), (sharing){8, 1, 0, 1}, NAIVE_ZEROS);
    check_gradient(dense_shape(30, 225, 301), (sharing){8, 2, 1, 3}, NAIVE_ZEROS);
    check_gradient(dense_shape(500, 226, 291), (sharing){3, 1, 0, 1}, NAIVE_ZEROS);
}

/* Up to the most places that go this way, and one more. */
static void test_many_places_have_the_same_bits(void **state)
{
    (void)state;
    static const size_t samples[] = {512, 513, 1023, 1024, 1025};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        check_gradient(dense_shape(samples[i], 37, 10), (sharing){8, 1, 0, 1}, NAIVE_ZEROS);
    }
}

static void test_places_of_an_image_are_like_samples(void **state)
{
    (void)state;
    check_gradient(shape_of(6, 5, 7, 33, 20, 1, 1, 0, 0), (sharing){4, 1, 0, 1}, NAIVE_ZEROS);
    check_gradient(shape_of(2, 1, 500, 17, 3, 1, 1, 0, 0), (sharing){8, 1, 0, 1}, NAIVE_ZEROS);
    check_gradient(shape_of(3, 300, 1, 17, 3, 1, 1, 0, 0), (sharing){2, 2, 1, 1}, NAIVE_ZEROS);
}

/* Strides that do and do not divide the image; its last rows are not always read. */
static void test_places_some_rows_and_columns_apart_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t stride = 2; stride <= 4; stride++) {
        for (size_t height = 1; height <= 6; height++) {
            check_gradient(shape_of(6, height, 7, 33, 20, 1, stride, 0, 0), (sharing){4, 1, 0, 1},
                           NAIVE_ZEROS);
        }
        check_gradient(shape_of(5, 9, 8, 230, 260, 1, stride, 0, 0), (sharing){3, 2, 1, 2},
                       NAIVE_ZEROS);
    }
}

static void test_numbers_that_are_not_finite_pass_through(void **state)
{
    (void)state;
    for (int V = 1; V <= 8; V++) {
        check_gradient(dense_shape(20, 40, 9), (sharing){V, 1, 0, 1},
                       NAIVE_ZEROS | NAIVE_TINY | NAIVE_HUGE | NAIVE_INFINITE | NAIVE_NAN);
    }
}

/* Every product is negative, and too small for a float: the chains are -0 but for their ends. */
static void check_zeros(ls_conv_shape shape, sharing s)
{
    naive_random n = {.state = 3};
    convolution c = convolution_of(&n, shape, NAIVE_ZEROS);
    for (size_t i = 0; i < x_floats(&c.shape); i++) c.x[i] = -1e-30f;
    for (size_t i = 0; i < y_floats(&c.shape); i++) c.dy[i] = 1e-30f;
    for (int k = 0; k < all.count; k++) {
        size_t count;
        float *dw = run_weight_gradient(&c, &all.machine[k], s, &count);
        for (size_t i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, &dw[i], sizeof bits);
            assert_int_not_equal(bits, 0x80000000u);
        }
        free(dw);
    }
    convolution_free(&c);
}

static void test_no_sum_is_a_negative_zero(void **state)
{
    (void)state;
    static const size_t columns[] = {8, 16, 21, 32, 48};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        check_zeros(dense_shape(24, columns[i], 9), (sharing){8, 1, 0, 1});
        check_zeros(dense_shape(24, columns[i], 9), (sharing){8, 1, 0, 2});
        check_zeros(dense_shape(24, columns[i], 9), (sharing){8, 3, 1, 1});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_shards_is_added_up_by_the_tree),
        cmocka_unit_test(test_ranks_and_passes_end_with_their_pieces),
        cmocka_unit_test(test_any_tile_has_the_same_bits),
        cmocka_unit_test(test_a_small_gradient_has_the_same_bits),
        cmocka_unit_test(test_passes_without_samples_add_nothing),
        cmocka_unit_test(test_many_filters_have_the_same_bits),
        cmocka_unit_test(test_many_places_have_the_same_bits),
        cmocka_unit_test(test_places_of_an_image_are_like_samples),
        cmocka_unit_test(test_places_some_rows_and_columns_apart_have_the_same_bits),
        cmocka_unit_test(test_numbers_that_are_not_finite_pass_through),
        cmocka_unit_test(test_no_sum_is_a_negative_zero),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
