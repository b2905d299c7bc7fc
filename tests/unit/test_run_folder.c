/* SPDX-License-Identifier: MIT */
/* test_run_folder.c -- what a run writes, what a resumption keeps, folders that cannot serve. */
#include "support/test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/run_folder.h"

static char top[512], run[600]; /* a temporary folder, and the run's folder in it */

static int make_top(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(top, sizeof top, "%s/lockstep-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(top)) return -1;
    snprintf(run, sizeof run, "%s/runs/one", top);
    return 0;
}

static void remove_tree(const char *path)
{
    DIR *open_folder = opendir(path);
    if (!open_folder) {
        unlink(path);
        return;
    }
    for (struct dirent *entry; (entry = readdir(open_folder)) != NULL;) {
        char inner[1024];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        remove_tree(inner);
    }
    closedir(open_folder);
    rmdir(path);
}

static int remove_top(void **state)
{
    (void)state;
    remove_tree(top);
    return 0;
}

/* "<run>/<name>"; valid until the next call. */
static const char *in_run(const char *name)
{
    static char path[700];
    snprintf(path, sizeof path, "%s/%s", run, name);
    return path;
}

static void write_text(const char *path, const char *text, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

/* The text of a file of the run; valid until the next call. */
static const char *text_of(const char *name)
{
    static char text[1 << 16];
    FILE *f = fopen(in_run(name), "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

/* Of epochs of 2 steps, each with an update. */
static ls_run_folder *open_run(ls_run_start start, uint64_t epochs, uint64_t steps)
{
    const ls_run_done done = { epochs, steps, steps - 2 * epochs };
    ls_run_folder *folder = NULL;
    if (ls_run_folder_open(run, start, done, &folder) != LS_OK) fail_msg("%s", ls_last_error());
    assert_int_equal(ls_run_folder_begin(folder), LS_OK);
    return folder;
}

static void assert_refused(ls_run_start start, ls_status want, const char *part)
{
    ls_run_folder *folder = NULL;
    const ls_status status = ls_run_folder_open(run, start, (ls_run_done){ 0 }, &folder);
    ls_run_folder_close(folder);
    if (status != want || !strstr(ls_last_error(), part)) {
        fail_msg("expected %s with '%s', got %s: %s", ls_status_name(want), part,
                 ls_status_name(status), status ? ls_last_error() : "");
    }
}

static const ls_history_line epoch1 = {
    .epoch = 1, .step = 45, .lr = 0.001, .loss = 0.5, .val_loss = 0.25, .seconds = 1.5,
    .samples_per_second = 960, .metric_count = 1, .metric_name = { "accuracy" },
    .metric = { 0.9 }, .val_metric = { 0.95 },
};
#define NAMES "epoch,step,lr,loss,accuracy,val_loss,val_accuracy,seconds,samples_per_second\n"
#define LINE1 "1,45,0.001,0.5,0.9,0.25,0.95,1.5,960\n"

static ls_log_line log_line(uint64_t epoch, uint64_t step)
{
    return (ls_log_line){ .epoch = epoch, .step = step,
                          .step_of_epoch = step - 2 * (epoch - 1), .loss = 0.30000000000000004,
                          .regularizer = 0, .grad_norm = 2, .update_norm = 0.5, .lr = 0.001,
                          .samples = 32, .seconds = 0.75, .input_wait = 0.125, .copy = 0.125,
                          .forward = 0.125, .backward = 0.125, .exchange = 0.125,
                          .exchange_wait = 0.0625, .update = 0.125,
                          .queue = 2, .reader_seconds = 0.5,
                          .read_bytes = 3072 };
}

/* A finished run of 3 epochs of 2 steps. */
static void write_run(void)
{
    ls_run_folder *folder = open_run(LS_RUN_NEW, 0, 0);
    assert_int_equal(ls_run_folder_write(folder, "config.txt", "lr 1\n"), LS_OK);
    ls_history_line h = epoch1;
    for (uint64_t step = 1; step <= 6; step++) {
        const ls_log_line line = log_line((step + 1) / 2, step);
        assert_int_equal(ls_run_folder_log(folder, &line), LS_OK);
        if (step % 2 == 1) continue;
        h.epoch = step / 2;
        h.step = step;
        assert_int_equal(ls_run_folder_history(folder, &h), LS_OK);
    }
    ls_run_folder_close(folder);
}

static int line_count(const char *name)
{
    int count = 0;
    for (const char *p = text_of(name); *p; p++) count += *p == '\n';
    return count;
}

/* -- writing --------------------------------------------------------------------------------- */

static void test_folders_are_made_as_deep_as_needed(void **state)
{
    (void)state;
    ls_run_folder *folder = open_run(LS_RUN_NEW, 0, 0);
    char want[700];
    struct stat found;
    assert_string_equal(ls_run_folder_path(folder), run);
    snprintf(want, sizeof want, "%s/checkpoints/last.safetensors", run);
    assert_string_equal(ls_run_folder_checkpoint(folder, "last"), want);
    assert_int_equal(stat(in_run("checkpoints"), &found), 0);
    assert_true(S_ISDIR(found.st_mode));
    ls_run_folder_close(folder);
}

static void test_history_has_the_columns_of_keras(void **state)
{
    (void)state;
    ls_run_folder *folder = open_run(LS_RUN_NEW, 0, 0);
    assert_int_equal(ls_run_folder_history(folder, &epoch1), LS_OK);
    assert_string_equal(text_of("history.csv"), NAMES LINE1); /* there before anything is closed */
    ls_run_folder_close(folder);
}

static void test_other_files_are_replaced_whole(void **state)
{
    (void)state;
    ls_run_folder *folder = open_run(LS_RUN_NEW, 0, 0);
    assert_int_equal(ls_run_folder_write(folder, "config.txt", "a long first text\n"), LS_OK);
    assert_int_equal(ls_run_folder_write(folder, "config.txt", "short\n"), LS_OK);
    assert_string_equal(text_of("config.txt"), "short\n");
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
        if (ls_run_folder_open(run, LS_RUN_NEW, (ls_run_done){ 0 }, &folder) != LS_OK) _exit(2);
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

/* -- resuming -------------------------------------------------------------------------------- */

static void test_lines_after_the_checkpoint_are_cut(void **state)
{
    (void)state;
    for (uint64_t steps = 0; steps <= 7; steps++) {
        write_run();
        ls_run_folder_close(open_run(LS_RUN_CONTINUE, steps / 2, steps));
        const uint64_t kept = steps < 6 ? steps : 6;
        assert_int_equal(line_count("log.jsonl"), kept);
        assert_int_equal(line_count("history.csv"), 1 + kept / 2);
        remove_tree(run);
    }
}

static void test_a_run_that_takes_no_step_leaves_its_logs_alone(void **state)
{
    (void)state;
    write_run();
    ls_run_folder *folder = NULL;
    const ls_run_done done = { .epochs = 1, .steps = 3, .steps_of_epoch = 1 };
    assert_int_equal(ls_run_folder_open(run, LS_RUN_CONTINUE, done, &folder), LS_OK);
    ls_run_folder_close(folder);
    assert_int_equal(line_count("log.jsonl"), 6);
    assert_int_equal(line_count("history.csv"), 1 + 3);
}

static void test_a_resumed_run_has_the_files_of_an_undisturbed_one(void **state)
{
    (void)state;
    write_run();
    char *history = strdup(text_of("history.csv")), *log = strdup(text_of("log.jsonl"));
    ls_run_folder *folder = open_run(LS_RUN_CONTINUE, 1, 3); /* in the middle of epoch 2 */
    ls_history_line h = epoch1;
    for (uint64_t step = 4; step <= 6; step++) {
        const ls_log_line line = log_line((step + 1) / 2, step);
        assert_int_equal(ls_run_folder_log(folder, &line), LS_OK);
        if (step % 2 == 1) continue;
        h.epoch = step / 2;
        h.step = step;
        assert_int_equal(ls_run_folder_history(folder, &h), LS_OK);
    }
    assert_string_equal(text_of("history.csv"), history);
    assert_string_equal(text_of("log.jsonl"), log);
    ls_run_folder_close(folder);
    free(history);
    free(log);
}

static void test_a_line_torn_at_any_byte_is_cut(void **state)
{
    (void)state;
    write_run();
    char *history = strdup(text_of("history.csv")), *log = strdup(text_of("log.jsonl"));
    for (size_t bytes = strlen(log); bytes-- > 0;) {
        assert_int_equal(truncate(in_run("log.jsonl"), (off_t)bytes), 0);
        ls_run_folder_close(open_run(LS_RUN_CONTINUE, 3, 6));
        int whole = 0;
        for (size_t i = 0; i < bytes; i++) whole += log[i] == '\n';
        assert_int_equal(line_count("log.jsonl"), whole);
        const char *left = text_of("log.jsonl");
        assert_true(left[0] == '\0' || left[strlen(left) - 1] == '\n');
    }
    for (size_t bytes = strlen(history); bytes-- > 0;) {
        assert_int_equal(truncate(in_run("history.csv"), (off_t)bytes), 0);
        ls_run_folder_close(open_run(LS_RUN_CONTINUE, 3, 6));
        int whole = 0;
        for (size_t i = 0; i < bytes; i++) whole += history[i] == '\n';
        assert_int_equal(line_count("history.csv"), whole);
    }
    free(history);
    free(log);
}

static void test_a_history_torn_in_its_first_line_gets_its_names_again(void **state)
{
    (void)state;
    write_run();
    assert_int_equal(truncate(in_run("history.csv"), 10), 0);
    ls_run_folder *folder = open_run(LS_RUN_CONTINUE, 0, 0);
    assert_int_equal(ls_run_folder_history(folder, &epoch1), LS_OK);
    assert_string_equal(text_of("history.csv"), NAMES LINE1);
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
        write_text(in_run("log.jsonl"), text, 2 * strlen(STEP1) + bytes[i]);
        ls_run_folder_close(open_run(LS_RUN_CONTINUE, 3, 6));
        assert_string_equal(text_of("log.jsonl"), STEP1);
    }
    static const char *const lines[] = { "2;3\n", "\n", "2\n", ",2\n", "-1,2\n",
                                         "99999999999999999999999,1\n" };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char text[256];
        const int count = snprintf(text, sizeof text, NAMES LINE1 "%s" LINE1, lines[i]);
        write_text(in_run("history.csv"), text, (size_t)count);
        ls_run_folder_close(open_run(LS_RUN_CONTINUE, 3, 6));
        assert_string_equal(text_of("history.csv"), NAMES LINE1);
    }
}

static void test_temporary_files_of_a_killed_process_are_removed(void **state)
{
    (void)state;
    static const char *const stale[] = { "config.txt.tmp-17", "environment.json.tmp-3",
                                         "checkpoints/last.safetensors.tmp-99",
                                         "checkpoints/step-20.safetensors.tmp-99" };
    write_run();
    write_text(in_run("checkpoints/last.safetensors"), "x", 1);
    for (size_t i = 0; i < 4; i++) write_text(in_run(stale[i]), "x", 1);
    ls_run_folder_close(open_run(LS_RUN_CONTINUE, 3, 6));
    for (size_t i = 0; i < 4; i++) assert_int_equal(access(in_run(stale[i]), F_OK), -1);
    assert_int_equal(access(in_run("checkpoints/last.safetensors"), F_OK), 0);
    assert_int_equal(access(in_run("config.txt"), F_OK), 0);
}

static void test_resuming_may_also_start(void **state)
{
    (void)state;
    ls_run_folder *folder = open_run(LS_RUN_AGAIN, 0, 0); /* --resume auto, for the first time */
    assert_int_equal(ls_run_folder_history(folder, &epoch1), LS_OK);
    assert_string_equal(text_of("history.csv"), NAMES LINE1);
    ls_run_folder_close(folder);
}

/* -- folders that cannot serve --------------------------------------------------------------- */

static void test_a_folder_that_is_not_empty_is_refused(void **state)
{
    (void)state;
    write_run();
    char *log = strdup(text_of("log.jsonl"));
    assert_refused(LS_RUN_NEW, LS_ERR_ARGUMENT, "--resume");
    assert_refused(LS_RUN_NEW, LS_ERR_ARGUMENT, "another --out");
    assert_string_equal(text_of("log.jsonl"), log);
    free(log);
}

static void test_an_empty_folder_will_do(void **state)
{
    (void)state;
    snprintf(run, sizeof run, "%s", top);
    ls_run_folder_close(open_run(LS_RUN_NEW, 0, 0));
}

static void test_somebody_elses_folder_is_not_resumed_into(void **state)
{
    (void)state;
    snprintf(run, sizeof run, "%s", top);
    write_text(in_run("letter.txt"), "x", 1);
    assert_refused(LS_RUN_CONTINUE, LS_ERR_ARGUMENT, "not a run's");
    assert_refused(LS_RUN_AGAIN, LS_ERR_ARGUMENT, "not a run's");
}

/* -- starting again where a run was: --resume auto without last.safetensors -------------------- */

/* The folder's files are refused with these words, and stay as they are. */
static void assert_kept(const char *words)
{
    char *history = strdup(text_of("history.csv")), *log = strdup(text_of("log.jsonl"));
    assert_refused(LS_RUN_AGAIN, LS_ERR_ARGUMENT, words);
    assert_refused(LS_RUN_AGAIN, LS_ERR_ARGUMENT, "another --out");
    assert_string_equal(text_of("history.csv"), history);
    assert_string_equal(text_of("log.jsonl"), log);
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
    assert_int_equal(line_count("log.jsonl"), 0);
    write_text(in_run("history.csv"), NAMES LINE1, strlen(NAMES LINE1));
    write_text(in_run("log.jsonl"), "{\"epoch\":1,\"st", 14);
    write_text(in_run("checkpoints/last.safetensors.tmp-99"), "x", 1);
    write_text(in_run("slurm-17.out"), "x", 1); /* nothing that a run would write over */
    write_text(in_run("checkpoints/step-07.safetensors"), "x", 1);
    ls_run_folder_close(open_run(LS_RUN_AGAIN, 0, 0));
    assert_string_equal(text_of("history.csv"), NAMES);
    assert_int_equal(access(in_run("slurm-17.out"), F_OK), 0);
}

static void test_nothing_that_a_run_saved_is_written_over(void **state)
{
    (void)state;
    static const char *const saved[] = { "step-12.safetensors", "best.safetensors" };
    write_run();
    assert_kept("history.csv holds more");
    assert_int_equal(truncate(in_run("history.csv"), (off_t)strlen(NAMES LINE1)), 0);
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "checkpoints/%s", saved[i]);
        write_text(in_run(path), "x", 1);
        assert_kept(path);
        assert_kept("continue from that with --resume ");
    }
    assert_kept("checkpoints/best.safetensors: "); /* of two, the first by name */
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "checkpoints/%s", saved[i]);
        assert_int_equal(unlink(in_run(path)), 0);
    }
    assert_int_equal(rmdir(in_run("checkpoints")), 0);
    assert_kept("has no checkpoints/");
}

static void test_somebody_elses_tables_are_not_written_over(void **state)
{
    (void)state;
    snprintf(run, sizeof run, "%s", top);
    write_text(in_run("history.csv"), "year,event\n1969,moon\n", 22);
    write_text(in_run("log.jsonl"), "", 0);
    assert_kept("has no checkpoints/");
    assert_int_equal(mkdir(in_run("checkpoints"), 0777), 0);
    assert_kept("history.csv holds more");
    write_text(in_run("history.csv"), "", 0);
    write_text(in_run("log.jsonl"), "{\"year\":1969}\n", 15);
    assert_kept("log.jsonl holds more");
}

static void test_two_processes_cannot_write_one_run(void **state)
{
    (void)state;
    ls_run_folder *folder = open_run(LS_RUN_NEW, 0, 0);
    const ls_log_line line = log_line(1, 1);
    assert_int_equal(ls_run_folder_log(folder, &line), LS_OK);
    assert_refused(LS_RUN_CONTINUE, LS_ERR_IO, "another process is writing this run");
    assert_int_equal(line_count("log.jsonl"), 1); /* and nothing was cut */
    ls_run_folder_close(folder);
    ls_run_folder_close(open_run(LS_RUN_CONTINUE, 0, 1));
}

static void test_what_cannot_be_written_is_said_at_once(void **state)
{
    (void)state;
    char file[560];
    snprintf(file, sizeof file, "%s/file", top);
    write_text(file, "x", 1);
    snprintf(run, sizeof run, "%s", file);
    assert_refused(LS_RUN_NEW, LS_ERR_IO, "Not a directory");
    snprintf(run, sizeof run, "%s/below/it", file);
    assert_refused(LS_RUN_NEW, LS_ERR_IO, "cannot be made: Not a directory");
    snprintf(run, sizeof run, "/proc/lockstep-cannot-be-here");
    assert_refused(LS_RUN_NEW, LS_ERR_IO, "cannot be made");
    run[0] = '\0';
    assert_refused(LS_RUN_NEW, LS_ERR_ARGUMENT, "expected a folder");
}

static void test_a_folder_without_permission_is_said_at_once(void **state)
{
    (void)state;
    if (geteuid() == 0) return; /* the superuser may write anywhere: nothing to see */
    snprintf(run, sizeof run, "%s/locked", top);
    assert_int_equal(mkdir(run, 0555), 0);
    assert_refused(LS_RUN_NEW, LS_ERR_IO, "Permission denied");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_top, remove_top)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_folders_are_made_as_deep_as_needed),
        TEST(test_history_has_the_columns_of_keras),
        TEST(test_other_files_are_replaced_whole),
        TEST(test_a_disk_that_is_full_is_an_io_error_that_names_the_file),
        TEST(test_lines_after_the_checkpoint_are_cut),
        TEST(test_a_run_that_takes_no_step_leaves_its_logs_alone),
        TEST(test_a_resumed_run_has_the_files_of_an_undisturbed_one),
        TEST(test_a_line_torn_at_any_byte_is_cut),
        TEST(test_a_history_torn_in_its_first_line_gets_its_names_again),
        TEST(test_lines_that_are_not_ours_are_cut),
        TEST(test_temporary_files_of_a_killed_process_are_removed),
        TEST(test_resuming_may_also_start),
        TEST(test_a_folder_that_is_not_empty_is_refused),
        TEST(test_an_empty_folder_will_do),
        TEST(test_somebody_elses_folder_is_not_resumed_into),
        TEST(test_a_run_killed_before_its_first_checkpoint_starts_again),
        TEST(test_nothing_that_a_run_saved_is_written_over),
        TEST(test_somebody_elses_tables_are_not_written_over),
        TEST(test_two_processes_cannot_write_one_run),
        TEST(test_what_cannot_be_written_is_said_at_once),
        TEST(test_a_folder_without_permission_is_said_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
