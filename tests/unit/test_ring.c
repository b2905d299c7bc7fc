/* SPDX-License-Identifier: MIT */
/* test_ring.c -- the schedule, exhaustively for small rings, and its page of text. */
#include "support/test.h"

#include "collectives/ring.h"

enum { RANKS_MAX = 17 };

static int next_of(int rank, int world_size) { return (rank + 1) % world_size; }

static void test_one_rank_has_no_steps(void **state)
{
    (void)state;
    assert_int_equal(ls_ring_step_count(1), 0);
    assert_int_equal(ls_ring_step_count(8), 14);
}

static void test_four_ranks_move_as_the_table_says(void **state)
{
    (void)state;
    static const int sent[6][4] = { { 3, 0, 1, 2 }, { 2, 3, 0, 1 }, { 1, 2, 3, 0 },
                                    { 0, 1, 2, 3 }, { 3, 0, 1, 2 }, { 2, 3, 0, 1 } };
    for (int step = 0; step < 6; step++) {
        for (int rank = 0; rank < 4; rank++) {
            const ls_ring_move move = ls_ring_move_at(rank, step, 4);
            assert_int_equal(move.send_chunk, sent[step][rank]);
            assert_int_equal(move.action, step < 3 ? LS_RING_ADD : LS_RING_COPY);
        }
    }
}

static void test_what_a_rank_sends_its_neighbour_receives(void **state)
{
    (void)state;
    for (int n = 2; n <= RANKS_MAX; n++) {
        for (int step = 0; step < ls_ring_step_count(n); step++) {
            for (int rank = 0; rank < n; rank++) {
                const ls_ring_move move = ls_ring_move_at(rank, step, n);
                const ls_ring_move next = ls_ring_move_at(move.send_to, step, n);
                assert_int_equal(move.send_to, next_of(rank, n));
                assert_int_equal(next.recv_from, rank);
                assert_int_equal(next.recv_chunk, move.send_chunk);
                assert_int_equal(next.action, move.action);
            }
        }
    }
}

static void test_what_a_rank_receives_it_sends_next(void **state)
{
    (void)state;
    for (int n = 2; n <= RANKS_MAX; n++) {
        for (int step = 0; step + 1 < ls_ring_step_count(n); step++) {
            for (int rank = 0; rank < n; rank++) {
                assert_int_equal(ls_ring_move_at(rank, step + 1, n).send_chunk,
                                 ls_ring_move_at(rank, step, n).recv_chunk);
            }
        }
    }
}

/* Bit r of held[rank][chunk]: the contribution of rank r is in what `rank` holds of the chunk. */
static void test_every_chunk_ends_whole_on_its_rank_then_on_all(void **state)
{
    (void)state;
    for (int n = 1; n <= RANKS_MAX; n++) {
        unsigned held[RANKS_MAX][RANKS_MAX], before[RANKS_MAX][RANKS_MAX];
        const unsigned all = (1u << n) - 1;
        for (int r = 0; r < n; r++) {
            for (int c = 0; c < n; c++) held[r][c] = 1u << r;
        }
        for (int step = 0; step < ls_ring_step_count(n); step++) {
            memcpy(before, held, sizeof held);
            for (int r = 0; r < n; r++) {
                const ls_ring_move move = ls_ring_move_at(r, step, n);
                const unsigned arrived = before[move.recv_from][move.recv_chunk];
                unsigned *mine = &held[r][move.recv_chunk];
                if (move.action == LS_RING_COPY) {
                    *mine = arrived;
                } else {
                    assert_int_equal(*mine & arrived, 0); /* nothing is added twice */
                    *mine |= arrived;
                }
            }
            if (step != n - 2) continue;
            for (int r = 0; r < n; r++) assert_int_equal(held[r][r], all);
        }
        for (int r = 0; n > 1 && r < n; r++) {
            for (int c = 0; c < n; c++) assert_int_equal(held[r][c], all);
        }
    }
}

static void test_chunks_cover_the_buffer_and_start_on_128_bytes(void **state)
{
    (void)state;
    for (int n = 1; n <= RANKS_MAX; n++) {
        const size_t m = (size_t)n;
        const size_t counts[] = { 0, 1, 31, 32, 33, m - 1, m, m + 1, 32 * m - 1, 32 * m,
                                  32 * m + 1, 1000, 462592, ((size_t)1 << 20) + 3 };
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            size_t end = 0, least = SIZE_MAX, most = 0;
            for (int chunk = 0; chunk < n; chunk++) {
                const ls_span span = ls_ring_chunk_span(counts[i], chunk, n);
                assert_int_equal(span.begin, end);
                if (span.count > 0) assert_int_equal(span.begin % LS_CHUNK_UNIT, 0);
                end = span.begin + span.count;
                const size_t units = (span.count + LS_CHUNK_UNIT - 1) / LS_CHUNK_UNIT;
                if (units < least) least = units;
                if (units > most) most = units;
            }
            assert_int_equal(end, counts[i]);
            assert_true(most - least <= 1);
        }
    }
}

static void test_slices_cover_each_chunk_in_order(void **state)
{
    (void)state;
    static const size_t slices[] = { 32, 64, 96, 4096 };
    for (size_t k = 0; k < sizeof slices / sizeof slices[0]; k++) {
        for (int n = 1; n <= RANKS_MAX; n++) {
            for (size_t count = 0; count < 3000; count += 37) {
                const int slice_count = ls_ring_slice_count(count, n, slices[k]);
                bool last_is_used = count == 0;
                for (int chunk = 0; chunk < n; chunk++) {
                    const ls_span span = ls_ring_chunk_span(count, chunk, n);
                    size_t end = span.begin;
                    for (int s = 0; s < slice_count; s++) {
                        const ls_span slice = ls_ring_slice_span(span, s, slices[k]);
                        assert_int_equal(slice.begin, end);
                        assert_true(slice.count <= slices[k]);
                        end += slice.count;
                        last_is_used |= s + 1 == slice_count && slice.count > 0;
                    }
                    assert_int_equal(end, span.begin + span.count);
                }
                assert_true(last_is_used);
            }
        }
    }
}

/* -- the page --------------------------------------------------------------------------------- */

static void test_the_page_of_two_ranks_is_this(void **state)
{
    (void)state;
    static const char want[] =
        "Ring of 2 ranks, 4 shards, 2 ring steps.\n"
        "\n"
        "  r0  owns shards 0-1\n"
        "  r1  owns shards 2-3\n"
        "\n"
        "Chunk that each rank sends to the next one:\n"
        "\n"
        "  step          r0    r1\n"
        "    0  ADD       1     0\n"
        "    1  COPY      0     1\n"
        "\n"
        "Steps 0 to 0 ADD: what travels is sums over shards; `a-b` is the sum over shards a to b.\n"
        "Steps 1 to 1 COPY: the finished chunks go round once more, unchanged.\n"
        "\n"
        "chunk 0\n"
        "  start    r1 has      2-3\n"
        "  step  0  r1 sends    2-3\n"
        "           r0 brings   0-1\n"
        "           r0 has      (0-1 + 2-3)\n"
        "\n"
        "chunk 1\n"
        "  start    r0 has      0-1\n"
        "  step  0  r0 sends    0-1\n"
        "           r1 brings   2-3\n"
        "           r1 has      (0-1 + 2-3)\n";
    char *text = NULL;
    assert_int_equal(ls_ring_describe(2, 4, &text), LS_OK);
    assert_string_equal(text, want);
    free(text);
}

static void test_every_ring_has_a_page(void **state)
{
    (void)state;
    for (int n = 1; n <= 64; n += n < 20 ? 1 : 11) {
        char *text = NULL;
        assert_int_equal(ls_ring_describe(n, 64, &text), LS_OK);
        assert_non_null(strstr(text, n == 1 ? "nothing is sent" : "chunk 0\n"));
        assert_true(strlen(text) < 20000);
        free(text);
    }
}

static void test_the_page_shows_the_sum_that_the_tree_forms(void **state)
{
    (void)state;
    char *text = NULL;
    assert_int_equal(ls_ring_describe(4, 8, &text), LS_OK);
    assert_non_null(strstr(text, "r0 has      ((0-1 + 2-3) + 4-7)\n"));
    assert_non_null(strstr(text, "r3 has      2-3  (4-5 + 6-7)\n"));
    free(text);
}

static void test_a_ring_that_cannot_be_is_refused(void **state)
{
    (void)state;
    char *text = NULL;
    assert_int_equal(ls_ring_describe(0, 8, &text), LS_ERR_ARGUMENT);
    assert_int_equal(ls_ring_describe(9, 8, &text), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "--shards 8"));
    assert_int_equal(ls_ring_describe(2, 65, &text), LS_ERR_ARGUMENT);
    assert_int_equal(ls_ring_describe(2, 0, &text), LS_ERR_ARGUMENT);
    assert_null(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank_has_no_steps),
        cmocka_unit_test(test_four_ranks_move_as_the_table_says),
        cmocka_unit_test(test_what_a_rank_sends_its_neighbour_receives),
        cmocka_unit_test(test_what_a_rank_receives_it_sends_next),
        cmocka_unit_test(test_every_chunk_ends_whole_on_its_rank_then_on_all),
        cmocka_unit_test(test_chunks_cover_the_buffer_and_start_on_128_bytes),
        cmocka_unit_test(test_slices_cover_each_chunk_in_order),
        cmocka_unit_test(test_the_page_of_two_ranks_is_this),
        cmocka_unit_test(test_every_ring_has_a_page),
        cmocka_unit_test(test_the_page_shows_the_sum_that_the_tree_forms),
        cmocka_unit_test(test_a_ring_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
