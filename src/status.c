/* SPDX-License-Identifier: MIT */
/* status.c -- the record of a thread's last failure, and what a code is called.
 *
 * One record per thread: text and place. A text is written into a local buffer first and moved
 * into the record whole, because its arguments may be the old record's text
 * (ls_fail(code, "%s: %s", path, ls_last_error())).
 *
 * Texts quote names and values from files that anybody may have written. Bytes that could steer
 * a terminal (the C0 controls but tab and newline, and DEL) are shown as '?'; a text that does not
 * fit ends in "...".
 *
 * Thread rule: no state is shared.
 */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local ls_record last;

static void text_make_printable(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c != '\0'; c++)
        if ((*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f) *c = '?';
}

/* `length`: what snprintf returned for `text`, a buffer of LS_MESSAGE_BYTES. */
static void text_mark_cut(char *text, int length)
{
    if (length >= LS_MESSAGE_BYTES) memcpy(text + LS_MESSAGE_BYTES - 4, "...", 4);
}

ls_status ls_fail_at(const char *file, int line, ls_status code, const char *format, ...)
{
    ls_record made;
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(made.text, sizeof made.text, format, arguments);
    va_end(arguments);
    text_mark_cut(made.text, length);
    text_make_printable(made.text);
    (void)snprintf(made.place, sizeof made.place, "%.200s:%d", file, line);
    last = made;
    return code;
}

const char *ls_last_error(void) { return last.text; }

const char *ls_last_error_place(void) { return last.place; }

ls_status ls_fail_again(ls_status code, const char *text, const char *place)
{
    ls_record made;
    text_mark_cut(made.text, snprintf(made.text, sizeof made.text, "%s", text));
    (void)snprintf(made.place, sizeof made.place, "%.255s", place);
    last = made;
    return code;
}

ls_status ls_fail_before(ls_status code, const char *words)
{
    char text[LS_MESSAGE_BYTES];
    text_mark_cut(text, snprintf(text, sizeof text, "%s%s", words, last.text));
    memcpy(last.text, text, sizeof text);
    return code;
}

void ls_record_keep(ls_record *out) { *out = last; }

void ls_record_restore(const ls_record *record) { last = *record; }

int ls_exit_code(ls_status code)
{
    switch (code) {
    case LS_OK: return 0;
    case LS_ERR_ARGUMENT: return 2;
    case LS_ERR_FORMAT: return 3;
    case LS_ERR_VERIFY: return 4;
    case LS_ERR_DEVICE:
    case LS_ERR_TIMEOUT:
    case LS_ERR_DIVERGED: return 5;
    case LS_ERR_MEMORY:
    case LS_ERR_IO:
    case LS_ERR_NONFINITE:
    case LS_ERR_ABORTED: return 1;
    }
    return 1;
}

const char *ls_status_name(ls_status code)
{
    switch (code) {
    case LS_OK: return "OK";
    case LS_ERR_ARGUMENT: return "ARGUMENT";
    case LS_ERR_FORMAT: return "FORMAT";
    case LS_ERR_VERIFY: return "VERIFY";
    case LS_ERR_DEVICE: return "DEVICE";
    case LS_ERR_TIMEOUT: return "TIMEOUT";
    case LS_ERR_DIVERGED: return "DIVERGED";
    case LS_ERR_MEMORY: return "MEMORY";
    case LS_ERR_IO: return "IO";
    case LS_ERR_NONFINITE: return "NONFINITE";
    case LS_ERR_ABORTED: return "ABORTED";
    }
    return "UNKNOWN";
}
