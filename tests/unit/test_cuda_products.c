/* SPDX-License-Identifier: MIT */
/* test_cuda_products.c -- products, convolutions and batch sums on a GPU have the reference's bits.
 *
 * Each case runs in a process of its own on three virtual machines that differ in seed (the order
 * in which warps run), capability (which of the two PTX texts) and multiprocessors (which tiles
 * are chosen); on a real GPU on that. Shapes have tails in every extent, arrays lie at multiples
 * of 16 bytes and beside them. NaN and infinities are left out where a zero beside them matters: a
 * tap in the padding may be taken as a product with 0 or not at all.
 */
#include "support/test.h"

#include "kernels/reference/reference.h"
#include "support/convolution.h"
#include "support/fresh_process.h"
#include "support/gpu_arrays.h"
#include "support/gpu_machines.h"
#include "support/naive.h"

/* -- matrix product ---------------------------------------------------------------------------- */

static void check_gemm(gpu_arrays *g, naive_random *n, ls_gemm_args a)
{
    char what[160];
    float *A = naive_values(n, a.M * a.K, NAIVE_SMALL);
    float *B = naive_values(n, a.K * a.N, NAIVE_SMALL);
    float *bias = naive_values(n, a.N, NAIVE_SMALL);
    float *before = naive_values(n, a.M * a.N, NAIVE_SMALL), *want;
    const bool has_bias = a.bias != NULL;
    ls_gemm_args d = a;
    d.A = gpu_copy_of(g, A, a.M * a.K * sizeof *A);
    d.B = gpu_copy_of(g, B, a.K * a.N * sizeof *B);
    d.bias = has_bias ? gpu_copy_of(g, bias, a.N * sizeof *bias) : NULL;
    d.C = a.accumulate ? gpu_updated(g, before, a.M * a.N * sizeof *before, &want)
                       : gpu_output(g, a.M * a.N * sizeof *before, &want);
    a.A = A;
    a.B = B;
    a.bias = has_bias ? bias : NULL;
    a.C = want;
    MUST(ls_gemm_reference(NULL, &a));
    MUST(ls_gemm(&g->stream, &d));
    (void)snprintf(what, sizeof what, "gemm %zu x %zu x %zu, transposed %d %d, accumulate %d, relu "
                   "%d, bias %d, shift %zu", a.M, a.N, a.K, a.transpose_a, a.transpose_b,
                   a.accumulate, a.relu, has_bias, g->shift);
    gpu_same_floats(g, what, want, d.C, a.M * a.N);
    gpu_arrays_drop(g);
    free(A);
    free(B);
    free(bias);
    free(before);
}

static int case_gemm(void)
{
    static const size_t extents[][3] = {
        { 1, 1, 1 },   { 1, 10, 64 },  { 64, 32, 16 }, { 65, 33, 17 },  { 64, 64, 40 },
        { 70, 68, 9 }, { 128, 128, 8 }, { 129, 130, 19 }, { 3, 200, 7 }, { 200, 100, 12 },
        { 5, 7, 0 },   { 16, 65, 33 },
    };
    static const float some = 0.0f; /* says that there is a bias */
    gpu_arrays g;
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++) {
        for (int way = 0; way < 4; way++) {
            const size_t kind = (i + (size_t)way) % 3;
            g.shift = (i + (size_t)way / 2) % 2 * sizeof(float);
            check_gemm(&g, &n, (ls_gemm_args){
                .M = extents[i][0], .N = extents[i][1], .K = extents[i][2],
                .transpose_a = way & 1, .transpose_b = way >> 1,
                .accumulate = kind == 0, .relu = kind == 1, .bias = kind > 0 ? &some : NULL });
        }
    }
    MUST(ls_gemm(&g.stream, &(ls_gemm_args){ .M = 0, .N = 3, .K = 2 }));
    gpu_arrays_close(&g);
    return 0;
}

/* -- convolution ------------------------------------------------------------------------------- */

static void check_convolution(gpu_arrays *g, naive_random *n, ls_conv_shape s, bool has_bias,
                              bool relu)
{
    char what[200];
    convolution c = convolution_of(n, s, NAIVE_SMALL);
    float *y, *dx;
    ls_conv_forward_args forward = { s, relu, c.x, c.w, has_bias ? c.bias : NULL, NULL };
    ls_conv_forward_args d_forward = {
        .shape = s,
        .relu = relu,
        .x = gpu_copy_of(g, c.x, x_floats(&s) * sizeof(float)),
        .w = gpu_copy_of(g, c.w, w_floats(&s) * sizeof(float)),
        .bias = has_bias ? gpu_copy_of(g, c.bias, s.filters * sizeof(float)) : NULL,
        .y = gpu_output(g, y_floats(&s) * sizeof(float), &y),
    };
    forward.y = y;
    ls_conv_input_gradient_args back = { s, c.dy, c.w, NULL };
    ls_conv_input_gradient_args d_back = {
        .shape = s,
        .dy = gpu_copy_of(g, c.dy, y_floats(&s) * sizeof(float)),
        .w = d_forward.w,
        .dx = gpu_output(g, x_floats(&s) * sizeof(float), &dx),
    };
    back.dx = dx;
    MUST(ls_conv_forward_reference(NULL, &forward));
    MUST(ls_conv_input_gradient_reference(NULL, &back));
    MUST(ls_conv_forward(&g->stream, &d_forward));
    MUST(ls_conv_input_gradient(&g->stream, &d_back));
    (void)snprintf(what, sizeof what, "convolution of %zu x %zu x %zu x %zu by %zu x %zu x %zu, "
                   "stride %zu %zu, pad %zu %zu, shift %zu", s.samples, s.height, s.width,
                   s.channels, s.filters, s.kernel_height, s.kernel_width, s.stride_height,
                   s.stride_width, s.pad_top, s.pad_left, g->shift);
    gpu_same_floats(g, what, y, d_forward.y, y_floats(&s));
    gpu_same_floats(g, what, dx, d_back.dx, x_floats(&s));
    gpu_arrays_drop(g);
    convolution_free(&c);
}

static int case_convolution(void)
{
    ls_conv_shape shapes[] = {
        shape_of(2, 8, 8, 1, 16, 3, 1, 0, 0),   shape_of(2, 6, 6, 16, 32, 3, 1, 0, 0),
        shape_of(1, 16, 16, 3, 32, 3, 1, 0, 0), shape_of(2, 7, 9, 5, 7, 3, 1, 1, 1),
        shape_of(1, 9, 8, 4, 68, 3, 2, 0, 1),   shape_of(1, 12, 12, 68, 72, 3, 1, 1, 1),
        shape_of(2, 11, 11, 3, 20, 5, 3, 2, 2), shape_of(2, 7, 7, 33, 15, 1, 2, 0, 0),
        shape_of(2, 7, 5, 8, 33, 1, 1, 0, 0),   shape_of(2, 4, 4, 2, 3, 4, 1, 3, 3),
        shape_of(1, 15, 15, 2, 5, 7, 4, 3, 3),  shape_of(2, 8, 8, 3, 4, 2, 3, 0, 0),
        shape_of(1, 1, 1, 1, 1, 1, 1, 0, 0),    shape_of(0, 4, 4, 2, 3, 3, 1, 0, 0),
    };
    gpu_arrays g;
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        g.shift = i % 2 * sizeof(float);
        check_convolution(&g, &n, shapes[i], i % 2 == 0, i % 3 != 1);
    }
    g.shift = 0;
    ls_conv_shape uneven = shape_of(2, 10, 10, 4, 9, 3, 1, 0, 0);
    uneven.width = 17, uneven.kernel_height = 4, uneven.kernel_width = 2;
    uneven.stride_width = 3, uneven.pad_top = 2, uneven.pad_left = 1;
    uneven.out_height = 9, uneven.out_width = 6;
    check_convolution(&g, &n, uneven, true, false);
    gpu_arrays_close(&g);
    return 0;
}

/* -- sums over samples ------------------------------------------------------------------------ */

/* Run every pass of a rank's step on both sides; pieces are `stride` floats apart, NaN in between
 * and before. `run` enqueues one pass on the GPU and runs it by the reference. */
typedef struct {
    ls_conv_shape shape; /* of the whole batch */
    const float *x, *dy; /* [samples, ...] of the whole batch */
    size_t x_sample, dy_sample; /* floats of a sample */
    size_t piece, stride;
    bool is_bias; /* batch_sum of dy */
} sum_job;

/* Rows of pass `pass`, gathered as in training. */
static float *rows_of_pass(const float *batch, size_t sample_floats, const ls_fold_plan *plan,
                           int pass, sharing s, size_t samples)
{
    const ls_fold *fold = &plan->pass[pass];
    const size_t rows = fold->sample[fold->leaf_count];
    float *out = malloc(rows * sample_floats * sizeof *out + 1);
    for (size_t r = 0; r < rows; r++) {
        const size_t from = ls_fold_sample_at(plan, pass, r, s.V, samples);
        memcpy(out + r * sample_floats, batch + from * sample_floats, sample_floats * sizeof *out);
    }
    return out;
}

static void run_pass(gpu_arrays *g, const sum_job *job, const ls_fold_plan *plan, int pass,
                     sharing s, float *want, float *got)
{
    const ls_fold *fold = &plan->pass[pass];
    const size_t samples = job->shape.samples, rows = fold->sample[fold->leaf_count];
    float *x = rows_of_pass(job->x, job->x_sample, plan, pass, s, samples);
    float *dy = rows_of_pass(job->dy, job->dy_sample, plan, pass, s, samples);
    const float *d_dy = gpu_copy_of(g, dy, rows * job->dy_sample * sizeof *dy);
    if (job->is_bias) {
        ls_batch_sum_args a = { job->shape.out_height, job->shape.out_width, job->shape.filters,
                                fold, dy, want, job->stride };
        MUST(ls_batch_sum_reference(NULL, &a));
        a.x = d_dy;
        a.out = got;
        MUST(ls_batch_sum(&g->stream, &a));
    } else {
        ls_conv_weight_gradient_args a = { job->shape, fold, x, dy, want, job->stride };
        a.shape.samples = rows;
        MUST(ls_conv_weight_gradient_reference(NULL, &a));
        a.x = gpu_copy_of(g, x, rows * job->x_sample * sizeof *x);
        a.dy = d_dy;
        a.dw = got;
        MUST(ls_conv_weight_gradient(&g->stream, &a));
    }
    MUST(ls_stream_drain(&g->stream, NULL, "a pass"));
    free(x);
    free(dy);
}

static void check_sums(gpu_arrays *g, const sum_job *job, sharing s)
{
    static ls_fold_plan plan;
    char what[200];
    ls_fold_plan_init(&plan, s.V, s.N, s.rank, s.A, job->shape.samples);
    const size_t floats = (size_t)plan.piece_count * job->stride;
    float *before = malloc(floats * sizeof *before), *want;
    memset(before, 0xff, floats * sizeof *before);
    float *got = gpu_updated(g, before, floats * sizeof *before, &want);
    for (int pass = 0; pass < s.A; pass++) run_pass(g, job, &plan, pass, s, want, got);
    (void)snprintf(what, sizeof what, "%s of %zu x %zu x %zu x %zu, %zu filters, kernel %zu, V %d "
                   "N %d rank %d A %d, shift %zu", job->is_bias ? "batch sum" : "weight gradient",
                   job->shape.samples, job->shape.height, job->shape.width, job->shape.channels,
                   job->shape.filters, job->shape.kernel_height, s.V, s.N, s.rank, s.A, g->shift);
    gpu_same_floats(g, what, want, got, floats);
    gpu_arrays_drop(g);
    free(before);
}

static void check_gradients(gpu_arrays *g, naive_random *n, ls_conv_shape shape, sharing s,
                            bool only_bias)
{
    convolution c = convolution_of(n, shape, NAIVE_SMALL);
    sum_job job = {
        .shape = shape,
        .x = c.x,
        .dy = c.dy,
        .x_sample = shape.height * shape.width * shape.channels,
        .dy_sample = shape.out_height * shape.out_width * shape.filters,
        .piece = w_floats(&shape),
        .stride = w_floats(&shape) + 4,
    };
    if (!only_bias) check_sums(g, &job, s);
    job.is_bias = true;
    job.stride = shape.filters + 3;
    check_sums(g, &job, s);
    convolution_free(&c);
}

static int case_batch_sums(void)
{
    const struct {
        ls_conv_shape shape;
        sharing sharing;
    } cases[] = {
        { shape_of(20, 1, 1, 70, 17, 1, 1, 0, 0), { 8, 1, 0, 1 } },
        { shape_of(130, 1, 1, 68, 68, 1, 1, 0, 0), { 8, 1, 0, 1 } },
        { shape_of(41, 1, 1, 33, 20, 1, 1, 0, 0), { 8, 3, 1, 1 } },
        { shape_of(41, 1, 1, 33, 20, 1, 1, 0, 0), { 8, 1, 0, 3 } },
        { shape_of(5, 1, 1, 64, 5, 1, 1, 0, 0), { 8, 2, 1, 2 } },     /* empty shards */
        { shape_of(5, 6, 6, 3, 5, 3, 1, 1, 1), { 12, 1, 0, 5 } },
        { shape_of(2, 1, 1, 3, 5, 1, 1, 0, 0), { 64, 1, 0, 1 } },     /* six temporaries */
        { shape_of(5000, 1, 1, 3, 4, 1, 1, 0, 0), { 2, 1, 0, 1 } },   /* 3 slices */
        { shape_of(9, 36, 40, 1, 4, 3, 1, 1, 1), { 3, 1, 0, 1 } },    /* slices of 25 rows */
        { shape_of(2, 3, 1030, 1, 3, 3, 1, 1, 1), { 1, 1, 0, 1 } },   /* a slice is one long row */
        { shape_of(16, 5, 5, 4, 3, 3, 1, 0, 0), { 16, 5, 2, 4 } },
        { shape_of(0, 4, 4, 2, 3, 3, 1, 0, 0), { 8, 1, 0, 1 } },
    };
    gpu_arrays g;
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        g.shift = i % 2 * sizeof(float);
        check_gradients(&g, &n, cases[i].shape, cases[i].sharing, false);
    }
    gpu_arrays_close(&g);
    return 0;
}

/* More partials than the stream's workspace holds: a range of the result at a time, or several
 * slices to a block. */
static int case_ranges(void)
{
    const sharing one = { 1, 1, 0, 1 }, whole = { 64, 1, 0, 1 };
    gpu_arrays g;
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    check_gradients(&g, &n, shape_of(128, 3, 3, 1, 300, 1, 1, 0, 0), whole, false); /* 5 tiles */
    check_gradients(&g, &n, shape_of(64, 1, 1, 1, 16400, 1, 1, 0, 0), whole, true);
    ls_conv_shape wide = shape_of(1, 48, 544, 1, 1, 32, 1, 0, 0); /* 17 slices: groups of two */
    check_gradients(&g, &n, wide, one, false);
    gpu_arrays_close(&g);
    return 0;
}

/* -- the tests --------------------------------------------------------------------------------- */

static void test_products_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_sizes("gemm");
}

static void test_convolutions_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_sizes("convolution");
}

static void test_sums_over_samples_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_sizes("batch sums");
}

static void test_long_results_are_summed_range_by_range(void **state)
{
    (void)state;
    need_gpus(1);
    /* So wide a GPU is not filled by whole tiles: their slices are dealt to many blocks. */
    assert_case("ranges", "LOCKSTEP_VGPU_SM=256");
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "gemm", case_gemm },
        { "convolution", case_convolution },
        { "batch sums", case_batch_sums },
        { "ranges", case_ranges },
        { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_have_the_bits_of_the_reference),
        cmocka_unit_test(test_convolutions_have_the_bits_of_the_reference),
        cmocka_unit_test(test_sums_over_samples_have_the_bits_of_the_reference),
        cmocka_unit_test(test_long_results_are_summed_range_by_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
