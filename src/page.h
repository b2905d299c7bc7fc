/* SPDX-License-Identifier: MIT */
/* page.h -- a text that grows while it is printed: what a command shows, made where it is known.
 *
 *     ls_page page;
 *     LS_TRY(ls_page_begin(&page));
 *     fprintf(page.out, ...);
 *     return ls_page_end(&page, text);
 *
 * A lack of memory on the way is told at the end, so that printing needs no checks.
 *
 * Thread rule: a page belongs to one thread.
 */
#ifndef LS_PAGE_H
#define LS_PAGE_H

#include <stdio.h>

#include "status.h"

typedef struct {
    FILE *out;      /* to print to */
    char *text;     /* the rest is ours */
    size_t bytes;
} ls_page;

/* Errors: MEMORY; then there is nothing to end. */
LS_MUST_USE ls_status ls_page_begin(ls_page *page);

/* Owns: *text is the caller's to free; NULL after an error. Errors: MEMORY. */
LS_MUST_USE ls_status ls_page_end(ls_page *page, char **text);

#endif
