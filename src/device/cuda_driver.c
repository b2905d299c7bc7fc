/* SPDX-License-Identifier: MIT */
/* cuda_driver.c -- finds the driver at run time, and words its errors.
 *
 * libcuda.so.1 is part of the driver, not of the toolkit: it is there where a GPU can be used. So
 * it is opened when it is needed and never linked, and one binary starts anywhere. It is never
 * closed, because it keeps threads of its own.
 *
 * Order:  1  CUDA_MODULE_LOADING=EAGER, so that a kernel's code is on the device before the first
 *            launch (a lazy load inside a launch may wait for kernels that wait for that launch)
 *         2  dlopen
 *         3  cuDriverGetVersion, which needs no initialisation, before anything that an old driver
 *            may lack: the message is to be "too old", with both numbers, not "no such symbol"
 *         4  the other entry points
 *         5  cuInit
 *
 * A driver runs what toolkits of its own major version built, and of earlier ones. CUDA_VERSION is
 * 1000 * major + 10 * minor, and so is what cuDriverGetVersion says.
 *
 * The driver is the one thing here that is of the process and not of a rank. Its table is written
 * once, under pthread_once, and is constant after; so this file has two static variables.
 */
#include "device/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION_NEEDED = CUDA_VERSION / 1000 * 1000, WHY_BYTES = 900, DOING_BYTES = 300 };

const char *const ls_cuda_entry_name[LS_CUDA_ENTRY_COUNT] = {
#define NAME(slot, name, type) name,
    LS_CUDA_ENTRY_POINTS(NAME)
#undef NAME
};

/* -- loading ----------------------------------------------------------------------------------- */

/* Store the address of `name` in the function pointer at `slot`. POSIX promises that a function's
 * address fits a void *, C that it may be copied byte by byte. */
static bool find(void *library, const char *name, void *slot)
{
    void *address = dlsym(library, name);
    if (address == NULL) return false;
    memcpy(slot, &address, sizeof address);
    return true;
}

static bool find_all(void *library, ls_cuda_driver *out, char *why, size_t why_bytes)
{
    const char *missing = NULL;
#define FIND(slot, name, type)                                                                    \
    if (missing == NULL && !find(library, name, &out->slot)) missing = name;
    LS_CUDA_ENTRY_POINTS(FIND)
#undef FIND
    if (missing != NULL) (void)snprintf(why, why_bytes, "the NVIDIA driver lacks %s", missing);
    return missing == NULL;
}

static bool is_new_enough(void *library, ls_cuda_driver *out, char *why, size_t why_bytes)
{
    int version = 0;
    const char *name = ls_cuda_entry_name[LS_CUDA_ENTRY_driver_version];
    if (!find(library, name, &out->driver_version)) {
        (void)snprintf(why, why_bytes, "the NVIDIA driver lacks %s", name);
        return false;
    }
    const CUresult result = out->driver_version(&version);
    if (result != CUDA_SUCCESS) {
        (void)snprintf(why, why_bytes, "%s failed with error %d", name, (int)result);
        return false;
    }
    if (version >= VERSION_NEEDED) return true;
    (void)snprintf(why, why_bytes,
                   "the NVIDIA driver is too old: it supports CUDA %d.%d; this binary was built "
                   "with CUDA %d.%d and needs a driver for CUDA %d.%d or later",
                   version / 1000, version % 1000 / 10, CUDA_VERSION / 1000,
                   CUDA_VERSION % 1000 / 10, VERSION_NEEDED / 1000, VERSION_NEEDED % 1000 / 10);
    return false;
}

bool ls_cuda_driver_load(const char *name, ls_cuda_driver *out, char *why, size_t why_bytes)
{
    *out = (ls_cuda_driver){ .init = NULL };
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *reason = dlerror();
        (void)snprintf(why, why_bytes, "no NVIDIA driver (%.200s)", reason ? reason : name);
        return false;
    }
    return is_new_enough(library, out, why, why_bytes) && find_all(library, out, why, why_bytes);
}

static bool initialise(const ls_cuda_driver *driver, char *why, size_t why_bytes)
{
    const CUresult result = driver->init(0);
    if (result == CUDA_SUCCESS) return true;
    char text[LS_CUDA_RESULT_BYTES];
    (void)snprintf(why, why_bytes, "cuInit failed: %s", ls_cuda_result_text(driver, result, text));
    return false;
}

/* What this process found; written under the two once controls below. */
static struct {
    ls_cuda_driver driver;
    bool loaded, usable;
    char why[WHY_BYTES];
} found;

static void load_once(void)
{
    found.loaded = ls_cuda_driver_load("libcuda.so.1", &found.driver, found.why, WHY_BYTES);
}

static void init_once(void)
{
    found.usable = found.loaded && initialise(&found.driver, found.why, WHY_BYTES);
}

static pthread_once_t load_control = PTHREAD_ONCE_INIT, init_control = PTHREAD_ONCE_INIT;

bool ls_cuda_driver_is_there(void)
{
    (void)pthread_once(&load_control, load_once);
    return found.loaded;
}

const ls_cuda_driver *ls_cuda_driver_open(const char **why)
{
    (void)pthread_once(&load_control, load_once);
    (void)pthread_once(&init_control, init_once);
    *why = found.why;
    return found.usable ? &found.driver : NULL;
}

/* -- errors ------------------------------------------------------------------------------------ */

const char *ls_cuda_result_text(const ls_cuda_driver *driver, CUresult result,
                                char text[LS_CUDA_RESULT_BYTES])
{
    const char *name = NULL, *meaning = NULL;
    (void)driver->error_name(result, &name);
    (void)driver->error_string(result, &meaning);
    (void)snprintf(text, LS_CUDA_RESULT_BYTES, "%.60s, %d: %.*s", name ? name : "unknown error",
                   (int)result, (int)LS_CUDA_MEANING_BYTES,
                   meaning ? meaning : "the driver has no text for it");
    return text;
}

/* Has the context of the call that gave `result` become useless for good? */
static bool is_sticky(CUresult result)
{
    enum { CONTAINED = 226 }; /* CUDA_ERROR_CONTAINED, which toolkits before 12.8 do not name: a
                               * peer's memory accessed wrongly over NVLink, among others */
    switch ((int)result) {
    case CONTAINED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED: return true;
    default: return false;
    }
}

ls_status ls_cuda_check_at(const char *file, int line, const ls_cuda_driver *driver,
                           CUresult result, int entry, const char *device, const char *format, ...)
{
    if (result == CUDA_SUCCESS) return LS_OK;
    char doing[DOING_BYTES], text[LS_CUDA_RESULT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(doing, sizeof doing, format, arguments);
    va_end(arguments);
    const ls_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? LS_ERR_MEMORY : LS_ERR_DEVICE;
    return ls_fail_at(file, line, status, "%s: %s failed while %s: %s%s", device,
                      ls_cuda_entry_name[entry], doing, ls_cuda_result_text(driver, result, text),
                      is_sticky(result)
                          ? "; the cause may be a kernel or copy that was enqueued earlier" : "");
}
