/* SPDX-License-Identifier: MIT */
/* dataset.c -- opening, closing and asking a data set, whatever its format.
 *
 * Opening goes: parse the spec, find the format, let it check its files and fill in where samples
 * lie (dataset_internal.h), leave out bad records if that was asked for, count classes, fix the
 * scale, take the identity.
 *
 * The identity is the SHA-256 of, in this order: a line of text with shape, task, counts, store and
 * scale; then per part (train, test) the stored bytes of its samples in order, its labels as
 * little-endian 32-bit integers or its targets as 32-bit floats, and its weights as 32-bit floats
 * where it has some. The paths do not enter: the same contents elsewhere are the same data.
 */
#include "io/dataset.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "io/dataset_internal.h"
#include "nearest.h"
#include "plural.h"
#include "sha256.h"

static const ls_dataset_format *const formats[] = {
    &ls_dataset_digits, &ls_dataset_cifar10, &ls_dataset_cifar100,
    &ls_dataset_idx,    &ls_dataset_csv,     &ls_dataset_npy,
};
enum { FORMAT_COUNT = (int)(sizeof formats / sizeof formats[0]) };

/* -- what all formats have in common --------------------------------------------------------- */

/* Close the gaps that bad samples leave in labels, targets and weights; kept[i] says where sample i
 * lies. */
static ls_status drop_bad(ls_dataset *dataset, ls_part part)
{
    ls_part_data *data = &dataset->part[part];
    const size_t outputs = dataset->info.outputs;
    dataset->info.count[part] = data->stored;
    if (!data->bad) return LS_OK;
    data->kept = malloc(data->stored * sizeof *data->kept);
    if (!data->kept) return ls_fail(LS_ERR_MEMORY, "no memory for %zu places", data->stored);
    size_t count = 0;
    for (size_t i = 0; i < data->stored; i++) {
        if (data->bad[i]) continue;
        data->kept[count] = (uint32_t)i;
        if (data->label) data->label[count] = data->label[i];
        if (data->weight) data->weight[count] = data->weight[i];
        if (data->target) {
            memmove(data->target + count * outputs, data->target + i * outputs,
                    outputs * sizeof(float));
        }
        count++;
    }
    dataset->info.count[part] = count;
    return LS_OK;
}

static ls_status warn_of_classes(ls_dataset *dataset)
{
    const ls_dataset_info *info = &dataset->info;
    const size_t classes = info->classes;
    bool *seen = calloc(classes, sizeof *seen);
    if (!seen) return ls_fail(LS_ERR_MEMORY, "no memory for %zu classes", classes);
    size_t present = 0, absent = 0;
    for (size_t i = 0; i < info->count[LS_PART_TRAIN]; i++) {
        bool *mark = &seen[dataset->part[LS_PART_TRAIN].label[i]];
        present += !*mark;
        *mark = true;
    }
    while (absent < classes && seen[absent]) absent++;
    free(seen);
    const int32_t first = dataset->part[LS_PART_TRAIN].label[0];
    if (info->count[LS_PART_TRAIN] == 1) {
        return ls_dataset_warn(dataset, "train: one sample, and no class but %d", (int)first);
    }
    if (present == 1) {
        return ls_dataset_warn(dataset, "train: all %zu labels are %d", info->count[LS_PART_TRAIN],
                               (int)first);
    }
    if (present < classes) {
        const bool maybe_numbers = strcmp(dataset->spec.kind, "csv") == 0;
        return ls_dataset_warn(dataset, "train: %zu of %zu classes %s no sample: %s%zu%s",
                               classes - present, classes, classes - present == 1 ? "has" : "have",
                               classes - present == 1 ? "" : "the first is ", absent,
                               maybe_numbers ? " (if the last field is a quantity: task=regress)"
                                             : "");
    }
    return LS_OK;
}

/* Classes that the labels of both parts make: the largest label and 1. */
static size_t classes_of_labels(const ls_dataset *dataset)
{
    int32_t most = 0;
    for (int part = 0; part < LS_PART_COUNT; part++) {
        for (size_t i = 0; i < dataset->info.count[part]; i++) {
            const int32_t label = dataset->part[part].label[i];
            if (label > most) most = label;
        }
    }
    return (size_t)most + 1;
}

/* Is each sample's row of targets one 1 among zeros? */
static bool targets_are_one_hot(const ls_dataset *dataset)
{
    const ls_part_data *data = &dataset->part[LS_PART_TRAIN];
    const size_t outputs = dataset->info.outputs;
    for (size_t i = 0; i < dataset->info.count[LS_PART_TRAIN]; i++) {
        size_t ones = 0;
        for (size_t k = 0; k < outputs; k++) {
            const float y = data->target[i * outputs + k];
            if (y != 0 && y != 1) return false;
            ones += y == 1;
        }
        if (ones != 1) return false;
    }
    return true;
}

static ls_status warn_of_targets(ls_dataset *dataset)
{
    if (dataset->info.outputs < 2 || !targets_are_one_hot(dataset)) return LS_OK;
    return ls_dataset_warn(dataset, "train: each sample's %zu targets are one 1 among zeros: if "
                           "they tell a class, give its number as a label", dataset->info.outputs);
}

static ls_status warn_of_weights(ls_dataset *dataset)
{
    const size_t count = dataset->info.count[LS_PART_TRAIN];
    if (!dataset->info.weighted) return LS_OK;
    for (size_t i = 0; i < count; i++)
        if (ls_dataset_weight(dataset, i) != 0) return LS_OK;
    return ls_dataset_warn(dataset, "train: all sample weights are 0: nothing can be learned");
}

static ls_status finish_parts(ls_dataset *dataset)
{
    ls_dataset_info *info = &dataset->info;
    for (int part = 0; part < LS_PART_COUNT; part++) LS_TRY(drop_bad(dataset, (ls_part)part));
    if (dataset->skipped > 0) {
        LS_TRY(ls_dataset_warn(dataset, "skipped %zu bad record%s in all", dataset->skipped,
                               LS_PLURAL(dataset->skipped)));
    }
    if (info->count[LS_PART_TRAIN] == 0) {
        return ls_fail(LS_ERR_FORMAT, "%s: no training sample (%zu bad record%s skipped)",
                       dataset->spec_text, dataset->skipped, LS_PLURAL(dataset->skipped));
    }
    dataset->reading_warnings = strlen(ls_dataset_warnings(dataset));
    LS_TRY(warn_of_weights(dataset));
    if (info->task == LS_TASK_NONE) return LS_OK;
    if (info->task == LS_TASK_REGRESS) return warn_of_targets(dataset);
    if (info->classes == 0) info->classes = classes_of_labels(dataset);
    return warn_of_classes(dataset);
}

static void identify_part(const ls_dataset *dataset, ls_part part, ls_sha256 *sha)
{
    const ls_part_data *data = &dataset->part[part];
    const size_t count = dataset->info.count[part];
    const size_t bytes = ls_dataset_stored_bytes(dataset);
    for (size_t i = 0; i < count; i++) {
        ls_sha256_update(sha, ls_dataset_sample(dataset, part, i), bytes);
        ls_dataset_walked(dataset, part, i);
    }
    if (data->label) ls_sha256_update(sha, data->label, count * sizeof *data->label);
    if (data->target) {
        ls_sha256_update(sha, data->target, count * dataset->info.outputs * sizeof *data->target);
    }
    if (data->weight) ls_sha256_update(sha, data->weight, count * sizeof *data->weight);
}

static void identify(ls_dataset *dataset)
{
    static const char *const store_name[] = { "u8", "u8 planes", "f32", "f64" };
    const ls_dataset_info *info = &dataset->info;
    const ls_scale_rule rule = ls_dataset_scale_rule(dataset);
    char scale[LS_SCALE_NAME_BYTES], text[512];
    ls_scale_name(&rule, scale);
    const int chars = snprintf(
        text, sizeof text, "%s %zux%zux%zu, %s %zu, train %zu, test %zu, %s, scale %s%s\n",
        info->is_image ? "image" : "table", info->height, info->width, info->channels,
        info->task == LS_TASK_CLASSIFY ? "classes" : "outputs",
        info->task == LS_TASK_CLASSIFY ? info->classes : info->outputs, info->count[LS_PART_TRAIN],
        info->count[LS_PART_TEST], store_name[dataset->store], scale,
        info->weighted ? ", weighted" : "");
    ls_sha256 sha;
    ls_sha256_init(&sha);
    ls_sha256_update(&sha, text, (size_t)chars);
    for (int part = 0; part < LS_PART_COUNT; part++) identify_part(dataset, (ls_part)part, &sha);
    ls_sha256_final_hex(&sha, dataset->identity);
}

/* -- opening and closing --------------------------------------------------------------------- */

/* Does `name` name a folder or a picture, which no format reads? */
static bool names_pictures(const char *name)
{
    static const char *const suffix[] = { ".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff" };
    struct stat about;
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof suffix / sizeof suffix[0]; i++) {
        if (strcasecmp(dot, suffix[i]) == 0) return true;
    }
    return stat(name, &about) == 0 && S_ISDIR(about.st_mode);
}

static ls_status fail_unknown_kind(const char *kind)
{
    const char *names[FORMAT_COUNT + 1] = { NULL };
    char usages[256] = ""; /* "digits, cifar10:DIR, ...": each usage up to its first key */
    for (int i = 0; i < FORMAT_COUNT; i++) {
        names[i] = formats[i]->kind;
        if (i > 0) strcat(usages, ", ");
        strncat(usages, formats[i]->usage, strcspn(formats[i]->usage, "["));
    }
    const char *dot = strrchr(kind, '.');
    const char *nearest = dot && strcmp(dot, ".csv") == 0      ? "csv:FILE"
                          : dot && strncmp(dot, ".np", 3) == 0 ? "npy:X.npy,Y.npy"
                                                               : ls_nearest_name(kind, names);
    return ls_fail(LS_ERR_ARGUMENT, "data spec: unknown kind of data '%s'%s%s%s; known: %s%s", kind,
                   nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "",
                   usages,
                   names_pictures(kind) ? "; a folder of pictures is made into arrays first "
                                          "(docs/data.md)" : "");
}

static ls_status open_with(ls_dataset *dataset, const ls_dataset_format *format)
{
    static const char *const bad_choices[] = { "stop", "skip", NULL };
    int bad = 0;
    LS_TRY(ls_spec_check(&dataset->spec, format));
    LS_TRY(ls_spec_choice(&dataset->spec, "bad", bad_choices, &bad));
    dataset->skip_bad = bad == 1;
    LS_TRY(ls_dataset_parse_scale(dataset));
    LS_TRY(format->open(dataset));
    LS_TRY(finish_parts(dataset));
    const bool u8_image = dataset->info.is_image && dataset->store != LS_STORE_F32 &&
                          dataset->store != LS_STORE_F64;
    dataset->info.element = u8_image ? LS_ELEMENT_U8 : LS_ELEMENT_F32;
    LS_TRY(ls_dataset_init_scale(dataset, u8_image ? 255 : format->divisor));
    dataset->range_top = u8_image                                     ? 255
                         : format->divisor > 0                        ? format->divisor
                         : dataset->scale.kind == LS_SCALE_DIVIDE ? dataset->scale.divisor
                                                                      : 1;
    identify(dataset);
    for (int i = 0; i < dataset->file_count; i++) {
        const ls_data_file *file = &dataset->file[i];
        if (file->bytes > LS_RESIDENT_BYTES) ls_data_file_expect(file, false);
    }
    return LS_OK;
}

static ls_status open_spec(ls_dataset *dataset, const char *spec)
{
    const size_t bytes = strlen(spec) + 1;
    dataset->spec_text = malloc(bytes);
    if (!dataset->spec_text) return ls_fail(LS_ERR_MEMORY, "no memory for a data spec");
    memcpy(dataset->spec_text, spec, bytes);
    LS_TRY(ls_spec_parse(spec, &dataset->spec));
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (strcmp(dataset->spec.kind, formats[i]->kind) == 0) {
            return open_with(dataset, formats[i]);
        }
    }
    return fail_unknown_kind(dataset->spec.kind);
}

ls_status ls_dataset_open(const char *spec, ls_dataset **out)
{
    return ls_dataset_open_scaled(spec, NULL, out);
}

ls_status ls_dataset_open_scaled(const char *spec, const ls_scale_rule *trained, ls_dataset **out)
{
    ls_dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset) return ls_fail(LS_ERR_MEMORY, "no memory for a data set");
    dataset->trained = trained;
    const ls_status status = open_spec(dataset, spec);
    dataset->trained = NULL;
    if (status == LS_OK) {
        *out = dataset;
        dataset = NULL;
    }
    ls_dataset_close(dataset);
    return status;
}

void ls_dataset_close(ls_dataset *dataset)
{
    if (!dataset) return;
    for (int part = 0; part < LS_PART_COUNT; part++) {
        ls_part_data *data = &dataset->part[part];
        free(data->values);
        free(data->label);
        free(data->target);
        free(data->weight);
        free(data->bad);
        free(data->kept);
    }
    for (int i = 0; i < dataset->file_count; i++) ls_data_file_close(&dataset->file[i]);
    ls_scale_free(&dataset->scale);
    ls_spec_free(&dataset->spec);
    free(dataset->class_name);
    free(dataset->warnings);
    free(dataset->spec_text);
    free(dataset);
}

/* -- asking ---------------------------------------------------------------------------------- */

const ls_dataset_info *ls_dataset_describe(const ls_dataset *dataset) { return &dataset->info; }

double ls_dataset_range_top(const ls_dataset *dataset) { return dataset->range_top; }

const char *ls_dataset_spec(const ls_dataset *dataset) { return dataset->spec_text; }

const char *ls_dataset_identity(const ls_dataset *dataset) { return dataset->identity; }

const char *ls_dataset_class_name(const ls_dataset *dataset, size_t label)
{
    assert(label < dataset->info.classes);
    return dataset->class_name ? dataset->class_name[label] : NULL;
}

const char *ls_dataset_warnings(const ls_dataset *dataset)
{
    return dataset->warnings ? dataset->warnings : "";
}

size_t ls_dataset_reading_warnings(const ls_dataset *dataset) { return dataset->reading_warnings; }

bool ls_dataset_reads(const ls_dataset *dataset, const char *path)
{
    struct stat about, other;
    if (stat(path, &about) != 0) return false;
    for (int i = 0; i < dataset->file_count; i++) {
        if (stat(dataset->file[i].path, &other) != 0) continue;
        if (about.st_dev == other.st_dev && about.st_ino == other.st_ino) return true;
    }
    return false;
}

const char *ls_dataset_width_hint(const ls_dataset_info *info, size_t wanted)
{
    const size_t answers = info->task == LS_TASK_REGRESS ? info->outputs : 1;
    if (info->is_image) return "";
    if (info->task == LS_TASK_NONE)
        return info->channels > wanted ? " (are there answers? then no label=none)" : "";
    return info->channels + answers == wanted ? " (no answers? then label=none)" : "";
}

int32_t ls_dataset_label(const ls_dataset *dataset, ls_part part, size_t index)
{
    return dataset->part[part].label[index];
}

float ls_dataset_weight(const ls_dataset *dataset, size_t index)
{
    const float *weight = dataset->part[LS_PART_TRAIN].weight;
    return weight ? weight[index] : 1.0f;
}

void ls_dataset_target(const ls_dataset *dataset, ls_part part, size_t index, float *y)
{
    const size_t outputs = dataset->info.outputs;
    memcpy(y, dataset->part[part].target + index * outputs, outputs * sizeof(float));
}
