/* SPDX-License-Identifier: MIT */
/* state.c -- see state.h. */
#include "train/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 1024, COUNT_DIGITS = 15 };

static const char format_name[] = "lockstep checkpoint 1";

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

/* -- numbers as text: %.17g comes back with the same bits -------------------------------------- */

/* A line's numbers: the seven of every line, then its metrics, then those of the test part: two of
 * each at least, as a line without names does not say how many there are. */
enum { LINE_FIXED = 7, LINE_NUMBERS_MAX = LINE_FIXED + 2 * LS_METRIC_MAX };

static void write_line(const ls_history_line *line, char out[LINE_BYTES])
{
    const int metrics = line->metric_count > 2 ? line->metric_count : 2;
    int used = snprintf(out, LINE_BYTES, "%" PRIu64 " %" PRIu64 " %.17g %.17g %.17g %.17g %.17g",
                        line->epoch, line->step, line->lr, line->loss, line->val_loss,
                        line->seconds, line->samples_per_second);
    for (int m = 0; m < 2 * metrics; m++)
        used += snprintf(out + used, (size_t)(LINE_BYTES - used), " %.17g",
                         m < metrics ? line->metric[m] : line->val_metric[m - metrics]);
}

/* Numbers separated by spaces, all of the text. Returns how many; -1: it is something else. */
static int read_numbers(const char *text, double *out, int count_max)
{
    int count = 0;
    while (*text) {
        char *end;
        if (count == count_max) return -1;
        out[count++] = strtod(text, &end);
        if (end == text) return -1;
        text = end;
    }
    return count;
}

/* A count that was written as a double; beyond 2^53 they are no counts. */
static bool is_count(double x) { return x >= 0 && x <= 0x1p53 && x == floor(x); }

static bool read_line(const char *text, ls_history_line *line)
{
    double x[LINE_NUMBERS_MAX];
    const int count = read_numbers(text, x, LINE_NUMBERS_MAX);
    const int metrics = (count - LINE_FIXED) / 2;
    if (metrics < 2 || count != LINE_FIXED + 2 * metrics || !is_count(x[0]) || !is_count(x[1]))
        return false;
    *line = (ls_history_line){
        .epoch = (uint64_t)x[0], .step = (uint64_t)x[1], .lr = x[2], .loss = x[3],
        .val_loss = x[4], .seconds = x[5], .samples_per_second = x[6],
    };
    for (int m = 0; m < metrics; m++) {
        line->metric[m] = x[LINE_FIXED + m];
        line->val_metric[m] = x[LINE_FIXED + metrics + m];
    }
    return true;
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

static const char average_prefix[] = "optimizer/ema";

int ls_state_arena_count(const ls_config *config)
{
    return 1 + ls_optimizer_slot_count(config->optimizer) + (config->ema > 0);
}

void ls_state_arena_prefix(const ls_config *config, int arena, char out[LS_PREFIX_BYTES])
{
    if (arena == 0) snprintf(out, LS_PREFIX_BYTES, "weights");
    else if (arena > ls_optimizer_slot_count(config->optimizer))
        snprintf(out, LS_PREFIX_BYTES, "%s", average_prefix);
    else
        snprintf(out, LS_PREFIX_BYTES, "optimizer/%s",
                 ls_optimizer_slot_name(config->optimizer, arena - 1));
}

/* Every tensor of the state, weights first. The array is owned by the caller. */
static ls_status list_tensors(const ls_run_state *state, ls_saved_tensor **out, int *count)
{
    const ls_model *model = state->model;
    const int arenas = ls_state_arena_count(state->config);
    *count = model->parameter_count * arenas + model->statistic_count;
    *out = calloc((size_t)*count + 1, sizeof **out);
    if (!*out) return ls_fail(LS_ERR_MEMORY, "no memory for a list of %d tensors", *count);
    ls_saved_tensor *tensor = *out;
    for (int a = 0; a < arenas; a++) {
        char prefix[LS_PREFIX_BYTES];
        const float *arena = state->arenas + (size_t)a * model->arena_floats;
        ls_state_arena_prefix(state->config, a, prefix);
        for (int p = 0; p < model->parameter_count; p++)
            describe_tensor(tensor++, prefix, &model->parameter[p], arena);
    }
    for (int s = 0; s < model->statistic_count; s++)
        describe_tensor(tensor++, "statistics", &model->statistic[s], state->statistics);
    return LS_OK;
}

static ls_status check_finite(const ls_saved_tensor *tensor, int count)
{
    for (int t = 0; t < count; t++) {
        const float *x = tensor[t].data;
        const size_t elements = ls_saved_tensor_count(&tensor[t]);
        for (size_t i = 0; i < elements; i++)
            if (!isfinite(x[i]))
                return ls_fail(LS_ERR_NONFINITE, "%s: element %zu is %g: not saved",
                               tensor[t].name, i, (double)x[i]);
    }
    return LS_OK;
}

ls_status ls_run_state_sha256(const ls_run_state *state, ls_run_digests *out)
{
    ls_saved_tensor *tensor = NULL;
    int count = 0;
    LS_TRY(list_tensors(state, &tensor, &count));
    ls_tensors_sha256(tensor, count, "weights/", out->weights);
    ls_tensors_sha256(tensor, count, "optimizer/", out->optimizer);
    ls_tensors_sha256(tensor, count, "statistics/", out->statistics);
    free(tensor);
    return LS_OK;
}

/* -- saving ------------------------------------------------------------------------------------ */

static const char *const saved_key[LS_SAVED_COUNT] = {
    [LS_SAVED_MODEL] = "model", [LS_SAVED_MODEL_NAME] = "model_name", [LS_SAVED_DATA] = "data",
    [LS_SAVED_IDENTITY] = "data_identity", [LS_SAVED_CLASS] = "class", [LS_SAVED_WORLD] = "world",
};

static void write_callbacks(const ls_callback_state *c, char *out, size_t bytes)
{
    snprintf(out, bytes, "%.17g %.17g %" PRIu64 " %.17g %" PRIu64 " %" PRIu64 " %.17g", c->best,
             c->stop_best, c->stop_wait, c->plateau_best, c->plateau_wait, c->plateau_cooldown,
             c->rate_factor);
}

static ls_status save_with_config(const char *path, const ls_run_state *state,
                                  const ls_saved_tensor *tensor, int count, const char *config)
{
    const ls_progress *p = state->progress;
    char step[24], epoch[24], step_of_epoch[24], sums[160], guard[96], callbacks[160];
    char best[LINE_BYTES], last[LINE_BYTES];
    snprintf(step, sizeof step, "%" PRIu64, p->step);
    snprintf(epoch, sizeof epoch, "%" PRIu64, p->epoch);
    snprintf(step_of_epoch, sizeof step_of_epoch, "%" PRIu64, p->step_of_epoch);
    snprintf(sums, sizeof sums, "%.17g %.17g %.17g %" PRId64 " %" PRId64 " %" PRId64,
             p->sums.loss, p->sums.error, p->sums.square, p->sums.samples, p->sums.correct,
             p->sums.top);
    snprintf(guard, sizeof guard, "%.17g %" PRIu64 " %" PRIu64 " %" PRIu64, p->guard.loss_scale,
             p->guard.clean_steps, p->guard.failed_in_row, p->guard.failed);
    write_callbacks(&p->callbacks, callbacks, sizeof callbacks);
    write_line(&p->best, best);
    write_line(&p->last, last);
    const ls_saved_text text[] = {
        { "format", format_name },
        { saved_key[LS_SAVED_CLASS], state->numerics_class },
        { "step", step }, { "epoch", epoch }, { "step_of_epoch", step_of_epoch },
        { "epoch_sums", sums }, { "guard", guard },
        { "callbacks", callbacks }, { "best", best }, { "last", last },
        { saved_key[LS_SAVED_WORLD], state->world },
        { saved_key[LS_SAVED_DATA], state->data },
        { saved_key[LS_SAVED_IDENTITY], state->data_identity },
        { saved_key[LS_SAVED_MODEL_NAME], state->model->name },
        { saved_key[LS_SAVED_MODEL], state->model->text },
        { "config", config },
    };
    return ls_checkpoint_save(path, tensor, count, text, (int)(sizeof text / sizeof text[0]));
}

ls_status ls_run_state_save(const char *path, const ls_run_state *state)
{
    ls_saved_tensor *tensor = NULL;
    char *config = NULL;
    int count = 0;
    ls_status status = list_tensors(state, &tensor, &count);
    if (status == LS_OK) status = check_finite(tensor, count);
    if (status == LS_OK) status = ls_config_write(state->config, &config);
    if (status == LS_OK) status = save_with_config(path, state, tensor, count, config);
    free(config);
    free(tensor);
    return status;
}

/* -- loading ----------------------------------------------------------------------------------- */

static ls_status missing_text(const char *path, const char *key)
{
    return ls_fail(LS_ERR_FORMAT, "%s: no `%s` in its metadata: it holds weights, not a run. "
                   "--resume needs a checkpoint that `lockstep train` wrote; --init starts a new "
                   "run from its weights", path, key);
}

static ls_status read_count(const ls_checkpoint *checkpoint, const char *path, const char *key,
                            uint64_t *out)
{
    const char *text = ls_checkpoint_text(checkpoint, key);
    if (!text) return missing_text(path, key);
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > COUNT_DIGITS || text[digits])
        return ls_fail(LS_ERR_FORMAT, "%s: %s is \"%.60s\", expected a whole number of at most %d "
                       "digits", path, key, text, COUNT_DIGITS);
    *out = strtoull(text, NULL, 10);
    return LS_OK;
}

static ls_status read_guard(ls_guard_state *g, const ls_checkpoint *checkpoint, const char *path)
{
    const char *text = ls_checkpoint_text(checkpoint, "guard");
    double x[4];
    if (!text) return missing_text(path, "guard");
    if (read_numbers(text, x, 4) != 4 || !(x[0] >= 1 && x[0] <= 0x1p24) || !is_count(x[1]) ||
        !is_count(x[2]) || !is_count(x[3]))
        return ls_fail(LS_ERR_FORMAT, "%s: guard \"%.100s\": expected a loss scale of 1 to 2^24 "
                       "and three counts", path, text);
    *g = (ls_guard_state){ .loss_scale = x[0], .clean_steps = (uint64_t)x[1],
                           .failed_in_row = (uint64_t)x[2], .failed = (uint64_t)x[3] };
    return LS_OK;
}

static ls_status read_callbacks(ls_callback_state *c, const ls_checkpoint *checkpoint,
                                const char *path)
{
    const char *text = ls_checkpoint_text(checkpoint, "callbacks");
    double x[7];
    if (!text) return missing_text(path, "callbacks");
    if (read_numbers(text, x, 7) != 7 || !is_count(x[2]) || !is_count(x[4]) || !is_count(x[5]) ||
        !(x[6] >= 0 && x[6] <= 1))
        return ls_fail(LS_ERR_FORMAT, "%s: callbacks \"%.120s\": expected 7 numbers, three counts "
                       "and a factor of at most 1 among them", path, text);
    *c = (ls_callback_state){ .best = x[0], .stop_best = x[1], .stop_wait = (uint64_t)x[2],
                              .plateau_best = x[3], .plateau_wait = (uint64_t)x[4],
                              .plateau_cooldown = (uint64_t)x[5], .rate_factor = x[6] };
    return LS_OK;
}

static ls_status read_progress(ls_progress *p, const ls_checkpoint *checkpoint, const char *path)
{
    LS_TRY(read_count(checkpoint, path, "step", &p->step));
    LS_TRY(read_count(checkpoint, path, "epoch", &p->epoch));
    LS_TRY(read_count(checkpoint, path, "step_of_epoch", &p->step_of_epoch));
    const char *sums = ls_checkpoint_text(checkpoint, "epoch_sums");
    const char *best = ls_checkpoint_text(checkpoint, "best");
    const char *last = ls_checkpoint_text(checkpoint, "last");
    double x[6];
    if (!sums || !best || !last) return missing_text(path, "epoch_sums, best or last");
    if (read_numbers(sums, x, 6) != 6 || !is_count(x[3]) || !is_count(x[4]) || !is_count(x[5]) ||
        !read_line(best, &p->best) || !read_line(last, &p->last))
        return ls_fail(LS_ERR_FORMAT, "%s: epoch_sums \"%.200s\", best \"%.200s\", last "
                       "\"%.200s\": expected 6 numbers, and 11 or more of each of the others, the "
                       "counts among them whole", path, sums, best, last);
    p->sums = (ls_epoch_sums){ .loss = x[0], .error = x[1], .square = x[2],
                               .samples = (int64_t)x[3], .correct = (int64_t)x[4],
                               .top = (int64_t)x[5] };
    LS_TRY(read_guard(&p->guard, checkpoint, path));
    return read_callbacks(&p->callbacks, checkpoint, path);
}

static ls_status check_format(const ls_checkpoint *checkpoint, const char *path)
{
    const char *format = ls_checkpoint_text(checkpoint, "format");
    if (!format) return missing_text(path, "format");
    if (strcmp(format, format_name) == 0) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: its format is \"%.60s\", expected \"%s\"", path, format,
                   format_name);
}

/* Read the text `what`, or check it: an ARGUMENT of a user; in a checkpoint it is damage. */
static ls_status as_format(ls_status status, const char *path, const char *what)
{
    if (status != LS_ERR_ARGUMENT) return status;
    return ls_fail(LS_ERR_FORMAT, "%s: its %s: %s", path, what, ls_last_error());
}

/* The stored model needs no data to be read: its sizes are written out. */
static ls_status check_model(const ls_saved_run *saved, const char *path)
{
    ls_model model;
    LS_TRY(as_format(ls_model_init(&model, "line", saved->text[LS_SAVED_MODEL], NULL), path,
                     "model"));
    ls_model_free(&model);
    return LS_OK;
}

ls_status ls_saved_run_init(ls_saved_run *saved, const ls_checkpoint *checkpoint,
                            const char *path)
{
    LS_TRY(check_format(checkpoint, path));
    LS_TRY(read_progress(&saved->progress, checkpoint, path));
    const char *config = ls_checkpoint_text(checkpoint, "config");
    if (!config) return missing_text(path, "config");
    ls_config_init(&saved->config);
    LS_TRY(as_format(ls_config_parse(&saved->config, "line", config), path, "configuration"));
    LS_TRY(as_format(ls_config_check(&saved->config), path, "configuration"));
    for (int i = 0; i < LS_SAVED_COUNT; i++) {
        const char *text = ls_checkpoint_text(checkpoint, saved_key[i]);
        if (!text) return missing_text(path, saved_key[i]);
        saved->text[i] = strdup(text);
        if (!saved->text[i]) return ls_fail(LS_ERR_MEMORY, "no memory for %s", saved_key[i]);
    }
    return check_model(saved, path);
}

void ls_saved_run_free(ls_saved_run *saved)
{
    for (int i = 0; i < LS_SAVED_COUNT; i++) free(saved->text[i]);
    *saved = (ls_saved_run){ 0 };
}

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
    char prefix[LS_PREFIX_BYTES];
    const ls_parameter *tensor;
    int count;
    float *arena;
} arena_group;

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
                 (double)x[i], squares ? ", 0 or more" : "");
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

/* Tensors of the file whose name begins with `begin` and that no group knows go to `bad`. */
static void find_extra(const ls_checkpoint *checkpoint, const char *begin,
                       const arena_group *group, int group_count, name_list *bad)
{
    for (int t = 0; t < ls_checkpoint_tensor_count(checkpoint); t++) {
        const char *name = ls_checkpoint_tensor_at(checkpoint, t)->name;
        bool known = strncmp(name, begin, strlen(begin)) != 0;
        for (int g = 0; g < group_count; g++) known = known || is_known(name, &group[g]);
        if (!known) add_name(bad, "extra", name, "");
    }
}

static ls_status refuse(const name_list *bad, const char *path, const ls_model *model)
{
    if (bad->count == 0) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: %d tensors do not fit model %s: %s", path, bad->count,
                   model->name, bad->text);
}

ls_status ls_run_state_load(const ls_checkpoint *checkpoint, const char *path,
                            const ls_model *model, const ls_config *config, float *arenas,
                            float *statistics)
{
    name_list bad = { .used = 0 };
    arena_group group[1 + LS_STATE_ARENAS_MAX] = {
        { "statistics", model->statistic, model->statistic_count, statistics },
    };
    const int count = ls_state_arena_count(config);
    for (int a = 0; a < count; a++) {
        group[1 + a] = (arena_group){ "", model->parameter, model->parameter_count,
                                      arenas + (size_t)a * model->arena_floats };
        ls_state_arena_prefix(config, a, group[1 + a].prefix);
    }
    for (int g = 0; g <= count; g++) load_arena(checkpoint, &group[g], &bad);
    find_extra(checkpoint, "", group, 1 + count, &bad);
    return refuse(&bad, path, model);
}

ls_status ls_run_weights_load(const ls_checkpoint *checkpoint, const char *path,
                              const ls_model *model, bool averaged, float *weights,
                              float *statistics)
{
    name_list bad = { .used = 0 };
    arena_group group[] = {
        { "", model->parameter, model->parameter_count, weights },
        { "statistics", model->statistic, model->statistic_count, statistics },
    };
    snprintf(group[0].prefix, LS_PREFIX_BYTES, "%s", averaged ? average_prefix : "weights");
    for (int g = 0; g < 2; g++) {
        char begin[LS_PREFIX_BYTES + 1];
        snprintf(begin, sizeof begin, "%.30s/", group[g].prefix);
        load_arena(checkpoint, &group[g], &bad);
        find_extra(checkpoint, begin, group, 2, &bad);
    }
    return refuse(&bad, path, model);
}
