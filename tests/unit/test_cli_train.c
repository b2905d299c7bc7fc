/* SPDX-License-Identifier: MIT */
/* test_cli_train.c -- training, continuing, evaluating and predicting by command.
 *
 * What these commands say, the files that they leave, and that their digests agree. Trainings are a
 * few steps of `linear` on the built-in digits.
 */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
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

static void test_an_option_that_does_nothing_is_warned_of(void **state)
{
    (void)state;
    expect("train linear --data digits --steps 1 --momentum 0.8 --keep 3 --plateau-min 0.1 --out i",
           0);
    expect_text(last.err, "lockstep: warning: --momentum 0.8 does nothing without --optimizer "
                "momentum or nesterov\n");
    expect_text(last.err, "warning: --keep 3 does nothing without --save-every\n");
    expect_text(last.err, "warning: --plateau-min 0.1 does nothing without --plateau\n");
    expect("train linear --data digits --steps 1 --optimizer nesterov --momentum 0.8 --keep 3 "
           "--save-every 1 --plateau 1 --plateau-min 0.1 --out j", 0);
    assert_string_equal(last.err, "");
    expect("train --config j/config.txt --out k", 0); /* every option is given, as it was */
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

static void test_eval_and_predict_agree_for_any_number_of_replicas(void **state)
{
    (void)state;
    char first[COMMAND_TEXT_BYTES];
    expect("train linear --data digits --epochs 1 --out r", 0);
    expect("eval r", 0);
    snprintf(first, sizeof first, "%s", last.out);
    expect_text(row("samples"), "359");
    const double accuracy = strtod(row("accuracy"), NULL);
    expect("eval r/checkpoints/last.safetensors --data digits --devices host:3", 0);
    assert_string_equal(last.out, first);

    expect("predict r --devices host:2", 0);
    int right = 0, rows = 0, label, predicted, index;
    char *line = strchr(last.out, '\n') + 1;
    assert_true(strncmp(last.out, "index,label,predicted,p_0", 25) == 0);
    for (; sscanf(line, "%d,%d,%d,", &index, &label, &predicted) == 3; rows++) {
        assert_int_equal(index, rows);
        right += label == predicted;
        line = strchr(line, '\n') + 1;
    }
    assert_int_equal(rows, 359);
    assert_true(accuracy == (double)right / 359);
    expect("predict r --part train --out p.npy", 0);
    read_text("p.npy", first);
    assert_memory_equal(first, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, "
                        "'shape': (1438, 10), }", 10 + 60);
    struct stat info;
    assert_int_equal(stat("p.npy", &info), 0);
    assert_int_equal(info.st_size, 128 + 1438 * 10 * 4);
    expect("eval r --part tests", 2);
}

/* How often `lockstep line` opens the file at `path`. */
static int count_openings(const char *line, const char *path)
{
    enum { EVENT_BYTES = sizeof(struct inotify_event) }; /* of a file itself: no name follows */
    unsigned char events[64 * EVENT_BYTES];
    int openings = 0;
    const int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0) skip();
    assert_true(inotify_add_watch(fd, path, IN_OPEN | IN_CLOSE) >= 0);
    expect(line, 0);
    const ssize_t bytes = read(fd, events, sizeof events);
    close(fd);
    assert_true(bytes > 0 && (size_t)bytes < sizeof events);
    for (ssize_t at = 0; at < bytes; at += EVENT_BYTES) {
        struct inotify_event event;
        memcpy(&event, events + at, sizeof event);
        openings += (event.mask & IN_OPEN) != 0;
    }
    return openings;
}

static void test_predict_opens_the_data_once_as_eval_does(void **state)
{
    (void)state;
    write_text("m.csv", "-1,0\n-2,0\n1,1\n2,1\n");
    expect("train linear --data csv:m.csv,test=none --epochs 1 --out m", 0);
    const int once = count_openings("eval m", "m.csv");
    assert_int_equal(count_openings("predict m", "m.csv"), once);
    expect("train linear --data csv:m.csv,task=regress,test=none --epochs 1 --out n", 0);
    assert_int_equal(count_openings("predict n", "m.csv"), once);
    assert_int_equal(strncmp(last.out, "index,target_0,predicted_0\n0,0,", 31), 0);
}

/* Classes 0 0 1 1 by the sign of the only field; the two last lines are test and told wrongly by
 * any line through 0: their confusion is certain. */
static void test_eval_prints_the_metrics_that_it_is_asked_for(void **state)
{
    (void)state;
    write_text("m.csv", "-1,0\n-2,0\n1,1\n2,1\n");
    write_text("m-test.csv", "-1,0\n-2,0\n-3,1\n1,1\n2,0\n3,2\n");
    expect("train linear --data csv:m.csv,test=m-test.csv --epochs 20 --lr 1 --optimizer sgd "
           "--metrics accuracy,f1 --out m", 0);
    expect("eval m", 0);
    expect_text(row("accuracy"), "0.5");
    assert_true(strtod(row("f1"), NULL) > 0.35); /* 4/6, 2/5 and 0 of three classes */
    expect("eval m --metrics top2,recall --confusion", 0);
    assert_null(strstr(last.out, "accuracy"));
    const double recall = strtod(row("recall"), NULL); /* 2/3, 1/2 and 0 of three classes */
    assert_true(recall > 0.38888 && recall < 0.38889);
    expect_text(last.out, "confusion   a row per label, a column per prediction\n"
                          "  0 1 2\n0 2 1 0\n1 1 1 0\n2 0 1 0\n");
    assert_string_equal(last.err, "");
    expect("eval m --data csv:m.csv", 0);
    expect_text(last.err, "lockstep: warning: csv:m.csv is not the data of the training run (");
    expect("eval m --metrics top4", 2);
    expect("eval m --metrics r2", 2);
    expect("train linear --data csv:m.csv,task=regress --epochs 1 --out n", 0);
    expect("eval n --confusion", 2);
    expect_text(last.err, "--confusion: the data have numbers, expected classes");
    assert_string_equal(last.out, "");
}

/* Data that show fewer classes than the model tells apart: zeros alone, and 0 and 1 of three. Of
 * zeros alone class 1 is never right, and the mean over the classes that occur would be 1/2. */
static void test_data_with_fewer_classes_are_measured_by_the_models(void **state)
{
    (void)state;
    write_text("two.model", "input 1\ndense 1\nloss sigmoid-crossentropy\n");
    write_text("two.csv", "-1,0\n-2,0\n1,1\n2,1\n");
    write_text("zeros.csv", "-1,0\n-2,0\n");
    expect("train two.model --data csv:two.csv,test=none --epochs 20 --lr 1 --optimizer sgd "
           "--metrics accuracy,precision,recall,f1 --out two", 0);
    expect("eval two --data csv:zeros.csv,test=none", 0);
    expect_text(row("accuracy"), "1");
    assert_true(strtod(row("precision"), NULL) == 0 && strtod(row("f1"), NULL) == 0);
    write_text("three.csv", "-1,0\n-2,0\n1,1\n2,2\n");
    expect("train linear --data csv:three.csv,test=none --epochs 1 --metrics top3 --out three", 0);
    expect("eval three --data csv:two.csv,test=none", 0);
    assert_true(strtod(row("top3"), NULL) == 1);
    expect("eval three --data csv:two.csv,test=none --metrics top4", 2);
    expect_text(last.err, "there are 3 classes");
}

/* Two black pictures of CIFAR-10's layout, a cat (3) and a truck (9), at `path`. */
static void write_two_pictures(const char *path)
{
    enum { RECORD_BYTES = 1 + 3 * 1024 };
    static unsigned char records[2 * RECORD_BYTES];
    records[0] = 3;
    records[RECORD_BYTES] = 9;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(records, 1, sizeof records, file), sizeof records);
    assert_int_equal(fclose(file), 0);
}

static void test_confusion_and_predictions_name_their_classes(void **state)
{
    (void)state;
    write_two_pictures("data_batch_1.bin");
    write_two_pictures("test_batch.bin");
    write_text("batches.meta.txt",
               "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n");
    expect("train linear --data cifar10:. --epochs 1 --out p", 0);
    expect("eval p --confusion", 0);
    expect_text(last.out, "\n0 0 0 0 0 0 0 0 0 0 0  airplane\n");
    expect_text(last.out, "  cat\n");
    expect_text(last.out, " 0  ship\n");
    expect_text(last.out, "  truck\n");
    expect("predict p", 0);
    expect_text(last.out, "index,label,predicted,p_airplane,p_automobile,");
    expect_text(last.out, ",p_truck\n0,3,");
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
        TEST_IN_FOLDER(test_a_run_without_a_checkpoint_is_started_anew_in_its_folder),
        TEST_IN_FOLDER(test_a_run_folder_is_what_init_takes_too),
        TEST_IN_FOLDER(
            test_a_run_that_has_done_more_than_is_asked_for_says_so_and_writes_nothing),
        TEST_IN_FOLDER(test_a_run_that_has_nothing_to_do_keeps_its_last_line),
        TEST_IN_FOLDER(test_a_damaged_best_is_called_damaged),
        TEST_IN_FOLDER(test_what_is_odd_in_the_data_is_said_once),
        TEST_IN_FOLDER(test_an_option_that_does_nothing_is_warned_of),
        TEST_IN_FOLDER(test_more_epochs_than_a_cosine_has_are_warned_of),
        TEST_IN_FOLDER(test_eval_and_predict_agree_for_any_number_of_replicas),
        TEST_IN_FOLDER(test_predict_opens_the_data_once_as_eval_does),
        TEST_IN_FOLDER(test_eval_prints_the_metrics_that_it_is_asked_for),
        TEST_IN_FOLDER(test_data_with_fewer_classes_are_measured_by_the_models),
        TEST_IN_FOLDER(test_confusion_and_predictions_name_their_classes),
        TEST_IN_FOLDER(test_a_run_that_stopped_early_is_continued_with_more_patience),
        TEST_IN_FOLDER(test_a_damaged_checkpoint_is_refused_with_its_exit_code),
    };
    return cmocka_run_group_tests(tests, find_program, NULL);
}
