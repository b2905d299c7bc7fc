/* SPDX-License-Identifier: MIT */
/* ptx_memory.c -- what an address means, and whether it may be used.
 *
 * A generic address lies in a window (ptx.h) of shared, local or parameter memory, or is a device
 * address. Device memory is known by spans: the driver is asked once per allocation, and again
 * when its generation has changed.
 *
 * Checks of device memory, by the shadow of its allocation:
 *   - bytes that nobody wrote since they were allocated are not read (check_defined);
 *   - a strong access (.relaxed .acquire .release .volatile, atom) to memory of another device, or
 *     of the host, needs .sys scope; and memory that another device accesses so is not accessed
 *     strongly by its own device at less than .sys;
 *   - what ld.nc reads is not written in the same launch.
 *
 * Thread rule: called by several runners at a time. Shadow bytes of strong accesses are atomic;
 * those of weak ones are plain, as the data is, so that a thread sanitizer sees through.
 */
#include <string.h>

#include "ptx_machine.h"

static const char *verb(vgpu_direction direction)
{
    return direction == VGPU_READ ? "load" : direction == VGPU_WRITE ? "store" : "atomic";
}

static bool is_strong(const vgpu_access *access) { return access->order != VGPU_WEAK; }

/* -- spans ------------------------------------------------------------------------------------ */

static bool holds(const vgpu_span *span, uint64_t address)
{
    return address - span->address < span->bytes;
}

/* The span that holds `address`, remembered or asked for. NULL: a fault. */
static vgpu_span *find_span(vgpu_warp *warp, unsigned lane, uint64_t address, size_t bytes,
                                  vgpu_direction direction)
{
    vgpu_grid *grid = warp->block->grid;
    vgpu_runner *runner = warp->block->runner;
    const vgpu_memory *memory = grid->launch->memory;
    const unsigned generation = atomic_load_explicit(memory->generation, memory_order_acquire);
    if (generation != runner->generation) runner->span_count = 0;
    runner->generation = generation;
    unsigned char *hint = &runner->hint[warp->now % sizeof runner->hint];
    if (*hint < runner->span_count && holds(&runner->spans[*hint], address)) {
        return &runner->spans[*hint];
    }
    for (size_t i = 0; i < runner->span_count; i++) {
        if (!holds(&runner->spans[i], address)) continue;
        *hint = (unsigned char)i;
        return &runner->spans[i];
    }
    char why[160] = "no such memory";
    vgpu_span found = {0};
    if (!memory->find(memory->context, grid->launch->device, address, &found, why, sizeof why)) {
        vgpu_fault(warp, lane, warp->now, VGPU_ILLEGAL_ADDRESS,
                   "illegal global %s of %zu bytes at 0x%llx: %s", verb(direction), bytes,
                   (unsigned long long)address, why);
        return NULL;
    }
    if (runner->span_count == VGPU_SPANS) runner->span_count = 0;
    *hint = (unsigned char)runner->span_count;
    runner->spans[runner->span_count] = found;
    return &runner->spans[runner->span_count++];
}

/* -- checks of device memory ------------------------------------------------------------------ */

static bool check_weak(vgpu_warp *warp, unsigned lane, const vgpu_span *span, size_t offset,
                       size_t bytes, vgpu_direction direction)
{
    unsigned char *shadow = span->shadow + offset;
    if (direction == VGPU_WRITE) {
        for (size_t i = 0; i < bytes; i++) shadow[i] |= VGPU_DEFINED;
        return true;
    }
    if (!warp->block->grid->launch->check_defined) return true;
    unsigned char all = VGPU_DEFINED;
    for (size_t i = 0; i < bytes; i++) all &= shadow[i];
    if (all & VGPU_DEFINED) return true;
    return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                      "global load of %zu bytes at 0x%llx that nobody has written", bytes,
                      (unsigned long long)(span->address + offset));
}

static bool check_strong(vgpu_warp *warp, unsigned lane, const vgpu_span *span, size_t offset,
                         const vgpu_access *access, vgpu_direction direction)
{
    const vgpu_launch *launch = warp->block->grid->launch;
    const bool remote = span->device != launch->device;
    const bool narrow = access->scope != VGPU_SCOPE_SYS;
    const unsigned long long address = span->address + offset;
    if (remote && narrow) {
        return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                          "%s of a flag at 0x%llx in the memory of %s %d, at less than .sys scope",
                          verb(direction), address, span->device < 0 ? "the host" : "device",
                          span->device);
    }
    if (!span->shadow) return true;
    const unsigned char mark = remote ? VGPU_FLAG_REMOTE : narrow ? VGPU_FLAG_NARROW : 0;
    for (size_t i = 0; i < access->bytes; i++) {
        unsigned char *shadow = &span->shadow[offset + i];
        const unsigned char define = direction & VGPU_WRITE ? VGPU_DEFINED : 0;
        const unsigned char old = __atomic_fetch_or(shadow, mark | define, __ATOMIC_RELAXED);
        const unsigned char both = VGPU_FLAG_REMOTE | VGPU_FLAG_NARROW;
        if (((old | mark) & both) == both) {
            return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                              "%s of a flag at 0x%llx: another device uses it too, and one of the "
                              "two at less than .sys scope", verb(direction), address);
        }
        if (direction != VGPU_WRITE && !(old & VGPU_DEFINED) && launch->check_defined) {
            return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                              "%s of a flag at 0x%llx that nobody has set", verb(direction),
                              address);
        }
    }
    return true;
}

/* What ld.nc reads may come from a cache that the launch's own writes do not reach. */
static bool check_trail(vgpu_warp *warp, unsigned lane, const vgpu_span *span, size_t offset,
                        size_t bytes, const vgpu_access *access, vgpu_direction direction)
{
    const bool writes = direction == VGPU_WRITE;
    const unsigned char did = writes               ? VGPU_TRAIL_WRITTEN
                              : access->incoherent ? VGPU_TRAIL_READ | VGPU_TRAIL_INCOHERENT
                                                   : VGPU_TRAIL_READ;
    const unsigned char before = vgpu_leave_trail(span, offset, bytes, did);
    if (!(writes ? before & VGPU_TRAIL_INCOHERENT
                 : access->incoherent && (before & VGPU_TRAIL_WRITTEN))) {
        return true;
    }
    return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                      "%zu bytes at 0x%llx are read by ld.nc and written in the same launch", bytes,
                      (unsigned long long)(span->address + offset));
}

static bool resolve_global(vgpu_warp *warp, unsigned lane, const vgpu_access *access,
                           uint64_t address, size_t bytes, vgpu_direction direction,
                           vgpu_place *place)
{
    const vgpu_span *span = find_span(warp, lane, address, bytes, direction);
    if (!span) return false;
    const size_t offset = (size_t)(address - span->address);
    if (span->bytes - offset < bytes) {
        return vgpu_fault(warp, lane, warp->now, VGPU_ILLEGAL_ADDRESS,
                          "illegal global %s of %zu bytes at 0x%llx: the allocation ends %zu bytes "
                          "behind it", verb(direction), bytes, (unsigned long long)address,
                          span->bytes - offset);
    }
    if ((direction & VGPU_WRITE) && !span->writable) {
        return vgpu_fault(warp, lane, warp->now, VGPU_ILLEGAL_ADDRESS,
                          "illegal global %s at 0x%llx: the memory is read-only", verb(direction),
                          (unsigned long long)address);
    }
    *place = (vgpu_place){.data = span->data + offset, .space = VGPU_GLOBAL};
    if (is_strong(access)) return check_strong(warp, lane, span, offset, access, direction);
    if (span->trail && !check_trail(warp, lane, span, offset, bytes, access, direction)) {
        return false;
    }
    return !span->shadow || check_weak(warp, lane, span, offset, bytes, direction);
}

/* -- memory of the block ---------------------------------------------------------------------- */

/* The offset of a shared address in vgpu_block.shared; false: outside of both parts. */
static bool shared_offset(const vgpu_block *block, uint64_t address, size_t bytes, size_t *offset)
{
    if (address >= VGPU_DYNAMIC_BASE) {
        const uint64_t at = address - VGPU_DYNAMIC_BASE, size = block->shared_bytes -
                            block->static_bytes;
        *offset = block->static_bytes + (size_t)at;
        return at <= size && size - at >= bytes;
    }
    *offset = (size_t)(address - VGPU_SHARED_BASE);
    return address >= VGPU_SHARED_BASE && *offset <= block->static_bytes &&
           block->static_bytes - *offset >= bytes;
}

static bool resolve_shared(vgpu_warp *warp, unsigned lane, const vgpu_access *access,
                           uint64_t address, size_t bytes, vgpu_direction direction,
                           const void *value, vgpu_place *place)
{
    vgpu_block *block = warp->block;
    size_t offset;
    if (!shared_offset(block, address, bytes, &offset)) {
        return vgpu_fault(warp, lane, warp->now, VGPU_ILLEGAL_ADDRESS,
                          "illegal shared %s of %zu bytes at 0x%llx: there are %zu static bytes "
                          "from 0x%x and %zu dynamic ones from 0x%x", verb(direction), bytes,
                          (unsigned long long)address, block->static_bytes, VGPU_SHARED_BASE,
                          block->shared_bytes - block->static_bytes, VGPU_DYNAMIC_BASE);
    }
    unsigned char *defined = block->defined + offset, all = VGPU_DEFINED, any = 0;
    for (size_t i = 0; i < bytes; i++) {
        all &= defined[i];
        any |= defined[i];
    }
    if (any & VGPU_COPY_PENDING) {
        return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                          "shared %s at 0x%llx, where a cp.async copies to that is not waited for",
                          verb(direction), (unsigned long long)address);
    }
    if (direction != VGPU_WRITE && !all && block->grid->launch->check_defined) {
        return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                          "shared load of %zu bytes at 0x%llx that nobody has written", bytes,
                          (unsigned long long)address);
    }
    if (block->cells && !is_strong(access) &&
        !vgpu_check_race(warp, lane, offset, bytes, direction == VGPU_WRITE, value)) {
        return false;
    }
    if (direction & VGPU_WRITE) {
        memset(defined, VGPU_DEFINED, bytes);
        block->events++;
    }
    *place = (vgpu_place){.data = block->shared + offset, .space = VGPU_SHARED, .offset = offset};
    return true;
}

static bool resolve_local(vgpu_warp *warp, unsigned lane, uint64_t address, size_t bytes,
                          vgpu_direction direction, vgpu_place *place)
{
    vgpu_block *block = warp->block;
    const size_t local_bytes = block->grid->code->kernel.local_bytes;
    const size_t thread = (size_t)warp->index * VGPU_LANES + lane;
    if (address > local_bytes || local_bytes - address < bytes) {
        return vgpu_fault(warp, lane, warp->now, VGPU_ILLEGAL_ADDRESS,
                          "illegal local %s of %zu bytes at 0x%llx: the thread has %zu bytes",
                          verb(direction), bytes, (unsigned long long)address, local_bytes);
    }
    block->events++;
    *place = (vgpu_place){.data = block->local + thread * local_bytes + address,
                          .space = VGPU_LOCAL};
    return true;
}

static bool resolve_param(vgpu_warp *warp, unsigned lane, uint64_t address, size_t bytes,
                          vgpu_direction direction, vgpu_place *place)
{
    const vgpu_grid *grid = warp->block->grid;
    const size_t param_bytes = grid->code->kernel.param_bytes;
    if (address > param_bytes || param_bytes - address < bytes || direction != VGPU_READ) {
        return vgpu_fault(warp, lane, warp->now, VGPU_ILLEGAL_ADDRESS,
                          "illegal %s of %zu bytes at 0x%llx of %zu bytes of parameters",
                          verb(direction), bytes, (unsigned long long)address, param_bytes);
    }
    *place = (vgpu_place){.data = (unsigned char *)grid->launch->params + address,
                          .space = VGPU_PARAM};
    return true;
}

/* -- all -------------------------------------------------------------------------------------- */

bool vgpu_resolve(vgpu_warp *warp, unsigned lane, const vgpu_access *access, uint64_t address,
                  size_t bytes, vgpu_direction direction, const void *value, vgpu_place *place)
{
    if (address & (bytes - 1)) {
        return vgpu_fault(warp, lane, warp->now, VGPU_MISALIGNED_ADDRESS,
                          "misaligned %s of %zu bytes at 0x%llx", verb(direction), bytes,
                          (unsigned long long)address);
    }
    vgpu_space space = access->space;
    if (space == VGPU_GENERIC) {
        static const vgpu_space windows[] = {VGPU_GLOBAL, VGPU_SHARED, VGPU_LOCAL, VGPU_PARAM};
        const uint64_t window = address >> VGPU_WINDOW_SHIFT;
        space = window < 4 ? windows[window] : VGPU_GLOBAL;
        if (space != VGPU_GLOBAL) address -= window << VGPU_WINDOW_SHIFT;
    }
    switch (space) {
    case VGPU_SHARED:
        return resolve_shared(warp, lane, access, address, bytes, direction, value, place);
    case VGPU_LOCAL: return resolve_local(warp, lane, address, bytes, direction, place);
    case VGPU_PARAM: return resolve_param(warp, lane, address, bytes, direction, place);
    case VGPU_GENERIC: case VGPU_GLOBAL: case VGPU_CONST: break;
    }
    return resolve_global(warp, lane, access, address, bytes, direction, place);
}
