/* SPDX-License-Identifier: MIT */
/* test_nearest.c -- which name is suggested for which slip, and when none is. */
#include "nearest.h"
#include "support/test.h"

static const char *const names[] = { "momentum", "model", "epochs", "lr", "lr-scale", NULL };

static void test_one_slip_is_recognised(void **state)
{
    (void)state;
    assert_string_equal(ls_nearest_name("momentun", names), "momentum"); /* replaced */
    assert_string_equal(ls_nearest_name("epocs", names), "epochs");      /* left out */
    assert_string_equal(ls_nearest_name("modell", names), "model");      /* doubled */
    assert_string_equal(ls_nearest_name("EPOCHS", names), "epochs");     /* case */
}

static void test_what_is_far_from_all_gets_no_suggestion(void **state)
{
    (void)state;
    assert_null(ls_nearest_name("colour", names));
    assert_null(ls_nearest_name("", names));
    assert_null(ls_nearest_name("x", (const char *const[]){ NULL }));
    char text[200];
    memset(text, 'e', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_null(ls_nearest_name(text, names));
}

static void test_a_beginning_is_recognised(void **state)
{
    (void)state;
    static const char *const columns[] = { "val_loss", "val_mae", "val_accuracy", NULL };
    assert_string_equal(ls_nearest_name("val_acc", columns), "val_accuracy");
    assert_string_equal(ls_nearest_name("MOM", names), "momentum");
    assert_null(ls_nearest_name("va", columns));
    static const char *const commands[] = { "train", "eval", "lr", "adam", "adamw", NULL };
    assert_string_equal(ls_nearest_name("evaluate", commands), "eval");
    assert_string_equal(ls_nearest_name("adamwx", commands), "adamw");
    assert_null(ls_nearest_name("lr_decay_rate", commands));
}

static void test_the_nearest_wins_and_of_equals_the_first(void **state)
{
    (void)state;
    static const char *const close[] = { "abcx", "abcd", "abcy", NULL };
    assert_string_equal(ls_nearest_name("abcd", close), "abcd");
    assert_string_equal(ls_nearest_name("abcz", close), "abcx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_slip_is_recognised),
        cmocka_unit_test(test_a_beginning_is_recognised),
        cmocka_unit_test(test_what_is_far_from_all_gets_no_suggestion),
        cmocka_unit_test(test_the_nearest_wins_and_of_equals_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
