/* SPDX-License-Identifier: MIT */
/* test_planes.c -- planes of colours become pixels, however many there are, in plain C and with the
 * instructions that this CPU has for it; nothing beside the pixels is written. */
#include "support/test.h"

#include "cpu_bytes.h"

enum { PIXELS_MAX = 130, GUARD = 32 };

static void assert_joins(ls_planes_join_fn *join, size_t pixels, size_t shift)
{
    static unsigned char from[3 * PIXELS_MAX + 16], to[3 * PIXELS_MAX + 2 * GUARD];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i * 151 + pixels);
    memset(to, 0xa5, sizeof to);
    join(from + shift, pixels, to + GUARD);
    for (size_t i = 0; i < sizeof to; i++) {
        const size_t at = i - GUARD;
        const bool is_pixel = i >= GUARD && at < 3 * pixels;
        const unsigned char want = is_pixel ? from[shift + at % 3 * pixels + at / 3] : 0xa5;
        if (to[i] == want) continue;
        fail_msg("%zu pixels, byte %zu: %d, expected %d", pixels, i, to[i], want);
    }
}

static void test_every_pixel_has_its_three_colours(void **state)
{
    (void)state;
    for (size_t pixels = 0; pixels <= PIXELS_MAX; pixels++) {
        for (size_t shift = 0; shift < 16; shift++) {
            assert_joins(ls_planes_join, pixels, shift);
            assert_joins(ls_planes_join_here(), pixels, shift);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pixel_has_its_three_colours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
