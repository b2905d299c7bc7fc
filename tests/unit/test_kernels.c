/* SPDX-License-Identifier: MIT */
/* test_kernels.c -- the tables are complete; what every op does alike. For what is refused see
 * test_kernels_refused.c.
 */
#define _POSIX_C_SOURCE 200809L

#include "kernels/kernels.h"

#include "kernels/host/host.h"
#include "support/machines.h"
#include "support/test.h"

static ls_device *device;
static ls_stream stream;
static atomic_ulong progress;

static int open_device(void **state)
{
    (void)state;
    assert_int_equal(ls_device_open_host(0, 1, false, &progress, &device), LS_OK);
    assert_int_equal(ls_kernels_bind(device), LS_OK);
    assert_int_equal(ls_stream_init(&stream, device), LS_OK);
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    ls_stream_free(&stream);
    ls_device_close(device);
    return 0;
}

static void test_no_slot_of_any_table_is_empty(void **state)
{
    (void)state;
    machines_open(&all);
    for (int i = 0; i < all.count; i++) {
        const ls_kernels *k = all.machine[i].device->kernels;
#define ASSERT_SLOT(op) assert_true(k->op != NULL);
        LS_KERNELS(ASSERT_SLOT)
#undef ASSERT_SLOT
    }
    machines_close(&all);
}

static void test_fast_tables_share_nothing_but_shard_sums_with_the_reference(void **state)
{
    (void)state;
    machines_open(&all);
    for (int i = 1; i < all.count; i++) {
        const ls_kernels *k = all.machine[i].device->kernels;
        int shared = 0;
#define COUNT_SHARED(op) shared += k->op == ls_kernels_reference.op;
        LS_KERNELS(COUNT_SHARED)
#undef COUNT_SHARED
        assert_int_equal(shared, 1);
        assert_true(k->shard_sums == ls_kernels_reference.shard_sums);
    }
    machines_close(&all);
}

static void test_an_unknown_instruction_set_is_refused_by_name(void **state)
{
    (void)state;
    ls_device *other = NULL;
    assert_int_equal(ls_device_open_host(1, 1, false, NULL, &other), LS_OK);
    assert_int_equal(setenv("LOCKSTEP_ISA", "sse9", 1), 0);
    assert_int_equal(ls_kernels_bind(other), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "sse9"));
    assert_null(other->kernels);
    assert_int_equal(setenv("LOCKSTEP_ISA", "reference", 1), 0);
    assert_int_equal(ls_kernels_bind(other), LS_OK);
    assert_true(other->kernels == &ls_kernels_reference);
    assert_int_equal(unsetenv("LOCKSTEP_ISA"), 0);
    ls_device_close(other);
}

static void test_an_accepted_op_is_progress_and_a_refused_one_is_not(void **state)
{
    (void)state;
    const float x[2] = { 1.0f, 2.0f };
    uint64_t out = 0;
    const unsigned long before = atomic_load(&progress);
    assert_int_equal(ls_digest(&stream, &(ls_digest_args){ 2, NULL, &out }), LS_ERR_ARGUMENT);
    assert_int_equal(atomic_load(&progress), before);
    assert_int_equal(ls_digest(&stream, &(ls_digest_args){ 2, x, &out }), LS_OK);
    assert_int_equal(atomic_load(&progress), before + 1);
}

static void test_nothing_to_do_needs_no_memory(void **state)
{
    (void)state;
    uint64_t out = 1;
    const ls_arena_table none = { 0, NULL, NULL };
    const ls_fold empty = { .piece_count = 1, .slot_count = 1 };
    const ls_conv_shape conv = { 0, 4, 4, 1, 1, 3, 3, 1, 1, 0, 0, 2, 2 };
    const ls_pool_shape pool = { 0, 4, 4, 1, 2, 2, 2, 2, 0, 0, 2, 2 };
    assert_int_equal(ls_gemm(&stream, &(ls_gemm_args){ .M = 0, .N = 3, .K = 2 }), LS_OK);
    assert_int_equal(ls_conv_forward(&stream, &(ls_conv_forward_args){ .shape = conv }), LS_OK);
    assert_int_equal(
        ls_conv_input_gradient(&stream, &(ls_conv_input_gradient_args){ .shape = conv }), LS_OK);
    assert_int_equal(
        ls_conv_weight_gradient(
            &stream, &(ls_conv_weight_gradient_args){ .shape = conv, .fold = &empty }),
        LS_OK);
    assert_int_equal(ls_batch_sum(&stream, &(ls_batch_sum_args){ 1, 1, 1, &empty, NULL, NULL, 1 }),
                     LS_OK);
    assert_int_equal(ls_max_pool(&stream, &(ls_max_pool_args){ .shape = pool }), LS_OK);
    assert_int_equal(
        ls_max_pool_gradient(&stream, &(ls_max_pool_gradient_args){ .shape = pool }), LS_OK);
    assert_int_equal(ls_average_pool(&stream, &(ls_average_pool_args){ .shape = pool }), LS_OK);
    assert_int_equal(
        ls_average_pool_gradient(&stream, &(ls_average_pool_gradient_args){ .shape = pool }),
        LS_OK);
    assert_int_equal(ls_activate(&stream, &(ls_activate_args){ 0 }), LS_OK);
    assert_int_equal(ls_activate_gradient(&stream, &(ls_activate_gradient_args){ 0 }), LS_OK);
    assert_int_equal(ls_add(&stream, &(ls_add_args){ 0 }), LS_OK);
    assert_int_equal(ls_multiply(&stream, &(ls_multiply_args){ 0 }), LS_OK);
    assert_int_equal(ls_copy_columns(&stream, &(ls_copy_columns_args){ .rows = 3 }), LS_OK);
    assert_int_equal(ls_copy_columns(&stream, &(ls_copy_columns_args){ .columns = 3 }), LS_OK);
    assert_int_equal(ls_pad(&stream, &(ls_pad_args){ .samples = 0, .channels = 2, .height = 3,
                                                     .width = 3, .out_height = 4,
                                                     .out_width = 4 }), LS_OK);
    assert_int_equal(ls_dropout(&stream, &(ls_dropout_args){ .samples = 0, .elements = 5 }),
                     LS_OK);
    assert_int_equal(ls_dropout(&stream, &(ls_dropout_args){ .samples = 5, .elements = 0 }),
                     LS_OK);
    assert_int_equal(ls_decode(&stream, &(ls_decode_args){ .channels = 3 }), LS_OK);
    assert_int_equal(ls_softmax_loss(&stream, &(ls_softmax_loss_args){ .classes = 3 }), LS_OK);
    assert_int_equal(ls_sigmoid_loss(&stream, &(ls_sigmoid_loss_args){ .outputs = 3 }), LS_OK);
    assert_int_equal(ls_regression_loss(&stream, &(ls_regression_loss_args){ .outputs = 3 }),
                     LS_OK);
    assert_int_equal(ls_shard_sums(&stream, &(ls_shard_sums_args){ .fold = &empty }), LS_OK);
    assert_int_equal(
        ls_gradient_finish(&stream, &(ls_gradient_finish_args){ .tensors = &none }), LS_OK);
    assert_int_equal(ls_weight_sums(&stream, &(ls_weight_sums_args){ .tensors = &none }), LS_OK);
    assert_int_equal(ls_update(&stream, &(ls_update_args){ .tensors = &none, .digest = &out }),
                     LS_OK);
    assert_true(out == LS_DIGEST_START);
    assert_int_equal(ls_nonfinite(&stream, &(ls_nonfinite_args){ 0, NULL, &out }), LS_OK);
    assert_true(out == LS_ALL_FINITE);
    assert_int_equal(ls_digest(&stream, &(ls_digest_args){ 0, NULL, &out }), LS_OK);
    assert_true(out == LS_DIGEST_START);
    assert_int_equal(ls_merge(&stream, &(ls_merge_args){ .source_count = 1, .out_count = 1 }),
                     LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_slot_of_any_table_is_empty),
        cmocka_unit_test(test_fast_tables_share_nothing_but_shard_sums_with_the_reference),
        cmocka_unit_test(test_an_unknown_instruction_set_is_refused_by_name),
        cmocka_unit_test(test_an_accepted_op_is_progress_and_a_refused_one_is_not),
        cmocka_unit_test(test_nothing_to_do_needs_no_memory),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
