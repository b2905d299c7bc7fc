/* SPDX-License-Identifier: MIT */
/* test_gemm.c -- the matrix product: true (against double loops), and the same bits from every set
 * of kernels, for any shape, transposition, epilogue and number of threads.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "support/product.h"
#include "support/reference.h"

static void test_the_reference_is_near_the_exact_product(void **state)
{
    (void)state;
    naive_random n = {.state = 1};
    for (int t = 0; t < 4; t++) {
        product p = product_of(&n, (ls_gemm_args){.M = 7, .N = 9, .K = 50, .transpose_a = t & 1,
                                                  .transpose_b = t & 2});
        float *got = run_product(&p, &all.machine[0]);
        const exact_product e = {7, 9, 50, t & 1, t & 2, p.A, p.B};
        for (size_t i = 0; i < 7 * 9; i++) {
            const exact_sum want = exact_product_at(&e, i / 9, i % 9);
            if (want.magnitude > 1e30) continue; /* may overflow on the way */
            assert_true(naive_near("C", want.value, (double)got[i], exact_tolerance(want, 50)));
        }
        free(got);
        product_free(&p);
    }
}

/* The order of k, bias, relu, accumulate, and what becomes of -0. */
static void test_a_product_worked_by_hand(void **state)
{
    (void)state;
    for (int i = 0; i < all.count; i++) {
        ls_stream *stream = &all.machine[i].stream;
        /* 2^24 + 1 is 2^24 in float, so (2^24 + 1) - 2^24 is 0 in this order and 1 in others. */
        const float A[] = {16777216.0f, 1.0f, -16777216.0f}, B[] = {1.0f, 1.0f, 1.0f};
        float C[2] = {NAN, NAN};
        ls_gemm_args g = {.M = 1, .N = 1, .K = 3, .A = A, .B = B, .C = C};
        assert_int_equal(ls_gemm(stream, &g), LS_OK);
        assert_true(C[0] == 0.0f);
        const float two[] = {2.0f}, row[] = {3.0f, 4.0f}, bias[] = {0.5f, -20.0f};
        g = (ls_gemm_args){.M = 1, .N = 2, .K = 1, .A = two, .B = row, .bias = bias, .C = C};
        assert_int_equal(ls_gemm(stream, &g), LS_OK);
        assert_true(C[0] == 6.5f && C[1] == -12.0f);
        g.relu = true;
        assert_int_equal(ls_gemm(stream, &g), LS_OK);
        assert_true(C[0] == 6.5f && C[1] == 0.0f && !signbit(C[1]));
        const float not_a_number[] = {NAN, 1.0f}; /* relu must not hide it */
        g.bias = not_a_number;
        assert_int_equal(ls_gemm(stream, &g), LS_OK);
        assert_true(isnan(C[0]) && C[1] == 9.0f);
        C[0] = 6.5f;
        g.relu = false;
        g.bias = NULL;
        g.accumulate = true;
        C[1] = 100.0f;
        assert_int_equal(ls_gemm(stream, &g), LS_OK);
        assert_true(C[0] == 12.5f && C[1] == 108.0f);
        /* A product too small for a float rounds to -0, and the bias is -0 too. */
        const float minus[] = {-0.0f, -0.0f}, tiny[] = {-1e-30f}, small[] = {1e-30f, 1e-30f};
        g = (ls_gemm_args){.M = 1, .N = 2, .K = 1, .A = tiny, .B = small, .bias = minus, .C = C};
        assert_int_equal(ls_gemm(stream, &g), LS_OK);
        assert_true(C[0] == 0.0f && !signbit(C[0]) && !signbit(C[1]));
    }
}

static void test_every_machine_gives_the_bits_of_the_reference(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 2, 5, 6, 7, 13, 14, 15, 16, 17, 31, 32, 33, 47, 65};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    const float any = 0.0f;
    naive_random n = {.state = 2};
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < COUNT; k++) {
            const size_t flags = naive_below(&n, 32);
            const bool accumulate = (flags & 12) == 12;
            product p = product_of(
                &n, (ls_gemm_args){.M = sizes[i],
                                   .N = sizes[k],
                                   .K = sizes[naive_below(&n, COUNT)],
                                   .transpose_a = flags & 1,
                                   .transpose_b = flags & 2,
                                   .accumulate = accumulate,
                                   .bias = !accumulate && (flags & 4) ? &any : NULL,
                                   .relu = !accumulate && (flags & 16)});
            product_check_twins(&all, &p);
            product_free(&p);
        }
    }
}

/* Deep and wide enough for several blocks of k, several parts and several threads. */
static void test_blocks_and_parts_do_not_show_in_the_bits(void **state)
{
    (void)state;
    const float any = 0.0f;
    const ls_gemm_args cases[] = {
        {.M = 33, .N = 70, .K = 257, .transpose_b = true, .relu = true},
        {.M = 20, .N = 40, .K = 1000, .transpose_a = true},
        {.M = 3, .N = 600, .K = 513, .accumulate = true},
        {.M = 150, .N = 40, .K = 512, .transpose_a = true, .transpose_b = true, .accumulate = true},
        {.M = 64, .N = 10, .K = 1024},
        {.M = 30, .N = 40, .K = 512, .transpose_b = true},  /* rows of A share cache sets */
        {.M = 512, .N = 40, .K = 30, .transpose_a = true},
        {.M = 1, .N = 1, .K = 2000},
        {.M = 15, .N = 560, .K = 300, .relu = true}, /* B is read where it lies */
        {.M = 5, .N = 96, .K = 600, .transpose_a = true, .accumulate = true},
        {.M = 16, .N = 70, .K = 300, .transpose_b = true, .relu = true}, /* C is turned */
        {.M = 48, .N = 131, .K = 600, .transpose_b = true, .bias = &any, .relu = true},
        {.M = 16, .N = 1900, .K = 70, .transpose_b = true, .accumulate = true},
        {.M = 10, .N = 100, .K = 300, .transpose_b = true, .accumulate = true}, /* panel by panel */
        {.M = 41, .N = 70, .K = 1100, .transpose_b = true, .accumulate = true},
        {.M = 5, .N = 250, .K = 1100, .transpose_b = true, .bias = &any}, /* B is large */
        {.M = 3, .N = 500, .K = 600, .transpose_b = true, .accumulate = true},
        {.M = 41, .N = 100, .K = 1100, .transpose_b = true, .bias = &any, .relu = true},
        {.M = 150, .N = 20, .K = 1100}, /* two deep blocks, all panels for a tile of rows */
        {.M = 150, .N = 1024, .K = 9},               /* or not: its rows share cache sets */
        {.M = 33, .N = 4112, .K = 70, .bias = &any}, /* B in place, panel by panel: it is large */
        {.M = 70, .N = 48, .K = 20, .accumulate = true}, /* or all is small */
        {.M = 70, .N = 530, .K = 1024, .relu = true},    /* A is copied, k by k */
        {.M = 65, .N = 600, .K = 1024, .transpose_b = true, .accumulate = true},
    };
    naive_random n = {.state = 3};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        product p = product_of(&n, cases[i]);
        product_check_twins(&all, &p);
        product_free(&p);
    }
}

static void test_an_empty_product_is_the_bias(void **state)
{
    (void)state;
    const float bias[3] = {1.5f, -0.0f, -2.0f}, unused[1] = {0.0f};
    for (int m = 0; m < all.count; m++) {
        ls_stream *stream = &all.machine[m].stream;
        float C[6] = {NAN, NAN, NAN, NAN, NAN, NAN};
        ls_gemm_args g = {.M = 2, .N = 3, .A = unused, .B = unused, .bias = bias, .C = C};
        assert_int_equal(ls_gemm(stream, &g), LS_OK);
        for (int i = 0; i < 6; i++) {
            assert_true(C[i] == bias[i % 3]);
            assert_false(C[i] == 0.0f && signbit(C[i]));
        }
        C[0] = 7.0f;
        g.K = 2;
        g.M = 0;
        assert_int_equal(ls_gemm(stream, &g), LS_OK);
        g.M = 2;
        g.N = 0;
        assert_int_equal(ls_gemm(stream, &g), LS_OK);
        assert_true(C[0] == 7.0f);
    }
}

/* A float of any bits: every exponent is as likely as another, NaN and infinity included. */
static float any_float(naive_random *n)
{
    const uint32_t bits = (uint32_t)(naive_next(n) >> 32);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* b and c for a given a: any bits, or such that a * b + c nearly cancels, is near a tie, near
 * overflow, or denormal. */
static void hard_operands(naive_random *n, float a, float *b, float *c)
{
    *b = any_float(n);
    *c = any_float(n);
    const float term = a * *b;
    switch (naive_below(n, 6)) {
    case 0: break;
    case 1: *c = -term; break; /* what is left is the product's tail */
    case 2: *c = ldexpf(term, 24 - (int)naive_below(n, 49)); break;
    case 3: *c = ldexpf(1.0f, (int)naive_below(n, 277) - 149); break;
    case 4: *b = ldexpf(*b, -126); break;
    default: /* the product is about half of c's last place */
        *c = ldexpf(1.0f + ldexpf(1.0f, -23), isnormal(term) ? ilogbf(term) + 24 : 0);
        break;
    }
}

/* Through the front door: A = (1, a), B = (c; b) makes the chain +0, then c (exact), then the
 * multiply-add in question, in every lane. */
static void test_multiply_add_rounds_once_on_every_machine(void **state)
{
    enum { COUNT = 4096, ROUNDS = 1000 }; /* 4 million per machine */
    static float B[2 * COUNT], C[COUNT], want[COUNT];
    (void)state;
    naive_random n = {.state = 4};
    for (int round = 0; round < ROUNDS; round++) {
        const float a = round % 4 == 0 ? 1.0f + ldexpf((float)(round % 7), -20) : any_float(&n);
        for (size_t i = 0; i < COUNT; i++) {
            hard_operands(&n, a, &B[COUNT + i], &B[i]);
            want[i] = fmaf(a, B[COUNT + i], B[i] + 0.0f) + 0.0f;
        }
        char what[60];
        snprintf(what, sizeof what, "round %d, a = %a", round, (double)a);
        for (int m = 0; m < all.count; m++) {
            const float A[] = {1.0f, a};
            const ls_gemm_args g = {.M = 1, .N = COUNT, .K = 2, .A = A, .B = B, .C = C};
            assert_int_equal(ls_gemm(&all.machine[m].stream, &g), LS_OK);
            assert_true(naive_same(what, all.machine[m].name, want, C, COUNT));
        }
    }
}

static void test_an_unknown_instruction_set_is_refused_with_the_known_ones(void **state)
{
    (void)state;
    ls_device *device = NULL;
    assert_int_equal(ls_device_open_host(0, 1, false, NULL, &device), LS_OK);
    setenv("LOCKSTEP_ISA", "avx1024", 1);
    assert_int_equal(ls_kernels_bind(device), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "avx1024"));
    assert_non_null(strstr(ls_last_error(), "reference, portable"));
    setenv("LOCKSTEP_ISA", "portable", 1);
    assert_int_equal(ls_kernels_bind(device), LS_OK);
    assert_string_equal(device->kernels->name, "portable");
    unsetenv("LOCKSTEP_ISA");
    assert_int_equal(ls_kernels_bind(device), LS_OK);
    ls_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_reference_is_near_the_exact_product),
        cmocka_unit_test(test_a_product_worked_by_hand),
        cmocka_unit_test(test_every_machine_gives_the_bits_of_the_reference),
        cmocka_unit_test(test_blocks_and_parts_do_not_show_in_the_bits),
        cmocka_unit_test(test_an_empty_product_is_the_bias),
        cmocka_unit_test(test_multiply_add_rounds_once_on_every_machine),
        cmocka_unit_test(test_an_unknown_instruction_set_is_refused_with_the_known_ones),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
