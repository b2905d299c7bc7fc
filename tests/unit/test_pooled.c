/* SPDX-License-Identifier: MIT */
/* test_pooled.c -- a convolution under a max pooling, and the gradients of its parameters: the bits
 * of the ops one after the other, on every machine, for every fold.
 */

#include "support/convolution.h"
#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

typedef struct {
    ls_conv_shape conv; /* samples: of the global batch */
    size_t window, stride, pad;
    sharing shared;
    bool has_relu, has_bias;
    int mix;
} pooled_case;

static ls_pool_shape pool_over(const pooled_case *t)
{
    const ls_conv_shape *c = &t->conv;
    const size_t rows = c->out_height + 2 * t->pad, columns = c->out_width + 2 * t->pad;
    return (ls_pool_shape){
        .height = c->out_height, .width = c->out_width, .channels = c->filters,
        .window_height = t->window, .window_width = t->window,
        .stride_height = t->stride, .stride_width = t->stride,
        .pad_top = t->pad, .pad_left = t->pad,
        .out_height = (rows - t->window) / t->stride + 1,
        .out_width = (columns - t->window) / t->stride + 1,
    };
}

/* What one pass reads, each array of its exact length. */
typedef struct {
    float *x, *relu_y, *dy;
    uint8_t *place;
    size_t dx_floats;
} pass_data;

static pass_data pass_data_of(const pooled_case *t, naive_random *n, size_t samples)
{
    const ls_pool_shape pool = pool_over(t);
    const size_t out = samples * pool.out_height * pool.out_width * pool.channels;
    pass_data d = { .dx_floats = samples * pool.height * pool.width * pool.channels };
    d.x = naive_values(n, samples * t->conv.height * t->conv.width * t->conv.channels, t->mix);
    d.dy = naive_values(n, out, t->mix);
    d.relu_y = malloc(out * sizeof *d.relu_y + 1);
    d.place = malloc(out + 1);
    float *y = naive_values(n, d.dx_floats, t->mix);
    for (size_t i = 0; i < d.dx_floats; i++) y[i] = y[i] <= 0.0f ? 0.0f : y[i];
    ls_max_pool_args args = { .shape = pool, .x = y, .y = d.relu_y, .place = d.place };
    args.shape.samples = samples;
    assert_int_equal(ls_max_pool(&all.machine[0].stream, &args), LS_OK);
    free(y);
    return d;
}

static void pass_data_free(pass_data *d)
{
    free(d->x);
    free(d->relu_y);
    free(d->dy);
    free(d->place);
}

/* All pieces' gradients: dw then db, `stride` floats a piece. */
static void run(const pooled_case *t, machine *m, bool in_one, const ls_fold *fold,
                const pass_data *d, float *pieces, size_t stride)
{
    float *dx = malloc(d->dx_floats * sizeof *dx + 1);
    memset(dx, 0xff, d->dx_floats * sizeof *dx);
    ls_pooled_weight_gradient_args args = {
        .conv = { .shape = t->conv, .fold = fold, .x = d->x, .dy = dx, .dw = pieces,
                  .piece_stride = stride },
        .pool = { .shape = pool_over(t), .dy = d->dy, .place = d->place, .dx = dx,
                  .relu_y = t->has_relu ? d->relu_y : NULL },
        .db = t->has_bias ? pieces + w_floats(&t->conv) : NULL,
    };
    args.conv.shape.samples = args.pool.shape.samples = fold->sample[fold->leaf_count];
    if (in_one) {
        assert_int_equal(ls_pooled_weight_gradient(&m->stream, &args), LS_OK);
        free(dx);
        return;
    }
    assert_int_equal(ls_max_pool_gradient(&m->stream, &args.pool), LS_OK);
    assert_int_equal(ls_conv_weight_gradient(&m->stream, &args.conv), LS_OK);
    if (t->has_bias) {
        const ls_batch_sum_args sum = { t->conv.out_height, t->conv.out_width, t->conv.filters,
                                        fold, dx, args.db, stride };
        assert_int_equal(ls_batch_sum(&m->stream, &sum), LS_OK);
    }
    free(dx);
}

static void check(pooled_case t)
{
    naive_random n = { .state = 7 + t.conv.samples + 31 * t.conv.filters };
    const size_t stride = w_floats(&t.conv) + t.conv.filters + 3;
    ls_fold_plan plan;
    ls_fold_plan_init(&plan, t.shared.V, t.shared.N, t.shared.rank, t.shared.A, t.conv.samples);
    const size_t floats = (size_t)plan.piece_count * stride;
    pass_data data[LS_SHARD_MAX];
    for (int k = 0; k < plan.pass_count; k++) {
        data[k] = pass_data_of(&t, &n, plan.pass[k].sample[plan.pass[k].leaf_count]);
    }
    float *want = malloc(floats * sizeof *want), *got = malloc(floats * sizeof *got);
    memset(want, 0xff, floats * sizeof *want);
    for (int k = 0; k < plan.pass_count; k++) {
        run(&t, &all.machine[0], false, &plan.pass[k], &data[k], want, stride);
    }
    for (int m = 0; m < all.count; m++) {
        memset(got, 0xff, floats * sizeof *got);
        for (int k = 0; k < plan.pass_count; k++) {
            run(&t, &all.machine[m], true, &plan.pass[k], &data[k], got, stride);
        }
        assert_true(naive_same("pooled_weight_gradient", all.machine[m].name, want, got, floats));
    }
    for (int k = 0; k < plan.pass_count; k++) pass_data_free(&data[k]);
    free(want);
    free(got);
}

/* The pooled outputs of all samples, from one op and from two. */
static void check_forward(const pooled_case *t)
{
    naive_random n = { .state = 3 + t->conv.samples };
    convolution c = convolution_of(&n, t->conv, t->mix);
    const size_t between = y_floats(&t->conv);
    ls_pooled_conv_forward_args args = {
        .conv = { .shape = t->conv, .relu = t->has_relu, .x = c.x, .w = c.w,
                  .bias = t->has_bias ? c.bias : NULL },
        .pool = { .shape = pool_over(t) },
    };
    ls_pool_shape *pool = &args.pool.shape;
    pool->samples = t->conv.samples;
    const size_t out = pool->samples * pool->out_height * pool->out_width * pool->channels;
    float *y = malloc(between * sizeof *y + 1);
    float *want = malloc(out * sizeof *want + 1), *got = malloc(out * sizeof *got + 1);
    uint8_t *want_place = malloc(out + 1), *got_place = malloc(out + 1);
    args.conv.y = y;
    args.pool.x = y;
    args.pool.y = want;
    args.pool.place = want_place;
    assert_int_equal(ls_conv_forward(&all.machine[0].stream, &args.conv), LS_OK);
    assert_int_equal(ls_max_pool(&all.machine[0].stream, &args.pool), LS_OK);
    args.pool.y = got;
    args.pool.place = got_place;
    for (int m = 0; m < all.count; m++) {
        memset(y, 0xff, between * sizeof *y);
        memset(got, 0xff, out * sizeof *got);
        memset(got_place, 0xff, out);
        assert_int_equal(ls_pooled_conv_forward(&all.machine[m].stream, &args), LS_OK);
        assert_true(naive_same("pooled_conv_forward", all.machine[m].name, want, got, out));
        assert_memory_equal(want_place, got_place, out);
    }
    convolution_free(&c);
    free(y);
    free(want);
    free(got);
    free(want_place);
    free(got_place);
}

static void test_forward_by_a_few_samples_and_at_once(void **state)
{
    (void)state;
    static const size_t samples[] = { 0, 1, 3, 5, 8, 9, 29, 30 }; /* 3 at a time */
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        check_forward(&(pooled_case){ .conv = shape_of(samples[i], 32, 32, 1, 20, 3, 1, 0, 0),
                                      .window = 2, .stride = 2, .has_relu = i % 2 == 0,
                                      .has_bias = true, .mix = NAIVE_ZEROS });
    }
    check_forward(&(pooled_case){ .conv = shape_of(2, 280, 300, 1, 5, 1, 1, 0, 0), .window = 3,
                                  .stride = 2, .pad = 1, .has_relu = true }); /* a large sample */
    check_forward(&(pooled_case){ .conv = shape_of(5, 9, 9, 3, 17, 3, 2, 0, 0), .window = 2,
                                  .stride = 1, .has_bias = true,
                                  .mix = NAIVE_ZEROS | NAIVE_INFINITE | NAIVE_NAN });
}

/* One and three channels, whole words of filters: rows of 1 to 24 outputs, of every number of tiles
 * and with all remainders; a row and a column of the convolution may be left over. */
static void test_forward_of_a_first_layer_in_registers(void **state)
{
    (void)state;
    static const size_t filters[] = { 16, 32, 48, 80 }, kernel[] = { 3, 1, 5, 2 };
    for (size_t width = 1; width <= 24; width++) {
        const size_t k = kernel[width % 4], image = 2 * width + width % 2 + k - 1;
        check_forward(&(pooled_case){
            .conv = shape_of(1 + width % 3, 7 + k, image, width % 5 == 0 ? 1 : 3,
                             filters[width / 4 % 4], k, 1, 0, 0),
            .window = 2, .stride = 2, .has_relu = width % 3 > 0, .has_bias = width % 4 > 0,
            .mix = NAIVE_ZEROS });
    }
    for (size_t pad = 1; pad < 4; pad++) { /* 5 x 5 taps: windows that see nothing but padding */
        check_forward(&(pooled_case){ .conv = shape_of(4, 6 + pad, 9, 4 - pad, 32, 5, 1, pad, 3),
                                      .window = 2, .stride = 2, .has_relu = pad == 2,
                                      .has_bias = true, .mix = NAIVE_ZEROS });
    }
    for (int relu = 0; relu < 2; relu++) {
        check_forward(&(pooled_case){ .conv = shape_of(9, 32, 32, 3, 32, 3, 1, 0, 0), .window = 2,
                                      .stride = 2, .has_relu = relu, .has_bias = true,
                                      .mix = NAIVE_ZEROS | NAIVE_INFINITE | NAIVE_NAN });
        check_forward(&(pooled_case){ .conv = shape_of(70, 6, 6, 1, 16, 3, 1, 0, 0), .window = 2,
                                      .stride = 2, .has_relu = relu, .mix = NAIVE_SMALL });
    }
}

static void test_windows_side_by_side_in_one_op_and_in_three(void **state)
{
    (void)state;
    static const size_t filters[] = { 1, 3, 16, 17, 32, 45 };
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        check((pooled_case){ shape_of(5, 10, 10, 3, filters[i], 3, 1, 0, 0), 2, 2, 0,
                             { 2, 1, 0, 1 }, i % 2 == 0, i % 3 != 0, NAIVE_ZEROS });
    }
}

/* Filter rows of 8 to 21 floats, which are no whole number of triples but once (filter_rows.c). */
static void test_filter_rows_of_every_length(void **state)
{
    (void)state;
    static const struct {
        size_t channels, kernel, stride;
    } row[] = { { 1, 8, 1 }, { 2, 4, 2 }, { 2, 5, 1 }, { 1, 11, 1 }, { 3, 7, 2 }, { 5, 4, 1 } };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        for (size_t pad = 0; pad < 4; pad += 3) {
            check((pooled_case){ shape_of(3, 14, 17, row[i].channels, 32, row[i].kernel,
                                          row[i].stride, pad, pad),
                                 2, 2, 0, { 2, 1, 0, 1 }, true, true, NAIVE_ZEROS });
        }
    }
}

static void test_windows_of_every_kind(void **state)
{
    (void)state;
    static const struct {
        size_t size, window, stride, pad;
    } kind[] = { { 11, 2, 2, 0 }, { 12, 2, 3, 0 }, { 10, 2, 2, 1 }, { 11, 3, 3, 1 },
                 { 10, 1, 2, 0 }, { 10, 3, 2, 0 }, { 10, 3, 1, 1 } }; /* the last two overlap */
    for (size_t i = 0; i < sizeof kind / sizeof kind[0]; i++) {
        check((pooled_case){ shape_of(3, kind[i].size, kind[i].size + 1, 2, 18, 3, 1, 1, 1),
                             kind[i].window, kind[i].stride, kind[i].pad, { 2, 1, 0, 1 }, true,
                             true, NAIVE_SMALL });
    }
}

static void test_many_slices_shards_and_pieces(void **state)
{
    (void)state;
    static const sharing shared[] = { { 8, 1, 0, 1 }, { 8, 1, 0, 4 }, { 5, 2, 1, 1 },
                                      { 8, 3, 1, 2 }, { 12, 1, 0, 1 } }; /* some without samples */
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        check((pooled_case){ shape_of(11, 30, 30, 1, 20, 3, 1, 1, 1), 2, 2, 0, shared[i], true,
                             true, 0 });
        check((pooled_case){ shape_of(11, 30, 30, 3, 32, 3, 1, 1, 1), 2, 2, 0, shared[i], true,
                             true, 0 }); /* whole words of filters */
    }
    check((pooled_case){ shape_of(2, 90, 30, 1, 4, 1, 1, 0, 0), 2, 2, 0, { 1, 1, 0, 1 }, true,
                         true, 0 }); /* patches that are rows, slices that cut a window */
    check((pooled_case){ shape_of(2, 66, 300, 1, 5, 3, 1, 1, 1), 2, 2, 0, { 1, 1, 0, 1 }, true,
                         true, 0 });
    check((pooled_case){ shape_of(1, 2, 4100, 1, 2, 1, 1, 0, 0), 2, 2, 0, { 1, 1, 0, 1 }, true,
                         true, 0 }); /* wider than a slice may be */
}

/* Colour, 3 x 3 taps, whole words of filters: made and multiplied at once where a tile is all of
 * dw. 14 rows a sample make slices of 73, so that some begin with a window's lower row. */
static void test_windows_that_are_multiplied_as_they_are_made(void **state)
{
    (void)state;
    for (size_t pad = 0; pad < 2; pad++) {
        const ls_conv_shape shape = shape_of(11, 16 - 2 * pad, 16 - 2 * pad, 3, 32, 3, 1, pad, pad);
        for (int bias = 0; bias < 2; bias++) {
            check((pooled_case){ shape, 2, 2, 0, { 2, 1, 0, 1 }, true, bias, NAIVE_ZEROS });
            check((pooled_case){ shape, 2, 2, 0, { 8, 3, 1, 2 }, true, bias, NAIVE_SMALL });
        }
        check((pooled_case){ shape, 2, 2, 0, { 2, 1, 0, 1 }, true, true,
                             NAIVE_ZEROS | NAIVE_HUGE | NAIVE_INFINITE | NAIVE_NAN });
    }
    check((pooled_case){ shape_of(5, 9, 12, 3, 48, 3, 1, 0, 0), 2, 2, 0, { 2, 1, 0, 1 }, true, true,
                         NAIVE_ZEROS }); /* 7 rows: the last is under no window */
}

static void test_several_blocks_of_columns_sum_the_bias_once(void **state)
{
    (void)state;
    check((pooled_case){ shape_of(2, 4, 4, 70, 260, 3, 1, 1, 1), 2, 2, 0, { 2, 1, 0, 1 }, true,
                         true, NAIVE_ZEROS });
    check((pooled_case){ shape_of(2, 6, 6, 9, 300, 3, 1, 1, 1), 2, 2, 0, { 2, 1, 0, 1 }, false,
                         true, NAIVE_ZEROS });
}

static void test_a_nan_and_an_infinity_get_through(void **state)
{
    (void)state;
    check((pooled_case){ shape_of(4, 8, 8, 2, 19, 3, 1, 1, 1), 2, 2, 0, { 2, 1, 0, 1 }, true, true,
                         NAIVE_ZEROS | NAIVE_HUGE | NAIVE_INFINITE | NAIVE_NAN });
}

static void test_no_samples_leave_plus_zero(void **state)
{
    (void)state;
    check((pooled_case){ shape_of(0, 8, 8, 2, 5, 3, 1, 1, 1), 2, 2, 0, { 2, 1, 0, 1 }, true, true,
                         0 });
    check((pooled_case){ shape_of(0, 8, 8, 3, 32, 3, 1, 1, 1), 2, 2, 0, { 2, 1, 0, 1 }, true, true,
                         0 });
}

static void test_a_pooling_of_another_tensor_is_refused(void **state)
{
    (void)state;
    const pooled_case t = { shape_of(1, 4, 4, 1, 2, 1, 1, 0, 0), 2, 2, 0, { 1, 1, 0, 1 }, true,
                            true, 0 };
    float x[16] = { 0 }, dx[32], dy[8] = { 0 }, dw[32], db[2], other[32];
    uint8_t place[8] = { 0 };
    const ls_fold fold = { .leaf_count = 1, .piece_count = 1, .slot_count = 1, .sample = { 0, 1 } };
    ls_pooled_weight_gradient_args args = {
        .conv = { .shape = t.conv, .fold = &fold, .x = x, .dy = dx, .dw = dw, .piece_stride = 32 },
        .pool = { .shape = pool_over(&t), .dy = dy, .place = place, .dx = dx },
        .db = db,
    };
    args.pool.shape.samples = 1;
    ls_stream *stream = &all.machine[0].stream;
    assert_int_equal(ls_pooled_weight_gradient(stream, &args), LS_OK);
    args.pool.dx = other;
    assert_int_equal(ls_pooled_weight_gradient(stream, &args), LS_ERR_ARGUMENT);
    args.pool.dx = dx;
    args.pool.shape.channels = 1;
    assert_int_equal(ls_pooled_weight_gradient(stream, &args), LS_ERR_ARGUMENT);
    ls_pooled_conv_forward_args forward = {
        .conv = { .shape = t.conv, .x = x, .w = x, .y = dx },
        .pool = { .shape = args.pool.shape, .x = dx, .y = dy, .place = place },
    };
    forward.conv.shape.samples = 1;
    assert_int_equal(ls_pooled_conv_forward(stream, &forward), LS_ERR_ARGUMENT);
    forward.pool.shape.channels = 2;
    assert_int_equal(ls_pooled_conv_forward(stream, &forward), LS_OK);
    forward.pool.x = other;
    assert_int_equal(ls_pooled_conv_forward(stream, &forward), LS_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_by_a_few_samples_and_at_once),
        cmocka_unit_test(test_forward_of_a_first_layer_in_registers),
        cmocka_unit_test(test_windows_side_by_side_in_one_op_and_in_three),
        cmocka_unit_test(test_filter_rows_of_every_length),
        cmocka_unit_test(test_windows_of_every_kind),
        cmocka_unit_test(test_many_slices_shards_and_pieces),
        cmocka_unit_test(test_windows_that_are_multiplied_as_they_are_made),
        cmocka_unit_test(test_several_blocks_of_columns_sum_the_bias_once),
        cmocka_unit_test(test_a_nan_and_an_infinity_get_through),
        cmocka_unit_test(test_no_samples_leave_plus_zero),
        cmocka_unit_test(test_a_pooling_of_another_tensor_is_refused),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
