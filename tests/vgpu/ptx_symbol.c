/* SPDX-License-Identifier: MIT */
/* ptx_symbol.c -- names in scope, and the rows that constants and registers occupy. */
#include "ptx_parse.h"

#include <string.h>

static bool same_name(const vgpu_symbol *symbol, const char *name, size_t length)
{
    return symbol->length == length && memcmp(symbol->name, name, length) == 0;
}

bool vgpu_symbol_add(vgpu_parser *parser, const vgpu_token *at, vgpu_symbol symbol)
{
    vgpu_symbol *new = vgpu_parse_push(parser, &parser->symbols, &parser->symbol_count,
                                       sizeof *new);
    if (!new) return false;
    symbol.name = at->begin;
    symbol.length = at->length;
    *new = symbol;
    return true;
}

/* Bytes between the rows of registers of one size. */
static uint64_t row_stride(unsigned bytes)
{
    return bytes ? (uint64_t)bytes * VGPU_LANES : sizeof(uint32_t);
}

const vgpu_symbol *vgpu_symbol_find(const vgpu_parser *parser, const vgpu_token *name,
                                    uint64_t *offset)
{
    /* Split off a member's number: "%rd12" may be member 12 of the family "%rd". */
    size_t stem = name->length;
    uint64_t member = 0, scale = 1;
    while (stem > 1 && name->length - stem < 9 && name->begin[stem - 1] >= '0' &&
           name->begin[stem - 1] <= '9') {
        stem--;
        member += scale * (uint64_t)(name->begin[stem] - '0');
        scale *= 10;
    }
    for (size_t i = parser->symbol_count; i-- > 0;) {
        const vgpu_symbol *symbol = &parser->symbols[i];
        *offset = symbol->offset;
        if (!symbol->family && same_name(symbol, name->begin, name->length)) return symbol;
        if (symbol->family && stem < name->length && member < symbol->count &&
            same_name(symbol, name->begin, stem)) {
            *offset += member * row_stride(symbol->bytes);
            return symbol;
        }
    }
    return NULL;
}

static uint64_t round_up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }

uint64_t vgpu_register_rows(vgpu_code *code, unsigned bytes, uint64_t count)
{
    const uint64_t begin = round_up(code->register_bytes, VGPU_ROW_ALIGN);
    code->register_bytes = begin + row_stride(bytes) * count;
    return begin;
}

/* A new row of constants with `value` in every lane; NULL with an error. */
static unsigned char *new_row(vgpu_parser *parser, uint64_t value, unsigned bytes,
                              uint32_t *offset)
{
    vgpu_code *code = parser->code;
    *offset = (uint32_t)round_up(code->constant_bytes, VGPU_ROW_ALIGN);
    const size_t end = *offset + row_stride(bytes);
    for (size_t i = code->constant_bytes; i < end; i++) {
        if (!vgpu_parse_push(parser, &code->constants, &code->constant_bytes, 1)) {
            return NULL;
        }
    }
    for (size_t lane = 0; lane < VGPU_LANES; lane++) {
        memcpy(code->constants + *offset + lane * bytes, &value, bytes);
    }
    return code->constants + *offset;
}

bool vgpu_constant_row(vgpu_parser *parser, uint64_t value, unsigned bytes, uint32_t *offset)
{
    if (bytes < 8) value &= (UINT64_C(1) << (8 * bytes)) - 1;
    for (size_t i = 0; i < parser->constant_count; i++) {
        const vgpu_constant *known = &parser->constants[i];
        if (known->value == value && known->bytes == bytes) {
            *offset = known->offset;
            return true;
        }
    }
    if (!new_row(parser, value, bytes, offset)) return false;
    vgpu_constant *new = vgpu_parse_push(parser, &parser->constants,
                                         &parser->constant_count, sizeof *new);
    if (!new) return false;
    *new = (vgpu_constant){.value = value, .bytes = bytes, .offset = *offset};
    return true;
}

bool vgpu_address_row(vgpu_parser *parser, const vgpu_symbol *symbol, int64_t addend,
                      uint32_t *offset)
{
    if (symbol->space != VGPU_GLOBAL && symbol->space != VGPU_CONST) {
        return vgpu_constant_row(parser, symbol->offset + (uint64_t)addend, 8, offset);
    }
    if (!new_row(parser, 0, 8, offset)) return false;
    vgpu_patch *patch = vgpu_parse_push(parser, &parser->code->patches,
                                        &parser->code->patch_count, sizeof *patch);
    if (!patch) return false;
    *patch = (vgpu_patch){.offset = *offset, .variable = symbol->variable, .addend = addend};
    return true;
}
