/* SPDX-License-Identifier: MIT */
/* driver_config.h -- what machine the virtual driver pretends to be: LOCKSTEP_VGPU_*.
 *
 * Read once, at the first call of the program. README.md lists every variable and its grammar.
 * A device ordinal here is the one the program sees.
 */
#ifndef VGPU_DRIVER_CONFIG_H
#define VGPU_DRIVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VGPU_MAX_DEVICES = 72, VGPU_MAX_FAILURES = 32, VGPU_MAX_LINK_FAULTS = 64 };

/* A call that is made to fail. */
typedef struct {
    char call[48];       /* entry point, as dlsym knows it */
    unsigned long first; /* use, counted from 1 */
    unsigned long last;
    int result;
} vgpu_failure;

typedef enum {
    VGPU_LINK_SOUND,
    VGPU_LINK_DROP, /* the bytes never arrive */
    VGPU_LINK_FLIP, /* one bit of them is wrong */
    VGPU_LINK_ZERO, /* zeros arrive */
    VGPU_LINK_SLOW, /* late by microseconds */
    VGPU_LINK_HANG, /* the copy never ends */
} vgpu_link_fault;

/* What is wrong with copies from one device to another. */
typedef struct {
    int from, to;
    vgpu_link_fault fault;
    unsigned microseconds; /* VGPU_LINK_SLOW */
    unsigned long first;   /* copy on this link, counted from 1, that suffers; and all after it */
} vgpu_link_rule;

typedef struct {
    int devices;
    char name[64];                    /* of every device; "": "Virtual GPU sm_80" */
    int driver_version;
    int capability[VGPU_MAX_DEVICES]; /* 80 for 8.0 */
    size_t memory_bytes;              /* of each device */
    size_t others_bytes;              /* of these, taken by other processes */
    size_t pinned_bytes;              /* host memory that may be pinned, all in all */
    int multiprocessors;
    bool access[VGPU_MAX_DEVICES][VGPU_MAX_DEVICES]; /* [a][b]: a can be given access to b */
    int partners;                                    /* most devices that one may have access to */
    uint64_t seed;
    unsigned jitter_us; /* operations start late by up to this; 0: never */
    bool strict;        /* order checks, and what a driver lets pass in silence */
    bool races;         /* of shared memory */
    bool fault_ends_process; /* a fault is sticky in every context, not in its own only */
    uint64_t instruction_budget;
    unsigned kernel_threads; /* host threads of one launch */
    char trace[256];         /* file, "-" for standard error, "" for none */
    size_t failure_count;
    vgpu_failure failures[VGPU_MAX_FAILURES];
    size_t link_count;
    vgpu_link_rule links[VGPU_MAX_LINK_FAULTS];
} vgpu_config;

/* False: `why` names the variable, its value and what was expected. */
bool vgpu_config_read(vgpu_config *config, char *why, size_t why_bytes);

#endif
