/* SPDX-License-Identifier: MIT */
/* test_golden.c -- twenty losses of another implementation, from the same first weights.
 *
 * The numbers are Keras' (tests/golden/make_golden.py made them): an MLP on digits and cifar10-cnn
 * on synthetic pictures, with SGD, momentum and Adam, without and with L2, the MLP with the other
 * optimizers as well. Both sides make weights and pictures from the same Philox words. Relative
 * agreement: 1e-4, after twenty updates.
 */
#include "support/test.h"

#include <math.h>

#include "support/training.h"

enum { STEPS = 20, BATCH = 32 };

static const struct golden {
    const char *model, *optimizer, *l2;
    double loss[STEPS];
} golden[] = {
#include "golden/losses.inc"
};

static const char mlp[] =
    "input 8x8x1\nflatten\ndense 64 relu\ndense 10\nloss softmax-crossentropy\n";

static training *golden_create(const char *model)
{
    training *t = training_create();
    if (strcmp(model, "mlp") == 0) {
        training_write(t, "mlp.model", mlp);
        training_set(t, "model", training_path(t, "mlp.model"));
        training_set(t, "data", "digits");
    } else {
        training_set(t, "model", "cifar10-cnn");
        training_set(t, "data", training_pictures(t, STEPS * BATCH));
    }
    return t;
}

static void check_runs(const char *model)
{
    training *t = golden_create(model);
    for (size_t g = 0; g < sizeof golden / sizeof golden[0]; g++) {
        const struct golden *run = &golden[g];
        if (strcmp(run->model, model) != 0) continue;
        training_reset(t);
        training_set(t, "optimizer", run->optimizer);
        training_set(t, "lr", strcmp(run->optimizer, "sgd") == 0 ? "0.05"
                              : strcmp(run->optimizer, "momentum") == 0 ? "0.02"
                              : strcmp(run->optimizer, "nesterov") == 0 ? "0.02" : "0.001");
        training_set(t, "l2", run->l2);
        training_set(t, "shuffle", "no");
        training_set(t, "global-batch", "32");
        training_set(t, "steps", "20");
        training_set(t, "devices", g % 2 ? "host:2" : "host:1");
        training_must_run(t);
        for (int s = 0; s < STEPS; s++)
            if (!(fabs(t->step[s].loss - run->loss[s]) <= 1e-4 * run->loss[s]))
                fail_msg("%s, %s, l2 %s, step %d: loss %.9g, Keras has %.9g", run->model,
                         run->optimizer, run->l2, s + 1, t->step[s].loss, run->loss[s]);
    }
    training_destroy(t);
}

static void test_an_mlp_learns_as_keras_does(void **state)
{
    (void)state;
    check_runs("mlp");
}

static void test_a_cnn_learns_as_keras_does(void **state)
{
    (void)state;
    check_runs("cnn");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_mlp_learns_as_keras_does),
        cmocka_unit_test(test_a_cnn_learns_as_keras_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
