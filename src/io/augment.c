/* SPDX-License-Identifier: MIT */
/* augment.c -- what is drawn for a sample, and what that does to its pixels.
 *
 * Eight words of the stream (seed, AUGMENT, layer 0, epoch, sample), each with one use:
 *
 *     0 flip     1 vflip     2 crop's row          3 crop's column
 *     4 brightness           5 contrast            6 cutout's row         7 cutout's column
 *
 * A word w is made into: yes if w >= 2^31; a whole number below n: (w n) >> 32; u, uniform in
 * [-1, 1): w 2^-31 - 1, in double. d = (float)(X R u), f = (float)(1 + X u), in double, rounded
 * once.
 *
 * Crop and both flips only move pixels, so they are one pass from the scratch copy: the crop's
 * first row and column are top = row - P, left = column - P. Brightness and contrast
 * are float arithmetic, a rounding per operation: v + d; ((v - m) * f) + m with m = (float)(flat
 * sum of the channel in double / pixels), summed in the order of rows and columns.
 * augment_pixels.c does it.
 */
#include "io/augment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/augment_pixels.h"
#include "io/json.h"
#include "nearest.h"
#include "philox.h"
#include "plural.h"

/* -- text ------------------------------------------------------------------------------------ */

enum { CROP, FLIP, VFLIP, BRIGHTNESS, CONTRAST, CUTOUT, OPERATIONS };
enum { PIXELS_MAX = 65535 };

static const char *const names[OPERATIONS + 1] = { "crop",     "flip",   "vflip", "brightness",
                                                   "contrast", "cutout", NULL };

static ls_status fail_item(const char *item, size_t chars, const char *expected)
{
    return ls_fail(LS_ERR_ARGUMENT, "--augment: found '%.*s', expected %s",
                   (int)(chars < 60 ? chars : 60), item, expected);
}

static ls_status fail_name(const char *item, size_t chars, const char *name)
{
    const char *nearest = ls_nearest_name(name, names);
    char expected[160];
    snprintf(expected, sizeof expected,
             "crop:P, flip, vflip, brightness:X, contrast:X or cutout:S%s%s%s",
             nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    return fail_item(item, chars, expected);
}

/* Digits alone, 1 .. PIXELS_MAX. */
static bool read_pixels(const char *text, size_t *out)
{
    char *end;
    if (text[strspn(text, "0123456789")] != '\0' || strlen(text) > 5 || !*text) return false;
    const unsigned long pixels = strtoul(text, &end, 10);
    if (pixels < 1 || pixels > PIXELS_MAX) return false;
    *out = pixels;
    return true;
}

/* A decimal number above 0 and at most 1. */
static bool read_share(const char *text, double *out)
{
    char *end;
    if (!*text || text[strspn(text, "0123456789.eE+-")] != '\0') return false;
    const double share = strtod(text, &end);
    if (*end != '\0' || !(share > 0 && share <= 1)) return false;
    *out = share;
    return true;
}

/* One operation, NAME or NAME:VALUE, of `chars` characters at `item`. */
static ls_status parse_item(const char *item, size_t chars, ls_augment *out, bool seen[OPERATIONS])
{
    char text[64];
    if (chars == 0 || chars >= sizeof text) return fail_name(item, chars, "");
    memcpy(text, item, chars);
    text[chars] = '\0';
    char *value = strchr(text, ':');
    if (value) *value++ = '\0';
    int op = 0;
    while (op < OPERATIONS && strcmp(text, names[op]) != 0) op++;
    if (op == OPERATIONS) return fail_name(item, chars, text);
    if (seen[op]) return fail_item(item, chars, "each operation once");
    seen[op] = true;
    const bool has_value = value && *value;
    switch (op) {
    case FLIP:
    case VFLIP:
        if (value) return fail_item(item, chars, "flip and vflip with nothing after them");
        *(op == FLIP ? &out->flip : &out->vflip) = true;
        return LS_OK;
    case BRIGHTNESS:
    case CONTRAST:
        if (has_value && read_share(value, op == BRIGHTNESS ? &out->brightness : &out->contrast)) {
            return LS_OK;
        }
        return fail_item(item, chars, "brightness:X or contrast:X with X above 0 and at most 1");
    default:
        if (has_value && read_pixels(value, op == CROP ? &out->crop : &out->cutout)) return LS_OK;
        return fail_item(item, chars, "crop:P or cutout:S, a whole number of pixels from 1");
    }
}

ls_status ls_augment_parse(const char *text, ls_augment *out)
{
    ls_augment augment = { .crop = 0 };
    bool seen[OPERATIONS] = { false };
    if (strcmp(text, "none") != 0) {
        for (const char *item = text;; item++) {
            const size_t chars = strcspn(item, ",");
            LS_TRY(parse_item(item, chars, &augment, seen));
            item += chars;
            if (*item == '\0') break;
        }
    }
    *out = augment;
    return LS_OK;
}

void ls_augment_write(const ls_augment *augment, char out[LS_AUGMENT_TEXT_BYTES])
{
    const ls_augment *a = augment;
    char brightness[LS_NUMBER_BYTES], contrast[LS_NUMBER_BYTES], part[OPERATIONS][48];
    memset(part, 0, sizeof part);
    ls_number_text(a->brightness, brightness);
    ls_number_text(a->contrast, contrast);
    if (a->crop) snprintf(part[CROP], sizeof part[0], "crop:%zu", a->crop);
    if (a->flip) snprintf(part[FLIP], sizeof part[0], "flip");
    if (a->vflip) snprintf(part[VFLIP], sizeof part[0], "vflip");
    if (a->brightness > 0) snprintf(part[BRIGHTNESS], sizeof part[0], "brightness:%s", brightness);
    if (a->contrast > 0) snprintf(part[CONTRAST], sizeof part[0], "contrast:%s", contrast);
    if (a->cutout) snprintf(part[CUTOUT], sizeof part[0], "cutout:%zu", a->cutout);
    size_t at = 0;
    for (int op = 0; op < OPERATIONS; op++) {
        if (!part[op][0]) continue;
        at += (size_t)snprintf(out + at, LS_AUGMENT_TEXT_BYTES - at, "%s%s", at > 0 ? "," : "",
                               part[op]);
    }
    if (at == 0) snprintf(out, LS_AUGMENT_TEXT_BYTES, "none");
}

bool ls_augment_is_none(const ls_augment *augment)
{
    const ls_augment *a = augment;
    return !a->crop && !a->flip && !a->vflip && !a->cutout && !(a->brightness > 0) &&
           !(a->contrast > 0);
}

ls_status ls_augment_check(const ls_augment *augment, const ls_dataset_info *info)
{
    if (ls_augment_is_none(augment)) return LS_OK;
    char text[LS_AUGMENT_TEXT_BYTES];
    ls_augment_write(augment, text);
    if (!info->is_image) {
        return ls_fail(LS_ERR_ARGUMENT, "--augment %s: a sample is a row of %zu number%s, expected "
                       "images", text, info->channels, LS_PLURAL(info->channels));
    }
    const size_t side = info->height < info->width ? info->height : info->width;
    if (augment->crop < side && augment->cutout < side) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "--augment %s: pictures are %zux%zu, expected crop and cutout "
                   "of fewer pixels than both sides, so that something is left of each",
                   text, info->height, info->width);
}

/* -- what is drawn --------------------------------------------------------------------------- */

typedef struct {
    ls_crop crop;
    float difference, factor;
    ptrdiff_t cut_top, cut_left; /* of the square, before it is cut at the edges */
} drawn;

static size_t below(uint32_t word, size_t n) { return (size_t)((uint64_t)word * n >> 32); }

static double unit(uint32_t word) { return word * 0x1p-31 - 1; }

static drawn draw(const ls_augment *a, const ls_dataset_info *info, double range, uint64_t seed,
                  uint32_t epoch, uint32_t sample)
{
    uint32_t word[8];
    ls_random_words(seed, LS_RANDOM_AUGMENT, 0, epoch, sample, 0, word);
    ls_random_words(seed, LS_RANDOM_AUGMENT, 0, epoch, sample, 1, word + 4);
    return (drawn){
        .crop = {
            .flip = a->flip && word[0] >= 0x80000000u,
            .vflip = a->vflip && word[1] >= 0x80000000u,
            .top = (ptrdiff_t)below(word[2], 2 * a->crop + 1) - (ptrdiff_t)a->crop,
            .left = (ptrdiff_t)below(word[3], 2 * a->crop + 1) - (ptrdiff_t)a->crop,
        },
        .difference = (float)(a->brightness * range * unit(word[4])),
        .factor = (float)(1 + a->contrast * unit(word[5])),
        .cut_top = (ptrdiff_t)below(word[6], info->height) - (ptrdiff_t)(a->cutout / 2),
        .cut_left = (ptrdiff_t)below(word[7], info->width) - (ptrdiff_t)(a->cutout / 2),
    };
}

/* -- a sample -------------------------------------------------------------------------------- */

size_t ls_augment_scratch_bytes(const ls_dataset_info *info) { return ls_dataset_raw_bytes(info); }

/* `from`, a stored sample, -> x. */
static void change(const ls_augment *augment, const ls_dataset *dataset, size_t index,
                   uint64_t seed, uint32_t epoch, const void *from, void *x)
{
    const ls_augment *a = augment;
    const ls_dataset_info *info = ls_dataset_describe(dataset);
    const bool is_u8 = info->element == LS_ELEMENT_U8;
    const size_t C = info->channels, pixels = info->height * info->width;
    const ls_picture p = { info->height, info->width, C * (is_u8 ? 1 : sizeof(float)) };
    const drawn d = draw(a, info, ls_dataset_range_top(dataset), seed, epoch, (uint32_t)index);
    const bool moves = a->crop || a->flip || a->vflip;
    if (moves) ls_pixels_move(p, d.crop, from, x);
    else memcpy(x, from, pixels * p.bytes);
    if (a->brightness > 0 && is_u8) ls_bytes_brighten(d.difference, x, pixels * C);
    if (a->brightness > 0 && !is_u8) {
        for (size_t i = 0; i < pixels * C; i++) ((float *)x)[i] += d.difference;
    }
    if (a->contrast > 0 && is_u8) ls_bytes_contrast(d.factor, x, pixels, C);
    if (a->contrast > 0 && !is_u8) ls_floats_contrast(d.factor, x, pixels, C);
    if (a->cutout) ls_pixels_cut(p, d.cut_top, d.cut_left, a->cutout, x);
}

void ls_augment_read_stored(const ls_augment *augment, const ls_dataset *dataset, ls_part part,
                            size_t index, uint64_t seed, uint32_t epoch, void *scratch, void *x)
{
    ls_dataset_read_stored(dataset, part, index, scratch);
    change(augment, dataset, index, seed, epoch, scratch, x);
}

void ls_augment_apply(const ls_augment *augment, const ls_dataset *dataset, size_t index,
                      uint64_t seed, uint32_t epoch, const void *from, void *x)
{
    change(augment, dataset, index, seed, epoch, from, x);
    if (ls_dataset_describe(dataset)->element == LS_ELEMENT_F32) ls_dataset_scale(dataset, x);
}

void ls_augment_read(const ls_augment *augment, const ls_dataset *dataset, ls_part part,
                     size_t index, uint64_t seed, uint32_t epoch, void *scratch, void *x)
{
    ls_dataset_read_stored(dataset, part, index, scratch);
    ls_augment_apply(augment, dataset, index, seed, epoch, scratch, x);
}
