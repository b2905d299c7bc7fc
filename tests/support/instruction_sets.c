/* SPDX-License-Identifier: MIT */
/* instruction_sets.c -- every set of kernels that this CPU runs, and data for them. */
#include "support/instruction_sets.h"

#include "support/test.h"

const char *const kernel_set_names[] = {"reference", "portable", "avx2", "avx512", NULL};

bool kernel_set_open(kernel_set *set, const char *name, int threads)
{
    memset(set, 0, sizeof *set);
    assert_int_equal(ls_device_open_host(0, threads, false, NULL, &set->device), LS_OK);
    const char *before = getenv("LOCKSTEP_ISA");
    char *const saved = before == NULL ? NULL : strdup(before);
    setenv("LOCKSTEP_ISA", name, 1);
    const ls_status status = ls_kernels_bind(set->device);
    if (saved == NULL) unsetenv("LOCKSTEP_ISA");
    else setenv("LOCKSTEP_ISA", saved, 1);
    free(saved);
    if (status != LS_OK) {
        ls_device_close(set->device);
        assert_int_equal(status, LS_ERR_ARGUMENT);
        return false;
    }
    assert_int_equal(ls_stream_init(&set->stream, set->device), LS_OK);
    return true;
}

void kernel_set_close(kernel_set *set)
{
    ls_stream_free(&set->stream);
    ls_device_close(set->device);
}

/* splitmix64: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014. */
uint64_t numbers_next(numbers *n)
{
    uint64_t z = n->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t numbers_below(numbers *n, size_t end) { return (size_t)(numbers_next(n) % end); }

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float numbers_any_float(numbers *n) { return of_bits((uint32_t)(numbers_next(n) >> 32)); }

/* Random sign and fraction, biased exponent in [low, high]. */
static float with_exponent(uint64_t word, uint32_t low, uint32_t high)
{
    const uint32_t exponent = low + (uint32_t)(word >> 40) % (high - low + 1);
    return of_bits(((uint32_t)word & 0x807fffffu) | exponent << 23);
}

float *numbers_floats(numbers *n, size_t count)
{
    float *x = malloc((count + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++) {
        const uint64_t word = numbers_next(n);
        switch (word >> 58) {
        case 0: case 1: case 2: case 3: case 4: case 5: case 6: x[i] = 0.0f; break;
        case 7: case 8: case 9: case 10: case 11: x[i] = -0.0f; break;
        case 12: x[i] = with_exponent(word, 0, 0); break;     /* denormal */
        case 13: x[i] = with_exponent(word, 1, 60); break;    /* products are denormal or 0 */
        case 14: x[i] = with_exponent(word, 100, 150); break;
        case 15:
            x[i] = (word & 0xff000000u) == 0 ? with_exponent(word, 190, 200) : 1.0f;
            break;
        default: x[i] = (float)((double)(uint32_t)word / 2147483648.0 - 1.0); break;
        }
    }
    return x;
}

float *nan_floats(size_t count)
{
    float *x = malloc((count + 1) * sizeof *x);
    assert_non_null(x);
    memset(x, 0xff, (count + 1) * sizeof *x);
    return x;
}

size_t first_difference(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bool a_nan = a[i] != a[i], b_nan = b[i] != b[i];
        if (a_nan && b_nan) continue;
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0) return i;
    }
    return count;
}
