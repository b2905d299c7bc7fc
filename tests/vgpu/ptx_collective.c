/* SPDX-License-Identifier: MIT */
/* ptx_collective.c -- where lanes meet: barriers of the block, shuffles and votes of the warp.
 *
 * A barrier counts threads. Without a number it waits for all threads of the block that have not
 * exited, so an early return does not hang the others (hardware agrees). Lanes that wait keep
 * their pc at the barrier; the release moves them behind it.
 *
 * A collective names its lanes in a mask, the same in all of them. It happens when all of them
 * have arrived at the same instruction; the first ones wait. Reported: a lane of the mask that
 * has exited, a lane that is not in its own mask, and lanes of one warp that wait for each other
 * at two collectives or two aligned barriers.
 */
#include "ptx_machine.h"

static const vgpu_instruction *instruction_at(const vgpu_warp *warp, uint32_t pc)
{
    return &warp->block->grid->code->code[pc];
}

/* -- barriers --------------------------------------------------------------------------------- */

static bool is_reduction(const vgpu_instruction *in)
{
    return in->mode != VGPU_SYNC && in->mode != VGPU_ARRIVE;
}

/* The operand that holds the barrier's number. */
static const vgpu_operand *barrier_operand(const vgpu_instruction *in)
{
    return &in->operand[is_reduction(in) ? 1 : 0];
}

static uint64_t reduced(const vgpu_instruction *in, const vgpu_barrier *barrier)
{
    return in->mode == VGPU_POPC  ? barrier->count
           : in->mode == VGPU_AND ? barrier->all
                                  : barrier->any;
}

/* Lets the lanes that wait in barrier `id` go on. */
static void release(vgpu_block *block, unsigned id)
{
    vgpu_barrier *barrier = &block->barriers[id];
    for (unsigned w = 0; w < block->warp_count; w++) {
        vgpu_warp *warp = &block->warps[w];
        bool any = false;
        for (uint32_t rest = warp->waiting; rest; rest &= rest - 1) {
            const unsigned lane = vgpu_first_lane(rest);
            if (warp->barrier[lane] != id) continue;
            const vgpu_instruction *in = instruction_at(warp, warp->pc[lane]);
            if (is_reduction(in)) {
                vgpu_lane_set(warp, &in->operand[0], lane, reduced(in, barrier));
            }
            warp->waiting &= ~(UINT32_C(1) << lane);
            warp->pc[lane]++;
            any = true;
        }
        if (any) vgpu_clock_acquire(warp, barrier);
    }
    *barrier = (vgpu_barrier){0};
    block->events++;
}

static void release_if_complete(vgpu_block *block, unsigned id)
{
    const vgpu_barrier *barrier = &block->barriers[id];
    const unsigned expected = barrier->expected ? barrier->expected : block->live;
    if (barrier->in_use && barrier->arrived >= expected) release(block, id);
}

void vgpu_barrier_recount(vgpu_block *block)
{
    for (unsigned id = 0; id < VGPU_BARRIERS; id++) release_if_complete(block, id);
}

/* Lanes of one warp that wait at another barrier instruction than this one. */
static bool check_aligned(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const uint32_t pc = (uint32_t)(in - warp->block->grid->code->code);
    if (!in->aligned) return true;
    for (uint32_t rest = warp->waiting & ~mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        if (warp->barrier[lane] == VGPU_NOT_AT_BARRIER || warp->pc[lane] == pc) continue;
        char other[200];
        vgpu_describe(warp->block->grid, warp->pc[lane], other, sizeof other);
        return vgpu_fault(warp, vgpu_first_lane(mask), pc, VGPU_REPORT,
                          "divergent barrier: lane %u of this warp waits at %s", lane, other);
    }
    return true;
}

/* One lane counts in. */
static bool arrive(vgpu_warp *warp, const vgpu_instruction *in, unsigned lane)
{
    const bool reduces = is_reduction(in);
    const vgpu_operand *o = barrier_operand(in);
    const uint64_t id = vgpu_lane_value(warp, &o[0], lane);
    const bool counted = !reduces && o[1].bytes != VGPU_ABSENT;
    const uint64_t expected = counted ? vgpu_lane_value(warp, &o[1], lane) : 0;
    if (id >= VGPU_BARRIERS || expected % VGPU_LANES || (counted && !expected)) {
        return vgpu_fault(warp, lane, warp->now, VGPU_REPORT, "barrier %llu of %llu threads",
                          (unsigned long long)id, (unsigned long long)expected);
    }
    vgpu_barrier *barrier = &warp->block->barriers[id];
    if (barrier->in_use && barrier->expected != expected) {
        return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                          "barrier %llu waits for %u threads here and %llu there (0: all)",
                          (unsigned long long)id, (unsigned)expected,
                          (unsigned long long)barrier->expected);
    }
    if (!barrier->in_use) *barrier = (vgpu_barrier){.in_use = true, .all = 1};
    barrier->expected = (unsigned)expected;
    barrier->arrived++;
    if (reduces) {
        const vgpu_operand *p = &in->operand[2];
        const bool value = vgpu_lane_value(warp, p, lane) != p->negated;
        barrier->all &= value;
        barrier->any |= value;
        barrier->count += value;
    }
    if (in->mode != VGPU_ARRIVE) {
        warp->waiting |= UINT32_C(1) << lane;
        warp->barrier[lane] = (unsigned char)id;
    } else {
        warp->pc[lane]++;
    }
    return true;
}

vgpu_step vgpu_barrier_arrive(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    if (!check_aligned(warp, in, mask)) return VGPU_FAULT;
    uint32_t ids = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        if (!arrive(warp, in, lane)) return VGPU_FAULT;
        ids |= UINT32_C(1) << vgpu_lane_value(warp, barrier_operand(in), lane);
    }
    vgpu_clock_tick(warp);
    for (; ids; ids &= ids - 1) {
        const unsigned id = vgpu_first_lane(ids);
        vgpu_clock_release(warp, &warp->block->barriers[id]);
        release_if_complete(warp->block, id);
    }
    return VGPU_REGROUP;
}

/* -- collectives of a warp -------------------------------------------------------------------- */

/* The lane that lane `lane` of a shuffle reads; *inside: whether it is within its segment. c holds
 * the clamp in bits 0-4 and the segment mask in bits 8-12. */
static unsigned shuffle_source(vgpu_mode mode, unsigned lane, uint32_t b, uint32_t c, bool *inside)
{
    const unsigned segment = c >> 8 & 31, clamp = c & 31, by = b & 31;
    const unsigned most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    unsigned source = least | (by & ~segment); /* .idx */
    if (mode == VGPU_UP) source = lane - by;
    if (mode == VGPU_DOWN) source = lane + by;
    if (mode == VGPU_BFLY) source = lane ^ by;
    *inside = mode == VGPU_UP ? (int)source >= (int)most : source <= most;
    return *inside ? source & 31 : lane;
}

static bool shuffle(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const vgpu_operand *o = in->operand;
    uint64_t values[VGPU_LANES] = {0};
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        values[vgpu_first_lane(rest)] = vgpu_lane_value(warp, &o[2], vgpu_first_lane(rest));
    }
    uint64_t results[VGPU_LANES];
    uint32_t inside_mask = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        const uint32_t b = (uint32_t)vgpu_lane_value(warp, &o[3], lane);
        const uint32_t c = (uint32_t)vgpu_lane_value(warp, &o[4], lane);
        bool inside;
        const unsigned source = shuffle_source(in->mode, lane, b, c, &inside);
        if (!(mask >> source & 1)) {
            return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                              "shuffle reads lane %u, which is not in the mask 0x%08x", source,
                              mask);
        }
        results[lane] = values[source];
        inside_mask |= (uint32_t)inside << lane;
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        vgpu_lane_set(warp, &o[0], lane, results[lane]);
        if (o[1].bytes != VGPU_ABSENT) vgpu_lane_set(warp, &o[1], lane, inside_mask >> lane);
    }
    return true;
}

static void vote(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const vgpu_operand *o = in->operand;
    uint32_t yes = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        yes |= (uint32_t)(vgpu_lane_value(warp, &o[1], lane) != o[1].negated) << lane;
    }
    uint64_t result = yes; /* .ballot */
    if (in->mode == VGPU_ALL) result = yes == mask;
    if (in->mode == VGPU_ANY) result = yes != 0;
    if (in->mode == VGPU_UNI) result = yes == 0 || yes == mask;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        vgpu_lane_set(warp, &o[0], vgpu_first_lane(rest), result);
    }
}

static bool meet_now(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    switch (in->kind) {
    case VGPU_SHUFFLE: return shuffle(warp, in, mask);
    case VGPU_VOTE: vote(warp, in, mask); return true;
    default: vgpu_clock_tick(warp); return true; /* bar.warp.sync orders memory */
    }
}

/* The operand that holds the mask is the last one. */
static const vgpu_operand *mask_operand(const vgpu_instruction *in)
{
    return &in->operand[in->kind == VGPU_SHUFFLE ? 5 : in->kind == VGPU_VOTE ? 2 : 0];
}

/* Reports that lane `other`, a member, can never come. */
static bool check_member(vgpu_warp *warp, unsigned lane, unsigned other, uint32_t mask)
{
    const uint32_t bit = UINT32_C(1) << other;
    if (!(warp->live & bit)) {
        return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                          "lane %u is in the mask 0x%08x, but has exited", other, mask);
    }
    const bool meets = (warp->waiting & bit) && warp->barrier[other] == VGPU_NOT_AT_BARRIER;
    if (!meets || (warp->pc[other] == warp->now && warp->members[other] == mask)) return true;
    if (!(warp->members[other] >> lane & 1)) return true; /* it waits for others only */
    char text[200];
    vgpu_describe(warp->block->grid, warp->pc[other], text, sizeof text);
    return vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                      "divergent collective: lane %u (mask 0x%08x) waits with mask 0x%08x at %s",
                      other, mask, warp->members[other], text);
}

/* All lanes that have arrived here with this mask: enough? Then they meet. */
static vgpu_step arrive_with(vgpu_warp *warp, const vgpu_instruction *in, unsigned lane,
                             uint32_t mask)
{
    uint32_t present = 0;
    for (unsigned l = 0; l < VGPU_LANES; l++) {
        if (!(mask >> l & 1)) continue;
        if (!check_member(warp, lane, l, mask)) return VGPU_FAULT;
        const bool here = (warp->waiting >> l & 1) && warp->barrier[l] == VGPU_NOT_AT_BARRIER &&
                          warp->pc[l] == warp->now && warp->members[l] == mask;
        present |= (uint32_t)here << l;
    }
    if (present != mask) return VGPU_REGROUP;
    if (!meet_now(warp, in, mask)) return VGPU_FAULT;
    warp->waiting &= ~mask;
    for (uint32_t rest = mask; rest; rest &= rest - 1) warp->pc[vgpu_first_lane(rest)]++;
    warp->block->events++;
    return VGPU_REGROUP;
}

vgpu_step vgpu_collective(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask)
{
    const vgpu_operand *operand = mask_operand(in);
    bool all_here = true;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        const uint32_t members = (uint32_t)vgpu_lane_value(warp, operand, lane);
        if (!(members >> lane & 1)) {
            vgpu_fault(warp, lane, warp->now, VGPU_REPORT,
                       "lane %u is not in its own mask 0x%08x", lane, members);
            return VGPU_FAULT;
        }
        warp->members[lane] = members;
        all_here = all_here && members == mask;
    }
    if (all_here) return meet_now(warp, in, mask) ? VGPU_NEXT : VGPU_FAULT;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        warp->waiting |= UINT32_C(1) << lane;
        warp->barrier[lane] = VGPU_NOT_AT_BARRIER;
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const unsigned lane = vgpu_first_lane(rest);
        if (!(warp->waiting >> lane & 1)) continue; /* met already, by an earlier lane's mask */
        if (arrive_with(warp, in, lane, warp->members[lane]) == VGPU_FAULT) return VGPU_FAULT;
    }
    return VGPU_REGROUP;
}
