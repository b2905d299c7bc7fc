/* SPDX-License-Identifier: MIT */
/* config_schedule.c -- a schedule from text, and back: the values of --schedule.
 *
 * One function per kind reads what stands after the kind's name and returns whether it is all
 * right; one table says which kinds there are, in the order of ls_schedule_kind. What a schedule
 * does is schedule.c's matter.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "nearest.h"
#include "train/config_value.h"

/* -- reading: p is what follows the kind's name ------------------------------------------------ */

static bool scan_constant(const char *p, ls_schedule *s)
{
    (void)s;
    return *p == '\0';
}

/* ":COUNT" at *p, which moves past it; COUNT is not 0. */
static bool scan_length(const char **p, uint64_t *out)
{
    if (**p != ':') return false;
    (*p)++;
    return ls_scan_count(p, out) && *out > 0;
}

/* ",X" at *p, which moves past it; X is from low to high. */
static bool scan_number(const char **p, double low, double high, double *out)
{
    if (**p != ',') return false;
    (*p)++;
    return ls_scan_real(p, out) && *out >= low && *out <= high;
}

static bool scan_step(const char *p, ls_schedule *s)
{
    return scan_length(&p, &s->every) && scan_number(&p, 0, 1, &s->factor) && s->factor > 0
           && *p == '\0';
}

static bool scan_cosine(const char *p, ls_schedule *s)
{
    if (*p == '\0') return true;
    if (!scan_length(&p, &s->steps)) return false;
    return *p == '\0' || (scan_number(&p, 0, 1, &s->final) && *p == '\0');
}

static bool scan_exponential(const char *p, ls_schedule *s)
{
    if (!scan_length(&p, &s->steps) || !scan_number(&p, 1e-9, 1e9, &s->factor)) return false;
    s->staircase = strcmp(p, ",staircase") == 0;
    return *p == '\0' || s->staircase;
}

static bool scan_polynomial(const char *p, ls_schedule *s)
{
    s->power = 1;
    if (!scan_length(&p, &s->steps) || !scan_number(&p, 0, 1e6, &s->final)) return false;
    return *p == '\0' || (scan_number(&p, 1e-3, 64, &s->power) && *p == '\0');
}

/* "STEP=RATE" or, as the entry of the next step, "RATE" at *p, which moves past it. */
static bool scan_entry(const char **p, bool has_step, ls_schedule *s)
{
    if (s->entry_count == LS_RATE_ENTRIES_MAX) return false;
    ls_rate_entry *entry = &s->entry[s->entry_count];
    entry->step = (uint64_t)s->entry_count;
    if (has_step && (!ls_scan_count(p, &entry->step) || *(*p)++ != '=')) return false;
    if (!ls_scan_real(p, &entry->rate) || entry->rate < 0 || entry->rate > 1e6) return false;
    const bool ascends = s->entry_count == 0 ? entry->step == 0 : entry->step > entry[-1].step;
    s->entry_count++;
    return ascends;
}

/* The text must fit a line again when it is written. */
static bool scan_table(const char *p, ls_schedule *s)
{
    char text[LS_TEXT_BYTES];
    const bool has_steps = strchr(p, '=') != NULL;
    if (*p != ':') return false;
    do {
        p++;
        if (!scan_entry(&p, has_steps, s)) return false;
    } while (*p == ',');
    ls_schedule_write(s, text, sizeof text);
    return *p == '\0' && strlen(text) + 1 < sizeof text;
}

static const struct {
    const char *name;
    bool (*scan)(const char *p, ls_schedule *s);
    const char *expected;
} kinds[] = {
    [LS_SCHEDULE_CONSTANT] = { "constant", scan_constant, "constant, with nothing after it" },
    [LS_SCHEDULE_STEP] = { "step", scan_step, "step:EVERY,FACTOR, EVERY a number of updates from "
                           "1 and FACTOR above 0 and at most 1" },
    [LS_SCHEDULE_COSINE] = { "cosine", scan_cosine, "cosine, cosine:STEPS or cosine:STEPS,FINAL, "
                             "STEPS a number of updates from 1 and FINAL from 0 to 1" },
    [LS_SCHEDULE_EXPONENTIAL] = { "exponential", scan_exponential, "exponential:STEPS,RATE or "
                                  "exponential:STEPS,RATE,staircase, STEPS a number of updates "
                                  "from 1 and RATE above 0" },
    [LS_SCHEDULE_POLYNOMIAL] = { "polynomial", scan_polynomial, "polynomial:STEPS,END or "
                                 "polynomial:STEPS,END,POWER, STEPS a number of updates from 1, "
                                 "END a rate and POWER from 0.001 to 64" },
    [LS_SCHEDULE_TABLE] = { "table", scan_table, "table:RATE,RATE,... or "
                            "table:0=RATE,STEP=RATE,... with ascending steps, the first 0; at "
                            "most 64 entries in a line of 1000 characters" },
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static ls_status unknown_kind(const ls_option *option, const char *text, const char *kind)
{
    const char *names[KIND_COUNT + 1] = { NULL };
    char what[160];
    for (int k = 0; k < KIND_COUNT; k++) names[k] = kinds[k].name;
    const char *nearest = ls_nearest_name(kind, names);
    snprintf(what, sizeof what, "constant, step, cosine, exponential, polynomial or table%s%s%s",
             nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    return ls_value_expected(option, text, what);
}

ls_status ls_schedule_read(const ls_option *option, const char *text, ls_schedule *out)
{
    char kind[16];
    const size_t count = strcspn(text, ":");
    snprintf(kind, sizeof kind, "%.*s", (int)(count < sizeof kind ? count : sizeof kind - 1), text);
    for (int k = 0; k < KIND_COUNT; k++) {
        ls_schedule s = { .kind = (ls_schedule_kind)k, .factor = 1, .warmup = out->warmup };
        if (strcmp(kind, kinds[k].name) != 0) continue;
        if (!kinds[k].scan(text + count, &s))
            return ls_value_expected(option, text, kinds[k].expected);
        *out = s;
        return LS_OK;
    }
    return unknown_kind(option, text, kind);
}

/* -- writing ----------------------------------------------------------------------------------- */

/* Steps are left out where they count 0, 1, 2 ... */
static void write_table(const ls_schedule *s, char *out, size_t bytes)
{
    bool counts = true;
    for (int e = 0; e < s->entry_count; e++) counts = counts && s->entry[e].step == (uint64_t)e;
    size_t used = (size_t)snprintf(out, bytes, "table");
    for (int e = 0; e < s->entry_count && used < bytes; e++) {
        char number[LS_NUMBER_BYTES], step[32] = "";
        ls_number_text(s->entry[e].rate, number);
        if (!counts) snprintf(step, sizeof step, "%" PRIu64 "=", s->entry[e].step);
        used += (size_t)snprintf(out + used, bytes - used, "%c%s%s", e ? ',' : ':', step, number);
    }
}

void ls_schedule_write(const ls_schedule *s, char *out, size_t bytes)
{
    char factor[LS_NUMBER_BYTES], final[LS_NUMBER_BYTES], power[LS_NUMBER_BYTES];
    ls_number_text(s->factor, factor);
    ls_number_text(s->final, final);
    ls_number_text(s->power, power);
    switch (s->kind) {
    case LS_SCHEDULE_CONSTANT:
        snprintf(out, bytes, "constant");
        break;
    case LS_SCHEDULE_STEP:
        snprintf(out, bytes, "step:%" PRIu64 ",%s", s->every, factor);
        break;
    case LS_SCHEDULE_COSINE:
        if (s->steps == 0) snprintf(out, bytes, "cosine");
        else snprintf(out, bytes, "cosine:%" PRIu64 ",%s", s->steps, final);
        break;
    case LS_SCHEDULE_EXPONENTIAL:
        snprintf(out, bytes, "exponential:%" PRIu64 ",%s%s", s->steps, factor,
                 s->staircase ? ",staircase" : "");
        break;
    case LS_SCHEDULE_POLYNOMIAL:
        snprintf(out, bytes, "polynomial:%" PRIu64 ",%s,%s", s->steps, final, power);
        break;
    case LS_SCHEDULE_TABLE:
        write_table(s, out, bytes);
        break;
    }
}
