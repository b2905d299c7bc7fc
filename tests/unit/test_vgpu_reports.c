/* SPDX-License-Identifier: MIT */
/* test_vgpu_reports.c -- errors of a kernel that the interpreter reports by name.
 *
 * Each in a few lines of PTX (ptx_machine.h).
 */
#include "support/test.h"

#include <stdatomic.h>
#include <stdio.h>

#include "support/ptx_machine.h"

/* Runs a body with two buffers: in has 252 bytes, all zero, out has 256 and is fresh. */
static vgpu_outcome run_body(const char *body, uint32_t threads, char *error, size_t error_bytes)
{
    vgpu_program *program = load_ptx(module_of(body));
    ptx_machine m;
    ptx_machine_init(&m);
    const uint64_t params[2] = {allocate_filled(&m, 0, NULL, 252)->address,
                                allocate(&m, 0, 256)->address};
    vgpu_launch launch = launch_on(&m, 0, 1, threads, params);
    launch.instruction_budget = 5000000;
    const vgpu_outcome outcome =
        vgpu_run(program, vgpu_program_kernel(program, "test"), &launch, error, error_bytes);
    ptx_machine_free(&m);
    vgpu_program_destroy(program);
    return outcome;
}

#define SHARED ".shared .align 16 .b8 s[256]; mov.u64 %d2, s; mad.wide.u32 %d3, %r0, 4, %d2;\n"

/* What each does wrong, and what is said about it. */
static const struct {
    const char *what, *body;
    uint32_t threads;
    vgpu_outcome outcome;
    const char *words[3];
} errors[] = {
    {"load behind the end", "add.u64 %d0, %d0, 253; ld.global.u8 %r1, [%d0+3];", 1,
     VGPU_ILLEGAL_ADDRESS, {"illegal global load of 1 bytes", "not allocated"}},
    {"load across the end",
     ".reg .b32 %q<4>; ld.global.v4.u32 {%q0,%q1,%q2,%q3}, [%d0+240];", 1,
     VGPU_ILLEGAL_ADDRESS, {"illegal global load of 16 bytes", "ends 12 bytes behind it"}},
    {"store to nothing", "mov.u64 %d4, 64; st.global.u32 [%d4], %r0;", 1,
     VGPU_ILLEGAL_ADDRESS, {"illegal global store of 4 bytes at 0x40"}},
    {"misaligned", "ld.global.u32 %r1, [%d0+2];", 1, VGPU_MISALIGNED_ADDRESS,
     {"misaligned load of 4 bytes"}},
    {"fresh memory", "ld.global.u32 %r1, [%d1];", 1, VGPU_REPORT, {"nobody has written"}},
    {"fresh flag", "ld.acquire.sys.global.u32 %r1, [%d1];", 1, VGPU_REPORT,
     {"nobody has set"}},
    {"shared overrun", SHARED "st.shared.u32 [%d3+256], %r0;", 1, VGPU_ILLEGAL_ADDRESS,
     {"illegal shared store", "256 static bytes"}},
    {"dynamic shared memory, of which there is none",
     "mov.u64 %d4, 1048576; st.shared.u32 [%d4], %r0;", 1, VGPU_ILLEGAL_ADDRESS,
     {"illegal shared store", "0 dynamic ones"}},
    {"fresh shared memory", SHARED "ld.shared.u32 %r1, [%d3];", 1, VGPU_REPORT,
     {"shared load of 4 bytes", "nobody has written"}},
    {"race of warps", SHARED "st.shared.u32 [%d3], %r0; ld.shared.u32 %r1, [%d2];", 64,
     VGPU_REPORT, {"race: this read of static shared memory at +0", "write by thread 0"}},
    {"race of lanes", SHARED "st.shared.u32 [%d3], %r0; ld.shared.u32 %r1, [%d2+12];", 32,
     VGPU_REPORT, {"race: this read", "write by thread 3 of the block at PTX line 13"}},
    {"write after read", SHARED "st.shared.u32 [%d3], %r0; bar.sync 0;\n"
     "ld.shared.u32 %r1, [%d2]; st.shared.u32 [%d2], %r1; st.shared.u32 [%d2], %r0;", 64,
     VGPU_REPORT, {"race: this write", "after the read by thread"}},
    {"two values in one store", SHARED "st.shared.u32 [%d2], %r0;", 32, VGPU_REPORT,
     {"race: this write", "after the write by thread 0"}},
    {"bytes of one word", SHARED "cvt.u64.u32 %d4, %r0; add.u64 %d4, %d4, %d2;\n"
     "st.shared.u8 [%d4], %r0; ld.shared.u8 %r1, [%d4];", 64, VGPU_DONE, {NULL}},
    {"a barrier of other warps", ".reg .b32 %w; shr.u32 %w, %r0, 5;\n" SHARED
     "setp.eq.u32 %p1, %w, 2; st.shared.u32 [%d2+0], 5;\n"
     "@%p1 bra other;\nbar.sync 1, 64;\nbra.uni end;\nother:\nst.shared.u32 [%d2], 6;\nend:",
     96, VGPU_REPORT, {"race: this write"}},
    {"exited lane", "setp.eq.u32 %p1, %r0, 5; @%p1 ret;\n"
     "shfl.sync.idx.b32 %r1, %r0, 0, 31, -1;", 32, VGPU_REPORT,
     {"lane 5 is in the mask 0xffffffff, but has exited", "PTX line 13"}},
    {"not in its mask", "shfl.sync.idx.b32 %r1, %r0, 0, 31, 0xffff;", 32, VGPU_REPORT,
     {"lane 16 is not in its own mask"}},
    {"reads outside of the mask", "setp.lt.u32 %p1, %r0, 16;\n"
     "@%p1 shfl.sync.idx.b32 %r1, %r0, 20, 31, 0xffff;", 32, VGPU_REPORT,
     {"reads lane 20, which is not in the mask"}},
    {"two collectives", "setp.lt.u32 %p1, %r0, 16; @%p1 bra low;\nbar.warp.sync -1;\n"
     "bra.uni end;\nlow:\nshfl.sync.idx.b32 %r1, %r0, 0, 31, -1;\nend:", 32, VGPU_REPORT,
     {"divergent collective", "bar.warp.sync"}},
    {"a lane elsewhere", "setp.lt.u32 %p1, %r0, 16; @%p1 bra low;\nbar.sync 0;\n"
     "bra.uni end;\nlow:\nbar.warp.sync -1;\nend:", 32, VGPU_HANG,
     {"no thread can go on", "warp 0 lanes 0x0000ffff wait at PTX line 16",
      "warp 0 lanes 0xffff0000 wait at PTX line 13"}},
    {"two barriers", "setp.lt.u32 %p1, %r0, 16; @%p1 bra low;\nbar.sync 0;\n"
     "bra.uni end;\nlow:\nbar.sync 0;\nend:", 64, VGPU_REPORT, {"divergent barrier"}},
    {"a barrier for too many", "setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 1, 64;", 64,
     VGPU_HANG, {"no thread can go on", "warp 0 lanes 0xffffffff wait"}},
    {"two counts", "setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 1, 64; @!%p1 bar.sync 1, 96;",
     96, VGPU_REPORT, {"barrier 1 waits for"}},
    {"endless", "again: add.u32 %r1, %r1, 0; bra.uni again;", 32, VGPU_HANG,
     {"no thread can go on", "loop at PTX line 12"}},
    {"endless in shared memory", SHARED "st.shared.u32 [%d3], 0;\nagain:\n"
     "ld.volatile.shared.u32 %r1, [%d3]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again;", 32,
     VGPU_HANG, {"no thread can go on", "last flag read: 0x0"}},
    {"endless by a flag", "again: ld.acquire.gpu.global.u32 %r1, [%d0];\n"
     "setp.eq.u32 %p1, %r1, 0; @%p1 bra again;", 32, VGPU_HANG,
     {"warp instructions are spent", "last flag read: 0x0 at 0x7000"}},
    {"copied, not waited for", SHARED "cp.async.ca.shared.global [%d3], [%d0], 4;\n"
     "cp.async.commit_group; ld.shared.u32 %r1, [%d3];", 32, VGPU_REPORT,
     {"cp.async", "is not waited for"}},
    {"the older group is waited for, not the newer",
     SHARED "cp.async.ca.shared.global [%d3], [%d0], 4; cp.async.commit_group;\n"
     "cp.async.ca.shared.global [%d3+128], [%d0], 4; cp.async.commit_group;\n"
     "cp.async.wait_group 1; ld.shared.u32 %r1, [%d3]; ld.shared.u32 %r1, [%d3+128];", 32,
     VGPU_REPORT, {"PTX line 15", "is not waited for"}},
    {"copied from an odd place", SHARED "cp.async.ca.shared.global [%d2], [%d0+4], 16;\n"
     "cp.async.wait_all;", 1, VGPU_MISALIGNED_ADDRESS, {"misaligned cp.async of 16 bytes"}},
    {"another's copy, no barrier", SHARED "cp.async.ca.shared.global [%d3], [%d0], 4;\n"
     "cp.async.wait_all; ld.shared.u32 %r1, [%d2];", 64, VGPU_REPORT, {"race: this read"}},
    {"copied from nowhere", SHARED "mov.u64 %d4, 128; cp.async.ca.shared.global [%d3], [%d4], "
     "4;\ncp.async.wait_all;", 1, VGPU_ILLEGAL_ADDRESS, {"illegal global load", "at 0x80"}},
    {"division by zero", "mov.u32 %r1, 0; div.u32 %r2, %r0, %r1;", 1, VGPU_REPORT,
     {"division by zero"}},
    {"trap", "setp.eq.u32 %p1, %r0, 7; @%p1 trap;", 32, VGPU_TRAP,
     {"thread (7,0,0)", "stops itself"}},
    {"parameters are read-only", "cvta.param.u64 %d4, in; st.u32 [%d4], %r0;", 1,
     VGPU_ILLEGAL_ADDRESS, {"parameters"}},
};

static void test_deliberate_errors_are_reported_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        char error[1500] = "";
        const vgpu_outcome outcome = run_body(errors[i].body, errors[i].threads, error,
                                              sizeof error);
        if (outcome != errors[i].outcome) {
            fail_msg("%s: outcome %d, not %d: %s", errors[i].what, outcome, errors[i].outcome,
                     error);
        }
        for (int w = 0; w < 3 && errors[i].words[w]; w++) {
            if (!strstr(error, errors[i].words[w])) {
                fail_msg("%s: '%s' is not in: %s", errors[i].what, errors[i].words[w], error);
            }
        }
    }
}

static void test_memory_freed_during_a_launch_is_not_used_any_more(void **state)
{
    (void)state;
    static const char *const last[] = {"ld.global.u32 %r1, [%d0];", "st.global.u32 [%d0], %r0;"};
    for (int i = 0; i < 2; i++) {
        char body[200], error[500];
        snprintf(body, sizeof body, "ld.global.u32 %%r1, [%%d0]; ld.global.u32 %%r1, [%%d1]; %s",
                 last[i]);
        vgpu_program *program = load_ptx(module_of(body));
        ptx_machine m;
        ptx_machine_init(&m);
        const uint64_t params[2] = {allocate_filled(&m, 0, NULL, 64)->address,
                                    allocate_filled(&m, 0, NULL, 64)->address};
        m.doomed = &m.at[0];
        const vgpu_launch launch = launch_on(&m, 0, 1, 1, params);
        const vgpu_outcome outcome = vgpu_run(program, vgpu_program_kernel(program, "test"),
                                              &launch, error, sizeof error);
        assert_reported(outcome, VGPU_ILLEGAL_ADDRESS, error, WORDS("PTX line 12", "illegal"));
        ptx_machine_free(&m);
        vgpu_program_destroy(program);
    }
}

static void test_lanes_that_parted_go_on_together(void **state)
{
    (void)state;
    char body[3000] = "setp.lt.u32 %p1, %r0, 7; @%p1 bra a; add.u32 %r1, %r0, 1; a:\n";
    for (int i = 0; i < 100; i++) strcat(body, "add.u32 %r1, %r1, 3;\n");
    vgpu_program *program = load_ptx(module_of(body));
    ptx_machine m;
    char error[500];
    uint64_t instructions = 0, params[2] = {0};
    ptx_machine_init(&m);
    vgpu_launch launch = launch_on(&m, 0, 1, 32, params);
    launch.instructions = &instructions;
    assert_done(vgpu_run(program, vgpu_program_kernel(program, "test"), &launch, error,
                         sizeof error), error);
    assert_in_range(instructions, 107, 110);
    vgpu_program_destroy(program);
}

static void test_what_is_read_incoherently_is_not_written(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "ld.global.nc.u32 %r1, [%d0]; st.global.u32 [%d0], %r1;",
        "st.global.u32 [%d0], %r0; ld.global.nc.u32 %r1, [%d0];",
        "ld.global.nc.u32 %r1, [%d0]; st.global.u32 [%d1], %r1; ld.global.u32 %r1, [%d1];",
    };
    for (int i = 0; i < 3; i++) {
        vgpu_program *program = load_ptx(module_of(bodies[i]));
        ptx_machine m;
        char error[500];
        ptx_machine_init(&m);
        const uint64_t params[2] = {allocate_filled(&m, 0, NULL, 64)->address,
                                    allocate(&m, 0, 64)->address};
        unsigned char trails[2][64] = {{0}}, pages[2][1] = {{0}};
        for (int k = 0; k < 2; k++) {
            m.at[k].trail = trails[k];
            m.at[k].trail_pages = pages[k];
        }
        const vgpu_launch launch = launch_on(&m, 0, 1, 1, params);
        const vgpu_outcome outcome = vgpu_run(program, vgpu_program_kernel(program, "test"),
                                              &launch, error, sizeof error);
        if (i < 2) assert_reported(outcome, VGPU_REPORT, error, WORDS("ld.nc"));
        else assert_done(outcome, error);
        assert_int_equal(pages[0][0], 1);
        assert_true(trails[0][3] & (i == 1 ? VGPU_TRAIL_WRITTEN : VGPU_TRAIL_READ));
        assert_int_equal(trails[0][4], 0);
        if (i == 2) assert_int_equal(trails[1][0], VGPU_TRAIL_READ | VGPU_TRAIL_WRITTEN);
        ptx_machine_free(&m);
        vgpu_program_destroy(program);
    }
}

static void test_a_launch_ends_when_it_is_told_to(void **state)
{
    (void)state;
    vgpu_program *program = load_ptx(module_of("again: ld.acquire.sys.global.u32 %r1, [%d0];\n"
                                           "setp.eq.u32 %p1, %r1, 0; @%p1 bra again;"));
    ptx_machine m;
    char error[500];
    atomic_bool abort = true;
    ptx_machine_init(&m);
    const uint64_t params[2] = {allocate_filled(&m, 0, NULL, 64)->address, 0};
    vgpu_launch launch = launch_on(&m, 0, 1, 32, params);
    launch.abort = &abort;
    assert_int_equal(vgpu_run(program, vgpu_program_kernel(program, "test"), &launch, error,
                              sizeof error), VGPU_ABORTED);
    ptx_machine_free(&m);
    vgpu_program_destroy(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deliberate_errors_are_reported_by_name),
        cmocka_unit_test(test_memory_freed_during_a_launch_is_not_used_any_more),
        cmocka_unit_test(test_lanes_that_parted_go_on_together),
        cmocka_unit_test(test_what_is_read_incoherently_is_not_written),
        cmocka_unit_test(test_a_launch_ends_when_it_is_told_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
