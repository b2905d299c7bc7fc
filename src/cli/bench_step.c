/* SPDX-License-Identifier: MIT */
/* bench_step.c -- `lockstep bench step`: how many samples a second a model trains on.
 *
 * Whole trainings of a few steps each, in a folder that is removed: nothing is left out that a
 * step has, and nothing is counted that it has not (opening, evaluation, saving). Each repetition
 * starts anew from the same weights, so that all of them compute the same.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench.h"
#include "cli/console.h"
#include "cli/report.h"
#include "cli/scratch_folder.h"
#include "cli/signals.h"
#include "train/trainer.h"

enum { FLAG_REPEAT, FLAG_JSON };
enum { REPEAT_MAX = 100, DEFAULT_STEPS = 50 };

typedef struct {
    ls_config config;
    char folder[LS_TEXT_BYTES / 2];
    int repeat, run_count;       /* wanted, and begun so far */
    bool is_json;
    ls_json_writer json;
    double speed[REPEAT_MAX];    /* samples per second */
} bench;

/* -- what is measured, before the first repetition --------------------------------------------- */

static void print_heading(const bench *b, const ls_train_plan *plan)
{
    char split[LS_SPLIT_BYTES];
    ls_batch_split(plan->global_batch, plan->config->shards, plan->world_size, split);
    printf("# %s on %s: %d replica%s (%s), kernels %s, %d thread%s each\n", plan->config->model,
           plan->config->data, plan->world_size, plan->world_size == 1 ? "" : "s",
           plan->devices->reason, plan->kernels, plan->threads, plan->threads == 1 ? "" : "s");
    printf("# %s; %s; %d repetitions\n#\n", split, plan->algorithm, b->repeat);
    printf("# %6s %7s %11s %10s   %s\n", "run", "steps", "samples/s", "ms/step",
           "% of it: input, copy, forward, backward, exchange, update");
    fflush(stdout);
}

static void begin_json(bench *b, const ls_train_plan *plan)
{
    ls_json_writer *json = &b->json;
    ls_json_write_open(json, '{');
    ls_json_write_key(json, "bench");
    ls_json_write_string(json, "step");
    ls_json_write_key(json, "model");
    ls_json_write_string(json, plan->config->model);
    ls_json_write_key(json, "data");
    ls_json_write_string(json, plan->config->data);
    ls_json_write_key(json, "devices");
    ls_json_write_open(json, '[');
    for (int r = 0; r < plan->world_size; r++) ls_json_write_string(json, plan->device_name[r]);
    ls_json_write_close(json, ']');
    ls_json_write_key(json, "kernels");
    ls_json_write_string(json, plan->kernels);
    ls_json_write_key(json, "threads");
    ls_json_write_count(json, (uint64_t)plan->threads);
    ls_json_write_key(json, "algorithm");
    ls_json_write_string(json, plan->algorithm);
    ls_json_write_key(json, "global_batch");
    ls_json_write_count(json, plan->global_batch);
    ls_json_write_key(json, "rows");
    ls_json_write_open(json, '[');
}

static void on_plan(void *context, const ls_train_plan *plan)
{
    bench *b = context;
    if (b->run_count > 1) return;
    if (b->is_json) begin_json(b, plan);
    else print_heading(b, plan);
}

/* -- what came out ----------------------------------------------------------------------------- */

enum { PART_COUNT = 6 };

/* The parts of a run's steps, in the order of the heading. */
static void list_parts(const ls_time_split *time, double part[PART_COUNT])
{
    const double all[PART_COUNT] = { time->input_wait, time->copy, time->forward, time->backward,
                                     time->exchange, time->update };
    for (int i = 0; i < PART_COUNT; i++) part[i] = all[i];
}

static void print_row(const bench *b, const ls_train_result *result)
{
    double part[PART_COUNT];
    list_parts(&result->time, part);
    printf("  %6d %7" PRIu64 " %11.0f %10.3f  ", b->run_count, result->steps,
           result->samples_per_second, 1e3 * result->seconds / (double)result->steps);
    for (int i = 0; i < PART_COUNT; i++) printf(" %3.0f", 100 * part[i] / result->seconds);
    printf("\n");
    fflush(stdout);
}

static void write_row(ls_json_writer *json, const ls_train_result *result)
{
    static const char *const name[PART_COUNT] = { "input_s", "copy_s", "forward_s", "backward_s",
                                                  "exchange_s", "update_s" };
    double part[PART_COUNT];
    list_parts(&result->time, part);
    ls_json_write_open(json, '{');
    ls_json_write_key(json, "steps");
    ls_json_write_count(json, result->steps);
    ls_json_write_key(json, "samples_per_second");
    ls_json_write_number(json, result->samples_per_second);
    ls_json_write_key(json, "seconds");
    ls_json_write_number(json, result->seconds);
    for (int i = 0; i < PART_COUNT; i++) {
        ls_json_write_key(json, name[i]);
        ls_json_write_number(json, part[i]);
    }
    ls_json_write_close(json, '}');
}

static ls_status end_report(bench *b)
{
    const double median = ls_bench_median(b->speed, b->repeat); /* sorts */
    if (!b->is_json) {
        printf("# median: %.0f samples/s (%.0f to %.0f)\n", median, b->speed[0],
               b->speed[b->repeat - 1]);
        return LS_OK;
    }
    ls_json_write_close(&b->json, ']');
    ls_json_write_key(&b->json, "samples_per_second");
    ls_json_write_number(&b->json, median);
    ls_json_write_close(&b->json, '}');
    return ls_bench_print_json(&b->json);
}

/* -- the command ------------------------------------------------------------------------------- */

/* *stopped: by a signal; then the report is not ended. */
static ls_status measure(bench *b, bool *stopped)
{
    for (int i = 0; i < b->repeat; i++) {
        ls_config config = b->config;
        ls_train_result result = { 0 };
        const ls_observer observer = { .plan = on_plan, .should_stop = ls_signals_should_stop,
                                       .stuck = ls_console_leave, .context = b };
        snprintf(config.out, sizeof config.out, "%s/run-%d", b->folder, ++b->run_count);
        LS_TRY(ls_train(&config, &observer, &result));
        *stopped = result.stopped_by_signal;
        if (*stopped) return LS_OK;
        b->speed[i] = result.samples_per_second;
        if (b->is_json) write_row(&b->json, &result);
        else print_row(b, &result);
    }
    return end_report(b);
}

static ls_status read_config(const ls_invocation *v, ls_config *config)
{
    ls_config_init(config);
    LS_TRY(ls_invocation_config(v, config));
    LS_TRY(ls_config_check(config));
    if (config->resume[0] || config->out[0]) {
        return ls_fail(LS_ERR_ARGUMENT, "bench step starts anew and keeps nothing: it takes no "
                       "--%s", config->resume[0] ? "resume" : "out");
    }
    if (config->epochs == 0 && config->steps == 0) config->steps = DEFAULT_STEPS;
    return LS_OK;
}

static ls_status run_bench_step(const ls_invocation *v, int *exit_code)
{
    bench b = { .is_json = v->flag[FLAG_JSON] != NULL };
    bool stopped = false;
    LS_TRY(ls_flag_count(v, FLAG_REPEAT, 1, REPEAT_MAX, 5, &b.repeat));
    LS_TRY(read_config(v, &b.config));
    LS_TRY(ls_scratch_folder_make("", b.folder, sizeof b.folder));
    ls_signals_catch();
    const ls_status status = measure(&b, &stopped);
    ls_scratch_folder_remove(b.folder);
    free(b.json.text);
    if (stopped) *exit_code = 128 + ls_signals_caught();
    return status;
}

const ls_command ls_command_bench_step = {
    .name = "bench step",
    .arguments = "MODEL --data SPEC [--devices LIST] [--repeat R] [option ...]",
    .summary = "samples per second of a model's training, and where a step's time goes",
    .about =
        "Trains --steps (default 50) steps from the same weights --repeat times, in a temporary\n"
        "folder, and prints each run's samples per second and the median. Opening the data,\n"
        "evaluation and saving are not counted. Takes the options of train. A GPU works while\n"
        "the host goes on: its time shows in the part in which the host waits for it.\n",
    .arguments_max = 1,
    .takes_model = true,
    .takes_all = true,
    .flag = {
        [FLAG_REPEAT] = { "repeat", "R", "runs (default 5)" },
        [FLAG_JSON] = { "json", NULL, "print JSON in place of the table" },
    },
    .run = run_bench_step,
};
