/* SPDX-License-Identifier: MIT */
/* conformance.h -- what PTX instructions must give, as data: kernel, input, expected output.
 *
 * The cases lie in two files, tests/vgpu/conformance/arithmetic.txt and programs.txt; the
 * programs that write these files say what their lines mean. The suite knows no interpreter and no
 * driver: its caller runs each kernel, on the virtual GPU or on a real one.
 */
#ifndef TEST_SUPPORT_CONFORMANCE_H
#define TEST_SUPPORT_CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One kernel to run: its name is "test", its arguments are the device addresses of two buffers. */
typedef struct {
    const char *name;    /* of the case */
    const char *ptx;     /* a whole module */
    int target;          /* capability that it needs: 75, 80 */
    uint32_t grid[3], block[3];
    size_t dynamic_shared_bytes;
    const void *in;      /* first argument */
    size_t in_bytes;     /* may be 0 */
    void *out;           /* second argument: zero before, read afterwards */
    size_t out_bytes;
} vgpu_conformance_case;

/* Runs it. False: `error` says why it could not be loaded or run. */
typedef bool vgpu_conformance_runner(void *context, const vgpu_conformance_case *test, char *error,
                                     size_t error_bytes);

typedef struct {
    size_t instructions; /* arithmetic: instructions; programs: cases */
    size_t values;       /* compared */
    size_t failures;     /* instructions or cases that failed */
    char first[600];     /* the first failure, in words */
} vgpu_conformance_result;

/* `text`: the whole file, with a NUL. False: the file itself is not understood (result->first). */
bool vgpu_conformance_arithmetic(const char *text, vgpu_conformance_runner *runner, void *context,
                                 vgpu_conformance_result *result);
bool vgpu_conformance_programs(const char *text, vgpu_conformance_runner *runner, void *context,
                               vgpu_conformance_result *result);

/* Is the instruction `name` (all its words) part of the arithmetic file? */
bool vgpu_conformance_has(const char *text, const char *name);

#endif
