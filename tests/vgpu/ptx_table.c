/* SPDX-License-Identifier: MIT */
/* ptx_table.c -- instruction x type x modifier: what is not here is refused when a module loads.
 *
 * Arithmetic stands in ptx_rows.c, one full name per row. What is below takes many modifiers at a
 * time, so names are patterns: "(.a|.b|)" stands for any one of its choices, the empty one too.
 * Not here, on purpose: .ftz .approx .full (not exact), add sub mul mad without .rn (an assembler
 * may fuse them), floating-point atomics (their order is not defined), 16-bit floats, tensor cores,
 * textures, clusters, calls.
 */
#include "ptx_table.h"

#include <string.h>

#include "ptx_rows.h"

#define ANY_TYPE \
    "(.b8|.u8|.s8|.b16|.u16|.s16|.b32|.u32|.s32|.f32|.b64|.u64|.s64|.f64)"
#define FLAG_TYPE "(.b32|.u32|.s32|.b64|.u64|.s64)"
#define VECTOR "(.v2|.v4|)"
#define SCOPE "(.cta|.gpu|.sys)"
/* nvcc writes the scope of an atom behind its space, the ISA before it. */
#define ATOM "(.relaxed|.acquire|.release|.acq_rel|)(.cta|.gpu|.sys|)(.global|.shared|)" SCOPE_LATE
#define SCOPE_LATE "(.cta|.gpu|.sys|)"

static const vgpu_op ops[] = {
    {"mov(.b16|.u16|.s16|.b32|.u32|.s32|.f32|.b64|.u64|.s64|.f64|.pred)", "tt", VGPU_MOVE, NULL},
    {"cvta(.global|.shared|.local|.param|.const).u64", "dd", VGPU_MOVE, NULL},
    {"cvta.to(.global|.shared|.local|.param|.const).u64", "dd", VGPU_MOVE, NULL},

    {"ld(.param|.const)" VECTOR ANY_TYPE, "va", VGPU_LOAD, NULL},
    {"ld(.weak|)(.global|.shared|.local|)(.ca|.cg|.cs|)" VECTOR ANY_TYPE, "va", VGPU_LOAD, NULL},
    {"ld.global(.ca|.cg|.cs|).nc" VECTOR ANY_TYPE, "va", VGPU_LOAD, NULL},
    {"ld.volatile(.global|.shared|.local|)" VECTOR ANY_TYPE, "va", VGPU_LOAD, NULL},
    {"ld(.relaxed|.acquire)" SCOPE "(.global|.shared|)" FLAG_TYPE, "va", VGPU_LOAD, NULL},
    {"st(.weak|)(.global|.shared|.local|)(.wb|.cg|.cs|)" VECTOR ANY_TYPE, "av", VGPU_STORE, NULL},
    {"st.volatile(.global|.shared|.local|)" VECTOR ANY_TYPE, "av", VGPU_STORE, NULL},
    {"st(.relaxed|.release)" SCOPE "(.global|.shared|)" FLAG_TYPE, "av", VGPU_STORE, NULL},

    {"atom" ATOM "(.and|.or|.xor|.exch)(.b32|.b64)", "tat", VGPU_ATOMIC, NULL},
    {"atom" ATOM ".add(.u32|.s32|.u64)", "tat", VGPU_ATOMIC, NULL},
    {"atom" ATOM "(.inc|.dec).u32", "tat", VGPU_ATOMIC, NULL},
    {"atom" ATOM "(.min|.max)(.u32|.s32|.u64|.s64)", "tat", VGPU_ATOMIC, NULL},
    {"atom" ATOM ".cas(.b32|.b64)", "tatt", VGPU_ATOMIC, NULL},
    {"red" ATOM "(.and|.or|.xor)(.b32|.b64)", "at", VGPU_ATOMIC, NULL},
    {"red" ATOM ".add(.u32|.s32|.u64)", "at", VGPU_ATOMIC, NULL},
    {"red" ATOM "(.inc|.dec).u32", "at", VGPU_ATOMIC, NULL},
    {"red" ATOM "(.min|.max)(.u32|.s32|.u64|.s64)", "at", VGPU_ATOMIC, NULL},

    {"cp.async.ca.shared.global", "aai?r", VGPU_COPY_ASYNC, NULL},
    {"cp.async.cg.shared.global", "aai?r", VGPU_COPY_ASYNC, NULL},
    {"cp.async.commit_group", "", VGPU_COPY_COMMIT, NULL},
    {"cp.async.wait_group", "i", VGPU_COPY_WAIT, NULL},
    {"cp.async.wait_all", "", VGPU_COPY_WAIT, NULL},

    {"membar(.cta|.gl|.sys)", "", VGPU_FENCE, NULL},
    {"fence(.sc|.acq_rel|)" SCOPE, "", VGPU_FENCE, NULL},

    {"bra(.uni|)", "l", VGPU_BRANCH, NULL},
    {"brx.idx(.uni|)", "rl", VGPU_BRANCH_TABLE, NULL},
    {"ret(.uni|)", "", VGPU_EXIT, NULL},
    {"exit", "", VGPU_EXIT, NULL},
    {"trap", "", VGPU_TRAP_NOW, NULL},

    {"bar.sync", "r?r", VGPU_BARRIER, NULL},
    {"bar.arrive", "rr", VGPU_BARRIER, NULL},
    {"barrier.sync(.aligned|)", "r?r", VGPU_BARRIER, NULL},
    {"barrier.arrive(.aligned|)", "rr", VGPU_BARRIER, NULL},
    {"bar.red(.and|.or).pred", "prq", VGPU_BARRIER, NULL},
    {"bar.red.popc.u32", "rrq", VGPU_BARRIER, NULL},
    {"bar.warp.sync", "r", VGPU_WARP_SYNC, NULL},
    {"shfl.sync(.up|.down|.bfly|.idx).b32", "r|prrrr", VGPU_SHUFFLE, NULL},
    {"vote.sync(.all|.any|.uni).pred", "pqr", VGPU_VOTE, NULL},
    {"vote.sync.ballot.b32", "rqr", VGPU_VOTE, NULL},
    {"activemask.b32", "r", VGPU_ACTIVE_MASK, NULL},
    {"nanosleep.u32", "r", VGPU_SLEEP, NULL},
};

/* Does `name` spell the pattern out? Tries the choices of a parenthesis one by one. */
static bool matches(const char *pattern, const char *name, const char *end)
{
    for (; *pattern && *pattern != '('; pattern++, name++) {
        if (name == end || *name != *pattern) return false;
    }
    if (!*pattern) return name == end;
    const char *rest = strchr(pattern, ')') + 1;
    for (const char *choice = pattern + 1; choice < rest;) {
        const size_t length = strcspn(choice, "|)");
        if ((size_t)(end - name) >= length && memcmp(choice, name, length) == 0 &&
            matches(rest, name + length, end)) {
            return true;
        }
        choice += length + 1;
    }
    return false;
}

const vgpu_op *vgpu_table_find(const char *name, size_t length)
{
    for (size_t i = 0; i < vgpu_row_op_count; i++) {
        const char *row = vgpu_row_ops[i].pattern;
        if (strncmp(row, name, length) == 0 && !row[length]) return &vgpu_row_ops[i];
    }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (matches(ops[i].pattern, name, name + length)) return &ops[i];
    }
    return NULL;
}

bool vgpu_name_has(const char *name, size_t length, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= length; i++) {
        const bool ends = i + n == length || name[i + n] == '.';
        if (ends && memcmp(name + i, word, n) == 0) return true;
    }
    return false;
}

const char *vgpu_table_reason(const char *name, size_t length)
{
    static const struct {
        const char *word, *reason;
    } reasons[] = {
        {".ftz", "flushing subnormals to zero would change results"},
        {".approx", "approximations are the hardware's own; use .rn"},
        {".full", "approximations are the hardware's own; use .rn"},
        {".f16", "16-bit floating point is not implemented"},
        {".f16x2", "16-bit floating point is not implemented"},
        {".bf16", "16-bit floating point is not implemented"},
        {".bf16x2", "16-bit floating point is not implemented"},
        {".f32x2", "packed floating point is not implemented"},
        {"mma", "tensor cores are not implemented"},
        {"wmma", "tensor cores are not implemented"},
        {"ldmatrix", "tensor cores are not implemented"},
        {"tex", "textures are not implemented"},
        {"tld4", "textures are not implemented"},
        {"call", "calls of functions are not implemented: inline them"},
        {"mbarrier", "asynchronous barriers in memory are not implemented"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        const char *word = reasons[i].word;
        const size_t n = strlen(word);
        const bool starts = n <= length && memcmp(name, word, n) == 0 &&
                            (n == length || name[n] == '.');
        if (*word == '.' ? vgpu_name_has(name, length, word) : starts) return reasons[i].reason;
    }
    const bool is_float =
        vgpu_name_has(name, length, ".f32") || vgpu_name_has(name, length, ".f64");
    const bool is_sum = strncmp(name, "add.", 4) == 0 || strncmp(name, "sub.", 4) == 0 ||
                        strncmp(name, "mul.", 4) == 0 || strncmp(name, "mad.", 4) == 0;
    if (is_float && is_sum) return "without .rn an assembler may fuse it, and .rn is implemented";
    if (is_float && (strncmp(name, "atom.", 5) == 0 || strncmp(name, "red.", 4) == 0)) {
        return "floating-point atomics add in no defined order";
    }
    return "this instruction, type or modifier is not implemented";
}

bool vgpu_type_bytes(const char *type, size_t length, unsigned *bytes)
{
    if (length == 4 && memcmp(type, "pred", 4) == 0) {
        *bytes = 0;
        return true;
    }
    if (length < 2 || !strchr("busf", type[0])) return false;
    static const struct {
        const char *digits;
        unsigned bytes;
    } sizes[] = {{"8", 1}, {"16", 2}, {"32", 4}, {"64", 8}};
    for (size_t i = 0; i < 4; i++) {
        if (strlen(sizes[i].digits) == length - 1 &&
            memcmp(type + 1, sizes[i].digits, length - 1) == 0) {
            *bytes = sizes[i].bytes;
            return type[0] != 'f' || *bytes >= 4;
        }
    }
    return false;
}
