/* SPDX-License-Identifier: MIT */
/* test_model_errors.c -- how a wrong model file is answered.
 *
 * By its place and words. Every prefix of a model file and every byte of it replaced is read once:
 * nothing may crash (run under the sanitizers), and what is accepted must be whole.
 */
#include "support/test.h"

#include <stdio.h>

#include "support/models.h"
#include "train/model.h"

/* -- errors --------------------------------------------------------------------------------- */

typedef struct {
    const char *text;
    const ls_dataset_info *data;
    const char *place;      /* "m:LINE:COLUMN: " */
    const char *words;      /* somewhere in the message */
} refusal;

static const ls_dataset_info one_hot_info = {
    .height = 1, .width = 1, .channels = 4, .element = LS_ELEMENT_F32, .task = LS_TASK_REGRESS,
    .outputs = 3, .count = { 9, 0 },
};

static const refusal refusals[] = {
    /* words */
    { "", NULL, "m:1:1: ", "expected input" },
    { "input 4\n", NULL, "m:2:1: ", "expected loss" },
    { "dense 3\nloss mse", NULL, "m:1:1: ", "expected the input first" },
    { "input 4\ninput 4\nloss mse", NULL, "m:2:1: ", "the only one" },
    { "input 4\n  conf 3\nloss mse", NULL, "m:2:3: ", "did you mean 'conv'?" },
    { "input 4\ndense 3\nsoftmax\nloss mse", NULL, "m:3:1: ",
      "expected an op; softmax is no layer but part of the last line, 'loss softmax-cross" },
    { "input 4\ndense 3\nSigmoid\nloss mse", NULL, "m:3:1: ",
      "at the end part of 'loss sigmoid-crossentropy'" },
    { "input 4\ndense 3 softmax\nloss mse", NULL, "m:2:9: ", "part of the last line, 'loss soft" },
    { "input 4\ndense 3 activation=sigmoid\nloss mse", NULL, "m:2:9: ",
      "sigmoid is a line of its own" },
    { "input 4\ndense 3\nloss mss", NULL, "m:3:6: ", "did you mean 'mse'?" },
    { "input 4\ndense 3\nloss mse\nrelu", NULL, "m:4:1: ", "expected the end of the file" },
    { "input 4\ndense 3\nloss", NULL, "m:3:5: ", "expected the kind of loss" },
    { "input 4\ndense\nloss mse", NULL, "m:2:6: ", "expected the number of units" },
    { "input 4\na=dense 3\nloss mse", NULL, "m:2:1: ", "blanks around it" },
    { "input 4\n2a = dense 3\nloss mse", NULL, "m:2:1: ", "expected a name" },
    { "input 4\na/b = dense 3\nloss mse", NULL, "m:2:1: ", "expected a name" },
    { "input 4\n. = dense 3\nloss mse", NULL, "m:2:1: ", "expected a name" },
    { "input 4\n__metadata__ = dense 3\nloss mse", NULL, "m:2:1: ", "expected a name" },
    { "input 4\na = dense 3\na = relu\nloss mse", NULL, "m:3:1: ", "belongs to line 2" },
    { "input 4\ndense 3\nrelu from dnse1\nloss mse", NULL, "m:3:11: ", "did you mean 'dense1'?" },
    { "input 4\ndense 3\nrelu from\nloss mse", NULL, "m:3:10: ", "the name of a layer" },
    { "input 4\ndense 3\nrelu from dense1 input\nloss mse", NULL, "m:3:18: ", "has one input" },
    { "input 4\ndense 3\nrelu\nloss mse from dense1", NULL, "m:4:15: ", "not the last layer" },
    { "input 4\ndense 3\nadd\nloss mse", NULL, "m:3:4: ", "add has 2 to 8 inputs" },
    { "input 4\ndense 3\nadd from dense1\nloss mse", NULL, "m:3:16: ", "the second name" },
    { "input 4\na = dense 3\nb = dense 3\nadd from a b a\nloss mse", NULL, "m:4:14: ",
      "a second time" },
    { "input 4\ndense 3\nconcat from dense1 inptu\nloss mse", NULL, "m:3:20: ",
      "did you mean 'input'?" },
    { "input 4\nadd relu bias=no from input\nloss mse", NULL, "m:2:10: ", "option of: add" },
    { "input 1\nbatchnrm\nloss mse", NULL, "m:2:1: ", "did you mean 'batchnorm'?" },
    { "input 1\nbatchnorm momentun=1\nloss mse", NULL, "m:2:11: ", "did you mean 'momentum='?" },
    { "input 1\nbatchnorm momentum=1.1\nloss mse", NULL, "m:2:11: ", "0 <= momentum <= 1" },
    { "input 1\nbatchnorm epsilon=0\nloss mse", NULL, "m:2:11: ", "an epsilon of 1e-37" },
    { "input 1\nleakyrelu slope=-1\nloss mse", NULL, "m:2:11: ", "a slope of 0 or more" },
    { "input 1\nrelu slope=1\nloss mse", NULL, "m:2:6: ", "option of: relu" },
    { "input 1\ndense 1 init=he\nloss mse", NULL, "m:2:9: ", "init=glorot-uniform|" },
    { "input 1\ndense 1 init=he-norml\nloss mse", NULL, "m:2:9: ", "did you mean 'he-normal'?" },
    { "input 1\ndense 1 init=normal:-1\nloss mse", NULL, "m:2:9: ", "a deviation of 0 or more" },
    { "input 1\ndense 1 init=constant:\nloss mse", NULL, "m:2:9: ", "a number after" },
    { "input 1\ndense 1 init=constant:1e39\nloss mse", NULL, "m:2:9: ", "a number after" },
    { "input 9x9x1\nzeropad 1x\nflatten\nloss mse", NULL, "m:2:9: ", "TOP,BOTTOM,LEFT,RIGHT" },
    { "input 9x9x1\nzeropad 1,2,3\nflatten\nloss mse", NULL, "m:2:9: ", "found '1,2,3'" },
    { "input 9x9x1\nconv 2 3x3 pad=sam\nflatten\nloss mse", NULL, "m:2:12: ",
      "did you mean 'same'?" },
    { "input 9x9x1\nconv 2 3x2 pad=2\nflatten\nloss mse", NULL, "m:2:1: ",
      "less than the window" },
    { "input 4\ndense 3\nloss mse smoothing=0.1", NULL, "m:3:10: ", "the loss is mse" },
    { "input 4\ndense 3\nloss softmax-crossentropy smoothing=1.01", NULL, "m:3:27: ",
      "0 <= smoothing <= 1" },
    { "input 4\ndense 3 \x01\nloss mse", NULL, "m:2:9: ", "control character 0x01" },
    { "input 4\ndense 3 # gr\xfc\xdf\nloss mse", NULL, "m:2:13: ", "found byte 0xfc" },
    { "input 4\ndense 3 relu relu\nloss mse", NULL, "m:2:14: ", "said relu before" },
    { "input 4\ndense 3 rleu\nloss mse", NULL, "m:2:9: ", "did you mean 'relu'?" },
    { "input 4\ndense 3 bais=no\nloss mse", NULL, "m:2:9: ", "did you mean 'bias='?" },
    { "input 4\ndense 3 bias=nope\nloss mse", NULL, "m:2:9: ", "bias=yes or bias=no" },
    { "input 4\ndense 3 pad=same\nloss mse", NULL, "m:2:9: ", "option of: dense" },
    /* sizes */
    { "input 0\nloss mse", NULL, "m:1:7: ", "found '0'" },
    { "input 4x4\nloss mse", NULL, "m:1:7: ", "HEIGHTxWIDTHxCHANNELS" },
    { "input 16777217\nloss mse", NULL, "m:1:7: ", "1 to 16777216" },
    { "input 99999999999999999999999\nloss mse", NULL, "m:1:7: ", "1 to 16777216" },
    { "input 16777216x16777216x16777216\nflatten\ndense 2\nloss mse", NULL, "m:1:1: ",
      "more than the 2147483648 numbers" },
    { "input 65536\ndense 65536\nloss mse", NULL, "m:2:1: ", "more than the 2147483648 weights" },
    { "input 8x8x1\nconv 3 9x1\nflatten\nloss mse", NULL, "m:2:1: ", "does not fit" },
    { "input 8x8x1\nconv 3 3\nflatten\nloss mse", NULL, "m:2:8: ", "such as 3x3" },
    { "input 8x8x1\nconv 3 3x3 stride=0\nflatten\nloss mse", NULL, "m:2:12: ", "stride=S" },
    { "input 99x99x1\nmaxpool 17x16\nflatten\nloss mse", NULL, "m:2:9: ", "272 places" },
    { "input 4\ndropout 1\ndense 2\nloss mse", NULL, "m:2:9: ", "0 <= rate < 1" },
    { "input 4\ndropout -0.1\ndense 2\nloss mse", NULL, "m:2:9: ", "0 <= rate < 1" },
    { "input 4\ndropout nan\ndense 2\nloss mse", NULL, "m:2:9: ", "0 <= rate < 1" },
    { "input 4\ndropout 0x1p-3\ndense 2\nloss mse", NULL, "m:2:9: ", "0 <= rate < 1" },
    /* shapes */
    { "input 8x8x1\ndense 3\nloss mse", NULL, "m:2:1: ", "add flatten" },
    { "input 8x8x1\nconv 3 3x3\nloss mse", NULL, "m:3:6: ", "add flatten" },
    { "input 8\nrelu\nloss mse", NULL, "m:3:6: ", "no layer of this model has weights" },
    { "input 8\ndense 3\nrelu from input\nloss mse", NULL, "m:4:6: ", "no layer of this model" },
    { "input 8x8x2\na = conv 2 3x3\nb = conv 2 2x2\nadd from a b\nflatten\nloss mse", NULL,
      "m:4:12: ", "'a' is 6x6x2, 'b' is 5x5x2: add needs inputs of equal shapes" },
    { "input 8x8x2\na = conv 3 3x3\nmultiply from a conv1\nflatten\nloss mse", NULL, "m:3:17: ",
      "no layer above is called 'conv1'" },
    { "input 4\na = dense 3\nb = dense 4\nmultiply from a b\nloss mse", NULL, "m:4:17: ",
      "'a' is 3, 'b' is 4: multiply needs inputs of equal shapes" },
    { "input 8x8x2\na = conv 3 3x3\nb = conv 2 2x2 from input\nconcat from a b\nflatten\n"
      "loss mse", NULL, "m:4:15: ",
      "'a' is 6x6x3, 'b' is 7x7x2: concat needs inputs of equal height and width" },
    /* auto */
    { "input auto\ndense 3\nloss mse", NULL, "m:1:7: ", "say --data" },
    { "input 4\ndense auto\nloss mse", NULL, "m:2:7: ", "say --data" },
    { "input 4\ndense 3\nloss auto", NULL, "m:3:6: ", "say --data" },
    { "input 64\ndense auto\nrelu\nloss auto", &digits_info, "m:2:7: ", "only the last layer" },
    /* data */
    { "input 8x8x3\nflatten\ndense 10\nloss auto", &digits_info, "m:1:7: ", "the data is 8x8x1" },
    { "input 4x16x1\nflatten\ndense 10\nloss auto", &digits_info, "m:1:7: ", "the data is 8x8x1" },
    { "input auto\nflatten\ndense 9\nloss auto", &digits_info, "m:3:1: ",
      "the data have 10 classes" },
    { "input auto\nflatten\ndense 10\nloss mse", &digits_info, "m:4:6: ", "softmax-crossentropy" },
    { "input auto\nflatten\ndense 10\nloss mae", &digits_info, "m:4:6: ",
      "mae needs target numbers" },
    { "input auto\nflatten\ndense 1\nloss sigmoid-crossentropy", &digits_info, "m:3:1: ",
      "the data have 10 classes" },
    { "input auto\ndense auto\nloss auto smoothing=0", &diabetes_info, "m:3:11: ",
      "the loss is mse" },
    { "input auto\ndense 1\nloss softmax-crossentropy", &diabetes_info, "m:3:6: ", "loss mse" },
    { "input auto\ndense 3\nloss softmax-crossentropy", &one_hot_info, "m:3:6: ",
      "loss mse, or of one-hot rows save the labels, y.argmax(1)" },
    { "input auto\ndense 2\nloss mse", &diabetes_info, "m:2:1: ",
      "has 2 outputs, the data have 1 target number a sample" },
};

static void test_a_wrong_model_is_answered_with_place_found_and_expected(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        ls_model m;
        if (ls_model_init(&m, "m", r->text, r->data) != LS_ERR_ARGUMENT) {
            fail_msg("accepted:\n%s", r->text);
        }
        const char *message = ls_last_error();
        if (strncmp(message, r->place, strlen(r->place)) != 0 || !strstr(message, r->words)) {
            fail_msg("found '%s', expected '%s...%s' for:\n%s", message, r->place, r->words,
                     r->text);
        }
        assert_null(m.layer);
    }
}

static void test_too_many_words_and_layers_are_refused(void **state)
{
    (void)state;
    ls_model m;
    char *text = calloc(1, 64 * 1024);
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "input 4\ndense 3");
    for (int i = 0; i < 40; i++) used += (size_t)sprintf(text + used, " relu");
    assert_int_equal(ls_model_init(&m, "m", text, NULL), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "more than 32 words"));
    used = (size_t)sprintf(text, "input 4\n");
    for (int i = 0; i < 1001; i++) used += (size_t)sprintf(text + used, "relu\n");
    assert_int_equal(ls_model_init(&m, "m", text, NULL), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "m:1001:1: more than 1000 layers"));
    free(text);
}

/* -- damaged text --------------------------------------------------------------------------- */

static const char *const wholes[] = {
    "input 9x9x2\nc = conv 3 3x2 relu pad=same stride=2x1 bias=no\nmaxpool 2x2 pad=same\n"
    "relu from maxpool1 # note\nflatten\ndropout 0.25\ndense 4 relu\ndense auto\n"
    "loss softmax-crossentropy\n",
    "input auto:8x8x1\na = conv 3 3x3 pad=1 init=normal:0.1\nb = batchnorm momentum=0.9 relu\n"
    "zeropad 0,0,1,1\nc = zeropad 0x1 from a\nadd relu from zeropad1 c\n"
    "d = concat from add1 c zeropad1\ne = relu\nmultiply from d e\nglobalavgpool\n"
    "dense auto:10\n"
    "loss auto smoothing=0.1\n",
    "input 9x9x2\nzeropad 1\navgpool 2x2 stride=1 pad=1\nleakyrelu slope=0.1\n"
    "spatialdropout 0.5\nflatten\ndense 12 init=constant:-1e-3\n"
    "loss sigmoid-crossentropy smoothing=1\n",
};

static void test_every_prefix_and_every_changed_byte_is_read_or_refused(void **state)
{
    (void)state;
    static const char bytes[] = "x=#0 9\n\t\x7f\x80-";
    ls_dataset_info data = digits_info;
    data.height = data.width = 9;
    data.channels = 2;
    for (size_t t = 0; t < sizeof wholes / sizeof wholes[0]; t++) {
        const size_t length = strlen(wholes[t]);
        char text[512];
        size_t accepted = 0;
        assert_true(length < sizeof text);
        for (size_t i = 0; i < length * sizeof bytes; i++) {
            memcpy(text, wholes[t], length + 1);
            text[i / sizeof bytes] = bytes[i % sizeof bytes]; /* the last is the NUL: a prefix */
            ls_model m;
            if (ls_model_init(&m, "m", text, &data) != LS_OK) {
                assert_true(strncmp(ls_last_error(), "m:", 2) == 0);
                continue;
            }
            accepted++;
            assert_true(m.parameter_count > 0 && m.layer_count > 2 && m.arena_floats % 32 == 0);
            ls_model_free(&m);
        }
        assert_true(accepted > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wrong_model_is_answered_with_place_found_and_expected),
        cmocka_unit_test(test_too_many_words_and_layers_are_refused),
        cmocka_unit_test(test_every_prefix_and_every_changed_byte_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
