/* SPDX-License-Identifier: MIT */
/* test_kernels_refused.c -- ls_<op> refuses what no implementation can do. All ask the same checks
 * first (kernels.c), so one machine stands for all.
 */
#include "kernels/kernels.h"

#include "support/machines.h"
#include "support/test.h"

static ls_stream *const stream = &all.machine[0].stream;

/* The call fails with ARGUMENT and a text that holds `part`. */
#define assert_refused(call, part)                                                                \
    do {                                                                                          \
        assert_int_equal((call), LS_ERR_ARGUMENT);                                                \
        if (strstr(ls_last_error(), (part)) == NULL) {                                            \
            fail_msg("\"%s\" does not say \"%s\"", ls_last_error(), (part));                      \
        }                                                                                         \
    } while (0)

static void test_products_refuse_what_does_not_fit(void **state)
{
    (void)state;
    float x[64] = { 0 };
    assert_refused(ls_gemm(stream, &(ls_gemm_args){ .M = 2, .N = 2, .K = 2, .A = x, .C = x }),
                   "gemm: B is NULL");
    assert_refused(ls_gemm(stream, &(ls_gemm_args){ .M = 1, .N = 1, .K = 1, .A = x, .B = x,
                                                    .C = x + 2, .accumulate = true,
                                                    .bias = x }),
                   "accumulate");
    ls_conv_shape shape = { 1, 4, 5, 1, 1, 3, 3, 1, 1, 0, 0, 2, 3 };
    assert_refused(ls_conv_forward(stream, &(ls_conv_forward_args){ .shape = shape, .w = x,
                                                                    .y = x }),
                   "conv_forward: x is NULL");
    shape.out_height = 5;
    assert_refused(ls_conv_forward(stream, &(ls_conv_forward_args){ .shape = shape, .x = x,
                                                                    .w = x, .y = x }),
                   "height: 5 places of a window of 3, stride 1, padding 0, do not fit an extent "
                   "of 4");
    shape.out_height = 2;
    shape.pad_left = 3;
    assert_refused(ls_conv_input_gradient(
                       stream, &(ls_conv_input_gradient_args){ .shape = shape, .dy = x, .w = x,
                                                               .dx = x }),
                   "width: 3 places");
    shape.pad_left = 0;
    shape.stride_width = 0;
    assert_refused(ls_conv_forward(stream, &(ls_conv_forward_args){ .shape = shape, .x = x,
                                                                    .w = x, .y = x }),
                   "stride 0");
    shape.stride_width = 1;
    shape.filters = 0;
    assert_refused(ls_conv_forward(stream, &(ls_conv_forward_args){ .shape = shape, .x = x,
                                                                    .w = x, .y = x }),
                   "0 filters");
    shape.filters = 1;
    ls_fold fold = { .leaf_count = 1, .piece_count = 1, .slot_count = 1, .sample = { 0, 2 } };
    assert_refused(ls_conv_weight_gradient(
                       stream, &(ls_conv_weight_gradient_args){ .shape = shape, .fold = &fold,
                                                                .x = x, .dy = x, .dw = x }),
                   "1 samples, the fold has 2");
}

static void test_folds_that_lead_nowhere_are_refused(void **state)
{
    (void)state;
    float x[8] = { 0 }, out[8];
    ls_fold fold = { .leaf_count = 1, .piece_count = 2, .slot_count = 2, .sample = { 0, 2 } };
    ls_batch_sum_args args = { 1, 1, 4, NULL, x, out, 4 };
    assert_refused(ls_batch_sum(stream, &args), "fold is NULL");
    args.fold = &fold;
    assert_int_equal(ls_batch_sum(stream, &args), LS_OK);
    args.piece_stride = 3;
    assert_refused(ls_batch_sum(stream, &args), "pieces of 4 floats lie 3 apart");
    args.piece_stride = 4;
    fold.store[0] = 2;
    assert_refused(ls_batch_sum(stream, &args), "slot 2 of 2");
    fold.store[0] = 0;
    fold.sample[0] = 3;
    assert_refused(ls_batch_sum(stream, &args), "samples [3, 2)");
    fold.sample[0] = 0;
    fold.leaf_count = LS_SHARD_MAX + 1;
    assert_refused(ls_batch_sum(stream, &args), "65 leaves");
    fold.leaf_count = 1;
    fold.merge_count[0] = 1;
    fold.merge[0][0] = 9;
    assert_refused(ls_batch_sum(stream, &args), "leaf 0");
    fold.merge_count[0] = 0;
    args.width = 0;
    assert_refused(ls_batch_sum(stream, &args), "1 x 0 x 4");
}

static void test_pooling_refuses_windows_without_an_element(void **state)
{
    (void)state;
    float x[16] = { 0 };
    uint8_t place[16];
    ls_pool_shape shape = { 1, 4, 4, 1, 2, 2, 2, 2, 0, 0, 2, 2 };
    ls_max_pool_args args = { shape, x, x, place };
    args.shape.pad_top = 2;
    assert_refused(ls_max_pool(stream, &args), "padding 2");
    args.shape = shape;
    args.shape.out_width = 3;
    assert_refused(ls_max_pool(stream, &args), "width: 3 places");
    args.shape = shape;
    args.shape.window_height = 16;
    args.shape.window_width = 17;
    assert_refused(ls_max_pool(stream, &args), "16 x 17");
    args.shape.channels = 0;
    assert_refused(ls_max_pool(stream, &args), "0 channels");
    args.shape = shape;
    args.place = NULL;
    assert_refused(ls_max_pool(stream, &args), "place is NULL");
    assert_refused(ls_max_pool_gradient(stream, &(ls_max_pool_gradient_args){
                       .shape = shape, .dy = x, .place = place }),
                   "dx is NULL");
    ls_average_pool_args average = { shape, x, NULL };
    assert_refused(ls_average_pool(stream, &average), "y is NULL");
    average.shape.pad_left = 2;
    assert_refused(ls_average_pool(stream, &average), "padding 2");
    assert_refused(ls_average_pool_gradient(stream, &(ls_average_pool_gradient_args){
                                                        average.shape, x, x }), "padding 2");
}

static void test_buffers_are_the_same_or_apart(void **state)
{
    (void)state;
    float x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    const uint32_t index[2] = { 0, 1 };
    assert_int_equal(ls_activate(stream, &(ls_activate_args){ .count = 4, .x = x, .y = x }),
                     LS_OK);
    assert_int_equal(ls_activate(stream, &(ls_activate_args){ .count = 4, .x = x, .y = x + 4 }),
                     LS_OK);
    assert_refused(ls_activate(stream, &(ls_activate_args){ .count = 4, .x = x, .y = x + 1 }),
                   "overlap by 12 bytes");
    assert_refused(ls_activate_gradient(stream, &(ls_activate_gradient_args){
                                                    .count = 4, .y = x, .dy = x + 2, .dx = x }),
                   "overlap by 8 bytes");
    assert_refused(ls_add(stream, &(ls_add_args){ .count = 4, .a = x, .b = x + 2, .y = x }),
                   "overlap by 8 bytes");
    assert_refused(ls_multiply(stream, &(ls_multiply_args){ .count = 4, .a = x + 3, .b = x,
                                                            .y = x }),
                   "overlap by 4 bytes");
    assert_refused(ls_dropout(stream, &(ls_dropout_args){ .samples = 2, .elements = 3,
                                                          .index = index, .x = x + 2, .y = x }),
                   "overlap by 16 bytes");
    assert_refused(ls_merge(stream, &(ls_merge_args){ .count = 4, .source_count = 1,
                                                      .source = { x }, .out_count = 1,
                                                      .out = { x + 3 } }),
                   "overlap by 4 bytes");
}

static void test_element_wise_ops_refuse_what_does_not_fit(void **state)
{
    (void)state;
    float x[8] = { 0 }, y[8];
    const uint32_t index[2] = { 0, 1 };
    ls_activate_args activate = { .kind = (ls_activation)6, .count = 1, .x = x, .y = y };
    assert_refused(ls_activate(stream, &activate), "activation 6");
    activate = (ls_activate_args){ .kind = LS_ACTIVATION_GELU, .count = 1, .x = x };
    assert_refused(ls_activate(stream, &activate), "activate: y is NULL");
    ls_activate_gradient_args gradient = { .kind = (ls_activation)-1 };
    assert_refused(ls_activate_gradient(stream, &gradient), "activation -1");
    for (int kind = LS_ACTIVATION_RELU; kind <= LS_ACTIVATION_SILU; kind++) {
        const bool from_y = kind == LS_ACTIVATION_RELU || kind == LS_ACTIVATION_SIGMOID ||
                            kind == LS_ACTIVATION_TANH;
        gradient = (ls_activate_gradient_args){ .kind = (ls_activation)kind, .count = 1,
                                                .dy = x + 1, .dx = y };
        assert_refused(ls_activate_gradient(stream, &gradient),
                       from_y ? "y is NULL" : "x is NULL");
        if (from_y) gradient.y = x;
        else gradient.x = x;
        assert_int_equal(ls_activate_gradient(stream, &gradient), LS_OK);
    }
    assert_refused(ls_dropout(stream, &(ls_dropout_args){ .samples = 1, .elements = 8,
                                                          .channels = 3, .index = index,
                                                          .x = x, .y = y }),
                   "8 elements are no multiple of 3 channels");
    assert_refused(ls_dropout(stream, &(ls_dropout_args){ .layer = 65536 }), "layer 65536");
    assert_refused(ls_add(stream, &(ls_add_args){ .count = 1, .a = x, .y = y }), "b is NULL");
    assert_refused(ls_multiply(stream, &(ls_multiply_args){ .count = 1, .b = x, .y = y }),
                   "a is NULL");
}

static void test_copies_refuse_what_does_not_fit(void **state)
{
    (void)state;
    float x[8] = { 0 }, y[8];
    ls_copy_columns_args copy = { .rows = 2, .columns = 3, .from = x, .from_stride = 3, .to = y,
                                  .to_stride = 2 };
    assert_refused(ls_copy_columns(stream, &copy), "3 columns of rows that lie 3 and 2 apart");
    copy.rows = 1;
    assert_int_equal(ls_copy_columns(stream, &copy), LS_OK);
    copy.to = NULL;
    assert_refused(ls_copy_columns(stream, &copy), "to is NULL");
    ls_pad_args pad = { .samples = 1, .height = 1, .width = 1, .channels = 1, .out_height = 2,
                        .out_width = 2, .y = y };
    assert_refused(ls_pad(stream, &pad), "pad: x is NULL");
    pad.height = 0; /* nothing to read */
    assert_int_equal(ls_pad(stream, &pad), LS_OK);
    pad.y = NULL;
    assert_refused(ls_pad(stream, &pad), "pad: y is NULL");
}

static void test_merge_programs_end_with_one_sum(void **state)
{
    (void)state;
    float a[1] = { 1 }, b[1] = { 2 }, out[1];
    ls_merge_args args = { .count = 1, .source_count = 2, .source = { a, b }, .adds = { 0, 1 },
                           .out_count = 1, .out = { out } };
    assert_int_equal(ls_merge(stream, &args), LS_OK);
    assert_true(out[0] == 3.0f);
    args.adds[1] = 0;
    assert_refused(ls_merge(stream, &args), "2 sources end as 2 sums");
    args.adds[1] = 2;
    assert_refused(ls_merge(stream, &args), "leave nothing to add");
    args.adds[0] = 1;
    assert_refused(ls_merge(stream, &args), "after source 0");
    args.source_count = 0;
    assert_refused(ls_merge(stream, &args), "0 sources");
    args.source_count = LS_MERGE_MAX + 1;
    assert_refused(ls_merge(stream, &args), "65 sources");
    args.source_count = 1;
    args.adds[0] = 0;
    args.out_count = 0;
    assert_refused(ls_merge(stream, &args), "0 outputs");
}

static void test_losses_refuse_missing_parts(void **state)
{
    (void)state;
    float x[8] = { 0 };
    assert_refused(ls_softmax_loss(stream, &(ls_softmax_loss_args){ .samples = 1 }),
                   "0 classes");
    assert_refused(ls_softmax_loss(stream, &(ls_softmax_loss_args){ .samples = 1, .classes = 2,
                                                                    .logits = x, .loss = x }),
                   "label is NULL");
    const int32_t label[1] = { 0 };
    int32_t place[1];
    assert_refused(ls_softmax_loss(stream, &(ls_softmax_loss_args){
                                               .samples = 1, .classes = 2, .logits = x,
                                               .label = label, .dlogits = x }),
                   "a gradient with loss_scale 0");
    assert_refused(ls_sigmoid_loss(stream, &(ls_sigmoid_loss_args){ .samples = 1 }),
                   "0 outputs");
    assert_refused(ls_sigmoid_loss(stream, &(ls_sigmoid_loss_args){ .samples = 1, .outputs = 2,
                                                                    .logits = x, .loss = x }),
                   "target is NULL");
    assert_refused(ls_sigmoid_loss(stream, &(ls_sigmoid_loss_args){
                                               .samples = 1, .outputs = 2, .logits = x,
                                               .target = x, .place = place }),
                   "label is NULL");
    assert_refused(ls_regression_loss(stream, &(ls_regression_loss_args){
                                                  .samples = 1, .outputs = 2, .prediction = x }),
                   "target is NULL");
    assert_refused(ls_regression_loss(stream, &(ls_regression_loss_args){ .samples = 1 }),
                   "kind 0 of 0 outputs");
}

static void test_arenas_refuse_missing_parts(void **state)
{
    (void)state;
    float x[8] = { 0 };
    double sum[1];
    uint64_t first[1];
    const ls_arena_tensor tensor = { 0, 8, 0.0f, 0.0f }, odd = { 8, 8, 0.0f, 0.0f };
    const ls_arena_table one = { 1, &tensor, &tensor }, off = { 1, &odd, &odd };
    assert_refused(ls_gradient_finish(stream, &(ls_gradient_finish_args){
                                                  &off, 1.0f, x, x, sum, first }),
                   "tensor 0 begins at 8");
    assert_refused(ls_gradient_finish(stream, &(ls_gradient_finish_args){
                                                  &one, 1.0f, x, x, sum, NULL }),
                   "nonfinite is NULL");
    assert_refused(ls_weight_sums(stream, &(ls_weight_sums_args){ NULL, x, sum, sum }),
                   "tensors is NULL");
    const ls_tensor_step step = { .clip = 1.0f };
    ls_update_args update = { .tensors = &one, .step_host = &step, .step_device = &step,
                              .optimizer = LS_OPTIMIZER_ADAM, .g = x, .w = x,
                              .slot0 = x, .update_square_sum = sum, .digest = first };
    assert_refused(ls_update(stream, &update), "slot1 is NULL");
    ls_gradient_finish_args finish = { &one, 1.0f, x, x, sum, NULL };
    update.slot1 = x;
    update.finish = &finish;
    assert_refused(ls_update(stream, &update), "nonfinite is NULL");
    finish = (ls_gradient_finish_args){ &one, 1.0f, x, x + 1, sum, first };
    assert_refused(ls_update(stream, &update), "update: finish has tensors, w and g at");
    update.optimizer = (ls_optimizer)9;
    assert_refused(ls_update(stream, &update), "optimizer 9");
}

static void test_batch_normalisation_refuses_what_does_not_fit(void **state)
{
    (void)state;
    float x[12] = { 0 }, row[16] = { 0 }, gamma[2] = { 0 };
    const ls_fold fold = { .leaf_count = 1, .piece_count = 1, .slot_count = 1, .shard = { 1 },
                           .sample = { 0, 2 } };
    ls_batchnorm_args args = { .shape = { 1, 0, 2 }, .samples = 2, .fold = &fold,
                               .statistics = { .row = row, .stride = 4, .n = { 0, 2 } },
                               .gamma = gamma, .beta = gamma, .x = x, .y = x };
    assert_refused(ls_batchnorm(stream, &args), "samples of 1 x 0 x 2");
    args.shape.width = 1;
    assert_int_equal(ls_batchnorm(stream, &args), LS_OK);
    args.y = x + 1;
    assert_refused(ls_batchnorm(stream, &args), "overlap by 12 bytes");
    args.y = x + 4;
    args.statistics.n[1] = 0.0f;
    assert_refused(ls_batchnorm(stream, &args), "0 values for shard 1");
    args.statistics.n[1] = 2.0f;
    args.statistics.stride = 3;
    assert_refused(ls_batchnorm(stream, &args), "2 channels lie 3 apart");
    args.statistics.stride = 4;
    args.samples = 3;
    assert_refused(ls_batchnorm(stream, &args), "3 samples, the fold has 2");
    args.fold = NULL;
    assert_refused(ls_batchnorm(stream, &args), "fold is NULL");
    args.statistics.stride = 0;
    assert_refused(ls_batchnorm(stream, &args), "statistics of 0 values");
    args.statistics.n[0] = 3.0f;
    args.statistics.row = NULL;
    assert_refused(ls_batchnorm(stream, &args), "statistics.row is NULL");
}

static void test_statistics_and_gradients_of_batch_normalisation_refuse_missing_parts(void **state)
{
    (void)state;
    float x[12] = { 0 }, row[16] = { 0 }, gamma[2] = { 0 };
    const ls_fold fold = { .leaf_count = 1, .piece_count = 1, .slot_count = 1, .shard = { 1 },
                           .sample = { 0, 2 } };
    const ls_batchnorm_statistics_args statistics = { { 1, 1, 2 }, NULL, x, row };
    assert_refused(ls_batchnorm_statistics(stream, &statistics), "fold is NULL");
    ls_batchnorm_gradient_sums_args sums = { .shape = { 1, 1, 2 }, .fold = &fold,
                                             .statistics = { .row = row, .n = { 2 } }, .x = x,
                                             .dy = x, .row = row, .dgamma = gamma };
    assert_refused(ls_batchnorm_gradient_sums(stream, &sums), "dbeta is NULL");
    sums.dy = NULL;
    assert_refused(ls_batchnorm_gradient_sums(stream, &sums), "dy is NULL");
    ls_batchnorm_gradient_args gradient = { .shape = { 1, 1, 2 }, .samples = 2,
                                            .statistics = { .row = row, .n = { 2 } },
                                            .gamma = gamma, .x = x, .dy = x, .dx = x + 4 };
    assert_refused(ls_batchnorm_gradient(stream, &gradient), "sums is NULL");
    gradient.sums = row;
    assert_int_equal(ls_batchnorm_gradient(stream, &gradient), LS_OK);
    gradient.dx = x + 3;
    assert_refused(ls_batchnorm_gradient(stream, &gradient), "overlap by 4 bytes");
    const ls_batchnorm_merge_args merge = { .channels = 2, .shard_count = 65 };
    assert_refused(ls_batchnorm_merge(stream, &merge), "65 shards");
    const ls_batchnorm_merge_sums_args merge_sums = { .channels = 0, .shard_count = 1 };
    assert_refused(ls_batchnorm_merge_sums(stream, &merge_sums), "0 channels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_refuse_what_does_not_fit),
        cmocka_unit_test(test_folds_that_lead_nowhere_are_refused),
        cmocka_unit_test(test_pooling_refuses_windows_without_an_element),
        cmocka_unit_test(test_buffers_are_the_same_or_apart),
        cmocka_unit_test(test_element_wise_ops_refuse_what_does_not_fit),
        cmocka_unit_test(test_copies_refuse_what_does_not_fit),
        cmocka_unit_test(test_merge_programs_end_with_one_sum),
        cmocka_unit_test(test_losses_refuse_missing_parts),
        cmocka_unit_test(test_arenas_refuse_missing_parts),
        cmocka_unit_test(test_batch_normalisation_refuses_what_does_not_fit),
        cmocka_unit_test(
            test_statistics_and_gradients_of_batch_normalisation_refuse_missing_parts),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
