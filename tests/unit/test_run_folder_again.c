/* SPDX-License-Identifier: MIT */
/* test_run_folder_again.c -- what of a run's files is kept by one that continues it, or that
 * starts where it was.
 */
#include "support/test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/scratch_folder.h"
#include "support/command.h"
#include "support/run_files.h"

static void write_bytes(const char *path, const char *text, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

/* -- continuing ------------------------------------------------------------------------------ */

static void test_lines_after_the_checkpoint_are_cut(void **state)
{
    (void)state;
    for (uint64_t steps = 0; steps <= 7; steps++) {
        write_run();
        ls_run_folder_close(open_run(LS_RUN_CONTINUE, steps / 2, steps));
        const uint64_t kept = steps < 6 ? steps : 6;
        assert_int_equal(line_count(RUN "/log.jsonl"), kept);
        assert_int_equal(line_count(RUN "/history.csv"), 1 + kept / 2);
        ls_scratch_folder_remove(RUN);
    }
}

static void test_a_run_that_takes_no_step_leaves_its_logs_alone(void **state)
{
    (void)state;
    write_run();
    ls_run_folder *folder = NULL;
    const ls_run_done done = { .epochs = 1, .steps = 3, .steps_of_epoch = 1 };
    assert_int_equal(ls_run_folder_open(RUN, LS_RUN_CONTINUE, done, &folder), LS_OK);
    ls_run_folder_close(folder);
    assert_int_equal(line_count(RUN "/log.jsonl"), 6);
    assert_int_equal(line_count(RUN "/history.csv"), 1 + 3);
}

static void test_a_resumed_run_has_the_files_of_an_undisturbed_one(void **state)
{
    (void)state;
    write_run();
    char *history = strdup(text_of(RUN "/history.csv")), *log = strdup(text_of(RUN "/log.jsonl"));
    ls_run_folder *folder = open_run(LS_RUN_CONTINUE, 1, 3); /* in the middle of epoch 2 */
    write_steps(folder, 4);
    assert_string_equal(text_of(RUN "/history.csv"), history);
    assert_string_equal(text_of(RUN "/log.jsonl"), log);
    ls_run_folder_close(folder);
    free(history);
    free(log);
}

static void test_a_line_torn_at_any_byte_is_cut(void **state)
{
    (void)state;
    write_run();
    char *history = strdup(text_of(RUN "/history.csv")), *log = strdup(text_of(RUN "/log.jsonl"));
    for (size_t bytes = strlen(log); bytes-- > 0;) {
        assert_int_equal(truncate(RUN "/log.jsonl", (off_t)bytes), 0);
        ls_run_folder_close(open_run(LS_RUN_CONTINUE, 3, 6));
        int whole = 0;
        for (size_t i = 0; i < bytes; i++) whole += log[i] == '\n';
        assert_int_equal(line_count(RUN "/log.jsonl"), whole);
        const char *left = text_of(RUN "/log.jsonl");
        assert_true(left[0] == '\0' || left[strlen(left) - 1] == '\n');
    }
    for (size_t bytes = strlen(history); bytes-- > 0;) {
        assert_int_equal(truncate(RUN "/history.csv", (off_t)bytes), 0);
        ls_run_folder_close(open_run(LS_RUN_CONTINUE, 3, 6));
        int whole = 0;
        for (size_t i = 0; i < bytes; i++) whole += history[i] == '\n';
        assert_int_equal(line_count(RUN "/history.csv"), whole);
    }
    free(history);
    free(log);
}

static void test_a_history_torn_in_its_first_line_gets_its_names_again(void **state)
{
    (void)state;
    write_run();
    assert_int_equal(truncate(RUN "/history.csv", 10), 0);
    ls_run_folder *folder = open_run(LS_RUN_CONTINUE, 0, 0);
    assert_int_equal(ls_run_folder_history(folder, &epoch1), LS_OK);
    assert_string_equal(text_of(RUN "/history.csv"), NAMES LINE1);
    ls_run_folder_close(folder);
}

/* What a file system may show after a power cut, or a stranger may write. */
static void test_lines_that_are_not_ours_are_cut(void **state)
{
    (void)state;
#define STEP1 "{\"epoch\":1,\"step\":1,\"loss\":1}\n"
    static const char *const strange[] = { "\0\0\0\0\n", "x\n", "\n", "{\"epoch\":1}\n",
                                           "{\"step\":2,\"epoch\":1}\n", "[1]\n",
                                           "{\"epoch\":1,\"step\":-2}\n",
                                           "{\"epoch\":1,\"step\":2}\0\n" };
    static const size_t bytes[] = { 5, 2, 1, 12, 21, 4, 22, 23 };
    write_run();
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        char text[256] = STEP1;
        memcpy(text + strlen(STEP1), strange[i], bytes[i]);
        memcpy(text + strlen(STEP1) + bytes[i], STEP1, strlen(STEP1));
        write_bytes(RUN "/log.jsonl", text, 2 * strlen(STEP1) + bytes[i]);
        ls_run_folder_close(open_run(LS_RUN_CONTINUE, 3, 6));
        assert_string_equal(text_of(RUN "/log.jsonl"), STEP1);
    }
    static const char *const lines[] = { "2;3\n", "\n", "2\n", ",2\n", "-1,2\n",
                                         "99999999999999999999999,1\n" };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, NAMES LINE1 "%s" LINE1, lines[i]);
        write_text(RUN "/history.csv", text);
        ls_run_folder_close(open_run(LS_RUN_CONTINUE, 3, 6));
        assert_string_equal(text_of(RUN "/history.csv"), NAMES LINE1);
    }
}

static void test_temporary_files_of_a_killed_process_are_removed(void **state)
{
    (void)state;
    static const char *const stale[] = { RUN "/config.txt.tmp-17", RUN "/environment.json.tmp-3",
                                         RUN "/checkpoints/last.safetensors.tmp-99",
                                         RUN "/checkpoints/step-20.safetensors.tmp-99" };
    write_run();
    write_text(RUN "/checkpoints/last.safetensors", "x");
    for (size_t i = 0; i < 4; i++) write_text(stale[i], "x");
    ls_run_folder_close(open_run(LS_RUN_CONTINUE, 3, 6));
    for (size_t i = 0; i < 4; i++) assert_int_equal(access(stale[i], F_OK), -1);
    assert_int_equal(access(RUN "/checkpoints/last.safetensors", F_OK), 0);
    assert_int_equal(access(RUN "/config.txt", F_OK), 0);
}

static void test_resuming_may_also_start(void **state)
{
    (void)state;
    ls_run_folder *folder = open_run(LS_RUN_AGAIN, 0, 0); /* --resume auto, for the first time */
    assert_int_equal(ls_run_folder_history(folder, &epoch1), LS_OK);
    assert_string_equal(text_of(RUN "/history.csv"), NAMES LINE1);
    ls_run_folder_close(folder);
}

/* -- starting again where a run was: --resume auto without last.safetensors -------------------- */

/* The folder's files are refused with these words, and stay as they are. */
static void assert_kept(const char *words)
{
    char *history = strdup(text_of(RUN "/history.csv")), *log = strdup(text_of(RUN "/log.jsonl"));
    assert_run_refused(RUN, LS_RUN_AGAIN, LS_ERR_ARGUMENT, words);
    assert_run_refused(RUN, LS_RUN_AGAIN, LS_ERR_ARGUMENT, "another --out");
    assert_string_equal(text_of(RUN "/history.csv"), history);
    assert_string_equal(text_of(RUN "/log.jsonl"), log);
    free(history);
    free(log);
}

/* A kill may leave any of this behind: in its first epoch, and in its first save. */
static void test_a_run_killed_before_its_first_checkpoint_starts_again(void **state)
{
    (void)state;
    ls_run_folder *folder = open_run(LS_RUN_NEW, 0, 0);
    ls_run_folder_close(folder);
    folder = open_run(LS_RUN_AGAIN, 0, 0);
    assert_int_equal(ls_run_folder_write(folder, "config.txt", "lr 1\n"), LS_OK);
    for (uint64_t step = 1; step <= 3; step++) {
        const ls_log_line line = log_line(1, step);
        assert_int_equal(ls_run_folder_log(folder, &line), LS_OK);
    }
    ls_run_folder_close(folder);
    ls_run_folder_close(open_run(LS_RUN_AGAIN, 0, 0));
    assert_int_equal(line_count(RUN "/log.jsonl"), 0);
    write_text(RUN "/history.csv", NAMES LINE1);
    write_text(RUN "/log.jsonl", "{\"epoch\":1,\"st");
    write_text(RUN "/checkpoints/last.safetensors.tmp-99", "x");
    write_text(RUN "/slurm-17.out", "x"); /* nothing that a run would write over */
    write_text(RUN "/checkpoints/step-07.safetensors", "x");
    ls_run_folder_close(open_run(LS_RUN_AGAIN, 0, 0));
    assert_string_equal(text_of(RUN "/history.csv"), NAMES);
    assert_int_equal(access(RUN "/slurm-17.out", F_OK), 0);
}

/* The folder of a run that was killed while it proved that it may write there. */
static void test_a_file_of_the_proof_is_no_content(void **state)
{
    (void)state;
    make_empty_run();
    write_text(RUN "/config.txt.tmp-99", "");
    ls_run_folder_close(open_run(LS_RUN_AGAIN, 0, 0));
    assert_int_equal(access(RUN "/config.txt.tmp-99", F_OK), -1);
    ls_scratch_folder_remove(RUN);
    assert_int_equal(mkdir(RUN, 0777), 0);
    write_text(RUN "/letter.txt.tmp-99", "");
    assert_run_refused(RUN, LS_RUN_AGAIN, LS_ERR_ARGUMENT, "not a run's");
}

/* Who starts anew has looked for last.safetensors and found none; then another saved it. */
static void test_a_checkpoint_saved_since_is_not_started_over(void **state)
{
    (void)state;
    ls_run_folder_close(open_run(LS_RUN_NEW, 0, 0));
    write_text(RUN "/checkpoints/last.safetensors", "x");
    assert_run_refused(RUN, LS_RUN_AGAIN, LS_ERR_IO, "saved while this run started");
    assert_run_refused(RUN, LS_RUN_AGAIN, LS_ERR_IO, "give the command again");
}

static void test_nothing_that_a_run_saved_is_written_over(void **state)
{
    (void)state;
    static const char *const saved[] = { RUN "/checkpoints/step-12.safetensors",
                                         RUN "/checkpoints/best.safetensors" };
    write_run();
    assert_kept("history.csv holds more");
    assert_int_equal(truncate(RUN "/history.csv", (off_t)strlen(NAMES LINE1)), 0);
    for (int i = 0; i < 2; i++) {
        write_text(saved[i], "x");
        assert_kept(strstr(saved[i], "checkpoints/"));
        assert_kept("continue from that with --resume ");
    }
    assert_kept("checkpoints/best.safetensors: "); /* of two, the first by name */
    for (int i = 0; i < 2; i++) assert_int_equal(unlink(saved[i]), 0);
    assert_int_equal(rmdir(RUN "/checkpoints"), 0);
    assert_kept("has no checkpoints/");
}

static void test_somebody_elses_tables_are_not_written_over(void **state)
{
    (void)state;
    make_empty_run();
    write_text(RUN "/history.csv", "year,event\n1969,moon\n");
    write_text(RUN "/log.jsonl", "");
    assert_kept("has no checkpoints/");
    assert_int_equal(mkdir(RUN "/checkpoints", 0777), 0);
    assert_kept("history.csv holds more");
    write_text(RUN "/history.csv", "");
    write_text(RUN "/log.jsonl", "{\"year\":1969}\n");
    assert_kept("log.jsonl holds more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_lines_after_the_checkpoint_are_cut),
        TEST_IN_FOLDER(test_a_run_that_takes_no_step_leaves_its_logs_alone),
        TEST_IN_FOLDER(test_a_resumed_run_has_the_files_of_an_undisturbed_one),
        TEST_IN_FOLDER(test_a_line_torn_at_any_byte_is_cut),
        TEST_IN_FOLDER(test_a_history_torn_in_its_first_line_gets_its_names_again),
        TEST_IN_FOLDER(test_lines_that_are_not_ours_are_cut),
        TEST_IN_FOLDER(test_temporary_files_of_a_killed_process_are_removed),
        TEST_IN_FOLDER(test_resuming_may_also_start),
        TEST_IN_FOLDER(test_a_run_killed_before_its_first_checkpoint_starts_again),
        TEST_IN_FOLDER(test_a_file_of_the_proof_is_no_content),
        TEST_IN_FOLDER(test_a_checkpoint_saved_since_is_not_started_over),
        TEST_IN_FOLDER(test_nothing_that_a_run_saved_is_written_over),
        TEST_IN_FOLDER(test_somebody_elses_tables_are_not_written_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
