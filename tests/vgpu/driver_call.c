/* SPDX-License-Identifier: MIT */
/* driver_call.c -- how every call of the virtual driver begins and ends.
 *
 * A call counts its uses, so that the n-th can be made to fail; it finds out whether the driver
 * is initialized, whether the thread has a context and whether that context has died of a fault.
 * A fault is a failure of the device, as an illegal address is: from then on every call of the
 * context answers with it, as the hardware's driver does. A report is a failed check of ours and
 * becomes a fault of all devices, so that no program can miss it.
 *
 * At the end of the program the trace tells how often each entry point was used (what n can be in
 * LOCKSTEP_VGPU_FAIL) and standard error what was never released.
 */
#include "driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

vgpu_driver vgpu = { .call = PTHREAD_MUTEX_INITIALIZER };

static pthread_once_t configured = PTHREAD_ONCE_INIT;
static bool config_is_good;
static uint64_t began_ns;

/* -- clock and chance -------------------------------------------------------------------------- */

uint64_t vgpu_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

void vgpu_sleep_us(uint64_t us)
{
    const struct timespec t = { .tv_sec = (time_t)(us / 1000000),
                                .tv_nsec = (long)(us % 1000000) * 1000 };
    nanosleep(&t, NULL);
}

/* The finalizer of splitmix64 [Steele, Lea, Flood: Fast splittable pseudorandom number
 * generators, OOPSLA 2014] over seed and arguments. */
uint64_t vgpu_random(uint64_t a, uint64_t b)
{
    uint64_t z = vgpu.config.seed + a * UINT64_C(0x9e3779b97f4a7c15) +
                 b * UINT64_C(0xd1342543de82ef95);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* -- the trace --------------------------------------------------------------------------------- */

static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *trace_file; /* written once, before any other thread may trace */

bool vgpu_traced(void) { return trace_file != NULL; }

static void trace_line(const char *format, va_list arguments)
{
    if (trace_file == NULL) return;
    pthread_mutex_lock(&trace_lock);
    fprintf(trace_file, "%.3f ms ", (double)(vgpu_now_ns() - began_ns) / 1e6);
    vfprintf(trace_file, format, arguments);
    fputc('\n', trace_file);
    fflush(trace_file); /* the program may end without exit() */
    pthread_mutex_unlock(&trace_lock);
}

void vgpu_trace(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    trace_line(format, arguments);
    va_end(arguments);
}

CUresult vgpu_refuse(CUresult result, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    vgpu_trace("refused: %s (%d)", text, (int)result);
    return result;
}

/* -- faults and reports ------------------------------------------------------------------------ */

enum { FAULT_TEXTS = 16 };
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER; /* texts, faults of devices */
static struct {
    CUresult result;
    char text[1024];
} fault_texts[FAULT_TEXTS]; /* never changed once written */
static size_t fault_text_count;

const char *vgpu_fault_text(CUresult result)
{
    const char *text = NULL;
    pthread_mutex_lock(&fault_lock);
    for (size_t i = 0; i < fault_text_count && text == NULL; i++)
        if (fault_texts[i].result == result) text = fault_texts[i].text;
    pthread_mutex_unlock(&fault_lock);
    return text;
}

static void remember_text(CUresult result, const char *text)
{
    if (vgpu_fault_text(result) != NULL) return;
    pthread_mutex_lock(&fault_lock);
    if (fault_text_count < FAULT_TEXTS) {
        fault_texts[fault_text_count].result = result;
        snprintf(fault_texts[fault_text_count++].text, sizeof fault_texts->text, "%s", text);
    }
    pthread_mutex_unlock(&fault_lock);
}

/* A fault of `device`, or `everywhere`, of all devices. All have it at one moment:
 * whoever reads it off one device finds it on the next. The first of a device stays. */
static void set_fault(const vgpu_device *device, CUresult result, bool everywhere)
{
    pthread_mutex_lock(&fault_lock);
    for (int d = 0; d < vgpu.config.devices; d++) {
        vgpu_device *each = &vgpu.devices[d];
        if (!everywhere && each != device) continue;
        if (each->fault == CUDA_SUCCESS) each->fault = result;
        atomic_store(&each->stop, true);
    }
    pthread_mutex_unlock(&fault_lock);
    vgpu_stream_wake_all();
}

CUresult vgpu_fault_of(const vgpu_device *device)
{
    pthread_mutex_lock(&fault_lock);
    const CUresult fault = device->fault;
    pthread_mutex_unlock(&fault_lock);
    return fault;
}

void vgpu_device_fault(vgpu_device *device, CUresult result, const char *text)
{
    remember_text(result, text);
    fprintf(stderr, "vgpu: gpu%d: fault %d: %s\n", device->ordinal, (int)result, text);
    vgpu_trace("gpu%d: fault %d: %s", device->ordinal, (int)result, text);
    set_fault(device, result, vgpu.config.fault_ends_process);
}

void vgpu_report(const char *format, ...)
{
    char text[1024];
    if (!vgpu.config.strict) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    remember_text(CUDA_ERROR_ASSERT, text);
    fprintf(stderr, "vgpu: report: %s\n", text);
    vgpu_trace("report: %s", text);
    set_fault(NULL, CUDA_ERROR_ASSERT, true);
}

static void report_order(void *context, const char *text)
{
    (void)context;
    vgpu_report("%s", text);
}

/* -- configuration ----------------------------------------------------------------------------- */

static void open_devices(void)
{
    vgpu.devices = calloc((size_t)vgpu.config.devices + 1, sizeof *vgpu.devices);
    if (vgpu.devices == NULL) abort();
    for (int d = 0; d < vgpu.config.devices; d++) {
        vgpu.devices[d].ordinal = d;
        pthread_mutex_init(&vgpu.devices[d].lock, NULL);
        pthread_cond_init(&vgpu.devices[d].idle, NULL);
    }
    vgpu.order = vgpu_order_create(report_order, NULL);
    vgpu_memory_init();
}

static void configure(void)
{
    char why[512];
    began_ns = vgpu_now_ns();
    config_is_good = vgpu_config_read(&vgpu.config, why, sizeof why);
    if (!config_is_good) {
        fprintf(stderr, "vgpu: %s\n", why);
        remember_text(CUDA_ERROR_SYSTEM_NOT_READY, why);
        return;
    }
    if (strcmp(vgpu.config.trace, "-") == 0) {
        trace_file = stderr;
    } else if (vgpu.config.trace[0] != '\0') {
        trace_file = fopen(vgpu.config.trace, "a");
        if (trace_file == NULL) fprintf(stderr, "vgpu: cannot write %s\n", vgpu.config.trace);
    }
    open_devices();
}

/* -- calls ------------------------------------------------------------------------------------- */

#define NAME(symbol, type, parameters) #symbol,
static const char *const entry_points[] = { VGPU_ENTRY_POINTS(NAME) };
enum { ENTRY_POINTS = sizeof entry_points / sizeof *entry_points };
static unsigned long uses[ENTRY_POINTS]; /* vgpu.call */

/* What a failing device answers for ever after. */
static bool is_sticky(int result)
{
    return result == CUDA_ERROR_ECC_UNCORRECTABLE || result == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
           result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_TIMEOUT ||
           result == CUDA_ERROR_ASSERT ||
           (result >= CUDA_ERROR_HARDWARE_STACK_ERROR && result <= CUDA_ERROR_LAUNCH_FAILED);
}

/* The result that LOCKSTEP_VGPU_FAIL asks for at this use of `name`. */
static CUresult injected(const char *name)
{
    unsigned long use = 0;
    for (size_t i = 0; i < ENTRY_POINTS; i++)
        if (strcmp(entry_points[i], name) == 0) use = ++uses[i];
    for (size_t i = 0; i < vgpu.config.failure_count; i++) {
        const vgpu_failure *f = &vgpu.config.failures[i];
        if (strcmp(f->call, name) != 0 || use < f->first || use > f->last) continue;
        vgpu_trace("injected: %s use %lu fails with %d", name, use, f->result);
        if (is_sticky(f->result) && vgpu_current() != NULL)
            set_fault(vgpu_current(), (CUresult)f->result, vgpu.config.fault_ends_process);
        return (CUresult)f->result;
    }
    return CUDA_SUCCESS;
}

CUresult vgpu_leave(CUresult result)
{
    pthread_mutex_unlock(&vgpu.call);
    return result;
}

CUresult vgpu_enter_any(const char *name)
{
    pthread_once(&configured, configure);
    if (!config_is_good) return CUDA_ERROR_SYSTEM_NOT_READY;
    pthread_mutex_lock(&vgpu.call);
    const CUresult result = injected(name);
    return result == CUDA_SUCCESS ? result : vgpu_leave(result);
}

CUresult vgpu_enter(const char *name)
{
    const CUresult result = vgpu_enter_any(name);
    if (result != CUDA_SUCCESS) return result;
    return vgpu.initialized ? CUDA_SUCCESS : vgpu_leave(CUDA_ERROR_NOT_INITIALIZED);
}

CUresult vgpu_enter_context(const char *name)
{
    const CUresult result = vgpu_enter(name);
    if (result != CUDA_SUCCESS) return result;
    const vgpu_device *device = vgpu_current();
    if (device == NULL)
        return vgpu_leave(vgpu_refuse(CUDA_ERROR_INVALID_CONTEXT, "%s: no context", name));
    const CUresult fault = vgpu_fault_of(device);
    return fault == CUDA_SUCCESS ? CUDA_SUCCESS : vgpu_leave(fault);
}

CUresult cuInit(unsigned flags)
{
    VGPU_BEGIN(vgpu_enter_any);
    if (flags != 0) return vgpu_leave(vgpu_refuse(CUDA_ERROR_INVALID_VALUE, "cuInit: flags"));
    if (vgpu.config.devices == 0) return vgpu_leave(CUDA_ERROR_NO_DEVICE);
    vgpu.initialized = true;
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuDriverGetVersion(int *version)
{
    VGPU_BEGIN(vgpu_enter_any);
    if (version == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    *version = vgpu.config.driver_version;
    return vgpu_leave(CUDA_SUCCESS);
}

/* -- the end ----------------------------------------------------------------------------------- */

static void tell_uses(void)
{
    for (size_t i = 0; i < ENTRY_POINTS; i++)
        if (uses[i] > 0) vgpu_trace("used: %s %lu", entry_points[i], uses[i]);
}

/* A program that died of a fault is right not to release anything. */
static void tell_leaks(void)
{
    int contexts = 0;
    for (int d = 0; d < vgpu.config.devices; d++) {
        contexts += vgpu.devices[d].retained > 0;
        if (vgpu_fault_of(&vgpu.devices[d]) != CUDA_SUCCESS) return;
    }
    const size_t streams = vgpu_handle_count(VGPU_HANDLE_STREAM),
                 events = vgpu_handle_count(VGPU_HANDLE_EVENT),
                 modules = vgpu_handle_count(VGPU_HANDLE_MODULE), memory = vgpu_memory_live();
    if (contexts == 0 && streams + events + modules + memory == 0) return;
    fprintf(stderr,
            "vgpu: left behind: %d contexts, %zu streams, %zu events, %zu modules, "
            "%zu allocations\n",
            contexts, streams, events, modules, memory);
    vgpu_trace("left behind: %d contexts, %zu streams, %zu events, %zu modules, %zu allocations",
               contexts, streams, events, modules, memory);
}

__attribute__((destructor)) static void at_end(void)
{
    if (!vgpu.initialized) return;
    pthread_mutex_lock(&vgpu.call);
    tell_uses();
    if (vgpu.config.strict) tell_leaks();
    pthread_mutex_unlock(&vgpu.call);
}
