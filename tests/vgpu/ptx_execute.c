/* SPDX-License-Identifier: MIT */
/* ptx_execute.c -- the lanes of a warp.
 *
 * Every lane has its own pc. Lanes with equal pc form a group, and a group executes one
 * instruction at a time for all its lanes. The group with the LOWEST pc goes first, up to the pc
 * of the next group, where they merge: in code that compilers lay out, lanes that left a branch
 * early wait at its end for those that are still inside. Now and then another group goes first
 * for a while (by the seed): lanes of one warp may wait for each other, and hardware promises
 * each of them progress.
 *
 *     pc 10: @p bra 20     lanes 0-7 at 20, lanes 8-31 at 11: the latter run up to 20; then
 *     pc 20: ...           all 32 go on together
 *
 * A row operation computes all lanes. With all 32 in the group the result goes to the register
 * itself; else to a scratch row, from which the group's lanes are copied.
 */
#include <string.h>
#include <time.h>

#include "ptx_machine.h"

/* -- rows ------------------------------------------------------------------------------------- */

typedef union {
    uint64_t align[8];
    unsigned char bytes[8 * VGPU_LANES];
} scratch_row;

/* Lanes of `mask` from `from` to `to`. */
static void merge_row(void *to, const void *from, unsigned bytes, uint32_t mask)
{
    if (bytes == 0) {
        *(uint32_t *)to = (*(uint32_t *)to & ~mask) | (*(const uint32_t *)from & mask);
        return;
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        switch (bytes) {
        case 8: ((uint64_t *)to)[lane] = ((const uint64_t *)from)[lane]; break;
        case 4: ((uint32_t *)to)[lane] = ((const uint32_t *)from)[lane]; break;
        default: ((uint16_t *)to)[lane] = ((const uint16_t *)from)[lane]; break;
        }
    }
}

static inline void run_row(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const vgpu_operand *o = in->operand;
    void *d = vgpu_row(warp, &o[0]);
    if (mask == UINT32_MAX) {
        in->row(d, vgpu_row(warp, &o[1]), vgpu_row(warp, &o[2]), vgpu_row(warp, &o[3]),
                vgpu_row(warp, &o[4]));
        return;
    }
    scratch_row scratch __attribute__((aligned(VGPU_ROW_ALIGN)));
    in->row(scratch.bytes, vgpu_row(warp, &o[1]), vgpu_row(warp, &o[2]), vgpu_row(warp, &o[3]),
            vgpu_row(warp, &o[4]));
    merge_row(d, scratch.bytes, o[0].bytes, mask);
}

/* A divisor of zero has no defined result. */
static bool run_divide(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        if (vgpu_lane_value(warp, &in->operand[2], lane) == 0) {
            return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                              "division by zero: its result is not defined");
        }
    }
    run_row(warp, in, mask);
    return true;
}

/* The letters of a cvt give the sizes of its types; registers may be wider. A source is cut to
 * its type, a result extended by its sign. */
static unsigned type_bytes(char letter)
{
    return letter == 'B' ? 1 : letter == 'H' ? 2 : letter == 'R' ? 4 : 8;
}

static void run_convert(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const vgpu_operand *d = &in->operand[0], *a = &in->operand[1];
    const unsigned to = type_bytes(in->op->operands[0]), from = type_bytes(in->op->operands[1]);
    scratch_row source __attribute__((aligned(VGPU_ROW_ALIGN)));
    scratch_row result __attribute__((aligned(VGPU_ROW_ALIGN)));
    if (to == d->bytes && from == a->bytes) {
        run_row(warp, in, mask);
        return;
    }
    for (unsigned lane = 0; lane < VGPU_LANES; lane++) {
        const uint64_t value = vgpu_lane_value(warp, a, lane);
        memcpy(source.bytes + lane * from, &value, from);
    }
    in->row(result.bytes, source.bytes, NULL, NULL, NULL);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        uint64_t value = 0;
        memcpy(&value, result.bytes + lane * to, to);
        const bool negative = in->access.is_signed && to < 8 && value >> (8 * to - 1) & 1;
        if (negative) value |= UINT64_MAX << (8 * to);
        vgpu_lane_set(warp, d, lane, value);
    }
}

/* mov d, {a, b}: the first part is the low one. */
static void run_pack(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const unsigned count = in->access.count;
    const vgpu_operand *o = in->operand;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        const unsigned bits = o[0].bytes * 8u / count;
        uint64_t value = 0;
        for (unsigned i = 0; i < count; i++) {
            value |= vgpu_lane_value(warp, &o[1 + i], lane) << (bits * i);
        }
        vgpu_lane_set(warp, &o[0], lane, value);
    }
}

static void run_unpack(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const unsigned count = in->access.count;
    const vgpu_operand *o = in->operand;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        const unsigned bits = o[0].bytes * 8u / count;
        const uint64_t value = vgpu_lane_value(warp, &o[0], lane);
        for (unsigned i = 0; i < count; i++) {
            vgpu_lane_set(warp, &o[1 + i], lane, value >> (bits * i));
        }
    }
}

/* -- special registers ------------------------------------------------------------------------ */

static uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t special_value(const vgpu_warp *warp, vgpu_special which, unsigned lane)
{
    const vgpu_block *block = warp->block;
    const vgpu_launch *launch = block->grid->launch;
    const uint32_t *block_size = launch->block;
    const uint32_t thread = warp->index * VGPU_LANES + lane;
    switch (which) {
    case VGPU_TID_X: return thread % block_size[0];
    case VGPU_TID_Y: return thread / block_size[0] % block_size[1];
    case VGPU_TID_Z: return thread / block_size[0] / block_size[1];
    case VGPU_NTID_X: case VGPU_NTID_Y: case VGPU_NTID_Z: return block_size[which - VGPU_NTID_X];
    case VGPU_CTAID_X: case VGPU_CTAID_Y: case VGPU_CTAID_Z:
        return block->index[which - VGPU_CTAID_X];
    case VGPU_NCTAID_X: case VGPU_NCTAID_Y: case VGPU_NCTAID_Z:
        return launch->grid[which - VGPU_NCTAID_X];
    case VGPU_LANEID: return lane;
    case VGPU_WARPID: return warp->index;
    case VGPU_NWARPID: return block->warp_count;
    case VGPU_LANEMASK_EQ: return UINT64_C(1) << lane;
    case VGPU_LANEMASK_LT: return (UINT64_C(1) << lane) - 1;
    case VGPU_LANEMASK_LE: return (UINT64_C(2) << lane) - 1;
    case VGPU_LANEMASK_GT: return ~((UINT64_C(2) << lane) - 1);
    case VGPU_LANEMASK_GE: return ~((UINT64_C(1) << lane) - 1);
    case VGPU_DYNAMIC_SHARED_BYTES: return launch->dynamic_shared_bytes;
    default: return 0;
    }
}

static void run_special(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const vgpu_special which = (vgpu_special)in->target;
    uint64_t now = 0;
    const bool is_time =
        which == VGPU_CLOCK || which == VGPU_CLOCK64 || which == VGPU_GLOBALTIMER;
    if (is_time) {
        now = which == VGPU_GLOBALTIMER ? nanoseconds() : warp->block->runner->instructions;
        warp->block->events++;
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        const uint64_t value = is_time ? now : special_value(warp, which, lane);
        vgpu_lane_set(warp, &in->operand[0], lane, value);
    }
}

/* -- groups ----------------------------------------------------------------------------------- */

typedef struct {
    uint32_t pc;
    uint32_t active; /* its lanes */
    uint32_t limit;  /* stop before this pc: another group is there */
} group;

/* Of the lanes that can run, those with the lowest pc; at times others, by the seed. */
static group choose_group(vgpu_warp *warp, uint32_t runnable, unsigned *quantum)
{
    group g = {.pc = UINT32_MAX, .limit = UINT32_MAX};
    for (uint32_t rest = runnable; rest; rest &= rest - 1) {
        const uint32_t pc = warp->pc[vgpu_first_lane(rest)];
        if (pc < g.pc) g.pc = pc;
    }
    const uint32_t lowest = g.pc;
    vgpu_runner *runner = warp->block->runner;
    for (uint32_t rest = runnable; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        if (warp->pc[lane] == lowest) continue;
        if (*quantum > 200) *quantum = 200; /* so that the others get their turn */
        if (vgpu_random(runner) % 64 == 0) g.pc = warp->pc[lane];
    }
    for (uint32_t rest = runnable; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        const uint32_t pc = warp->pc[lane];
        if (pc == g.pc) g.active |= UINT32_C(1) << lane;
        else if (pc > g.pc && pc < g.limit) g.limit = pc;
    }
    return g;
}

static void set_pc(vgpu_warp *warp, uint32_t lanes, uint32_t pc)
{
    for (uint32_t rest = lanes; rest; rest &= rest - 1) warp->pc[vgpu_first_lane(rest)] = pc;
}

/* Lanes `taken` jump, the rest of the group does not. VGPU_NEXT: the group stays together. */
static vgpu_step branch(vgpu_warp *warp, group *g, uint32_t taken, uint32_t target)
{
    if (taken == g->active) {
        if (target <= g->pc && taken == (warp->live & ~warp->waiting)) {
            vgpu_check_loop(warp, target);
        }
        g->pc = target;
        return warp->looping ? VGPU_YIELD : VGPU_NEXT;
    }
    if (!taken) {
        g->pc++;
        return VGPU_NEXT;
    }
    set_pc(warp, taken, target);
    set_pc(warp, g->active & ~taken, g->pc + 1);
    g->active = 0;
    return VGPU_REGROUP;
}

static vgpu_step branch_by_table(vgpu_warp *warp, group *g, const vgpu_instruction *in,
                                 uint32_t taken)
{
    const vgpu_branch_table *table = &warp->block->grid->code->tables[in->target];
    set_pc(warp, g->active & ~taken, g->pc + 1);
    for (uint32_t rest = taken; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        const uint64_t index = vgpu_lane_value(warp, &in->operand[0], lane);
        if (index >= table->count) {
            vgpu_fault(warp, lane, g->pc, VGPU_REPORT, "index %llu of %zu branch targets",
                       (unsigned long long)index, table->count);
            return VGPU_FAULT;
        }
        warp->pc[lane] = table->target[index];
    }
    g->active = 0;
    return VGPU_REGROUP;
}

static vgpu_step leave(vgpu_warp *warp, group *g, uint32_t lanes)
{
    warp->live &= ~lanes;
    g->active &= ~lanes;
    warp->block->live -= (unsigned)__builtin_popcount(lanes);
    warp->block->events++;
    vgpu_barrier_recount(warp->block);
    g->pc++;
    return g->active ? VGPU_NEXT : VGPU_REGROUP;
}

/* The lanes of `mask` arrive; the rest of the group goes on behind it. */
static vgpu_step meet(vgpu_warp *warp, group *g, const vgpu_instruction *in, uint32_t mask)
{
    if (!mask) {
        g->pc++;
        return VGPU_NEXT;
    }
    set_pc(warp, mask, g->pc);
    set_pc(warp, g->active & ~mask, g->pc + 1);
    const vgpu_step step = in->kind == VGPU_BARRIER ? vgpu_barrier_arrive(warp, in, mask)
                                                    : vgpu_collective(warp, in, mask);
    if (step == VGPU_NEXT) g->pc++;
    else g->active = 0;
    return step;
}

static vgpu_step sleep_for(vgpu_warp *warp)
{
    warp->block->events++;
    return VGPU_YIELD;
}

static vgpu_step trap(vgpu_warp *warp, uint32_t mask)
{
    if (!mask) return VGPU_NEXT;
    vgpu_fault(warp, vgpu_first_lane(mask), warp->now, VGPU_TRAP, "the kernel stops itself");
    return VGPU_FAULT;
}

static void activemask(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        vgpu_lane_set(warp, &in->operand[0], vgpu_first_lane(rest), mask);
    }
}

/* Instructions that are no rows; steps over them unless they move the group themselves. */
static vgpu_step run_other(vgpu_warp *warp, group *g, const vgpu_instruction *in, uint32_t mask)
{
    vgpu_step step = VGPU_NEXT;
    switch (in->kind) {
    case VGPU_BRANCH: return branch(warp, g, mask, in->target);
    case VGPU_BRANCH_TABLE: return branch_by_table(warp, g, in, mask);
    case VGPU_EXIT: return leave(warp, g, mask);
    case VGPU_BARRIER: case VGPU_SHUFFLE: case VGPU_VOTE: case VGPU_WARP_SYNC:
        return meet(warp, g, in, mask);
    case VGPU_DIVIDE: step = run_divide(warp, in, mask) ? VGPU_NEXT : VGPU_FAULT; break;
    case VGPU_CONVERT: run_convert(warp, in, mask); break;
    case VGPU_SPECIAL: run_special(warp, in, mask); break;
    case VGPU_PACK: run_pack(warp, in, mask); break;
    case VGPU_UNPACK: run_unpack(warp, in, mask); break;
    case VGPU_LOAD: step = vgpu_load(warp, in, mask); break;
    case VGPU_STORE: step = vgpu_store(warp, in, mask); break;
    case VGPU_ATOMIC: step = vgpu_atomic(warp, in, mask); break;
    case VGPU_COPY_ASYNC: step = vgpu_copy_async(warp, in, mask); break;
    case VGPU_COPY_COMMIT: step = vgpu_copy_commit(warp, mask); break;
    case VGPU_COPY_WAIT: step = vgpu_copy_wait(warp, in, mask); break;
    case VGPU_FENCE: __sync_synchronize(); break;
    case VGPU_ACTIVE_MASK: activemask(warp, in, mask); break;
    case VGPU_SLEEP: step = sleep_for(warp); break;
    case VGPU_TRAP_NOW: step = trap(warp, mask); break;
    case VGPU_ROW: case VGPU_MOVE: break; /* not here: run_group, and lowered by the parser */
    }
    g->pc++;
    return step;
}

static vgpu_step run_group(vgpu_warp *warp, group *g, unsigned *quantum)
{
    const vgpu_instruction *code = warp->block->grid->code->code;
    vgpu_step step = VGPU_NEXT;
    unsigned left = *quantum;
    do {
        const vgpu_instruction *in = &code[g->pc];
        uint32_t mask = g->active;
        if (in->guarded) {
            uint32_t guard;
            memcpy(&guard, warp->registers + in->guard, sizeof guard);
            mask &= in->guard_negated ? ~guard : guard;
        }
        left--;
        if (in->kind == VGPU_ROW) {
            if (mask) run_row(warp, in, mask);
            g->pc++;
        } else {
            warp->now = g->pc;
            step = run_other(warp, g, in, mask);
        }
    } while (step == VGPU_NEXT && left && g->pc < g->limit);
    warp->block->runner->instructions += *quantum - left;
    *quantum = left;
    set_pc(warp, g->active, g->pc);
    return step;
}

bool vgpu_warp_run(vgpu_warp *warp, unsigned quantum)
{
    warp->yielded = false;
    while (quantum) {
        const uint32_t runnable = warp->live & ~warp->waiting;
        if (!runnable) return true;
        unsigned turn = quantum;
        group g = choose_group(warp, runnable, &turn);
        const unsigned before = turn;
        const vgpu_step step = run_group(warp, &g, &turn);
        quantum -= before - turn;
        if (step == VGPU_FAULT) return false;
        if (step == VGPU_YIELD) {
            warp->yielded = true;
            return true;
        }
    }
    return true;
}
