/* SPDX-License-Identifier: MIT */
/* rules.c -- see rules.h. One pass over the text; each rule is applied as soon as it is read. */
#include "train/rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plural.h"
#include "train/pattern.h"

static ls_status malformed(ls_text found, const char *want)
{
    return ls_fail(LS_ERR_ARGUMENT, "--rules: found '%.*s', expected %s",
                   (int)(found.count < 60 ? found.count : 60), found.at, want);
}

/* The number after "lr:" and its like. */
static ls_status read_number(ls_text property, size_t skip, double *out)
{
    char number[64], *end = number;
    const size_t count = property.count - skip;
    if (count > 0 && count < sizeof number) {
        memcpy(number, property.at + skip, count);
        number[count] = '\0';
        if (strspn(number, "0123456789+-.eE") == count) *out = strtod(number, &end);
    }
    if (end == number || *end != '\0' || !isfinite(*out) || *out < 0 || *out > 1e6)
        return malformed(property, "a number from 0 to 1000000 after the colon");
    return LS_OK;
}

static bool is_word(ls_text text, const char *word)
{
    return text.count == strlen(word) && memcmp(text.at, word, text.count) == 0;
}

/* Set one property in `rule`. */
static ls_status apply_property(ls_text property, ls_parameter_rule *rule)
{
    if (is_word(property, "freeze") || is_word(property, "train")) {
        rule->frozen = property.at[0] == 'f';
        return LS_OK;
    }
    const struct {
        const char *name;
        double *field;
    } number[] = { { "lr:", &rule->lr }, { "decay:", &rule->decay }, { "l1:", &rule->l1 },
                   { "l2:", &rule->l2 } };
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
        const size_t skip = strlen(number[i].name);
        if (property.count >= skip && memcmp(property.at, number[i].name, skip) == 0)
            return read_number(property, skip, number[i].field);
    }
    return malformed(property, "freeze, train, lr:X, decay:X, l1:X or l2:X");
}

static ls_status apply_properties(ls_text properties, ls_parameter_rule *rule)
{
    do {
        LS_TRY(apply_property(ls_text_take(&properties, ','), rule));
    } while (properties.count > 0);
    return LS_OK;
}

/* The pattern and the properties of the next rule. */
static ls_status next_rule(ls_text *text, ls_text *pattern, ls_text *properties)
{
    const ls_text rule = ls_text_take(text, ';');
    *properties = rule;
    *pattern = ls_text_take(properties, '=');
    if (pattern->count > 0 && properties->count > 0) return LS_OK;
    return malformed(rule, "PATTERN=freeze, or PATTERN=lr:0.1,decay:0 and so on; rules are "
                           "separated by ';'");
}

ls_status ls_rules_check(const char *text)
{
    ls_text rest = { text, strlen(text) };
    while (rest.count > 0) {
        ls_parameter_rule ignored = { .frozen = false };
        ls_text pattern, properties;
        LS_TRY(next_rule(&rest, &pattern, &properties));
        LS_TRY(apply_properties(properties, &ignored));
    }
    return LS_OK;
}

static ls_status apply_rules(const char *text, const ls_model *model, ls_parameter_rule *rule)
{
    ls_text rest = { text, strlen(text) };
    while (rest.count > 0) {
        ls_text pattern, properties;
        int count = 0;
        LS_TRY(next_rule(&rest, &pattern, &properties));
        for (int p = 0; p < model->parameter_count; p++) {
            if (!ls_pattern_matches(pattern, model->parameter[p].name)) continue;
            LS_TRY(apply_properties(properties, &rule[p]));
            count++;
        }
        if (count == 0)
            return ls_pattern_fail(pattern, model, false, "--rules", "parameter of this model",
                                   "LAYER/kernel, bias, gamma, beta; lockstep show MODEL lists the "
                                   "layers");
    }
    return LS_OK;
}

/* A frozen parameter has no regulariser and no decay, whatever the rules said; what the loss does
 * not depend on is frozen too, or decay would move it. One must be left to train. */
static ls_status freeze(ls_parameter_rule *rule, const ls_model *model)
{
    int used = 0, trained = 0;
    for (int p = 0; p < model->parameter_count; p++) {
        const bool is_used = model->layer[model->parameter[p].layer].is_used;
        if (rule[p].frozen || !is_used) rule[p] = (ls_parameter_rule){ .frozen = true };
        used += is_used;
        trained += !rule[p].frozen;
    }
    if (trained > 0 || used == 0) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "--rules freeze all %d parameter%s that the loss depends on: "
                   "nothing is left to train", used, LS_PLURAL(used));
}

ls_status ls_rules_create(const ls_config *config, const ls_model *model, ls_parameter_rule **out)
{
    const int count = model->parameter_count;
    ls_parameter_rule *rule = calloc((size_t)count + 1, sizeof *rule);
    if (!rule) return ls_fail(LS_ERR_MEMORY, "no memory for the rules of %d parameters", count);
    for (int p = 0; p < count; p++) {
        const bool is_kernel = model->parameter[p].is_kernel;
        rule[p] = (ls_parameter_rule){
            .lr = 1,
            .decay = is_kernel ? config->weight_decay : 0,
            .l1 = is_kernel ? config->l1 : 0,
            .l2 = is_kernel ? config->l2 : 0,
        };
    }
    ls_status status = apply_rules(config->rules, model, rule);
    if (status == LS_OK) status = freeze(rule, model);
    if (status == LS_OK) *out = rule;
    else free(rule);
    return status;
}
