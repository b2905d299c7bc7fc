/* SPDX-License-Identifier: MIT */
/* instruction_sets.h -- twin tests: the same op on every set of kernels that this CPU runs, on data
 * chosen to tell implementations apart, compared bit for bit.
 */
#ifndef TEST_SUPPORT_INSTRUCTION_SETS_H
#define TEST_SUPPORT_INSTRUCTION_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "kernels/kernels.h"

/* A host device that runs one set of kernels, and a stream on it. */
typedef struct {
    ls_device *device;
    ls_stream stream;
} kernel_set;

/* The names LOCKSTEP_ISA may have, "reference" first, NULL last. */
extern const char *const kernel_set_names[];

/* Open a host device with `threads` compute threads and the kernels called `name`. False if this
 * CPU lacks them. Any other failure fails the test. */
bool kernel_set_open(kernel_set *set, const char *name, int threads);
void kernel_set_close(kernel_set *set);

/* Seeded numbers. */
typedef struct {
    uint64_t state;
} numbers;
uint64_t numbers_next(numbers *n);
size_t numbers_below(numbers *n, size_t end); /* 0 .. end-1 */

/* count floats (malloc, to be freed): most in [-1, 1], a fifth +0 or -0, some denormal, some of very
 * large or very small magnitude -- few enough that most sums stay finite. */
float *numbers_floats(numbers *n, size_t count);

/* A float of any bits: all exponents alike, NaN and infinity included. */
float numbers_any_float(numbers *n);

/* count floats that are all NaN (malloc): what an output holds before an op overwrites it. */
float *nan_floats(size_t count);

/* The first i where a and b differ in bits (two NaN are equal), or count. */
size_t first_difference(const float *a, const float *b, size_t count);

#endif
