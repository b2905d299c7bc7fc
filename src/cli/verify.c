/* SPDX-License-Identifier: MIT */
/* verify.c -- `lockstep verify`: the acceptance ladder of a machine, rung by rung (ladder.h).
 *
 * All rungs are climbed even if a check fails, because the later ones help to see why; the exit
 * code is 4 if a bit differed anywhere.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/ladder.h"
#include "cli/options.h"
#include "cli/scratch_folder.h"
#include "cli/signals.h"
#include "device/topology.h"

enum { FLAG_REPEAT, FLAG_SCALE_BATCH, DEFAULT_EPOCHS = 2, DEFAULT_REPEAT = 3, DEFAULT_SCALE = 4 };

static ls_rung *const rungs[] = { ls_rung_one, ls_rung_many, ls_rung_times, ls_rung_throughput,
                                  ls_rung_batch, ls_rung_environment };

/* The configuration, and which devices stand on either side. */
static ls_status init_ladder(ls_ladder *l, const ls_invocation *v)
{
    *l = (ls_ladder){ 0 };
    LS_TRY(ls_flag_count(v, FLAG_REPEAT, 1, LS_REPEAT_MAX, DEFAULT_REPEAT, &l->repeat));
    LS_TRY(ls_flag_count(v, FLAG_SCALE_BATCH, 0, LS_SCALE_BATCH_MAX, DEFAULT_SCALE,
                         &l->scale_batch));
    ls_config *config = &l->config;
    ls_config_init(config);
    LS_TRY(ls_invocation_config(v, config));
    LS_TRY(ls_config_check(config));
    if (config->resume[0]) {
        return ls_fail(LS_ERR_ARGUMENT, "verify starts anew: it takes no --resume %s",
                       config->resume);
    }
    if (config->replica_batch > 0) {
        return ls_fail(LS_ERR_ARGUMENT, "verify compares at one global batch: it takes "
                       "--global-batch, not --replica-batch %" PRIu64, config->replica_batch);
    }
    if (config->epochs == 0 && config->steps == 0) config->epochs = DEFAULT_EPOCHS;
    if (!ls_config_is_given(config, ls_option_find("devices"))) {
        LS_TRY(ls_config_set(config, "devices", "host:2"));
    }
    ls_device_list list;
    LS_TRY(ls_device_list_parse(config->devices, config->p2p, &list));
    if (list.count < 2) {
        return ls_fail(LS_ERR_ARGUMENT, "--devices %s: found 1 replica, expected at least 2 to "
                       "compare with one: host:2", config->devices);
    }
    l->world_size = list.count;
    l->is_host = list.device[0].kind == LS_DEVICE_HOST;
    snprintf(l->many, sizeof l->many, "%s", config->devices);
    if (l->is_host) snprintf(l->one, sizeof l->one, "host:1");
    else snprintf(l->one, sizeof l->one, "cuda:%d", list.device[0].ordinal);
    return LS_OK;
}

static ls_status climb(ls_ladder *l)
{
    printf("lockstep verify %s on %s: 1 replica against %d (%s)\n", l->config.model,
           l->config.data, l->world_size, l->many);
    for (size_t r = 0; r < sizeof rungs / sizeof *rungs && !l->stopped; r++) LS_TRY(rungs[r](l));
    return LS_OK;
}

/* What the climb came to. */
static ls_status conclude(const ls_ladder *l, int *exit_code)
{
    if (l->stopped) {
        *exit_code = 128 + ls_signals_caught();
        return LS_OK;
    }
    if (l->failed_count > 0) {
        return ls_fail(LS_ERR_VERIFY, "%d of %d comparisons differ, first: %s", l->failed_count,
                       l->check_count, l->first_failure);
    }
    printf("\nverified: %d of %d comparisons have the same bits\n", l->check_count,
           l->check_count);
    return LS_OK;
}

static ls_status run_verify(const ls_invocation *v, int *exit_code)
{
    ls_ladder l;
    LS_TRY(init_ladder(&l, v));
    const bool is_scratch = l.config.out[0] == '\0';
    ls_signals_catch(); /* before there is a folder: a signal, too, ends in removing it */
    LS_TRY(ls_scratch_folder_make(l.config.out, l.folder, sizeof l.folder));
    ls_status status = climb(&l);
    if (is_scratch) ls_scratch_folder_remove(l.folder);
    if (status == LS_OK) status = conclude(&l, exit_code);
    ls_recorded_run_free(&l.of_one);
    ls_recorded_run_free(&l.of_many);
    return status;
}

const ls_command ls_command_verify = {
    .name = "verify",
    .arguments = "MODEL --data SPEC [--devices LIST] [--repeat R] [option ...]",
    .summary = "prove that N replicas give the bits of one, and measure both",
    .about =
        "The acceptance ladder: one replica trains, saves, reloads and evaluates; then the\n"
        "replicas of --devices (default host:2) at the same global batch, bits compared; then\n"
        "where the time went; then throughput over --repeat runs; then, as another training\n"
        "beside the first, a global batch --scale-batch times as large with the learning rate\n"
        "scaled and warmed up. Takes the options of train.\n"
        "Without --out it works in a temporary folder. Exit code 4: a bit differed.\n",
    .arguments_max = 1,
    .takes_model = true,
    .takes_all = true,
    .flag = { [FLAG_REPEAT] = { "repeat", "R", "timed runs of each side (default 3)" },
              [FLAG_SCALE_BATCH] = { "scale-batch", "K", "the larger global batch, in fixed ones; "
                                     "0: leave it out (default 4)" } },
    .run = run_verify,
};
