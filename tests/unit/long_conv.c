/* SPDX-License-Identifier: MIT */
/* long_conv.c -- thousands of random convolutions, shared in random ways, on every machine, bit for
 * bit: kernels, strides and paddings differ in the two directions.
 */
#include "support/test.h"

#include "support/convolution.h"

static size_t between(naive_random *n, size_t low, size_t high)
{
    return low + naive_below(n, high - low + 1);
}

/* Mostly small, now and then large: 1 .. 2^bits. */
static size_t extent(naive_random *n, size_t bits)
{
    return 1 + naive_below(n, (size_t)1 << naive_below(n, bits + 1));
}

/* One direction: a padding below the kernel's extent, and at least one output. */
static void random_direction(naive_random *n, size_t *in, size_t *kernel, size_t *stride,
                             size_t *pad, size_t *out)
{
    *kernel = between(n, 1, 5);
    *stride = between(n, 1, 3);
    *in = between(n, 1, 20);
    *pad = naive_below(n, 2) == 0 ? 0 : naive_below(n, *kernel);
    const size_t after = naive_below(n, 2) == 0 ? 0 : naive_below(n, *kernel);
    if (*in + *pad + after < *kernel) *in = *kernel;
    *out = (*in + *pad + after - *kernel) / *stride + 1;
    /* Every window begins inside the image. */
    while ((*out - 1) * *stride >= *in + *pad) --*out;
}

static ls_conv_shape random_shape(naive_random *n)
{
    ls_conv_shape s = {.samples = naive_below(n, 20)};
    random_direction(n, &s.height, &s.kernel_height, &s.stride_height, &s.pad_top, &s.out_height);
    random_direction(n, &s.width, &s.kernel_width, &s.stride_width, &s.pad_left, &s.out_width);
    s.channels = extent(n, 6);
    s.filters = extent(n, 6);
    if (naive_below(n, 5) == 0) { /* a dense layer */
        s.height = s.width = s.kernel_height = s.kernel_width = s.out_height = s.out_width = 1;
        s.stride_height = s.stride_width = 1;
        s.pad_top = s.pad_left = 0;
        s.channels = extent(n, 9);
        s.samples = extent(n, 12);
    }
    while (s.samples > 1
           && y_floats(&s) * s.kernel_height * s.kernel_width * s.channels > 3000000) {
        s.samples /= 2;
    }
    return s;
}

static void test_random_convolutions_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    machines_open(&all);
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        naive_random n = {.state = seed};
        const int mix = NAIVE_ZEROS | NAIVE_TINY | (naive_below(&n, 4) == 0 ? NAIVE_HUGE : 0);
        convolution c = convolution_of(&n, random_shape(&n), mix);
        sharing s = {.V = (int)between(&n, 1, 24)};
        s.N = (int)between(&n, 1, (size_t)(s.V < 5 ? s.V : 5));
        s.rank = (int)naive_below(&n, (size_t)s.N);
        s.A = (int)between(&n, 1, (size_t)(s.V < 4 ? s.V : 4));
        convolution_check_twins(&all, &c, s, seed % 2, seed % 3 == 0);
        convolution_free(&c);
    }
    machines_close(&all);
}

/* Blocks of a weight gradient as large as they come, with as many planes as 64 shards need. */
static void test_large_weight_gradients_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    machines_open(&all);
    naive_random n = {.state = 1};
    convolution c = convolution_of(&n, shape_of(66, 6, 6, 33, 270, 3, 1, 0, 0), NAIVE_ZEROS);
    convolution_check_twins(&all, &c, (sharing){64, 1, 0, 1}, true, true);
    convolution_free(&c);
    machines_close(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_convolutions_have_the_bits_of_the_reference),
        cmocka_unit_test(test_large_weight_gradients_have_the_bits_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
