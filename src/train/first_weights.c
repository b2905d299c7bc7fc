/* SPDX-License-Identifier: MIT */
/* first_weights.c -- what a new run's weights and moving statistics are before its first step.
 *
 * All are drawn from the seed or come from --init's checkpoint; with --init-only the tensors that
 * its patterns name come from there and the others are drawn, with the bits that they have in a run
 * without --init: no draw depends on another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "train/pattern.h"
#include "train/run.h"

/* The names that a pattern can match: of the model's parameters, then of its statistics. */
static const char *name_at(const ls_model *model, int i)
{
    return i < model->parameter_count ? model->parameter[i].name
                                      : model->statistic[i - model->parameter_count].name;
}

/* Has the file a weight or statistic of such a name? */
static bool is_in_file(const ls_checkpoint *checkpoint, ls_pattern pattern)
{
    static const char *const group[] = { "weights/", "statistics/" };
    for (int t = 0; t < ls_checkpoint_tensor_count(checkpoint); t++) {
        const char *name = ls_checkpoint_tensor_at(checkpoint, t)->name;
        for (int g = 0; g < 2; g++) {
            const size_t prefix = strlen(group[g]);
            if (strncmp(name, group[g], prefix) == 0 && ls_pattern_matches(pattern, name + prefix))
                return true;
        }
    }
    return false;
}

/* No tensor has such a name: the nearest. */
static ls_status no_match(ls_pattern pattern, const ls_model *model)
{
    char text[LS_NAME_BYTES * 2];
    const int count = model->parameter_count + model->statistic_count;
    const char **names = calloc((size_t)count + 1, sizeof *names);
    if (!names) return ls_fail(LS_ERR_MEMORY, "no memory for %d names", count);
    for (int i = 0; i < count; i++) names[i] = name_at(model, i);
    snprintf(text, sizeof text, "%.*s", (int)pattern.count, pattern.at);
    const char *nearest = ls_nearest_name(text, names);
    if (!nearest && count > 0) nearest = names[0];
    free(names);
    return ls_fail(LS_ERR_ARGUMENT, "--init-only: '%s' matches no tensor of the model or of the "
                   "checkpoint; the nearest is %s (lockstep show CHECKPOINT lists them, without "
                   "weights/)", text, nearest ? nearest : "none");
}

/* A pattern that matches a name on one side alone is found when that is loaded. */
static ls_status check_patterns(const ls_run *run, const ls_checkpoint *checkpoint)
{
    const ls_model *model = &run->model;
    ls_pattern rest = { run->config.init_only, strlen(run->config.init_only) };
    while (rest.count > 0) {
        const ls_pattern pattern = ls_pattern_take(&rest, ',');
        bool found = is_in_file(checkpoint, pattern);
        for (int i = 0; i < model->parameter_count + model->statistic_count && !found; i++)
            found = ls_pattern_matches(pattern, name_at(model, i));
        if (!found) return no_match(pattern, model);
    }
    return LS_OK;
}

static ls_status load_init(ls_run *run, const ls_checkpoint *checkpoint, const char *path)
{
    if (!run->config.init_only[0])
        return ls_run_weights_load(checkpoint, path, &run->model, false, run->arena_host,
                                   run->statistics_host);
    LS_TRY(check_patterns(run, checkpoint));
    return ls_run_weights_load_some(checkpoint, path, &run->model, run->config.init_only,
                                    run->arena_host, run->statistics_host);
}

ls_status ls_first_weights(ls_run *run)
{
    const ls_config *config = &run->config;
    ls_model_init_weights(&run->model, config->seed, run->arena_host);
    ls_model_init_statistics(&run->model, run->statistics_host);
    if (!config->init[0]) return LS_OK;
    char path[LS_TEXT_BYTES * 2];
    ls_checkpoint *init = NULL;
    LS_TRY(ls_checkpoint_find(config->init, path, sizeof path));
    ls_status status = ls_checkpoint_open(path, &init);
    if (status == LS_OK) status = load_init(run, init, path);
    ls_checkpoint_close(init);
    return status;
}
