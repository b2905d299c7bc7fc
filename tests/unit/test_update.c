/* SPDX-License-Identifier: MIT */
/* test_update.c -- the optimizers' update, tensor by tensor, of a gradient that is finished or that
 * it finishes. */
#include <math.h>

#include "support/arena_layout.h"
#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

/* -- update ------------------------------------------------------------------------------------ */

static float flushed(float x) { return fabsf(x) < 0x1p-100f ? 0.0f : x; }

/* One element, as docs/numerics.md 6 writes it. */
static void update_element(const ls_update_args *a, const ls_tensor_step *step, float g, float *w,
                           float *s0, float *s1, float *average)
{
    if (step->frozen) return;
    g *= step->clip;
    if (a->clip_value > 0.0f && g > a->clip_value) g = a->clip_value;
    if (a->clip_value > 0.0f && g < -a->clip_value) g = -a->clip_value;
    if (step->decay > 0.0f) *w = fmaf(-step->decay, *w, *w);
    if (a->optimizer == LS_OPTIMIZER_SGD) {
        *w = fmaf(-step->rate, g, *w);
    } else if (a->optimizer == LS_OPTIMIZER_MOMENTUM || a->optimizer == LS_OPTIMIZER_NESTEROV) {
        const float u = fmaf(a->momentum, *s0, -(step->rate * g));
        *w += a->optimizer == LS_OPTIMIZER_MOMENTUM ? u : fmaf(a->momentum, u, -(step->rate * g));
        *s0 = flushed(u);
    } else if (a->optimizer == LS_OPTIMIZER_RMSPROP) {
        const float v = fmaf(a->one_minus_rho, fmaf(g, g, -*s0), *s0);
        *w = fmaf(-step->rate, g / sqrtf(v + a->epsilon), *w);
        *s0 = flushed(v);
    } else {
        const float m = fmaf(a->one_minus_beta1, g - *s0, *s0);
        const float v = fmaf(a->one_minus_beta2, fmaf(g, g, -*s1), *s1);
        *w = fmaf(-step->rate, m / (sqrtf(v) + a->epsilon), *w);
        *s0 = flushed(m);
        *s1 = flushed(v);
    }
    *average = fmaf(a->one_minus_ema, *w - *average, *average);
}

/* Which of the things that an update may do besides its optimizer. */
enum { PLAIN = 0, STEPS = 1, CLIP_VALUE = 2, AVERAGE = 4 };

/* Tensors differ in everything that they may differ in; every fifth is frozen. */
static void make_steps(ls_tensor_step step[TENSORS], int more)
{
    for (int t = 0; t < TENSORS; t++) {
        step[t] = (ls_tensor_step){ .rate = 0.0123f, .clip = 1.0f };
        if (!(more & STEPS)) continue;
        step[t].rate *= (float)(1 + t % 3);
        step[t].decay = t % 2 ? 0.01f * (float)t : 0.0f;
        step[t].clip = t % 3 ? 1.0f / (float)(1 + t) : 1.0f;
        step[t].frozen = t % 5 == 3;
    }
}

enum { ARENAS = 4 }; /* weights, two slots, the average */

/* One update of `want` by the definition, of `got` by a machine. */
static void check_one_update(const layout *l, ls_update_args *args, const float *g,
                             float *const want[ARENAS], float *got[MACHINES_MAX][ARENAS])
{
    float *change = calloc(l->floats, sizeof *change);
    double norm[TENSORS], moved[TENSORS];
    uint64_t digest = LS_DIGEST_START, out;
    for (int t = 0; t < TENSORS; t++) {
        const size_t begin = l->tensor[t].begin, count = l->tensor[t].count;
        for (size_t i = begin; i < begin + count; i++) {
            const float old = want[0][i];
            update_element(args, &args->step_host[t], g[i], &want[0][i], &want[1][i], &want[2][i],
                           &want[3][i]);
            if (!args->step_host[t].frozen) change[i] = want[0][i] - old;
            digest += ls_digest_term(i, want[0][i]);
        }
        norm[t] = naive_flat_f64(change + begin, change + begin, count);
    }
    const bool average = args->average != NULL;
    const int slots = args->optimizer == LS_OPTIMIZER_SGD ? 0
                      : args->optimizer == LS_OPTIMIZER_ADAM ? 2
                      : args->optimizer == LS_OPTIMIZER_ADAMW ? 2 : 1;
    for (int m = 0; m < all.count; m++) {
        const char *name = all.machine[m].name;
        args->g = g;
        args->w = got[m][0];
        args->slot0 = slots > 0 ? got[m][1] : NULL;
        args->slot1 = slots > 1 ? got[m][2] : NULL;
        args->average = average ? got[m][3] : NULL;
        args->update_square_sum = moved;
        args->digest = &out;
        assert_int_equal(ls_update(&all.machine[m].stream, args), LS_OK);
        assert_true(naive_same("weights", name, want[0], got[m][0], l->floats));
        assert_true(naive_same("slot 0", name, want[1], got[m][1], l->floats));
        assert_true(naive_same("slot 1", name, want[2], got[m][2], l->floats));
        if (average) assert_true(naive_same("average", name, want[3], got[m][3], l->floats));
        assert_true(out == digest);
        for (int t = 0; t < TENSORS; t++) assert_true(same_double(moved[t], norm[t]));
    }
    free(change);
}

/* Three updates in a row, with slots that start as any step could have left them: zero, ordinary,
 * or about to fall below 2^-100. */
static void check_update(ls_optimizer optimizer, uint64_t seed, int mix, int more)
{
    layout l;
    layout_init(&l, false);
    naive_random random = { seed };
    ls_tensor_step step[TENSORS];
    make_steps(step, more);
    float average_is_kept;
    ls_update_args args = { .tensors = &l.table, .step_host = step, .step_device = step,
                            .optimizer = optimizer, .momentum = 0.9f,
                            .one_minus_beta1 = (float)(1 - 0.9),
                            .one_minus_beta2 = (float)(1 - 0.999),
                            .one_minus_rho = (float)(1 - 0.9), .epsilon = 1e-7f,
                            .clip_value = more & CLIP_VALUE ? 0.25f : 0.0f,
                            .one_minus_ema = (float)(1 - 0.99),
                            .average = more & AVERAGE ? &average_is_kept : NULL };
    float *want[ARENAS], *got[MACHINES_MAX][ARENAS], *g = arena_values(&l, &random, mix);
    for (int a = 0; a < ARENAS; a++) want[a] = arena_values(&l, &random, NAIVE_SMALL);
    float *square = want[optimizer == LS_OPTIMIZER_RMSPROP ? 1 : 2]; /* a mean of squares */
    for (size_t i = 0; i < l.floats; i++) {
        square[i] *= i % 5 == 0 ? square[i] * 1e-30f : square[i];
        if (i % 7 == 0) g[i] *= 1e-15f;
    }
    for (int m = 0; m < all.count; m++)
        for (int a = 0; a < ARENAS; a++) got[m][a] = copy_of(want[a], l.floats);
    for (int k = 0; k < 3; k++) {
        check_one_update(&l, &args, g, want, got);
        for (size_t i = 0; i < l.floats; i++) g[i] *= 1e-14f; /* slots decay past the flush */
    }
    for (int a = 0; a < ARENAS; a++) {
        for (int m = 0; m < all.count; m++) free(got[m][a]);
        free(want[a]);
    }
    free(g);
}

static void check_optimizer(ls_optimizer optimizer)
{
    check_update(optimizer, 1, NAIVE_SMALL, PLAIN);
    check_update(optimizer, 2, NAIVE_ALL, PLAIN);
    check_update(optimizer, 3, NAIVE_SMALL, STEPS | AVERAGE);
    check_update(optimizer, 4, NAIVE_ALL, STEPS | AVERAGE | CLIP_VALUE);
}

static void test_sgd_updates_every_element_by_its_formula(void **state)
{
    (void)state;
    check_optimizer(LS_OPTIMIZER_SGD);
}

static void test_momentum_updates_and_flushes_its_slot(void **state)
{
    (void)state;
    check_optimizer(LS_OPTIMIZER_MOMENTUM);
}

static void test_nesterov_steps_from_where_its_momentum_leads(void **state)
{
    (void)state;
    check_optimizer(LS_OPTIMIZER_NESTEROV);
}

static void test_adam_updates_and_flushes_both_slots(void **state)
{
    (void)state;
    check_optimizer(LS_OPTIMIZER_ADAM);
    check_optimizer(LS_OPTIMIZER_ADAMW);
}

static void test_rmsprop_divides_by_a_root_and_flushes_its_slot(void **state)
{
    (void)state;
    check_optimizer(LS_OPTIMIZER_RMSPROP);
}

/* Not even a NaN in its gradient reaches a frozen tensor; its weights are in the digest. */
static void test_a_frozen_tensor_keeps_its_bits(void **state)
{
    (void)state;
    const ls_arena_tensor tensor = { .count = 5 };
    const ls_arena_table table = { 1, &tensor, &tensor };
    const ls_tensor_step frozen = { .rate = 0.1f, .decay = 0.5f, .clip = 0.5f, .frozen = 1 };
    for (int m = 0; m < all.count; m++) {
        float w[32] = { 1, -2, 3, -0.0f, 5 }, before[32], g[32] = { NAN, INFINITY, 1, 1, 1 };
        float slot[32] = { 1, 1, 1, 1, 1 }, average[32] = { 7, 7, 7, 7, 7 };
        double moved;
        uint64_t digest, want;
        memcpy(before, w, sizeof w);
        assert_int_equal(ls_update(&all.machine[m].stream, &(ls_update_args){
            .tensors = &table, .step_host = &frozen, .step_device = &frozen,
            .optimizer = LS_OPTIMIZER_MOMENTUM, .momentum = 0.9f, .one_minus_ema = 0.5f, .g = g,
            .w = w, .slot0 = slot, .average = average, .update_square_sum = &moved,
            .digest = &digest }), LS_OK);
        assert_int_equal(ls_digest(&all.machine[m].stream, &(ls_digest_args){
            .count = 32, .x = before, .out = &want }), LS_OK);
        assert_memory_equal(w, before, sizeof w);
        assert_true(slot[0] == 1 && slot[4] == 1 && average[0] == 7 && average[4] == 7);
        assert_true(moved == 0 && digest == want);
    }
}

/* -- both in one pass -------------------------------------------------------------------------- */

/* What finishing a gradient and updating from it change, and what they find. */
typedef struct {
    float *arena[ARENAS];
    double norm[TENSORS], moved[TENSORS];
    uint64_t nonfinite[TENSORS], digest, sums_digest;
} outcome;

static void outcome_init(outcome *o, float *const from[ARENAS], size_t floats)
{
    for (int a = 0; a < ARENAS; a++) o->arena[a] = copy_of(from[a], floats);
}

static void outcome_free(outcome *o)
{
    for (int a = 0; a < ARENAS; a++) free(o->arena[a]);
}

/* From the sums at `raw`, in two calls or in one. */
static void finish_and_update(ls_stream *stream, const layout *l, const ls_update_args *like,
                              const float *raw, bool joined, outcome *o)
{
    float *g = copy_of(raw, l->floats);
    const ls_gradient_finish_args finish = { &l->table, 1.0f / 96, o->arena[0], g, o->norm,
                                             o->nonfinite };
    ls_update_args args = *like;
    args.g = g;
    args.w = o->arena[0];
    args.slot0 = like->optimizer == LS_OPTIMIZER_SGD ? NULL : o->arena[1];
    args.slot1 = o->arena[2];
    args.average = o->arena[3];
    args.update_square_sum = o->moved;
    args.digest = &o->digest;
    args.finish = joined ? &finish : NULL;
    args.sums_digest = joined ? &o->sums_digest : NULL;
    if (!joined) {
        assert_int_equal(ls_digest(stream, &(ls_digest_args){
            .count = l->floats, .x = g, .out = &o->sums_digest }), LS_OK);
        assert_int_equal(ls_gradient_finish(stream, &finish), LS_OK);
    }
    assert_int_equal(ls_update(stream, &args), LS_OK);
    free(g);
}

static void assert_same_outcome(const char *name, const layout *l, const outcome *want,
                                const outcome *got)
{
    static const char *const what[ARENAS] = { "weights", "slot 0", "slot 1", "average" };
    for (int a = 0; a < ARENAS; a++)
        assert_true(naive_same(what[a], name, want->arena[a], got->arena[a], l->floats));
    assert_true(want->digest == got->digest && want->sums_digest == got->sums_digest);
    for (int t = 0; t < TENSORS; t++) {
        assert_true(same_double(want->norm[t], got->norm[t]));
        assert_true(same_double(want->moved[t], got->moved[t]));
        assert_true(want->nonfinite[t] == got->nonfinite[t]);
    }
}

static void check_joined(ls_optimizer optimizer, uint64_t seed, int mix, int more)
{
    layout l;
    layout_init(&l, more != PLAIN);
    naive_random random = { seed };
    ls_tensor_step step[TENSORS];
    make_steps(step, more);
    const ls_update_args like = { .tensors = &l.table, .step_host = step, .step_device = step,
                                  .optimizer = optimizer, .momentum = 0.9f,
                                  .one_minus_beta1 = 0.1f, .one_minus_beta2 = 0.001f,
                                  .one_minus_rho = 0.1f, .epsilon = 1e-7f,
                                  .clip_value = more & CLIP_VALUE ? 1e-4f : 0.0f,
                                  .one_minus_ema = 0.01f };
    float *from[ARENAS], *raw = arena_values(&l, &random, mix);
    for (int a = 0; a < ARENAS; a++) from[a] = arena_values(&l, &random, NAIVE_SMALL);
    for (size_t i = 0; i < l.floats; i++) /* a digest counts all NaN alike */
        if (raw[i] != raw[i]) raw[i] = ls_float_of_bits(0xffc00000u | (uint32_t)(i % 5000));
    for (size_t i = 0; i < l.floats; i++)
        for (int a = 1; a <= 2; a++) from[a][i] *= from[a][i];
    outcome want;
    outcome_init(&want, from, l.floats);
    finish_and_update(&all.machine[0].stream, &l, &like, raw, false, &want);
    for (int m = 0; m < all.count; m++) {
        outcome got;
        outcome_init(&got, from, l.floats);
        finish_and_update(&all.machine[m].stream, &l, &like, raw, true, &got);
        assert_same_outcome(all.machine[m].name, &l, &want, &got);
        outcome_free(&got);
    }
    outcome_free(&want);
    for (int a = 0; a < ARENAS; a++) free(from[a]);
    free(raw);
}

static void test_an_update_that_finishes_its_gradient_is_both_ops_in_turn(void **state)
{
    (void)state;
    for (int o = LS_OPTIMIZER_SGD; o <= LS_OPTIMIZER_RMSPROP; o++) {
        check_joined((ls_optimizer)o, 11, NAIVE_SMALL, PLAIN);
        check_joined((ls_optimizer)o, 12, NAIVE_SMALL, STEPS | CLIP_VALUE);
        check_joined((ls_optimizer)o, 13, NAIVE_ALL, STEPS);
        check_joined((ls_optimizer)o, 14, NAIVE_INFINITE, CLIP_VALUE);
        check_joined((ls_optimizer)o, 15, NAIVE_NAN | NAIVE_HUGE, PLAIN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd_updates_every_element_by_its_formula),
        cmocka_unit_test(test_momentum_updates_and_flushes_its_slot),
        cmocka_unit_test(test_nesterov_steps_from_where_its_momentum_leads),
        cmocka_unit_test(test_adam_updates_and_flushes_both_slots),
        cmocka_unit_test(test_rmsprop_divides_by_a_root_and_flushes_its_slot),
        cmocka_unit_test(test_a_frozen_tensor_keeps_its_bits),
        cmocka_unit_test(test_an_update_that_finishes_its_gradient_is_both_ops_in_turn),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
