/* SPDX-License-Identifier: MIT */
/* test_evaluate.c -- what is evaluated: the average of the weights, exactly, on any replicas.
 */
#include "support/test.h"

#include <math.h>

#include "support/training.h"

static void test_evaluation_is_exact_on_any_number_of_replicas(void **state)
{
    (void)state;
    static const char *const devices[] = { "host:1", "host:2", "host:3", "host:8" };
    training *t = training_tiny();
    ls_evaluation result[4];
    training_must_run(t);
    for (int d = 0; d < 4; d++) {
        const ls_evaluation_request request = {
            .checkpoint = t->result.checkpoint, .data = t->config.data, .devices = devices[d],
            .threads = 1, .timeout_s = 60, .want_rows = true, .stuck = training_stuck };
        assert_int_equal(ls_evaluate(&request, &result[d]), LS_OK);
        assert_int_equal(result[d].samples, 9);
        assert_true(result[d].loss == t->result.last.val_loss);
        assert_true(result[d].metric[0] == t->result.last.val_metric[0]);
        assert_memory_equal(result[d].rows, result[0].rows,
                            9 * result[d].columns * sizeof(float));
    }
    for (int d = 0; d < 4; d++) ls_evaluation_free(&result[d]);
    training_destroy(t);
}

/* The loss of t's latest checkpoint on its test part. */
static double loss_on(const training *t, const char *devices, bool raw_weights)
{
    ls_evaluation result;
    const ls_evaluation_request request = {
        .checkpoint = t->result.checkpoint, .data = t->config.data, .devices = devices,
        .threads = 1, .timeout_s = 60, .raw_weights = raw_weights, .stuck = training_stuck };
    assert_int_equal(ls_evaluate(&request, &result), LS_OK);
    const double loss = result.loss;
    ls_evaluation_free(&result);
    return loss;
}

/* What is evaluated is the average of the weights; --weights raw asks for the others. */
static void test_the_average_of_the_weights_is_what_is_evaluated(void **state)
{
    (void)state;
    training *t = training_tiny();
    float kernel[32], average[32], plain[32];
    training_set(t, "optimizer", "sgd");
    training_set(t, "lr", "0.5");
    training_set(t, "ema", "0.9");
    training_set(t, "l2", "0.001");
    training_set(t, "devices", "host:2");
    training_must_run(t);
    training_tensor(t, "weights/dense1/kernel", kernel, 32);
    training_tensor(t, "optimizer/ema/dense1/kernel", average, 32);
    assert_memory_not_equal(kernel, average, sizeof kernel);
    const double raw = loss_on(t, "host:3", true);
    assert_true(loss_on(t, "host:1", false) == t->result.last.val_loss);
    assert_true(raw != t->result.last.val_loss);
    training_set(t, "ema", "off"); /* training itself does not see the average */
    training_must_run(t);
    training_tensor(t, "weights/dense1/kernel", plain, 32);
    assert_memory_equal(plain, kernel, sizeof plain);
    assert_true(t->result.last.val_loss == raw);
    assert_true(loss_on(t, "host:1", false) == raw && loss_on(t, "host:2", true) == raw);
    training_destroy(t);
}

/* One update: the average is what it made of the weights. */
static void test_the_average_begins_with_the_first_update(void **state)
{
    (void)state;
    training *t = training_tiny();
    float kernel[32], average[32];
    training_set(t, "ema", "0.99");
    training_set(t, "steps", "1");
    training_must_run(t);
    training_tensor(t, "weights/dense1/kernel", kernel, 32);
    training_tensor(t, "optimizer/ema/dense1/kernel", average, 32);
    for (int i = 0; i < 32; i++) assert_true(fabsf(kernel[i] - average[i]) <= 1e-7f);
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_average_of_the_weights_is_what_is_evaluated),
        cmocka_unit_test(test_the_average_begins_with_the_first_update),
        cmocka_unit_test(test_evaluation_is_exact_on_any_number_of_replicas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
