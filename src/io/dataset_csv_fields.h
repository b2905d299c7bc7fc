/* SPDX-License-Identifier: MIT */
/* dataset_csv_fields.h -- what a csv spec says about records, and which field of them is what.
 *
 * Read from the spec first; the first record then fixes how many fields there are, and the places
 * of label, targets and weight among them. The words are in dataset_csv.c.
 */
#ifndef LS_IO_DATASET_CSV_FIELDS_H
#define LS_IO_DATASET_CSV_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "io/csv.h"
#include "io/dataset_internal.h"

typedef struct {
    bool header;
    size_t every;          /* each every-th record is test; 0: none is */
    const char *test_file; /* or NULL */
    size_t answers;        /* label or target fields; 0: there are none */
    const char *label;     /* "last", "first", a number's digits or "none" */
    size_t first_answer;   /* 0-based field of the first; known with the number of fields */
    const char *weights;   /* as label, or NULL: no weights */
    size_t weight;         /* 0-based field; `fields`: there is none */
    size_t fields;         /* of a record; 0: not known yet */
} ls_csv_fields;

/* What dataset->spec says; also sets the task and the outputs of dataset->info. Text is borrowed
 * from the spec. Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_csv_fields_read(ls_dataset *dataset, ls_csv_fields *options);

/* Fix fields, first_answer and weight by the first record, which is `line` of the file `name`.
 * Errors: FORMAT: too few fields; ARGUMENT: the spec names one that is not there. */
LS_MUST_USE ls_status ls_csv_fields_fix(ls_csv_fields *options, const char *name,
                                        const ls_csv_span *line);

#endif
