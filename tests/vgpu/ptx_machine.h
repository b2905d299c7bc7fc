/* SPDX-License-Identifier: MIT */
/* ptx_machine.h -- a launch while it runs: grid, runners, blocks, warps.
 *
 *     vgpu_grid     the launch; shared by the host threads
 *     vgpu_runner   one host thread: its resident blocks take turns, warp by warp
 *     vgpu_block    shared memory, barriers; belongs to one runner from start to end
 *     vgpu_warp     32 lanes, each with a pc of its own
 *
 * Only a runner's own thread touches its blocks. Runners share the grid's atomics, the error
 * (under the lock) and device memory.
 *
 *     ptx_run.c         vgpu_run; runners, blocks and warps in turn; hangs
 *     ptx_execute.c     the lanes of a warp: groups, branches, rows
 *     ptx_collective.c  barriers, shuffles, votes
 *     ptx_access.c      loads, stores, atomics, asynchronous copies
 *     ptx_memory.c      what an address means; checks of device memory
 *     ptx_check.c       order of accesses to shared memory; endless loops; messages
 */
#ifndef VGPU_PTX_MACHINE_H
#define VGPU_PTX_MACHINE_H

#include <pthread.h>

#include "ptx_program.h"

enum { VGPU_WARPS = 32, VGPU_SPANS = 64, VGPU_NOT_AT_BARRIER = 255 };

typedef struct vgpu_warp vgpu_warp;
typedef struct vgpu_block vgpu_block;
typedef struct vgpu_runner vgpu_runner;

typedef struct {
    const vgpu_program *program;
    const vgpu_code *code;
    const vgpu_launch *launch;
    const unsigned char *constants; /* the code's, or a copy with addresses of variables in it */
    uint64_t block_count;
    unsigned threads; /* per block */
    atomic_uint_fast64_t next_block;
    atomic_int_fast64_t budget; /* warp instructions left */
    atomic_bool stop;           /* a fault, somewhere */
    pthread_mutex_t lock;       /* of what follows */
    vgpu_outcome outcome;
    char *error;
    size_t error_bytes;
} vgpu_grid;

struct vgpu_runner {
    vgpu_grid *grid;
    vgpu_block **blocks; /* [resident], NULL: no block */
    unsigned resident;
    uint64_t random;
    uint64_t instructions;
    unsigned generation; /* of the memory, when the spans were asked for */
    vgpu_span spans[VGPU_SPANS]; /* as the driver told */
    size_t span_count;
    unsigned char hint[256]; /* which span an instruction used last, by pc % 256 */
};

/* A shared memory cell: who wrote it, and two of those who read it since. Clock 0: nobody. */
typedef struct {
    uint32_t write_clock, write_pc;
    uint32_t read_clock[2], read_pc[2];
    uint16_t writer, reader[2]; /* threads of the block */
} vgpu_cell;

enum { VGPU_COPY_PENDING = 2 }; /* beside VGPU_DEFINED, in vgpu_block.defined */

typedef struct {
    unsigned arrived;   /* threads */
    unsigned expected;  /* 0: all that live */
    bool in_use;
    uint32_t all, any, count; /* of bar.red: and, or, popc of the predicates */
    uint32_t clock[VGPU_WARPS]; /* what the arrived know (ptx_check.c) */
} vgpu_barrier;

struct vgpu_block {
    vgpu_runner *runner;
    vgpu_grid *grid;
    uint32_t index[3]; /* ctaid */
    unsigned warp_count;
    unsigned live; /* threads that have not exited */
    vgpu_warp *warps;
    unsigned char *registers; /* of all warps */
    unsigned char *shared;    /* static, then dynamic */
    size_t static_bytes, shared_bytes;
    unsigned char *defined; /* [shared_bytes] VGPU_DEFINED, VGPU_COPY_PENDING */
    vgpu_cell *cells;       /* NULL: races are not checked */
    size_t cell_bytes;      /* bytes that share a cell: 1 or 4 */
    unsigned char *local;
    vgpu_barrier barriers[VGPU_BARRIERS];
    uint32_t clock[VGPU_WARPS][VGPU_WARPS]; /* ptx_check.c */
    uint64_t events; /* whatever may end a loop of one of its warps from outside */
};

/* A cp.async that has not been waited for. */
typedef struct {
    unsigned char lane;
    unsigned char bytes, from_bytes; /* the rest is filled with zeros */
    bool committed;
    uint32_t group; /* of its lane */
    uint32_t pc;
    uint64_t to, from; /* to: shared address */
} vgpu_copy;

struct vgpu_warp {
    vgpu_block *block;
    unsigned index;         /* in the block */
    uint32_t live, waiting; /* masks of lanes; waiting: in a barrier or a collective */
    uint32_t pc[VGPU_LANES];
    uint32_t now; /* pc of the instruction being executed */
    uint32_t members[VGPU_LANES];      /* mask of the collective a lane waits in */
    unsigned char barrier[VGPU_LANES]; /* it waits in; VGPU_NOT_AT_BARRIER: in a collective */
    unsigned char *registers;
    vgpu_copy *copies; /* owned */
    size_t copy_count, copy_capacity;
    uint32_t groups[VGPU_LANES]; /* committed so far */
    bool yielded; /* its last turn ended by polling a flag or sleeping */
    bool polled;
    uint32_t polled_pc; /* its last read of a flag, for messages */
    uint64_t polled_address, polled_value;
    /* ptx_check.c, endless loops */
    uint64_t loop_events, loop_hash, loop_branches;
    uint32_t loop_pc;
    bool looping;
};

/* What follows an instruction. */
typedef enum { VGPU_NEXT, VGPU_REGROUP, VGPU_YIELD, VGPU_FAULT } vgpu_step;

/* -- rows of a warp --------------------------------------------------------------------------- */

static inline void *vgpu_row(const vgpu_warp *warp, const vgpu_operand *operand)
{
    const unsigned char *base = operand->constant ? warp->block->grid->constants : warp->registers;
    return (void *)(base + operand->offset);
}

static inline uint64_t vgpu_lane_value(const vgpu_warp *warp, const vgpu_operand *operand,
                                       unsigned lane)
{
    const void *row = vgpu_row(warp, operand);
    switch (operand->bytes) {
    case 8: return ((const uint64_t *)row)[lane];
    case 4: return ((const uint32_t *)row)[lane];
    case 2: return ((const uint16_t *)row)[lane];
    case 1: return ((const uint8_t *)row)[lane];
    default: return *(const uint32_t *)row >> lane & 1;
    }
}

static inline void vgpu_lane_set(vgpu_warp *warp, const vgpu_operand *operand, unsigned lane,
                                 uint64_t value)
{
    void *row = vgpu_row(warp, operand);
    switch (operand->bytes) {
    case 8: ((uint64_t *)row)[lane] = value; break;
    case 4: ((uint32_t *)row)[lane] = (uint32_t)value; break;
    case 2: ((uint16_t *)row)[lane] = (uint16_t)value; break;
    case 1: ((uint8_t *)row)[lane] = (uint8_t)value; break;
    default: {
        uint32_t *bits = row;
        *bits = (*bits & ~(UINT32_C(1) << lane)) | (uint32_t)(value & 1) << lane;
    }
    }
}

static inline unsigned vgpu_first_lane(uint32_t mask) { return (unsigned)__builtin_ctz(mask); }

/* A cheap generator (xorshift64*), for the order of turns only. */
static inline uint64_t vgpu_random(vgpu_runner *runner)
{
    uint64_t x = runner->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    runner->random = x;
    return (x * UINT64_C(0x2545F4914F6CDD1D)) >> 32;
}

/* -- ptx_execute.c ---------------------------------------------------------------------------- */

/* Runs the warp for about `quantum` instructions, or until all its lanes wait or have exited.
 * False: a fault. */
bool vgpu_warp_run(vgpu_warp *warp, unsigned quantum);

/* -- ptx_collective.c ------------------------------------------------------------------------- */

/* Lanes `mask` arrive. VGPU_REGROUP: they wait (or were released, each with its pc). */
vgpu_step vgpu_barrier_arrive(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask);
/* Threads have exited: barriers that waited only for them are released. */
void vgpu_barrier_recount(vgpu_block *block);
/* Shuffles, votes, bar.warp.sync. VGPU_NEXT: done for all of `mask`. */
vgpu_step vgpu_collective(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask);

/* -- ptx_access.c ----------------------------------------------------------------------------- */

vgpu_step vgpu_load(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask);
vgpu_step vgpu_store(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask);
vgpu_step vgpu_atomic(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask);
vgpu_step vgpu_copy_async(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask);
vgpu_step vgpu_copy_commit(vgpu_warp *warp, uint32_t mask);
vgpu_step vgpu_copy_wait(vgpu_warp *warp, const vgpu_instruction *in, uint32_t mask);

/* -- ptx_memory.c ----------------------------------------------------------------------------- */

typedef enum { VGPU_READ = 0, VGPU_WRITE = 1, VGPU_UPDATE = 3 } vgpu_direction; /* bit 0: writes */

/* Where an access of one lane lands. */
typedef struct {
    unsigned char *data;
    vgpu_space space; /* never VGPU_GENERIC or VGPU_CONST */
    size_t offset;    /* in shared memory */
} vgpu_place;

/* Resolves [address, address + bytes) of `space` for one lane, with all checks; in.access says
 * how strong it is. `value`: what will be written there, or NULL. Marks written bytes as defined.
 * False: a fault. */
bool vgpu_resolve(vgpu_warp *warp, unsigned lane, const vgpu_access *access, uint64_t address,
                  size_t bytes, vgpu_direction direction, const void *value, vgpu_place *place);

/* Notes in the span's trail what a weak access did. Gives what was there before. Atomic, relaxed:
 * runners share it. */
static inline unsigned char vgpu_leave_trail(const vgpu_span *span, size_t offset, size_t bytes,
                                             unsigned char did)
{
    unsigned char before = 0, *page = &span->trail_pages[offset >> VGPU_TRAIL_SHIFT];
    for (size_t i = offset; i < offset + bytes; i++) {
        const unsigned char old = __atomic_load_n(&span->trail[i], __ATOMIC_RELAXED);
        if ((old & did) != did) __atomic_fetch_or(&span->trail[i], did, __ATOMIC_RELAXED);
        before |= old;
    }
    if (!__atomic_load_n(page, __ATOMIC_RELAXED)) __atomic_store_n(page, 1, __ATOMIC_RELAXED);
    return before;
}

/* -- ptx_check.c ------------------------------------------------------------------------------ */

/* Ends the launch: `outcome`, with a message that names kernel, block, thread and instruction
 * `pc` before the text. The first fault counts. Returns false. */
__attribute__((format(printf, 5, 6)))
bool vgpu_fault(vgpu_warp *warp, unsigned lane, uint32_t pc, vgpu_outcome outcome,
                const char *format, ...);
/* The same for the block as a whole. */
__attribute__((format(printf, 3, 4)))
bool vgpu_fault_of_block(vgpu_block *block, vgpu_outcome outcome, const char *format, ...);
/* "PTX line 12 (gemm.cu:34): `bar.sync 0;`" */
void vgpu_describe(const vgpu_grid *grid, uint32_t pc, char *text, size_t text_bytes);

/* Records an access of `thread` to shared bytes and compares it with those before. */
bool vgpu_check_race(vgpu_warp *warp, unsigned lane, size_t offset, size_t bytes, bool writes,
                     const void *value);
/* The warp's own accesses up to here come before what its lanes do next. */
void vgpu_clock_tick(vgpu_warp *warp);
void vgpu_clock_release(vgpu_warp *warp, vgpu_barrier *barrier);        /* arrives */
void vgpu_clock_acquire(vgpu_warp *warp, const vgpu_barrier *barrier);  /* is let through */

/* Tells that the warp's running lanes jump back to `target`; sets warp->looping when they have
 * come back to a state in which they were before and nothing from outside can change it. */
void vgpu_check_loop(vgpu_warp *warp, uint32_t target);

/* "warp 0 lanes 0-15 wait at PTX line ...; ..." for the lanes of a block that are left. */
void vgpu_describe_lanes(const vgpu_block *block, char *text, size_t text_bytes);

#endif
