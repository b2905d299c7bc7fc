/* SPDX-License-Identifier: MIT */
/* ptx_parse.c -- modules: directives, variables, kernels with their parameters, scopes, labels.
 *
 * What nvcc writes around instructions, and nothing else: an unknown directive is an error.
 * Debug sections and pragmas are skipped; functions are skipped too, for calls are refused where
 * they stand.
 *
 * Addresses: static shared memory starts at VGPU_SHARED_BASE, dynamic at VGPU_DYNAMIC_BASE, local
 * memory and parameters at 0 of their spaces.
 */
#include "ptx_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_pressure.h"
#include "ptx_table.h"

/* -- tokens ----------------------------------------------------------------------------------- */

bool vgpu_parse_fail(vgpu_parser *parser, const vgpu_token *at, const char *format, ...)
{
    if (parser->error[0]) return false; /* the first error is the cause */
    const char *begin = at->begin;
    while (begin > parser->program->text && begin[-1] != '\n') begin--;
    while (*begin == ' ' || *begin == '\t') begin++;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(parser->error, parser->error_bytes, "PTX line %u: %s: `%.*s`", at->line, text,
             (int)strcspn(begin, "\r\n"), begin);
    return false;
}

void vgpu_parse_next(vgpu_parser *parser) { parser->token = vgpu_lex(&parser->lexer); }

bool vgpu_parse_accept(vgpu_parser *parser, const char *text)
{
    if (!vgpu_token_is(&parser->token, text)) return false;
    vgpu_parse_next(parser);
    return true;
}

bool vgpu_parse_expect(vgpu_parser *parser, const char *text)
{
    if (vgpu_parse_accept(parser, text)) return true;
    return vgpu_parse_fail(parser, &parser->token, "'%s' is wanted before '%.*s'", text,
                           (int)parser->token.length, parser->token.begin);
}

bool vgpu_parse_integer(vgpu_parser *parser, uint64_t *value)
{
    const bool minus = vgpu_parse_accept(parser, "-");
    const vgpu_token at = parser->token;
    unsigned float_bytes;
    if (!vgpu_token_number(&at, value, &float_bytes) || float_bytes) {
        return vgpu_parse_fail(parser, &at, "'%.*s' is no integer", (int)at.length, at.begin);
    }
    if (minus) *value = 0 - *value;
    vgpu_parse_next(parser);
    return true;
}

void *vgpu_parse_push(vgpu_parser *parser, void *array, size_t *count, size_t element_bytes)
{
    void *first;
    memcpy(&first, array, sizeof first);
    /* The capacity is the next power of two. */
    if ((*count & (*count - 1)) == 0) {
        const size_t capacity = *count ? *count * 2 : 1;
        void *grown = capacity <= SIZE_MAX / element_bytes
                          ? realloc(first, capacity * element_bytes) : NULL;
        if (!grown) {
            vgpu_parse_fail(parser, &parser->token, "out of memory");
            return NULL;
        }
        memcpy(array, &grown, sizeof grown);
        first = grown;
    }
    void *element = (unsigned char *)first + *count * element_bytes;
    memset(element, 0, element_bytes);
    ++*count;
    return element;
}

/* Up to and with the `close` that matches an `open` already consumed. */
static bool skip_to(vgpu_parser *parser, const char *open, const char *close)
{
    for (size_t depth = 1; depth;) {
        if (parser->token.kind == VGPU_TOKEN_END) return vgpu_parse_expect(parser, close);
        depth += open && vgpu_token_is(&parser->token, open);
        depth -= vgpu_token_is(&parser->token, close);
        vgpu_parse_next(parser);
    }
    return true;
}

/* -- declarations ----------------------------------------------------------------------------- */

/* .align N .type name[dimension]... : what variables and parameters have in common. */
typedef struct {
    vgpu_token name;
    size_t bytes;
    size_t element_bytes;
    size_t align;
    bool open; /* name[]: as large as the launch says */
} declaration;

static bool parse_declaration(vgpu_parser *parser, declaration *d)
{
    *d = (declaration){0};
    for (; *parser->token.begin == '.'; vgpu_parse_next(parser)) {
        unsigned bytes;
        uint64_t align;
        if (vgpu_token_is(&parser->token, ".align")) {
            vgpu_parse_next(parser);
            const vgpu_token at = parser->token;
            unsigned float_bytes;
            if (!vgpu_token_number(&at, &align, &float_bytes) || !align || (align & (align - 1))) {
                return vgpu_parse_fail(parser, &at, "alignment");
            }
            /* of what a pointer parameter (.ptr) points to: says nothing about its place */
            if (!d->element_bytes) d->align = align;
        } else if (vgpu_type_bytes(parser->token.begin + 1, parser->token.length - 1, &bytes)) {
            d->element_bytes = bytes;
        } else if (!(d->element_bytes && (vgpu_token_is(&parser->token, ".ptr") ||
                                          vgpu_token_is(&parser->token, ".global")))) {
            return vgpu_parse_fail(parser, &parser->token, "in a declaration");
        }
    }
    d->name = parser->token;
    if (!d->element_bytes || d->name.kind != VGPU_TOKEN_WORD) {
        return vgpu_parse_fail(parser, &d->name, "in a declaration");
    }
    vgpu_parse_next(parser);
    d->bytes = d->element_bytes;
    if (!d->align) d->align = d->element_bytes;
    while (vgpu_parse_accept(parser, "[")) {
        uint64_t dimension = 0;
        if (vgpu_parse_accept(parser, "]")) {
            d->open = true;
            d->bytes = 0;
            continue;
        }
        const vgpu_token at = parser->token;
        if (!vgpu_parse_integer(parser, &dimension)) return false;
        if (dimension > UINT32_MAX || d->bytes > UINT32_MAX) {
            return vgpu_parse_fail(parser, &at, "a size of more than 4 GiB");
        }
        d->bytes *= dimension;
        if (!vgpu_parse_expect(parser, "]")) return false;
    }
    return true;
}

/* The next place for `d` behind *end bytes; moves *end behind it. */
static size_t place(const declaration *d, size_t *end)
{
    const size_t offset = (*end + d->align - 1) / d->align * d->align;
    *end = offset + d->bytes;
    return offset;
}

/* One initial value: a number, name, generic(name), name+8. */
static bool parse_initial(vgpu_parser *parser, size_t variable, const declaration *d,
                          size_t offset)
{
    const vgpu_token at = parser->token;
    uint64_t value = 0;
    unsigned float_bytes;
    if (offset + d->element_bytes > d->bytes) {
        return vgpu_parse_fail(parser, &at, "more values than elements");
    }
    if (at.kind == VGPU_TOKEN_NUMBER && vgpu_token_number(&at, &value, &float_bytes)) {
        vgpu_parse_next(parser);
    } else if (at.kind != VGPU_TOKEN_WORD) {
        if (!vgpu_parse_integer(parser, &value)) return false;
    } else {
        const bool generic = vgpu_parse_accept(parser, "generic");
        if (generic && !vgpu_parse_expect(parser, "(")) return false;
        const vgpu_token name = parser->token;
        uint64_t ignored, addend = 0;
        const vgpu_symbol *symbol = vgpu_symbol_find(parser, &name, &ignored);
        if (!symbol || (symbol->space != VGPU_GLOBAL && symbol->space != VGPU_CONST) ||
            d->element_bytes != 8) {
            return vgpu_parse_fail(parser, &at, "initial value");
        }
        const size_t target = symbol->variable;
        vgpu_parse_next(parser);
        if (generic && !vgpu_parse_expect(parser, ")")) return false;
        if (vgpu_parse_accept(parser, "+") && !vgpu_parse_integer(parser, &addend)) return false;
        vgpu_program *p = parser->program;
        vgpu_relocation *r = vgpu_parse_push(parser, &p->relocations,
                                             &p->relocation_count, sizeof *r);
        if (!r) return false;
        *r = (vgpu_relocation){.variable = variable, .offset = offset, .target = target,
                               .addend = (int64_t)addend};
        return true;
    }
    memcpy(parser->program->images[variable] + offset, &value, d->element_bytes);
    return true;
}

/* Behind the space of a .global or .const variable; missing values are zero. */
static bool parse_module_variable(vgpu_parser *parser, vgpu_space space)
{
    vgpu_program *p = parser->program;
    declaration d;
    if (!parse_declaration(parser, &d)) return false;
    if (!d.bytes) return vgpu_parse_fail(parser, &d.name, "a variable without size");
    size_t image_count = p->variable_count;
    vgpu_variable *v = vgpu_parse_push(parser, &p->variables, &p->variable_count,
                                       sizeof *v);
    unsigned char **image = v ? vgpu_parse_push(parser, &p->images, &image_count,
                                                sizeof *image) : NULL;
    if (!image) return false;
    *v = (vgpu_variable){.name = strndup(d.name.begin, d.name.length), .bytes = d.bytes,
                         .align = d.align, .constant = space == VGPU_CONST};
    *image = calloc(d.bytes, 1);
    if (!v->name || !*image) return vgpu_parse_fail(parser, &d.name, "out of memory");
    const size_t index = p->variable_count - 1;
    const vgpu_symbol symbol = {.kind = VGPU_SYMBOL_VARIABLE, .space = space, .bytes = 8,
                                .variable = index};
    if (!vgpu_symbol_add(parser, &d.name, symbol)) return false;
    if (vgpu_parse_accept(parser, "=")) {
        const bool list = vgpu_parse_accept(parser, "{");
        size_t offset = 0;
        do {
            if (!parse_initial(parser, index, &d, offset)) return false;
            offset += d.element_bytes;
        } while (list && vgpu_parse_accept(parser, ","));
        if (list && !vgpu_parse_expect(parser, "}")) return false;
    }
    return vgpu_parse_expect(parser, ";");
}

/* Behind .shared or .local. *end: bytes used so far. */
static bool parse_block_variable(vgpu_parser *parser, vgpu_space space, size_t *end)
{
    declaration d;
    if (!parse_declaration(parser, &d)) return false;
    vgpu_symbol symbol = {.kind = VGPU_SYMBOL_VARIABLE, .space = space, .bytes = 8};
    if (d.open && space != VGPU_SHARED) return vgpu_parse_fail(parser, &d.name, "no size");
    symbol.offset = d.open ? VGPU_DYNAMIC_BASE : place(&d, end);
    if (space == VGPU_SHARED && !d.open) symbol.offset += VGPU_SHARED_BASE;
    return vgpu_symbol_add(parser, &d.name, symbol) && vgpu_parse_expect(parser, ";");
}

/* .reg .type name, name<N>, ... ; */
static bool parse_registers(vgpu_parser *parser)
{
    unsigned bytes;
    const vgpu_token type = parser->token;
    if (!vgpu_type_bytes(type.begin + 1, type.length - 1, &bytes) || bytes == 1) {
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

/* -- positions in the source ------------------------------------------------------------------ */

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
            if (vgpu_parse_accept(parser, "+") && !vgpu_parse_integer(parser, &column)) return false;
        }
    }
    parser->loc_file = (uint32_t)file;
    if (line) parser->loc_line = (uint32_t)line; /* 0: the compiler's own code */
    return true;
}

/* Behind .file: number "path" [, time, bytes]. */
static bool parse_file(vgpu_parser *parser)
{
    vgpu_program *p = parser->program;
    uint64_t number, ignored;
    const vgpu_token at = parser->token;
    if (!vgpu_parse_integer(parser, &number)) return false;
    if (number > 10000) return vgpu_parse_fail(parser, &at, "file number");
    while (p->file_count <= number) {
        if (!vgpu_parse_push(parser, &p->files, &p->file_count, sizeof *p->files)) {
            return false;
        }
    }
    const vgpu_token path = parser->token;
    if (path.kind != VGPU_TOKEN_STRING) return vgpu_parse_fail(parser, &path, "no path");
    size_t name = path.length;
    while (name > 0 && path.begin[name - 1] != '/') name--;
    free(p->files[number]);
    p->files[number] = strndup(path.begin + name, path.length - name);
    vgpu_parse_next(parser);
    while (vgpu_parse_accept(parser, ",")) {
        if (!vgpu_parse_integer(parser, &ignored)) return false;
    }
    return true;
}

/* -- labels ----------------------------------------------------------------------------------- */

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

/* -- kernels ---------------------------------------------------------------------------------- */

static bool parse_parameters(vgpu_parser *parser)
{
    vgpu_kernel *kernel = &parser->code->kernel;
    if (!vgpu_parse_accept(parser, "(")) return true;
    if (vgpu_parse_accept(parser, ")")) return true;
    do {
        declaration d;
        if (!vgpu_parse_expect(parser, ".param") || !parse_declaration(parser, &d)) return false;
        vgpu_symbol symbol = {.kind = VGPU_SYMBOL_VARIABLE, .space = VGPU_PARAM, .bytes = 8};
        symbol.offset = place(&d, &kernel->param_bytes);
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
    if (vgpu_parse_accept(parser, ".pragma")) return skip_to(parser, NULL, ";");
    if (vgpu_parse_accept(parser, ".shared")) {
        return parse_block_variable(parser, VGPU_SHARED, &kernel->static_shared_bytes);
    }
    if (vgpu_parse_accept(parser, ".local")) {
        return parse_block_variable(parser, VGPU_LOCAL, &kernel->local_bytes);
    }
    vgpu_lexer ahead = parser->lexer;
    const vgpu_token second = vgpu_lex(&ahead);
    if (first.kind == VGPU_TOKEN_WORD && vgpu_token_is(&second, ":")) {
        vgpu_parse_next(parser);
        vgpu_parse_next(parser);
        if (vgpu_parse_accept(parser, ".branchtargets")) return parse_branch_targets(parser, &first);
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

/* Falling off the end is a return. */
static bool close_body(vgpu_parser *parser)
{
    vgpu_code *code = parser->code;
    vgpu_instruction *end = vgpu_parse_push(parser, &code->code, &code->code_count,
                                            sizeof *end);
    if (!end) return false;
    *end = (vgpu_instruction){.op = vgpu_table_find("ret", 3), .kind = VGPU_EXIT, .text = "ret;",
                              .line = parser->token.line};
    code->kernel.register_estimate = vgpu_register_pressure(code);
    return true;
}

/* Behind .entry. */
static bool parse_kernel(vgpu_parser *parser)
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

/* -- the module ------------------------------------------------------------------------------- */

static bool parse_target(vgpu_parser *parser)
{
    const vgpu_token at = parser->token;
    if (at.length < 5 || memcmp(at.begin, "sm_", 3) != 0) {
        return vgpu_parse_fail(parser, &at, "target");
    }
    parser->program->target = atoi(at.begin + 3);
    vgpu_parse_next(parser);
    while (vgpu_parse_accept(parser, ",")) vgpu_parse_next(parser);
    return true;
}

/* A function: a declaration up to ';', or one with a body. */
static bool skip_function(vgpu_parser *parser)
{
    while (!vgpu_token_is(&parser->token, "{") && !vgpu_token_is(&parser->token, ";")) {
        if (parser->token.kind == VGPU_TOKEN_END) return vgpu_parse_expect(parser, ";");
        vgpu_parse_next(parser);
    }
    if (vgpu_parse_accept(parser, ";")) return true;
    vgpu_parse_next(parser);
    return skip_to(parser, "{", "}");
}

static bool parse_directive(vgpu_parser *parser)
{
    const vgpu_token at = parser->token;
    uint64_t bits;
    vgpu_parse_next(parser);
    if (vgpu_token_is(&at, ".visible") || vgpu_token_is(&at, ".weak") ||
        vgpu_token_is(&at, ".extern")) {
        return true; /* the linkage of what follows */
    }
    if (vgpu_token_is(&at, ".version")) {
        vgpu_parse_next(parser);
        return true;
    }
    if (vgpu_token_is(&at, ".target")) return parse_target(parser);
    if (vgpu_token_is(&at, ".address_size")) {
        if (!vgpu_parse_integer(parser, &bits)) return false;
        return bits == 64 || vgpu_parse_fail(parser, &at, "addresses of 32 bits");
    }
    if (vgpu_token_is(&at, ".entry")) return parse_kernel(parser);
    if (vgpu_token_is(&at, ".func")) return skip_function(parser);
    if (vgpu_token_is(&at, ".global")) return parse_module_variable(parser, VGPU_GLOBAL);
    if (vgpu_token_is(&at, ".const")) return parse_module_variable(parser, VGPU_CONST);
    if (vgpu_token_is(&at, ".shared")) {
        return parse_block_variable(parser, VGPU_SHARED, &parser->module_shared_bytes);
    }
    if (vgpu_token_is(&at, ".file")) return parse_file(parser);
    if (vgpu_token_is(&at, ".pragma")) return skip_to(parser, NULL, ";");
    if (vgpu_token_is(&at, ".section")) {
        vgpu_parse_next(parser);
        return vgpu_parse_expect(parser, "{") && skip_to(parser, "{", "}");
    }
    return vgpu_parse_fail(parser, &at, "this directive is not implemented");
}

static bool parse_module(vgpu_parser *parser)
{
    parser->lexer = (vgpu_lexer){.at = parser->program->text, .line = 1};
    vgpu_parse_next(parser);
    while (parser->token.kind != VGPU_TOKEN_END) {
        if (!parse_directive(parser)) return false;
    }
    return parser->program->target || vgpu_parse_fail(parser, &parser->token, ".target is missing");
}

/* -- programs --------------------------------------------------------------------------------- */

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
    const bool fine = parse_module(&parser);
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
