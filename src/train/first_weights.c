/* SPDX-License-Identifier: MIT */
/* first_weights.c -- what a new run's weights and moving statistics are before its first step.
 *
 * All are drawn from the seed or come from --init's checkpoint; with --init-only the tensors that
 * its patterns name come from there and the others are drawn, with the bits that they have in a run
 * without --init: no draw depends on another.
 */
#include <string.h>

#include "train/pattern.h"
#include "train/run.h"
#include "train/state_scale.h"

/* Has the file a weight or statistic of such a name? */
static bool is_in_file(const ls_checkpoint *checkpoint, ls_text pattern)
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

/* A pattern that matches a name on one side alone is found when that is loaded. */
static ls_status check_patterns(const ls_run *run, const ls_checkpoint *checkpoint)
{
    const ls_model *model = &run->model;
    ls_text rest = { run->config.init_only, strlen(run->config.init_only) };
    for (bool more = true; more;) {
        more = memchr(rest.at, ',', rest.count) != NULL;
        const ls_text pattern = ls_text_take(&rest, ',');
        bool found = is_in_file(checkpoint, pattern);
        for (int i = 0; i < model->parameter_count + model->statistic_count && !found; i++)
            found = ls_pattern_matches(pattern, ls_model_tensor(model, i)->name);
        if (!found)
            return ls_pattern_fail(pattern, model, true, "--init-only",
                                   "tensor of the model or of the checkpoint",
                                   "lockstep show CHECKPOINT lists them, without weights/");
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

/* Are the data of this run standardised, and those that the weights were trained on not, or the
 * other way round? Other scales may well make the same numbers: bytes divided by 255 are what a
 * file of floats from 0 to 1 holds. */
static ls_status compare_scales(ls_run *run, const ls_checkpoint *checkpoint, const char *path)
{
    const ls_scale_rule ours = ls_dataset_scale_rule(run->dataset);
    ls_scale_rule theirs;
    bool known;
    LS_TRY(ls_state_scale_load(checkpoint, path, &theirs, &known));
    if (known && (theirs.kind == LS_SCALE_STANDARD) != (ours.kind == LS_SCALE_STANDARD))
        ls_scale_name(&theirs, run->init_scale);
    return LS_OK;
}

ls_status ls_first_weights(ls_run *run)
{
    const ls_config *config = &run->config;
    if (!config->init[0] || config->init_only[0]) {
        ls_model_init_weights(&run->model, config->seed, run->arena_host);
        ls_model_init_statistics(&run->model, run->statistics_host);
    }
    if (!config->init[0]) return LS_OK;
    char path[LS_TEXT_BYTES * 2];
    ls_checkpoint *init = NULL;
    LS_TRY(ls_checkpoint_find(config->init, path, sizeof path));
    ls_status status = ls_checkpoint_open(path, &init);
    if (status == LS_OK) status = load_init(run, init, path);
    if (status == LS_OK) status = compare_scales(run, init, path);
    ls_checkpoint_close(init);
    return status;
}
