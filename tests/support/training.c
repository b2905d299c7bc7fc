/* SPDX-License-Identifier: MIT */
/* training.c -- see training.h. */
#include "support/training.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/checkpoint.h"
#include "philox.h"

static void give_up(const char *what)
{
    fprintf(stderr, "training: %s: %s [%s]\n", what, ls_last_error(), ls_last_error_place());
    abort();
}

static void on_plan(void *context, const ls_train_plan *plan)
{
    training *t = context;
    snprintf(t->resume, sizeof t->resume, "%s", plan->resume);
}

static void on_step(void *context, const ls_step_report *report)
{
    training *t = context;
    if (t->step_count < TRAINING_STEPS_MAX) t->step[t->step_count++] = *report->line;
}

static void on_epoch(void *context, const ls_history_line *line, uint64_t epochs)
{
    training *t = context;
    (void)epochs;
    if (t->epoch_count < TRAINING_EPOCHS_MAX) t->epoch[t->epoch_count++] = *line;
}

static void on_explain(void *context, const char *text)
{
    training *t = context;
    snprintf(t->explanation, sizeof t->explanation, "%s", text);
}

void training_stuck(void)
{
    fprintf(stderr, "lockstep: %s\n", ls_last_error());
    _exit(5);
}

/* Asked at the end of each step, before the step is reported. */
static bool should_stop(void *context)
{
    const training *t = context;
    return t->stop_after > 0 && (uint64_t)t->step_count + 1 >= t->stop_after;
}

training *training_create(void)
{
    training *t = calloc(1, sizeof *t);
    const char *tmp = getenv("TMPDIR");
    if (!t) abort();
    snprintf(t->folder, sizeof t->folder, "%.200s/lockstep-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(t->folder)) {
        perror(t->folder);
        abort();
    }
    t->observer = (ls_observer){ .plan = on_plan, .step = on_step, .epoch = on_epoch,
                                 .explain = on_explain, .should_stop = should_stop,
                                 .stuck = training_stuck, .context = t };
    ls_config_init(&t->config);
    return t;
}

/* Remove a file, or a folder and what is in it. */
static void remove_tree(const char *path)
{
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        char inner[1024];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (remove(inner) != 0) remove_tree(inner);
    }
    if (folder) closedir(folder);
    remove(path);
}

void training_destroy(training *t)
{
    remove_tree(t->folder);
    free(t);
}

const char *training_path(training *t, const char *name)
{
    static char path[8][512];
    static int next;
    next = (next + 1) % 8;
    snprintf(path[next], sizeof path[next], "%s/%s", t->folder, name);
    return path[next];
}

void training_write(training *t, const char *name, const char *text)
{
    FILE *file = fopen(training_path(t, name), "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        perror(name);
        abort();
    }
}

void training_set(training *t, const char *name, const char *value)
{
    if (ls_config_set(&t->config, name, value) != LS_OK) give_up(name);
}

void training_reset(training *t)
{
    ls_config fresh;
    ls_config_init(&fresh);
    memcpy(fresh.model, t->config.model, sizeof fresh.model);
    memcpy(fresh.data, t->config.data, sizeof fresh.data);
    t->config = fresh;
    t->stop_after = 0;
}

ls_status training_run(training *t)
{
    char out[64];
    ls_config config = t->config;
    t->step_count = t->epoch_count = 0;
    t->explanation[0] = t->resume[0] = '\0';
    if (!config.out[0] && !config.resume[0]) {
        snprintf(out, sizeof out, "run-%d", t->runs++);
        snprintf(config.out, sizeof config.out, "%s", training_path(t, out));
    }
    return ls_train(&config, &t->observer, &t->result);
}

void training_must_run(training *t)
{
    if (training_run(t) != LS_OK) give_up(t->config.model);
}

const char *training_run_file(const training *t, const char *name)
{
    static char path[1300];
    const char *end = strstr(t->result.checkpoint, "/checkpoints/");
    snprintf(path, sizeof path, "%.*s/%s", end ? (int)(end - t->result.checkpoint) : 0,
             t->result.checkpoint, name);
    return path;
}

const char *training_weights(training *t, const char *name, const char *tensor, size_t out,
                             size_t in, const float *values)
{
    ls_saved_tensor saved = { .dtype = LS_DTYPE_F32, .dims = 2, .shape = { out, in },
                              .data = values };
    snprintf(saved.name, sizeof saved.name, "weights/%s", tensor);
    const char *path = training_path(t, name);
    if (ls_checkpoint_save(path, &saved, 1, NULL, 0) != LS_OK) give_up(name);
    return path;
}

/* Append tensors PREFIX/<name> of `arena` to a list; returns its new length. */
static int append_tensors(ls_saved_tensor *list, int count, const char *prefix,
                          const ls_parameter *parameter, int parameters, const float *arena)
{
    for (int p = 0; p < parameters; p++) {
        ls_saved_tensor *saved = &list[count++];
        *saved = (ls_saved_tensor){ .dtype = LS_DTYPE_F32, .dims = parameter[p].dims,
                                    .data = arena + parameter[p].begin };
        snprintf(saved->name, sizeof saved->name, "%s/%s", prefix, parameter[p].name);
        memcpy(saved->shape, parameter[p].shape, sizeof saved->shape);
    }
    return count;
}

const char *training_start(training *t, const char *name, const ls_model *model,
                           const float *weights, const float *statistics)
{
    const size_t most = (size_t)(model->parameter_count + model->statistic_count);
    ls_saved_tensor *list = calloc(most + 1, sizeof *list);
    if (!list) abort();
    int count = append_tensors(list, 0, "weights", model->parameter, model->parameter_count,
                               weights);
    count = append_tensors(list, count, "statistics", model->statistic, model->statistic_count,
                           statistics);
    const char *path = training_path(t, name);
    if (ls_checkpoint_save(path, list, count, NULL, 0) != LS_OK) give_up(name);
    free(list);
    return path;
}

void training_tensor(training *t, const char *tensor, float *x, size_t count)
{
    ls_checkpoint *checkpoint = NULL;
    if (ls_checkpoint_open(t->result.checkpoint, &checkpoint) != LS_OK) give_up(tensor);
    const ls_saved_tensor *saved = ls_checkpoint_tensor(checkpoint, tensor);
    if (!saved) {
        fprintf(stderr, "training: no tensor %s\n", tensor);
        abort();
    }
    memcpy(x, saved->data, count * sizeof *x);
    ls_checkpoint_close(checkpoint);
}

char *training_table(uint64_t seed, size_t count, size_t fields, size_t classes)
{
    char *text = malloc(count * (fields * 12 + 8) + 1), *next = text;
    if (!text) abort();
    *text = '\0';
    for (size_t line = 0; line < count; line++) {
        double sum = 0;
        for (size_t f = 0; f < fields; f++) {
            uint32_t word[4];
            ls_random_words(seed, LS_RANDOM_AUGMENT, 0, 0, (uint32_t)line, (uint32_t)f, word);
            const double x = (double)(word[0] % 2000) / 1000 - 1;
            sum += x * (double)(f + 1);
            next += sprintf(next, "%.3f,", x);
        }
        const double part = (sum + (double)(fields * fields)) / (double)(2 * fields * fields);
        const size_t class = (size_t)(part * (double)classes);
        next += sprintf(next, "%zu\n", class < classes ? class : classes - 1);
    }
    return text;
}

enum { PICTURE_WORDS = 769, PICTURE_BYTES = 3073, PICTURE_SEED = 1 };

/* Record `i`: label, then three planes. */
static void make_picture(uint32_t i, unsigned char record[PICTURE_BYTES])
{
    unsigned char raw[PICTURE_WORDS * 4 + 12];
    for (uint32_t quad = 0; quad * 4 < PICTURE_WORDS; quad++) {
        uint32_t word[4];
        ls_random_words(PICTURE_SEED, LS_RANDOM_AUGMENT, 0, 0, i, quad, word);
        for (unsigned b = 0; b < 16; b++)
            raw[quad * 16 + b] = (unsigned char)(word[b / 4] >> (8 * (b % 4)));
    }
    record[0] = (unsigned char)(raw[0] % 10);
    for (size_t p = 1; p < PICTURE_BYTES; p++)
        record[p] = (unsigned char)(raw[3 + p] / 2 + 12 * record[0]);
}

const char *training_pictures(training *t, uint32_t count)
{
    static char spec[600];
    unsigned char record[PICTURE_BYTES];
    FILE *file = fopen(training_path(t, "data_batch_1.bin"), "wb");
    if (!file) abort();
    for (uint32_t i = 0; i < count; i++) {
        make_picture(i, record);
        if (fwrite(record, 1, sizeof record, file) != sizeof record) abort();
    }
    if (fclose(file) != 0) abort();
    snprintf(spec, sizeof spec, "cifar10:%s", t->folder);
    return spec;
}

void training_remember(const training *t, training_bits *bits)
{
    memcpy(bits->weights, t->result.weights_sha256, sizeof bits->weights);
    memcpy(bits->optimizer, t->result.optimizer_sha256, sizeof bits->optimizer);
    memcpy(bits->statistics, t->result.statistics_sha256, sizeof bits->statistics);
    bits->step_count = t->step_count;
    for (int s = 0; s < t->step_count; s++) bits->loss[s] = t->step[s].loss;
    bits->val_loss = t->result.last.val_loss;
}

bool training_same(const training *t, const training_bits *bits, const char *what)
{
    for (int s = 0; s < t->step_count; s++) {
        const int place = bits->step_count - t->step_count + s;
        if (t->step[s].loss != bits->loss[place]) {
            fprintf(stderr, "%s: loss of step %d is %.17g, expected %.17g\n", what, place + 1,
                    t->step[s].loss, bits->loss[place]);
            return false;
        }
    }
    const bool weights = strcmp(t->result.weights_sha256, bits->weights) == 0;
    const bool optimizer = strcmp(t->result.optimizer_sha256, bits->optimizer) == 0;
    const bool statistics = strcmp(t->result.statistics_sha256, bits->statistics) == 0;
    const double val_loss = t->result.last.val_loss;
    const bool evaluation = memcmp(&val_loss, &bits->val_loss, sizeof val_loss) == 0
                            || (val_loss != val_loss && bits->val_loss != bits->val_loss);
    if (!weights || !optimizer || !statistics || !evaluation)
        fprintf(stderr, "%s: other%s%s%s%s\n", what, weights ? "" : " weights",
                optimizer ? "" : " slots", statistics ? "" : " statistics",
                evaluation ? "" : " val_loss");
    return weights && optimizer && statistics && evaluation;
}

training *training_tiny(void)
{
    training *t = training_create();
    char data[600], *lines = training_table(11, 46, 4, 3);
    training_write(t, "tiny.model", TRAINING_TINY_MODEL);
    training_write(t, "data.csv", lines);
    free(lines);
    snprintf(data, sizeof data, "csv:%s", training_path(t, "data.csv"));
    training_set(t, "model", training_path(t, "tiny.model"));
    training_set(t, "data", data);
    training_set(t, "global-batch", "8");
    training_set(t, "epochs", "3");
    return t;
}

training *training_linear(const char *lines)
{
    training *t = training_create();
    const float one = 1;
    char data[600];
    training_write(t, "linear.model", "input 1\ndense 1 bias=no\nloss mse\n");
    training_write(t, "data.csv", lines);
    snprintf(data, sizeof data, "csv:%s,task=regress,test=none", training_path(t, "data.csv"));
    training_set(t, "model", training_path(t, "linear.model"));
    training_set(t, "data", data);
    training_set(t, "init", training_weights(t, "w1", "dense1/kernel", 1, 1, &one));
    training_set(t, "optimizer", "sgd");
    return t;
}

float training_linear_weight(training *t)
{
    float w;
    training_tensor(t, "weights/dense1/kernel", &w, 1);
    return w;
}
