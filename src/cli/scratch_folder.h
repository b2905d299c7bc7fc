/* SPDX-License-Identifier: MIT */
/* scratch_folder.h -- a folder for what a command needs only while it runs. */
#ifndef LS_CLI_SCRATCH_FOLDER_H
#define LS_CLI_SCRATCH_FOLDER_H

#include <stddef.h>

#include "status.h"

/* Make `wanted`, which must not exist or be empty, or, if it is "", a new folder under TMPDIR (else
 * the system's folder for temporary files). Errors: IO (why), ARGUMENT (`wanted` is not
 * empty; `out` too small). */
LS_MUST_USE ls_status ls_scratch_folder_make(const char *wanted, char *out, size_t bytes);

/* Remove a folder and what is in it; does not follow links. Best effort: what stays is no error. */
void ls_scratch_folder_remove(const char *path);

#endif
