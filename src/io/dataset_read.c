/* SPDX-License-Identifier: MIT */
/* dataset_read.c -- a sample from where it is stored to the numbers that are handed on.
 *
 *     stored                          as it travels           scaled
 *     bytes [pixels, C]        ->     bytes [pixels, C]  ->   floats, by a table of 256
 *     bytes [C, pixels]        ->     bytes [pixels, C]  ->   floats, by a table of 256
 *     bytes of a table's row   ->     floats             ->   floats, by a table of 256
 *     floats or doubles        ->     floats             ->   floats (dataset_scale.c)
 *
 * Stored numbers lie in memory: parsed, or in a file's map. A run that is read in passing
 * (data_file.h) is too large to be touched there: what a map brings in stays until it is let go,
 * page by page. Its samples are read from the file, into the place where they are wanted or
 * through a piece of the stack, at a call each and without a page of the process's own.
 */
#include <assert.h>
#include <string.h>

#include "cpu_bytes.h"
#include "io/dataset_internal.h"

/* -- where a sample lies --------------------------------------------------------------------- */

size_t ls_dataset_elements(const ls_dataset *dataset)
{
    const ls_dataset_info *info = &dataset->info;
    return info->height * info->width * info->channels;
}

size_t ls_dataset_stored_bytes(const ls_dataset *dataset)
{
    static const size_t bytes[] = {
        [LS_STORE_U8] = 1,
        [LS_STORE_U8_PLANES] = 1,
        [LS_STORE_F32] = sizeof(float),
        [LS_STORE_F64] = sizeof(double),
    };
    return ls_dataset_elements(dataset) * bytes[dataset->store];
}

/* The run that holds a stored sample; *stored becomes its place there. */
static const ls_run *run_of(const ls_dataset *dataset, ls_part part, size_t *stored)
{
    const ls_run *run = dataset->part[part].run;
    while (*stored >= run->count) *stored -= run++->count;
    return run;
}

size_t ls_dataset_place(const ls_dataset *dataset, ls_part part, size_t index)
{
    const uint32_t *kept = dataset->part[part].kept;
    return kept ? kept[index] : index;
}

/* Bytes from a run's first sample to its i-th. */
static size_t offset_in(const ls_run *run, size_t i)
{
    return (i + (run->gap > 0 ? i / run->gap : 0)) * run->stride;
}

/* A sample: its first byte in memory, and the file it is to be read from, or NULL. */
typedef struct {
    const unsigned char *x;
    const ls_data_file *file; /* borrowed */
} place;

static place place_of(const ls_dataset *dataset, ls_part part, size_t index)
{
    size_t stored = ls_dataset_place(dataset, part, index);
    const ls_run *run = run_of(dataset, part, &stored);
    return (place){ .x = run->x + offset_in(run, stored), .file = run->passing };
}

const unsigned char *ls_dataset_sample(const ls_dataset *dataset, ls_part part, size_t index)
{
    return place_of(dataset, part, index).x;
}

void ls_dataset_walked(const ls_dataset *dataset, ls_part part, size_t index)
{
    const size_t stretch = (size_t)8 << 20; /* bytes */
    size_t stored = ls_dataset_place(dataset, part, index);
    const ls_run *run = run_of(dataset, part, &stored);
    const size_t begin = offset_in(run, stored), end = offset_in(run, stored + 1);
    if (!run->passing || begin / stretch == end / stretch) return;
    const size_t from = begin / stretch * stretch;
    ls_data_file_forget(run->passing, run->x + from, end - from);
}

void ls_dataset_want(const ls_dataset *dataset, ls_part part, size_t index)
{
    const place at = place_of(dataset, part, index);
    if (at.file) ls_data_file_want(at.file, at.x, ls_dataset_stored_bytes(dataset));
}

/* -- decoding -------------------------------------------------------------------------------- */

enum { PIECE_BYTES = 8192 }; /* of the stack */

/* The first `bytes` stored bytes after the first `skip`: in memory, or read into `piece`. */
static const unsigned char *stored_piece(place at, size_t skip, size_t bytes, unsigned char *piece)
{
    if (!at.file) return at.x + skip;
    ls_data_file_read(at.file, at.x + skip, bytes, piece);
    return piece;
}

static void copy_stored(place at, size_t bytes, void *x)
{
    if (at.file) ls_data_file_read(at.file, at.x, bytes, x);
    else memcpy(x, at.x, bytes);
}

static void floats_of_doubles(place at, size_t count, float *x)
{
    enum { NUMBERS = PIECE_BYTES / sizeof(double) };
    unsigned char piece[PIECE_BYTES];
    for (size_t begin = 0; begin < count; begin += NUMBERS) {
        const size_t left = count - begin, n = left < NUMBERS ? left : NUMBERS;
        const unsigned char *from = stored_piece(at, begin * sizeof(double), n * sizeof(double),
                                                 piece);
        for (size_t i = 0; i < n; i++) {
            double value;
            memcpy(&value, from + i * sizeof value, sizeof value);
            x[begin + i] = (float)value;
        }
    }
}

/* Bytes [pixels, C] of planes. */
static void join_planes(const ls_dataset *dataset, place at, unsigned char *x)
{
    unsigned char piece[PIECE_BYTES];
    const size_t C = dataset->info.channels, count = ls_dataset_elements(dataset);
    const size_t pixels = count / C;
    assert(!at.file || count <= PIECE_BYTES);
    const unsigned char *from = stored_piece(at, 0, count, piece);
    if (C == 3) {
        ls_planes_join_here()(from, pixels, x);
        return;
    }
    for (size_t c = 0; c < C; c++) {
        for (size_t p = 0; p < pixels; p++) x[p * C + c] = from[c * pixels + p];
    }
}

/* Bytes [pixels, C]. */
static void read_bytes(const ls_dataset *dataset, place at, unsigned char *x)
{
    if (dataset->store == LS_STORE_U8) copy_stored(at, ls_dataset_elements(dataset), x);
    else join_planes(dataset, at, x);
}

/* Bytes read into the last quarter of x become floats from the front: x[i] covers bytes 4 i to
 * 4 i + 3, while byte i, the last that is read before, is at 3 count + i, which is not below. */
static void floats_of_bytes(const ls_dataset *dataset, place at, size_t count, float *x)
{
    unsigned char *byte = (unsigned char *)x + 3 * count;
    read_bytes(dataset, at, byte);
    for (size_t i = 0; i < count; i++) {
        const float value = byte[i];
        memcpy(&x[i], &value, sizeof value);
    }
}

static void read_floats(const ls_dataset *dataset, place at, float *x)
{
    const size_t count = ls_dataset_elements(dataset);
    switch (dataset->store) {
    case LS_STORE_U8:
    case LS_STORE_U8_PLANES: floats_of_bytes(dataset, at, count, x); break;
    case LS_STORE_F32: copy_stored(at, count * sizeof(float), x); break;
    case LS_STORE_F64: floats_of_doubles(at, count, x); break;
    }
}

/* -- reading --------------------------------------------------------------------------------- */

size_t ls_dataset_raw_bytes(const ls_dataset_info *info)
{
    const size_t elements = info->height * info->width * info->channels;
    return info->element == LS_ELEMENT_U8 ? elements : elements * sizeof(float);
}

void ls_dataset_read(const ls_dataset *dataset, ls_part part, size_t index, float *x)
{
    read_floats(dataset, place_of(dataset, part, index), x);
    ls_dataset_scale(dataset, x);
}

void ls_dataset_read_stored(const ls_dataset *dataset, ls_part part, size_t index, void *x)
{
    const place at = place_of(dataset, part, index);
    if (dataset->info.element == LS_ELEMENT_U8) read_bytes(dataset, at, x);
    else read_floats(dataset, at, x);
}

void ls_dataset_read_raw(const ls_dataset *dataset, ls_part part, size_t index, void *x)
{
    ls_dataset_read_stored(dataset, part, index, x);
    if (dataset->info.element == LS_ELEMENT_F32) ls_dataset_scale(dataset, x);
}
