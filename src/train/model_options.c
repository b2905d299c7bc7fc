/* SPDX-License-Identifier: MIT */
/* model_options.c -- what may follow an op's arguments, in any order: relu, or key=value.
 *
 *     relu                      in the same pass, after the rest
 *     pad=valid|same|N          N: as many rows and columns on every side
 *     stride=S|SHxSW            bias=yes|no
 *     init=KIND                 glorot-uniform ... lecun-normal, zeros, ones, constant:X,
 *                               uniform:LIMIT, normal:DEVIATION
 *     momentum= epsilon=        batch normalisation       slope=      leaky relu
 *     smoothing=                the loss
 *
 * One table holds them; an op's `takes` says which of them it knows. Defaults are those of Keras 3.
 */
#include "train/model_parse.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

const ls_model_options ls_model_default_options = {
    .has_bias = true, .momentum = 0.99, .epsilon = 0.001, .slope = 0.3
};

typedef ls_status option_reader(const ls_model_line *line, const ls_model_word *w,
                                const char *value, ls_model_options *out);

static ls_status read_relu(const ls_model_line *line, const ls_model_word *w, const char *value,
                           ls_model_options *out)
{
    (void)line, (void)w, (void)value;
    out->relu = true;
    return LS_OK;
}

static ls_status read_pad(const ls_model_line *line, const ls_model_word *w, const char *value,
                          ls_model_options *out)
{
    static const char *const pads[] = { "valid", "same", NULL };
    int choice = 0;
    if (ls_model_read_extents(value, 'x', 0, &out->pad, 1)) {
        out->padding = LS_PAD_FIXED;
        return LS_OK;
    }
    LS_TRY(ls_model_need_choice(line, w, value, pads, "pad=valid, pad=same or a number such as "
                                "pad=1", &choice));
    out->padding = choice == 1 ? LS_PAD_SAME : LS_PAD_VALID;
    return LS_OK;
}

static ls_status read_stride(const ls_model_line *line, const ls_model_word *w, const char *value,
                             ls_model_options *out)
{
    size_t *stride = out->stride;
    if (!ls_model_read_extents(value, 'x', 1, stride, 1)) {
        return ls_model_need_extents(line, w, value, stride, 2, "stride=S or stride=SHxSW");
    }
    stride[1] = stride[0];
    return LS_OK;
}

static ls_status read_bias(const ls_model_line *line, const ls_model_word *w, const char *value,
                           ls_model_options *out)
{
    static const char *const answers[] = { "no", "yes", NULL };
    int choice = 0;
    LS_TRY(ls_model_need_choice(line, w, value, answers, "bias=yes or bias=no", &choice));
    out->has_bias = choice == 1;
    return LS_OK;
}

static const char init_usage[] =
    "init=glorot-uniform|glorot-normal|he-uniform|he-normal|lecun-uniform|lecun-normal|zeros|ones|"
    "constant:X|uniform:LIMIT|normal:DEVIATION";

static ls_status read_init(const ls_model_line *line, const ls_model_word *w, const char *value,
                           ls_model_options *out)
{
    static const char *const names[] = { "glorot-uniform", "glorot-normal", "he-uniform",
                                         "he-normal", "lecun-uniform", "lecun-normal", "zeros",
                                         "ones", "constant:", "uniform:", "normal:", NULL };
    static const struct {
        const char *prefix;
        ls_start start;
        double least;
        const char *expected;
    } scaled[] = {
        { "constant:", LS_START_CONSTANT, -FLT_MAX, "a number after init=constant:" },
        { "uniform:", LS_START_UNIFORM, 0, "a limit of 0 or more after init=uniform:" },
        { "normal:", LS_START_NORMAL, 0, "a deviation of 0 or more after init=normal:" },
    };
    for (size_t i = 0; i < sizeof scaled / sizeof scaled[0]; i++) {
        const size_t n = strlen(scaled[i].prefix);
        if (strncmp(value, scaled[i].prefix, n) != 0) continue;
        out->start = scaled[i].start;
        return ls_model_need_number(line, w, value + n, scaled[i].least, FLT_MAX,
                                    scaled[i].expected, &out->start_value);
    }
    int choice = 0;
    LS_TRY(ls_model_need_choice(line, w, value, names, init_usage, &choice));
    const bool is_plain = choice > LS_START_LECUN_NORMAL; /* zeros, ones */
    out->start = is_plain ? LS_START_CONSTANT : (ls_start)choice;
    out->start_value = is_plain ? choice - (LS_START_LECUN_NORMAL + 1) : 0;
    return LS_OK;
}

static ls_status read_momentum(const ls_model_line *line, const ls_model_word *w,
                               const char *value, ls_model_options *out)
{
    return ls_model_need_number(line, w, value, 0, 1, "a momentum with 0 <= momentum <= 1",
                                &out->momentum);
}

static ls_status read_epsilon(const ls_model_line *line, const ls_model_word *w, const char *value,
                              ls_model_options *out)
{
    return ls_model_need_number(line, w, value, 1e-37, FLT_MAX, "an epsilon of 1e-37 or more",
                                &out->epsilon);
}

static ls_status read_slope(const ls_model_line *line, const ls_model_word *w, const char *value,
                            ls_model_options *out)
{
    return ls_model_need_number(line, w, value, 0, FLT_MAX, "a slope of 0 or more", &out->slope);
}

static ls_status read_smoothing(const ls_model_line *line, const ls_model_word *w,
                                const char *value, ls_model_options *out)
{
    out->smoothing_at = w->place;
    return ls_model_need_number(line, w, value, 0, 1, "a smoothing with 0 <= smoothing <= 1",
                                &out->smoothing);
}

static const struct {
    const char *name;
    unsigned bit;
    option_reader *read;
} option_table[] = {
    { "relu", LS_TAKES_RELU, read_relu },
    { "pad=", LS_TAKES_PAD, read_pad },
    { "stride=", LS_TAKES_STRIDE, read_stride },
    { "bias=", LS_TAKES_BIAS, read_bias },
    { "init=", LS_TAKES_INIT, read_init },
    { "momentum=", LS_TAKES_MOMENTUM, read_momentum },
    { "epsilon=", LS_TAKES_EPSILON, read_epsilon },
    { "slope=", LS_TAKES_SLOPE, read_slope },
    { "smoothing=", LS_TAKES_SMOOTHING, read_smoothing },
};
enum { OPTION_COUNT = sizeof option_table / sizeof option_table[0] };

static ls_status unknown_option(const ls_model_line *line, const ls_model_word *w,
                                const char *key, unsigned takes, const char *usage)
{
    const char *known[OPTION_COUNT + 2] = { "from" };
    int count = 1;
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (takes & option_table[i].bit) known[count++] = option_table[i].name;
    }
    char hint[LS_MODEL_HINT_BYTES];
    const char *equals = strchr(w->text, '=');
    const char *loss_hint = ls_model_loss_hint(equals ? equals + 1 : w->text);
    return ls_model_fail(line->file, w->place, "found '%.60s', expected the end of the line or an "
                         "option of: %s%s", w->text, usage,
                         loss_hint[0] ? loss_hint : ls_model_hint(key, known, hint));
}

ls_status ls_model_read_option(const ls_model_line *line, const ls_model_word *w, unsigned takes,
                               const char *usage, ls_model_options *out)
{
    char key[64];
    const char *equals = strchr(w->text, '=');
    snprintf(key, sizeof key, "%.*s", equals ? (int)(equals - w->text) + 1 : 63, w->text);
    int i = 0;
    while (i < OPTION_COUNT &&
           !((takes & option_table[i].bit) && strcmp(key, option_table[i].name) == 0)) i++;
    if (i == OPTION_COUNT) return unknown_option(line, w, key, takes, usage);
    if (out->given & option_table[i].bit) {
        return ls_model_fail(line->file, w->place, "found '%.60s', but this line has said %s "
                             "before", w->text, key);
    }
    out->given |= option_table[i].bit;
    return option_table[i].read(line, w, equals ? equals + 1 : "", out);
}
