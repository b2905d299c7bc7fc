/* SPDX-License-Identifier: MIT */
/* driver_handle.c -- handles of streams, events, modules and functions.
 *
 * A handle is a small number dressed as a pointer: kind * 2^32 + (index + 1) * 16. It is never
 * given out twice, so a handle that was destroyed, of another kind or made up is found out and
 * never followed. All under vgpu.call.
 */
#include "driver.h"

#include <stdlib.h>

typedef struct {
    void **objects; /* owned array; NULL where the handle was closed */
    size_t count, room, open;
} registry;

static registry registries[VGPU_HANDLE_KINDS];

static uintptr_t base_of(vgpu_handle_kind kind) { return (uintptr_t)kind << 32; }

void *vgpu_handle_open(vgpu_handle_kind kind, void *object)
{
    registry *r = &registries[kind];
    if (r->count == r->room) {
        r->room = r->room * 2 + 16;
        void **grown = realloc(r->objects, r->room * sizeof *grown);
        if (grown == NULL) abort();
        r->objects = grown;
    }
    r->objects[r->count++] = object;
    r->open++;
    return (void *)(base_of(kind) + r->count * 16);
}

/* The place of a handle that is open, or NULL. */
static void **place_of(vgpu_handle_kind kind, const void *handle)
{
    registry *r = &registries[kind];
    const uintptr_t number = (uintptr_t)handle - base_of(kind);
    const size_t index = number / 16 - 1;
    if (number < 16 || number % 16 != 0 || index >= r->count) return NULL;
    return r->objects[index] == NULL ? NULL : &r->objects[index];
}

void *vgpu_handle_find(vgpu_handle_kind kind, const void *handle)
{
    void **place = place_of(kind, handle);
    return place == NULL ? NULL : *place;
}

void vgpu_handle_close(vgpu_handle_kind kind, const void *handle)
{
    void **place = place_of(kind, handle);
    if (place == NULL) return;
    *place = NULL;
    registries[kind].open--;
}

void *vgpu_handle_next(vgpu_handle_kind kind, const void *after, void **object)
{
    const registry *r = &registries[kind];
    size_t index = after == NULL ? 0 : ((uintptr_t)after - base_of(kind)) / 16;
    while (index < r->count && r->objects[index] == NULL) index++;
    if (index == r->count) return NULL;
    *object = r->objects[index];
    return (void *)(base_of(kind) + (index + 1) * 16);
}

size_t vgpu_handle_count(vgpu_handle_kind kind) { return registries[kind].open; }
