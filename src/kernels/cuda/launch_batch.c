/* SPDX-License-Identifier: MIT */
/* launch_batch.c -- sums over the samples of a batch on a GPU: how slices are dealt to blocks.
 *
 * One sum of a batch is few numbers made of many places. Where dw has tiles enough to fill a GPU, a
 * block of threads runs the whole sum for its tile. Else the leaves' slices are dealt in groups
 * (groups.cuh) to many blocks, each leaves a partial in the stream's workspace, and a second launch
 * adds them: as long a range of the result at a time as the workspace holds partials of.
 *
 * Limits, beyond which an op is refused: 7 temporaries of a fold (fold.c makes at most 6), 2^20
 * slices of a bias gradient, and 2^16 of a weight gradient's (each 2^10 places or so).
 */
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tiles.h"

enum {
    TEMPORARIES_MAX = 7, /* batch_sum.cu: WAITING, with a stack for 2^20 groups */
    WORKSPACE_FLOATS = LS_CUDA_WORKSPACE_BYTES / sizeof(float),
    TILE_FLOATS = LS_DW_TILE * LS_DW_TILE,
    PARTIAL_TILES = WORKSPACE_FLOATS / TILE_FLOATS, /* that the workspace holds */
    WHOLE_PLACES = 1024 /* that a block may as well sum alone */
};

/* -- groups ----------------------------------------------------------------------------------- */

ls_status ls_cuda_fold_fits(const char *op, const ls_fold *fold)
{
    const int temporaries = fold->slot_count - fold->piece_count;
    if (temporaries <= TEMPORARIES_MAX) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "%s: a fold with %d temporaries: on a GPU at most %d", op,
                   temporaries, TEMPORARIES_MAX);
}

ls_cuda_groups ls_cuda_groups_of(const ls_fold *fold, size_t rows, size_t width)
{
    return (ls_cuda_groups){
        .fold = *fold,
        .slice_rows = (uint32_t)ls_slice_rows(width),
        .rows = (uint32_t)rows,
    };
}

static size_t slices_of_leaf(const ls_cuda_groups *g, int leaf)
{
    return ls_ceil_div((g->fold.sample[leaf + 1] - g->fold.sample[leaf]) * g->rows, g->slice_rows);
}

size_t ls_cuda_cut_into_groups(ls_cuda_groups *g, uint32_t log2)
{
    size_t count = 0;
    g->log2 = log2;
    for (int leaf = 0; leaf < g->fold.leaf_count; leaf++) {
        g->first[leaf] = (uint32_t)count;
        count += ls_ceil_div(slices_of_leaf(g, leaf), (size_t)1 << log2);
    }
    g->first[g->fold.leaf_count] = (uint32_t)count;
    return count;
}

/* -- bias gradients --------------------------------------------------------------------------- */

/* Channels first .. first + count - 1. */
static ls_status sum_channels(ls_stream *stream, const ls_batch_sum_args *a,
                              const ls_cuda_groups *groups, size_t first, size_t count)
{
    const size_t group_count = groups->first[groups->fold.leaf_count];
    const ls_cuda_batch_sum sum = {
        .groups = *groups,
        .width = (uint32_t)a->width,
        .channels = (uint32_t)a->channels,
        .first_channel = (uint32_t)first,
        .channel_count = (uint32_t)count,
        .x = a->x,
        .partial = ls_cuda_workspace(stream),
    };
    const ls_cuda_batch_fold fold = {
        .groups = *groups,
        .count = (uint32_t)count,
        .partial = sum.partial,
        .out = a->out + first,
        .piece_stride = a->piece_stride,
    };
    LS_TRY(LS_CUDA_ENQUEUE(stream, "ls_batch_sum", ls_ceil_div(group_count, LS_CUDA_THREADS / 32),
                           ls_ceil_div(count, 32), LS_CUDA_THREADS, sum));
    return LS_CUDA_ENQUEUE(stream, "ls_batch_fold", ls_ceil_div(count, LS_CUDA_FOLD_THREADS), 1,
                           LS_CUDA_FOLD_THREADS, fold);
}

ls_status ls_batch_sum_cuda(ls_stream *stream, const ls_batch_sum_args *a)
{
    if (a->fold->leaf_count == 0) return LS_OK;
    LS_TRY(ls_cuda_fold_fits("batch_sum", a->fold));
    LS_TRY(ls_cuda_fits("batch_sum", "places",
                        a->fold->sample[a->fold->leaf_count] * a->height * a->width));
    LS_TRY(ls_cuda_fits("batch_sum", "places of a sample", a->height * a->width));
    LS_TRY(ls_cuda_fits("batch_sum", "channels", a->channels));
    ls_cuda_groups groups = ls_cuda_groups_of(a->fold, a->height, a->width);
    const size_t group_count = ls_cuda_cut_into_groups(&groups, 0);
    if (group_count > WORKSPACE_FLOATS) {
        return ls_fail(LS_ERR_ARGUMENT, "batch_sum: %zu slices: on a GPU at most %d", group_count,
                       (int)WORKSPACE_FLOATS);
    }
    const size_t room = group_count > 0 ? WORKSPACE_FLOATS / group_count : a->channels;
    for (size_t c = 0; c < a->channels; c += room) {
        const size_t count = a->channels - c < room ? a->channels - c : room;
        LS_TRY(sum_channels(stream, a, &groups, c, count));
    }
    return LS_OK;
}

/* -- weight gradients ------------------------------------------------------------------------- */

/* How a weight gradient is dealt to blocks. */
typedef struct {
    bool whole;
    uint32_t log2;  /* slices of a group, where it is split */
    size_t groups;
    size_t tiles;   /* of a launch */
    bool few;       /* 3 planes do */
} deal;

/* Sums that wait while `count` slices are added by the tree: floor(log2 count). */
static int waiting_of(size_t count)
{
    int waiting = 0;
    while (count > 1) count /= 2, waiting++;
    return waiting;
}

static size_t most_slices(const ls_cuda_groups *g)
{
    size_t most = 0;
    for (int leaf = 0; leaf < g->fold.leaf_count; leaf++) {
        const size_t slices = slices_of_leaf(g, leaf);
        if (slices > most) most = slices;
    }
    return most;
}

/* Groups of up to 2^3 slices, the smallest whose partials of all tiles fit the workspace; where
 * none are, groups of 2^3 and a range of the tiles at a time; and larger groups where there are
 * too many of these for a single tile. */
static ls_status deal_groups(ls_cuda_groups *g, size_t tiles, deal *d)
{
    uint32_t log2 = 0;
    while (log2 < LS_DW_FEW_PLANES
           && ls_cuda_cut_into_groups(g, log2) * tiles > PARTIAL_TILES) log2++;
    while (log2 < LS_DW_MANY_PLANES && ls_cuda_cut_into_groups(g, log2) > PARTIAL_TILES) log2++;
    d->groups = ls_cuda_cut_into_groups(g, log2);
    d->log2 = log2;
    d->few = log2 <= LS_DW_FEW_PLANES;
    if (d->groups > PARTIAL_TILES) {
        return ls_fail(LS_ERR_ARGUMENT, "conv_weight_gradient: %zu groups of %d slices: on a GPU "
                       "at most %d", d->groups, 1 << LS_DW_MANY_PLANES, (int)PARTIAL_TILES);
    }
    const size_t launches = ls_ceil_div(tiles, PARTIAL_TILES / d->groups);
    d->tiles = ls_ceil_div(tiles, launches);
    return LS_OK;
}

static ls_status deal_slices(const ls_stream *stream, ls_cuda_groups *g, size_t tiles,
                             size_t places, deal *d)
{
    const int waiting =
        g->fold.slot_count - g->fold.piece_count + waiting_of(most_slices(g));
    const size_t width = (size_t)ls_cuda_multiprocessor_count(stream->device);
    d->whole = (tiles >= width || places <= WHOLE_PLACES) && waiting <= LS_DW_MANY_PLANES;
    if (places == 0) d->whole = true; /* nothing waits in the tree, TEMPORARIES_MAX in the fold */
    if (!d->whole) return deal_groups(g, tiles, d);
    d->groups = 1;
    d->tiles = tiles;
    d->few = waiting <= LS_DW_FEW_PLANES;
    return LS_OK;
}

/* Tiles first .. first + count - 1. */
static ls_status sum_tiles(ls_stream *stream, const ls_cuda_weight_gradient *all, const deal *d,
                           size_t first, size_t count)
{
    ls_cuda_weight_gradient p = *all;
    p.first_tile = (uint32_t)first;
    p.tiles = (uint32_t)count;
    p.partial = d->whole ? NULL : ls_cuda_workspace(stream);
    LS_TRY(LS_CUDA_ENQUEUE(stream, d->few ? "ls_weight_gradient_few" : "ls_weight_gradient_many",
                           count, d->groups, d->few ? LS_DW_FEW_THREADS : LS_DW_MANY_THREADS, p));
    if (d->whole) return LS_OK;
    const ls_cuda_batch_fold fold = {
        .groups = p.groups,
        .count = (uint32_t)(count * TILE_FLOATS),
        .filters = p.filters,
        .columns = p.columns,
        .tiles_n = p.tiles_n,
        .first_tile = p.first_tile,
        .partial = p.partial,
        .out = p.dw,
        .piece_stride = p.piece_stride,
    };
    return LS_CUDA_ENQUEUE(stream, "ls_weight_gradient_fold",
                           ls_ceil_div(fold.count, LS_CUDA_FOLD_THREADS), 1, LS_CUDA_FOLD_THREADS,
                           fold);
}

ls_status ls_conv_weight_gradient_cuda(ls_stream *stream, const ls_conv_weight_gradient_args *a)
{
    if (a->fold->leaf_count == 0) return LS_OK;
    ls_conv_shape s = a->shape;
    s.samples = a->fold->sample[a->fold->leaf_count];
    LS_TRY(ls_cuda_fold_fits("conv_weight_gradient", a->fold));
    LS_TRY(ls_cuda_conv_fits("conv_weight_gradient", &s));
    const size_t columns = s.kernel_height * s.kernel_width * s.channels;
    const size_t tiles_n = ls_ceil_div(columns, LS_DW_TILE);
    const size_t tiles = ls_ceil_div(s.filters, LS_DW_TILE) * tiles_n;
    ls_cuda_weight_gradient p = {
        .groups = ls_cuda_groups_of(a->fold, s.out_height, s.out_width),
        .x = ls_cuda_patches_of(&s, a->x),
        .filters = (uint32_t)s.filters,
        .columns = (uint32_t)columns,
        .tiles_n = (uint32_t)tiles_n,
        .vector_dy = ls_cuda_moves_quads(a->dy, s.filters),
        .vector_dw = ls_cuda_moves_quads(a->dw, columns) && a->piece_stride % 4 == 0,
        .dy = a->dy,
        .dw = a->dw,
        .piece_stride = a->piece_stride,
    };
    LS_TRY(ls_cuda_fits("conv_weight_gradient", "tiles", tiles));
    deal d = { 0 };
    LS_TRY(deal_slices(stream, &p.groups, tiles, p.x.places, &d));
    for (size_t first = 0; first < tiles; first += d.tiles) {
        LS_TRY(sum_tiles(stream, &p, &d, first, tiles - first < d.tiles ? tiles - first : d.tiles));
    }
    return LS_OK;
}
