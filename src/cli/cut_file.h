/* SPDX-License-Identifier: MIT */
/* cut_file.h -- a mapped file that is cut short while it is read ends the program with a message.
 *
 * Data files are mapped (io/data_file.h). Where one is cut under its map, the next read beyond its
 * new end is a SIGBUS: the read cannot be made, nor taken back. Without a handler that is a death
 * without a word. What was saved before is whole (io/new_file.h).
 */
#ifndef LS_CLI_CUT_FILE_H
#define LS_CLI_CUT_FILE_H

/* From now on such a read, in any thread, names the file and exits with the code of LS_ERR_FORMAT.
 * Main thread, once, at the program's start. */
void ls_cut_file_catch(void);

#endif
