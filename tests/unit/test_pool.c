/* SPDX-License-Identifier: MIT */
/* test_pool.c -- max and average pooling and their gradients: selects, order of sums, every kind of
 * window. */
#include <math.h>

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

static size_t inputs_of(const ls_pool_shape *s)
{
    return s->samples * s->height * s->width * s->channels;
}

static size_t outputs_of(const ls_pool_shape *s)
{
    return s->samples * s->out_height * s->out_width * s->channels;
}

/* Is input (h, w) place (i, j) of the window at (oh, ow)? */
static bool is_place(const ls_pool_shape *s, size_t oh, size_t ow, size_t i, size_t j, long h,
                     long w)
{
    return h == (long)(oh * s->stride_height + i) - (long)s->pad_top &&
           w == (long)(ow * s->stride_width + j) - (long)s->pad_left;
}

/* The gradient of one input by asking every output, in order: was it you? */
static float gathered(const ls_pool_shape *s, const float *dy, const uint8_t *place, size_t n,
                      long h, long w, size_t c)
{
    float sum = 0.0f;
    for (size_t oh = 0; oh < s->out_height; oh++) {
        for (size_t ow = 0; ow < s->out_width; ow++) {
            const size_t at = ((n * s->out_height + oh) * s->out_width + ow) * s->channels + c;
            const size_t i = place[at] / s->window_width, j = place[at] % s->window_width;
            if (is_place(s, oh, ow, i, j, h, w)) sum += dy[at];
        }
    }
    return sum + 0.0f;
}

/* y and place of one output: the values of its window in scan order, then the rule. */
static void scanned(const ls_pool_shape *s, const float *x, size_t n, size_t oh, size_t ow,
                    size_t c, float *y, uint8_t *place)
{
    float best = -INFINITY;
    int where = -1;
    for (int p = 0; p < (int)(s->window_height * s->window_width); p++) {
        const long h = (long)(oh * s->stride_height) + p / (int)s->window_width - (long)s->pad_top;
        const long w = (long)(ow * s->stride_width) + p % (int)s->window_width - (long)s->pad_left;
        if (h < 0 || w < 0 || h >= (long)s->height || w >= (long)s->width) continue;
        const float value =
            x[((n * s->height + (size_t)h) * s->width + (size_t)w) * s->channels + c];
        if (where < 0 || value > best || isnan(value)) {
            best = value;
            where = p;
        }
    }
    *y = best;
    *place = (uint8_t)where;
}

static void check_shape(const ls_pool_shape *s, uint64_t seed, int mix)
{
    naive_random random = { seed };
    const size_t in = inputs_of(s), out = outputs_of(s);
    float *x = naive_values(&random, in, mix), *dy = naive_values(&random, out, mix);
    if (seed % 2) { /* many equal values: the first must win */
        for (size_t i = 0; i < in; i++) x[i] = floorf(x[i] * 2.0f);
    }
    float *y = malloc(out * sizeof *y), *dx = malloc(in * sizeof *dx);
    float *want_y = malloc(out * sizeof *y), *want_dx = malloc(in * sizeof *dx);
    float *want_masked = malloc(in * sizeof *dx); /* by the relu's own outputs, which are x */
    uint8_t *place = malloc(out), *want_place = malloc(out);
    for (size_t o = 0; o < out; o++) {
        scanned(s, x, o / s->channels / s->out_width / s->out_height,
                o / s->channels / s->out_width % s->out_height, o / s->channels % s->out_width,
                o % s->channels, &want_y[o], &want_place[o]);
    }
    for (size_t i = 0; i < in; i++) {
        want_dx[i] = gathered(s, dy, want_place, i / s->channels / s->width / s->height,
                              (long)(i / s->channels / s->width % s->height),
                              (long)(i / s->channels % s->width), i % s->channels);
        want_masked[i] = x[i] > 0.0f ? want_dx[i] : 0.0f;
    }
    for (int m = 0; m < all.count; m++) {
        ls_stream *stream = &all.machine[m].stream;
        memset(y, 0xff, out * sizeof *y);
        memset(dx, 0xff, in * sizeof *dx);
        memset(place, 0xff, out);
        assert_int_equal(ls_max_pool(stream, &(ls_max_pool_args){ *s, x, y, place }), LS_OK);
        assert_true(naive_same("max_pool", all.machine[m].name, want_y, y, out));
        assert_memory_equal(place, want_place, out);
        assert_int_equal(
            ls_max_pool_gradient(stream, &(ls_max_pool_gradient_args){ *s, dy, place, dx, NULL }),
            LS_OK);
        assert_true(naive_same("max_pool_gradient", all.machine[m].name, want_dx, dx, in));
        memset(dx, 0xff, in * sizeof *dx);
        assert_int_equal(
            ls_max_pool_gradient(stream, &(ls_max_pool_gradient_args){ *s, dy, place, dx, y }),
            LS_OK);
        assert_true(naive_same("masked", all.machine[m].name, want_masked, dx, in));
    }
    free(x);
    free(dy);
    free(y);
    free(dx);
    free(want_y);
    free(want_dx);
    free(want_masked);
    free(place);
    free(want_place);
}

static void test_windows_side_by_side_take_the_first_largest(void **state)
{
    (void)state;
    static const size_t channels[] = { 1, 2, 3, 8, 15, 16, 17, 31, 33, 63, 64, 65, 130 };
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        const size_t C = channels[i];
        check_shape(&(ls_pool_shape){ 3, 8, 6, C, 2, 2, 2, 2, 0, 0, 4, 3 }, 2 * i, NAIVE_ZEROS);
        check_shape(&(ls_pool_shape){ 3, 8, 6, C, 2, 2, 2, 2, 0, 0, 4, 3 }, 2 * i + 1, 0);
    }
}

static void test_rows_and_columns_that_no_window_covers_get_plus_zero(void **state)
{
    (void)state;
    check_shape(&(ls_pool_shape){ 2, 9, 7, 5, 2, 2, 2, 2, 0, 0, 4, 3 }, 1, 0); /* odd extents */
    check_shape(&(ls_pool_shape){ 2, 9, 9, 5, 2, 2, 3, 3, 0, 0, 3, 3 }, 2, 0); /* gaps */
    check_shape(&(ls_pool_shape){ 2, 9, 9, 5, 2, 3, 4, 3, 0, 0, 2, 2 }, 3, 0);
    check_shape(&(ls_pool_shape){ 2, 9, 9, 5, 3, 3, 3, 3, 0, 0, 2, 2 }, 4, 0); /* cut short */
}

static void test_padding_is_not_scanned(void **state)
{
    (void)state;
    check_shape(&(ls_pool_shape){ 2, 5, 5, 4, 2, 2, 2, 2, 1, 1, 3, 3 }, 1, 0);
    check_shape(&(ls_pool_shape){ 2, 5, 5, 4, 3, 3, 3, 3, 2, 1, 3, 2 }, 2, 0);
    check_shape(&(ls_pool_shape){ 2, 6, 6, 18, 3, 3, 2, 2, 1, 1, 3, 3 }, 3, 0);
    check_shape(&(ls_pool_shape){ 1, 1, 1, 3, 2, 2, 2, 2, 1, 1, 1, 1 }, 4, 0);
    check_shape(&(ls_pool_shape){ 2, 4, 4, 5, 2, 2, 2, 2, 1, 0, 2, 2 }, 5, 0); /* last row bare */
    check_shape(&(ls_pool_shape){ 2, 4, 4, 5, 2, 2, 2, 2, 0, 1, 2, 2 }, 6, 0); /* last column */
}

static void test_windows_that_overlap_add_their_gradients_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        check_shape(&(ls_pool_shape){ 3, 7, 8, 6, 3, 3, 1, 1, 0, 0, 5, 6 }, seed, NAIVE_HUGE);
        check_shape(&(ls_pool_shape){ 3, 7, 8, 17, 3, 2, 2, 2, 0, 0, 3, 4 }, seed, 0);
        check_shape(&(ls_pool_shape){ 3, 7, 8, 6, 2, 3, 2, 1, 1, 2, 4, 8 }, seed, 0);
    }
    check_shape(&(ls_pool_shape){ 1, 16, 16, 2, 16, 16, 1, 1, 15, 15, 16, 16 }, 9, 0);
}

static void test_nan_infinities_and_zeros_are_selected_by_the_rule(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        check_shape(&(ls_pool_shape){ 3, 6, 6, 20, 2, 2, 2, 2, 0, 0, 3, 3 }, seed, NAIVE_ALL);
        check_shape(&(ls_pool_shape){ 3, 6, 6, 20, 3, 3, 2, 2, 1, 1, 3, 3 }, seed, NAIVE_ALL);
    }
}

static void test_no_samples_write_nothing(void **state)
{
    (void)state;
    check_shape(&(ls_pool_shape){ 0, 4, 4, 3, 2, 2, 2, 2, 0, 0, 2, 2 }, 1, 0);
}

/* -- average pooling --------------------------------------------------------------------------- */

/* Places of the window at (oh, ow) that lie inside the input, counted one by one. */
static int valid_places(const ls_pool_shape *s, size_t oh, size_t ow)
{
    int count = 0;
    for (long h = 0; h < (long)s->height; h++) {
        for (long w = 0; w < (long)s->width; w++) {
            for (size_t p = 0; p < s->window_height * s->window_width; p++) {
                count += is_place(s, oh, ow, p / s->window_width, p % s->window_width, h, w);
            }
        }
    }
    return count;
}

static float averaged(const ls_pool_shape *s, const float *x, size_t n, size_t oh, size_t ow,
                      size_t c)
{
    float sum = 0.0f;
    for (int p = 0; p < (int)(s->window_height * s->window_width); p++) {
        const long h = (long)(oh * s->stride_height) + p / (int)s->window_width - (long)s->pad_top;
        const long w = (long)(ow * s->stride_width) + p % (int)s->window_width - (long)s->pad_left;
        if (h < 0 || w < 0 || h >= (long)s->height || w >= (long)s->width) continue;
        sum += x[((n * s->height + (size_t)h) * s->width + (size_t)w) * s->channels + c];
    }
    return (sum + 0.0f) / (float)valid_places(s, oh, ow);
}

/* The gradient of one input by asking every output, in order: am I in your window? */
static float shared_out(const ls_pool_shape *s, const float *dy, size_t n, long h, long w,
                        size_t c)
{
    float sum = 0.0f;
    for (size_t o = 0; o < s->out_height * s->out_width; o++) {
        const size_t oh = o / s->out_width, ow = o % s->out_width;
        bool inside = false;
        for (size_t p = 0; p < s->window_height * s->window_width; p++) {
            inside |= is_place(s, oh, ow, p / s->window_width, p % s->window_width, h, w);
        }
        if (!inside) continue;
        sum += dy[(n * s->out_height * s->out_width + o) * s->channels + c] /
               (float)valid_places(s, oh, ow);
    }
    return sum + 0.0f;
}

static void check_average(const ls_pool_shape *s, uint64_t seed, int mix)
{
    naive_random random = { seed };
    const size_t in = inputs_of(s), out = outputs_of(s);
    float *x = naive_values(&random, in, mix), *dy = naive_values(&random, out, mix);
    float *y = malloc(out * sizeof *y), *dx = malloc(in * sizeof *dx);
    float *want_y = malloc(out * sizeof *y), *want_dx = malloc(in * sizeof *dx);
    for (size_t o = 0; o < out; o++) {
        want_y[o] = averaged(s, x, o / s->channels / s->out_width / s->out_height,
                             o / s->channels / s->out_width % s->out_height,
                             o / s->channels % s->out_width, o % s->channels);
    }
    for (size_t i = 0; i < in; i++) {
        want_dx[i] = shared_out(s, dy, i / s->channels / s->width / s->height,
                                (long)(i / s->channels / s->width % s->height),
                                (long)(i / s->channels % s->width), i % s->channels);
    }
    for (int m = 0; m < all.count; m++) {
        ls_stream *stream = &all.machine[m].stream;
        memset(y, 0xff, out * sizeof *y);
        memset(dx, 0xff, in * sizeof *dx);
        assert_int_equal(ls_average_pool(stream, &(ls_average_pool_args){ *s, x, y }), LS_OK);
        assert_true(naive_same("average_pool", all.machine[m].name, want_y, y, out));
        assert_int_equal(
            ls_average_pool_gradient(stream, &(ls_average_pool_gradient_args){ *s, dy, dx }),
            LS_OK);
        assert_true(naive_same("average_pool_gradient", all.machine[m].name, want_dx, dx, in));
    }
    free(x);
    free(dy);
    free(y);
    free(dx);
    free(want_y);
    free(want_dx);
}

static void test_an_average_divides_by_the_places_inside_the_input(void **state)
{
    (void)state;
    const float x[4] = { 1.0f, 2.0f, 3.0f, 5.0f }; /* 2 x 2, windows of 2 x 2 around each corner */
    const float dy[4] = { 1.0f, 2.0f, 4.0f, 8.0f };
    const float y[4] = { 1.0f, 1.5f, 2.0f, 2.75f };
    const float dx[4] = { 1.0f + 1.0f + 2.0f + 2.0f, 1.0f + 2.0f, 2.0f + 2.0f, 2.0f };
    const ls_pool_shape s = { 1, 2, 2, 1, 2, 2, 1, 1, 1, 1, 2, 2 };
    for (int m = 0; m < all.count; m++) {
        float out[4];
        ls_stream *stream = &all.machine[m].stream;
        assert_int_equal(ls_average_pool(stream, &(ls_average_pool_args){ s, x, out }), LS_OK);
        assert_true(naive_same("average_pool", all.machine[m].name, y, out, 4));
        assert_int_equal(
            ls_average_pool_gradient(stream, &(ls_average_pool_gradient_args){ s, dy, out }),
            LS_OK);
        assert_true(naive_same("average_pool_gradient", all.machine[m].name, dx, out, 4));
    }
}

static void test_averages_are_chains_over_windows_of_every_kind(void **state)
{
    (void)state;
    static const ls_pool_shape shapes[] = {
        { 3, 8, 6, 5, 2, 2, 2, 2, 0, 0, 4, 3 },   /* side by side */
        { 2, 9, 7, 5, 2, 2, 2, 2, 0, 0, 4, 3 },   /* odd extents */
        { 2, 9, 9, 5, 2, 3, 4, 4, 0, 0, 2, 2 },   /* gaps */
        { 2, 9, 9, 5, 3, 3, 3, 3, 0, 0, 2, 2 },   /* rows that no window covers */
        { 2, 5, 5, 4, 3, 3, 2, 2, 1, 1, 3, 3 },   /* same */
        { 2, 6, 6, 18, 3, 3, 2, 2, 0, 0, 3, 3 },  /* same, padding below and right only */
        { 1, 1, 1, 3, 2, 2, 2, 2, 1, 1, 1, 1 },   /* one pixel */
        { 3, 7, 8, 6, 3, 3, 1, 1, 0, 0, 5, 6 },   /* overlapping */
        { 3, 7, 8, 17, 3, 2, 2, 1, 1, 1, 4, 8 },
        { 1, 8, 8, 2, 8, 8, 1, 1, 7, 7, 8, 8 },   /* overlapping in all 64 ways */
        { 0, 4, 4, 3, 2, 2, 2, 2, 0, 0, 2, 2 },   /* no samples */
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_average(&shapes[i], i, NAIVE_SMALL);
        check_average(&shapes[i], i + 100, NAIVE_ALL);
    }
}

static void test_a_window_over_the_whole_input_is_the_global_average(void **state)
{
    (void)state;
    static const size_t channels[] = { 1, 2, 15, 16, 17, 63, 64, 65, 130 };
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        const size_t C = channels[i];
        check_average(&(ls_pool_shape){ 3, 7, 5, C, 7, 5, 7, 5, 0, 0, 1, 1 }, i, NAIVE_ZEROS);
    }
    /* More places than max pooling takes. */
    check_average(&(ls_pool_shape){ 2, 20, 19, 3, 20, 19, 1, 1, 0, 0, 1, 1 }, 9, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_side_by_side_take_the_first_largest),
        cmocka_unit_test(test_rows_and_columns_that_no_window_covers_get_plus_zero),
        cmocka_unit_test(test_padding_is_not_scanned),
        cmocka_unit_test(test_windows_that_overlap_add_their_gradients_in_order),
        cmocka_unit_test(test_nan_infinities_and_zeros_are_selected_by_the_rule),
        cmocka_unit_test(test_no_samples_write_nothing),
        cmocka_unit_test(test_an_average_divides_by_the_places_inside_the_input),
        cmocka_unit_test(test_averages_are_chains_over_windows_of_every_kind),
        cmocka_unit_test(test_a_window_over_the_whole_input_is_the_global_average),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
