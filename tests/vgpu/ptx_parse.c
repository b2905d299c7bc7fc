/* SPDX-License-Identifier: MIT */
/* ptx_parse.c -- modules: their directives and variables; what all of the parser uses.
 *
 * What nvcc writes around instructions, and nothing else: an unknown directive is an error.
 * Debug sections and pragmas are skipped; functions are skipped too, for calls are refused where
 * they stand.
 */
#include "ptx_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_table.h"

/* -- tokens ------------------------------------------------------------------------------------ */

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

bool vgpu_parse_skip_to(vgpu_parser *parser, const char *open, const char *close)
{
    for (size_t depth = 1; depth;) {
        if (parser->token.kind == VGPU_TOKEN_END) return vgpu_parse_expect(parser, close);
        depth += open && vgpu_token_is(&parser->token, open);
        depth -= vgpu_token_is(&parser->token, close);
        vgpu_parse_next(parser);
    }
    return true;
}

/* -- declarations ------------------------------------------------------------------------------ */

bool vgpu_parse_declaration(vgpu_parser *parser, vgpu_declaration *d)
{
    *d = (vgpu_declaration){0};
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

size_t vgpu_place(const vgpu_declaration *d, size_t *end)
{
    const size_t offset = (*end + d->align - 1) / d->align * d->align;
    *end = offset + d->bytes;
    return offset;
}

bool vgpu_parse_block_variable(vgpu_parser *parser, vgpu_space space, size_t *end)
{
    vgpu_declaration d;
    if (!vgpu_parse_declaration(parser, &d)) return false;
    vgpu_symbol symbol = {.kind = VGPU_SYMBOL_VARIABLE, .space = space, .bytes = 8};
    if (d.open && space != VGPU_SHARED) return vgpu_parse_fail(parser, &d.name, "no size");
    symbol.offset = d.open ? VGPU_DYNAMIC_BASE : vgpu_place(&d, end);
    if (space == VGPU_SHARED && !d.open) symbol.offset += VGPU_SHARED_BASE;
    return vgpu_symbol_add(parser, &d.name, symbol) && vgpu_parse_expect(parser, ";");
}

/* -- variables of the module ------------------------------------------------------------------- */

/* One initial value: a number, name, generic(name), name+8. */
static bool parse_initial(vgpu_parser *parser, size_t variable, const vgpu_declaration *d,
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
    vgpu_declaration d;
    if (!vgpu_parse_declaration(parser, &d)) return false;
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

/* -- the module -------------------------------------------------------------------------------- */

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
    return vgpu_parse_skip_to(parser, "{", "}");
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
    if (vgpu_token_is(&at, ".entry")) return vgpu_parse_kernel(parser);
    if (vgpu_token_is(&at, ".func")) return skip_function(parser);
    if (vgpu_token_is(&at, ".global")) return parse_module_variable(parser, VGPU_GLOBAL);
    if (vgpu_token_is(&at, ".const")) return parse_module_variable(parser, VGPU_CONST);
    if (vgpu_token_is(&at, ".shared")) {
        return vgpu_parse_block_variable(parser, VGPU_SHARED, &parser->module_shared_bytes);
    }
    if (vgpu_token_is(&at, ".file")) return parse_file(parser);
    if (vgpu_token_is(&at, ".pragma")) return vgpu_parse_skip_to(parser, NULL, ";");
    if (vgpu_token_is(&at, ".section")) {
        vgpu_parse_next(parser);
        return vgpu_parse_expect(parser, "{") && vgpu_parse_skip_to(parser, "{", "}");
    }
    return vgpu_parse_fail(parser, &at, "this directive is not implemented");
}

bool vgpu_parse_module(vgpu_parser *parser)
{
    parser->lexer = (vgpu_lexer){.at = parser->program->text, .line = 1};
    vgpu_parse_next(parser);
    while (parser->token.kind != VGPU_TOKEN_END) {
        if (!parse_directive(parser)) return false;
    }
    return parser->program->target || vgpu_parse_fail(parser, &parser->token, ".target is missing");
}
