/* SPDX-License-Identifier: MIT */
/* ptx_kernel.c -- kernels: parameters, limits, registers, scopes, labels, positions in the source.
 *
 * Addresses: static shared memory starts at VGPU_SHARED_BASE, dynamic at VGPU_DYNAMIC_BASE, local
 * memory and parameters at 0 of their spaces. A label may be used before it is set: uses are kept
 * as fixups and resolved at the end of the body.
 */
#include <string.h>

#include "ptx_parse.h"
#include "ptx_pressure.h"
#include "ptx_table.h"

/* -- registers and positions ------------------------------------------------------------------- */

/* .reg .type name, name<N>, ... ; */
static bool parse_registers(vgpu_parser *parser)
{
    unsigned bytes;
    const vgpu_token type = parser->token;
    if (type.length < 2 || !vgpu_type_bytes(type.begin + 1, type.length - 1, &bytes) ||
        bytes == 1) {
        return vgpu_parse_fail(parser, &type, "registers of this type are not implemented");
    }
    vgpu_parse_next(parser);
    do {
        const vgpu_token name = parser->token;
        vgpu_symbol symbol = {.kind = VGPU_SYMBOL_REGISTER, .bytes = bytes};
        uint64_t count = 1;
        vgpu_parse_next(parser);
        if (vgpu_parse_accept(parser, "<")) {
            symbol.family = true;
            if (!vgpu_parse_integer(parser, &count) || !vgpu_parse_expect(parser, ">")) {
                return false;
            }
            if (count > 100000) return vgpu_parse_fail(parser, &name, "too many registers");
            symbol.count = (uint32_t)count;
        }
        symbol.offset = vgpu_register_rows(parser->code, bytes, count);
        if (!vgpu_symbol_add(parser, &name, symbol)) return false;
    } while (vgpu_parse_accept(parser, ","));
    return vgpu_parse_expect(parser, ";");
}

/* Behind .loc: file line column [, function_name label[+n], inlined_at file line column]. Of
 * inlined code the place that is wanted is where the kernel calls it. */
static bool parse_loc(vgpu_parser *parser)
{
    uint64_t file, line, column;
    if (!vgpu_parse_integer(parser, &file) || !vgpu_parse_integer(parser, &line) ||
        !vgpu_parse_integer(parser, &column)) {
        return false;
    }
    while (vgpu_parse_accept(parser, ",")) {
        if (vgpu_parse_accept(parser, "inlined_at")) {
            if (!vgpu_parse_integer(parser, &file) || !vgpu_parse_integer(parser, &line) ||
                !vgpu_parse_integer(parser, &column)) {
                return false;
            }
        } else {
            if (!vgpu_parse_expect(parser, "function_name")) return false;
            vgpu_parse_next(parser);
            if (vgpu_parse_accept(parser, "+") && !vgpu_parse_integer(parser, &column)) {
                return false;
            }
        }
    }
    parser->loc_file = (uint32_t)file;
    if (line) parser->loc_line = (uint32_t)line; /* 0: the compiler's own code */
    return true;
}

/* -- labels ------------------------------------------------------------------------------------ */

static bool add_label(vgpu_parser *parser, const vgpu_token *name, bool is_table, size_t target)
{
    for (size_t i = 0; i < parser->label_count; i++) {
        const vgpu_token *known = &parser->labels[i].name;
        if (known->length == name->length && memcmp(known->begin, name->begin, name->length) == 0) {
            return vgpu_parse_fail(parser, name, "label %.*s stands twice", (int)name->length,
                                   name->begin);
        }
    }
    vgpu_label *label = vgpu_parse_push(parser, &parser->labels, &parser->label_count,
                                        sizeof *label);
    if (!label) return false;
    *label = (vgpu_label){.name = *name, .target = (uint32_t)target, .is_table = is_table};
    return true;
}

/* Behind `label: .branchtargets`: label, label, ... ; */
static bool parse_branch_targets(vgpu_parser *parser, const vgpu_token *name)
{
    vgpu_code *code = parser->code;
    const size_t index = code->table_count;
    vgpu_branch_table *table = vgpu_parse_push(parser, &code->tables, &code->table_count,
                                               sizeof *table);
    if (!table || !add_label(parser, name, true, index)) return false;
    do {
        vgpu_fixup *fixup = vgpu_parse_push(parser, &parser->fixups,
                                            &parser->fixup_count, sizeof *fixup);
        if (!fixup) return false;
        *fixup = (vgpu_fixup){.name = parser->token, .table = index, .entry = table->count,
                              .in_table = true};
        if (!vgpu_parse_push(parser, &table->target, &table->count,
                             sizeof *table->target)) {
            return false;
        }
        vgpu_parse_next(parser);
    } while (vgpu_parse_accept(parser, ","));
    return vgpu_parse_expect(parser, ";");
}

static bool resolve_labels(vgpu_parser *parser)
{
    vgpu_code *code = parser->code;
    for (size_t i = 0; i < parser->fixup_count; i++) {
        const vgpu_fixup *fixup = &parser->fixups[i];
        const vgpu_token *name = &fixup->name;
        const bool wants_table =
            !fixup->in_table && code->code[fixup->instruction].kind == VGPU_BRANCH_TABLE;
        const vgpu_label *found = NULL;
        for (size_t k = 0; k < parser->label_count && !found; k++) {
            const vgpu_label *label = &parser->labels[k];
            if (label->name.length == name->length && label->is_table == wants_table &&
                memcmp(label->name.begin, name->begin, name->length) == 0) {
                found = label;
            }
        }
        if (!found) {
            return vgpu_parse_fail(parser, name, "label %.*s is nowhere", (int)name->length,
                                   name->begin);
        }
        uint32_t *target = fixup->in_table ? &code->tables[fixup->table].target[fixup->entry]
                                           : &code->code[fixup->instruction].target;
        *target = found->target;
    }
    return true;
}

/* -- kernels ----------------------------------------------------------------------------------- */

static bool parse_parameters(vgpu_parser *parser)
{
    vgpu_kernel *kernel = &parser->code->kernel;
    if (!vgpu_parse_accept(parser, "(")) return true;
    if (vgpu_parse_accept(parser, ")")) return true;
    do {
        vgpu_declaration d;
        if (!vgpu_parse_expect(parser, ".param") || !vgpu_parse_declaration(parser, &d)) {
            return false;
        }
        vgpu_symbol symbol = {.kind = VGPU_SYMBOL_VARIABLE, .space = VGPU_PARAM, .bytes = 8};
        symbol.offset = vgpu_place(&d, &kernel->param_bytes);
        size_t sizes = kernel->param_count;
        size_t *offset = vgpu_parse_push(parser, &kernel->param_offset,
                                         &kernel->param_count, sizeof *offset);
        size_t *bytes = offset ? vgpu_parse_push(parser, &kernel->param_size, &sizes,
                                                 sizeof *bytes) : NULL;
        if (!bytes || !vgpu_symbol_add(parser, &d.name, symbol)) return false;
        *offset = symbol.offset;
        *bytes = d.bytes;
    } while (vgpu_parse_accept(parser, ","));
    return vgpu_parse_expect(parser, ")");
}

/* .maxntid and its like, between the parameters and the body. */
static bool parse_limits(vgpu_parser *parser)
{
    parser->code->kernel.max_threads = 1024;
    while (*parser->token.begin == '.') {
        const vgpu_token name = parser->token;
        const bool threads = vgpu_token_is(&name, ".maxntid") || vgpu_token_is(&name, ".reqntid");
        if (!threads && !vgpu_token_is(&name, ".minnctapersm") &&
            !vgpu_token_is(&name, ".maxnreg")) {
            return vgpu_parse_fail(parser, &name, "this directive is not implemented");
        }
        uint64_t product = 1, value;
        do {
            vgpu_parse_next(parser);
            if (!vgpu_parse_integer(parser, &value)) return false;
            product = value && value <= 1024 ? product * value : 0;
        } while (vgpu_token_is(&parser->token, ","));
        if (threads && (!product || product > 1024)) {
            return vgpu_parse_fail(parser, &name, "threads per block");
        }
        if (threads) parser->code->kernel.max_threads = (unsigned)product;
    }
    return true;
}

/* One statement of a body that is no scope. */
static bool parse_statement(vgpu_parser *parser)
{
    vgpu_kernel *kernel = &parser->code->kernel;
    const vgpu_token first = parser->token;
    if (vgpu_parse_accept(parser, ".reg")) return parse_registers(parser);
    if (vgpu_parse_accept(parser, ".loc")) return parse_loc(parser);
    if (vgpu_parse_accept(parser, ".pragma")) return vgpu_parse_skip_to(parser, NULL, ";");
    if (vgpu_parse_accept(parser, ".shared")) {
        return vgpu_parse_block_variable(parser, VGPU_SHARED, &kernel->static_shared_bytes);
    }
    if (vgpu_parse_accept(parser, ".local")) {
        return vgpu_parse_block_variable(parser, VGPU_LOCAL, &kernel->local_bytes);
    }
    vgpu_lexer ahead = parser->lexer;
    const vgpu_token second = vgpu_lex(&ahead);
    if (first.kind == VGPU_TOKEN_WORD && vgpu_token_is(&second, ":")) {
        vgpu_parse_next(parser);
        vgpu_parse_next(parser);
        if (vgpu_parse_accept(parser, ".branchtargets")) {
            return parse_branch_targets(parser, &first);
        }
        return add_label(parser, &first, false, parser->code->code_count);
    }
    if (*first.begin == '.') {
        return vgpu_parse_fail(parser, &first, "this directive is not implemented");
    }
    return vgpu_parse_instruction(parser);
}

/* From '{' to its '}'; names declared inside end there. */
static bool parse_scope(vgpu_parser *parser, unsigned depth)
{
    const size_t outer = parser->symbol_count;
    if (!vgpu_parse_expect(parser, "{")) return false;
    while (!vgpu_parse_accept(parser, "}")) {
        if (parser->token.kind == VGPU_TOKEN_END || depth > 100) {
            return vgpu_parse_fail(parser, &parser->token, "'}' is wanted");
        }
        const bool fine = vgpu_token_is(&parser->token, "{") ? parse_scope(parser, depth + 1)
                                                             : parse_statement(parser);
        if (!fine) return false;
    }
    parser->symbol_count = outer;
    return true;
}

/* What an assembler needs: about as many as live at once, but never more than leaves room for a
 * block of the most threads that the kernel says it may have. */
static unsigned register_estimate(const vgpu_code *code)
{
    const unsigned pressure = vgpu_register_pressure(code), all = 65536, unit = 8, most = 255;
    if (code->kernel.max_threads == 1024) return pressure; /* said nothing, or cannot have more */
    const unsigned room = all / code->kernel.max_threads / unit * unit;
    const unsigned limit = room < most ? room : most;
    return pressure < limit ? pressure : limit;
}

/* Falling off the end is a return. */
static bool close_body(vgpu_parser *parser)
{
    vgpu_code *code = parser->code;
    vgpu_instruction *end = vgpu_parse_push(parser, &code->code, &code->code_count,
                                            sizeof *end);
    if (!end) return false;
    *end = (vgpu_instruction){.op = vgpu_table_find("ret", 3), .kind = VGPU_EXIT, .text = "ret;",
                              .line = parser->token.line};
    code->kernel.register_estimate = register_estimate(code);
    return true;
}

bool vgpu_parse_kernel(vgpu_parser *parser)
{
    vgpu_program *p = parser->program;
    parser->code = vgpu_parse_push(parser, &p->codes, &p->code_count, sizeof *p->codes);
    if (!parser->code) return false;
    vgpu_code *code = parser->code;
    code->register_bytes = 8 * VGPU_LANES; /* the sink */
    code->kernel.static_shared_bytes = parser->module_shared_bytes;
    code->kernel.name = strndup(parser->token.begin, parser->token.length);
    if (!code->kernel.name) return vgpu_parse_fail(parser, &parser->token, "out of memory");
    parser->label_count = parser->fixup_count = parser->constant_count = 0;
    parser->loc_file = parser->loc_line = 0;
    const size_t outer = parser->symbol_count;
    vgpu_parse_next(parser);
    if (!parse_parameters(parser) || !parse_limits(parser) || !parse_scope(parser, 0) ||
        !close_body(parser) || !resolve_labels(parser)) {
        return false;
    }
    parser->symbol_count = outer;
    parser->code = NULL;
    return true;
}
