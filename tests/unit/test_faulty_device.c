/* SPDX-License-Identifier: MIT */
/* test_faulty_device.c -- the device that fails on demand (support/faulty_device.h) does what tests
 * of failures build on.
 */
#include "support/test.h"

#include <sched.h>

#include "device/device.h"
#include "support/faulty_device.h"
#include "support/ranks.h"

enum { SETUP_CALLS = 4, COPIES = 3, RECORDS = 2 };

/* One of everything, on a faulty device; all is released whatever fails. */
static ls_status use_device(fault *f, unsigned char out[8])
{
    ls_device *device = NULL;
    ls_stream stream = { 0 };
    ls_event event = { 0 };
    void *memory = NULL, *pinned = NULL;
    LS_TRY(faulty_device_open(0, 1, NULL, f, &device));
    ls_status status = ls_stream_init(&stream, device);
    if (status == LS_OK) status = ls_event_init(&event, device);
    if (status == LS_OK) status = ls_device_alloc(device, 16, &memory);
    if (status == LS_OK) status = ls_pinned_alloc(device, 8, &pinned);
    if (status != LS_OK) goto done;
    memset(pinned, 1, 8);
    status = ls_copy_to_device(&stream, memory, pinned, 8);
    if (status == LS_OK) status = ls_event_record(&event, &stream);
    if (status == LS_OK)
        status = ls_copy_within(&stream, (unsigned char *)memory + 8, memory, 8);
    if (status == LS_OK) status = ls_event_record(&event, &stream);
    if (status == LS_OK)
        status = ls_copy_to_host(&stream, out, (unsigned char *)memory + 8, 8);
done:
    ls_pinned_release(device, pinned);
    ls_device_release(device, memory);
    ls_event_free(&event);
    ls_stream_free(&stream);
    ls_device_close(device);
    return status;
}

static void test_a_faulty_device_fails_each_call_in_turn(void **state)
{
    (void)state;
    static const struct {
        fault_kind kind;
        long count;
        ls_status status;
    } row[] = {
        { FAULT_ALLOC, SETUP_CALLS, LS_ERR_MEMORY },
        { FAULT_COPY, COPIES, LS_ERR_DEVICE },
        { FAULT_RECORD, RECORDS, LS_ERR_DEVICE },
    };
    unsigned char out[8];
    fault none = { .kind = FAULT_NONE };
    assert_int_equal(use_device(&none, out), LS_OK);
    assert_int_equal(use_device(NULL, out), LS_OK);
    assert_int_equal(atomic_load(&none.allocs), SETUP_CALLS);
    assert_int_equal(atomic_load(&none.copies), COPIES);
    assert_int_equal(atomic_load(&none.records), RECORDS);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        for (long n = 1; n <= row[i].count + 1; n++) {
            fault f = { .kind = row[i].kind, .n = n };
            const bool strikes = n <= row[i].count;
            assert_int_equal(use_device(&f, out), strikes ? row[i].status : LS_OK);
            assert_int_equal(atomic_load(&f.fired), strikes);
            if (strikes) assert_non_null(strstr(ls_last_error(), "host:0: injected"));
        }
    }
}

static void test_a_faulty_device_flips_one_bit_of_one_copy(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < 80; bit++) {
        for (long n = 1; n <= COPIES; n++) {
            fault f = { .kind = FAULT_FLIP, .n = n, .flip_bit = bit };
            unsigned char out[8], want[8];
            memset(want, 1, 8);
            want[bit % 64 / 8] = (unsigned char)(want[bit % 64 / 8] ^ (1u << bit % 8));
            assert_int_equal(use_device(&f, out), LS_OK);
            assert_memory_equal(out, want, 8);
        }
    }
}

static void test_a_fault_may_count_copies_of_one_direction_only(void **state)
{
    (void)state;
    unsigned char out[8];
    fault f = { .kind = FAULT_COPY, .n = 1, .directions = 1u << LS_COPY_TO_HOST };
    assert_int_equal(use_device(&f, out), LS_ERR_DEVICE);
    assert_int_equal(atomic_load(&f.copies), 1);
    assert_int_equal(atomic_load(&f.records), 2); /* it was the last copy that failed */
}

static void test_a_stalled_copy_holds_up_all_that_waits_for_it(void **state)
{
    (void)state;
    fault f = { .kind = FAULT_STALL_COPY, .n = 2 };
    ls_device *a = NULL, *b = NULL;
    ls_stream sa, sb;
    ls_event event;
    bool idle = false, complete = false;
    ls_group *group = NULL;
    assert_int_equal(ls_group_create(1, 0.01, &group), LS_OK);
    assert_int_equal(faulty_device_open(0, 1, NULL, &f, &a), LS_OK);
    assert_int_equal(faulty_device_open(1, 1, NULL, NULL, &b), LS_OK);
    assert_int_equal(ls_stream_init(&sa, a), LS_OK);
    assert_int_equal(ls_stream_init(&sb, b), LS_OK);
    assert_int_equal(ls_event_init(&event, a), LS_OK);
    void *x = NULL, *y = NULL;
    assert_int_equal(ls_device_alloc(a, 8, &x), LS_OK);
    assert_int_equal(ls_device_alloc(b, 8, &y), LS_OK);
    memset(x, 5, 8);
    for (int copies = 1; copies <= 2; copies++) {
        assert_int_equal(ls_copy_peer(&sa, y, x, 8), LS_OK);
        assert_int_equal(ls_event_record(&event, &sa), LS_OK);
        assert_int_equal(ls_stream_wait(&sb, &event), LS_OK);
        assert_int_equal(ls_event_poll(&event, &complete), LS_OK);
        assert_int_equal(complete, copies == 1);
        assert_int_equal(ls_stream_poll(&sb, &idle), LS_OK);
        assert_int_equal(idle, copies == 1);
    }
    assert_int_equal(ls_stream_drain(&sb, group, "bucket 3"), LS_ERR_TIMEOUT);
    assert_string_equal(ls_last_error(), "bucket 3: host:1 did not finish it in time");
    atomic_store(&f.released, true);
    assert_int_equal(ls_stream_drain(&sa, group, "the rest"), LS_OK);
    assert_int_equal(ls_stream_drain(&sb, group, "the rest"), LS_OK);
    ls_group_abort(group, 0, ls_fail(LS_ERR_IO, "enough"));
    atomic_store(&f.released, false);
    assert_int_equal(ls_stream_drain(&sa, group, "the rest"), LS_ERR_ABORTED);
    ls_device_release(a, x);
    ls_device_release(b, y);
    ls_event_free(&event);
    ls_stream_free(&sa);
    ls_stream_free(&sb);
    ls_device_close(a);
    ls_device_close(b);
    ls_group_destroy(group);
}

static void test_a_plain_host_stream_refuses_to_wait_for_a_stalled_event(void **state)
{
    (void)state;
    fault f = { .kind = FAULT_STALL_COPY, .n = 1 };
    ls_device *a = NULL, *b = NULL;
    ls_stream sa, sb;
    ls_event event;
    assert_int_equal(ls_device_open_host(1, 1, false, NULL, &b), LS_OK);
    assert_int_equal(faulty_device_open(0, 1, NULL, &f, &a), LS_OK);
    assert_int_equal(ls_stream_init(&sa, a), LS_OK);
    assert_int_equal(ls_stream_init(&sb, b), LS_OK);
    assert_int_equal(ls_event_init(&event, a), LS_OK);
    void *x = NULL;
    assert_int_equal(ls_device_alloc(a, 8, &x), LS_OK);
    memset(x, 5, 8);
    assert_int_equal(ls_copy_within(&sa, (unsigned char *)x + 4, x, 4), LS_OK);
    assert_int_equal(ls_event_record(&event, &sa), LS_OK);
    assert_int_equal(ls_stream_wait(&sb, &event), LS_ERR_DEVICE);
    assert_string_equal(ls_last_error(),
                        "a stream of host:1 waits for an event of host:0 that is not complete");
    ls_device_release(a, x);
    ls_event_free(&event);
    ls_stream_free(&sa);
    ls_stream_free(&sb);
    ls_device_close(a);
    ls_device_close(b);
}

/* Rank 0's copy blocks; rank 1 releases it once it has begun. */
static ls_status block_and_release(int rank, void *arg)
{
    fault *f = arg;
    unsigned char out[8];
    if (rank == 0) return use_device(f, out);
    while (!atomic_load(&f->fired)) (void)sched_yield();
    if (atomic_load(&f->copies) != 2) return ls_fail(LS_ERR_VERIFY, "the copy returned");
    atomic_store(&f->released, true);
    return LS_OK;
}

static void test_a_blocked_copy_returns_when_it_is_released(void **state)
{
    (void)state;
    fault f = { .kind = FAULT_BLOCK_COPY, .n = 2 };
    assert_int_equal(run_ranks(2, block_and_release, &f, NULL), LS_OK);
    assert_int_equal(atomic_load(&f.copies), COPIES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_faulty_device_fails_each_call_in_turn),
        cmocka_unit_test(test_a_faulty_device_flips_one_bit_of_one_copy),
        cmocka_unit_test(test_a_fault_may_count_copies_of_one_direction_only),
        cmocka_unit_test(test_a_stalled_copy_holds_up_all_that_waits_for_it),
        cmocka_unit_test(test_a_plain_host_stream_refuses_to_wait_for_a_stalled_event),
        cmocka_unit_test(test_a_blocked_copy_returns_when_it_is_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
