/* SPDX-License-Identifier: MIT */
/* rung_speed.c -- rungs 3, 4 and 6 of `lockstep verify`: time, throughput, environment.
 *
 * Throughput is the median of --repeat runs of each side. They alternate, so that a machine that
 * slows down does it to both, and every repetition is compared bit for bit with the first.
 */
#include "cli/ladder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/report.h"
#include "plural.h"
#include "thread.h"
#include "version.h"

ls_status ls_rung_times(ls_ladder *l)
{
    const ls_recorded_run *one = &l->of_one, *many = &l->of_many;
    printf("\n 3  where the time went\n    one replica, %d thread%s:\n", one->threads,
           LS_PLURAL(one->threads));
    ls_report_time(stdout, &one->result.time);
    printf("    %d replicas, %d thread%s each:\n", l->world_size, many->threads,
           LS_PLURAL(many->threads));
    ls_report_time(stdout, &many->result.time);
    return LS_OK;
}

/* Prints median and extremes, returns the median. Sorts. */
static double print_speed(const char *what, double *speed, int count)
{
    const ls_bench_spread s = ls_bench_spread_of(speed, count);
    printf("     %-12s %10.0f samples/s", what, s.median);
    if (count > 1)
        printf("  (%.0f to %.0f, spread %.1f %%)", s.least, s.most,
               100 * (s.most - s.least) / s.median);
    printf("\n");
    return s.median;
}

/* One more run on `devices`, compared with the first of all and timed. */
static ls_status repeat_once(ls_ladder *l, const char *devices, const char *what, double *speed)
{
    const ls_recorded_run *first = &l->of_one;
    ls_recorded_run run = { 0 };
    const ls_status status = ls_ladder_train(l, &l->config, devices, &run);
    if (status == LS_OK && !l->stopped) {
        *speed = run.result.samples_per_second;
        ls_ladder_check(l, ls_recorded_same_steps(first, &run) &&
                               ls_recorded_same_epochs(first, &run) &&
                               strcmp(first->result.weights_sha256,
                                      run.result.weights_sha256) == 0, what);
    }
    ls_recorded_run_free(&run);
    return status;
}

ls_status ls_rung_throughput(ls_ladder *l)
{
    double speed[2][LS_REPEAT_MAX];
    printf("\n 4  throughput, %d run%s of each, alternating\n", l->repeat, LS_PLURAL(l->repeat));
    speed[0][0] = l->of_one.result.samples_per_second;
    speed[1][0] = l->of_many.result.samples_per_second;
    for (int i = 1; i < l->repeat; i++) {
        LS_TRY(repeat_once(l, l->one, "repeated on one replica", &speed[0][i]));
        if (l->stopped) return LS_OK;
        LS_TRY(repeat_once(l, l->many, "repeated on all replicas", &speed[1][i]));
        if (l->stopped) return LS_OK;
    }
    char name[32];
    snprintf(name, sizeof name, "%d replicas", l->world_size);
    const double slow = print_speed("1 replica", speed[0], l->repeat);
    const double fast = print_speed(name, speed[1], l->repeat);
    printf("     speed-up     %10.2f", fast / slow);
    if (l->is_host) {
        printf("  (host replicas share the %d cores that one replica has, too)\n",
               ls_core_count());
    } else {
        printf("  efficiency %.0f %%\n", 100 * fast / slow / l->world_size);
    }
    return LS_OK;
}

ls_status ls_rung_environment(ls_ladder *l)
{
    double load = NAN; /* over the last minute */
    FILE *file = fopen("/proc/loadavg", "r");
    if (file && fscanf(file, "%lf", &load) != 1) load = NAN;
    if (file) fclose(file);
    printf("\n 6  environment\n     lockstep %s; %d core%s; kernels %s; load %.2f\n", LS_VERSION,
           ls_core_count(), LS_PLURAL(ls_core_count()), l->of_one.kernels, load);
    return LS_OK;
}
