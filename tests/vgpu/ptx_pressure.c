/* SPDX-License-Identifier: MIT */
/* ptx_pressure.c -- registers live at once.
 *
 * A register lives from its first to its last mention. A mention inside a loop keeps it alive to
 * the loop's end if it was there before the loop began: for each branch back from j to i, lives
 * that begin before i and end in [i, j] end at j. Loops are met inner before outer, in the order
 * of their ends, so one pass suffices.
 */
#include "ptx_pressure.h"

#include <stdlib.h>

enum { MOST_REGISTERS = 255 }; /* of a thread; an assembler moves code until they suffice */

typedef struct {
    uint32_t first, last; /* instructions, from 1; 0: never mentioned */
    unsigned bytes;
} life;

static void mention(life *l, unsigned bytes, size_t instruction)
{
    if (!l->first) l->first = (uint32_t)instruction;
    l->last = (uint32_t)instruction;
    l->bytes = bytes;
}

static void mention_all(const vgpu_code *code, life *lives)
{
    for (size_t i = 0; i < code->code_count; i++) {
        const vgpu_instruction *in = &code->code[i];
        for (size_t k = 0; k < VGPU_OPERANDS; k++) {
            const vgpu_operand *o = &in->operand[k];
            if (o->constant || !o->bytes || o->bytes == VGPU_ABSENT) continue;
            mention(&lives[o->offset / VGPU_ROW_ALIGN], o->bytes, i + 1);
        }
    }
}

static void extend_over_loops(const vgpu_code *code, life *lives, size_t count)
{
    for (size_t i = 0; i < code->code_count; i++) {
        const vgpu_instruction *in = &code->code[i];
        if (in->kind != VGPU_BRANCH || in->target > i) continue;
        for (size_t k = 0; k < count; k++) {
            life *l = &lives[k];
            const bool enters = l->first && l->first <= in->target;
            if (enters && l->last > in->target && l->last <= i) l->last = (uint32_t)i + 1;
        }
    }
}

unsigned vgpu_register_pressure(const vgpu_code *code)
{
    const size_t count = code->register_bytes / VGPU_ROW_ALIGN + 1;
    life *lives = calloc(count, sizeof *lives);
    int *change = calloc(code->code_count + 2, sizeof *change); /* at each instruction */
    unsigned most = 0;
    if (lives && change) {
        mention_all(code, lives);
        extend_over_loops(code, lives, count);
        for (size_t k = 1; k < count; k++) { /* 0 is the sink */
            const int words = lives[k].bytes == 8 ? 2 : 1;
            if (!lives[k].first) continue;
            change[lives[k].first] += words;
            change[lives[k].last] -= words;
        }
        int now = 0;
        for (size_t i = 0; i < code->code_count + 2; i++) {
            now += change[i];
            if (now > (int)most) most = (unsigned)now;
        }
    }
    free(change);
    free(lives);
    return most < MOST_REGISTERS ? most : MOST_REGISTERS;
}
