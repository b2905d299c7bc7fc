/* SPDX-License-Identifier: MIT */
/* data_file.h -- one file of a data set, mapped into memory.
 *
 * Opening answers what no format can read: a file that is absent, or there only as .gz (with the
 * command that unpacks it), and contents of another kind: gzip, zip, HTML, UTF-16.
 *
 * The file must not be changed while it is open: one that is cut short under the map ends the
 * program with SIGBUS.
 */
#ifndef LS_IO_DATA_FILE_H
#define LS_IO_DATA_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

typedef struct {
    char *path;                /* owned: as given */
    const unsigned char *data; /* owned: the map; NULL where bytes is 0 */
    size_t bytes;
} ls_data_file;

/* `expected` names the right contents in messages ("CIFAR-10 records").
 * Errors: FORMAT (absent, unreadable, empty, packed or of another kind), MEMORY. */
LS_MUST_USE ls_status ls_data_file_open(const char *path, const char *expected, ls_data_file *out);
void ls_data_file_close(ls_data_file *file); /* accepts an all-zero struct */

/* Is `path`, or `path`.gz, there? */
bool ls_data_file_is_there(const char *path);

#endif
