/* SPDX-License-Identifier: MIT */
/* data_file.h -- one file of a data set, mapped into memory.
 *
 * Opening answers what no format can read: a file that is absent, or there only as .gz (with the
 * command that unpacks it), and contents of another kind: gzip, zip, HTML, UTF-16.
 *
 * A map takes no memory of the process's own, but what was read of it stays resident until the
 * system needs the room. So that a file larger than the memory can be walked through, and samples
 * picked from it, at a few megabytes resident, three functions tell the system what is coming and
 * what is done with. They are advice: they change nothing that is read, and cannot fail. A fourth
 * reads past the map.
 *
 * The file must not be changed while it is open: one that is cut short under the map ends the
 * program with SIGBUS (cli/cut_file.h says of which file).
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
    int descriptor;            /* owned: open for reading; of a file without a map unspecified */
} ls_data_file;

/* `expected` names the right contents in messages ("CIFAR-10 records").
 * Errors: FORMAT (absent, empty, packed or of another kind), IO (there, and cannot be read),
 * MEMORY. */
LS_MUST_USE ls_status ls_data_file_open(const char *path, const char *expected, ls_data_file *out);
void ls_data_file_close(ls_data_file *file); /* accepts an all-zero struct */

/* How a file will be read from now on: front to back, or here and there. */
void ls_data_file_expect(const ls_data_file *file, bool in_order);

/* `bytes` bytes of the file, at `at` in its map: will be read soon, so the system may bring them
 * in; were read there, and need not stay resident (other threads may read them still). */
void ls_data_file_want(const ls_data_file *file, const void *at, size_t bytes);
void ls_data_file_forget(const ls_data_file *file, const void *at, size_t bytes);

/* Copy them to `to`, from the file and not through the map: no page of it becomes resident. */
void ls_data_file_read(const ls_data_file *file, const void *at, size_t bytes, void *to);

/* Is `path`, or `path`.gz, there? */
bool ls_data_file_is_there(const char *path);

#endif
