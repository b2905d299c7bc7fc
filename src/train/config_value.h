/* SPDX-License-Identifier: MIT */
/* config_value.h -- one option's value from text, and back.
 *
 * Strict: the whole text must be the value; no signs on counts, no hexadecimal, no "nan". What does
 * not fit leaves the field as it was. Not here: which options there are (config_table.c).
 */
#ifndef LS_TRAIN_CONFIG_VALUE_H
#define LS_TRAIN_CONFIG_VALUE_H

#include "train/config.h"

/* ls_option.type, and the type of the field. */
enum {
    LS_VALUE_TEXT,     /* char[LS_TEXT_BYTES]: a path or a list, without control characters */
    LS_VALUE_COUNT,    /* uint64_t */
    LS_VALUE_BYTES,    /* uint64_t; text may end in K, M or G, or KiB, MiB or GiB */
    LS_VALUE_INT,      /* int, not negative */
    LS_VALUE_REAL,     /* double, low .. high */
    LS_VALUE_FRACTION, /* double, 0 .. 1 without 1 */
    LS_VALUE_FLAG,     /* bool */
    LS_VALUE_CHOICE,   /* an enumeration; names after place `high` are known but refused */
    LS_VALUE_SCHEDULE, /* ls_schedule, but for its warmup */
    LS_VALUE_UNTIL,    /* ls_until */
    LS_VALUE_COLUMN,   /* char[32]: a column of history.csv, or "auto" */
    LS_VALUE_AUGMENT   /* ls_augment */
};

/* Digits at *p, which moves past them. False if there are none or the number passes 2^64 - 1. */
bool ls_scan_count(const char **p, uint64_t *out);

/* A finite decimal number at *p, which moves past it; false if there is none. */
bool ls_scan_real(const char **p, double *out);

/* Fails with "--name: found 'text', expected <what>"; control characters are not shown. */
LS_MUST_USE ls_status ls_value_expected(const ls_option *option, const char *text,
                                        const char *what);

/* Values of the type LS_VALUE_SCHEDULE; config_schedule.c. The warm-up is left as it is. */
LS_MUST_USE ls_status ls_schedule_read(const ls_option *option, const char *text,
                                       ls_schedule *out);
void ls_schedule_write(const ls_schedule *schedule, char *out, size_t bytes);

/* `field` is the option's field in an ls_config. Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_value_read(const ls_option *option, const char *text, void *field);
void ls_value_write(const ls_option *option, const void *field, char *out, size_t bytes);

#endif
