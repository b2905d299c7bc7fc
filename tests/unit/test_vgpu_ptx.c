/* SPDX-License-Identifier: MIT */
/* test_vgpu_ptx.c -- the PTX interpreter of the virtual GPU: conformance, and what it refuses.
 */
#include "support/test.h"

#include "support/conformance.h"
#include "support/ptx_machine.h"
#include "vgpu/ptx_rows.h"

/* -- conformance ------------------------------------------------------------------------------ */

/* Variables of the module: at most four, allocated behind the buffers. */
static void allocate_variables(ptx_machine *m, const vgpu_program *program, uint64_t *addresses)
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
    ptx_machine m;
    ptx_machine_init(&m);
    uint64_t variables[4], params[2];
    params[0] = allocate_filled(&m, 0, test->in, test->in_bytes)->address;
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
    ptx_machine_free(&m);
    vgpu_program_destroy(program);
    return done;
}

static void test_each_arithmetic_instruction_gives_what_the_isa_says(void **state)
{
    (void)state;
    char *text = read_file_text("tests/vgpu/conformance/arithmetic.txt");
    vgpu_conformance_result result;
    assert_true(vgpu_conformance_arithmetic(text, run_case, NULL, &result));
    if (result.failures) fail_msg("%zu instructions; first: %s", result.failures, result.first);
    assert_true(result.instructions > 400 && result.values > 5000);
    free(text);
}

static void test_every_arithmetic_row_of_the_table_has_cases(void **state)
{
    (void)state;
    char *text = read_file_text("tests/vgpu/conformance/arithmetic.txt");
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
    char *text = read_file_text("tests/vgpu/conformance/programs.txt");
    vgpu_conformance_result result;
    assert_true(vgpu_conformance_programs(text, run_case, NULL, &result));
    if (result.failures) fail_msg("%zu cases; first: %s", result.failures, result.first);
    assert_true(result.instructions > 300);
    free(text);
}

/* -- refusals and kernels read --------------------------------------------------------------- */

static void test_what_is_not_in_the_table_is_refused_with_line_and_reason(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        {"add.f32 %f1, %f2, %f3;", "without .rn an assembler may fuse it"},
        {"mul.ftz.f32 %f1, %f2, %f3;", "subnormals"},
        {"add.rn.ftz.f32 %f1, %f2, %f3;", "subnormals"},
        {"fma.rz.f32 %f1, %f2, %f3, %f4;", "not implemented"},
        {"ex2.approx.f32 %f1, %f2;", "approximations"},
        {"div.full.f32 %f1, %f2, %f3;", "approximations"},
        {"add.rn.f16 %h1, %h2, %h3;", "16-bit floating point"},
        {"fma.rn.bf16x2 %r1, %r2, %r3, %r4;", "16-bit floating point"},
        {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2},{%r1,%r2};",
         "tensor cores"},
        {"tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%d0, {%f5,%f6}];", "textures"},
        {"call.uni foo;", "calls of functions"},
        {"atom.global.add.f32 %f1, [%d0], %f2;", "no defined order"},
        {"red.global.add.f32 [%d0], %f2;", "no defined order"},
        {"ld.global.v4.u64 {%d2,%d3,%d4,%d5}, [%d0];", "more than 16 bytes"},
        {"ld.acquire.gpu.global.f32 %f1, [%d0];", "not implemented"},
        {"cvt.sat.f32.f32 %f1, %f2;", "not implemented"},
        {"add.u32 %r1, %r2, %d3;", "has 8 bytes, the type 4"},
        {"add.u32 %r1, %r2;", "is wanted before"},
        {"add.u32 %r1, %r2, %r99;", "unknown name %r99"},
        {"add.u32 3, %r2, %r3;", "not a register"},
        {"add.rn.f32 %f1, %f2, 3;", "an integer where a float is wanted"},
        {"add.rn.f32 %f1, %f2, 0d3FF0000000000000;", "constant of another type"},
        {"mov.u32 %r1, %smid;", "unknown name %smid"},
        {"bra nowhere;", "nowhere"},
        {"@%r1 bra nowhere;", "guard is no predicate"},
        {"cp.async.cg.shared.global [%r1], [%d0], 4;", "cp.async of this size"},
        {"setp.lt.and.u32 %p1, %r1, %r2, %p2;", "not implemented"},
        {".tex .u64 t;", "directive"},
        {"here: here: mov.u32 %r1, %r2;", "stands twice"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char error[500] = "";
        vgpu_program *program;
        const char *text = module_of(refused[i][0]);
        assert_false(vgpu_program_create(text, strlen(text), &program, error, sizeof error));
        assert_null(program);
        if (!strstr(error, refused[i][1]) || !strstr(error, "PTX line 12")) {
            fail_msg("'%s' in line 12 is not in: %s", refused[i][1], error);
        }
    }
}

static void test_broken_text_is_refused_and_never_read_beyond(void **state)
{
    (void)state;
    char *text = read_kernel_text("meetings.75.ptx");
    const size_t bytes = strlen(text);
    for (size_t cut = 0; cut < bytes; cut += 1 + cut / 40) {
        char error[500] = "", *part = malloc(cut + 1); /* no NUL behind it */
        vgpu_program *program = NULL;
        assert_non_null(part);
        memcpy(part, text, cut);
        if (!vgpu_program_create(part, cut, &program, error, sizeof error)) {
            assert_true(strlen(error) > 0);
        }
        vgpu_program_destroy(program);
        free(part);
    }
    free(text);
}

static void test_parameters_lie_as_in_a_struct_of_c(void **state)
{
    (void)state;
    vgpu_program *program =
        load_ptx(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry test(\n"
             ".param .u32 n, .param .u64 .ptr .global .align 1 p, .param .u8 c,\n"
             ".param .align 16 .b8 s[20], .param .f32 f)\n.maxntid 8, 4, 2\n{ ret; }\n");
    const vgpu_kernel *kernel = kernel_of(program, "test");
    static const size_t offsets[] = {0, 8, 16, 32, 52}, sizes[] = {4, 8, 1, 20, 4};
    assert_int_equal(kernel->param_count, 5);
    assert_memory_equal(kernel->param_offset, offsets, sizeof offsets);
    assert_memory_equal(kernel->param_size, sizes, sizeof sizes);
    assert_int_equal(kernel->param_bytes, 56);
    assert_int_equal(kernel->max_threads, 64);
    vgpu_program_destroy(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_arithmetic_instruction_gives_what_the_isa_says),
        cmocka_unit_test(test_every_arithmetic_row_of_the_table_has_cases),
        cmocka_unit_test(test_memory_branches_and_collectives_give_what_the_isa_says),
        cmocka_unit_test(test_what_is_not_in_the_table_is_refused_with_line_and_reason),
        cmocka_unit_test(test_broken_text_is_refused_and_never_read_beyond),
        cmocka_unit_test(test_parameters_lie_as_in_a_struct_of_c),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
