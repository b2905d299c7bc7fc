/* SPDX-License-Identifier: MIT */
/* test_vgpu_meetings.c -- lanes, blocks and devices that wait for each other, in nvcc's kernels.
 *
 * On the interpreter, without a driver (ptx_machine.h).
 */
#include "support/test.h"

#include <pthread.h>

#include "support/naive.h"
#include "support/ptx_machine.h"

/* -- meetings --------------------------------------------------------------------------------- */

typedef struct {
    char *text;
    vgpu_program *program;
    ptx_machine m;
} meeting;

static void meeting_init(meeting *s)
{
    s->text = read_kernel_text("meetings.75.ptx");
    s->program = load_ptx(s->text);
    ptx_machine_init(&s->m);
}

static void meeting_free(meeting *s)
{
    ptx_machine_free(&s->m);
    vgpu_program_destroy(s->program);
    free(s->text);
}

static vgpu_outcome meet(meeting *s, const char *kernel, const vgpu_launch *launch, char *error,
                         size_t error_bytes)
{
    return vgpu_run(s->program, kernel_of(s->program, kernel), launch, error, error_bytes);
}

static void test_a_tree_reduction_has_the_bits_of_the_tree(void **state)
{
    (void)state;
    enum { COUNT = 700 };
    float x[768] = {0}, error_free[3];
    naive_random random = { 3 };
    for (int i = 0; i < COUNT; i++) x[i] = naive_unit(&random);
    meeting s;
    char error[500];
    meeting_init(&s);
    struct {
        int count;
        uint64_t x, sums;
    } params = {COUNT, allocate_filled(&s.m, 0, x, COUNT * sizeof x[0])->address, 0};
    allocation *sums = allocate(&s.m, 0, 3 * sizeof(float));
    params.sums = sums->address;
    const vgpu_launch launch = launch_on(&s.m, 0, 3, 256, &params);
    assert_done(meet(&s, "tree_sum", &launch, error, sizeof error), error);
    for (int b = 0; b < 3; b++) {
        float *t = x + 256 * b;
        for (int half = 128; half > 0; half /= 2) {
            for (int i = 0; i < half; i++) t[i] += t[i + half];
        }
        error_free[b] = t[0];
    }
    assert_memory_equal(error_free, sums->data, sizeof error_free);
    meeting_free(&s);
}

static vgpu_outcome run_chain(uint32_t blocks, unsigned resident, uint64_t seed, unsigned threads,
                              uint32_t *first, char *error, size_t error_bytes)
{
    uint32_t flags[33] = {0}, values[33] = {0};
    flags[blocks] = 1;
    meeting s;
    meeting_init(&s);
    allocation *v = allocate_filled(&s.m, 0, values, sizeof values);
    const uint64_t params[2] = {allocate_filled(&s.m, 0, flags, sizeof flags)->address,
                                v->address};
    vgpu_launch launch = launch_on(&s.m, 0, blocks, 64, params);
    launch.resident_blocks = resident;
    launch.seed = seed;
    launch.host_threads = threads;
    launch.instruction_budget = 3000000;
    const vgpu_outcome outcome = meet(&s, "chain", &launch, error, error_bytes);
    memcpy(first, v->data, sizeof *first);
    meeting_free(&s);
    return outcome;
}

static void test_blocks_wait_for_each_other(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        uint32_t first;
        char error[1500];
        assert_done(run_chain(20, 20, seed, 1 + seed % 2, &first, error, sizeof error), error);
        assert_int_equal(first, 19 * 20 / 2);
    }
}

static void test_a_block_that_waits_for_one_that_cannot_start_hangs_by_name(void **state)
{
    (void)state;
    uint32_t first;
    char error[1500];
    const vgpu_outcome outcome = run_chain(20, 4, 1, 1, &first, error, sizeof error);
    assert_reported(outcome, VGPU_HANG, error,
                    WORDS("kernel chain", "16 of 20 blocks have not started", "meetings.cu:",
                          "last flag read: 0x0 at 0x7000"));
}

static void test_threads_that_left_early_do_not_hold_a_barrier(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 31, 32, 33, 100, 128};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        meeting s;
        char error[500];
        meeting_init(&s);
        allocation *out = allocate(&s.m, 0, 128 * 4);
        const struct {
            uint32_t count;
            uint64_t out;
        } params = {counts[c], out->address};
        vgpu_launch launch = launch_on(&s.m, 0, 1, 128, &params);
        launch.seed = c;
        assert_done(meet(&s, "early_return", &launch, error, sizeof error), error);
        const uint32_t *got = (const uint32_t *)(const void *)out->data;
        for (uint32_t i = 0; i < counts[c]; i++) assert_int_equal(got[i], counts[c] - 1 - i);
        meeting_free(&s);
    }
}

static void test_lanes_of_a_warp_wait_for_each_other(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        meeting s;
        char error[1500];
        meeting_init(&s);
        allocation *out = allocate(&s.m, 0, 32 * 4);
        const struct {
            uint32_t count;
            uint64_t out;
        } params = {20, out->address};
        vgpu_launch launch = launch_on(&s.m, 0, 1, 32, &params);
        launch.seed = seed;
        assert_done(meet(&s, "turn_taking", &launch, error, sizeof error), error);
        const uint32_t *got = (const uint32_t *)(const void *)out->data;
        for (uint32_t i = 0; i < 20; i++) assert_int_equal(got[i], 20 - i);
        meeting_free(&s);
    }
}

static void test_threads_have_arrays_of_their_own(void **state)
{
    (void)state;
    int index[64];
    float x[512];
    for (int i = 0; i < 64; i++) index[i] = i * 5 % 8;
    for (int i = 0; i < 512; i++) x[i] = (float)i;
    meeting s;
    char error[500];
    meeting_init(&s);
    allocation *out = allocate(&s.m, 0, 64 * sizeof(float));
    const uint64_t params[3] = {allocate_filled(&s.m, 0, index, sizeof index)->address,
                                allocate_filled(&s.m, 0, x, sizeof x)->address, out->address};
    const vgpu_launch launch = launch_on(&s.m, 0, 1, 64, params);
    assert_done(meet(&s, "local_array", &launch, error, sizeof error), error);
    const float *got = (const float *)(const void *)out->data;
    for (int i = 0; i < 64; i++) assert_true(got[i] == x[i * 8 + index[i]] * 2.0f);
    meeting_free(&s);
}

/* -- several devices -------------------------------------------------------------------------- */

enum { RING_DEVICES = 3, RING_ROUNDS = 20 };

typedef struct {
    const vgpu_program *program;
    vgpu_launch launch;
    struct {
        uint64_t mine, right;
        uint32_t rounds;
        int starts;
    } params;
    vgpu_outcome outcome;
    char error[1500];
} ring_device;

static void *run_ring_device(void *argument)
{
    ring_device *d = argument;
    d->outcome = vgpu_run(d->program, vgpu_program_kernel(d->program, "ring"), &d->launch,
                          d->error, sizeof d->error);
    return NULL;
}

/* All devices at once, each on a thread; the value of device 0 afterwards. */
static uint32_t run_ring(const vgpu_program *program, ptx_machine *m, ring_device *devices)
{
    pthread_t threads[RING_DEVICES];
    allocation *memory[RING_DEVICES];
    atomic_bool abort = false;
    for (int d = 0; d < RING_DEVICES; d++) memory[d] = allocate_filled(m, d, NULL, 8);
    for (int d = 0; d < RING_DEVICES; d++) {
        devices[d].program = program;
        devices[d].params.mine = memory[d]->address;
        devices[d].params.right = memory[(d + 1) % RING_DEVICES]->address;
        devices[d].params.rounds = RING_ROUNDS;
        devices[d].params.starts = d == 0;
        devices[d].launch = launch_on(m, d, 1, 32, &devices[d].params);
        devices[d].launch.abort = &abort;
        assert_int_equal(pthread_create(&threads[d], NULL, run_ring_device, &devices[d]), 0);
    }
    for (int d = 0; d < RING_DEVICES; d++) {
        pthread_join(threads[d], NULL);
        if (devices[d].outcome != VGPU_DONE) atomic_store(&abort, true);
    }
    uint32_t value;
    memcpy(&value, memory[0]->data + 4, sizeof value);
    return value;
}

static void test_devices_pass_a_value_around_by_flags(void **state)
{
    (void)state;
    static ring_device devices[RING_DEVICES];
    meeting s;
    meeting_init(&s);
    const uint32_t value = run_ring(s.program, &s.m, devices);
    for (int d = 0; d < RING_DEVICES; d++) assert_done(devices[d].outcome, devices[d].error);
    assert_int_equal(value, RING_DEVICES * RING_ROUNDS);
    meeting_free(&s);
}

/* One device is enough: it polls, or sets, a flag of another. */
static void test_a_flag_of_another_device_needs_system_scope(void **state)
{
    (void)state;
    static const char *const flags[] = {"st.release.sys", "ld.acquire.sys"};
    for (int i = 0; i < 2; i++) {
        meeting s;
        meeting_init(&s);
        for (char *at; (at = strstr(s.text, flags[i]));) memcpy(at + 11, "gpu", 3);
        vgpu_program *narrow = load_ptx(s.text);
        static const uint32_t set[2] = {1, 0};
        static ring_device d;
        d.program = narrow;
        d.params.mine = allocate_filled(&s.m, i == 1, set, 8)->address;
        d.params.right = allocate_filled(&s.m, 1, NULL, 8)->address;
        d.params.rounds = 1;
        d.params.starts = i == 0;
        d.launch = launch_on(&s.m, 0, 1, 32, &d.params);
        run_ring_device(&d);
        assert_reported(d.outcome, VGPU_REPORT, d.error,
                        WORDS("a flag at 0x7", "device 1", "less than .sys scope"));
        vgpu_program_destroy(narrow);
        meeting_free(&s);
    }
}

static void test_a_flag_that_another_device_uses_is_polled_at_system_scope(void **state)
{
    (void)state;
    meeting s;
    meeting_init(&s);
    for (char *at; (at = strstr(s.text, "ld.acquire.sys"));) memcpy(at + 11, "gpu", 3);
    vgpu_program *narrow = load_ptx(s.text);
    static ring_device d;
    const uint32_t set[2] = {1, 0};
    allocation *mine = allocate_filled(&s.m, 0, set, 8);
    mine->shadow[0] |= VGPU_FLAG_REMOTE; /* as a store by another device leaves it */
    d.program = narrow;
    d.params.mine = mine->address;
    d.params.right = allocate_filled(&s.m, 1, NULL, 8)->address;
    d.params.rounds = 1;
    d.params.starts = false;
    d.launch = launch_on(&s.m, 0, 1, 32, &d.params);
    run_ring_device(&d);
    assert_reported(d.outcome, VGPU_REPORT, d.error, WORDS("another device uses it too"));
    vgpu_program_destroy(narrow);
    meeting_free(&s);
}

static void test_a_launch_beyond_the_limits_is_refused(void **state)
{
    (void)state;
    meeting s;
    char error[500];
    meeting_init(&s);
    vgpu_launch launch = launch_on(&s.m, 0, 1, 257, NULL);
    assert_int_equal(meet(&s, "tree_sum", &launch, error, sizeof error), VGPU_BAD_LAUNCH);
    assert_non_null(strstr(error, "257 threads in a block of at most 256"));
    launch = launch_on(&s.m, 0, 0, 32, NULL);
    assert_int_equal(meet(&s, "tree_sum", &launch, error, sizeof error), VGPU_BAD_LAUNCH);
    meeting_free(&s);
}

static void test_a_kernel_tells_what_it_needs(void **state)
{
    (void)state;
    meeting s;
    meeting_init(&s);
    const vgpu_kernel *sum = kernel_of(s.program, "tree_sum");
    assert_int_equal(sum->param_count, 1);
    assert_int_equal(sum->param_bytes, 24);
    assert_int_equal(sum->param_size[0], 24);
    assert_int_equal(sum->static_shared_bytes, 1024);
    assert_int_equal(sum->max_threads, 256);
    assert_in_range(sum->register_estimate, 5, 40);
    assert_int_equal(kernel_of(s.program, "local_array")->local_bytes, 32);
    assert_null(vgpu_program_kernel(s.program, "nothing"));
    assert_ptr_equal(vgpu_program_kernel_at(s.program, 0), sum);
    assert_null(vgpu_program_kernel_at(s.program, 6));
    meeting_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tree_reduction_has_the_bits_of_the_tree),
        cmocka_unit_test(test_blocks_wait_for_each_other),
        cmocka_unit_test(test_a_block_that_waits_for_one_that_cannot_start_hangs_by_name),
        cmocka_unit_test(test_threads_that_left_early_do_not_hold_a_barrier),
        cmocka_unit_test(test_lanes_of_a_warp_wait_for_each_other),
        cmocka_unit_test(test_threads_have_arrays_of_their_own),
        cmocka_unit_test(test_devices_pass_a_value_around_by_flags),
        cmocka_unit_test(test_a_flag_of_another_device_needs_system_scope),
        cmocka_unit_test(test_a_flag_that_another_device_uses_is_polled_at_system_scope),
        cmocka_unit_test(test_a_launch_beyond_the_limits_is_refused),
        cmocka_unit_test(test_a_kernel_tells_what_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
