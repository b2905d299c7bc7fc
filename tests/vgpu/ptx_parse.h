/* SPDX-License-Identifier: MIT */
/* ptx_parse.h -- the parser's state, shared by its files:
 *
 *     ptx_parse.c        modules: directives and variables
 *     ptx_kernel.c       kernels: parameters, registers, scopes, labels
 *     ptx_symbol.c       names and what they stand for; constants
 *     ptx_instruction.c  instructions and their operands
 *
 * All functions that return bool have written an error where they return false.
 */
#ifndef VGPU_PTX_PARSE_H
#define VGPU_PTX_PARSE_H

#include "ptx_lex.h"
#include "ptx_program.h"

typedef enum { VGPU_SYMBOL_REGISTER, VGPU_SYMBOL_VARIABLE } vgpu_symbol_kind;

/* A name in scope. "%r<8>" declares a family: %r0 .. %r7, rows one behind the other. */
typedef struct {
    const char *name;
    size_t length;
    vgpu_symbol_kind kind;
    bool family;
    uint32_t count;       /* members of a family */
    unsigned bytes;       /* register: of one lane; 0: predicate */
    uint64_t offset;      /* register: of the row; variable: address in its space */
    vgpu_space space;     /* of a variable */
    size_t variable;      /* of .global and .const: index in the program */
} vgpu_symbol;

typedef struct {
    vgpu_token name;
    uint32_t target; /* instruction, or branch table */
    bool is_table;
} vgpu_label;

/* A place that waits for a label. */
typedef struct {
    vgpu_token name;
    size_t instruction; /* its target; or, if `table` is given, an entry there */
    size_t table, entry;
    bool in_table;
} vgpu_fixup;

typedef struct {
    uint64_t value;
    unsigned bytes;
    uint32_t offset;
} vgpu_constant;

typedef struct {
    vgpu_program *program;
    vgpu_lexer lexer;
    vgpu_token token; /* the next one, not yet consumed */
    char *error;
    size_t error_bytes;

    vgpu_symbol *symbols; /* innermost scope last; all arrays owned */
    size_t symbol_count;

    /* the kernel being read */
    vgpu_code *code;
    vgpu_label *labels;
    size_t label_count;
    vgpu_fixup *fixups;
    size_t fixup_count;
    vgpu_constant *constants;
    size_t constant_count;
    uint32_t loc_file, loc_line;
    size_t module_shared_bytes; /* .shared outside of kernels: every kernel has it */
} vgpu_parser;

/* Writes "PTX line N: <text>: `the line`" and returns false. */
__attribute__((format(printf, 3, 4)))
bool vgpu_parse_fail(vgpu_parser *parser, const vgpu_token *at, const char *format, ...);

void vgpu_parse_next(vgpu_parser *parser);                   /* consumes one token */
bool vgpu_parse_accept(vgpu_parser *parser, const char *text); /* consumes it if it is `text` */
bool vgpu_parse_expect(vgpu_parser *parser, const char *text);
bool vgpu_parse_integer(vgpu_parser *parser, uint64_t *value); /* with an optional sign */

/* A new zeroed element at the end of an array, or NULL with an error. array: address of the
 * pointer to its first element. */
void *vgpu_parse_push(vgpu_parser *parser, void *array, size_t *count, size_t element_bytes);

/* Up to and with the `close` that matches an `open` already consumed (NULL: none nests). */
bool vgpu_parse_skip_to(vgpu_parser *parser, const char *open, const char *close);

/* .align N .type name[dimension]... : what variables and parameters have in common. */
typedef struct {
    vgpu_token name;
    size_t bytes;
    size_t element_bytes;
    size_t align;
    bool open; /* name[]: as large as the launch says */
} vgpu_declaration;
bool vgpu_parse_declaration(vgpu_parser *parser, vgpu_declaration *d);
/* The next place for `d` behind *end bytes; moves *end behind it. */
size_t vgpu_place(const vgpu_declaration *d, size_t *end);
/* Behind .shared or .local. *end: bytes used so far. */
bool vgpu_parse_block_variable(vgpu_parser *parser, vgpu_space space, size_t *end);

/* The whole text, from the lexer's first token; the program gets what it holds. */
bool vgpu_parse_module(vgpu_parser *parser);

/* ptx_kernel.c: behind .entry. */
bool vgpu_parse_kernel(vgpu_parser *parser);

/* ptx_symbol.c */
bool vgpu_symbol_add(vgpu_parser *parser, const vgpu_token *at, vgpu_symbol symbol);
/* What `name` means here; *offset: the row of the register, also of a family's member. */
const vgpu_symbol *vgpu_symbol_find(const vgpu_parser *parser, const vgpu_token *name,
                                    uint64_t *offset);
/* A row of `bytes` per lane that holds value in every lane. */
bool vgpu_constant_row(vgpu_parser *parser, uint64_t value, unsigned bytes, uint32_t *offset);
/* A row of 8 bytes per lane with the address of a symbol; plus addend. */
bool vgpu_address_row(vgpu_parser *parser, const vgpu_symbol *symbol, int64_t addend,
                      uint32_t *offset);
/* Room for `count` register rows, one behind the other; the first one's offset. */
uint64_t vgpu_register_rows(vgpu_code *code, unsigned bytes, uint64_t count);

/* ptx_instruction.c: one instruction, from its guard to ';'. */
bool vgpu_parse_instruction(vgpu_parser *parser);

#endif
