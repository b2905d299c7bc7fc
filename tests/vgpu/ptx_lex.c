/* SPDX-License-Identifier: MIT */
/* ptx_lex.c -- the tokens of ptx_lex.h. Comments and blanks vanish, lines are counted. */
#include "ptx_lex.h"

#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_word_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c && strchr("_$%.", c));
}

static bool is_word(char c) { return is_word_start(c) || is_digit(c); }

static void skip_blanks(vgpu_lexer *lexer)
{
    const char *p = lexer->at;
    for (;;) {
        if (*p == '\n') {
            lexer->line++;
            p++;
        } else if (*p == ' ' || *p == '\t' || *p == '\r') {
            p++;
        } else if (p[0] == '/' && p[1] == '/') {
            while (*p && *p != '\n') p++;
        } else if (p[0] == '/' && p[1] == '*') {
            for (p += 2; *p && !(p[0] == '*' && p[1] == '/'); p++) lexer->line += *p == '\n';
            if (*p) p += 2;
        } else {
            break;
        }
    }
    lexer->at = p;
}

vgpu_token vgpu_lex(vgpu_lexer *lexer)
{
    skip_blanks(lexer);
    const char *p = lexer->at;
    vgpu_token token = {.begin = p, .line = lexer->line};
    if (!*p) return token;
    if (is_word_start(*p)) {
        token.kind = VGPU_TOKEN_WORD;
        while (is_word(*p) || (p[0] == ':' && p[1] == ':')) p += *p == ':' ? 2 : 1;
    } else if (is_digit(*p)) {
        token.kind = VGPU_TOKEN_NUMBER;
        while (is_digit(*p) || (is_word(*p) && !strchr("$%_", *p))) p++;
    } else if (*p == '"') {
        token.kind = VGPU_TOKEN_STRING;
        token.begin = ++p;
        while (*p && *p != '"' && *p != '\n') p++;
        token.length = (size_t)(p - token.begin);
        lexer->at = *p == '"' ? p + 1 : p;
        return token;
    } else {
        token.kind = VGPU_TOKEN_MARK;
        p++;
    }
    token.length = (size_t)(p - token.begin);
    lexer->at = p;
    return token;
}

bool vgpu_token_is(const vgpu_token *token, const char *text)
{
    const size_t length = strlen(text);
    return token->length == length && memcmp(token->begin, text, length) == 0;
}

static int digit_value(char c)
{
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

bool vgpu_token_number(const vgpu_token *token, uint64_t *value, unsigned *float_bytes)
{
    const char *p = token->begin, *end = p + token->length;
    uint64_t base = 10;
    *float_bytes = 0;
    if (token->kind != VGPU_TOKEN_NUMBER) return false;
    if (token->length > 2 && p[0] == '0') {
        const char c = p[1];
        if ((c == 'f' || c == 'F') && token->length == 10) *float_bytes = 4;
        if ((c == 'd' || c == 'D') && token->length == 18) *float_bytes = 8;
        base = *float_bytes || c == 'x' || c == 'X' ? 16 : c == 'b' || c == 'B' ? 2 : 8;
        p += base == 8 ? 1 : 2;
    }
    if (end[-1] == 'U') end--;
    if (p == end) return false;
    *value = 0;
    for (; p < end; p++) {
        const uint64_t digit = (uint64_t)digit_value(*p);
        if (digit >= base || *value > (UINT64_MAX - digit) / base) return false;
        *value = *value * base + digit;
    }
    return true;
}
