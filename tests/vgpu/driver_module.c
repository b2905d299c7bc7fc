/* SPDX-License-Identifier: MIT */
/* driver_module.c -- modules: PTX text in, functions out.
 *
 * What an image is, is seen from its first bytes, as a driver does it:
 *
 *     fatbin, cubin (ELF)    machine code for real devices: NO_BINARY_FOR_GPU, so that a program
 *                            goes on to its PTX
 *     text with .version     PTX: parsed and checked by the interpreter, for this device or older
 *     anything else          INVALID_IMAGE
 *
 * A refusal goes to the JIT's error log, with the line of the PTX. A module belongs to the context
 * in which it was loaded, with its own variables in device memory.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vgpu_module {
    vgpu_device *device;
    CUmodule handle;
    int references; /* reference_lock: 1 of the handle, 1 of each launch */
    vgpu_program *program;
    vgpu_allocation **storage; /* [variables], owned */
    uint64_t *addresses;       /* [variables] */
    size_t variables;
    CUfunction *functions; /* handles given out */
    size_t function_count;
    vgpu_module *next; /* in `loaded` */
};

static vgpu_module *loaded;                                       /* vgpu.call */
static pthread_mutex_t reference_lock = PTHREAD_MUTEX_INITIALIZER; /* vgpu_module.references */

/* -- the log of the JIT ------------------------------------------------------------------------ */

typedef struct {
    char *error;
    size_t error_bytes;
    void **error_used;
    void **info_used;
} jit_log;

static jit_log read_options(unsigned count, const CUjit_option *options, void **values)
{
    jit_log log = { 0 };
    for (unsigned i = 0; i < count; i++) {
        switch (options[i]) {
        case CU_JIT_ERROR_LOG_BUFFER: log.error = values[i]; break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            log.error_bytes = (size_t)(uintptr_t)values[i];
            log.error_used = &values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: log.info_used = &values[i]; break;
        default: break;
        }
    }
    return log;
}

/* The sizes become what was written, as a driver does it. */
static void write_log(const jit_log *log, const char *text)
{
    size_t used = 0;
    if (log->error != NULL && log->error_bytes > 0) {
        snprintf(log->error, log->error_bytes, "%s", text);
        used = strlen(log->error);
    }
    if (log->error_used != NULL) *log->error_used = (void *)(uintptr_t)used;
    if (log->info_used != NULL) *log->info_used = NULL;
}

/* -- loading ----------------------------------------------------------------------------------- */

static bool begins_with(const void *image, const char *magic)
{
    return memcmp(image, magic, 4) == 0;
}

/* Whether `image` may be PTX, by its first bytes. */
static CUresult kind_of(const void *image, char *why, size_t why_bytes)
{
    static const char fatbin[] = "\x50\xed\x55\xba", wrapper[] = "\xb1\x43\x62\x46";
    if (begins_with(image, fatbin) || begins_with(image, wrapper) ||
        begins_with(image, "\x7f" "ELF")) {
        snprintf(why, why_bytes, "machine code of real devices: a virtual GPU runs PTX");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    const char *text = image;
    while (*text == ' ' || *text == '\n' || *text == '\r' || *text == '\t') text++;
    if (*text == '.' || *text == '/') return CUDA_SUCCESS;
    snprintf(why, why_bytes, "the image is neither PTX nor a fatbin");
    return CUDA_ERROR_INVALID_IMAGE;
}

/* Parses, without vgpu.call: this takes a while. */
static CUresult parse(const vgpu_device *device, const char *text, vgpu_program **out, char *why,
                      size_t why_bytes)
{
    const int capability = vgpu_limits_of(device)->capability;
    pthread_mutex_unlock(&vgpu.call);
    const bool good = vgpu_program_create(text, strlen(text), out, why, why_bytes);
    pthread_mutex_lock(&vgpu.call);
    if (!good) return CUDA_ERROR_INVALID_PTX;
    if (vgpu_program_target(*out) <= capability) return CUDA_SUCCESS;
    snprintf(why, why_bytes, "the PTX is for sm_%d, gpu%d is sm_%d", vgpu_program_target(*out),
             device->ordinal, capability);
    vgpu_program_destroy(*out);
    *out = NULL;
    return CUDA_ERROR_INVALID_PTX;
}

/* Gives the variables memory and their first values. */
static bool make_variables(vgpu_module *m)
{
    const vgpu_variable *variables;
    m->variables = vgpu_program_variables(m->program, &variables);
    m->storage = calloc(m->variables + 1, sizeof *m->storage);
    m->addresses = calloc(m->variables + 1, sizeof *m->addresses);
    if (m->storage == NULL || m->addresses == NULL) return false;
    for (size_t v = 0; v < m->variables; v++) {
        m->storage[v] = vgpu_memory_alloc(m->device, variables[v].bytes);
        if (m->storage[v] == NULL) return false;
        m->storage[v]->writable = !variables[v].constant;
        m->addresses[v] = m->storage[v]->address;
    }
    for (size_t v = 0; v < m->variables; v++) {
        vgpu_program_image(m->program, v, m->addresses, m->storage[v]->data);
        memset(m->storage[v]->shadow, VGPU_DEFINED, m->storage[v]->bytes);
    }
    return true;
}

static void module_free(vgpu_module *m)
{
    for (size_t v = 0; m->storage != NULL && v < m->variables; v++)
        if (m->storage[v] != NULL && !m->storage[v]->freed) vgpu_memory_free(m->storage[v]);
    vgpu_program_destroy(m->program);
    free(m->storage);
    free(m->addresses);
    free(m->functions);
    free(m);
}

void vgpu_module_hold(vgpu_module *m)
{
    pthread_mutex_lock(&reference_lock);
    m->references++;
    pthread_mutex_unlock(&reference_lock);
}

void vgpu_module_let_go(vgpu_module *m)
{
    pthread_mutex_lock(&reference_lock);
    const bool last = --m->references == 0;
    pthread_mutex_unlock(&reference_lock);
    if (last) module_free(m);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values)
{
    VGPU_BEGIN(vgpu_enter_context);
    char why[1024] = "";
    vgpu_device *device = vgpu_current();
    if (module == NULL || image == NULL || (count > 0 && (options == NULL || values == NULL)))
        return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    const jit_log log = read_options(count, options, values);
    vgpu_wait_for_kernels(device);
    vgpu_program *program = NULL;
    CUresult result = kind_of(image, why, sizeof why);
    if (result == CUDA_SUCCESS) result = parse(device, image, &program, why, sizeof why);
    write_log(&log, why);
    if (result != CUDA_SUCCESS)
        return vgpu_leave(vgpu_refuse(result, "gpu%d: module: %s", device->ordinal, why));
    vgpu_module *m = calloc(1, sizeof *m);
    if (m == NULL) abort();
    *m = (vgpu_module){ .device = device, .references = 1, .program = program, .next = loaded };
    if (!make_variables(m)) {
        module_free(m);
        return vgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    loaded = m;
    *module = m->handle = vgpu_handle_open(VGPU_HANDLE_MODULE, m);
    vgpu_trace("gpu%d: module loaded, PTX for sm_%d", device->ordinal,
               vgpu_program_target(program));
    return vgpu_leave(CUDA_SUCCESS);
}

static void module_close(vgpu_module *m)
{
    vgpu_module **at = &loaded;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    for (size_t i = 0; i < m->function_count; i++) {
        free(vgpu_handle_find(VGPU_HANDLE_FUNCTION, m->functions[i]));
        vgpu_handle_close(VGPU_HANDLE_FUNCTION, m->functions[i]);
    }
    vgpu_handle_close(VGPU_HANDLE_MODULE, m->handle);
    vgpu_module_let_go(m);
}

void vgpu_module_close_all(const vgpu_device *device)
{
    for (vgpu_module *m = loaded, *next; m != NULL; m = next) {
        next = m->next;
        if (m->device == device) module_close(m);
    }
}

CUresult cuModuleUnload(CUmodule module)
{
    VGPU_BEGIN(vgpu_enter_context);
    vgpu_module *m = vgpu_handle_find(VGPU_HANDLE_MODULE, module);
    if (m == NULL || m->device != vgpu_current()) return vgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    vgpu_wait_for_kernels(m->device);
    module_close(m);
    return vgpu_leave(CUDA_SUCCESS);
}

/* -- functions --------------------------------------------------------------------------------- */

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    VGPU_BEGIN(vgpu_enter_context);
    vgpu_module *m = vgpu_handle_find(VGPU_HANDLE_MODULE, module);
    if (function == NULL || name == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (m == NULL || m->device != vgpu_current()) return vgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    const vgpu_kernel *kernel = vgpu_program_kernel(m->program, name);
    if (kernel == NULL) return vgpu_leave(CUDA_ERROR_NOT_FOUND); /* a program tries its modules */
    for (size_t i = 0; i < m->function_count; i++) {
        const vgpu_function *f = vgpu_handle_find(VGPU_HANDLE_FUNCTION, m->functions[i]);
        *function = m->functions[i];
        if (f->kernel == kernel) return vgpu_leave(CUDA_SUCCESS);
    }
    vgpu_function *f = malloc(sizeof *f);
    CUfunction *grown = realloc(m->functions, (m->function_count + 1) * sizeof *grown);
    if (f == NULL || grown == NULL) abort();
    *f = (vgpu_function){ .module = m,
                          .device = m->device,
                          .program = m->program,
                          .kernel = kernel,
                          .variables = m->addresses,
                          .dynamic_shared_limit =
                              49152 - (int)kernel->static_shared_bytes };
    m->functions = grown;
    *function = grown[m->function_count++] = vgpu_handle_open(VGPU_HANDLE_FUNCTION, f);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    VGPU_BEGIN(vgpu_enter_context);
    const vgpu_function *f = vgpu_handle_find(VGPU_HANDLE_FUNCTION, function);
    if (value == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (f == NULL) return vgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    const int target = vgpu_program_target(f->program);
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = (int)f->kernel->max_threads; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)f->kernel->static_shared_bytes; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = (int)f->kernel->local_bytes; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = (int)f->kernel->register_estimate; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = target; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = vgpu_limits_of(f->device)->capability; break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = f->dynamic_shared_limit; break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = f->carveout; break;
    default: return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    VGPU_BEGIN(vgpu_enter_context);
    vgpu_function *f = vgpu_handle_find(VGPU_HANDLE_FUNCTION, function);
    if (f == NULL) return vgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    const int most = vgpu_limits_of(f->device)->shared_per_block * 1024;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > most - (int)f->kernel->static_shared_bytes)
            return vgpu_leave(vgpu_refuse(CUDA_ERROR_INVALID_VALUE,
                                          "%s: %d bytes of shared memory, at most %d",
                                          f->kernel->name, value, most));
        f->dynamic_shared_limit = value;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
        f->carveout = value;
        break;
    default: return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return vgpu_leave(CUDA_SUCCESS);
}
