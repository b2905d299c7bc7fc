/* SPDX-License-Identifier: MIT */
/* notes.c -- what a run says by the way, a line at a time: see notes.h. */
#include "train/notes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "plural.h"
#include "train/idle.h"
#include "train/model_parse.h"
#include "train/pattern.h"

static void note(const ls_run *run, const char *text)
{
    if (run->observer->note) run->observer->note(run->observer->context, text);
}

/* -- before the first step --------------------------------------------------------------------- */

/* What opening the data found odd, or left out, a line at a time. */
static void note_data(const ls_run *run)
{
    const char *text = ls_dataset_warnings(run->dataset);
    while (*text) {
        char line[LS_MESSAGE_BYTES];
        const size_t chars = strcspn(text, "\n");
        snprintf(line, sizeof line, "warning: %.*s", (int)chars, text);
        note(run, line);
        text += chars + (text[chars] == '\n');
    }
}

/* Layers that the loss does not depend on: how many, and the first. */
static void note_unused(const ls_run *run)
{
    const ls_model *model = &run->model;
    const ls_layer *first = NULL;
    int count = 0;
    char line[LS_MESSAGE_BYTES], more[40] = "";
    for (int l = model->layer_count - 1; l >= 0; l--) {
        if (model->layer[l].is_used) continue;
        first = &model->layer[l];
        count++;
    }
    if (!first) return;
    if (count > 1) snprintf(more, sizeof more, " (and %d more)", count - 1);
    snprintf(line, sizeof line, "warning: the loss does not depend on layer '%s', line %d of the "
             "model%s: its weights stay as they are", first->name, first->line, more);
    note(run, line);
}

/* A crossentropy takes the last layer's output as logits. */
static void note_sigmoid(const ls_run *run)
{
    const ls_model *model = &run->model;
    const ls_layer *end = &model->layer[model->layer_count - 1];
    char line[LS_MESSAGE_BYTES];
    if (end->op != LS_OP_ACTIVATION || end->activation != LS_ACTIVATION_SIGMOID) return;
    if (model->loss != LS_LOSS_SOFTMAX_CROSSENTROPY
        && model->loss != LS_LOSS_SIGMOID_CROSSENTROPY) return;
    snprintf(line, sizeof line, "warning: the last layer, '%s' in line %d of the model, is a "
             "sigmoid, and '%s' applies its own to what comes out: leave that line out",
             end->name, end->line, ls_model_loss_name(model->loss));
    note(run, line);
}

/* Batch normalisation of one number at a time: its own mean, so nothing is left of it. */
static void note_single(const ls_run *run)
{
    const ls_config *c = &run->config;
    const bool by_shard = c->batchnorm == LS_BATCHNORM_SHARD;
    const uint64_t samples = ls_dataset_describe(run->dataset)->count[LS_PART_TRAIN];
    const uint64_t batch = c->global_batch < samples ? c->global_batch : samples;
    char line[LS_MESSAGE_BYTES];
    if (batch > (by_shard ? (uint64_t)c->shards : 1)) return;
    for (int l = 0; l < run->model.layer_count; l++) {
        const ls_layer *layer = &run->model.layer[l];
        if (layer->op != LS_OP_BATCHNORM || !layer->is_used) continue;
        if (layer->in.height * layer->in.width != 1) continue;
        snprintf(line, sizeof line, "warning: layer '%s', line %d of the model, takes statistics "
                 "of one sample, so its output is beta whatever the input: give a %s several "
                 "(--global-batch%s)", layer->name, layer->line, by_shard ? "shard" : "batch",
                 by_shard ? ", --shards" : "");
        note(run, line);
        return;
    }
}

/* The best epoch so far is known by its numbers alone. */
static void note_lost_best(const ls_run *run)
{
    char line[LS_MESSAGE_BYTES];
    if (!run->best_lost[0]) return;
    snprintf(line, sizeof line, "warning: %s", run->best_lost);
    note(run, line);
}

/* "WHAT: NAME, NAME and 3 more": the tensors that --init-only names (`taken`), or does not. */
static void note_tensors(const ls_run *run, const char *what, bool taken)
{
    enum { LISTED = 8 };
    const ls_model *model = &run->model;
    char line[LS_MESSAGE_BYTES];
    int found = 0;
    int used = snprintf(line, sizeof line, "%.600s:", what);
    for (int i = 0; i < model->parameter_count + model->statistic_count; i++) {
        const char *name = ls_model_tensor(model, i)->name;
        if (ls_patterns_match(run->config.init_only, name) != taken) continue;
        if (found++ < LISTED)
            used += snprintf(line + used, sizeof line - (size_t)used, "%s %.80s",
                             found > 1 ? "," : "", name);
    }
    if (found == 0) snprintf(line + used, sizeof line - (size_t)used, " nothing");
    if (found > LISTED)
        snprintf(line + used, sizeof line - (size_t)used, " and %d more", found - LISTED);
    note(run, line);
}

/* The weights of --init expect numbers of another kind. */
static void note_scale(const ls_run *run)
{
    const ls_scale_rule ours = ls_dataset_scale_rule(run->dataset);
    char line[LS_MESSAGE_BYTES], name[LS_SCALE_NAME_BYTES];
    if (!run->init_scale[0]) return;
    ls_scale_name(&ours, name);
    snprintf(line, sizeof line, "warning: the weights of --init %.600s were trained on data of "
             "scale=%s, these have scale=%s: say scale=%s in --data", run->config.init,
             run->init_scale, name, run->init_scale);
    note(run, line);
}

/* What --init-only took, and what it left. */
static void note_init(const ls_run *run)
{
    char what[LS_TEXT_BYTES + 32];
    if (!run->config.init_only[0] || run->resume_path[0]) return;
    snprintf(what, sizeof what, "taken from %s", run->config.init);
    note_tensors(run, what, true);
    note_tensors(run, "begins anew", false);
}

void ls_note_begin(const ls_run *run, uint64_t first)
{
    note_data(run);
    ls_idle_tell(&run->config, first, run->last_step, run->observer);
    note_unused(run);
    note_sigmoid(run);
    note_single(run);
    note_lost_best(run);
    note_scale(run);
    note_init(run);
}

/* -- on the way -------------------------------------------------------------------------------- */

void ls_note_slower(const ls_rank *k)
{
    char text[160];
    const ls_run *run = k->run;
    snprintf(text, sizeof text, "%s has not become better for %" PRIu64 " epoch%s: the learning "
             "rate is now %g times the schedule's", run->monitor, run->config.plateau,
             LS_PLURAL(run->config.plateau), k->progress.callbacks.rate_factor);
    note(k->run, text);
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
        snprintf(text + n, sizeof text - (size_t)n, "; told again at each power of ten; "
                 "log.jsonl marks each");
    note(k->run, text);
}

void ls_note_step(ls_rank *k)
{
    const bool weightless = k->numbers.skipped && !k->numbers.failed;
    if (weightless && !k->told_skipped)
        note(k->run, "all sample weights of a batch are zero: loss 0, no update (said once; "
             "log.jsonl marks each such step)");
    k->told_skipped = k->told_skipped || weightless;
    if (k->numbers.failed) note_failed(k);
}

void ls_note_end(const ls_rank *k)
{
    char text[160];
    const uint64_t failed = k->progress.guard.failed;
    if (!k->told_failed) return;
    snprintf(text, sizeof text, "%" PRIu64 " step%s in all %s not finite and made no update",
             failed, LS_PLURAL(failed), failed == 1 ? "was" : "were");
    note(k->run, text);
}
