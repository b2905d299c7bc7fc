/* SPDX-License-Identifier: MIT */
/* contact_sheet.c -- see contact_sheet.h.
 *
 * A cell is a picture of side * factor pixels, 2 pixels of air, 7 of text, and GAP to the next; the
 * sheet has as many columns as make it about square. The factor is the largest that keeps both
 * sides at ENLARGED pixels or fewer. A label that is wider than its cell is cut.
 */
#include "cli/contact_sheet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/glyph.h"
#include "io/sampler.h"
#include "sizes.h"

enum { ENLARGED = 64, GAP = 6, AIR = 2, PITCH = LS_GLYPH_WIDTH + 1, NARROWEST = 4 * PITCH };
enum { PAPER = 255, INK = 0 };

typedef struct {
    size_t factor, columns, rows;
    size_t inner;       /* pixels of a cell's picture and label, across */
    size_t step_x, step_y; /* from cell to cell */
} layout;

static layout layout_of(const ls_dataset_info *info, size_t count)
{
    layout at = { .columns = 1 };
    at.factor = ls_max_size(1, ENLARGED / ls_max_size(info->height, info->width));
    while (at.columns * at.columns < count) at.columns++;
    at.rows = (count + at.columns - 1) / at.columns;
    at.inner = ls_max_size(info->width * at.factor, NARROWEST);
    at.step_x = at.inner + GAP;
    at.step_y = info->height * at.factor + AIR + LS_GLYPH_HEIGHT + GAP;
    return at;
}

static void draw_picture(const ls_image *sheet, const layout *at, const ls_dataset_info *info,
                         const uint8_t *picture, size_t x, size_t y)
{
    const size_t C = sheet->channels;
    for (size_t i = 0; i < info->height * at->factor; i++) {
        for (size_t j = 0; j < info->width * at->factor; j++) {
            memcpy(sheet->pixels + ((y + i) * sheet->width + x + j) * C,
                   picture + (i / at->factor * info->width + j / at->factor) * C, C);
        }
    }
}

static void draw_text(const ls_image *sheet, const char *text, size_t room, size_t x, size_t y)
{
    for (size_t n = 0; text[n] && (n + 1) * PITCH <= room + 1; n++) {
        for (int i = 0; i < LS_GLYPH_HEIGHT; i++) {
            for (int j = 0; j < LS_GLYPH_WIDTH; j++) {
                if (!ls_glyph_has_dot(text[n], i, j)) continue;
                const size_t pixel = (y + (size_t)i) * sheet->width + x + n * PITCH + (size_t)j;
                memset(sheet->pixels + pixel * sheet->channels, INK, sheet->channels);
            }
        }
    }
}

static void name_sample(const ls_contact_sheet *sheet, size_t index, char *text, size_t bytes)
{
    const ls_dataset_info *info = ls_dataset_describe(sheet->dataset);
    if (info->task == LS_TASK_CLASSIFY) {
        const size_t label = (size_t)ls_dataset_label(sheet->dataset, sheet->part, index);
        const char *name = ls_dataset_class_name(sheet->dataset, label);
        if (name) snprintf(text, bytes, "%s", name);
        else snprintf(text, bytes, "%zu", label);
        return;
    }
    text[0] = '\0';
    if (info->task == LS_TASK_NONE) return;
    float *target = malloc(info->outputs * sizeof *target);
    if (target) {
        ls_dataset_target(sheet->dataset, sheet->part, index, target);
        snprintf(text, bytes, "%.4g", (double)target[0]);
    }
    free(target);
}

/* Bytes for the sample that was read into `picture`, in place. */
static void make_bytes(const ls_dataset *dataset, void *picture)
{
    const ls_dataset_info *info = ls_dataset_describe(dataset);
    if (info->element == LS_ELEMENT_U8) return;
    const float top = (float)ls_dataset_range_top(dataset);
    const size_t elements = info->height * info->width * info->channels;
    for (size_t i = 0; i < elements; i++) { /* byte i lies in no float after the i-th */
        float v;
        memcpy(&v, (char *)picture + i * sizeof v, sizeof v);
        v = v / top * 255;
        ((uint8_t *)picture)[i] = (uint8_t)rintf(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

static ls_status check(const ls_contact_sheet *sheet)
{
    const ls_dataset_info *info = ls_dataset_describe(sheet->dataset);
    if (!info->is_image || (info->channels != 1 && info->channels != 3)) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: %zu %s, expected pictures of 1 or 3 channels",
                       ls_dataset_spec(sheet->dataset), info->channels,
                       info->is_image ? "channels" : "numbers a sample");
    }
    if (info->count[sheet->part] == 0) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: there is no test part",
                       ls_dataset_spec(sheet->dataset));
    }
    if (sheet->part == LS_PART_TEST && !ls_augment_is_none(&sheet->augment)) {
        return ls_fail(LS_ERR_ARGUMENT, "--augment with --part test: test samples are never "
                       "augmented");
    }
    return ls_augment_check(&sheet->augment, info);
}

/* Places of the part's samples in the order in which they are taken. */
static ls_status find_order(const ls_contact_sheet *sheet, uint32_t **out)
{
    const size_t count = ls_dataset_describe(sheet->dataset)->count[sheet->part];
    *out = malloc(count * sizeof **out);
    if (!*out) return ls_fail(LS_ERR_MEMORY, "no memory for the order of %zu samples", count);
    ls_sampler_order(sheet->seed, sheet->epoch, sheet->shuffle && sheet->part == LS_PART_TRAIN,
                     count, *out);
    return LS_OK;
}

static void draw_all(const ls_contact_sheet *sheet, const layout *at, size_t count,
                     const uint32_t *order, void *scratch, void *picture, const ls_image *out)
{
    const ls_dataset_info *info = ls_dataset_describe(sheet->dataset);
    for (size_t n = 0; n < count; n++) {
        const size_t x = GAP + n % at->columns * at->step_x, y = GAP + n / at->columns * at->step_y;
        char label[300];
        ls_augment_read_stored(&sheet->augment, sheet->dataset, sheet->part, order[n], sheet->seed,
                               sheet->epoch, scratch, picture);
        make_bytes(sheet->dataset, picture);
        name_sample(sheet, order[n], label, sizeof label);
        draw_picture(out, at, info, picture, x, y);
        draw_text(out, label, at->inner, x, y + info->height * at->factor + AIR);
    }
}

ls_status ls_contact_sheet_draw(const ls_contact_sheet *sheet, ls_image *out)
{
    const ls_dataset_info *info = ls_dataset_describe(sheet->dataset);
    *out = (ls_image){ .width = 0 };
    LS_TRY(check(sheet));
    const size_t there = info->count[sheet->part];
    const size_t count = sheet->count < there ? sheet->count : there;
    const layout at = layout_of(info, count);
    ls_image image = { .width = GAP + at.columns * at.step_x, .height = GAP + at.rows * at.step_y,
                       .channels = info->channels };
    uint32_t *order = NULL;
    ls_status status = find_order(sheet, &order);
    const size_t bytes = image.width * image.height * image.channels;
    void *scratch = malloc(ls_augment_scratch_bytes(info));
    void *picture = malloc(ls_augment_scratch_bytes(info));
    image.pixels = malloc(bytes);
    if (status == LS_OK && (!scratch || !picture || !image.pixels)) {
        status = ls_fail(LS_ERR_MEMORY, "no memory for a contact sheet of %zu bytes", bytes);
    }
    if (status == LS_OK) {
        memset(image.pixels, PAPER, bytes);
        draw_all(sheet, &at, count, order, scratch, picture, &image);
        *out = image;
        image.pixels = NULL;
    }
    free(image.pixels);
    free(picture);
    free(scratch);
    free(order);
    return status;
}
