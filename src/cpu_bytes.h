/* SPDX-License-Identifier: MIT */
/* cpu_bytes.h -- loops over bytes for which some CPUs have instructions of their own.
 *
 * Each is declared once, defined once in plain C (sha256.c, planes.c), and perhaps again with a
 * CPU's instructions. A build links one of
 *
 *     cpu_bytes_x86_64.c     SHA and SSSE3 instructions, where the CPU that runs it has them
 *     cpu_bytes_portable.c   plain C
 *
 * which answers, at run time, with the fastest that may be called here. All of them write the same
 * bytes.
 *
 * Thread rule: pure but for the outputs.
 */
#ifndef LS_CPU_BYTES_H
#define LS_CPU_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Mix `block_count` blocks of 64 bytes into the state of a SHA-256 (sha256.c). */
typedef void ls_sha256_mix_fn(uint32_t state[8], const unsigned char *block, size_t block_count);

/* from [3, pixels] -> to [pixels, 3]: a plane a colour becomes three bytes a pixel. The two do not
 * overlap. */
typedef void ls_planes_join_fn(const unsigned char *from, size_t pixels, unsigned char *to);

ls_sha256_mix_fn ls_sha256_mix; /* plain C */
ls_planes_join_fn ls_planes_join;
extern const uint32_t ls_sha256_constant[64];

ls_sha256_mix_fn *ls_sha256_mix_here(void); /* for this CPU */
ls_planes_join_fn *ls_planes_join_here(void);

#endif
