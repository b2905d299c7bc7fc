/* SPDX-License-Identifier: MIT */
/* test_checkpoint_disk.c -- a save that fails anywhere leaves the previous checkpoint as it was.
 *
 * The disk belongs to the test: saves go through calls that give out, accept only some bytes, or
 * end the process at a chosen byte.
 */
#include "support/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/checkpoint.h"
#include "support/checkpoint_file.h"

/* What the faulty disk does; set by a test before it saves. */
static struct {
    size_t room;       /* bytes that it still takes */
    size_t most;       /* bytes per call */
    int when_full;     /* errno; -1: the process ends */
    int interrupts;    /* calls that fail with EINTR first */
    bool fails_sync, fails_rename, ends_at_rename;
} disk;

static ssize_t faulty_write(int fd, const void *data, size_t bytes)
{
    if (disk.interrupts > 0) {
        disk.interrupts--;
        errno = EINTR;
        return -1;
    }
    if (disk.room == 0) {
        if (disk.when_full < 0) _exit(9);
        errno = disk.when_full;
        return -1;
    }
    if (bytes > disk.most) bytes = disk.most;
    if (bytes > disk.room) bytes = disk.room;
    disk.room -= bytes;
    return write(fd, data, bytes);
}

static int faulty_sync(int fd)
{
    (void)fd;
    errno = EIO;
    return disk.fails_sync ? -1 : 0;
}

static int faulty_rename(const char *from, const char *to)
{
    if (disk.ends_at_rename) _exit(9);
    errno = EACCES;
    return disk.fails_rename ? -1 : rename(from, to);
}

static const ls_file_calls faulty = { faulty_write, faulty_sync, faulty_rename };

static float large[5000]; /* 20 KB: several boundaries of 4 KiB */
static const ls_saved_tensor large_tensor = { "weights/w", LS_DTYPE_F32, 1, { 5000 }, large };

static void reset_disk(void)
{
    memset(&disk, 0, sizeof disk);
    disk.room = disk.most = (size_t)1 << 30;
    disk.when_full = ENOSPC;
}

static ls_status save_faulty(void)
{
    return ls_checkpoint_save_through(&faulty, file_path, &large_tensor, 1, NULL, 0);
}

/* The same in a process that may end on the way; returns its exit code. */
static int save_in_child(void)
{
    const pid_t child = fork();
    if (child == 0) _exit(save_faulty() == LS_OK ? 0 : 1);
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Save `large` filled with `value`, the checkpoint that must survive; returns its bytes. */
static void save_previous(float value, file_bytes *previous)
{
    for (size_t i = 0; i < 5000; i++) large[i] = value + (float)i;
    reset_disk();
    assert_int_equal(save_faulty(), LS_OK);
    read_file(previous);
    for (size_t i = 0; i < 5000; i++) large[i] = -large[i];
}

static void assert_previous_is_whole(const file_bytes *previous)
{
    static file_bytes now;
    read_file(&now);
    assert_int_equal(now.count, previous->count);
    assert_memory_equal(now.byte, previous->byte, now.count);
    ls_checkpoint_close(open_file());
}

static void test_short_writes_and_interruptions_are_continued(void **state)
{
    (void)state;
    static file_bytes whole, pieces;
    save_previous(1, &whole);
    for (size_t i = 0; i < 5000; i++) large[i] = -large[i];
    for (size_t most = 1; most < 5000; most = most * 3 + 1) {
        reset_disk();
        disk.most = most;
        disk.interrupts = 3;
        assert_int_equal(save_faulty(), LS_OK);
        read_file(&pieces);
        assert_int_equal(pieces.count, whole.count);
        assert_memory_equal(pieces.byte, whole.byte, whole.count);
    }
}

static void test_a_disk_that_fills_up_anywhere_leaves_the_previous_file(void **state)
{
    (void)state;
    static file_bytes previous;
    save_previous(2, &previous);
    size_t refusals = 0;
    for (size_t room = 0; room < previous.count; room += room == 0 ? 1 : room == 1 ? 4095 : 4096) {
        for (int cause = 0; cause < 3; cause++) {
            static const int causes[] = { ENOSPC, EDQUOT, EIO };
            reset_disk();
            disk.room = room;
            disk.when_full = causes[cause];
            assert_int_equal(save_faulty(), LS_ERR_IO);
            assert_non_null(strstr(ls_last_error(), strerror(causes[cause])));
            assert_previous_is_whole(&previous);
            assert_int_equal(ls_checkpoint_remove_stale(file_path), 0); /* it cleaned up itself */
            refusals++;
        }
    }
    assert_true(refusals >= 3 * 6);
}

static void test_failing_sync_and_rename_leave_the_previous_file(void **state)
{
    (void)state;
    static file_bytes previous;
    save_previous(3, &previous);
    disk.fails_sync = true;
    assert_int_equal(save_faulty(), LS_ERR_IO);
    assert_previous_is_whole(&previous);
    disk.fails_sync = false;
    disk.fails_rename = true;
    assert_int_equal(save_faulty(), LS_ERR_IO);
    assert_non_null(strstr(ls_last_error(), "renamed"));
    assert_previous_is_whole(&previous);
    assert_int_equal(ls_checkpoint_remove_stale(file_path), 0);
}

static void test_a_kill_at_any_moment_leaves_the_previous_file_and_a_stale_one(void **state)
{
    (void)state;
    static file_bytes previous;
    save_previous(4, &previous);
    for (size_t room = 0; room < previous.count; room += 4096) {
        reset_disk();
        disk.room = room;
        disk.when_full = -1;
        assert_int_equal(save_in_child(), 9);
        assert_previous_is_whole(&previous);
        assert_int_equal(ls_checkpoint_remove_stale(file_path), 1);
    }
    reset_disk();
    disk.ends_at_rename = true; /* all is written and synced, but not renamed */
    assert_int_equal(save_in_child(), 9);
    assert_previous_is_whole(&previous);
    assert_int_equal(ls_checkpoint_remove_stale(file_path), 1);
    assert_int_equal(ls_checkpoint_remove_stale(file_path), 0);
}

/* The system's own limit on a file's length, through the system's own calls. */
static void test_a_real_short_write_leaves_the_previous_file(void **state)
{
    (void)state;
    static file_bytes previous;
    save_previous(5, &previous);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = { 10000, 10000 };
        signal(SIGXFSZ, SIG_IGN); /* write then fails with EFBIG */
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
        const ls_status status = ls_checkpoint_save(file_path, &large_tensor, 1, NULL, 0);
        _exit(status == LS_ERR_IO ? 0 : 1);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_previous_is_whole(&previous);
    assert_int_equal(ls_checkpoint_remove_stale(file_path), 0);
}

static void test_a_folder_that_is_not_there_is_an_io_error(void **state)
{
    (void)state;
    char absent[700];
    snprintf(absent, sizeof absent, "%s/no/such.safetensors", checkpoint_folder);
    assert_int_equal(ls_checkpoint_save(absent, example_tensors, EXAMPLE_TENSORS, NULL, 0),
                     LS_ERR_IO);
    assert_non_null(strstr(ls_last_error(), "No such file"));
    assert_int_equal(ls_checkpoint_remove_stale(absent), 0);
}

static void test_only_temporary_files_of_this_path_are_stale(void **state)
{
    (void)state;
    static const char *const name[] = { "last.safetensors.tmp-12", "last.safetensors.tmp-",
                                        "last.safetensors.tmp-1x", "best.safetensors.tmp-12",
                                        "last.safetensors.bak" };
    char file[700];
    for (int i = 0; i < 5; i++) {
        snprintf(file, sizeof file, "%s/%s", checkpoint_folder, name[i]);
        fclose(fopen(file, "w"));
    }
    assert_int_equal(ls_checkpoint_remove_stale(file_path), 1);
    for (int i = 0; i < 5; i++) {
        snprintf(file, sizeof file, "%s/%s", checkpoint_folder, name[i]);
        assert_int_equal(exists(file), i > 0);
        unlink(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_FILE(test_short_writes_and_interruptions_are_continued),
        TEST_WITH_FILE(test_a_disk_that_fills_up_anywhere_leaves_the_previous_file),
        TEST_WITH_FILE(test_failing_sync_and_rename_leave_the_previous_file),
        TEST_WITH_FILE(test_a_kill_at_any_moment_leaves_the_previous_file_and_a_stale_one),
        TEST_WITH_FILE(test_a_real_short_write_leaves_the_previous_file),
        TEST_WITH_FILE(test_a_folder_that_is_not_there_is_an_io_error),
        TEST_WITH_FILE(test_only_temporary_files_of_this_path_are_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
