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
    expect_text(last.err, " of 36: not finite, no update (1 in all); told again at each power of "
                "ten; log.jsonl marks each\n");
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

static void test_what_is_odd_in_the_data_is_said_once(void **state)
{
    (void)state;
    write_text("odd.csv", "1,0\n2,1\nx,1\n4,0\n5,1\n6,0\n");
    expect("data verify csv:odd.csv,bad=skip", 0);
    expect_text(last.out, "warning: skipped 1 bad record in all");
    assert_string_equal(last.err, "");
    expect("train linear --data csv:odd.csv,bad=skip --epochs 1 --out odd", 0);
    expect_text(last.err, "lockstep: warning: skipped: odd.csv: line 3");
    expect_text(last.err, "lockstep: warning: skipped 1 bad record in all");
}

static void test_weights_that_are_all_zero_are_warned_of(void **state)
{
    (void)state;
    write_text("zero.csv", "1,0,0\n2,1,0\n3,0,-0\n");
    write_text("one.csv", "1,0,0\n2,1,0\n3,0,1e-9\n");
    expect("data verify csv:zero.csv,label=2,weights=3,test=none", 0);
    expect_text(last.out, "warning: train: all sample weights are 0: nothing can be learned\n");
    expect("data verify csv:one.csv,label=2,weights=3,test=none", 0);
    assert_null(strstr(last.out, "warning"));
}

static void test_an_option_that_does_nothing_is_warned_of(void **state)
{
    (void)state;
    expect("train linear --data digits --steps 1 --momentum 0.9 --keep 3 --plateau-min 0.1 --out i",
           0);
    expect_text(last.err, "lockstep: warning: --momentum 0.9 does nothing without --optimizer "
                "momentum or nesterov\n");
    expect_text(last.err, "warning: --keep 3 does nothing without --save-every\n");
    expect_text(last.err, "warning: --plateau-min 0.1 does nothing without --plateau\n");
    expect("train linear --data digits --steps 1 --optimizer nesterov --momentum 0.8 --keep 3 "
           "--save-every 1 --plateau 1 --plateau-min 0.1 --out j", 0);
    assert_string_equal(last.err, "");
    expect("train --config j/config.txt --out k", 0); /* every option is given, as it was */
    assert_string_equal(last.err, "");
    expect("train --config i/config.txt --out l", 0);
    assert_int_equal(times(last.err, "does nothing"), 2); /* that of 0.9 is the default */
    expect("train --resume i --steps 2", 0);
    assert_int_equal(times(last.err, "does nothing"), 2);
}

static void test_a_rate_beside_a_table_of_rates_is_warned_of(void **state)
{
    (void)state;
    expect("train linear --data digits --steps 1 --optimizer sgd --lr 0.5 --schedule table:0.1 "
           "--out b", 0);
    expect_text(last.err, "lockstep: warning: --lr 0.5 does nothing without another --schedule "
                "than a table\n");
    expect("train linear --data digits --steps 1 --optimizer sgd --schedule table:0.1 --out n", 0);
    assert_string_equal(last.err, "");
    expect("train --config n/config.txt --out o", 0); /* gives the default of sgd */
    assert_string_equal(last.err, "");
    expect("train --resume n --steps 2", 0);
    assert_string_equal(last.err, "");
}

static void test_a_sigmoid_before_a_crossentropy_is_warned_of(void **state)
{
    (void)state;
    write_text("two.csv", "1,0\n2,1\n3,0\n4,1\n");
    write_text("twice.model", "input 1\ndense 1\nsigmoid\nloss sigmoid-crossentropy\n");
    write_text("hidden.model",
               "input 1\ndense 1\nsigmoid\ndense 1\nloss sigmoid-crossentropy\n");
    expect("train twice.model --data csv:two.csv,test=none --epochs 1 --out t", 0);
    expect_text(last.err, "lockstep: warning: the last layer, 'sigmoid1' in line 3 of the model, "
                "is a sigmoid, and 'sigmoid-crossentropy' applies its own");
    expect("train hidden.model --data csv:two.csv,test=none --epochs 1 --out h", 0);
    assert_string_equal(last.err, "");
}

static void test_statistics_of_one_sample_are_warned_of(void **state)
{
    (void)state;
    write_text("dense.model", "input auto\nflatten\ndense 4\nbatchnorm\ndense auto\n"
               "loss softmax-crossentropy\n");
    write_text("image.model", "input auto\nbatchnorm\nflatten\ndense auto\n"
               "loss softmax-crossentropy\n");
    const char *line = "train dense.model --data digits --steps 1 --batchnorm shard "
                       "--global-batch 8 --out a";
    expect(line, 0);
    expect_text(last.err, "lockstep: warning: layer 'batchnorm1', line 4 of the model, takes "
                "statistics of one sample, so its output is beta whatever the input: give a shard "
                "several (--global-batch, --shards)\n");
    expect("train dense.model --data digits --steps 1 --global-batch 1 --out b", 0);
    expect_text(last.err, "give a batch several (--global-batch)\n");
    expect("train dense.model --data digits --steps 1 --batchnorm shard --global-batch 9 --out c",
           0);
    assert_string_equal(last.err, "");
    expect("train dense.model --data digits --steps 1 --global-batch 2 --out d", 0);
    assert_string_equal(last.err, "");
    expect("train image.model --data digits --steps 1 --batchnorm shard --global-batch 8 --out e",
           0);
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

static void test_more_epochs_than_a_cosine_has_are_warned_of(void **state)
{
    (void)state;
    expect("train linear --data digits --epochs 1 --schedule cosine --out c", 0);
    assert_string_equal(last.err, "");
    expect("train --resume c --epochs 2", 0);
    expect_text(last.err, "lockstep: warning: the learning rate of all steps to come is 0");
    expect("train --resume c --epochs 2", 0); /* and there are none */
    assert_string_equal(last.err, "");
    expect("train linear --data digits --steps 3 --schedule table:0,0.1,0 --out d", 0);
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
    fprintf(file, "\x93NUMPY\x01%cv%c%-117s\n", 0, 0,
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }");
    fwrite(nan, 1, sizeof nan, file);
    assert_int_equal(fclose(file), 0);
    expect("data verify npy:x.npy,x.npy", 3);
    expect_text(last.err, ": nan, expected a finite 32-bit number");
}

/* No message of these runs, each of one thing, has a number 1 before a plural. */
static void test_one_thing_is_not_many(void **state)
{
    (void)state;
    static const char *const plural[] = { " 1 classes", " 1 samples", " 1 shards", " 1 tensors",
                                          " 1 numbers", " 1 steps", " 1 updates", " 1 records",
                                          " 1 test samples", " 1 parameters", " 1 rates",
                                          " 1 labels", " 1 ranks", " 1 replicas",
                                          " 1 repetitions", " 1 floats" };
    write_text("one.csv", "1,0\n");
    write_text("other.csv", "2,0\n");
    write_text("three.csv", "1,3\n");
    write_text("three.model", "input 1\ndense 4\nloss softmax-crossentropy\n");
    write_text("one.model", "input 1\ndense 1 bias=no\nloss softmax-crossentropy\n");
    static const struct {
        const char *line;
        int code;
        const char *says;
    } run[] = {
        { "train one.model --data csv:one.csv,test=other.csv --epochs 1 --shards 1 --out a", 0,
          "1 training and 1 test sample of 1 number, 1 class\n" },
        { "show a", 0, "step        1 update;" },
        { "train one.model --data csv:one.csv,test=none --steps 1 --shards 1 --explain-step 1 "
          "--out g", 0, "  rank 0 owns shard 0: 1 sample\n" },
        { "train three.model --data csv:three.csv,test=none --epochs 1 --out h", 0,
          "1 training sample of 1 number, 4 classes\n" },
        { "data verify csv:one.csv,test=other.csv", 0,
          "1 number per sample, 1 class, 1 train and 1 test sample\n" },
        { "show one.model --devices host:1 --shards 1", 0, "1 in 1 tensor\n" },
        { "predict a --data csv:one.csv,test=none --out p.csv", 0,
          "1 sample of the train part, 1 number each" },
        { "train one.model --data csv:one.csv,test=none --steps 1 --schedule cosine --out b", 0,
          "cosine over 1 update to" },
        { "train one.model --data csv:one.csv,test=none --steps 1 --schedule step:1,0.5 --out c",
          0, "every 1 update\n" },
        { "train one.model --data csv:one.csv,test=none --epochs 1 --rules *=freeze --out d", 2,
          "freeze all 1 parameter that" },
        { "train one.model --data csv:one.csv,test=none --drop-remainder --out e", 2,
          "1 training sample does not fill one batch" },
        { "train one.model --data csv:one.csv,test=none --devices host:2 --shards 1 --out f", 2,
          "only 1 shard to share" },
        { "bench step one.model --data csv:one.csv,test=none --steps 1 --settle 1 --repeat 1", 0,
          "1 repetition\n" },
        { "bench allreduce --devices host:1 --shards 1 --max 4K --iterations 1 --offset 1", 0,
          "1 replica (" },
    };
    for (size_t i = 0; i < sizeof run / sizeof run[0]; i++) {
        expect(run[i].line, run[i].code);
        expect_text(run[i].code == 0 ? last.out : last.err, run[i].says);
        for (size_t p = 0; p < sizeof plural / sizeof plural[0]; p++)
            if (strstr(last.out, plural[p]) || strstr(last.err, plural[p]))
                fail_msg("lockstep %s:%s\n%s%s", run[i].line, plural[p], last.out, last.err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_of_many_steps_that_are_not_finite_a_few_are_told_by_their_place),
        TEST_IN_FOLDER(test_a_run_that_gives_up_says_after_how_many_steps),
        TEST_IN_FOLDER(test_what_is_odd_in_the_data_is_said_once),
        TEST_IN_FOLDER(test_weights_that_are_all_zero_are_warned_of),
        TEST_IN_FOLDER(test_an_option_that_does_nothing_is_warned_of),
        TEST_IN_FOLDER(test_a_rate_beside_a_table_of_rates_is_warned_of),
        TEST_IN_FOLDER(test_a_sigmoid_before_a_crossentropy_is_warned_of),
        TEST_IN_FOLDER(test_statistics_of_one_sample_are_warned_of),
        TEST_IN_FOLDER(test_a_warm_up_that_the_run_does_not_outlast_is_warned_of),
        TEST_IN_FOLDER(test_more_epochs_than_a_cosine_has_are_warned_of),
        TEST_IN_FOLDER(test_an_until_that_was_not_reached_is_told_of),
        TEST_IN_FOLDER(test_a_nan_is_printed_without_a_sign),
        TEST_IN_FOLDER(test_one_thing_is_not_many),
    };
    return cmocka_run_group_tests(tests, find_program, NULL);
}
