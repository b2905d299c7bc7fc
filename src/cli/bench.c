/* SPDX-License-Identifier: MIT */
/* bench.c -- what the `lockstep bench` commands share. See bench.h. */
#include "cli/bench.h"

#include <stdlib.h>

#include "train/config_value.h"

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

ls_bench_spread ls_bench_spread_of(double *x, int count)
{
    qsort(x, (size_t)count, sizeof *x, compare);
    return (ls_bench_spread){ .median = (x[(count - 1) / 2] + x[count / 2]) / 2,
                              .least = x[0], .most = x[count - 1] };
}

ls_status ls_bench_bytes(const ls_invocation *v, int flag, double low, double high,
                         uint64_t otherwise, uint64_t *out)
{
    const ls_option option = { .name = v->command->flag[flag].name, .value = "BYTES",
                               .type = LS_VALUE_BYTES, .low = low, .high = high };
    *out = otherwise;
    return v->flag[flag] ? ls_value_read(&option, v->flag[flag], out) : LS_OK;
}
