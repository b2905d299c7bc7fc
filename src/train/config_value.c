/* SPDX-License-Identifier: MIT */
/* config_value.c -- the types of options: how each is read from text and written as text.
 *
 * Writing is the inverse of reading: what ls_value_write gives, ls_value_read turns into the same
 * bits (doubles are written with as many digits as that takes).
 */
#include "train/config_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "nearest.h"

/* Columns of history.csv that --until may watch, but for topK of other K; all also with val_. */
static const char *const watched[] = {
    "loss", "accuracy", "top5", "precision", "recall", "f1", "mse", "mae", "r2",
    "val_loss", "val_accuracy", "val_top5", "val_precision", "val_recall", "val_f1", "val_mse",
    "val_mae", "val_r2", NULL
};

ls_status ls_value_expected(const ls_option *option, const char *text, const char *what)
{
    char found[61];
    snprintf(found, sizeof found, "%.60s", text);
    for (char *p = found; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7F) *p = '?';
    }
    return ls_fail(LS_ERR_ARGUMENT, "--%s: found '%s', expected %s", option->name, found, what);
}

/* -- numbers --------------------------------------------------------------------------------- */

bool ls_scan_count(const char **p, uint64_t *out)
{
    const char *begin = *p;
    uint64_t x = 0;
    for (; **p >= '0' && **p <= '9'; (*p)++) {
        const uint64_t digit = (uint64_t)(**p - '0');
        if (x > (UINT64_MAX - digit) / 10) return false;
        x = x * 10 + digit;
    }
    *out = x;
    return *p > begin;
}

bool ls_scan_real(const char **p, double *out)
{
    const size_t plain = strspn(*p, "0123456789+-.eE"); /* what strtod may see: no nan, inf, 0x */
    char number[64];
    if (plain == 0 || plain >= sizeof number) return false;
    memcpy(number, *p, plain);
    number[plain] = '\0';
    char *end;
    const double x = strtod(number, &end);
    if (end != number + plain || !isfinite(x)) return false;
    *out = x;
    *p += plain;
    return true;
}

/* What `option` accepts, for a message. */
static void describe_range(const ls_option *option, char out[160])
{
    const char *kind = option->type == LS_VALUE_REAL ? "a number" : "a whole number";
    const bool is_bytes = option->type == LS_VALUE_BYTES;
    const char *suffix = is_bytes ? ", K, M or G (KiB, MiB, GiB) after it" : "";
    char low[LS_NUMBER_BYTES], high[LS_NUMBER_BYTES];
    ls_number_text(option->low, low);
    ls_number_text(option->high, high);
    if (option->high >= (double)UINT64_MAX) snprintf(high, sizeof high, "%" PRIu64, UINT64_MAX);
    snprintf(out, 160, "%s from %s to %s%s%s%s", kind, low, high, suffix,
             option->zero ? ", or " : "", option->zero ? option->zero : "");
}

static ls_status outside(const ls_option *option, const char *text)
{
    char range[160];
    describe_range(option, range);
    return ls_value_expected(option, text, range);
}

/* The factor of a suffix of bytes, 0 if it is none. */
static uint64_t suffix_factor(const char *suffix)
{
    static const char letter[] = "KMG";
    if (*suffix == '\0') return 1;
    const char *place = strchr(letter, *suffix);
    if (!place || (suffix[1] != '\0' && strcmp(suffix + 1, "iB") != 0)) return 0;
    return (uint64_t)1 << 10 * (place - letter + 1);
}

static ls_status read_count(const ls_option *option, const char *text, uint64_t *out)
{
    uint64_t x = 0, factor = 1;
    const char *p = text;
    if (option->zero && strcmp(text, option->zero) == 0) {
        *out = 0;
        return LS_OK;
    }
    if (!ls_scan_count(&p, &x)) return outside(option, text);
    if (option->type == LS_VALUE_BYTES) {
        factor = suffix_factor(p);
        p += strlen(p);
    }
    if (factor == 0 || *p || x > UINT64_MAX / factor) return outside(option, text);
    x *= factor;
    if ((double)x < option->low || (double)x > option->high) return outside(option, text);
    *out = x;
    return LS_OK;
}

static ls_status read_int(const ls_option *option, const char *text, int *out)
{
    uint64_t x;
    LS_TRY(read_count(option, text, &x));
    *out = (int)x; /* the table's high fits an int */
    return LS_OK;
}

static ls_status read_real(const ls_option *option, const char *text, double *out)
{
    double x;
    const char *p = text;
    if (option->zero && strcmp(text, option->zero) == 0) {
        *out = 0;
        return LS_OK;
    }
    const bool is_number = ls_scan_real(&p, &x) && *p == '\0';
    if (option->type == LS_VALUE_FRACTION) {
        if (!is_number || x < 0 || x >= 1) {
            return ls_value_expected(option, text, "a number from 0 up to, but not including, 1");
        }
    } else if (!is_number || x < option->low || x > option->high) {
        return outside(option, text);
    }
    *out = x + 0.0; /* -0 becomes 0 */
    return LS_OK;
}

static void write_bytes(uint64_t x, char *out, size_t bytes)
{
    static const char *const suffix[] = { "", "KiB", "MiB", "GiB" };
    int power = 0;
    for (; power < 3 && x > 0 && x % 1024 == 0; power++) x /= 1024;
    snprintf(out, bytes, "%" PRIu64 "%s", x, suffix[power]);
}

/* -- names ----------------------------------------------------------------------------------- */

/* "sgd, momentum or adam": the first `count` names. */
static void join_names(const char *const *name, int count, char out[160])
{
    size_t at = 0;
    for (int i = 0; i < count && at < 160; i++) {
        const char *before = i == 0 ? "" : i == count - 1 ? " or " : ", ";
        at += (size_t)snprintf(out + at, 160 - at, "%s%s", before, name[i]);
    }
}

static ls_status unknown_name(const ls_option *option, const char *text, const char *const *name,
                              int count)
{
    char names[160], what[240];
    join_names(name, count, names);
    const char *nearest = ls_nearest_name(text, name);
    snprintf(what, sizeof what, "%s%s%s%s", names, nearest ? "; did you mean " : "",
             nearest ? nearest : "", nearest ? "?" : "");
    return ls_value_expected(option, text, what);
}

static ls_status read_choice(const ls_option *option, const char *text, void *field)
{
    const int accepted = (int)option->high + 1;
    int i = 0;
    while (option->choice[i] && strcmp(option->choice[i], text) != 0) i++;
    if (!option->choice[i]) return unknown_name(option, text, option->choice, accepted);
    if (i >= accepted) {
        char names[160];
        join_names(option->choice, accepted, names);
        return ls_fail(LS_ERR_ARGUMENT, "--%s: %s is not in this build, expected %s",
                       option->name, text, names);
    }
    memcpy(field, &i, sizeof i); /* enumerations are as wide as int (asserted in config_table.c) */
    return LS_OK;
}

static ls_status read_flag(const ls_option *option, const char *text, bool *out)
{
    if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0) {
        return ls_value_expected(option, text, "yes or no");
    }
    *out = strcmp(text, "yes") == 0;
    return LS_OK;
}

/* A text is a line of config.txt: no control characters, no blanks around it. */
static ls_status read_text(const ls_option *option, const char *text, char *out)
{
    const size_t count = strlen(text);
    if (count == 0) return ls_value_expected(option, text, option->value);
    if (count >= LS_TEXT_BYTES) return ls_value_expected(option, text, "fewer than 1024 bytes");
    if (text[0] == ' ' || text[count - 1] == ' ') {
        return ls_value_expected(option, text, "no blanks around it");
    }
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == 0x7F) {
            return ls_value_expected(option, text, "no control characters");
        }
    }
    memcpy(out, text, count + 1);
    return LS_OK;
}

/* -- until ------------------------------------------------------------------------------------- */

static bool is_watched(const char *column)
{
    int i = 0;
    while (watched[i] && strcmp(watched[i], column) != 0) i++;
    if (watched[i]) return true;
    const char *metric = strncmp(column, "val_", 4) == 0 ? column + 4 : column;
    const size_t digits = strncmp(metric, "top", 3) == 0 ? strspn(metric + 3, "0123456789") : 0;
    return digits > 0 && metric[3 + digits] == '\0';
}

/* The nearest column, or NULL. Where both begin with "val_", what follows is compared: all columns
 * of the test part would be near "val_x". */
static const char *nearest_column(const char *text)
{
    const char *name[sizeof watched / sizeof watched[0]];
    const size_t prefix = strncmp(text, "val_", 4) == 0 ? 4 : 0;
    size_t count = 0;
    for (int i = 0; watched[i]; i++)
        if (strncmp(watched[i], text, prefix) == 0) name[count++] = watched[i] + prefix;
    name[count] = NULL;
    const char *nearest = ls_nearest_name(text + prefix, name);
    return nearest ? nearest - prefix : NULL;
}

static ls_status unknown_column(const ls_option *option, const char *text)
{
    char what[200];
    const char *nearest = nearest_column(text);
    snprintf(what, sizeof what, "loss, accuracy, topK, precision, recall, f1, mse, mae or r2, or "
             "one of them after val_%s%s%s", nearest ? "; did you mean " : "",
             nearest ? nearest : "", nearest ? "?" : "");
    return ls_value_expected(option, text, what);
}

static ls_status read_column(const ls_option *option, const char *text, char *out)
{
    const size_t bytes = sizeof ((ls_config *)0)->monitor;
    if (strlen(text) >= bytes || (strcmp(text, "auto") != 0 && !is_watched(text)))
        return unknown_column(option, text);
    snprintf(out, bytes, "%s", text);
    return LS_OK;
}

static ls_status read_until(const ls_option *option, const char *text, ls_until *out)
{
    ls_until until = { .metric = "" };
    if (strcmp(text, option->zero) == 0) {
        *out = until;
        return LS_OK;
    }
    const size_t count = strcspn(text, "<>=");
    const char *p = text + count;
    until.at_least = *p == '>';
    if ((*p != '>' && *p != '<') || p[1] != '=' || count >= sizeof until.metric) {
        return ls_value_expected(option, text,
                                 "METRIC>=X or METRIC<=X, such as val_accuracy>=0.97");
    }
    p += 2;
    if (!ls_scan_real(&p, &until.value) || *p != '\0') {
        return ls_value_expected(option, text, "a number after >= or <=");
    }
    memcpy(until.metric, text, count);
    if (!is_watched(until.metric)) return unknown_column(option, until.metric);
    *out = until;
    return LS_OK;
}

static void write_until(const ls_option *option, const ls_until *until, char *out, size_t bytes)
{
    char number[LS_NUMBER_BYTES];
    ls_number_text(until->value, number);
    if (until->metric[0] == '\0') snprintf(out, bytes, "%s", option->zero);
    else snprintf(out, bytes, "%s%s%s", until->metric, until->at_least ? ">=" : "<=", number);
}

static void write_augment(const ls_augment *augment, char *out, size_t bytes)
{
    char text[LS_AUGMENT_TEXT_BYTES];
    ls_augment_write(augment, text);
    snprintf(out, bytes, "%s", text);
}

/* -- by type --------------------------------------------------------------------------------- */

ls_status ls_value_read(const ls_option *option, const char *text, void *field)
{
    switch (option->type) {
    case LS_VALUE_TEXT: return read_text(option, text, field);
    case LS_VALUE_COUNT:
    case LS_VALUE_BYTES: return read_count(option, text, field);
    case LS_VALUE_INT: return read_int(option, text, field);
    case LS_VALUE_REAL:
    case LS_VALUE_FRACTION: return read_real(option, text, field);
    case LS_VALUE_FLAG: return read_flag(option, text, field);
    case LS_VALUE_CHOICE: return read_choice(option, text, field);
    case LS_VALUE_SCHEDULE: return ls_schedule_read(option, text, field);
    case LS_VALUE_COLUMN: return read_column(option, text, field);
    case LS_VALUE_AUGMENT: return ls_augment_parse(text, field);
    default: return read_until(option, text, field);
    }
}

void ls_value_write(const ls_option *option, const void *field, char *out, size_t bytes)
{
    double number = 0;
    int place = 0;
    uint64_t count = 0;
    if (option->type == LS_VALUE_COUNT || option->type == LS_VALUE_BYTES) {
        memcpy(&count, field, sizeof count);
    } else if (option->type == LS_VALUE_INT || option->type == LS_VALUE_CHOICE) {
        memcpy(&place, field, sizeof place);
        count = (uint64_t)place;
    } else if (option->type == LS_VALUE_REAL || option->type == LS_VALUE_FRACTION) {
        memcpy(&number, field, sizeof number);
    }
    char digits[LS_NUMBER_BYTES];
    switch (option->type) {
    case LS_VALUE_TEXT:
    case LS_VALUE_COLUMN: snprintf(out, bytes, "%s", (const char *)field); return;
    case LS_VALUE_FLAG: snprintf(out, bytes, "%s", *(const bool *)field ? "yes" : "no"); return;
    case LS_VALUE_CHOICE: snprintf(out, bytes, "%s", option->choice[place]); return;
    case LS_VALUE_SCHEDULE: ls_schedule_write(field, out, bytes); return;
    case LS_VALUE_AUGMENT: write_augment(field, out, bytes); return;
    case LS_VALUE_UNTIL: write_until(option, field, out, bytes); return;
    default: break;
    }
    if (option->zero && count == 0 && number == 0) {
        snprintf(out, bytes, "%s", option->zero);
    } else if (option->type == LS_VALUE_BYTES) {
        write_bytes(count, out, bytes);
    } else if (option->type == LS_VALUE_REAL || option->type == LS_VALUE_FRACTION) {
        ls_number_text(number, digits);
        snprintf(out, bytes, "%s", digits);
    } else {
        snprintf(out, bytes, "%" PRIu64, count);
    }
}
