/* SPDX-License-Identifier: MIT */
/* sizes.h -- sizes, and arithmetic of them that C leaves to everyone.
 *
 * Pure.
 */
#ifndef LS_SIZES_H
#define LS_SIZES_H

#include <stddef.h>

/* Of a line of the caches, which cores take from each other whole: what different threads write
 * lies on different ones. */
enum { LS_LINE_BYTES = 64 };

static inline size_t ls_min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t ls_max_size(size_t a, size_t b) { return a > b ? a : b; }

/* a / b rounded up. */
static inline size_t ls_ceil_div(size_t a, size_t b) { return a / b + (a % b != 0); }

#endif
