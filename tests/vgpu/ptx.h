/* SPDX-License-Identifier: MIT */
/* ptx.h -- runs PTX, the text that nvcc writes, on the host: no GPU, no CUDA library.
 *
 * A program is one PTX module, parsed and checked once; a launch executes one of its kernels over
 * a grid. Memory belongs to the caller (driver_*.c), who says where a device address lies; the
 * interpreter owns registers, shared and local memory and parameters while a launch runs.
 *
 * Whatever is not implemented exactly is refused when the program is created, with its PTX line:
 * ptx_table.c lists every instruction, type and modifier that may run.
 *
 * Thread rule: a program is constant after vgpu_program_create; any number of threads may launch
 * from it at a time. Each vgpu_run blocks its caller until the grid has ended.
 */
#ifndef VGPU_PTX_H
#define VGPU_PTX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vgpu_program vgpu_program;

/* A kernel: an .entry of the module. */
typedef struct {
    const char *name;
    size_t param_bytes;         /* what vgpu_launch.params points to, laid out as C would */
    size_t param_count;         /* kernel arguments */
    const size_t *param_offset; /* [param_count]: where each begins (cuLaunchKernel's array) */
    const size_t *param_size;   /* [param_count]: bytes of each */
    size_t static_shared_bytes;
    size_t local_bytes;         /* per thread */
    unsigned max_threads;       /* of .maxntid or .reqntid; 1024 where neither is given */
    unsigned register_estimate; /* 32-bit registers live at once; what ptxas needs is near it */
} vgpu_kernel;

/* A variable of the module, .global or .const. The driver allocates bytes at a multiple of align,
 * fills them by vgpu_program_image (all of it is defined: what has no initialiser is zero) and
 * tells vgpu_run the address. */
typedef struct {
    const char *name;
    size_t bytes;
    size_t align;
    bool constant; /* .const: device code may not write it */
} vgpu_variable;

/* Parses `bytes` of text (a NUL there ends it). False: `error` names the line and quotes it.
 * Owns: *out, until vgpu_program_destroy. */
bool vgpu_program_create(const char *text, size_t bytes, vgpu_program **out, char *error,
                         size_t error_bytes);
void vgpu_program_destroy(vgpu_program *program);

/* 75 for ".target sm_75". A device of lower capability must refuse the module. */
int vgpu_program_target(const vgpu_program *program);

/* NULL: no kernel of that name; respectively index >= the number of kernels. */
const vgpu_kernel *vgpu_program_kernel(const vgpu_program *program, const char *name);
const vgpu_kernel *vgpu_program_kernel_at(const vgpu_program *program, size_t index);
size_t vgpu_program_variables(const vgpu_program *program, const vgpu_variable **variables);

/* Writes the initial bytes of variable `index`, given the addresses of all variables on that
 * device (an initialiser may name another variable). */
void vgpu_program_image(const vgpu_program *program, size_t index, const uint64_t *addresses,
                        void *image);

/* Shadow of device memory: one byte for each byte, owned by the allocation, 0 when it is fresh. */
enum {
    VGPU_DEFINED = 1,     /* written since it was allocated: whoever writes it sets this */
    VGPU_FLAG_REMOTE = 2, /* another device used it as a flag: atom, or .acquire .release ... */
    VGPU_FLAG_NARROW = 4, /* its own device used it as a flag at less than .sys scope */
};

/* A live allocation, as one device may see it. */
typedef struct {
    uint64_t address;      /* device address of its first byte */
    size_t bytes;
    unsigned char *data;   /* [bytes] on the host, as aligned as address is (to 16 at least) */
    unsigned char *shadow; /* [bytes], or NULL: all is defined (pinned memory) */
    int device;            /* owner; -1: host memory */
    bool writable;
    /* What this launch did, for the driver's check of order between streams; NULL: not wanted.
     * Weak accesses only (atomics and .relaxed .acquire .release ... are an order themselves):
     * VGPU_TRAIL_READ or VGPU_TRAIL_WRITTEN is or-ed into each byte of trail, then
     * trail_pages[offset >> VGPU_TRAIL_SHIFT] of the pages touched is set to 1. */
    unsigned char *trail;       /* [bytes] */
    unsigned char *trail_pages; /* [(bytes >> VGPU_TRAIL_SHIFT) + 1] */
} vgpu_span;
enum {
    VGPU_TRAIL_READ = 1,
    VGPU_TRAIL_WRITTEN = 2,
    VGPU_TRAIL_INCOHERENT = 4, /* beside READ: by ld.nc; reported if it is written as well */
    VGPU_TRAIL_SHIFT = 12,
};

/* Device addresses must lie outside these windows of the generic address space. */
enum { VGPU_WINDOW_SHIFT = 32 };
#define VGPU_WINDOW_SHARED (UINT64_C(1) << VGPU_WINDOW_SHIFT)
#define VGPU_WINDOW_LOCAL (UINT64_C(2) << VGPU_WINDOW_SHIFT)
#define VGPU_WINDOW_PARAM (UINT64_C(3) << VGPU_WINDOW_SHIFT)
#define VGPU_WINDOW_END (UINT64_C(4) << VGPU_WINDOW_SHIFT)

/* How a launch reaches device memory. */
typedef struct {
    void *context;
    /* The allocation that holds `address`, as `device` sees it. False: `why` says what is wrong
     * ("not allocated", "freed", "device 1 has no access to device 0"). Called from any thread of
     * a launch, once per allocation and generation; spans are remembered in between. */
    bool (*find)(void *context, int device, uint64_t address, vgpu_span *span, char *why,
                 size_t why_bytes);
    /* Changes (release order) whenever a span handed out may be stale: memory freed, access
     * disabled. The storage itself must outlive every launch that may have seen it. */
    const atomic_uint *generation;
} vgpu_memory;

typedef struct {
    int device;
    uint32_t grid[3], block[3];
    size_t dynamic_shared_bytes;
    const void *params;          /* [kernel->param_bytes] */
    const uint64_t *variables;   /* address of each vgpu_variable on this device */
    const vgpu_memory *memory;
    uint64_t seed;               /* of the order in which warps and lane groups take turns */
    bool check_races;            /* shadow of shared memory */
    bool check_defined;          /* reads of global and shared bytes that nobody wrote */
    uint64_t instruction_budget; /* warp instructions of the whole launch; then it hangs */
    const atomic_bool *abort;    /* set by the caller: end soon (VGPU_ABORTED); NULL: never */
    unsigned resident_blocks;    /* at a time, per host thread; 0: 8. Others start as these end */
    unsigned host_threads;       /* that share the blocks; 0: 1 */
    uint64_t *instructions;      /* out, may be NULL: warp instructions executed */
} vgpu_launch;

typedef enum {
    VGPU_DONE = 0,
    VGPU_ILLEGAL_ADDRESS,    /* as hardware: no memory there, or no right to it */
    VGPU_MISALIGNED_ADDRESS, /* as hardware */
    VGPU_TRAP,               /* the kernel executed trap */
    VGPU_HANG,               /* cannot end, or the budget is spent; hardware would not return */
    VGPU_REPORT,             /* a check: race, undefined memory, scope, divergent collective */
    VGPU_BAD_LAUNCH,         /* grid, block or shared memory are beyond a limit */
    VGPU_ABORTED,            /* by vgpu_launch.abort */
    VGPU_OUT_OF_MEMORY,      /* of the host */
} vgpu_outcome;

/* Blocks: until all threads of the grid have exited, or the first fault. All but VGPU_DONE:
 * `error` names kernel, block, thread, PTX line, the .cu line where .loc gives it, and why. */
vgpu_outcome vgpu_run(const vgpu_program *program, const vgpu_kernel *kernel,
                      const vgpu_launch *launch, char *error, size_t error_bytes);

#endif
