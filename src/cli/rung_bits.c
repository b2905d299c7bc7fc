/* SPDX-License-Identifier: MIT */
/* rung_bits.c -- rungs 1 and 2 of `lockstep verify`: N replicas give the bits of one.
 *
 * Rung 1 trains on one replica and evaluates the file that it saved: that must be what the run
 * measured itself at its end. Rung 2 trains the same on all replicas; every loss, every digest and
 * the evaluation are compared with rung 1's.
 */
#include "cli/ladder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/console.h"
#include "cli/report.h"
#include "plural.h"

static ls_status evaluate(const ls_ladder *l, const char *devices, const ls_recorded_run *run,
                          ls_evaluation *out)
{
    return ls_evaluate(&(ls_evaluation_request){
        .checkpoint = run->result.checkpoint, .data = l->config.data, .devices = devices,
        .threads = l->config.threads, .timeout_s = l->config.timeout_s,
        .stuck = ls_console_leave }, out);
}

static void print_evaluation(const ls_evaluation *e)
{
    char text[LS_READABLE_BYTES];
    printf("     evaluated  %zu sample%s: loss %s", e->samples, LS_PLURAL(e->samples),
           ls_readable(e->loss, text));
    for (int m = 0; m < e->metric_count; m++) {
        printf(", %s %s", e->metric_name[m], ls_readable(e->metric[m], text));
    }
    putchar('\n');
}

/* The evaluation of the saved file can be compared with the run's own if the run ended with an
 * epoch and there is a test part. */
ls_status ls_rung_one(ls_ladder *l)
{
    ls_recorded_run *one = &l->of_one;
    const ls_evaluation *e = &l->evaluation;
    printf("\n 1  one replica (%s): train, save, reload, evaluate\n", l->one);
    LS_TRY(ls_ladder_train(l, &l->config, l->one, one));
    if (l->stopped) return LS_OK;
    printf("     trained    %" PRIu64 " epoch%s, %" PRIu64 " step%s of %zu sample%s\n",
           one->result.epochs, LS_PLURAL(one->result.epochs), one->result.steps,
           LS_PLURAL(one->result.steps), one->global_batch, LS_PLURAL(one->global_batch));
    LS_TRY(evaluate(l, l->one, one, &l->evaluation));
    print_evaluation(e);
    const ls_history_line *last = &one->result.last;
    if (last->epoch == 0 || last->step != one->result.steps || isnan(last->val_loss)) return LS_OK;
    const bool holds = ls_same_bits(last->val_loss, e->loss) &&
                       ls_same_metrics(last->val_metric, e->metric, last->metric_count);
    ls_ladder_check(l, holds, "the reloaded checkpoint's evaluation and the run's own");
    return LS_OK;
}

/* `name` is padded, so that the digests stand below each other. */
static void compare_digests(ls_ladder *l, const char *name, const char *one, const char *many)
{
    char what[256];
    snprintf(what, sizeof what, "%s %.16s... and %.16s...", name, one, many);
    ls_ladder_check(l, strcmp(one, many) == 0, what);
}

static void compare_runs(ls_ladder *l, const ls_recorded_run *one, const ls_recorded_run *many)
{
    const ls_train_result *a = &one->result, *b = &many->result;
    char what[256];
    snprintf(what, sizeof what, "loss of %zu step%s", one->step_count, LS_PLURAL(one->step_count));
    ls_ladder_check(l, ls_recorded_same_steps(one, many), what);
    snprintf(what, sizeof what, "loss and metrics of %zu epoch%s", one->epoch_count,
             LS_PLURAL(one->epoch_count));
    ls_ladder_check(l, ls_recorded_same_epochs(one, many), what);
    compare_digests(l, "weights   ", a->weights_sha256, b->weights_sha256);
    compare_digests(l, "optimizer ", a->optimizer_sha256, b->optimizer_sha256);
    if (a->statistics_sha256[0])
        compare_digests(l, "statistics", a->statistics_sha256, b->statistics_sha256);
}

ls_status ls_rung_many(ls_ladder *l)
{
    char split[LS_SPLIT_BYTES];
    ls_recorded_run *many = &l->of_many;
    printf("\n 2  %d replicas (%s), the same global batch\n", l->world_size, l->many);
    LS_TRY(ls_ladder_train(l, &l->config, l->many, many));
    if (l->stopped) return LS_OK;
    ls_batch_split(many->global_batch, many->shards, l->world_size, split);
    printf("     trained    %s\n", split);
    compare_runs(l, &l->of_one, many);
    ls_evaluation e;
    LS_TRY(evaluate(l, l->many, many, &e));
    ls_ladder_check(l, ls_same_bits(e.loss, l->evaluation.loss) &&
                           ls_same_metrics(e.metric, l->evaluation.metric, e.metric_count),
                    "evaluation of the checkpoint on all replicas and on one");
    return LS_OK;
}
