/* SPDX-License-Identifier: MIT */
/* simulation.h -- ranks whose threads and streams advance in any order that their events allow.
 *
 * A rank's thread runs a program of calls, written before it starts; a call on one of its three
 * streams puts work there, which is done some time later. A schedule is drawn at random, and fails
 * if there is
 *
 *   a deadlock      a thread or a stream that does not come to its end
 *   a race          two works on one cell, of which one writes, not ordered by events alone (order
 *                   by luck does not count)
 *   a wrong sum     a work that reads other shards, of another call, than it is to add up
 *
 * Rules (device.h): work of a stream runs in order; a wait means the latest record CALLED before
 * it; waiting for an event that was never recorded is an error.
 *
 * Events, counters and cells are the caller's to number, from 0, and there is no check that a
 * program fits. Main thread only.
 */
#ifndef TEST_SUPPORT_SIMULATION_H
#define TEST_SUPPORT_SIMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIMULATION_RANKS_MAX = 5,
    SIMULATION_CELLS_MAX = 2048,
    SIMULATION_EVENTS_MAX = 512,
    SIMULATION_COUNTERS_MAX = 64,
    SIMULATION_WORK_CELLS_MAX = 2 * SIMULATION_RANKS_MAX /* read, and written */
};

typedef struct simulation simulation;
typedef struct simulated_work simulated_work;

/* Asserts that there is memory. The caller destroys it. */
simulation *simulation_create(void);
void simulation_destroy(simulation *m);

/* Empty programs, cells and counters; what is drawn from here on follows from `seed`. */
void simulation_begin(simulation *m, uint64_t seed);

/* 0 .. below - 1. */
unsigned simulation_draw(simulation *m, unsigned below);

/* The next call of a rank's thread: wait until a counter has at least this value; set it. */
void simulate_host_wait(simulation *m, int rank, int counter, size_t value);
void simulate_host_set(simulation *m, int rank, int counter, size_t value);

/* The next call of a rank's thread, on its stream 0, 1 or 2. */
void simulate_stream_wait(simulation *m, int rank, int stream, int event);
void simulate_record(simulation *m, int rank, int stream, int event);

/* Work that must read `shards` of this call, or writes them if it reads nothing; then the cells of
 * it. The work is the simulation's. */
simulated_work *simulate_work(simulation *m, int rank, int stream, int call, uint64_t shards);
void simulated_reads(simulated_work *job, int cell);
void simulated_writes(simulated_work *job, int cell);

/* Run the programs of ranks 0 .. rank_count - 1. Did it go well? */
bool simulation_run(simulation *m, int rank_count);

/* What went wrong first; "" if nothing has. */
const char *simulation_failure(const simulation *m);

#endif
