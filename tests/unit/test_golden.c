/* SPDX-License-Identifier: MIT */
/* test_golden.c -- twenty losses of another implementation, from the same first weights.
 *
 * The numbers are Keras' (tests/golden/make_golden.py made them): an MLP on digits and cifar10-cnn on
 * synthetic pictures, with SGD, momentum and Adam, without and with L2. Both sides make weights and
 * pictures from the same Philox words. Relative agreement: 1e-4, after twenty updates.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "philox.h"
#include "support/training.h"

enum { STEPS = 20, BATCH = 32, RECORD_WORDS = 769, RECORD_BYTES = 3073, SEED = 1 };

static const struct golden {
    const char *model, *optimizer, *l2;
    double loss[STEPS];
} golden[] = {
#include "golden/losses.inc"
};

static const char mlp[] =
    "input 8x8x1\nflatten\ndense 64 relu\ndense 10\nloss softmax-crossentropy\n";

/* Record `i`, in the binary layout of CIFAR-10: label, then three planes. */
static void make_record(uint32_t i, unsigned char record[RECORD_BYTES])
{
    unsigned char raw[RECORD_WORDS * 4 + 12];
    for (uint32_t quad = 0; quad * 4 < RECORD_WORDS; quad++) {
        uint32_t word[4];
        ls_random_words(SEED, LS_RANDOM_AUGMENT, 0, 0, i, quad, word);
        for (unsigned b = 0; b < 16; b++)
            raw[quad * 16 + b] = (unsigned char)(word[b / 4] >> (8 * (b % 4)));
    }
    record[0] = (unsigned char)(raw[0] % 10);
    for (size_t p = 1; p < RECORD_BYTES; p++)
        record[p] = (unsigned char)(raw[3 + p] / 2 + 12 * record[0]);
}

static void write_pictures(training *t)
{
    unsigned char record[RECORD_BYTES];
    FILE *file = fopen(training_path(t, "data_batch_1.bin"), "wb");
    assert_non_null(file);
    for (uint32_t i = 0; i < STEPS * BATCH; i++) {
        make_record(i, record);
        assert_int_equal(fwrite(record, 1, sizeof record, file), sizeof record);
    }
    assert_int_equal(fclose(file), 0);
}

static training *golden_create(const char *model)
{
    training *t = training_create();
    char data[600];
    if (strcmp(model, "mlp") == 0) {
        training_write(t, "mlp.model", mlp);
        training_set(t, "model", training_path(t, "mlp.model"));
        training_set(t, "data", "digits");
    } else {
        write_pictures(t);
        snprintf(data, sizeof data, "cifar10:%s", t->folder);
        training_set(t, "model", "cifar10-cnn");
        training_set(t, "data", data);
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
                              : strcmp(run->optimizer, "momentum") == 0 ? "0.02" : "0.001");
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
