/* SPDX-License-Identifier: MIT */
/* test_run_folder.c -- what a run writes, and folders that cannot serve. For what is there already
 * when it begins see test_run_folder_again.c.
 */
#include "support/test.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/command.h"
#include "support/run_files.h"

/* -- writing --------------------------------------------------------------------------------- */

static void test_folders_are_made_as_deep_as_needed(void **state)
{
    (void)state;
    ls_run_folder *folder = open_run(LS_RUN_NEW, 0, 0);
    struct stat found;
    assert_string_equal(ls_run_folder_checkpoint(folder, "last"),
                        RUN "/checkpoints/last.safetensors");
    assert_int_equal(stat(RUN "/checkpoints", &found), 0);
    assert_true(S_ISDIR(found.st_mode));
    ls_run_folder_close(folder);
}

static void test_history_has_the_columns_of_keras(void **state)
{
    (void)state;
    ls_run_folder *folder = open_run(LS_RUN_NEW, 0, 0);
    assert_int_equal(ls_run_folder_history(folder, &epoch1), LS_OK);
    assert_string_equal(text_of(RUN "/history.csv"), NAMES LINE1); /* before anything is closed */
    ls_run_folder_close(folder);
}

static void test_other_files_are_replaced_whole(void **state)
{
    (void)state;
    ls_run_folder *folder = open_run(LS_RUN_NEW, 0, 0);
    assert_int_equal(ls_run_folder_write(folder, "config.txt", "a long first text\n"), LS_OK);
    assert_int_equal(ls_run_folder_write(folder, "config.txt", "short\n"), LS_OK);
    assert_string_equal(text_of(RUN "/config.txt"), "short\n");
    ls_run_folder_close(folder);
}

static void test_a_disk_that_is_full_is_an_io_error_that_names_the_file(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = { 100, 100 };
        const ls_log_line line = log_line(1, 1);
        ls_run_folder *folder = NULL;
        signal(SIGXFSZ, SIG_IGN);
        if (ls_run_folder_open(RUN, LS_RUN_NEW, (ls_run_done){ 0 }, &folder) != LS_OK) _exit(2);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(3);
        const ls_status status = ls_run_folder_log(folder, &line);
        const bool named = strncmp(ls_last_error(), "log.jsonl: ", 11) == 0;
        ls_run_folder_close(folder);
        _exit(status == LS_ERR_IO && named ? 0 : 1);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* -- folders that cannot serve --------------------------------------------------------------- */

static void test_a_folder_that_is_not_empty_is_refused(void **state)
{
    (void)state;
    write_run();
    char *log = strdup(text_of(RUN "/log.jsonl"));
    assert_run_refused(RUN, LS_RUN_NEW, LS_ERR_ARGUMENT, "--resume");
    assert_run_refused(RUN, LS_RUN_NEW, LS_ERR_ARGUMENT, "another --out");
    assert_string_equal(text_of(RUN "/log.jsonl"), log);
    free(log);
}

static void test_an_empty_folder_will_do(void **state)
{
    (void)state;
    make_empty_run();
    ls_run_folder_close(open_run(LS_RUN_NEW, 0, 0));
}

static void test_somebody_elses_folder_is_not_resumed_into(void **state)
{
    (void)state;
    make_empty_run();
    write_text(RUN "/letter.txt", "x");
    assert_run_refused(RUN, LS_RUN_CONTINUE, LS_ERR_ARGUMENT, "not a run's");
    assert_run_refused(RUN, LS_RUN_AGAIN, LS_ERR_ARGUMENT, "not a run's");
}

static void test_two_processes_cannot_write_one_run(void **state)
{
    (void)state;
    ls_run_folder *folder = open_run(LS_RUN_NEW, 0, 0);
    const ls_log_line line = log_line(1, 1);
    assert_int_equal(ls_run_folder_log(folder, &line), LS_OK);
    assert_run_refused(RUN, LS_RUN_CONTINUE, LS_ERR_IO, "another process is writing this run");
    assert_int_equal(line_count(RUN "/log.jsonl"), 1); /* and nothing was cut */
    ls_run_folder_close(folder);
    ls_run_folder_close(open_run(LS_RUN_CONTINUE, 0, 1));
}

static void test_what_cannot_be_written_is_said_at_once(void **state)
{
    (void)state;
    write_text("file", "x");
    assert_run_refused("file", LS_RUN_NEW, LS_ERR_IO, "Not a directory");
    assert_run_refused("file/below/it", LS_RUN_NEW, LS_ERR_IO, "cannot be made: Not a directory");
    assert_run_refused("/proc/lockstep-cannot-be-here", LS_RUN_NEW, LS_ERR_IO, "cannot be made");
    assert_run_refused("", LS_RUN_NEW, LS_ERR_ARGUMENT, "expected a folder");
}

static void test_a_folder_without_permission_is_said_at_once(void **state)
{
    (void)state;
    if (geteuid() == 0) return; /* the superuser may write anywhere: nothing to see */
    assert_int_equal(mkdir("locked", 0555), 0);
    assert_run_refused("locked", LS_RUN_NEW, LS_ERR_IO, "Permission denied");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_folders_are_made_as_deep_as_needed),
        TEST_IN_FOLDER(test_history_has_the_columns_of_keras),
        TEST_IN_FOLDER(test_other_files_are_replaced_whole),
        TEST_IN_FOLDER(test_a_disk_that_is_full_is_an_io_error_that_names_the_file),
        TEST_IN_FOLDER(test_a_folder_that_is_not_empty_is_refused),
        TEST_IN_FOLDER(test_an_empty_folder_will_do),
        TEST_IN_FOLDER(test_somebody_elses_folder_is_not_resumed_into),
        TEST_IN_FOLDER(test_two_processes_cannot_write_one_run),
        TEST_IN_FOLDER(test_what_cannot_be_written_is_said_at_once),
        TEST_IN_FOLDER(test_a_folder_without_permission_is_said_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
