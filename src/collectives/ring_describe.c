/* SPDX-License-Identifier: MIT */
/* ring_describe.c -- the schedule of ring.c and tree.c as a page of text.
 *
 * `lockstep show ring N` prints it. Nothing is written down twice: every line comes from the same
 * functions that the all-reduce asks, so the page is what is run, for the ring 0, 1, 2, ...
 *
 * A sum is written as the tree forms it: `(0-1 + 2-3)` is the node over shards 0 to 3, made from
 * its two halves. The text is made by running the stop's stack program on words instead of floats.
 */
#include "collectives/ring.h"

#include <assert.h>
#include <stdio.h>

#include "collectives/tree.h"
#include "page.h"
#include "plural.h"

enum {
    TABLE_RANKS_MAX = 32,    /* above this a row of the table no longer fits a screen */
    JOURNEY_RANKS_MAX = 8,   /* above this only chunk 0's journey is printed */
    STACK_ENTRIES_MAX = 2 * LS_FOLD_MERGE_MAX,
    SUM_BYTES_MAX = 1024     /* 64 sources of at most 5 letters, 63 x "( + )" */
};

/* "3" or "4-7". */
static const char *node_name(ls_node node, char *text, size_t bytes)
{
    if (node.count == 1) snprintf(text, bytes, "%d", node.begin);
    else snprintf(text, bytes, "%d-%d", node.begin, node.begin + node.count - 1);
    return text;
}

static void print_nodes(FILE *page, const ls_node *node, int count)
{
    for (int i = 0; i < count; i++) {
        char name[16];
        fprintf(page, "%s%s", i > 0 ? "  " : "", node_name(node[i], name, sizeof name));
    }
}

/* The sum that piece m of `stop` is, "((0-1 + 2-3) + 4-7)"; a piece that passes is its name. */
static void print_sum(FILE *page, const ls_tree_stop *stop, int m)
{
    char stack[STACK_ENTRIES_MAX][SUM_BYTES_MAX], sum[2 * SUM_BYTES_MAX + 8];
    int height = 0;
    for (int k = stop->first[m]; k < stop->first[m + 1]; k++) {
        const int source = stop->source[k];
        const ls_node node = source < stop->in_count ? stop->in[source]
                                                     : stop->own[source - stop->in_count];
        assert(height < STACK_ENTRIES_MAX);
        node_name(node, stack[height++], SUM_BYTES_MAX);
        for (int add = 0; add < stop->adds[k]; add++) {
            height--;
            snprintf(sum, sizeof sum, "(%s + %s)", stack[height - 1], stack[height]);
            snprintf(stack[height - 1], SUM_BYTES_MAX, "%.*s", SUM_BYTES_MAX - 1, sum);
        }
    }
    fputs(stack[0], page);
}

/* The table of ring.c's head. */
static void print_table(FILE *page, int world_size)
{
    fprintf(page, "Chunk that each rank sends to the next one:\n\n  step      ");
    for (int rank = 0; rank < world_size; rank++) fprintf(page, " %4s%d", "r", rank);
    fputc('\n', page);
    for (int step = 0; step < ls_ring_step_count(world_size); step++) {
        fprintf(page, "  %3d  %s", step, step < world_size - 1 ? "ADD  " : "COPY ");
        for (int rank = 0; rank < world_size; rank++) {
            fprintf(page, " %*d", rank < 10 ? 5 : 6,
                    ls_ring_move_at(rank, step, world_size).send_chunk);
        }
        fputc('\n', page);
    }
}

/* "r3 sends   ", in a column as wide as the largest rank's name. */
static void print_actor(FILE *page, const char *when, int rank, const char *verb)
{
    fprintf(page, "  %-7s  r%d %-6s  %s", when, rank, verb, rank < 10 ? " " : "");
}

/* What arrives at each stop of `chunk`, what is added, what leaves. */
static void print_journey(FILE *page, int world_size, int shard_count, const int *ring, int chunk)
{
    fprintf(page, "\nchunk %d\n", chunk);
    for (int i = 0; i < world_size; i++) {
        const int rank = ring[(chunk + 1 + i) % world_size];
        char when[16] = "";
        ls_tree_stop stop;
        ls_tree_stop_exact(&stop, shard_count, world_size, ring, chunk, i);
        if (i > 0) {
            snprintf(when, sizeof when, "step %2d", i - 1);
            print_actor(page, when, ring[(chunk + i) % world_size], "sends");
            print_nodes(page, stop.in, stop.in_count);
            fputc('\n', page);
            print_actor(page, "", rank, "brings");
            print_nodes(page, stop.own, stop.own_count);
            fputc('\n', page);
        }
        print_actor(page, i > 0 ? "" : "start", rank, "has");
        for (int m = 0; m < stop.out_count; m++) {
            if (m > 0) fputs("  ", page);
            print_sum(page, &stop, m);
        }
        fputc('\n', page);
    }
}

static void print_page(FILE *page, int world_size, int shard_count)
{
    int ring[LS_SHARD_MAX];
    fprintf(page, "Ring of %d rank%s, %d shard%s, %d ring steps.\n\n", world_size,
            LS_PLURAL(world_size), shard_count, LS_PLURAL(shard_count),
            ls_ring_step_count(world_size));
    for (int rank = 0; rank < world_size; rank++) {
        ring[rank] = rank;
        const int begin = ls_rank_shard_begin(rank, shard_count, world_size);
        const int end = ls_rank_shard_begin(rank + 1, shard_count, world_size);
        char name[16];
        fprintf(page, "  r%-2d owns shard%s %s\n", rank, end - begin == 1 ? " " : "s",
                node_name((ls_node){ begin, end - begin }, name, sizeof name));
    }
    if (world_size == 1) {
        fputs("\nOne rank: nothing is sent.\n", page);
        return;
    }
    fputc('\n', page);
    if (world_size <= TABLE_RANKS_MAX) print_table(page, world_size);
    else fprintf(page, "At each step rank r sends chunk r-1-step (mod %d) to r+1.\n", world_size);
    fprintf(page,
            "\nSteps 0 to %d ADD: what travels is sums over shards; `a-b` is the sum over shards"
            " a to b.\nSteps %d to %d COPY: the finished chunks go round once more, unchanged.\n",
            world_size - 2, world_size - 1, 2 * world_size - 3);
    const int chunks = world_size <= JOURNEY_RANKS_MAX ? world_size : 1;
    for (int chunk = 0; chunk < chunks; chunk++) {
        print_journey(page, world_size, shard_count, ring, chunk);
    }
    if (chunks < world_size) fputs("\nThe other chunks travel alike, from rank chunk+1.\n", page);
}

ls_status ls_ring_describe(int world_size, int shard_count, char **text)
{
    *text = NULL;
    if (shard_count < 1 || shard_count > LS_SHARD_MAX) {
        return ls_fail(LS_ERR_ARGUMENT, "--shards %d: want 1 to %d", shard_count, LS_SHARD_MAX);
    }
    if (world_size < 1 || world_size > shard_count) {
        return ls_fail(LS_ERR_ARGUMENT,
                       "a ring of %d ranks with --shards %d: want 1 to %d ranks, or more --shards",
                       world_size, shard_count, shard_count);
    }
    ls_page page;
    LS_TRY(ls_page_begin(&page));
    print_page(page.out, world_size, shard_count);
    return ls_page_end(&page, text);
}
