/* SPDX-License-Identifier: MIT */
/* test_device.c -- host devices, and the checks of every device.
 *
 * Asserts of the device layer (a leak at close, a foreign pointer at release) are seen in a child
 * process, where assertions are compiled in.
 */
#include "support/test.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cuda.h"
#include "device/device.h"
#include "support/ranks.h"

static ls_device *open_host(int ordinal)
{
    ls_device *device = NULL;
    assert_int_equal(ls_device_open_host(ordinal, 1, false, NULL, &device), LS_OK);
    return device;
}

static void *alloc(ls_device *device, size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(ls_device_alloc(device, bytes, &memory), LS_OK);
    assert_non_null(memory);
    return memory;
}

static void stream_init(ls_stream *stream, ls_device *device)
{
    assert_int_equal(ls_stream_init(stream, device), LS_OK);
}

static void event_init(ls_event *event, ls_device *device)
{
    assert_int_equal(ls_event_init(event, device), LS_OK);
}

/* -- memory ---------------------------------------------------------------------------------- */

static void test_a_host_device_says_what_it_is(void **state)
{
    (void)state;
    ls_device *device = NULL;
    assert_int_equal(ls_device_open_host(3, 2, false, NULL, &device), LS_OK);
    assert_string_equal(device->name, "host:3");
    assert_int_equal(device->kind, LS_DEVICE_HOST);
    assert_int_equal(device->ordinal, 3);
    assert_int_equal(ls_pool_thread_count(device->pool), 2);
    assert_null(device->kernels);
    ls_device_close(device);
    ls_device_close(NULL);
}

static void test_memory_is_aligned_and_filled_with_nans(void **state)
{
    (void)state;
    ls_device *device = open_host(0);
    static const size_t bytes[] = { 0, 1, 4, 127, 128, 129, 100000 };
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        float *memory = alloc(device, bytes[i]);
        assert_int_equal((uintptr_t)memory % 128, 0);
        for (size_t k = 0; k < bytes[i] / sizeof *memory; k++) assert_true(isnan(memory[k]));
        ls_device_release(device, memory);
    }
    void *pinned = NULL;
    assert_int_equal(ls_pinned_alloc(device, 100, &pinned), LS_OK);
    assert_int_equal((uintptr_t)pinned % 128, 0);
    ls_pinned_release(device, pinned);
    ls_pinned_release(device, NULL);
    ls_device_close(device);
}

/* What Linux says of the mapping that holds `address`, in "VmFlags" of /proc/self/smaps: "" if it
 * says nothing. */
static void read_flags(uintptr_t address, char flags[200])
{
    char line[400];
    bool inside = false;
    flags[0] = '\0';
    FILE *maps = fopen("/proc/self/smaps", "r");
    if (maps == NULL) return;
    while (fgets(line, sizeof line, maps) != NULL) {
        uintptr_t begin, end;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
            inside = begin <= address && address < end;
        }
        if (inside && sscanf(line, "VmFlags: %199[^\n]", flags) == 1) break;
    }
    fclose(maps);
}

static void test_large_memory_begins_on_a_huge_page_and_is_advised_to_be_such(void **state)
{
    (void)state;
    enum { HUGE_BYTES = 2 << 20 };
    ls_device *device = open_host(0);
    for (size_t bytes = HUGE_BYTES; bytes <= 3 * HUGE_BYTES; bytes += HUGE_BYTES / 2) {
        float *memory = alloc(device, bytes);
        assert_int_equal((uintptr_t)memory % HUGE_BYTES, 0);
        for (size_t k = 0; k < bytes / sizeof *memory; k++) assert_true(isnan(memory[k]));
        char flags[200];
        const size_t whole = bytes / HUGE_BYTES * HUGE_BYTES;
        read_flags((uintptr_t)memory + whole - 1, flags);
        if (flags[0] != '\0' && access("/sys/kernel/mm/transparent_hugepage", F_OK) == 0) {
            assert_non_null(strstr(flags, "hg"));
        }
        ls_device_release(device, memory);
    }
    ls_device_close(device);
}

static void test_a_device_counts_its_bytes_and_their_peak(void **state)
{
    (void)state;
    ls_device *device = open_host(0), *other = open_host(1);
    void *a = alloc(device, 1000), *b = alloc(device, 500);
    assert_int_equal(atomic_load(&device->allocated_bytes), 1500);
    ls_device_release(device, a);
    assert_int_equal(atomic_load(&device->allocated_bytes), 500);
    a = alloc(device, 200);
    assert_int_equal(atomic_load(&device->allocated_bytes), 700);
    assert_int_equal(atomic_load(&device->peak_bytes), 1500);
    ls_device_release(device, b);
    ls_device_release(device, a);
    ls_device_release(device, NULL);
    assert_int_equal(atomic_load(&device->allocated_bytes), 0);
    assert_int_equal(atomic_load(&device->peak_bytes), 1500);
    assert_int_equal(atomic_load(&other->peak_bytes), 0);
    ls_device_close(device);
    ls_device_close(other);
}

static void test_more_memory_than_there_is_is_refused_with_both_numbers(void **state)
{
    (void)state;
    ls_device *device = open_host(2);
    void *held = alloc(device, 1000);
    static const size_t bytes[] = { SIZE_MAX, SIZE_MAX - 500, SIZE_MAX / 2 };
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        char text[100];
        void *memory = device;
        assert_int_equal(ls_device_alloc(device, bytes[i], &memory), LS_ERR_MEMORY);
        assert_null(memory);
        (void)snprintf(text, sizeof text, "host:2: %zu bytes asked, 1000 in use, ", bytes[i]);
        assert_memory_equal(ls_last_error(), text, strlen(text));
    }
    assert_int_equal(atomic_load(&device->allocated_bytes), 1000);
    ls_device_release(device, held);
    ls_device_close(device);
}

/* -- streams, events, copies ------------------------------------------------------------------ */

static void test_copies_move_bytes_and_zero_bytes_need_no_memory(void **state)
{
    (void)state;
    ls_device *a = open_host(0), *b = open_host(1);
    ls_stream stream;
    stream_init(&stream, a);
    unsigned char *x = alloc(a, 64), *y = alloc(a, 64), *z = alloc(b, 64);
    unsigned char in[64], out[64];
    for (unsigned char i = 0; i < 64; i++) in[i] = i;
    assert_int_equal(ls_copy_to_device(&stream, x, in, 64), LS_OK);
    assert_int_equal(ls_copy_within(&stream, y + 1, x, 63), LS_OK);
    assert_int_equal(ls_fill(&stream, y, 7, 1), LS_OK);
    assert_int_equal(ls_copy_peer(&stream, z, y, 64), LS_OK);
    assert_int_equal(ls_copy_to_host(&stream, out, z, 64), LS_OK);
    assert_int_equal(out[0], 7);
    assert_memory_equal(out + 1, in, 63);
    assert_int_equal(ls_copy_to_device(&stream, NULL, NULL, 0), LS_OK);
    assert_int_equal(ls_copy_peer(&stream, x, x, 0), LS_OK);
    assert_int_equal(ls_fill(&stream, NULL, 1, 0), LS_OK);
    ls_device_release(a, x);
    ls_device_release(a, y);
    ls_device_release(b, z);
    ls_stream_free(&stream);
    ls_stream_free(&stream);
    ls_device_close(a);
    ls_device_close(b);
}

/* Such a copy is the threads': three have six parts of it. */
static void test_a_large_copy_to_a_device_of_several_threads_arrives_whole(void **state)
{
    (void)state;
    ls_device *device = NULL;
    assert_int_equal(ls_device_open_host(0, 3, false, NULL, &device), LS_OK);
    ls_stream stream;
    stream_init(&stream, device);
    const size_t most = 64 << 10;
    unsigned char *to = alloc(device, most + 1);
    void *from_;
    assert_int_equal(ls_pinned_alloc(device, most, &from_), LS_OK);
    unsigned char *from = from_;
    for (size_t i = 0; i < most; i++) from[i] = (unsigned char)(i * 37 + i / 251);
    for (size_t bytes = most - 100; bytes <= most; bytes++) {
        memset(to, 0xA5, most + 1);
        assert_int_equal(ls_copy_to_device(&stream, to, from, bytes), LS_OK);
        assert_memory_equal(to, from, bytes);
        assert_int_equal(to[bytes], 0xA5);
    }
    ls_pinned_release(device, from);
    ls_device_release(device, to);
    ls_stream_free(&stream);
    ls_device_close(device);
}

static void test_a_copy_from_or_to_nowhere_or_onto_itself_is_an_error(void **state)
{
    (void)state;
    ls_device *device = open_host(0);
    ls_stream stream;
    stream_init(&stream, device);
    unsigned char *x = alloc(device, 64);
    assert_int_equal(ls_copy_to_device(&stream, x, NULL, 4), LS_ERR_DEVICE);
    assert_string_equal(ls_last_error(),
                        "host:0: copy to the device of 4 bytes: the source is NULL");
    assert_int_equal(ls_copy_peer(&stream, NULL, x, 4), LS_ERR_DEVICE);
    assert_string_equal(ls_last_error(),
                        "host:0: copy to another device of 4 bytes: the target is NULL");
    assert_int_equal(ls_fill(&stream, NULL, 0, 4), LS_ERR_DEVICE);
    assert_int_equal(ls_copy_within(&stream, x, x, 1), LS_ERR_DEVICE);
    assert_int_equal(ls_copy_within(&stream, x, x + 31, 32), LS_ERR_DEVICE);
    assert_int_equal(ls_copy_within(&stream, x + 31, x, 32), LS_ERR_DEVICE);
    assert_string_equal(ls_last_error(), "host:0: copy within the device of 32 bytes: source "
                                         "and target overlap");
    memset(x, 1, 64);
    assert_int_equal(ls_copy_within(&stream, x + 32, x, 32), LS_OK);
    assert_int_equal(ls_copy_within(&stream, x, x + 32, 32), LS_OK);
    ls_device_release(device, x);
    ls_stream_free(&stream);
    ls_device_close(device);
}

static void test_waiting_for_an_event_that_was_never_recorded_is_an_error(void **state)
{
    (void)state;
    ls_device *a = open_host(0), *b = open_host(1);
    ls_stream sa, sb;
    ls_event event;
    stream_init(&sa, a);
    stream_init(&sb, b);
    event_init(&event, a);
    assert_int_equal(ls_stream_wait(&sb, &event), LS_ERR_DEVICE);
    assert_string_equal(ls_last_error(),
                        "a stream of host:1 waits for an event of host:0 that was never recorded");
    assert_int_equal(ls_event_record(&event, &sb), LS_ERR_DEVICE); /* another device's stream */
    assert_string_equal(ls_last_error(),
                        "an event of host:0 cannot be recorded on a stream of host:1");
    assert_int_equal(ls_stream_wait(&sb, &event), LS_ERR_DEVICE);
    assert_int_equal(ls_event_record(&event, &sa), LS_OK);
    assert_int_equal(ls_stream_wait(&sb, &event), LS_OK);
    assert_int_equal(atomic_load(&event.recorded), 1);
    ls_event_free(&event);
    ls_event_free(&event);
    ls_stream_free(&sa);
    ls_stream_free(&sb);
    ls_device_close(a);
    ls_device_close(b);
}

static void test_a_host_stream_is_idle_as_soon_as_work_was_enqueued(void **state)
{
    (void)state;
    ls_device *device = open_host(0);
    ls_stream stream;
    ls_event event;
    bool idle = false, complete = false;
    stream_init(&stream, device);
    event_init(&event, device);
    assert_int_equal(ls_stream_poll(&stream, &idle), LS_OK);
    assert_true(idle);
    assert_int_equal(ls_event_record(&event, &stream), LS_OK);
    assert_int_equal(ls_event_poll(&event, &complete), LS_OK);
    assert_true(complete);
    assert_int_equal(ls_stream_drain(&stream, NULL, "nothing"), LS_OK);
    ls_event_free(&event);
    ls_stream_free(&stream);
    ls_device_close(device);
}

typedef struct {
    ls_device *device[2];
    ls_stream stream[2];
    ls_event event;
    unsigned char *from, *to;
    bool same;             /* what rank 1 saw */
    atomic_bool came, left; /* rank 1 */
} handover;

/* Rank 0 copies and records; rank 1 sees the count rise, waits for the event, and reads. The only
 * edge from 0 to 1 is the event's. Both live from the copy to the read (`came`, `left`), and the
 * read is a loop: the thread sanitizer does not see a memcmp that the compiler expands. */
static ls_status hand_over(int rank, void *arg)
{
    handover *h = arg;
    if (rank == 0) {
        while (!atomic_load(&h->came)) (void)sched_yield();
        ls_status status = ls_copy_peer(&h->stream[0], h->to, h->from, 64);
        if (status == LS_OK) status = ls_event_record(&h->event, &h->stream[0]);
        while (status == LS_OK && !atomic_load(&h->left)) (void)sched_yield();
        return status;
    }
    atomic_store(&h->came, true);
    while (atomic_load_explicit(&h->event.recorded, memory_order_relaxed) == 0)
        (void)sched_yield();
    const ls_status status = ls_stream_wait(&h->stream[1], &h->event);
    h->same = status == LS_OK;
    for (int i = 0; status == LS_OK && i < 64; i++) h->same = h->same && h->to[i] == h->from[i];
    atomic_store(&h->left, true);
    return status;
}

static void test_who_waits_for_an_event_sees_what_preceded_it(void **state)
{
    (void)state;
    handover h = { .device = { open_host(0), open_host(1) } };
    for (int i = 0; i < 2; i++) stream_init(&h.stream[i], h.device[i]);
    h.from = alloc(h.device[0], 64);
    h.to = alloc(h.device[1], 64);
    for (int i = 0; i < 100; i++) {
        event_init(&h.event, h.device[0]);
        memset(h.from, i + 1, 64);
        atomic_store(&h.came, false);
        atomic_store(&h.left, false);
        assert_int_equal(run_ranks(2, hand_over, &h, NULL), LS_OK);
        assert_true(h.same);
        ls_event_free(&h.event);
    }
    ls_device_release(h.device[0], h.from);
    ls_device_release(h.device[1], h.to);
    for (int i = 0; i < 2; i++) {
        ls_stream_free(&h.stream[i]);
        ls_device_close(h.device[i]);
    }
}

static void test_copies_and_fills_are_progress_of_the_group(void **state)
{
    (void)state;
    atomic_ulong progress;
    atomic_init(&progress, 0);
    ls_device *device = NULL;
    assert_int_equal(ls_device_open_host(0, 1, false, &progress, &device), LS_OK);
    ls_stream stream;
    stream_init(&stream, device);
    unsigned char *x = alloc(device, 8);
    assert_int_equal(atomic_load(&progress), 0);
    assert_int_equal(ls_fill(&stream, x, 0, 8), LS_OK);
    assert_int_equal(ls_copy_within(&stream, x, x + 4, 4), LS_OK);
    ls_device_progress(device);
    assert_int_equal(atomic_load(&progress), 3);
    ls_device_release(device, x);
    ls_stream_free(&stream);
    ls_device_close(device);
}

/* -- bugs of ours ----------------------------------------------------------------------------- */

static void leak_memory(ls_device *device)
{
    void *memory = NULL;
    if (ls_device_alloc(device, 8, &memory) != LS_OK) _exit(1);
    ls_device_close(device);
}

static void leak_pinned(ls_device *device)
{
    void *memory = NULL;
    if (ls_pinned_alloc(device, 8, &memory) != LS_OK) _exit(1);
    ls_device_close(device);
}

static void leak_stream(ls_device *device)
{
    ls_stream stream;
    if (ls_stream_init(&stream, device) != LS_OK) _exit(1);
    ls_device_close(device);
}

static void leak_event(ls_device *device)
{
    ls_event event;
    if (ls_event_init(&event, device) != LS_OK) _exit(1);
    ls_device_close(device);
}

static void release_foreign(ls_device *device)
{
    int on_the_stack = 0;
    ls_device_release(device, &on_the_stack);
}

/* How the child that calls fn(device) ends. Its stderr, where assert speaks, is closed. */
static int signal_of(void (*fn)(ls_device *))
{
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(STDERR_FILENO);
        ls_device *device = NULL;
        if (ls_device_open_host(0, 1, false, NULL, &device) != LS_OK) _exit(1);
        fn(device);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_closing_a_device_asserts_that_nothing_is_left_open(void **state)
{
    (void)state;
    assert_int_equal(signal_of(ls_device_close), 0);
    assert_int_equal(signal_of(leak_memory), SIGABRT);
    assert_int_equal(signal_of(leak_pinned), SIGABRT);
    assert_int_equal(signal_of(leak_stream), SIGABRT);
    assert_int_equal(signal_of(leak_event), SIGABRT);
}

static void test_releasing_what_is_not_of_the_device_asserts(void **state)
{
    (void)state;
    assert_int_equal(signal_of(release_foreign), SIGABRT);
}

/* -- without CUDA ------------------------------------------------------------------------------ */

static void test_a_build_without_cuda_has_no_gpu_and_says_why(void **state)
{
    (void)state;
    const char *why = NULL;
    ls_device *device = NULL;
    if (ls_cuda_usable_count(&why) > 0) skip();
    assert_non_null(why);
    assert_int_equal(ls_device_open_cuda(0, NULL, &device), LS_ERR_DEVICE);
    assert_null(device);
    assert_non_null(strstr(ls_last_error(), why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_host_device_says_what_it_is),
        cmocka_unit_test(test_memory_is_aligned_and_filled_with_nans),
        cmocka_unit_test(test_large_memory_begins_on_a_huge_page_and_is_advised_to_be_such),
        cmocka_unit_test(test_a_device_counts_its_bytes_and_their_peak),
        cmocka_unit_test(test_more_memory_than_there_is_is_refused_with_both_numbers),
        cmocka_unit_test(test_copies_move_bytes_and_zero_bytes_need_no_memory),
        cmocka_unit_test(test_a_large_copy_to_a_device_of_several_threads_arrives_whole),
        cmocka_unit_test(test_a_copy_from_or_to_nowhere_or_onto_itself_is_an_error),
        cmocka_unit_test(test_waiting_for_an_event_that_was_never_recorded_is_an_error),
        cmocka_unit_test(test_a_host_stream_is_idle_as_soon_as_work_was_enqueued),
        cmocka_unit_test(test_who_waits_for_an_event_sees_what_preceded_it),
        cmocka_unit_test(test_copies_and_fills_are_progress_of_the_group),
        cmocka_unit_test(test_closing_a_device_asserts_that_nothing_is_left_open),
        cmocka_unit_test(test_releasing_what_is_not_of_the_device_asserts),
        cmocka_unit_test(test_a_build_without_cuda_has_no_gpu_and_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
