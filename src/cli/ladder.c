/* SPDX-License-Identifier: MIT */
/* ladder.c -- the runs of `lockstep verify`, recorded step by step, and its count of checks.
 *
 * Every run has a folder of its own, run-1, run-2 ..., in the ladder's. The observer keeps each
 * step's loss and each epoch's line, as the trainer reports them.
 */
#include "cli/ladder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/console.h"
#include "cli/signals.h"
#include "io/dataset.h"

/* -- recording ------------------------------------------------------------------------------ */

/* Room for one more element, doubling at each power of two. */
static void *grown(void *array, size_t count, size_t bytes)
{
    const bool is_full = (count & (count - 1)) == 0;
    return is_full ? realloc(array, (count > 0 ? 2 * count : 1) * bytes) : array;
}

static void on_plan(void *context, const ls_train_plan *plan)
{
    ls_recorded_run *run = context;
    run->global_batch = plan->global_batch;
    run->samples = ls_dataset_describe(plan->dataset)->count[LS_PART_TRAIN];
    run->steps_per_epoch = plan->steps_per_epoch;
    run->warmup = plan->config->schedule.warmup;
    run->threads = plan->threads;
    run->shards = plan->config->shards;
    snprintf(run->kernels, sizeof run->kernels, "%s", plan->kernels);
}

static void on_step(void *context, const ls_step_report *report)
{
    ls_recorded_run *run = context;
    double *room = grown(run->step_loss, run->step_count, sizeof *room);
    run->is_short = run->is_short || !room;
    if (run->is_short) return;
    run->step_loss = room;
    run->step_loss[run->step_count++] = report->line->loss;
    if (report->line->lr > run->highest_lr) run->highest_lr = report->line->lr;
}

static void on_epoch(void *context, const ls_history_line *line, uint64_t epochs)
{
    (void)epochs;
    ls_recorded_run *run = context;
    ls_history_line *room = grown(run->epoch, run->epoch_count, sizeof *room);
    run->is_short = run->is_short || !room;
    if (run->is_short) return;
    run->epoch = room;
    run->epoch[run->epoch_count++] = *line;
}

static void on_note(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "lockstep: %s\n", text);
}

void ls_recorded_run_free(ls_recorded_run *run)
{
    free(run->epoch);
    free(run->step_loss);
    *run = (ls_recorded_run){ 0 };
}

ls_status ls_ladder_train(ls_ladder *l, const ls_config *wanted, const char *devices,
                          ls_recorded_run *run)
{
    ls_config config = *wanted;
    *run = (ls_recorded_run){ 0 };
    LS_TRY(ls_config_set(&config, "devices", devices));
    snprintf(config.out, sizeof config.out, "%s/run-%d", l->folder, ++l->run_count);
    /* Every run notes the same; the first one's is enough. */
    const ls_observer observer = { .plan = on_plan, .step = on_step, .epoch = on_epoch,
                                   .note = l->run_count == 1 ? on_note : NULL,
                                   .should_stop = ls_signals_should_stop,
                                   .stuck = ls_console_leave, .context = run };
    LS_TRY(ls_train(&config, &observer, &run->result));
    l->stopped = run->result.stopped_by_signal;
    if (run->is_short) return ls_fail(LS_ERR_MEMORY, "no memory to record a run's losses");
    return LS_OK;
}

/* -- comparing ------------------------------------------------------------------------------ */

void ls_ladder_check(ls_ladder *l, bool holds, const char *what)
{
    l->check_count++;
    printf("     %s  %s\n", holds ? "same bits" : "DIFFERENT", what);
    if (holds) return;
    if (l->failed_count++ == 0) snprintf(l->first_failure, sizeof l->first_failure, "%s", what);
}

bool ls_same_bits(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

bool ls_same_metrics(const double *a, const double *b, int count)
{
    for (int m = 0; m < count; m++) {
        if (!ls_same_bits(a[m], b[m])) return false;
    }
    return true;
}

bool ls_recorded_same_epochs(const ls_recorded_run *a, const ls_recorded_run *b)
{
    if (a->epoch_count != b->epoch_count) return false;
    for (size_t e = 0; e < a->epoch_count; e++) {
        const ls_history_line *x = &a->epoch[e], *y = &b->epoch[e];
        if (!ls_same_bits(x->loss, y->loss) || !ls_same_bits(x->val_loss, y->val_loss) ||
            !ls_same_metrics(x->metric, y->metric, x->metric_count) ||
            !ls_same_metrics(x->val_metric, y->val_metric, x->metric_count)) {
            return false;
        }
    }
    return true;
}

bool ls_recorded_same_steps(const ls_recorded_run *a, const ls_recorded_run *b)
{
    return a->step_count == b->step_count &&
           (a->step_count == 0 ||
            memcmp(a->step_loss, b->step_loss, a->step_count * sizeof *a->step_loss) == 0);
}
