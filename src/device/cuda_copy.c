/* SPDX-License-Identifier: MIT */
/* cuda_copy.c -- see cuda_copy.h. */
#include "device/cuda_copy.h"

#include <stdint.h>

static const char *name_of_owner(const void *memory, size_t bytes)
{
    const ls_cuda_context *owner = ls_cuda_memory_owner(memory, bytes, false);
    return owner != NULL ? owner->name : "no open GPU";
}

/* Fail unless [memory, memory + bytes) is memory of `context`. */
static ls_status check_own(const ls_cuda_context *context, const void *memory, size_t bytes,
                           const char *doing)
{
    if (ls_cuda_memory_owner(memory, bytes, false) == context) return LS_OK;
    return ls_fail(LS_ERR_DEVICE, "%s: %s %zu bytes: %p is memory of %s", context->name, doing,
                   bytes, memory, name_of_owner(memory, bytes));
}

static ls_status check_pinned(const ls_cuda_context *context, const void *memory, size_t bytes,
                              const char *doing)
{
    if (ls_cuda_memory_owner(memory, bytes, true) != NULL) return LS_OK;
    return ls_fail(LS_ERR_DEVICE, "%s: %s %zu bytes: the host memory is not pinned",
                   context->name, doing, bytes);
}

static ls_status copy_to_device(ls_cuda_context *context, CUstream stream, void *to,
                                const void *from, size_t bytes)
{
    LS_TRY(check_own(context, to, bytes, "copying to the device"));
    LS_TRY(check_pinned(context, from, bytes, "copying to the device"));
    return LS_CUDA_ON(context, memcpy_h_to_d, (ls_cuda_address(to), from, bytes, stream),
                      "copying %zu bytes to the device", bytes);
}

static ls_status copy_to_host(ls_cuda_context *context, CUstream stream, void *to,
                              const void *from, size_t bytes)
{
    LS_TRY(check_own(context, from, bytes, "copying to the host"));
    LS_TRY(check_pinned(context, to, bytes, "copying to the host"));
    return LS_CUDA_ON(context, memcpy_d_to_h, (to, ls_cuda_address(from), bytes, stream),
                      "copying %zu bytes to the host", bytes);
}

static ls_status copy_within(ls_cuda_context *context, CUstream stream, void *to,
                             const void *from, size_t bytes)
{
    LS_TRY(check_own(context, from, bytes, "copying within the device"));
    LS_TRY(check_own(context, to, bytes, "copying within the device"));
    return LS_CUDA_ON(context, memcpy_d_to_d,
                      (ls_cuda_address(to), ls_cuda_address(from), bytes, stream),
                      "copying %zu bytes within the device", bytes);
}

static ls_status copy_peer(ls_cuda_context *context, CUstream stream, void *to, const void *from,
                           size_t bytes)
{
    ls_cuda_context *owner = ls_cuda_memory_owner(to, bytes, false);
    if (owner == context) return copy_within(context, stream, to, from, bytes);
    LS_TRY(check_own(context, from, bytes, "copying from the device"));
    if (owner == NULL)
        return ls_fail(LS_ERR_DEVICE, "%s: copying %zu bytes: %p is memory of no open GPU",
                       context->name, bytes, to);
    if (!atomic_load(&context->reaches[owner->ordinal]))
        return ls_fail(LS_ERR_DEVICE, "%s: copying %zu bytes to %s: access is not enabled",
                       context->name, bytes, owner->name);
    return LS_CUDA_ON(context, memcpy_peer,
                      (ls_cuda_address(to), owner->handle, ls_cuda_address(from), context->handle,
                       bytes, stream),
                      "copying %zu bytes to %s", bytes, owner->name);
}

ls_status ls_cuda_copy(ls_cuda_context *context, CUstream stream, void *to, const void *from,
                       size_t bytes, ls_copy_direction direction)
{
    switch (direction) {
    case LS_COPY_TO_DEVICE: return copy_to_device(context, stream, to, from, bytes);
    case LS_COPY_TO_HOST: return copy_to_host(context, stream, to, from, bytes);
    case LS_COPY_WITHIN: return copy_within(context, stream, to, from, bytes);
    case LS_COPY_PEER: break;
    }
    return copy_peer(context, stream, to, from, bytes);
}

ls_status ls_cuda_fill(ls_cuda_context *context, CUstream stream, void *to, unsigned char value,
                       size_t bytes)
{
    LS_TRY(check_own(context, to, bytes, "filling"));
    if (((uintptr_t)to | bytes) % 4 == 0)
        return LS_CUDA_ON(context, memset_d32,
                          (ls_cuda_address(to), value * 0x01010101u, bytes / 4, stream),
                          "filling %zu bytes", bytes);
    return LS_CUDA_ON(context, memset_d8, (ls_cuda_address(to), value, bytes, stream),
                      "filling %zu bytes", bytes);
}
