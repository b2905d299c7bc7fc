/* SPDX-License-Identifier: MIT */
/* test_cuda_batchnorm.c -- batch normalisation on a GPU has the bits of the reference.
 *
 * As test_cuda_products.c: each case on three virtual machines, or on the real GPU that is there.
 * Statistics are not those of the data but arbitrary ones, so that every op is compared by itself.
 */
#include "support/test.h"

#include <stdio.h>

#include "kernels/reference/reference.h"
#include "support/fresh_process.h"
#include "support/gpu_arrays.h"
#include "support/gpu_machines.h"
#include "support/naive.h"

/* -- samples ----------------------------------------------------------------------------------- */

/* A pass of a rank over a batch. */
typedef struct {
    ls_batchnorm_shape shape;
    size_t samples; /* of the whole batch */
    int V, N, rank, A, pass;
    int mix;
} batch;

/* The data of a pass on both sides. */
typedef struct {
    gpu_arrays *g;
    ls_batchnorm_shape shape;
    ls_fold fold;
    int V;
    size_t samples, floats;
    float *x, *dy, *gamma, *beta, *row, *sums; /* owned */
    float *d_x, *d_dy, *d_gamma, *d_beta, *d_row, *d_sums;
    char what[160];
} pass_data;

static float *both(gpu_arrays *g, float *data, size_t count, float **device)
{
    *device = gpu_copy_of(g, data, count * sizeof *data);
    return data;
}

static pass_data open_pass(gpu_arrays *g, naive_random *n, const batch *b)
{
    static ls_fold_plan plan;
    const size_t C = b->shape.channels, rows = (size_t)b->V * 2 * C;
    ls_fold_plan_init(&plan, b->V, b->N, b->rank, b->A, b->samples);
    pass_data p = { .g = g, .shape = b->shape, .fold = plan.pass[b->pass], .V = b->V };
    p.samples = p.fold.sample[p.fold.leaf_count];
    p.floats = p.samples * b->shape.height * b->shape.width * C;
    p.x = both(g, naive_values(n, p.floats, b->mix), p.floats, &p.d_x);
    p.dy = both(g, naive_values(n, p.floats, b->mix), p.floats, &p.d_dy);
    p.gamma = both(g, naive_values(n, C, b->mix), C, &p.d_gamma);
    p.beta = both(g, naive_values(n, C, b->mix), C, &p.d_beta);
    p.sums = both(g, naive_values(n, rows, b->mix), rows, &p.d_sums);
    p.row = naive_values(n, rows, b->mix);
    for (size_t i = 0; i < rows; i++) {
        if (i / C % 2 == 1) p.row[i] = 20.0f + p.row[i]; /* M2 */
    }
    both(g, p.row, rows, &p.d_row);
    (void)snprintf(p.what, sizeof p.what, "of %zu x %zu x %zu x %zu, V %d N %d rank %d A %d pass "
                   "%d, shift %zu", b->samples, b->shape.height, b->shape.width, C, b->V, b->N,
                   b->rank, b->A, b->pass, g->shift);
    return p;
}

static void close_pass(pass_data *p)
{
    gpu_arrays_drop(p->g);
    free(p->x), free(p->dy), free(p->gamma), free(p->beta), free(p->row), free(p->sums);
}

/* Row 0 for all samples, or each shard's. Any count will do. */
static ls_batchnorm_statistics_of statistics_of(const pass_data *p, const float *row, bool by_shard)
{
    ls_batchnorm_statistics_of s = { .row = row };
    if (by_shard) s.stride = 2 * p->shape.channels;
    for (int i = 0; i < p->V; i++) s.n[i] = (float)(3 * i + 7);
    return s;
}

static void same(const pass_data *p, const char *op, const float *want, const float *device,
                 size_t count)
{
    char what[200];
    (void)snprintf(what, sizeof what, "%s %s", op, p->what);
    gpu_same_floats(p->g, what, want, device, count);
}

/* An array of which an op writes a part. */
static float *partly(const pass_data *p, size_t count, float **want)
{
    float *before = malloc(count * sizeof *before);
    memset(before, 0xff, count * sizeof *before);
    float *device = gpu_updated(p->g, before, count * sizeof *before, want);
    free(before);
    return device;
}

static void check_statistics(const pass_data *p)
{
    const size_t rows = (size_t)p->V * 2 * p->shape.channels;
    float *want, *device = partly(p, rows, &want);
    MUST(ls_batchnorm_statistics_reference(NULL, &(ls_batchnorm_statistics_args){
        p->shape, &p->fold, p->x, want }));
    MUST(ls_batchnorm_statistics(&p->g->stream, &(ls_batchnorm_statistics_args){
        p->shape, &p->fold, p->d_x, device }));
    same(p, "statistics", want, device, rows);
}

static void check_gradient_sums(const pass_data *p, bool by_shard)
{
    const size_t C = p->shape.channels, rows = (size_t)p->V * 2 * C, stride = C + 3;
    const size_t pieces = (size_t)p->fold.piece_count * stride;
    /* Of the passes before. */
    naive_random random = { 1 };
    float *before = naive_values(&random, pieces, NAIVE_SMALL);
    float *want_row, *want_dgamma, *want_dbeta;
    ls_batchnorm_gradient_sums_args d = {
        .shape = p->shape, .fold = &p->fold, .statistics = statistics_of(p, p->d_row, by_shard),
        .epsilon = 1e-3f, .x = p->d_x, .dy = p->d_dy, .row = partly(p, rows, &want_row),
        .dgamma = gpu_updated(p->g, before, pieces * sizeof *before, &want_dgamma),
        .dbeta = gpu_updated(p->g, before, pieces * sizeof *before, &want_dbeta),
        .piece_stride = stride };
    ls_batchnorm_gradient_sums_args a = d;
    a.statistics.row = p->row;
    a.x = p->x, a.dy = p->dy, a.row = want_row, a.dgamma = want_dgamma, a.dbeta = want_dbeta;
    MUST(ls_batchnorm_gradient_sums_reference(NULL, &a));
    MUST(ls_batchnorm_gradient_sums(&p->g->stream, &d));
    same(p, "gradient sums", want_row, d.row, rows);
    same(p, "dgamma", want_dgamma, d.dgamma, pieces);
    same(p, "dbeta", want_dbeta, d.dbeta, pieces);
    free(before);
}

/* Forward, and back in place. */
static void check_elements(const pass_data *p, bool by_shard, bool relu)
{
    float *y, *dx;
    ls_batchnorm_args d = {
        .shape = p->shape, .samples = p->samples, .fold = by_shard ? &p->fold : NULL,
        .statistics = statistics_of(p, p->d_row, by_shard), .epsilon = 1e-3f, .relu = relu,
        .gamma = p->d_gamma, .beta = p->d_beta, .x = p->d_x,
        .y = gpu_output(p->g, p->floats * sizeof *y, &y) };
    ls_batchnorm_args a = d;
    a.statistics.row = p->row;
    a.gamma = p->gamma, a.beta = p->beta, a.x = p->x, a.y = y;
    MUST(ls_batchnorm_reference(NULL, &a));
    MUST(ls_batchnorm(&p->g->stream, &d));
    same(p, relu ? "normalised, relu," : "normalised", y, d.y, p->floats);

    ls_batchnorm_gradient_args db = {
        .shape = p->shape, .samples = p->samples, .fold = by_shard ? &p->fold : NULL,
        .statistics = d.statistics, .sums = p->d_sums, .epsilon = 1e-3f, .gamma = p->d_gamma,
        .x = p->d_x, .dx = gpu_updated(p->g, p->dy, p->floats * sizeof *dx, &dx) };
    ls_batchnorm_gradient_args b = db;
    db.dy = db.dx;
    b.statistics.row = p->row;
    b.sums = p->sums, b.gamma = p->gamma, b.x = p->x, b.dy = p->dy, b.dx = dx;
    MUST(ls_batchnorm_gradient_reference(NULL, &b));
    MUST(ls_batchnorm_gradient(&p->g->stream, &db));
    same(p, "dx", dx, db.dx, p->floats);
}

static void check_batch(gpu_arrays *g, naive_random *n, batch b)
{
    for (b.pass = 0; b.pass < b.A; b.pass++) {
        pass_data p = open_pass(g, n, &b);
        check_statistics(&p);
        for (int by_shard = 0; by_shard < 2; by_shard++) {
            check_gradient_sums(&p, by_shard);
            check_elements(&p, by_shard, (b.pass + by_shard) % 2);
        }
        close_pass(&p);
    }
}

static int case_batches(void)
{
    static const batch batches[] = {
        { { 1, 1, 17 }, 20, 8, 1, 0, 1, 0, NAIVE_SMALL },
        { { 1, 1, 68 }, 41, 8, 3, 1, 1, 0, NAIVE_ALL },
        { { 1, 1, 5 }, 5, 8, 2, 1, 2, 0, NAIVE_SMALL },   /* empty shards */
        { { 6, 6, 5 }, 5, 12, 1, 0, 5, 0, NAIVE_SMALL },
        { { 7, 5, 8 }, 9, 4, 1, 0, 1, 0, 0 },     /* quads, several places to a block */
        { { 1, 1, 3 }, 2, 64, 1, 0, 1, 0, NAIVE_SMALL },
        { { 1, 1, 3 }, 3000, 2, 1, 0, 1, 0, 0 },  /* 2 slices */
        { { 36, 40, 3 }, 4, 2, 1, 0, 1, 0, NAIVE_SMALL }, /* slices of 25 rows, three a shard */
        { { 3, 1030, 3 }, 2, 1, 1, 0, 1, 0, NAIVE_ALL }, /* a slice is one long row */
        { { 5, 5, 3 }, 16, 16, 5, 2, 4, 0, NAIVE_SMALL },
        { { 3, 3, 301 }, 8, 8, 1, 0, 1, 0, NAIVE_SMALL },  /* a place is more than a block */
        { { 2, 2, 1028 }, 9, 2, 1, 0, 1, 0, 0 },   /* in quads, too */
        { { 4, 4, 6 }, 0, 8, 1, 0, 1, 0, NAIVE_SMALL },
    };
    gpu_arrays g;
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        g.shift = i % 3 == 1 ? sizeof(float) : 0;
        check_batch(&g, &n, batches[i]);
    }
    gpu_arrays_close(&g);
    return 0;
}

/* More sums of slices than the stream's workspace holds. */
static int case_ranges(void)
{
    const batch b = { { 1, 1, 16400 }, 64, 64, 1, 0, 1, 0, 0 };
    gpu_arrays g;
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    pass_data p = open_pass(&g, &n, &b);
    check_statistics(&p);
    check_gradient_sums(&p, true);
    close_pass(&p);
    gpu_arrays_close(&g);
    return 0;
}

/* -- merges ------------------------------------------------------------------------------------ */

static void check_merges(gpu_arrays *g, naive_random *n, size_t channels, int V, int empty)
{
    const size_t rows = (size_t)V * 2 * channels;
    float *row = naive_values(n, rows, NAIVE_ALL), *d_row = gpu_copy_of(g, row, rows * sizeof *row);
    float *moving = naive_values(n, channels, NAIVE_SMALL), *merged, *mean, *variance, *sums;
    char what[100];
    for (int by_shard = 0; by_shard < 2; by_shard++) {
        ls_batchnorm_merge_args d = {
            .channels = channels, .shard_count = V, .row = d_row, .by_shard = by_shard,
            .one_minus_momentum = 0.01f,
            .merged = gpu_output(g, 2 * channels * sizeof *merged, &merged),
            .moving_mean = gpu_updated(g, moving, channels * sizeof *moving, &mean),
            .moving_variance = gpu_updated(g, moving, channels * sizeof *moving, &variance) };
        ls_batchnorm_merge_sums_args s = {
            .channels = channels, .shard_count = V, .row = d_row,
            .merged = gpu_output(g, 2 * channels * sizeof *sums, &sums) };
        for (int i = 0; i < V; i++) {
            s.n[i] = d.n[i] = naive_below(n, 4) < (size_t)empty ? 0 : 1 + naive_below(n, 99999);
        }
        ls_batchnorm_merge_args a = d;
        a.row = row, a.merged = merged, a.moving_mean = mean, a.moving_variance = variance;
        ls_batchnorm_merge_sums_args b = s;
        b.row = row, b.merged = sums;
        MUST(ls_batchnorm_merge_reference(NULL, &a));
        MUST(ls_batchnorm_merge(&g->stream, &d));
        MUST(ls_batchnorm_merge_sums_reference(NULL, &b));
        MUST(ls_batchnorm_merge_sums(&g->stream, &s));
        (void)snprintf(what, sizeof what, "%zu channels of %d shards, %d of 4 empty, by_shard %d",
                       channels, V, empty, by_shard);
        gpu_same_floats(g, what, merged, d.merged, 2 * channels);
        gpu_same_floats(g, what, mean, d.moving_mean, channels);
        gpu_same_floats(g, what, variance, d.moving_variance, channels);
        gpu_same_floats(g, what, sums, s.merged, 2 * channels);
    }
    gpu_arrays_drop(g);
    free(row);
    free(moving);
}

static int case_merges(void)
{
    static const size_t channels[] = { 1, 5, 64, 129, 200 };
    gpu_arrays g;
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    for (int V = 1; V <= 64; V = V < 6 ? V + 1 : V * 2 - 5) {
        for (int empty = 0; empty <= 4; empty += 2) {
            check_merges(&g, &n, channels[(size_t)(V + empty) % 5], V, empty);
        }
    }
    check_merges(&g, &n, 3, 64, 0);
    gpu_arrays_close(&g);
    return 0;
}

/* -- the tests --------------------------------------------------------------------------------- */

static void test_every_op_on_samples_has_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_sizes("batches");
}

static void test_more_channels_than_the_workspace_holds_go_range_by_range(void **state)
{
    (void)state;
    need_gpus(1);
    assert_case("ranges", "LOCKSTEP_VGPU_SEED=1");
}

static void test_merges_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_sizes("merges");
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "batches", case_batches },
        { "ranges", case_ranges },
        { "merges", case_merges },
        { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_on_samples_has_the_bits_of_the_reference),
        cmocka_unit_test(test_more_channels_than_the_workspace_holds_go_range_by_range),
        cmocka_unit_test(test_merges_have_the_bits_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
