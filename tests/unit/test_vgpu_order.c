/* SPDX-License-Identifier: MIT */
/* test_vgpu_order.c -- missing waits are reported, whatever the timing; correct programs are not.
 *
 * First driver_order.c by itself, against the definition: random programs, whose operations either
 * come one before the other by a path of edges or do not. Then through the driver, with copies,
 * fills and kernels; then what its trace says.
 */
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>

#include "support/fresh_process.h"
#include "support/virtual_machine.h"
#include "vgpu/driver_order.h"

/* -- against the definition -------------------------------------------------------------------- */

enum { STREAMS = 4, OPERATIONS = 24, EVENTS = 4, BYTES = 32, PROGRAMS = 3000 };

/* An operation of a random program. edge[i]: it comes directly after operation i. */
typedef struct {
    int stream;
    uint32_t sequence;
    bool touches, write;
    size_t begin, end;
    bool after[OPERATIONS]; /* transitive */
    vgpu_action *action;
} node;

typedef struct {
    uint64_t random;
    node nodes[OPERATIONS];
    int count;
    int last[STREAMS];       /* newest operation of the stream; -1: none */
    bool host[OPERATIONS];   /* what the host knows done */
    bool pending[STREAMS][OPERATIONS]; /* comes before what is next in the stream */
    bool event[EVENTS][OPERATIONS];
    vgpu_clock *clock[EVENTS];
    bool recorded[EVENTS];
    vgpu_order *order;
    char first_report[512];
} program;

static unsigned pick(program *p, unsigned below)
{
    p->random = p->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(p->random >> 33) % below;
}

static void keep_first(void *receiver, const char *text)
{
    program *p = receiver;
    if (p->first_report[0] == '\0')
        snprintf(p->first_report, sizeof p->first_report, "%s", text);
}

static void join(bool *into, const bool *from)
{
    for (int i = 0; i < OPERATIONS; i++) into[i] |= from[i];
}

/* What comes before anything that is enqueued on the stream next. */
static void history_of(const program *p, int stream, bool *out)
{
    memset(out, 0, OPERATIONS * sizeof *out);
    join(out, p->pending[stream]);
    if (p->last[stream] < 0) return;
    join(out, p->nodes[p->last[stream]].after);
    out[p->last[stream]] = true;
}

static void add_operation(program *p, vgpu_history *history)
{
    node *n = &p->nodes[p->count];
    n->stream = (int)pick(p, STREAMS);
    history_of(p, n->stream, n->after);
    join(n->after, p->host);
    n->begin = pick(p, BYTES);
    n->end = n->begin + 1 + pick(p, 8);
    n->write = pick(p, 3) == 0;
    n->sequence = vgpu_order_next(p->order, n->stream);
    n->action = vgpu_order_log(p->order, n->stream, "an operation");
    vgpu_order_touch(n->action, history, n->begin, n->end, n->write);
    p->last[n->stream] = p->count++;
    if (pick(p, 2) == 0) { /* others are known later, in another order */
        vgpu_order_known(p->order, n->action);
        n->action = NULL;
    }
}

static void add_edge(program *p)
{
    const int stream = (int)pick(p, STREAMS), e = (int)pick(p, EVENTS);
    switch (pick(p, 8)) {
    case 0: /* the host sees the stream idle */
        history_of(p, stream, p->event[0]);
        join(p->host, p->event[0]);
        p->recorded[0] = false;
        vgpu_order_seen_stream(p->order, stream);
        break;
    case 1: case 2: case 3:
        history_of(p, stream, p->event[e]);
        vgpu_clock_free(p->clock[e]);
        p->clock[e] = vgpu_order_record(p->order, stream);
        p->recorded[e] = true;
        break;
    default:
        if (!p->recorded[e]) break;
        join(p->pending[stream], p->event[e]);
        vgpu_order_wait(p->order, stream, p->clock[e]);
        break;
    }
}

/* The first operation that has no order with an earlier one; NULL: there is none. */
static const node *first_without_order(const program *p)
{
    for (int y = 0; y < p->count; y++)
        for (int x = 0; x < y; x++) {
            const node *a = &p->nodes[x], *b = &p->nodes[y];
            const bool meet = a->begin < b->end && b->begin < a->end && (a->write || b->write);
            if (meet && !b->after[x]) return b;
        }
    return NULL;
}

static void run_program(program *p, uint64_t seed)
{
    *p = (program){ .random = seed };
    for (int s = 0; s < STREAMS; s++) p->last[s] = -1;
    p->order = vgpu_order_create(keep_first, p);
    vgpu_history *history = vgpu_history_create(0x1000);
    for (int s = 0; s < STREAMS; s++) vgpu_order_open(p->order, s, s / 2);
    const unsigned length = 2 + pick(p, OPERATIONS - 2);
    while (p->count < (int)length) {
        add_operation(p, history);
        for (unsigned edges = pick(p, 16); edges > 0; edges--) add_edge(p);
    }
    for (int i = p->count - 1; i >= 0; i--)
        if (p->nodes[i].action != NULL) vgpu_order_known(p->order, p->nodes[i].action);
    vgpu_history_release(p->order, history);
    for (int e = 0; e < EVENTS; e++) vgpu_clock_free(p->clock[e]);
    vgpu_order_destroy(p->order);
}

static void test_what_is_reported_first_is_what_the_definition_says(void **state)
{
    (void)state;
    static program p;
    char expected[64];
    int without = 0;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        run_program(&p, seed);
        const node *n = first_without_order(&p);
        expected[0] = '\0';
        if (n != NULL)
            snprintf(expected, sizeof expected, "no order: gpu%d stream %d #%u ", n->stream / 2,
                     n->stream, n->sequence);
        without += n != NULL;
        if ((n == NULL) != (p.first_report[0] == '\0') ||
            strncmp(p.first_report, expected, strlen(expected)) != 0)
            fail_msg("seed %d: expected \"%s\", reported \"%s\"", (int)seed, expected,
                     p.first_report);
    }
    print_message("%d of %d programs lack an order\n", without, PROGRAMS);
    assert_true(without > PROGRAMS / 4 && without < PROGRAMS * 3 / 4);
}

/* -- through the driver ------------------------------------------------------------------------ */

/* A pipeline as a ring's step has it: a kernel of device 0 makes data, its second stream copies
 * them to a slot of device 1, a stream there consumes them; then the slot is used again. */
typedef struct {
    bool wait_for_kernel, wait_for_copy, wait_for_slot;
} waits;

static CUresult run_ring_step(waits w)
{
    enum { N = 64 };
    const CUdeviceptr data = new_memory(N * 4);
    const CUmodule m0 = load();
    const CUstream compute = new_stream(), out = new_stream();
    const CUevent made = new_event(), full = new_event();
    make_current(1);
    const CUdeviceptr slot = new_memory(N * 4), result = new_memory(N * 4);
    const CUmodule m1 = load();
    const CUfunction copy = function_of(m1, "copy");
    const CUstream in = new_stream();
    const CUevent emptied = new_event();
    unsigned *host = new_pinned(N);
    OK(cu.cuMemsetD8Async(slot, 0, N * 4, in)); /* both, or the first report may be another */
    OK(finish(in));
    make_current(0);
    OK(cu.cuMemsetD8Async(data, 0, N * 4, compute));
    OK(finish(compute));
    const CUfunction fill = function_of(m0, "fill");
    CUresult r = CUDA_SUCCESS;
    for (unsigned t = 0; t < 3 && r == CUDA_SUCCESS; t++) {
        make_current(0);
        if (t > 0) r = cu.cuStreamWaitEvent(compute, full, 0); /* data are read out */
        if (r == CUDA_SUCCESS) r = launch_fill(fill, compute, data, t, N);
        if (r == CUDA_SUCCESS) r = cu.cuEventRecord(made, compute);
        if (r == CUDA_SUCCESS && w.wait_for_kernel) r = cu.cuStreamWaitEvent(out, made, 0);
        if (r == CUDA_SUCCESS && w.wait_for_slot && t > 0)
            r = cu.cuStreamWaitEvent(out, emptied, 0);
        if (r == CUDA_SUCCESS)
            r = cu.cuMemcpyPeerAsync(slot, context[1], data, context[0], N * 4, out);
        if (r == CUDA_SUCCESS) r = cu.cuEventRecord(full, out);
        if (r != CUDA_SUCCESS) break;
        make_current(1);
        if (w.wait_for_copy) r = cu.cuStreamWaitEvent(in, full, 0);
        if (r == CUDA_SUCCESS) r = launch_copy(copy, in, result, slot, N);
        if (r == CUDA_SUCCESS) r = cu.cuEventRecord(emptied, in);
        if (r == CUDA_SUCCESS) r = cu.cuMemcpyDtoHAsync_v2(host, result, N * 4, in);
    }
    make_current(1);
    if (r == CUDA_SUCCESS) r = finish(in);
    make_current(0);
    if (r == CUDA_SUCCESS) r = finish(out);
    if (r == CUDA_SUCCESS) r = finish(compute);
    if (r == CUDA_SUCCESS)
        for (unsigned i = 0; i < N; i++) assert_int_equal(host[i], 2 + i);
    make_current(1);
    if (r == CUDA_SUCCESS) OK(cu.cuMemFreeHost(host));
    make_current(0);
    return r;
}

static void open_with_seed(int seed)
{
    char text[32];
    snprintf(text, sizeof text, "SEED=%d", seed);
    OPEN("DEVICES=2", "JITTER=300", text);
}

static void test_a_ring_step_with_all_its_waits_is_right(void **state)
{
    (void)state;
    for (int seed = 1; seed <= 3; seed++) {
        open_with_seed(seed);
        OK(run_ring_step((waits){ true, true, true }));
        close_driver();
    }
}

/* A thread sanitizer sees the race of such a program itself, and ends the test. */
static void leave_out_under_a_thread_sanitizer(void)
{
#ifdef __SANITIZE_THREAD__
    skip();
#endif
}

static void test_each_wait_left_out_of_a_ring_step_is_reported(void **state)
{
    (void)state;
    leave_out_under_a_thread_sanitizer();
    static const struct {
        waits with;
        const char *report[2];
    } rows[] = {
        { { false, true, true }, { "(copy to a peer) reads", "(fill) writes" } },
        { { true, false, true }, { "(copy) reads", "(copy to a peer) writes" } },
        { { true, true, false }, { "(copy to a peer) writes", "(copy) reads" } },
    };
    for (int seed = 1; seed <= 3; seed++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            open_with_seed(seed);
            const CUresult r = run_ring_step(rows[i].with);
            if (r != CUDA_ERROR_ASSERT) fail_msg("seed %d, row %d: %d", seed, (int)i, (int)r);
            assert_true(virtual_driver_traced(&cu, rows[i].report[0]));
            assert_true(virtual_driver_traced(&cu, rows[i].report[1]));
            abandon_driver();
        }
}

static void test_neighbouring_bytes_of_one_allocation_need_no_order(void **state)
{
    (void)state;
    OPEN("DEVICES=1");
    const CUfunction fill = function_of(load(), "fill");
    const CUstream a = new_stream(), b = new_stream();
    const CUdeviceptr p = new_memory(4 * 2000);
    unsigned *host = new_pinned(2000);
    OK(launch_fill(fill, a, p, 0, 1001));
    OK(launch_fill(fill, b, p + 4004, 0, 999));
    OK(cu.cuMemcpyDtoHAsync_v2(host, p, 4004, a));
    OK(cu.cuMemcpyDtoHAsync_v2(host + 1001, p + 4004, 3996, b));
    OK(finish(a));
    OK(finish(b));
    close_driver();
    OPEN("DEVICES=1"); /* one byte in common */
    const CUstream c = new_stream(), d = new_stream();
    const CUdeviceptr q = new_memory(100);
    OK(cu.cuMemsetD8Async(q, 0, 51, c));
    (void)cu.cuMemsetD8Async(q + 50, 0, 50, d);
    assert_int_equal(cu.cuStreamQuery(c), CUDA_ERROR_ASSERT);
    assert_true(virtual_driver_traced(&cu, "writes 1 bytes at 0x700000000032"));
    abandon_driver();
}

static void test_two_readers_need_no_order(void **state)
{
    (void)state;
    OPEN("DEVICES=1");
    const CUstream a = new_stream(), b = new_stream();
    const CUdeviceptr p = new_memory(64);
    unsigned *x = new_pinned(16), *y = new_pinned(16);
    OK(cu.cuMemsetD8Async(p, 0, 64, a));
    OK(finish(a));
    OK(cu.cuMemcpyDtoHAsync_v2(x, p, 64, a));
    OK(cu.cuMemcpyDtoHAsync_v2(y, p, 64, b));
    OK(finish(a));
    OK(finish(b));
    close_driver();
}

static void test_pinned_memory_is_ordered_like_device_memory(void **state)
{
    (void)state;
    for (int right = 0; right <= 1; right++) {
        OPEN("DEVICES=1");
        const CUstream a = new_stream(), b = new_stream();
        const CUevent e = new_event();
        const CUdeviceptr p = new_memory(64), q = new_memory(64);
        unsigned *slot = new_pinned(16);
        OK(cu.cuMemsetD8Async(p, 0, 64, a));
        OK(cu.cuMemcpyDtoHAsync_v2(slot, p, 64, a));
        OK(cu.cuEventRecord(e, a));
        if (right) OK(cu.cuStreamWaitEvent(b, e, 0));
        const CUresult r = cu.cuMemcpyHtoDAsync_v2(q, slot, 64, b);
        assert_int_equal(r == CUDA_SUCCESS ? finish(b) : r,
                         right ? CUDA_SUCCESS : CUDA_ERROR_ASSERT);
        if (right) close_driver();
        else abandon_driver();
    }
}

static void test_a_later_record_does_not_count_for_an_earlier_wait(void **state)
{
    (void)state;
    OPEN("DEVICES=1");
    const CUstream a = new_stream(), b = new_stream();
    const CUevent e = new_event();
    const CUdeviceptr p = new_memory(64);
    OK(cu.cuEventRecord(e, a));
    OK(cu.cuStreamWaitEvent(b, e, 0));
    OK(cu.cuMemsetD8Async(p, 0, 64, a));
    OK(cu.cuEventRecord(e, a));
    (void)cu.cuMemsetD8Async(p, 1, 64, b);
    assert_int_equal(cu.cuStreamQuery(b), CUDA_ERROR_ASSERT);
    abandon_driver();
}

typedef struct {
    CUevent event;
    CUstream stream;
    CUdeviceptr memory;
    bool query_here;
    CUresult result;
} elsewhere;

static void *fill_elsewhere(void *argument)
{
    elsewhere *x = argument;
    x->result = cu.cuCtxSetCurrent(context[0]);
    while (x->query_here && (x->result = cu.cuEventQuery(x->event)) == CUDA_ERROR_NOT_READY)
        pause_briefly();
    if (x->result == CUDA_SUCCESS) x->result = cu.cuMemsetD8Async(x->memory, 1, 64, x->stream);
    if (x->result == CUDA_SUCCESS) x->result = cu.cuStreamQuery(x->stream);
    return NULL;
}

/* Thread 1 fills; thread 2 fills the same bytes on another stream after somebody has seen that the
 * first fill is done. */
static CUresult fill_after(bool see_stream, bool query_here)
{
    pthread_t thread;
    OPEN("DEVICES=1");
    const CUstream a = new_stream();
    elsewhere x = { .event = new_event(), .stream = new_stream(), .memory = new_memory(64),
                    .query_here = query_here };
    OK(cu.cuMemsetD8Async(x.memory, 0, 64, a));
    OK(cu.cuEventRecord(x.event, a));
    if (see_stream) OK(finish(a));
    while (cu.cuEventQuery(x.event) == CUDA_ERROR_NOT_READY) pause_briefly();
    assert_int_equal(pthread_create(&thread, NULL, fill_elsewhere, &x), 0);
    pthread_join(thread, NULL);
    CUresult r = x.result;
    if (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY) r = finish(x.stream);
    if (r == CUDA_SUCCESS) close_driver();
    else abandon_driver();
    return r;
}

static void test_a_drained_stream_is_known_to_all_threads_an_event_to_its_own(void **state)
{
    (void)state;
    OK(fill_after(true, false));
    OK(fill_after(false, true));
    assert_int_equal(fill_after(false, false), CUDA_ERROR_ASSERT);
}

static void test_without_strict_mode_nothing_is_reported(void **state)
{
    (void)state;
    leave_out_under_a_thread_sanitizer();
    OPEN("DEVICES=1", "STRICT=0");
    const CUstream a = new_stream(), b = new_stream();
    const CUdeviceptr p = new_memory(64);
    OK(cu.cuMemsetD8Async(p, 0, 64, a));
    OK(cu.cuMemsetD8Async(p, 1, 64, b));
    OK(finish(a));
    OK(finish(b));
    close_driver();
}

/* -- the trace and the end --------------------------------------------------------------------- */

static void test_the_trace_tells_who_waited_for_what(void **state)
{
    (void)state;
    OPEN("DEVICES=2");
    OK(run_ring_step((waits){ true, true, true }));
    static const char *const lines[] = {
        "gpu0 stream 0 #2 launch fill grid 1x1x1 block 64x1x1 shared 0, ",
        "gpu0 stream 1 #1 wait for gpu0 stream 0 #3 (event 0), ",
        "gpu0 stream 1 #2 copy 256 bytes from gpu0 0x700000000000 to gpu1 0x701000000000, ",
        "gpu0 stream 1 #3 record event 1, ",
        "gpu1 stream 2 #2 wait for gpu0 stream 1 #3 (event 1), ",
        "gpu1 stream 2 #5 copy 256 bytes from gpu1 0x",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!virtual_driver_traced(&cu, lines[i])) fail_msg("not traced: %s", lines[i]);
    close_driver();
}

static int case_leave_things_behind(void)
{
    OPEN("DEVICES=2", "TRACE=-");
    (void)new_memory(64);
    (void)new_memory(64);
    (void)new_event();
    virtual_driver_close(&cu);
    return 0;
}

static void test_the_end_tells_uses_and_what_was_left_behind(void **state)
{
    (void)state;
    char output[4096];
    const char *const settings[] = { NULL };
    assert_int_equal(fresh_run("leave things behind", settings, output, sizeof output), 0);
    assert_non_null(strstr(output, "used: cuMemAlloc_v2 2\n"));
    assert_non_null(strstr(output, "left behind: 2 contexts, 0 streams, 1 events, 0 modules, "
                                   "2 allocations\n"));
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "leave things behind", case_leave_things_behind }, { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_reported_first_is_what_the_definition_says),
        cmocka_unit_test(test_a_ring_step_with_all_its_waits_is_right),
        cmocka_unit_test(test_each_wait_left_out_of_a_ring_step_is_reported),
        cmocka_unit_test(test_neighbouring_bytes_of_one_allocation_need_no_order),
        cmocka_unit_test(test_two_readers_need_no_order),
        cmocka_unit_test(test_pinned_memory_is_ordered_like_device_memory),
        cmocka_unit_test(test_a_later_record_does_not_count_for_an_earlier_wait),
        cmocka_unit_test(test_a_drained_stream_is_known_to_all_threads_an_event_to_its_own),
        cmocka_unit_test(test_without_strict_mode_nothing_is_reported),
        cmocka_unit_test(test_the_trace_tells_who_waited_for_what),
        cmocka_unit_test(test_the_end_tells_uses_and_what_was_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
