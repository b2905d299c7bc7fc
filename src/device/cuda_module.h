/* SPDX-License-Identifier: MIT */
/* cuda_module.h -- the device code in this binary, and how it gets onto a GPU.
 *
 * Internal to the CUDA backend.
 */
#ifndef LS_DEVICE_CUDA_MODULE_H
#define LS_DEVICE_CUDA_MODULE_H

#include <assert.h>
#include <stdint.h>

#include "device/cuda_driver.h"
#include "status.h"

enum { LS_CUDA_PTX_COUNT = 2 };

/* What one .cu file became. The layout is embed_cuda.S's: eight bytes a field. */
typedef struct {
    const char *name;     /* "gemm"; NULL ends a table of images */
    const void *fatbin;   /* machine code for a list of GPUs, aligned to 64 bytes */
    struct {
        uint64_t target;  /* the least capability that can run it, 75 */
        const char *text;
    } ptx[LS_CUDA_PTX_COUNT];
} ls_cuda_image;
static_assert(sizeof(ls_cuda_image) == (2 + 2 * LS_CUDA_PTX_COUNT) * 8, "embed_cuda.S");

/* This binary's images: the ops', and the link probe's. */
extern const ls_cuda_image ls_embedded_cuda_images[];
extern const ls_cuda_image ls_embedded_cuda_probe[];

/* Load one image for a GPU of `capability`, into the current context: the machine code, or if
 * there is none for this GPU, the PTX of the highest target that it can run, which the driver
 * compiles. `device` is for messages. Errors: DEVICE (with the compiler's log), MEMORY. */
LS_MUST_USE ls_status ls_cuda_image_load(const ls_cuda_driver *driver, const char *device,
                                         int capability, const ls_cuda_image *image,
                                         CUmodule *out);

/* The modules of all images of a table, in one context. */
typedef struct {
    const ls_cuda_driver *driver; /* borrowed */
    char device[16];              /* "cuda:0", for messages */
    int count;
    CUmodule *module;             /* owned, [count] */
} ls_cuda_modules;

/* Load every image of `image` into the current context. Errors: as above; nothing stays loaded. */
LS_MUST_USE ls_status ls_cuda_modules_load(ls_cuda_modules *modules, const ls_cuda_driver *driver,
                                           const char *device, int capability,
                                           const ls_cuda_image *image);
void ls_cuda_modules_unload(ls_cuda_modules *modules); /* accepts all-zero */

/* The kernel `name`. Errors: DEVICE (no module has it). */
LS_MUST_USE ls_status ls_cuda_modules_find(const ls_cuda_modules *modules, const char *name,
                                           CUfunction *out);

#endif
