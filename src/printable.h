/* SPDX-License-Identifier: MIT */
/* printable.h -- a number as it is to be printed: a NaN has no sign.
 *
 * printf tells the sign bit of a NaN, and that is the machine's: of inf - inf x86 makes "-nan",
 * others "nan". Messages, logs and checkpoints are to be the same everywhere.
 *
 * Pure.
 */
#ifndef LS_PRINTABLE_H
#define LS_PRINTABLE_H

#include <math.h>

static inline double ls_printable(double x) { return isnan(x) ? (double)NAN : x; }

#endif
