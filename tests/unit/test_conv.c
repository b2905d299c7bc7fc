/* SPDX-License-Identifier: MIT */
/* test_conv.c -- convolution and its gradients: true (against double loops), and the same bits from
 * every set of kernels, for any kernel, stride, padding, fold and number of threads.
 */
#include "support/test.h"

#include <math.h>

#include "support/convolution.h"
#include "support/guarded.h"
#include "support/reference.h"

static const sharing whole = {8, 1, 0, 1};

static void test_every_machine_gives_the_bits_of_the_reference(void **state)
{
    (void)state;
    const ls_conv_shape shapes[] = {
        shape_of(3, 8, 8, 1, 16, 3, 1, 0, 0),    /* digits-cnn */
        shape_of(2, 6, 6, 16, 32, 3, 1, 0, 0),
        shape_of(2, 32, 32, 3, 32, 3, 1, 0, 0),  /* cifar10-cnn */
        shape_of(2, 9, 11, 5, 7, 3, 1, 1, 1),    /* same padding */
        shape_of(3, 9, 8, 4, 18, 3, 2, 0, 1),    /* same padding, stride 2, even extent */
        shape_of(2, 13, 13, 3, 20, 5, 3, 2, 2),
        shape_of(5, 7, 7, 33, 15, 1, 2, 0, 0),   /* a stride over a 1x1 kernel: holes in dx */
        shape_of(4, 7, 5, 34, 33, 1, 1, 0, 0),   /* 1x1: patches are rows */
        shape_of(2, 5, 5, 40, 36, 3, 1, 1, 1),   /* several blocks of k */
        shape_of(2, 4, 4, 2, 3, 4, 1, 3, 3),     /* the kernel is the image; deep padding */
        shape_of(2, 15, 15, 2, 5, 7, 4, 3, 3),
        shape_of(8, 9, 9, 1, 3, 7, 1, 0, 0),     /* filter rows shorter than a vector word */
        shape_of(1, 10, 10, 40, 20, 3, 1, 0, 0), /* no padding, blocks of whole filter rows */
        shape_of(1, 9, 9, 90, 6, 3, 1, 0, 0),    /* blocks of parts of a filter row */
        shape_of(2, 16, 17, 16, 17, 3, 1, 1, 1), /* tiles at the left border, inside, at right */
        shape_of(2, 8, 7, 33, 40, 3, 1, 1, 1),   /* tiles at both borders */
        shape_of(1, 30, 29, 3, 18, 7, 2, 3, 3),  /* two rows of a tile in the padding */
        shape_of(1, 20, 20, 1, 4, 9, 1, 4, 4),   /* more taps than a tile has runs */
        shape_of(1, 8, 9, 400, 5, 3, 1, 1, 1),   /* blocks that end within a tap */
        shape_of(2, 4, 30, 5, 400, 3, 1, 1, 1),  /* dx: more lists of runs than are kept */
        shape_of(1, 20, 80, 1, 4, 18, 1, 0, 0),  /* dx: a list that fits where none is kept */
        shape_of(1, 20, 80, 1, 2, 19, 1, 0, 0),  /* dx: more runs than fit a list */
        shape_of(1, 3, 9, 1024, 20, 1, 1, 0, 0), /* rows of x 4096 bytes apart */
        shape_of(2, 9, 18, 20, 34, 1, 2, 0, 0),
        shape_of(3, 1, 1, 20, 18, 3, 1, 1, 1),   /* an image of one place, eight taps in padding */
        shape_of(2, 1, 20, 6, 9, 3, 1, 1, 1),
        shape_of(2, 20, 1, 6, 9, 3, 1, 1, 1),
        shape_of(1, 16, 16, 6, 9, 3, 2, 1, 1),
        shape_of(1, 24, 24, 16, 200, 3, 1, 1, 1), /* dw: several stretches of a slice */
        shape_of(2, 6, 5, 48, 170, 3, 1, 1, 1),   /* dw: panels of whole words copied */
        shape_of(9, 12, 11, 3, 48, 3, 1, 1, 1),   /* dw transposed, from a band with padding */
        shape_of(3, 23, 30, 3, 32, 7, 2, 3, 3),
        shape_of(5, 20, 33, 4, 64, 3, 4, 0, 0),   /* rows of x that no window sees */
        shape_of(8, 40, 34, 3, 16, 3, 1, 0, 0),   /* slices that go on in the next sample */
        shape_of(3, 18, 32, 16, 16, 3, 1, 1, 1),  /* narrow tiles; those of several rows at once */
        shape_of(2, 21, 33, 16, 40, 3, 2, 1, 0),  /* several rows at once, a stride apart */
        shape_of(3, 17, 32, 16, 32, 1, 2, 0, 0),
        shape_of(2, 7, 16, 20, 33, 1, 1, 0, 0),   /* 1x1: all places in rows of 14, of 16 for dx */
        shape_of(3, 7, 9, 16, 12, 1, 1, 0, 0),    /* in a single row */
        shape_of(1, 1, 1, 1, 1, 1, 1, 0, 0),
    };
    naive_random n = {.state = 1};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int mix = NAIVE_ZEROS | NAIVE_TINY | (i % 3 == 0 ? NAIVE_HUGE : 0);
        convolution c = convolution_of(&n, shapes[i], mix);
        convolution_check_twins(&all, &c, whole, i % 2 == 0, i % 3 != 1);
        convolution_free(&c);
    }
}

static void test_extents_may_differ_in_both_directions(void **state)
{
    (void)state;
    ls_conv_shape shape = shape_of(3, 10, 10, 3, 9, 3, 1, 0, 0);
    shape.width = 17;
    shape.kernel_height = 4;
    shape.kernel_width = 2;
    shape.stride_height = 1;
    shape.stride_width = 3;
    shape.pad_top = 2;
    shape.pad_left = 1;
    shape.out_height = 9;
    shape.out_width = 6;
    naive_random n = {.state = 2};
    convolution c = convolution_of(&n, shape, NAIVE_SMALL);
    convolution_check_twins(&all, &c, whole, true, false);
    convolution_free(&c);
}

/* The padding below and on the right follows from the output. */
static void test_outputs_may_end_before_the_image_or_after_it(void **state)
{
    (void)state;
    ls_conv_shape shapes[] = {
        shape_of(2, 20, 20, 16, 16, 3, 1, 0, 0), /* ends before */
        shape_of(2, 9, 33, 16, 16, 3, 2, 0, 0),  /* after: a window reaches out of it */
    };
    shapes[0].out_height = 11;
    shapes[1].out_height = 5;
    naive_random n = {.state = 9};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        convolution c = convolution_of(&n, shapes[i], NAIVE_SMALL);
        convolution_check_twins(&all, &c, whole, true, false);
        convolution_free(&c);
    }
}

/* The last places of a row and the last rows of x are read by no tap: their gradient is +0. */
static void test_inputs_that_no_tap_reads_have_gradient_zero(void **state)
{
    (void)state;
    const ls_conv_shape shape = shape_of(2, 8, 8, 3, 4, 2, 3, 0, 0);
    naive_random n = {.state = 3};
    convolution c = convolution_of(&n, shape, 0);
    for (int i = 0; i < all.count; i++) {
        float *dx = run_input_gradient(&c, &all.machine[i]);
        for (size_t k = 0; k < x_floats(&shape); k++) {
            const size_t h = k / 3 / 8 % 8, w = k / 3 % 8;
            if (h % 3 == 2 || w % 3 == 2) assert_true(dx[k] == 0.0f && !signbit(dx[k]));
        }
        free(dx);
    }
    convolution_free(&c);
}

/* Slices, shards, ranks, passes, empty shards, and both ways in which a dense layer is blocked. */
static void test_weight_gradients_follow_the_fold(void **state)
{
    const struct {
        ls_conv_shape shape;
        sharing sharing;
    } cases[] = {
        {shape_of(40, 1, 1, 70, 17, 1, 1, 0, 0), {8, 1, 0, 1}},
        {shape_of(41, 1, 1, 33, 20, 1, 1, 0, 0), {8, 3, 1, 1}},
        {shape_of(41, 1, 1, 33, 20, 1, 1, 0, 0), {8, 1, 0, 3}},
        {shape_of(5, 1, 1, 64, 5, 1, 1, 0, 0), {8, 2, 1, 2}},       /* empty shards */
        {shape_of(5, 6, 6, 3, 5, 3, 1, 1, 1), {12, 1, 0, 5}},
        {shape_of(5000, 1, 1, 3, 4, 1, 1, 0, 0), {2, 1, 0, 1}},     /* 3 slices; not direct */
        {shape_of(9, 36, 40, 1, 4, 3, 1, 1, 1), {3, 1, 0, 1}},      /* slices of 25 rows */
        {shape_of(2, 3, 1030, 1, 3, 3, 1, 1, 1), {1, 1, 0, 1}},     /* a slice is one long row */
        {shape_of(16, 5, 5, 2, 3, 3, 1, 0, 0), {16, 5, 2, 4}},
        {shape_of(13, 6, 7, 3, 16, 3, 1, 1, 1), {12, 1, 0, 5}},     /* transposed pieces */
    };
    naive_random n = {.state = 4};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        convolution c = convolution_of(&n, cases[i].shape, NAIVE_SMALL);
        size_t count;
        float *want = run_weight_gradient(&c, &all.machine[0], cases[i].sharing, &count);
        for (int k = 1; k < all.count; k++) {
            machine *m = &all.machine[k];
            float *got = run_weight_gradient(&c, m, cases[i].sharing, &count);
            convolution_check_equal(&c, "weight gradient", m, want, got, count);
        }
        free(want);
        convolution_free(&c);
    }
}

/* Pieces that N ranks end with, added up by the tree, are the one piece of a single rank. */
static void test_the_pieces_of_two_ranks_add_up_to_the_whole(void **state)
{
    (void)state;
    naive_random n = {.state = 5};
    convolution c = convolution_of(&n, shape_of(21, 6, 6, 3, 5, 3, 1, 0, 0), NAIVE_ZEROS);
    const size_t floats = w_floats(&c.shape);
    size_t count;
    float *one = run_weight_gradient(&c, &all.machine[0], whole, &count);
    for (int i = 0; i < all.count; i++) {
        float *part[2];
        for (int rank = 0; rank < 2; rank++) {
            part[rank] = run_weight_gradient(&c, &all.machine[i], (sharing){8, 2, rank, 1},
                                             &count);
            assert_int_equal(count, floats + 3);
        }
        for (size_t k = 0; k < floats; k++) part[0][k] += part[1][k];
        assert_true(naive_same("sum of two ranks", all.machine[i].name, one, part[0], floats));
        free(part[0]);
        free(part[1]);
    }
    free(one);
    convolution_free(&c);
}

/* The three ops on operands behind which there is no memory. */
static void check_guarded(const convolution *c, machine *m)
{
    const ls_conv_shape *s = &c->shape;
    convolution guarded = {.shape = *s,
                           .x = guarded_copy(c->x, x_floats(s)),
                           .w = guarded_copy(c->w, w_floats(s)),
                           .bias = guarded_copy(c->bias, s->filters),
                           .dy = guarded_copy(c->dy, y_floats(s))};
    free(run_forward(&guarded, m, true, true));
    free(run_input_gradient(&guarded, m));
    const ls_fold fold = {.leaf_count = 1, .piece_count = 1, .slot_count = 1,
                          .sample = {0, s->samples}};
    const ls_conv_weight_gradient_args a = {.shape = *s, .fold = &fold, .x = guarded.x,
                                            .dy = guarded.dy, .dw = guarded.w};
    assert_int_equal(ls_conv_weight_gradient(&m->stream, &a), LS_OK);
    guarded_free(guarded.x, x_floats(s));
    guarded_free(guarded.w, w_floats(s));
    guarded_free(guarded.bias, s->filters);
    guarded_free(guarded.dy, y_floats(s));
}

static void test_no_op_reads_or_writes_behind_its_operands(void **state)
{
    (void)state;
    const ls_conv_shape shapes[] = {
        shape_of(2, 5, 6, 18, 5, 3, 1, 1, 1),  /* taps that end in part of a word */
        shape_of(2, 5, 6, 18, 70, 3, 1, 1, 1), /* the same, copied for many filters */
        shape_of(2, 5, 6, 16, 16, 3, 1, 1, 1), /* whole words */
        shape_of(3, 7, 7, 19, 5, 3, 2, 1, 1),
        shape_of(3, 1, 1, 18, 5, 1, 1, 0, 0),  /* rows */
        shape_of(2, 5, 6, 3, 5, 3, 1, 1, 1),   /* patches */
        shape_of(2, 7, 7, 3, 16, 3, 1, 0, 0),  /* transposed, from x */
        shape_of(2, 7, 7, 3, 16, 3, 2, 1, 1),  /* from a band */
        shape_of(2, 7, 7, 2, 16, 5, 1, 0, 0),  /* from x, rows of the tile that do not count */
        shape_of(2, 7, 7, 2, 16, 5, 1, 2, 2),  /* from a band, the same */
    };
    naive_random n = {.state = 8};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        convolution c = convolution_of(&n, shapes[i], 0);
        for (int k = 0; k < all.count; k++) check_guarded(&c, &all.machine[k]);
        convolution_free(&c);
    }
}

/* -- truth ------------------------------------------------------------------------------------ */

static exact_conv exact_of(const convolution *c)
{
    const ls_conv_shape *s = &c->shape;
    return (exact_conv){
        .N = (long)s->samples, .H = (long)s->height, .W = (long)s->width, .C = (long)s->channels,
        .F = (long)s->filters, .R = (long)s->kernel_height, .S = (long)s->kernel_width,
        .P = (long)s->out_height, .Q = (long)s->out_width,
        .stride_h = (long)s->stride_height, .stride_w = (long)s->stride_width,
        .pad_h = (long)s->pad_top, .pad_w = (long)s->pad_left,
        .x = c->x, .w = c->w, .dy = c->dy,
    };
}

static void check_near(exact_sum want, float got, size_t terms)
{
    assert_true(naive_near("element", want.value, (double)got, exact_tolerance(want, terms)));
}

static void check_exact(machine *m, const convolution *c)
{
    const exact_conv e = exact_of(c);
    float *y = run_forward(c, m, false, false);
    float *dx = run_input_gradient(c, m);
    size_t count;
    float *dw = run_weight_gradient(c, m, whole, &count);
    for (long i = 0; i < e.N * e.P * e.Q * e.F; i++) {
        const exact_sum want = exact_conv_y(&e, i / e.F / e.Q / e.P, i / e.F / e.Q % e.P,
                                            i / e.F % e.Q, i % e.F);
        check_near(want, y[i], (size_t)(e.R * e.S * e.C));
    }
    for (long i = 0; i < e.N * e.H * e.W * e.C; i++) {
        const exact_sum want = exact_conv_dx(&e, i / e.C / e.W / e.H, i / e.C / e.W % e.H,
                                             i / e.C % e.W, i % e.C);
        check_near(want, dx[i], (size_t)(e.R * e.S * e.F));
    }
    for (long i = 0; i < e.F * e.R * e.S * e.C; i++) {
        const exact_sum want = exact_conv_dw(&e, 0, e.N, i / e.C / e.S / e.R, i / e.C / e.S % e.R,
                                             i / e.C % e.S, i % e.C);
        check_near(want, dw[i], (size_t)(e.N * e.P * e.Q));
    }
    free(y);
    free(dx);
    free(dw);
}

static void test_the_reference_is_near_the_exact_convolution(void **state)
{
    (void)state;
    const ls_conv_shape shapes[] = {
        shape_of(9, 6, 6, 3, 4, 3, 1, 0, 0), shape_of(2, 7, 6, 2, 3, 3, 1, 1, 1),
        shape_of(3, 9, 8, 2, 5, 3, 2, 0, 1), shape_of(2, 8, 8, 2, 2, 5, 3, 2, 2),
        shape_of(11, 1, 1, 6, 5, 1, 1, 0, 0),
    };
    naive_random n = {.state = 6};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        convolution c = convolution_of(&n, shapes[i], NAIVE_SMALL);
        check_exact(&all.machine[0], &c);
        convolution_free(&c);
    }
}

/* One filter of ones over an image of row numbers, worked by hand, at a corner, an edge, inside. */
static void test_a_convolution_worked_by_hand(void **state)
{
    (void)state;
    const float x[] = {1, 1, 1, 2, 2, 2, 3, 3, 3}, bias[] = {-11.0f};
    const float w[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (int i = 0; i < all.count; i++) {
        float y[9];
        const ls_conv_forward_args a = {.shape = shape_of(1, 3, 3, 1, 1, 3, 1, 1, 1),
                                        .relu = true, .x = x, .w = w, .bias = bias, .y = y};
        assert_int_equal(ls_conv_forward(&all.machine[i].stream, &a), LS_OK);
        const float want[] = {0, 0, 0, 1, 7, 1, 0, 4, 0};
        assert_true(naive_same("y", all.machine[i].name, want, y, 9));
    }
}

static void check_no_samples(ls_conv_shape shape)
{
    naive_random n = {.state = 7};
    convolution c = convolution_of(&n, shape, 0);
    for (int i = 0; i < all.count; i++) {
        machine *m = &all.machine[i];
        size_t count;
        free(run_forward(&c, m, true, true));
        free(run_input_gradient(&c, m));
        float *dw = run_weight_gradient(&c, m, whole, &count);
        for (size_t k = 0; k < w_floats(&c.shape); k++) {
            assert_true(dw[k] == 0.0f && !signbit(dw[k]));
        }
        free(dw);
    }
    convolution_free(&c);
}

static void test_no_samples_are_legal(void **state)
{
    (void)state;
    check_no_samples(shape_of(0, 6, 6, 3, 4, 3, 1, 0, 0));
    check_no_samples(shape_of(0, 6, 6, 3, 32, 3, 1, 0, 0));
    check_no_samples(shape_of(0, 6, 6, 33, 70, 3, 1, 1, 1));
    check_no_samples(shape_of(0, 6, 6, 33, 300, 1, 1, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_machine_gives_the_bits_of_the_reference),
        cmocka_unit_test(test_extents_may_differ_in_both_directions),
        cmocka_unit_test(test_outputs_may_end_before_the_image_or_after_it),
        cmocka_unit_test(test_inputs_that_no_tap_reads_have_gradient_zero),
        cmocka_unit_test(test_weight_gradients_follow_the_fold),
        cmocka_unit_test(test_the_pieces_of_two_ranks_add_up_to_the_whole),
        cmocka_unit_test(test_no_op_reads_or_writes_behind_its_operands),
        cmocka_unit_test(test_the_reference_is_near_the_exact_convolution),
        cmocka_unit_test(test_a_convolution_worked_by_hand),
        cmocka_unit_test(test_no_samples_are_legal),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
