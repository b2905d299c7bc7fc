/* SPDX-License-Identifier: MIT */
/* test_cuda_pairs.c -- which GPUs reach each other: what the probe finds, and the ring.
 *
 * Every case is a process of its own (fresh_process.h), nearly all on the virtual driver, whose
 * links do what they are told.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/device.h"
#include "device/topology.h"
#include "support/fresh_process.h"
#include "support/gpu_machines.h"
#include "support/one_gpu.h"
#include "support/test.h"

/* Pair kinds, reasons and ring of all GPUs, as text: "0>1 PEER; 1>0 STAGED why; ring 0 1". */
static int case_pairs(void)
{
    ls_device_list list;
    ls_device *device[LS_WORLD_MAX] = { NULL };
    static ls_topology topology;
    const char *devices = getenv("TEST_DEVICES");
    CHECK_OK(ls_device_list_parse(devices != NULL ? devices : "cuda", LS_P2P_AUTO, &list));
    for (int r = 0; r < list.count; r++)
        CHECK_OK(ls_device_open(&list.device[r], 1, false, NULL, &device[r]));
    CHECK_OK(ls_topology_init(&topology, device, list.count, LS_P2P_AUTO));
    for (int i = 0; i < list.count * list.count; i++) {
        if (topology.pair[i] == LS_PAIR_LOCAL) continue;
        (void)printf("%d>%d %s%s%s; ", i / list.count, i % list.count,
                     ls_pair_kind_name(topology.pair[i]), topology.reason[i] ? " " : "",
                     topology.reason[i] ? topology.reason[i] : "");
    }
    (void)printf("ring");
    for (int i = 0; i < list.count; i++) (void)printf(" %d", topology.ring[i]);
    for (int r = 0; r < list.count; r++) ls_device_close(device[r]);
    return 0;
}

static void check_pairs(const char *const *settings, const char *want)
{
    char output[16384];
    const int code = fresh_run("pairs", settings, output, sizeof output);
    if (code == 0 && strcmp(output, want) == 0) return;
    print_error("with %s\nexpected: %s\nfound (%d): %s\n", settings[0], want, code, output);
    fail();
}

static void test_a_pair_that_the_probe_proves_is_peer(void **state)
{
    (void)state;
    need_virtual_driver();
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2"), "0>1 PEER; 1>0 PEER; ring 0 1");
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=1", "TEST_DEVICES=cuda:0*2"), "ring 0 1");
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=3", "TEST_DEVICES=cuda:2,0*2"),
                "0>1 PEER; 0>2 PEER; 1>0 PEER; 2>0 PEER; ring 0 1 2");
}

static void test_a_pair_that_the_driver_denies_is_staged(void **state)
{
    (void)state;
    need_virtual_driver();
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2", "LOCKSTEP_VGPU_P2P=none"),
                "0>1 STAGED cuDeviceCanAccessPeer says no; "
                "1>0 STAGED cuDeviceCanAccessPeer says no; ring 0 1");
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2", "LOCKSTEP_VGPU_P2P=!1>0"),
                "0>1 PEER; 1>0 STAGED cuDeviceCanAccessPeer says no; ring 0 1");
}

static void test_the_ring_goes_round_a_missing_link(void **state)
{
    (void)state;
    need_virtual_driver();
    char output[2048];
    const char *const settings[] = { "LOCKSTEP_VGPU_DEVICES=4", "LOCKSTEP_VGPU_P2P=!0-1", NULL };
    assert_int_equal(fresh_run("pairs", settings, output, sizeof output), 0);
    assert_non_null(strstr(output, "0>1 STAGED cuDeviceCanAccessPeer says no; 0>2 PEER;"));
    assert_non_null(strstr(output, "ring 0 2 1 3"));
}

static void test_a_link_that_drops_zeroes_or_changes_bytes_is_staged(void **state)
{
    (void)state;
    need_virtual_driver();
    static const struct {
        const char *fault, *verdict;
    } row[] = {
        { "LOCKSTEP_VGPU_LINKS=0>1:drop", "0>1 STAGED a copy: 12352 of 16384 bytes arrived wrong" },
        { "LOCKSTEP_VGPU_LINKS=0>1:zero", "0>1 STAGED a copy: 12" }, /* but for zeros in it */
        { "LOCKSTEP_VGPU_LINKS=0>1:flip", "0>1 STAGED a copy: 3 of 16384" }, /* one a span */
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char output[2048];
        const char *const settings[] = { "LOCKSTEP_VGPU_DEVICES=3", row[i].fault, NULL };
        assert_int_equal(fresh_run("pairs", settings, output, sizeof output), 0);
        assert_non_null(strstr(output, row[i].verdict));
        assert_non_null(strstr(output, "0>2 PEER; "));
        assert_non_null(strstr(output, "2>1 PEER; "));
    }
}

static void test_a_link_that_hangs_is_staged_and_the_others_are_still_probed(void **state)
{
    (void)state;
    need_virtual_driver();
    char output[2048];
    const char *const settings[] = { "LOCKSTEP_VGPU_DEVICES=3", "LOCKSTEP_VGPU_LINKS=0>1:hang",
                                     NULL };
    assert_int_equal(fresh_run("pairs", settings, output, sizeof output), 0);
    assert_non_null(strstr(output, "0>1 STAGED not finished after 5 s; 0>2 PEER; "));
    assert_non_null(strstr(output, "2>0 PEER; 2>1 PEER; ring "));
}

/* Another child in the probe's place: it says what TEST_PROBE tells, and then dies, or not. Runs
 * before the backend's own constructor, which would make this process the probe. */
__attribute__((constructor(101))) static void be_another_child(void)
{
    const char *script = getenv("TEST_PROBE"), *request = getenv("LOCKSTEP_LINK_PROBE");
    if (script == NULL || request == NULL) return;
    FILE *out = fdopen(atoi(request), "w");
    const int first = atoi(strchr(request, ' '));
    if (out == NULL) _Exit(9);
    if (strcmp(script, "wakes") == 0) (void)sleep(9); /* longer than a child may be silent later */
    (void)fprintf(out, "gpus 0 1\n");
    for (int pair = first; pair < 2; pair++) {
        (void)fprintf(out, "try %d\n", pair);
        (void)fflush(out);
        if (pair == 0 && strcmp(script, "dies") == 0) (void)raise(SIGKILL);
        if (pair == 0 && strcmp(script, "ends") == 0) _Exit(3);
        if (pair == 0 && strcmp(script, "raves") == 0) (void)fprintf(out, "yes 17 0 0 0\n");
        (void)fprintf(out, "yes %d 0 0 0\n", pair);
    }
    (void)fprintf(out, "end\n");
    (void)fflush(out);
    _Exit(0);
}

static void test_a_probe_that_dies_ends_or_raves_refuses_the_pair_it_was_at(void **state)
{
    (void)state;
    need_virtual_driver();
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2", "TEST_PROBE=dies"),
                "0>1 STAGED the probe died of signal 9; 1>0 PEER; ring 0 1");
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2", "TEST_PROBE=ends"),
                "0>1 STAGED the probe ended early; 1>0 PEER; ring 0 1");
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2", "TEST_PROBE=raves"),
                "0>1 STAGED the probe hung; 1>0 PEER; ring 0 1");
}

/* As where no daemon keeps many GPUs awake. */
static void test_a_driver_that_takes_long_to_start_costs_no_pair(void **state)
{
    (void)state;
    need_virtual_driver();
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2", "TEST_PROBE=wakes"),
                "0>1 PEER; 1>0 PEER; ring 0 1");
}

static void test_a_gpu_keeps_as_many_partners_as_it_may_have(void **state)
{
    (void)state;
    need_virtual_driver();
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=4", "LOCKSTEP_VGPU_PARTNERS=2"),
                "0>1 PEER; 0>2 STAGED one of them has as many partners as it can; 0>3 PEER; "
                "1>0 PEER; 1>2 PEER; 1>3 STAGED one of them has as many partners as it can; "
                "2>0 STAGED one of them has as many partners as it can; 2>1 PEER; 2>3 PEER; "
                "3>0 PEER; 3>1 STAGED one of them has as many partners as it can; 3>2 PEER; "
                "ring 0 1 2 3");
}

static int case_unprobed(void)
{
    gpu a, b;
    static ls_topology topology;
    CHECK_OK(gpu_open(&a, 0, NULL));
    CHECK_OK(gpu_open(&b, 1, NULL));
    ls_device *const both[] = { a.device, b.device };
    CHECK_OK(ls_topology_init(&topology, both, 2, LS_P2P_AUTO));
    CHECK(topology.pair[1] == LS_PAIR_STAGED);
    CHECK(strcmp(topology.reason[1], "it was not probed") == 0);
    CHECK_FAILS(ls_topology_init(&topology, both, 2, LS_P2P_ON), LS_ERR_DEVICE,
                "directly: it was not probed");
    CHECK_OK(ls_topology_init(&topology, both, 2, LS_P2P_OFF));
    CHECK(strcmp(topology.reason[1], "--p2p off") == 0);
    gpu_close(&b);
    gpu_close(&a);
    return 0;
}

/* Copies and kernels between GPUs: only once access is enabled, and again after a reopening. */
static int case_peer_access(void)
{
    gpu a, b;
    ls_event event;
    CHECK_OK(gpu_open(&a, 0, NULL));
    CHECK_OK(gpu_open(&b, 1, NULL));
    CHECK_OK(gpu_load_copy(&a));
    CHECK_OK(gpu_store(&a, 11));
    CHECK_FAILS(ls_copy_peer(&a.stream, b.memory, a.memory, GPU_BYTES), LS_ERR_DEVICE,
                "cuda:0: copying 4096 bytes to cuda:1: access is not enabled");
    CHECK_FAILS(ls_copy_within(&a.stream, b.memory, a.memory, GPU_BYTES), LS_ERR_DEVICE,
                "is memory of cuda:1");
    CHECK_OK(ls_device_reach(a.device, b.device));
    CHECK_OK(ls_device_reach(a.device, b.device));
    CHECK_OK(ls_event_init(&event, a.device));
    CHECK_OK(ls_copy_peer(&a.stream, b.memory, a.memory, GPU_BYTES));
    CHECK_OK(ls_event_record(&event, &a.stream));
    CHECK_OK(ls_stream_wait(&b.stream, &event));
    CHECK(gpu_holds(&b, 11));
    CHECK_FAILS(ls_event_record(&event, &b.stream), LS_ERR_DEVICE, "cannot be recorded");
    CHECK_OK(gpu_store(&b, 12));
    CHECK_OK(gpu_launch_copy(&a.stream, a.memory, b.memory, GPU_BYTES)); /* a reads b */
    CHECK_OK(gpu_drain(&a));
    CHECK(gpu_holds(&a, 12));
    CHECK_OK(gpu_store(&a, 13));
    CHECK_OK(gpu_launch_copy(&a.stream, b.memory, a.memory, GPU_BYTES)); /* a writes b */
    CHECK_OK(gpu_drain(&a));
    CHECK(gpu_holds(&b, 13));
    gpu_close(&b);
    CHECK_OK(gpu_open(&b, 1, NULL));
    CHECK_FAILS(ls_copy_peer(&a.stream, b.memory, a.memory, GPU_BYTES), LS_ERR_DEVICE,
                "access is not enabled");
    CHECK_OK(ls_device_reach(a.device, b.device));
    CHECK_OK(ls_copy_peer(&a.stream, b.memory, a.memory, GPU_BYTES));
    CHECK_OK(gpu_drain(&a));
    CHECK(gpu_holds(&b, 13));
    ls_event_free(&event);
    gpu_close(&b);
    gpu_close(&a);
    return 0;
}

static void test_pairs_that_were_not_probed_are_staged(void **state)
{
    (void)state;
    need_gpus(2);
    assert_case("unprobed", NULL);
}

static void test_a_gpu_reaches_another_once_access_is_enabled(void **state)
{
    (void)state;
    need_virtual_driver();
    assert_case("peer access", NULL);
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "pairs", case_pairs },
        { "unprobed", case_unprobed },
        { "peer access", case_peer_access },
        { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pair_that_the_probe_proves_is_peer),
        cmocka_unit_test(test_a_pair_that_the_driver_denies_is_staged),
        cmocka_unit_test(test_the_ring_goes_round_a_missing_link),
        cmocka_unit_test(test_a_link_that_drops_zeroes_or_changes_bytes_is_staged),
        cmocka_unit_test(test_a_link_that_hangs_is_staged_and_the_others_are_still_probed),
        cmocka_unit_test(test_a_probe_that_dies_ends_or_raves_refuses_the_pair_it_was_at),
        cmocka_unit_test(test_a_driver_that_takes_long_to_start_costs_no_pair),
        cmocka_unit_test(test_a_gpu_keeps_as_many_partners_as_it_may_have),
        cmocka_unit_test(test_pairs_that_were_not_probed_are_staged),
        cmocka_unit_test(test_a_gpu_reaches_another_once_access_is_enabled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
