/* SPDX-License-Identifier: MIT */
/* dataset_internal.h -- what the formats share: the parsed spec, and where samples lie.
 *
 * A format's open function checks its files and fills in an ls_dataset: shape and task, the runs
 * of memory that hold the samples, labels or targets. Everything after that -- reading, scaling,
 * statistics, identity, report -- is the same for all formats and knows no file format.
 *
 *     spec -> dataset_spec.c -> format's open (dataset_<format>.c) -> dataset.c
 *                                      dataset_fill.c                 dataset_scale.c
 *                                                                     dataset_read.c
 *                                                                     dataset_report.c
 *
 * Only dataset*.c and their tests include this header.
 */
#ifndef LS_IO_DATASET_INTERNAL_H
#define LS_IO_DATASET_INTERNAL_H

#include "io/data_file.h"
#include "io/dataset.h"

/* -- the spec -------------------------------------------------------------------------------- */

enum { LS_SPEC_ITEMS_MAX = 16 };

/* KIND[:ITEM{,ITEM}] with ITEM = VALUE or KEY=VALUE. A VALUE that follows KEY=VALUE is that key's
 * second value (npy's test=X.npy,Y.npy). */
typedef struct {
    const char *key;       /* NULL: an item before the first key */
    const char *value;
    const char *second;    /* NULL: none */
} ls_spec_item;

typedef struct {
    char *text;            /* owned: the items' characters */
    const char *kind;      /* "csv" */
    int count;
    ls_spec_item item[LS_SPEC_ITEMS_MAX];
} ls_spec;

LS_MUST_USE ls_status ls_spec_parse(const char *text, ls_spec *out);
void ls_spec_free(ls_spec *spec);

/* What a format takes, and how it is opened. */
typedef struct {
    const char *kind;              /* "cifar10" */
    const char *usage;             /* "cifar10:DIR[,scale=...]" */
    const char *const *keys;       /* ended by NULL */
    int files;                     /* plain values it takes */
    int files_least;               /* or 0: exactly `files` */
    double divisor;                /* default scale: divide by this; 0: none */
    ls_status (*open)(ls_dataset *dataset);
} ls_dataset_format;

/* Has the spec the format's keys alone, none twice, and as many plain values as it takes?
 * Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_spec_check(const ls_spec *spec, const ls_dataset_format *format);

int ls_spec_files(const ls_spec *spec);                             /* plain values */
const char *ls_spec_file(const ls_spec *spec, int i);               /* the i-th of them */
const ls_spec_item *ls_spec_find(const ls_spec *spec, const char *key); /* or NULL */

/* *out = the place of `key`'s value among choices[] (ended by NULL); 0 if not given. */
LS_MUST_USE ls_status ls_spec_choice(const ls_spec *spec, const char *key,
                                     const char *const *choices, int *out);

/* *every = K of test=every:K; unchanged if `test` is no such item. */
LS_MUST_USE ls_status ls_spec_every(const ls_spec *spec, const ls_spec_item *test, size_t *every);

/* *out = `key`'s value, a whole number in low .. high; unchanged if not given. */
LS_MUST_USE ls_status ls_spec_whole(const ls_spec *spec, const char *key, size_t low, size_t high,
                                    size_t *out);

/* A whole number of plain digits in low .. high. False if `text` is none. */
bool ls_text_whole(const char *text, size_t low, size_t high, size_t *out);

/* -- where samples lie ----------------------------------------------------------------------- */

typedef enum {
    LS_STORE_U8,        /* [height, width, channels] bytes */
    LS_STORE_U8_PLANES, /* [channels, height, width] bytes */
    LS_STORE_F32,       /* [height, width, channels] little-endian floats, any alignment */
    LS_STORE_F64        /* the same, doubles; a value is converted to float when it is read */
} ls_store;

enum { LS_RUN_MAX = 5, LS_FILE_MAX = 12, LS_CLASSES_MAX = 65536, LS_CLASS_NAME_BYTES = 256 };

/* Runs of mapped files beyond this are read in passing: what was read does not stay resident. */
#define LS_RESIDENT_BYTES ((size_t)256 << 20)

/* `count` samples, `stride` bytes apart, in one stretch of memory. */
typedef struct {
    const unsigned char *x; /* borrowed from a file or from values: first sample's first value */
    size_t stride;
    size_t count;
    size_t gap;             /* after each `gap` samples one is passed over that is of another part;
                               0: none is */
    const ls_data_file *passing; /* the mapped file, if it is read in passing: set by
                                    ls_dataset_add_run */
} ls_run;

typedef struct {
    ls_run run[LS_RUN_MAX]; /* one after another: the part's samples as stored */
    int run_count;
    size_t stored;          /* samples in all runs */
    float *values;          /* owned: samples that were parsed from text; else NULL */
    int32_t *label;         /* owned: [stored], CLASSIFY */
    float *target;          /* owned: [stored, outputs], REGRESS */
    float *weight;          /* owned: [stored] TRAIN: samples' own; NULL: all 1 */
    bool *bad;              /* owned: [stored] samples to leave out; NULL: none */
    uint32_t *kept;         /* owned: [count] stored index of each sample; NULL: all are kept */
} ls_part_data;

/* An ls_scale_rule, and what it becomes for reading. */
typedef struct {
    ls_scale_kind kind;
    double divisor;   /* DIVIDE */
    double unit;      /* STANDARD */
    double *mean;     /* owned: [channels], STANDARD */
    double *std;      /* owned: [channels], STANDARD; never 0 */
    float *table;     /* owned: [channels, 256], u8 stores: what a byte becomes */
} ls_scale;

struct ls_dataset {
    char *spec_text;                             /* owned: as given */
    ls_spec spec;                                /* owned */
    ls_dataset_info info;
    ls_store store;
    ls_part_data part[LS_PART_COUNT];
    ls_data_file file[LS_FILE_MAX];              /* owned */
    int file_count;
    char (*class_name)[LS_CLASS_NAME_BYTES];     /* owned: [classes] or NULL */
    ls_scale scale;
    const ls_scale_rule *trained;                /* borrowed while it is opened; NULL: none */
    ls_scale_origin scale_origin;
    double range_top;                            /* ls_dataset_range_top */
    bool skip_bad;                               /* bad=skip */
    size_t skipped;                              /* records left out */
    char identity[65];
    char *warnings;                              /* owned: lines, or NULL */
    size_t reading_warnings;                     /* characters: ls_dataset_reading_warnings */
};

/* -- for the formats: dataset_fill.c ---------------------------------------------------------- */

extern const ls_dataset_format ls_dataset_digits, ls_dataset_cifar10, ls_dataset_cifar100,
    ls_dataset_idx, ls_dataset_csv, ls_dataset_npy;

/* Open `path`, or DIR/NAME, and keep it with the data set. */
LS_MUST_USE ls_status ls_dataset_file(ls_dataset *dataset, const char *path, const char *expected,
                                      const ls_data_file **out);
LS_MUST_USE ls_status ls_dataset_file_in(ls_dataset *dataset, const char *folder, const char *name,
                                         const char *expected, const ls_data_file **out);

/* Is DIR/NAME there, packed or not? */
bool ls_dataset_has_file(const char *folder, const char *name);

/* Append a run to a part and make its label or target array longer. */
LS_MUST_USE ls_status ls_dataset_add_run(ls_dataset *dataset, ls_part part, ls_run run);

/* Make a weight of 0 for each training sample added so far; the data is weighted. */
LS_MUST_USE ls_status ls_dataset_add_weights(ls_dataset *dataset);

/* A record is bad: FORMAT with the text, or, with bad=skip, a warning and LS_OK. */
LS_MUST_USE ls_status ls_dataset_bad_record(ls_dataset *dataset, const char *format, ...)
    LS_PRINTF(2, 3);

/* Leave out stored sample `index` of `part` (after ls_dataset_bad_record returned LS_OK). */
LS_MUST_USE ls_status ls_dataset_leave_out(ls_dataset *dataset, ls_part part, size_t index);

LS_MUST_USE ls_status ls_dataset_warn(ls_dataset *dataset, const char *format, ...)
    LS_PRINTF(2, 3);

/* Of test=every:K in the spec, where so few records are there that none is test: a warning. */
LS_MUST_USE ls_status ls_dataset_warn_of_no_test(ls_dataset *dataset, const char *name,
                                                 size_t train, size_t test, size_t every);

/* CSV text that is in memory as a data set, by the spec's csv keys. */
LS_MUST_USE ls_status ls_dataset_read_csv(ls_dataset *dataset, const char *name, const char *text,
                                          size_t bytes);

/* -- dataset_scale.c, dataset_read.c ----------------------------------------------------------- */

/* Read scale=, before any file is opened. Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_dataset_parse_scale(ls_dataset *dataset);

/* Divide by `default_divisor` (0: not at all) if the spec names no scale; take from
 * dataset->trained what it prescribes; else compute statistics where the scale needs them; build
 * tables. Errors: MEMORY, FORMAT. */
LS_MUST_USE ls_status ls_dataset_init_scale(ls_dataset *dataset, double default_divisor);
void ls_scale_free(ls_scale *scale);

size_t ls_dataset_elements(const ls_dataset *dataset); /* numbers per sample */

/* Stored sample of `index`: its first byte. */
const unsigned char *ls_dataset_sample(const ls_dataset *dataset, ls_part part, size_t index);

/* For a walk through all samples of a part in order: `index` is done with. Every few megabytes
 * what is behind it need not stay resident. */
void ls_dataset_walked(const ls_dataset *dataset, ls_part part, size_t index);

/* Extremes, mean and population standard deviation of the stored numbers of a part, each divided by
 * `unit`: in double, two passes, flat sums (docs/numerics.md 1.3) in the order sample, row, column,
 * channel. Over channels [channel, channel + channel_count). Where all are equal, that is the mean
 * and std is 0, whatever the sums round to. */
typedef struct {
    double low, high, mean, std;
} ls_range;

void ls_dataset_range(const ls_dataset *dataset, ls_part part, size_t channel,
                      size_t channel_count, double unit, ls_range *out);

#endif
