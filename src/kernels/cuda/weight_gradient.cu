/* SPDX-License-Identifier: MIT */
/* weight_gradient.cu -- the gradient of a convolution's or a dense layer's weights, a batch sum.
 *
 * dw [filters, columns], columns = (tap, channel), is for each slice of a leaf the product of dy^T
 * and patches(x) over the slice's places; slices are added by the tree, leaves as the fold says
 * (docs/numerics.md 2.2, fold.h). A block computes a tile of 64 x 64 elements of dw. Both operands
 * are stored places first, so k comes row by row and neither is turned.
 *
 *     leaf 0                     leaf 1             ...    places, DEPTH at a time
 *     [ slice ][ slice ][ sl]    [ slice ][ slice ]
 *        |        |       |
 *       acc      acc     acc     one chain each, in registers
 *        |        |
 *      plane 1   acc + plane 1   sums that wait, in registers too: the fold's temporaries first,
 *                                then the stack of a leaf's slices
 *
 * Addition of what waits costs no memory traffic: a plane is a copy of the thread's share of the
 * tile. Two kernels: `few` has 3 planes and 8 x 4 elements a thread, `many` 8 planes and 4 x 4.
 * 8 shards on one device need 3, each doubling of shards or of a leaf's slices one more.
 *
 * Whole: the block runs all leaves and writes pieces; right where dw has tiles enough to fill a
 * GPU. Split: the block sums one group of slices and leaves it as a partial; batch_sum.cu adds
 * these.
 *
 * The operands of the next DEPTH places are on their way while the block multiplies, also over the
 * end of a chain, since a dense layer's chain may be as short as a shard of a few samples.
 */
#include "kernels/cuda/groups.cuh"
#include "kernels/cuda/patches.cuh"
#include "kernels/cuda/tile.cuh"

typedef tile<2, 2, 8, 4, 16> few_tile;
typedef tile<4, 2, 4, 4, 16> many_tile;
static_assert(few_tile::M == LS_DW_TILE && few_tile::N == LS_DW_TILE, "tiles.h");
static_assert(many_tile::M == LS_DW_TILE && many_tile::N == LS_DW_TILE, "tiles.h");
static_assert(few_tile::THREADS == LS_DW_FEW_THREADS, "tiles.h");
static_assert(many_tile::THREADS == LS_DW_MANY_THREADS, "tiles.h");

/* -- patches, places first -------------------------------------------------------------------- */

/* Columns first .. first + 3; k = place. The taps are found anew at each fetch: two multiplications
 * are cheaper than the registers that would keep them. */
struct patch_columns {
    uint32_t first;
    uint32_t k; /* of the thread's first slot */
};

template <class T> LS_INLINE patch_columns open_columns(uint32_t first)
{
    typedef straight<T::N, T::DEPTH, T::THREADS> S;
    const patch_columns o = {first + threadIdx.x % S::QUADS * QUAD, threadIdx.x / S::QUADS};
    return o;
}

/* Places k0 .. before `end`. */
template <class T>
LS_INLINE void fetch_columns(const patch_columns &o, const ls_cuda_weight_gradient &p, uint32_t k0,
                             uint32_t end, float4 *out)
{
    typedef straight<T::N, T::DEPTH, T::THREADS> S;
    corner c[S::SLOTS];
    for (int i = 0; i < S::SLOTS; i++) {
        const uint32_t place = k0 + o.k + i * (T::THREADS / S::QUADS);
        c[i] = corner_at(p.x, place);
        if (place >= end) c[i].h = NOWHERE;
    }
    if (p.x.vector) {
        tap t = tap_at<1>(p.x, o.first);
        if (o.first >= p.columns) t.r = NOWHERE;
        for (int i = 0; i < S::SLOTS; i++) {
            const float *at = patch_at(p.x, c[i], t);
            out[i] = at ? *(const float4 *)at : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        return;
    }
    for (int j = 0; j < QUAD; j++) {
        tap t = tap_at<1>(p.x, o.first + j);
        if (o.first + j >= p.columns) t.r = NOWHERE;
        for (int i = 0; i < S::SLOTS; i++) {
            const float *at = patch_at(p.x, c[i], t);
            (&out[i].x)[j] = at ? *at : 0.0f;
        }
    }
}

/* -- planes and pieces ------------------------------------------------------------------------ */

/* A thread's share of the tile. */
template <class T> struct share {
    float at[T::THREAD_M][T::THREAD_N];
};

/* acc = plane + acc, and plane = acc. `index` is the same for all threads; the planes are
 * registers, so each is named by a constant. */
template <class T, int PLANES>
LS_INLINE void add_plane(share<T> &acc, const share<T> *plane, int index)
{
#pragma unroll
    for (int p = 0; p < PLANES; p++) {
        if (p != index) continue;
#pragma unroll
        for (int i = 0; i < T::THREAD_M; i++) {
#pragma unroll
            for (int j = 0; j < T::THREAD_N; j++) {
                acc.at[i][j] = plane[p].at[i][j] + acc.at[i][j];
            }
        }
    }
}

template <class T, int PLANES>
LS_INLINE void store_plane(const share<T> &acc, share<T> *plane, int index)
{
#pragma unroll
    for (int p = 0; p < PLANES; p++) {
        if (p == index) plane[p] = acc;
    }
}

/* The tile's place in dw. */
struct tile_place {
    uint32_t row, column; /* first */
};

/* Add the tile of a piece to acc (STORE false), or store acc there. */
template <class T, bool STORE>
LS_INLINE void move_piece(share<T> &acc, const ls_cuda_weight_gradient &p, tile_place t,
                          uint32_t piece)
{
    float *dw = p.dw + piece * p.piece_stride;
#pragma unroll
    for (int i = 0; i < T::THREAD_M; i++) {
        const uint32_t row = t.row + thread_row<T>(i);
        if (row >= p.filters) continue;
#pragma unroll
        for (int j = 0; j < T::THREAD_N; j += QUAD) {
            float *a = &acc.at[i][j];
            const uint32_t column = t.column + thread_column<T>(j / QUAD);
            float *at = dw + (size_t)row * p.columns;
            if (STORE) {
                store_quad(at, column, p.columns, p.vector_dw,
                           make_float4(a[0], a[1], a[2], a[3]));
            } else {
                const float4 q = load_quad(at, column, p.columns, p.vector_dw);
                a[0] = q.x + a[0], a[1] = q.y + a[1], a[2] = q.z + a[2], a[3] = q.w + a[3];
            }
        }
    }
}

/* acc is the sum of leaf `leaf`: run its part of the fold. */
template <class T, int PLANES>
LS_INLINE void fold_leaf(share<T> &acc, share<T> *plane, const ls_cuda_weight_gradient &p,
                         tile_place t, uint32_t leaf)
{
    const ls_fold &fold = p.groups.fold;
    for (int m = 0; m < fold.merge_count[leaf]; m++) {
        const int slot = fold.merge[leaf][m];
        if (slot < fold.piece_count) {
            move_piece<T, false>(acc, p, t, slot);
        } else {
            add_plane<T, PLANES>(acc, plane, slot - fold.piece_count);
        }
    }
    const int slot = fold.store[leaf];
    if (slot < fold.piece_count) {
        move_piece<T, true>(acc, p, t, slot);
    } else {
        store_plane<T, PLANES>(acc, plane, slot - fold.piece_count);
    }
}

/* -- chains ----------------------------------------------------------------------------------- */

/* Where the block is: a slice of a leaf, and the places of it that are still to come. */
struct position {
    uint32_t leaf, leaf_end;
    uint32_t slice, slice_begin, slice_end; /* of the leaf */
    uint32_t place, end;                    /* of the chain */
};

LS_INLINE void open_chain(const ls_cuda_weight_gradient &p, position &at)
{
    const ls_cuda_groups &g = p.groups;
    const uint32_t row = leaf_row(g, at.leaf) + at.slice * g.slice_rows;
    const uint32_t last = leaf_row(g, at.leaf + 1);
    at.place = row * p.x.by_row.divisor;
    at.end = (last - row < g.slice_rows ? last : row + g.slice_rows) * p.x.by_row.divisor;
}

/* From at.leaf on, the first leaf that has places; at.leaf = at.leaf_end if none has. */
LS_INLINE void find_leaf(const ls_cuda_weight_gradient &p, position &at)
{
    for (; at.leaf < at.leaf_end; at.leaf++) {
        at.slice = at.slice_begin = 0;
        at.slice_end = slice_count(p.groups, at.leaf);
        if (at.slice_end > 0) {
            open_chain(p, at);
            return;
        }
    }
}

/* The first chain of the block. */
LS_INLINE position first_position(const ls_cuda_weight_gradient &p)
{
    position at = {};
    at.leaf_end = (uint32_t)p.groups.fold.leaf_count;
    if (p.partial == NULL) {
        find_leaf(p, at);
        return at;
    }
    at.leaf = leaf_of_group(p.groups, blockIdx.y);
    at.leaf_end = at.leaf + 1;
    const uint32_t slices = slice_count(p.groups, at.leaf);
    at.slice_begin = (blockIdx.y - p.groups.first[at.leaf]) << p.groups.log2;
    at.slice_end = slices - at.slice_begin < 1u << p.groups.log2
                       ? slices : at.slice_begin + (1u << p.groups.log2);
    at.slice = at.slice_begin;
    open_chain(p, at);
    return at;
}

/* On to the next DEPTH places, over the end of a chain or a leaf. */
template <class T> LS_INLINE void advance(const ls_cuda_weight_gradient &p, position &at)
{
    at.place += T::DEPTH;
    if (at.place < at.end) return;
    if (++at.slice < at.slice_end) {
        open_chain(p, at);
        return;
    }
    at.leaf++;
    find_leaf(p, at);
}

/* A group's sum goes to partial[group][tile]. */
template <class T>
LS_INLINE void store_partial(const share<T> &acc, const ls_cuda_weight_gradient &p)
{
    float *to = p.partial
                + ((size_t)blockIdx.y * p.tiles + blockIdx.x) * (LS_DW_TILE * LS_DW_TILE);
#pragma unroll
    for (int i = 0; i < T::THREAD_M; i++) {
#pragma unroll
        for (int j = 0; j < T::THREAD_N; j += QUAD) {
            const float *a = &acc.at[i][j];
            *(float4 *)(to + thread_row<T>(i) * LS_DW_TILE + thread_column<T>(j / QUAD)) =
                make_float4(a[0], a[1], a[2], a[3]);
        }
    }
}

/* The slice that ends is slice `at.slice` of its leaf: + 0.0f, then the tree over slices. */
template <class T, int PLANES>
LS_INLINE void end_chain(share<T> &acc, share<T> *plane, const position &at, int first_plane,
                         int &depth)
{
#pragma unroll
    for (int i = 0; i < T::THREAD_M; i++) {
#pragma unroll
        for (int j = 0; j < T::THREAD_N; j++) acc.at[i][j] += 0.0f;
    }
    int adds = ls_tree_adds_after(at.slice - at.slice_begin, at.slice_end - at.slice_begin);
    for (; adds > 0; adds--) add_plane<T, PLANES>(acc, plane, first_plane + --depth);
    if (at.slice + 1 < at.slice_end) {
        store_plane<T, PLANES>(acc, plane, first_plane + depth++);
    }
}

/* Fold leaves begin .. end-1: acc is the sum of the first, the others have no places. */
template <class T, int PLANES>
LS_INLINE void fold_leaves(share<T> &acc, share<T> *plane, const ls_cuda_weight_gradient &p,
                           tile_place t, uint32_t begin, uint32_t end)
{
    for (uint32_t leaf = begin; leaf < end; leaf++) {
        fold_leaf<T, PLANES>(acc, plane, p, t, leaf);
        clear<T>(acc.at);
    }
}

template <class T, int PLANES> LS_INLINE void weight_gradient(const ls_cuda_weight_gradient &p)
{
    __shared__ __align__(16) float shared[T::SHARED];
    const uint32_t number = p.first_tile + blockIdx.x;
    const tile_place t = {number / p.tiles_n * LS_DW_TILE, number % p.tiles_n * LS_DW_TILE};
    const bool whole = p.partial == NULL;
    const int first_plane = whole ? p.groups.fold.slot_count - p.groups.fold.piece_count : 0;
    int depth = 0; /* of the stack of slices */
    column_operand<T::M, T::DEPTH, T::THREADS> dy;
    const patch_columns x = open_columns<T>(t.column);
    open(dy, p.dy, p.filters, 0, t.row, p.vector_dy);
    share<T> acc, plane[PLANES];
    clear<T>(acc.at);
    position now = first_position(p);
    if (whole) fold_leaves<T, PLANES>(acc, plane, p, t, 0, now.leaf);
    if (now.leaf == now.leaf_end) return;

    float4 next_dy[T::SLOTS_A], next_x[T::SLOTS_B];
    dy.depth = now.end;
    fetch(dy, now.place, next_dy);
    fetch_columns<T>(x, p, now.place, now.end, next_x);
    for (uint32_t stage = 0;; stage ^= 1) {
        float *at = shared + stage * T::STAGE;
        put(dy, next_dy, at);
        put_straight<T::N, T::DEPTH, T::THREADS>(next_x, at + T::DEPTH * T::PITCH_A);
        __syncthreads();
        position next = now;
        advance<T>(p, next);
        if (next.leaf < next.leaf_end) {
            dy.depth = next.end;
            fetch(dy, next.place, next_dy);
            fetch_columns<T>(x, p, next.place, next.end, next_x);
        }
        multiply_stage<T>(at, acc.at);
        if (now.place + T::DEPTH >= now.end) {
            end_chain<T, PLANES>(acc, plane, now, first_plane, depth);
            if (now.slice + 1 == now.slice_end) {
                if (!whole) {
                    store_partial<T>(acc, p);
                    return;
                }
                fold_leaves<T, PLANES>(acc, plane, p, t, now.leaf, next.leaf);
            }
            if (next.leaf == next.leaf_end) return;
            clear<T>(acc.at);
        }
        now = next;
    }
}

extern "C" __global__ void __launch_bounds__(LS_DW_FEW_THREADS, 2)
    ls_weight_gradient_few(const __grid_constant__ ls_cuda_weight_gradient p)
{
    weight_gradient<few_tile, LS_DW_FEW_PLANES>(p);
}

extern "C" __global__ void __launch_bounds__(LS_DW_MANY_THREADS, 1)
    ls_weight_gradient_many(const __grid_constant__ ls_cuda_weight_gradient p)
{
    weight_gradient<many_tile, LS_DW_MANY_PLANES>(p);
}
