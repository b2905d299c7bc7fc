/* SPDX-License-Identifier: MIT */
/* guard.c -- see guard.h. */
#include "train/guard.h"

static const double scale_first = 32768;

static double smaller(double a, double b) { return a < b ? a : b; }
static double larger(double a, double b) { return a > b ? a : b; }

double ls_first_loss_scale(ls_precision precision)
{
    return precision == LS_PRECISION_F16 ? scale_first : 1;
}

void ls_guard_begin(ls_rank *k) { k->replica.loss_scale = (float)k->progress.guard.loss_scale; }

bool ls_guard_stops(const ls_config *config)
{
    return config->nonfinite == LS_NONFINITE_STOP && config->precision != LS_PRECISION_F16;
}

bool ls_guard_tolerates(ls_rank *k)
{
    if (ls_guard_stops(&k->run->config)) return false;
    if (k->progress.guard.failed_in_row >= LS_GUARD_PATIENCE) return false;
    k->numbers.failed = k->numbers.skipped = true;
    return true;
}

/* Copy the state of the replica, arena by arena, from or to its copy. */
static ls_status copy_state(ls_replica *r, bool back)
{
    const size_t bytes = r->config->model->arena_floats * sizeof(float);
    const size_t statistics = r->config->model->statistic_floats * sizeof(float);
    float *arena[] = { r->weights, r->slot[0], r->slot[1], r->average };
    float *copy = r->good;
    for (size_t a = 0; a < sizeof arena / sizeof arena[0]; a++) {
        if (!arena[a]) continue;
        LS_TRY(ls_copy_within(&r->compute, back ? arena[a] : copy, back ? copy : arena[a], bytes));
        copy += r->config->model->arena_floats;
    }
    if (statistics == 0) return LS_OK;
    return ls_copy_within(&r->compute, back ? r->statistics : copy, back ? copy : r->statistics,
                          statistics);
}

ls_status ls_guard_keep(ls_rank *k)
{
    return k->replica.good ? copy_state(&k->replica, false) : LS_OK;
}

ls_status ls_guard_undo(ls_rank *k)
{
    if (k->replica.good) {
        LS_TRY(copy_state(&k->replica, true));
        LS_TRY(ls_replica_weights_changed(&k->replica));
    }
    return ls_replica_commit_statistics(&k->replica, false);
}

void ls_guard_end(ls_rank *k)
{
    ls_guard_state *g = &k->progress.guard;
    if (k->numbers.failed) g->failed_in_row++;
    else if (!k->numbers.skipped) g->failed_in_row = 0;
    g->failed += k->numbers.failed;
    if (k->run->config.precision != LS_PRECISION_F16) return;
    if (k->numbers.failed) {
        g->loss_scale = larger(g->loss_scale / 2, LS_LOSS_SCALE_LEAST);
        g->clean_steps = 0;
    } else if (!k->numbers.skipped && ++g->clean_steps == LS_SCALE_CLEAN_STEPS) {
        g->loss_scale = smaller(g->loss_scale * 2, LS_LOSS_SCALE_MOST);
        g->clean_steps = 0;
    }
}
