/* SPDX-License-Identifier: MIT */
/* launch_product.c -- matrix products and convolutions on a GPU: tile, parameters, launch.
 *
 * The tile is the largest of three of which the result has enough to keep a GPU's hundred or so
 * multiprocessors busy; a narrow result takes a narrow tile. conv.cu says why the gradient of a
 * strided convolution's input is several launches.
 */
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tiles.h"

/* -- tiles ------------------------------------------------------------------------------------ */

typedef struct {
    const char *name;
    uint32_t M, N;
    unsigned threads;
} tile;

typedef enum { LARGE, MEDIUM, SMALL, SIZES } tile_size;

static const tile tiles[SIZES] = {
    [LARGE] = { "large", LS_LARGE_M, LS_LARGE_N, LS_LARGE_THREADS },
    [MEDIUM] = { "medium", LS_MEDIUM_M, LS_MEDIUM_N, LS_MEDIUM_THREADS },
    [SMALL] = { "small", LS_SMALL_M, LS_SMALL_N, LS_SMALL_THREADS },
};

static size_t tile_count(const tile *t, size_t M, size_t N)
{
    return ls_ceil_div(M, t->M) * ls_ceil_div(N, t->N);
}

/* A tile is worth while if the result has nearly as many as the GPU has multiprocessors, or half as
 * many of the medium kind, of which several share a multiprocessor. */
static tile_size size_for(const ls_stream *stream, size_t M, size_t N)
{
    const size_t width = (size_t)ls_cuda_multiprocessor_count(stream->device);
    if (N > LS_MEDIUM_N && 4 * tile_count(&tiles[LARGE], M, N) >= 3 * width) return LARGE;
    if (N > LS_SMALL_N && 2 * tile_count(&tiles[MEDIUM], M, N) >= width) return MEDIUM;
    return SMALL;
}

static uint32_t tiles_across(size_t extent, uint32_t tile_extent)
{
    return (uint32_t)ls_ceil_div(extent, tile_extent);
}

/* -- matrix product --------------------------------------------------------------------------- */

ls_status ls_gemm_cuda(ls_stream *stream, const ls_gemm_args *a)
{
    static const char *const kernel[SIZES][2][2] = {
        [LARGE] = { { "ls_gemm_large_nn", "ls_gemm_large_nt" },
                    { "ls_gemm_large_tn", "ls_gemm_large_tt" } },
        [MEDIUM] = { { "ls_gemm_medium_nn", "ls_gemm_medium_nt" },
                     { "ls_gemm_medium_tn", "ls_gemm_medium_tt" } },
        [SMALL] = { { "ls_gemm_small_nn", "ls_gemm_small_nt" },
                    { "ls_gemm_small_tn", "ls_gemm_small_tt" } },
    };
    LS_TRY(ls_cuda_fits("gemm", "rows", a->M));
    LS_TRY(ls_cuda_fits("gemm", "columns", a->N));
    LS_TRY(ls_cuda_fits("gemm", "products per element", a->K));
    const tile_size size = size_for(stream, a->M, a->N);
    const tile *t = &tiles[size];
    const ls_cuda_gemm p = {
        .M = (uint32_t)a->M,
        .N = (uint32_t)a->N,
        .K = (uint32_t)a->K,
        .tiles_m = tiles_across(a->M, t->M),
        .tiles_n = tiles_across(a->N, t->N),
        .accumulate = a->accumulate,
        .relu = a->relu,
        .vector_a = ls_cuda_moves_quads(a->A, a->transpose_a ? a->M : a->K),
        .vector_b = ls_cuda_moves_quads(a->B, a->transpose_b ? a->K : a->N),
        .vector_c = ls_cuda_moves_quads(a->C, a->N),
        .A = a->A,
        .B = a->B,
        .bias = a->bias,
        .C = a->C,
    };
    return LS_CUDA_ENQUEUE(stream, kernel[size][a->transpose_a][a->transpose_b],
                           tile_count(t, a->M, a->N), 1, t->threads, p);
}

/* -- convolution ------------------------------------------------------------------------------ */

ls_status ls_cuda_conv_fits(const char *op, const ls_conv_shape *s)
{
    LS_TRY(ls_cuda_fits(op, "inputs of a sample", s->height * s->width * s->channels));
    LS_TRY(ls_cuda_fits(op, "outputs of a sample", s->out_height * s->out_width * s->filters));
    LS_TRY(ls_cuda_fits(op, "output places", s->samples * s->out_height * s->out_width));
    LS_TRY(ls_cuda_fits(op, "input places", s->samples * s->height * s->width));
    LS_TRY(ls_cuda_fits(op, "weights of a filter",
                        s->kernel_height * s->kernel_width * s->channels));
    LS_TRY(ls_cuda_fits(op, "taps times filters",
                        s->kernel_height * s->kernel_width * s->filters));
    /* Corners of windows, far outside (patches.cuh) and inside, as 32-bit numbers with a sign. */
    LS_TRY(ls_cuda_fits(op, "rows", 2 * (s->out_height * s->stride_height + s->kernel_height)));
    return ls_cuda_fits(op, "columns", 2 * (s->out_width * s->stride_width + s->kernel_width));
}

ls_cuda_patches ls_cuda_patches_of(const ls_conv_shape *s, const float *x)
{
    return (ls_cuda_patches){
        .source = x,
        .height = (uint32_t)s->height,
        .width = (uint32_t)s->width,
        .channels = (uint32_t)s->channels,
        .places = (uint32_t)(s->samples * s->out_height * s->out_width),
        .by_sample = ls_cuda_divisor_of(s->out_height * s->out_width),
        .by_row = ls_cuda_divisor_of(s->out_width),
        .by_tap = ls_cuda_divisor_of(s->channels),
        .by_tap_row = ls_cuda_divisor_of(s->kernel_width),
        .stride_h = (int32_t)s->stride_height,
        .stride_w = (int32_t)s->stride_width,
        .first_h = -(int32_t)s->pad_top,
        .first_w = -(int32_t)s->pad_left,
        .vector = ls_cuda_moves_quads(x, s->channels),
    };
}

ls_status ls_conv_forward_cuda(ls_stream *stream, const ls_conv_forward_args *a)
{
    static const char *const kernel[SIZES] = { "ls_conv_forward_large", "ls_conv_forward_medium",
                                               "ls_conv_forward_small" };
    const ls_conv_shape *s = &a->shape;
    LS_TRY(ls_cuda_conv_fits("conv_forward", s));
    const size_t columns = s->kernel_height * s->kernel_width * s->channels;
    const size_t places = s->samples * s->out_height * s->out_width;
    const tile_size size = size_for(stream, places, s->filters);
    const tile *t = &tiles[size];
    const ls_cuda_conv_forward p = {
        .x = ls_cuda_patches_of(s, a->x),
        .filters = (uint32_t)s->filters,
        .columns = (uint32_t)columns,
        .tiles_m = tiles_across(places, t->M),
        .tiles_n = tiles_across(s->filters, t->N),
        .relu = a->relu,
        .vector_w = ls_cuda_moves_quads(a->w, columns),
        .vector_y = ls_cuda_moves_quads(a->y, s->filters),
        .w = a->w,
        .bias = a->bias,
        .y = a->y,
    };
    return LS_CUDA_ENQUEUE(stream, kernel[size], tile_count(t, places, s->filters), 1, t->threads,
                           p);
}

/* -- gradient of a convolution's input -------------------------------------------------------- */

/* One direction of a class: inputs first, first + stride, ... and the taps that reach them. */
typedef struct {
    size_t inputs;   /* of the class */
    size_t taps;     /* that reach them: first_tap, first_tap + stride, ... */
    size_t first_tap;
    size_t output;   /* that first_tap of the first input belongs to */
} class_extent;

static class_extent extent_of(size_t first, size_t extent, size_t window, size_t stride, size_t pad)
{
    const size_t first_tap = (first + pad) % stride;
    return (class_extent){
        .inputs = ls_ceil_div(extent - first, stride),
        .taps = first_tap < window ? ls_ceil_div(window - first_tap, stride) : 0,
        .first_tap = first_tap,
        .output = (first + pad - first_tap) / stride,
    };
}

static ls_cuda_patches reaching_outputs(const ls_conv_input_gradient_args *a, class_extent h,
                                        class_extent w)
{
    const ls_conv_shape *s = &a->shape;
    return (ls_cuda_patches){
        .source = a->dy,
        .height = (uint32_t)s->out_height,
        .width = (uint32_t)s->out_width,
        .channels = (uint32_t)s->filters,
        .places = (uint32_t)(s->samples * h.inputs * w.inputs),
        .by_sample = ls_cuda_divisor_of(h.inputs * w.inputs),
        .by_row = ls_cuda_divisor_of(w.inputs),
        .by_tap = ls_cuda_divisor_of(s->filters),
        .by_tap_row = ls_cuda_divisor_of(w.taps > 0 ? w.taps : 1),
        .stride_h = 1,
        .stride_w = 1,
        .first_h = (int32_t)h.output,
        .first_w = (int32_t)w.output,
        .vector = ls_cuda_moves_quads(a->dy, s->filters),
    };
}

/* Inputs whose row is first_h modulo the stride, and column first_w. */
static ls_status input_class(ls_stream *stream, const ls_conv_input_gradient_args *a,
                             size_t first_h, size_t first_w)
{
    static const char *const kernel[SIZES] = { "ls_conv_input_gradient_large",
                                               "ls_conv_input_gradient_medium",
                                               "ls_conv_input_gradient_small" };
    const ls_conv_shape *s = &a->shape;
    const class_extent h =
        extent_of(first_h, s->height, s->kernel_height, s->stride_height, s->pad_top);
    const class_extent w =
        extent_of(first_w, s->width, s->kernel_width, s->stride_width, s->pad_left);
    const size_t places = s->samples * h.inputs * w.inputs;
    const tile_size size = size_for(stream, places, s->channels);
    const tile *t = &tiles[size];
    const ls_cuda_conv_input_gradient p = {
        .dy = reaching_outputs(a, h, w),
        .columns = (uint32_t)(h.taps * w.taps * s->filters),
        .channels = (uint32_t)s->channels,
        .tiles_m = tiles_across(places, t->M),
        .tiles_n = tiles_across(s->channels, t->N),
        .filter_floats = (uint32_t)(s->kernel_height * s->kernel_width * s->channels),
        .first_tap = (uint32_t)((h.first_tap * s->kernel_width + w.first_tap) * s->channels),
        .tap_row_step = (uint32_t)(s->stride_height * s->kernel_width * s->channels),
        .tap_step = (uint32_t)(s->stride_width * s->channels),
        .height = (uint32_t)s->height,
        .width = (uint32_t)s->width,
        .first_h = (uint32_t)first_h,
        .first_w = (uint32_t)first_w,
        .stride_h = (uint32_t)s->stride_height,
        .stride_w = (uint32_t)s->stride_width,
        .vector_w = ls_cuda_moves_quads(a->w, s->channels),
        .vector_dx = ls_cuda_moves_quads(a->dx, s->channels),
        .w = a->w,
        .dx = a->dx,
    };
    return LS_CUDA_ENQUEUE(stream, kernel[size], tile_count(t, places, s->channels), 1, t->threads,
                           p);
}

ls_status ls_conv_input_gradient_cuda(ls_stream *stream, const ls_conv_input_gradient_args *a)
{
    const ls_conv_shape *s = &a->shape;
    LS_TRY(ls_cuda_conv_fits("conv_input_gradient", s));
    for (size_t h = 0; h < s->stride_height && h < s->height; h++) {
        for (size_t w = 0; w < s->stride_width && w < s->width; w++) {
            LS_TRY(input_class(stream, a, h, w));
        }
    }
    return LS_OK;
}
