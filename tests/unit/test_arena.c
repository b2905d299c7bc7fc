/* SPDX-License-Identifier: MIT */
/* test_arena.c -- finishing the gradient, the update and the norms, tensor by tensor. */
#include <math.h>
#include <stdio.h>

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

static machines all;

static int open_machines(void **state)
{
    (void)state;
    machines_open(&all);
    return 0;
}

static int close_machines(void **state)
{
    (void)state;
    machines_close(&all);
    return 0;
}

/* Tensors of every awkward length; in the arena their order is reversed, as a model's is. */
static const size_t counts[] = { 1,    3,    32,   63,   64,    65,    0,     1023,
                                 1025, 4095, 4096, 4097, 16384, 16385, 36900, 10 };
enum { TENSORS = sizeof counts / sizeof counts[0] };

typedef struct {
    ls_arena_tensor tensor[TENSORS];
    ls_arena_table table;
    size_t floats;
} layout;

static void layout_init(layout *l, bool regularised)
{
    l->floats = 0;
    for (int t = TENSORS - 1; t >= 0; t--) {
        l->tensor[t] = (ls_arena_tensor){ .begin = l->floats, .count = counts[t] };
        if (regularised && t % 3 != 0) l->tensor[t].l2_twice = 0.02f;
        if (regularised && t % 3 != 1) l->tensor[t].l1 = 0.005f;
        l->floats += (counts[t] + 31) / 32 * 32;
    }
    l->table = (ls_arena_table){ TENSORS, l->tensor, l->tensor };
}

/* An arena of values; padding is zero. */
static float *arena_values(const layout *l, naive_random *random, int mix)
{
    float *x = naive_values(random, l->floats, mix);
    for (int t = 0; t < TENSORS; t++) {
        const size_t end = l->tensor[t].begin + l->tensor[t].count;
        for (size_t i = end; i % 32 != 0; i++) x[i] = 0.0f;
    }
    return x;
}

static float *copy_of(const float *x, size_t count)
{
    float *y = malloc(count * sizeof *y);
    memcpy(y, x, count * sizeof *y);
    return y;
}

static bool same_double(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

/* -- finishing the gradient -------------------------------------------------------------------- */

static void check_finish(bool regularised, uint64_t seed, int mix)
{
    layout l;
    layout_init(&l, regularised);
    naive_random random = { seed };
    const float scale = 1.0f / 96;
    float *w = arena_values(&l, &random, NAIVE_ZEROS | NAIVE_TINY);
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
    check_finish(false, 1, NAIVE_ZEROS | NAIVE_TINY);
    check_finish(true, 2, NAIVE_ZEROS | NAIVE_TINY | NAIVE_HUGE);
    check_finish(false, 3, 0);
}

static void test_the_first_element_that_is_not_finite_is_named_per_tensor(void **state)
{
    (void)state;
    check_finish(true, 4, 31);
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

/* -- update ------------------------------------------------------------------------------------ */

static float flushed(float x) { return fabsf(x) < 0x1p-100f ? 0.0f : x; }

/* One element, as docs/numerics.md 6 writes it. */
static void update_element(const ls_update_args *a, float g, float *w, float *s0, float *s1)
{
    if (a->optimizer == LS_OPTIMIZER_SGD) {
        *w = fmaf(-a->rate, g, *w);
    } else if (a->optimizer == LS_OPTIMIZER_MOMENTUM) {
        const float u = fmaf(a->momentum, *s0, -(a->rate * g));
        *w += u;
        *s0 = flushed(u);
    } else {
        const float m = fmaf(a->one_minus_beta1, g - *s0, *s0);
        const float v = fmaf(a->one_minus_beta2, fmaf(g, g, -*s1), *s1);
        *w = fmaf(-a->rate, m / (sqrtf(v) + a->epsilon), *w);
        *s0 = flushed(m);
        *s1 = flushed(v);
    }
}

/* Three updates in a row, with slots that start as any step could have left them: zero, ordinary,
 * or about to fall below 2^-100. */
static void check_update(ls_optimizer optimizer, uint64_t seed, int mix)
{
    layout l;
    layout_init(&l, false);
    naive_random random = { seed };
    ls_update_args args = { .tensors = &l.table, .optimizer = optimizer, .rate = 0.0123f,
                            .momentum = 0.9f, .one_minus_beta1 = (float)(1 - 0.9),
                            .one_minus_beta2 = (float)(1 - 0.999), .epsilon = 1e-7f };
    float *start = arena_values(&l, &random, NAIVE_ZEROS | NAIVE_TINY);
    float *g = arena_values(&l, &random, mix), *change = copy_of(g, l.floats);
    float *slot0 = arena_values(&l, &random, NAIVE_ZEROS | NAIVE_TINY);
    float *slot1 = arena_values(&l, &random, NAIVE_ZEROS | NAIVE_TINY);
    for (size_t i = 0; i < l.floats; i++) { /* v is a mean of squares */
        slot1[i] *= i % 5 == 0 ? slot1[i] * 1e-30f : slot1[i];
        if (i % 7 == 0) g[i] *= 1e-15f;
    }
    float *want = copy_of(start, l.floats), *before = malloc(l.floats * sizeof *before);
    float *want0 = copy_of(slot0, l.floats), *want1 = copy_of(slot1, l.floats);
    float *w[MACHINES_MAX], *s0[MACHINES_MAX], *s1[MACHINES_MAX];
    for (int m = 0; m < all.count; m++) {
        w[m] = copy_of(start, l.floats);
        s0[m] = copy_of(slot0, l.floats);
        s1[m] = copy_of(slot1, l.floats);
    }
    for (int step = 0; step < 3; step++) {
        memcpy(before, want, l.floats * sizeof *before);
        uint64_t digest = LS_DIGEST_START;
        for (size_t i = 0; i < l.floats; i++) {
            update_element(&args, g[i], &want[i], &want0[i], &want1[i]);
            change[i] = want[i] - before[i];
            digest += ls_digest_term(i, want[i]);
        }
        for (int m = 0; m < all.count; m++) {
            const char *name = all.machine[m].name;
            double moved[TENSORS];
            uint64_t out;
            args.g = g;
            args.w = w[m];
            args.slot0 = optimizer == LS_OPTIMIZER_SGD ? NULL : s0[m];
            args.slot1 = optimizer == LS_OPTIMIZER_ADAM ? s1[m] : NULL;
            args.update_square_sum = moved;
            args.digest = &out;
            assert_int_equal(ls_update(&all.machine[m].stream, &args), LS_OK);
            assert_true(naive_same("weights", name, want, w[m], l.floats));
            assert_true(naive_same("slot 0", name, want0, s0[m], l.floats));
            assert_true(naive_same("slot 1", name, want1, s1[m], l.floats));
            assert_true(out == digest);
            for (int t = 0; t < TENSORS; t++) {
                const float *d = change + l.tensor[t].begin;
                assert_true(same_double(moved[t], naive_flat_f64(d, d, l.tensor[t].count)));
            }
        }
        for (size_t i = 0; i < l.floats; i++) g[i] *= 1e-14f; /* slots decay past the flush */
    }
    for (int m = 0; m < all.count; m++) {
        free(w[m]);
        free(s0[m]);
        free(s1[m]);
    }
    float *const owned[] = { start, g, slot0, slot1, want, before, want0, want1, change };
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) free(owned[i]);
}

static void test_sgd_updates_every_element_by_its_formula(void **state)
{
    (void)state;
    check_update(LS_OPTIMIZER_SGD, 1, NAIVE_ZEROS | NAIVE_TINY);
    check_update(LS_OPTIMIZER_SGD, 2, 31);
}

static void test_momentum_updates_and_flushes_its_slot(void **state)
{
    (void)state;
    check_update(LS_OPTIMIZER_MOMENTUM, 1, NAIVE_ZEROS | NAIVE_TINY);
    check_update(LS_OPTIMIZER_MOMENTUM, 2, 31);
}

static void test_adam_updates_and_flushes_both_slots(void **state)
{
    (void)state;
    check_update(LS_OPTIMIZER_ADAM, 1, NAIVE_ZEROS | NAIVE_TINY);
    check_update(LS_OPTIMIZER_ADAM, 2, 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gradient_is_tested_scaled_regularised_and_measured),
        cmocka_unit_test(test_the_first_element_that_is_not_finite_is_named_per_tensor),
        cmocka_unit_test(test_norms_are_flat_sums_counted_from_each_tensors_start),
        cmocka_unit_test(test_sgd_updates_every_element_by_its_formula),
        cmocka_unit_test(test_momentum_updates_and_flushes_its_slot),
        cmocka_unit_test(test_adam_updates_and_flushes_both_slots),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
