/* SPDX-License-Identifier: MIT */
/* driver_memory.c -- device and pinned memory, and who may reach it.
 *
 * Device addresses are not host addresses: device d owns 2^36 bytes from 0x700000000000 + d * 2^36,
 * so that 72 devices end far below where a process has its libraries and maps its pages. The host
 * reserves them without access, as far as it can, so that a program which dereferences a
 * device pointer stops there. The bytes themselves lie in host memory that only operations know.
 *
 *     device 0: |512-aligned allocation|....gap....|allocation|....gap....|
 *
 * Addresses only grow: what was freed is never given out again, so a use after free is found and
 * not mistaken for its successor. Fresh memory is all NaN bytes (0xff) and not "defined". Pinned
 * memory is the host's own, by page; freed pages stay reserved without access, too.
 *
 * An operation refers to the allocations it uses: freeing one meanwhile makes it unreachable at
 * once, but its bytes stay until the last reference is gone.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEVICE_BASE UINT64_C(0x700000000000)
#define DEVICE_STEP (UINT64_C(1) << 36)
enum { DEVICE_ALIGN = 512, DEVICE_GAP = 65536, PAGE = 4096, HOST = VGPU_MAX_DEVICES };

/* All allocations of one owner, in order of their making; a device's by rising address. */
typedef struct {
    vgpu_allocation **items; /* owned */
    size_t count, room;
    size_t used_bytes;
    uint64_t next; /* address */
} heap;

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static heap heaps[VGPU_MAX_DEVICES + 1];
atomic_uint vgpu_memory_generation;

/* A thread sanitizer keeps this range without access by itself, and takes a wish for it for one for
 * address 0. */
static void reserve(uint64_t address)
{
#ifdef __SANITIZE_THREAD__
    (void)address;
#else
    void *wanted = (void *)(uintptr_t)address;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#ifdef MAP_FIXED_NOREPLACE
    flags |= MAP_FIXED_NOREPLACE;
#endif
    void *reserved = mmap(wanted, DEVICE_STEP, PROT_NONE, flags, -1, 0);
    if (reserved != MAP_FAILED && reserved != wanted) munmap(reserved, DEVICE_STEP);
#endif
}

void vgpu_memory_init(void)
{
    for (int d = 0; d < vgpu.config.devices; d++) {
        heaps[d].next = DEVICE_BASE + (uint64_t)d * DEVICE_STEP;
        reserve(heaps[d].next);
    }
}

bool vgpu_memory_is_device(uint64_t address)
{
    return address >= DEVICE_BASE &&
           address < DEVICE_BASE + (uint64_t)vgpu.config.devices * DEVICE_STEP;
}

static heap *heap_of(const vgpu_allocation *a) { return &heaps[a->device < 0 ? HOST : a->device]; }

/* -- making and freeing ------------------------------------------------------------------------ */

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

static void heap_add(heap *h, vgpu_allocation *a)
{
    if (h->count == h->room) {
        h->room = h->room * 2 + 16;
        vgpu_allocation **grown = realloc(h->items, h->room * sizeof *grown);
        if (grown == NULL) abort();
        h->items = grown;
    }
    h->items[h->count++] = a;
    h->used_bytes += a->bytes;
}

/* The bytes of an allocation nobody refers to any more; its address stays known. memory_lock. */
static void release_bytes(vgpu_allocation *a)
{
    if (a->device < 0) {
        const size_t mapped = round_up(a->bytes, PAGE) + PAGE;
        void *hidden = mmap(a->data, mapped, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        if (hidden == MAP_FAILED) munmap(a->data, mapped);
    } else {
        free(a->data);
    }
    free(a->shadow);
    vgpu_history_release(vgpu.order, a->history);
    a->data = a->shadow = NULL;
    a->history = NULL;
}

static bool device_bytes(vgpu_allocation *a)
{
    const size_t whole = round_up(a->bytes, DEVICE_ALIGN);
    a->data = aligned_alloc(DEVICE_ALIGN, whole);
    a->shadow = calloc(a->bytes, 1);
    if (a->data == NULL || a->shadow == NULL) return false;
    memset(a->data, 0xff, whole);
    return true;
}

/* Pages of their own, and one without access behind them. */
static bool pinned_bytes(vgpu_allocation *a)
{
    const size_t whole = round_up(a->bytes, PAGE);
    void *pages = mmap(NULL, whole + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return false;
    if (mprotect(pages, whole, PROT_READ | PROT_WRITE) != 0) {
        munmap(pages, whole + PAGE);
        return false;
    }
    a->data = pages;
    memset(a->data, 0xff, whole);
    return true;
}

/* Are there addresses left for so many bytes? Freed ones are not. */
static bool has_addresses(const heap *h, int device, size_t bytes)
{
    const uint64_t end = DEVICE_BASE + (uint64_t)(device + 1) * DEVICE_STEP;
    return round_up(bytes, DEVICE_ALIGN) + DEVICE_GAP <= end - h->next;
}

vgpu_allocation *vgpu_memory_alloc(vgpu_device *device, size_t bytes)
{
    const int owner = device == NULL ? -1 : device->ordinal;
    heap *h = &heaps[owner < 0 ? HOST : owner];
    const size_t room = owner < 0 ? vgpu.config.pinned_bytes
                                  : vgpu.config.memory_bytes - vgpu.config.others_bytes;
    vgpu_allocation *a = calloc(1, sizeof *a);
    if (a == NULL) return NULL;
    *a = (vgpu_allocation){ .bytes = bytes, .device = owner, .writable = true, .references = 1 };
    pthread_mutex_lock(&memory_lock);
    const bool made = bytes <= room - h->used_bytes &&
                      (owner < 0 ? pinned_bytes(a) : has_addresses(h, owner, bytes) &&
                                                     device_bytes(a));
    if (made) {
        a->address = owner < 0 ? (uint64_t)(uintptr_t)a->data : h->next;
        h->next += round_up(bytes, DEVICE_ALIGN) + DEVICE_GAP;
        a->history = vgpu_history_create(a->address);
        heap_add(h, a);
    }
    pthread_mutex_unlock(&memory_lock);
    if (made) return a;
    free(a->data);
    free(a->shadow);
    free(a);
    return NULL;
}

static void release_reference(vgpu_allocation *a)
{
    if (--a->references == 0) release_bytes(a);
}

static void free_locked(vgpu_allocation *a)
{
    a->freed = true;
    heap_of(a)->used_bytes -= a->bytes;
    atomic_fetch_add_explicit(&vgpu_memory_generation, 1, memory_order_release);
    release_reference(a);
}

void vgpu_memory_free(vgpu_allocation *a)
{
    pthread_mutex_lock(&memory_lock);
    free_locked(a);
    pthread_mutex_unlock(&memory_lock);
}

void vgpu_memory_free_all(int device)
{
    pthread_mutex_lock(&memory_lock);
    heap *h = &heaps[device];
    for (size_t i = 0; i < h->count; i++)
        if (!h->items[i]->freed) free_locked(h->items[i]);
    pthread_mutex_unlock(&memory_lock);
}

/* Of a device; -1: pinned. */
static size_t memory_used(int device)
{
    pthread_mutex_lock(&memory_lock);
    const size_t used = heaps[device < 0 ? HOST : device].used_bytes;
    pthread_mutex_unlock(&memory_lock);
    return used;
}

size_t vgpu_memory_live(void)
{
    size_t live = 0;
    pthread_mutex_lock(&memory_lock);
    for (size_t h = 0; h <= HOST; h++)
        for (size_t i = 0; i < heaps[h].count; i++) live += !heaps[h].items[i]->freed;
    pthread_mutex_unlock(&memory_lock);
    return live;
}

/* -- finding ----------------------------------------------------------------------------------- */

/* The last allocation of a device that begins at or before `address`, or NULL. */
static vgpu_allocation *search_device(const heap *h, uint64_t address)
{
    size_t low = 0, high = h->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (h->items[middle]->address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? NULL : h->items[low - 1];
}

static vgpu_allocation *search_host(const heap *h, uint64_t address)
{
    for (size_t i = 0; i < h->count; i++)
        if (address - h->items[i]->address < h->items[i]->bytes) return h->items[i];
    return NULL;
}

/* memory_lock. NULL: `why` tells. */
static vgpu_allocation *search(uint64_t address, char *why, size_t why_bytes)
{
    vgpu_allocation *a;
    if (vgpu_memory_is_device(address)) {
        a = search_device(&heaps[(address - DEVICE_BASE) / DEVICE_STEP], address);
    } else {
        a = search_host(&heaps[HOST], address);
    }
    const unsigned long long at = address;
    if (a == NULL) {
        snprintf(why, why_bytes, "0x%llx is not allocated", at);
    } else if (a->freed) {
        snprintf(why, why_bytes, "0x%llx lies in (or behind) %zu bytes at 0x%llx, freed", at,
                 a->bytes, (unsigned long long)a->address);
    } else if (address - a->address >= a->bytes) {
        snprintf(why, why_bytes, "0x%llx lies %llu bytes behind the %zu at 0x%llx", at,
                 at - a->address - a->bytes, a->bytes, (unsigned long long)a->address);
    } else {
        return a;
    }
    return NULL;
}

bool vgpu_extent_find(uint64_t address, size_t bytes, vgpu_extent *extent, char *why,
                     size_t why_bytes)
{
    pthread_mutex_lock(&memory_lock);
    vgpu_allocation *a = search(address, why, why_bytes);
    if (a != NULL && bytes > a->bytes - (size_t)(address - a->address)) {
        snprintf(why, why_bytes, "%zu bytes from 0x%llx end behind the %zu at 0x%llx", bytes,
                 (unsigned long long)address, a->bytes, (unsigned long long)a->address);
        a = NULL;
    }
    if (a != NULL) {
        a->references++;
        *extent = (vgpu_extent){ .allocation = a,
                               .offset = (size_t)(address - a->address),
                               .bytes = bytes };
    }
    pthread_mutex_unlock(&memory_lock);
    return a != NULL;
}

bool vgpu_extent_of_access(int device, uint64_t address, vgpu_extent *extent, char *why,
                          size_t why_bytes)
{
    pthread_mutex_lock(&memory_lock);
    vgpu_allocation *a = search(address, why, why_bytes);
    if (a != NULL && a->device >= 0 && a->device != device &&
        !vgpu.devices[device].has_access[a->device]) {
        snprintf(why, why_bytes, "gpu%d has no access to gpu%d", device, a->device);
        a = NULL;
    }
    if (a != NULL) {
        a->references++;
        *extent = (vgpu_extent){ .allocation = a, .offset = 0, .bytes = a->bytes };
    }
    pthread_mutex_unlock(&memory_lock);
    return a != NULL;
}

void vgpu_extent_release(vgpu_extent *extent)
{
    if (extent->allocation == NULL) return;
    pthread_mutex_lock(&memory_lock);
    release_reference(extent->allocation);
    pthread_mutex_unlock(&memory_lock);
    extent->allocation = NULL;
}

bool vgpu_extent_is_live(const vgpu_extent *extent)
{
    pthread_mutex_lock(&memory_lock);
    const bool live = !extent->allocation->freed;
    pthread_mutex_unlock(&memory_lock);
    return live;
}

unsigned char *vgpu_extent_data(const vgpu_extent *p) { return p->allocation->data + p->offset; }

unsigned char *vgpu_extent_shadow(const vgpu_extent *p)
{
    return p->allocation->shadow == NULL ? NULL : p->allocation->shadow + p->offset;
}

bool vgpu_has_access(int device, int owner)
{
    pthread_mutex_lock(&memory_lock);
    const bool value = device == owner || vgpu.devices[device].has_access[owner];
    pthread_mutex_unlock(&memory_lock);
    return value;
}

void vgpu_set_access(int device, int owner, bool value)
{
    pthread_mutex_lock(&memory_lock);
    vgpu.devices[device].has_access[owner] = value;
    atomic_fetch_add_explicit(&vgpu_memory_generation, 1, memory_order_release);
    pthread_mutex_unlock(&memory_lock);
}

/* -- entry points ------------------------------------------------------------------------------ */

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    VGPU_BEGIN(vgpu_enter_context);
    if (address == NULL || bytes == 0) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    vgpu_device *device = vgpu_current();
    vgpu_wait_for_kernels(device);
    const vgpu_allocation *a = vgpu_memory_alloc(device, bytes);
    if (a == NULL)
        return vgpu_leave(vgpu_refuse(CUDA_ERROR_OUT_OF_MEMORY, "gpu%d: %zu bytes",
                                      device->ordinal, bytes));
    *address = a->address;
    vgpu_trace("gpu%d: %zu bytes at 0x%llx", device->ordinal, bytes, *address);
    return vgpu_leave(CUDA_SUCCESS);
}

/* The live allocation that begins at `address`, or NULL. */
static vgpu_allocation *beginning_at(uint64_t address)
{
    char why[256];
    pthread_mutex_lock(&memory_lock);
    vgpu_allocation *a = search(address, why, sizeof why);
    pthread_mutex_unlock(&memory_lock);
    if (a != NULL && a->address == address) return a;
    vgpu_trace("refused: free: %s", a == NULL ? why : "not the beginning of an allocation");
    return NULL;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    VGPU_BEGIN(vgpu_enter_context);
    if (address == 0) return vgpu_leave(CUDA_SUCCESS);
    vgpu_allocation *a = beginning_at(address);
    if (a == NULL || a->device < 0) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    vgpu_wait_for_kernels(&vgpu.devices[a->device]);
    if (a->freed) return vgpu_leave(CUDA_ERROR_INVALID_VALUE); /* by another thread meanwhile */
    vgpu_memory_free(a);
    vgpu_trace("gpu%d: free 0x%llx", a->device, address);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    VGPU_BEGIN(vgpu_enter_context);
    if (free_bytes == NULL || total_bytes == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    *total_bytes = vgpu.config.memory_bytes;
    *free_bytes = *total_bytes - vgpu.config.others_bytes -
                  memory_used(vgpu_current()->ordinal);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    VGPU_BEGIN(vgpu_enter_context);
    const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                           CU_MEMHOSTALLOC_WRITECOMBINED;
    if (memory == NULL || bytes == 0 || (flags & ~known) != 0)
        return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    const vgpu_allocation *a = vgpu_memory_alloc(NULL, bytes);
    if (a == NULL)
        return vgpu_leave(vgpu_refuse(CUDA_ERROR_OUT_OF_MEMORY, "pinned: %zu bytes", bytes));
    *memory = a->data;
    vgpu_trace("host: %zu pinned bytes at %p", bytes, *memory);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemFreeHost(void *memory)
{
    VGPU_BEGIN(vgpu_enter_context);
    vgpu_allocation *a = beginning_at((uint64_t)(uintptr_t)memory);
    if (a == NULL || a->device >= 0) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    vgpu_memory_free(a);
    vgpu_trace("host: free pinned %p", memory);
    return vgpu_leave(CUDA_SUCCESS);
}
