/* SPDX-License-Identifier: MIT */
/* long_gemm.c -- thousands of random products on every machine, bit for bit. */
#include "support/test.h"

#include "support/product.h"

/* Mostly small, now and then large: 1 .. 2^bits. */
static size_t extent(naive_random *n, size_t bits)
{
    return 1 + naive_below(n, (size_t)1 << naive_below(n, bits + 1));
}

static void test_random_products_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    machines_open(&all);
    const float any = 0.0f;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        naive_random n = {.state = seed};
        const size_t flags = naive_below(&n, 64);
        ls_gemm_args args = {.M = extent(&n, 8),
                             .N = extent(&n, 8),
                             .K = extent(&n, 11),
                             .transpose_a = flags & 1,
                             .transpose_b = flags & 2,
                             .accumulate = (flags & 12) == 12};
        if (seed % 50 == 0) args.N = 513 + naive_below(&n, 600); /* more than one part across */
        while (args.M * args.N * args.K > 3000000) args.K = 1 + args.K / 2;
        if (!args.accumulate && (flags & 16)) args.bias = &any;
        args.relu = !args.accumulate && (flags & 32);
        product p = product_of(&n, args);
        product_check_twins(&all, &p);
        product_free(&p);
    }
    machines_close(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_products_have_the_bits_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
