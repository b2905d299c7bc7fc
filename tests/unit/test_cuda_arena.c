/* SPDX-License-Identifier: MIT */
/* test_cuda_arena.c -- updates, norms, digests and merges on a GPU have the reference's bits.
 *
 * As test_cuda_products.c: each case on three virtual machines, or on the real GPU that is there.
 * Values include NaN, infinities, denormals and zeros of both signs.
 */
#include "support/test.h"

#include "kernels/reference/reference.h"
#include "support/fresh_process.h"
#include "support/gpu_arrays.h"
#include "support/gpu_machines.h"
#include "support/naive.h"

/* -- the arena -------------------------------------------------------------------------------- */

enum { TENSORS_MAX = 700 };

typedef struct {
    int count;
    size_t floats;
    ls_arena_tensor tensor[TENSORS_MAX];
} arena;

static void add_tensor(arena *a, size_t count, float l2, float l1)
{
    a->tensor[a->count++] = (ls_arena_tensor){ a->floats, count, 2 * l2, l1 };
    a->floats += (count + 31) / 32 * 32;
}

/* Values in tensors, +0 in the padding. */
static float *arena_values(naive_random *n, const arena *a, int mix)
{
    float *all = calloc(a->floats + 1, sizeof *all);
    for (int t = 0; t < a->count; t++) {
        float *some = naive_values(n, a->tensor[t].count, mix);
        memcpy(all + a->tensor[t].begin, some, a->tensor[t].count * sizeof *some);
        free(some);
    }
    return all;
}

/* The table on both sides: `device` is the GPU's. */
static ls_arena_table table_of(gpu_arrays *g, const arena *a)
{
    const size_t shift = g->shift;
    g->shift = 0;
    const ls_arena_tensor *device =
        gpu_copy_of(g, a->tensor, (size_t)a->count * sizeof a->tensor[0]);
    g->shift = shift;
    return (ls_arena_table){ a->count, a->tensor, device };
}

/* What an update does to each tensor, on the GPU. */
static const ls_tensor_step *steps_of(gpu_arrays *g, const ls_tensor_step *step, size_t count)
{
    const size_t shift = g->shift;
    g->shift = 0;
    const ls_tensor_step *device = gpu_copy_of(g, step, count * sizeof *step);
    g->shift = shift;
    return device;
}

/* An output of 8-byte numbers. */
static void *words_output(gpu_arrays *g, size_t count, void *host_pointer)
{
    const size_t shift = g->shift;
    g->shift = 0;
    void *device = gpu_output(g, count * 8, host_pointer);
    g->shift = shift;
    return device;
}

static void check_gradient_finish(gpu_arrays *g, naive_random *n, const arena *a, int mix)
{
    const ls_arena_table table = table_of(g, a);
    const size_t bytes = a->floats * sizeof(float), count = (size_t)a->count;
    float *w = arena_values(n, a, NAIVE_SMALL), *gradient = arena_values(n, a, mix), *want;
    double *square, *absolute;
    uint64_t *nonfinite;
    ls_gradient_finish_args d = { .tensors = &table, .scale = 0.37f };
    d.w = gpu_copy_of(g, w, bytes);
    d.g = gpu_updated(g, gradient, bytes, &want);
    d.square_sum = words_output(g, count, &square);
    d.nonfinite = words_output(g, count, &nonfinite);
    const ls_gradient_finish_args h = { &table, 0.37f, w, want, square, nonfinite };
    MUST(ls_gradient_finish_reference(NULL, &h));
    MUST(ls_gradient_finish(&g->stream, &d));
    gpu_same_floats(g, "finished gradient", want, d.g, a->floats);
    gpu_same_bytes(g, "first that is not finite", nonfinite, d.nonfinite, count * 8);
    if ((mix & (NAIVE_NAN | NAIVE_INFINITE)) == 0) {
        gpu_same_bytes(g, "squares of the gradient", square, d.square_sum, count * 8);
    }
    ls_weight_sums_args ds = { .tensors = &table, .w = d.w };
    ds.square_sum = words_output(g, count, &square);
    ds.absolute_sum = words_output(g, count, &absolute);
    MUST(ls_weight_sums_reference(NULL, &(ls_weight_sums_args){ &table, w, square, absolute }));
    MUST(ls_weight_sums(&g->stream, &ds));
    gpu_same_bytes(g, "squares of the weights", square, ds.square_sum, count * 8);
    gpu_same_bytes(g, "absolutes of the weights", absolute, ds.absolute_sum, count * 8);
    gpu_arrays_drop(g);
    free(w);
    free(gradient);
}

static void make_steps(ls_tensor_step *step, int count)
{
    for (int t = 0; t < count; t++) {
        step[t] = (ls_tensor_step){ .rate = 0.01f, .decay = t % 3 == 1 ? 0.02f : 0.0f,
                                    .clip = t % 2 ? 0.5f : 1.0f, .frozen = t % 4 == 3 };
    }
}

static ls_gradient_finish_args finish_of(const ls_update_args *update, float *g)
{
    return (ls_gradient_finish_args){ update->tensors, 0.37f, update->w, g, NULL, NULL };
}

/* `joined`: the update finishes the gradient. */
static void check_update(gpu_arrays *g, naive_random *n, const arena *a, ls_optimizer optimizer,
                         bool joined)
{
    const ls_arena_table table = table_of(g, a);
    const size_t bytes = a->floats * sizeof(float), count = (size_t)a->count;
    float *w = arena_values(n, a, NAIVE_SMALL), *gradient = arena_values(n, a, NAIVE_SMALL);
    float *slot0 = arena_values(n, a, NAIVE_SMALL), *slot1 = arena_values(n, a, NAIVE_SMALL);
    float *average = arena_values(n, a, NAIVE_SMALL), *device_gradient;
    const bool more = optimizer != LS_OPTIMIZER_ADAM; /* clip values, keep an average */
    static ls_tensor_step step[TENSORS_MAX];
    make_steps(step, a->count);
    for (size_t i = 0; i < a->floats; i++) {
        slot1[i] *= slot1[i];
        if (optimizer == LS_OPTIMIZER_RMSPROP) slot0[i] *= slot0[i];
    }
    ls_update_args h = { .tensors = &table, .step_host = step, .optimizer = optimizer,
                         .momentum = 0.9f, .one_minus_beta1 = 0.1f, .one_minus_beta2 = 0.001f,
                         .one_minus_rho = 0.1f, .epsilon = 1e-7f,
                         .clip_value = more ? 0.3f : 0.0f, .one_minus_ema = 0.01f,
                         .g = gradient };
    ls_update_args d = h;
    d.step_device = steps_of(g, step, count);
    d.g = device_gradient = gpu_copy_of(g, gradient, bytes);
    d.w = gpu_updated(g, w, bytes, &h.w);
    d.slot0 = gpu_updated(g, slot0, bytes, &h.slot0);
    d.slot1 = gpu_updated(g, slot1, bytes, &h.slot1);
    if (more) d.average = gpu_updated(g, average, bytes, &h.average);
    d.update_square_sum = words_output(g, count, &h.update_square_sum);
    d.digest = words_output(g, 1, &h.digest);
    ls_gradient_finish_args hf = finish_of(&h, gradient), df = finish_of(&d, device_gradient);
    df.square_sum = words_output(g, count, &hf.square_sum);
    df.nonfinite = words_output(g, count, &hf.nonfinite);
    if (joined) {
        h.finish = &hf;
        d.finish = &df;
        d.sums_digest = words_output(g, 1, &h.sums_digest);
    }
    MUST(ls_update_reference(NULL, &h));
    MUST(ls_update(&g->stream, &d));
    gpu_same_floats(g, "updated weights", h.w, d.w, a->floats);
    gpu_same_floats(g, "slot 0", h.slot0, d.slot0, a->floats);
    gpu_same_floats(g, "slot 1", h.slot1, d.slot1, a->floats);
    if (more) gpu_same_floats(g, "average of the weights", h.average, d.average, a->floats);
    gpu_same_bytes(g, "squares of the update", h.update_square_sum, d.update_square_sum, count * 8);
    gpu_same_bytes(g, "digest of the weights", h.digest, d.digest, 8);
    if (joined) {
        gpu_same_bytes(g, "digest of the sums", h.sums_digest, d.sums_digest, 8);
        gpu_same_bytes(g, "squares of the gradient", hf.square_sum, df.square_sum, count * 8);
        gpu_same_bytes(g, "first that is not finite", hf.nonfinite, df.nonfinite, count * 8);
    }
    gpu_arrays_drop(g);
    free(w);
    free(gradient);
    free(slot0);
    free(slot1);
    free(average);
}

static int case_arena(void)
{
    static arena some, many;
    gpu_arrays g;
    naive_random n = gpu_random();
    add_tensor(&some, 4096 * 5 + 77, 0.01f, 0.0f);
    add_tensor(&some, 10, 0.0f, 0.0f);
    add_tensor(&some, 0, 0.0f, 0.0f);
    add_tensor(&some, 4096, 0.0f, 0.02f);
    add_tensor(&some, 65, 0.3f, 0.2f);
    add_tensor(&some, 4097, 0.0f, 0.0f);
    while (many.count < TENSORS_MAX) add_tensor(&many, naive_below(&n, 40), 0.0f, 0.0f);
    gpu_arrays_open(&g);
    for (int k = LS_OPTIMIZER_SGD; k <= LS_OPTIMIZER_RMSPROP; k++) {
        g.shift = (size_t)(k % 2) * sizeof(float);
        check_gradient_finish(&g, &n, &some, k == 1 ? NAIVE_ALL : NAIVE_SMALL);
        check_update(&g, &n, &some, (ls_optimizer)k, false);
        check_update(&g, &n, &some, (ls_optimizer)k, true);
    }
    check_gradient_finish(&g, &n, &many, NAIVE_SMALL);
    check_update(&g, &n, &many, LS_OPTIMIZER_ADAM, false);
    check_update(&g, &n, &many, LS_OPTIMIZER_ADAM, true);
    gpu_arrays_close(&g);
    return 0;
}

/* More blocks than a tensor may have groups: groups of two. */
static int case_long_tensor(void)
{
    static arena one;
    gpu_arrays g;
    naive_random n = gpu_random();
    add_tensor(&one, (size_t)4096 * 1024 + 5, 0.0f, 0.0f);
    gpu_arrays_open(&g);
    check_gradient_finish(&g, &n, &one, NAIVE_SMALL);
    gpu_arrays_close(&g);
    return 0;
}

/* -- whole buffers ---------------------------------------------------------------------------- */

static void check_whole(gpu_arrays *g, naive_random *n, size_t count, int mix)
{
    float *x = naive_values(n, count, mix);
    uint64_t *digest, *nonfinite;
    ls_digest_args d = { .count = count, .x = gpu_copy_of(g, x, count * sizeof *x) };
    ls_nonfinite_args f = { .count = count, .x = d.x };
    d.out = words_output(g, 1, &digest);
    f.out = words_output(g, 1, &nonfinite);
    MUST(ls_digest_reference(NULL, &(ls_digest_args){ count, x, digest }));
    MUST(ls_nonfinite_reference(NULL, &(ls_nonfinite_args){ count, x, nonfinite }));
    MUST(ls_digest(&g->stream, &d));
    MUST(ls_nonfinite(&g->stream, &f));
    gpu_same_bytes(g, "digest", digest, d.out, 8);
    gpu_same_bytes(g, "nonfinite", nonfinite, f.out, 8);
    gpu_arrays_drop(g);
    free(x);
}

/* `adds` as ls_merge_args has them; outputs beside the sources, and the first source if
 * `in_place`. */
static void check_merge(gpu_arrays *g, naive_random *n, size_t count, int sources,
                        const unsigned char *adds, int outs, bool in_place, bool digests)
{
    ls_merge_args h = { .count = count, .source_count = sources, .out_count = outs };
    memcpy(h.adds, adds, (size_t)sources);
    ls_merge_args d = h;
    float *x[LS_MERGE_MAX];
    for (int s = 0; s < sources; s++) {
        x[s] = naive_values(n, count, s % 5 == 2 ? NAIVE_ALL : NAIVE_SMALL);
        h.source[s] = x[s];
        d.source[s] = gpu_copy_of(g, x[s], count * sizeof(float));
    }
    for (int o = 0; o < outs; o++) d.out[o] = gpu_output(g, count * sizeof(float), &h.out[o]);
    if (in_place) {
        d.out[0] = gpu_updated(g, x[0], count * sizeof(float), &h.out[0]);
        d.source[0] = d.out[0];
        h.source[0] = h.out[0];
    }
    if (digests) {
        d.source_digest = words_output(g, (size_t)sources, &h.source_digest);
        d.out_digest = words_output(g, 1, &h.out_digest);
    }
    MUST(ls_merge_reference(NULL, &h));
    MUST(ls_merge(&g->stream, &d));
    for (int o = 0; o < outs; o++) gpu_same_floats(g, "merge", h.out[o], d.out[o], count);
    if (digests) {
        gpu_same_bytes(g, "digests of what was merged", h.source_digest, d.source_digest,
                       (size_t)sources * 8);
        gpu_same_bytes(g, "digest of the sum", h.out_digest, d.out_digest, 8);
    }
    gpu_arrays_drop(g);
    for (int s = 0; s < sources; s++) free(x[s]);
}

static int case_whole(void)
{
    static const size_t counts[] = { 0, 1, 5, 127, 128, 1024, 5003 };
    unsigned char chain[LS_MERGE_MAX] = { 0 }, tree[8] = { 0, 1, 0, 2, 0, 1, 0, 3 };
    unsigned char late[LS_MERGE_MAX] = { 0 };
    for (int i = 1; i < LS_MERGE_MAX; i++) chain[i] = 1;
    late[LS_MERGE_MAX - 1] = LS_MERGE_MAX - 1; /* the deepest stack */
    gpu_arrays g;
    naive_random n = gpu_random();
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        g.shift = i % 2 * sizeof(float);
        check_whole(&g, &n, counts[i], NAIVE_ALL);
        check_whole(&g, &n, counts[i], NAIVE_SMALL);
        check_merge(&g, &n, counts[i], 1, chain, 1, false, i % 2 == 0);
        check_merge(&g, &n, counts[i], 2, chain, 3, true, true);
        check_merge(&g, &n, counts[i], 8, tree, 1, i % 2 == 0, i % 3 == 0);
    }
    check_merge(&g, &n, 300, LS_MERGE_MAX, chain, 2, false, true);
    check_merge(&g, &n, 300, LS_MERGE_MAX, late, 1, true, true);
    check_merge(&g, &n, 131, LS_MERGE_MAX, late, 1, false, false);
    gpu_arrays_close(&g);
    return 0;
}

static void test_updates_and_norms_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_machines("arena");
}

static void test_digests_and_merges_have_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_machines("whole");
}

static void test_a_long_tensors_blocks_are_summed_in_groups(void **state)
{
    (void)state;
    need_gpus(1);
    assert_case("long tensor", "LOCKSTEP_VGPU_SEED=1");
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "arena", case_arena },
        { "whole", case_whole },
        { "long tensor", case_long_tensor },
        { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_updates_and_norms_have_the_bits_of_the_reference),
        cmocka_unit_test(test_digests_and_merges_have_the_bits_of_the_reference),
        cmocka_unit_test(test_a_long_tensors_blocks_are_summed_in_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
