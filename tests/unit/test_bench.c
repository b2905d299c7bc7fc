/* SPDX-License-Identifier: MIT */
/* test_bench.c -- `lockstep bench`: no wrong element; tables and JSON say what they should.
 *
 * Runs the binary that LOCKSTEP names, on tiny sizes; no time is compared with anything but the
 * other numbers of its own row. Options that are refused: test_cli.c.
 */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "support/program.h"

static program_run run; /* the latest */

/* Run `lockstep bench <line>`, which must succeed and write nothing but results. */
static void bench(const char *line)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments, "bench %s", line);
    program_run_with(&run, "", arguments);
    PROGRAM_MUST_END(&run, arguments, 0, "", NULL);
    assert_null(strstr(run.text, "lockstep: "));
}

static void expect_text(const char *part)
{
    if (!program_said(&run, part)) fail_msg("found:\n%s\nexpected in it: %s", run.text, part);
}

/* The text after `name` at the beginning of one of the latest lines, blanks skipped. */
static const char *row(const char *name)
{
    for (const char *at = run.text; (at = strstr(at, name)); at++) {
        const char *before = at;
        while (before > run.text && before[-1] == ' ') before--;
        if (before > run.text && before[-1] != '\n') continue;
        return at + strlen(name) + strspn(at + strlen(name), " ");
    }
    fail_msg("no line begins with '%s':\n%s", name, run.text);
    return NULL;
}

static void test_allreduce_finds_no_wrong_element(void **state)
{
    (void)state;
    static const char *const how[] = {
        "", "--allreduce tree", "--allreduce root", "--p2p off", "--p2p off --allreduce tree",
        "--order fast", "--shards 8", "--shards 8 --offset 1 --p2p off", "--offset 3",
    };
    for (int n = 1; n <= 4; n++) {
        for (size_t h = 0; h < sizeof how / sizeof how[0]; h++) {
            char line[160];
            snprintf(line, sizeof line, "allreduce --devices host:%d --min 4 --max 4100 "
                     "--factor 5 --iterations 1 %s", n, how[h]);
            bench(line);
            expect_text("\n# wrong elements: 0\n");
        }
    }
}

/* 4, 8 and 16 bytes: three lines of ten numbers; busbw of two replicas is algbw. */
static void test_allreduce_prints_a_row_per_size(void **state)
{
    (void)state;
    bench("allreduce --devices host:2 --min 4 --max 31 --factor 2 --iterations 2");
    int rows = 0;
    for (const char *line = run.text; *line != '\0'; line = strchr(line, '\n') + 1) {
        double x[10];
        int end = 0;
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%lf %lf %lf %lf %lf %lf %lf %lf %lf %lf%n", &x[0], &x[1],
                                &x[2], &x[3], &x[4], &x[5], &x[6], &x[7], &x[8], &x[9], &end), 10);
        assert_true(line[end] == '\n');
        assert_true(x[0] == 4 << rows && x[1] == 1 << rows);
        assert_true(x[2] > 0 && x[3] == x[4] && x[5] == 0);
        assert_true(x[6] > 0 && x[7] == x[8] && x[9] == 0);
        rows++;
    }
    assert_int_equal(rows, 3);
    expect_text("# ring: host devices; order exact; 2 shards; offset 0 floats\n");
    expect_text("0-PEER->1 1-PEER->0\n");
}

/* Skips a value, whatever it is; counts the elements of arrays and those of `key` that are 0. */
static ls_status skip_value(ls_json_reader *json, const char *key, int *elements, int *zeros)
{
    const char c = json->text[json->at + strspn(json->text + json->at, " ")];
    char *text = NULL;
    bool more = false;
    if (c == '"') {
        LS_TRY(ls_json_read_string(json, &text));
        free(text);
        return LS_OK;
    }
    if (c != '{' && c != '[') {
        const size_t bytes = strcspn(json->text + json->at, ",]}");
        *zeros += strcmp(key, "wrong") == 0 && bytes == 1 && json->text[json->at] == '0';
        json->at += bytes;
        return LS_OK;
    }
    LS_TRY(ls_json_read_open(json, c));
    for (;;) {
        LS_TRY(ls_json_read_next(json, &more));
        if (!more) return LS_OK;
        char *name = NULL;
        if (c == '{') LS_TRY(ls_json_read_key(json, &name));
        *elements += c == '[';
        const ls_status status = skip_value(json, name ? name : "", elements, zeros);
        free(name);
        LS_TRY(status);
    }
}

static void read_json(int *elements, int *zeros)
{
    ls_json_reader json;
    ls_json_read_init(&json, "json", run.text, strlen(run.text), 0);
    if (skip_value(&json, "", elements, zeros) != LS_OK || ls_json_read_end(&json) != LS_OK)
        fail_msg("%s:\n%s", ls_last_error(), run.text);
}

static void test_allreduce_prints_json_that_can_be_read(void **state)
{
    (void)state;
    bench("allreduce --devices host:2 --min 4 --max 16 --factor 2 --iterations 1 --json");
    int elements = 0, zeros = 0;
    read_json(&elements, &zeros);
    assert_int_equal(elements, 2 + 3); /* devices, rows */
    assert_int_equal(zeros, 2 * 3 + 1);
    expect_text("\"algorithm\"");
}

/* A row's shape, time and speed fit each other. */
static void test_gemm_and_conv_time_the_layers_of_the_models(void **state)
{
    (void)state;
    bench("gemm --batch 2 --square 8 --iterations 1");
    expect_text("medians of 1\n");
    double us = 0, speed = 0, peak = 0;
    assert_int_equal(sscanf(row("cifar10-cnn dense1 dx"), "2x7200x64 nn %lf %lf %lf", &us, &speed,
                            &peak), 3);
    const double want = 2.0 * 2 * 7200 * 64 / us * 1e-3; /* printed with two decimals */
    assert_true(us > 0 && speed > 0.9 * want - 0.01 && speed < 1.1 * want + 0.01);
    assert_true(peak > 0);
    (void)row("digits-cnn dense2 forward");
    for (int n = 2; n <= 8; n *= 2) {
        char square[96];
        snprintf(square, sizeof square, "square A B                   %dx%dx%d nn", n, n, n);
        (void)row(square);
    }
    bench("conv --batch 1 --iterations 1");
    assert_true(strncmp(row("cifar10-cnn conv1 dw"), "1x32x32x3 32 of 3x3 ", 20) == 0);
    assert_true(strncmp(row("digits-cnn conv2 dx"), "1x8x8x16 32 of 3x3 ", 19) == 0);
    assert_true(strncmp(row("mnist-mlp dense1 dw"), "1x1x1x784 128 of 1x1 ", 21) == 0);
    if (strstr(run.text, "conv1 dx")) fail_msg("a first layer's input needs no gradient");
}

static void test_gemm_prints_json_that_can_be_read(void **state)
{
    (void)state;
    bench("gemm --batch 1 --square 4 --iterations 1 --json");
    int elements = 0, zeros = 0;
    read_json(&elements, &zeros);
    /* cifar10-cnn and digits-cnn have 2 dense layers, mnist-mlp 3, whose first has no dx */
    assert_int_equal(elements, 4 + 4 + 5 + 3);
}

static void test_step_prints_the_median_of_its_runs(void **state)
{
    (void)state;
    bench("step linear --data digits --devices host:2 --steps 3 --repeat 3");
    double speed[3], median = 0;
    for (int r = 1; r <= 3; r++) {
        char number[16];
        double ms = 0;
        snprintf(number, sizeof number, "%d  ", r);
        assert_int_equal(sscanf(row(number), "3 %lf %lf", &speed[r - 1], &ms), 2);
        assert_true(speed[r - 1] > 0 && ms > 0);
    }
    assert_int_equal(sscanf(row("# median:"), "%lf samples/s", &median), 1);
    int below = 0, equal = 0;
    for (int r = 0; r < 3; r++) {
        below += speed[r] < median;
        equal += speed[r] == median;
    }
    assert_true(equal >= 1 && below <= 1 && below + equal >= 2);
    expect_text("# global 32 = 2 x 16; ring: host devices; 3 repetitions");
    bench("step linear --data digits --steps 2 --repeat 2 --json");
    int elements = 0, zeros = 0;
    read_json(&elements, &zeros);
    assert_int_equal(elements, 1 + 2); /* devices, runs */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allreduce_finds_no_wrong_element),
        cmocka_unit_test(test_allreduce_prints_a_row_per_size),
        cmocka_unit_test(test_allreduce_prints_json_that_can_be_read),
        cmocka_unit_test(test_gemm_and_conv_time_the_layers_of_the_models),
        cmocka_unit_test(test_gemm_prints_json_that_can_be_read),
        cmocka_unit_test(test_step_prints_the_median_of_its_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
