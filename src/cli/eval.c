/* SPDX-License-Identifier: MIT */
/* eval.c -- `lockstep eval`: loss and metric of a checkpoint on a data set. */
#include "cli/console.h"
#include "cli/evaluation.h"

#include <stdio.h>
#include <string.h>

#include "io/json.h"

/* A flag that is one of two words; sets *out if it is the second. */
static ls_status read_choice(const ls_invocation *v, int flag, const char *usual,
                             const char *other, bool *out)
{
    const char *text = v->flag[flag] ? v->flag[flag] : usual;
    *out = strcmp(text, other) == 0;
    if (*out || strcmp(text, usual) == 0) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "--%s: found '%.60s', expected %s or %s",
                   v->command->flag[flag].name, text, other, usual);
}

ls_status ls_evaluate_argument(const ls_invocation *v, ls_evaluated *out, float **rows,
                               size_t *columns)
{
    *out = (ls_evaluated){ 0 };
    LS_TRY(read_choice(v, LS_EVALUATION_PART, "test", "train", &out->train_part));
    LS_TRY(read_choice(v, LS_EVALUATION_WEIGHTS, "average", "raw", &out->raw_weights));
    ls_config given;
    ls_config_init(&given);
    LS_TRY(ls_checkpoint_argument(v->argument[0], out->checkpoint, sizeof out->checkpoint));
    LS_TRY(ls_checkpoint_config(out->checkpoint, &out->stored));
    LS_TRY(ls_invocation_config(v, &given));
    snprintf(out->data, sizeof out->data, "%s", given.data[0] ? given.data : out->stored.data);
    LS_TRY(ls_evaluate(out->checkpoint, out->data, given.devices, given.threads, given.timeout_s,
                       out->train_part, out->raw_weights, ls_console_leave, &out->result, rows,
                       columns));
    if (out->result.data_note[0]) fprintf(stderr, "lockstep: %s\n", out->result.data_note);
    return LS_OK;
}

static ls_status run_eval(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    ls_evaluated e;
    LS_TRY(ls_evaluate_argument(v, &e, NULL, NULL));
    char loss[LS_NUMBER_BYTES], metric[LS_NUMBER_BYTES]; /* all digits: they can be compared */
    ls_number_text(e.result.loss, loss);
    ls_number_text(e.result.metric, metric);
    printf("checkpoint  %s\ndata        %s\nsamples     %zu\nloss        %s\n%-11s %s\n",
           e.checkpoint, e.data, e.result.samples, loss, e.result.metric_name, metric);
    return LS_OK;
}

static const char *const eval_options[] = { "data", "devices", "threads", "timeout", "p2p", NULL };

const ls_command ls_command_eval = {
    .name = "eval",
    .arguments = "CHECKPOINT [--data SPEC] [option ...]",
    .summary = "loss and metric of a checkpoint on a data set",
    .about =
        "Evaluates every sample of the test part (or of the training part, where there is no test\n"
        "part) exactly once. CHECKPOINT is a .safetensors file or a run folder. Without --data it\n"
        "is the data that the checkpoint was trained on. The result is the same, bit for bit, for\n"
        "any --devices and --threads.\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .takes = eval_options,
    .flag = { LS_EVALUATION_FLAG_LIST },
    .run = run_eval,
};
