/* SPDX-License-Identifier: MIT */
/* page.c -- see page.h. A stream into memory (POSIX open_memstream). */
#include "page.h"

#include <stdbool.h>
#include <stdlib.h>

ls_status ls_page_begin(ls_page *page)
{
    *page = (ls_page){ .out = NULL };
    page->out = open_memstream(&page->text, &page->bytes);
    return page->out ? LS_OK : ls_fail(LS_ERR_MEMORY, "no memory for a page of text");
}

ls_status ls_page_end(ls_page *page, char **text)
{
    const int failed = ferror(page->out);
    *text = NULL;
    const bool closed = fclose(page->out) == 0;
    if (!closed || failed || !page->text) { /* NULL: glibc, without memory for the last piece */
        free(page->text);
        return ls_fail(LS_ERR_MEMORY, "no memory for more than %zu bytes of a page", page->bytes);
    }
    *text = page->text;
    return LS_OK;
}
