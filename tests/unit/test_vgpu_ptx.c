/* SPDX-License-Identifier: MIT */
/* test_vgpu_ptx.c -- the PTX interpreter of the virtual GPU: conformance, refusals, reports.
 *
 * Run from the root of the tree. Kernels that nvcc wrote lie in tests/vgpu/kernels as PTX beside
 * their sources, so no nvcc is needed; LS_VGPU_PTX names a folder with fresh ones.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "support/test.h"
#include "vgpu/conformance.h"
#include "vgpu/ptx.h"
#include "vgpu/ptx_rows.h"

/* -- a machine: memory of a few devices ------------------------------------------------------- */

enum { ALLOCATIONS = 16 };

typedef struct {
    uint64_t address;
    size_t bytes;
    unsigned char *data, *shadow;
    int device;
    bool constant;
} allocation;

typedef struct {
    allocation at[ALLOCATIONS];
    int count;
    atomic_uint generation;
    vgpu_memory memory;
} machine;

static bool find(void *context, int device, uint64_t address, vgpu_span *span, char *why,
                 size_t why_bytes)
{
    const machine *m = context;
    for (int i = 0; i < m->count; i++) {
        const allocation *a = &m->at[i];
        if (address < a->address || address >= a->address + a->bytes) continue;
        *span = (vgpu_span){.address = a->address, .bytes = a->bytes, .data = a->data,
                            .shadow = a->shadow, .device = a->device, .writable = !a->constant};
        return true;
    }
    snprintf(why, why_bytes, "not allocated on device %d", device);
    return false;
}

static void machine_init(machine *m)
{
    memset(m, 0, sizeof *m);
    m->memory = (vgpu_memory){.context = m, .find = find, .generation = &m->generation};
}

static void machine_free(machine *m)
{
    for (int i = 0; i < m->count; i++) {
        free(m->at[i].data);
        free(m->at[i].shadow);
    }
    m->count = 0;
}

/* Fresh memory: NaN bytes, nothing defined. */
static allocation *allocate(machine *m, int device, size_t bytes)
{
    assert_true(m->count < ALLOCATIONS);
    allocation *a = &m->at[m->count];
    const size_t rounded = (bytes + 64) / 64 * 64;
    *a = (allocation){.bytes = bytes, .device = device};
    a->address = UINT64_C(0x700000000000) + ((uint64_t)device << 40) + ((uint64_t)m->count << 28);
    a->data = aligned_alloc(64, rounded);
    a->shadow = calloc(rounded, 1);
    assert_non_null(a->data);
    assert_non_null(a->shadow);
    memset(a->data, 0xff, rounded);
    m->count++;
    return a;
}

static allocation *allocate_filled(machine *m, int device, const void *from, size_t bytes)
{
    allocation *a = allocate(m, device, bytes);
    if (from) memcpy(a->data, from, bytes);
    else memset(a->data, 0, bytes);
    memset(a->shadow, VGPU_DEFINED, bytes);
    return a;
}

/* -- launches --------------------------------------------------------------------------------- */

static vgpu_program *load(const char *text)
{
    char error[500] = "";
    vgpu_program *program = NULL;
    if (!vgpu_program_create(text, strlen(text), &program, error, sizeof error)) {
        fail_msg("%s", error);
    }
    return program;
}

/* All checks on, 50 M instructions. */
static vgpu_launch launch_on(machine *m, int device, uint32_t blocks, uint32_t threads,
                             const void *params)
{
    return (vgpu_launch){
        .device = device, .grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .params = params,
        .memory = &m->memory, .seed = 1, .check_races = true, .check_defined = true,
        .instruction_budget = 50000000,
    };
}

/* -- conformance ------------------------------------------------------------------------------ */

/* Variables of the module: at most four, allocated behind the buffers. */
static void allocate_variables(machine *m, const vgpu_program *program, uint64_t *addresses)
{
    const vgpu_variable *variables;
    const size_t count = vgpu_program_variables(program, &variables);
    assert_true(count <= 4);
    allocation *a[4];
    for (size_t i = 0; i < count; i++) {
        a[i] = allocate_filled(m, 0, NULL, variables[i].bytes);
        a[i]->constant = variables[i].constant;
        addresses[i] = a[i]->address;
    }
    for (size_t i = 0; i < count; i++) vgpu_program_image(program, i, addresses, a[i]->data);
}

static bool run_case(void *context, const vgpu_conformance_case *test, char *error,
                     size_t error_bytes)
{
    vgpu_program *program;
    (void)context;
    if (!vgpu_program_create(test->ptx, strlen(test->ptx), &program, error, error_bytes)) {
        return false;
    }
    machine m;
    machine_init(&m);
    uint64_t variables[4], params[2];
    params[0] = allocate_filled(&m, 0, test->in, test->in_bytes + 1)->address;
    allocation *out = allocate_filled(&m, 0, NULL, test->out_bytes);
    params[1] = out->address;
    allocate_variables(&m, program, variables);
    vgpu_launch launch = launch_on(&m, 0, 1, 1, params);
    memcpy(launch.grid, test->grid, sizeof launch.grid);
    memcpy(launch.block, test->block, sizeof launch.block);
    launch.dynamic_shared_bytes = test->dynamic_shared_bytes;
    launch.variables = variables;
    const vgpu_kernel *kernel = vgpu_program_kernel(program, "test");
    const bool done = vgpu_run(program, kernel, &launch, error, error_bytes) == VGPU_DONE;
    memcpy(test->out, out->data, test->out_bytes);
    machine_free(&m);
    vgpu_program_destroy(program);
    return done;
}

/* Owned by the caller. */
static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s: cannot be opened; run from the root of the tree", path);
    fseek(f, 0, SEEK_END);
    const long bytes = ftell(f);
    rewind(f);
    char *text = calloc((size_t)bytes + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)bytes, f), bytes);
    fclose(f);
    return text;
}

static void test_each_arithmetic_instruction_gives_what_the_isa_says(void **state)
{
    (void)state;
    char *text = read_text("tests/vgpu/conformance/arithmetic.txt");
    vgpu_conformance_result result;
    assert_true(vgpu_conformance_arithmetic(text, run_case, NULL, &result));
    if (result.failures) fail_msg("%zu instructions; first: %s", result.failures, result.first);
    assert_true(result.instructions > 400 && result.values > 5000);
    free(text);
}

static void test_every_arithmetic_row_of_the_table_has_cases(void **state)
{
    (void)state;
    char *text = read_text("tests/vgpu/conformance/arithmetic.txt");
    for (size_t i = 0; i < vgpu_row_op_count; i++) {
        if (!vgpu_conformance_has(text, vgpu_row_ops[i].pattern)) {
            fail_msg("no case for %s", vgpu_row_ops[i].pattern);
        }
    }
    free(text);
}

static void test_memory_branches_and_collectives_give_what_the_isa_says(void **state)
{
    (void)state;
    char *text = read_text("tests/vgpu/conformance/programs.txt");
    vgpu_conformance_result result;
    assert_true(vgpu_conformance_programs(text, run_case, NULL, &result));
    if (result.failures) fail_msg("%zu cases; first: %s", result.failures, result.first);
    assert_true(result.instructions > 300);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_arithmetic_instruction_gives_what_the_isa_says),
        cmocka_unit_test(test_every_arithmetic_row_of_the_table_has_cases),
        cmocka_unit_test(test_memory_branches_and_collectives_give_what_the_isa_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
