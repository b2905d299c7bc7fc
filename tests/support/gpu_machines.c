/* SPDX-License-Identifier: MIT */
/* gpu_machines.c -- see gpu_machines.h. */
#include "support/gpu_machines.h"

#include "device/cuda.h"
#include "support/fresh_process.h"
#include "support/test.h"

void need_gpus(int count)
{
    static const char *why; /* for gcc: what fails jumps out of here */
    const char *required = getenv("LS_REQUIRE_GPU");
    const int there = ls_cuda_usable_count(&why);
    if (there >= count) return;
    print_message("%d GPUs needed, %d there: %s\n", count, there, why);
    if (required != NULL && atoi(required) >= count) fail();
    skip();
}

void need_virtual_driver(void)
{
    if (!driver_is_virtual()) skip();
}

/* The driver is a real one: the case has been run. */
static bool ran_on_real_gpu(const char *name)
{
    need_gpus(1);
    if (driver_is_virtual()) return false;
    assert_case(name, "LOCKSTEP_VGPU_SEED=");
    return true;
}

void on_three_machines(const char *name)
{
    if (ran_on_real_gpu(name)) return;
    assert_case(name, "LOCKSTEP_VGPU_SEED=1", "LOCKSTEP_VGPU_CAPABILITY=80");
    assert_case(name, "LOCKSTEP_VGPU_SEED=2", "LOCKSTEP_VGPU_CAPABILITY=75");
    assert_case(name, "LOCKSTEP_VGPU_SEED=3", "LOCKSTEP_VGPU_CAPABILITY=120");
}

void on_three_sizes(const char *name)
{
    if (ran_on_real_gpu(name)) return;
    assert_case(name, "LOCKSTEP_VGPU_SEED=1", "LOCKSTEP_VGPU_CAPABILITY=80", "LOCKSTEP_VGPU_SM=1");
    assert_case(name, "LOCKSTEP_VGPU_SEED=2", "LOCKSTEP_VGPU_CAPABILITY=75", "LOCKSTEP_VGPU_SM=4");
    assert_case(name, "LOCKSTEP_VGPU_SEED=3", "LOCKSTEP_VGPU_CAPABILITY=90",
                "LOCKSTEP_VGPU_SM=132");
}
