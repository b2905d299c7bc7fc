/* SPDX-License-Identifier: MIT */
/* late_device.c -- see late_device.h.
 *
 * One lock guards everything. A record is made when ls_event_record is called; a wait refers to the
 * event's latest record at that moment (device.h, rule 3). Work is a function and a copy of its
 * arguments, with the ranges of bytes that it reads and writes.
 *
 * Clocks: stream s counts its works in clock[s][s]; a record keeps its stream's vector, a wait
 * joins it. An access by stream a at its time t is before stream b's present if clock[b][a] >= t.
 */
#include "support/late_device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/kernels.h"
#include "kernels/reference/reference.h"

enum {
    STREAMS_MAX = 64,
    RANGES_MAX = 2 * LS_MERGE_MAX + 4,
    LIE_STILL_PICKS = 40 /* how many picks a set of streams is left alone for */
};

typedef struct {
    const unsigned char *begin, *end;
    bool written;
} byte_range;

typedef enum { LATE_COPY, LATE_FILL, LATE_MERGE, LATE_DIGEST, LATE_RECORD, LATE_WAIT } work_kind;

typedef struct late_record {
    struct late_record *next; /* all records of the world */
    bool done;
    unsigned clock[STREAMS_MAX];
} late_record;

typedef struct work {
    struct work *next;
    work_kind kind;
    void *to;
    const void *from;
    size_t bytes;
    unsigned char value;
    ls_merge_args merge;
    ls_digest_args digest;
    late_record *record;
    int range_count;
    byte_range range[RANGES_MAX];
} work;

typedef struct {
    bool open;
    work *first, *last;
    ls_stream *stream;
    unsigned clock[STREAMS_MAX];
} queue;

typedef struct access {
    byte_range range;
    int stream;
    unsigned time;
} access;

struct late_world {
    pthread_mutex_t lock;
    pthread_t thread;
    bool started, stop;
    uint64_t random;
    uint64_t lying;            /* bit s: stream s is left alone for now */
    int picks;
    queue queue[STREAMS_MAX];
    late_record *records;
    access *accesses;
    size_t access_count, access_capacity;
    char race[256];
};

static unsigned draw(late_world *world, unsigned below)
{
    world->random = world->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(world->random >> 33) % below;
}

/* -- accesses --------------------------------------------------------------------------------- */

static void check_access(late_world *world, const access *now)
{
    const queue *q = &world->queue[now->stream];
    for (size_t i = 0; i < world->access_count && world->race[0] == '\0'; i++) {
        const access *then = &world->accesses[i];
        const bool apart = then->range.end <= now->range.begin ||
                           now->range.end <= then->range.begin;
        if (apart || (!then->range.written && !now->range.written)) continue;
        if (then->stream == now->stream || q->clock[then->stream] >= then->time) continue;
        snprintf(world->race, sizeof world->race,
                 "stream %d %s %zu bytes that stream %d %s, and no event orders the two",
                 now->stream, now->range.written ? "writes" : "reads",
                 (size_t)(now->range.end - now->range.begin), then->stream,
                 then->range.written ? "writes" : "reads");
    }
}

static void note_access(late_world *world, const access *now)
{
    if (world->access_count == world->access_capacity) {
        const size_t capacity = world->access_capacity ? 2 * world->access_capacity : 1024;
        access *grown = realloc(world->accesses, capacity * sizeof *grown);
        if (grown == NULL) abort();
        world->accesses = grown;
        world->access_capacity = capacity;
    }
    world->accesses[world->access_count++] = *now;
}

static void check_work(late_world *world, int stream, const work *w)
{
    for (int i = 0; i < w->range_count; i++) {
        const access now = { w->range[i], stream, world->queue[stream].clock[stream] };
        check_access(world, &now);
    }
    for (int i = 0; i < w->range_count; i++) {
        const access now = { w->range[i], stream, world->queue[stream].clock[stream] };
        note_access(world, &now);
    }
}

static void add_range(work *w, const void *begin, size_t bytes, bool written)
{
    if (begin == NULL || bytes == 0) return;
    const unsigned char *at = begin;
    w->range[w->range_count++] = (byte_range){ at, at + bytes, written };
}

/* -- the world's thread ----------------------------------------------------------------------- */

static ls_status carry_out(late_world *world, int stream, work *w)
{
    queue *q = &world->queue[stream];
    q->clock[stream]++;
    check_work(world, stream, w);
    switch (w->kind) {
    case LATE_COPY: memcpy(w->to, w->from, w->bytes); break;
    case LATE_FILL: memset(w->to, w->value, w->bytes); break;
    case LATE_MERGE: return ls_merge_reference(q->stream, &w->merge);
    case LATE_DIGEST: return ls_digest_reference(q->stream, &w->digest);
    case LATE_RECORD:
        memcpy(w->record->clock, q->clock, sizeof q->clock);
        w->record->done = true;
        break;
    case LATE_WAIT:
        for (int s = 0; s < STREAMS_MAX; s++) {
            if (w->record->clock[s] > q->clock[s]) q->clock[s] = w->record->clock[s];
        }
        break;
    }
    return LS_OK;
}

/* Carry out the first work of `stream`. False: there is none, or it must wait. */
static bool advance(late_world *world, int stream)
{
    queue *q = &world->queue[stream];
    work *w = q->first;
    if (!q->open || w == NULL || (w->kind == LATE_WAIT && !w->record->done)) return false;
    if (carry_out(world, stream, w) != LS_OK) abort(); /* the reference ops cannot fail */
    q->first = w->next;
    if (q->first == NULL) q->last = NULL;
    free(w);
    return true;
}

static bool advance_somebody(late_world *world)
{
    if (world->picks++ % LIE_STILL_PICKS == 0) {
        world->lying = (uint64_t)draw(world, 1u << 31) << 32 | draw(world, 1u << 31) << 1;
    }
    for (int tries = 0; tries < STREAMS_MAX; tries++) {
        const int stream = (int)draw(world, STREAMS_MAX);
        if (world->lying >> stream & 1) continue;
        if (advance(world, stream)) return true;
    }
    for (int stream = 0; stream < STREAMS_MAX; stream++) {
        if (advance(world, stream)) return true;
    }
    return false;
}

static void *world_main(void *arg)
{
    late_world *world = arg;
    for (;;) {
        pthread_mutex_lock(&world->lock);
        const bool stop = world->stop;
        const bool moved = !stop && advance_somebody(world);
        pthread_mutex_unlock(&world->lock);
        if (stop) return NULL;
        if (!moved) (void)nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    }
}

ls_status late_world_create(uint64_t seed, late_world **out)
{
    late_world *world = calloc(1, sizeof *world);
    *out = NULL;
    if (world == NULL) return ls_fail(LS_ERR_MEMORY, "late world");
    world->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    (void)pthread_mutex_init(&world->lock, NULL);
    if (pthread_create(&world->thread, NULL, world_main, world) != 0) {
        free(world);
        return ls_fail(LS_ERR_MEMORY, "late world: thread");
    }
    *out = world;
    return LS_OK;
}

void late_world_destroy(late_world *world)
{
    if (world == NULL) return;
    pthread_mutex_lock(&world->lock);
    world->stop = true;
    pthread_mutex_unlock(&world->lock);
    (void)pthread_join(world->thread, NULL);
    (void)pthread_mutex_destroy(&world->lock);
    while (world->records != NULL) {
        late_record *record = world->records;
        world->records = record->next;
        free(record);
    }
    free(world->accesses);
    free(world);
}

const char *late_world_race(late_world *world)
{
    pthread_mutex_lock(&world->lock);
    const char *race = world->race[0] != '\0' ? world->race : NULL;
    pthread_mutex_unlock(&world->lock);
    return race;
}

/* -- the device ------------------------------------------------------------------------------- */

typedef struct {
    late_world *world;         /* borrowed */
    const ls_device_ops *host; /* borrowed: static; for memory */
    ls_device_ops ops;
} late_device;

static late_device *late_of(const ls_device *device) { return device->implementation; }

static work *work_create(work_kind kind)
{
    work *w = calloc(1, sizeof *w);
    if (w == NULL) abort();
    w->kind = kind;
    return w;
}

static late_record *record_create(late_world *world)
{
    late_record *record = calloc(1, sizeof *record);
    if (record == NULL) abort();
    record->next = world->records;
    world->records = record;
    return record;
}

/* With the lock held. */
static void append(ls_stream *stream, work *w)
{
    queue *q = stream->implementation;
    if (q->last != NULL) q->last->next = w;
    else q->first = w;
    q->last = w;
}

static ls_status enqueue(ls_stream *stream, work *w)
{
    late_world *world = late_of(stream->device)->world;
    pthread_mutex_lock(&world->lock);
    append(stream, w);
    pthread_mutex_unlock(&world->lock);
    ls_device_progress(stream->device);
    return LS_OK;
}

static ls_status late_stream_open(ls_device *device, ls_stream *stream)
{
    late_world *world = late_of(device)->world;
    pthread_mutex_lock(&world->lock);
    int s = 0;
    while (s < STREAMS_MAX && world->queue[s].open) s++;
    if (s < STREAMS_MAX) {
        world->queue[s].open = true;
        world->queue[s].stream = stream;
        stream->implementation = &world->queue[s];
    }
    pthread_mutex_unlock(&world->lock);
    return s < STREAMS_MAX ? LS_OK : ls_fail(LS_ERR_DEVICE, "late device: too many streams");
}

/* What was not carried out never will be; the clock goes on, should the place be used again. */
static void late_stream_close(ls_stream *stream)
{
    queue *q = stream->implementation;
    late_world *world = late_of(stream->device)->world;
    pthread_mutex_lock(&world->lock);
    while (q->first != NULL) {
        work *w = q->first;
        q->first = w->next;
        free(w);
    }
    q->last = NULL;
    q->open = false;
    pthread_mutex_unlock(&world->lock);
}

static ls_status late_stream_poll(ls_stream *stream, bool *idle)
{
    late_world *world = late_of(stream->device)->world;
    pthread_mutex_lock(&world->lock);
    *idle = ((queue *)stream->implementation)->first == NULL;
    pthread_mutex_unlock(&world->lock);
    return LS_OK;
}

static ls_status late_event_record(ls_event *event, ls_stream *stream)
{
    late_world *world = late_of(stream->device)->world;
    work *w = work_create(LATE_RECORD);
    pthread_mutex_lock(&world->lock);
    w->record = record_create(world);
    event->implementation = w->record;
    append(stream, w);
    pthread_mutex_unlock(&world->lock);
    return LS_OK;
}

static ls_status late_stream_wait(ls_stream *stream, ls_event *event)
{
    late_world *world = late_of(stream->device)->world;
    work *w = work_create(LATE_WAIT);
    pthread_mutex_lock(&world->lock);
    w->record = event->implementation;
    append(stream, w);
    pthread_mutex_unlock(&world->lock);
    return LS_OK;
}

static ls_status late_event_poll(ls_event *event, bool *complete)
{
    late_world *world = late_of(event->device)->world;
    pthread_mutex_lock(&world->lock);
    *complete = event->implementation == NULL || ((late_record *)event->implementation)->done;
    pthread_mutex_unlock(&world->lock);
    return LS_OK;
}

static ls_status late_copy(ls_stream *stream, void *to, const void *from, size_t bytes,
                           ls_copy_direction direction)
{
    (void)direction;
    work *w = work_create(LATE_COPY);
    w->to = to;
    w->from = from;
    w->bytes = bytes;
    add_range(w, from, bytes, false);
    add_range(w, to, bytes, true);
    return enqueue(stream, w);
}

static ls_status late_fill(ls_stream *stream, void *to, unsigned char value, size_t bytes)
{
    work *w = work_create(LATE_FILL);
    w->to = to;
    w->value = value;
    w->bytes = bytes;
    add_range(w, to, bytes, true);
    return enqueue(stream, w);
}

static ls_status late_merge(ls_stream *stream, const ls_merge_args *args)
{
    const size_t bytes = args->count * sizeof(float);
    work *w = work_create(LATE_MERGE);
    w->merge = *args;
    for (int i = 0; i < args->source_count; i++) add_range(w, args->source[i], bytes, false);
    for (int i = 0; i < args->out_count; i++) add_range(w, args->out[i], bytes, true);
    add_range(w, args->source_digest, (size_t)args->source_count * sizeof(uint64_t), true);
    add_range(w, args->out_digest, sizeof(uint64_t), true);
    return enqueue(stream, w);
}

static ls_status late_digest(ls_stream *stream, const ls_digest_args *args)
{
    work *w = work_create(LATE_DIGEST);
    w->digest = *args;
    add_range(w, args->x, args->count * sizeof(float), false);
    add_range(w, args->out, sizeof(uint64_t), true);
    return enqueue(stream, w);
}

static const ls_kernels LATE_KERNELS = { .name = "late", .merge = late_merge,
                                         .digest = late_digest };

static void late_close(ls_device *device)
{
    late_device *late = late_of(device);
    const ls_device_ops *host = late->host;
    device->implementation = NULL;
    free(late);
    host->close(device);
}

ls_status late_device_open(late_world *world, int ordinal, atomic_ulong *progress, ls_device **out)
{
    late_device *late = calloc(1, sizeof *late);
    if (late == NULL) return ls_fail(LS_ERR_MEMORY, "late device");
    const ls_status status = ls_device_open_host(ordinal, 1, false, progress, out);
    if (status != LS_OK) {
        free(late);
        return status;
    }
    late->world = world;
    late->host = (*out)->ops;
    late->ops = *late->host;
    late->ops.stream_open = late_stream_open;
    late->ops.stream_close = late_stream_close;
    late->ops.stream_poll = late_stream_poll;
    late->ops.stream_wait = late_stream_wait;
    late->ops.event_record = late_event_record;
    late->ops.event_poll = late_event_poll;
    late->ops.copy = late_copy;
    late->ops.fill = late_fill;
    late->ops.close = late_close;
    (*out)->ops = &late->ops;
    (*out)->kernels = &LATE_KERNELS;
    (*out)->implementation = late;
    return LS_OK;
}
