/* SPDX-License-Identifier: MIT */
/* test_cuda_program.c -- what `lockstep devices` says about GPUs and the links between them.
 *
 * Runs the binary that LOCKSTEP names, on virtual GPUs whose links do what they are told.
 */
#include <stdlib.h>
#include <string.h>

#include "support/gpu_machines.h"
#include "support/program.h"
#include "support/test.h"

static program_run run; /* the latest */

static void test_help_version_and_host_lists_leave_the_driver_alone(void **state)
{
    (void)state;
    need_virtual_driver();
    program_run_with(&run, "LD_DEBUG=files", "--version");
    assert_false(program_said(&run, "libcuda"));
    program_run_with(&run, "LD_DEBUG=files", "train --help");
    assert_false(program_said(&run, "libcuda"));
    program_run_with(&run, "LD_DEBUG=files", "show ring 3");
    assert_false(program_said(&run, "libcuda"));
    program_run_with(&run, "LD_DEBUG=files", "devices");
    assert_true(program_said(&run, "libcuda.so.1")); /* or the tests above see nothing */
}

/* Row `row` and column `column` (0: the host) of the table that begins with `title`; -1: none. */
static double figure_at(const char *title, const char *row, int column)
{
    const char *at = strstr(run.text, title);
    if (at != NULL) at = strstr(at, row);
    if (at == NULL) return -1;
    at += strlen(row);
    for (; column > 0; column--) {
        while (*at == ' ') at++;
        at += strcspn(at, " \n");
    }
    char *end = NULL;
    const double figure = strtod(at, &end);
    return end != at && (*end == ' ' || *end == '\n') ? figure : -1;
}

static void test_devices_measures_links_and_finds_a_slow_one(void **state)
{
    (void)state;
    need_virtual_driver();
    program_run_with(&run, "LOCKSTEP_VGPU_NAME='Test GPU' LOCKSTEP_VGPU_LINKS=0\\>1:slow=3000",
                     "devices");
    const double us = figure_at("us, a copy", "0 cuda:0 Test GPU", 2);
    const double gb_per_s = figure_at("GB/s, copies", "0 cuda:0 Test GPU", 2);
    bool holds = us >= 3000 && gb_per_s > 0 && gb_per_s < 11.3; /* 32 MiB in 3 ms: 11.2 */
    static const struct {
        const char *row;
        int column;
    } cell[] = { { "\n      host ", 1 }, { "\n      host ", 2 }, { "0 cuda:0 Test GPU", 0 },
                 { "1 cuda:1 Test GPU", 0 }, { "1 cuda:1 Test GPU", 1 } };
    for (size_t i = 0; i < sizeof cell / sizeof cell[0]; i++) {
        holds = holds && figure_at("GB/s, copies", cell[i].row, cell[i].column) > 0;
        holds = holds && figure_at("us, a copy", cell[i].row, cell[i].column) > 0;
    }
    if (holds) return;
    program_show(&run);
    fail();
}

static void test_one_gpu_has_a_way_to_the_host(void **state)
{
    (void)state;
    need_virtual_driver();
    static const char *const list[] = { "devices --devices cuda:1", "devices --devices cuda:1*2" };
    for (int i = 0; i < 2; i++) {
        program_run_with(&run, "LOCKSTEP_VGPU_NAME='Test GPU'", list[i]);
        assert_true(figure_at("GB/s, copies", "0 cuda:1 Test GPU", 0) > 0);
        assert_true(figure_at("us, a copy", "\n      host ", 1) > 0);
    }
}

static void test_what_cannot_be_measured_is_called_so(void **state)
{
    (void)state;
    need_virtual_driver();
    program_run_with(&run, "", "devices");
    assert_true(program_said(&run, "GB/s, us: unmeasured (a virtual GPU's times say nothing)\n"));
    program_run_with(&run, "LOCKSTEP_VGPU_NAME=Test", "devices --p2p off");
    assert_true(program_said(&run, "GB/s, us: unmeasured\n"));
    /* too little memory for a large copy, on GPU or host: the pair is proven all the same */
    program_run_with(&run, "LOCKSTEP_VGPU_NAME=Test LOCKSTEP_VGPU_MEMORY=24M", "devices");
    assert_true(program_said(&run, "0 -> 1 -> 0"));
    assert_true(program_said(&run, "GB/s, us: unmeasured\n"));
    assert_false(program_said(&run, "is staged"));
    program_run_with(&run, "LOCKSTEP_VGPU_NAME=Test LOCKSTEP_VGPU_PINNED=24M", "devices");
    assert_true(program_said(&run, "GB/s, us: unmeasured\n"));
    assert_false(program_said(&run, "is staged"));
}

/* The probe's own bytes arrive over this link; the larger copies that follow do not. */
static void test_a_link_that_fails_while_it_is_measured_is_staged(void **state)
{
    (void)state;
    need_virtual_driver();
    program_run_with(&run, "LOCKSTEP_VGPU_NAME=Test LOCKSTEP_VGPU_LINKS=0\\>1:hang@40", "devices");
    assert_true(program_said(&run, "0 -> 1 is staged: not finished after 5 s\n"));
    assert_false(program_said(&run, "1 -> 0 is staged"));
    program_run_with(&run, "LOCKSTEP_VGPU_NAME=Test LOCKSTEP_VGPU_FAIL=cuEventElapsedTime@1=999",
                     "devices");
    assert_true(program_said(&run, "0 -> 1 is staged: cuda:0: cuEventElapsedTime failed while "
                                   "asking how long copies took"));
}

static void test_devices_says_how_new_the_driver_is(void **state)
{
    (void)state;
    need_virtual_driver();
    program_run_with(&run, "LOCKSTEP_VGPU_VERSION=13020", "devices --p2p off");
    assert_true(program_said(&run, "GPUs        2 usable; the driver is for CUDA 13.2\n"));
}

static void test_devices_says_how_much_memory_others_use(void **state)
{
    (void)state;
    need_virtual_driver();
    program_run_with(&run, "LOCKSTEP_VGPU_OTHERS=384M", "devices");
    assert_true(program_said(&run, "in use      cuda:0 384.0 MiB, by others"));
}

static void test_only_the_gpus_that_were_chosen_are_opened(void **state)
{
    (void)state;
    need_virtual_driver();
    program_run_with(&run, "LOCKSTEP_VGPU_TRACE=- LOCKSTEP_VGPU_DEVICES=4",
                     "devices --devices cuda:1,3");
    assert_true(program_said(&run, "gpu1: context made"));
    assert_true(program_said(&run, "gpu3: context made"));
    assert_false(program_said(&run, "gpu0: context"));
    assert_false(program_said(&run, "gpu2: context"));
    assert_true(program_said(&run, "cuda:2")); /* its facts are told all the same */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help_version_and_host_lists_leave_the_driver_alone),
        cmocka_unit_test(test_devices_measures_links_and_finds_a_slow_one),
        cmocka_unit_test(test_one_gpu_has_a_way_to_the_host),
        cmocka_unit_test(test_what_cannot_be_measured_is_called_so),
        cmocka_unit_test(test_a_link_that_fails_while_it_is_measured_is_staged),
        cmocka_unit_test(test_devices_says_how_new_the_driver_is),
        cmocka_unit_test(test_devices_says_how_much_memory_others_use),
        cmocka_unit_test(test_only_the_gpus_that_were_chosen_are_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
