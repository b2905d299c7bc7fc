/* SPDX-License-Identifier: MIT */
/* driver_launch.c -- launches, what they touch, and occupancy.
 *
 * A launch checks its shape against the limits of device and kernel and copies the parameters; the
 * stream's thread then hands it to the interpreter (ptx.h). While it runs, the interpreter asks
 * for each allocation once: the launch keeps it alive, and a trail of what was touched in it goes
 * to the order check when the kernel has ended.
 *
 * A broken link (LOCKSTEP_VGPU_LINKS) spoils what a kernel reads from another device or writes to
 * it, too: the kernel then works on a private copy of that allocation, spoilt as the link to it
 * would have done, and what it wrote arrives, spoilt as the link from it does, when it has ended.
 * Atomics and strong stores do not arrive at all: no protocol by flags crosses a broken link.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* An allocation that a launch has touched. */
typedef struct {
    vgpu_extent extent;
    unsigned char *trail, *trail_pages; /* vgpu_span; NULL: not wanted */
    unsigned char *private;             /* behind a broken link: what the kernel sees instead */
    vgpu_link_rule out;                 /* what is wrong with the link that its writes take */
    unsigned long out_use;
} used_memory;

typedef struct {
    vgpu_operation operation;
    vgpu_module *module; /* held */
    const vgpu_program *program;
    const vgpu_kernel *kernel;
    const uint64_t *variables;
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    bool cooperative;
    unsigned char *params; /* owned */

    pthread_mutex_t lock; /* the interpreter's threads find memory side by side */
    used_memory *used;
    size_t used_count, used_room;
} launch_operation;

/* -- kernels in flight ------------------------------------------------------------------------- */

static void count_kernels(vgpu_device *device, int change)
{
    pthread_mutex_lock(&device->lock);
    device->kernels_running += change;
    if (device->kernels_running == 0) pthread_cond_broadcast(&device->idle);
    pthread_mutex_unlock(&device->lock);
}

void vgpu_wait_for_kernels(vgpu_device *device)
{
    pthread_mutex_unlock(&vgpu.call);
    pthread_mutex_lock(&device->lock);
    while (device->kernels_running > 0) pthread_cond_wait(&device->idle, &device->lock);
    pthread_mutex_unlock(&device->lock);
    pthread_mutex_lock(&vgpu.call);
}

/* -- the memory of a launch -------------------------------------------------------------------- */

static void *need(void *memory)
{
    if (memory == NULL) {
        fputs("vgpu: the host has no memory for a launch\n", stderr);
        abort();
    }
    return memory;
}

/* Others may be writing other parts of it meanwhile; their bytes are not used. */
__attribute__((no_sanitize("thread"))) static void take_copy(unsigned char *to,
                                                             const unsigned char *from,
                                                             size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) to[i] = from[i];
}

static bool spoils(vgpu_link_fault fault)
{
    return fault == VGPU_LINK_DROP || fault == VGPU_LINK_ZERO || fault == VGPU_LINK_FLIP;
}

/* The launch touches memory of another device for the first time. */
static void cross_link(const launch_operation *l, used_memory *u)
{
    enum { FLIP_EVERY = 128 }; /* bytes: whatever is read, it is wrong */
    unsigned long in_use;
    const vgpu_allocation *a = u->extent.allocation;
    const int own = vgpu_stream_device(l->operation.stream)->ordinal;
    if (vgpu.config.link_count == 0 || a->device < 0 || a->device == own) return;
    u->out = vgpu_link_use(own, a->device, &u->out_use);
    const vgpu_link_rule in = vgpu_link_use(a->device, own, &in_use);
    if (in.fault == VGPU_LINK_SLOW) vgpu_sleep_us(in.microseconds);
    if (u->out.fault == VGPU_LINK_SLOW) vgpu_sleep_us(u->out.microseconds);
    if (in.fault == VGPU_LINK_HANG || u->out.fault == VGPU_LINK_HANG)
        vgpu_stream_hang(l->operation.stream);
    if (!spoils(in.fault) && !spoils(u->out.fault)) return;
    u->private = need(aligned_alloc(512, (a->bytes + 511) / 512 * 512));
    take_copy(u->private, a->data, a->bytes);
    if (in.fault == VGPU_LINK_DROP || in.fault == VGPU_LINK_ZERO)
        memset(u->private, 0, a->bytes);
    if (in.fault == VGPU_LINK_FLIP)
        for (size_t i = 0; i < a->bytes; i += FLIP_EVERY) u->private[i] ^= 1;
}

/* What the kernel wrote behind a broken link arrives, or does not. */
static void deliver(const used_memory *u)
{
    unsigned char *to = u->extent.allocation->data;
    bool flip = u->out.fault == VGPU_LINK_FLIP;
    if (u->out.fault == VGPU_LINK_DROP) return;
    for (size_t i = 0; i < u->extent.bytes; i++) {
        if ((u->trail[i] & VGPU_TRAIL_WRITTEN) == 0) continue;
        to[i] = u->out.fault == VGPU_LINK_ZERO ? 0 : u->private[i];
        if (flip) to[i] ^= 1;
        flip = false;
    }
}

/* Trail and page marks in one mapping: only the pages that the kernel touches come into being, so
 * that a small launch in a large allocation is cheap. */
static size_t trail_mapping_bytes(const used_memory *u)
{
    return u->extent.bytes + (u->extent.bytes >> VGPU_TRAIL_SHIFT) + 1;
}

static void open_trail(used_memory *u)
{
    void *mapping = mmap(NULL, trail_mapping_bytes(u), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    u->trail = need(mapping == MAP_FAILED ? NULL : mapping);
    u->trail_pages = u->trail + u->extent.bytes;
}

/* What the launch knows of an allocation, from now on. l->lock. Takes over `extent`. */
static used_memory *use(launch_operation *l, vgpu_extent *extent)
{
    for (size_t i = 0; i < l->used_count; i++) {
        if (l->used[i].extent.allocation != extent->allocation) continue;
        vgpu_extent_release(extent);
        return &l->used[i];
    }
    if (l->used_count == l->used_room) {
        l->used_room = l->used_room * 2 + 8;
        l->used = need(realloc(l->used, l->used_room * sizeof *l->used));
    }
    used_memory *u = &l->used[l->used_count++];
    *u = (used_memory){ .extent = *extent };
    cross_link(l, u);
    if (l->operation.action != NULL || u->private != NULL) open_trail(u);
    return u;
}

/* vgpu_memory.find */
static bool find(void *context, int device, uint64_t address, vgpu_span *span, char *why,
                 size_t why_bytes)
{
    launch_operation *l = context;
    vgpu_extent extent;
    if (!vgpu_extent_of_access(device, address, &extent, why, why_bytes)) return false;
    pthread_mutex_lock(&l->lock);
    const used_memory *u = use(l, &extent);
    const vgpu_allocation *a = u->extent.allocation;
    *span = (vgpu_span){ .address = a->address,
                         .bytes = a->bytes,
                         .data = u->private != NULL ? u->private : a->data,
                         .shadow = a->shadow,
                         .device = a->device,
                         .writable = a->writable,
                         .trail = u->trail,
                         .trail_pages = u->trail_pages };
    pthread_mutex_unlock(&l->lock);
    return true;
}

/* The runs of equal bytes of a trail become touches. A written byte counts as written only: a
 * writer must have an order with all that a reader must have one with. */
static void follow_trail(vgpu_operation *op, const used_memory *u)
{
    const size_t bytes = u->extent.bytes, page = (size_t)1 << VGPU_TRAIL_SHIFT;
    for (size_t at = 0; at < bytes;) {
        if (at % page == 0 && u->trail_pages[at >> VGPU_TRAIL_SHIFT] == 0) {
            at += page;
            continue;
        }
        const size_t begin = at;
        const unsigned char did = u->trail[at];
        const bool wrote = (did & VGPU_TRAIL_WRITTEN) != 0;
        while (at < bytes && (u->trail[at] != 0) == (did != 0) &&
               ((u->trail[at] & VGPU_TRAIL_WRITTEN) != 0) == wrote) {
            at++;
            if (did == 0 && at % page == 0) break; /* the next page may be untouched */
        }
        const vgpu_extent run = { u->extent.allocation, begin, at - begin };
        if (did != 0) vgpu_operation_touch(op, &run, wrote);
    }
}

/* -- running ----------------------------------------------------------------------------------- */

static CUresult result_of(vgpu_outcome outcome)
{
    switch (outcome) {
    case VGPU_DONE:
    case VGPU_ABORTED: return CUDA_SUCCESS; /* by a fault that is known already */
    case VGPU_ILLEGAL_ADDRESS: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case VGPU_MISALIGNED_ADDRESS: return CUDA_ERROR_MISALIGNED_ADDRESS;
    case VGPU_HANG: return CUDA_ERROR_LAUNCH_TIMEOUT;
    case VGPU_REPORT: return CUDA_ERROR_ASSERT;
    case VGPU_TRAP:
    case VGPU_BAD_LAUNCH:
    case VGPU_OUT_OF_MEMORY: return CUDA_ERROR_LAUNCH_FAILED;
    }
    return CUDA_ERROR_UNKNOWN;
}

static size_t block_count(const launch_operation *l)
{
    return (size_t)l->grid[0] * l->grid[1] * l->grid[2];
}

static void describe(const launch_operation *l, char *text, size_t text_bytes)
{
    int n = snprintf(text, text_bytes, "%s grid %ux%ux%u block %ux%ux%u shared %zu",
                     l->kernel->name, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                     l->block[1], l->block[2], l->shared_bytes);
    for (size_t i = 0; i < l->used_count && n > 0 && (size_t)n < text_bytes; i++) {
        const used_memory *u = &l->used[i];
        if (u->out_use > 0)
            n += snprintf(text + n, text_bytes - (size_t)n, ", use %lu of link %d>%d%s",
                          u->out_use, u->out.from, u->out.to, vgpu_link_fault_text(u->out.fault));
    }
}

static CUresult run_launch(vgpu_operation *op, char *text, size_t text_bytes)
{
    launch_operation *l = (launch_operation *)op;
    vgpu_device *device = vgpu_stream_device(op->stream);
    const vgpu_memory memory = { .context = l, .find = find,
                                 .generation = &vgpu_memory_generation };
    const vgpu_launch launch = {
        .device = device->ordinal,
        .grid = { l->grid[0], l->grid[1], l->grid[2] },
        .block = { l->block[0], l->block[1], l->block[2] },
        .dynamic_shared_bytes = l->shared_bytes,
        .params = l->params,
        .variables = l->variables,
        .memory = &memory,
        .seed = vgpu_random((uint64_t)vgpu_stream_index(op->stream), op->sequence),
        .check_races = vgpu.config.races,
        .check_defined = vgpu.config.strict,
        .instruction_budget = vgpu.config.instruction_budget,
        .abort = &device->stop,
        .resident_blocks = l->cooperative ? (unsigned)block_count(l) : 0,
        .host_threads = l->cooperative ? 1 : vgpu.config.kernel_threads,
    };
    count_kernels(device, 1);
    const vgpu_outcome outcome = vgpu_run(l->program, l->kernel, &launch, text, text_bytes);
    for (size_t i = 0; i < l->used_count; i++) {
        if (l->used[i].private != NULL) deliver(&l->used[i]);
        if (op->action != NULL) follow_trail(op, &l->used[i]);
    }
    vgpu_operation_known(op);
    count_kernels(device, -1);
    if (outcome == VGPU_DONE) describe(l, text, text_bytes);
    return result_of(outcome);
}

static void destroy_launch(vgpu_operation *op)
{
    launch_operation *l = (launch_operation *)op;
    for (size_t i = 0; i < l->used_count; i++) {
        used_memory *u = &l->used[i];
        if (u->trail != NULL) munmap(u->trail, trail_mapping_bytes(u));
        free(u->private);
        vgpu_extent_release(&u->extent);
    }
    pthread_mutex_destroy(&l->lock);
    vgpu_module_let_go(l->module);
    free(l->used);
    free(l->params);
    free(l);
}

/* -- occupancy --------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Blocks of a kernel that one multiprocessor holds at a time: by threads, by registers (given to
 * warps 256 at a time), by shared memory and by a limit of its own. */
static int blocks_that_fit(const vgpu_function *f, size_t threads, size_t dynamic_shared_bytes)
{
    const vgpu_limits *l = vgpu_limits_of(f->device);
    const size_t warps = (threads + 31) / 32;
    const size_t registers = f->kernel->register_estimate < 16 ? 16 : f->kernel->register_estimate;
    const size_t per_warp = (registers * 32 + 255) / 256 * 256;
    const size_t shared = f->kernel->static_shared_bytes + dynamic_shared_bytes +
                          (size_t)l->shared_reserved;
    size_t blocks = (size_t)l->blocks_per_multiprocessor;
    blocks = least(blocks, (size_t)l->threads_per_multiprocessor / (warps * 32));
    blocks = least(blocks, 65536 / per_warp / warps);
    if (shared > 0)
        blocks = least(blocks, (size_t)l->shared_per_multiprocessor * 1024 / shared);
    return (int)blocks;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                     int block_threads,
                                                     size_t dynamic_shared_bytes)
{
    VGPU_BEGIN(vgpu_enter_context);
    const vgpu_function *f = vgpu_handle_find(VGPU_HANDLE_FUNCTION, function);
    if (f == NULL) return vgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (blocks == NULL || block_threads <= 0 || block_threads > 1024)
        return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    *blocks = 0;
    if ((unsigned)block_threads <= f->kernel->max_threads &&
        dynamic_shared_bytes <= (size_t)f->dynamic_shared_limit)
        *blocks = blocks_that_fit(f, (size_t)block_threads, dynamic_shared_bytes);
    return vgpu_leave(CUDA_SUCCESS);
}

/* -- launching --------------------------------------------------------------------------------- */

/* CUDA C++ Programming Guide, "Technical specifications per compute capability". */
static CUresult check_shape(const vgpu_function *f, const uint32_t *grid, const uint32_t *block,
                            size_t shared_bytes)
{
    const char *name = f->kernel->name;
    const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > 2147483647 ||
        grid[1] > 65535 || grid[2] > 65535)
        return vgpu_refuse(CUDA_ERROR_INVALID_VALUE, "%s: a grid of %ux%ux%u", name, grid[0],
                           grid[1], grid[2]);
    if (threads == 0 || threads > 1024 || block[0] > 1024 || block[1] > 1024 || block[2] > 64 ||
        threads > f->kernel->max_threads)
        return vgpu_refuse(CUDA_ERROR_INVALID_VALUE,
                           "%s: a block of %ux%ux%u; the kernel takes %u threads", name, block[0],
                           block[1], block[2], f->kernel->max_threads);
    if (shared_bytes > (size_t)f->dynamic_shared_limit)
        return vgpu_refuse(CUDA_ERROR_INVALID_VALUE,
                           "%s: %zu bytes of dynamic shared memory; the function may use %d",
                           name, shared_bytes, f->dynamic_shared_limit);
    if (blocks_that_fit(f, (size_t)threads, shared_bytes) == 0)
        return vgpu_refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                           "%s: %u registers for each of %llu threads", name,
                           f->kernel->register_estimate, (unsigned long long)threads);
    return CUDA_SUCCESS;
}

static unsigned char *copy_params(const vgpu_kernel *k, void **parameters)
{
    unsigned char *params = need(calloc(k->param_bytes + 1, 1));
    for (size_t i = 0; i < k->param_count; i++)
        memcpy(params + k->param_offset[i], parameters[i], k->param_size[i]);
    return params;
}

static CUresult launch(CUfunction function, const uint32_t *grid, const uint32_t *block,
                       unsigned shared_bytes, CUstream stream, void **parameters,
                       bool cooperative)
{
    vgpu_stream *s;
    const vgpu_function *f = vgpu_handle_find(VGPU_HANDLE_FUNCTION, function);
    CUresult result = vgpu_stream_find(stream, &s);
    if (result != CUDA_SUCCESS) return result;
    if (f == NULL || f->device != vgpu_current())
        return vgpu_refuse(CUDA_ERROR_INVALID_HANDLE, "no function of this context");
    result = check_shape(f, grid, block, shared_bytes);
    if (result != CUDA_SUCCESS) return result;
    if (f->kernel->param_count > 0 && parameters == NULL) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t fit = (uint64_t)vgpu.config.multiprocessors *
        (uint64_t)blocks_that_fit(f, (size_t)block[0] * block[1] * block[2], shared_bytes);
    if (cooperative && (uint64_t)grid[0] * grid[1] * grid[2] > fit)
        return vgpu_refuse(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "%s: at most %llu blocks",
                           f->kernel->name, (unsigned long long)fit);
    launch_operation *l = need(calloc(1, sizeof *l));
    *l = (launch_operation){
        .operation = { .name = "launch", .run = run_launch, .destroy = destroy_launch },
        .module = f->module,
        .program = f->program,
        .kernel = f->kernel,
        .variables = f->variables,
        .grid = { grid[0], grid[1], grid[2] },
        .block = { block[0], block[1], block[2] },
        .shared_bytes = shared_bytes,
        .cooperative = cooperative,
        .params = copy_params(f->kernel, parameters),
    };
    pthread_mutex_init(&l->lock, NULL);
    vgpu_module_hold(l->module);
    vgpu_stream_place(s, &l->operation, f->kernel->name);
    vgpu_stream_enqueue(&l->operation);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared_bytes, CUstream stream, void **parameters, void **extra)
{
    VGPU_BEGIN(vgpu_enter_context);
    const uint32_t grid[3] = { grid_x, grid_y, grid_z }, block[3] = { block_x, block_y, block_z };
    if (extra != NULL) return vgpu_leave(vgpu_refuse(CUDA_ERROR_NOT_SUPPORTED, "extra"));
    return vgpu_leave(launch(function, grid, block, shared_bytes, stream, parameters, false));
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void **parameters)
{
    VGPU_BEGIN(vgpu_enter_context);
    const uint32_t grid[3] = { grid_x, grid_y, grid_z }, block[3] = { block_x, block_y, block_z };
    return vgpu_leave(launch(function, grid, block, shared_bytes, stream, parameters, true));
}
