/* SPDX-License-Identifier: MIT */
/* bench_step.c -- `lockstep bench step`: how many samples a second a model trains on, and why.
 *
 * Whole trainings of a few steps each, in a folder that is removed: nothing is left out that a
 * step has. Time runs from the end of a step to the end of the next, so that what lies between
 * steps (the line of log.jsonl) counts; what only a start or an epoch's end has (opening, the first
 * --settle steps, evaluation, saving) does not. Each repetition starts anew from the same weights,
 * so that all of them compute the same.
 *
 * A part's time is exposed: it is what rank 0's thread spent in it, waiting included. What happens
 * meanwhile on other threads or on a GPU is hidden, and costs a step nothing.
 *
 * The peak of the processors that the replicas use (bench_peak.h) is sampled before each
 * repetition's first step and after its last, since a busy machine changes from one to the next.
 * The best sample counts: of a sample of several threads one that wakes late spoils the whole.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench.h"
#include "cli/bench_peak.h"
#include "cli/console.h"
#include "cli/report.h"
#include "cli/scratch_folder.h"
#include "cli/signals.h"
#include "plural.h"
#include "train/trainer.h"

enum { FLAG_REPEAT, FLAG_SETTLE, FLAG_JSON };
enum { REPEAT_MAX = 100, DEFAULT_STEPS = 50, PEAK_SAMPLES = 10 };

/* The rest is what the others leave: between two steps, and in a step between two parts. */
enum { INPUT, COPY, FORWARD, BACKWARD, EXCHANGE, UPDATE, REST, PART_COUNT };

static const char *const part_name[PART_COUNT] = { "input", "copy", "forward", "backward",
                                                   "exchange", "update", "rest" };

/* One repetition, of its counted steps. */
typedef struct {
    uint64_t steps, samples;
    double seconds, part[PART_COUNT];  /* seconds */
    double exchange_wait;              /* of the exchange: for other replicas; seconds */
    double reader;                     /* seconds of reader threads at work beside them */
    double peak;                       /* flops per second; 0: not known */
} step_run;

typedef struct {
    ls_config config;
    char folder[LS_TEXT_BYTES / 2];
    int repeat, settle;
    bool is_json;
    ls_json_writer json;
    double flops;                      /* of a sample, forward and backward; written with a plan */
    ls_device_list devices;            /* likewise */
    int threads;                       /* of a replica; likewise */
    step_run run[REPEAT_MAX];
    int run_count;                     /* begun so far */
    int settled;                       /* steps of the run under way that did not count */
    double mark;                       /* when its step under way began; --settle >= 1 sees to it */
    double peak[2 * PEAK_SAMPLES];     /* of this repetition */
    int peak_count;
    ls_status peak_status;             /* of sampling it, within an observer's call */
} bench;

/* -- the peak ---------------------------------------------------------------------------------- */

/* As many of the host's cores as the replicas have threads. */
static ls_status sample_host(bench *b)
{
    const int wanted = b->threads * b->devices.count, cores = ls_core_count();
    ls_device *device = NULL;
    ls_peak_probe probe;
    LS_TRY(ls_device_open(&b->devices.device[0], wanted < cores ? wanted : cores, true, NULL,
                          &device));
    ls_status status = ls_kernels_bind(device);
    if (status == LS_OK) status = ls_peak_probe_init(&probe, device);
    for (int i = 0; status == LS_OK && i < PEAK_SAMPLES; i++)
        b->peak[b->peak_count++] = ls_peak_probe_sample(&probe);
    ls_device_close(device);
    return status;
}

static bool is_listed_before(const ls_device_list *list, int place)
{
    for (int i = 0; i < place; i++) {
        if (list->device[i].ordinal == list->device[place].ordinal) return true;
    }
    return false;
}

/* Each GPU once, however many replicas it has. */
static ls_status sum_gpus(bench *b)
{
    double sum = 0;
    for (int i = 0; i < b->devices.count; i++) {
        double flops;
        if (is_listed_before(&b->devices, i)) continue;
        LS_TRY(ls_peak_of_gpu(b->devices.device[i].ordinal, &flops));
        if (flops == 0) return LS_OK;
        sum += flops;
    }
    b->peak[b->peak_count++] = sum;
    return LS_OK;
}

static ls_status sample_peak(bench *b)
{
    return b->devices.device[0].kind == LS_DEVICE_HOST ? sample_host(b) : sum_gpus(b);
}

/* -- what is measured, before the first repetition --------------------------------------------- */

static void print_heading(const bench *b, const ls_train_plan *plan)
{
    char split[LS_SPLIT_BYTES];
    ls_batch_split(plan->global_batch, plan->config->shards, plan->world_size, split);
    printf("# %s on %s: %d replica%s (%s), kernels %s, %d thread%s each\n", plan->config->model,
           plan->config->data, plan->world_size, LS_PLURAL(plan->world_size),
           plan->devices->reason, plan->kernels, plan->threads, LS_PLURAL(plan->threads));
    printf("# %s; %s; %d repetition%s\n", split, plan->algorithm, b->repeat, LS_PLURAL(b->repeat));
    printf("# %.4g MFLOP a sample; %d step%s before those that count\n#\n", b->flops * 1e-6,
           b->settle, LS_PLURAL(b->settle));
    printf("# %6s %7s %11s %10s %9s %6s   %s\n", "run", "steps", "samples/s", "ms/step", "GF/s",
           "share", "% of it: input, copy, forward, backward, exchange, update, rest");
    fflush(stdout);
}

static void begin_json(bench *b, const ls_train_plan *plan)
{
    ls_json_writer *json = &b->json;
    ls_json_write_open(json, '{');
    ls_json_member_string(json, "bench", "step");
    ls_json_member_string(json, "model", plan->config->model);
    ls_json_member_string(json, "data", plan->config->data);
    ls_json_write_key(json, "devices");
    ls_json_write_open(json, '[');
    for (int r = 0; r < plan->world_size; r++) ls_json_write_string(json, plan->device_name[r]);
    ls_json_write_close(json, ']');
    ls_json_member_string(json, "kernels", plan->kernels);
    ls_json_member_count(json, "threads", (uint64_t)plan->threads);
    ls_json_member_string(json, "algorithm", plan->algorithm);
    ls_json_member_count(json, "global_batch", plan->global_batch);
    ls_json_member_count(json, "settle", (uint64_t)b->settle);
    ls_json_member_number(json, "flops_per_sample", b->flops);
    ls_json_write_key(json, "rows");
    ls_json_write_open(json, '[');
}

/* -- while it runs ----------------------------------------------------------------------------- */

static void on_plan(void *context, const ls_train_plan *plan)
{
    bench *b = context;
    double forward, all;
    ls_model_macs(plan->model, &forward, &all);
    b->flops = 2 * all;
    b->devices = *plan->devices;
    b->threads = plan->threads;
    b->peak_count = 0;
    b->peak_status = sample_peak(b);
    if (b->run_count > 1) return;
    if (b->is_json) begin_json(b, plan);
    else print_heading(b, plan);
}

static void on_step(void *context, const ls_step_report *report)
{
    bench *b = context;
    step_run *run = &b->run[b->run_count - 1];
    const ls_log_line *line = report->line;
    const double now = ls_clock(), seconds = now - b->mark;
    b->mark = now;
    if (b->settled < b->settle) {
        b->settled++;
        return;
    }
    const double part[REST] = { line->input_wait, line->copy, line->forward, line->backward,
                                line->exchange, line->update };
    run->seconds += seconds;
    run->part[REST] += seconds;
    for (int i = 0; i < REST; i++) {
        run->part[i] += part[i];
        run->part[REST] -= part[i];
    }
    run->steps++;
    run->samples += line->samples;
    run->exchange_wait += line->exchange_wait;
    run->reader += line->reader_seconds;
}

/* After evaluation and saving, which no step is charged for. */
static void on_epoch(void *context, const ls_history_line *line, uint64_t epochs)
{
    bench *b = context;
    (void)line;
    (void)epochs;
    b->mark = ls_clock();
}

/* -- what came out ----------------------------------------------------------------------------- */

static double speed_of(const step_run *run) { return (double)run->samples / run->seconds; }

/* NaN: the peak is not known. */
static double share_of(const bench *b, const step_run *run)
{
    return run->peak > 0 ? b->flops * speed_of(run) / run->peak : (double)NAN;
}

static void print_share(double share)
{
    if (isnan(share)) printf(" %6s", "-");
    else printf(" %5.0f%%", 100 * share);
}

static void print_row(const bench *b, const step_run *run)
{
    printf("  %6d %7" PRIu64 " %11.0f %10.3f %9.2f", b->run_count, run->steps, speed_of(run),
           1e3 * run->seconds / (double)run->steps, b->flops * speed_of(run) * 1e-9);
    print_share(share_of(b, run));
    printf("  ");
    for (int i = 0; i < PART_COUNT; i++) printf(" %3.0f", 100 * run->part[i] / run->seconds);
    printf("\n");
    fflush(stdout);
}

static void write_row(bench *b, const step_run *run)
{
    ls_json_writer *json = &b->json;
    ls_json_write_open(json, '{');
    ls_json_member_count(json, "steps", run->steps);
    ls_json_member_number(json, "samples_per_second", speed_of(run));
    ls_json_member_number(json, "seconds", run->seconds);
    ls_json_member_number(json, "gflops", b->flops * speed_of(run) * 1e-9);
    ls_json_member_number(json, "peak_gflops", run->peak > 0 ? run->peak * 1e-9 : (double)NAN);
    for (int i = 0; i < PART_COUNT; i++) {
        char key[24];
        snprintf(key, sizeof key, "%s_s", part_name[i]);
        ls_json_member_number(json, key, run->part[i]);
    }
    ls_json_member_number(json, "exchange_wait_s", run->exchange_wait);
    ls_json_member_number(json, "reader_s", run->reader);
    ls_json_write_close(json, '}');
}

/* Of all repetitions: the median of `value`. NaN if one is. */
static ls_bench_spread spread_of(const bench *b, double value(const bench *, const step_run *))
{
    double x[REPEAT_MAX];
    for (int i = 0; i < b->repeat; i++) {
        x[i] = value(b, &b->run[i]);
        if (isnan(x[i])) return (ls_bench_spread){ NAN, NAN, NAN };
    }
    return ls_bench_spread_of(x, b->repeat);
}

static double speed_value(const bench *b, const step_run *run)
{
    (void)b;
    return speed_of(run);
}

static void print_end(const bench *b)
{
    step_run sum = { 0 };
    const ls_bench_spread speed = spread_of(b, speed_value);
    printf("#\n# median: %.0f samples/s (%.0f to %.0f), %.2f GF/s, share of the peak", speed.median,
           speed.least, speed.most, b->flops * speed.median * 1e-9);
    print_share(spread_of(b, share_of).median);
    for (int i = 0; i < b->repeat; i++) {
        sum.steps += b->run[i].steps;
        sum.seconds += b->run[i].seconds;
        sum.reader += b->run[i].reader;
        for (int k = 0; k < PART_COUNT; k++) sum.part[k] += b->run[i].part[k];
    }
    const double ms = 1e3 / (double)sum.steps;
    printf("\n# exposed, ms a step:");
    for (int k = 0; k < PART_COUNT; k++) printf(" %s %.3f,", part_name[k], ms * sum.part[k]);
    printf(" together %.3f\n# hidden, ms a step: readers at work %.3f\n", ms * sum.seconds,
           ms * sum.reader);
}

static ls_status write_end(bench *b)
{
    const ls_bench_spread speed = spread_of(b, speed_value);
    ls_json_write_close(&b->json, ']');
    ls_json_member_number(&b->json, "samples_per_second", speed.median);
    ls_json_member_number(&b->json, "least", speed.least);
    ls_json_member_number(&b->json, "most", speed.most);
    ls_json_member_number(&b->json, "gflops", b->flops * speed.median * 1e-9);
    ls_json_member_number(&b->json, "share", spread_of(b, share_of).median);
    ls_json_write_close(&b->json, '}');
    return ls_console_print_json(&b->json);
}

/* -- the command ------------------------------------------------------------------------------- */

/* *stopped: by a signal; then the repetition does not count. */
static ls_status repeat(bench *b, bool *stopped)
{
    ls_config config = b->config;
    ls_train_result result = { 0 };
    const ls_observer observer = { .plan = on_plan, .step = on_step, .epoch = on_epoch,
                                   .should_stop = ls_signals_should_stop,
                                   .stuck = ls_console_leave, .context = b };
    step_run *run = &b->run[b->run_count++];
    b->settled = 0;
    snprintf(config.out, sizeof config.out, "%s/run-%d", b->folder, b->run_count);
    LS_TRY(ls_train(&config, &observer, &result));
    *stopped = result.stopped_by_signal;
    if (*stopped) return LS_OK;
    if (run->steps == 0)
        return ls_fail(LS_ERR_ARGUMENT, "--settle %d: a run has only %d steps, so none counts",
                       b->settle, b->settled);
    LS_TRY(b->peak_status);
    LS_TRY(sample_peak(b));
    if (b->peak_count > 0) run->peak = ls_bench_spread_of(b->peak, b->peak_count).most;
    if (b->is_json) write_row(b, run);
    else print_row(b, run);
    return LS_OK;
}

static ls_status measure(bench *b, bool *stopped)
{
    for (int i = 0; i < b->repeat; i++) {
        LS_TRY(repeat(b, stopped));
        if (*stopped) return LS_OK;
    }
    if (b->is_json) return write_end(b);
    print_end(b);
    return LS_OK;
}

static ls_status read_config(const ls_invocation *v, int settle, ls_config *config)
{
    ls_config_init(config);
    LS_TRY(ls_invocation_config(v, config));
    LS_TRY(ls_config_check(config));
    if (config->resume[0] || config->out[0]) {
        return ls_fail(LS_ERR_ARGUMENT, "bench step starts anew and keeps nothing: it takes no "
                       "--%s", config->resume[0] ? "resume" : "out");
    }
    if (config->epochs == 0 && config->steps == 0) config->steps = DEFAULT_STEPS;
    if (config->steps > 0) config->steps += (uint64_t)settle;
    return LS_OK;
}

static ls_status run_bench_step(const ls_invocation *v, int *exit_code)
{
    bench b = { .is_json = v->flag[FLAG_JSON] != NULL };
    bool stopped = false;
    LS_TRY(ls_flag_count(v, FLAG_REPEAT, 1, REPEAT_MAX, 5, &b.repeat));
    LS_TRY(ls_flag_count(v, FLAG_SETTLE, 1, 1 << 20, 5, &b.settle));
    LS_TRY(read_config(v, b.settle, &b.config));
    ls_signals_catch(); /* before there is a folder: a signal, too, ends in removing it */
    LS_TRY(ls_scratch_folder_make("", b.folder, sizeof b.folder));
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
        "Trains --steps and --settle steps from equal weights --repeat times, in a temporary\n"
        "folder, and prints each run's samples per second, its FLOP rate as a share of the peak\n"
        "of the cores it uses (measured before and after it), and the median. FLOPs are those\n"
        "that lockstep show counts. Opening the data, the first --settle steps, evaluation and\n"
        "saving are not counted; the log's lines are, under the rest. Takes the options of train.\n"
        "A part's time is what it holds the replica up for: reading ahead, or a GPU that works\n"
        "while the host goes on, shows only where the host waits for it.\n",
    .arguments_max = 1,
    .takes_model = true,
    .takes_all = true,
    .own_default = { { "epochs", "none" }, { "steps", "50 unless --epochs" } },
    .flag = {
        [FLAG_REPEAT] = { "repeat", "R", "runs (default 5)" },
        [FLAG_SETTLE] = { "settle", "S", "first steps of a run that do not count (default 5)" },
        [FLAG_JSON] = { "json", NULL, "print JSON in place of the table" },
    },
    .run = run_bench_step,
};
