/* SPDX-License-Identifier: MIT */
/* row_merge.c -- plan the merges of the shards' rows, by running the tree on their counts.
 *
 * The stack of counts has an entry for every node, also for those without values. The stack that
 * a kernel follows is the same one without them: a merge with an empty node leaves it as it is.
 */
#include "kernels/row_merge.h"

#include <assert.h>
#include <string.h>

static_assert(LS_SHARD_MAX <= 1 << (LS_ROW_MERGE_DEPTH - 1), "the stack holds every shard count");

void ls_row_merge_init(ls_row_merge *merge, int shard_count, const size_t *n)
{
    size_t stack[LS_SHARD_MAX];
    int depth = 0, merges = 0;
    memset(merge, 0, sizeof *merge);
    for (int s = 0; s < shard_count; s++) {
        stack[depth++] = n[s];
        if (n[s] > 0) {
            merge->n[merge->row_count] = (float)n[s];
            merge->row[merge->row_count++] = (unsigned char)s;
        }
        for (int k = ls_tree_adds_after((size_t)s, (size_t)shard_count); k > 0; k--) {
            const size_t b = stack[--depth], a = stack[depth - 1];
            stack[depth - 1] = a + b;
            if (a == 0 || b == 0) continue;
            const float fraction = (float)b / (float)(a + b);
            merge->fraction[merges] = fraction;
            merge->weight[merges++] = (float)a * fraction;
            merge->adds[merge->row_count - 1]++;
        }
    }
    merge->total = (float)stack[0];
}
