/* SPDX-License-Identifier: MIT */
/* plural.h -- the end of a word that is counted: "1 epoch", "2 epochs".
 *
 *     printf("%zu epoch%s", epochs, LS_PLURAL(epochs))
 *
 * Pure. A macro, because what is counted has many types.
 */
#ifndef LS_PLURAL_H
#define LS_PLURAL_H

#define LS_PLURAL(count) ((count) == 1 ? "" : "s")

#endif
