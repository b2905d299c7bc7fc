/* SPDX-License-Identifier: MIT */
/* cuda_probe_child.c -- does what one GPU writes into another's memory arrive?
 *
 * Runs in a process of its own (cuda_probe.c): on some machines the answer is a fault that makes a
 * process useless, or no answer. For each ordered pair a -> b, with a's access to b enabled, the
 * three ways in which the collectives move bytes:
 *
 *     copy    a's copy engine pushes into b's memory
 *     write   a kernel on a writes b's memory
 *     read    a kernel on a reads b's memory
 *
 * Each moves SPANS of an area from the source to the target, which holds the complement of the
 * source before; so a byte that did not come, came as another, or came where it should not is seen
 * for certain. The area is then read back by the GPU that owns it, and compared on the host:
 *
 *     source  s s s s s s s s s s s s s s s s        random
 *     target  ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~        its complement
 *     after   s s s s s s s ~ ~ s s s ~ s ~ ~        spans come over, gaps stay
 *
 * What the driver says of a pair (cuDeviceCanAccessPeer, the attribute that access is supported) is
 * asked first; a pair that it denies is not tried.
 *
 * A pair that holds is measured as well, and so is each GPU's way to the host and back, on areas of
 * their own (cuda_speed.c): not on a virtual GPU, whose times say nothing, not where its memory is
 * full, and not once MEASURE_SECONDS have passed, since verdicts matter more than figures.
 *
 * Access to all b of one a stays enabled while a's pairs are probed, so that a limit on their
 * number shows itself: when the driver says "too many", the number is told, all are disabled, and
 * it goes on.
 */
#include "device/cuda_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/cuda.h"
#include "device/cuda_context.h"
#include "device/cuda_driver.h"
#include "device/cuda_speed.h"
#include "device/probe.h"
#include "philox.h"

enum { AREA_BYTES = 16384, PAIR_SECONDS = 5, MEASURE_SECONDS = 8, GRID_BLOCKS = 4 };

/* What is moved: whole words, an unaligned tail, and a few bytes at an odd place. */
static const struct {
    size_t begin, bytes;
} SPANS[] = { { 0, 8192 }, { 8208, 4099 }, { 12321, 61 } };
enum { SPAN_COUNT = sizeof SPANS / sizeof SPANS[0] };

enum { BY_COPY, BY_WRITE, BY_READ, WAY_COUNT };
static const char *const WAY_NAME[WAY_COUNT] = {
    [BY_COPY] = "a copy", [BY_WRITE] = "a kernel's write", [BY_READ] = "a kernel's read",
};

static const char *const KERNELS[] = { "ls_probe_copy" };

/* One GPU, opened when the first pair needs it. */
typedef struct {
    bool tried, open;
    char why_not[300];   /* it could not be opened */
    ls_device *device;
    ls_stream stream;
    unsigned char *area; /* [AREA_BYTES] on the GPU */
    unsigned char *host; /* [AREA_BYTES] pinned */
    void *large;         /* [LS_CUDA_SPEED_BYTES] on the GPU; NULL: it is not to be measured */
} side;

/* Seconds on the monotonic clock. */
static double clock_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static ls_status fill_side(side *s, int ordinal)
{
    void *area = NULL, *host = NULL;
    LS_TRY(ls_device_open_cuda(ordinal, NULL, &s->device));
    LS_TRY(ls_cuda_context_load(s->device->implementation, ls_embedded_cuda_probe, KERNELS, 1));
    LS_TRY(ls_stream_init(&s->stream, s->device));
    LS_TRY(ls_device_alloc(s->device, AREA_BYTES, &area));
    s->area = area;
    LS_TRY(ls_pinned_alloc(s->device, AREA_BYTES, &host));
    s->host = host;
    return LS_OK;
}

/* Between the GPU and the host, if it can be measured: a large area and as much pinned memory are
 * wanted, and what is short of memory goes without. */
static ls_status measure_host(FILE *out, side *s, int ordinal)
{
    ls_cuda_facts facts;
    ls_cuda_speed down, up;
    void *large = NULL, *host = NULL;
    LS_TRY(ls_cuda_facts_read(ordinal, &facts));
    if (facts.is_virtual) return LS_OK;
    ls_status status = ls_device_alloc(s->device, LS_CUDA_SPEED_BYTES, &large);
    if (status == LS_OK) status = ls_pinned_alloc(s->device, LS_CUDA_SPEED_BYTES, &host);
    if (status == LS_ERR_MEMORY) {
        ls_device_release(s->device, large);
        return LS_OK;
    }
    LS_TRY(status);
    LS_TRY(ls_cuda_speed_measure(&s->stream, &(ls_cuda_course){
        .to = host, .from = large, .direction = LS_COPY_TO_HOST }, &down));
    LS_TRY(ls_cuda_speed_measure(&s->stream, &(ls_cuda_course){
        .to = large, .from = host, .direction = LS_COPY_TO_DEVICE }, &up));
    ls_pinned_release(s->device, host);
    s->large = large;
    (void)fprintf(out, "host %d %.9g %.9g %.9g %.9g\n", ordinal, down.gb_per_s, down.us,
                  up.gb_per_s, up.us);
    return LS_OK;
}

static ls_status open_side(FILE *out, side *s, int ordinal)
{
    if (!s->tried) {
        s->tried = true;
        ls_status status = fill_side(s, ordinal);
        if (status == LS_OK) status = measure_host(out, s, ordinal);
        s->open = status == LS_OK;
        if (!s->open) (void)snprintf(s->why_not, sizeof s->why_not, "%s", ls_last_error());
    }
    return s->open ? LS_OK : ls_fail(LS_ERR_DEVICE, "%s", s->why_not);
}

ls_status ls_cuda_probe_settle(ls_stream *stream)
{
    const double deadline = clock_seconds() + PAIR_SECONDS;
    for (;;) {
        bool idle = false;
        LS_TRY(ls_stream_poll(stream, &idle));
        if (idle) return LS_OK;
        if (clock_seconds() > deadline)
            return ls_fail(LS_ERR_TIMEOUT, "not finished after %d s", PAIR_SECONDS);
        (void)nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    }
}

/* The random byte at `place` of what pair and way move. */
static void fill_random(unsigned char area[AREA_BYTES], int pair, int way)
{
    for (uint32_t i = 0; i < AREA_BYTES / 16; i++) {
        uint32_t word[4];
        const uint32_t counter[4] = { i, (uint32_t)pair, (uint32_t)way, 0 };
        const uint32_t key[2] = { 0x6C6F636Bu, 0x73746570u };
        ls_philox(counter, key, word);
        memcpy(area + 16 * (size_t)i, word, sizeof word);
    }
}

/* Put the host area, complemented or not, into the GPU's. */
static ls_status upload(side *s, const unsigned char *area, unsigned char complement)
{
    for (size_t i = 0; i < AREA_BYTES; i++) s->host[i] = (unsigned char)(area[i] ^ complement);
    LS_TRY(ls_copy_to_device(&s->stream, s->area, s->host, AREA_BYTES));
    return ls_cuda_probe_settle(&s->stream);
}

/* Move the spans from one side's area to the other's, by work of `a`. */
static ls_status move(side *a, const unsigned char *from, unsigned char *to, int way)
{
    for (int i = 0; i < SPAN_COUNT; i++) {
        const ls_probe_params params = { .from = from + SPANS[i].begin,
                                         .to = to + SPANS[i].begin,
                                         .bytes = SPANS[i].bytes };
        const ls_cuda_launch_args launch = { .kernel = KERNELS[0],
                                             .grid = { GRID_BLOCKS, 1, 1 },
                                             .block = LS_PROBE_THREADS,
                                             .params = &params,
                                             .param_bytes = sizeof params };
        LS_TRY(way == BY_COPY ? ls_copy_peer(&a->stream, params.to, params.from, SPANS[i].bytes)
                              : ls_cuda_launch(&a->stream, &launch));
    }
    return ls_cuda_probe_settle(&a->stream);
}

static bool is_in_a_span(size_t place)
{
    for (int i = 0; i < SPAN_COUNT; i++)
        if (place >= SPANS[i].begin && place - SPANS[i].begin < SPANS[i].bytes) return true;
    return false;
}

/* Read the target back and compare it with what it should be now. */
static ls_status verify(side *target, const unsigned char *area, int way)
{
    LS_TRY(ls_copy_to_host(&target->stream, target->host, target->area, AREA_BYTES));
    LS_TRY(ls_cuda_probe_settle(&target->stream));
    size_t wrong = 0, first = 0;
    for (size_t i = AREA_BYTES; i-- > 0;) {
        const unsigned char want = (unsigned char)(area[i] ^ (is_in_a_span(i) ? 0x00 : 0xFF));
        if (target->host[i] == want) continue;
        wrong++;
        first = i;
    }
    if (wrong == 0) return LS_OK;
    return ls_fail(LS_ERR_DEVICE, "%s: %zu of %d bytes arrived wrong, the first at %zu",
                   WAY_NAME[way], wrong, AREA_BYTES, first);
}

static ls_status probe_way(side *a, side *b, int pair, int way)
{
    unsigned char area[AREA_BYTES];
    side *source = way == BY_READ ? b : a, *target = way == BY_READ ? a : b;
    fill_random(area, pair, way);
    LS_TRY(upload(source, area, 0x00));
    LS_TRY(upload(target, area, 0xFF));
    LS_TRY(move(a, source->area, target->area, way));
    return verify(target, area, way);
}

/* What the driver says of the pair. */
static ls_status ask_driver(const ls_cuda_context *a, const ls_cuda_context *b, int *rank)
{
    int can = 0, supported = 0;
    LS_TRY(LS_CUDA(a->driver, a->name, device_can_access_peer, (&can, a->device, b->device),
                   "asking about access to %s", b->name));
    if (can == 0) return ls_fail(LS_ERR_DEVICE, "cuDeviceCanAccessPeer says no");
    LS_TRY(LS_CUDA(a->driver, a->name, device_p2p_attribute,
                   (&supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, a->device, b->device),
                   "asking whether access to %s is supported", b->name));
    if (supported == 0) return ls_fail(LS_ERR_DEVICE, "the driver does not support access");
    return LS_CUDA(a->driver, a->name, device_p2p_attribute,
                   (rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, a->device, b->device),
                   "asking how fast the link to %s is", b->name);
}

/* Enable a's access to b, making room for it where their number is limited. */
static ls_status enable(FILE *out, ls_cuda_context *a, ls_cuda_context *b)
{
    const int partners = ls_cuda_context_partner_count(a);
    LS_TRY(ls_cuda_context_enter(a));
    if (a->driver->ctx_enable_peer_access(b->handle, 0) == CUDA_ERROR_TOO_MANY_PEERS) {
        (void)fprintf(out, "limit %d %d\n", a->ordinal, partners);
        ls_cuda_context_unreach_all(a);
    }
    return ls_cuda_context_reach(a, b); /* enabled already is as good */
}

/* How fast the pair is; nothing where it is not to be measured. */
static ls_status measure_pair(side *a, side *b, double measure_until, ls_cuda_speed *out)
{
    *out = (ls_cuda_speed){ 0 };
    if (a->large == NULL || b->large == NULL || clock_seconds() > measure_until) return LS_OK;
    return ls_cuda_speed_measure(&a->stream, &(ls_cuda_course){
        .to = b->large, .from = a->large, .direction = LS_COPY_PEER }, out);
}

static ls_status probe_pair(FILE *out, side *a, side *b, int pair, int *rank)
{
    ls_cuda_context *from = a->device->implementation, *to = b->device->implementation;
    LS_TRY(ask_driver(from, to, rank));
    LS_TRY(enable(out, from, to));
    for (int way = 0; way < WAY_COUNT; way++) LS_TRY(probe_way(a, b, pair, way));
    return LS_OK;
}

/* Can this process go on with it? A copy that hangs, or a fault, leaves a context useless. */
static bool is_useless(side *s)
{
    bool idle = false;
    return s->open && (ls_stream_poll(&s->stream, &idle) != LS_OK || !idle);
}

static int probe_pairs(FILE *out, side *all, const int *ordinal, int count, int first)
{
    const double measure_until = clock_seconds() + MEASURE_SECONDS;
    int last_from = -1;
    for (int pair = first; pair < ls_cuda_probe_pair_count(count); pair++) {
        int from = 0, to = 0, rank = 0;
        ls_cuda_probe_pair_at(pair, count, &from, &to);
        if (last_from >= 0 && last_from != from && all[last_from].open)
            ls_cuda_context_unreach_all(all[last_from].device->implementation);
        last_from = from;
        (void)fprintf(out, "try %d\n", pair);
        side *a = &all[from], *b = &all[to];
        ls_cuda_speed speed = { 0 };
        ls_status status = open_side(out, a, ordinal[from]);
        if (status == LS_OK) status = open_side(out, b, ordinal[to]);
        if (status == LS_OK) status = probe_pair(out, a, b, pair, &rank);
        if (status == LS_OK) status = measure_pair(a, b, measure_until, &speed);
        if (status == LS_OK)
            (void)fprintf(out, "yes %d %d %.9g %.9g\n", pair, rank, speed.gb_per_s, speed.us);
        else (void)fprintf(out, "no %d %.300s\n", pair, ls_last_error());
        if (status != LS_OK && (is_useless(a) || is_useless(b))) return 1;
    }
    (void)fprintf(out, "end\n");
    return 0;
}

/* The GPUs of a request's list that there are; LS_CUDA_GPU_MAX of them at most. */
static int list_gpus(const char *list, int there, int ordinal[LS_CUDA_GPU_MAX])
{
    int count = 0;
    if (strcmp(list, "all") == 0) {
        for (; count < there && count < LS_CUDA_GPU_MAX; count++) ordinal[count] = count;
        return count;
    }
    while (*list != '\0' && count < LS_CUDA_GPU_MAX) {
        char *end = NULL;
        const long value = strtol(list, &end, 10);
        if (end == list) break;
        if (value >= 0 && value < there) ordinal[count++] = (int)value;
        list = *end == ',' ? end + 1 : end;
    }
    return count;
}

int ls_cuda_probe_run(const char *request)
{
    char *at = NULL;
    const int descriptor = (int)strtol(request, &at, 10);
    const int first = (int)strtol(at, &at, 10);
    FILE *out = fdopen(descriptor, "w");
    if (out == NULL || *at != ' ') return 2;
    (void)setvbuf(out, NULL, _IOLBF, LS_CUDA_PROBE_LINE_BYTES);
    const char *why = "";
    int ordinal[LS_CUDA_GPU_MAX];
    const int count = list_gpus(at + 1, ls_cuda_usable_count(&why), ordinal);
    (void)fprintf(out, "gpus");
    for (int i = 0; i < count; i++) (void)fprintf(out, " %d", ordinal[i]);
    (void)fprintf(out, "\n");
    side *all = calloc((size_t)count + 1, sizeof *all);
    if (all == NULL) return 1;
    /* One GPU is of interest only where somebody names it, to hear of its way to the host. */
    if (count == 1 && strcmp(at + 1, "all") != 0 && open_side(out, &all[0], ordinal[0]) != LS_OK)
        return 1;
    /* What was opened goes with the process: releasing it could wait for what hangs. */
    return probe_pairs(out, all, ordinal, count, first);
}
