/* SPDX-License-Identifier: MIT */
/* ptx_lex.h -- PTX text cut into tokens.
 *
 * A word is a name with all that PTX lets hang on it: "ld.global.f32", "%tid.x", "$L__BB0_2",
 * ".maxntid". A number keeps its text ("0f3F800000"). Everything else is one character.
 */
#ifndef VGPU_PTX_LEX_H
#define VGPU_PTX_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { VGPU_TOKEN_END, VGPU_TOKEN_WORD, VGPU_TOKEN_NUMBER, VGPU_TOKEN_STRING,
               VGPU_TOKEN_MARK } vgpu_token_kind;

typedef struct {
    vgpu_token_kind kind;
    const char *begin; /* in the text; a string without its quotes */
    size_t length;
    uint32_t line; /* from 1 */
} vgpu_token;

typedef struct {
    const char *at; /* next character; the text ends with NUL */
    uint32_t line;
} vgpu_lexer;

vgpu_token vgpu_lex(vgpu_lexer *lexer);

bool vgpu_token_is(const vgpu_token *token, const char *text);

/* The bits of a number token: decimal, 0x, 0b, octal, with suffix U; 0fXXXXXXXX (bytes 4) and
 * 0dXXXXXXXXXXXXXXXX (bytes 8). *float_bytes: 4 or 8 for these two, else 0. */
bool vgpu_token_number(const vgpu_token *token, uint64_t *value, unsigned *float_bytes);

#endif
