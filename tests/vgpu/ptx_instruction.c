/* SPDX-License-Identifier: MIT */
/* ptx_instruction.c -- instructions: guard, name, operands by the letters of the table.
 *
 * Operands keep the order of the letters, with vectors spread out and a missing one marked
 * VGPU_ABSENT, so the executor finds each at a fixed place.
 */
#include <string.h>

#include "ptx_parse.h"
#include "ptx_rows.h"
#include "ptx_table.h"

/* The instruction being read. */
typedef struct {
    vgpu_parser *parser;
    vgpu_instruction *out;
    vgpu_token name;
    unsigned type_bytes; /* of its last word; 0 also where that is no type */
    bool is_float;       /* its last word is f32 or f64 */
    size_t count;        /* operands so far */
} reader;

/* -- names ------------------------------------------------------------------------------------ */

static bool name_has(const reader *r, const char *word)
{
    return vgpu_name_has(r->name.begin, r->name.length, word);
}

static void read_type(reader *r)
{
    const char *end = r->name.begin + r->name.length, *word = end;
    while (word > r->name.begin && word[-1] != '.') word--;
    if (vgpu_type_bytes(word, (size_t)(end - word), &r->type_bytes)) {
        r->is_float = *word == 'f';
        r->out->access.is_signed = *word == 's';
    }
    /* cvt.s32.u8: what decides about widening is the type of the destination. */
    if (r->out->kind == VGPU_CONVERT) {
        word = r->name.begin + 4;
        if (*word == 'r') word += 4;
        r->out->access.is_signed = *word == 's';
    }
}

static void read_access(reader *r)
{
    static const struct {
        const char *word;
        vgpu_space space;
    } spaces[] = {{".global", VGPU_GLOBAL}, {".shared", VGPU_SHARED}, {".local", VGPU_LOCAL},
                  {".param", VGPU_PARAM},   {".const", VGPU_CONST}};
    vgpu_access *a = &r->out->access;
    a->space = VGPU_GENERIC;
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        if (name_has(r, spaces[i].word)) a->space = spaces[i].space;
    }
    a->bytes = (unsigned char)r->type_bytes;
    a->count = name_has(r, ".v4") ? 4 : name_has(r, ".v2") ? 2 : 1;
    a->incoherent = name_has(r, ".nc");
    const bool atomic = r->out->kind == VGPU_ATOMIC;
    /* volatile is relaxed.sys, an atom without further words relaxed.gpu. */
    if (name_has(r, ".volatile") || name_has(r, ".relaxed") || atomic) a->order = VGPU_RELAXED;
    if (name_has(r, ".acquire")) a->order = VGPU_ACQUIRE;
    if (name_has(r, ".release")) a->order = VGPU_RELEASE;
    if (name_has(r, ".acq_rel")) a->order = VGPU_ACQ_REL;
    a->scope = name_has(r, ".volatile") ? VGPU_SCOPE_SYS : VGPU_SCOPE_GPU;
    if (name_has(r, ".sys")) a->scope = VGPU_SCOPE_SYS;
    if (name_has(r, ".cta")) a->scope = VGPU_SCOPE_CTA;
    a->returns = atomic && r->out->op->operands[0] == 't';
    const bool may_be_shared = a->space == VGPU_SHARED || a->space == VGPU_GENERIC;
    const bool loads = r->out->kind == VGPU_LOAD || r->out->kind == VGPU_STORE;
    if (loads && may_be_shared && a->bytes < 4) r->parser->code->has_narrow_shared = true;
}

static void read_mode(reader *r)
{
    static const struct {
        const char *word;
        vgpu_mode mode;
    } modes[] = {
        {".up", VGPU_UP},       {".down", VGPU_DOWN}, {".bfly", VGPU_BFLY}, {".idx", VGPU_IDX},
        {".all", VGPU_ALL},     {".any", VGPU_ANY},   {".uni", VGPU_UNI},
        {".ballot", VGPU_BALLOT}, {".arrive", VGPU_ARRIVE}, {".popc", VGPU_POPC},
        {".and", VGPU_AND},     {".or", VGPU_OR},     {".xor", VGPU_XOR},   {".add", VGPU_ADD},
        {".min", VGPU_MIN},     {".max", VGPU_MAX},   {".exch", VGPU_EXCH}, {".cas", VGPU_CAS},
        {".inc", VGPU_INC},     {".dec", VGPU_DEC},
    };
    const vgpu_kind kind = r->out->kind;
    if (kind == VGPU_BARRIER) r->out->mode = VGPU_SYNC;
    if (kind != VGPU_BARRIER && kind != VGPU_SHUFFLE && kind != VGPU_VOTE && kind != VGPU_ATOMIC) {
        return;
    }
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (name_has(r, modes[i].word)) r->out->mode = modes[i].mode;
    }
    r->out->aligned = strncmp(r->name.begin, "bar.", 4) == 0 || name_has(r, ".aligned");
}

/* -- single operands -------------------------------------------------------------------------- */

static vgpu_operand *new_operand(reader *r)
{
    if (r->count == VGPU_OPERANDS) {
        vgpu_parse_fail(r->parser, &r->name, "too many operands");
        return NULL;
    }
    return &r->out->operand[r->count++];
}

static bool read_immediate(reader *r, unsigned bytes, vgpu_operand *operand)
{
    vgpu_parser *parser = r->parser;
    const vgpu_token at = parser->token;
    uint64_t value;
    unsigned float_bytes = 0;
    if (at.kind == VGPU_TOKEN_NUMBER && vgpu_token_number(&at, &value, &float_bytes) &&
        float_bytes) {
        vgpu_parse_next(parser);
        if (float_bytes != bytes) return vgpu_parse_fail(parser, &at, "constant of another type");
    } else if (vgpu_parse_accept(parser, "WARP_SZ")) {
        value = VGPU_LANES;
    } else {
        if (!vgpu_parse_integer(parser, &value)) return false;
        if (r->is_float && r->out->kind != VGPU_CONVERT) {
            return vgpu_parse_fail(parser, &at, "an integer where a float is wanted");
        }
    }
    if (!bytes) return vgpu_parse_fail(parser, &at, "a number where a predicate is wanted");
    operand->constant = 1;
    operand->bytes = (unsigned char)bytes;
    operand->displacement = (int64_t)value;
    return vgpu_constant_row(parser, value, bytes, &operand->offset);
}

/* A register of `bytes`, or of at least so many; an immediate unless it is a destination. */
static bool read_value(reader *r, unsigned bytes, bool at_least, bool destination,
                       vgpu_operand *operand)
{
    vgpu_parser *parser = r->parser;
    const vgpu_token at = parser->token;
    if (destination && vgpu_parse_accept(parser, "_")) { /* the sink: the row at offset 0 */
        operand->bytes = (unsigned char)bytes;
        return true;
    }
    if (at.kind != VGPU_TOKEN_WORD || vgpu_token_is(&at, "WARP_SZ")) {
        if (destination) return vgpu_parse_fail(parser, &at, "not a register");
        return read_immediate(r, bytes, operand);
    }
    uint64_t offset;
    const vgpu_symbol *symbol = vgpu_symbol_find(parser, &at, &offset);
    if (!symbol) {
        return vgpu_parse_fail(parser, &at, "unknown name %.*s", (int)at.length, at.begin);
    }
    if (symbol->kind != VGPU_SYMBOL_REGISTER) {
        return vgpu_parse_fail(parser, &at, "%.*s is not a register", (int)at.length, at.begin);
    }
    const bool fits = at_least && bytes ? symbol->bytes >= bytes : symbol->bytes == bytes;
    if (!fits) {
        return vgpu_parse_fail(parser, &at, "register %.*s has %u bytes, the type %u",
                               (int)at.length, at.begin, symbol->bytes, bytes);
    }
    vgpu_parse_next(parser);
    operand->bytes = (unsigned char)symbol->bytes;
    operand->offset = (uint32_t)offset;
    return true;
}

/* [register], [name], [number], each with + or - numbers behind it. */
static bool read_address(reader *r, vgpu_operand *operand)
{
    vgpu_parser *parser = r->parser;
    if (!vgpu_parse_expect(parser, "[")) return false;
    const vgpu_token at = parser->token;
    const vgpu_symbol *symbol = NULL;
    if (at.kind == VGPU_TOKEN_WORD) {
        uint64_t offset;
        symbol = vgpu_symbol_find(parser, &at, &offset);
        if (!symbol || (symbol->kind == VGPU_SYMBOL_REGISTER && symbol->bytes < 4)) {
            return vgpu_parse_fail(parser, &at, "%.*s is no address", (int)at.length, at.begin);
        }
        vgpu_parse_next(parser);
        operand->bytes = (unsigned char)symbol->bytes;
        operand->offset = (uint32_t)offset;
    } else {
        uint64_t value;
        if (!vgpu_parse_integer(parser, &value)) return false;
        operand->constant = 1;
        operand->bytes = 8;
        if (!vgpu_constant_row(parser, value, 8, &operand->offset)) return false;
    }
    while (!vgpu_parse_accept(parser, "]")) {
        const bool minus = vgpu_token_is(&parser->token, "-");
        uint64_t value;
        if (!minus && !vgpu_parse_expect(parser, "+")) return false;
        if (!vgpu_parse_integer(parser, &value)) return false;
        operand->displacement = (int64_t)((uint64_t)operand->displacement + value);
    }
    if (symbol && symbol->kind == VGPU_SYMBOL_VARIABLE) {
        if (symbol->space != r->out->access.space) {
            return vgpu_parse_fail(parser, &at, "%.*s lies in another space", (int)at.length,
                                   at.begin);
        }
        operand->constant = 1;
        operand->bytes = 8;
        return vgpu_address_row(parser, symbol, 0, &operand->offset);
    }
    return true;
}

static bool read_label(reader *r)
{
    vgpu_parser *parser = r->parser;
    vgpu_fixup *fixup = vgpu_parse_push(parser, &parser->fixups, &parser->fixup_count,
                                        sizeof *fixup);
    if (!fixup) return false;
    fixup->name = parser->token;
    fixup->instruction = (size_t)(r->out - parser->code->code);
    vgpu_parse_next(parser);
    return true;
}

/* -- mov: a register, a constant, an address, a special register, or parts in braces ----------- */

static bool read_special(reader *r, const vgpu_token *name)
{
    static const struct {
        const char *name;
        unsigned bytes;
    } specials[VGPU_SPECIAL_COUNT] = {
        [VGPU_TID_X] = {"%tid.x", 4}, [VGPU_TID_Y] = {"%tid.y", 4}, [VGPU_TID_Z] = {"%tid.z", 4},
        [VGPU_NTID_X] = {"%ntid.x", 4}, [VGPU_NTID_Y] = {"%ntid.y", 4},
        [VGPU_NTID_Z] = {"%ntid.z", 4}, [VGPU_CTAID_X] = {"%ctaid.x", 4},
        [VGPU_CTAID_Y] = {"%ctaid.y", 4}, [VGPU_CTAID_Z] = {"%ctaid.z", 4},
        [VGPU_NCTAID_X] = {"%nctaid.x", 4}, [VGPU_NCTAID_Y] = {"%nctaid.y", 4},
        [VGPU_NCTAID_Z] = {"%nctaid.z", 4}, [VGPU_LANEID] = {"%laneid", 4},
        [VGPU_WARPID] = {"%warpid", 4}, [VGPU_NWARPID] = {"%nwarpid", 4},
        [VGPU_LANEMASK_EQ] = {"%lanemask_eq", 4}, [VGPU_LANEMASK_LT] = {"%lanemask_lt", 4},
        [VGPU_LANEMASK_LE] = {"%lanemask_le", 4}, [VGPU_LANEMASK_GT] = {"%lanemask_gt", 4},
        [VGPU_LANEMASK_GE] = {"%lanemask_ge", 4}, [VGPU_CLOCK] = {"%clock", 4},
        [VGPU_CLOCK64] = {"%clock64", 8}, [VGPU_GLOBALTIMER] = {"%globaltimer", 8},
        [VGPU_DYNAMIC_SHARED_BYTES] = {"%dynamic_smem_size", 4},
    };
    for (uint32_t i = 0; i < VGPU_SPECIAL_COUNT; i++) {
        if (!vgpu_token_is(name, specials[i].name)) continue;
        if (specials[i].bytes != r->type_bytes) {
            return vgpu_parse_fail(r->parser, name, "%s has %u bytes, the type %u",
                                   specials[i].name, specials[i].bytes, r->type_bytes);
        }
        r->out->kind = VGPU_SPECIAL;
        r->out->target = i;
        vgpu_parse_next(r->parser);
        return true;
    }
    return vgpu_parse_fail(r->parser, name, "unknown name %.*s", (int)name->length, name->begin);
}

/* {a, b} or {a, b, c, d}: registers whose sizes sum up to that of the type. */
static bool read_parts(reader *r, bool destination)
{
    size_t count = 0;
    const vgpu_token *rest = &r->parser->token;
    vgpu_lexer ahead = r->parser->lexer;
    for (vgpu_token t = *rest; !vgpu_token_is(&t, "}"); t = vgpu_lex(&ahead)) {
        if (t.kind == VGPU_TOKEN_END) break;
        count += vgpu_token_is(&t, ",");
    }
    count++;
    if (r->type_bytes % count || r->type_bytes / count < 2) {
        return vgpu_parse_fail(r->parser, &r->name, "parts do not fit the type");
    }
    for (size_t i = 0; i < count; i++) {
        vgpu_operand *part = &r->out->operand[1 + i];
        if (i && !vgpu_parse_expect(r->parser, ",")) return false;
        if (!read_value(r, r->type_bytes / (unsigned)count, false, destination, part)) return false;
    }
    r->out->access.count = (unsigned char)count;
    return vgpu_parse_expect(r->parser, "}");
}

static bool read_mov(reader *r)
{
    vgpu_parser *parser = r->parser;
    vgpu_operand *d = &r->out->operand[0], *a = &r->out->operand[1];
    r->out->kind = VGPU_ROW;
    r->out->row = vgpu_row_copy(r->type_bytes);
    if (vgpu_parse_accept(parser, "{")) {
        r->out->kind = VGPU_UNPACK;
        return read_parts(r, true) && vgpu_parse_expect(parser, ",") &&
               read_value(r, r->type_bytes, false, false, d);
    }
    if (!read_value(r, r->type_bytes, false, true, d) || !vgpu_parse_expect(parser, ",")) {
        return false;
    }
    if (vgpu_parse_accept(parser, "{")) {
        r->out->kind = VGPU_PACK;
        return read_parts(r, false);
    }
    const vgpu_token at = parser->token;
    uint64_t offset, value;
    const vgpu_symbol *symbol = at.kind == VGPU_TOKEN_WORD ? vgpu_symbol_find(parser, &at, &offset)
                                                           : NULL;
    if (at.kind != VGPU_TOKEN_WORD && name_has(r, ".pred")) { /* 0: false; -1, 1: true */
        a->constant = 1;
        return vgpu_parse_integer(parser, &value) &&
               vgpu_constant_row(parser, value ? UINT64_MAX : 0, 4, &a->offset);
    }
    if (at.kind == VGPU_TOKEN_WORD && !symbol && !vgpu_token_is(&at, "WARP_SZ")) {
        return read_special(r, &at);
    }
    if (!symbol || symbol->kind == VGPU_SYMBOL_REGISTER) {
        return read_value(r, r->type_bytes, false, false, a);
    }
    vgpu_parse_next(parser);
    uint64_t addend = 0;
    if (vgpu_parse_accept(parser, "+") && !vgpu_parse_integer(parser, &addend)) return false;
    if (r->type_bytes < 4) return vgpu_parse_fail(parser, &at, "an address needs 4 or 8 bytes");
    a->constant = 1;
    a->bytes = (unsigned char)r->type_bytes;
    if (r->type_bytes == 8) return vgpu_address_row(parser, symbol, (int64_t)addend, &a->offset);
    if (symbol->space == VGPU_GLOBAL || symbol->space == VGPU_CONST) {
        return vgpu_parse_fail(parser, &at, "a global address has 8 bytes");
    }
    return vgpu_constant_row(parser, symbol->offset + addend, 4, &a->offset);
}

/* cvta: generic = window + address in the space; .global and .const are their own windows. */
static bool read_cvta(reader *r)
{
    const uint64_t window = name_has(r, ".shared")  ? VGPU_WINDOW_SHARED
                            : name_has(r, ".local") ? VGPU_WINDOW_LOCAL
                            : name_has(r, ".param") ? VGPU_WINDOW_PARAM
                                                    : 0;
    const bool to = name_has(r, ".to");
    r->out->kind = VGPU_ROW;
    r->out->row = vgpu_table_find(to ? "sub.u64" : "add.u64", 7)->row;
    vgpu_operand *o = r->out->operand;
    o[2].constant = 1;
    o[2].bytes = 8;
    if (!read_value(r, 8, false, true, &o[0]) || !vgpu_parse_expect(r->parser, ",")) return false;
    const vgpu_token at = r->parser->token;
    uint64_t offset;
    const vgpu_symbol *symbol = at.kind == VGPU_TOKEN_WORD
                                    ? vgpu_symbol_find(r->parser, &at, &offset) : NULL;
    if (symbol && symbol->kind == VGPU_SYMBOL_VARIABLE) {
        o[1].constant = 1;
        o[1].bytes = 8;
        vgpu_parse_next(r->parser);
        if (!vgpu_address_row(r->parser, symbol, 0, &o[1].offset)) return false;
    } else if (!read_value(r, 8, false, false, &o[1])) {
        return false;
    }
    return vgpu_constant_row(r->parser, window, 8, &o[2].offset);
}

/* -- all operands ----------------------------------------------------------------------------- */

static bool has_destination(const vgpu_instruction *i)
{
    switch (i->kind) {
    case VGPU_ROW: case VGPU_DIVIDE: case VGPU_CONVERT: case VGPU_LOAD: case VGPU_SHUFFLE:
    case VGPU_VOTE: case VGPU_ACTIVE_MASK:
        return true;
    case VGPU_ATOMIC: return i->op->operands[0] == 't';
    case VGPU_BARRIER: return i->mode != VGPU_SYNC && i->mode != VGPU_ARRIVE;
    default: return false;
    }
}

static bool read_vector(reader *r, bool destination)
{
    const size_t count = r->out->access.count;
    if (count * r->type_bytes > 16) {
        return vgpu_parse_fail(r->parser, &r->name, "a vector of more than 16 bytes");
    }
    if (count > 1 && !vgpu_parse_expect(r->parser, "{")) return false;
    for (size_t i = 0; i < count; i++) {
        vgpu_operand *operand = new_operand(r);
        if (!operand || (i && !vgpu_parse_expect(r->parser, ","))) return false;
        if (!read_value(r, r->type_bytes, true, destination, operand)) return false;
    }
    return count == 1 || vgpu_parse_expect(r->parser, "}");
}

static bool read_operand(reader *r, char letter, bool destination)
{
    if (letter == 'v') return read_vector(r, destination);
    if (letter == 'l') return read_label(r);
    vgpu_operand *operand = new_operand(r);
    if (!operand) return false;
    switch (letter) {
    case 'p': return read_value(r, 0, false, destination, operand);
    case 'q':
        operand->negated = vgpu_parse_accept(r->parser, "!");
        return read_value(r, 0, false, false, operand);
    case 'h': return read_value(r, 2, false, destination, operand);
    case 'r': return read_value(r, 4, false, destination, operand);
    case 'd': return read_value(r, 8, false, destination, operand);
    case 'B': return read_value(r, 1, true, destination, operand);
    case 'H': return read_value(r, 2, true, destination, operand);
    case 'R': return read_value(r, 4, true, destination, operand);
    case 'D': return read_value(r, 8, true, destination, operand);
    case 't': return read_value(r, r->type_bytes, false, destination, operand);
    case 'a': return read_address(r, operand);
    default: return read_immediate(r, 4, operand); /* 'i' */
    }
}

static bool read_operands(reader *r)
{
    bool destination = has_destination(r->out), optional = false;
    for (const char *letter = r->out->op->operands; *letter; letter++) {
        if (*letter == '?') {
            optional = true;
            continue;
        }
        const bool pair = *letter == '|';
        if (pair) letter++;
        if ((pair && !vgpu_token_is(&r->parser->token, "|")) ||
            (optional && vgpu_token_is(&r->parser->token, ";"))) {
            vgpu_operand *absent = new_operand(r);
            if (!absent) return false;
            absent->bytes = VGPU_ABSENT;
            continue;
        }
        const char *before = pair ? "|" : ",";
        if (letter != r->out->op->operands && !vgpu_parse_expect(r->parser, before)) return false;
        if (!read_operand(r, *letter, destination)) return false;
        destination = destination && letter[1] == '|';
    }
    return true;
}

static bool read_guard(vgpu_parser *parser, vgpu_instruction *out)
{
    if (!vgpu_parse_accept(parser, "@")) return true;
    out->guarded = true;
    out->guard_negated = vgpu_parse_accept(parser, "!");
    const vgpu_token at = parser->token;
    uint64_t offset;
    const vgpu_symbol *symbol = vgpu_symbol_find(parser, &at, &offset);
    if (!symbol || symbol->kind != VGPU_SYMBOL_REGISTER || symbol->bytes) {
        return vgpu_parse_fail(parser, &at, "the guard is no predicate");
    }
    out->guard = (uint32_t)offset;
    vgpu_parse_next(parser);
    return true;
}

/* What the table cannot say. */
static bool check_operands(reader *r)
{
    const vgpu_operand *o = r->out->operand;
    if (r->out->kind == VGPU_COPY_ASYNC) {
        const int64_t bytes = o[2].displacement;
        const bool known = name_has(r, ".cg") ? bytes == 16
                                              : bytes == 4 || bytes == 8 || bytes == 16;
        if (!known) return vgpu_parse_fail(r->parser, &r->name, "cp.async of this size");
    }
    if (r->out->kind == VGPU_SHUFFLE && o[4].bytes == VGPU_ABSENT) {
        return vgpu_parse_fail(r->parser, &r->name, "operands are missing");
    }
    return true;
}

bool vgpu_parse_instruction(vgpu_parser *parser)
{
    vgpu_instruction *out = vgpu_parse_push(parser, &parser->code->code,
                                            &parser->code->code_count, sizeof *out);
    if (!out) return false;
    out->text = parser->token.begin;
    if (!read_guard(parser, out)) return false;
    reader r = {.parser = parser, .out = out, .name = parser->token};
    out->line = r.name.line;
    out->file = parser->loc_file;
    out->source_line = parser->loc_line;
    if (r.name.kind != VGPU_TOKEN_WORD) {
        return vgpu_parse_fail(parser, &r.name, "an instruction is wanted here");
    }
    out->op = vgpu_table_find(r.name.begin, r.name.length);
    if (!out->op) {
        return vgpu_parse_fail(parser, &r.name, "%.*s: %s", (int)r.name.length, r.name.begin,
                               vgpu_table_reason(r.name.begin, r.name.length));
    }
    out->kind = out->op->kind;
    out->row = out->op->row;
    vgpu_parse_next(parser);
    read_type(&r);
    read_access(&r);
    read_mode(&r);
    const bool is_cvta = strncmp(r.name.begin, "cvta", 4) == 0;
    const bool fine = out->kind != VGPU_MOVE ? read_operands(&r)
                      : is_cvta              ? read_cvta(&r)
                                             : read_mov(&r);
    return fine && check_operands(&r) && vgpu_parse_expect(parser, ";");
}
