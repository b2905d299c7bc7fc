/* SPDX-License-Identifier: MIT */
/* train.c -- `lockstep train`: a run, from its configuration to the page after it. */
#include <stdio.h>

#include "cli/console.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "train/trainer.h"

static ls_status run_train(const ls_invocation *v, int *exit_code)
{
    ls_config config;
    ls_config_init(&config);
    LS_TRY(ls_invocation_config(v, &config));
    ls_console console;
    ls_console_init(&console);
    const ls_observer observer = ls_console_observer(&console);
    ls_train_result result = { 0 };
    ls_signals_catch();
    const ls_status status = ls_train(&config, &observer, &result);
    ls_console_clear(&console);
    LS_TRY(status);
    ls_report_result(stdout, v->program, &console.effective, &result);
    if (result.stopped_by_signal) *exit_code = 128 + ls_signals_caught();
    return LS_OK;
}

const ls_command ls_command_train = {
    .name = "train",
    .arguments = "MODEL --data SPEC [option ...]",
    .summary = "train a model on one or several replicas",
    .about =
        "Trains ONE model on N replicas, which end each step with the same bits. MODEL is the\n"
        "name of a built-in model (see lockstep show) or a model file. With --resume, MODEL,\n"
        "--data and every option may be left out: they are then what the checkpoint says.\n"
        "\n"
        "  lockstep train digits-cnn --data digits --devices host:2\n"
        "  lockstep train --resume runs/digits-cnn-1 --epochs 20\n",
    .arguments_max = 1,
    .takes_model = true,
    .takes_all = true,
    .run = run_train,
};
