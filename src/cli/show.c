/* SPDX-License-Identifier: MIT */
/* show.c -- `lockstep show`: a model, a checkpoint, or the ring's schedule, as text.
 *
 * What the argument names is decided in this order: `ring`; a built-in model; a run folder, a name
 * in .safetensors, or a file whose ninth byte is '{', where such a file's header begins: a
 * checkpoint; else a model file. Without an argument: the list of built-in models.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/console.h"
#include "cli/options.h"
#include "collectives/ring.h"
#include "io/dataset.h"
#include "plural.h"
#include "train/memory.h"
#include "train/model.h"
#include "train/optimizer.h"
#include "train/state.h"
#include "unit.h"

enum { FLAG_TEXT };

/* -- ring ----------------------------------------------------------------------------------- */

static ls_status show_ring(const ls_invocation *v, const ls_config *config)
{
    const char *text = v->argument_count > 1 ? v->argument[1] : "";
    char *end = NULL;
    const long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || n < 1 || n > LS_WORLD_MAX) {
        return ls_fail(LS_ERR_ARGUMENT, "show ring: found '%.60s', expected a number of replicas "
                       "from 1 to %d, such as: show ring 5", text, LS_WORLD_MAX);
    }
    char *page = NULL;
    LS_TRY(ls_ring_describe((int)n, config->shards, &page));
    fputs(page, stdout);
    free(page);
    return LS_OK;
}

/* -- model ---------------------------------------------------------------------------------- */

static void show_builtin_models(void)
{
    printf("built-in models (lockstep show NAME, --text for the source):\n");
    for (const char *const *name = ls_model_builtin_names(); *name; name++) {
        const char *text = ls_model_builtin(*name);
        printf("  %.*s\n", (int)strcspn(text + 2, "\n"), text + 2); /* its first comment */
    }
}

/* The devices whose memory is asked for: one host replica unless told. GPUs that are named need not
 * be there: nothing is opened. */
static ls_status choose_devices(const ls_config *config, ls_device_list *list)
{
    const bool is_given = ls_config_is_given(config, ls_option_find("devices"));
    const char *text = is_given ? config->devices : "host:1";
    if (strcmp(text, "auto") == 0 || strcmp(text, "cuda") == 0)
        return ls_device_list_parse(text, config->p2p, list);
    return ls_device_list_resolve(text, LS_WORLD_MAX, "", list);
}

/* What a model says about its data. */
static ls_dataset_info data_of(const ls_model *model)
{
    const ls_shape in = model->layer[0].out;
    const bool regress = model->loss == LS_LOSS_MSE || model->loss == LS_LOSS_MAE;
    const size_t outputs = ls_model_outputs(model);
    return (ls_dataset_info){ .is_image = in.height * in.width > 1, .height = in.height,
                              .width = in.width, .channels = in.channels,
                              .task = regress ? LS_TASK_REGRESS : LS_TASK_CLASSIFY,
                              .classes = regress ? 0 : outputs,
                              .outputs = regress ? outputs : 0 };
}

static void print_memory(const ls_config *config, const ls_rank_memory *rank, int world_size)
{
    char text[LS_UNIT_BYTES];
    printf("memory      %s a replica, with global batch %" PRIu64 " on %d replica%s, %s:\n",
           ls_with_unit((double)rank->device, text), config->global_batch, world_size,
           LS_PLURAL(world_size), ls_optimizer_name(config->optimizer));
    for (int i = 0; i < LS_MEMORY_PARTS; i++) {
        size_t bytes = 0;
        const char *name = ls_memory_part(rank, i, &bytes);
        printf("            %10s  %s\n", ls_with_unit((double)bytes, text), name);
    }
    if (rank->streams > 0)
        printf("            and %s that the GPU's streams take\n",
               ls_with_unit((double)rank->streams, text));
    printf("            and %s of pinned host memory\n",
           ls_with_unit((double)rank->pinned, text));
}

static ls_status show_memory(const ls_config *config, const ls_model *model,
                             const ls_dataset *dataset)
{
    ls_config filled = *config;
    ls_device_list list;
    LS_TRY(choose_devices(config, &list));
    if (list.count > filled.shards)
        return ls_fail(LS_ERR_ARGUMENT, "--devices %s: %d replicas, but only %d shard%s to share "
                       "out; use --shards %d or more", config->devices, list.count, filled.shards,
                       LS_PLURAL(filled.shards), list.count);
    ls_config_fill(&filled, list.count);
    ls_rank_memory memory[LS_WORLD_MAX];
    const ls_dataset_info made = data_of(model);
    const ls_dataset_info *data = dataset ? ls_dataset_describe(dataset) : &made;
    LS_TRY(ls_memory_measure(&filled, model, data, dataset, &list, memory));
    print_memory(&filled, ls_memory_fullest(memory, list.count), list.count);
    return LS_OK;
}

static ls_status describe_model(const ls_config *config, const char *text,
                                const ls_dataset *dataset)
{
    ls_model model;
    LS_TRY(ls_model_init(&model, config->model, text,
                         dataset ? ls_dataset_describe(dataset) : NULL));
    char *page = NULL;
    ls_status status = ls_model_describe(&model, &page);
    if (status == LS_OK) {
        fputs(page, stdout);
        status = show_memory(config, &model, dataset);
    }
    free(page);
    ls_model_free(&model);
    return status;
}

static ls_status show_model(const ls_invocation *v, const ls_config *config)
{
    char *text = NULL;
    ls_dataset *dataset = NULL;
    ls_status status = ls_model_text(config->model, &text);
    if (status == LS_OK && v->flag[FLAG_TEXT]) {
        fputs(text, stdout);
    } else if (status == LS_OK) {
        if (config->data[0]) status = ls_dataset_open(config->data, &dataset);
        if (status == LS_OK) status = describe_model(config, text, dataset);
    }
    ls_dataset_close(dataset);
    free(text);
    return status;
}

/* -- checkpoint ----------------------------------------------------------------------------- */

/* Does the file look like a safetensors container? Whether it is one, opening it will say. */
static bool is_checkpoint(const char *path)
{
    const size_t n = strlen(path), t = strlen(".safetensors");
    if (n > t && strcmp(path + n - t, ".safetensors") == 0) return true;
    struct stat info;
    if (stat(path, &info) != 0) return false;
    if (S_ISDIR(info.st_mode)) return true;
    unsigned char head[9] = { 0 };
    FILE *file = fopen(path, "rb");
    const size_t bytes = file ? fread(head, 1, sizeof head, file) : 0;
    if (file) fclose(file);
    return bytes == sizeof head && head[8] == '{';
}

static ls_status print_groups(const ls_checkpoint *checkpoint)
{
    static const char *const groups[] = { "weights/", "optimizer/", "statistics/", "state/" };
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        char digest[65];
        LS_TRY(ls_checkpoint_group_sha256(checkpoint, groups[g], digest));
        if (!digest[0]) continue;
        printf("%-12.*ssha256 %s\n", (int)strlen(groups[g]) - 1, groups[g], digest);
    }
    return LS_OK;
}

static void print_tensors(const ls_checkpoint *checkpoint)
{
    printf("\ntensors:\n");
    for (int i = 0; i < ls_checkpoint_tensor_count(checkpoint); i++) {
        const ls_saved_tensor *t = ls_checkpoint_tensor_at(checkpoint, i);
        printf("  %-40s %s [", t->name, ls_dtype_name(t->dtype));
        for (int d = 0; d < t->dims; d++) printf("%s%zu", d > 0 ? ", " : "", t->shape[d]);
        printf("]\n");
    }
}

static ls_status print_run(const ls_saved_run *run)
{
    char *config = NULL;
    const ls_progress *p = &run->progress;
    printf("step        %" PRIu64 " update%s; epoch %" PRIu64 ", after %" PRIu64 " of its steps\n",
           p->step, LS_PLURAL(p->step), p->epoch + 1, p->step_of_epoch);
    printf("model       %s\nnumerics    %s\nwritten by  %s\n", run->text[LS_SAVED_MODEL_NAME],
           run->text[LS_SAVED_CLASS], run->text[LS_SAVED_WORLD]);
    printf("data        %s\n            identity %s\n", run->text[LS_SAVED_DATA],
           run->text[LS_SAVED_IDENTITY]);
    LS_TRY(ls_config_write(&run->config, &config));
    printf("\nmodel text:\n%s\nconfiguration:\n%s", run->text[LS_SAVED_MODEL], config);
    free(config);
    return LS_OK;
}

static ls_status print_checkpoint(const ls_checkpoint *checkpoint, const char *path)
{
    ls_saved_run run = { .text = { NULL } };
    printf("checkpoint  %s\n", path);
    ls_status status = print_groups(checkpoint);
    if (status == LS_OK && ls_checkpoint_text(checkpoint, "config")) {
        status = ls_saved_run_init(&run, checkpoint, path);
        if (status == LS_OK) status = print_run(&run);
    } else if (status == LS_OK) {
        printf("no run: weights alone, which --init can start from\n");
    }
    if (status == LS_OK) print_tensors(checkpoint);
    ls_saved_run_free(&run);
    return status;
}

static ls_status print_model_text(const ls_checkpoint *checkpoint, const char *path)
{
    const char *text = ls_checkpoint_text(checkpoint, "model");
    if (!text)
        return ls_fail(LS_ERR_FORMAT, "--text: %s holds weights alone, no model", path);
    fputs(text, stdout);
    return LS_OK;
}

static ls_status show_checkpoint(const ls_invocation *v)
{
    char path[LS_TEXT_BYTES * 2];
    ls_checkpoint *checkpoint = NULL;
    LS_TRY(ls_checkpoint_find(v->argument[0], path, sizeof path));
    LS_TRY(ls_checkpoint_open(path, &checkpoint));
    const ls_status status = v->flag[FLAG_TEXT] ? print_model_text(checkpoint, path)
                                                : print_checkpoint(checkpoint, path);
    ls_checkpoint_close(checkpoint);
    return status;
}

/* -- the command ---------------------------------------------------------------------------- */

static ls_status run_show(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    const char *what = v->argument_count > 0 ? v->argument[0] : NULL;
    if (!what) {
        show_builtin_models();
        return LS_OK;
    }
    ls_config config;
    ls_config_init(&config);
    LS_TRY(ls_invocation_config(v, &config));
    const bool is_ring = strcmp(what, "ring") == 0;
    if (v->argument_count > 1 && !is_ring) {
        return ls_fail(LS_ERR_ARGUMENT, "show: found '%.60s' after '%.60s', expected one argument, "
                       "or: ring N", v->argument[1], what);
    }
    if (is_ring) return show_ring(v, &config);
    LS_TRY(ls_config_set(&config, "model", what));
    if (!ls_model_builtin(what) && is_checkpoint(what)) return show_checkpoint(v);
    return show_model(v, &config);
}

static const char *const show_options[] = { "data", "devices", "global-batch", "replica-batch",
                                            "optimizer", "ema", "shards", "accumulate",
                                            "precision", "allreduce", "p2p", "bucket", NULL };

const ls_command ls_command_show = {
    .name = "show",
    .arguments = "[MODEL | CHECKPOINT | ring N] [option ...]",
    .summary = "a model, a checkpoint, or the ring's schedule",
    .about =
        "MODEL: layers, shapes, parameters, work, memory of a replica for this batch and these\n"
        "devices (GPUs that are named need not be there); --data gives `auto` its sizes.\n"
        "CHECKPOINT (a file or a run folder): SHA-256 of each group of tensors (the same for\n"
        "equal bits), step, numerics class, model, configuration; with --text the model alone.\n"
        "ring N: what N ranks send, receive and add at each ring step.\n"
        "Nothing: the built-in models.\n",
    .arguments_max = 2,
    .takes = show_options,
    .flag = { [FLAG_TEXT] = { "text", NULL, "the model's source, ready to edit" } },
    .run = run_show,
};
