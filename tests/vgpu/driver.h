/* SPDX-License-Identifier: MIT */
/* driver.h -- the virtual driver's own parts: devices, memory, streams, and how a call begins.
 *
 * driver_call.c     how every entry point begins and ends: configuration, injected failures,
 *                   faults that stick, reports, the trace
 * driver_device.c   devices, primary contexts, peer access
 * driver_memory.c   device and pinned memory, and who may reach it
 * driver_stream.c   streams (threads with a queue)    driver_event.c   events
 * driver_copy.c     copies and fills, and what a broken link makes of them
 * driver_module.c   modules and functions
 * driver_launch.c   launches and occupancy
 * driver_order.c    work without an order        driver_config.c   LOCKSTEP_VGPU_*
 *
 * Locks, in the order in which they may be taken:
 *   vgpu.call     every entry point, but for the time it blocks; all fields not named otherwise
 *   memory        the allocations, never while bytes are copied
 *   order         driver_order.c
 *   a stream's    its queue and how far it is; the trace's and a device's likewise: innermost
 * A stream's thread runs its operations with no lock held.
 */
#ifndef VGPU_DRIVER_H
#define VGPU_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_abi.h"
#include "driver_config.h"
#include "driver_order.h"
#include "ptx.h"

/* -- the state of the driver (driver_call.c) --------------------------------------------------- */

typedef struct {
    int ordinal;
    int retained;                    /* references to the primary context */
    bool has_access[VGPU_MAX_DEVICES]; /* memory lock: enabled towards that device */
    CUresult fault;                  /* that sticks: vgpu_fault_of, driver_call.c sets it */
    atomic_bool stop;                /* tells its kernels to end: a fault has happened */
    pthread_mutex_t lock;            /* kernels_running */
    pthread_cond_t idle;
    int kernels_running;
    struct vgpu_stream *legacy;      /* the NULL stream, made when first used */
} vgpu_device;

typedef struct {
    pthread_mutex_t call;
    bool initialized;
    vgpu_config config;
    vgpu_device *devices; /* [config.devices] */
    vgpu_order *order;
} vgpu_driver;

extern vgpu_driver vgpu;

/* Begins entry point `name` and locks vgpu.call; anything but CUDA_SUCCESS: return it at once,
 * nothing is locked. vgpu_enter_any is for calls that may come before cuInit. */
#define VGPU_BEGIN(begin)                                        \
    do {                                                         \
        const CUresult begun_ = begin(__func__);                 \
        if (begun_ != CUDA_SUCCESS) return begun_;               \
    } while (0)
CUresult vgpu_enter_any(const char *name);
CUresult vgpu_enter(const char *name);         /* cuInit has been called */
CUresult vgpu_enter_context(const char *name); /* and this thread has a context, with no fault */
CUresult vgpu_leave(CUresult result);          /* unlocks; returns `result` */

/* The device of the calling thread's context; NULL: none. */
vgpu_device *vgpu_current(void);
vgpu_device *vgpu_device_of(CUcontext context); /* NULL: no retained context */

/* What sticks on `device`: its own fault, or that of the process. */
CUresult vgpu_fault_of(const vgpu_device *device);
/* Something that only a new process cures. `text` is written to the trace and standard error. */
void vgpu_device_fault(vgpu_device *device, CUresult result, const char *text);
/* A check failed, in strict mode: the process gets CUDA_ERROR_ASSERT everywhere. Else nothing. */
void vgpu_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The text of the first fault with this result, or NULL. Valid for the life of the program. */
const char *vgpu_fault_text(CUresult result);
/* Gives the reason for an error that does not stick, for the reader of the trace. */
CUresult vgpu_refuse(CUresult result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

bool vgpu_traced(void);
void vgpu_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t vgpu_now_ns(void);
void vgpu_sleep_us(uint64_t us);
/* The same numbers for the same seed and arguments. */
uint64_t vgpu_random(uint64_t a, uint64_t b);

/* Handles are numbers, never reused, so that a stale or a foreign one is found out. */
typedef enum {
    VGPU_HANDLE_STREAM = 1,
    VGPU_HANDLE_EVENT,
    VGPU_HANDLE_MODULE,
    VGPU_HANDLE_FUNCTION,
    VGPU_HANDLE_KINDS
} vgpu_handle_kind;
void *vgpu_handle_open(vgpu_handle_kind kind, void *object);
void *vgpu_handle_find(vgpu_handle_kind kind, const void *handle); /* NULL: not one of ours */
/* The open handle after `after` (NULL: the first) and its object; NULL: there is none. */
void *vgpu_handle_next(vgpu_handle_kind kind, const void *after, void **object);
void vgpu_handle_close(vgpu_handle_kind kind, const void *handle);
size_t vgpu_handle_count(vgpu_handle_kind kind); /* open now */

/* -- memory (driver_memory.c) ------------------------------------------------------------------ */

typedef struct {
    uint64_t address;
    size_t bytes;
    unsigned char *data;   /* owned until freed and unreferenced */
    unsigned char *shadow; /* [bytes] VGPU_DEFINED ...; NULL for host memory */
    int device;            /* -1: pinned host memory */
    bool writable;
    bool freed;            /* by the program; its address is never given out again */
    int references;        /* memory lock: 1 until freed, and 1 of each operation */
    vgpu_history *history;
} vgpu_allocation;

/* A part of an allocation that an operation uses; it stays until vgpu_extent_release. */
typedef struct {
    vgpu_allocation *allocation;
    size_t offset, bytes;
} vgpu_extent;

void vgpu_memory_init(void);
/* Device memory, filled with NaN bytes. NULL: it is full. */
vgpu_allocation *vgpu_memory_alloc(vgpu_device *device, size_t bytes);
void vgpu_memory_free(vgpu_allocation *allocation);
void vgpu_memory_free_all(int device); /* what a context leaves behind */
size_t vgpu_memory_live(void);         /* allocations not freed */
/* Is the address one that only devices can use? */
bool vgpu_memory_is_device(uint64_t address);

/* Where [address, address + bytes) lies. False: `why` says what is wrong with it. */
bool vgpu_extent_find(uint64_t address, size_t bytes, vgpu_extent *extent, char *why,
                     size_t why_bytes);
void vgpu_extent_release(vgpu_extent *extent);
unsigned char *vgpu_extent_data(const vgpu_extent *extent);
unsigned char *vgpu_extent_shadow(const vgpu_extent *extent); /* NULL: all is defined */
/* Holds one more reference; released by vgpu_extent_release. */
bool vgpu_extent_of_access(int device, uint64_t address, vgpu_extent *extent, char *why,
                          size_t why_bytes);
/* Changes when memory is freed or access is disabled (vgpu_memory.generation of ptx.h). */
extern atomic_uint vgpu_memory_generation;
/* May `device` reach the memory of `owner`? */
bool vgpu_has_access(int device, int owner);
bool vgpu_extent_is_live(const vgpu_extent *extent); /* not freed by the program */
void vgpu_set_access(int device, int owner, bool value);

/* -- streams (driver_stream.c) ----------------------------------------------------------------- */

typedef struct vgpu_stream vgpu_stream;
typedef struct vgpu_operation vgpu_operation;

/* Something for a stream to run. Each kind embeds it as its first member. */
struct vgpu_operation {
    vgpu_operation *next;
    vgpu_stream *stream;
    uint32_t sequence;   /* in its stream, from 1 */
    const char *name;    /* "copy": first word in the trace */
    vgpu_action *action; /* for the order check; NULL: none, or already known */
    /* On the stream's thread. Not CUDA_SUCCESS: a fault of the device, `text` says why. Else
     * `text` is what the trace tells. */
    CUresult (*run)(vgpu_operation *, char *text, size_t text_bytes);
    void (*destroy)(vgpu_operation *); /* frees it, also if it never ran */
};

/* The stream of a handle that belongs to the current context; NULL is its legacy stream. */
CUresult vgpu_stream_find(CUstream handle, vgpu_stream **out);
vgpu_device *vgpu_stream_device(const vgpu_stream *stream);
int vgpu_stream_index(const vgpu_stream *stream);
/* Has it run the operation of that number? */
bool vgpu_stream_is_done(vgpu_stream *stream, uint32_t sequence);

/* Gives `operation` its place in the stream: a number, and an action in the order check if it
 * touches memory (`what` names it there; NULL: it does not). */
void vgpu_stream_place(vgpu_stream *stream, vgpu_operation *operation, const char *what);
/* What is known of its memory before it runs: one touch each, then vgpu_operation_known. */
void vgpu_operation_touch(vgpu_operation *operation, const vgpu_extent *extent, bool write);
void vgpu_operation_known(vgpu_operation *operation);
/* Owns: the operation. Async: the stream runs it after all that was enqueued before. */
void vgpu_stream_enqueue(vgpu_operation *operation);

/* All of `awaited` up to `sequence`, of which `clock` tells, comes before what follows in
 * `stream`. `event` is for the trace; -1: none. */
CUresult vgpu_stream_wait(vgpu_stream *stream, vgpu_stream *awaited, uint32_t sequence,
                          const vgpu_clock *clock, int event);
/* What the legacy stream does comes after all of the blocking streams, and before what follows. */
void vgpu_stream_keep_legacy_order(vgpu_stream *stream);

/* Blocks, without vgpu.call, until all that is enqueued has run. Errors: the device's fault. */
CUresult vgpu_stream_finish(vgpu_stream *stream);
/* On the stream's thread: until the fault of its device. */
void vgpu_stream_hang(vgpu_stream *stream);
/* Every stream's thread looks again at whether it should still wait. */
void vgpu_stream_wake_all(void);
/* Ends all streams and events of a device whose context goes away. */
void vgpu_stream_close_all(const vgpu_device *device);
void vgpu_event_close_all(const vgpu_device *device); /* driver_event.c */

/* -- links (driver_copy.c) --------------------------------------------------------------------- */

/* One more use of the link, a copy or a launch that touches the other's memory: its number from 1
 * and what is wrong with it. */
vgpu_link_rule vgpu_link_use(int from, int to, unsigned long *use);
const char *vgpu_link_fault_text(vgpu_link_fault fault); /* for the trace: ", DROPPED"; or "" */

/* -- kernels in flight (driver_launch.c) ------------------------------------------------------- */

/* Blocks, without vgpu.call, until no kernel runs on `device`. */
void vgpu_wait_for_kernels(vgpu_device *device);

/* -- modules (driver_module.c) ----------------------------------------------------------------- */

typedef struct vgpu_module vgpu_module;
typedef struct {
    vgpu_module *module;
    vgpu_device *device;
    const vgpu_program *program;
    const vgpu_kernel *kernel;
    const uint64_t *variables; /* addresses of the module's variables */
    int dynamic_shared_limit;  /* bytes a launch may ask for */
    int carveout;
} vgpu_function;

void vgpu_module_close_all(const vgpu_device *device);
/* Keeps the program while a launch runs. */
void vgpu_module_hold(vgpu_module *module);
void vgpu_module_let_go(vgpu_module *module);

/* What a capability allows (driver_device.c). */
typedef struct {
    int capability;
    int shared_per_block, shared_per_multiprocessor; /* KiB; the first after opting in */
    int threads_per_multiprocessor, blocks_per_multiprocessor;
    int shared_reserved; /* bytes of each block that the system takes */
} vgpu_limits;
const vgpu_limits *vgpu_limits_of(const vgpu_device *device);

#endif
