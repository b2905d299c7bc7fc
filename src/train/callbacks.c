/* SPDX-License-Identifier: MIT */
/* callbacks.c -- see callbacks.h. */
#include "train/callbacks.h"

#include <math.h>
#include <string.h>

ls_callback_state ls_callbacks_first(void)
{
    const double nan = (double)NAN;
    return (ls_callback_state){ .best = nan, .stop_best = nan, .plateau_best = nan,
                                .rate_factor = 1 };
}

const char *ls_callbacks_monitor(const ls_config *config, bool has_test)
{
    if (strcmp(config->monitor, "auto") != 0) return config->monitor;
    return has_test ? "val_loss" : "loss";
}

/* Losses and errors get better downwards. */
static bool is_downwards(const char *column)
{
    static const char *const down[] = { "loss", "mse", "mae" };
    if (strncmp(column, "val_", 4) == 0) column += 4;
    for (size_t i = 0; i < sizeof down / sizeof down[0]; i++)
        if (strcmp(column, down[i]) == 0) return true;
    return false;
}

/* Is `value` better than `best` by more than `delta`? Anything is better than a NaN. */
static bool is_better(const char *column, double value, double best, double delta)
{
    if (isnan(value)) return false;
    if (isnan(best)) return true;
    return is_downwards(column) ? value < best - delta : value > best + delta;
}

static void wait_to_stop(ls_callback_state *s, const ls_config *config, const char *column,
                         double value)
{
    const bool better = is_better(column, value, s->stop_best, config->min_delta);
    if (better) s->stop_best = value;
    s->stop_wait = better ? 0 : s->stop_wait + 1;
}

/* Keras' order: the cooldown is counted down first; its last epoch may wait again. */
static bool wait_to_slow(ls_callback_state *s, const ls_config *config, const char *column,
                         double value, double rate)
{
    if (s->plateau_cooldown > 0) {
        s->plateau_cooldown--;
        s->plateau_wait = 0;
    }
    if (is_better(column, value, s->plateau_best, config->plateau_delta)) {
        s->plateau_best = value;
        s->plateau_wait = 0;
        return false;
    }
    if (s->plateau_cooldown > 0) return false;
    if (++s->plateau_wait < config->plateau) return false;
    if (ls_callbacks_rate(s, config, rate) <= config->plateau_min) return false;
    s->rate_factor *= config->plateau_factor;
    s->plateau_cooldown = config->plateau_cooldown;
    s->plateau_wait = 0;
    return true;
}

ls_callback_verdict ls_callbacks_epoch(ls_callback_state *state, const ls_config *config,
                                       const char *column, double value, bool whole, double rate)
{
    ls_callback_verdict verdict = { .best = is_better(column, value, state->best, 0) };
    if (verdict.best) state->best = value;
    if (!whole) return verdict;
    if (config->early_stop > 0) wait_to_stop(state, config, column, value);
    if (config->plateau > 0)
        verdict.slower = wait_to_slow(state, config, column, value, rate);
    return verdict;
}

bool ls_callbacks_stops(const ls_callback_state *state, const ls_config *config)
{
    return config->early_stop > 0 && state->stop_wait >= config->early_stop;
}

double ls_callbacks_rate(const ls_callback_state *state, const ls_config *config, double rate)
{
    const double slower = rate * state->rate_factor;
    const double least = rate < config->plateau_min ? rate : config->plateau_min;
    return slower < least ? least : slower;
}
