/* SPDX-License-Identifier: MIT */
/* test_cli_train.c -- training and continuing by command.
 *
 * What `train` says, the files that it leaves, and that their digests agree. Trainings are a few
 * steps of `linear` on the built-in digits.
 */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/command.h"

static void test_a_run_says_what_it_will_do_and_what_came_out(void **state)
{
    (void)state;
    expect("train linear --data digits --devices host:3 --epochs 2 --global-batch 100 --out r", 0);
    assert_string_equal(last.err, "");
    assert_null(strchr(last.out, '\033'));
    assert_null(strchr(last.out, '\r'));
    expect_text(row("replicas"), "3 on host:0, host:1, host:2 (--devices host:3)");
    expect_text(row("batch"), "global 100 = 25 + 37 + 38; 8 shards");
    expect_text(row("steps"), "15 an epoch; 30 in all");
    expect_text(row("exchange"), "ring");
    expect_text(row("numerics"), "f32");
    expect_text(row("epoch 1/2"), "val_accuracy");
    expect_text(row("epoch 2/2"), "val_accuracy");
    expect_text(row("last"), "epoch 2");
    expect_text(row("speed"), "2876 samples");
    expect_text(row("input"), "of 3 batches ready on average; 2 readers at work");
    expect_text(row("checkpoint"), "r/checkpoints/last.safetensors");
    expect_text(row("evaluate"), "lockstep eval r/checkpoints/last.safetensors --data digits");
    expect_text(row("continue"), "lockstep train --resume r --epochs 4");
}

static void test_what_to_do_next_can_be_typed_whatever_the_folder_is_called(void **state)
{
    (void)state;
    expect("train linear --data digits --steps 1 --out -dash", 0);
    expect_text(row("evaluate"), "lockstep eval ./-dash/checkpoints/last.safetensors --data");
    expect_text(row("continue"), "lockstep train --resume ./-dash --steps 2");
    expect("eval ./-dash/checkpoints/last.safetensors --data digits", 0);
    expect("train linear --data digits --steps 1 --out auto", 0);
    expect_text(row("continue"), "lockstep train --resume ./auto --steps 2");
    expect("train --resume ./auto --steps 2", 0);
}

/* Three in a second or two: the time alone does not tell them apart. */
static void test_runs_without_out_have_a_folder_each(void **state)
{
    (void)state;
    char folder[3][128];
    for (int i = 0; i < 3; i++) {
        expect("train linear --data digits --steps 1", 0);
        assert_int_equal(sscanf(row("run folder"), "%127s", folder[i]), 1);
        assert_memory_equal(folder[i], "runs/linear-", 12);
        for (int j = 0; j < i; j++) assert_string_not_equal(folder[i], folder[j]);
    }
}

static void test_a_yes_or_no_option_may_stand_alone(void **state)
{
    (void)state;
    static const struct {
        const char *option, *steps;
    } known[] = { { "--drop-remainder", "14 in all" },    { "--drop-remainder=no", "15 in all" },
                  { "--drop-remainder no", "15 in all" }, { "--drop-remainder yes", "14 in all" } };
    for (int i = 0; i < 4; i++) {
        char line[160];
        snprintf(line, sizeof line, "train linear %s --data digits --epochs 1 --global-batch 100 "
                 "--out r%d", known[i].option, i);
        expect(line, 0);
        expect_text(row("steps"), known[i].steps);
    }
}

static void test_the_digest_is_that_of_the_checkpoint_for_any_number_of_replicas(void **state)
{
    (void)state;
    char weights[3][65], shown[65];
    expect("train linear --data digits --devices host:1 --epochs 1 --out a", 0);
    digest_of("weights", weights[0]);
    expect("train linear --data digits --devices host:3 --threads 2 --epochs 1 --out b", 0);
    digest_of("weights", weights[1]);
    expect("train --config a/config.txt --devices host:2 --out c", 0);
    digest_of("weights", weights[2]);
    expect("show b --text", 0);
    expect_text(last.out, "\ninput   8x8x1\n"); /* as trained: what was `auto` has its size */
    assert_null(strstr(last.out, "weights"));
    expect("show b", 0);
    digest_of("weights", shown);
    assert_string_equal(weights[0], weights[1]);
    assert_string_equal(weights[0], weights[2]);
    assert_string_equal(weights[0], shown);
    expect("train linear --data digits --epochs 1 --seed 2 --out d", 0);
    digest_of("weights", weights[1]);
    assert_string_not_equal(weights[0], weights[1]);
}

static void test_a_run_that_was_continued_ends_in_the_bits_of_one_that_was_not(void **state)
{
    (void)state;
    char straight[2][65], resumed[2][65];
    expect("train linear --data digits --epochs 3 --out whole", 0);
    digest_of("weights", straight[0]);
    digest_of("optimizer", straight[1]);
    expect("train linear --data digits --steps 50 --out part", 0);
    expect("train --resume part --devices host:2 --steps 135", 0);
    expect_text(row("resumed"), "step 50");
    digest_of("weights", resumed[0]);
    digest_of("optimizer", resumed[1]);
    assert_string_equal(straight[0], resumed[0]);
    assert_string_equal(straight[1], resumed[1]);
    expect("train linear --data digits --out part", 2); /* not empty */
    expect_text(last.err, "--resume part");
    expect("train --resume part --seed 5 --steps 200", 2); /* would change bits */
    expect_text(last.err, "--seed 5");
}

/* How often `part` is in `text`. */
static int times(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) count++;
    return count;
}

/* Its log begins in the middle of an epoch, whose fifth and sixth step make no update: they have
 * the number of the fourth, but come after its checkpoint. */
static void test_a_run_continued_elsewhere_is_cut_at_its_checkpoint_too(void **state)
{
    (void)state;
    static char log[COMMAND_TEXT_BYTES];
    write_text("i.csv", "1,1\n1,1\n1,1\n1,1\n1,1e30\n1,1e30\n1,1\n1,1\n1,1\n");
    expect("train linear --data csv:i.csv,task=regress,test=none --global-batch 1 --shuffle no "
           "--optimizer sgd --nonfinite skip --steps 2 --out a", 0);
    expect("train --resume a --steps 6 --save-every 1 --out b", 0);
    for (int again = 0; again < 2; again++) {
        read_text("b/log.jsonl", log);
        assert_int_equal(times(log, "\n"), 6);
        assert_int_equal(times(log, "\"skipped\":true"), 2);
        assert_memory_equal(log, "{\"epoch\":1,\"step\":3,\"step_of_epoch\":3,", 38);
        expect("train --resume b/checkpoints/step-4.safetensors --steps 6", 0);
    }
}

/* It was ended before it could save: what it left, and where each message leads. */
static void test_a_run_without_a_checkpoint_is_started_anew_in_its_folder(void **state)
{
    (void)state;
    expect("train linear --data digits --epochs 1 --out r", 0);
    assert_int_equal(unlink("r/checkpoints/last.safetensors"), 0);
    assert_int_equal(unlink("r/checkpoints/best.safetensors"), 0);
    expect("train linear --data digits --epochs 1 --out r", 2);
    expect_text(last.err, "its run has no checkpoint yet; start it anew there with --resume auto");
    expect("train linear --data digits --epochs 1 --resume r", 3);
    expect_text(last.err, "--resume r: no checkpoints/last.safetensors");
    expect_text(last.err, "with --resume auto --out r");
    static const char *const commands[] = { "show", "eval", "predict" };
    for (int i = 0; i < 3; i++) {
        char line[32];
        snprintf(line, sizeof line, "%s r", commands[i]);
        expect(line, 3);
        expect_text(last.err, "lockstep: r: no checkpoints/last.safetensors in this folder");
    }
    expect("train linear --data digits --epochs 1 --out i --init r", 3);
    expect_text(last.err, "r: no checkpoints/last.safetensors in this folder");
    expect("train linear --data digits --epochs 1 --out r --resume auto", 0);
    expect("train --resume r/checkpoints", 3);
    expect_text(last.err, "--resume r/checkpoints: no checkpoints/last.safetensors in this folder, "
                "but r/checkpoints/last.safetensors: name that file, or the run's folder");
    expect("eval r/checkpoints", 3);
    expect_text(last.err, "lockstep: r/checkpoints: no checkpoints/last.safetensors in this "
                "folder, but r/checkpoints/last.safetensors");
    write_text("text", "");
    expect("train linear --data digits --epochs 1 --out .", 2);
    expect_text(last.err, "not empty, and not a run's");
}

static void test_a_run_folder_is_what_init_takes_too(void **state)
{
    (void)state;
    char folder[65], file[65];
    expect("train linear --data digits --epochs 1 --out r", 0);
    expect("train linear --data digits --epochs 1 --out a --init r", 0);
    digest_of("weights", folder);
    expect("train linear --data digits --epochs 1 --out b --init r/checkpoints/last.safetensors",
           0);
    digest_of("weights", file);
    assert_string_equal(folder, file);
}

static void test_a_run_that_has_done_more_than_is_asked_for_says_so_and_writes_nothing(void **state)
{
    (void)state;
    static char before[COMMAND_TEXT_BYTES], after[COMMAND_TEXT_BYTES];
    expect("train linear --data digits --epochs 3 --out r", 0);
    read_text("r/config.txt", before);
    expect("train --resume r --epochs 2", 0);
    expect_text(row("steps"), "45 an epoch; 135 done, 90 asked for: nothing to do\n");
    expect_text(last.out, "nothing to do, done before: 3 epochs, 135 steps\n");
    assert_null(strstr(last.out, "samples/s:"));
    read_text("r/config.txt", after);
    assert_string_equal(before, after);
    expect("train --resume r --steps 135 --out elsewhere", 2);
    expect_text(last.err, "there is nothing to write there");
    struct stat info;
    assert_int_equal(stat("elsewhere", &info), -1);
}

/* The line of a part of an epoch is none of a checkpoint's whole epochs. */
static void test_a_run_that_has_nothing_to_do_keeps_its_last_line(void **state)
{
    (void)state;
    static char before[COMMAND_TEXT_BYTES], after[COMMAND_TEXT_BYTES];
    expect("train linear --data digits --steps 50 --out r", 0);
    read_text("r/history.csv", before);
    assert_non_null(strstr(before, "\n2,50,"));
    expect("train --resume r", 0);
    read_text("r/history.csv", after);
    assert_string_equal(before, after);
    expect("train linear --data digits --steps 7 --until loss>=0 --out u", 0);
    read_text("u/history.csv", before);
    assert_non_null(strstr(before, "\n1,7,"));
    expect("train --resume u --steps 90", 0);
    read_text("u/history.csv", after);
    assert_string_equal(before, after);
}

static void test_a_damaged_best_is_called_damaged(void **state)
{
    (void)state;
    expect("train linear --data digits --epochs 2 --out r", 0);
    assert_int_equal(truncate("r/checkpoints/best.safetensors", 1000), 0);
    expect("train --resume r --epochs 3", 0);
    expect_text(last.err, "lockstep: warning: r/checkpoints/best.safetensors: ");
    expect_text(last.err, "damaged, and the best so far was in it, epoch 2; the next epoch that is "
                "better replaces it");
    expect("train linear --data digits --epochs 2 --save-every 50 --out s", 0);
    assert_int_equal(unlink("s/checkpoints/best.safetensors"), 0);
    expect("train --resume s --epochs 2", 0); /* the last epoch is the best: nothing is lost */
    assert_null(strstr(last.err, "best.safetensors"));
    assert_int_equal(unlink("s/checkpoints/best.safetensors"), 0);
    expect("train --resume s/checkpoints/step-50.safetensors --epochs 3", 0);
    expect_text(last.err, "there is no best.safetensors of epoch 1");
}

static void test_a_column_that_the_run_has_not_is_answered_with_those_that_it_has(void **state)
{
    (void)state;
    expect("train linear --data digits --metrics top2,f1 --monitor val_mse --out m", 2);
    expect_text(last.err, "(loss, top2, f1, and all with val_)");
    expect("train linear --data digits --metrics top2,f1 --monitor f1 --out m", 2);
    expect_text(last.err, "made for the test part alone, as val_f1");
}

/* The second epoch is not better by 5; with more epochs alone the run would end at once again. */
static void test_a_run_that_stopped_early_is_continued_with_more_patience(void **state)
{
    (void)state;
    expect("train linear --data digits --epochs 9 --early-stop 1 --min-delta 5 --out e", 0);
    expect_text(last.out, "stopped by --early-stop: 2 epochs");
    expect_text(row("continue"), "train --resume e --early-stop 2\n");
    expect("train --resume e --early-stop 2", 0);
    expect_text(last.out, "stopped by --early-stop: 3 epochs");
    expect("train linear --data digits --epochs 2 --early-stop 1 --min-delta 5 --out f", 0);
    expect_text(row("continue"), "train --resume f --early-stop 2 --epochs 4\n");
}

static void test_a_damaged_checkpoint_is_refused_with_its_exit_code(void **state)
{
    (void)state;
    expect("train linear --data digits --epochs 1 --out r", 0);
    const int fd = open("r/checkpoints/last.safetensors", O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "!", 1, 5000), 1);
    close(fd);
    expect("eval r", 3);
    expect("show r", 3);
    expect("train --resume r --epochs 2", 3);
    assert_int_equal(truncate("r/checkpoints/last.safetensors", 100), 0);
    expect("predict r", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_a_run_says_what_it_will_do_and_what_came_out),
        TEST_IN_FOLDER(test_what_to_do_next_can_be_typed_whatever_the_folder_is_called),
        TEST_IN_FOLDER(test_runs_without_out_have_a_folder_each),
        TEST_IN_FOLDER(test_a_yes_or_no_option_may_stand_alone),
        TEST_IN_FOLDER(test_the_digest_is_that_of_the_checkpoint_for_any_number_of_replicas),
        TEST_IN_FOLDER(test_a_run_that_was_continued_ends_in_the_bits_of_one_that_was_not),
        TEST_IN_FOLDER(test_a_run_continued_elsewhere_is_cut_at_its_checkpoint_too),
        TEST_IN_FOLDER(test_a_run_without_a_checkpoint_is_started_anew_in_its_folder),
        TEST_IN_FOLDER(test_a_run_folder_is_what_init_takes_too),
        TEST_IN_FOLDER(
            test_a_run_that_has_done_more_than_is_asked_for_says_so_and_writes_nothing),
        TEST_IN_FOLDER(test_a_run_that_has_nothing_to_do_keeps_its_last_line),
        TEST_IN_FOLDER(test_a_damaged_best_is_called_damaged),
        TEST_IN_FOLDER(test_a_column_that_the_run_has_not_is_answered_with_those_that_it_has),
        TEST_IN_FOLDER(test_a_run_that_stopped_early_is_continued_with_more_patience),
        TEST_IN_FOLDER(test_a_damaged_checkpoint_is_refused_with_its_exit_code),
    };
    return cmocka_run_group_tests(tests, find_program, NULL);
}
