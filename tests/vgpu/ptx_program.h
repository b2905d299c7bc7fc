/* SPDX-License-Identifier: MIT */
/* ptx_program.h -- a parsed module: what ptx_parse.c makes and ptx_execute.c runs.
 *
 * Registers of a warp lie in one buffer, one row per register: 32 lanes side by side, of 2, 4 or 8
 * bytes each by the declared type, so that one instruction is one loop over contiguous memory. A
 * predicate is 32 bits, bit l for lane l. Immediates are rows too, in the kernel's constants: an
 * operand is a base (registers or constants) and an offset, whatever it stands for.
 */
#ifndef VGPU_PTX_PROGRAM_H
#define VGPU_PTX_PROGRAM_H

#include "ptx.h"

enum {
    VGPU_LANES = 32,
    VGPU_OPERANDS = 6,       /* most that an instruction has (shfl.sync, ld.v4 and its address) */
    VGPU_BARRIERS = 16,      /* of a block */
    VGPU_SHARED_BASE = 1024,       /* address of static shared memory: 0 stays invalid */
    VGPU_DYNAMIC_BASE = 1 << 20,   /* of dynamic shared memory, apart: an overrun shows */
    VGPU_ROW_ALIGN = 64,
};

/* What executes an instruction (ptx_execute.c), or how the parser lowers it. */
typedef enum {
    VGPU_ROW,     /* vgpu_op.row over all lanes */
    VGPU_DIVIDE,  /* a row; a divisor of zero in an active lane is reported */
    VGPU_CONVERT, /* a row; registers may be wider than the types */
    VGPU_MOVE,    /* registers of equal size, a special register, an address, {} packing */
    VGPU_SPECIAL, /* mov of a special register that the lanes compute */
    VGPU_PACK,
    VGPU_UNPACK,
    VGPU_LOAD,
    VGPU_STORE,
    VGPU_ATOMIC,
    VGPU_COPY_ASYNC,
    VGPU_COPY_COMMIT,
    VGPU_COPY_WAIT,
    VGPU_FENCE,
    VGPU_BRANCH,
    VGPU_BRANCH_TABLE,
    VGPU_EXIT,
    VGPU_TRAP_NOW,
    VGPU_BARRIER,
    VGPU_SHUFFLE,
    VGPU_VOTE,
    VGPU_WARP_SYNC,
    VGPU_ACTIVE_MASK,
    VGPU_SLEEP,
} vgpu_kind;

/* One row of the table of what may run (ptx_table.c). */
typedef void vgpu_row_function(void *d, const void *a, const void *b, const void *c,
                               const void *e);
typedef struct {
    const char *pattern;  /* the words of the instruction; (.a|.b|) is a choice, maybe of none */
    const char *operands; /* one letter each, ptx_table.h */
    vgpu_kind kind;
    vgpu_row_function *row;
} vgpu_op;

typedef enum {
    VGPU_GENERIC = 0,
    VGPU_GLOBAL,
    VGPU_SHARED,
    VGPU_LOCAL,
    VGPU_PARAM,
    VGPU_CONST,
} vgpu_space;

typedef enum { VGPU_WEAK = 0, VGPU_RELAXED, VGPU_ACQUIRE, VGPU_RELEASE, VGPU_ACQ_REL } vgpu_order;
typedef enum { VGPU_SCOPE_CTA = 0, VGPU_SCOPE_GPU, VGPU_SCOPE_SYS } vgpu_scope;

/* Which shuffle, vote, barrier or atomic it is. */
typedef enum {
    VGPU_NO_MODE = 0,
    VGPU_UP, VGPU_DOWN, VGPU_BFLY, VGPU_IDX,
    VGPU_ALL, VGPU_ANY, VGPU_UNI, VGPU_BALLOT,
    VGPU_SYNC, VGPU_ARRIVE, VGPU_POPC,
    VGPU_AND, VGPU_OR, VGPU_XOR,
    VGPU_ADD, VGPU_MIN, VGPU_MAX, VGPU_EXCH, VGPU_CAS, VGPU_INC, VGPU_DEC,
} vgpu_mode;

/* Of an instruction that touches memory. */
typedef struct {
    vgpu_space space;
    vgpu_order order;
    vgpu_scope scope;    /* strong accesses (order != VGPU_WEAK) only */
    unsigned char bytes; /* of one element */
    unsigned char count; /* elements: .v2 .v4 */
    bool is_signed;      /* a narrow load extends its sign */
    bool incoherent;     /* .nc */
    bool returns;        /* atom, not red */
} vgpu_access;

typedef struct {
    unsigned char constant; /* 1: offset is into vgpu_code.constants */
    unsigned char bytes;    /* of one lane; 0: a predicate; VGPU_ABSENT: not given */
    bool negated;           /* !%p */
    uint32_t offset;        /* of the row, in bytes */
    int64_t displacement;   /* [row + displacement]; the value of an integer immediate */
} vgpu_operand;
enum { VGPU_ABSENT = 255 };

typedef struct {
    const vgpu_op *op;
    vgpu_kind kind;         /* op->kind, but for a mov: what it came down to */
    vgpu_row_function *row; /* of VGPU_ROW, VGPU_DIVIDE, VGPU_CONVERT */
    const char *text; /* in the module; ends at ';' */
    uint32_t line;    /* in the module */
    uint32_t file, source_line; /* .loc; 0: none */
    bool guarded, guard_negated;
    uint32_t guard;             /* offset of the predicate */
    uint32_t target;            /* branch: instruction; branch table: index; special: which */
    vgpu_mode mode;
    bool aligned; /* barrier: all lanes of a warp must be at the same one */
    vgpu_access access;
    vgpu_operand operand[VGPU_OPERANDS]; /* in the order of vgpu_op.operands, {} spread out */
} vgpu_instruction;

/* Special registers that mov may read. */
typedef enum {
    VGPU_TID_X, VGPU_TID_Y, VGPU_TID_Z,
    VGPU_NTID_X, VGPU_NTID_Y, VGPU_NTID_Z,
    VGPU_CTAID_X, VGPU_CTAID_Y, VGPU_CTAID_Z,
    VGPU_NCTAID_X, VGPU_NCTAID_Y, VGPU_NCTAID_Z,
    VGPU_LANEID, VGPU_WARPID, VGPU_NWARPID,
    VGPU_LANEMASK_EQ, VGPU_LANEMASK_LT, VGPU_LANEMASK_LE, VGPU_LANEMASK_GT, VGPU_LANEMASK_GE,
    VGPU_CLOCK, VGPU_CLOCK64, VGPU_GLOBALTIMER,
    VGPU_DYNAMIC_SHARED_BYTES,
    VGPU_SPECIAL_COUNT,
} vgpu_special;

typedef struct {
    uint32_t *target; /* owned */
    size_t count;
} vgpu_branch_table;

/* A variable's address in the constants, known per device only: written there when it runs. */
typedef struct {
    size_t offset; /* of the row, 32 times 8 bytes */
    size_t variable;
    int64_t addend;
} vgpu_patch;

/* A kernel with its code. vgpu_kernel is its first member: vgpu_run casts back. */
typedef struct {
    vgpu_kernel kernel;
    vgpu_instruction *code; /* owned */
    size_t code_count;
    unsigned char *constants; /* owned */
    size_t constant_bytes;
    vgpu_patch *patches; /* owned */
    size_t patch_count;
    size_t register_bytes;
    vgpu_branch_table *tables; /* owned */
    size_t table_count;
    bool has_narrow_shared; /* accesses of less than 4 bytes that may reach shared memory */
} vgpu_code;

/* An address inside the image of a variable. */
typedef struct {
    size_t variable; /* whose image */
    size_t offset;   /* in it; 8 bytes there */
    size_t target;   /* variable whose address goes there */
    int64_t addend;
} vgpu_relocation;

struct vgpu_program {
    char *text;    /* owned; a copy, with a NUL */
    char **files;  /* owned; by .file number */
    size_t file_count;
    int target;
    vgpu_code *codes; /* owned */
    size_t code_count;
    vgpu_variable *variables; /* owned, names too */
    unsigned char **images;   /* owned, one per variable */
    size_t variable_count;
    vgpu_relocation *relocations; /* owned */
    size_t relocation_count;
};

#endif
