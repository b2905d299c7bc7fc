/* SPDX-License-Identifier: MIT */
/* test_unused.c -- layers that the loss does not depend on: told, and left as they were.
 */
#include "support/test.h"

#include <stdio.h>

#include "support/training.h"

static char notes[4096];

static void keep_note(void *context, const char *text)
{
    (void)context;
    const size_t used = strlen(notes);
    snprintf(notes + used, sizeof notes - used, "%s\n", text);
}

/* A residual block, with a branch of three layers that nothing reads. */
static const char text[] = "input 8x8x1\na = conv 6 3x3 pad=same\nbatchnorm relu\n"
                           "b = conv 6 3x3 pad=same\ns = add relu from a b\n"
                           "lost = conv 5 3x3 init=constant:0.5\nnorm = batchnorm\nrelu\n"
                           "globalavgpool from s\ndense 10\nloss softmax-crossentropy\n";

static void test_an_unused_branch_keeps_its_bytes_on_any_number_of_replicas(void **state)
{
    (void)state;
    static const char *const optimizers[] = { "sgd", "momentum", "adam", "adamw" };
    static const char *const devices[] = { "host:1", "host:3", "host:4" };
    training *t = training_create();
    t->observer.note = keep_note;
    training_write(t, "a.model", text);
    training_set(t, "model", training_path(t, "a.model"));
    training_set(t, "data", "digits");
    training_set(t, "steps", "4");
    training_set(t, "l1", "0.01");
    training_set(t, "l2", "0.01");
    training_set(t, "weight-decay", "0.1");
    training_set(t, "ema", "0.9");
    for (int o = 0; o < 4; o++) {
        training_bits bits;
        training_set(t, "optimizer", optimizers[o]);
        for (int d = 0; d < 3; d++) {
            float kernel[5 * 9 * 6], gamma[5], used[6 * 9];
            notes[0] = '\0';
            training_set(t, "devices", devices[d]);
            training_must_run(t);
            training_tensor(t, "weights/lost/kernel", kernel, 5 * 9 * 6);
            training_tensor(t, "weights/norm/gamma", gamma, 5);
            training_tensor(t, "weights/a/kernel", used, 6 * 9);
            for (int i = 0; i < 5 * 9 * 6; i++) assert_true(kernel[i] == 0.5f);
            for (int i = 0; i < 5; i++) assert_true(gamma[i] == 1);
            training_tensor(t, "statistics/norm/variance", gamma, 5);
            for (int i = 0; i < 5; i++) assert_true(gamma[i] == 1);
            assert_true(used[0] == used[0] && used[0] != used[1]);
            assert_non_null(strstr(notes, "warning: the loss does not depend on layer 'lost', line "
                                          "6 of the model (and 2 more): its weights stay as they "
                                          "are\n"));
            if (d == 0) training_remember(t, &bits);
            else assert_true(training_same(t, &bits, devices[d]));
        }
    }
    training_destroy(t);
}

/* A gradient is wanted of nothing then. */
static void test_rules_that_leave_only_an_unused_branch_to_train_are_refused(void **state)
{
    (void)state;
    training *t = training_create();
    training_write(t, "a.model", text);
    training_set(t, "model", training_path(t, "a.model"));
    training_set(t, "data", "digits");
    training_set(t, "steps", "1");
    training_set(t, "rules", "*=freeze;lost/*=train;norm/*=train");
    assert_int_equal(training_run(t), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "--rules freeze all 8 parameters that the loss "
                                            "depends on"));
    training_set(t, "rules", "*=freeze;dense1/bias=train");
    training_must_run(t);
    training_destroy(t);
}

static void test_a_model_without_one_is_not_warned_of(void **state)
{
    (void)state;
    training *t = training_create();
    t->observer.note = keep_note;
    notes[0] = '\0';
    training_set(t, "model", "mlp");
    training_set(t, "data", "digits");
    training_set(t, "steps", "1");
    training_must_run(t);
    assert_null(strstr(notes, "depend"));
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_unused_branch_keeps_its_bytes_on_any_number_of_replicas),
        cmocka_unit_test(test_rules_that_leave_only_an_unused_branch_to_train_are_refused),
        cmocka_unit_test(test_a_model_without_one_is_not_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
