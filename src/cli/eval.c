/* SPDX-License-Identifier: MIT */
/* eval.c -- `lockstep eval`: loss, metrics and confusion matrix of a checkpoint on a data set. */
#include "cli/evaluation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

enum { FLAG_CONFUSION = LS_EVALUATION_FLAGS };
enum { CONFUSION_MAX = 1000 };

/* -- the confusion matrix ---------------------------------------------------------------------- */

/* Characters of the widest number of a square matrix, and of its class numbers. */
static int widest(const size_t *count, size_t classes)
{
    size_t most = classes - 1;
    for (size_t i = 0; i < classes * classes; i++) most = count[i] > most ? count[i] : most;
    return snprintf(NULL, 0, "%zu", most);
}

static ls_status check_confusion(const ls_evaluation *e)
{
    if (e->classes == 0)
        return ls_fail(LS_ERR_ARGUMENT, "--confusion: the data have numbers, expected classes");
    if (e->classes > CONFUSION_MAX)
        return ls_fail(LS_ERR_ARGUMENT, "--confusion: %zu classes, expected at most %d",
                       e->classes, CONFUSION_MAX);
    return LS_OK;
}

/* A row per label, with its name at the end if it has one; a column per prediction. */
static ls_status print_confusion(const ls_evaluation *e)
{
    const size_t classes = e->classes;
    size_t *count = calloc(classes * classes, sizeof *count);
    if (!count) return ls_fail(LS_ERR_MEMORY, "no memory for %zu classes", classes);
    for (size_t i = 0; i < e->samples; i++) {
        count[(size_t)e->label[i] * classes + (size_t)e->predicted[i]]++;
    }
    const int width = widest(count, classes);
    printf("confusion   a row per label, a column per prediction\n%*s", width, "");
    for (size_t c = 0; c < classes; c++) printf(" %*zu", width, c);
    for (size_t r = 0; r < classes; r++) {
        const char *name = ls_evaluation_class_name(e, r);
        printf("\n%*zu", width, r);
        for (size_t c = 0; c < classes; c++) printf(" %*zu", width, count[r * classes + c]);
        if (name) printf("  %s", name);
    }
    printf("\n");
    free(count);
    return LS_OK;
}

/* -- the command ------------------------------------------------------------------------------- */

/* All digits: they can be compared. */
static void print_number(const char *name, double x)
{
    char text[LS_NUMBER_BYTES];
    ls_number_text(x, text);
    printf("%-11s %s\n", name, text);
}

static void print_result(const ls_evaluated *e)
{
    printf("checkpoint  %s\ndata        %s\nsamples     %zu\n", e->checkpoint, e->data,
           e->result.samples);
    print_number("loss", e->result.loss);
    for (int m = 0; m < e->result.metric_count; m++)
        print_number(e->result.metric_name[m], e->result.metric[m]);
}

static ls_status run_eval(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    ls_evaluated e;
    const bool confusion = v->flag[FLAG_CONFUSION] != NULL;
    LS_TRY(ls_evaluate_argument(v, confusion, false, &e));
    ls_status status = confusion ? check_confusion(&e.result) : LS_OK;
    if (status == LS_OK) print_result(&e);
    if (status == LS_OK && confusion) status = print_confusion(&e.result);
    ls_evaluation_free(&e.result);
    return status;
}

static const char *const eval_options[] = { "data", "devices", "threads", "timeout", "metrics",
                                            NULL };

const ls_command ls_command_eval = {
    .name = "eval",
    .arguments = "CHECKPOINT [--data SPEC] [option ...]",
    .summary = "loss and metrics of a checkpoint on a data set",
    .about =
        "Evaluates every sample of the test part (or of the training part, where there is no test\n"
        "part) exactly once. CHECKPOINT is a .safetensors file, or a run folder: its last one,\n"
        "not its best. Without --data it is the data that the checkpoint was trained on, without\n"
        "--metrics its run's. Samples are not weighted. The result is the same, bit for bit, for\n"
        "any --devices and --threads.\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .takes = eval_options,
    .own_default = { { "metrics", "its run's" } },
    .flag = { LS_EVALUATION_FLAG_LIST,
              [FLAG_CONFUSION] = { "confusion", NULL,
                                   "print how many samples of each class are taken for which" } },
    .run = run_eval,
};
