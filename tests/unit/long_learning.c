/* SPDX-License-Identifier: MIT */
/* long_learning.c -- networks learn real data as well as their recipes do elsewhere.
 *
 * The data are not ours to ship: the tests run where LOCKSTEP_TEST_DATA names a folder that has
 * them (docs/testing.md), on two replicas. Bounds are those of the same recipe in Keras and
 * scikit-learn, less what a seed can cost. digits-cnn, whose data are built in, always runs.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "support/training.h"

/* The folder of real data, or NULL after one line that says what is left out. */
static const char *real_data(const char *what)
{
    const char *folder = getenv("LOCKSTEP_TEST_DATA");
    if (!folder) print_message("left out: %s (LOCKSTEP_TEST_DATA is not set)\n", what);
    return folder;
}

static training *learner(const char *model, const char *epochs)
{
    training *t = training_create();
    training_set(t, "model", model);
    training_set(t, "global-batch", "64");
    training_set(t, "epochs", epochs);
    training_set(t, "devices", "host:2");
    training_set(t, "threads", "1");
    return t;
}

static void assert_accuracy(training *t, double least)
{
    training_must_run(t);
    print_message("%s: test accuracy %.4f\n", t->config.model, t->result.last.val_metric[0]);
    if (!(t->result.last.val_metric[0] >= least))
        fail_msg("test accuracy %.4f, expected %.2f", t->result.last.val_metric[0], least);
    training_destroy(t);
}

static void test_digits_cnn_reads_digits(void **state)
{
    (void)state;
    training *t = learner("digits-cnn", "12");
    training_set(t, "data", "digits");
    training_set(t, "global-batch", "32");
    assert_accuracy(t, 0.97);
}

static void test_cifar10_cnn_tells_pictures_apart(void **state)
{
    (void)state;
    const char *folder = real_data("CIFAR-10");
    if (!folder) return;
    training *t = learner("cifar10-cnn", "10");
    char data[600];
    snprintf(data, sizeof data, "cifar10:%s/cifar10-subset", folder);
    training_set(t, "data", data);
    training_set(t, "optimizer", "adam");
    training_set(t, "lr", "0.001");
    assert_accuracy(t, 0.50);
}

static void test_mnist_mlp_reads_handwriting(void **state)
{
    (void)state;
    const char *folder = real_data("MNIST");
    if (!folder) return;
    training *t = learner("mnist-mlp", "10");
    char data[600];
    snprintf(data, sizeof data, "idx:%s/mnist-subset", folder);
    training_set(t, "data", data);
    assert_accuracy(t, 0.94);
}

/* The set comes compressed; unpacked as the program's own message tells the user to. */
static void test_mnist_mlp_sorts_clothes(void **state)
{
    (void)state;
    const char *folder = real_data("Fashion-MNIST");
    if (!folder) return;
    static const char *const file[] = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" };
    training *t = learner("mnist-mlp", "10");
    char command[1200], data[600];
    for (int f = 0; f < 4; f++) {
        snprintf(command, sizeof command, "gunzip -c '%s/fashion-mnist-subset/%s.gz' > '%s/%s'",
                 folder, file[f], t->folder, file[f]);
        assert_int_equal(system(command), 0);
    }
    snprintf(data, sizeof data, "idx:%s", t->folder);
    training_set(t, "data", data);
    assert_accuracy(t, 0.83);
}

/* Copy lines [from, to) of `path` to `name` in the folder; counted from 0. */
static void copy_lines(training *t, const char *path, const char *name, long from, long to)
{
    char line[4096];
    FILE *in = fopen(path, "r"), *out = fopen(training_path(t, name), "w");
    assert_non_null(in);
    assert_non_null(out);
    for (long i = 0; i < to && fgets(line, sizeof line, in); i++)
        if (i >= from) assert_true(fputs(line, out) >= 0);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static void test_mlp_reads_letters(void **state)
{
    (void)state;
    const char *folder = real_data("letter recognition");
    if (!folder) return;
    training *t = learner("mlp", "20");
    char path[600], data[1200];
    snprintf(path, sizeof path, "%s/tabular/letter.csv", folder);
    copy_lines(t, path, "train.csv", 0, 16000);
    copy_lines(t, path, "test.csv", 16000, 20000);
    snprintf(data, sizeof data, "csv:%s,test=%s,scale=standard", training_path(t, "train.csv"),
             training_path(t, "test.csv"));
    training_set(t, "data", data);
    training_set(t, "optimizer", "momentum");
    training_set(t, "lr", "0.05");
    assert_accuracy(t, 0.93);
}

/* A linear model, full batch: the least squares that algebra gives, 2774.98. */
static void test_a_linear_model_finds_least_squares(void **state)
{
    (void)state;
    const char *folder = real_data("diabetes");
    if (!folder) return;
    training *t = learner("linear", "2000");
    char data[600];
    snprintf(data, sizeof data, "csv:%s/tabular/diabetes.csv,task=regress,scale=standard", folder);
    training_set(t, "data", data);
    training_set(t, "global-batch", "354");
    training_set(t, "optimizer", "adam");
    training_set(t, "lr", "1");
    training_set(t, "schedule", "cosine");
    training_must_run(t);
    print_message("diabetes: train mse %.2f\n", t->result.last.loss);
    assert_true(fabs(t->result.last.loss - 2774.98) <= 27.75);
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits_cnn_reads_digits),
        cmocka_unit_test(test_cifar10_cnn_tells_pictures_apart),
        cmocka_unit_test(test_mnist_mlp_reads_handwriting),
        cmocka_unit_test(test_mnist_mlp_sorts_clothes),
        cmocka_unit_test(test_mlp_reads_letters),
        cmocka_unit_test(test_a_linear_model_finds_least_squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
