/* SPDX-License-Identifier: MIT */
/* pool.cu -- max and average pooling and their gradients, a thread per element of the result.
 *
 * Neighbouring threads have neighbouring channels, so a warp reads and writes runs of memory.
 * Forward: the definition's scan. Gradient: an input looks at the windows over it, output row then
 * column ascending, and adds the gradients of those that chose it, or its part of each: the
 * definition's chain, gathered where the reference scatters, so that nobody adds to what another
 * thread writes.
 */
#include "kernels/cuda/device.cuh"

/* An element of a [samples, height, width, channels] tensor. */
struct element {
    int32_t h, w;
    uint32_t sample, channel;
};

LS_INLINE element element_at(const ls_cuda_pool &p, uint32_t e)
{
    const uint32_t column = divide(e, p.by_channels), row = divide(column, p.by_width);
    element at;
    at.channel = e - column * p.by_channels.divisor;
    at.w = (int32_t)(column - row * p.by_width.divisor);
    at.sample = divide(row, p.by_height);
    at.h = (int32_t)(row - at.sample * p.by_height.divisor);
    return at;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_max_pool(const __grid_constant__ ls_cuda_pool p)
{
    const uint32_t e = (uint32_t)thread_index();
    if (e >= p.count) return;
    const element at = element_at(p, e);
    const uint32_t channels = p.by_channels.divisor;
    const float *x = p.from + (size_t)at.sample * (p.height * p.width * channels) + at.channel;
    const int32_t top = at.h * p.stride_height - p.pad_top;
    const int32_t left = at.w * p.stride_width - p.pad_left;
    bool found = false;
    float m = 0.0f;
    int32_t place = 0;
    for (int32_t i = 0; i < p.window_height; i++) {
        if ((uint32_t)(top + i) >= p.height) continue;
        for (int32_t j = 0; j < p.window_width; j++) {
            if ((uint32_t)(left + j) >= p.width) continue;
            const float v = x[((uint32_t)(top + i) * p.width + (uint32_t)(left + j)) * channels];
            if (!found || v > m || v != v) {
                m = v;
                place = i * p.window_width + j;
            }
            found = true;
        }
    }
    p.to[e] = m;
    p.place[e] = (uint8_t)place;
}

/* First output whose window reaches input `in`. */
LS_INLINE int32_t first_window(int32_t in, int32_t pad, int32_t window, int32_t stride)
{
    const int32_t beyond = in + pad - window + 1; /* where such a window begins, at the least */
    return beyond > 0 ? (beyond + stride - 1) / stride : 0;
}

/* One past the last. */
LS_INLINE int32_t end_window(int32_t in, int32_t pad, int32_t stride, uint32_t extent)
{
    const uint32_t last = (uint32_t)((in + pad) / stride);
    return (int32_t)(last < extent ? last + 1 : extent);
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_max_pool_gradient(const __grid_constant__ ls_cuda_pool p)
{
    const uint32_t e = (uint32_t)thread_index();
    if (e >= p.count) return;
    const element at = element_at(p, e);
    const uint32_t channels = p.by_channels.divisor;
    const size_t base = (size_t)at.sample * (p.out_height * p.out_width * channels) + at.channel;
    const int32_t h_end = end_window(at.h, p.pad_top, p.stride_height, p.out_height);
    const int32_t w_begin = first_window(at.w, p.pad_left, p.window_width, p.stride_width);
    const int32_t w_end = end_window(at.w, p.pad_left, p.stride_width, p.out_width);
    float sum = 0.0f;
    int32_t oh = first_window(at.h, p.pad_top, p.window_height, p.stride_height);
    for (; oh < h_end; oh++) {
        const int32_t i = at.h + p.pad_top - oh * p.stride_height;
        for (int32_t ow = w_begin; ow < w_end; ow++) {
            const int32_t j = at.w + p.pad_left - ow * p.stride_width;
            const size_t from = base + ((uint32_t)oh * p.out_width + (uint32_t)ow) * channels;
            if (p.chosen[from] != i * p.window_width + j) continue;
            if (p.relu_y == nullptr || p.relu_y[from] > 0.0f) sum += p.from[from];
        }
    }
    p.to[e] = sum;
}

/* Places of the window beginning at `first` that lie in [0, extent). */
LS_INLINE int32_t valid_places(int32_t first, int32_t window, uint32_t extent)
{
    const int32_t begin = first < 0 ? 0 : first;
    const int32_t end = first + window < (int32_t)extent ? first + window : (int32_t)extent;
    return end - begin;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_average_pool(const __grid_constant__ ls_cuda_pool p)
{
    const uint32_t e = (uint32_t)thread_index();
    if (e >= p.count) return;
    const element at = element_at(p, e);
    const uint32_t channels = p.by_channels.divisor;
    const int32_t top = at.h * p.stride_height - p.pad_top;
    const int32_t left = at.w * p.stride_width - p.pad_left;
    const int32_t rows = valid_places(top, p.window_height, p.height);
    const int32_t columns = valid_places(left, p.window_width, p.width);
    const uint32_t h = top < 0 ? 0 : (uint32_t)top, w = left < 0 ? 0 : (uint32_t)left;
    const float *x = p.from + (size_t)at.sample * (p.height * p.width * channels)
                     + (h * p.width + w) * channels + at.channel;
    float sum = 0.0f;
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t j = 0; j < columns; j++) {
            sum += x[((uint32_t)i * p.width + (uint32_t)j) * channels];
        }
    }
    p.to[e] = sum / (float)(rows * columns);
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_average_pool_gradient(const __grid_constant__ ls_cuda_pool p)
{
    const uint32_t e = (uint32_t)thread_index();
    if (e >= p.count) return;
    const element at = element_at(p, e);
    const uint32_t channels = p.by_channels.divisor;
    const int32_t h_end = end_window(at.h, p.pad_top, p.stride_height, p.out_height);
    const int32_t w_begin = first_window(at.w, p.pad_left, p.window_width, p.stride_width);
    const int32_t w_end = end_window(at.w, p.pad_left, p.stride_width, p.out_width);
    int32_t oh = first_window(at.h, p.pad_top, p.window_height, p.stride_height);
    /* Number of the first window's output. */
    uint32_t row = ((at.sample * p.out_height + (uint32_t)oh) * p.out_width + (uint32_t)w_begin)
                   * channels + at.channel;
    float sum = 0.0f;
    for (; oh < h_end; oh++, row += p.out_width * channels) {
        const int32_t rows =
            valid_places(oh * p.stride_height - p.pad_top, p.window_height, p.height);
        uint32_t from = row;
        for (int32_t ow = w_begin; ow < w_end; ow++, from += channels) {
            const int32_t columns =
                valid_places(ow * p.stride_width - p.pad_left, p.window_width, p.width);
            sum += p.from[from] / (float)(rows * columns);
        }
    }
    p.to[e] = sum;
}
