/* SPDX-License-Identifier: MIT */
/* ptx_table.h -- every instruction that may run, with its types and modifiers.
 *
 * Letters of vgpu_op.operands, in the order in which PTX writes them:
 *
 *     p h r d   a predicate, a register of 2, 4, 8 bytes; or an immediate
 *     H R D B   the same of at least 2, 4, 8, 1 bytes (cvt)
 *     t         of the size of the instruction's type, its last word; an address or a special
 *               register too (mov)
 *     x         of at least that size (ld, st)
 *     v         one, two or four x in braces, by .v2 .v4
 *     a         [address]
 *     i         an integer immediate
 *     q         a predicate, maybe !negated
 *     l         a label
 *     |         the next operand is the second destination of a pair, d|p, and may be missing
 *     ?         the operands from here on may be missing, all or the last of them
 */
#ifndef VGPU_PTX_TABLE_H
#define VGPU_PTX_TABLE_H

#include "ptx_program.h"

/* The row for the instruction spelled `name`, `length` characters with its dots. NULL: refused. */
const vgpu_op *vgpu_table_find(const char *name, size_t length);

/* Why a refused instruction is not there, as far as its words tell; never NULL. */
const char *vgpu_table_reason(const char *name, size_t length);

/* Does `name` contain the dotted word, ".v2" say? */
bool vgpu_name_has(const char *name, size_t length, const char *word);

/* Bytes of a type word ("f32": 4, "pred": 0); false: not a type. */
bool vgpu_type_bytes(const char *type, size_t length, unsigned *bytes);

#endif
