/* SPDX-License-Identifier: MIT */
/* test_config.c -- every option from text and back, and what is said about a wrong one. */
#include "support/test.h"

#include "train/config.h"

static ls_config config_with(const char *name, const char *text)
{
    ls_config config;
    ls_config_init(&config);
    if (ls_config_set(&config, name, text) != LS_OK) fail_msg("%s", ls_last_error());
    return config;
}

/* Setting fails with ARGUMENT, changes nothing, and the message holds `part`. */
static void assert_refused(const char *name, const char *text, const char *part)
{
    ls_config config, before;
    memset(&config, 0, sizeof config);
    ls_config_init(&config);
    memcpy(&before, &config, sizeof config);
    const ls_status status = ls_config_set(&config, name, text);
    if (status != LS_ERR_ARGUMENT || !strstr(ls_last_error(), part)) {
        fail_msg("--%s '%s': expected ARGUMENT with '%s', got %s: %s", name, text ? text : "(none)",
                 part, ls_status_name(status), status ? ls_last_error() : "");
    }
    assert_memory_equal(&config, &before, sizeof config);
}

static void test_the_table_has_every_documented_option_once(void **state)
{
    (void)state;
    static const char *const names[] = {
        "model", "data", "devices", "global-batch", "replica-batch", "epochs", "steps",
        "optimizer", "lr", "momentum", "beta1", "beta2", "epsilon", "shards", "accumulate",
        "allreduce", "order", "precision", "seed", "threads", "readers", "bucket", "reduction",
        "schedule", "warmup", "l1", "l2", "p2p", "out", "resume", "init", "init-only", "until",
        "check-every", "save-every", "timeout", "explain-step", "shuffle", "drop-remainder",
        "lr-scale",
        "base-batch", "rho", "weight-decay", "clip-value", "clip-norm", "clip-global-norm", "ema",
        "rules", "nonfinite", "monitor", "early-stop", "min-delta",
        "restore-best", "plateau", "plateau-factor", "plateau-delta", "plateau-cooldown",
        "plateau-min", "keep", "time-limit", "batchnorm", "class-weights", "metrics", "augment",
        "cache",
    };
    size_t count = 0;
    for (const ls_option *o = ls_option_table(); o->name; o++, count++) {
        assert_ptr_equal(ls_option_find(o->name), o);
        assert_true(o->help[0] && o->value[0] && o->group);
        assert_null(strchr(o->help, '\n'));
    }
    assert_int_equal(count, sizeof names / sizeof names[0]);
    for (size_t i = 0; i < count; i++) {
        if (!ls_option_find(names[i])) fail_msg("no option --%s", names[i]);
    }
    assert_null(ls_option_find("batch"));
}

static void test_options_of_a_group_stand_together(void **state)
{
    (void)state;
    for (const ls_option *o = ls_option_table(); o->name; o++) {
        for (const ls_option *p = o + 1; p->name; p++) { /* once another group began, o's is over */
            if (strcmp(p->group, o->group) == 0) assert_string_equal((p - 1)->group, o->group);
        }
    }
}

static void test_the_defaults_are_keras(void **state)
{
    (void)state;
    ls_config c;
    ls_config_init(&c);
    ls_config_fill(&c, 2);
    assert_int_equal(c.optimizer, LS_OPTIMIZER_ADAM);
    assert_true(c.lr == 0.001 && c.beta1 == 0.9 && c.beta2 == 0.999 && c.epsilon == 1e-7);
    assert_true(c.momentum == 0.9 && c.rho == 0.9 && c.l1 == 0 && c.l2 == 0);
    assert_true(c.weight_decay == 0 && c.clip_value == 0 && c.clip_norm == 0 &&
                c.clip_global_norm == 0 && c.ema == 0 && !c.rules[0]);
    assert_true(c.global_batch == 32 && c.epochs == 5 && c.steps == 0);
    assert_true(c.shards == 8 && c.accumulate == 1 && c.seed == 1 && c.bucket_bytes == 4 << 20);
    assert_true(c.reduction == LS_REDUCTION_MEAN && c.order == LS_ORDER_EXACT && c.shuffle);
    assert_true(c.check_every == 1 && c.timeout_s == 60 && !c.drop_remainder);
    assert_true(c.schedule.kind == LS_SCHEDULE_CONSTANT && c.schedule.warmup == 0);
    assert_string_equal(c.devices, "auto");
}

static void test_what_was_not_given_is_decided_once(void **state)
{
    (void)state;
    ls_config c = config_with("optimizer", "sgd"), again;
    assert_true(c.lr == 0);
    c.replica_batch = 16;
    c.steps = 100;
    ls_config_fill(&c, 3);
    assert_true(c.lr == 0.01 && c.global_batch == 48 && c.replica_batch == 0);
    assert_true(c.epochs == 0 && c.steps == 100);
    again = c;
    ls_config_fill(&again, 5);
    assert_true(again.lr == c.lr && again.global_batch == 48 && again.epochs == 0);
    c = config_with("lr", "0.5");
    ls_config_fill(&c, 1);
    assert_true(c.lr == 0.5);
    c = config_with("optimizer", "rmsprop");
    ls_config_fill(&c, 1);
    assert_true(c.lr == 0.001 && c.weight_decay == 0);
    c = config_with("optimizer", "adamw");
    ls_config_fill(&c, 1);
    assert_true(c.lr == 0.001 && c.weight_decay == 0.004);
    c = config_with("optimizer", "adamw");
    assert_int_equal(ls_config_set(&c, "weight-decay", "0"), LS_OK);
    ls_config_fill(&c, 1);
    assert_true(c.weight_decay == 0);
}

/* For every option: texts that are taken, and what is written for them. */
static const struct {
    const char *name, *text, *written;
} values[] = {
    { "model", "digits-cnn", NULL }, { "data", "csv:a b#c.csv,label=last", NULL },
    { "devices", "cuda:0*2,1", NULL }, { "out", "runs/x", NULL }, { "resume", "auto", NULL },
    { "init", "w.safetensors", NULL }, { "global-batch", "64", NULL },
    { "global-batch", "auto", NULL }, { "replica-batch", "7", NULL }, { "epochs", "3", NULL },
    { "steps", "1000000000000000", NULL }, { "steps", "none", NULL }, { "optimizer", "sgd", NULL },
    { "optimizer", "momentum", NULL }, { "lr", "0.001", NULL }, { "lr", "1e-3", "0.001" },
    { "lr", "+.5", "0.5" }, { "lr", "0.30000000000000004", NULL }, { "lr", "auto", NULL },
    { "momentum", "0.99", NULL }, { "momentum", "0", NULL }, { "momentum", "-0", "0" },
    { "beta1", "0.5", NULL }, { "beta2", "0.9999999999999999", NULL }, { "epsilon", "1e-08", NULL },
    { "shards", "64", NULL }, { "accumulate", "4", NULL }, { "allreduce", "tree", NULL },
    { "allreduce", "root", NULL }, { "order", "fast", NULL }, { "precision", "f32", NULL },
    { "seed", "18446744073709551615", NULL }, { "seed", "0", NULL }, { "threads", "2", NULL },
    { "threads", "auto", NULL }, { "readers", "4", NULL },
    { "cache", "off", NULL }, { "cache", "2G", "2GiB" }, { "cache", "3000", NULL },
    { "bucket", "65536", "64KiB" },
    { "bucket", "64K", "64KiB" }, { "bucket", "4M", "4MiB" }, { "bucket", "1GiB", NULL },
    { "bucket", "5000", NULL }, { "reduction", "weighted-mean", NULL },
    { "reduction", "sum", NULL },
    { "schedule", "constant", NULL }, { "schedule", "step:10,0.5", NULL },
    { "schedule", "cosine", NULL }, { "schedule", "cosine:100", "cosine:100,0" },
    { "schedule", "cosine:100,0.1", NULL }, { "schedule", "exponential:10,0.96", NULL },
    { "schedule", "exponential:10,0.96,staircase", NULL },
    { "schedule", "polynomial:10,0.001", "polynomial:10,0.001,1" },
    { "schedule", "polynomial:10,0,0.5", NULL }, { "schedule", "table:0.1,0.2,0.4", NULL },
    { "schedule", "table:0=0.1,1=0.2", "table:0.1,0.2" }, { "schedule", "table:0.3", NULL },
    { "schedule", "table:0=0.1,100=0.01,1000=0", NULL },
    { "warmup", "10", NULL }, { "l1", "0.01", NULL },
    { "optimizer", "nesterov", NULL }, { "optimizer", "adamw", NULL },
    { "optimizer", "rmsprop", NULL }, { "rho", "0.99", NULL }, { "lr-scale", "linear", NULL },
    { "lr-scale", "none", NULL }, { "base-batch", "32", NULL }, { "base-batch", "none", NULL },
    { "weight-decay", "0.05", NULL }, { "clip-value", "0.5", NULL }, { "clip-value", "off", NULL },
    { "clip-norm", "1", NULL }, { "clip-norm", "off", NULL }, { "clip-global-norm", "2", NULL },
    { "ema", "0.999", NULL }, { "ema", "off", NULL }, { "ema", "0", "off" },
    { "rules", "dense1/*=freeze;*=lr:0.1,decay:0", NULL },
    { "l2", "0", NULL }, { "p2p", "off", NULL }, { "until", "val_accuracy>=0.97", NULL },
    { "until", "loss<=-1e-3", "loss<=-0.001" }, { "until", "none", NULL },
    { "check-every", "off", NULL }, { "check-every", "0", "off" }, { "save-every", "50", NULL },
    { "timeout", "2.5", NULL }, { "explain-step", "3", NULL }, { "shuffle", "no", NULL },
    { "drop-remainder", "yes", NULL }, { "drop-remainder", "no", NULL },
    { "augment", "none", NULL }, { "augment", "crop:4,flip,cutout:8", NULL },
    { "augment", "cutout:1,brightness:.25,vflip", "vflip,brightness:0.25,cutout:1" },
    { "augment", "crop:65535,flip,vflip,brightness:1e-300,contrast:0.30000000000000004", NULL },
};

static void test_every_value_is_written_as_text_that_gives_it_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const ls_option *option = ls_option_find(values[i].name);
        const ls_config c = config_with(values[i].name, values[i].text);
        char once[LS_TEXT_BYTES], twice[LS_TEXT_BYTES];
        ls_config_value(&c, option, once, sizeof once);
        assert_string_equal(once, values[i].written ? values[i].written : values[i].text);
        const ls_config d = config_with(values[i].name, once);
        ls_config_value(&d, option, twice, sizeof twice);
        assert_string_equal(twice, once);
    }
}

static void test_values_reach_their_fields(void **state)
{
    (void)state;
    ls_config c = config_with("bucket", "64KiB");
    assert_true(c.bucket_bytes == 65536);
    c = config_with("schedule", "step:10,0.5");
    assert_true(c.schedule.kind == LS_SCHEDULE_STEP && c.schedule.every == 10 &&
                c.schedule.factor == 0.5);
    assert_int_equal(ls_config_set(&c, "warmup", "7"), LS_OK);
    assert_int_equal(ls_config_set(&c, "schedule", "cosine:9,0.25"), LS_OK);
    assert_true(c.schedule.kind == LS_SCHEDULE_COSINE && c.schedule.steps == 9 &&
                c.schedule.final == 0.25 && c.schedule.warmup == 7);
    c = config_with("until", "val_loss<=0.5");
    assert_string_equal(c.until.metric, "val_loss");
    assert_true(!c.until.at_least && c.until.value == 0.5);
    c = config_with("schedule", "table:0=0.5,7=0.25");
    assert_true(c.schedule.kind == LS_SCHEDULE_TABLE && c.schedule.entry_count == 2 &&
                c.schedule.entry[1].step == 7 && c.schedule.entry[1].rate == 0.25);
    c = config_with("allreduce", "tree");
    assert_int_equal(c.allreduce, LS_ALGORITHM_TREE);
    c = config_with("p2p", "off");
    assert_int_equal(c.p2p, LS_P2P_OFF);
    c = config_with("drop-remainder", NULL); /* the flag form */
    assert_true(c.drop_remainder);
}

static void test_wrong_values_are_refused_with_name_text_and_expectation(void **state)
{
    (void)state;
    assert_refused("global-batch", "0", "--global-batch: found '0', expected a whole number from 1 "
                                        "to 1000000000, or auto");
    assert_refused("global-batch", "-4", "found '-4'");
    assert_refused("global-batch", "12x", "found '12x'");
    assert_refused("global-batch", " 12", "found ' 12'");
    assert_refused("global-batch", "", "found ''");
    assert_refused("global-batch", "1e3", "a whole number");
    assert_refused("global-batch", "99999999999999999999", "a whole number");
    assert_refused("seed", "18446744073709551616", "from 0 to 18446744073709551615");
    assert_refused("shards", "65", "from 1 to 64");
    assert_refused("threads", "4294967298", "from 1 to 256"); /* 2 if cut to 32 bits */
    assert_refused("lr", "0", "a number from 1e-12 to 1000000");
    assert_refused("lr", "nan", "found 'nan'");
    assert_refused("lr", "inf", "found 'inf'");
    assert_refused("lr", "1e999", "found '1e999'");
    assert_refused("lr", "0x1p-3", "found '0x1p-3'");
    assert_refused("lr", "0,5", "found '0,5'");
    assert_refused("lr", "1 ", "found '1 '");
    assert_refused("lr", "--5", "found '--5'");
    assert_refused("beta1", "1", "from 0 up to, but not including, 1");
    assert_refused("beta2", "-0.1", "from 0 up to");
    assert_refused("bucket", "4MB", "K, M or G (KiB, MiB, GiB) after it");
    assert_refused("bucket", "4KiBs", "found '4KiBs'");
    assert_refused("bucket", "512", "from 1024 to 4294967296");
    assert_refused("bucket", "18014398509481988K", "KiB"); /* 4096 if cut to 64 bits */
    assert_refused("shuffle", "1", "expected yes or no");
    assert_refused("data", "", "expected SPEC");
    assert_refused("data", "a\nb", "found 'a?b', expected no control characters");
    assert_refused("data", "csv:x ", "no blanks around it");
    assert_refused("lr", NULL, "--lr: nothing follows it, expected X");
}

static void test_a_text_too_long_for_its_field_is_refused(void **state)
{
    (void)state;
    char text[LS_TEXT_BYTES + 1];
    memset(text, 'x', sizeof text);
    text[LS_TEXT_BYTES] = '\0';
    assert_refused("out", text, "fewer than 1024 bytes");
    text[LS_TEXT_BYTES - 1] = '\0';
    const ls_config c = config_with("out", text);
    assert_string_equal(c.out, text);
}

static void test_unknown_names_are_answered_with_the_nearest(void **state)
{
    (void)state;
    assert_refused("optimzer", "sgd", "unknown option --optimzer; did you mean --optimizer?");
    assert_refused("zzzzzzzz", "1", "unknown option --zzzzzzzz");
    assert_refused("optimizer", "adma", "found 'adma', expected sgd, momentum, nesterov, adam, "
                                        "adamw or rmsprop; did you mean adam?");
    assert_refused("reduction", "average", "expected mean, weighted-mean or sum");
    assert_refused("schedule", "cosin:5", "did you mean cosine?");
    assert_refused("until", "val_acuracy>=1", "did you mean val_accuracy?");
}

static void test_precisions_of_other_builds_are_refused_as_such(void **state)
{
    (void)state;
    assert_refused("precision", "tf32", "--precision: tf32 is not in this build, expected f32, "
                                        "bf16 or f16");
    assert_refused("precision", "f33", "found 'f33', expected f32");
}

static void test_malformed_schedules_and_conditions_are_refused(void **state)
{
    (void)state;
    static const char *const schedule[] = {
        "", "constant:1", "step", "step:", "step:10", "step:0,0.5", "step:10,", "step:10,0",
        "step:10,1.5", "step:10,0.5x", "step:10;0.5", "step:-1,0.5", "cosine:", "cosine:0",
        "cosine:5,", "cosine:5,2", "cosine:5,-0.1", "cosine:5,0.1,1", "Cosine", "linear",
        "exponential", "exponential:", "exponential:10", "exponential:0,0.5", "exponential:10,0",
        "exponential:10,-1", "exponential:10,0.5,stair", "exponential:10,0.5,staircase,",
        "polynomial", "polynomial:10", "polynomial:0,0.1", "polynomial:10,-1",
        "polynomial:10,0,0", "polynomial:10,0,65", "polynomial:10,0,1,1", "table", "table:",
        "table:0.1,", "table:1=0.1", "table:0=0.1,0=0.2", "table:0=0.1,5=0.2,4=0.3",
        "table:0=0.1,0.2", "table:0.1,1=0.2", "table:-0.1", "table:nan", "table:0=0.1;5=0.2",
        "cosinecosinecosinecosine",
    };
    static const char *const until[] = { "", "val_loss", "val_loss=1", "val_loss>1", "val_loss>=",
                                         "val_loss>=x", "val_loss>=1x", ">=1", "val_loss>=nan",
                                         "val_loss<=1e999" };
    for (size_t i = 0; i < sizeof schedule / sizeof schedule[0]; i++) {
        assert_refused("schedule", schedule[i], "--schedule: found");
    }
    for (size_t i = 0; i < sizeof until / sizeof until[0]; i++) {
        assert_refused("until", until[i], "--until: found");
    }
    char name[200]; /* longer than its field */
    memset(name, 'm', sizeof name);
    memcpy(name + sizeof name - 4, ">=1", 4);
    assert_refused("until", name, "expected METRIC>=X");
}

static void test_a_configuration_survives_being_written_and_parsed(void **state)
{
    (void)state;
    ls_config c, d;
    ls_config_init(&c);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_int_equal(ls_config_set(&c, values[i].name, values[i].text), LS_OK);
    }
    char *text, *again;
    assert_int_equal(ls_config_write(&c, &text), LS_OK);
    ls_config_init(&d);
    if (ls_config_parse(&d, "config.txt", text) != LS_OK) fail_msg("%s", ls_last_error());
    assert_string_equal(d.out, ""); /* where that run was, not how to repeat it */
    assert_string_equal(d.resume, "");
    assert_string_equal(d.data, "csv:a b#c.csv,label=last");
    memcpy(d.out, c.out, sizeof d.out);
    memcpy(d.resume, c.resume, sizeof d.resume);
    assert_int_equal(ls_config_write(&d, &again), LS_OK);
    assert_string_equal(again, text);
    free(text);
    free(again);
}

static void test_the_defaults_survive_too(void **state)
{
    (void)state;
    ls_config c, d = config_with("lr", "0.5");
    ls_config_init(&c);
    char *text, *again;
    assert_int_equal(ls_config_write(&c, &text), LS_OK);
    if (ls_config_parse(&d, "config.txt", text) != LS_OK) fail_msg("%s", ls_last_error());
    assert_int_equal(ls_config_write(&d, &again), LS_OK);
    assert_string_equal(again, text); /* the lr was set back */
    free(text);
    free(again);
}

static void test_files_may_have_comments_blank_lines_and_any_line_ends(void **state)
{
    (void)state;
    ls_config c;
    ls_config_init(&c);
    const char *text = "# a run\n\n  lr\t0.25  \r\nepochs 7\r\n\t# out elsewhere\ndrop-remainder\n"
                       "data csv:my file.csv";
    if (ls_config_parse(&c, "my.txt", text) != LS_OK) fail_msg("%s", ls_last_error());
    assert_true(c.lr == 0.25 && c.epochs == 7 && c.drop_remainder);
    assert_string_equal(c.data, "csv:my file.csv");
}

static void test_errors_in_a_file_name_file_and_line(void **state)
{
    (void)state;
    ls_config c;
    ls_config_init(&c);
    assert_int_equal(ls_config_parse(&c, "my.txt", "lr 1\n\nlrr 2\n"), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "my.txt:3: unknown option --lrr; did you mean --lr?"));
    assert_int_equal(ls_config_parse(&c, "my.txt", "epochs\n"), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "my.txt:1: --epochs: nothing follows it"));
    char line[3000];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\0';
    assert_int_equal(ls_config_parse(&c, "my.txt", line), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "my.txt:1: a line of 2999 bytes"));
}

static ls_config complete_config(void)
{
    ls_config c = config_with("model", "mlp");
    assert_int_equal(ls_config_set(&c, "data", "digits"), LS_OK);
    return c;
}

static void assert_fails_check(const ls_config *config, const char *part)
{
    assert_int_equal(ls_config_check(config), LS_ERR_ARGUMENT);
    if (!strstr(ls_last_error(), part)) fail_msg("'%s' not in: %s", part, ls_last_error());
}

static void test_options_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    ls_config c = complete_config();
    assert_int_equal(ls_config_check(&c), LS_OK);
    c.model[0] = '\0';
    assert_fails_check(&c, "no MODEL");
    c = complete_config();
    c.data[0] = '\0';
    assert_fails_check(&c, "no --data: expected digits");
    c = complete_config();
    c.global_batch = 64;
    c.replica_batch = 8;
    assert_fails_check(&c, "--global-batch 64 and --replica-batch 8");
    c = complete_config();
    c.accumulate = 9;
    assert_fails_check(&c, "--accumulate 9: expected at most --shards, which is 8");
    c = complete_config();
    c.order = LS_ORDER_FAST;
    assert_int_equal(ls_config_check(&c), LS_OK);
    c.allreduce = LS_ALGORITHM_TREE;
    assert_fails_check(&c, "--order fast with --allreduce tree");
    c = complete_config();
    c.clip_norm = 1;
    assert_int_equal(ls_config_check(&c), LS_OK);
    c.clip_value = 2;
    assert_fails_check(&c, "--clip-value 2, --clip-norm 1, --clip-global-norm 0: expected at most");
    c = complete_config();
    c.lr_scale = LS_LR_SCALE_LINEAR;
    assert_fails_check(&c, "--lr-scale linear needs --base-batch");
    c.base_batch = 32;
    assert_int_equal(ls_config_check(&c), LS_OK);
    c.lr_scale = LS_LR_SCALE_NONE;
    assert_fails_check(&c, "--base-batch 32 does nothing without --lr-scale linear");
    c = complete_config();
    assert_int_equal(ls_config_set(&c, "rules", "*=frozen"), LS_OK);
    assert_fails_check(&c, "--rules: found 'frozen', expected freeze");
}

static void test_what_makes_the_bits_may_not_change_on_resumption(void **state)
{
    (void)state;
    static const char *const bits[] = {
        "rho", "lr-scale", "base-batch", "weight-decay", "clip-value", "clip-norm",
        "clip-global-norm", "ema", "rules", "init", "init-only",
        "global-batch", "optimizer", "lr", "momentum", "beta1", "beta2", "epsilon", "schedule",
        "warmup", "l1", "l2", "shards", "reduction", "order", "precision", "seed", "shuffle",
        "drop-remainder", "batchnorm", "class-weights", "metrics", "augment", "monitor", "plateau",
        "plateau-factor", "plateau-delta", "plateau-cooldown", "plateau-min", NULL
    };
    static const char *const extend[] = { "epochs", "steps", "until", "early-stop", "min-delta",
                                         NULL };
    for (const ls_option *o = ls_option_table(); o->name; o++) {
        ls_option_change want = LS_OPTION_FREE;
        for (int i = 0; bits[i]; i++) {
            if (strcmp(bits[i], o->name) == 0) want = LS_OPTION_BITS;
        }
        for (int i = 0; extend[i]; i++) {
            if (strcmp(extend[i], o->name) == 0) want = LS_OPTION_EXTEND;
        }
        if (o->change != want) fail_msg("--%s", o->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table_has_every_documented_option_once),
        cmocka_unit_test(test_options_of_a_group_stand_together),
        cmocka_unit_test(test_the_defaults_are_keras),
        cmocka_unit_test(test_what_was_not_given_is_decided_once),
        cmocka_unit_test(test_every_value_is_written_as_text_that_gives_it_back),
        cmocka_unit_test(test_values_reach_their_fields),
        cmocka_unit_test(test_wrong_values_are_refused_with_name_text_and_expectation),
        cmocka_unit_test(test_a_text_too_long_for_its_field_is_refused),
        cmocka_unit_test(test_unknown_names_are_answered_with_the_nearest),
        cmocka_unit_test(test_precisions_of_other_builds_are_refused_as_such),
        cmocka_unit_test(test_malformed_schedules_and_conditions_are_refused),
        cmocka_unit_test(test_a_configuration_survives_being_written_and_parsed),
        cmocka_unit_test(test_the_defaults_survive_too),
        cmocka_unit_test(test_files_may_have_comments_blank_lines_and_any_line_ends),
        cmocka_unit_test(test_errors_in_a_file_name_file_and_line),
        cmocka_unit_test(test_options_that_contradict_each_other_are_refused),
        cmocka_unit_test(test_what_makes_the_bits_may_not_change_on_resumption),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
