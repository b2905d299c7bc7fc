/* SPDX-License-Identifier: MIT */
/* test_cli_eval.c -- evaluating and predicting by command.
 *
 * Trainings are a few steps of `linear`, on the built-in digits or on files of a few lines.
 */
#include "support/test.h"

#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/command.h"

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

/* The last output begins with `header`, and its lines are those of `known` without their second
 * column, which is the answer. */
static void expect_without_answers(const char *known, const char *header)
{
    char index[16], answer[64], rest[256], line[400];
    const char *next = strchr(known, '\n') + 1, *found = strchr(last.out, '\n') + 1;
    assert_int_equal(strncmp(last.out, header, strlen(header)), 0);
    for (; *next; next = strchr(next, '\n') + 1, found = strchr(found, '\n') + 1) {
        assert_int_equal(sscanf(next, "%15[^,],%63[^,],%255[^\n]", index, answer, rest), 3);
        snprintf(line, sizeof line, "%s,%s\n", index, rest);
        assert_int_equal(strncmp(found, line, strlen(line)), 0);
    }
    assert_int_equal(*found, '\0');
}

/* An array [count] of floats. */
static void write_row(const char *path, const float *x, size_t count)
{
    FILE *file = fopen(path, "wb");
    char header[65];
    assert_non_null(file);
    snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu,)}",
             count);
    fwrite("\x93NUMPY\x01\x00\x46\x00", 1, 10, file);
    fprintf(file, "%-69s\n", header);
    assert_int_equal(fwrite(x, sizeof *x, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void test_predict_takes_samples_without_answers(void **state)
{
    (void)state;
    const float x[4] = { -1, -2, 1, 2 };
    char known[COMMAND_TEXT_BYTES];
    write_text("m.csv", "-1,0\n-2,0\n1,1\n2,1\n");
    write_text("x.csv", "-1\n-2\n1\n2\n");
    write_row("x.npy", x, 4);
    expect("train linear --data csv:m.csv,test=none --epochs 3 --lr 1 --out m", 0);
    expect("predict m --data csv:m.csv,test=none", 0);
    snprintf(known, sizeof known, "%s", last.out);
    expect("predict m --data csv:x.csv,label=none", 0);
    expect_without_answers(known, "index,predicted,p_0,p_1\n0,0,");
    assert_string_equal(last.err, "");
    expect("predict m --data npy:x.npy --devices host:2", 0);
    expect_without_answers(known, "index,predicted,p_0,p_1\n0,0,");

    expect("train linear --data csv:m.csv,task=regress,test=none --epochs 1 --out n", 0);
    expect("predict n --data csv:m.csv,task=regress,test=none", 0);
    snprintf(known, sizeof known, "%s", last.out);
    expect("predict n --data npy:x.npy", 0);
    expect_without_answers(known, "index,predicted_0\n0,");

    write_text("two.model", "input 1\ndense 1\nloss sigmoid-crossentropy\n");
    expect("train two.model --data csv:m.csv,test=none --epochs 1 --metrics accuracy,f1 --out two",
           0);
    expect("predict two --data csv:x.csv,label=none", 0);
    assert_int_equal(strncmp(last.out, "index,predicted_0\n0,0.", 22), 0); /* a probability */

    expect("eval m --data csv:x.csv,label=none", 2);
    expect_text(last.err, "--data: no answers (csv: label=none; npy: X.npy without Y.npy), ");
    expect("train linear --data npy:x.npy --epochs 1 --out q", 2);
    expect_text(last.err, "--data: no answers (csv: label=none; npy: X.npy without Y.npy), ");
    expect("predict n --data csv:x.csv,label=none,task=regress,outputs=3", 0); /* as in training */
    expect("predict m --data csv:m.csv,label=none", 3);
    expect_text(last.err, "csv:m.csv,label=none: a sample has 2 numbers, expected 1, as the "
                "network takes (are there answers? then no label=none)");
    write_text("two.csv", "1,5\n2,6\n");
    write_text("three.csv", "1,5,0\n2,6,1\n");
    expect("train linear --data csv:three.csv,test=none,scale=standard --epochs 1 --out s", 0);
    expect("predict s --data csv:two.csv", 3);
    expect_text(last.err, "a sample has 1 field, expected 2: the model was trained with "
                "scale=standard on as many (no answers? then label=none)");
    write_text("real.csv", "1,5.5\n2,6.5\n");
    expect("predict s --data csv:real.csv", 3);
    expect_text(last.err, "if there are no answers: label=none");
    write_text("six.csv", "1\n2\n3\n4\n5\n6\n");
    expect("data verify csv:six.csv,label=none", 0);
    expect_text(last.out, "1 number per sample, no answers, 6 samples\n");
    expect("data verify csv:x.csv,label=none,test=every:2", 0);
    expect_text(last.out, "no answers, 2 train and 2 test samples");
}

static void test_eval_prints_one_line_of_json(void **state)
{
    (void)state;
    write_text("m.csv", "-1,0\n-2,0\n1,1\n2,1\n");
    expect("train linear --data csv:m.csv,test=none --epochs 20 --lr 1 --optimizer sgd --out m", 0);
    expect("eval m", 0);
    char loss[64], line[COMMAND_TEXT_BYTES];
    sscanf(row("loss"), "%63s", loss);
    snprintf(line, sizeof line, "{\"checkpoint\":\"m/checkpoints/last.safetensors\",\"data\":"
             "\"csv:m.csv,test=none\",\"part\":\"train\",\"samples\":4,\"loss\":%s,"
             "\"accuracy\":1,\"confusion\":[[2,0],[0,2]]}\n", loss);
    expect("eval m --json --confusion", 0);
    assert_string_equal(last.out, line);
    expect("eval m --json --metrics top2", 0);
    expect_text(last.out, ",\"top2\":1}\n");
}

static void test_predict_leaves_the_data_as_they_are(void **state)
{
    (void)state;
    static const char table[] = "-1,0\n-2,0\n1,1\n2,1\n";
    char text[COMMAND_TEXT_BYTES];
    write_text("m.csv", table);
    write_text("x.csv", "5,0\n6,1\n");
    expect("train linear --data csv:m.csv,test=none --epochs 1 --out m", 0);
    expect("predict m --out m.csv", 2);
    expect_text(last.err, "--out m.csv: the samples are read from that file: name another");
    expect("predict m --data csv:m.csv,test=x.csv --out ./x.csv", 2);
    read_text("m.csv", text);
    assert_string_equal(text, table);
    read_text("x.csv", text);
    assert_string_equal(text, "5,0\n6,1\n");
    expect("predict m --out nowhere/p.csv --data csv:gone.csv", 1); /* before anything is read */
    expect_text(last.err, "nowhere/p.csv: cannot be written");
}

static void test_eval_and_predict_say_which_part_and_what_is_odd(void **state)
{
    (void)state;
    write_text("m.csv", "-1,0\n-2,0\n1,1\n2,1\n");
    write_text("head.csv", "1,1\n2,1\n3,1\n");
    write_text("names.csv", "a,b,c\n2,1\n3,1\n");
    write_text("huge.csv", "3e38,0\n-3e38,1\n1,0\n2,1\n");
    expect("train linear --data csv:m.csv,test=none --epochs 20 --lr 1 --optimizer sgd --out m", 0);
    expect("eval m", 0);
    expect_text(row("part"), "train");
    expect("eval nowhere", 3);
    expect_text(last.err, "nowhere: no such file, expected a checkpoint: a .safetensors file, or "
                "a run's folder");
    expect("eval m --part test", 2);
    expect_text(last.err, "--part test: csv:m.csv,test=none has no test part");
    expect("eval m --data csv:m.csv,test=every:9", 0);
    expect_text(last.err, "warning: m.csv: test=every:9 of 4 records: there is no test part");
    expect("predict m --data csv:m.csv,test=every:2 --out p.csv", 0);
    expect_text(last.out, "p.csv: 2 samples of the test part, 2 numbers each");
    expect("predict m --data csv:head.csv,header=yes", 0);
    expect_text(last.err, "head.csv: line 1: skipped as header, but it is all numbers");
    expect("predict m --data csv:names.csv,header=yes", 0);
    expect_text(last.err, "names.csv: line 1: a header of 3 names, the records have 2 fields");
    expect("predict m --data csv:huge.csv,test=none", 0);
    expect_text(last.err, "warning: 2 of 4 samples have results that are not finite, the first is "
                "that of index 0");
    write_text("m.csv", "-1,0\n-2,0\n1,1\n2,0\n");
    expect("eval m", 0);
    expect_text(last.err, "warning: csv:m.csv,test=none is not what it was in the training run");
}

static void test_targets_under_sigmoid_are_probabilities(void **state)
{
    (void)state;
    write_text("two.model", "input 1\ndense 2\nloss sigmoid-crossentropy\n");
    write_text("m.csv", "-1,0,1\n-2,0,0\n1,1,2\n2,1,1\n");
    expect("train two.model --data csv:m.csv,task=regress,outputs=2,test=none --epochs 1", 3);
    expect_text(last.err, "training sample 3, target 2: 2, expected 0 to 1 under "
                "sigmoid-crossentropy");
    write_text("s.csv", "-1,0,1\n-2,0,0.5\n");
    expect("train two.model --data csv:s.csv,task=regress,outputs=2,test=m.csv --epochs 1", 3);
    expect_text(last.err, "test sample 3, target 2: 2");
    expect("train two.model --data csv:s.csv,task=regress,outputs=2,test=none --epochs 1", 0);
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
    expect("eval m --data csv:././././././././././././././././././././././././././././././././"
           "./././././././././././././m.csv", 0);
    expect_text(last.err, "/./m.csv is not the data of the training run (csv:m.csv,test=");
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

static void test_records_that_are_left_out_are_told_of_and_shift_nothing(void **state)
{
    (void)state;
    static const char told[] = "lockstep: warning: skipped: s.csv: line 3, field 1 (byte 8): 'x'";
    write_text("s.csv", "1,0\n2,1\nx,1\n4,0\n5\n\n6,0\n7,2\n");
    expect("train linear --data csv:s.csv,bad=skip,test=none --epochs 1 --out s", 0);
    expect("eval s", 0);
    expect_text(last.err, told);
    expect_text(last.err, "lockstep: warning: skipped 3 bad records in all\n");
    expect("predict s", 0);
    expect_text(last.err, told);
    expect_text(last.out, "\n0,0,");
    expect_text(last.out, "\n1,1,");
    expect_text(last.out, "\n3,0,"); /* 2 is the bad one's place, 4 and 5 those of no record */
    expect_text(last.out, "\n6,0,");
    expect_text(last.out, "\n7,2,");
    expect("predict s --out s.npy", 0);
    expect_text(last.err, told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_eval_and_predict_agree_for_any_number_of_replicas),
        TEST_IN_FOLDER(test_predict_opens_the_data_once_as_eval_does),
        TEST_IN_FOLDER(test_predict_takes_samples_without_answers),
        TEST_IN_FOLDER(test_predict_leaves_the_data_as_they_are),
        TEST_IN_FOLDER(test_eval_and_predict_say_which_part_and_what_is_odd),
        TEST_IN_FOLDER(test_targets_under_sigmoid_are_probabilities),
        TEST_IN_FOLDER(test_eval_prints_one_line_of_json),
        TEST_IN_FOLDER(test_eval_prints_the_metrics_that_it_is_asked_for),
        TEST_IN_FOLDER(test_data_with_fewer_classes_are_measured_by_the_models),
        TEST_IN_FOLDER(test_confusion_and_predictions_name_their_classes),
        TEST_IN_FOLDER(test_records_that_are_left_out_are_told_of_and_shift_nothing),
    };
    return cmocka_run_group_tests(tests, find_program, NULL);
}
