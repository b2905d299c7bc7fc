/* SPDX-License-Identifier: MIT */
/* notes.c -- what a run says by the way, a line at a time: see notes.h. */
#include "train/notes.h"

#include <inttypes.h>
#include <stdio.h>

static void note(const ls_rank *k, const char *text)
{
    const ls_observer *observer = k->run->observer;
    if (observer->note) observer->note(observer->context, text);
}

void ls_note_slower(const ls_rank *k)
{
    char text[160];
    const ls_run *run = k->run;
    snprintf(text, sizeof text, "%s has not become better for %" PRIu64 " epoch%s: the learning "
             "rate is now %g times the schedule's", run->monitor, run->config.plateau,
             run->config.plateau == 1 ? "" : "s", k->progress.callbacks.rate_factor);
    note(k, text);
}

static bool is_power_of_ten(uint64_t n)
{
    while (n > 0 && n % 10 == 0) n /= 10;
    return n == 1;
}

/* A step was not finite, and the run goes on. Its place in the epoch is what finds it: the number
 * of an update is that of the next one that succeeds. */
static void note_failed(ls_rank *k)
{
    char text[320];
    const ls_run *run = k->run;
    const ls_progress *p = &k->progress;
    const bool is_first = !k->told_failed, scaled = run->config.precision == LS_PRECISION_F16;
    if (!is_first && !is_power_of_ten(p->guard.failed)) return;
    k->told_failed = true;
    int n = snprintf(text, sizeof text, "epoch %" PRIu64 ", step %" PRIu64 " of %" PRIu64 ": not "
                     "finite, no update (%" PRIu64 " in all)", p->epoch + 1, p->step_of_epoch,
                     run->steps_per_epoch, p->guard.failed);
    if (scaled)
        n += snprintf(text + n, sizeof text - (size_t)n, "; the loss scale is now %g",
                      p->guard.loss_scale);
    if (is_first)
        snprintf(text + n, sizeof text - (size_t)n, "; told again at 10, 100, 1000; log.jsonl "
                 "marks each");
    note(k, text);
}

void ls_note_step(ls_rank *k)
{
    const bool weightless = k->numbers.skipped && !k->numbers.failed;
    if (weightless && !k->told_skipped)
        note(k, "all sample weights of a batch are zero: loss 0, no update (said once; log.jsonl "
             "marks each such step)");
    k->told_skipped = k->told_skipped || weightless;
    if (k->numbers.failed) note_failed(k);
}

void ls_note_end(const ls_rank *k)
{
    char text[160];
    const uint64_t failed = k->progress.guard.failed;
    if (!k->told_failed) return;
    snprintf(text, sizeof text, "%" PRIu64 " step%s in all %s not finite and made no update",
             failed, failed == 1 ? "" : "s", failed == 1 ? "was" : "were");
    note(k, text);
}
