/* SPDX-License-Identifier: MIT */
/* product.c -- a matrix product on every machine. See product.h. */
#include "support/product.h"

#include <stdio.h>

#include "support/test.h"

/* Ordinary numbers, denormals and zeros of both signs; in every other array a third are zeros, in
 * every fourth some are so large that products overflow. */
static float *hard_values(naive_random *n, size_t count)
{
    const size_t kind = naive_below(n, 4);
    float *x = naive_values(n, count, NAIVE_ZEROS | NAIVE_TINY | (kind == 0 ? NAIVE_HUGE : 0));
    for (size_t i = 0; kind % 2 == 1 && i < count; i++) {
        if (naive_below(n, 3) == 0) x[i] = naive_below(n, 2) == 0 ? 0.0f : -0.0f;
    }
    return x;
}

product product_of(naive_random *n, ls_gemm_args args)
{
    product p = {.args = args};
    p.A = hard_values(n, args.M * args.K);
    p.B = hard_values(n, args.K * args.N);
    p.bias = hard_values(n, args.N);
    p.C = hard_values(n, args.M * args.N);
    if (!args.accumulate) memset(p.C, 0xff, args.M * args.N * sizeof *p.C); /* NaN */
    p.args.A = p.A;
    p.args.B = p.B;
    if (args.bias != NULL) p.args.bias = p.bias;
    return p;
}

void product_free(product *p)
{
    free(p->A);
    free(p->B);
    free(p->bias);
    free(p->C);
}

float *run_product(const product *p, machine *m)
{
    const size_t count = p->args.M * p->args.N;
    ls_gemm_args args = p->args;
    args.C = malloc(count * sizeof *args.C);
    assert_non_null(args.C);
    memcpy(args.C, p->C, count * sizeof *args.C);
    assert_int_equal(ls_gemm(&m->stream, &args), LS_OK);
    return args.C;
}

void product_check_twins(machines *set, const product *p)
{
    const ls_gemm_args *a = &p->args;
    char what[120];
    snprintf(what, sizeof what, "M %zu N %zu K %zu transpose %d %d bias %d relu %d accumulate %d",
             a->M, a->N, a->K, a->transpose_a, a->transpose_b, a->bias != NULL, a->relu,
             a->accumulate);
    float *want = run_product(p, &set->machine[0]);
    for (int i = 1; i < set->count; i++) {
        float *got = run_product(p, &set->machine[i]);
        assert_true(naive_same(what, set->machine[i].name, want, got, a->M * a->N));
        free(got);
    }
    free(want);
}
