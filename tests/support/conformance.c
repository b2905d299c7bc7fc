/* SPDX-License-Identifier: MIT */
/* conformance.c -- reads the cases, writes their PTX, compares what comes back.
 *
 * Arithmetic: all cases of an instruction are lanes of one warp. Operand k of lane l lies in the
 * input at 8 bytes times (4 l + k); the result of lane l at 8 l of the output:
 *
 *     ld.global.u32 %r1, [in + 32 l];    an operand of letter r
 *     add.u32 %r0, %r1, %r2;             the instruction under test
 *     st.global.u32 [out + 8 l], %r0;
 */
#include "support/conformance.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES_MAX = 64, OPERANDS_MAX = 4, TEXT_MAX = 16384 };

/* -- text ------------------------------------------------------------------------------------- */

typedef struct {
    char text[TEXT_MAX];
    size_t length;
} writer;

__attribute__((format(printf, 2, 3)))
static void put(writer *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(w->text + w->length, sizeof w->text - w->length, format, arguments);
    va_end(arguments);
    if (n > 0) w->length += (size_t)n;
    if (w->length >= sizeof w->text) w->length = sizeof w->text - 1;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

static void begin_module(writer *w, int target)
{
    put(w, ".version 7.0\n.target sm_%d\n.address_size 64\n", target);
}

static void begin_kernel(writer *w)
{
    put(w, ".visible .entry test(.param .u64 in, .param .u64 out)\n{\n"
           ".reg .pred %%p<16>;\n.reg .b16 %%h<16>;\n.reg .b32 %%r<16>;\n.reg .b64 %%d<16>;\n"
           ".reg .f32 %%f<16>;\n.reg .f64 %%e<16>;\n"
           "ld.param.u64 %%d0, [in];\nld.param.u64 %%d1, [out];\n"
           "cvta.to.global.u64 %%d0, %%d0;\ncvta.to.global.u64 %%d1, %%d1;\n"
           "mov.u32 %%r0, %%tid.x;\n");
}

static void fail(vgpu_conformance_result *result, const char *name, const char *why)
{
    if (!result->failures++) snprintf(result->first, sizeof result->first, "%s: %s", name, why);
}

static bool not_understood(vgpu_conformance_result *result, const char *line)
{
    snprintf(result->first, sizeof result->first, "not understood: %.*s",
             (int)strcspn(line, "\n"), line);
    return false;
}

/* -- arithmetic ------------------------------------------------------------------------------- */

typedef struct {
    char name[64], operands[8], immediate[24];
    size_t cases;
    uint64_t in[LANES_MAX][OPERANDS_MAX], expected[LANES_MAX];
} instruction;

/* "name operands [immediate]" */
static bool read_head(const char *line, instruction *i)
{
    *i = (instruction){0};
    return sscanf(line, "%63s %7s %23[^\n]", i->name, i->operands, i->immediate) >= 2;
}

/* " a b c = d" */
static bool read_values(const char *line, instruction *i)
{
    if (i->cases == LANES_MAX) return false;
    size_t k = 0;
    for (char *end; *line == ' '; line = end) {
        line++;
        if (*line == '=') {
            i->expected[i->cases++] = strtoull(line + 1, &end, 16);
            return *end == '\n' || !*end;
        }
        if (k == OPERANDS_MAX) return false;
        i->in[i->cases][k++] = strtoull(line, &end, 16);
    }
    return false;
}

/* The register of operand k: predicates %p, 16 bits %h, 32 and narrower types %r, 64 bits %d. */
static void put_register(writer *w, char letter, size_t k)
{
    put(w, "%%%c%zu", letter == 'p' ? 'p' : letter == 'h' ? 'h'
                      : letter == 'd' || letter == 'D' ? 'd' : 'r', k + 4);
}

static void put_load(writer *w, char letter, size_t k)
{
    const unsigned long at = 8ul * (unsigned long)(k - 1);
    if (letter == 'p') {
        put(w, "ld.global.u32 %%r3, [%%d2+%lu];\nsetp.ne.u32 %%p%zu, %%r3, 0;\n", at, k + 4);
        return;
    }
    put(w, "ld.global.%s ", letter == 'h' ? "u16" : letter == 'd' || letter == 'D' ? "u64" : "u32");
    put_register(w, letter, k);
    put(w, ", [%%d2+%lu];\n", at);
}

static void put_store(writer *w, char letter)
{
    if (letter == 'p') put(w, "selp.u32 %%r4, 1, 0, %%p4;\n");
    if (letter == 'h') put(w, "cvt.u32.u16 %%r4, %%h4;\n");
    const bool wide = letter == 'd' || letter == 'D';
    put(w, "st.global.%s [%%d3], %s;\n", wide ? "u64" : "u32", wide ? "%d4" : "%r4");
}

static void write_module(const instruction *i, writer *w)
{
    w->length = 0;
    begin_module(w, 75);
    begin_kernel(w);
    put(w, "mad.wide.u32 %%d2, %%r0, 32, %%d0;\nmad.wide.u32 %%d3, %%r0, 8, %%d1;\n");
    for (size_t k = 1; i->operands[k]; k++) {
        if (i->operands[k] != 'i') put_load(w, i->operands[k], k);
    }
    put(w, "%s ", i->name);
    for (size_t k = 0; i->operands[k]; k++) {
        if (k) put(w, ", ");
        if (i->operands[k] == 'i') put(w, "%s", i->immediate);
        else put_register(w, i->operands[k], k);
    }
    put(w, ";\n");
    put_store(w, i->operands[0]);
    put(w, "ret;\n}\n");
}

static bool is_nan64(uint64_t bits)
{
    return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
}

/* A NaN of f64 equals any other: its payload is the machine's own. */
static bool equal(const instruction *i, uint64_t got, uint64_t expected)
{
    const bool is_f64 = strstr(i->name, ".f64") && (i->operands[0] == 'd' || i->operands[0] == 'D');
    return got == expected || (is_f64 && is_nan64(got) && is_nan64(expected));
}

static void run_instruction(instruction *i, vgpu_conformance_runner *runner, void *context,
                            vgpu_conformance_result *result)
{
    static const size_t row = OPERANDS_MAX * sizeof(uint64_t);
    writer w;
    uint64_t out[LANES_MAX] = {0};
    char error[400] = "";
    write_module(i, &w);
    const vgpu_conformance_case test = {
        .name = i->name, .ptx = w.text, .target = 75, .grid = {1, 1, 1},
        .block = {(uint32_t)i->cases, 1, 1}, .in = i->in, .in_bytes = i->cases * row, .out = out,
        .out_bytes = i->cases * sizeof out[0],
    };
    result->instructions++;
    if (!runner(context, &test, error, sizeof error)) {
        fail(result, i->name, error);
        return;
    }
    for (size_t c = 0; c < i->cases; c++) {
        result->values++;
        if (equal(i, out[c], i->expected[c])) continue;
        snprintf(error, sizeof error, "of %llx %llx %llx %llx gives %llx, not %llx",
                 (unsigned long long)i->in[c][0], (unsigned long long)i->in[c][1],
                 (unsigned long long)i->in[c][2], (unsigned long long)i->in[c][3],
                 (unsigned long long)out[c], (unsigned long long)i->expected[c]);
        fail(result, i->name, error);
        return;
    }
}

bool vgpu_conformance_arithmetic(const char *text, vgpu_conformance_runner *runner, void *context,
                                 vgpu_conformance_result *result)
{
    instruction i = {0};
    *result = (vgpu_conformance_result){0};
    for (const char *line = text; *line; line = next_line(line)) {
        if (*line == '#') continue;
        if (*line == ' ') {
            if (!read_values(line, &i)) return not_understood(result, line);
            continue;
        }
        if (i.cases) run_instruction(&i, runner, context, result);
        if (!read_head(line, &i)) return not_understood(result, line);
    }
    if (i.cases) run_instruction(&i, runner, context, result);
    return true;
}

bool vgpu_conformance_has(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *line = text; *line; line = next_line(line)) {
        if (strncmp(line, name, length) == 0 && line[length] == ' ') return true;
    }
    return false;
}

/* -- programs --------------------------------------------------------------------------------- */

typedef struct {
    char name[64];
    vgpu_conformance_case test;
    uint32_t *in, *out, *expected; /* owned */
    writer module, body;
} program;

static bool read_case(const char *line, program *p)
{
    vgpu_conformance_case *t = &p->test;
    *t = (vgpu_conformance_case){.name = p->name};
    p->module.length = p->body.length = 0;
    p->module.text[0] = p->body.text[0] = 0;
    return sscanf(line, "case %63s sm_%d grid %u %u %u block %u %u %u dynamic %zu", p->name,
                  &t->target, &t->grid[0], &t->grid[1], &t->grid[2], &t->block[0], &t->block[1],
                  &t->block[2], &t->dynamic_shared_bytes) == 9;
}

/* Hexadecimal words up to the end of the line; owned by the caller. */
static uint32_t *read_words(const char *line, size_t *bytes)
{
    const size_t length = strcspn(line, "\n");
    uint32_t *words = calloc(length / 9 + 1, sizeof *words);
    size_t count = 0;
    for (const char *at = line; words && at < line + length && isxdigit((unsigned char)*at);) {
        char *end;
        words[count++] = (uint32_t)strtoul(at, &end, 16);
        at = end + (*end == ' ');
    }
    *bytes = count * sizeof *words;
    return words;
}

static void run_program(program *p, vgpu_conformance_runner *runner, void *context,
                        vgpu_conformance_result *result)
{
    writer w = {.length = 0};
    char error[400] = "";
    begin_module(&w, p->test.target);
    put(&w, "%s", p->module.text);
    begin_kernel(&w);
    put(&w, "mad.wide.u32 %%d2, %%r0, 4, %%d0;\nmad.wide.u32 %%d3, %%r0, 4, %%d1;\n%sret;\n}\n",
        p->body.text);
    p->test.ptx = w.text;
    p->test.in = p->in;
    p->test.out = p->out;
    result->instructions++;
    if (!runner(context, &p->test, error, sizeof error)) {
        fail(result, p->name, error);
        return;
    }
    for (size_t i = 0; i < p->test.out_bytes / sizeof *p->out; i++) {
        result->values++;
        if (p->out[i] == p->expected[i]) continue;
        snprintf(error, sizeof error, "word %zu is %08x, not %08x", i, p->out[i], p->expected[i]);
        fail(result, p->name, error);
        return;
    }
}

static void free_words(program *p)
{
    free(p->in);
    free(p->out);
    free(p->expected);
    p->in = p->out = p->expected = NULL;
}

bool vgpu_conformance_programs(const char *text, vgpu_conformance_runner *runner, void *context,
                               vgpu_conformance_result *result)
{
    program p = {.name = ""};
    bool fine = true;
    *result = (vgpu_conformance_result){0};
    for (const char *line = text; fine && *line; line = next_line(line)) {
        const int length = (int)strcspn(line, "\n");
        if (*line == ' ') {
            put(&p.body, "%.*s\n", length - 1, line + 1);
        } else if (strncmp(line, "module ", 7) == 0) {
            put(&p.module, "%.*s\n", length - 7, line + 7);
        } else if (strncmp(line, "in", 2) == 0) {
            p.in = read_words(line + 2 + (line[2] == ' '), &p.test.in_bytes);
        } else if (strncmp(line, "out ", 4) == 0) {
            p.expected = read_words(line + 4, &p.test.out_bytes);
            p.out = calloc(1, p.test.out_bytes + 1);
        } else if (strncmp(line, "end", 3) == 0) {
            fine = p.in && p.out && p.expected;
            if (fine) run_program(&p, runner, context, result);
            free_words(&p);
        } else if (*line != '#') {
            fine = read_case(line, &p);
        }
        if (!fine) not_understood(result, line);
    }
    free_words(&p);
    return fine;
}
