/* SPDX-License-Identifier: MIT */
/* long_resnet.c -- resnet20 learns photographs, in float32 and in 16 bits.
 *
 * 8 epochs of 10,000 pictures with augmentation, on two replicas. The bound is far above what
 * cifar10-cnn reaches in 10 epochs (0.54, long_learning.c) and below what this recipe gave by more
 * than a seed can cost; docs/experiments.md has its figures. In 16 bits the first epoch is run, at
 * the same rates, and its loss compared: rounding changes the path of a training as another seed
 * does, not where it leads. (All 8 epochs in 16 bits are on that page, too.)
 *
 * The data are not ours to ship: the test runs where LOCKSTEP_TEST_DATA names a folder that has
 * them (docs/testing.md).
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "support/training.h"

static const double least = 0.62;   /* test accuracy */
static const double noise = 0.03;   /* of an epoch's loss, as a part of it */

static training *resnet(const char *folder, const char *precision, const char *epochs)
{
    training *t = training_create();
    char data[600];
    snprintf(data, sizeof data, "cifar10:%s/cifar10-subset", folder);
    training_set(t, "model", "resnet20");
    training_set(t, "data", data);
    training_set(t, "augment", "crop:4,flip");
    training_set(t, "global-batch", "64");
    training_set(t, "epochs", epochs);
    training_set(t, "optimizer", "nesterov");
    training_set(t, "lr", "0.05");
    training_set(t, "warmup", "100");
    training_set(t, "schedule", "cosine:1156"); /* the rest of 8 epochs of 157 updates */
    training_set(t, "l2", "0.00025");
    training_set(t, "precision", precision);
    training_set(t, "devices", "host:2");
    training_set(t, "threads", "1");
    training_set(t, "timeout", "600");
    return t;
}

static void test_resnet20_tells_pictures_apart_in_32_and_in_16_bits(void **state)
{
    (void)state;
    const char *folder = getenv("LOCKSTEP_TEST_DATA");
    if (!folder) {
        print_message("left out: CIFAR-10 (LOCKSTEP_TEST_DATA is not set)\n");
        return;
    }
    training *t = resnet(folder, "f32", "8");
    training_must_run(t);
    const double f32 = t->epoch[0].loss, accuracy = t->result.last.val_metric[0];
    print_message("resnet20: test accuracy %.4f\n", accuracy);
    training_destroy(t);
    if (!(accuracy >= least)) fail_msg("test accuracy %.4f, expected %.2f", accuracy, least);
    static const char *const precision[] = { "bf16", "f16" };
    for (int p = 0; p < 2; p++) {
        t = resnet(folder, precision[p], "1");
        training_must_run(t);
        const double loss = t->epoch[0].loss;
        print_message("%s: loss of epoch 1 %.4f, in f32 %.4f\n", precision[p], loss, f32);
        training_destroy(t);
        if (!(fabs(loss - f32) <= noise * f32))
            fail_msg("%s: loss of epoch 1 %.4f, in f32 %.4f", precision[p], loss, f32);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resnet20_tells_pictures_apart_in_32_and_in_16_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
