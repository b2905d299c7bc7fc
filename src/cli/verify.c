/* SPDX-License-Identifier: MIT */
/* verify.c -- `lockstep verify`: the acceptance ladder of a machine, rung by rung.
 *
 *     1  one replica: train, save, reload, evaluate
 *     2  N replicas at the same global batch: every loss, digest and evaluation, bit for bit
 *     3  where the time went, side by side
 *     4  throughput over --repeat runs of each, alternating, so that a machine that slows down does
 *        it to both; every repetition is compared bit for bit as well
 *     5  the environment in which all this was measured
 *
 * Nothing is compared with a tolerance. All rungs are climbed even if one fails, because the later
 * ones help to see why; the exit code is 4 if a bit differed anywhere.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/console.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/scratch_folder.h"
#include "cli/signals.h"
#include "device/topology.h"
#include "thread.h"
#include "train/trainer.h"

enum { FLAG_REPEAT, REPEAT_MAX = 100, DEFAULT_EPOCHS = 2 };

/* Everything that a run produced and that must not depend on the number of replicas. */
typedef struct {
    ls_train_result result;
    ls_history_line *epoch;      /* owned */
    double *step_loss;           /* owned */
    size_t epoch_count, step_count;
    size_t global_batch;
    int threads, shards;
    char kernels[16];
    bool is_short;               /* of memory for the records */
} recorded_run;

typedef struct {
    ls_config config;            /* devices and out are set for each run */
    char one[32], many[LS_TEXT_BYTES]; /* --devices of the two sides */
    int world_size;
    bool is_host;
    char folder[LS_TEXT_BYTES / 2];
    int run_count;               /* so far: names their folders */
    int check_count, failed_count;
    char first_failure[256];
} ladder;

/* -- recording ------------------------------------------------------------------------------ */

/* Room for one more element, doubling at each power of two. */
static void *grown(void *array, size_t count, size_t bytes)
{
    const bool is_full = (count & (count - 1)) == 0;
    return is_full ? realloc(array, (count > 0 ? 2 * count : 1) * bytes) : array;
}

static void on_plan(void *context, const ls_train_plan *plan)
{
    recorded_run *run = context;
    run->global_batch = plan->global_batch;
    run->threads = plan->threads;
    run->shards = plan->config->shards;
    snprintf(run->kernels, sizeof run->kernels, "%s", plan->kernels);
}

static void on_step(void *context, const ls_step_report *report)
{
    recorded_run *run = context;
    double *room = grown(run->step_loss, run->step_count, sizeof *room);
    run->is_short = run->is_short || !room;
    if (run->is_short) return;
    run->step_loss = room;
    run->step_loss[run->step_count++] = report->line->loss;
}

static void on_epoch(void *context, const ls_history_line *line, uint64_t epochs)
{
    (void)epochs;
    recorded_run *run = context;
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

static void recorded_run_free(recorded_run *run)
{
    free(run->epoch);
    free(run->step_loss);
    *run = (recorded_run){ 0 };
}

/* Train on `devices` into a new folder of the ladder's. */
static ls_status train_recorded(ladder *l, const char *devices, recorded_run *run)
{
    ls_config config = l->config;
    *run = (recorded_run){ 0 };
    LS_TRY(ls_config_set(&config, "devices", devices));
    snprintf(config.out, sizeof config.out, "%s/run-%d", l->folder, ++l->run_count);
    /* Every run notes the same; the first one's is enough. */
    const ls_observer observer = { .plan = on_plan, .step = on_step, .epoch = on_epoch,
                                   .note = l->run_count == 1 ? on_note : NULL,
                                   .should_stop = ls_signals_should_stop,
                                   .stuck = ls_console_leave, .context = run };
    LS_TRY(ls_train(&config, &observer, &run->result));
    if (run->is_short) return ls_fail(LS_ERR_MEMORY, "no memory to record a run's losses");
    return LS_OK;
}

/* -- comparing ------------------------------------------------------------------------------ */

static bool same_bits(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

/* One check of the ladder, a line of its own. */
static void check(ladder *l, bool holds, const char *what)
{
    l->check_count++;
    printf("     %s  %s\n", holds ? "same bits" : "DIFFERENT", what);
    if (holds) return;
    if (l->failed_count++ == 0) snprintf(l->first_failure, sizeof l->first_failure, "%s", what);
}

static bool same_epochs(const recorded_run *a, const recorded_run *b)
{
    if (a->epoch_count != b->epoch_count) return false;
    for (size_t e = 0; e < a->epoch_count; e++) {
        const ls_history_line *x = &a->epoch[e], *y = &b->epoch[e];
        if (!same_bits(x->loss, y->loss) || !same_bits(x->val_loss, y->val_loss)) return false;
        for (int m = 0; m < x->metric_count; m++) {
            if (!same_bits(x->metric[m], y->metric[m]) ||
                !same_bits(x->val_metric[m], y->val_metric[m])) {
                return false;
            }
        }
    }
    return true;
}

static bool same_steps(const recorded_run *a, const recorded_run *b)
{
    return a->step_count == b->step_count &&
           (a->step_count == 0 ||
            memcmp(a->step_loss, b->step_loss, a->step_count * sizeof *a->step_loss) == 0);
}

static void compare_runs(ladder *l, const recorded_run *one, const recorded_run *many)
{
    char what[256];
    snprintf(what, sizeof what, "loss of each of %zu steps", one->step_count);
    check(l, same_steps(one, many), what);
    snprintf(what, sizeof what, "loss and metrics of each of %zu epochs", one->epoch_count);
    check(l, same_epochs(one, many), what);
    snprintf(what, sizeof what, "weights    %.16s... and %.16s...", one->result.weights_sha256,
             many->result.weights_sha256);
    check(l, strcmp(one->result.weights_sha256, many->result.weights_sha256) == 0, what);
    snprintf(what, sizeof what, "optimizer  %.16s... and %.16s...", one->result.optimizer_sha256,
             many->result.optimizer_sha256);
    check(l, strcmp(one->result.optimizer_sha256, many->result.optimizer_sha256) == 0, what);
}

/* -- the rungs ------------------------------------------------------------------------------ */

static ls_status evaluate(const ladder *l, const char *devices, const recorded_run *run,
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
    printf("     evaluated  %zu samples: loss %s", e->samples, ls_readable(e->loss, text));
    for (int m = 0; m < e->metric_count; m++) {
        printf(", %s %s", e->metric_name[m], ls_readable(e->metric[m], text));
    }
    putchar('\n');
}

static bool same_metrics(const double *a, const double *b, int count)
{
    for (int m = 0; m < count; m++) {
        if (!same_bits(a[m], b[m])) return false;
    }
    return true;
}

/* Rung 1. The evaluation of the saved file must give what the run itself measured at its end, if it
 * ended with an epoch and there is a test part. */
static ls_status climb_one(ladder *l, recorded_run *one, ls_evaluation *evaluation)
{
    printf("\n 1  one replica (%s): train, save, reload, evaluate\n", l->one);
    LS_TRY(train_recorded(l, l->one, one));
    if (one->result.stopped_by_signal) return LS_OK;
    printf("     trained    %" PRIu64 " epoch%s, %" PRIu64 " steps of %zu samples\n",
           one->result.epochs, one->result.epochs == 1 ? "" : "s", one->result.steps,
           one->global_batch);
    LS_TRY(evaluate(l, l->one, one, evaluation));
    print_evaluation(evaluation);
    const ls_history_line *last = &one->result.last;
    if (last->epoch == 0 || last->step != one->result.steps || isnan(last->val_loss)) return LS_OK;
    const bool holds = same_bits(last->val_loss, evaluation->loss) &&
                       same_metrics(last->val_metric, evaluation->metric, last->metric_count);
    check(l, holds, "the reloaded checkpoint's evaluation and the run's own");
    return LS_OK;
}

/* Rung 2. */
static ls_status climb_many(ladder *l, const recorded_run *one, recorded_run *many,
                            const ls_evaluation *expected)
{
    char split[LS_SPLIT_BYTES];
    printf("\n 2  %d replicas (%s), the same global batch\n", l->world_size, l->many);
    LS_TRY(train_recorded(l, l->many, many));
    if (many->result.stopped_by_signal) return LS_OK;
    ls_batch_split(many->global_batch, many->shards, l->world_size, split);
    printf("     trained    %s\n", split);
    compare_runs(l, one, many);
    ls_evaluation e;
    LS_TRY(evaluate(l, l->many, many, &e));
    check(l, same_bits(e.loss, expected->loss) &&
                 same_metrics(e.metric, expected->metric, e.metric_count),
          "evaluation of the checkpoint on all replicas and on one");
    return LS_OK;
}

/* Rung 3. */
static void print_times(const ladder *l, const recorded_run *one, const recorded_run *many)
{
    printf("\n 3  where the time went\n    one replica, %d thread%s:\n", one->threads,
           one->threads == 1 ? "" : "s");
    ls_report_time(stdout, &one->result.time);
    printf("    %d replicas, %d thread%s each:\n", l->world_size, many->threads,
           many->threads == 1 ? "" : "s");
    ls_report_time(stdout, &many->result.time);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Prints median and extremes, returns the median. Sorts. */
static double print_speed(const char *what, double *speed, int count)
{
    qsort(speed, (size_t)count, sizeof *speed, compare_doubles);
    const double median = (speed[(count - 1) / 2] + speed[count / 2]) / 2;
    printf("     %-12s %10.0f samples/s  (%.0f to %.0f, spread %.1f %%)\n", what, median, speed[0],
           speed[count - 1], 100 * (speed[count - 1] - speed[0]) / median);
    return median;
}

/* One more run of each side, compared and timed. */
static ls_status repeat_once(ladder *l, const recorded_run *first, double *one, double *many,
                             bool *stopped)
{
    recorded_run run[2] = { { .epoch = NULL }, { .epoch = NULL } };
    ls_status status = train_recorded(l, l->one, &run[0]);
    *stopped = run[0].result.stopped_by_signal;
    if (status == LS_OK && !*stopped) {
        status = train_recorded(l, l->many, &run[1]);
        *stopped = run[1].result.stopped_by_signal;
    }
    if (status == LS_OK && !*stopped) {
        *one = run[0].result.samples_per_second;
        *many = run[1].result.samples_per_second;
        for (int i = 0; i < 2; i++) {
            const bool holds = same_steps(first, &run[i]) && same_epochs(first, &run[i]) &&
                               strcmp(first->result.weights_sha256,
                                      run[i].result.weights_sha256) == 0;
            check(l, holds, i == 0 ? "repeated on one replica" : "repeated on all replicas");
        }
    }
    recorded_run_free(&run[0]);
    recorded_run_free(&run[1]);
    return status;
}

/* Rung 4. */
static ls_status measure(ladder *l, int repeat, const recorded_run *one, const recorded_run *many,
                         bool *stopped)
{
    double speed[2][REPEAT_MAX];
    printf("\n 4  throughput, %d run%s of each, alternating\n", repeat, repeat == 1 ? "" : "s");
    speed[0][0] = one->result.samples_per_second;
    speed[1][0] = many->result.samples_per_second;
    for (int i = 1; i < repeat; i++) {
        LS_TRY(repeat_once(l, one, &speed[0][i], &speed[1][i], stopped));
        if (*stopped) return LS_OK;
    }
    char name[32];
    snprintf(name, sizeof name, "%d replicas", l->world_size);
    const double slow = print_speed("1 replica", speed[0], repeat);
    const double fast = print_speed(name, speed[1], repeat);
    printf("     speed-up     %10.2f", fast / slow);
    if (l->is_host) {
        printf("  (host replicas share the %d cores that one replica has, too)\n",
               ls_core_count());
    } else {
        printf("  efficiency %.0f %%\n", 100 * fast / slow / l->world_size);
    }
    return LS_OK;
}

/* Rung 5. */
static void print_environment(const recorded_run *run)
{
    double load = NAN; /* over the last minute */
    FILE *file = fopen("/proc/loadavg", "r");
    if (file && fscanf(file, "%lf", &load) != 1) load = NAN;
    if (file) fclose(file);
    printf("\n 5  environment\n     lockstep %s; %d core%s; kernels %s; load %.2f\n", LS_VERSION,
           ls_core_count(), ls_core_count() == 1 ? "" : "s", run->kernels, load);
}

static ls_status climb(ladder *l, int repeat, bool *stopped)
{
    recorded_run one = { 0 }, many = { 0 };
    ls_evaluation evaluation = { 0 };
    printf("lockstep verify %s on %s: 1 replica against %d (%s)\n", l->config.model,
           l->config.data, l->world_size, l->many);
    ls_status status = climb_one(l, &one, &evaluation);
    *stopped = one.result.stopped_by_signal;
    if (status == LS_OK && !*stopped) {
        status = climb_many(l, &one, &many, &evaluation);
        *stopped = many.result.stopped_by_signal;
    }
    if (status == LS_OK && !*stopped) {
        print_times(l, &one, &many);
        status = measure(l, repeat, &one, &many, stopped);
    }
    if (status == LS_OK && !*stopped) print_environment(&one);
    recorded_run_free(&one);
    recorded_run_free(&many);
    return status;
}

/* -- the command ---------------------------------------------------------------------------- */

/* The configuration, and which devices stand on either side. */
static ls_status init_ladder(ladder *l, const ls_invocation *v)
{
    *l = (ladder){ 0 };
    ls_config *config = &l->config;
    ls_config_init(config);
    LS_TRY(ls_invocation_config(v, config));
    LS_TRY(ls_config_check(config));
    if (config->resume[0]) {
        return ls_fail(LS_ERR_ARGUMENT, "verify starts anew: it takes no --resume %s",
                       config->resume);
    }
    if (config->replica_batch > 0) {
        return ls_fail(LS_ERR_ARGUMENT, "verify compares at one global batch: it takes "
                       "--global-batch, not --replica-batch %" PRIu64, config->replica_batch);
    }
    if (config->epochs == 0 && config->steps == 0) config->epochs = DEFAULT_EPOCHS;
    if (!ls_config_is_given(config, ls_option_find("devices"))) {
        LS_TRY(ls_config_set(config, "devices", "host:2"));
    }
    ls_device_list list;
    LS_TRY(ls_device_list_parse(config->devices, config->p2p, &list));
    if (list.count < 2) {
        return ls_fail(LS_ERR_ARGUMENT, "--devices %s: found 1 replica, expected at least 2 to "
                       "compare with one: host:2", config->devices);
    }
    l->world_size = list.count;
    l->is_host = list.device[0].kind == LS_DEVICE_HOST;
    snprintf(l->many, sizeof l->many, "%s", config->devices);
    if (l->is_host) snprintf(l->one, sizeof l->one, "host:1");
    else snprintf(l->one, sizeof l->one, "cuda:%d", list.device[0].ordinal);
    return LS_OK;
}

static ls_status run_verify(const ls_invocation *v, int *exit_code)
{
    ladder l;
    int repeat;
    bool stopped = false;
    LS_TRY(ls_flag_count(v, FLAG_REPEAT, 1, REPEAT_MAX, 3, &repeat));
    LS_TRY(init_ladder(&l, v));
    const bool is_scratch = l.config.out[0] == '\0';
    LS_TRY(ls_scratch_folder_make(l.config.out, l.folder, sizeof l.folder));
    ls_signals_catch();
    const ls_status status = climb(&l, repeat, &stopped);
    if (is_scratch) ls_scratch_folder_remove(l.folder);
    LS_TRY(status);
    if (stopped) {
        *exit_code = 128 + ls_signals_caught();
        return LS_OK;
    }
    if (l.failed_count > 0) {
        return ls_fail(LS_ERR_VERIFY, "%d of %d comparisons differ, first: %s", l.failed_count,
                       l.check_count, l.first_failure);
    }
    printf("\nverified: %d of %d comparisons have the same bits\n", l.check_count, l.check_count);
    return LS_OK;
}

const ls_command ls_command_verify = {
    .name = "verify",
    .arguments = "MODEL --data SPEC [--devices LIST] [--repeat R] [option ...]",
    .summary = "prove that N replicas give the bits of one, and measure both",
    .about =
        "The acceptance ladder: one replica trains, saves, reloads and evaluates; then the\n"
        "replicas of --devices (default host:2) at the same global batch, bits compared; then\n"
        "where the time went; then throughput over --repeat runs. Takes the options of train.\n"
        "Without --out it works in a temporary folder. Exit code 4: a bit differed.\n",
    .arguments_max = 1,
    .takes_model = true,
    .takes_all = true,
    .flag = { [FLAG_REPEAT] = { "repeat", "R", "timed runs of each side (default 3)" } },
    .run = run_verify,
};
