/* SPDX-License-Identifier: MIT */
/* ptx_check.c -- the order of accesses to shared memory, endless loops, and what faults say.
 *
 * Order. Warp w of a block has a clock, clock[w][w], and knows of warp x that its accesses with a
 * clock below clock[w][x] come before whatever w does next. An access is recorded with its
 * thread and its warp's clock. So a recorded access of thread t (warp x, clock c) comes before an
 * access of warp w exactly if t is the same thread or c < clock[w][x]; otherwise the two race
 * when one of them is a write. Clocks move at
 *
 *     bar.warp.sync    clock[w][w] + 1: later accesses of w's lanes come after its earlier ones
 *     arriving         the same; then the barrier takes the larger of its own and w's clocks
 *     being released   w takes the larger of its own and the barrier's clocks
 *
 * so that all accesses before a barrier come before all after it, for those who took part and for
 * nobody else (named barriers). This is a vector clock per warp [Flanagan & Freund, FastTrack,
 * PLDI 2009]. A cell keeps the last writer and two readers since: the second from another warp if
 * there is one, so a write by any warp still finds a reader of another. Two writes of the same
 * value are let pass, as hardware lets them.
 *
 * Endless loops. A warp whose running lanes come back to the same pc with the same registers while
 * nothing else happened (vgpu_block.events: stores to shared memory, loads of device and local
 * memory, clocks, barriers, exits) will do so for ever, unless another warp of its block causes
 * such an event. When every warp of the block waits or loops like this, none will. States are
 * compared by a hash, with one remembered state that moves on at powers of two [Brent, BIT 20,
 * 1980]. Loops that poll device memory cannot be judged: another device may set the flag.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ptx_machine.h"

/* -- messages --------------------------------------------------------------------------------- */

void vgpu_describe(const vgpu_grid *grid, uint32_t pc, char *text, size_t text_bytes)
{
    const vgpu_instruction *in = &grid->code->code[pc];
    const vgpu_program *p = grid->program;
    char source[160] = "";
    if (in->file && in->file < p->file_count && p->files[in->file]) {
        snprintf(source, sizeof source, " (%s:%u)", p->files[in->file], in->source_line);
    }
    snprintf(text, text_bytes, "PTX line %u%s: `%.*s`", in->line, source,
             (int)strcspn(in->text, ";\r\n"), in->text);
}

/* Keeps the first fault and stops the launch. */
static bool record(vgpu_grid *grid, vgpu_outcome outcome, const char *message)
{
    pthread_mutex_lock(&grid->lock);
    if (grid->outcome == VGPU_DONE) {
        grid->outcome = outcome;
        snprintf(grid->error, grid->error_bytes, "%s", message);
    }
    pthread_mutex_unlock(&grid->lock);
    atomic_store_explicit(&grid->stop, true, memory_order_relaxed);
    return false;
}

bool vgpu_fault(vgpu_warp *warp, unsigned lane, uint32_t pc, vgpu_outcome outcome,
                const char *format, ...)
{
    const vgpu_block *block = warp->block;
    const uint32_t *size = block->grid->launch->block;
    const uint32_t thread = warp->index * VGPU_LANES + lane;
    char why[600], where[300], message[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    vgpu_describe(block->grid, pc, where, sizeof where);
    snprintf(message, sizeof message, "kernel %s, block (%u,%u,%u), thread (%u,%u,%u), %s: %s",
             block->grid->code->kernel.name, block->index[0], block->index[1], block->index[2],
             thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1], where, why);
    return record(block->grid, outcome, message);
}

bool vgpu_fault_of_block(vgpu_block *block, vgpu_outcome outcome, const char *format, ...)
{
    char why[1000], message[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "kernel %s, block (%u,%u,%u): %s",
             block->grid->code->kernel.name, block->index[0], block->index[1], block->index[2],
             why);
    return record(block->grid, outcome, message);
}

/* Lanes of `mask` with the same pc as its first lane. */
static uint32_t lanes_alike(const vgpu_warp *warp, uint32_t mask)
{
    const uint32_t pc = warp->pc[vgpu_first_lane(mask)];
    uint32_t alike = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        if (warp->pc[lane] == pc) alike |= UINT32_C(1) << lane;
    }
    return alike;
}

void vgpu_describe_lanes(const vgpu_block *block, char *text, size_t text_bytes)
{
    size_t used = 0, left_out = 0;
    text[0] = 0;
    for (unsigned w = 0; w < block->warp_count; w++) {
        const vgpu_warp *warp = &block->warps[w];
        for (uint32_t rest = warp->live; rest;) {
            const uint32_t alike = lanes_alike(warp, rest);
            const unsigned lane = vgpu_first_lane(rest);
            rest &= ~alike;
            if (text_bytes - used < 200) {
                left_out++;
                continue;
            }
            char where[150], polled[80] = "";
            const bool waits = warp->waiting >> lane & 1;
            vgpu_describe(block->grid, warp->pc[lane], where, sizeof where);
            if (!waits && warp->polled) {
                snprintf(polled, sizeof polled, ", last flag read: 0x%llx at 0x%llx",
                         (unsigned long long)warp->polled_value,
                         (unsigned long long)warp->polled_address);
            }
            used += (size_t)snprintf(text + used, text_bytes - used,
                                     "%swarp %u lanes 0x%08x %s at %s%s", used ? "; " : "", w,
                                     alike, waits ? "wait" : "loop", where, polled);
        }
    }
    if (left_out) snprintf(text + used, text_bytes - used, "; and %zu more", left_out);
}

/* -- order in shared memory ------------------------------------------------------------------- */

void vgpu_clock_tick(vgpu_warp *warp) { warp->block->clock[warp->index][warp->index]++; }

void vgpu_clock_release(vgpu_warp *warp, vgpu_barrier *barrier)
{
    const uint32_t *mine = warp->block->clock[warp->index];
    for (unsigned w = 0; w < VGPU_WARPS; w++) {
        if (mine[w] > barrier->clock[w]) barrier->clock[w] = mine[w];
    }
}

void vgpu_clock_acquire(vgpu_warp *warp, const vgpu_barrier *barrier)
{
    uint32_t *mine = warp->block->clock[warp->index];
    for (unsigned w = 0; w < VGPU_WARPS; w++) {
        if (barrier->clock[w] > mine[w]) mine[w] = barrier->clock[w];
    }
}

/* Does the recorded access come before what `thread` of `warp` does now? Clock 0: there is none. */
static inline bool comes_before(const vgpu_warp *warp, uint32_t thread, uint32_t recorded_thread,
                                uint32_t recorded_clock)
{
    return recorded_thread == thread ||
           recorded_clock < warp->block->clock[warp->index][recorded_thread / VGPU_LANES];
}

static bool race(vgpu_warp *warp, unsigned lane, size_t offset, const char *now, const char *then,
                 uint32_t thread, uint32_t pc)
{
    char where[300];
    vgpu_describe(warp->block->grid, pc, where, sizeof where);
    const size_t part = offset < warp->block->static_bytes ? 0 : warp->block->static_bytes;
    return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                      "race: this %s of %s shared memory at +%zu is not ordered after the %s by "
                      "thread %u of the block at %s", now, part || !warp->block->static_bytes
                      ? "dynamic" : "static", offset - part, then, thread, where);
}

static bool check_write(vgpu_warp *warp, unsigned lane, vgpu_cell *cell, size_t offset, bool same)
{
    const uint32_t thread = warp->index * VGPU_LANES + lane;
    if (!comes_before(warp, thread, cell->writer, cell->write_clock) && !same) {
        return race(warp, lane, offset, "write", "write", cell->writer, cell->write_pc);
    }
    for (int i = 0; i < 2; i++) {
        if (!comes_before(warp, thread, cell->reader[i], cell->read_clock[i])) {
            return race(warp, lane, offset, "write", "read", cell->reader[i], cell->read_pc[i]);
        }
    }
    cell->writer = (uint16_t)thread;
    cell->write_clock = warp->block->clock[warp->index][warp->index];
    cell->write_pc = warp->now;
    cell->read_clock[0] = cell->read_clock[1] = 0;
    return true;
}

static bool check_read(vgpu_warp *warp, unsigned lane, vgpu_cell *cell, size_t offset)
{
    const uint32_t thread = warp->index * VGPU_LANES + lane;
    if (!comes_before(warp, thread, cell->writer, cell->write_clock)) {
        return race(warp, lane, offset, "read", "write", cell->writer, cell->write_pc);
    }
    const bool first_is_past = comes_before(warp, thread, cell->reader[0], cell->read_clock[0]);
    const int slot = first_is_past ? 0 : 1;
    const bool keep = slot && cell->read_clock[1] && /* of yet another warp: worth more */
                      !comes_before(warp, thread, cell->reader[1], cell->read_clock[1]) &&
                      cell->reader[0] / VGPU_LANES == warp->index;
    if (keep) return true;
    cell->reader[slot] = (uint16_t)thread;
    cell->read_clock[slot] = warp->block->clock[warp->index][warp->index];
    cell->read_pc[slot] = warp->now;
    return true;
}

bool vgpu_check_race(vgpu_warp *warp, unsigned lane, size_t offset, size_t bytes, bool writes,
                     const void *value)
{
    const vgpu_block *block = warp->block;
    const size_t unit = block->cell_bytes, first = offset / unit;
    const size_t end = (offset + bytes + unit - 1) / unit;
    const bool same = writes && value && memcmp(block->shared + offset, value, bytes) == 0;
    for (size_t i = first; i < end; i++) {
        vgpu_cell *cell = &block->cells[i];
        const bool fine = writes ? check_write(warp, lane, cell, i * unit, same)
                                 : check_read(warp, lane, cell, i * unit);
        if (!fine) return false;
    }
    return true;
}

/* -- endless loops ---------------------------------------------------------------------------- */

enum { LOOPS_BEFORE_CHECK = 16384 }; /* a power of two: what is endless can wait */

/* FNV-1a by words. */
static uint64_t hash_state(const vgpu_warp *warp)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    const size_t bytes = warp->block->grid->code->register_bytes;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t word;
        memcpy(&word, warp->registers + i, sizeof word);
        hash = (hash ^ word) * UINT64_C(1099511628211);
    }
    for (unsigned lane = 0; lane < VGPU_LANES; lane++) {
        const bool runs = warp->live & ~warp->waiting & UINT32_C(1) << lane;
        hash = (hash ^ (runs ? 0 : warp->pc[lane] + 1)) * UINT64_C(1099511628211);
    }
    return hash;
}

void vgpu_check_loop(vgpu_warp *warp, uint32_t target)
{
    if (warp->loop_events != warp->block->events) {
        warp->loop_events = warp->block->events;
        warp->loop_branches = 0;
    }
    const uint64_t count = ++warp->loop_branches;
    if (count < LOOPS_BEFORE_CHECK) return;
    if ((count & (count - 1)) == 0) {
        warp->loop_pc = target;
        warp->loop_hash = hash_state(warp);
    } else if (target == warp->loop_pc && hash_state(warp) == warp->loop_hash) {
        warp->looping = true;
    }
}
