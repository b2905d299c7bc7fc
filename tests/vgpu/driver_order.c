/* SPDX-License-Identifier: MIT */
/* driver_order.c -- clocks, the log, and the histories of allocations (driver_order.h).
 *
 * A track is a sorted array of spans [begin, end) that do not overlap, each with the operation
 * that stands for it. A history is one track of writes and one of reads for each stream:
 *
 *     writes   |---- s0 #4 ----|-- s2 #1 --|          a read of stream s
 *     reads s0 |-- #7 --|                                is checked against writes,
 *     reads s1      |------- #3 -------|                 replaces its span in reads s
 *                                                     a write
 *                                                        is checked against writes and all reads,
 *                                                        clears its span in reads,
 *                                                        replaces its span in writes
 */
#include "driver_order.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vgpu_clock {
    size_t count;
    uint32_t at[]; /* by stream; 0 beyond count */
};

typedef struct {
    size_t begin, end;
    int stream;
    uint32_t sequence;
    const char *what; /* interned */
} span;

typedef struct {
    span *spans; /* sorted, apart */
    size_t count, room;
} track;

struct vgpu_history {
    uint64_t address;
    int references; /* order->lock */
    track writes;
    track *reads; /* [streams], by stream */
    size_t streams;
};

typedef struct {
    vgpu_history *history;
    size_t begin, end;
    bool write;
} touch;

struct vgpu_action {
    vgpu_action *next;
    vgpu_order *order;
    bool known;
    bool told; /* one report is enough */
    int stream;
    uint32_t sequence;
    const char *what;
    vgpu_clock *clock;
    touch *touches;
    size_t count, room;
};

struct vgpu_order {
    pthread_mutex_t lock;   /* all below, and all histories */
    pthread_key_t thread;   /* vgpu_clock: what the calling thread saw done */
    vgpu_order_report *report;
    void *context;
    vgpu_clock **clocks;    /* [streams], owned */
    int *devices;           /* [streams] */
    size_t streams;
    vgpu_clock *host;       /* what every host thread saw done */
    vgpu_action *oldest, *newest;
    char **names;           /* interned */
    size_t name_count;
};

/* The virtual driver is a test's tool: without memory for its own books it ends. */
static void *need(void *memory)
{
    if (memory == NULL) {
        fputs("vgpu: the host has no memory for the order checks\n", stderr);
        abort();
    }
    return memory;
}

/* -- clocks ------------------------------------------------------------------------------------ */

static vgpu_clock *clock_sized(vgpu_clock *old, size_t count)
{
    const size_t before = old == NULL ? 0 : old->count;
    if (old != NULL && before >= count) return old;
    vgpu_clock *c = need(realloc(old, sizeof *c + count * sizeof c->at[0]));
    memset(c->at + before, 0, (count - before) * sizeof c->at[0]);
    c->count = count;
    return c;
}

static vgpu_clock *clock_copy(const vgpu_clock *from)
{
    vgpu_clock *c = clock_sized(NULL, from->count);
    memcpy(c->at, from->at, from->count * sizeof c->at[0]);
    return c;
}

/* The maximum of both, for each stream. */
static vgpu_clock *clock_join(vgpu_clock *into, const vgpu_clock *from)
{
    if (from == NULL) return into;
    into = clock_sized(into, from->count);
    for (size_t s = 0; s < from->count; s++)
        if (into->at[s] < from->at[s]) into->at[s] = from->at[s];
    return into;
}

static bool clock_covers(const vgpu_clock *c, int stream, uint32_t sequence)
{
    return (size_t)stream < c->count && c->at[stream] >= sequence;
}

void vgpu_clock_free(vgpu_clock *clock) { free(clock); }

/* -- tracks ------------------------------------------------------------------------------------ */

/* Index of the first span that ends after `begin`. */
static size_t track_find(const track *t, size_t begin)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (t->spans[middle].end > begin) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Replaces spans [first, last) by `count` others. */
static void track_splice(track *t, size_t first, size_t last, const span *with, size_t count)
{
    const size_t after = t->count - last, total = first + count + after;
    if (total > t->room) {
        t->room = total * 2;
        t->spans = need(realloc(t->spans, t->room * sizeof *t->spans));
    }
    if (after > 0) memmove(t->spans + first + count, t->spans + last, after * sizeof *t->spans);
    if (count > 0) memcpy(t->spans + first, with, count * sizeof *with);
    t->count = total;
}

static bool same_operation(const span *a, const span *b)
{
    return a->stream == b->stream && a->sequence == b->sequence;
}

/* Nothing is known of [begin, end) any more, or, with `put`, that operation stands for it. */
static void track_replace(track *t, size_t begin, size_t end, const span *put)
{
    span with[3];
    size_t count = 0, first = track_find(t, begin), last = first;
    while (last < t->count && t->spans[last].begin < end) last++;
    if (first < last && t->spans[first].begin < begin) {
        with[count] = t->spans[first];
        with[count++].end = begin;
    }
    if (put != NULL) {
        with[count] = *put;
        with[count].begin = begin;
        with[count].end = end;
        span *left = first > 0 ? &t->spans[first - 1] : NULL;
        if (count == 0 && left != NULL && left->end == begin && same_operation(left, put)) {
            with[0].begin = left->begin; /* grow the left neighbour */
            first--;
        }
        count++;
    }
    if (first < last && t->spans[last - 1].end > end) {
        with[count] = t->spans[last - 1];
        with[count++].begin = end;
    }
    track_splice(t, first, last, with, count);
}

/* -- histories --------------------------------------------------------------------------------- */

vgpu_history *vgpu_history_create(uint64_t address)
{
    vgpu_history *h = need(calloc(1, sizeof *h));
    h->address = address;
    h->references = 1;
    return h;
}

static void history_release(vgpu_history *h)
{
    if (--h->references > 0) return;
    for (size_t s = 0; s < h->streams; s++) free(h->reads[s].spans);
    free(h->reads);
    free(h->writes.spans);
    free(h);
}

void vgpu_history_release(vgpu_order *order, vgpu_history *history)
{
    if (history == NULL) return;
    pthread_mutex_lock(&order->lock);
    history_release(history);
    pthread_mutex_unlock(&order->lock);
}

static track *history_reads(vgpu_history *h, int stream)
{
    const size_t wanted = (size_t)stream + 1;
    if (h->streams < wanted) {
        h->reads = need(realloc(h->reads, wanted * sizeof *h->reads));
        memset(h->reads + h->streams, 0, (wanted - h->streams) * sizeof *h->reads);
        h->streams = wanted;
    }
    return &h->reads[stream];
}

/* -- looking at operations --------------------------------------------------------------------- */

typedef struct {
    const touch *touch;
    bool earlier_wrote;
    span earlier;
} conflict;

/* The first span of `t` under `x` that does not come before `a`. False: there is none. */
static bool find_conflict(const track *t, const vgpu_action *a, const touch *x, conflict *out)
{
    for (size_t i = track_find(t, x->begin); i < t->count && t->spans[i].begin < x->end; i++) {
        const span *s = &t->spans[i];
        if (s->stream == a->stream || clock_covers(a->clock, s->stream, s->sequence)) continue;
        *out = (conflict){ .touch = x, .earlier = *s };
        return true;
    }
    return false;
}

static void tell(vgpu_order *o, vgpu_action *a, const conflict *c)
{
    char text[512];
    if (a->told) return;
    a->told = true;
    const span *e = &c->earlier;
    const uint64_t base = c->touch->history->address;
    const size_t begin = c->touch->begin > e->begin ? c->touch->begin : e->begin;
    const size_t end = c->touch->end < e->end ? c->touch->end : e->end;
    snprintf(text, sizeof text,
             "no order: gpu%d stream %d #%u (%s) %s %zu bytes at 0x%llx that gpu%d stream %d #%u "
             "(%s) %s; no event, query or stream orders the two",
             o->devices[a->stream], a->stream, a->sequence, a->what,
             c->touch->write ? "writes" : "reads", end - begin,
             (unsigned long long)(base + begin), o->devices[e->stream], e->stream, e->sequence,
             e->what, c->earlier_wrote ? "writes" : "reads");
    o->report(o->context, text);
}

/* One touch of an operation whose predecessors have all been looked at. */
static void look_at(vgpu_order *o, vgpu_action *a, const touch *x)
{
    vgpu_history *h = x->history;
    const span mine = { .stream = a->stream, .sequence = a->sequence, .what = a->what };
    conflict c;
    if (find_conflict(&h->writes, a, x, &c)) {
        c.earlier_wrote = true;
        tell(o, a, &c);
    }
    if (!x->write) {
        track_replace(history_reads(h, a->stream), x->begin, x->end, &mine);
        return;
    }
    for (size_t s = 0; s < h->streams; s++) {
        if (find_conflict(&h->reads[s], a, x, &c)) tell(o, a, &c);
        track_replace(&h->reads[s], x->begin, x->end, NULL);
    }
    track_replace(&h->writes, x->begin, x->end, &mine);
}

/* Reads first: an operation that reads and writes the same bytes is one writer of them. */
static void look_at_all(vgpu_order *o, vgpu_action *a)
{
    for (int write = 0; write <= 1; write++)
        for (size_t i = 0; i < a->count; i++)
            if (a->touches[i].write == (write != 0)) look_at(o, a, &a->touches[i]);
}

static void action_free(vgpu_action *a)
{
    for (size_t i = 0; i < a->count; i++) history_release(a->touches[i].history);
    free(a->touches);
    free(a->clock);
    free(a);
}

/* -- the log ----------------------------------------------------------------------------------- */

vgpu_order *vgpu_order_create(vgpu_order_report *report, void *context)
{
    vgpu_order *o = need(calloc(1, sizeof *o));
    o->report = report;
    o->context = context;
    o->host = clock_sized(NULL, 0);
    const int made = pthread_mutex_init(&o->lock, NULL);
    const int keyed = pthread_key_create(&o->thread, free);
    need(made == 0 && keyed == 0 ? o : NULL);
    return o;
}

void vgpu_order_destroy(vgpu_order *o)
{
    if (o == NULL) return;
    for (vgpu_action *a = o->oldest, *next; a != NULL; a = next) {
        next = a->next;
        action_free(a);
    }
    for (size_t s = 0; s < o->streams; s++) free(o->clocks[s]);
    for (size_t n = 0; n < o->name_count; n++) free(o->names[n]);
    free(o->clocks);
    free(o->devices);
    free(o->names);
    free(o->host);
    free(pthread_getspecific(o->thread));
    pthread_key_delete(o->thread);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

void vgpu_order_open(vgpu_order *o, int stream, int device)
{
    pthread_mutex_lock(&o->lock);
    const size_t wanted = (size_t)stream + 1;
    if (o->streams < wanted) {
        o->clocks = need(realloc(o->clocks, wanted * sizeof *o->clocks));
        o->devices = need(realloc(o->devices, wanted * sizeof *o->devices));
        for (size_t s = o->streams; s < wanted; s++) {
            o->clocks[s] = clock_sized(NULL, wanted);
            o->devices[s] = -1;
        }
        o->streams = wanted;
    }
    o->devices[stream] = device;
    pthread_mutex_unlock(&o->lock);
}

uint32_t vgpu_order_next(vgpu_order *o, int stream)
{
    pthread_mutex_lock(&o->lock);
    vgpu_clock *c = clock_sized(o->clocks[stream], (size_t)stream + 1);
    c = clock_join(c, o->host);
    c = clock_join(c, pthread_getspecific(o->thread));
    const uint32_t sequence = ++c->at[stream];
    o->clocks[stream] = c;
    pthread_mutex_unlock(&o->lock);
    return sequence;
}

vgpu_clock *vgpu_order_record(vgpu_order *o, int stream)
{
    pthread_mutex_lock(&o->lock);
    vgpu_clock *c = clock_copy(o->clocks[stream]);
    pthread_mutex_unlock(&o->lock);
    return c;
}

void vgpu_order_wait(vgpu_order *o, int stream, const vgpu_clock *clock)
{
    pthread_mutex_lock(&o->lock);
    o->clocks[stream] = clock_join(o->clocks[stream], clock);
    pthread_mutex_unlock(&o->lock);
}

void vgpu_order_seen_stream(vgpu_order *o, int stream)
{
    pthread_mutex_lock(&o->lock);
    o->host = clock_join(o->host, o->clocks[stream]);
    pthread_mutex_unlock(&o->lock);
}

void vgpu_order_seen_event(vgpu_order *o, const vgpu_clock *clock)
{
    vgpu_clock *seen = clock_join(pthread_getspecific(o->thread), clock);
    need(pthread_setspecific(o->thread, seen) == 0 ? o : NULL);
}

static const char *intern(vgpu_order *o, const char *name)
{
    for (size_t n = 0; n < o->name_count; n++)
        if (strcmp(o->names[n], name) == 0) return o->names[n];
    o->names = need(realloc(o->names, (o->name_count + 1) * sizeof *o->names));
    o->names[o->name_count] = need(strdup(name));
    return o->names[o->name_count++];
}

vgpu_action *vgpu_order_log(vgpu_order *o, int stream, const char *what)
{
    vgpu_action *a = need(calloc(1, sizeof *a));
    pthread_mutex_lock(&o->lock);
    a->order = o;
    a->stream = stream;
    a->what = intern(o, what);
    a->clock = clock_copy(o->clocks[stream]);
    a->sequence = a->clock->at[stream];
    if (o->newest != NULL) {
        o->newest->next = a;
    } else {
        o->oldest = a;
    }
    o->newest = a;
    pthread_mutex_unlock(&o->lock);
    return a;
}

void vgpu_order_touch(vgpu_action *a, vgpu_history *history, size_t begin, size_t end, bool write)
{
    if (begin >= end) return;
    if (a->count == a->room) {
        a->room = a->room * 2 + 4;
        a->touches = need(realloc(a->touches, a->room * sizeof *a->touches));
    }
    a->touches[a->count++] =
        (touch){ .history = history, .begin = begin, .end = end, .write = write };
    pthread_mutex_lock(&a->order->lock);
    history->references++;
    pthread_mutex_unlock(&a->order->lock);
}

void vgpu_order_known(vgpu_order *o, vgpu_action *action)
{
    pthread_mutex_lock(&o->lock);
    action->known = true;
    while (o->oldest != NULL && o->oldest->known) {
        vgpu_action *a = o->oldest;
        o->oldest = a->next;
        if (o->oldest == NULL) o->newest = NULL;
        look_at_all(o, a);
        action_free(a);
    }
    pthread_mutex_unlock(&o->lock);
}
