/* SPDX-License-Identifier: MIT */
/* long_kills.c -- a run that is killed thirty times, at moments nobody chose, ends in the bits of
 * the run that was left alone.
 *
 * The program under test is $LOCKSTEP. It is started with --resume auto, as a unit file would after
 * a power cut, and gets SIGKILL after a while; again and again, on another number of replicas each
 * time; then it may finish. Kills fall into steps, evaluations and saves alike.
 */
#include "support/test.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/checkpoint.h"
#include "philox.h"
#include "support/training.h"

extern char **environ;

enum { KILLS = 30, SEED = 20 };

/* Start `$LOCKSTEP train digits-cnn` into `out` on `devices`, quiet. */
static pid_t start(const char *out, const char *devices)
{
    const char *program = getenv("LOCKSTEP");
    char *const arguments[] = { "lockstep", "train", "digits-cnn", "--data", "digits", "--epochs",
                                "12", "--save-every", "7", "--accumulate", "2", "--devices",
                                (char *)(uintptr_t)devices, "--out", (char *)(uintptr_t)out,
                                "--resume", "auto", NULL };
    posix_spawn_file_actions_t quiet;
    pid_t child;
    if (!program) fail_msg("LOCKSTEP does not name the program");
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", 1, 0);
    assert_int_equal(posix_spawn(&child, program, &quiet, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&quiet);
    return child;
}

static int finish(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void weights_of(const char *folder, char weights[65], char optimizer[65])
{
    char path[600];
    ls_checkpoint *checkpoint = NULL;
    snprintf(path, sizeof path, "%s/checkpoints/last.safetensors", folder);
    if (ls_checkpoint_open(path, &checkpoint) != LS_OK) fail_msg("%s", ls_last_error());
    assert_int_equal(ls_checkpoint_group_sha256(checkpoint, "weights/", weights), LS_OK);
    assert_int_equal(ls_checkpoint_group_sha256(checkpoint, "optimizer/", optimizer), LS_OK);
    ls_checkpoint_close(checkpoint);
}

/* Milliseconds until kill number `i`: from the first syscall to past the second epoch. */
static long kill_after_ms(uint32_t i)
{
    uint32_t word[4];
    ls_random_words(SEED, LS_RANDOM_AUGMENT, 0, 0, i, 0, word);
    return 5 + (long)(word[0] % 400);
}

static void test_thirty_kills_leave_no_trace(void **state)
{
    (void)state;
    static const char *const devices[] = { "host:1", "host:2", "host:3" };
    training *t = training_create();
    char alone[512], killed[512], weights[2][65], optimizer[2][65];
    int landed = 0;
    snprintf(alone, sizeof alone, "%s", training_path(t, "alone"));
    snprintf(killed, sizeof killed, "%s", training_path(t, "killed"));
    assert_int_equal(finish(start(alone, "host:1")), 0);
    for (uint32_t i = 0; i < KILLS; i++) {
        const pid_t child = start(killed, devices[i % 3]);
        const long ms = kill_after_ms(i);
        nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
        kill(child, SIGKILL);
        const int code = finish(child);
        if (code == 128 + SIGKILL) landed++;
        else if (code != 0) fail_msg("seed %d, kill %u: exit %d", SEED, i, code);
    }
    assert_int_equal(finish(start(killed, "host:2")), 0);
    print_message("%d of %d kills found the program running\n", landed, KILLS);
    weights_of(alone, weights[0], optimizer[0]);
    weights_of(killed, weights[1], optimizer[1]);
    assert_string_equal(weights[0], weights[1]);
    assert_string_equal(optimizer[0], optimizer[1]);
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_thirty_kills_leave_no_trace) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
