/* SPDX-License-Identifier: MIT */
/* split.c -- see split.h: of the cuts into up to four tasks a thread, the one that an estimate
 * likes best. */
#include "kernels/host/split.h"

#include "sizes.h"

/* Multiplications per cycle of one thread, roughly. */
static const double WORK_PER_CYCLE = 2.0 * LS_LANES;
/* How much longer a cut into more rows may take by this estimate, where rows come first. (Measured
 * on two threads: a step of mnist-mlp takes 0.92 of the time at batch 64.) */
static const double ROWS_FIRST = 1.1;

/* Estimated cycles until the last of `threads` threads is done. */
static double split_time(const ls_split_problem *p, ls_split split, int threads)
{
    const double rows = (double)(ls_ceil_div(p->row_tiles, split.row_parts) * p->tile_rows);
    const double columns = (double)(ls_ceil_div(p->column_tiles, split.column_parts)
                                    * LS_TILE_COLUMNS);
    const double rounds = (double)ls_ceil_div(ls_split_tasks(split), (size_t)threads);
    const double part = rows * columns / WORK_PER_CYCLE + columns * p->pack_cost
                        + rows * p->row_cost;
    /* One round leaves a thread that was disturbed nobody to take over from it. */
    return part * (double)p->depth * (rounds + 0.1);
}

ls_split LS_HOST(split)(const ls_split_problem *p, int threads)
{
    const size_t row_min = ls_ceil_div(p->row_tiles, p->row_tiles_max);
    const size_t column_min = ls_ceil_div(p->column_tiles, p->column_tiles_max);
    ls_split best = {row_min, column_min};
    const double work = (double)(p->row_tiles * p->column_tiles)
                        * (double)(p->tile_rows * LS_TILE_COLUMNS) * (double)p->depth;
    if (threads == 1 || work < LS_TASK_WORK_MIN) return best;
    const size_t most = 4 * (size_t)threads;
    double least = split_time(p, best, threads);
    for (size_t r = row_min; r <= ls_min_size(p->row_tiles, row_min * most); r++) {
        for (size_t c = column_min; c <= ls_min_size(p->column_tiles, column_min * most); c++) {
            if (r * c > row_min * column_min * most) break;
            const ls_split split = {r, c};
            const double time = split_time(p, split, threads);
            const double allowed = p->rows_first && r > best.row_parts ? ROWS_FIRST : 1;
            if (time < allowed * least) best = split;
            if (time < least) least = time;
        }
    }
    return best;
}
