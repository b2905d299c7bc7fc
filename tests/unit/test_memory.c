/* SPDX-License-Identifier: MIT */
/* test_memory.c -- a run's memory before it is allocated, against what it then allocates.
 */
#include "support/test.h"

#include <stdio.h>
#include <sys/stat.h>

#include "device/host_room.h"
#include "device/paper.h"
#include "support/training.h"
#include "train/memory.h"

/* -- measured and allocated ----------------------------------------------------------------- */

typedef struct {
    size_t allocated, measured, parts, activations; /* bytes of the fullest replica */
    ls_status status;
} comparison;

/* Called when all is allocated, and before the first step. */
static void compare_with_plan(void *context, const ls_train_plan *plan)
{
    comparison *c = context;
    ls_rank_memory memory[LS_WORLD_MAX];
    c->allocated = plan->device_bytes;
    c->status = ls_memory_measure(plan->config, plan->model, ls_dataset_describe(plan->dataset),
                                  plan->dataset, plan->devices, memory);
    if (c->status != LS_OK) return;
    const ls_rank_memory *fullest = ls_memory_fullest(memory, plan->world_size);
    c->measured = fullest->device;
    c->activations = fullest->parts.activations;
    for (int i = 0; i < LS_MEMORY_PARTS; i++) {
        size_t bytes = 0;
        assert_non_null(ls_memory_part(fullest, i, &bytes));
        c->parts += bytes;
    }
}

static comparison comparison_of(training *t)
{
    comparison c = { .allocated = 0 };
    const ls_observer observer = { .plan = compare_with_plan, .stuck = training_stuck,
                                   .context = &c };
    ls_train_result result;
    training_set(t, "steps", "1");
    char name[32];
    static int runs;
    snprintf(name, sizeof name, "run%d", runs++);
    training_set(t, "out", training_path(t, name));
    if (ls_train(&t->config, &observer, &result) != LS_OK) fail_msg("%s", ls_last_error());
    return c;
}

static void test_what_is_measured_on_paper_is_what_a_run_allocates(void **state)
{
    (void)state;
    static const char *const settings[][3] = {
        { "host:1", "1", "auto" }, { "host:3", "1", "ring" },  { "host:4", "2", "tree" },
        { "host:2", "8", "root" }, { "host:8", "1", "ring" },
    };
    training *t = training_create();
    training_set(t, "model", "digits-cnn");
    training_set(t, "data", "digits");
    training_set(t, "global-batch", "200");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        training_set(t, "devices", settings[i][0]);
        training_set(t, "accumulate", settings[i][1]);
        training_set(t, "allreduce", settings[i][2]);
        training_set(t, "optimizer", i % 2 ? "sgd" : "adam");
        const comparison c = comparison_of(t);
        assert_int_equal(c.status, LS_OK);
        assert_int_equal(c.measured, c.allocated);
        assert_int_equal(c.parts, c.allocated);
    }
    training_destroy(t);
}

static void test_activations_are_those_of_the_largest_pass(void **state)
{
    (void)state;
    training *t = training_create();
    training_write(t, "a.model", "input 8x8x1\nconv 40 1x1\nflatten\ndense 10\n"
                                 "loss softmax-crossentropy\n");
    training_set(t, "model", training_path(t, "a.model"));
    training_set(t, "data", "digits");
    training_set(t, "global-batch", "800");
    training_set(t, "devices", "host:1");
    const size_t sample = (64 * 40 + 10) * sizeof(float);
    assert_int_equal(comparison_of(t).activations, 800 * sample);
    training_set(t, "accumulate", "4");
    assert_int_equal(comparison_of(t).activations, 200 * sample + 64); /* rounded up to 128 */
    training_set(t, "devices", "host:2");
    training_set(t, "accumulate", "1");
    assert_int_equal(comparison_of(t).activations, 400 * sample);
    training_destroy(t);
}

/* Activations, what 16-bit classes need to compute with them in fp32 included, and their
 * gradients, of the fullest of two replicas. */
static size_t activation_bytes(const ls_model *model, const char *precision)
{
    const ls_dataset_info data = { .is_image = true, .height = 32, .width = 32, .channels = 3,
                                   .task = LS_TASK_CLASSIFY, .classes = 10 };
    ls_config config;
    ls_device_list list;
    ls_rank_memory memory[LS_WORLD_MAX];
    ls_config_init(&config);
    assert_int_equal(ls_config_set(&config, "precision", precision), LS_OK);
    assert_int_equal(ls_config_set(&config, "global-batch", "128"), LS_OK);
    assert_int_equal(ls_device_list_parse("host:2", LS_P2P_AUTO, &list), LS_OK);
    ls_config_fill(&config, list.count);
    assert_int_equal(ls_memory_measure(&config, model, &data, NULL, &list, memory), LS_OK);
    const ls_replica_parts *parts = &ls_memory_fullest(memory, list.count)->parts;
    return parts->activations + parts->activation_gradients;
}

static void test_sixteen_bits_take_less_than_two_thirds_of_the_memory_of_activations(void **state)
{
    (void)state;
    ls_model model;
    assert_int_equal(ls_model_init(&model, "resnet20", ls_model_builtin("resnet20"), NULL), LS_OK);
    const double whole = (double)activation_bytes(&model, "f32");
    const double bf16 = (double)activation_bytes(&model, "bf16") / whole;
    const double f16 = (double)activation_bytes(&model, "f16") / whole;
    print_message("activations of resnet20: bf16 takes %.3f of f32's memory, f16 %.3f\n", bf16,
                  f16);
    assert_true(bf16 > 0.5 && bf16 <= 0.65 && f16 == bf16);
    ls_model_free(&model);
}

/* -- what does not fit ---------------------------------------------------------------------- */

static void test_a_run_that_cannot_fit_is_refused_before_it_allocates(void **state)
{
    (void)state;
    training *t = training_create();
    training_write(t, "wide.model", "input 8x8x1\nconv 16777216 1x1\nconv 1 1x1\nflatten\n"
                                    "dense 10\nloss softmax-crossentropy\n");
    training_set(t, "model", training_path(t, "wide.model")); /* 4 GiB of activations a sample */
    training_set(t, "data", "digits");
    training_set(t, "devices", "host:2");
    training_set(t, "global-batch", "1000");
    training_set(t, "out", training_path(t, "run"));
    assert_int_equal(training_run(t), LS_ERR_MEMORY);
    const char *message = ls_last_error();
    assert_non_null(strstr(message, "the run does not fit: host: needs "));
    assert_non_null(strstr(message, "--accumulate 8 (now 1"));
    assert_non_null(strstr(message, "a smaller --global-batch (now 1000)"));
    struct stat info;
    assert_int_not_equal(stat(training_path(t, "run"), &info), 0); /* no folder is left */
    training_destroy(t);
}

static void test_a_batch_that_the_data_do_not_fill_takes_memory_for_what_it_holds(void **state)
{
    (void)state;
    training *t = training_create();
    training_bits whole;
    training_set(t, "model", "digits-cnn");
    training_set(t, "data", "digits");
    training_set(t, "epochs", "2");
    training_set(t, "devices", "host:1");
    training_set(t, "global-batch", "1438"); /* the training part */
    training_must_run(t);
    training_remember(t, &whole);
    for (int d = 1; d <= 3; d++) {
        const char world[] = { 'h', 'o', 's', 't', ':', (char)('0' + d), '\0' };
        training_set(t, "devices", world);
        training_set(t, "global-batch", "1438");
        const size_t full = comparison_of(t).allocated;
        training_set(t, "global-batch", "1000000000");
        const comparison beyond = comparison_of(t);
        assert_int_equal(beyond.allocated, full);
        assert_int_equal(beyond.measured, full);
        training_set(t, "steps", "none");
        t->config.out[0] = '\0';
        training_must_run(t);
        assert_true(training_same(t, &whole, world));
    }
    training_destroy(t);
}

static void test_a_refusal_says_what_is_needed_what_is_there_and_what_to_change(void **state)
{
    (void)state;
    ls_config config;
    ls_config_init(&config);
    ls_config_fill(&config, 2);
    const ls_rank_memory rank = { .parts = { .weights = 1 << 20, .activations = 3u << 30 },
                                  .exchange = 2 << 10 };
    ls_model model = { .statistic_count = 0 };
    assert_int_equal(ls_memory_compare(&config, &model, &rank, "cuda:1 X", true, 4096, 4096,
                                       "free"), LS_OK);
    assert_int_equal(ls_memory_compare(&config, &model, &rank, "cuda:1 X", true, 5000u << 10,
                                       4096u << 10, "are free on it"), LS_ERR_MEMORY);
    const char *message = ls_last_error();
    static const char *const parts[] = {
        "cuda:1 X: needs 4.9 MiB, but 4.0 MiB are free on it", "weights 1.0 MiB",
        "activations 3.0 GiB", "exchange 2.0 KiB", "--accumulate 8 (now 1; the same result)",
        "a smaller --global-batch (now 32)", "or more GPUs"
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!strstr(message, parts[i])) fail_msg("no '%s' in: %s", parts[i], message);
    }
    model.statistic_count = 2; /* one batch normalisation */
    assert_int_equal(ls_memory_compare(&config, &model, &rank, "host", false, 2, 1, "x"),
                     LS_ERR_MEMORY);
    assert_non_null(strstr(ls_last_error(), "(now 1; but batches are normalised by pass then)"));
    config.batchnorm = LS_BATCHNORM_SHARD;
    assert_int_equal(ls_memory_compare(&config, &model, &rank, "host", false, 2, 1, "x"),
                     LS_ERR_MEMORY);
    assert_non_null(strstr(ls_last_error(), "(now 1; the same result)"));
    config.accumulate = config.shards;
    assert_int_equal(ls_memory_compare(&config, &model, &rank, "host", false, 2, 1, "x"),
                     LS_ERR_MEMORY);
    assert_null(strstr(ls_last_error(), "--accumulate"));
    assert_null(strstr(ls_last_error(), "GPUs"));
}

/* -- the machine's room --------------------------------------------------------------------- */

/* Write `text` to `name` in the folder, and make the folders on the way. */
static void put(training *t, const char *name, const char *text)
{
    char path[512];
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(path, sizeof path, "%.*s", (int)(slash - name), name);
        mkdir(training_path(t, path), 0700);
    }
    training_write(t, name, text);
}

static size_t room_of(training *t, const char *why)
{
    ls_host_room room;
    ls_host_room_read(t->folder, &room);
    if (!strstr(room.why, why)) fail_msg("'%s' is not in '%s'", why, room.why);
    return room.bytes;
}

static void test_room_is_the_least_that_machine_and_control_groups_leave(void **state)
{
    (void)state;
    training *t = training_create();
    assert_true(room_of(t, "") == SIZE_MAX);
    put(t, "proc/meminfo", "MemTotal: 9000 kB\nMemFree:  10 kB\nMemAvailable:    8000 kB\n");
    assert_int_equal(room_of(t, "available to the machine"), 8000 * 1024);
    put(t, "proc/self/cgroup", "0::/a/b\n");
    put(t, "sys/fs/cgroup/a/b/memory.max", "max\n");
    put(t, "sys/fs/cgroup/a/b/memory.current", "1000\n");
    assert_int_equal(room_of(t, "available to the machine"), 8000 * 1024);
    put(t, "sys/fs/cgroup/a/memory.max", "4096000\n");
    put(t, "sys/fs/cgroup/a/memory.current", "96000\n");
    assert_int_equal(room_of(t, "/a/memory.max"), 4000000);
    put(t, "sys/fs/cgroup/a/memory.stat", "anon 5\nfile 9\ninactive_file 50000\n");
    assert_int_equal(room_of(t, "/a/memory.max"), 4050000);
    put(t, "sys/fs/cgroup/memory.max", "1000\n");
    put(t, "sys/fs/cgroup/memory.current", "3000\n");
    assert_int_equal(room_of(t, "cgroup/memory.max"), 0);
    training_destroy(t);
}

static void test_room_knows_the_first_version_of_control_groups(void **state)
{
    (void)state;
    training *t = training_create();
    put(t, "proc/self/cgroup", "9:name=systemd:/x\n5:memory:/docker/1\n0::/\n");
    put(t, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(t, "sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
    put(t, "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "70000\n");
    put(t, "sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "50000\n");
    put(t, "sys/fs/cgroup/memory/docker/1/memory.stat",
        "inactive_file 1\ntotal_inactive_file 10000\n");
    assert_int_equal(room_of(t, "docker/1/memory.limit_in_bytes"), 30000);
    training_destroy(t);
}

/* -- devices on paper ----------------------------------------------------------------------- */

static void test_a_device_on_paper_counts_and_has_nothing(void **state)
{
    (void)state;
    ls_device *device = NULL;
    void *memory[2] = { NULL, NULL }, *pinned[2] = { NULL, NULL };
    assert_int_equal(ls_device_open_paper(LS_DEVICE_CUDA, 3, &device), LS_OK);
    assert_string_equal(device->name, "cuda:3");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ls_device_alloc(device, (size_t)1 << 45, &memory[i]), LS_OK);
        assert_int_equal((uintptr_t)memory[i] % 128, 0);
    }
    assert_true((uintptr_t)memory[1] - (uintptr_t)memory[0] >= (size_t)1 << 45);
    assert_true(atomic_load(&device->allocated_bytes) == (size_t)1 << 46);
    assert_int_equal(ls_pinned_alloc(device, 1000, &pinned[0]), LS_OK);
    assert_int_equal(ls_pinned_alloc(device, (size_t)1 << 40, &pinned[1]), LS_OK);
    memset(pinned[0], 1, 1000);
    assert_true(ls_paper_pinned_bytes(device) == ((size_t)1 << 40) + 1000);
    ls_stream stream;
    assert_int_equal(ls_stream_init(&stream, device), LS_OK);
    assert_true(ls_paper_stream_bytes(device) > 0);
    assert_int_equal(ls_fill(&stream, memory[0], 0, (size_t)1 << 45), LS_OK);
    assert_int_equal(ls_copy_to_device(&stream, memory[0], pinned[0], 1000), LS_OK);
    assert_int_equal(ls_stream_drain(&stream, NULL, "nothing"), LS_OK);
    ls_stream_free(&stream);
    assert_int_equal(ls_paper_stream_bytes(device), 0);
    size_t room = 0;
    assert_int_equal(ls_device_room(device, &room), LS_OK);
    assert_true(room == SIZE_MAX);
    for (int i = 0; i < 2; i++) {
        ls_pinned_release(device, pinned[i]);
        ls_device_release(device, memory[i]);
    }
    ls_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_measured_on_paper_is_what_a_run_allocates),
        cmocka_unit_test(test_activations_are_those_of_the_largest_pass),
        cmocka_unit_test(test_sixteen_bits_take_less_than_two_thirds_of_the_memory_of_activations),
        cmocka_unit_test(test_a_run_that_cannot_fit_is_refused_before_it_allocates),
        cmocka_unit_test(test_a_batch_that_the_data_do_not_fill_takes_memory_for_what_it_holds),
        cmocka_unit_test(test_a_refusal_says_what_is_needed_what_is_there_and_what_to_change),
        cmocka_unit_test(test_room_is_the_least_that_machine_and_control_groups_leave),
        cmocka_unit_test(test_room_knows_the_first_version_of_control_groups),
        cmocka_unit_test(test_a_device_on_paper_counts_and_has_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
