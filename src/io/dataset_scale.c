/* SPDX-License-Identifier: MIT */
/* dataset_scale.c -- from stored numbers to what a network is fed.
 *
 *     none       x = v
 *     D          x = (float)(v / D)                       D = 255, 16
 *     standard   x = (float)((v / unit - mean) / std)     per channel, or per field of a table
 *
 * all in double with one rounding to float at the end; unit is 255 for bytes, else 1. mean and std
 * are those of the training part (population standard deviation: divided by the count), so the
 * test part is scaled as the training part was; a std of 0 counts as 1. Data that a trained network
 * is applied to get those of its training (ls_dataset_open_scaled) in place of their own, with the
 * training's unit: equal numbers stay equal, whichever way they are stored. A byte has 256 values,
 * so the formula is tabulated per channel and reading is a look-up.
 *
 * Statistics are flat sums (numerics.h) over the numbers in the order sample, row, column, channel.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/dataset_internal.h"
#include "numerics.h"
#include "plural.h"

/* -- stored numbers -------------------------------------------------------------------------- */

static float float_at(const unsigned char *x, size_t i)
{
    float value;
    memcpy(&value, x + i * sizeof value, sizeof value);
    return value;
}

static float double_at(const unsigned char *x, size_t i)
{
    double value;
    memcpy(&value, x + i * sizeof value, sizeof value);
    return (float)value;
}

/* The number of pixel `pixel` (of `pixels`), channel c (of C) of the stored sample at x. */
static float stored_at(ls_store store, const unsigned char *x, size_t pixel, size_t pixels,
                       size_t c, size_t C)
{
    switch (store) {
    case LS_STORE_U8: return x[pixel * C + c];
    case LS_STORE_U8_PLANES: return x[c * pixels + pixel];
    case LS_STORE_F32: return float_at(x, pixel * C + c);
    case LS_STORE_F64: return double_at(x, pixel * C + c);
    }
    return 0;
}

/* -- statistics ------------------------------------------------------------------------------ */

enum { SUMS_MAX = 32 }; /* channels of one walk */

/* One walk through the part, over the numbers of channels [begin, end): their sum of v / unit, or,
 * with means, of their squared distances from it; of each channel by itself, or `jointly`. Sets low
 * and high, too. */
static void walk_sums(const ls_dataset *dataset, ls_part part, size_t begin, size_t end,
                      bool jointly, double unit, const double *mean, ls_range *out, double *total)
{
    const ls_dataset_info *info = &dataset->info;
    const size_t pixels = info->height * info->width, sums = jointly ? 1 : end - begin;
    ls_flat_f64 sum[SUMS_MAX];
    for (size_t k = 0; k < sums; k++) {
        ls_flat_init_f64(&sum[k]);
        out[k].low = INFINITY;
        out[k].high = -INFINITY;
    }
    for (size_t n = 0; n < info->count[part]; n++) {
        const unsigned char *x = ls_dataset_sample(dataset, part, n);
        for (size_t p = 0; p < pixels; p++) {
            for (size_t c = begin; c < end; c++) {
                const size_t k = jointly ? 0 : c - begin;
                const double v = stored_at(dataset->store, x, p, pixels, c, info->channels) / unit;
                if (v < out[k].low) out[k].low = v;
                if (v > out[k].high) out[k].high = v;
                ls_flat_add_f64(&sum[k], mean ? (v - mean[k]) * (v - mean[k]) : v);
            }
        }
        ls_dataset_walked(dataset, part, n);
    }
    for (size_t k = 0; k < sums; k++) total[k] = ls_flat_end_f64(&sum[k]);
}

/* Two walks. At most SUMS_MAX channels, unless jointly. */
static void find_ranges(const ls_dataset *dataset, ls_part part, size_t begin, size_t end,
                        bool jointly, double unit, ls_range *out)
{
    const ls_dataset_info *info = &dataset->info;
    const size_t sums = jointly ? 1 : end - begin, channels = jointly ? end - begin : 1;
    const double count = (double)(info->count[part] * info->height * info->width * channels);
    double total[SUMS_MAX], mean[SUMS_MAX] = { 0 };
    walk_sums(dataset, part, begin, end, jointly, unit, NULL, out, total);
    for (size_t k = 0; k < sums; k++) mean[k] = total[k] / count;
    walk_sums(dataset, part, begin, end, jointly, unit, mean, out, total);
    for (size_t k = 0; k < sums; k++) {
        const bool constant = out[k].low == out[k].high;
        out[k].mean = constant ? out[k].low : mean[k];
        out[k].std = constant ? 0 : sqrt(total[k] / count);
    }
}

void ls_dataset_range(const ls_dataset *dataset, ls_part part, size_t channel,
                      size_t channel_count, double unit, ls_range *out)
{
    find_ranges(dataset, part, channel, channel + channel_count, true, unit, out);
}

/* -- the scale ------------------------------------------------------------------------------- */

static bool is_u8(const ls_dataset *dataset)
{
    return dataset->store == LS_STORE_U8 || dataset->store == LS_STORE_U8_PLANES;
}

/* What stored number v of channel c becomes. */
static float scaled(const ls_scale *scale, double v, size_t c)
{
    switch (scale->kind) {
    case LS_SCALE_NONE: return (float)v;
    case LS_SCALE_DIVIDE: return (float)(v / scale->divisor);
    case LS_SCALE_STANDARD: return (float)((v / scale->unit - scale->mean[c]) / scale->std[c]);
    }
    return 0;
}

ls_status ls_dataset_parse_scale(ls_dataset *dataset)
{
    static const char *const choices[] = { "255", "none", "standard", "16", NULL };
    ls_scale *scale = &dataset->scale;
    int choice = 0;
    LS_TRY(ls_spec_choice(&dataset->spec, "scale", choices, &choice));
    scale->kind = choice == 1 ? LS_SCALE_NONE : choice == 2 ? LS_SCALE_STANDARD : LS_SCALE_DIVIDE;
    scale->divisor = choice == 0 ? 255 : 16;
    return LS_OK;
}

static ls_status alloc_statistics(ls_scale *scale, size_t channels)
{
    scale->mean = malloc(channels * sizeof(double));
    scale->std = malloc(channels * sizeof(double));
    if (scale->mean && scale->std) return LS_OK;
    return ls_fail(LS_ERR_MEMORY, "no memory for the statistics of %zu fields", channels);
}

static ls_status init_standard(ls_dataset *dataset)
{
    ls_scale *scale = &dataset->scale;
    const size_t channels = dataset->info.channels;
    scale->unit = is_u8(dataset) ? 255 : 1;
    LS_TRY(alloc_statistics(scale, channels));
    for (size_t begin = 0; begin < channels; begin += SUMS_MAX) {
        ls_range range[SUMS_MAX];
        const size_t left = channels - begin, count = left < SUMS_MAX ? left : SUMS_MAX;
        find_ranges(dataset, LS_PART_TRAIN, begin, begin + count, false, scale->unit, range);
        for (size_t k = 0; k < count; k++) {
            scale->mean[begin + k] = range[k].mean;
            scale->std[begin + k] = range[k].std > 0 ? range[k].std : 1;
        }
    }
    return LS_OK;
}

/* The statistics of the training, as this store's numbers need them: reading floats does not divide
 * by a unit, so it becomes part of both. */
static ls_status take_statistics(ls_dataset *dataset)
{
    ls_scale *scale = &dataset->scale;
    const ls_scale_rule *trained = dataset->trained;
    const size_t channels = dataset->info.channels;
    if (trained->channels != channels) {
        const bool is_image = dataset->info.is_image;
        return ls_fail(LS_ERR_FORMAT, "%s: a sample has %zu %s%s, expected %zu: the model was "
                       "trained with scale=standard on as many%s", dataset->spec_text, channels,
                       is_image ? "channel" : "field", LS_PLURAL(channels), trained->channels,
                       ls_dataset_width_hint(&dataset->info, trained->channels));
    }
    LS_TRY(alloc_statistics(scale, channels));
    const double factor = is_u8(dataset) ? 1 : trained->unit;
    scale->unit = trained->unit / factor;
    for (size_t c = 0; c < channels; c++) {
        scale->mean[c] = trained->mean[c] * factor;
        scale->std[c] = trained->std[c] * factor;
    }
    return LS_OK;
}

/* Whose rule holds, the spec's or the training's? */
static void choose_rule(ls_dataset *dataset)
{
    ls_scale *scale = &dataset->scale;
    const ls_scale_rule *trained = dataset->trained;
    const bool same = scale->kind == trained->kind
                      && (scale->kind != LS_SCALE_DIVIDE || scale->divisor == trained->divisor);
    dataset->scale_origin = same                                      ? LS_SCALE_OWN
                            : ls_spec_find(&dataset->spec, "scale") ? LS_SCALE_DIFFERS
                                                                      : LS_SCALE_TAKEN;
    if (dataset->scale_origin == LS_SCALE_DIFFERS) return;
    scale->kind = trained->kind;
    scale->divisor = trained->divisor;
}

ls_status ls_dataset_init_scale(ls_dataset *dataset, double default_divisor)
{
    ls_scale *scale = &dataset->scale;
    const size_t channels = dataset->info.channels;
    if (!ls_spec_find(&dataset->spec, "scale")) {
        scale->kind = default_divisor > 0 ? LS_SCALE_DIVIDE : LS_SCALE_NONE;
        scale->divisor = default_divisor;
    }
    if (dataset->trained) choose_rule(dataset);
    if (scale->kind == LS_SCALE_STANDARD) {
        const bool own = !dataset->trained || dataset->scale_origin == LS_SCALE_DIFFERS;
        LS_TRY(own ? init_standard(dataset) : take_statistics(dataset));
    }
    if (!is_u8(dataset)) return LS_OK;

    scale->table = malloc(channels * 256 * sizeof(float));
    if (!scale->table) return ls_fail(LS_ERR_MEMORY, "no memory for %zu scale tables", channels);
    for (size_t i = 0; i < channels * 256; i++) {
        scale->table[i] = scaled(scale, (double)(i % 256), i / 256);
    }
    return LS_OK;
}

void ls_scale_free(ls_scale *scale)
{
    free(scale->mean);
    free(scale->std);
    free(scale->table);
    *scale = (ls_scale){ .kind = LS_SCALE_NONE };
}

void ls_scale_name(const ls_scale_rule *scale, char out[LS_SCALE_NAME_BYTES])
{
    switch (scale->kind) {
    case LS_SCALE_NONE: snprintf(out, LS_SCALE_NAME_BYTES, "none"); break;
    case LS_SCALE_DIVIDE: snprintf(out, LS_SCALE_NAME_BYTES, "%g", scale->divisor); break;
    case LS_SCALE_STANDARD: snprintf(out, LS_SCALE_NAME_BYTES, "standard"); break;
    }
}

ls_scale_origin ls_dataset_scale_origin(const ls_dataset *dataset) { return dataset->scale_origin; }

ls_scale_rule ls_dataset_scale_rule(const ls_dataset *dataset)
{
    const ls_scale *scale = &dataset->scale;
    return (ls_scale_rule){ .kind = scale->kind, .divisor = scale->divisor, .unit = scale->unit,
                            .channels = dataset->info.channels, .mean = scale->mean,
                            .std = scale->std };
}

/* -- scaling a sample ------------------------------------------------------------------------ */

enum { LANES = 48 }; /* 1, 2, 3, 4, 6 and 8 channels divide it */

/* (v - mean) / std. Where C divides LANES the statistics are laid out for that many neighbouring
 * numbers, which then are all alike. */
static void standardise(const ls_scale *scale, float *x, size_t count, size_t C)
{
    double mean_of[LANES], std_of[LANES];
    const double *mean = scale->mean, *std = scale->std;
    size_t period = C;
    if (LANES % C == 0) {
        for (size_t l = 0; l < LANES; l++) mean_of[l] = mean[l % C];
        for (size_t l = 0; l < LANES; l++) std_of[l] = std[l % C];
        mean = mean_of;
        std = std_of;
        period = LANES;
    }
    for (size_t begin = 0; begin < count; begin += period) {
        const size_t left = count - begin, n = left < period ? left : period;
        float *v = x + begin;
        for (size_t i = 0; i < n; i++) v[i] = (float)(((double)v[i] - mean[i]) / std[i]);
    }
}

void ls_dataset_scale(const ls_dataset *dataset, float *x)
{
    const ls_scale *scale = &dataset->scale;
    const size_t C = dataset->info.channels, count = ls_dataset_elements(dataset);
    if (scale->table) {
        for (size_t i = 0; i < count; i++) x[i] = scale->table[i % C * 256 + (size_t)x[i]];
    } else if (scale->kind == LS_SCALE_DIVIDE) {
        for (size_t i = 0; i < count; i++) x[i] = (float)((double)x[i] / scale->divisor);
    } else if (scale->kind == LS_SCALE_STANDARD) {
        standardise(scale, x, count, C); /* the unit of what has no table is 1 */
    }
}

const float *ls_dataset_table(const ls_dataset *dataset)
{
    return dataset->info.element == LS_ELEMENT_U8 ? dataset->scale.table : NULL;
}
