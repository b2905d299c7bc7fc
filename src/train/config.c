/* SPDX-License-Identifier: MIT */
/* config.c -- what is made from the table of options: set, written, parsed, checked, filled in.
 *
 * The table is config_table.c; how a value of a type is read and written is config_value.c's
 * matter.
 */
#include "train/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "page.h"
#include "train/config_value.h"
#include "train/rules.h"

/* -- one option ------------------------------------------------------------------------------ */

static ls_status unknown_option(const char *name)
{
    const char *names[LS_OPTIONS_MAX + 1];
    const ls_option *option = ls_option_table();
    int count = 0;
    do {
        names[count++] = option->name;
    } while (option++->name);
    const char *nearest = ls_nearest_name(name, names);
    return ls_fail(LS_ERR_ARGUMENT, "unknown option --%.60s%s%s%s", name,
                   nearest ? "; did you mean --" : "", nearest ? nearest : "",
                   nearest ? "?" : "");
}

ls_status ls_config_set(ls_config *config, const char *name, const char *text)
{
    const ls_option *option = ls_option_find(name);
    if (!option) return unknown_option(name);
    if (!text && option->type != LS_VALUE_FLAG) {
        return ls_fail(LS_ERR_ARGUMENT, "--%s: nothing follows it, expected %s", name,
                       option->value);
    }
    LS_TRY(ls_value_read(option, text ? text : "yes", (char *)config + option->offset));
    config->given[option - ls_option_table()] = true;
    return LS_OK;
}

bool ls_config_is_given(const ls_config *config, const ls_option *option)
{
    return config->given[option - ls_option_table()];
}

void ls_config_value(const ls_config *config, const ls_option *option, char *out, size_t bytes)
{
    ls_value_write(option, (const char *)config + option->offset, out, bytes);
}

/* -- lines ----------------------------------------------------------------------------------- */

/* Where a run was, which is no part of repeating it. */
static bool is_place(const ls_option *option)
{
    return option->offset == offsetof(ls_config, out) ||
           option->offset == offsetof(ls_config, resume);
}

ls_status ls_config_write(const ls_config *config, char **text)
{
    ls_page page;
    LS_TRY(ls_page_begin(&page));
    for (const ls_option *o = ls_option_table(); o->name; o++) {
        char value[LS_TEXT_BYTES];
        ls_config_value(config, o, value, sizeof value);
        fprintf(page.out, "%s%s%s%s\n", is_place(o) || !value[0] ? "# " : "", o->name,
                value[0] ? " " : "", value);
    }
    return ls_page_end(&page, text);
}

/* "name value" in `line`, which is changed. */
static ls_status parse_line(ls_config *config, char *line)
{
    static const char blanks[] = " \t\r";
    char *name = line + strspn(line, blanks);
    if (*name == '\0' || *name == '#') return LS_OK;
    char *value = name + strcspn(name, blanks);
    if (*value) *value++ = '\0';
    value += strspn(value, blanks);
    size_t count = strlen(value);
    while (count > 0 && strchr(blanks, value[count - 1])) value[--count] = '\0';
    return ls_config_set(config, name, count > 0 ? value : NULL);
}

ls_status ls_config_parse(ls_config *config, const char *file, const char *text)
{
    enum { LINE_BYTES = LS_TEXT_BYTES + 128 };
    char line[LINE_BYTES];
    for (int number = 1; *text; number++) {
        const size_t count = strcspn(text, "\n");
        if (count >= LINE_BYTES) {
            return ls_fail(LS_ERR_ARGUMENT, "%s:%d: a line of %zu bytes, expected fewer than %d",
                           file, number, count, LINE_BYTES);
        }
        memcpy(line, text, count);
        line[count] = '\0';
        const ls_status status = parse_line(config, line);
        if (status != LS_OK) {
            char cause[LS_MESSAGE_BYTES];
            snprintf(cause, sizeof cause, "%s", ls_last_error());
            return ls_fail(status, "%s:%d: %s", file, number, cause);
        }
        text += count + (text[count] == '\n');
    }
    return LS_OK;
}

/* -- the whole ------------------------------------------------------------------------------- */

static ls_status check_optimizer(const ls_config *config)
{
    const int clips =
        (config->clip_value > 0) + (config->clip_norm > 0) + (config->clip_global_norm > 0);
    if (clips > 1) {
        return ls_fail(LS_ERR_ARGUMENT, "--clip-value %g, --clip-norm %g, --clip-global-norm %g: "
                                        "expected at most one of them",
                       config->clip_value, config->clip_norm, config->clip_global_norm);
    }
    if (config->lr_scale == LS_LR_SCALE_LINEAR && config->base_batch == 0) {
        return ls_fail(LS_ERR_ARGUMENT, "--lr-scale linear needs --base-batch, the global batch "
                                        "that --lr is meant for");
    }
    if (config->lr_scale == LS_LR_SCALE_NONE && config->base_batch > 0) {
        return ls_fail(LS_ERR_ARGUMENT, "--base-batch %" PRIu64 " does nothing without --lr-scale "
                                        "linear", config->base_batch);
    }
    return ls_rules_check(config->rules);
}

ls_status ls_config_check(const ls_config *config)
{
    if (config->model[0] == '\0') {
        return ls_fail(LS_ERR_ARGUMENT, "no MODEL: expected a built-in model's name or a file");
    }
    if (config->data[0] == '\0') {
        return ls_fail(LS_ERR_ARGUMENT, "no --data: expected %s", ls_option_find("data")->help);
    }
    if (config->global_batch > 0 && config->replica_batch > 0) {
        return ls_fail(LS_ERR_ARGUMENT, "--global-batch %" PRIu64 " and --replica-batch %"
                                        PRIu64 ": expected only one of them",
                       config->global_batch, config->replica_batch);
    }
    if (config->accumulate > config->shards) {
        return ls_fail(LS_ERR_ARGUMENT, "--accumulate %d: expected at most --shards, which is %d",
                       config->accumulate, config->shards);
    }
    if (config->order == LS_ORDER_FAST && config->allreduce != LS_ALGORITHM_AUTO &&
        config->allreduce != LS_ALGORITHM_RING) {
        char allreduce[16];
        ls_config_value(config, ls_option_find("allreduce"), allreduce, sizeof allreduce);
        return ls_fail(LS_ERR_ARGUMENT, "--order fast with --allreduce %s: expected ring or auto, "
                                        "fast is a ring's order", allreduce);
    }
    if (config->init_only[0] && !config->init[0]) {
        return ls_fail(LS_ERR_ARGUMENT, "--init-only %s needs --init, the checkpoint to take from",
                       config->init_only);
    }
    return check_optimizer(config);
}

void ls_config_fill(ls_config *config, int world_size)
{
    const bool adaptive = ls_optimizer_is_adam(config->optimizer)
                          || config->optimizer == LS_OPTIMIZER_RMSPROP;
    if (config->lr == 0) config->lr = adaptive ? 0.001 : 0.01;
    if (config->optimizer == LS_OPTIMIZER_ADAMW && config->weight_decay == 0 &&
        !ls_config_is_given(config, ls_option_find("weight-decay"))) {
        config->weight_decay = 0.004;
    }
    if (config->global_batch == 0) {
        config->global_batch = config->replica_batch ? config->replica_batch * (uint64_t)world_size
                                                     : 32;
    }
    config->replica_batch = 0;
    if (config->epochs == 0 && config->steps == 0) config->epochs = 5;
}

double ls_config_lr_factor(const ls_config *config)
{
    if (config->lr_scale == LS_LR_SCALE_NONE) return 1;
    return (double)config->global_batch / (double)config->base_batch;
}

double ls_config_rate(const ls_config *config, uint64_t step)
{
    return ls_schedule_rate(&config->schedule, config->lr, step) * ls_config_lr_factor(config);
}
