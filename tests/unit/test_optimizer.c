/* SPDX-License-Identifier: MIT */
/* test_optimizer.c -- what becomes of a reduced gradient: clipping, decay, rates, averages, rules.
 *
 * The golden numbers are Keras' (tests/golden/make_optimizers.py made them): ten updates of nine
 * weights of about 1/2, from the same gradients. Agreement to 1e-5 of each number, or of 0.1 where
 * it is smaller: Keras rounds its products in another order.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "train/optimizer.h"

enum { KERNEL = 6, BIAS = 3, WEIGHTS = KERNEL + BIAS, UPDATES = 10, ARENA = 64 };

static const struct golden {
    const char *options;
    double weight[WEIGHTS], average[WEIGHTS];
} golden[] = {
#include "golden/optimizers.inc"
};

static const char layers[] = "input 2\ndense 3\nloss mse\n";

/* A model of one dense layer, and the state of its training. */
typedef struct {
    ls_config config;
    ls_model model;
    ls_parameter_rule *rule;
    float w[ARENA], g[ARENA], slot[2][ARENA], average[ARENA];
} trained;

static void set(ls_config *config, const char *name, const char *text)
{
    if (ls_config_set(config, name, text) != LS_OK) fail_msg("%s", ls_last_error());
}

/* "name=value name=value". */
static void set_all(ls_config *config, const char *options)
{
    char text[400], *rest = text;
    snprintf(text, sizeof text, "%s", options);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        set(config, word, equals + 1);
    }
}

/* Element of the gradient of an update, as the script's; of the first weights: update -1. */
static float value(int element, int update)
{
    return (float)((element * 37 + (update + 1) * 61) % 101 - 50) / 64;
}

/* All nine numbers in the arena's places: the kernel, then the bias. */
static void fill(const trained *t, float *arena, int update)
{
    for (int e = 0; e < WEIGHTS; e++) {
        const ls_parameter *p = &t->model.parameter[e >= KERNEL];
        arena[p->begin + (size_t)(e >= KERNEL ? e - KERNEL : e)] = value(e, update);
    }
}

static void open_trained(trained *t, const char *options)
{
    *t = (trained){ .rule = NULL };
    ls_config_init(&t->config);
    set_all(&t->config, options);
    ls_config_fill(&t->config, 1);
    assert_int_equal(ls_model_init(&t->model, "golden", layers, NULL), LS_OK);
    assert_int_equal(t->model.parameter_count, 2);
    assert_true(t->model.arena_floats <= ARENA);
    if (ls_rules_create(&t->config, &t->model, &t->rule) != LS_OK) fail_msg("%s", ls_last_error());
    fill(t, t->w, -1);
    memcpy(t->average, t->w, sizeof t->w);
}

static void close_trained(trained *t)
{
    free(t->rule);
    ls_model_free(&t->model);
}

/* One update, as a step takes it, of the gradient in t->g. Returns the gradient's length. */
static double update(trained *t, ls_optimizer_state *state)
{
    ls_arena_tensor tensor[2];
    ls_tensor_step step[2];
    double square[2], moved[2];
    uint64_t first[2], digest;
    const double lr = ls_config_rate(&t->config, state->updates);
    for (int p = 0; p < 2; p++)
        tensor[p] = (ls_arena_tensor){ .begin = t->model.parameter[p].begin,
                                       .count = t->model.parameter[p].count,
                                       .l2_twice = (float)(2 * t->rule[p].l2),
                                       .l1 = (float)t->rule[p].l1 };
    const ls_arena_table table = { 2, tensor, tensor };
    assert_int_equal(ls_kernels_reference.gradient_finish(NULL, &(ls_gradient_finish_args){
        &table, 1.0f, t->w, t->g, square, first }), LS_OK);
    const double norm = ls_trained_norm(t->rule, square, 2);
    ls_optimizer_advance(state, &t->config);
    ls_optimizer_steps(state, &t->config, lr, t->rule, square, norm, 2, step);
    ls_update_args args = ls_optimizer_constants(state, &t->config);
    args.tensors = &table;
    args.step_host = args.step_device = step;
    args.g = t->g;
    args.w = t->w;
    args.slot0 = t->slot[0];
    args.slot1 = t->slot[1];
    args.average = t->config.ema > 0 ? t->average : NULL;
    args.update_square_sum = moved;
    args.digest = &digest;
    assert_int_equal(ls_kernels_reference.update(NULL, &args), LS_OK);
    return norm;
}

static void compare(const trained *t, const char *options, const float *arena, const double *want)
{
    for (int e = 0; e < WEIGHTS; e++) {
        const ls_parameter *p = &t->model.parameter[e >= KERNEL];
        const double got = (double)arena[p->begin + (size_t)(e >= KERNEL ? e - KERNEL : e)];
        if (!(fabs(got - want[e]) <= 1e-5 * fmax(fabs(want[e]), 0.1)))
            fail_msg("%s: number %d is %.9g, Keras has %.9g", options, e, got, want[e]);
    }
}

static void test_ten_updates_are_those_of_keras(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        trained t;
        open_trained(&t, golden[i].options);
        ls_optimizer_state at = ls_optimizer_state_at(&t.config, 0);
        for (int u = 0; u < UPDATES; u++) {
            fill(&t, t.g, u);
            update(&t, &at);
        }
        compare(&t, golden[i].options, t.w, golden[i].weight);
        if (t.config.ema > 0) compare(&t, golden[i].options, t.average, golden[i].average);
        close_trained(&t);
    }
}

/* -- clipping ---------------------------------------------------------------------------------- */

static void test_a_norm_is_clipped_to_its_bound_and_never_raised(void **state)
{
    (void)state;
    assert_true(ls_clip_factor(1, 5) == 0.2);
    assert_true(ls_clip_factor(5, 5) == 1 && ls_clip_factor(6, 5) == 1);
    assert_true(ls_clip_factor(0, 5) == 1); /* off */
    assert_true(ls_clip_factor(1, 0) == 1); /* a gradient of zeros: no division by it */
}

static void test_the_norm_of_each_tensor_or_of_all_is_bounded(void **state)
{
    (void)state;
    const double square[3] = { 9, 16, 144 };
    const ls_parameter_rule rule[3] = { { .lr = 1 }, { .lr = 1 }, { .frozen = true } };
    const ls_optimizer_state first = { .updates = 1 };
    ls_tensor_step step[3];
    ls_config c;
    const double norm = ls_trained_norm(rule, square, 3);
    assert_true(norm == 5); /* the frozen one is no part of it */
    ls_config_init(&c);
    set_all(&c, "optimizer=sgd lr=0.5 clip-global-norm=1");
    ls_optimizer_steps(&first, &c, 0.5, rule, square, norm, 3, step);
    assert_true(step[0].clip == 0.2f && step[1].clip == 0.2f && step[2].frozen);
    ls_config_init(&c);
    set_all(&c, "optimizer=sgd lr=0.5 clip-norm=3.5");
    ls_optimizer_steps(&first, &c, 0.5, rule, square, norm, 3, step);
    assert_true(step[0].clip == 1.0f && step[1].clip == 0.875f);
}

/* -- rates and decay --------------------------------------------------------------------------- */

static void test_rates_and_decays_are_rounded_once(void **state)
{
    (void)state;
    const double square[2] = { 1, 1 };
    const ls_parameter_rule rule[2] = { { .lr = 0.3, .decay = 0.7 }, { .lr = 1, .decay = 0.1 } };
    ls_tensor_step step[2];
    ls_config c;
    ls_config_init(&c);
    set_all(&c, "optimizer=adamw");
    ls_optimizer_state at = ls_optimizer_state_at(&c, 3);
    ls_optimizer_steps(&at, &c, 0.001, rule, square, 1, 2, step);
    const double b1 = 0.9 * 0.9 * 0.9, b2 = 0.999 * 0.999 * 0.999, own = 0.001 * 0.3;
    assert_true(step[0].rate == (float)(own * sqrt(1 - b2) / (1 - b1)));
    assert_true(step[1].rate == (float)(0.001 * sqrt(1 - b2) / (1 - b1)));
    assert_true(step[0].decay == (float)(own * 0.7) && step[1].decay == (float)(0.001 * 0.1));
    c.optimizer = LS_OPTIMIZER_RMSPROP;
    ls_optimizer_steps(&at, &c, 0.001, rule, square, 1, 2, step);
    assert_true(step[0].rate == (float)own);
}

static void test_linear_scaling_multiplies_every_rate(void **state)
{
    (void)state;
    ls_config c;
    ls_config_init(&c);
    set_all(&c, "lr=0.1 global-batch=256 lr-scale=linear base-batch=32 schedule=step:10,0.5 "
                "warmup=4");
    assert_true(ls_config_lr_factor(&c) == 8);
    assert_true(ls_config_rate(&c, 0) == 8 * (0.1 * 0.25));
    assert_true(ls_config_rate(&c, 4) == 0.8 && ls_config_rate(&c, 14) == 0.4);
    set(&c, "schedule", "table:0=0.1,5=0.01");
    assert_true(ls_config_rate(&c, 9) == 0.08);
    set(&c, "base-batch", "512");
    assert_true(ls_config_rate(&c, 4) == 0.05);
    set(&c, "lr-scale", "none");
    assert_true(ls_config_rate(&c, 4) == 0.1);
}

/* -- rules ------------------------------------------------------------------------------------- */

static const char two_layers[] =
    "input 2\nconv1 = dense 3 relu\nhead = dense 4\nloss softmax-crossentropy\n";

/* Rules of conv1/kernel, conv1/bias, head/kernel, head/bias. */
static ls_status make_rules(const char *text, ls_parameter_rule out[4])
{
    ls_config c;
    ls_model model;
    ls_parameter_rule *rule = NULL;
    ls_config_init(&c);
    set_all(&c, "l1=0.1 l2=0.2 weight-decay=0.3");
    if (text[0]) set(&c, "rules", text);
    assert_int_equal(ls_model_init(&model, "two", two_layers, NULL), LS_OK);
    assert_int_equal(model.parameter_count, 4);
    const ls_status status = ls_rules_create(&c, &model, &rule);
    if (status == LS_OK) memcpy(out, rule, 4 * sizeof *rule);
    free(rule);
    ls_model_free(&model);
    return status;
}

static void must_make_rules(const char *text, ls_parameter_rule out[4])
{
    if (make_rules(text, out) != LS_OK) fail_msg("%s", ls_last_error());
}

static void test_without_rules_decay_and_regularisation_act_on_kernels(void **state)
{
    (void)state;
    ls_parameter_rule r[4];
    must_make_rules("", r);
    for (int p = 0; p < 4; p++) {
        assert_true(r[p].lr == 1 && !r[p].frozen);
        assert_true(p % 2 ? r[p].l1 == 0 && r[p].l2 == 0 && r[p].decay == 0
                          : r[p].l1 == 0.1 && r[p].l2 == 0.2 && r[p].decay == 0.3);
    }
}

static void test_the_last_rule_that_matches_counts_property_by_property(void **state)
{
    (void)state;
    ls_parameter_rule r[4];
    must_make_rules("*=lr:0.5,l2:0; conv1/*=lr:0.25 ;*/bias=decay:7", r);
    assert_true(r[0].lr == 0.25 && r[1].lr == 0.25 && r[2].lr == 0.5 && r[3].lr == 0.5);
    assert_true(r[0].l2 == 0 && r[0].l1 == 0.1 && r[0].decay == 0.3);
    assert_true(r[1].decay == 7 && r[3].decay == 7 && r[2].decay == 0.3);
    must_make_rules("*=freeze;head/*=train", r);
    assert_true(r[0].frozen && r[1].frozen && !r[2].frozen && !r[3].frozen);
    assert_true(r[0].l1 == 0 && r[0].l2 == 0 && r[0].decay == 0 && r[2].l2 == 0.2);
}

static void test_a_star_matches_any_characters(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        bool frozen[4];
    } patterns[] = {
        { "conv1/kernel=freeze", { true, false, false, false } },
        { "*kernel=freeze", { true, false, true, false } },
        { "*e*/b*=freeze", { false, false, false, true } },
        { "**head**=freeze", { false, false, true, true } },
        { "h*d/*n*l=freeze", { false, false, true, false } },
        { "c*=freeze;*s=freeze", { true, true, false, true } },
        { "*a*a*=freeze", { false, false, false, true } },
    };
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        ls_parameter_rule r[4];
        must_make_rules(patterns[i].rules, r);
        for (int p = 0; p < 4; p++)
            if (r[p].frozen != patterns[i].frozen[p])
                fail_msg("%s: parameter %d", patterns[i].rules, p);
    }
}

static void test_rules_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *rules, *words;
    } wrong[] = {
        { "conv2/kernel=freeze", "'conv2/kernel' matches no parameter of this model; the nearest "
                                 "is conv1/kernel" },
        { "*=lr:0.1;conv=freeze", "'conv' matches no parameter" },
        { "*=freeze", "--rules freeze all 4 parameters" },
        { "*", "found '*', expected PATTERN=freeze" },
        { "=freeze", "expected PATTERN=freeze" },
        { "*=", "expected PATTERN=freeze" },
        { "*=;head/*=freeze", "expected PATTERN=freeze" },
        { "*=lr", "found 'lr', expected freeze, train, lr:X" },
        { "*=lr:", "found 'lr:', expected a number from 0" },
        { "*=lr:-1", "found 'lr:-1', expected a number from 0" },
        { "*=lr:0x1", "found 'lr:0x1'" },
        { "*=lr:nan", "found 'lr:nan'" },
        { "*=lr:1e7", "found 'lr:1e7'" },
        { "*=l2:1,,decay:1", "found ''" },
        { "*=l3:1", "found 'l3:1'" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ls_parameter_rule r[4];
        assert_int_equal(make_rules(wrong[i].rules, r), LS_ERR_ARGUMENT);
        if (!strstr(ls_last_error(), wrong[i].words))
            fail_msg("%s: found \"%s\", expected \"%s\"", wrong[i].rules, ls_last_error(),
                     wrong[i].words);
    }
}

static void test_a_frozen_parameter_does_not_move_and_the_others_do(void **state)
{
    (void)state;
    trained t;
    open_trained(&t, "optimizer=adamw lr=0.1 clip-global-norm=0.1 ema=0.5 rules=*/bias=freeze");
    ls_optimizer_state at = ls_optimizer_state_at(&t.config, 0);
    float first[ARENA];
    memcpy(first, t.w, sizeof first);
    fill(&t, t.g, 0);
    update(&t, &at);
    const size_t kernel = t.model.parameter[0].begin, bias = t.model.parameter[1].begin;
    assert_memory_equal(t.w + bias, first + bias, BIAS * sizeof(float));
    assert_memory_equal(t.average + bias, first + bias, BIAS * sizeof(float));
    for (size_t e = kernel; e < kernel + KERNEL; e++) assert_true(t.w[e] != first[e]);
    close_trained(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ten_updates_are_those_of_keras),
        cmocka_unit_test(test_a_norm_is_clipped_to_its_bound_and_never_raised),
        cmocka_unit_test(test_the_norm_of_each_tensor_or_of_all_is_bounded),
        cmocka_unit_test(test_rates_and_decays_are_rounded_once),
        cmocka_unit_test(test_linear_scaling_multiplies_every_rate),
        cmocka_unit_test(test_without_rules_decay_and_regularisation_act_on_kernels),
        cmocka_unit_test(test_the_last_rule_that_matches_counts_property_by_property),
        cmocka_unit_test(test_a_star_matches_any_characters),
        cmocka_unit_test(test_rules_that_make_no_sense_are_refused),
        cmocka_unit_test(test_a_frozen_parameter_does_not_move_and_the_others_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
