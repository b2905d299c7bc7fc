/* SPDX-License-Identifier: MIT */
/* test_link.c -- transfers over one link, of each kind, one at a time and many in flight. */
#include "support/test.h"

#include "collectives/link.h"
#include "device/topology.h"
#include "support/faulty_device.h"
#include "support/ranks.h"

enum { WORDS = 48, SLOT_BYTES = WORDS * sizeof(uint32_t), TRANSFERS = 200 };

typedef struct {
    ls_group *group;
    ls_device *device[2];
    ls_channel channel[2];
    ls_link link;          /* 0 -> 1 */
    uint32_t *memory[2];   /* [WORDS] on each device */
    fault fault;
} pair;

static const ls_transfer TRANSFER = { .what = "bucket", .bucket = 7, .step = 3 };

static void pair_open(pair *p, ls_pair_kind kind, double timeout_s)
{
    memset(p, 0, sizeof *p);
    assert_int_equal(ls_group_create(2, timeout_s, &p->group), LS_OK);
    for (int r = 0; r < 2; r++) {
        void *memory = NULL;
        assert_int_equal(faulty_device_open(r, 1, ls_group_progress(p->group), &p->fault,
                                            &p->device[r]), LS_OK);
        p->channel[r].group = p->group;
        p->channel[r].rank = r;
        assert_int_equal(ls_stream_init(&p->channel[r].out, p->device[r]), LS_OK);
        assert_int_equal(ls_stream_init(&p->channel[r].in, p->device[r]), LS_OK);
        assert_int_equal(ls_device_alloc(p->device[r], SLOT_BYTES, &memory), LS_OK);
        p->memory[r] = memory;
    }
    assert_int_equal(ls_link_open(&p->link, 0, p->device[0], 1, p->device[1], kind, SLOT_BYTES, 8),
                     LS_OK);
}

static void pair_close(pair *p)
{
    ls_link_close(&p->link);
    for (int r = 0; r < 2; r++) {
        ls_device_release(p->device[r], p->memory[r]);
        ls_stream_free(&p->channel[r].in);
        ls_stream_free(&p->channel[r].out);
        ls_device_close(p->device[r]);
    }
    ls_group_destroy(p->group);
}

/* -- both sides in one thread: what each call does -------------------------------------------- */

static ls_status send_words(pair *p, uint32_t first)
{
    for (uint32_t i = 0; i < WORDS; i++) p->memory[0][i] = first + i;
    LS_TRY(ls_link_send_begin(&p->link, &p->channel[0], &TRANSFER));
    LS_TRY(ls_link_push(&p->link, &p->channel[0], 0, p->memory[0], SLOT_BYTES / 2));
    LS_TRY(ls_link_push(&p->link, &p->channel[0], SLOT_BYTES / 2, p->memory[0] + WORDS / 2,
                        SLOT_BYTES / 2));
    return ls_link_send_end(&p->link, &p->channel[0]);
}

/* Pull the halves the other way round. */
static ls_status recv_words(pair *p, uint32_t first)
{
    LS_TRY(ls_link_recv_begin(&p->link, &p->channel[1], &TRANSFER));
    LS_TRY(ls_link_pull(&p->link, &p->channel[1], SLOT_BYTES / 2, p->memory[1] + WORDS / 2,
                        SLOT_BYTES / 2));
    LS_TRY(ls_link_pull(&p->link, &p->channel[1], 0, p->memory[1], SLOT_BYTES / 2));
    LS_TRY(ls_link_recv_end(&p->link, &p->channel[1]));
    for (uint32_t i = 0; i < WORDS; i++) {
        if (p->memory[1][i] == first + i) continue;
        return ls_fail(LS_ERR_VERIFY, "word %u: %u", (unsigned)i, (unsigned)p->memory[1][i]);
    }
    return LS_OK;
}

static void test_a_transfer_arrives_over_every_kind(void **state)
{
    (void)state;
    for (int kind = LS_PAIR_LOCAL; kind <= LS_PAIR_STAGED; kind++) {
        pair p;
        pair_open(&p, (ls_pair_kind)kind, 60);
        assert_int_equal(ls_link_is_direct(&p.link), kind != LS_PAIR_STAGED);
        for (uint32_t t = 0; t < 5; t++) {
            assert_int_equal(send_words(&p, t * 1000), LS_OK);
            assert_int_equal(recv_words(&p, t * 1000), LS_OK);
        }
        pair_close(&p);
    }
}

static void test_a_slot_holds_its_bytes_until_it_is_freed(void **state)
{
    (void)state;
    for (int kind = LS_PAIR_LOCAL; kind <= LS_PAIR_STAGED; kind++) {
        pair p;
        pair_open(&p, (ls_pair_kind)kind, 60);
        for (uint32_t t = 0; t < LS_LINK_SLOTS; t++) {
            assert_int_equal(send_words(&p, t * 1000), LS_OK);
        }
        for (uint32_t t = 0; t < LS_LINK_SLOTS; t++) {
            assert_int_equal(recv_words(&p, t * 1000), LS_OK);
        }
        pair_close(&p);
    }
}

static void test_landed_bytes_are_read_after_the_slot_is_free(void **state)
{
    (void)state;
    for (int kind = LS_PAIR_LOCAL; kind <= LS_PAIR_STAGED; kind++) {
        pair p;
        const void *data = NULL;
        pair_open(&p, (ls_pair_kind)kind, 60);
        assert_int_equal(send_words(&p, 5), LS_OK);
        assert_int_equal(ls_link_recv_begin(&p.link, &p.channel[1], &TRANSFER), LS_OK);
        assert_int_equal(ls_link_land(&p.link, &p.channel[1], SLOT_BYTES, &data), LS_OK);
        assert_int_equal(atomic_load(&p.link.freed), kind == LS_PAIR_STAGED ? 1 : 0);
        for (uint32_t t = 1; t < (kind == LS_PAIR_STAGED ? 3 : 2); t++) {
            assert_int_equal(send_words(&p, t * 1000), LS_OK); /* the other slot, then this one */
        }
        assert_int_equal(((const uint32_t *)data)[WORDS - 1], 5 + WORDS - 1);
        assert_int_equal(ls_link_recv_end(&p.link, &p.channel[1]), LS_OK);
        assert_int_equal(atomic_load(&p.link.freed), 1);
        pair_close(&p);
    }
}

static void test_more_bytes_than_a_slot_holds_are_refused(void **state)
{
    (void)state;
    pair p;
    pair_open(&p, LS_PAIR_PEER, 60);
    assert_int_equal(ls_link_send_begin(&p.link, &p.channel[0], &TRANSFER), LS_OK);
    assert_int_equal(ls_link_push(&p.link, &p.channel[0], 4, p.memory[0], SLOT_BYTES),
                     LS_ERR_ARGUMENT);
    pair_close(&p);
}

static void assert_message_has(const char *text)
{
    if (strstr(ls_last_error(), text) != NULL) return;
    fail_msg("\"%s\": no \"%s\"", ls_last_error(), text);
}

static void test_a_sender_without_a_free_slot_times_out_naming_the_place(void **state)
{
    (void)state;
    pair p;
    pair_open(&p, LS_PAIR_STAGED, 0.05);
    for (uint32_t t = 0; t < LS_LINK_SLOTS; t++) assert_int_equal(send_words(&p, t), LS_OK);
    assert_int_equal(send_words(&p, 9), LS_ERR_TIMEOUT);
    assert_message_has("bucket 7, ring step 3: link 0 -> 1 (STAGED): the receiver did not free");
    pair_close(&p);
}

static void test_a_receiver_without_a_transfer_times_out_naming_the_place(void **state)
{
    (void)state;
    pair p;
    pair_open(&p, LS_PAIR_PEER, 0.05);
    assert_int_equal(recv_words(&p, 0), LS_ERR_TIMEOUT);
    assert_message_has("bucket 7, ring step 3: link 0 -> 1 (PEER): the sender did not send");
    pair_close(&p);
}

static void test_an_aborted_group_ends_a_wait(void **state)
{
    (void)state;
    pair p;
    pair_open(&p, LS_PAIR_PEER, 60);
    ls_group_abort(p.group, 0, ls_fail(LS_ERR_IO, "something else"));
    assert_int_equal(recv_words(&p, 0), LS_ERR_ABORTED);
    pair_close(&p);
}

static void test_bytes_that_do_not_come_are_overdue(void **state)
{
    (void)state;
    pair p;
    const ls_transfer *overdue = NULL;
    pair_open(&p, LS_PAIR_PEER, 60);
    p.fault = (fault){ .kind = FAULT_STALL_COPY, .n = 3 }; /* of the second transfer */
    const ls_transfer second = { .what = "gather", .bucket = -1, .step = 4 };
    assert_int_equal(send_words(&p, 0), LS_OK);
    assert_int_equal(send_words(&p, 1), LS_OK);
    assert_int_equal(ls_link_recv_begin(&p.link, &p.channel[1], &TRANSFER), LS_OK);
    assert_int_equal(ls_link_overdue(&p.link, &overdue), LS_OK);
    assert_null(overdue);
    assert_int_equal(ls_link_recv_end(&p.link, &p.channel[1]), LS_OK);
    assert_int_equal(ls_link_recv_begin(&p.link, &p.channel[1], &second), LS_OK);
    assert_int_equal(ls_link_overdue(&p.link, &overdue), LS_OK);
    assert_non_null(overdue);
    char text[LS_TRANSFER_TEXT_BYTES];
    assert_string_equal(ls_transfer_text(overdue, text), "gather, ring step 4");
    atomic_store(&p.fault.released, true);
    assert_int_equal(ls_link_overdue(&p.link, &overdue), LS_OK);
    assert_null(overdue);
    pair_close(&p);
}

static void test_a_link_that_cannot_be_opened_leaves_nothing(void **state)
{
    (void)state;
    for (int kind = LS_PAIR_PEER; kind <= LS_PAIR_STAGED; kind++) {
        pair p;
        pair_open(&p, (ls_pair_kind)kind, 60);
        ls_link_close(&p.link);
        const int calls = kind == LS_PAIR_STAGED ? 8 : 7;
        for (long n = 1; n <= calls + 1; n++) {
            atomic_store(&p.fault.allocs, 0);
            p.fault.kind = FAULT_ALLOC;
            p.fault.n = n;
            const ls_status status = ls_link_open(&p.link, 0, p.device[0], 1, p.device[1],
                                                  (ls_pair_kind)kind, SLOT_BYTES, 3);
            assert_int_equal(status, n <= calls ? LS_ERR_MEMORY : LS_OK);
        }
        pair_close(&p);
        ls_link_close(&p.link); /* again: closed is all-zero */
    }
}

/* -- two threads ------------------------------------------------------------------------------ */

static ls_status exchange(int rank, void *arg)
{
    pair *p = arg;
    for (uint32_t t = 0; t < TRANSFERS; t++) {
        LS_TRY(rank == 0 ? send_words(p, t * 3) : recv_words(p, t * 3));
    }
    return LS_OK;
}

static void test_two_threads_hand_over_every_transfer_in_order(void **state)
{
    (void)state;
    for (int kind = LS_PAIR_LOCAL; kind <= LS_PAIR_STAGED; kind++) {
        pair p;
        pair_open(&p, (ls_pair_kind)kind, 60);
        if (run_ranks_in(p.group, exchange, &p, NULL) != LS_OK) fail_msg("%s", ls_last_error());
        assert_int_equal(atomic_load(&p.link.posted), TRANSFERS);
        assert_int_equal(atomic_load(&p.link.freed), TRANSFERS);
        pair_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_transfer_arrives_over_every_kind),
        cmocka_unit_test(test_a_slot_holds_its_bytes_until_it_is_freed),
        cmocka_unit_test(test_landed_bytes_are_read_after_the_slot_is_free),
        cmocka_unit_test(test_more_bytes_than_a_slot_holds_are_refused),
        cmocka_unit_test(test_a_sender_without_a_free_slot_times_out_naming_the_place),
        cmocka_unit_test(test_a_receiver_without_a_transfer_times_out_naming_the_place),
        cmocka_unit_test(test_an_aborted_group_ends_a_wait),
        cmocka_unit_test(test_bytes_that_do_not_come_are_overdue),
        cmocka_unit_test(test_a_link_that_cannot_be_opened_leaves_nothing),
        cmocka_unit_test(test_two_threads_hand_over_every_transfer_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
