/* SPDX-License-Identifier: MIT */
/* state.c -- the tensors of a run's state by name: saved, found again, refused. See state.h.
 *
 * Not here: its texts (state_text.c), and how a file is laid out (io/checkpoint.h).
 */
#include "train/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "printable.h"
#include "train/pattern.h"
#include "train/state_scale.h"
#include "train/state_text.h"

void ls_numerics_class(const ls_config *config, const ls_model *model, int world_size, char *out,
                       size_t bytes)
{
    char mode[24] = "", passes[16] = "", ranks[16] = "";
    const bool normalises = model->statistic_count > 0;
    if (normalises)
        snprintf(mode, sizeof mode, " batchnorm=%s", ls_batchnorm_name(config->batchnorm));
    if (normalises && config->batchnorm == LS_BATCHNORM_SYNC && config->accumulate > 1)
        snprintf(passes, sizeof passes, " A=%d", config->accumulate);
    if (config->order == LS_ORDER_FAST) snprintf(ranks, sizeof ranks, " N=%d", world_size);
    snprintf(out, bytes, "%s/1 V=%d B=%" PRIu64 " reduction=%s order=%s%s%s%s",
             ls_precision_name(config->precision), config->shards, config->global_batch,
             ls_reduction_name(config->reduction), ls_order_name(config->order), mode, passes,
             ranks);
}

/* -- tensors ----------------------------------------------------------------------------------- */

static void describe_tensor(ls_saved_tensor *out, const char *prefix, const ls_parameter *parameter,
                            const float *arena)
{
    *out = (ls_saved_tensor){ .dtype = LS_DTYPE_F32, .dims = parameter->dims,
                              .data = arena + parameter->begin };
    snprintf(out->name, sizeof out->name, "%.30s/%s", prefix, parameter->name);
    memcpy(out->shape, parameter->shape, sizeof parameter->shape);
}

enum { ARENAS_MAX = 2 + LS_SLOT_MAX, PREFIX_BYTES = 32 };
static const char average_prefix[] = "optimizer/ema";

int ls_state_arena_count(const ls_config *config)
{
    return 1 + ls_optimizer_slot_count(config->optimizer) + (config->ema > 0);
}

/* What the names of the arena's tensors begin with: "weights", "optimizer/m" ... */
static void arena_prefix(const ls_config *config, int arena, char out[PREFIX_BYTES])
{
    if (arena == 0) snprintf(out, PREFIX_BYTES, "weights");
    else if (arena > ls_optimizer_slot_count(config->optimizer))
        snprintf(out, PREFIX_BYTES, "%s", average_prefix);
    else
        snprintf(out, PREFIX_BYTES, "optimizer/%s",
                 ls_optimizer_slot_name(config->optimizer, arena - 1));
}

/* Every tensor of the state, weights first. The array is owned by the caller. */
static ls_status list_tensors(const ls_run_state *state, ls_saved_tensor **out, int *count)
{
    const ls_model *model = state->model;
    const int arenas = ls_state_arena_count(state->config);
    *count = model->parameter_count * arenas + model->statistic_count;
    *out = calloc((size_t)*count + LS_SCALE_TENSORS, sizeof **out);
    if (!*out) return ls_fail(LS_ERR_MEMORY, "no memory for a list of %d tensors", *count);
    ls_saved_tensor *tensor = *out;
    for (int a = 0; a < arenas; a++) {
        char prefix[PREFIX_BYTES];
        const float *arena = state->arenas + (size_t)a * model->arena_floats;
        arena_prefix(state->config, a, prefix);
        for (int p = 0; p < model->parameter_count; p++)
            describe_tensor(tensor++, prefix, &model->parameter[p], arena);
    }
    for (int s = 0; s < model->statistic_count; s++)
        describe_tensor(tensor++, "statistics", &model->statistic[s], state->statistics);
    *count += ls_state_scale_tensors(&state->scale, tensor);
    return LS_OK;
}

static ls_status check_finite(const ls_saved_tensor *tensor, int count)
{
    for (int t = 0; t < count; t++) {
        if (tensor[t].dtype != LS_DTYPE_F32) continue; /* the scale, which opening made finite */
        const float *x = tensor[t].data;
        const size_t elements = ls_saved_tensor_count(&tensor[t]);
        for (size_t i = 0; i < elements; i++)
            if (!isfinite(x[i]))
                return ls_fail(LS_ERR_NONFINITE, "%s: element %zu is %g: not saved",
                               tensor[t].name, i, ls_printable((double)x[i]));
    }
    return LS_OK;
}

ls_status ls_run_state_sha256(const ls_run_state *state, ls_run_digests *out)
{
    ls_saved_tensor *tensor = NULL;
    int count = 0;
    LS_TRY(list_tensors(state, &tensor, &count));
    ls_status status = ls_tensors_sha256(tensor, count, "weights/", out->weights);
    if (status == LS_OK) status = ls_tensors_sha256(tensor, count, "optimizer/", out->optimizer);
    if (status == LS_OK) status = ls_tensors_sha256(tensor, count, "statistics/", out->statistics);
    free(tensor);
    return status;
}

ls_status ls_run_state_save(const char *path, const ls_run_state *state)
{
    ls_saved_tensor *tensor = NULL;
    int count = 0;
    ls_status status = list_tensors(state, &tensor, &count);
    if (status == LS_OK) status = check_finite(tensor, count);
    if (status == LS_OK) status = ls_state_text_save(path, state, tensor, count);
    free(tensor);
    return status;
}

/* -- loading ----------------------------------------------------------------------------------- */

static void shape_text(int dims, const size_t *shape, char out[96])
{
    size_t used = (size_t)snprintf(out, 96, "[");
    for (int d = 0; d < dims && used < 80; d++)
        used += (size_t)snprintf(out + used, 96 - used, "%s%zu", d ? "," : "", shape[d]);
    snprintf(out + used, 96 - used, "]");
}

/* Names that do not fit, gathered for one message. */
typedef struct {
    char text[LS_MESSAGE_BYTES / 2];
    size_t used;
    int count;
} name_list;

static void add_name(name_list *list, const char *format, const char *name, const char *detail)
{
    list->count++;
    if (list->used + 160 > sizeof list->text) return;
    const char *separator = list->used ? "; " : "";
    list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used, "%s",
                                   separator);
    list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used,
                                   "%s %.90s%s", format, name, detail);
}

/* The tensors of one arena: `count` of `tensor`, saved under `prefix`. */
typedef struct {
    char prefix[PREFIX_BYTES];
    const ls_parameter *tensor;
    int count;
    float *arena;
    const char *only;  /* patterns of the names that count; NULL: all do */
} arena_group;

/* Does the tensor called PREFIX/name count? */
static bool counts(const arena_group *group, const char *name)
{
    return !group->only || ls_patterns_match(group->only, name);
}

/* Numbers that no run could go on with: not finite, or a mean of squares below 0. */
static void check_values(const arena_group *group, const ls_parameter *parameter,
                         const char *name, name_list *bad)
{
    const char *last = strrchr(parameter->name, '/');
    const bool squares = strcmp(group->prefix, "optimizer/v") == 0
                         || strcmp(group->prefix, "optimizer/square") == 0
                         || (strcmp(group->prefix, "statistics") == 0
                             && strcmp(last, "/variance") == 0);
    const float *x = group->arena + parameter->begin;
    for (size_t i = 0; i < parameter->count; i++) {
        char detail[96];
        if (isfinite(x[i]) && !(squares && x[i] < 0)) continue;
        snprintf(detail, sizeof detail, ": element %zu is %g, expected a finite number%s", i,
                 ls_printable((double)x[i]), squares ? ", 0 or more" : "");
        add_name(bad, "impossible", name, detail);
        return;
    }
}

/* Read one arena's tensors; what does not fit goes to `bad`. */
static void load_arena(const ls_checkpoint *checkpoint, const arena_group *group, name_list *bad)
{
    float *arena = group->arena;
    for (int p = 0; p < group->count; p++) {
        const ls_parameter *parameter = &group->tensor[p];
        ls_saved_tensor want;
        if (!counts(group, parameter->name)) continue;
        describe_tensor(&want, group->prefix, parameter, arena);
        const ls_saved_tensor *found = ls_checkpoint_tensor(checkpoint, want.name);
        if (!found) {
            add_name(bad, "missing", want.name, "");
            continue;
        }
        const bool same = found->dtype == LS_DTYPE_F32 && found->dims == want.dims
                          && memcmp(found->shape, want.shape, sizeof want.shape) == 0;
        if (!same) {
            char have[96], need[96], detail[256];
            shape_text(found->dims, found->shape, have);
            shape_text(want.dims, want.shape, need);
            snprintf(detail, sizeof detail, " is %s%s, expected F32 %s",
                     found->dtype == LS_DTYPE_F32 ? "F32 " : "not F32, ", have, need);
            add_name(bad, "misshapen", want.name, detail);
            continue;
        }
        memcpy(arena + parameter->begin, found->data, parameter->count * sizeof(float));
        check_values(group, parameter, want.name, bad);
    }
}

static bool is_known(const char *name, const arena_group *group)
{
    const size_t length = strlen(group->prefix);
    if (strncmp(name, group->prefix, length) != 0 || name[length] != '/') return false;
    for (int p = 0; p < group->count; p++)
        if (strcmp(name + length + 1, group->tensor[p].name) == 0) return true;
    return false;
}

/* Tensors of the file whose name begins with `begin` and that no group knows go to `bad`, but for
 * those of the scale and those that do not count. */
static void find_extra(const ls_checkpoint *checkpoint, const char *begin,
                       const arena_group *group, int group_count, name_list *bad)
{
    for (int t = 0; t < ls_checkpoint_tensor_count(checkpoint); t++) {
        const char *name = ls_checkpoint_tensor_at(checkpoint, t)->name;
        bool known = strncmp(name, begin, strlen(begin)) != 0 || ls_state_scale_has(name)
                     || !counts(group, name + strlen(begin));
        for (int g = 0; g < group_count; g++) known = known || is_known(name, &group[g]);
        if (!known) add_name(bad, "extra", name, "");
    }
}

static ls_status refuse(const name_list *bad, const char *path, const ls_model *model)
{
    if (bad->count == 0) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: %d tensor%s not fit model %s: %s", path, bad->count,
                   bad->count == 1 ? " does" : "s do", model->name, bad->text);
}

ls_status ls_run_state_load(const ls_checkpoint *checkpoint, const char *path,
                            const ls_model *model, const ls_config *config, float *arenas,
                            float *statistics)
{
    name_list bad = { .used = 0 };
    arena_group group[1 + ARENAS_MAX] = {
        { "statistics", model->statistic, model->statistic_count, statistics, NULL },
    };
    const int count = ls_state_arena_count(config);
    for (int a = 0; a < count; a++) {
        group[1 + a] = (arena_group){ "", model->parameter, model->parameter_count,
                                      arenas + (size_t)a * model->arena_floats, NULL };
        arena_prefix(config, a, group[1 + a].prefix);
    }
    for (int g = 0; g <= count; g++) load_arena(checkpoint, &group[g], &bad);
    find_extra(checkpoint, "", group, 1 + count, &bad);
    return refuse(&bad, path, model);
}

/* Weights, saved under `prefix`, and statistics: those that match `only`, or all if it is NULL. */
static ls_status load_weights(const ls_checkpoint *checkpoint, const char *path,
                              const ls_model *model, const char *prefix, const char *only,
                              float *weights, float *statistics)
{
    name_list bad = { .used = 0 };
    arena_group group[] = {
        { "", model->parameter, model->parameter_count, weights, only },
        { "statistics", model->statistic, model->statistic_count, statistics, only },
    };
    snprintf(group[0].prefix, PREFIX_BYTES, "%s", prefix);
    for (int g = 0; g < 2; g++) {
        char begin[PREFIX_BYTES + 1];
        snprintf(begin, sizeof begin, "%.30s/", group[g].prefix);
        load_arena(checkpoint, &group[g], &bad);
        find_extra(checkpoint, begin, group, 2, &bad);
    }
    return refuse(&bad, path, model);
}

ls_status ls_run_weights_load(const ls_checkpoint *checkpoint, const char *path,
                              const ls_model *model, bool averaged, float *weights,
                              float *statistics)
{
    return load_weights(checkpoint, path, model, averaged ? average_prefix : "weights", NULL,
                        weights, statistics);
}

ls_status ls_run_weights_load_some(const ls_checkpoint *checkpoint, const char *path,
                                   const ls_model *model, const char *only, float *weights,
                                   float *statistics)
{
    return load_weights(checkpoint, path, model, "weights", only, weights, statistics);
}
