/* SPDX-License-Identifier: MIT */
/* driver_config.c -- reads LOCKSTEP_VGPU_* (driver_config.h, README.md).
 *
 * Each variable has a default, so that a program which sets nothing sees two devices. A value that
 * is not understood is an error and never the default: a test that misspells its fault must not
 * pass without it.
 */
#include "driver_config.h"

#include "cuda_abi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* Where the value of a variable is being read. */
typedef struct {
    const char *name;
    const char *text; /* the whole value */
    const char *at;   /* the part not yet read */
    char *why;
    size_t why_bytes;
} reader;

static bool refuse(const reader *r, const char *expected)
{
    snprintf(r->why, r->why_bytes, "%s=%s: at \"%s\": expected %s", r->name, r->text, r->at,
             expected);
    return false;
}

/* Is `word` next? Then it is read. */
static bool take(reader *r, const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(r->at, word, length) != 0) return false;
    r->at += length;
    return true;
}

static bool read_number(reader *r, uint64_t least, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    if (r->at[0] < '0' || r->at[0] > '9') return refuse(r, "a number");
    *out = strtoull(r->at, &end, 10);
    if (errno != 0 || *out < least || *out > most) return refuse(r, "a number within limits");
    r->at = end;
    return true;
}

/* 65536, 64K, 512M, 2G. */
static bool read_bytes(reader *r, uint64_t *out)
{
    if (!read_number(r, 0, UINT64_C(1) << 40, out)) return false;
    const int shift = take(r, "K") ? 10 : take(r, "M") ? 20 : take(r, "G") ? 30 : 0;
    *out <<= shift;
    return *out <= UINT64_C(1) << 36 || refuse(r, "at most 64G");
}

/* The end of one element of a list; *more: another follows. */
static bool read_separator(reader *r, bool *more)
{
    *more = take(r, ",");
    return *more || *r->at == '\0' || refuse(r, "a comma or the end");
}

static bool read_device(reader *r, const vgpu_config *config, int *out)
{
    uint64_t ordinal;
    if (!read_number(r, 0, UINT64_MAX, &ordinal)) return false;
    if (ordinal >= (uint64_t)config->devices) return refuse(r, "the ordinal of a device");
    *out = (int)ordinal;
    return true;
}

/* 80 or 75,80,90: the last one holds for all further devices. */
static bool read_capabilities(reader *r, vgpu_config *config)
{
    static const int known[] = { 70, 75, 80, 86, 89, 90, 100, 120 };
    bool more = true;
    for (int d = 0; more; d++) {
        uint64_t value;
        bool found = false;
        if (d >= VGPU_MAX_DEVICES) return refuse(r, "fewer capabilities");
        if (!read_number(r, 0, 999, &value)) return false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= known[i] == (int)value;
        if (!found) return refuse(r, "70, 75, 80, 86, 89, 90, 100 or 120 before this");
        for (int later = d; later < VGPU_MAX_DEVICES; later++)
            config->capability[later] = (int)value;
        if (!read_separator(r, &more)) return false;
    }
    return true;
}

static void set_all_access(vgpu_config *config, bool value)
{
    for (int a = 0; a < VGPU_MAX_DEVICES; a++)
        for (int b = 0; b < VGPU_MAX_DEVICES; b++)
            config->access[a][b] = value && a != b;
}

/* all | none | [!]A-B (both ways) | [!]A>B (A has access to B), from left to right. */
static bool read_access(reader *r, vgpu_config *config)
{
    bool more = true;
    while (more) {
        if (take(r, "all")) {
            set_all_access(config, true);
        } else if (take(r, "none")) {
            set_all_access(config, false);
        } else {
            const bool value = !take(r, "!");
            int a, b;
            if (!read_device(r, config, &a)) return false;
            const bool both = take(r, "-");
            if (!both && !take(r, ">")) return refuse(r, "A-B or A>B");
            if (!read_device(r, config, &b)) return false;
            if (a == b) return refuse(r, "two devices before this");
            config->access[a][b] = value;
            if (both) config->access[b][a] = value;
        }
        if (!read_separator(r, &more)) return false;
    }
    return true;
}

static bool is_entry_point(const char *name)
{
#define NAME(symbol, type, parameters) #symbol,
    static const char *const names[] = { VGPU_ENTRY_POINTS(NAME) };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* call@n=result | call@n+=result (n and later) | call@*=result */
static bool read_failures(reader *r, vgpu_config *config)
{
    bool more = true;
    while (more) {
        if (config->failure_count == VGPU_MAX_FAILURES) return refuse(r, "fewer failures");
        vgpu_failure *f = &config->failures[config->failure_count++];
        const size_t length = strcspn(r->at, "@,=");
        if (length == 0 || length >= sizeof f->call) return refuse(r, "an entry point");
        memcpy(f->call, r->at, length);
        f->call[length] = '\0';
        if (!is_entry_point(f->call)) return refuse(r, "an entry point");
        r->at += length;
        if (!take(r, "@")) return refuse(r, "@");
        uint64_t first = 1, result;
        const bool every = take(r, "*");
        if (!every && !read_number(r, 1, UINT32_MAX, &first)) return false;
        f->first = (unsigned long)first;
        f->last = every || take(r, "+") ? (unsigned long)-1 : f->first;
        if (!take(r, "=")) return refuse(r, "= and a result");
        if (!read_number(r, 1, 999, &result)) return false;
        f->result = (int)result;
        if (!read_separator(r, &more)) return false;
    }
    return true;
}

/* A>B:drop|flip|zero|slow=US|hang[@n] */
static bool read_links(reader *r, vgpu_config *config)
{
    bool more = true;
    while (more) {
        if (config->link_count == VGPU_MAX_LINK_FAULTS) return refuse(r, "fewer faults");
        vgpu_link_rule *l = &config->links[config->link_count++];
        uint64_t number = 1;
        if (!read_device(r, config, &l->from)) return false;
        if (!take(r, ">")) return refuse(r, ">");
        if (!read_device(r, config, &l->to)) return false;
        if (!take(r, ":")) return refuse(r, ": and a fault");
        l->fault = take(r, "drop") ? VGPU_LINK_DROP
                   : take(r, "flip") ? VGPU_LINK_FLIP
                   : take(r, "zero") ? VGPU_LINK_ZERO
                   : take(r, "hang") ? VGPU_LINK_HANG
                   : take(r, "slow=") ? VGPU_LINK_SLOW
                                      : VGPU_LINK_SOUND;
        if (l->fault == VGPU_LINK_SOUND) return refuse(r, "drop, flip, zero, slow=US or hang");
        if (l->fault == VGPU_LINK_SLOW) {
            if (!read_number(r, 0, 60000000, &number)) return false;
            l->microseconds = (unsigned)number;
        }
        number = 1;
        if (take(r, "@") && !read_number(r, 1, UINT32_MAX, &number)) return false;
        l->first = (unsigned long)number;
        if (!read_separator(r, &more)) return false;
    }
    return true;
}

/* Opens the reader on LOCKSTEP_VGPU_<name>; false: not set, the default stays. */
static bool find(reader *r, const char *name)
{
    r->name = name;
    r->text = r->at = getenv(name);
    return r->text != NULL;
}

static bool number(reader *r, const char *name, uint64_t least, uint64_t most, uint64_t *value)
{
    if (!find(r, name)) return true;
    if (!read_number(r, least, most, value)) return false;
    return *r->at == '\0' || refuse(r, "the end");
}

static bool bytes(reader *r, const char *name, size_t *value)
{
    uint64_t wide;
    if (!find(r, name)) return true;
    if (!read_bytes(r, &wide)) return false;
    *value = (size_t)wide;
    return *r->at == '\0' || refuse(r, "the end");
}

static bool flag(reader *r, const char *name, bool *value)
{
    uint64_t wide = *value;
    if (!number(r, name, 0, 1, &wide)) return false;
    *value = wide != 0;
    return true;
}

static bool count(reader *r, const char *name, int least, int most, int *value)
{
    uint64_t wide = (uint64_t)*value;
    if (!number(r, name, (uint64_t)least, (uint64_t)most, &wide)) return false;
    *value = (int)wide;
    return true;
}

static bool read_sticky(reader *r, vgpu_config *config)
{
    config->fault_ends_process = take(r, "process");
    if (!config->fault_ends_process && !take(r, "device")) return refuse(r, "device or process");
    return *r->at == '\0' || refuse(r, "the end");
}

/* All of the value. */
static bool text(reader *r, const char *name, char *value, size_t value_bytes)
{
    if (!find(r, name)) return true;
    if (strlen(r->text) >= value_bytes) return refuse(r, "a shorter text");
    memcpy(value, r->text, strlen(r->text) + 1);
    return true;
}

/* A variable of ours that nobody reads is misspelled. */
static bool check_names(const reader *r)
{
    static const char *const known[] = {
        "DEVICES", "VERSION",  "CAPABILITY", "MEMORY", "OTHERS", "PINNED", "SM",     "NAME",
        "P2P",     "PARTNERS", "SEED",       "JITTER", "STRICT", "RACES",  "STICKY",
        "BUDGET",  "THREADS",  "TRACE",      "FAIL",   "LINKS",  "LIBRARY", /* of the tests */
    };
    static const char prefix[] = "LOCKSTEP_VGPU_";
    for (char **variable = environ; *variable != NULL; variable++) {
        if (strncmp(*variable, prefix, sizeof prefix - 1) != 0) continue;
        const char *name = *variable + sizeof prefix - 1;
        const size_t length = strcspn(name, "=");
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= strlen(known[i]) == length && strncmp(known[i], name, length) == 0;
        if (found) continue;
        snprintf(r->why, r->why_bytes, "%s: README.md lists no such variable", *variable);
        return false;
    }
    return true;
}

bool vgpu_config_read(vgpu_config *c, char *why, size_t why_bytes)
{
    reader reading = { .why = why, .why_bytes = why_bytes }, *const r = &reading;
    int jitter = 0, threads = 1;
    if (!check_names(r)) return false;
    *c = (vgpu_config){ .devices = 2,
                        .driver_version = 13000,
                        .memory_bytes = (size_t)1 << 30,
                        .pinned_bytes = (size_t)1 << 30,
                        .multiprocessors = 4,
                        .partners = 8,
                        .seed = 1,
                        .strict = true,
                        .races = true,
                        .instruction_budget = UINT64_C(20000000000) };
    for (int d = 0; d < VGPU_MAX_DEVICES; d++) c->capability[d] = 80;
    set_all_access(c, true);
    if (!count(r, "LOCKSTEP_VGPU_DEVICES", 0, VGPU_MAX_DEVICES, &c->devices)) return false;
    if (!text(r, "LOCKSTEP_VGPU_NAME", c->name, sizeof c->name)) return false;
    if (!count(r, "LOCKSTEP_VGPU_VERSION", 0, 99999, &c->driver_version)) return false;
    if (find(r, "LOCKSTEP_VGPU_CAPABILITY") && !read_capabilities(r, c)) return false;
    if (!bytes(r, "LOCKSTEP_VGPU_MEMORY", &c->memory_bytes)) return false;
    if (!bytes(r, "LOCKSTEP_VGPU_OTHERS", &c->others_bytes)) return false;
    if (c->others_bytes > c->memory_bytes) return refuse(r, "at most LOCKSTEP_VGPU_MEMORY");
    if (!bytes(r, "LOCKSTEP_VGPU_PINNED", &c->pinned_bytes)) return false;
    if (!count(r, "LOCKSTEP_VGPU_SM", 1, 256, &c->multiprocessors)) return false;
    if (find(r, "LOCKSTEP_VGPU_P2P") && !read_access(r, c)) return false;
    if (!count(r, "LOCKSTEP_VGPU_PARTNERS", 0, VGPU_MAX_DEVICES, &c->partners)) return false;
    if (!number(r, "LOCKSTEP_VGPU_SEED", 0, UINT64_MAX, &c->seed)) return false;
    if (!count(r, "LOCKSTEP_VGPU_JITTER", 0, 1000000, &jitter)) return false;
    if (!flag(r, "LOCKSTEP_VGPU_STRICT", &c->strict)) return false;
    if (!flag(r, "LOCKSTEP_VGPU_RACES", &c->races)) return false;
    if (find(r, "LOCKSTEP_VGPU_STICKY") && !read_sticky(r, c)) return false;
    if (!number(r, "LOCKSTEP_VGPU_BUDGET", 1, UINT64_MAX, &c->instruction_budget)) return false;
    if (!count(r, "LOCKSTEP_VGPU_THREADS", 1, 64, &threads)) return false;
    if (!text(r, "LOCKSTEP_VGPU_TRACE", c->trace, sizeof c->trace)) return false;
    if (find(r, "LOCKSTEP_VGPU_FAIL") && !read_failures(r, c)) return false;
    if (find(r, "LOCKSTEP_VGPU_LINKS") && !read_links(r, c)) return false;
    c->jitter_us = (unsigned)jitter;
    c->kernel_threads = (unsigned)threads;
    return true;
}
