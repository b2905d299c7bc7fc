/* SPDX-License-Identifier: MIT */
/* data.c -- `lockstep data verify`: open a data set, which checks it, and say what is in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "io/dataset.h"
#include "nearest.h"

static ls_status run_data(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    static const char *const verbs[] = { "verify", NULL };
    if (strcmp(v->argument[0], verbs[0]) != 0) {
        const char *nearest = ls_nearest_name(v->argument[0], verbs);
        return ls_fail(LS_ERR_ARGUMENT, "found '%.60s', expected: lockstep data verify SPEC%s",
                       v->argument[0], nearest ? "; did you mean verify?" : "");
    }
    ls_dataset *dataset = NULL;
    LS_TRY(ls_dataset_open(v->argument[1], &dataset));
    char *text = NULL;
    const ls_status status = ls_dataset_report(dataset, &text);
    if (status == LS_OK) fputs(text, stdout);
    free(text);
    ls_dataset_close(dataset);
    return status;
}

const ls_command ls_command_data = {
    .name = "data",
    .arguments = "verify SPEC",
    .summary = "check a data set and say what is in it",
    .about =
        "Checks every length, count, label and number of a data set, as train does before step 0,\n"
        "and prints what is in it. SPEC is what --data takes:\n"
        "\n"
        "  digits                      8x8 optical digits, built in\n"
        "  cifar10:DIR                 the binary release\n"
        "  cifar100:DIR[,label=fine|coarse]\n"
        "  idx:DIR                     MNIST's layout, unpacked\n"
        "  csv:FILE[,label=last|first|N][,header=no|yes][,task=class|regress][,outputs=K]\n"
        "      [,test=every:5|FILE|none]\n"
        "  npy:X.npy,Y.npy[,test=X.npy,Y.npy]\n"
        "  each then with [,scale=255|none|standard], the files with [,bad=stop|skip]\n",
    .arguments_min = 2,
    .arguments_max = 2,
    .run = run_data,
};
