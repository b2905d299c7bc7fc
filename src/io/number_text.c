/* SPDX-License-Identifier: MIT */
/* number_text.c -- numbers as text (json.h): the shortest that reads back as the same bits.
 *
 * A line of log holds a number of 17 digits for each loss and norm, and the C library takes some
 * 600 ns to find one by writing and reading 15, 16 and 17 of them. Numbers of usual size are
 * written here, exactly, in 80 ns:
 *
 *     |x| = m 2^e, 2^52 <= m < 2^53       10^X <= |x| < 10^(X + 1), -4 <= X <= 14, k = 16 - X
 *     |x| 10^k = P / 2^s                  P = m 5^k < 2^100,  s = -(e + k),  1 <= s <= 48
 *
 * whose whole part has 17 digits. Rounded to a multiple of t = 1, 10 or 100, half to even, these
 * are what %.17g, %.16g and %.15g print. A text reads back as x if it is nearer to x than half the
 * distance to x's neighbour, which is 5^k / 2 in units of 2^-s where m is no power of two. (It is
 * never just as near: 5^k is odd, and the difference whole.) Where any of this does not hold, the
 * library does it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

__extension__ typedef unsigned __int128 wide; /* gcc and clang have it */

enum { DIGITS = 17, EXPONENT_MIN = -4, EXPONENT_MAX = 14 };

/* P / 2^s of the head comment, in parts. */
typedef struct {
    uint64_t whole, rest; /* rest < 2^s */
    uint64_t power;       /* 5^k */
    int s, X;
} decimal;

static uint64_t power_of(uint64_t base, int exponent)
{
    uint64_t out = 1;
    for (; exponent > 0; exponent--) out *= base;
    return out;
}

/* False: x > 0 is of no usual size. */
static bool decimal_init(decimal *d, double x)
{
    int e, k;
    if (!(x >= 1e-4 && x < 1e15)) return false;
    const uint64_t m = (uint64_t)(frexp(x, &e) * 0x1p53);
    e -= 53;
    if (m == UINT64_C(1) << 52) return false;
    d->X = EXPONENT_MIN;
    for (double next = 1e-3; d->X < EXPONENT_MAX && x >= next; next *= 10) d->X++;
    k = DIGITS - 1 - d->X;
    d->s = -(e + k);
    if (d->s < 1) return false;
    d->power = power_of(5, k);
    const wide P = (wide)m * d->power;
    d->whole = (uint64_t)(P >> d->s);
    d->rest = (uint64_t)P & ((UINT64_C(1) << d->s) - 1);
    const uint64_t least = power_of(10, DIGITS - 1);
    return d->whole >= least && d->whole < 10 * least; /* else a product above was rounded */
}

/* The number of multiples of t that is nearest. Does it read back? */
static bool round_to(const decimal *d, uint64_t t, uint64_t *out)
{
    const uint64_t above = ((d->whole % t) << d->s) | d->rest, unit = t << d->s; /* < 2^55 */
    const uint64_t below = d->whole / t;
    const bool up = above > unit - above || (above == unit - above && below % 2 == 1);
    *out = below + up;
    return 2 * (up ? unit - above : above) < d->power;
}

char *ls_count_text(uint64_t x, int least, char *out)
{
    char digit[20];
    int count = 0;
    for (; x > 0 || count < least; x /= 10) digit[count++] = (char)('0' + x % 10);
    while (count > 0) *out++ = digit[--count];
    return out;
}

/* As %.15g, %.16g or %.17g print it, without a NUL; NULL: it is of no usual size. */
static char *shortest(double x, char *out)
{
    decimal d;
    uint64_t number = 0;
    int digits = DIGITS - 3;
    bool is_exact = false;
    if (!decimal_init(&d, x)) return NULL;
    while (!is_exact && digits < DIGITS) {
        digits++;
        is_exact = round_to(&d, power_of(10, DIGITS - digits), &number);
    }
    if (!is_exact || number == power_of(10, digits)) return NULL;
    char digit[DIGITS + 1];
    const char *next = digit, *end = ls_count_text(number, 1, digit);
    while (end[-1] == '0') end--;
    for (int place = d.X < 0 ? 0 : d.X; place >= 0 || next < end; place--) {
        if (place == -1) *out++ = '.';
        *out++ = (char)(place > d.X || next >= end ? '0' : *next++);
    }
    return out;
}

void ls_number_text(double x, char out[LS_NUMBER_BYTES])
{
    if (!isfinite(x)) {
        snprintf(out, LS_NUMBER_BYTES, "%s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    char *at = out;
    if (signbit(x)) *at++ = '-';
    char *end = x == floor(x) && fabs(x) < 1e15 && x != 0 ? ls_count_text((uint64_t)fabs(x), 1, at)
                                                          : shortest(fabs(x), at);
    if (end != NULL) {
        *end = '\0';
        return;
    }
    for (int digits = 15; digits <= DIGITS; digits++) { /* 17 always suffice for a double */
        snprintf(out, LS_NUMBER_BYTES, "%.*g", digits, x);
        const double back = strtod(out, NULL);
        if (memcmp(&back, &x, sizeof x) == 0) return;
    }
}
