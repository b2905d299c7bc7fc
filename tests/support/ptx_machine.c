/* SPDX-License-Identifier: MIT */
/* ptx_machine.c -- see ptx_machine.h. */
#include "support/test.h"

#include "support/ptx_machine.h"

#include <stdio.h>

static bool find(void *context, int device, uint64_t address, vgpu_span *span, char *why,
                 size_t why_bytes)
{
    ptx_machine *m = context;
    for (int i = 0; i < m->count; i++) {
        const allocation *a = &m->at[i];
        if (address < a->address || address >= a->address + a->bytes) continue;
        if (m->doomed && a != m->doomed) {
            m->doomed->address = 0;
            m->doomed = NULL;
            atomic_fetch_add(&m->generation, 1);
        }
        *span = (vgpu_span){.address = a->address, .bytes = a->bytes, .data = a->data,
                            .shadow = a->shadow, .device = a->device, .writable = !a->constant,
                            .trail = a->trail, .trail_pages = a->trail_pages};
        return true;
    }
    snprintf(why, why_bytes, "not allocated on device %d", device);
    return false;
}

void ptx_machine_init(ptx_machine *m)
{
    memset(m, 0, sizeof *m);
    m->memory = (vgpu_memory){.context = m, .find = find, .generation = &m->generation};
}

void ptx_machine_free(ptx_machine *m)
{
    for (int i = 0; i < m->count; i++) {
        free(m->at[i].data);
        free(m->at[i].shadow);
    }
    m->count = 0;
}

allocation *allocate(ptx_machine *m, int device, size_t bytes)
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

allocation *allocate_filled(ptx_machine *m, int device, const void *from, size_t bytes)
{
    allocation *a = allocate(m, device, bytes);
    if (from) memcpy(a->data, from, bytes);
    else memset(a->data, 0, bytes);
    memset(a->shadow, VGPU_DEFINED, bytes);
    return a;
}

char *read_file_text(const char *path)
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

char *read_kernel_text(const char *name)
{
    const char *folder = getenv("LS_VGPU_PTX");
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "tests/vgpu/kernels", name);
    return read_file_text(path);
}

const char *module_of(const char *body)
{
    static char text[4096];
    snprintf(text, sizeof text,
             ".version 7.0\n.target sm_80\n.address_size 64\n"
             ".visible .entry test(.param .u64 in, .param .u64 out)\n{\n"
             ".reg .pred %%p<4>; .reg .b16 %%h<8>;\n.reg .b32 %%r<16>; .reg .f32 %%f<8>;\n"
             ".reg .b64 %%d<16>; .reg .f64 %%e<4>;\n"
             "ld.param.u64 %%d0, [in];\nld.param.u64 %%d1, [out];\nmov.u32 %%r0, %%tid.x;\n"
             "%s\nret;\n}\n", body);
    return text;
}

vgpu_program *load_ptx(const char *text)
{
    char error[500] = "";
    vgpu_program *program = NULL;
    if (!vgpu_program_create(text, strlen(text), &program, error, sizeof error)) {
        fail_msg("%s", error);
    }
    return program;
}

vgpu_launch launch_on(ptx_machine *m, int device, uint32_t blocks, uint32_t threads,
                      const void *params)
{
    return (vgpu_launch){
        .device = device, .grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .params = params,
        .memory = &m->memory, .seed = 1, .check_races = true, .check_defined = true,
        .instruction_budget = 50000000,
    };
}

const vgpu_kernel *kernel_of(const vgpu_program *program, const char *name)
{
    const vgpu_kernel *kernel = vgpu_program_kernel(program, name);
    if (!kernel) fail_msg("no kernel %s", name);
    return kernel;
}

void assert_done(vgpu_outcome outcome, const char *error)
{
    if (outcome != VGPU_DONE) fail_msg("outcome %d: %s", outcome, error);
}

void assert_reported(vgpu_outcome outcome, vgpu_outcome expected, const char *error,
                     const char *const *words)
{
    if (outcome != expected) fail_msg("outcome %d, not %d: %s", outcome, expected, error);
    for (; *words; words++) {
        if (!strstr(error, *words)) fail_msg("'%s' is not in: %s", *words, error);
    }
}
