/* SPDX-License-Identifier: MIT */
/* cuda_module.c -- from the bytes in this binary to functions that can be launched.
 *
 * Each .cu file was compiled to two PTX texts, and machine code was assembled from those for a list
 * of GPUs and packed into a fatbin (configure.py). Which of the three a GPU gets:
 *
 *     fatbin                                       a GPU of the list, or a later one of the same
 *       | refused: 200 invalid image,              generation
 *       |   209 no binary for this GPU,
 *       |   218 invalid PTX, 222 unsupported PTX
 *       v
 *     PTX of the highest target <= the GPU's       any other GPU since the lower target; compiled
 *     capability                                   by the driver, which keeps what it compiled
 *
 * Any other refusal of the fatbin is an error: out of memory does not get better by compiling. When
 * the PTX is refused as well, the compiler's log is in the message, on one line.
 *
 * The PTX is not put into the fatbin: a fatbin that holds it is taken as a whole, and the program
 * would not know which of the two ran.
 */
#include "device/cuda_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_BYTES = 4096, LOG_SHOWN = 500 };

static bool is_no_image_for_this_gpu(CUresult result)
{
    return result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
           result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

/* Keep it to one line: a message is one. */
static void join_lines(char *text)
{
    for (char *end = text + strlen(text); end > text && end[-1] == '\n'; end--) end[-1] = '\0';
    for (; *text != '\0'; text++)
        if (*text == '\n' || *text == '\r' || *text == '\t') *text = ' ';
}

static ls_status load_ptx(const ls_cuda_driver *driver, const char *device, int capability,
                          const ls_cuda_image *image, CUmodule *out)
{
    int best = -1;
    for (int i = 0; i < LS_CUDA_PTX_COUNT; i++) {
        if (image->ptx[i].target > (uint64_t)capability) continue;
        if (best < 0 || image->ptx[i].target > image->ptx[best].target) best = i;
    }
    if (best < 0)
        return ls_fail(LS_ERR_DEVICE,
                       "%s: has compute capability %d.%d; this binary's kernels need %d.%d or "
                       "later (choose other GPUs with --devices cuda:LIST)", device,
                       capability / 10, capability % 10, (int)image->ptx[0].target / 10,
                       (int)image->ptx[0].target % 10);
    char log[LOG_BYTES] = "";
    CUjit_option option[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *value[] = { log, (void *)(uintptr_t)(LOG_BYTES - 1) };
    const CUresult result = driver->module_load(out, image->ptx[best].text, 2, option, value);
    join_lines(log);
    return ls_cuda_check_at(__FILE__, __LINE__, driver, result, LS_CUDA_ENTRY_module_load, device,
                            "compiling the kernels of %s from the PTX for %d.%d%s%.*s",
                            image->name, (int)image->ptx[best].target / 10,
                            (int)image->ptx[best].target % 10,
                            log[0] != '\0' ? "; the log: " : "", (int)LOG_SHOWN, log);
}

ls_status ls_cuda_image_load(const ls_cuda_driver *driver, const char *device, int capability,
                             const ls_cuda_image *image, CUmodule *out)
{
    *out = NULL;
    const CUresult result = driver->module_load(out, image->fatbin, 0, NULL, NULL);
    if (is_no_image_for_this_gpu(result))
        return load_ptx(driver, device, capability, image, out);
    return ls_cuda_check_at(__FILE__, __LINE__, driver, result, LS_CUDA_ENTRY_module_load, device,
                            "loading the kernels of %s", image->name);
}

ls_status ls_cuda_modules_load(ls_cuda_modules *modules, const ls_cuda_driver *driver,
                               const char *device, int capability, const ls_cuda_image *image)
{
    *modules = (ls_cuda_modules){ .driver = driver };
    (void)snprintf(modules->device, sizeof modules->device, "%s", device);
    int count = 0;
    while (image[count].name != NULL) count++;
    modules->module = calloc((size_t)count + 1, sizeof *modules->module);
    if (modules->module == NULL)
        return ls_fail(LS_ERR_MEMORY, "%s: no memory for a list of %d modules", device, count);
    for (int i = 0; i < count; i++) {
        const ls_status status =
            ls_cuda_image_load(driver, device, capability, &image[i], &modules->module[i]);
        if (status != LS_OK) {
            ls_cuda_modules_unload(modules);
            return status;
        }
        modules->count = i + 1;
    }
    return LS_OK;
}

void ls_cuda_modules_unload(ls_cuda_modules *modules)
{
    for (int i = modules->count - 1; i >= 0; i--)
        (void)modules->driver->module_unload(modules->module[i]);
    free(modules->module);
    *modules = (ls_cuda_modules){ .count = 0 };
}

ls_status ls_cuda_modules_find(const ls_cuda_modules *modules, const char *name, CUfunction *out)
{
    const ls_cuda_driver *driver = modules->driver;
    for (int i = 0; i < modules->count; i++) {
        const CUresult result = driver->module_function(out, modules->module[i], name);
        if (result == CUDA_SUCCESS) return LS_OK;
        *out = NULL;
        if (result != CUDA_ERROR_NOT_FOUND)
            return ls_cuda_check_at(__FILE__, __LINE__, driver, result,
                                    LS_CUDA_ENTRY_module_function, modules->device,
                                    "looking for kernel %s", name);
    }
    return ls_fail(LS_ERR_DEVICE, "%s: no module has a kernel %s", modules->device, name);
}
