/* SPDX-License-Identifier: MIT */
/* test_arena.c -- finishing the gradient and the norms, tensor by tensor. */
#include <math.h>

#include "support/arena_layout.h"
#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

/* -- finishing the gradient -------------------------------------------------------------------- */

static void check_finish(bool regularised, uint64_t seed, int mix)
{
    layout l;
    layout_init(&l, regularised);
    naive_random random = { seed };
    const float scale = 1.0f / 96;
    float *w = arena_values(&l, &random, NAIVE_SMALL);
    float *raw = arena_values(&l, &random, mix), *want = copy_of(raw, l.floats);
    uint64_t first[TENSORS];
    double norm[TENSORS];
    for (int t = 0; t < TENSORS; t++) {
        const ls_arena_tensor *tensor = &l.tensor[t];
        first[t] = UINT64_MAX;
        for (size_t i = tensor->count; i-- > 0;) {
            float *g = &want[tensor->begin + i], x = w[tensor->begin + i];
            if (!isfinite(*g)) first[t] = i;
            *g *= scale;
            if (tensor->l2_twice > 0.0f) *g = fmaf(tensor->l2_twice, x, *g);
            if (tensor->l1 > 0.0f) *g += x > 0.0f ? tensor->l1 : x < 0.0f ? -tensor->l1 : 0.0f;
        }
        norm[t] = naive_flat_f64(want + tensor->begin, want + tensor->begin, tensor->count);
    }
    for (int m = 0; m < all.count; m++) {
        float *g = copy_of(raw, l.floats);
        double sum[TENSORS];
        uint64_t nonfinite[TENSORS];
        const ls_gradient_finish_args args = { &l.table, scale, w, g, sum, nonfinite };
        assert_int_equal(ls_gradient_finish(&all.machine[m].stream, &args), LS_OK);
        assert_true(naive_same("gradient_finish", all.machine[m].name, want, g, l.floats));
        for (int t = 0; t < TENSORS; t++) {
            assert_true(nonfinite[t] == first[t]);
            assert_true(same_double(sum[t], norm[t]));
        }
        free(g);
    }
    free(w);
    free(raw);
    free(want);
}

static void test_a_gradient_is_tested_scaled_regularised_and_measured(void **state)
{
    (void)state;
    check_finish(false, 1, NAIVE_SMALL);
    check_finish(true, 2, NAIVE_ZEROS | NAIVE_TINY | NAIVE_HUGE);
    check_finish(false, 3, 0);
}

static void test_the_first_element_that_is_not_finite_is_named_per_tensor(void **state)
{
    (void)state;
    check_finish(true, 4, NAIVE_ALL);
    check_finish(false, 5, NAIVE_NAN);
    check_finish(false, 6, NAIVE_INFINITE);
}

/* -- norms ------------------------------------------------------------------------------------- */

static void test_norms_are_flat_sums_counted_from_each_tensors_start(void **state)
{
    (void)state;
    layout l;
    layout_init(&l, false);
    naive_random random = { 7 };
    float *w = arena_values(&l, &random, NAIVE_ZEROS | NAIVE_TINY | NAIVE_HUGE);
    float *size = malloc(l.floats * sizeof *size), *one = malloc(l.floats * sizeof *one);
    for (size_t i = 0; i < l.floats; i++) {
        size[i] = fabsf(w[i]);
        one[i] = 1.0f;
    }
    for (int m = 0; m < all.count; m++) {
        double square[TENSORS], absolute[TENSORS];
        const ls_weight_sums_args args = { &l.table, w, square, absolute };
        assert_int_equal(ls_weight_sums(&all.machine[m].stream, &args), LS_OK);
        for (int t = 0; t < TENSORS; t++) {
            const size_t begin = l.tensor[t].begin, count = l.tensor[t].count;
            assert_true(square[t] == naive_flat_f64(w + begin, w + begin, count));
            assert_true(absolute[t] == naive_flat_f64(size + begin, one + begin, count));
        }
    }
    free(w);
    free(size);
    free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gradient_is_tested_scaled_regularised_and_measured),
        cmocka_unit_test(test_the_first_element_that_is_not_finite_is_named_per_tensor),
        cmocka_unit_test(test_norms_are_flat_sums_counted_from_each_tensors_start),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
