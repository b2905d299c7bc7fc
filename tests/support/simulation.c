/* SPDX-License-Identifier: MIT */
/* simulation.c -- see simulation.h. Order is known by vector clocks over the streams. */
#include "support/simulation.h"

#include "support/test.h"

#include <stdio.h>

enum {
    RANKS_MAX = SIMULATION_RANKS_MAX,
    STREAMS_OF_RANK = 3,
    STREAMS_MAX = STREAMS_OF_RANK * RANKS_MAX,
    CELLS_MAX = SIMULATION_CELLS_MAX,
    EVENTS_MAX = SIMULATION_EVENTS_MAX,
    COUNTERS_MAX = SIMULATION_COUNTERS_MAX,
    WORK_CELLS_MAX = SIMULATION_WORK_CELLS_MAX,
    OPS_MAX = 8192, /* of one rank */
    PATIENCE = 64   /* tries to find a move at random before all are tried in turn */
};

typedef unsigned clock_vector[STREAMS_MAX];

/* One unit of memory: what it holds, who wrote it, who has read it since. */
typedef struct {
    int call;          /* the call whose sum it is part of; -1: nothing */
    uint64_t shards;   /* the shards that are summed in it */
    int writer;        /* stream; -1: nobody */
    unsigned written;  /* at that stream's time */
    clock_vector read; /* each stream's time of its last read since then; 0: none */
} cell;

struct simulated_work {
    int reads[WORK_CELLS_MAX], writes[WORK_CELLS_MAX];
    int read_count, write_count;
    int call;
    uint64_t shards;
};

typedef enum { HOST_WAIT, HOST_SET, STREAM_WAIT, RECORD, WORK } op_kind;

typedef struct {
    op_kind kind;
    int counter;         /* HOST_ */
    size_t value;        /* HOST_ */
    int stream, event;   /* STREAM_WAIT, RECORD */
    simulated_work work; /* WORK, on `stream` */
} op;

/* A record that was called: waits refer to it. */
typedef struct {
    bool done;
    clock_vector clock;
} record;

typedef struct {
    op_kind kind; /* STREAM_WAIT, RECORD, WORK */
    int record;
    const simulated_work *work;
} queued;

struct simulation {
    op *program[RANKS_MAX];      /* [OPS_MAX] */
    int op_count[RANKS_MAX], next_op[RANKS_MAX];
    queued *queue[STREAMS_MAX];  /* [OPS_MAX] */
    int queued_count[STREAMS_MAX], next_queued[STREAMS_MAX];
    clock_vector clock[STREAMS_MAX];
    size_t counter[COUNTERS_MAX];
    int latest[EVENTS_MAX];      /* record of the event that was last called; -1: none */
    record *record;              /* [RANKS_MAX * OPS_MAX] */
    int record_count;
    cell cell[CELLS_MAX];
    char failure[128];           /* "": none so far */
    uint64_t random;
};

simulation *simulation_create(void)
{
    simulation *m = calloc(1, sizeof *m);
    assert_non_null(m);
    for (int r = 0; r < RANKS_MAX; r++) {
        assert_non_null(m->program[r] = malloc(OPS_MAX * sizeof(op)));
    }
    for (int s = 0; s < STREAMS_MAX; s++) {
        assert_non_null(m->queue[s] = malloc(OPS_MAX * sizeof(queued)));
    }
    assert_non_null(m->record = malloc((size_t)RANKS_MAX * OPS_MAX * sizeof(record)));
    return m;
}

void simulation_destroy(simulation *m)
{
    for (int r = 0; r < RANKS_MAX; r++) free(m->program[r]);
    for (int s = 0; s < STREAMS_MAX; s++) free(m->queue[s]);
    free(m->record);
    free(m);
}

void simulation_begin(simulation *m, uint64_t seed)
{
    memset(m->op_count, 0, sizeof m->op_count);
    memset(m->next_op, 0, sizeof m->next_op);
    memset(m->queued_count, 0, sizeof m->queued_count);
    memset(m->next_queued, 0, sizeof m->next_queued);
    memset(m->clock, 0, sizeof m->clock);
    memset(m->counter, 0, sizeof m->counter);
    memset(m->latest, -1, sizeof m->latest);
    memset(m->cell, 0, sizeof m->cell);
    for (int i = 0; i < CELLS_MAX; i++) m->cell[i].writer = m->cell[i].call = -1;
    m->record_count = 0;
    m->failure[0] = '\0';
    m->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

const char *simulation_failure(const simulation *m) { return m->failure; }

unsigned simulation_draw(simulation *m, unsigned below)
{
    m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(m->random >> 33) % below;
}

/* -- programs ---------------------------------------------------------------------------------- */

/* The next call of the rank's thread; on its stream `which`, if that is asked for. */
static op *append(simulation *m, int rank, op_kind kind, int which)
{
    op *o = &m->program[rank][m->op_count[rank]++];
    *o = (op){ .kind = kind, .stream = STREAMS_OF_RANK * rank + which };
    return o;
}

void simulate_host_wait(simulation *m, int rank, int counter, size_t value)
{
    op *o = append(m, rank, HOST_WAIT, 0);
    o->counter = counter;
    o->value = value;
}

void simulate_host_set(simulation *m, int rank, int counter, size_t value)
{
    op *o = append(m, rank, HOST_SET, 0);
    o->counter = counter;
    o->value = value;
}

void simulate_stream_wait(simulation *m, int rank, int which, int event)
{
    append(m, rank, STREAM_WAIT, which)->event = event;
}

void simulate_record(simulation *m, int rank, int which, int event)
{
    append(m, rank, RECORD, which)->event = event;
}

simulated_work *simulate_work(simulation *m, int rank, int which, int call, uint64_t shards)
{
    op *o = append(m, rank, WORK, which);
    o->work.call = call;
    o->work.shards = shards;
    return &o->work;
}

void simulated_reads(simulated_work *job, int index) { job->reads[job->read_count++] = index; }
void simulated_writes(simulated_work *job, int index) { job->writes[job->write_count++] = index; }

/* -- work -------------------------------------------------------------------------------------- */

static void blame(simulation *m, const char *what)
{
    if (m->failure[0] == '\0') snprintf(m->failure, sizeof m->failure, "%s", what);
}

static void join(clock_vector into, const clock_vector from)
{
    for (int s = 0; s < STREAMS_MAX; s++) {
        if (from[s] > into[s]) into[s] = from[s];
    }
}

static void read_cell(simulation *m, int stream, const simulated_work *job, int index,
                      uint64_t *shards)
{
    cell *c = &m->cell[index];
    if (c->writer >= 0 && m->clock[stream][c->writer] < c->written) blame(m, "read before written");
    c->read[stream] = m->clock[stream][stream];
    if (c->call != job->call || (c->shards & *shards) != 0) blame(m, "wrong sum");
    *shards |= c->shards;
}

static void write_cell(simulation *m, int stream, const simulated_work *job, int index)
{
    cell *c = &m->cell[index];
    const unsigned *now = m->clock[stream];
    if (c->writer >= 0 && now[c->writer] < c->written) blame(m, "two writers");
    for (int s = 0; s < STREAMS_MAX; s++) {
        if (now[s] < c->read[s]) blame(m, "overwritten before it was read");
        c->read[s] = 0;
    }
    c->writer = stream;
    c->written = now[stream];
    c->call = job->call;
    c->shards = job->shards;
}

static void run_work(simulation *m, int stream, const simulated_work *job)
{
    uint64_t shards = 0;
    m->clock[stream][stream]++;
    for (int i = 0; i < job->read_count; i++) read_cell(m, stream, job, job->reads[i], &shards);
    if (job->read_count > 0 && shards != job->shards) blame(m, "wrong sum");
    for (int i = 0; i < job->write_count; i++) write_cell(m, stream, job, job->writes[i]);
}

/* Let `stream` do its next piece of work. False: it has none, or must wait. */
static bool advance_stream(simulation *m, int stream)
{
    if (m->next_queued[stream] == m->queued_count[stream]) return false;
    const queued *q = &m->queue[stream][m->next_queued[stream]];
    if (q->kind == STREAM_WAIT && !m->record[q->record].done) return false;
    if (q->kind == STREAM_WAIT) join(m->clock[stream], m->record[q->record].clock);
    if (q->kind == WORK) run_work(m, stream, q->work);
    if (q->kind == RECORD) {
        m->clock[stream][stream]++;
        memcpy(m->record[q->record].clock, m->clock[stream], sizeof(clock_vector));
        m->record[q->record].done = true;
    }
    m->next_queued[stream]++;
    return true;
}

static void enqueue(simulation *m, const op *o)
{
    queued q = { .kind = o->kind, .work = &o->work };
    if (o->kind == RECORD) {
        q.record = m->latest[o->event] = m->record_count;
        m->record[m->record_count++] = (record){ .done = false };
    }
    if (o->kind == STREAM_WAIT) {
        q.record = m->latest[o->event];
        if (q.record < 0) {
            blame(m, "waited for an event that was never recorded");
            return;
        }
    }
    m->queue[o->stream][m->queued_count[o->stream]++] = q;
}

/* Let a rank's thread make its next call. False: it has ended, or must wait. */
static bool advance_host(simulation *m, int rank)
{
    if (m->next_op[rank] == m->op_count[rank]) return false;
    const op *o = &m->program[rank][m->next_op[rank]];
    if (o->kind == HOST_WAIT && m->counter[o->counter] < o->value) return false;
    if (o->kind == HOST_SET) m->counter[o->counter] = o->value;
    if (o->kind != HOST_WAIT && o->kind != HOST_SET) enqueue(m, o);
    m->next_op[rank]++;
    return true;
}

/* -- schedules --------------------------------------------------------------------------------- */

/* An actor is a rank's thread, or a stream. */
static bool advance(simulation *m, int actor, int rank_count)
{
    return actor < rank_count ? advance_host(m, actor) : advance_stream(m, actor - rank_count);
}

/* In each schedule some actors are slow: they are drawn less often. */
static bool advance_somebody(simulation *m, const unsigned *slowness, int rank_count)
{
    const int actors = (1 + STREAMS_OF_RANK) * rank_count;
    for (int i = 0; i < PATIENCE; i++) {
        const int actor = (int)simulation_draw(m, (unsigned)actors);
        if (simulation_draw(m, slowness[actor]) == 0 && advance(m, actor, rank_count)) return true;
    }
    for (int actor = 0; actor < actors; actor++) {
        if (advance(m, actor, rank_count)) return true;
    }
    return false;
}

bool simulation_run(simulation *m, int rank_count)
{
    unsigned slowness[RANKS_MAX + STREAMS_MAX];
    const int actors = (1 + STREAMS_OF_RANK) * rank_count;
    for (int actor = 0; actor < actors; actor++) {
        slowness[actor] = 1 + simulation_draw(m, 3) * simulation_draw(m, 8);
    }
    while (m->failure[0] == '\0' && advance_somebody(m, slowness, rank_count)) continue;
    for (int actor = 0; actor < actors && m->failure[0] == '\0'; actor++) {
        const int stream = actor - rank_count;
        const bool ended = actor < rank_count
                               ? m->next_op[actor] == m->op_count[actor]
                               : m->next_queued[stream] == m->queued_count[stream];
        if (!ended) blame(m, "deadlock");
    }
    return m->failure[0] == '\0';
}
