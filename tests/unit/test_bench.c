/* SPDX-License-Identifier: MIT */
/* test_bench.c -- `lockstep bench`: no wrong element; tables and JSON say what they should.
 *
 * Runs the binary that LOCKSTEP names, on tiny sizes; no time is compared with anything but the
 * other numbers of its own row, and how long the program ran. Options that are refused: test_cli.c.
 */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "support/program.h"
#include "thread.h"

static program_run run; /* the latest */
static double wall;     /* seconds that it ran */

/* Run `lockstep bench <line>`, which must succeed and write nothing but results. */
static void bench(const char *line)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments, "bench %s", line);
    const double begin = ls_clock();
    program_run_with(&run, "", arguments);
    wall = ls_clock() - begin;
    PROGRAM_MUST_END(&run, arguments, 0, "", NULL);
    assert_null(strstr(run.text, "lockstep: "));
}

static void expect_text(const char *part)
{
    if (!program_said(&run, part)) fail_msg("found:\n%s\nexpected in it: %s", run.text, part);
}

static const char *row(const char *name)
{
    return program_row(run.text, name);
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

/* A row's shape, times and speed fit each other. */
static void test_gemm_and_conv_time_the_layers_of_the_models(void **state)
{
    (void)state;
    bench("gemm cifar10-cnn digits-cnn --batch 2 --square 8 --iterations 3");
    expect_text("medians of up to 3\n");
    double us = 0, least = 0, most = 0, speed = 0, peak = 0, share = 0;
    assert_int_equal(sscanf(row("cifar10-cnn dense1 dx"),
                            "1 2x7200x64 nn %lf %lf %lf %lf %lf %lf%%", &us, &least, &most, &speed,
                            &peak, &share), 6);
    const double want = 2.0 * 2 * 7200 * 64 / us * 1e-3; /* printed with two decimals */
    assert_true(us > 0 && speed > 0.9 * want - 0.01 && speed < 1.1 * want + 0.01);
    assert_true(least > 0 && least <= us && us <= most);
    assert_true(peak > 0 && share < 100 * speed / peak + 1 && share > 100 * speed / peak - 1);
    (void)row("digits-cnn dense2 forward");
    for (int n = 2; n <= 8; n *= 2) {
        char square[96];
        snprintf(square, sizeof square, "square A B                          1 %dx%dx%d nn",
                 n, n, n);
        (void)row(square);
    }
    bench("conv cifar10-cnn digits-cnn mnist-mlp --batch 1 --iterations 1");
    assert_true(strncmp(row("cifar10-cnn conv1 dw"), "1 1x32x32x3 32 of 3x3 ", 22) == 0);
    assert_true(strncmp(row("digits-cnn conv2 dx"), "1 1x8x8x16 32 of 3x3 ", 21) == 0);
    assert_true(strncmp(row("mnist-mlp dense1 dw"), "1 1x1x1x784 128 of 1x1 ", 23) == 0);
    if (strstr(run.text, "conv1 dx")) fail_msg("a first layer's input needs no gradient");
}

/* resnet20: six convolutions of 16 filters behind the first layer, five of 32 and of 64, and where
 * the extent is halved one of 3x3 and one of 1x1. */
static void test_models_that_take_their_sizes_from_data_are_timed_on_them(void **state)
{
    (void)state;
    bench("gemm linear --data digits --batch 3 --square 8 --iterations 1");
    expect_text("3x10x64 nt");
    bench("conv mlp --data digits --batch 3 --iterations 1");
    expect_text("mlp dense1 dw");
}

static void test_a_shape_that_many_layers_have_is_timed_once(void **state)
{
    (void)state;
    bench("conv resnet20 --batch 1 --iterations 1");
    assert_true(strncmp(row("resnet20 conv2 dx"), "6 1x32x32x16 16 of 3x3 ", 23) == 0);
    assert_true(strncmp(row("resnet20 conv9 dw"), "5 1x16x16x32 32 of 3x3 ", 23) == 0);
    assert_true(strncmp(row("resnet20 conv15 forward"), "1 1x16x16x32 64 of 3x3/2 ", 25) == 0);
    assert_true(strncmp(row("resnet20 p7 forward"), "1 1x16x16x32 64 of 1x1/2 ", 25) == 0);
    if (strstr(run.text, "resnet20 conv3 ")) fail_msg("conv3 has the shape of conv2");
}

static void expect_keys(const char *const *key)
{
    for (; *key; key++) {
        char quoted[32];
        snprintf(quoted, sizeof quoted, "\"%s\":", *key);
        expect_text(quoted);
    }
}

static void test_gemm_prints_json_that_can_be_read(void **state)
{
    (void)state;
    static const char *const keys[] = { "kernel", "layers", "shape", "repetitions", "time_us",
                                        "least_us", "most_us", "gflops", "peak_gflops", "share",
                                        NULL };
    bench("gemm --batch 1 --square 4 --iterations 1 --json");
    int elements = 0, zeros = 0;
    read_json(&elements, &zeros);
    /* cifar10-cnn and digits-cnn have 2 dense layers, mnist-mlp 3, whose first has no dx, the
     * residual networks 1 */
    assert_int_equal(elements, 4 + 4 + 5 + 2 + 2 + 3);
    expect_keys(keys);
}

/* What a step's thread spent adds up, and nobody was at work for longer than the program ran. */
static void expect_exposed_and_hidden(int readers, int steps)
{
    double part[7], together = 0, hidden = 0, sum = 0;
    assert_int_equal(sscanf(row("# exposed, ms a step:"), "input %lf, copy %lf, forward %lf, "
                            "backward %lf, exchange %lf, update %lf, rest %lf, together %lf",
                            &part[0], &part[1], &part[2], &part[3], &part[4], &part[5], &part[6],
                            &together), 8);
    for (int i = 0; i < 7; i++) {
        sum += part[i];
        assert_true(part[i] <= together + 0.001); /* each has three digits */
    }
    assert_true(sum > together - 0.005 && sum < together + 0.005);
    assert_true(steps * together <= 1e3 * wall);
    assert_int_equal(sscanf(row("# hidden, ms a step: readers at work"), "%lf", &hidden), 1);
    assert_true(steps * hidden <= readers * 1e3 * wall);
}

/* linear on digits: 64 x 10 multiply-adds forward, as many for its only layer's weights. */
static void test_step_prints_the_median_of_its_runs(void **state)
{
    (void)state;
    bench("step linear --data digits --devices host:2 --threads 1 --steps 3 --repeat 3");
    double speed[3], median = 0, least = 0, most = 0;
    for (int r = 1; r <= 3; r++) {
        char number[16];
        double ms = 0, gflops = 0, share = -1, part[7], sum = 0;
        snprintf(number, sizeof number, "%d  ", r);
        assert_int_equal(sscanf(row(number), "3 %lf %lf %lf %lf%% %lf %lf %lf %lf %lf %lf %lf",
                                &speed[r - 1], &ms, &gflops, &share, &part[0], &part[1], &part[2],
                                &part[3], &part[4], &part[5], &part[6]), 11);
        assert_true(speed[r - 1] > 0 && ms > 0 && share <= 100);
        const double want = 2 * 2 * 640 * speed[r - 1] * 1e-9;
        assert_true(gflops > 0.9 * want - 0.01 && gflops < 1.1 * want + 0.01);
        for (int i = 0; i < 7; i++) sum += part[i];
        assert_true(sum > 96 && sum < 104); /* seven percentages, each rounded */
    }
    assert_int_equal(sscanf(row("# median:"), "%lf samples/s (%lf to %lf)", &median, &least,
                            &most), 3);
    int below = 0, equal = 0;
    for (int r = 0; r < 3; r++) {
        below += speed[r] < median;
        equal += speed[r] == median;
        assert_true(least <= speed[r] && speed[r] <= most);
    }
    assert_true(equal >= 1 && below <= 1 && below + equal >= 2);
    expect_text("# global 32 = 2 x 16; ring: host devices; 3 repetitions\n");
    expect_exposed_and_hidden(2, 3 * 3);
    expect_text("# 0.00256 MFLOP a sample; 5 steps before those that count\n");
}

static void test_step_prints_json_that_can_be_read(void **state)
{
    (void)state;
    static const char *const keys[] = { "settle", "flops_per_sample", "input_s", "copy_s",
                                        "forward_s", "backward_s", "exchange_s", "update_s",
                                        "rest_s", "exchange_wait_s", "reader_s", "peak_gflops",
                                        "least", "most", "gflops", "share", NULL };
    bench("step linear --data digits --steps 2 --repeat 2 --settle 1 --json");
    int elements = 0, zeros = 0;
    read_json(&elements, &zeros);
    assert_int_equal(elements, 1 + 2); /* devices, runs */
    expect_keys(keys);
    expect_text("\"steps\":2,");
}

/* Two epochs of 45 steps; the ends of epochs within them are no time of steps. */
static void test_steps_counted_by_epochs_lack_the_first_ones(void **state)
{
    (void)state;
    bench("step linear --data digits --epochs 2 --repeat 1 --settle 7 --json");
    expect_text("\"steps\":83,");
    program_run_with(&run, "", "bench step linear --data digits --epochs 1 --settle 45");
    PROGRAM_MUST_END(&run, "no step left", 2, "so none counts", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allreduce_finds_no_wrong_element),
        cmocka_unit_test(test_allreduce_prints_a_row_per_size),
        cmocka_unit_test(test_allreduce_prints_json_that_can_be_read),
        cmocka_unit_test(test_gemm_and_conv_time_the_layers_of_the_models),
        cmocka_unit_test(test_models_that_take_their_sizes_from_data_are_timed_on_them),
        cmocka_unit_test(test_a_shape_that_many_layers_have_is_timed_once),
        cmocka_unit_test(test_gemm_prints_json_that_can_be_read),
        cmocka_unit_test(test_step_prints_the_median_of_its_runs),
        cmocka_unit_test(test_step_prints_json_that_can_be_read),
        cmocka_unit_test(test_steps_counted_by_epochs_lack_the_first_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
