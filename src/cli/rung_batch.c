/* SPDX-License-Identifier: MIT */
/* rung_batch.c -- rung 5 of `lockstep verify`: a larger global batch beside the fixed one.
 *
 * Whoever adds replicas likes to give each of them as many samples as before, so the global batch
 * grows. That is no longer the same training, and this rung shows what it costs: all replicas, K
 * times the global batch (--scale-batch K), over the same data as often as rung 1.
 *
 *     rate       as --lr-scale linear says: times the new global batch / --base-batch, which is
 *                rung 1's global batch unless given [Goyal 2017]
 *     warm-up    a K-th of --warmup's updates, so over the same samples; a tenth of all updates if
 *                none was given
 *     schedule   its counts of updates are divided by K, for the same reason
 *     length     the epochs that rung 1 did; if it ended within one, a K-th of its updates
 *
 * Nothing is compared bit for bit, and no difference is a failure. A larger batch that does not
 * stay finite is told and is none either.
 *
 * Source: P. Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", 2017: when
 * the batch is multiplied by K multiply the rate by K, and start with a rate that rises to it.
 */
#include "cli/ladder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli/console.h"

static uint64_t divided_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/* Counts of updates, for batches that are `scale` times as large; none becomes 0. Of a table's
 * entries that fall on one update the last one holds. */
static void shorten_schedule(ls_schedule *s, uint64_t scale)
{
    s->every = divided_up(s->every, scale);
    s->steps = divided_up(s->steps, scale);
    int kept = 0;
    for (int e = 0; e < s->entry_count; e++) {
        const ls_rate_entry entry = { s->entry[e].step / scale, s->entry[e].rate };
        if (kept > 0 && s->entry[kept - 1].step == entry.step) kept--;
        s->entry[kept++] = entry;
    }
    s->entry_count = kept;
    s->warmup = divided_up(s->warmup, scale);
}

/* How the larger batch trains. `fixed`: rung 1's run. */
static void scale_config(ls_config *config, const ls_recorded_run *fixed, int scale)
{
    const uint64_t factor = (uint64_t)scale;
    config->global_batch = fixed->global_batch * factor;
    if (config->lr_scale == LS_LR_SCALE_NONE) {
        config->lr_scale = LS_LR_SCALE_LINEAR;
        config->base_batch = fixed->global_batch;
    }
    uint64_t updates = divided_up(fixed->result.steps, factor);
    if (fixed->result.steps == fixed->result.epochs * fixed->steps_per_epoch) {
        config->epochs = fixed->result.epochs;
        config->steps = 0;
        const uint64_t samples = fixed->samples, batch = config->global_batch;
        updates = config->epochs *
                  (config->drop_remainder ? samples / batch : divided_up(samples, batch));
    } else {
        config->epochs = 0;
        config->steps = updates;
    }
    config->until.metric[0] = '\0';
    shorten_schedule(&config->schedule, factor);
    if (config->schedule.warmup == 0) config->schedule.warmup = divided_up(updates, 10);
}

/* -- the table ------------------------------------------------------------------------------ */

static void print_count(const char *name, uint64_t fixed, uint64_t scaled)
{
    printf("     %-16s %12" PRIu64 " %12" PRIu64 "\n", name, fixed, scaled);
}

static void print_number(const char *prefix, const char *name, double fixed, double scaled)
{
    char row[64], a[LS_READABLE_BYTES], b[LS_READABLE_BYTES], change[LS_READABLE_BYTES];
    if (isnan(fixed) && isnan(scaled)) return;
    snprintf(row, sizeof row, "%s%s", prefix, name);
    snprintf(change, sizeof change, fabs(scaled - fixed) < 1e7 ? "%+.4f" : "%+.4e",
             scaled - fixed);
    printf("     %-16s %12s %12s %12s\n", row, ls_readable(fixed, a), ls_readable(scaled, b),
           change);
}

static void print_comparison(const ls_recorded_run *fixed, const ls_recorded_run *scaled)
{
    const ls_history_line *f = &fixed->result.last, *s = &scaled->result.last;
    printf("     %-16s %12s %12s %12s\n", "", "fixed", "scaled", "difference");
    print_count("global batch", fixed->global_batch, scaled->global_batch);
    print_count("epochs", fixed->result.epochs, scaled->result.epochs);
    print_count("updates", fixed->result.steps, scaled->result.steps);
    print_count("of warm-up", fixed->warmup, scaled->warmup);
    printf("     %-16s %12g %12g\n", "highest rate", fixed->highest_lr,
           scaled->highest_lr);
    print_number("", "loss", f->loss, s->loss);
    for (int m = 0; m < f->metric_count; m++)
        print_number("", f->metric_name[m], f->metric[m], s->metric[m]);
    print_number("val_", "loss", f->val_loss, s->val_loss);
    for (int m = 0; m < f->metric_count; m++)
        print_number("val_", f->metric_name[m], f->val_metric[m], s->val_metric[m]);
    printf("     These are two different trainings: other updates, other weights. Each has the\n"
           "     same bits for any number of replicas; how far apart they are: the last column.\n");
}

ls_status ls_rung_batch(ls_ladder *l)
{
    const ls_recorded_run *fixed = &l->of_one;
    ls_recorded_run scaled = { 0 };
    ls_config config = l->config;
    printf("\n 5  a larger global batch, its learning rate scaled and warmed up\n");
    if (l->scale_batch == 0) {
        printf("     left out (--scale-batch 0)\n");
        return LS_OK;
    }
    if (fixed->global_batch * (size_t)l->scale_batch > fixed->samples) {
        printf("     left out: %d x %zu is more than the %zu training samples\n", l->scale_batch,
               fixed->global_batch, fixed->samples);
        return LS_OK;
    }
    scale_config(&config, fixed, l->scale_batch);
    ls_status status = ls_ladder_train(l, &config, l->many, &scaled);
    if (status == LS_ERR_NONFINITE) {
        printf("     global batch %zu, learning rate up to %g: %s\n", scaled.global_batch,
               scaled.highest_lr, ls_last_error());
        status = LS_OK;
    } else if (status == LS_OK && !l->stopped) {
        print_comparison(fixed, &scaled);
    }
    ls_recorded_run_free(&scaled);
    return status;
}
