/* SPDX-License-Identifier: MIT */
/* test_cli_verify.c -- the rungs of `lockstep verify`: what each says, and when it fails.
 */
#include "support/test.h"

#include <stdio.h>
#include <sys/stat.h>

#include "support/command.h"

static void test_verify_climbs_the_ladder(void **state)
{
    (void)state;
    expect("verify linear --data digits --devices host:3 --epochs 1 --repeat 2", 0);
    expect_text(last.out, "verified: 8 of 8 comparisons have the same bits");
    expect_text(last.out, "speed-up");
    expect_text(last.out, "kernels");
    assert_null(strstr(last.out, "DIFFERENT"));
    expect_text(last.out, ", spread ");
    expect("verify linear --data digits --epochs 1 --repeat 1 --out kept", 0);
    assert_null(strstr(last.out, "spread")); /* of one run there is none */
    /* The plain ring adds in an order that depends on N: the bits differ, and it must be seen. */
    expect("verify linear --data digits --devices host:3 --epochs 1 --repeat 1 --order fast", 4);
    expect_text(last.out, "DIFFERENT");
    expect_text(last.err, "comparisons differ, first: ");
    struct stat info;
    assert_int_equal(stat("kept/run-1/checkpoints/last.safetensors", &info), 0);
}

static void expect_row(const char *name, const char *text)
{
    const char *found = row(name);
    if (strncmp(found, text, strlen(text)) != 0)
        fail_msg("%s: found %.40s, expected %s", name, found, text);
}

/* What rung 5 trains is what its options say, typed by hand. */
static void test_verify_sets_a_larger_batch_beside_the_fixed_one(void **state)
{
    (void)state;
    char loss[8], digest[65];
    expect("verify linear --data digits --epochs 2 --repeat 1 --out kept", 0);
    expect_row("global batch", "32          128\n");
    expect_row("epochs", "2            2\n");
    expect_row("updates", "90           24\n");
    expect_row("of warm-up", "0            3\n");
    expect_row("highest rate", "0.001        0.004\n");
    expect_text(last.out, "two different trainings");
    snprintf(loss, sizeof loss, "%.6s", strchr(row("val_loss"), ' ') + 7);
    expect("train linear --data digits --epochs 2 --global-batch 128 --lr-scale linear "
           "--base-batch 32 --warmup 3 --out same", 0);
    digest_of("weights", digest);
    expect("show kept/run-3/checkpoints/last.safetensors", 0);
    expect_text(last.out, digest);
    expect("eval same", 0);
    expect_text(last.out, loss);
}

static void test_verify_divides_counts_of_updates_by_the_larger_batch(void **state)
{
    (void)state;
    expect("verify linear --data digits --steps 10 --repeat 1 --scale-batch 3 --warmup 4 "
           "--schedule table:0=0.1,4=0.2,5=0.3 --lr-scale linear --base-batch 16 --out kept", 0);
    expect_row("global batch", "32           96\n");
    expect_row("updates", "10            4\n");
    expect_row("of warm-up", "4            2\n");
    expect_row("highest rate", "0.6          1.8\n");
    read_text("kept/run-3/config.txt", last.out);
    expect_row("schedule", "table:0.1,0.3\n");
    expect_row("base-batch", "16\n");
}

static void test_verify_goes_on_without_the_larger_batch(void **state)
{
    (void)state;
    expect("verify linear --data digits --steps 2 --repeat 1 --scale-batch 0", 0);
    expect_text(last.out, "left out (--scale-batch 0)");
    expect("verify linear --data digits --steps 2 --repeat 1 --scale-batch 45", 0);
    expect_text(last.out, "left out: 45 x 32 is more than the 1438 training samples");
    /* Weights are multiplied by 1 - rate: by 0 with the fixed batch, by -7 with the larger one. */
    expect("verify linear --data digits --epochs 12 --repeat 1 --scale-batch 8 --optimizer sgd "
           "--lr 1 --weight-decay 1", 0);
    expect_text(last.out, "global batch 256, learning rate up to 8: ");
    expect_text(last.out, "verified: 6 of 6");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_verify_climbs_the_ladder),
        TEST_IN_FOLDER(test_verify_sets_a_larger_batch_beside_the_fixed_one),
        TEST_IN_FOLDER(test_verify_divides_counts_of_updates_by_the_larger_batch),
        TEST_IN_FOLDER(test_verify_goes_on_without_the_larger_batch),
    };
    return cmocka_run_group_tests(tests, find_program, NULL);
}
