/* SPDX-License-Identifier: MIT */
/* ptx_program.c -- programs from their creation to their end, and what they tell about themselves.
 */
#include "ptx_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_parse.h"

bool vgpu_program_create(const char *text, size_t bytes, vgpu_program **out, char *error,
                         size_t error_bytes)
{
    vgpu_program *p = calloc(1, sizeof *p);
    *out = NULL;
    error[0] = 0;
    if (p) p->text = strndup(text, bytes);
    if (!p || !p->text) {
        free(p);
        snprintf(error, error_bytes, "out of memory");
        return false;
    }
    vgpu_parser parser = {.program = p, .error = error, .error_bytes = error_bytes};
    const bool fine = vgpu_parse_module(&parser);
    free(parser.symbols);
    free(parser.labels);
    free(parser.fixups);
    free(parser.constants);
    if (fine) *out = p;
    else vgpu_program_destroy(p);
    return fine;
}

static void free_code(vgpu_code *code)
{
    for (size_t i = 0; i < code->table_count; i++) free(code->tables[i].target);
    free((void *)code->kernel.name);
    free((void *)code->kernel.param_offset);
    free((void *)code->kernel.param_size);
    free(code->code);
    free(code->constants);
    free(code->patches);
    free(code->tables);
}

void vgpu_program_destroy(vgpu_program *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->code_count; i++) free_code(&p->codes[i]);
    for (size_t i = 0; i < p->file_count; i++) free(p->files[i]);
    for (size_t i = 0; i < p->variable_count; i++) {
        free((void *)p->variables[i].name);
        if (p->images) free(p->images[i]);
    }
    free(p->codes);
    free(p->files);
    free(p->variables);
    free(p->images);
    free(p->relocations);
    free(p->text);
    free(p);
}

int vgpu_program_target(const vgpu_program *program) { return program->target; }

const vgpu_kernel *vgpu_program_kernel(const vgpu_program *program, const char *name)
{
    for (size_t i = 0; i < program->code_count; i++) {
        if (strcmp(program->codes[i].kernel.name, name) == 0) return &program->codes[i].kernel;
    }
    return NULL;
}

const vgpu_kernel *vgpu_program_kernel_at(const vgpu_program *program, size_t index)
{
    return index < program->code_count ? &program->codes[index].kernel : NULL;
}

size_t vgpu_program_variables(const vgpu_program *program, const vgpu_variable **variables)
{
    *variables = program->variables;
    return program->variable_count;
}

void vgpu_program_image(const vgpu_program *program, size_t index, const uint64_t *addresses,
                        void *image)
{
    memcpy(image, program->images[index], program->variables[index].bytes);
    for (size_t i = 0; i < program->relocation_count; i++) {
        const vgpu_relocation *r = &program->relocations[i];
        const uint64_t address = addresses[r->target] + (uint64_t)r->addend;
        if (r->variable == index) memcpy((char *)image + r->offset, &address, sizeof address);
    }
}
