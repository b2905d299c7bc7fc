/* SPDX-License-Identifier: MIT */
/* ptx_access.c -- loads, stores, atomics and asynchronous copies of a warp, lane by lane.
 *
 * Weak accesses are plain copies, strong ones C atomics of the same order: a protocol between
 * devices that is wrong in C11's terms is a data race here, which a thread sanitizer reports.
 * Lanes of a strong access go in ascending order; after a strong load of device memory the warp
 * ends its turn, so that a kernel that polls does not keep others from setting the flag.
 *
 * cp.async moves no byte when it is issued. The copies of a thread wait in a list until it waits
 * for their group, and only then are both sides accessed; until then the destination is marked,
 * and whoever touches it is told that the wait is missing.
 */
#include <stdlib.h>
#include <string.h>

#include "ptx_machine.h"

static uint64_t lane_address(const vgpu_warp *warp, const vgpu_operand *operand, unsigned lane)
{
    return vgpu_lane_value(warp, operand, lane) + (uint64_t)operand->displacement;
}

/* A loaded element in a register that may be wider. */
static inline void set_loaded(vgpu_warp *warp, const vgpu_operand *d, unsigned lane,
                              const unsigned char *from, unsigned bytes, bool is_signed)
{
    if (bytes == 4 && d->bytes == 4) {
        memcpy((uint32_t *)vgpu_row(warp, d) + lane, from, 4);
        return;
    }
    uint64_t value = 0;
    memcpy(&value, from, bytes);
    if (is_signed && bytes < 8 && value >> (8 * bytes - 1) & 1) value |= UINT64_MAX << (8 * bytes);
    vgpu_lane_set(warp, d, lane, value);
}

/* -- strong accesses -------------------------------------------------------------------------- */

static int c_order(vgpu_order order)
{
    return order == VGPU_ACQUIRE   ? __ATOMIC_ACQUIRE
           : order == VGPU_RELEASE ? __ATOMIC_RELEASE
           : order == VGPU_ACQ_REL ? __ATOMIC_ACQ_REL
                                   : __ATOMIC_RELAXED;
}

/* One element; builtins take constant orders only. */
static uint64_t load_strong(const void *data, unsigned bytes, vgpu_order order)
{
    const bool acquire = order == VGPU_ACQUIRE;
    switch (bytes) {
    case 8: return acquire ? __atomic_load_n((const uint64_t *)data, __ATOMIC_ACQUIRE)
                           : __atomic_load_n((const uint64_t *)data, __ATOMIC_RELAXED);
    case 4: return acquire ? __atomic_load_n((const uint32_t *)data, __ATOMIC_ACQUIRE)
                           : __atomic_load_n((const uint32_t *)data, __ATOMIC_RELAXED);
    case 2: return __atomic_load_n((const uint16_t *)data, __ATOMIC_RELAXED);
    default: return __atomic_load_n((const uint8_t *)data, __ATOMIC_RELAXED);
    }
}

static void store_strong(void *data, unsigned bytes, vgpu_order order, uint64_t value)
{
    const bool release = order == VGPU_RELEASE;
    switch (bytes) {
    case 8:
        if (release) __atomic_store_n((uint64_t *)data, value, __ATOMIC_RELEASE);
        else __atomic_store_n((uint64_t *)data, value, __ATOMIC_RELAXED);
        break;
    case 4:
        if (release) __atomic_store_n((uint32_t *)data, (uint32_t)value, __ATOMIC_RELEASE);
        else __atomic_store_n((uint32_t *)data, (uint32_t)value, __ATOMIC_RELAXED);
        break;
    case 2: __atomic_store_n((uint16_t *)data, (uint16_t)value, __ATOMIC_RELAXED); break;
    default: __atomic_store_n((uint8_t *)data, (uint8_t)value, __ATOMIC_RELAXED); break;
    }
}

/* -- loads and stores ------------------------------------------------------------------------- */

/* The common case of a weak load, without its messages: memory that the hint knows, aligned, inside
 * and defined. NULL: vgpu_resolve has the last word. */
static inline bool all_defined(const unsigned char *shadow, size_t bytes)
{
    static const unsigned char ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    return bytes == 4    ? memcmp(shadow, ones, 4) == 0
           : bytes == 16 ? memcmp(shadow, ones, 16) == 0
                         : bytes == 8 && memcmp(shadow, ones, 8) == 0;
}

static inline const unsigned char *quick_shared(vgpu_warp *warp, unsigned lane, uint64_t address,
                                                size_t bytes)
{
    const vgpu_block *block = warp->block;
    const bool dynamic = address >= VGPU_DYNAMIC_BASE;
    const uint64_t offset = dynamic ? address - VGPU_DYNAMIC_BASE + block->static_bytes
                                    : address - VGPU_SHARED_BASE;
    const size_t end = dynamic ? block->shared_bytes : block->static_bytes;
    if (offset >= end || end - offset < bytes || (address & (bytes - 1)) ||
        !all_defined(block->defined + offset, bytes)) {
        return NULL;
    }
    if (block->cells && !vgpu_check_race(warp, lane, offset, bytes, false, NULL)) return NULL;
    return block->shared + offset;
}

static inline const unsigned char *quick_global(const vgpu_span *span, uint64_t address,
                                                size_t bytes)
{
    const uint64_t offset = address - span->address;
    if (offset >= span->bytes || span->bytes - offset < bytes || (address & (bytes - 1)) ||
        (span->shadow && !all_defined(span->shadow + offset, bytes))) {
        return NULL;
    }
    if (span->trail) vgpu_leave_trail(span, offset, bytes, VGPU_TRAIL_READ);
    return span->data + offset;
}

/* Does all lanes of a weak load that are the common case; gives the others. */
static uint32_t load_quickly(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const vgpu_access *a = &in->access;
    vgpu_runner *runner = warp->block->runner;
    const vgpu_memory *memory = warp->block->grid->launch->memory;
    const size_t bytes = (size_t)a->bytes * a->count;
    const unsigned char hint = runner->hint[warp->now % sizeof runner->hint];
    const bool global = a->space == VGPU_GLOBAL && hint < runner->span_count &&
                        runner->generation == atomic_load_explicit(memory->generation,
                                                                   memory_order_acquire);
    if (!global && a->space != VGPU_SHARED) return mask;
    uint32_t others = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        const uint64_t address = lane_address(warp, &in->operand[a->count], lane);
        const unsigned char *data = global ? quick_global(&runner->spans[hint], address, bytes)
                                           : quick_shared(warp, lane, address, bytes);
        if (!data) {
            others |= UINT32_C(1) << lane;
            continue;
        }
        for (unsigned i = 0; i < a->count; i++) {
            set_loaded(warp, &in->operand[i], lane, data + i * a->bytes, a->bytes, a->is_signed);
        }
    }
    if (global) warp->block->events++;
    return others;
}

/* Remembers what a warp polls, for the message should it do so for ever. */
static void note_poll(vgpu_warp *warp, uint64_t address, uint64_t value)
{
    warp->polled = true;
    warp->polled_pc = warp->now;
    warp->polled_address = address;
    warp->polled_value = value;
}

vgpu_step vgpu_load(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const vgpu_access *a = &in->access;
    const vgpu_operand *from = &in->operand[a->count];
    const size_t bytes = (size_t)a->bytes * a->count;
    bool polls = false;
    if (a->order == VGPU_WEAK && a->bytes >= 4 && !a->incoherent) {
        mask = load_quickly(warp, in, mask);
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        const uint64_t address = lane_address(warp, from, lane);
        vgpu_place place;
        if (!vgpu_resolve(warp, lane, a, address, bytes, VGPU_READ, NULL, &place)) {
            return VGPU_FAULT;
        }
        for (unsigned i = 0; i < a->count; i++) {
            const unsigned char *data = place.data + i * a->bytes;
            uint64_t value;
            if (a->order != VGPU_WEAK) {
                value = load_strong(data, a->bytes, a->order);
                data = (const unsigned char *)&value;
                note_poll(warp, address, value);
                polls = polls || place.space == VGPU_GLOBAL;
            }
            set_loaded(warp, &in->operand[i], lane, data, a->bytes, a->is_signed);
        }
        if (place.space == VGPU_GLOBAL) warp->block->events++;
    }
    return polls ? VGPU_YIELD : VGPU_NEXT;
}

vgpu_step vgpu_store(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const vgpu_access *a = &in->access;
    const size_t bytes = (size_t)a->bytes * a->count;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        unsigned char value[16];
        for (unsigned i = 0; i < a->count; i++) {
            const uint64_t element = vgpu_lane_value(warp, &in->operand[1 + i], lane);
            memcpy(value + i * a->bytes, &element, a->bytes);
        }
        vgpu_place place;
        if (!vgpu_resolve(warp, lane, a, lane_address(warp, &in->operand[0], lane), bytes,
                          VGPU_WRITE, value, &place)) {
            return VGPU_FAULT;
        }
        if (a->order == VGPU_WEAK) {
            memcpy(place.data, value, bytes);
            continue;
        }
        for (unsigned i = 0; i < a->count; i++) {
            store_strong(place.data + i * a->bytes, a->bytes, a->order,
                         vgpu_lane_value(warp, &in->operand[1 + i], lane));
        }
    }
    return VGPU_NEXT;
}

/* -- atomics ---------------------------------------------------------------------------------- */

/* What an atomic writes, given what it finds; b, c: its operands. Sizes are cut by the caller. */
static uint64_t combined(vgpu_mode mode, bool is_signed, unsigned bytes, uint64_t old, uint64_t b,
                         uint64_t c)
{
    bool less = old < b;
    if (is_signed) {
        less = bytes == 8 ? (int64_t)old < (int64_t)b : (int32_t)old < (int32_t)b;
    }
    switch (mode) {
    case VGPU_ADD: return old + b;
    case VGPU_MIN: return less ? old : b;
    case VGPU_MAX: return less ? b : old;
    case VGPU_AND: return old & b;
    case VGPU_OR: return old | b;
    case VGPU_XOR: return old ^ b;
    case VGPU_CAS: return old == b ? c : old;
    case VGPU_INC: return old >= b ? 0 : old + 1;
    case VGPU_DEC: return old == 0 || old > b ? b : old - 1;
    default: return b; /* VGPU_EXCH */
    }
}

/* Gives the old value. The exchange succeeds in the order asked for; retries are relaxed. */
static uint64_t update(const vgpu_instruction *in, void *data, uint64_t b, uint64_t c)
{
    const vgpu_access *a = &in->access;
    const int order = c_order(a->order);
    if (a->bytes == 8) {
        uint64_t *at = data, old = __atomic_load_n(at, __ATOMIC_RELAXED), new;
        do new = combined(in->mode, a->is_signed, 8, old, b, c);
        while (!__atomic_compare_exchange_n(at, &old, new, false, order, __ATOMIC_RELAXED));
        return old;
    }
    uint32_t *at = data, old = __atomic_load_n(at, __ATOMIC_RELAXED), new;
    do new = (uint32_t)combined(in->mode, a->is_signed, 4, old, b, c);
    while (!__atomic_compare_exchange_n(at, &old, new, false, order, __ATOMIC_RELAXED));
    return old;
}

vgpu_step vgpu_atomic(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const vgpu_operand *o = in->operand + (in->access.returns ? 1 : 0);
    bool polls = false;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        const uint64_t address = lane_address(warp, &o[0], lane);
        vgpu_place place;
        if (!vgpu_resolve(warp, lane, &in->access, address, in->access.bytes, VGPU_UPDATE, NULL,
                          &place)) {
            return VGPU_FAULT;
        }
        const uint64_t b = vgpu_lane_value(warp, &o[1], lane);
        const uint64_t c = in->mode == VGPU_CAS ? vgpu_lane_value(warp, &o[2], lane) : 0;
        const uint64_t old = update(in, place.data, b, c);
        if (in->access.returns) vgpu_lane_set(warp, &in->operand[0], lane, old);
        note_poll(warp, address, old);
        polls = polls || (in->access.returns && place.space == VGPU_GLOBAL);
    }
    warp->block->events++;
    return polls ? VGPU_YIELD : VGPU_NEXT;
}

/* -- asynchronous copies ---------------------------------------------------------------------- */

static const vgpu_access copy_source = {.space = VGPU_GLOBAL};
static const vgpu_access copy_target = {.space = VGPU_SHARED};

static vgpu_copy *new_copy(vgpu_warp *warp)
{
    if (warp->copy_count == warp->copy_capacity) {
        const size_t capacity = warp->copy_capacity ? 2 * warp->copy_capacity : 64;
        vgpu_copy *grown = realloc(warp->copies, capacity * sizeof *grown);
        if (!grown) return NULL;
        warp->copies = grown;
        warp->copy_capacity = capacity;
    }
    return &warp->copies[warp->copy_count++];
}

vgpu_step vgpu_copy_async(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const vgpu_operand *o = in->operand;
    const unsigned char bytes = (unsigned char)o[2].displacement;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        const uint64_t from_bytes =
            o[3].bytes == VGPU_ABSENT ? bytes : vgpu_lane_value(warp, &o[3], lane);
        vgpu_copy *copy = new_copy(warp);
        vgpu_place place;
        if (!copy || from_bytes > bytes) {
            vgpu_fault(warp, lane, warp->now, copy ? VGPU_REPORT : VGPU_OUT_OF_MEMORY,
                       copy ? "cp.async reads more than it copies" : "out of memory");
            return VGPU_FAULT;
        }
        *copy = (vgpu_copy){
            .lane = (unsigned char)lane, .bytes = bytes, .from_bytes = (unsigned char)from_bytes,
            .pc = warp->now, .to = lane_address(warp, &o[0], lane),
            .from = lane_address(warp, &o[1], lane),
        };
        /* The destination is free and stays untouched until the wait. */
        if (!vgpu_resolve(warp, lane, &copy_target, copy->to, bytes, VGPU_WRITE, NULL, &place)) {
            return VGPU_FAULT;
        }
        memset(warp->block->defined + place.offset, VGPU_COPY_PENDING, bytes);
    }
    return VGPU_NEXT;
}

vgpu_step vgpu_copy_commit(vgpu_warp *warp, uint32_t mask)
{
    for (size_t i = 0; i < warp->copy_count; i++) {
        vgpu_copy *copy = &warp->copies[i];
        if (copy->committed || !(mask >> copy->lane & 1)) continue;
        copy->committed = true;
        copy->group = warp->groups[copy->lane];
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) warp->groups[vgpu_first_lane(rest)]++;
    return VGPU_NEXT;
}

static bool perform_copy(vgpu_warp *warp, const vgpu_copy *copy)
{
    unsigned char value[16] = {0};
    vgpu_place from, to;
    for (unsigned i = 0; i < copy->from_bytes; i++) { /* any number of bytes: one by one */
        if (!vgpu_resolve(warp, copy->lane, &copy_source, copy->from + i, 1, VGPU_READ, NULL,
                          &from)) {
            return false;
        }
        value[i] = *from.data;
    }
    if (copy->from & (copy->bytes - 1u)) {
        return vgpu_fault(warp, copy->lane, copy->pc, VGPU_MISALIGNED_ADDRESS,
                          "misaligned cp.async of %u bytes from 0x%llx", copy->bytes,
                          (unsigned long long)copy->from);
    }
    const size_t offset = copy->to >= VGPU_DYNAMIC_BASE
                              ? warp->block->static_bytes + (copy->to - VGPU_DYNAMIC_BASE)
                              : copy->to - VGPU_SHARED_BASE;
    memset(warp->block->defined + offset, 0, copy->bytes);
    if (!vgpu_resolve(warp, copy->lane, &copy_target, copy->to, copy->bytes, VGPU_WRITE, value,
                      &to)) {
        return false;
    }
    memcpy(to.data, value, copy->bytes);
    return true;
}

vgpu_step vgpu_copy_wait(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const bool all = in->op->operands[0] == 0;
    const uint32_t newest = all ? 0 : (uint32_t)in->operand[0].displacement;
    if (all) vgpu_copy_commit(warp, mask);
    const uint32_t now = warp->now;
    size_t kept = 0;
    for (size_t i = 0; i < warp->copy_count; i++) {
        const vgpu_copy copy = warp->copies[i];
        const bool waited = copy.committed && (mask >> copy.lane & 1) &&
                            warp->groups[copy.lane] - copy.group > newest;
        warp->now = copy.pc; /* a fault names the copy */
        if (!waited) warp->copies[kept++] = copy;
        else if (!perform_copy(warp, &copy)) return VGPU_FAULT;
    }
    warp->now = now;
    warp->copy_count = kept;
    return VGPU_NEXT;
}
