/* SPDX-License-Identifier: MIT */
/* long_cuda_collectives.c -- the ring on 1 to 8 virtual GPUs with buffers of 4 MiB and 12 bytes:
 * in and out of place, on and off alignment, over pairs of every kind, in slices of several sizes.
 *
 * test_cuda_collectives.c has the small buffers.
 */
#include "support/test.h"

#include <stdio.h>

#include "device/cuda.h"
#include "support/fresh_process.h"
#include "support/reduction.h"

enum { RANKS_MAX = 8, SHARDS = 8, COUNT = (1 << 20) + 3 };

typedef struct {
    const int *gpu; /* of each rank */
    pair_pattern pairs;
    size_t slice_floats;
    bool in_place;
    size_t offset;
} row;

static int check_row(int world_size, const row *way)
{
    ls_device *device[RANKS_MAX];
    const reduction_settings settings = {
        .world_size = world_size, .shard_count = SHARDS, .algorithm = LS_ALGORITHM_RING,
        .pairs = way->pairs, .slice_floats = way->slice_floats, .in_place = way->in_place,
        .count_max = COUNT, .timeout_s = 300, .device = device,
    };
    reduction r;
    for (int i = 0; i < world_size; i++) {
        CHECK_OK(ls_device_open_cuda(way->gpu[i], NULL, &device[i]));
        CHECK_OK(ls_kernels_bind(device[i]));
    }
    CHECK_OK(reduction_open(&r, &settings));
    r.count = COUNT;
    r.offset = way->offset;
    r.seed = (uint64_t)world_size;
    CHECK_OK(reduction_run_once(&r));
    reduction_close(&r);
    for (int i = world_size - 1; i >= 0; i--) ls_device_close(device[i]);
    return 0;
}

/* TEST_RANKS: how many. */
static int case_ring(void)
{
    static const int one_each[RANKS_MAX] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    static const int one_for_all[RANKS_MAX] = { 0 }, pairs[RANKS_MAX] = { 0, 0, 1, 1, 2, 2, 3, 3 };
    const row rows[] = {
        { one_each, PAIRS_PEER, 0, false, 0 },       { one_each, PAIRS_PEER, 0, true, 1 },
        { one_each, PAIRS_STAGED, 99968, false, 1 }, { one_each, PAIRS_STAGED, 0, true, 0 },
        { one_for_all, PAIRS_LOCAL, 0, false, 1 },   { one_for_all, PAIRS_LOCAL, 0, true, 0 },
        { pairs, PAIRS_MIXED, 12800, false, 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK(check_row(atoi(getenv("TEST_RANKS")), &rows[i]) == 0);
    return 0;
}

static void test_a_large_odd_buffer_comes_out_right(void **state)
{
    (void)state;
    if (!driver_is_virtual()) skip();
    for (int n = 1; n <= RANKS_MAX; n++) {
        char ranks[32];
        (void)snprintf(ranks, sizeof ranks, "TEST_RANKS=%d", n);
        assert_case("ring", "LOCKSTEP_VGPU_DEVICES=8", ranks);
    }
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = { { "ring", case_ring }, { NULL, NULL } };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_large_odd_buffer_comes_out_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
