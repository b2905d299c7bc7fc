/* SPDX-License-Identifier: MIT */
/* test_batch_sum.c -- bias gradients: the canonical bits on every machine, for every fold. */
#include <math.h>

#include "kernels/fold.h"
#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

typedef struct {
    size_t height, width, channels, samples;
    int shards, world, accumulate;
} batch_case;

/* The rows of pass `pass` of a rank, as the trainer lays them out. The caller frees them. */
static float *pass_rows(const batch_case *t, const ls_fold_plan *plan, int pass, const float *x)
{
    const size_t floats = t->height * t->width * t->channels;
    const size_t rows = plan->pass[pass].sample[plan->pass[pass].leaf_count];
    float *out = malloc(rows * floats * sizeof *out);
    for (size_t row = 0; row < rows; row++) {
        const size_t sample = ls_fold_sample_at(plan, pass, row, t->shards, t->samples);
        memcpy(out + row * floats, x + sample * floats, floats * sizeof *out);
    }
    return out;
}

/* The sum over the shards of a node, from the definition. */
static float node_sum(const batch_case *t, ls_node node, const float *x, size_t c)
{
    float leaf[LS_SHARD_MAX];
    const size_t floats = t->height * t->width * t->channels;
    for (int i = 0; i < node.count; i++) {
        const size_t shard = (size_t)(node.begin + i), V = (size_t)t->shards;
        const size_t begin = shard * t->samples / V, end = (shard + 1) * t->samples / V;
        leaf[i] = naive_shard_sum(x + begin * floats, (end - begin) * t->height, t->width,
                                  t->channels, c);
    }
    return naive_tree_f32(leaf, (size_t)node.count);
}

static void check_rank(const batch_case *t, int rank, const float *x, machine *m)
{
    ls_fold_plan plan;
    ls_fold_plan_init(&plan, t->shards, t->world, rank, t->accumulate, t->samples);
    const size_t stride = t->channels + 3, pieces = (size_t)plan.piece_count;
    float *out = malloc(pieces * stride * sizeof *out);
    for (size_t i = 0; i < pieces * stride; i++) out[i] = 7.0f;
    for (int pass = 0; pass < plan.pass_count; pass++) {
        float *rows = pass_rows(t, &plan, pass, x);
        const ls_batch_sum_args args = { .height = t->height, .width = t->width,
                                         .channels = t->channels, .fold = &plan.pass[pass],
                                         .x = rows, .out = out, .piece_stride = stride };
        assert_int_equal(ls_batch_sum(&m->stream, &args), LS_OK);
        free(rows);
    }
    float *expected = malloc(t->channels * sizeof *expected);
    for (int p = 0; p < plan.final_count; p++) {
        for (size_t c = 0; c < t->channels; c++) {
            expected[c] = node_sum(t, plan.final_node[p], x, c);
        }
        const float *piece = out + (size_t)plan.final_slot[p] * stride;
        assert_true(naive_same("batch_sum", m->name, expected, piece, t->channels));
        for (size_t i = t->channels; i < stride; i++) assert_true(piece[i] == 7.0f);
    }
    free(expected);
    free(out);
}

static void check_case(const batch_case *t, uint64_t seed, int mix)
{
    naive_random random = { seed };
    float *x = naive_values(&random, t->samples * t->height * t->width * t->channels, mix);
    for (int i = 0; i < all.count; i++) {
        for (int rank = 0; rank < t->world; rank++) check_rank(t, rank, x, &all.machine[i]);
    }
    free(x);
}

static void test_a_shards_sum_is_chains_of_slices_in_the_tree(void **state)
{
    (void)state;
    static const size_t channels[] = { 1, 2, 3, 7, 15, 16, 17, 32, 33, 63, 64, 65, 130, 257 };
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        /* 1024 / 30 = 34 rows a slice: 9 samples of 20 rows are 5.3 slices */
        check_case(&(batch_case){ 20, 30, channels[i], 9, 1, 1, 1 }, i, 0);
        check_case(&(batch_case){ 1, 1, channels[i], 1500, 1, 1, 1 }, i, 0);
    }
    check_case(&(batch_case){ 1, 2000, 5, 3, 1, 1, 1 }, 90, 0);
    check_case(&(batch_case){ 5, 1, 4, 1000, 2, 1, 1 }, 91, 0);
    check_case(&(batch_case){ 1, 1024, 5, 3, 1, 1, 1 }, 92, 0);
}

static void test_zeros_of_either_sign_denormals_and_nan_keep_the_bits(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        check_case(&(batch_case){ 3, 4, 19, 20, 4, 1, 1 }, seed, NAIVE_SMALL);
        check_case(&(batch_case){ 3, 4, 19, 20, 4, 1, 1 }, seed, NAIVE_ALL);
    }
    const float minus[2] = { -0.0f, -0.0f };
    const ls_fold fold = { .leaf_count = 1, .piece_count = 1, .slot_count = 1, .sample = { 0, 2 } };
    for (int i = 0; i < all.count; i++) {
        float out = 1.0f;
        const ls_batch_sum_args args = { 1, 1, 1, &fold, minus, &out, 1 };
        assert_int_equal(ls_batch_sum(&all.machine[i].stream, &args), LS_OK);
        assert_true(out == 0.0f && !signbit(out));
    }
}

static void test_pieces_do_not_depend_on_ranks_passes_or_threads(void **state)
{
    (void)state;
    static const int worlds[] = { 1, 2, 3, 5, 8 };
    for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++) {
        for (int accumulate = 1; accumulate <= 8; accumulate *= 2) {
            check_case(&(batch_case){ 2, 3, 10, 37, 8, worlds[w], accumulate }, w, NAIVE_ZEROS);
        }
        check_case(&(batch_case){ 1, 1, 10, 5, 8, worlds[w], 3 }, w, 0); /* empty shards */
        check_case(&(batch_case){ 1, 1, 10, 0, 8, worlds[w], 1 }, w, 0);
    }
    check_case(&(batch_case){ 1, 2, 70, 100, 12, 5, 4 }, 50, 0);
    check_case(&(batch_case){ 1, 1, 3, 300, 64, 3, 5 }, 51, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_shards_sum_is_chains_of_slices_in_the_tree),
        cmocka_unit_test(test_zeros_of_either_sign_denormals_and_nan_keep_the_bits),
        cmocka_unit_test(test_pieces_do_not_depend_on_ranks_passes_or_threads),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
