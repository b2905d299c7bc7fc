/* SPDX-License-Identifier: MIT */
/* report.c -- see report.h. Only sentences; every number comes from the plan or the result. */
#include "cli/report.h"

#include <inttypes.h>
#include <string.h>

#include "cli/console.h"
#include "numerics.h"
#include "plural.h"
#include "train/metrics.h"
#include "unit.h"

static const char *const row_format = "  %-12s";

static void begin_row(FILE *out, const char *name) { fprintf(out, row_format, name); }

/* `text` as one word of a POSIX shell: in quotes where it needs them. */
static void print_shell_word(FILE *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:,=+%@^";
    if (text[0] && text[strspn(text, plain)] == '\0') {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'') fputs("'\\''", out);
        else fputc(*text, out);
    }
    fputc('\'', out);
}

/* A path that no command takes for an option, nor --resume for its `auto`. */
static void print_shell_path(FILE *out, const char *path)
{
    if (path[0] == '-' || strcmp(path, "auto") == 0) fputs("./", out);
    print_shell_word(out, path);
}

/* -- before --------------------------------------------------------------------------------- */

void ls_batch_split(size_t global_batch, int shards, int world_size, char out[LS_SPLIT_BYTES])
{
    size_t part[LS_SHARD_MAX];
    bool is_even = true;
    for (int r = 0; r < world_size; r++) {
        const int first = ls_rank_shard_begin(r, shards, world_size);
        const int end = ls_rank_shard_begin(r + 1, shards, world_size);
        part[r] = ls_shard_begin(end, global_batch, shards) -
                  ls_shard_begin(first, global_batch, shards);
        is_even = is_even && part[r] == part[0];
    }
    int n = snprintf(out, LS_SPLIT_BYTES, "global %zu", global_batch);
    if (is_even) {
        snprintf(out + n, LS_SPLIT_BYTES - (size_t)n, " = %d x %zu", world_size, part[0]);
        return;
    }
    for (int r = 0; r < world_size && n < LS_SPLIT_BYTES; r++) {
        n += snprintf(out + n, LS_SPLIT_BYTES - (size_t)n, " %s %zu", r == 0 ? "=" : "+", part[r]);
    }
}

static void report_data(FILE *out, const ls_train_plan *plan)
{
    const ls_dataset_info *info = ls_dataset_describe(plan->dataset);
    begin_row(out, "data");
    fprintf(out, "%s: %zu training", ls_dataset_spec(plan->dataset), info->count[LS_PART_TRAIN]);
    if (info->count[LS_PART_TEST] > 0) fprintf(out, " and %zu test", info->count[LS_PART_TEST]);
    const ls_part last = info->count[LS_PART_TEST] > 0 ? LS_PART_TEST : LS_PART_TRAIN;
    fprintf(out, " sample%s of ", LS_PLURAL(info->count[last]));
    if (info->is_image) fprintf(out, "%zux%zux%zu, ", info->height, info->width, info->channels);
    else fprintf(out, "%zu number%s, ", info->channels, LS_PLURAL(info->channels));
    if (info->task == LS_TASK_CLASSIFY)
        fprintf(out, "%zu class%s\n", info->classes, info->classes == 1 ? "" : "es");
    else
        fprintf(out, "%zu target%s\n", info->outputs, LS_PLURAL(info->outputs));
}

static void report_replicas(FILE *out, const ls_train_plan *plan)
{
    begin_row(out, "replicas");
    fprintf(out, "%d on", plan->world_size);
    for (int r = 0; r < plan->world_size; r++) {
        fprintf(out, "%s %s", r > 0 ? "," : "", plan->device_name[r]);
    }
    fprintf(out, " (%s)\n", plan->devices->reason);
    begin_row(out, "threads");
    fprintf(out, "%d a replica, on %d core%s%s", plan->threads, ls_core_count(),
            LS_PLURAL(ls_core_count()), plan->cores ? "" : " as the system places them");
    for (int r = 0; plan->cores && r < plan->world_size; r++) {
        char text[128];
        ls_cores_text(plan->cores, r * plan->threads, plan->threads, text, sizeof text);
        fprintf(out, "%s %s", r > 0 ? " |" : ":", text);
    }
    fprintf(out, "; kernels %s\n", plan->kernels);
}

static void report_batch(FILE *out, const ls_train_plan *plan)
{
    char split[LS_SPLIT_BYTES];
    const ls_config *config = plan->config;
    ls_batch_split(plan->global_batch, config->shards, plan->world_size, split);
    begin_row(out, "batch");
    fprintf(out, "%s; %d shard%s", split, config->shards, LS_PLURAL(config->shards));
    if (config->accumulate > 1) fprintf(out, " in %d passes", config->accumulate);
    fputc('\n', out);
    begin_row(out, "steps");
    fprintf(out, "%" PRIu64 " an epoch; ", plan->steps_per_epoch);
    if (plan->nothing_to_do) {
        fprintf(out, "%" PRIu64 " done, %" PRIu64 " asked for: nothing to do\n", plan->first_step,
                plan->last_step);
    } else if (plan->first_step > 0) {
        fprintf(out, "from step %" PRIu64 " to %" PRIu64 "\n", plan->first_step, plan->last_step);
    } else {
        fprintf(out, "%" PRIu64 " in all\n", plan->last_step);
    }
}

/* "ring: host devices; ring 0 -> 1 -> 0, 2 PEER; 1 bucket; order exact". */
static void report_exchange(FILE *out, const ls_train_plan *plan)
{
    const ls_topology *topology = plan->topology;
    int links[3] = { 0 };
    begin_row(out, "exchange");
    fputs(plan->algorithm, out);
    if (plan->world_size > 1) {
        fputs("; ring", out);
        for (int i = 0; i < topology->count; i++) {
            const int from = topology->ring[i];
            const int to = topology->ring[(i + 1) % topology->count];
            links[topology->pair[from * topology->count + to]]++;
            fprintf(out, " %d ->", from);
        }
        fprintf(out, " %d", topology->ring[0]);
        for (int k = 0; k < 3; k++) {
            if (links[k] > 0) fprintf(out, ", %d %s", links[k], ls_pair_kind_name(k));
        }
    }
    fprintf(out, "; %d bucket%s; order %s\n", plan->bucket_count, LS_PLURAL(plan->bucket_count),
            ls_order_name(plan->config->order));
}

static void report_optimizer(FILE *out, const ls_config *config, const char *schedule)
{
    begin_row(out, "optimizer");
    fputs(ls_optimizer_name(config->optimizer), out);
    if (config->schedule.kind != LS_SCHEDULE_TABLE) fprintf(out, ", lr %g", config->lr);
    if (config->lr_scale == LS_LR_SCALE_LINEAR) {
        fprintf(out, " (all rates times %g: batch %" PRIu64 " / base %" PRIu64 ")",
                ls_config_lr_factor(config), config->global_batch, config->base_batch);
    }
    fprintf(out, ", %s", schedule);
    const struct {
        const char *name;
        double value;
    } more[] = {
        { "l1", config->l1 },
        { "l2", config->l2 },
        { "weight decay", config->weight_decay },
        { "values clipped to", config->clip_value },
        { "norms of tensors clipped to", config->clip_norm },
        { "norm clipped to", config->clip_global_norm },
        { "average of weights with momentum", config->ema },
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        if (more[i].value > 0) fprintf(out, ", %s %g", more[i].name, more[i].value);
    }
    fputc('\n', out);
    if (config->rules[0] == '\0') return;
    begin_row(out, "rules");
    fprintf(out, "%s\n", config->rules);
}

void ls_report_plan(FILE *out, const ls_train_plan *plan)
{
    const ls_model *model = plan->model;
    char weights[LS_UNIT_BYTES], all[LS_UNIT_BYTES];
    fprintf(out, "lockstep train %s\n", model->name);
    report_data(out, plan);
    report_replicas(out, plan);
    report_batch(out, plan);
    report_exchange(out, plan);
    begin_row(out, "numerics");
    fprintf(out, "%s\n", plan->numerics_class);
    report_optimizer(out, plan->config, plan->schedule);
    begin_row(out, "parameters");
    fprintf(out, "%zu in %d tensor%s, %s\n", model->parameter_total, model->parameter_count,
            LS_PLURAL(model->parameter_count),
            ls_with_unit(4.0 * (double)model->parameter_total, weights));
    begin_row(out, "memory");
    fprintf(out, "%s a replica\n", ls_with_unit((double)plan->device_bytes, all));
    if (plan->out && plan->out[0]) {
        begin_row(out, "run folder");
        fprintf(out, "%s\n", plan->out);
    }
    if (plan->resume && plan->resume[0]) {
        begin_row(out, "resumed");
        fprintf(out, "%s\n", plan->resume);
    }
}

/* -- after ---------------------------------------------------------------------------------- */

void ls_report_time(FILE *out, const ls_time_split *time)
{
    const struct {
        const char *name;
        double seconds;
    } part[] = { { "input wait", time->input_wait }, { "copy", time->copy },
                 { "forward", time->forward },       { "backward", time->backward },
                 { "exchange", time->exchange },     { "update", time->update } };
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        const double share = time->steps > 0 ? 100 * part[i].seconds / time->steps : 0;
        begin_row(out, i == 0 ? "time" : "");
        fprintf(out, "%9.3f s  %5.1f %%  %s\n", part[i].seconds, share, part[i].name);
    }
    begin_row(out, "");
    fprintf(out, "%9.3f s  steps in all; evaluation %.3f s, saving %.3f s\n", time->steps,
            time->evaluation, time->saving);
}

/* Readers of a run that lacked input, at work for a smaller share of the time, were not what was
 * slow: they had work and no core to do it on. */
#define READERS_BUSY_SHARE 0.5

/* How the input kept up, and what to do if it did not. */
static void report_input(FILE *out, const ls_input_summary *input, double steps)
{
    char rate[LS_UNIT_BYTES];
    if (!(steps > 0)) return;
    const double busy = input->reader_seconds / input->readers / steps;
    begin_row(out, "input");
    fprintf(out, "%.1f of %d batches ready on average; %d reader%s at work %.1f %% of the time; "
            "%s/s read\n", input->ready, input->depth, input->readers, LS_PLURAL(input->readers),
            100 * busy, ls_with_unit((double)input->bytes / steps, rate));
    if (steps < LS_INPUT_BOUND_SECONDS || input->waited / steps < LS_INPUT_BOUND_SHARE) return;
    begin_row(out, "");
    fprintf(out, "input-bound by %.0f %%: %s would help (docs/troubleshooting.md)\n",
            100 * input->waited / steps,
            busy < READERS_BUSY_SHARE ? "readers found no core: fewer --threads"
                                      : "more --readers, or data on a faster disk,");
}

static void report_line(FILE *out, const char *name, const ls_history_line *line)
{
    if (line->epoch == 0) return;
    begin_row(out, name);
    ls_console_print_epoch(out, line, 0);
}

/* The commands that evaluate the run and continue it, ready to be typed where `program` was. */
static void report_next(FILE *out, const char *program, const ls_config *config,
                        const ls_train_result *result)
{
    begin_row(out, "evaluate");
    print_shell_word(out, program);
    fputs(" eval ", out);
    print_shell_path(out, result->checkpoint);
    fputs(" --data ", out);
    print_shell_word(out, config->data);
    fputc('\n', out);
    begin_row(out, "continue");
    print_shell_word(out, program);
    fputs(" train --resume ", out);
    print_shell_path(out, config->out);
    const bool has_more = config->steps > 0 ? result->steps < config->steps
                                            : result->epochs < config->epochs;
    if (result->stopped_early) fprintf(out, " --early-stop %" PRIu64, 2 * config->early_stop);
    if (!result->stopped_by_signal && !result->out_of_time
        && !(result->stopped_early && has_more)) {
        fprintf(out, config->steps > 0 ? " --steps %" PRIu64 : " --epochs %" PRIu64,
                2 * (config->steps > 0 ? result->steps : result->epochs));
    }
    if (result->reached_until) fputs(" --until none", out);
    fputc('\n', out);
}

/* Why a run that was to end at a value went on to its other end. */
static void report_until(FILE *out, const ls_config *config, const ls_train_result *result)
{
    char until[LS_TEXT_BYTES], value[LS_READABLE_BYTES];
    if (!config->until.metric[0] || result->reached_until) return;
    ls_config_value(config, ls_option_find("until"), until, sizeof until);
    begin_row(out, "until");
    fprintf(out, "%.60s was not reached", until);
    if (result->last.epoch > 0)
        fprintf(out, ": %s in the last epoch",
                ls_readable(ls_history_value(&result->last, config->until.metric), value));
    fputc('\n', out);
}

/* Nothing for a group without tensors. */
static void report_digest(FILE *out, const char *group, const char *sha256)
{
    if (!sha256[0]) return;
    begin_row(out, group);
    fprintf(out, "sha256 %s\n", sha256);
}

/* "3 epochs, 69 steps"; "3 epochs and 5 of 23 steps, 74 steps in all"; "5 of an epoch's 23 steps".
 */
static void report_done(FILE *out, const ls_train_result *result)
{
    const uint64_t epochs = result->epochs, begun = result->step_of_epoch;
    const uint64_t whole = result->steps_per_epoch;
    if (begun > 0 && epochs == 0) {
        fprintf(out, "%" PRIu64 " of an epoch's %" PRIu64 " step%s\n", begun, whole,
                LS_PLURAL(whole));
        return;
    }
    fprintf(out, "%" PRIu64 " epoch%s", epochs, LS_PLURAL(epochs));
    if (begun > 0) fprintf(out, " and %" PRIu64 " of %" PRIu64 " steps", begun, whole);
    fprintf(out, ", %" PRIu64 " step%s%s\n", result->steps, LS_PLURAL(result->steps),
            begun > 0 ? " in all" : "");
}

void ls_report_result(FILE *out, const char *program, const ls_config *config,
                      const ls_train_result *result)
{
    const bool has_trained = result->time.steps > 0;
    const char *end = result->stopped_by_signal ? "stopped by a signal"
                      : result->out_of_time     ? "stopped by --time-limit"
                      : result->stopped_early   ? "stopped by --early-stop"
                      : result->reached_until   ? "reached what --until asked for"
                      : has_trained             ? "done"
                                                : "nothing to do, done before";
    fprintf(out, "%s: ", end);
    report_done(out, result);
    report_line(out, "last", &result->last);
    report_line(out, "best", &result->best);
    report_until(out, config, result);
    if (has_trained) {
        begin_row(out, "speed");
        fprintf(out, "%.0f samples/s: %" PRIu64 " sample%s in %.3f s of steps\n",
                result->samples_per_second, result->samples, LS_PLURAL(result->samples),
                result->seconds);
        ls_report_time(out, &result->time);
        report_input(out, &result->input, result->time.steps);
    }
    report_digest(out, "weights", result->weights_sha256);
    report_digest(out, "optimizer", result->optimizer_sha256);
    report_digest(out, "statistics", result->statistics_sha256);
    if (!result->checkpoint[0]) return;
    begin_row(out, "checkpoint");
    fprintf(out, "%s\n", result->checkpoint);
    report_next(out, program, config, result);
}
