/* SPDX-License-Identifier: MIT */
/* unit.h -- a number of bytes, written for people: "1.8 MiB".
 *
 * Pure.
 */
#ifndef LS_UNIT_H
#define LS_UNIT_H

#include <stdio.h>

enum { LS_UNIT_BYTES = 32 };

/* `bytes` with one decimal and a binary unit; returns `out`. */
static inline const char *ls_with_unit(double bytes, char out[LS_UNIT_BYTES])
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    int u = 0;
    for (; bytes >= 1024 && u < 5; u++) bytes /= 1024;
    snprintf(out, LS_UNIT_BYTES, u == 0 ? "%.0f %s" : "%.1f %s", bytes, unit[u]);
    return out;
}

#endif
