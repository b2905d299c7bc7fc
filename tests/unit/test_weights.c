/* SPDX-License-Identifier: MIT */
/* test_weights.c -- samples' and classes' weights, from the data to the update. */
#include <math.h>
#include <stdio.h>

#include "io/pipeline.h"
#include "support/data_folder.h"
#include "support/test.h"
#include "support/training.h"
#include "train/class_weights.h"

/* -- csv and npy ------------------------------------------------------------------------------- */

static const char table[] = "1,2,0,0.5\n3,4,1,0\n5,6,2,1e3\n7,8,0,-0\n";

static void test_a_field_of_a_table_is_its_weight_and_no_feature(void **state)
{
    (void)state;
    data_folder_text(folder, "t.csv", table);
    static const float weight[4] = { 0.5f, 0, 1000, 0 };
    const char *path = data_folder_path(folder);
    ls_dataset *d = must_open("csv:%s/t.csv,label=3,weights=4,test=none", path);
    ls_dataset *last = must_open("csv:%s/t.csv,label=3,weights=last,test=none", path);
    ls_dataset *none = must_open("csv:%s/t.csv,label=3,test=none", path);
    const ls_dataset_info *info = ls_dataset_describe(d);
    assert_true(info->weighted && !ls_dataset_describe(none)->weighted);
    assert_int_equal(info->channels, 2);
    assert_int_equal(ls_dataset_describe(none)->channels, 3);
    for (size_t i = 0; i < 4; i++) {
        float x[2];
        ls_dataset_read(d, LS_PART_TRAIN, i, x);
        assert_true(x[0] == (float)(2 * i + 1) && x[1] == (float)(2 * i + 2));
        assert_true(ls_dataset_weight(d, i) == weight[i]);
        assert_false(signbit(ls_dataset_weight(d, i)));
        assert_true(ls_dataset_weight(none, i) == 1);
    }
    assert_string_equal(ls_dataset_identity(d), ls_dataset_identity(last));
    ls_dataset_close(d);
    ls_dataset_close(last);
    ls_dataset_close(none);
}

static void test_weights_are_part_of_the_identity(void **state)
{
    (void)state;
    const char *path = data_folder_path(folder);
    data_folder_text(folder, "a.csv", "1,0,1\n2,1,1\n");
    data_folder_text(folder, "b.csv", "1,0,1\n2,1,2\n");
    data_folder_text(folder, "c.csv", "1,0\n2,1\n");
    ls_dataset *a = must_open("csv:%s/a.csv,label=2,weights=3,test=none", path);
    ls_dataset *b = must_open("csv:%s/b.csv,label=2,weights=3,test=none", path);
    ls_dataset *c = must_open("csv:%s/c.csv,test=none", path);
    assert_string_not_equal(ls_dataset_identity(a), ls_dataset_identity(b));
    assert_string_not_equal(ls_dataset_identity(a), ls_dataset_identity(c));
    ls_dataset_close(a);
    ls_dataset_close(b);
    ls_dataset_close(c);
}

static void test_bad_weights_of_a_table_are_refused_with_their_place(void **state)
{
    (void)state;
    const char *path = data_folder_path(folder);
    data_folder_text(folder, "bad.csv", "1,0,1\n2,1,-0.5\n3,0,2\n");
    data_folder_text(folder, "nan.csv", "1,0,1\n2,1,nan\n");
    data_folder_text(folder, "t.csv", table);
    must_refuse(LS_ERR_FORMAT, "bad.csv: line 2, field 3 (byte 10): weight '-0.5', expected 0 or "
                "more", "csv:%s/bad.csv,label=2,weights=3,test=none", path);
    must_refuse(LS_ERR_FORMAT, "nan.csv: line 2, field 3", "csv:%s/nan.csv,label=2,weights=3",
                path);
    must_refuse(LS_ERR_ARGUMENT, "weights=last is field 4", "csv:%s/t.csv,weights=last", path);
    must_refuse(LS_ERR_ARGUMENT, "weights=9 is field 9", "csv:%s/t.csv,weights=9", path);
    must_refuse(LS_ERR_ARGUMENT, "weights=x, expected last", "csv:%s/t.csv,weights=x", path);
    ls_dataset *d = must_open("csv:%s/bad.csv,label=2,weights=3,test=none,bad=skip", path);
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 2);
    assert_true(ls_dataset_weight(d, 0) == 1 && ls_dataset_weight(d, 1) == 2);
    ls_dataset_close(d);
}

static void test_a_test_part_has_the_field_and_weighs_nothing(void **state)
{
    (void)state;
    const char *path = data_folder_path(folder);
    data_folder_text(folder, "t.csv", table);
    ls_dataset *d = must_open("csv:%s/t.csv,label=3,weights=4,test=every:2", path);
    float x[2];
    ls_dataset_read(d, LS_PART_TEST, 1, x);
    assert_true(x[0] == 7 && x[1] == 8);
    assert_true(ls_dataset_weight(d, 0) == 0.5f && ls_dataset_weight(d, 1) == 1000);
    ls_dataset_close(d);
}

#define F4(shape) "{'descr': '<f4', 'fortran_order': False, 'shape': (" shape "), }\n"
#define F8(shape) "{'descr': '<f8', 'fortran_order': False, 'shape': (" shape "), }\n"
#define I4(shape) "{'descr': '<i4', 'fortran_order': False, 'shape': (" shape "), }\n"

static void test_an_array_weighs_training_samples(void **state)
{
    (void)state;
    static const float x[3] = { 1, 2, 3 };
    static const double w[3] = { 0.5, 0, 2 }, negative[3] = { 1, -1, 2 }, huge[3] = { 1, 1, 1e300 };
    static const int32_t y[3] = { 0, 1, 0 };
    const char *path = data_folder_path(folder);
    data_folder_npy(folder, "x.npy", F4("3,"), x, sizeof x);
    data_folder_npy(folder, "y.npy", I4("3,"), y, sizeof y);
    data_folder_npy(folder, "w.npy", F8("3, 1"), w, sizeof w);
    data_folder_npy(folder, "i.npy", I4("3,"), y, sizeof y);
    data_folder_npy(folder, "n.npy", F8("3,"), negative, sizeof negative);
    data_folder_npy(folder, "h.npy", F8("3,"), huge, sizeof huge);
    data_folder_npy(folder, "s.npy", F8("2,"), w, 2 * sizeof *w);
    ls_dataset *d = must_open("npy:%s/x.npy,%s/y.npy,weights=%s/w.npy,test=%s/x.npy,%s/y.npy", path,
                              path, path, path, path);
    for (size_t i = 0; i < 3; i++) assert_true(ls_dataset_weight(d, i) == (float)w[i]);
    ls_dataset_close(d);
    d = must_open("npy:%s/x.npy,%s/y.npy,weights=%s/i.npy", path, path, path);
    assert_true(ls_dataset_weight(d, 1) == 1 && ls_dataset_weight(d, 2) == 0);
    ls_dataset_close(d);
    must_refuse(LS_ERR_FORMAT, "n.npy: record 2", "npy:%s/x.npy,%s/y.npy,weights=%s/n.npy", path,
                path, path);
    must_refuse(LS_ERR_FORMAT, "h.npy: record 3", "npy:%s/x.npy,%s/y.npy,weights=%s/h.npy", path,
                path, path);
    must_refuse(LS_ERR_FORMAT, "a weight for each of 3 training samples",
                "npy:%s/x.npy,%s/y.npy,weights=%s/s.npy", path, path, path);
}

/* -- classes ----------------------------------------------------------------------------------- */

/* Classes 0 0 0 1 3, of five. */
static ls_dataset *open_classes(void)
{
    data_folder_text(folder, "c.csv", "1,0\n1,0\n1,0\n1,1\n1,3\n");
    data_folder_text(folder, "five.csv", "1,4\n");
    const char *path = data_folder_path(folder);
    return must_open("csv:%s/c.csv,test=%s/five.csv", path, path);
}

static void test_a_class_that_is_not_named_weighs_one(void **state)
{
    (void)state;
    ls_dataset *d = open_classes();
    float *w = NULL;
    assert_int_equal(ls_class_weights_create("3=2.5,0=0", d, &w), LS_OK);
    assert_true(w[0] == 0 && w[1] == 1 && w[2] == 1 && w[3] == 2.5f && w[4] == 1);
    free(w);
    assert_int_equal(ls_class_weights_create("none", d, &w), LS_OK);
    assert_null(w);
    ls_dataset_close(d);
}

static void test_balanced_classes_weigh_alike_in_all(void **state)
{
    (void)state;
    ls_dataset *d = open_classes();
    float *w = NULL;
    assert_int_equal(ls_class_weights_create("balanced", d, &w), LS_OK);
    assert_true(w[0] == (float)(5.0 / (5 * 3)) && w[1] == 1 && w[3] == 1);
    assert_true(w[2] == 1 && w[4] == 1); /* no sample: nothing to weigh */
    free(w);
    ls_dataset_close(d);
}

static void test_class_weights_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "5=1", "class 5, expected 0..4" }, { "0=-1", "a finite weight, 0 or more" },
        { "0=1e99", "a finite weight" }, { "0=nan", "expected CLASS=WEIGHT" },
        { "0", "expected CLASS=WEIGHT" }, { "balancd", "expected CLASS=WEIGHT" },
        { "0=1,0=2", "expected each class once" }, { "0=1,", "expected commas between" },
        { "0=1;1=2", "expected commas between" }, { "0=1x", "expected commas between" },
        { "=1", "expected CLASS=WEIGHT" }, { "-1=1", "expected CLASS=WEIGHT" },
        { "0=+-1", "expected CLASS=WEIGHT" }, { "99999999999=1", "expected CLASS=WEIGHT" },
    };
    ls_dataset *d = open_classes();
    float *w = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(ls_class_weights_create(cases[i].text, d, &w), LS_ERR_ARGUMENT);
        assert_null(w);
        if (!strstr(ls_last_error(), cases[i].want)) {
            fail_msg("'%s': %s", cases[i].text, ls_last_error());
        }
    }
    ls_dataset_close(d);
    data_folder_text(folder, "h.csv", "1,0,1e30\n1,1,1\n");
    d = must_open("csv:%s/h.csv,label=2,weights=3,test=none", data_folder_path(folder));
    assert_int_equal(ls_class_weights_create("0=1e30", d, &w), LS_ERR_ARGUMENT);
    assert_string_equal(ls_last_error(), "--class-weights: record 1 of the training part weighs "
                        "1e+30, its class 0 1e+30: their product is too large");
    ls_dataset_close(d);
    d = must_open("csv:%s/h.csv,task=regress,test=none", data_folder_path(folder));
    assert_int_equal(ls_class_weights_create("balanced", d, &w), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "targets, not classes"));
    ls_dataset_close(d);
}

/* -- batches ----------------------------------------------------------------------------------- */

static void test_a_batch_brings_the_samples_weight_times_its_class(void **state)
{
    (void)state;
    static const float of_class[3] = { 1, 2, 0.5f };
    data_folder_text(folder, "t.csv", table);
    ls_dataset *d = must_open("csv:%s/t.csv,label=3,weights=4,test=none", data_folder_path(folder));
    ls_pipeline_config config = { .dataset = d, .seed = 1, .shuffle = true, .global_batch = 4,
                                  .world_size = 1, .shard_count = 2, .accumulate = 2,
                                  .reader_count = 2, .depth = 2, .step_count = 1 };
    for (int k = 0; k < 2; k++) {
        config.class_weight = k ? of_class : NULL;
        void *staging = aligned_alloc(64, ls_pipeline_staging_bytes(&config, 0));
        ls_pipeline *p = NULL;
        ls_batch batch;
        assert_int_equal(ls_pipeline_create(&config, &staging, &p), LS_OK);
        assert_int_equal(ls_pipeline_next(p, 0, &batch), LS_OK);
        for (size_t i = 0; i < 4; i++) {
            const float w = ls_dataset_weight(d, batch.index[i]);
            assert_true(batch.weight[i] == (k ? w * of_class[batch.label[i]] : w));
        }
        ls_pipeline_release(p, 0);
        ls_pipeline_destroy(p);
        free(staging);
    }
    ls_dataset_close(d);
}

/* -- updates ----------------------------------------------------------------------------------- */

static const char *const devices[] = { "host:1", "host:2", "host:3", "host:8" };
enum { DEVICES = sizeof devices / sizeof devices[0] };

static training *classifier_create(const char *keys)
{
    training *t = training_create();
    char data[600];
    char *text = training_table(5, 37, 4, 3);
    training_write(t, "t.csv", text);
    free(text);
    training_write(t, "t.model", "input 4\ndense 3\nloss auto\n");
    snprintf(data, sizeof data, "csv:%s%s", training_path(t, "t.csv"), keys);
    training_set(t, "model", training_path(t, "t.model"));
    training_set(t, "data", data);
    training_set(t, "global-batch", "8");
    training_set(t, "epochs", "2");
    return t;
}

static void test_weighted_runs_have_the_same_bits_on_any_number_of_replicas(void **state)
{
    (void)state;
    static const char *const losses[] = { "softmax-crossentropy", "sigmoid-crossentropy" };
    training *t = classifier_create("");
    training_set(t, "class-weights", "0=0.5,2=3");
    training_set(t, "metrics", "accuracy,top2,precision,recall,f1");
    for (int k = 0; k < 4; k++) {
        char model[200];
        training_bits bits;
        ls_history_line one = { .epoch = 0 };
        snprintf(model, sizeof model, "input 4\ndense 3\nloss %s smoothing=0.1\n", losses[k % 2]);
        training_write(t, "t.model", model);
        training_set(t, "reduction", k / 2 ? "weighted-mean" : "mean");
        for (int d = 0; d < DEVICES; d++) {
            const ls_history_line *last = &t->result.last;
            training_set(t, "devices", devices[d]);
            training_must_run(t);
            if (d == 0) {
                training_remember(t, &bits);
                one = *last;
            }
            assert_true(training_same(t, &bits, devices[d]));
            assert_true(last->metric[1] == one.metric[1] && last->metric[1] > last->metric[0]);
            assert_memory_equal(last->val_metric, one.val_metric, sizeof one.val_metric);
        }
        training_set(t, "accumulate", "3");
        training_must_run(t);
        assert_true(training_same(t, &bits, "three passes"));
        training_set(t, "accumulate", "1");
    }
    training_destroy(t);
}

static void test_class_weights_scale_the_loss_of_their_samples(void **state)
{
    (void)state;
    training *t = classifier_create(",test=none");
    training_set(t, "steps", "1");
    training_must_run(t);
    const double plain = t->step[0].loss;
    training_set(t, "class-weights", "0=2,1=2,2=2");
    training_must_run(t);
    assert_true(t->step[0].loss == 2 * plain);
    training_set(t, "reduction", "weighted-mean");
    training_must_run(t);
    assert_true(t->step[0].loss == plain);
    training_destroy(t);
}

/* Labels of class 0 alone, and one output, which may say 1. */
static void test_one_output_may_predict_a_class_that_the_data_lacks(void **state)
{
    (void)state;
    training *t = training_create();
    char data[600];
    const float far = 50;
    training_write(t, "o.csv", "1,0\n2,0\n3,0\n4,0\n5,0\n");
    training_write(t, "o.model", "input 1\ndense 1 bias=no\nloss sigmoid-crossentropy\n");
    snprintf(data, sizeof data, "csv:%s", training_path(t, "o.csv"));
    training_set(t, "model", training_path(t, "o.model"));
    training_set(t, "data", data);
    training_set(t, "init", training_weights(t, "w", "dense1/kernel", 1, 1, &far));
    training_set(t, "steps", "1");
    training_set(t, "metrics", "accuracy,precision,recall,f1");
    training_must_run(t);
    for (int m = 0; m < 4; m++) assert_true(t->result.last.val_metric[m] == 0);
    training_destroy(t);
}

static int notes;

static void count_note(void *context, const char *text)
{
    (void)context;
    notes += strstr(text, "all sample weights of a batch are zero") != NULL;
}

/* Batches 2 and 3 of four weigh nothing: no update, and it is said once. With `mean` D is the
 * number of samples: the update is one of a zero gradient. */
static void test_a_batch_without_weight_is_no_update_and_one_warning(void **state)
{
    (void)state;
    training *t = training_create();
    char data[600];
    training_write(t, "z.csv", "1,0,1\n2,1,1\n3,0,0\n4,1,0\n5,0,0\n6,1,0\n7,0,2\n8,1,0\n");
    training_write(t, "z.model", "input 1\ndense 2\nloss auto\n");
    snprintf(data, sizeof data, "csv:%s,label=2,weights=3,test=none", training_path(t, "z.csv"));
    training_set(t, "model", training_path(t, "z.model"));
    training_set(t, "data", data);
    training_set(t, "shuffle", "no");
    training_set(t, "global-batch", "2");
    training_set(t, "epochs", "1");
    training_set(t, "reduction", "weighted-mean");
    t->observer.note = count_note;
    for (int d = 0; d < DEVICES; d++) {
        notes = 0;
        training_set(t, "devices", devices[d]);
        training_must_run(t);
        assert_int_equal(t->step_count, 4);
        assert_int_equal(t->result.steps, 2);
        assert_true(t->step[1].skipped && t->step[2].skipped && !t->step[3].skipped);
        assert_true(t->step[1].loss == 0);
        assert_int_equal(notes, 1);
    }
    training_set(t, "reduction", "mean");
    notes = 0;
    training_must_run(t);
    assert_int_equal(t->result.steps, 4);
    assert_true(!t->step[1].skipped && t->step[1].loss == 0 && t->step[1].grad_norm == 0);
    assert_int_equal(notes, 0);
    training_destroy(t);
}

static void test_a_run_that_counts_updates_ends_where_nothing_weighs(void **state)
{
    (void)state;
    training *t = training_create();
    char data[600];
    training_write(t, "n.csv", "1,0,0\n2,1,0\n3,0,0\n");
    training_write(t, "n.model", "input 1\ndense 2\nloss auto\n");
    snprintf(data, sizeof data, "csv:%s,label=2,weights=3,test=none", training_path(t, "n.csv"));
    training_set(t, "model", training_path(t, "n.model"));
    training_set(t, "data", data);
    training_set(t, "global-batch", "2");
    training_set(t, "reduction", "weighted-mean");
    training_set(t, "steps", "5");
    for (int d = 0; d < DEVICES; d++) {
        training_set(t, "devices", devices[d]);
        assert_int_equal(training_run(t), LS_ERR_ARGUMENT);
        assert_int_equal(t->step_count, 2);
        assert_non_null(strstr(ls_last_error(), "--steps 5: epoch 1 brought no update"));
    }
    training_set(t, "epochs", "2"); /* an end without updates */
    training_must_run(t);
    assert_int_equal(t->step_count, 4);
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_field_of_a_table_is_its_weight_and_no_feature),
        cmocka_unit_test(test_weights_are_part_of_the_identity),
        cmocka_unit_test(test_bad_weights_of_a_table_are_refused_with_their_place),
        cmocka_unit_test(test_a_test_part_has_the_field_and_weighs_nothing),
        cmocka_unit_test(test_an_array_weighs_training_samples),
        cmocka_unit_test(test_a_class_that_is_not_named_weighs_one),
        cmocka_unit_test(test_balanced_classes_weigh_alike_in_all),
        cmocka_unit_test(test_class_weights_that_make_no_sense_are_refused),
        cmocka_unit_test(test_a_batch_brings_the_samples_weight_times_its_class),
        cmocka_unit_test(test_weighted_runs_have_the_same_bits_on_any_number_of_replicas),
        cmocka_unit_test(test_class_weights_scale_the_loss_of_their_samples),
        cmocka_unit_test(test_one_output_may_predict_a_class_that_the_data_lacks),
        cmocka_unit_test(test_a_batch_without_weight_is_no_update_and_one_warning),
        cmocka_unit_test(test_a_run_that_counts_updates_ends_where_nothing_weighs),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
