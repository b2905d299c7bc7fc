/* SPDX-License-Identifier: MIT */
/* test_loss_regression.c -- squared and absolute error: flat sums, the same on every machine. */
#include <math.h>

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

/* What a case of regression goes in with, and what has to come out. */
typedef struct {
    size_t samples, outputs;
    float *p, *y, *weight;
    float *loss, *absolute, *squared, *dp;
} regression_case;

/* Each row's errors by the naive flat sums; `sign` in place of the difference where absolute. */
static void regression_expect(const regression_case *t, bool is_absolute, float scale,
                              const regression_case *want)
{
    const size_t C = t->outputs;
    float *d = malloc(C * sizeof *d), *size = malloc(C * sizeof *d), *one = malloc(C * sizeof *d);
    for (size_t n = 0; n < t->samples; n++) {
        const float w = (want->weight ? want->weight[n] : 1.0f) * scale;
        const float factor = is_absolute ? w / (float)C : w * (2.0f / (float)C);
        for (size_t i = 0; i < C; i++) {
            d[i] = t->p[n * C + i] - t->y[n * C + i];
            one[i] = 1.0f;
            size[i] = fabsf(d[i]);
            float slope = d[i];
            if (is_absolute && d[i] > 0) slope = 1.0f;
            if (is_absolute && d[i] < 0) slope = -1.0f;
            want->dp[n * C + i] = factor * slope;
        }
        want->squared[n] = naive_flat_f32(d, d, C) / (float)C;
        want->absolute[n] = naive_flat_f32(size, one, C) / (float)C;
        want->loss[n] = is_absolute ? want->absolute[n] : want->squared[n];
    }
    free(d);
    free(size);
    free(one);
}

static void check_regression(size_t samples, size_t outputs, uint64_t seed, int mix)
{
    naive_random random = { seed };
    const size_t count = samples * outputs;
    regression_case t = { .samples = samples, .outputs = outputs }, want;
    t.p = naive_values(&random, count, mix);
    t.y = naive_values(&random, count, mix);
    t.weight = naive_values(&random, samples, NAIVE_ZEROS);
    for (size_t i = 0; i < count; i += 5) t.y[i] = t.p[i]; /* no difference: slope 0 */
    float *rows = malloc(6 * (samples + 1) * sizeof *rows);
    float *slopes = malloc(2 * (count + 1) * sizeof *slopes);
    t.loss = rows, t.absolute = t.loss + samples, t.squared = t.absolute + samples;
    t.dp = slopes;
    want = t;
    want.loss = t.squared + samples, want.absolute = want.loss + samples;
    want.squared = want.absolute + samples;
    want.dp = slopes + count;
    for (int k = 0; k < 4; k++) {
        const float scale = k / 2 ? 1024.0f : 1.0f;
        want.weight = k / 2 ? t.weight : NULL;
        regression_expect(&t, k % 2, scale, &want);
        for (int m = 0; m < all.count; m++) {
            const char *name = all.machine[m].name;
            ls_regression_loss_args args = {
                .kind = k % 2 ? LS_REGRESSION_ABSOLUTE : LS_REGRESSION_SQUARED,
                .samples = samples, .outputs = outputs, .loss_scale = scale, .prediction = t.p,
                .target = t.y, .weight = want.weight, .loss = t.loss,
                .absolute_error = t.absolute, .squared_error = t.squared, .dprediction = t.dp };
            assert_int_equal(ls_regression_loss(&all.machine[m].stream, &args), LS_OK);
            assert_true(naive_same("loss", name, want.loss, t.loss, samples));
            assert_true(naive_same("absolute", name, want.absolute, t.absolute, samples));
            assert_true(naive_same("squared", name, want.squared, t.squared, samples));
            assert_true(naive_same("dprediction", name, want.dp, t.dp, count));
            args.loss = args.absolute_error = args.squared_error = args.dprediction = NULL;
            assert_int_equal(ls_regression_loss(&all.machine[m].stream, &args), LS_OK);
        }
    }
    free(t.p);
    free(t.y);
    free(t.weight);
    free(rows);
    free(slopes);
}

static void test_errors_are_flat_sums_over_the_outputs(void **state)
{
    (void)state;
    static const size_t outputs[] = { 1, 2, 3, 10, 63, 64, 65, 100, 4095, 4096, 4097, 13000 };
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++) {
        check_regression(5, outputs[i], i, NAIVE_SMALL);
        check_regression(5, outputs[i], i, NAIVE_ALL);
    }
    check_regression(0, 3, 1, 0);
    check_regression(9000, 1, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_flat_sums_over_the_outputs),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
