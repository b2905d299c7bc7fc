/* SPDX-License-Identifier: MIT */
/* cpu.c -- which set of host kernels this x86-64 CPU runs: asked at run time, from feature bits.
 *
 * Never from a family or model number, which virtual machines invent. A set counts as there only if
 * the operating system saves its registers too; the compiler's __builtin_cpu_supports asks both the
 * CPUID bits and XGETBV. All sets give the same bits, so the choice is one of speed alone.
 *
 * cpu_portable.c takes this file's place on other machines.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/host/host.h"

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const char *ls_cpu_features(void)
{
    if (has_avx512()) return "avx2 fma avx512f avx512bw avx512dq avx512vl";
    return has_avx2() ? "avx2 fma" : "sse2";
}

ls_status ls_kernels_host_table(const ls_kernels **out)
{
    const struct {
        const ls_kernels *table;
        bool is_there;
    } sets[] = {
        /* widest first */
        {&ls_kernels_avx512, has_avx512()},
        {&ls_kernels_avx2, has_avx2()},
        {&ls_kernels_portable, true},
    };
    const char *wanted = getenv("LOCKSTEP_ISA");
    const bool is_free = wanted == NULL || *wanted == '\0';
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (!is_free && strcmp(wanted, sets[i].table->name) != 0) continue;
        if (sets[i].is_there) {
            *out = sets[i].table;
            return LS_OK;
        }
        if (!is_free) {
            return ls_fail(LS_ERR_ARGUMENT, "LOCKSTEP_ISA=%.60s: this CPU lacks it; it has %s",
                           wanted, ls_cpu_features());
        }
    }
    return ls_fail(LS_ERR_ARGUMENT,
                   "LOCKSTEP_ISA=%.60s is unknown; known are reference, portable, avx2, avx512",
                   wanted);
}

ls_peak_fn *ls_kernels_peak(const ls_kernels *table)
{
    if (table == &ls_kernels_avx512) return ls_peak_avx512;
    if (table == &ls_kernels_avx2) return ls_peak_avx2;
    return table == &ls_kernels_portable ? ls_peak_portable : NULL;
}
