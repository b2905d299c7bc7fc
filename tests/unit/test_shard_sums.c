/* SPDX-License-Identifier: MIT */
/* test_shard_sums.c -- what a shard adds to a step's numbers. */

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

static void test_each_shard_is_a_flat_sum_in_double_of_its_samples(void **state)
{
    (void)state;
    enum { N = 10000, V = 5 };
    static const ls_fold fold = { .leaf_count = V, .piece_count = 1, .slot_count = 1,
                                  .shard = { 0, 2, 3, 4, 7 },
                                  .sample = { 0, 70, 70, 4200, 4263, N } };
    naive_random random = { 1 };
    float *loss = naive_values(&random, N, 0), *weight = naive_values(&random, N, NAIVE_ZEROS);
    float *error = naive_values(&random, N, 0), *square = naive_values(&random, N, 0);
    float *one = malloc(N * sizeof *one);
    int32_t *place = malloc(N * sizeof *place);
    for (size_t i = 0; i < N; i++) {
        one[i] = 1.0f;
        place[i] = (int32_t)naive_below(&random, 7);
    }
    for (int m = 0; m < all.count; m++) {
        ls_shard_sum sums[8];
        memset(sums, 0xff, sizeof sums);
        const ls_shard_sums_args args = { &fold, 3, loss, weight, error, square, place, sums };
        assert_int_equal(ls_shard_sums(&all.machine[m].stream, &args), LS_OK);
        assert_true(sums[1].samples == -1 && sums[5].samples == -1 && sums[6].samples == -1);
        for (int i = 0; i < V; i++) {
            const size_t begin = fold.sample[i], count = fold.sample[i + 1] - begin;
            const ls_shard_sum *out = &sums[fold.shard[i]];
            int64_t right = 0, top = 0;
            for (size_t n = begin; n < begin + count; n++) {
                right += place[n] == 0;
                top += place[n] < 3;
            }
            assert_true(out->loss == naive_flat_f64(weight + begin, loss + begin, count));
            assert_true(out->weight == naive_flat_f64(weight + begin, one + begin, count));
            assert_true(out->error == naive_flat_f64(error + begin, one + begin, count));
            assert_true(out->square == naive_flat_f64(square + begin, one + begin, count));
            assert_true(out->samples == (int64_t)count && out->correct == right);
            assert_true(out->top == top);
        }
    }
    free(loss);
    free(weight);
    free(error);
    free(one);
    free(square);
    free(place);
}

static void test_without_weights_all_are_one_and_absent_columns_sum_to_zero(void **state)
{
    (void)state;
    const ls_fold fold = { .leaf_count = 2, .piece_count = 1, .slot_count = 1,
                           .shard = { 0, 1 }, .sample = { 0, 3, 3 } };
    const float loss[3] = { 0.5f, 0.25f, 4.0f };
    ls_shard_sum out[2];
    const ls_shard_sums_args args = { .fold = &fold, .loss = loss, .out = out };
    assert_int_equal(ls_shard_sums(&all.machine[0].stream, &args), LS_OK);
    assert_true(out[0].loss == 4.75 && out[0].weight == 3.0 && out[0].error == 0.0);
    assert_true(out[0].samples == 3 && out[0].correct == 0 && out[0].top == 0);
    assert_true(out[0].square == 0.0);
    assert_true(out[1].loss == 0.0 && out[1].weight == 0.0 && out[1].samples == 0);
    assert_int_equal(sizeof(ls_shard_sum), 56);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_shard_is_a_flat_sum_in_double_of_its_samples),
        cmocka_unit_test(test_without_weights_all_are_one_and_absent_columns_sum_to_zero),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
