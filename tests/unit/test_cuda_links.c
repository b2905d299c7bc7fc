/* SPDX-License-Identifier: MIT */
/* test_cuda_links.c -- a link between GPUs that goes wrong is left out or named, never believed.
 *
 * All of this needs machines made for it, so on a real driver it is left out: there,
 * tests/gpu/run trains (gpu_training.h).
 */
#include "support/test.h"

#include <stdio.h>

#include "support/fresh_process.h"
#include "support/gpu_machines.h"
#include "support/gpu_training.h"
#include "support/program.h"

static work small;

static int make_small(void **state)
{
    if (make_files(state) != 0) return -1;
    if (!driver_is_virtual()) return 0;
    (void)snprintf(small.words, sizeof small.words,
                   "digits-cnn --data " DIGITS_TRAIN " --global-batch 12 --steps 3");
    prepare(&small);
    return 0;
}

static void test_the_environment_of_a_run_tells_kinds_and_speeds_of_its_links(void **state)
{
    (void)state;
    need_virtual_driver();
    char options[600], path[600], text[8192];
    const char *folder = new_folder();
    (void)snprintf(options, sizeof options, "--devices cuda --steps 1 --out %s", folder);
    (void)snprintf(path, sizeof path, "%s/environment.json", folder);
    const program_run run = train(&small, "DEVICES=3 NAME=Test P2P=all,!0-1", options);
    PROGRAM_MUST_END(&run, "named", 0, NULL);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    double gb_per_s = 0, us = 0;
    const char *at = strstr(text, "\"1->2 PEER ");
    const bool measured = at != NULL && sscanf(at, "\"1->2 PEER %lf GB/s %lf us\"", &gb_per_s,
                                               &us) == 2 && gb_per_s > 0 && us > 0;
    if (measured && strstr(text, "\"0->1 STAGED\"") != NULL) return;
    (void)fprintf(stderr, "%s\n", text);
    fail();
}

static void test_a_link_that_lies_from_the_start_is_staged_and_the_bits_are_the_same(void **state)
{
    (void)state;
    need_virtual_driver();
    static const variant variants[] = {
        { "DEVICES=3 LINKS=1\\>2:drop", "--devices cuda", "pair 1 -> 2 is staged" },
        { "DEVICES=3 LINKS=1\\>2:flip", "--devices cuda", "pair 1 -> 2 is staged" },
        { "DEVICES=3 LINKS=1\\>2:zero", "--devices cuda", "pair 1 -> 2 is staged" },
        { NULL, NULL, NULL },
    };
    must_all_be_the_same(&small, variants);
}

enum { GOOD_STEPS = 4 };

/* How often the link from GPU 0 to GPU 1 is used in the first GOOD_STEPS steps of `small`. */
static int count_uses(const char *options)
{
    char settings[600], trace[512], line[512];
    int use, most = 0;
    (void)snprintf(trace, sizeof trace, "%s", new_folder());
    (void)snprintf(settings, sizeof settings, "DEVICES=2 TRACE=%s", trace);
    const program_run run = train(&small, settings, options);
    PROGRAM_MUST_END(&run, "traced", 0, NULL);
    FILE *file = fopen(trace, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, ", use ");
        const bool is_it = strstr(line, " of link 0>1") != NULL;
        if (is_it && at != NULL && sscanf(at, ", use %d", &use) == 1 && use > most) most = use;
    }
    (void)fclose(file);
    assert_true(most > GOOD_STEPS);
    return most;
}

/* `small`, but longer; the link does `fault` from its first use in step GOOD_STEPS + 1 on. */
static program_run train_until(const char *fault, int good_uses)
{
    char settings[100];
    (void)snprintf(settings, sizeof settings, "DEVICES=2 LINKS=0\\>1:%s@%d", fault, good_uses + 1);
    return train(&small, settings, "--devices cuda --steps 8 --timeout 3");
}

static void test_a_link_that_begins_to_lie_is_caught_in_that_step(void **state)
{
    (void)state;
    need_virtual_driver();
    const int uses = count_uses("--devices cuda --steps 4");
    static const char *const fault[] = { "flip", "drop", "zero" };
    for (int i = 0; i < 3; i++) {
        const program_run run = train_until(fault[i], uses);
        PROGRAM_MUST_END(&run, fault[i], 5, "step 5: bucket 0, ring step 0",
                         "bytes changed on link 0 -> 1", NULL);
    }
}

static void test_a_link_that_falls_silent_ends_the_run_in_time(void **state)
{
    (void)state;
    need_virtual_driver();
    const int uses = count_uses("--devices cuda --steps 4");
    const program_run whole = train_until("slow=1", uses), run = train_until("hang", uses);
    PROGRAM_MUST_END(&whole, "slow", 0, NULL);
    PROGRAM_MUST_END(&run, "hang", 5, "step 5: bucket 0, ring step 0: link 0 -> 1 (PEER): "
                     "the bytes did not come within the timeout", "--p2p off", NULL);
    /* It began like the whole run, so it cannot have waited longer than this. */
    if (run.seconds <= whole.seconds + 3 + 2) return;
    print_error("%.1f s, where the run without the fault takes %.1f s\n", run.seconds,
                whole.seconds);
    program_show(&run);
    fail();
}

/* All ranks wait then, most of them for a transfer that waits itself. */
static void test_the_link_that_falls_silent_is_the_one_that_is_named(void **state)
{
    (void)state;
    need_virtual_driver();
    static const struct {
        const char *link, *options, *named;
    } row[] = {
        /* The probe, a process of its own, uses each 16 times. */
        { "1>2:hang@17", "--allreduce ring", "broadcast, ring step 1: link 1 -> 2 (PEER)" },
        { "0>1:hang@20", "--allreduce ring", "step 1: bucket 0, ring step 0: link 0 -> 1 (PEER)" },
        { "1>2:hang@31", "--allreduce ring", "link 1 -> 2 (PEER)" },
        { "2>0:hang@17", "--allreduce ring", "link 2 -> 0 (PEER)" },
        { "1>2:hang@19", "--allreduce tree", "bucket 0, ring step 0: link 1 -> 2 (PEER)" },
        /* Rank 2's kernel, which adds what it reads over this link: its sum comes to nobody. */
        { "1>2:hang@20", "--allreduce tree", "bucket 0, ring step 1: link 2 -> 0 (PEER)" },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char settings[200], options[200];
        (void)snprintf(settings, sizeof settings, "DEVICES=3 SEED=%zu JITTER=300 LINKS=%c\\%s", i,
                       row[i].link[0], row[i].link + 1);
        (void)snprintf(options, sizeof options, "--devices cuda --timeout 2 %s", row[i].options);
        const program_run run = train(&small, settings, options);
        PROGRAM_MUST_END(&run, settings, 5, row[i].named,
                         "did not come within the timeout", "--p2p off goes round it", NULL);
        if (i % 3 != 0) continue;
        (void)snprintf(options, sizeof options, "--devices cuda --timeout 2 --p2p off %s",
                       row[i].options);
        const program_run staged = train(&small, settings, options);
        must_be_the_same(&small, &staged, options);
    }
}

/* What is enqueued takes several times as long as the timeout, each piece of it less. */
static void test_slow_work_that_goes_on_is_no_timeout(void **state)
{
    (void)state;
    need_virtual_driver();
    static const variant variants[] = {
        { "DEVICES=2 JITTER=150000", "--devices cuda --timeout 1 --steps 1", "done" },
        { "DEVICES=2 LINKS=0\\>1:slow=200000", "--devices cuda --timeout 1 --steps 1", "done" },
        { NULL, NULL, NULL },
    };
    for (const variant *v = variants; v->settings != NULL; v++) {
        const program_run run = train(&small, v->settings, v->options);
        PROGRAM_MUST_END(&run, v->settings, 0, v->said, NULL);
        assert_true(run.seconds > 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_environment_of_a_run_tells_kinds_and_speeds_of_its_links),
        cmocka_unit_test(test_a_link_that_lies_from_the_start_is_staged_and_the_bits_are_the_same),
        cmocka_unit_test(test_a_link_that_begins_to_lie_is_caught_in_that_step),
        cmocka_unit_test(test_a_link_that_falls_silent_ends_the_run_in_time),
        cmocka_unit_test(test_the_link_that_falls_silent_is_the_one_that_is_named),
        cmocka_unit_test(test_slow_work_that_goes_on_is_no_timeout),
    };
    return cmocka_run_group_tests(tests, make_small, remove_files);
}
