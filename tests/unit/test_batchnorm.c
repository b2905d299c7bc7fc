/* SPDX-License-Identifier: MIT */
/* test_batchnorm.c -- batch normalisation: known values, its gradients, one result everywhere. */
#include <math.h>

#include "support/machines.h"
#include "support/naive.h"
#include "support/normalisation.h"
#include "support/test.h"

/* -- five values ------------------------------------------------------------------------------- */

static const float five[] = { 1.0f, 3.0f, 5.0f, 7.0f, 9.0f }, one = 1.0f, zero = 0.0f;

/* One channel with the values 1 3 5 7 9, dealt to shards; moving statistics 0 and 1. */
static normalisation five_values(int shard_count, const size_t *count, bool by_shard)
{
    normalisation n = { .shape = { 1, 1, 1 }, .shard_count = shard_count, .world = 1,
                        .by_shard = by_shard, .one_minus_momentum = (float)(1.0 - 0.99),
                        .x = five, .dy = five, .gamma = &one, .beta = &zero,
                        .moving_mean = 0.0f, .moving_variance = 1.0f };
    for (int s = 0; s < shard_count; s++) n.count[s] = count[s];
    return n;
}

static void test_five_values_have_one_mean_and_variance_however_they_are_dealt(void **state)
{
    (void)state;
    static const struct {
        int shards;
        size_t count[8];
    } deals[] = {
        { 1, { 5 } }, { 2, { 2, 3 } }, { 2, { 5, 0 } }, { 2, { 0, 5 } }, { 2, { 1, 4 } },
        { 5, { 1, 1, 1, 1, 1 } }, { 6, { 1, 0, 2, 0, 0, 2 } }, { 7, { 0, 0, 0, 3, 0, 0, 2 } },
    };
    for (size_t d = 0; d < sizeof deals / sizeof deals[0]; d++) {
        for (int i = 0; i < all.count; i++) {
            normalisation n = five_values(deals[d].shards, deals[d].count, false);
            n.world = (int)d % 2 + 1 < n.shard_count ? (int)d % 2 + 1 : n.shard_count;
            normalised out;
            normalisation_run(&all.machine[i].stream, &n, &out);
            assert_true(naive_near("mean", 5.0, (double)out.merged[0], 1e-6));
            assert_true(naive_near("M2", 40.0, (double)out.merged[1], 1e-5));
            assert_true(naive_near("moving mean", 0.05, (double)out.moving_mean[0], 1e-7));
            assert_true(naive_near("moving variance", 1.07, (double)out.moving_variance[0], 5e-7));
            for (int k = 0; k < 5; k++) {
                const double want = ((double)five[k] - 5.0) / sqrt(8.0);
                assert_true(naive_near("y", want, (double)out.y[k], 1e-6));
            }
            normalised_free(&out);
        }
    }
}

static void test_by_shard_each_has_its_own_statistics_and_moves_the_merged_variance(void **state)
{
    (void)state;
    static const float want[] = { -1.0f, 1.0f, -1.22474487f, 0.0f, 1.22474487f };
    for (int i = 0; i < all.count; i++) {
        const normalisation n = five_values(2, (const size_t[]){ 2, 3 }, true);
        normalised out;
        normalisation_run(&all.machine[i].stream, &n, &out);
        assert_true(naive_near("moving mean", 0.05, (double)out.moving_mean[0], 1e-7));
        assert_true(naive_near("moving variance", 1.01, (double)out.moving_variance[0], 5e-7));
        for (int k = 0; k < 5; k++) {
            assert_true(naive_near("y", (double)want[k], (double)out.y[k], 1e-6));
        }
        normalised_free(&out);
    }
}

static void test_without_samples_nothing_moves(void **state)
{
    (void)state;
    for (int i = 0; i < all.count; i++) {
        for (int by_shard = 0; by_shard < 2; by_shard++) {
            normalisation n = five_values(3, (const size_t[]){ 0, 0, 0 }, by_shard);
            normalised out;
            n.moving_mean = 0.25f;
            n.moving_variance = 3.0f;
            normalisation_run(&all.machine[i].stream, &n, &out);
            assert_true(out.moving_mean[0] == 0.25f && out.moving_variance[0] == 3.0f);
            for (int k = 0; k < 6; k++) assert_true(out.row[k] == 0.0f && out.sums[k] == 0.0f);
            for (int k = 0; k < 2; k++) {
                assert_true(out.merged[k] == 0.0f && out.merged_sums[k] == 0.0f);
            }
            assert_true(out.dgamma[0] == 0.0f && out.dbeta[0] == 0.0f);
            normalised_free(&out);
        }
    }
}

static void test_a_row_without_values_is_not_looked_at(void **state)
{
    (void)state;
    enum { CHANNELS = 2, ROW = 2 * CHANNELS };
    float row[3 * ROW];
    for (int k = 0; k < 3 * ROW; k++) row[k] = k / ROW == 1 ? (float)k : NAN;
    for (int i = 0; i < all.count; i++) {
        for (size_t n = 0; n <= 4; n += 4) {
            float merged[ROW], sums[ROW], mean[CHANNELS] = { 1, 1 }, variance[CHANNELS] = { 1, 1 };
            ls_stream *stream = &all.machine[i].stream;
            assert_int_equal(ls_batchnorm_merge(stream, &(ls_batchnorm_merge_args){
                .channels = CHANNELS, .shard_count = 3, .n = { 0, n, 0 }, .row = row,
                .one_minus_momentum = 1.0f, .merged = merged, .moving_mean = mean,
                .moving_variance = variance }), LS_OK);
            assert_int_equal(ls_batchnorm_merge_sums(stream, &(ls_batchnorm_merge_sums_args){
                .channels = CHANNELS, .shard_count = 3, .n = { 0, n, 0 }, .row = row,
                .merged = sums }), LS_OK);
            for (int k = 0; k < ROW; k++) {
                assert_true(merged[k] == (n > 0 ? row[ROW + k] : 0.0f) && sums[k] == merged[k]);
            }
            for (int c = 0; c < CHANNELS; c++) {
                assert_true(mean[c] == (n > 0 ? row[ROW + c] : 1.0f));
                assert_true(variance[c] == (n > 0 ? row[ROW + CHANNELS + c] / 4.0f : 1.0f));
            }
        }
    }
}

static void test_a_lone_value_becomes_beta_and_has_no_gradient(void **state)
{
    (void)state;
    static const float x[] = { 3.0f, -1e20f }, gamma[] = { 2.0f, 3.0f }, beta[] = { 0.5f, -0.5f };
    for (int i = 0; i < all.count; i++) {
        const normalisation n = { .shape = { 1, 1, 2 }, .shard_count = 2, .world = 2,
                                  .count = { 0, 1 }, .epsilon = 1e-3f,
                                  .one_minus_momentum = 0.5f, .x = x, .dy = five,
                                  .gamma = gamma, .beta = beta };
        normalised out;
        normalisation_run(&all.machine[i].stream, &n, &out);
        for (int c = 0; c < 2; c++) {
            assert_true(out.y[c] == beta[c] && out.dx[c] == 0.0f);
            assert_true(out.moving_mean[c] == 0.5f * x[c] && out.moving_variance[c] == 0.0f);
        }
        normalised_free(&out);
    }
}

/* -- numbers that are hard --------------------------------------------------------------------- */

static void test_a_nan_stays_in_its_channel(void **state)
{
    (void)state;
    enum { SAMPLES = 9, CHANNELS = 21, AT = 4 * CHANNELS + 17 };
    naive_random random = { 5 };
    float *x = naive_values(&random, SAMPLES * CHANNELS, 0);
    float *dy = naive_values(&random, SAMPLES * CHANNELS, 0);
    float *gamma = naive_values(&random, CHANNELS, 0), *beta = naive_values(&random, CHANNELS, 0);
    normalisation n = { .shape = { 1, 1, CHANNELS }, .shard_count = 4, .world = 2,
                        .epsilon = 1e-3f, .one_minus_momentum = 0.01f, .x = x, .dy = dy,
                        .gamma = gamma, .beta = beta, .moving_variance = 1.0f };
    normalisation_deal(&n, SAMPLES);
    for (int i = 0; i < all.count; i++) {
        normalised clean, out;
        normalisation_run(&all.machine[i].stream, &n, &clean);
        const float before = x[AT];
        x[AT] = NAN;
        normalisation_run(&all.machine[i].stream, &n, &out);
        x[AT] = before;
        for (size_t k = 0; k < SAMPLES * CHANNELS; k++) {
            const bool hit = k % CHANNELS == AT % CHANNELS;
            assert_true(hit ? isnan(out.y[k]) : out.y[k] == clean.y[k]);
            assert_true(hit ? isnan(out.dx[k]) : out.dx[k] == clean.dx[k]);
        }
        for (size_t c = 0; c < CHANNELS; c++) {
            assert_true(isnan(out.moving_variance[c]) == (c == AT % CHANNELS));
        }
        normalised_free(&clean);
        normalised_free(&out);
    }
    free(x), free(dy), free(gamma), free(beta);
}

/* A mean of 1e4 and a deviation of 1e-2, ten units in the last place: the mean of the squares minus
 * the square of the mean, in float, would be off by thousands of times the variance. */
static void test_a_small_spread_far_from_zero_is_not_lost(void **state)
{
    (void)state;
    enum { COUNT = 4000 };
    naive_random random = { 11 };
    float *x = malloc(COUNT * sizeof *x);
    for (int k = 0; k < COUNT; k++) x[k] = 1e4f + 1.7e-2f * naive_unit(&random);
    normalisation n = { .shape = { 1, 1, 1 }, .shard_count = 1, .world = 1, .count = { COUNT },
                        .epsilon = 1e-12f, .one_minus_momentum = 1.0f, .x = x, .dy = x,
                        .gamma = &one, .beta = &zero };
    double mean = 0.0, M2 = 0.0;
    for (int k = 0; k < COUNT; k++) mean += (double)x[k] / COUNT;
    for (int k = 0; k < COUNT; k++) M2 += ((double)x[k] - mean) * ((double)x[k] - mean);
    for (int i = 0; i < all.count; i++) {
        normalised out;
        normalisation_run(&all.machine[i].stream, &n, &out);
        assert_true(naive_near("mean", mean, (double)out.row[0], 1e-3));
        assert_true(naive_near("M2", M2, (double)out.row[1], 1e-3 * M2));
        normalised_free(&out);
    }
    free(x);
}

/* -- gradients --------------------------------------------------------------------------------- */

/* L = sum of dy * y, y from the definition in double, x and gamma and beta given. */
static double loss_of(const normalisation *n, const double *x, const double *gamma,
                      const double *beta)
{
    const size_t C = n->shape.channels, places = n->shape.height * n->shape.width;
    double loss = 0.0;
    size_t begin = 0;
    for (int s = 0; s < n->shard_count; s++) {
        size_t end = begin + n->count[s] * places;
        if (!n->by_shard) end = normalisation_samples(n) * places;
        for (size_t c = 0; c < C; c++) {
            double mean = 0.0, variance = 0.0;
            for (size_t p = begin; p < end; p++) mean += x[p * C + c] / (double)(end - begin);
            for (size_t p = begin; p < end; p++) {
                const double d = x[p * C + c] - mean;
                variance += d * d / (double)(end - begin);
            }
            for (size_t p = begin; p < end; p++) {
                const double xhat =
                    (x[p * C + c] - mean) / sqrt(variance + (double)n->epsilon);
                loss += (double)n->dy[p * C + c] * (gamma[c] * xhat + beta[c]);
            }
        }
        begin = end;
        if (!n->by_shard) break;
    }
    return loss;
}

static double *doubles_of(const float *x, size_t count)
{
    double *out = malloc(count * sizeof *out);
    for (size_t i = 0; i < count; i++) out[i] = (double)x[i];
    return out;
}

/* Differences of the loss at every element of `vary`, one of x, gamma, beta. */
static void check_differences(const char *what, const normalisation *n, double *const at[3],
                              double *vary, size_t count, const float *gradient)
{
    const double h = 1e-5;
    for (size_t i = 0; i < count; i++) {
        const double middle = vary[i];
        vary[i] = middle + h;
        const double above = loss_of(n, at[0], at[1], at[2]);
        vary[i] = middle - h;
        const double below = loss_of(n, at[0], at[1], at[2]);
        vary[i] = middle;
        if (!naive_near(what, (above - below) / (2 * h), (double)gradient[i], 2e-5)) {
            fail_msg("%s %zu of %zu, by_shard %d", what, i, count, n->by_shard);
        }
    }
}

static void check_gradients(normalisation *n, uint64_t seed)
{
    naive_random random = { seed };
    const size_t floats = normalisation_floats(n), C = n->shape.channels;
    float *x = naive_values(&random, floats, 0), *dy = naive_values(&random, floats, 0);
    float *gamma = naive_values(&random, C, 0), *beta = naive_values(&random, C, 0);
    n->x = x, n->dy = dy, n->gamma = gamma, n->beta = beta;
    double *const at[] = { doubles_of(x, floats), doubles_of(gamma, C), doubles_of(beta, C) };
    for (int i = 0; i < all.count; i += all.count - 1) { /* the reference and the fastest */
        normalised out;
        normalisation_run(&all.machine[i].stream, n, &out);
        check_differences("dx", n, at, at[0], floats, out.dx);
        check_differences("dgamma", n, at, at[1], C, out.dgamma);
        check_differences("dbeta", n, at, at[2], C, out.dbeta);
        normalised_free(&out);
    }
    free(x), free(dy), free(gamma), free(beta), free(at[0]), free(at[1]), free(at[2]);
}

static void test_gradients_are_those_of_differences(void **state)
{
    (void)state;
    for (int by_shard = 0; by_shard < 2; by_shard++) {
        normalisation n = { .shape = { 2, 3, 3 }, .shard_count = 4, .world = 1,
                            .count = { 2, 0, 3, 1 }, .by_shard = by_shard, .epsilon = 1e-3f };
        check_gradients(&n, 1);
        normalisation flat = { .shape = { 1, 1, 5 }, .shard_count = 3, .world = 1,
                               .count = { 4, 3, 5 }, .by_shard = by_shard, .epsilon = 1e-3f };
        check_gradients(&flat, 2);
        normalisation single = { .shape = { 3, 2, 2 }, .shard_count = 1, .world = 1,
                                 .count = { 3 }, .by_shard = by_shard, .epsilon = 1e-3f };
        check_gradients(&single, 3);
    }
}

/* -- one result everywhere --------------------------------------------------------------------- */

/* A shard's batch sum of p * q, from the definition. */
static float product_sum(const float *p, const float *q, size_t rows, size_t width)
{
    const size_t height = width > 1024 ? 1 : 1024 / width;
    float slice[64];
    size_t slices = 0;
    for (size_t row = 0; row < rows; row += height) {
        const size_t end = row + height < rows ? row + height : rows;
        float sum = 0.0f;
        for (size_t i = row * width; i < end * width; i++) sum = fmaf(p[i], q[i], sum);
        assert_true(slices < 64);
        slice[slices++] = sum + 0.0f;
    }
    return naive_tree_f32(slice, slices);
}

static void test_rows_of_statistics_are_batch_sums(void **state)
{
    (void)state;
    enum { HEIGHT = 20, WIDTH = 30, SAMPLES = 9, CHANNELS = 5, PLACES = HEIGHT * WIDTH * SAMPLES };
    naive_random random = { 21 };
    float *x = naive_values(&random, PLACES * CHANNELS, NAIVE_ZEROS);
    float *dy = naive_values(&random, PLACES * CHANNELS, NAIVE_ZEROS);
    float *d = malloc(PLACES * sizeof *d), *g = malloc(PLACES * sizeof *g);
    const float gamma[CHANNELS] = { 1, 1, 1, 1, 1 }, beta[CHANNELS] = { 0 };
    const normalisation n = { .shape = { HEIGHT, WIDTH, CHANNELS }, .shard_count = 1, .world = 1,
                              .count = { SAMPLES }, .epsilon = 1e-3f, .x = x, .dy = dy,
                              .gamma = gamma, .beta = beta };
    normalised out;
    normalisation_run(&all.machine[0].stream, &n, &out);
    for (size_t c = 0; c < CHANNELS; c++) {
        const float mean = naive_shard_sum(x, HEIGHT * SAMPLES, WIDTH, CHANNELS, c) / (float)PLACES;
        for (size_t p = 0; p < PLACES; p++) d[p] = x[p * CHANNELS + c] - mean;
        const float M2 = product_sum(d, d, HEIGHT * SAMPLES, WIDTH);
        const float inv = 1.0f / sqrtf(M2 / (float)PLACES + 1e-3f);
        for (size_t p = 0; p < PLACES; p++) {
            d[p] *= inv;
            g[p] = dy[p * CHANNELS + c];
        }
        const float S1 = naive_shard_sum(dy, HEIGHT * SAMPLES, WIDTH, CHANNELS, c);
        const float S2 = product_sum(g, d, HEIGHT * SAMPLES, WIDTH);
        assert_true(naive_same("mean", "reference", &mean, &out.row[c], 1));
        assert_true(naive_same("M2", "reference", &M2, &out.row[CHANNELS + c], 1));
        assert_true(naive_same("dbeta", "reference", &S1, &out.dbeta[c], 1));
        assert_true(naive_same("dgamma", "reference", &S2, &out.dgamma[c], 1));
    }
    normalised_free(&out);
    free(x), free(dy), free(d), free(g);
}

/* All outputs of the pass, on every machine, in so many ways: with statistics of all and by shard,
 * then with relu too. */
static void check_ways(normalisation n, size_t samples, uint64_t seed, int mix, int ways)
{
    naive_random random = { seed };
    normalisation_deal(&n, samples);
    const size_t floats = normalisation_floats(&n), C = n.shape.channels;
    float *x = naive_values(&random, floats, mix), *dy = naive_values(&random, floats, mix);
    float *gamma = naive_values(&random, C, mix), *beta = naive_values(&random, C, mix);
    n.x = x, n.dy = dy, n.gamma = gamma, n.beta = beta;
    n.epsilon = 1e-3f, n.one_minus_momentum = 0.01f, n.moving_variance = 1.0f;
    for (int way = 0; way < ways; way++) {
        normalised want, out;
        n.by_shard = way & 1;
        n.relu = way & 2;
        normalisation_run(&all.machine[0].stream, &n, &want);
        for (int i = 1; i < all.count; i++) {
            normalisation_run(&all.machine[i].stream, &n, &out);
            if (!naive_same("batchnorm", all.machine[i].name, want.floats, out.floats,
                            out.float_count)) {
                fail_msg("[%zu, %zu, %zu, %zu], %d shards, %d ranks, seed %llu, by_shard %d, relu "
                         "%d; row at 0, sums at %td, merged at %td, y at %td, dx at %td",
                         samples, n.shape.height, n.shape.width, C, n.shard_count, n.world,
                         (unsigned long long)seed, n.by_shard, n.relu, out.sums - out.floats,
                         out.merged - out.floats, out.y - out.floats, out.dx - out.floats);
            }
            normalised_free(&out);
        }
        normalised_free(&want);
    }
    free(x), free(dy), free(gamma), free(beta);
}

static void check_machines(normalisation n, size_t samples, uint64_t seed, int mix)
{
    check_ways(n, samples, seed, mix, 4);
}

static void test_every_machine_has_the_bits_of_the_reference(void **state)
{
    (void)state;
    static const size_t channels[] = { 1, 2, 3, 7, 8, 15, 16, 17, 32, 33, 48, 63, 64, 65, 130, 257,
                                       600 };
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        const size_t C = channels[i];
        check_machines((normalisation){ .shape = { 2, 3, C }, .shard_count = 8, .world = 3 }, 19,
                       i, NAIVE_SMALL);
        check_machines((normalisation){ .shape = { 1, 1, C }, .shard_count = 8, .world = 1 }, 5,
                       i, NAIVE_ALL);
    }
    /* slices of 34 rows, of one row, of 1024 samples; leaves of one place */
    check_machines((normalisation){ .shape = { 40, 30, 5 }, .shard_count = 3, .world = 2 }, 8, 50,
                   0);
    check_machines((normalisation){ .shape = { 2, 1300, 3 }, .shard_count = 2, .world = 1 }, 5, 51,
                   NAIVE_NAN);
    check_machines((normalisation){ .shape = { 1, 1, 4 }, .shard_count = 1, .world = 1 }, 2600, 52,
                   NAIVE_ZEROS);
    check_machines((normalisation){ .shape = { 1, 1, 20 }, .shard_count = 64, .world = 5 }, 70, 53,
                   0);
    check_machines((normalisation){ .shape = { 4, 4, 20 }, .shard_count = 12, .world = 5 }, 0, 54,
                   0);
}

static void test_more_channels_than_the_scratch_memory_holds_go_part_by_part(void **state)
{
    (void)state;
    check_ways((normalisation){ .shape = { 1, 1, 530001 }, .shard_count = 2, .world = 1 }, 2, 60, 0,
               1);
}

static void test_in_place_gives_the_same(void **state)
{
    (void)state;
    enum { SAMPLES = 30, CHANNELS = 19, COUNT = SAMPLES * CHANNELS };
    naive_random random = { 31 };
    float *x = naive_values(&random, COUNT, 0), *dy = naive_values(&random, COUNT, 0);
    float *row = naive_values(&random, 2 * CHANNELS, 0);
    float *sums = naive_values(&random, 2 * CHANNELS, 0);
    float *gamma = naive_values(&random, CHANNELS, 0), *to = malloc(COUNT * sizeof *to);
    float *place = malloc(COUNT * sizeof *place);
    for (size_t c = 0; c < CHANNELS; c++) row[CHANNELS + c] = 20.0f + row[CHANNELS + c];
    for (int i = 0; i < all.count; i++) {
        ls_batchnorm_args forward = { .shape = { 1, 1, CHANNELS }, .samples = SAMPLES,
                                      .statistics = { .row = row, .n = { SAMPLES } },
                                      .relu = true, .gamma = gamma, .beta = sums, .x = x, .y = to };
        assert_int_equal(ls_batchnorm(&all.machine[i].stream, &forward), LS_OK);
        memcpy(place, x, COUNT * sizeof *place);
        forward.x = forward.y = place;
        assert_int_equal(ls_batchnorm(&all.machine[i].stream, &forward), LS_OK);
        assert_true(naive_same("y", all.machine[i].name, to, place, COUNT));
        ls_batchnorm_gradient_args back = { .shape = { 1, 1, CHANNELS }, .samples = SAMPLES,
                                            .statistics = { .row = row, .n = { SAMPLES } },
                                            .sums = sums, .gamma = gamma, .x = x, .dy = dy,
                                            .dx = to };
        assert_int_equal(ls_batchnorm_gradient(&all.machine[i].stream, &back), LS_OK);
        memcpy(place, dy, COUNT * sizeof *place);
        back.dy = back.dx = place;
        assert_int_equal(ls_batchnorm_gradient(&all.machine[i].stream, &back), LS_OK);
        assert_true(naive_same("dx", all.machine[i].name, to, place, COUNT));
    }
    free(x), free(dy), free(row), free(sums), free(gamma), free(to), free(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_five_values_have_one_mean_and_variance_however_they_are_dealt),
        cmocka_unit_test(test_by_shard_each_has_its_own_statistics_and_moves_the_merged_variance),
        cmocka_unit_test(test_without_samples_nothing_moves),
        cmocka_unit_test(test_a_row_without_values_is_not_looked_at),
        cmocka_unit_test(test_a_lone_value_becomes_beta_and_has_no_gradient),
        cmocka_unit_test(test_a_nan_stays_in_its_channel),
        cmocka_unit_test(test_a_small_spread_far_from_zero_is_not_lost),
        cmocka_unit_test(test_gradients_are_those_of_differences),
        cmocka_unit_test(test_rows_of_statistics_are_batch_sums),
        cmocka_unit_test(test_every_machine_has_the_bits_of_the_reference),
        cmocka_unit_test(test_more_channels_than_the_scratch_memory_holds_go_part_by_part),
        cmocka_unit_test(test_in_place_gives_the_same),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
