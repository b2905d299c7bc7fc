/* SPDX-License-Identifier: MIT */
/* idle.c -- what a run was told and what does nothing in it.
 *
 * --momentum without an optimizer that has one is the usual case: who says it means SGD with
 * momentum, and would train with Adam. An option is idle if it was given and what it belongs to is
 * off. That is a warning, not an error: config.txt of a run gives every option again, and so does
 * the configuration in a checkpoint. Of one that gives them all nobody said which were meant: there
 * an option counts as given if its value is not the default.
 *
 * A warm-up is as long as it is whatever the run's length, so one of more updates than the run has
 * is told of. Steps are idle if the rate is 0 in all of them: a run whose cosine has ended and that
 * is given more epochs. A schedule that has come to 0 stays there, so the first and the last step
 * tell; a table may do as it likes, and is its author's matter.
 */
#include "train/idle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "plural.h"
#include "train/optimizer.h"

static bool has_momentum(const ls_config *c)
{
    return c->optimizer == LS_OPTIMIZER_MOMENTUM || c->optimizer == LS_OPTIMIZER_NESTEROV;
}

static bool is_adam(const ls_config *c) { return ls_optimizer_is_adam(c->optimizer); }
static bool is_rmsprop(const ls_config *c) { return c->optimizer == LS_OPTIMIZER_RMSPROP; }
static bool has_epsilon(const ls_config *c) { return is_adam(c) || is_rmsprop(c); }
static bool has_early_stop(const ls_config *c) { return c->early_stop > 0; }
static bool has_plateau(const ls_config *c) { return c->plateau > 0; }
static bool has_save_every(const ls_config *c) { return c->save_every > 0; }
static bool has_no_table(const ls_config *c) { return c->schedule.kind != LS_SCHEDULE_TABLE; }

static const struct {
    const char *option;
    bool (*is_used)(const ls_config *config);
    const char *needs;
} dependent[] = {
    { "momentum", has_momentum, "--optimizer momentum or nesterov" },
    { "beta1", is_adam, "--optimizer adam or adamw" },
    { "beta2", is_adam, "--optimizer adam or adamw" },
    { "rho", is_rmsprop, "--optimizer rmsprop" },
    { "epsilon", has_epsilon, "--optimizer adam, adamw or rmsprop" },
    { "min-delta", has_early_stop, "--early-stop" },
    { "plateau-factor", has_plateau, "--plateau" },
    { "plateau-delta", has_plateau, "--plateau" },
    { "plateau-cooldown", has_plateau, "--plateau" },
    { "plateau-min", has_plateau, "--plateau" },
    { "keep", has_save_every, "--save-every" },
    { "lr", has_no_table, "another --schedule than a table" },
};

enum { DEPENDENTS = sizeof dependent / sizeof dependent[0] };

static bool gives_all(const ls_config *config)
{
    for (size_t i = 0; i < DEPENDENTS; i++)
        if (!ls_config_is_given(config, ls_option_find(dependent[i].option))) return false;
    return true;
}

static void tell_options(const ls_config *config, const ls_observer *observer)
{
    const bool all = gives_all(config);
    ls_config defaults;
    ls_config_init(&defaults);
    defaults.optimizer = config->optimizer; /* the default rate is the optimizer's */
    ls_config_fill(&defaults, 1);
    for (size_t i = 0; i < DEPENDENTS; i++) {
        const ls_option *option = ls_option_find(dependent[i].option);
        char value[LS_TEXT_BYTES], usual[LS_TEXT_BYTES], line[LS_MESSAGE_BYTES];
        if (dependent[i].is_used(config) || !ls_config_is_given(config, option)) continue;
        ls_config_value(config, option, value, sizeof value);
        ls_config_value(&defaults, option, usual, sizeof usual);
        if (all && strcmp(value, usual) == 0) continue;
        snprintf(line, sizeof line, "warning: --%s %.40s does nothing without %s",
                 dependent[i].option, value, dependent[i].needs);
        observer->note(observer->context, line);
    }
}

/* Does the run end while its rate still rises? */
static void tell_warmup(const ls_config *config, uint64_t last, const ls_observer *observer)
{
    char line[LS_MESSAGE_BYTES];
    const uint64_t warmup = config->schedule.warmup;
    if (warmup <= last) return;
    snprintf(line, sizeof line, "warning: --warmup %" PRIu64 ": the run has %" PRIu64 " update%s, "
             "and ends before the rate has risen to %s", warmup, last, LS_PLURAL(last),
             config->schedule.kind == LS_SCHEDULE_TABLE ? "the table's first" : "--lr");
    observer->note(observer->context, line);
}

void ls_idle_tell(const ls_config *config, uint64_t first, uint64_t last,
                  const ls_observer *observer)
{
    if (!observer->note) return;
    tell_options(config, observer);
    if (first < last) tell_warmup(config, last, observer);
    if (config->schedule.kind == LS_SCHEDULE_TABLE) return;
    if (first >= last || ls_config_rate(config, first) > 0) return;
    if (last != UINT64_MAX && ls_config_rate(config, last - 1) > 0) return;
    observer->note(observer->context, "warning: the learning rate of all steps to come is 0: the "
                   "weights stay as they are; another --schedule needs a new run, with --init");
}
