/* SPDX-License-Identifier: MIT */
/* test_golden_resnet.c -- twenty steps of resnet20 beside Keras, and of the 16-bit classes.
 *
 * The losses are Keras' (tests/golden/make_resnet20.py made them), from the same first weights on
 * the same synthetic pictures in the same order, without augmentation; the script says why the rate
 * is small. Class f32 must agree to 1e-3, relative; classes bf16 and f16 must stay within 2e-2 of
 * our own f32, and be other classes.
 */
#include "support/test.h"

#include <math.h>

#include "support/training.h"

enum { STEPS = 20, BATCH = 16 };

static const double keras[STEPS] = {
#include "golden/resnet20.inc"
};

static void train_resnet(training *t, const char *precision, double loss[STEPS])
{
    training_set(t, "model", "resnet20");
    training_set(t, "data", training_pictures(t, STEPS * BATCH));
    training_set(t, "optimizer", "momentum");
    training_set(t, "lr", "0.0005");
    training_set(t, "shuffle", "no");
    training_set(t, "global-batch", "16");
    training_set(t, "steps", "20");
    training_set(t, "devices", "host:2");
    training_set(t, "precision", precision);
    training_must_run(t);
    for (int s = 0; s < STEPS; s++) loss[s] = t->step[s].loss;
}

/* Is every loss within `tolerance` of what is wanted, relative? The largest difference is said. */
static void check_losses(const char *what, const double got[STEPS], const double want[STEPS],
                         double tolerance)
{
    double most = 0;
    for (int s = 0; s < STEPS; s++) most = fmax(most, fabs(got[s] / want[s] - 1));
    assert_true(most > 0);
    print_message("%s: losses differ by at most %.2g\n", what, most);
    for (int s = 0; s < STEPS; s++)
        if (!(fabs(got[s] - want[s]) <= tolerance * want[s]))
            fail_msg("%s: step %d: loss %.9g, expected %.9g", what, s + 1, got[s], want[s]);
}

static void test_resnet20_learns_as_keras_does_and_with_16_bits_nearly_so(void **state)
{
    (void)state;
    training *t = training_create();
    double whole[STEPS], narrow[STEPS];
    train_resnet(t, "f32", whole);
    check_losses("f32 and Keras", whole, keras, 1e-3);
    train_resnet(t, "bf16", narrow);
    check_losses("bf16 and f32", narrow, whole, 2e-2);
    train_resnet(t, "f16", narrow);
    check_losses("f16 and f32", narrow, whole, 2e-2);
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resnet20_learns_as_keras_does_and_with_16_bits_nearly_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
