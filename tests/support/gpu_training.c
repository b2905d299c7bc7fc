/* SPDX-License-Identifier: MIT */
/* gpu_training.c -- see gpu_training.h. */
#include "support/test.h"

#include "support/gpu_training.h"

#include <stdio.h>

training *files;

const char *new_folder(void)
{
    char name[32];
    (void)snprintf(name, sizeof name, "run-%d", files->runs++);
    return training_path(files, name);
}

program_run train(const work *w, const char *settings, const char *options)
{
    char environment[600] = "", arguments[ARGUMENTS_BYTES];
    program_run run;
    for (char word[128]; sscanf(settings, "%127s", word) == 1;) {
        const size_t used = strlen(environment);
        (void)snprintf(environment + used, sizeof environment - used, "LOCKSTEP_VGPU_%s ", word);
        settings = strstr(settings, word) + strlen(word);
    }
    const int bytes = snprintf(arguments, sizeof arguments, "train %s %s%s%s", w->words, options,
                               strstr(options, "--out ") ? "" : " --out ",
                               strstr(options, "--out ") ? "" : new_folder());
    assert_true(bytes < ARGUMENTS_BYTES);
    program_run_with(&run, environment, arguments);
    return run;
}

void prepare(work *w)
{
    w->on_host = train(w, "", "--devices host:1");
    PROGRAM_MUST_END(&w->on_host, w->words, 0, "weights", NULL);
    assert_int_equal(strlen(w->on_host.weights), 64);
    assert_int_equal(strlen(w->on_host.optimizer), 64);
}

void must_be_the_same(const work *w, const program_run *run, const char *what)
{
    PROGRAM_MUST_END(run, what, 0, NULL);
    const bool same = strcmp(run->weights, w->on_host.weights) == 0 &&
                      strcmp(run->optimizer, w->on_host.optimizer) == 0;
    if (same && !program_said(run, "vgpu:")) return;
    print_error("%s: %s\n", what, same ? "the driver complains" : "other bits than on host:1");
    program_show(run);
    fail();
}

void must_all_be_the_same(const work *w, const variant *v)
{
    for (; v->settings != NULL; v++) {
        char what[300];
        (void)snprintf(what, sizeof what, "%s %s", v->settings, v->options);
        const program_run run = train(w, v->settings, v->options);
        must_be_the_same(w, &run, what);
        PROGRAM_MUST_END(&run, what, 0, v->said, NULL);
    }
}

int make_files(void **state)
{
    (void)state;
    files = training_create();
    return 0;
}

int remove_files(void **state)
{
    (void)state;
    training_destroy(files);
    return 0;
}
