/* SPDX-License-Identifier: MIT */
/* gpu_arrays.c -- arrays on the host and on a GPU. See gpu_arrays.h. */
#include "support/gpu_arrays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda.h"

enum { STAGING_BYTES = 20 << 20 };

void gpu_must(ls_status status, const char *call, const char *file, int line)
{
    if (status == LS_OK) return;
    (void)fprintf(stderr, "%s:%d: %s: %s [%s]\n", file, line, call, ls_last_error(),
                  ls_last_error_place());
    exit(1);
}

static void must_hold(bool condition, const char *what)
{
    if (condition) return;
    (void)fprintf(stderr, "%s\n", what);
    exit(1);
}

naive_random gpu_random(void)
{
    const char *seed = getenv("LOCKSTEP_VGPU_SEED");
    return (naive_random){ .state = seed == NULL ? 1 : strtoull(seed, NULL, 10) };
}

void gpu_arrays_open(gpu_arrays *g)
{
    memset(g, 0, sizeof *g);
    void *staging;
    MUST(ls_device_open_cuda(0, NULL, &g->device));
    MUST(ls_kernels_bind(g->device));
    MUST(ls_stream_init(&g->stream, g->device));
    MUST(ls_pinned_alloc(g->device, STAGING_BYTES, &staging));
    g->staging = staging;
}

void gpu_arrays_drop(gpu_arrays *g)
{
    for (int i = 0; i < g->count; i++) {
        ls_device_release(g->device, g->memory[i]);
        free(g->host[i]);
    }
    g->count = 0;
}

void gpu_arrays_close(gpu_arrays *g)
{
    gpu_arrays_drop(g);
    ls_pinned_release(g->device, g->staging);
    ls_stream_free(&g->stream);
    ls_device_close(g->device);
}

static void drain(gpu_arrays *g) { MUST(ls_stream_drain(&g->stream, NULL, "a test")); }

static unsigned char *new_array(gpu_arrays *g, size_t bytes)
{
    must_hold(g->count < GPU_ARRAYS_MAX, "too many arrays");
    must_hold(bytes <= STAGING_BYTES, "an array larger than the staging memory");
    g->host[g->count] = NULL;
    MUST(ls_device_alloc(g->device, bytes + g->shift, &g->memory[g->count]));
    return (unsigned char *)g->memory[g->count++] + g->shift;
}

/* Host memory beside the newest array. */
static void *host_array(gpu_arrays *g, size_t bytes)
{
    void *host = malloc(bytes > 0 ? bytes : 1);
    must_hold(host != NULL, "no memory");
    g->host[g->count - 1] = host;
    return host;
}

void *gpu_copy_of(gpu_arrays *g, const void *data, size_t bytes)
{
    if (data == NULL) return NULL;
    void *at = new_array(g, bytes);
    memcpy(g->staging, data, bytes);
    MUST(ls_copy_to_device(&g->stream, at, g->staging, bytes));
    drain(g);
    return at;
}

void *gpu_output(gpu_arrays *g, size_t bytes, void *host_pointer)
{
    void *at = new_array(g, bytes), *host = host_array(g, bytes);
    memset(host, 0xff, bytes);
    memcpy(host_pointer, &host, sizeof host);
    return at;
}

void *gpu_updated(gpu_arrays *g, const void *data, size_t bytes, void *host_pointer)
{
    void *at = gpu_copy_of(g, data, bytes), *host = host_array(g, bytes);
    memcpy(host, data, bytes);
    memcpy(host_pointer, &host, sizeof host);
    return at;
}

static const void *read_back(gpu_arrays *g, const void *device, size_t bytes)
{
    MUST(ls_copy_to_host(&g->stream, g->staging, device, bytes));
    drain(g);
    return g->staging;
}

void gpu_same_floats(gpu_arrays *g, const char *what, const float *want, const void *device,
                     size_t count)
{
    const float *got = read_back(g, device, count * sizeof(float));
    must_hold(naive_same(what, "cuda", want, got, count), what);
}

void gpu_same_bytes(gpu_arrays *g, const char *what, const void *want, const void *device,
                    size_t bytes)
{
    const unsigned char *got = read_back(g, device, bytes), *wanted = want;
    for (size_t i = 0; i < bytes; i++) {
        if (got[i] == wanted[i]) continue;
        (void)fprintf(stderr, "%s: byte %zu of %zu: %#x, not %#x\n", what, i, bytes, got[i],
                      wanted[i]);
        exit(1);
    }
}
