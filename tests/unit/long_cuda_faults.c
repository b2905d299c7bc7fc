/* SPDX-License-Identifier: MIT */
/* long_cuda_faults.c -- a training on GPUs during which one driver call fails, whichever it is.
 *
 * On the virtual driver the program trains on 2 GPUs while one use of one entry point is made to
 * fail: the first, the second, one in the middle, the last, of each entry point that a clean run
 * uses. The run then ends in time, either well with host:1's bits (the call did not matter, or was
 * not made so often) or with a message that names the call and leaves nothing in the driver;
 * and what it had saved goes on, on the host, to the bits of the undisturbed run.
 *
 * Also: three seeds of everything the driver leaves to chance.
 */
#include "support/test.h"

#include <stdio.h>

#include "support/fresh_process.h"
#include "support/program.h"
#include "support/training.h"

enum { STEPS = 4, CALLS_MAX = 64, TIMEOUT_S = 5 };

static training *files;
static program_run undisturbed;

typedef struct {
    char name[64];
    int uses;
} call;

/* Train on `devices` into `folder`, from what is there. */
static program_run train(const char *settings, const char *devices, const char *folder, int steps)
{
    char arguments[1500];
    program_run run;
    const int bytes = snprintf(arguments, sizeof arguments, "train digits-cnn --global-batch 8 "
                               "--data csv:src/data/digits.csv,header=no,test=none --devices %s "
                               "--steps %d --save-every 1 --timeout %d --resume auto --out %s",
                               devices, steps, TIMEOUT_S, folder);
    assert_true(bytes < (int)sizeof arguments);
    program_run_with(&run, settings, arguments);
    return run;
}

static const char *new_folder(void)
{
    char name[32];
    (void)snprintf(name, sizeof name, "run-%d", files->runs++);
    return training_path(files, name);
}

static int make_files(void **state)
{
    (void)state;
    if (!driver_is_virtual()) {
        print_message("left out: these faults need the virtual driver\n");
        return 0;
    }
    files = training_create();
    undisturbed = train("", "host:1", new_folder(), STEPS);
    PROGRAM_MUST_END(&undisturbed, "host:1", 0, "weights", NULL);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    if (files != NULL) training_destroy(files);
    return 0;
}

static bool has_the_bits(const program_run *run)
{
    return run->weights[0] != '\0' && strcmp(run->weights, undisturbed.weights) == 0 &&
           strcmp(run->optimizer, undisturbed.optimizer) == 0;
}

static void test_three_seeds_have_the_hosts_bits(void **state)
{
    (void)state;
    if (!driver_is_virtual()) skip();
    for (int seed = 1; seed <= 3; seed++) {
        for (int gpus = 1; gpus <= 4; gpus++) {
            char settings[200];
            (void)snprintf(settings, sizeof settings, "LOCKSTEP_VGPU_DEVICES=%d LOCKSTEP_VGPU_"
                           "SEED=%d LOCKSTEP_VGPU_JITTER=300 LOCKSTEP_VGPU_P2P=%s", gpus, seed,
                           seed == 2 ? "none" : seed == 3 && gpus > 1 ? "all,!0-1" : "all");
            const program_run run = train(settings, "cuda", new_folder(), STEPS);
            PROGRAM_MUST_END(&run, settings, 0, NULL);
            if (has_the_bits(&run) && !program_said(&run, "vgpu:")) continue;
            program_show(&run);
            fail_msg("%s: other bits than host:1, or a report", settings);
        }
    }
}

/* The entry points that a clean run uses, and how often. */
static int count_calls(call *calls)
{
    char settings[700], trace[512], line[512];
    int count = 0;
    (void)snprintf(trace, sizeof trace, "%s", new_folder());
    (void)snprintf(settings, sizeof settings, "LOCKSTEP_VGPU_TRACE=%s", trace);
    const program_run run = train(settings, "cuda", new_folder(), STEPS);
    PROGRAM_MUST_END(&run, "clean", 0, NULL);
    assert_true(has_the_bits(&run));
    FILE *file = fopen(trace, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL && count < CALLS_MAX) {
        const char *at = strstr(line, "ms used: ");
        call *c = &calls[count];
        if (at != NULL && sscanf(at, "ms used: %63s %d", c->name, &c->uses) == 2) count++;
    }
    (void)fclose(file);
    return count;
}

/* What a failed release leaves behind is no leak of ours. */
static bool is_release(const char *name)
{
    return strstr(name, "Free") || strstr(name, "Destroy") || strstr(name, "Release") ||
           strstr(name, "Unload");
}

/* The run in which use `use` of the call failed. NULL, or what is wrong with it. */
static const char *judge(const program_run *run, const call *c)
{
    const bool left = program_said(run, "left behind");
    if (run->code == 124 || run->code >= 128) return "it hung or crashed";
    if (left && !is_release(c->name)) return "it left something behind";
    if (run->code == 0) return has_the_bits(run) ? NULL : "it ended well with other bits";
    if (run->code != 1 && run->code != 2 && run->code != 5) return "an exit code of no such class";
    return program_said(run, c->name) ? NULL : "it does not name the call";
}

/* 1 if something is wrong, which is then shown. */
static int fail_use(const call *c, int use)
{
    char settings[200], folder[512];
    (void)snprintf(folder, sizeof folder, "%s", new_folder());
    (void)snprintf(settings, sizeof settings, "LOCKSTEP_VGPU_FAIL=%.63s@%d=%d", c->name, use,
                   strstr(c->name, "Alloc") ? 2 : 999);
    program_run run = train("", "host:1", folder, 1);
    PROGRAM_MUST_END(&run, "one step", 0, NULL);
    run = train(settings, "cuda", folder, STEPS);
    const char *wrong = judge(&run, c);
    if (wrong == NULL && run.code != 0) {
        const program_run after = train("", "host:1", folder, STEPS);
        if (after.code != 0 || !has_the_bits(&after)) wrong = "what it saved does not go on";
    }
    if (wrong == NULL) return 0;
    print_error("%s: %s; code %d\n", settings, wrong, run.code);
    program_show(&run);
    return 1;
}

static void test_whatever_call_fails_the_run_ends_and_its_checkpoint_goes_on(void **state)
{
    (void)state;
    if (!driver_is_virtual()) skip();
    call calls[CALLS_MAX];
    int wrong = 0, runs = 0;
    const int count = count_calls(calls);
    assert_true(count >= 30);
    for (int i = 0; i < count; i++) {
        const int n = calls[i].uses, use[] = { 1, 2, n / 2, n };
        for (int k = 0, last = 0; k < 4; k++) {
            if (use[k] <= last || use[k] > n) continue;
            last = use[k];
            wrong += fail_use(&calls[i], last);
            runs++;
        }
    }
    print_message("%d failures of %d entry points\n", runs, count);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_seeds_have_the_hosts_bits),
        cmocka_unit_test(test_whatever_call_fails_the_run_ends_and_its_checkpoint_goes_on),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
