/* SPDX-License-Identifier: MIT */
/* cpu_portable.c -- the host kernels of a machine for which there is one set only: portable.
 *
 * build.ninja's toolchain paragraph chooses between this file and cpu.c.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/host/host.h"

const char *ls_cpu_features(void) { return "portable"; }

ls_status ls_kernels_host_table(const ls_kernels **out)
{
    const char *wanted = getenv("LOCKSTEP_ISA");
    if (wanted != NULL && *wanted != '\0' && strcmp(wanted, ls_kernels_portable.name) != 0) {
        return ls_fail(LS_ERR_ARGUMENT,
                       "LOCKSTEP_ISA=%.60s: this build knows reference and portable only", wanted);
    }
    *out = &ls_kernels_portable;
    return LS_OK;
}

ls_peak_fn *ls_kernels_peak(const ls_kernels *table)
{
    return table == &ls_kernels_portable ? ls_peak_portable : NULL;
}
