/* SPDX-License-Identifier: MIT */
/* evaluation.c -- what `eval` and `predict` do alike. See evaluation.h. */
#include "cli/evaluation.h"

#include <stdio.h>
#include <string.h>

#include "cli/console.h"

const char *ls_evaluated_part(const ls_evaluated *e)
{
    return e->result.is_train_part ? "train" : "test";
}

ls_status ls_evaluate_argument(const ls_invocation *v, bool want_classes, bool want_rows,
                               const char *out_path, ls_evaluated *out)
{
    bool train_part, raw_weights;
    ls_config given, stored;
    *out = (ls_evaluated){ 0 };
    LS_TRY(ls_flag_choice(v, LS_EVALUATION_PART, "test", "train", &train_part));
    LS_TRY(ls_flag_choice(v, LS_EVALUATION_WEIGHTS, "average", "raw", &raw_weights));
    ls_config_init(&given);
    LS_TRY(ls_checkpoint_find(v->argument[0], out->checkpoint, sizeof out->checkpoint));
    LS_TRY(ls_checkpoint_config(out->checkpoint, &stored));
    LS_TRY(ls_invocation_config(v, &given));
    snprintf(out->data, sizeof out->data, "%s", given.data[0] ? given.data : stored.data);
    const bool metrics_given = ls_config_is_given(&given, ls_option_find("metrics"));
    LS_TRY(ls_evaluate(&(ls_evaluation_request){
        .checkpoint = out->checkpoint,
        .data = out->data,
        .devices = given.devices,
        .threads = given.threads,
        .timeout_s = given.timeout_s,
        .train_part = train_part,
        .test_part = v->flag[LS_EVALUATION_PART] && !train_part,
        .raw_weights = raw_weights,
        .metrics = metrics_given ? given.metrics : NULL,
        .want_classes = want_classes,
        .want_rows = want_rows,
        .want_warnings = true,
        .out = out_path,
        .stuck = ls_console_leave }, &out->result));
    for (const char *line = out->result.warnings; *line; line += strcspn(line, "\n") + 1)
        fprintf(stderr, "lockstep: warning: %.*s\n", (int)strcspn(line, "\n"), line);
    if (out->result.data_note[0]) fprintf(stderr, "lockstep: %s\n", out->result.data_note);
    return LS_OK;
}
