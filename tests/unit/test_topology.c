/* SPDX-License-Identifier: MIT */
/* test_topology.c -- every form of --devices, every way to get it wrong, pairs and rings. */
#include "support/test.h"

#include <stdio.h>

#include "device/topology.h"

static const char NONE[] = "none here";

static void check_list(const char *text, int gpu_count, const char *want)
{
    ls_device_list list;
    char got[1024] = "";
    size_t used = 0;
    if (ls_device_list_resolve(text, gpu_count, NONE, &list) != LS_OK)
        fail_msg("'%s': %s", text, ls_last_error());
    for (int i = 0; i < list.count; i++)
        used += (size_t)snprintf(got + used, sizeof got - used, "%s%c%d", i > 0 ? " " : "",
                                 list.device[i].kind == LS_DEVICE_HOST ? 'h' : 'c',
                                 list.device[i].ordinal);
    if (strcmp(got, want) != 0) fail_msg("'%s': got [%s], want [%s]", text, got, want);
}

static void check_refused(const char *text, int gpu_count, ls_status code, const char *message)
{
    ls_device_list list;
    const ls_status status = ls_device_list_resolve(text, gpu_count, NONE, &list);
    if (status != code)
        fail_msg("'%s': got %s, want %s", text, ls_status_name(status), ls_status_name(code));
    assert_string_equal(ls_last_error(), message);
}

static void test_a_list_names_its_devices_in_rank_order(void **state)
{
    (void)state;
    check_list("host", 0, "h0");
    check_list("host:1", 4, "h0");
    check_list("host:4", 0, "h0 h1 h2 h3");
    check_list("host:0004", 0, "h0 h1 h2 h3");
    check_list("cuda", 3, "c0 c1 c2");
    check_list("cuda:2", 3, "c2");
    check_list("cuda:2,0", 3, "c2 c0");
    check_list("cuda:0*2", 1, "c0 c0");
    check_list("cuda:1*2,0,2*1", 3, "c1 c1 c0 c2");
    check_list("auto", 2, "c0 c1");
    check_list("auto", 0, "h0");
}

static void test_a_list_says_why_it_is_what_it_is(void **state)
{
    (void)state;
    ls_device_list list;
    assert_int_equal(ls_device_list_resolve("auto", 0, "no driver", &list), LS_OK);
    assert_string_equal(list.reason, "auto: no usable GPU (no driver)");
    assert_int_equal(ls_device_list_resolve("auto", 1, "", &list), LS_OK);
    assert_string_equal(list.reason, "auto: 1 usable GPU");
    assert_int_equal(ls_device_list_resolve("auto", 2, "", &list), LS_OK);
    assert_string_equal(list.reason, "auto: 2 usable GPUs");
    assert_int_equal(ls_device_list_resolve("host:4", 2, "", &list), LS_OK);
    assert_string_equal(list.reason, "--devices host:4");
}

static void test_the_largest_world_is_64_and_one_more_is_refused(void **state)
{
    (void)state;
    ls_device_list list;
    assert_int_equal(ls_device_list_resolve("host:64", 0, NONE, &list), LS_OK);
    assert_int_equal(list.count, LS_WORLD_MAX);
    assert_int_equal(list.device[63].ordinal, 63);
    assert_int_equal(ls_device_list_resolve("cuda:0*63,1", 2, NONE, &list), LS_OK);
    assert_int_equal(list.count, LS_WORLD_MAX);
    check_refused("host:65", 0, LS_ERR_ARGUMENT,
                  "--devices host:65: too many replicas; 64 is the most");
    check_refused("host:99999999999999999999", 0, LS_ERR_ARGUMENT,
                  "--devices host:99999999999999999999: too many replicas; 64 is the most");
    check_refused("cuda:0*63,1*2", 2, LS_ERR_ARGUMENT,
                  "--devices cuda:0*63,1*2: too many replicas; 64 is the most");
}

static void test_gpus_that_do_not_fit_a_run_are_not_left_out_in_silence(void **state)
{
    (void)state;
    ls_device_list list;
    assert_int_equal(ls_device_list_resolve("cuda", 64, NONE, &list), LS_OK);
    assert_int_equal(list.count, LS_WORLD_MAX);
    check_refused("cuda", 65, LS_ERR_ARGUMENT,
                  "--devices cuda: 65 usable GPUs, but a run has at most 64 replicas; name those "
                  "to be used: --devices cuda:K,K,...");
    assert_int_equal(ls_device_list_resolve("auto", 64, NONE, &list), LS_OK);
    assert_string_equal(list.reason, "auto: 64 usable GPUs");
    assert_int_equal(ls_device_list_resolve("auto", 65, NONE, &list), LS_OK);
    assert_int_equal(list.count, LS_WORLD_MAX);
    assert_string_equal(list.reason, "auto: the first 64 of 65 usable GPUs; a run has no more");
}

static void test_a_slip_of_the_pen_is_refused_with_place_and_expectation(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } row[] = {
        { "", "--devices : ends where auto, host, host:N, cuda or cuda:K,K*M,... is expected" },
        { "tpu", "--devices tpu: found 'tpu' at column 1, expected auto, host, host:N, cuda or "
                 "cuda:K,K*M,..." },
        { "hots:4", "--devices hots:4: unknown 'hots', did you mean 'host'? (auto, host, host:N, "
                    "cuda or cuda:K,K*M,...)" },
        { "AUTO", "--devices AUTO: unknown 'AUTO', did you mean 'auto'? (auto, host, host:N, "
                  "cuda or cuda:K,K*M,...)" },
        { "auto:2", "--devices auto:2: found ':2' at column 5, expected the end" },
        { "host:", "--devices host:: ends where a number of replicas is expected" },
        { "host:x", "--devices host:x: found 'x' at column 6, expected a number of replicas" },
        { "host:-1", "--devices host:-1: found '-1' at column 6, expected a number of replicas" },
        { "host: 1", "--devices host: 1: found ' 1' at column 6, expected a number of replicas" },
        { "host:0", "--devices host:0: found '0' at column 6, expected at least 1 replica" },
        { "host:2,3", "--devices host:2,3: found ',3' at column 7, expected the end" },
        { "host:2*2", "--devices host:2*2: found '*2' at column 7, expected the end" },
        { "cuda:", "--devices cuda:: ends where a GPU's number is expected" },
        { "cuda:0,", "--devices cuda:0,: ends where a GPU's number is expected" },
        { "cuda:,1", "--devices cuda:,1: found ',1' at column 6, expected a GPU's number" },
        { "cuda:0*", "--devices cuda:0*: ends where a number of replicas is expected" },
        { "cuda:0*0", "--devices cuda:0*0: found '0' at column 8, expected at least 1 replica" },
        { "cuda:0-1", "--devices cuda:0-1: found '-1' at column 7, expected ',' or the end" },
        { "cuda:0,1,0", "--devices cuda:0,1,0: GPU 0 is named twice; two replicas on it are "
                        "written cuda:0*2" },
        { "cuda:1*2,1", "--devices cuda:1*2,1: GPU 1 is named twice; two replicas on it are "
                        "written cuda:1*2" },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        check_refused(row[i].text, 8, LS_ERR_ARGUMENT, row[i].message);
        check_refused(row[i].text, 0, LS_ERR_ARGUMENT, row[i].message);
    }
}

static void test_cuda_without_a_usable_gpu_is_an_error_and_never_the_cpu(void **state)
{
    (void)state;
    check_refused("cuda", 0, LS_ERR_DEVICE, "--devices cuda: no usable GPU: none here "
                                            "(--devices host:N runs on the CPU)");
    check_refused("cuda:0", 0, LS_ERR_DEVICE, "--devices cuda:0: no usable GPU: none here "
                                              "(--devices host:N runs on the CPU)");
    check_refused("cuda:0,2", 2, LS_ERR_DEVICE,
                  "--devices cuda:0,2: there is no GPU 2; 2 usable, counted from 0");
}

static void test_a_text_of_any_length_is_refused_within_the_message(void **state)
{
    (void)state;
    char text[5000];
    ls_device_list list;
    memset(text, 'h', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(ls_device_list_resolve(text, 0, NONE, &list), LS_ERR_ARGUMENT);
    assert_true(strlen(ls_last_error()) < 300);
    memcpy(text, "cuda:0*1", 8);
    memset(text + 8, ',', sizeof text - 9);
    assert_int_equal(ls_device_list_resolve(text, 0, NONE, &list), LS_ERR_ARGUMENT);
}

static void test_this_machine_resolves_auto_and_host(void **state)
{
    (void)state;
    ls_device_list list;
    assert_int_equal(ls_device_list_parse("auto", LS_P2P_AUTO, &list), LS_OK);
    assert_true(list.count >= 1);
    assert_int_equal(ls_device_list_parse("host:2", LS_P2P_AUTO, &list), LS_OK);
    assert_int_equal(list.count, 2);
}

/* -- pairs and ring ---------------------------------------------------------------------------- */

/* Devices that are never used, only looked at. */
static void devices_init(ls_device *device, ls_device **pointer, int count)
{
    memset(device, 0, (size_t)count * sizeof *device);
    for (int i = 0; i < count; i++) {
        device[i].kind = LS_DEVICE_HOST;
        device[i].ordinal = i;
        (void)snprintf(device[i].name, sizeof device[i].name, "host:%d", i);
        pointer[i] = &device[i];
    }
}

static void test_host_devices_reach_each_other_directly_unless_told_not_to(void **state)
{
    (void)state;
    static ls_device device[LS_WORLD_MAX];
    ls_device *pointer[LS_WORLD_MAX];
    static ls_topology topology;
    static const ls_p2p p2p[] = { LS_P2P_AUTO, LS_P2P_ON, LS_P2P_OFF };
    devices_init(device, pointer, LS_WORLD_MAX);
    for (size_t i = 0; i < 3; i++) {
        for (int count = 1; count <= LS_WORLD_MAX; count = count < 9 ? count + 1 : count * 2) {
            assert_int_equal(ls_topology_init(&topology, pointer, count, p2p[i]), LS_OK);
            assert_int_equal(topology.count, count);
            assert_true(ls_ring_is_whole(topology.ring, count));
            const ls_pair_kind other = p2p[i] == LS_P2P_OFF ? LS_PAIR_STAGED : LS_PAIR_PEER;
            for (int a = 0; a < count; a++)
                for (int b = 0; b < count; b++)
                    assert_int_equal(topology.pair[a * count + b],
                                     a == b ? LS_PAIR_LOCAL : other);
        }
    }
}

static void test_replicas_that_share_a_device_are_local_to_each_other(void **state)
{
    (void)state;
    ls_device device[3];
    ls_device *pointer[3];
    static ls_topology topology;
    devices_init(device, pointer, 3);
    device[1].ordinal = 0; /* opened twice */
    pointer[2] = pointer[0]; /* opened once, used twice */
    assert_int_equal(ls_topology_init(&topology, pointer, 3, LS_P2P_OFF), LS_OK);
    for (int i = 0; i < 9; i++) assert_int_equal(topology.pair[i], LS_PAIR_LOCAL);
}

static void test_pairs_without_proven_peer_access_are_staged_and_refused_by_p2p_on(void **state)
{
    (void)state;
    ls_device device[2];
    ls_device *pointer[2];
    static ls_topology topology;
    devices_init(device, pointer, 2);
    device[1].kind = LS_DEVICE_CUDA;
    (void)snprintf(device[1].name, sizeof device[1].name, "cuda:1");
    assert_int_equal(ls_topology_init(&topology, pointer, 2, LS_P2P_AUTO), LS_OK);
    assert_int_equal(topology.pair[1], LS_PAIR_STAGED);
    assert_int_equal(topology.pair[2], LS_PAIR_STAGED);
    assert_int_equal(ls_topology_init(&topology, pointer, 2, LS_P2P_ON), LS_ERR_DEVICE);
    assert_string_equal(ls_last_error(), "--p2p on: host:0 cannot reach cuda:1 directly: "
                        "they are of different kinds");
}

static void test_a_ring_that_skips_or_repeats_a_rank_is_found_out(void **state)
{
    (void)state;
    static const struct {
        int ring[4];
        int count;
        bool whole;
    } row[] = {
        { { 0 }, 1, true },
        { { 0, 1, 2, 3 }, 4, true },
        { { 0, 2, 1, 3 }, 4, true },
        { { 1, 2, 3, 0 }, 4, false }, /* does not start with rank 0 */
        { { 0, 1, 1, 3 }, 4, false },
        { { 0, 1, 2, 0 }, 4, false },
        { { 0, 1, 2, 4 }, 4, false },
        { { 0, 1, -1, 3 }, 4, false },
        { { 0 }, 0, false },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        assert_int_equal(ls_ring_is_whole(row[i].ring, row[i].count), row[i].whole);
}

static void test_pair_kinds_have_names(void **state)
{
    (void)state;
    assert_string_equal(ls_pair_kind_name(LS_PAIR_LOCAL), "LOCAL");
    assert_string_equal(ls_pair_kind_name(LS_PAIR_PEER), "PEER");
    assert_string_equal(ls_pair_kind_name(LS_PAIR_STAGED), "STAGED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_names_its_devices_in_rank_order),
        cmocka_unit_test(test_a_list_says_why_it_is_what_it_is),
        cmocka_unit_test(test_the_largest_world_is_64_and_one_more_is_refused),
        cmocka_unit_test(test_gpus_that_do_not_fit_a_run_are_not_left_out_in_silence),
        cmocka_unit_test(test_a_slip_of_the_pen_is_refused_with_place_and_expectation),
        cmocka_unit_test(test_cuda_without_a_usable_gpu_is_an_error_and_never_the_cpu),
        cmocka_unit_test(test_a_text_of_any_length_is_refused_within_the_message),
        cmocka_unit_test(test_this_machine_resolves_auto_and_host),
        cmocka_unit_test(test_host_devices_reach_each_other_directly_unless_told_not_to),
        cmocka_unit_test(test_replicas_that_share_a_device_are_local_to_each_other),
        cmocka_unit_test(test_pairs_without_proven_peer_access_are_staged_and_refused_by_p2p_on),
        cmocka_unit_test(test_a_ring_that_skips_or_repeats_a_rank_is_found_out),
        cmocka_unit_test(test_pair_kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
