/* SPDX-License-Identifier: MIT */
/* dataset.h -- one interface to every kind of data that --data names.
 *
 * A data set has a training part and perhaps a test part of samples of one shape, each with a
 * class label (task CLASSIFY) or `outputs` target numbers (task REGRESS), or no answer (task NONE:
 * samples to predict, and nothing else). Opening one checks
 * everything: every length, count, label and number, before a step is trained; what was opened
 * cannot fail to be read. An error names file, record or line and field, byte offset, what was
 * found, and what was expected (FORMAT).
 *
 *   digits         built in: 8x8x1, 10 classes; every fifth sample is test
 *   cifar10:DIR    the binary release: data_batch_*.bin, test_batch.bin
 *   cifar100:DIR[,label=fine|coarse]    the binary release: train.bin, test.bin
 *   idx:DIR        MNIST layout: {train,t10k}-{images-idx3,labels-idx1}-ubyte
 *   csv:FILE[,label=last|first|N|none][,header=no|yes][,task=class|regress][,outputs=K]
 *           [,weights=last|first|N][,test=every:5|FILE|none]
 *   npy:X.npy,Y.npy[,weights=W.npy][,test=X.npy,Y.npy|every:K|none]
 *   npy:X.npy      samples alone
 *
 * each then with [,scale=255|16|none|standard] (digits: 16 unless given, for its pixels are 0..16;
 * other images of bytes: 255; all else: none) and, but for digits, with [,bad=stop|skip]. The
 * first value of the other choices is their default. What each format decides where files differ
 * stands at the head of its dataset_<format>.c.
 *
 * bad=skip leaves out records that are wrong by themselves (a label out of range, a line with a bad
 * number), counts them, and names the first ten in the warnings. What concerns a whole file -- its
 * size, its header, its kind -- is an error all the same.
 *
 * Thread rule: read-only after opening; any thread may read samples.
 */
#ifndef LS_IO_DATASET_H
#define LS_IO_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

typedef enum { LS_TASK_CLASSIFY, LS_TASK_REGRESS, LS_TASK_NONE } ls_task;
typedef enum { LS_PART_TRAIN, LS_PART_TEST } ls_part;
enum { LS_PART_COUNT = 2 };

/* How a sample travels to a device: as scaled floats, or (images that are stored as bytes) as the
 * bytes themselves, a quarter of that, which become floats there by ls_dataset_table. */
typedef enum { LS_ELEMENT_F32, LS_ELEMENT_U8 } ls_element;

typedef struct {
    bool is_image;                   /* false: `channels` numbers in a row, height = width = 1 */
    size_t height, width, channels;  /* a sample is [height, width, channels] */
    ls_element element;
    ls_task task;
    size_t classes;                  /* CLASSIFY: labels are 0 .. classes-1 */
    size_t outputs;                  /* REGRESS: numbers per target */
    bool weighted;                   /* training samples have weights of their own */
    size_t count[LS_PART_COUNT];     /* samples; count[LS_PART_TEST] may be 0 */
} ls_dataset_info;

typedef struct ls_dataset ls_dataset;

typedef enum { LS_SCALE_NONE, LS_SCALE_DIVIDE, LS_SCALE_STANDARD } ls_scale_kind;

/* What makes of stored numbers those that a network is fed (dataset_scale.c). */
typedef struct {
    ls_scale_kind kind;
    double divisor;           /* DIVIDE */
    double unit;              /* STANDARD: values are divided by this first: 255 for u8, else 1 */
    size_t channels;          /* STANDARD: channels, or fields of a table */
    const double *mean, *std; /* borrowed, [channels], STANDARD; no std is 0 */
} ls_scale_rule;

/* Where a data set's scale is from, that was opened with another's. */
typedef enum {
    LS_SCALE_OWN,    /* both have the same rule; or there was no other */
    LS_SCALE_TAKEN,  /* the other's: the spec names none, and would have had another by default */
    LS_SCALE_DIFFERS /* the spec's: it names one that is not the other's */
} ls_scale_origin;

/* Errors: ARGUMENT (the spec: unknown kind or key, with the nearest known one), FORMAT (absent,
 * packed, damaged, out of range), IO (there, and cannot be read), MEMORY. */
LS_MUST_USE ls_status ls_dataset_open(const char *spec, ls_dataset **out);
void ls_dataset_close(ls_dataset *dataset); /* accepts NULL */

/* The same, for a network that was trained on numbers which `trained` made: it takes the place of
 * the default where the spec names no scale, and its mean and std that of this training part's
 * where the spec says standard, too. NULL: as ls_dataset_open.
 * Errors: those, and FORMAT (another number of channels than `trained` has). */
LS_MUST_USE ls_status ls_dataset_open_scaled(const char *spec, const ls_scale_rule *trained,
                                             ls_dataset **out);
ls_scale_origin ls_dataset_scale_origin(const ls_dataset *dataset);
ls_scale_rule ls_dataset_scale_rule(const ls_dataset *dataset); /* valid as long as it is open */

/* As a spec says it: none, 255, standard. */
enum { LS_SCALE_NAME_BYTES = 32 };
void ls_scale_name(const ls_scale_rule *scale, char out[LS_SCALE_NAME_BYTES]);

/* Where task is NONE: give each sample the answer 0, of a task with so many classes or outputs, so
 * that a network which has them can be applied. Errors: MEMORY. */
LS_MUST_USE ls_status ls_dataset_assume_answers(ls_dataset *dataset, ls_task task, size_t count);

const ls_dataset_info *ls_dataset_describe(const ls_dataset *dataset);

/* The spec as given, and 64 hexadecimal digits that identify the contents: the SHA-256 of shape,
 * task, scale and of every sample's bytes, label and weight. Equal identities feed a network equal
 * numbers. */
const char *ls_dataset_spec(const ls_dataset *dataset);
const char *ls_dataset_identity(const ls_dataset *dataset);

/* Class `label`'s name, or NULL where the data names none. */
const char *ls_dataset_class_name(const ls_dataset *dataset, size_t label);

/* One line per warning that opening gave rise to ("data_batch_1.bin: all 20 labels are 3"); ""
 * if there are none. */
const char *ls_dataset_warnings(const ls_dataset *dataset);

/* How many characters of them, from the first on, are of how the files were read; the others are of
 * what that means to a training. */
size_t ls_dataset_reading_warnings(const ls_dataset *dataset);

/* Is `path` one of the files that the samples are read from? */
bool ls_dataset_reads(const ls_dataset *dataset, const char *path);

/* What may be wrong where a sample has another number of fields than the `wanted` ones: " (no
 * answers? then ...)", or "". Pure. */
const char *ls_dataset_width_hint(const ls_dataset_info *info, size_t wanted);

/* Sample `index` of `part`, scaled, into x[height * width * channels]. */
void ls_dataset_read(const ls_dataset *dataset, ls_part part, size_t index, float *x);

/* The same as it travels: bytes as they are stored (U8), or scaled floats (F32). */
void ls_dataset_read_raw(const ls_dataset *dataset, ls_part part, size_t index, void *x);
size_t ls_dataset_raw_bytes(const ls_dataset_info *info); /* of a sample. Pure. */

/* Bytes of a sample where it is stored: what reading one reads. */
size_t ls_dataset_stored_bytes(const ls_dataset *dataset);

/* A sample will be read soon: have the system bring it in, if it is one of a large file. */
void ls_dataset_want(const ls_dataset *dataset, ls_part part, size_t index);

/* The same before it is scaled: bytes (U8), or floats that ls_dataset_scale scales in place. */
void ls_dataset_read_stored(const ls_dataset *dataset, ls_part part, size_t index, void *x);
void ls_dataset_scale(const ls_dataset *dataset, float *x);

/* The largest value that stored numbers are meant to have, the smallest being 0: 255 for bytes, 16
 * for digits, else what scale=D divides by, else 1. */
double ls_dataset_range_top(const ls_dataset *dataset);

/* U8: [channels, 256] what a byte of a channel becomes when it is scaled; F32: NULL. */
const float *ls_dataset_table(const ls_dataset *dataset);

/* Where sample `index` lies among the records that its part has in the files, from 0: bad ones that
 * were left out count too. */
size_t ls_dataset_place(const ls_dataset *dataset, ls_part part, size_t index);

/* CLASSIFY: its label. */
int32_t ls_dataset_label(const ls_dataset *dataset, ls_part part, size_t index);
/* REGRESS: its targets, into y[outputs]. */
void ls_dataset_target(const ls_dataset *dataset, ls_part part, size_t index, float *y);
/* The weight of a training sample, 0 or more; 1 where the data has none. */
float ls_dataset_weight(const ls_dataset *dataset, size_t index);

/* What `lockstep data verify` shows: counts, shape, classes and their numbers, ranges, warnings.
 * Owns: *text is the caller's to free. Errors: MEMORY. */
LS_MUST_USE ls_status ls_dataset_report(const ls_dataset *dataset, char **text);

#endif
