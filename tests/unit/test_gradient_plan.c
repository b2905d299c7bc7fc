/* SPDX-License-Identifier: MIT */
/* test_gradient_plan.c -- where gradients lie, over graphs: nothing that is still needed is
 * overwritten, and what is added is what the graph says.
 *
 * The plan is executed on sums of paths in place of numbers: every layer passes its gradient on,
 * multiplied by a prime of its own, so the gradient of a tensor is the sum over all paths from the
 * loss to it of the products of their primes. That is computed twice: by the plan's slots, and by
 * the definition.
 */
#include "support/test.h"

#include <stdio.h>

#include "support/naive.h"
#include "train/gradient_plan.h"

enum { MODULUS = 1000003 };

static ls_model parse(const char *text)
{
    ls_model model;
    if (ls_model_init(&model, "test", text, NULL) != LS_OK)
        fail_msg("%s\n%s", text, ls_last_error());
    return model;
}

static uint64_t factor_of(const ls_model *model, int l)
{
    const ls_op op = model->layer[l].op;
    return op == LS_OP_ADD || op == LS_OP_FLATTEN ? 1 : (uint64_t)(2 * l + 3);
}

/* The gradient of layer `l`'s output by the definition: over its consumers. */
static void define(const ls_model *model, uint64_t *out)
{
    for (int l = 0; l < model->layer_count; l++) out[l] = l == model->layer_count - 1;
    for (int l = model->layer_count - 1; l >= 0; l--) {
        if (!model->layer[l].is_used) continue;
        for (int i = 0; i < model->layer[l].input_count; i++) {
            uint64_t *to = &out[model->layer[l].input[i]];
            *to = (*to + out[l] * factor_of(model, l)) % MODULUS;
        }
    }
}

/* By the plan. Every slot that a step may not read any more is spoiled by whoever gets it next. */
static void execute(const ls_model *model, const ls_gradient_plan *plan)
{
    uint64_t slot[64] = { 0 }, want[64];
    assert_true(plan->slot_count <= 64 && model->layer_count <= 64);
    define(model, want);
    slot[plan->step[model->layer_count - 1].dy] = 1;
    for (int l = model->layer_count - 1; l >= 0; l--) {
        const ls_layer *layer = &model->layer[l];
        const ls_gradient_step *step = &plan->step[l];
        if (step->dy < 0) continue;
        assert_int_equal(slot[step->dy], want[l]); /* complete when the layer is visited */
        assert_true(plan->slot_floats[step->dy] >= ls_shape_floats(layer->out));
        slot[step->masked] = slot[step->dy];
        for (int i = 0; i < layer->input_count; i++) {
            const ls_gradient_move *move = &step->input[i];
            if (move->write < 0) continue;
            const size_t floats = ls_shape_floats(model->layer[layer->input[i]].out);
            assert_true(plan->slot_floats[move->write] >= floats);
            slot[move->write] = slot[step->masked] * factor_of(model, l) % MODULUS;
            if (move->old < 0) continue;
            assert_true(plan->slot_floats[move->sum] >= floats);
            slot[move->sum] = (slot[move->old] + slot[move->write]) % MODULUS;
        }
    }
}

static int slots_of(const char *text)
{
    ls_model model = parse(text);
    ls_gradient_plan plan;
    assert_int_equal(ls_gradient_plan_init(&plan, &model, NULL), LS_OK);
    execute(&model, &plan);
    const int slots = plan.slot_count;
    ls_gradient_plan_free(&plan);
    ls_model_free(&model);
    return slots;
}

static void test_a_chain_takes_two_slots(void **state)
{
    (void)state;
    assert_int_equal(slots_of("input 8x8x3\nconv 4 3x3 relu\nconv 4 3x3 relu\nmaxpool 2x2\n"
                              "flatten\ndense 7 relu\ndropout 0.5\ndense 3\n"
                              "loss softmax-crossentropy\n"), 2);
}

static void test_residual_blocks_take_three_slots_however_many_there_are(void **state)
{
    (void)state;
    assert_int_equal(slots_of("input 8x8x3\n"
                              "a = conv 4 3x3 pad=same\n conv 4 3x3 pad=same\n batchnorm relu\n"
                              " conv 4 3x3 pad=same\nb = batchnorm\nc = add relu from b a\n"
                              " conv 4 3x3 pad=same\n batchnorm relu\n conv 4 3x3 pad=same\n"
                              "d = batchnorm\n add relu from d c\n globalavgpool\n dense 3\n"
                              "loss softmax-crossentropy\n"), 3);
}

static void test_a_tensor_may_feed_several_layers(void **state)
{
    (void)state;
    slots_of("input 6\na = dense 5\nb = relu from a\nc = multiply from b a\n"
             "concat from c a b\n dense 2\nloss mse\n");
}

/* The plan's step of a layer. */
static ls_gradient_step step_at(const char *text, int l)
{
    ls_model model = parse(text);
    ls_gradient_plan plan;
    assert_int_equal(ls_gradient_plan_init(&plan, &model, NULL), LS_OK);
    const ls_gradient_step step = plan.step[l];
    ls_gradient_plan_free(&plan);
    ls_model_free(&model);
    return step;
}

#define END "flatten\ndense 3\nloss mse\n"

static void test_a_relu_that_only_a_max_pooling_reads_is_masked_by_it(void **state)
{
    (void)state;
    assert_true(step_at("input 8x8x3\nconv 4 3x3 relu\nmaxpool 2x2\n" END, 1).comes_masked);
    assert_true(step_at("input 8x8x3\nc = conv 4 3x3 relu\np = maxpool 2x2\n"
                        "unused = conv 4 3x3 from c\nflatten from p\ndense 3\nloss mse\n", 1)
                    .comes_masked);
    static const char *const none[] = {
        "input 8x8x3\nconv 4 3x3\nmaxpool 2x2\n" END,
        "input 8x8x3\nconv 4 3x3 relu\navgpool 2x2\n" END,
        "input 8x8x3\nc = conv 4 3x3 relu\np = maxpool 3x3 stride=1 pad=same from c\n"
        "add from p c\n" END,
        "input 8x8x3\nc = conv 4 3x3 relu\na = maxpool 2x2 from c\nb = maxpool 2x2 from c\n"
        "add from a b\n" END,
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_false(step_at(none[i], 1).comes_masked);
}

static void test_a_first_convolution_feeds_the_pooling_that_follows_it(void **state)
{
    (void)state;
    static const char deep[] = "input 16x16x3\nconv 4 3x3 relu\nmaxpool 2x2\nconv 4 3x3\n"
                               "maxpool 2x2\n" END;
    assert_true(step_at(deep, 1).feeds_pooling);
    assert_false(step_at(deep, 3).feeds_pooling); /* its input has a gradient */
    assert_true(step_at("input 8x8x3\nconv 4 3x3\nmaxpool 2x2\n" END, 1).feeds_pooling);
    static const char *const none[] = {
        "input 8x8x3\nconv 4 3x3\nbatchnorm\nmaxpool 2x2\n" END,
        "input 8x8x3\nc = conv 4 3x3\np = maxpool 3x3 stride=1 pad=same from c\n"
        "add from p c\n" END,
        "i = input 8x8x3\nc = conv 4 3x3\nd = conv 4 3x3 from i\np = maxpool 2x2 from c\n"
        "q = maxpool 2x2 from d\nadd from p q\n" END, /* another layer is between */
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_false(step_at(none[i], 1).feeds_pooling);
}

static void test_what_the_loss_does_not_use_gets_no_gradient(void **state)
{
    (void)state;
    ls_model model = parse("input 6\na = dense 5\nside = dense 4 from a\nend = dense 2 from a\n"
                           "loss mse\n");
    ls_gradient_plan plan;
    assert_int_equal(ls_gradient_plan_init(&plan, &model, NULL), LS_OK);
    assert_false(model.layer[2].is_used);
    assert_int_equal(plan.step[2].dy, -1);
    assert_false(ls_gradient_plan_trains(&plan, &model, NULL, 2));
    assert_true(ls_gradient_plan_trains(&plan, &model, NULL, 1));
    assert_int_equal(plan.step[1].input[0].write, -1); /* nobody trains the input */
    execute(&model, &plan);
    ls_gradient_plan_free(&plan);
    ls_model_free(&model);
}

static void test_below_the_first_trained_layer_nothing_is_computed(void **state)
{
    (void)state;
    ls_model model = parse("input 6\ndense 5\ndense 4\ndense 2\nloss mse\n");
    ls_parameter_rule rule[6] = { { .lr = 1 } };
    for (int p = 0; p < 4; p++) rule[p].frozen = true; /* dense3 alone is trained */
    ls_gradient_plan plan;
    assert_int_equal(ls_gradient_plan_init(&plan, &model, rule), LS_OK);
    assert_true(plan.step[3].dy >= 0);
    assert_int_equal(plan.step[3].input[0].write, -1);
    assert_int_equal(plan.step[2].dy, -1);
    assert_false(ls_gradient_plan_trains(&plan, &model, rule, 2));
    ls_gradient_plan_free(&plan);
    ls_model_free(&model);
}

/* A random graph: every layer reads one to three different ones of the last four above it. */
static void random_graph(uint64_t seed, char *text, size_t bytes)
{
    naive_random random = { seed };
    static const char *const single[] = { "relu", "dense 4 relu", "dense 4", "tanh", "flatten",
                                          "batchnorm relu", "batchnorm", "dropout 0.5" };
    static const char *const several[] = { "add", "add relu", "multiply" };
    size_t used = (size_t)snprintf(text, bytes, "input 4\nn0 = dense 4\n");
    const int layers = 3 + (int)(naive_next(&random) % 18);
    for (int l = 1; l < layers; l++) {
        const int most = l < 3 ? l : 3, inputs = 1 + (int)(naive_next(&random) % 64) % most;
        int from = l - 1 - (l > inputs ? (int)(naive_next(&random) % 2) : 0);
        used += (size_t)snprintf(text + used, bytes - used, "n%d = %s from", l,
                                 inputs == 1 ? single[naive_next(&random) % 8]
                                             : several[naive_next(&random) % 3]);
        for (int i = 0; i < inputs; i++, from--)
            used += (size_t)snprintf(text + used, bytes - used, " n%d", from);
        used += (size_t)snprintf(text + used, bytes - used, "\n");
    }
    snprintf(text + used, bytes - used, "dense 2\nloss mse\n");
}

static void test_any_graph_gets_the_gradients_of_its_definition(void **state)
{
    (void)state;
    char text[4096];
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        random_graph(seed, text, sizeof text);
        slots_of(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_chain_takes_two_slots),
        cmocka_unit_test(test_residual_blocks_take_three_slots_however_many_there_are),
        cmocka_unit_test(test_a_tensor_may_feed_several_layers),
        cmocka_unit_test(test_a_relu_that_only_a_max_pooling_reads_is_masked_by_it),
        cmocka_unit_test(test_a_first_convolution_feeds_the_pooling_that_follows_it),
        cmocka_unit_test(test_what_the_loss_does_not_use_gets_no_gradient),
        cmocka_unit_test(test_below_the_first_trained_layer_nothing_is_computed),
        cmocka_unit_test(test_any_graph_gets_the_gradients_of_its_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
