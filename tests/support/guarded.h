/* SPDX-License-Identifier: MIT */
/* guarded.h -- arrays that end where memory ends: to read or write a float behind one is a fault,
 * with or without a sanitizer.
 */
#ifndef TEST_SUPPORT_GUARDED_H
#define TEST_SUPPORT_GUARDED_H

#include <stddef.h>

/* from[0..count), count > 0, in pages of its own; the page behind them is not accessible. Only the
 * main thread may call this: it asserts. */
float *guarded_copy(const float *from, size_t count);
void guarded_free(float *array, size_t count);

#endif
