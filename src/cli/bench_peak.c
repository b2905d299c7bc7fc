/* SPDX-License-Identifier: MIT */
/* bench_peak.c -- how many multiply-adds a device can do. See bench_peak.h. */
#include "cli/bench_peak.h"

#include "cli/bench.h"
#include "device/cuda.h"
#include "thread.h"

enum { TASKS_PER_THREAD = 4, TRIES = 3, FIRST_ROUNDS = 1000 };

static void peak_task(void *arg, size_t task, int thread)
{
    ls_peak_probe *probe = arg;
    float *x = ls_pool_scratch(probe->pool, thread);
    for (int i = 0; i < LS_PEAK_FLOATS; i++) x[i] = 1.0f;
    const double macs = probe->fn(x, probe->rounds);
    if (task == 0) probe->macs = macs;
}

double ls_peak_probe_sample(ls_peak_probe *probe)
{
    if (!probe->fn) return probe->fixed;
    const size_t tasks = TASKS_PER_THREAD * (size_t)ls_pool_thread_count(probe->pool);
    const double begin = ls_clock();
    ls_pool_run(probe->pool, tasks, peak_task, probe);
    return 2 * probe->macs * (double)tasks / (ls_clock() - begin);
}

ls_status ls_peak_of_gpu(int ordinal, double *flops)
{
    ls_cuda_facts facts;
    LS_TRY(ls_cuda_facts_read(ordinal, &facts));
    *flops = facts.is_virtual ? 0 : facts.peak;
    return LS_OK;
}

/* Rounds for LS_BENCH_SECONDS, by the best of a few tries. */
static void choose_rounds(ls_peak_probe *probe)
{
    double best = LS_BENCH_SECONDS;
    probe->rounds = FIRST_ROUNDS;
    for (int i = 0; i < TRIES; i++) {
        const double begin = ls_clock();
        (void)ls_peak_probe_sample(probe);
        const double seconds = ls_clock() - begin;
        if (seconds < best) best = seconds;
    }
    probe->rounds = (size_t)(FIRST_ROUNDS * LS_BENCH_SECONDS / best);
}

ls_status ls_peak_probe_init(ls_peak_probe *probe, ls_device *device)
{
    *probe = (ls_peak_probe){ .pool = device->pool };
    if (device->kind != LS_DEVICE_HOST) return ls_peak_of_gpu(device->ordinal, &probe->fixed);
    probe->fn = ls_kernels_peak(device->kernels);
    if (probe->fn) choose_rounds(probe);
    return LS_OK;
}
