/* SPDX-License-Identifier: MIT */
/* test_cli_notes.c -- what a run says by the way: how often, and that it can be understood.
 *
 * Trainings are a few steps on files of a few lines.
 */
#include "support/test.h"

#include <stdio.h>

#include "support/command.h"

/* How often `part` is in `text`. */
static int times(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) count++;
    return count;
}

/* A file of `lines` lines "1,<y>" whose every third `y` makes a loss that is not finite. */
static void write_third_infinite(const char *path, int lines)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < lines; i++) fprintf(file, "1,%s\n", i % 3 == 2 ? "1e30" : "1");
    assert_int_equal(fclose(file), 0);
}

static void test_of_many_steps_that_are_not_finite_a_few_are_told_by_their_place(void **state)
{
    (void)state;
    write_third_infinite("third.csv", 36);
    const char *line = "train linear --data csv:third.csv,task=regress,test=none"
                       " --global-batch 1 --epochs 9 --nonfinite skip --optimizer sgd --lr 0.001"
                       " --devices host:2 --out s";
    expect(line, 0);
    expect_text(last.err, "lockstep: epoch 1, step ");
    expect_text(last.err, " of 36: not finite, no update (1 in all); told again at 10, 100, 1000; "
                "log.jsonl marks each\n");
    expect_text(last.err, " of 36: not finite, no update (10 in all)\n");
    expect_text(last.err, "of 36: not finite, no update (100 in all)\n");
    expect_text(last.err, "lockstep: 108 steps in all were not finite and made no update\n");
    assert_int_equal(times(last.err, "not finite"), 4);
}

static void test_a_run_that_gives_up_says_after_how_many_steps(void **state)
{
    (void)state;
    write_text("bad.csv", "1,1e30\n1,1e30\n");
    expect("train linear --data csv:bad.csv,task=regress,test=none --global-batch 1 --epochs 99 "
           "--nonfinite skip --out b", 1);
    expect_text(last.err, "step 1: after 100 in a row that were not finite, the loss is inf");
}

static void test_a_sigmoid_before_a_crossentropy_is_warned_of(void **state)
{
    (void)state;
    write_text("two.csv", "1,0\n2,1\n3,0\n4,1\n");
    write_text("twice.model", "input 1\ndense 1\nsigmoid\nloss sigmoid-crossentropy\n");
    write_text("hidden.model", "input 1\ndense 1\nsigmoid\ndense 1\nloss sigmoid-crossentropy\n");
    expect("train twice.model --data csv:two.csv,test=none --epochs 1 --out t", 0);
    expect_text(last.err, "lockstep: warning: the last layer, 'sigmoid1' in line 3 of the model, is "
                "a sigmoid, and 'sigmoid-crossentropy' applies its own");
    expect("train hidden.model --data csv:two.csv,test=none --epochs 1 --out h", 0);
    assert_string_equal(last.err, "");
}

static void test_a_warm_up_that_the_run_does_not_outlast_is_warned_of(void **state)
{
    (void)state;
    expect("train linear --data digits --steps 4 --warmup 5 --out w", 0);
    expect_text(last.err, "lockstep: warning: --warmup 5: the run has 4 updates, and ends before "
                "the rate has risen to --lr\n");
    expect("train linear --data digits --steps 5 --warmup 5 --out e", 0);
    assert_string_equal(last.err, "");
}

static void test_an_until_that_was_not_reached_is_told_of(void **state)
{
    (void)state;
    expect("train linear --data digits --epochs 1 --until val_accuracy>=1 --out u", 0);
    expect_text(last.out, "done: 1 epoch");
    expect_text(row("until"), "val_accuracy>=1 was not reached: 0.");
    expect("train linear --data digits --epochs 1 --until val_accuracy>=0 --out v", 0);
    expect_text(last.out, "reached what --until asked for: 1 epoch");
    assert_null(strstr(last.out, "\n  until"));
}

/* A loss of inf - inf, whose sign bit is the machine's; then what eval and predict make of such
 * numbers, and a file that holds one. */
static void test_a_nan_is_printed_without_a_sign(void **state)
{
    (void)state;
    static const unsigned char nan[] = { 0x00, 0x00, 0xc0, 0xff };
    char table[COMMAND_TEXT_BYTES];
    write_text("huge.model", "input 1\ndense 2 init=constant:100\nloss softmax-crossentropy\n");
    write_text("huge.csv", "3e38,0\n3e38,1\n");
    write_text("small.csv", "1,0\n2,1\n");
    expect("train huge.model --data csv:huge.csv,test=none --epochs 1 --out h", 1);
    expect_text(last.err, "step 1: the loss is nan: the output of layer dense1 is the first");
    expect("train huge.model --data csv:small.csv,test=none --epochs 1 --out s", 0);
    expect("eval s --data csv:huge.csv,test=none", 0);
    assert_null(strstr(last.out, "-nan"));
    expect("predict s --data csv:huge.csv,test=none --out p.csv", 0);
    read_text("p.csv", table);
    assert_null(strstr(table, "-nan"));
    FILE *file = fopen("x.npy", "wb");
    assert_non_null(file);
    fprintf(file, "\x93NUMPY\x01%cv%c{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }%*s\n",
            0, 0, 58, "");
    fwrite(nan, 1, sizeof nan, file);
    assert_int_equal(fclose(file), 0);
    expect("data verify npy:x.npy,x.npy", 3);
    expect_text(last.err, ": nan, expected a finite 32-bit number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_of_many_steps_that_are_not_finite_a_few_are_told_by_their_place),
        TEST_IN_FOLDER(test_a_run_that_gives_up_says_after_how_many_steps),
        TEST_IN_FOLDER(test_a_sigmoid_before_a_crossentropy_is_warned_of),
        TEST_IN_FOLDER(test_a_warm_up_that_the_run_does_not_outlast_is_warned_of),
        TEST_IN_FOLDER(test_an_until_that_was_not_reached_is_told_of),
        TEST_IN_FOLDER(test_a_nan_is_printed_without_a_sign),
    };
    return cmocka_run_group_tests(tests, find_program, NULL);
}
