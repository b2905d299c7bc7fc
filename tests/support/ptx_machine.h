/* SPDX-License-Identifier: MIT */
/* ptx_machine.h -- the PTX interpreter in the hands of a test: memory, programs, launches.
 *
 * Memory of a few devices whose every allocation lies by itself, so that a step outside is found.
 * Kernels that nvcc wrote lie in tests/vgpu/kernels as PTX beside their sources, so no nvcc is
 * needed; LS_VGPU_PTX names a folder with fresh ones. Tests run from the root of the tree.
 * Main thread only: all functions assert.
 */
#ifndef TEST_SUPPORT_PTX_MACHINE_H
#define TEST_SUPPORT_PTX_MACHINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgpu/ptx.h"

enum { ALLOCATIONS = 16 };

typedef struct {
    uint64_t address;
    size_t bytes;
    unsigned char *data, *shadow;
    unsigned char *trail, *trail_pages; /* borrowed, or NULL */
    int device;
    bool constant;
} allocation;

typedef struct {
    allocation at[ALLOCATIONS];
    int count;
    allocation *doomed; /* freed when another one is asked for; NULL: none */
    atomic_uint generation;
    vgpu_memory memory;
} ptx_machine;

void ptx_machine_init(ptx_machine *m);
void ptx_machine_free(ptx_machine *m);

/* Fresh memory: NaN bytes, nothing defined. */
allocation *allocate(ptx_machine *m, int device, size_t bytes);

/* Defined memory, a copy of `from`, or zeros for NULL. */
allocation *allocate_filled(ptx_machine *m, int device, const void *from, size_t bytes);

/* The text of a file, and of a kernel that nvcc wrote ("gemm.75.ptx"). The caller frees it. */
char *read_file_text(const char *path);
char *read_kernel_text(const char *name);

/* A module with one kernel, "test": %d0 and %d1 are its arguments, %r0 the thread. Line 12 is the
 * first of the body. Valid until the next call. */
const char *module_of(const char *body);

vgpu_program *load_ptx(const char *text);
const vgpu_kernel *kernel_of(const vgpu_program *program, const char *name);

/* All checks on, 50 M instructions. */
vgpu_launch launch_on(ptx_machine *m, int device, uint32_t blocks, uint32_t threads,
                      const void *params);

void assert_done(vgpu_outcome outcome, const char *error);

/* The outcome is `expected` and the message holds every one of the words, up to a NULL. */
void assert_reported(vgpu_outcome outcome, vgpu_outcome expected, const char *error,
                     const char *const *words);
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
