/* SPDX-License-Identifier: MIT */
/* long_cuda_faults.c -- a training on GPUs during which one driver call fails, whichever it is.
 *
 * On the virtual driver the program trains on 2 GPUs while one use of one entry point is made to
 * fail: the first, the second, one in the middle, the last, of each entry point of the backend's
 * own table (device/cuda_driver.h). How often a clean run uses it the driver tells; what only the
 * probe's child uses, or a training never, is made to fail at its first two uses, on GPUs that are
 * measured too because they do not call themselves virtual. The run then ends in time, either well
 * with host:1's bits (the call did not matter, was the child's, or was not made so often) or with a
 * message that names the call and leaves nothing in the driver; and what it had saved goes on, on
 * the host, to the bits of the undisturbed run.
 *
 * Also: three seeds of everything the driver leaves to chance.
 */
#include "support/test.h"

#include <stdio.h>

#include "device/cuda_driver.h"
#include "support/fresh_process.h"
#include "support/program.h"
#include "support/training.h"

enum { STEPS = 4, TIMEOUT_S = 30 };

static training *files;
static program_run undisturbed;

typedef struct {
    const char *name; /* of the backend's table */
    int uses;         /* by a clean run, the probe's child not counted */
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

/* Note how often a clean run used what a line of the trace tells of. False: our table lacks it. */
static bool note_uses(call calls[LS_CUDA_ENTRY_COUNT], const char *line)
{
    char name[64];
    int uses = 0;
    const char *at = strstr(line, "ms used: ");
    if (at == NULL || sscanf(at, "ms used: %63s %d", name, &uses) != 2) return true;
    for (int i = 0; i < LS_CUDA_ENTRY_COUNT; i++) {
        if (strcmp(calls[i].name, name) != 0) continue;
        calls[i].uses = uses;
        return true;
    }
    print_error("%s is called, but is not in the backend's table\n", name);
    return false;
}

/* All entry points, and how often a clean run uses each. */
static void count_calls(call calls[LS_CUDA_ENTRY_COUNT])
{
    char settings[700], trace[512], line[512];
    bool known = true;
    for (int i = 0; i < LS_CUDA_ENTRY_COUNT; i++)
        calls[i] = (call){ .name = ls_cuda_entry_name[i] };
    (void)snprintf(trace, sizeof trace, "%s", new_folder());
    (void)snprintf(settings, sizeof settings, "LOCKSTEP_VGPU_TRACE=%s", trace);
    const program_run run = train(settings, "cuda", new_folder(), STEPS);
    PROGRAM_MUST_END(&run, "clean", 0, NULL);
    assert_true(has_the_bits(&run));
    FILE *file = fopen(trace, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) known = note_uses(calls, line) && known;
    (void)fclose(file);
    assert_true(known);
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
    (void)snprintf(settings, sizeof settings, "%s LOCKSTEP_VGPU_FAIL=%s@%d=%d",
                   c->uses == 0 ? "LOCKSTEP_VGPU_NAME=Test" : "", c->name, use,
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
    call calls[LS_CUDA_ENTRY_COUNT];
    int wrong = 0, runs = 0, used = 0;
    count_calls(calls);
    for (int i = 0; i < LS_CUDA_ENTRY_COUNT; i++) {
        const int n = calls[i].uses, use[] = { 1, 2, n / 2, n };
        used += n > 0;
        for (int k = 0, last = 0; k < 4; k++) {
            if (use[k] <= last) continue;
            last = use[k];
            wrong += fail_use(&calls[i], last);
            runs++;
        }
    }
    print_message("%d failures of %d entry points, of which a run itself uses %d\n", runs,
                  (int)LS_CUDA_ENTRY_COUNT, used);
    assert_true(used >= 30);
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
