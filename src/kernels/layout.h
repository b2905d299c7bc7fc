/* SPDX-License-Identifier: MIT */
/* layout.h -- what lies in device memory and is more than an array of numbers.
 *
 * Shared by the host's C and by device code: valid C11 and C++14. kernels.h says which op reads
 * or writes what of this.
 */
#ifndef LS_KERNELS_LAYOUT_H
#define LS_KERNELS_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* What one shard adds to a step's numbers. Gathered, never reduced: every rank folds all V by the
 * tree. 56 bytes, no padding. */
typedef struct {
    double loss;     /* flat sum of (double)weight * (double)loss */
    double weight;   /* flat sum of weight */
    double error;    /* flat sum of absolute_error; 0 without one */
    double square;   /* flat sum of squared_error; 0 without one */
    int64_t samples; /* counted, not taken from a configuration */
    int64_t correct; /* samples whose label has place 0; 0 without places */
    int64_t top;     /* samples whose label has a place below top_k */
} ls_shard_sum;

/* A tensor of the parameter arena. */
typedef struct {
    size_t begin, count; /* in floats; begin is a multiple of 32 */
    float l2_twice;      /* (float)(2 * lambda), 0 where L2 does not act */
    float l1;            /* (float)lambda, 0 where L1 does not act */
} ls_arena_tensor;

/* In place of the index of an element that is not finite. */
#define LS_ALL_FINITE UINT64_MAX

typedef enum {
    LS_OPTIMIZER_SGD,
    LS_OPTIMIZER_MOMENTUM,
    LS_OPTIMIZER_NESTEROV,
    LS_OPTIMIZER_ADAM,
    LS_OPTIMIZER_ADAMW,
    LS_OPTIMIZER_RMSPROP
} ls_optimizer;

/* What an update does to one tensor, this time. */
typedef struct {
    float rate;      /* learning rate; Adam's with its bias corrections */
    float decay;     /* (float)(lr * lambda) of the decoupled decay; 0: none */
    float clip;      /* factor of the gradient; 1: none */
    uint32_t frozen; /* not 0: the tensor stays as it is */
} ls_tensor_step;

#endif
