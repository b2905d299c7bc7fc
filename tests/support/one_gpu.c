/* SPDX-License-Identifier: MIT */
/* one_gpu.c -- see one_gpu.h. */
#include "support/one_gpu.h"

#include <string.h>

#include "device/cuda.h"
#include "device/cuda_context.h"
#include "device/cuda_module.h"
#include "device/probe.h"

ls_status gpu_open(gpu *g, int ordinal, atomic_ulong *progress)
{
    void *memory = NULL, *host = NULL;
    memset(g, 0, sizeof *g);
    LS_TRY(ls_device_open_cuda(ordinal, progress, &g->device));
    LS_TRY(ls_stream_init(&g->stream, g->device));
    LS_TRY(ls_device_alloc(g->device, GPU_BYTES, &memory));
    g->memory = memory;
    LS_TRY(ls_pinned_alloc(g->device, GPU_BYTES, &host));
    g->host = host;
    return LS_OK;
}

void gpu_close(gpu *g)
{
    if (g->device == NULL) return;
    ls_pinned_release(g->device, g->host);
    ls_device_release(g->device, g->memory);
    ls_stream_free(&g->stream);
    ls_device_close(g->device);
}

ls_status gpu_drain(gpu *g)
{
    return ls_stream_drain(&g->stream, NULL, "a test");
}

ls_status gpu_store(gpu *g, unsigned first)
{
    for (unsigned i = 0; i < GPU_BYTES; i++) g->host[i] = (unsigned char)(first + i * 7 + i / 256);
    LS_TRY(ls_copy_to_device(&g->stream, g->memory, g->host, GPU_BYTES));
    return gpu_drain(g);
}

bool gpu_holds(gpu *g, unsigned first)
{
    memset(g->host, 0, GPU_BYTES);
    if (ls_copy_to_host(&g->stream, g->host, g->memory, GPU_BYTES) != LS_OK) return false;
    if (gpu_drain(g) != LS_OK) return false;
    for (unsigned i = 0; i < GPU_BYTES; i++)
        if (g->host[i] != (unsigned char)(first + i * 7 + i / 256)) return false;
    return true;
}

ls_status gpu_launch_copy(ls_stream *stream, void *to, const void *from, size_t bytes)
{
    const ls_probe_params params = { .from = from, .to = to, .bytes = bytes };
    const ls_cuda_launch_args launch = { .kernel = GPU_COPY_KERNEL, .grid = { 2, 1, 1 },
                                         .block = LS_PROBE_THREADS, .params = &params,
                                         .param_bytes = sizeof params };
    return ls_cuda_launch(stream, &launch);
}

ls_status gpu_load_copy(gpu *g)
{
    static const char *const kernels[] = { GPU_COPY_KERNEL };
    return ls_cuda_context_load(g->device->implementation, ls_embedded_cuda_probe, kernels, 1);
}
