/* SPDX-License-Identifier: MIT */
/* nearest.h -- "did you mean": the known name that is closest to a mistyped one.
 *
 * Closeness is the Levenshtein distance: the least number of characters to insert, delete or
 * replace that turns one text into the other [V. I. Levenshtein, "Binary codes capable of
 * correcting deletions, insertions, and reversals", Soviet Physics Doklady 10, 1966].
 */
#ifndef LS_NEAREST_H
#define LS_NEAREST_H

/* The name nearest to `text` among names[] (ended by NULL; the first of equals), or NULL if none
 * is within a third of its characters, rounded up. A name that `text`, of three characters or more,
 * begins is as near as one slip; one of three or more that begins `text` is just near enough.
 * Case does not count. Pure. */
const char *ls_nearest_name(const char *text, const char *const *names);

#endif
