/* SPDX-License-Identifier: MIT */
/* ptx_run.c -- vgpu_run: blocks and warps take turns until the grid has ended.
 *
 * A runner is a host thread with a few resident blocks. It gives each warp in turn a number of
 * instructions, mostly some hundreds and now and then a handful, by the seed: between the
 * barriers of a correct kernel the order does not matter. A block that ends makes room for the
 * next one of the grid; blocks start in the order of their numbers.
 *
 * Blocks may wait for each other as long as all of them are resident, as on hardware.
 *
 * What cannot end is named: a block all of whose warps wait, at barriers or for each other; a
 * block whose warps wait or loop over an unchanging state (ptx_check.c); and, when the budget of
 * instructions is spent, what each warp of the first block does, with the flag it polls.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_machine.h"

enum { DEFAULT_RESIDENT = 8, BLOCK_THREADS_MAX = 1024 };

/* -- blocks ----------------------------------------------------------------------------------- */

static size_t round_up(size_t x, size_t to) { return (x + to - 1) / to * to; }

static void destroy_block(vgpu_block *block)
{
    if (!block) return;
    for (unsigned w = 0; block->warps && w < block->warp_count; w++) free(block->warps[w].copies);
    free(block->warps);
    free(block->registers);
    free(block->shared);
    free(block->defined);
    free(block->cells);
    free(block->local);
    free(block);
}

/* Memory that is no valid number: NaN as f32 and f64, -1 as an integer. */
static unsigned char *fresh_bytes(size_t bytes)
{
    const size_t rounded = round_up(bytes + 1, VGPU_ROW_ALIGN);
    unsigned char *memory = aligned_alloc(VGPU_ROW_ALIGN, rounded);
    if (memory) memset(memory, 0xff, rounded);
    return memory;
}

static void init_warps(vgpu_block *block)
{
    const size_t register_bytes = round_up(block->grid->code->register_bytes, VGPU_ROW_ALIGN);
    for (unsigned w = 0; w < block->warp_count; w++) {
        vgpu_warp *warp = &block->warps[w];
        const unsigned left = block->grid->threads - w * VGPU_LANES;
        warp->block = block;
        warp->index = w;
        warp->live = left >= VGPU_LANES ? UINT32_MAX : (UINT32_C(1) << left) - 1;
        warp->registers = block->registers + w * register_bytes;
        for (unsigned x = 0; x < VGPU_WARPS; x++) block->clock[w][x] = 1; /* 0: no access */
    }
}

/* NULL: no memory. */
static vgpu_block *create_block(vgpu_runner *runner, uint64_t number)
{
    vgpu_grid *grid = runner->grid;
    const vgpu_launch *launch = grid->launch;
    const vgpu_kernel *kernel = &grid->code->kernel;
    vgpu_block *block = calloc(1, sizeof *block);
    if (!block) return NULL;
    block->runner = runner;
    block->grid = grid;
    block->index[0] = (uint32_t)(number % launch->grid[0]);
    block->index[1] = (uint32_t)(number / launch->grid[0] % launch->grid[1]);
    block->index[2] = (uint32_t)(number / launch->grid[0] / launch->grid[1]);
    block->live = grid->threads;
    block->warp_count = (grid->threads + VGPU_LANES - 1) / VGPU_LANES;
    block->static_bytes = round_up(kernel->static_shared_bytes, 16);
    block->shared_bytes = block->static_bytes + launch->dynamic_shared_bytes;
    block->cell_bytes = grid->code->has_narrow_shared ? 1 : 4;
    block->warps = calloc(block->warp_count, sizeof *block->warps);
    block->registers = fresh_bytes(block->warp_count *
                                   round_up(grid->code->register_bytes, VGPU_ROW_ALIGN));
    block->shared = fresh_bytes(block->shared_bytes);
    block->defined = calloc(block->shared_bytes + 1, 1);
    block->local = fresh_bytes(kernel->local_bytes * grid->threads);
    const size_t cells = block->shared_bytes / block->cell_bytes + 1;
    if (launch->check_races) block->cells = calloc(cells, sizeof *block->cells);
    if (!block->warps || !block->registers || !block->shared || !block->defined ||
        !block->local || (launch->check_races && !block->cells)) {
        destroy_block(block);
        return NULL;
    }
    init_warps(block);
    return block;
}

/* -- turns ------------------------------------------------------------------------------------ */

static bool can_run(const vgpu_warp *warp)
{
    return (warp->live & ~warp->waiting) &&
           !(warp->looping && warp->loop_events == warp->block->events);
}

static unsigned turn_length(vgpu_runner *runner)
{
    const uint64_t r = vgpu_random(runner);
    return r % 16 == 0 ? 1 + (unsigned)(r >> 8) % 24 : 500 + (unsigned)(r >> 8) % 2000;
}

static bool fault_of_stuck_block(vgpu_block *block)
{
    char lanes[800];
    vgpu_describe_lanes(block, lanes, sizeof lanes);
    return vgpu_fault_of_block(block, VGPU_HANG, "hangs, no thread can go on: %s", lanes);
}

/* One turn for each warp of the block. *quiet: false if a warp did more than poll. */
static bool run_block(vgpu_block *block, bool *quiet)
{
    vgpu_runner *runner = block->runner;
    const unsigned first = (unsigned)(vgpu_random(runner) % block->warp_count);
    bool any = false;
    for (unsigned i = 0; i < block->warp_count; i++) {
        vgpu_warp *warp = &block->warps[(first + i) % block->warp_count];
        if (!can_run(warp)) continue;
        any = true;
        warp->looping = false;
        if (!vgpu_warp_run(warp, turn_length(runner))) return false;
        if (!warp->yielded) *quiet = false;
    }
    return any || !block->live || fault_of_stuck_block(block);
}

/* Takes what the runner has executed since from the budget of all. False: it is spent. */
static bool spend(vgpu_runner *runner, uint64_t before)
{
    vgpu_grid *grid = runner->grid;
    const int64_t spent = (int64_t)(runner->instructions - before);
    const int64_t left = atomic_fetch_sub_explicit(&grid->budget, spent, memory_order_relaxed);
    if (left > spent) return true;
    for (unsigned b = 0; b < runner->resident; b++) {
        if (!runner->blocks[b]) continue;
        const uint64_t started = atomic_load(&grid->next_block);
        const uint64_t waiting = started < grid->block_count ? grid->block_count - started : 0;
        char lanes[600];
        vgpu_describe_lanes(runner->blocks[b], lanes, sizeof lanes);
        return vgpu_fault_of_block(runner->blocks[b], VGPU_HANG,
                                   "hangs: %llu warp instructions are spent, and %llu of %llu "
                                   "blocks have not started; %s",
                                   (unsigned long long)grid->launch->instruction_budget,
                                   (unsigned long long)waiting,
                                   (unsigned long long)grid->block_count, lanes);
    }
    return true;
}

/* Fills empty places with blocks of the grid. False: no memory. */
static bool start_blocks(vgpu_runner *runner, unsigned *running)
{
    vgpu_grid *grid = runner->grid;
    for (unsigned b = 0; b < runner->resident; b++) {
        if (runner->blocks[b]) continue;
        if (atomic_load(&grid->next_block) >= grid->block_count) return true;
        const uint64_t number = atomic_fetch_add(&grid->next_block, 1);
        if (number >= grid->block_count) return true;
        runner->blocks[b] = create_block(runner, number);
        if (!runner->blocks[b]) return false;
        ++*running;
    }
    return true;
}

/* Ends the launch for a reason that is not in the kernel. */
static void give_up(vgpu_grid *grid, vgpu_outcome outcome, const char *why)
{
    pthread_mutex_lock(&grid->lock);
    if (grid->outcome == VGPU_DONE) {
        grid->outcome = outcome;
        snprintf(grid->error, grid->error_bytes, "kernel %s: %s", grid->code->kernel.name, why);
    }
    pthread_mutex_unlock(&grid->lock);
    atomic_store(&grid->stop, true);
}

static void fail_for_memory(vgpu_grid *grid)
{
    give_up(grid, VGPU_OUT_OF_MEMORY, "out of host memory");
}

static void run_blocks(vgpu_runner *runner)
{
    vgpu_grid *grid = runner->grid;
    unsigned running = 0;
    const atomic_bool *abort = grid->launch->abort;
    while (!atomic_load_explicit(&grid->stop, memory_order_relaxed)) {
        bool quiet = true;
        if (!start_blocks(runner, &running)) {
            fail_for_memory(grid);
            return;
        }
        if (!running) return;
        if (abort && atomic_load_explicit(abort, memory_order_relaxed)) {
            give_up(grid, VGPU_ABORTED, "stopped from outside");
            return;
        }
        const uint64_t before = runner->instructions;
        for (unsigned b = 0; b < runner->resident; b++) {
            if (!runner->blocks[b]) continue;
            if (!run_block(runner->blocks[b], &quiet)) return;
            if (!runner->blocks[b]->live) {
                destroy_block(runner->blocks[b]);
                runner->blocks[b] = NULL;
                running--;
                quiet = false;
            }
        }
        if (!spend(runner, before)) return;
        if (quiet) sched_yield(); /* all poll: let whoever sets the flag run */
    }
}

static void *run_runner(void *argument)
{
    vgpu_runner *runner = argument;
    runner->blocks = calloc(runner->resident, sizeof *runner->blocks);
    if (runner->blocks) run_blocks(runner);
    else fail_for_memory(runner->grid);
    for (unsigned b = 0; runner->blocks && b < runner->resident; b++) {
        destroy_block(runner->blocks[b]);
    }
    free(runner->blocks);
    return NULL;
}

/* -- launches --------------------------------------------------------------------------------- */

static bool check_launch(const vgpu_code *code, const vgpu_launch *launch, char *error,
                         size_t error_bytes)
{
    uint64_t threads = 1, blocks = 1;
    for (int i = 0; i < 3; i++) {
        const uint32_t most_blocks = i == 0 ? INT32_MAX : 65535;
        const uint32_t most_threads = i == 2 ? 64 : BLOCK_THREADS_MAX;
        if (!launch->grid[i] || launch->grid[i] > most_blocks || !launch->block[i] ||
            launch->block[i] > most_threads) {
            snprintf(error, error_bytes, "kernel %s: grid (%u,%u,%u) of blocks (%u,%u,%u)",
                     code->kernel.name, launch->grid[0], launch->grid[1], launch->grid[2],
                     launch->block[0], launch->block[1], launch->block[2]);
            return false;
        }
        threads *= launch->block[i];
        blocks *= launch->grid[i];
    }
    if (threads > code->kernel.max_threads) {
        snprintf(error, error_bytes, "kernel %s: %llu threads in a block of at most %u",
                 code->kernel.name, (unsigned long long)threads, code->kernel.max_threads);
        return false;
    }
    return true;
}

/* Constants with the addresses of variables in them. NULL: no memory. */
static unsigned char *patched_constants(const vgpu_code *code, const uint64_t *variables)
{
    unsigned char *constants = aligned_alloc(VGPU_ROW_ALIGN, round_up(code->constant_bytes + 1,
                                                                      VGPU_ROW_ALIGN));
    if (!constants) return NULL;
    if (code->constant_bytes) memcpy(constants, code->constants, code->constant_bytes);
    for (size_t i = 0; i < code->patch_count; i++) {
        const vgpu_patch *patch = &code->patches[i];
        const uint64_t address = variables[patch->variable] + (uint64_t)patch->addend;
        for (size_t lane = 0; lane < VGPU_LANES; lane++) {
            memcpy(constants + patch->offset + lane * sizeof address, &address, sizeof address);
        }
    }
    return constants;
}

/* Runners on `count` host threads, the caller's among them. If threads cannot be had, fewer. */
static void run_on_threads(vgpu_grid *grid, vgpu_runner *runners, pthread_t *threads,
                           unsigned count)
{
    const vgpu_launch *launch = grid->launch;
    unsigned started = 1;
    for (unsigned i = 0; i < count; i++) {
        runners[i].grid = grid;
        runners[i].resident = launch->resident_blocks ? launch->resident_blocks : DEFAULT_RESIDENT;
        if (runners[i].resident > grid->block_count) {
            runners[i].resident = (unsigned)grid->block_count;
        }
        runners[i].random = (launch->seed + 1) * UINT64_C(0x9E3779B97F4A7C15) + i;
        runners[i].generation = atomic_load(launch->memory->generation);
    }
    while (started < count &&
           pthread_create(&threads[started], NULL, run_runner, &runners[started]) == 0) {
        started++;
    }
    run_runner(&runners[0]);
    for (unsigned i = 1; i < started; i++) pthread_join(threads[i], NULL);
}

vgpu_outcome vgpu_run(const vgpu_program *program, const vgpu_kernel *kernel,
                      const vgpu_launch *launch, char *error, size_t error_bytes)
{
    const vgpu_code *code = (const vgpu_code *)(const void *)kernel; /* its first member */
    const unsigned count = launch->host_threads ? launch->host_threads : 1;
    error[0] = 0;
    if (!check_launch(code, launch, error, error_bytes)) return VGPU_BAD_LAUNCH;
    vgpu_grid grid = {
        .program = program, .code = code, .launch = launch, .error = error,
        .error_bytes = error_bytes, .lock = PTHREAD_MUTEX_INITIALIZER,
        .block_count = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2],
        .threads = launch->block[0] * launch->block[1] * launch->block[2],
    };
    atomic_init(&grid.budget, launch->instruction_budget > INT64_MAX
                                  ? INT64_MAX : (int64_t)launch->instruction_budget);
    unsigned char *constants = patched_constants(code, launch->variables);
    vgpu_runner *runners = calloc(count, sizeof *runners);
    pthread_t *threads = calloc(count, sizeof *threads);
    grid.constants = constants;
    if (constants && runners && threads) run_on_threads(&grid, runners, threads, count);
    else fail_for_memory(&grid);
    uint64_t executed = 0;
    for (unsigned i = 0; runners && i < count; i++) executed += runners[i].instructions;
    if (launch->instructions) *launch->instructions = executed;
    free(constants);
    free(runners);
    free(threads);
    pthread_mutex_destroy(&grid.lock);
    return grid.outcome;
}
