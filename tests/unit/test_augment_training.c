/* SPDX-License-Identifier: MIT */
/* test_augment_training.c -- a training sees the same augmented samples however it is shared out
 * and interrupted, and augmenting is part of it.
 */
#include "support/test.h"

#include "support/training.h"

#define LIST "crop:4,flip,vflip,brightness:0.2,contrast:0.2,cutout:8"

/* 50 pictures in batches of 16: 4 steps an epoch, the last of 2. */
static void set_up(training *t)
{
    training_reset(t);
    training_set(t, "global-batch", "16");
    training_set(t, "epochs", "2");
    training_set(t, "augment", LIST);
}

static training *pictures_create(void)
{
    training *t = training_create();
    training_set(t, "model", "linear");
    training_set(t, "data", training_pictures(t, 50));
    set_up(t);
    return t;
}

static void test_a_training_is_augmented_alike_for_any_replicas_readers_and_passes(void **state)
{
    (void)state;
    static const char *const changed[][2] = {
        { "devices", "host:3" }, { "readers", "5" }, { "accumulate", "4" }, { "devices", "host:8" },
    };
    training *t = pictures_create();
    training_bits one;
    training_must_run(t);
    training_remember(t, &one);
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) {
        training_set(t, changed[i][0], changed[i][1]);
        training_must_run(t);
        assert_true(training_same(t, &one, changed[i][0]));
    }
    for (int stop = 1; stop <= 7; stop += 2) {
        char checkpoint[1200];
        set_up(t);
        t->stop_after = (uint64_t)stop;
        training_must_run(t);
        memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
        training_reset(t);
        training_set(t, "resume", checkpoint);
        training_set(t, "devices", "host:2");
        training_must_run(t);
        assert_int_equal(t->step_count, 8 - stop);
        assert_true(training_same(t, &one, "resumed"));
    }
    training_destroy(t);
}

static void test_augmenting_changes_a_training_and_is_part_of_it(void **state)
{
    (void)state;
    training *t = pictures_create();
    training_bits plain;
    char checkpoint[1200];
    training_set(t, "augment", "none");
    t->stop_after = 2;
    training_must_run(t);
    training_remember(t, &plain);
    training_set(t, "augment", LIST);
    training_must_run(t);
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    assert_false(training_same(t, &plain, "augmented, as it must be"));
    training_reset(t);
    training_set(t, "resume", checkpoint);
    training_set(t, "augment", "flip");
    assert_int_equal(training_run(t), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "--augment flip: the run that continues has " LIST));
    training_destroy(t);

    t = training_tiny(); /* rows of numbers */
    training_set(t, "augment", "flip");
    assert_int_equal(training_run(t), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "expected images"));
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_training_is_augmented_alike_for_any_replicas_readers_and_passes),
        cmocka_unit_test(test_augmenting_changes_a_training_and_is_part_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
