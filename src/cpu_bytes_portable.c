/* SPDX-License-Identifier: MIT */
/* cpu_bytes_portable.c -- the byte loops of a machine for which there is plain C only.
 *
 * build.ninja's toolchain paragraph chooses between this file and cpu_bytes_x86_64.c.
 */
#include "cpu_bytes.h"

ls_sha256_mix_fn *ls_sha256_mix_here(void) { return ls_sha256_mix; }

ls_planes_join_fn *ls_planes_join_here(void) { return ls_planes_join; }
