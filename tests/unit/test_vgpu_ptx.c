/* SPDX-License-Identifier: MIT */
/* test_vgpu_ptx.c -- the PTX interpreter of the virtual GPU: conformance, refusals, reports.
 *
 * Run from the root of the tree. Kernels that nvcc wrote lie in tests/vgpu/kernels as PTX beside
 * their sources, so no nvcc is needed; LS_VGPU_PTX names a folder with fresh ones.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "support/test.h"
#include "support/conformance.h"
#include "vgpu/ptx.h"
#include "vgpu/ptx_rows.h"

/* -- a machine: memory of a few devices ------------------------------------------------------- */

enum { ALLOCATIONS = 16 };

typedef struct {
    uint64_t address;
    size_t bytes;
    unsigned char *data, *shadow;
    unsigned char *trail, *trail_pages; /* borrowed, or NULL */
    int device;
    bool constant;
} allocation;

typedef struct {
    allocation at[ALLOCATIONS];
    int count;
    allocation *doomed; /* freed when another one is asked for; NULL: none */
    atomic_uint generation;
    vgpu_memory memory;
} machine;

static bool find(void *context, int device, uint64_t address, vgpu_span *span, char *why,
                 size_t why_bytes)
{
    machine *m = context;
    for (int i = 0; i < m->count; i++) {
        const allocation *a = &m->at[i];
        if (address < a->address || address >= a->address + a->bytes) continue;
        if (m->doomed && a != m->doomed) {
            m->doomed->address = 0;
            m->doomed = NULL;
            atomic_fetch_add(&m->generation, 1);
        }
        *span = (vgpu_span){.address = a->address, .bytes = a->bytes, .data = a->data,
                            .shadow = a->shadow, .device = a->device, .writable = !a->constant,
                            .trail = a->trail, .trail_pages = a->trail_pages};
        return true;
    }
    snprintf(why, why_bytes, "not allocated on device %d", device);
    return false;
}

static void machine_init(machine *m)
{
    memset(m, 0, sizeof *m);
    m->memory = (vgpu_memory){.context = m, .find = find, .generation = &m->generation};
}

static void machine_free(machine *m)
{
    for (int i = 0; i < m->count; i++) {
        free(m->at[i].data);
        free(m->at[i].shadow);
    }
    m->count = 0;
}

/* Fresh memory: NaN bytes, nothing defined. */
static allocation *allocate(machine *m, int device, size_t bytes)
{
    assert_true(m->count < ALLOCATIONS);
    allocation *a = &m->at[m->count];
    const size_t rounded = (bytes + 64) / 64 * 64;
    *a = (allocation){.bytes = bytes, .device = device};
    a->address = UINT64_C(0x700000000000) + ((uint64_t)device << 40) + ((uint64_t)m->count << 28);
    a->data = aligned_alloc(64, rounded);
    a->shadow = calloc(rounded, 1);
    assert_non_null(a->data);
    assert_non_null(a->shadow);
    memset(a->data, 0xff, rounded);
    m->count++;
    return a;
}

static allocation *allocate_filled(machine *m, int device, const void *from, size_t bytes)
{
    allocation *a = allocate(m, device, bytes);
    if (from) memcpy(a->data, from, bytes);
    else memset(a->data, 0, bytes);
    memset(a->shadow, VGPU_DEFINED, bytes);
    return a;
}

/* -- launches --------------------------------------------------------------------------------- */

static vgpu_program *load(const char *text)
{
    char error[500] = "";
    vgpu_program *program = NULL;
    if (!vgpu_program_create(text, strlen(text), &program, error, sizeof error)) {
        fail_msg("%s", error);
    }
    return program;
}

/* All checks on, 50 M instructions. */
static vgpu_launch launch_on(machine *m, int device, uint32_t blocks, uint32_t threads,
                             const void *params)
{
    return (vgpu_launch){
        .device = device, .grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .params = params,
        .memory = &m->memory, .seed = 1, .check_races = true, .check_defined = true,
        .instruction_budget = 50000000,
    };
}

/* -- conformance ------------------------------------------------------------------------------ */

/* Variables of the module: at most four, allocated behind the buffers. */
static void allocate_variables(machine *m, const vgpu_program *program, uint64_t *addresses)
{
    const vgpu_variable *variables;
    const size_t count = vgpu_program_variables(program, &variables);
    assert_true(count <= 4);
    allocation *a[4];
    for (size_t i = 0; i < count; i++) {
        a[i] = allocate_filled(m, 0, NULL, variables[i].bytes);
        a[i]->constant = variables[i].constant;
        addresses[i] = a[i]->address;
    }
    for (size_t i = 0; i < count; i++) vgpu_program_image(program, i, addresses, a[i]->data);
}

static bool run_case(void *context, const vgpu_conformance_case *test, char *error,
                     size_t error_bytes)
{
    vgpu_program *program;
    (void)context;
    if (!vgpu_program_create(test->ptx, strlen(test->ptx), &program, error, error_bytes)) {
        return false;
    }
    machine m;
    machine_init(&m);
    uint64_t variables[4], params[2];
    params[0] = allocate_filled(&m, 0, test->in, test->in_bytes)->address;
    allocation *out = allocate_filled(&m, 0, NULL, test->out_bytes);
    params[1] = out->address;
    allocate_variables(&m, program, variables);
    vgpu_launch launch = launch_on(&m, 0, 1, 1, params);
    memcpy(launch.grid, test->grid, sizeof launch.grid);
    memcpy(launch.block, test->block, sizeof launch.block);
    launch.dynamic_shared_bytes = test->dynamic_shared_bytes;
    launch.variables = variables;
    const vgpu_kernel *kernel = vgpu_program_kernel(program, "test");
    const bool done = vgpu_run(program, kernel, &launch, error, error_bytes) == VGPU_DONE;
    memcpy(test->out, out->data, test->out_bytes);
    machine_free(&m);
    vgpu_program_destroy(program);
    return done;
}

/* Owned by the caller. */
static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s: cannot be opened; run from the root of the tree", path);
    fseek(f, 0, SEEK_END);
    const long bytes = ftell(f);
    rewind(f);
    char *text = calloc((size_t)bytes + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)bytes, f), bytes);
    fclose(f);
    return text;
}

static void test_each_arithmetic_instruction_gives_what_the_isa_says(void **state)
{
    (void)state;
    char *text = read_text("tests/vgpu/conformance/arithmetic.txt");
    vgpu_conformance_result result;
    assert_true(vgpu_conformance_arithmetic(text, run_case, NULL, &result));
    if (result.failures) fail_msg("%zu instructions; first: %s", result.failures, result.first);
    assert_true(result.instructions > 400 && result.values > 5000);
    free(text);
}

static void test_every_arithmetic_row_of_the_table_has_cases(void **state)
{
    (void)state;
    char *text = read_text("tests/vgpu/conformance/arithmetic.txt");
    for (size_t i = 0; i < vgpu_row_op_count; i++) {
        if (!vgpu_conformance_has(text, vgpu_row_ops[i].pattern)) {
            fail_msg("no case for %s", vgpu_row_ops[i].pattern);
        }
    }
    free(text);
}

static void test_memory_branches_and_collectives_give_what_the_isa_says(void **state)
{
    (void)state;
    char *text = read_text("tests/vgpu/conformance/programs.txt");
    vgpu_conformance_result result;
    assert_true(vgpu_conformance_programs(text, run_case, NULL, &result));
    if (result.failures) fail_msg("%zu cases; first: %s", result.failures, result.first);
    assert_true(result.instructions > 300);
    free(text);
}

/* -- kernels that nvcc wrote ------------------------------------------------------------------ */

static char *read_kernel_text(const char *name)
{
    const char *folder = getenv("LS_VGPU_PTX");
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "tests/vgpu/kernels", name);
    return read_text(path);
}

static const vgpu_kernel *kernel_of(const vgpu_program *program, const char *name)
{
    const vgpu_kernel *kernel = vgpu_program_kernel(program, name);
    if (!kernel) fail_msg("no kernel %s", name);
    return kernel;
}

static void assert_done(vgpu_outcome outcome, const char *error)
{
    if (outcome != VGPU_DONE) fail_msg("outcome %d: %s", outcome, error);
}

/* The outcome is `expected` and the message holds every one of the words, up to a NULL. */
static void assert_reported(vgpu_outcome outcome, vgpu_outcome expected, const char *error,
                            const char *const *words)
{
    if (outcome != expected) fail_msg("outcome %d, not %d: %s", outcome, expected, error);
    for (; *words; words++) {
        if (!strstr(error, *words)) fail_msg("'%s' is not in: %s", *words, error);
    }
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef struct {
    int M, N, K;
    uint64_t A, B, C;
} gemm_params;

typedef struct {
    machine m;
    gemm_params params;
    vgpu_launch launch;
    float *A, *B, *C;
} gemm;

static float small_number(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int)(*state >> 8 & 0xffff) / 65536.0f - 0.4f;
}

static void gemm_init(gemm *g, int M, int N, int K)
{
    machine_init(&g->m);
    const size_t sizes[2] = {(size_t)(M * K), (size_t)(K * N)};
    float *values[2];
    uint64_t addresses[2];
    unsigned state = 7;
    for (int i = 0; i < 2; i++) {
        allocation *a = allocate_filled(&g->m, 0, NULL, sizes[i] * sizeof(float));
        values[i] = (float *)(void *)a->data;
        addresses[i] = a->address;
        for (size_t k = 0; k < sizes[i]; k++) values[i][k] = small_number(&state);
    }
    g->A = values[0];
    g->B = values[1];
    allocation *c = allocate(&g->m, 0, (size_t)(M * N) * sizeof(float));
    g->C = (float *)(void *)c->data;
    g->params = (gemm_params){M, N, K, addresses[0], addresses[1], c->address};
    g->launch = launch_on(&g->m, 0, (uint32_t)(N + 63) / 64, 256, &g->params);
    g->launch.grid[1] = (uint32_t)(M + 63) / 64;
}

static void assert_gemm_is_exact(const gemm *g)
{
    const gemm_params *p = &g->params;
    for (int i = 0; i < p->M; i++) {
        for (int j = 0; j < p->N; j++) {
            float chain = 0.0f;
            for (int k = 0; k < p->K; k++) {
                chain = fmaf(g->A[i * p->K + k], g->B[k * p->N + j], chain);
            }
            assert_memory_equal(&chain, &g->C[i * p->N + j], sizeof chain);
        }
    }
}

static void test_a_tiled_gemm_has_the_bits_of_fmaf_chains(void **state)
{
    static const int shapes[][3] = {{64, 64, 64}, {65, 70, 9}, {1, 3, 1}, {100, 130, 33}};
    (void)state;
    for (int target = 75; target <= 80; target += 5) {
        char *text = read_kernel_text(target == 75 ? "gemm.75.ptx" : "gemm.80.ptx");
        vgpu_program *program = load(text);
        assert_int_equal(vgpu_program_target(program), target);
        for (unsigned turn = 0; turn < 4; turn++) {
            gemm g;
            char error[500];
            gemm_init(&g, shapes[turn][0], shapes[turn][1], shapes[turn][2]);
            g.launch.seed = turn;
            g.launch.host_threads = 1 + turn % 3;
            assert_done(vgpu_run(program, kernel_of(program, "gemm"), &g.launch, error,
                                 sizeof error), error);
            assert_gemm_is_exact(&g);
            machine_free(&g.m);
        }
        vgpu_program_destroy(program);
        free(text);
    }
}

/* Runs the GEMM with the nth instruction that begins with `word` taken out. False: none left. */
static bool run_gemm_without(const char *file, const char *word, int nth, uint64_t seed,
                             vgpu_outcome *outcome, char *error, size_t error_bytes)
{
    char *text = read_kernel_text(file), *at = text;
    for (int i = 0; at && i <= nth; i++) at = strstr(i ? at + 1 : at, word);
    if (at) {
        memset(at, ' ', strcspn(at, ";") + 1);
        vgpu_program *program = load(text);
        gemm g;
        gemm_init(&g, 64, 64, 40);
        g.launch.seed = seed;
        *outcome = vgpu_run(program, kernel_of(program, "gemm"), &g.launch, error, error_bytes);
        machine_free(&g.m);
        vgpu_program_destroy(program);
    }
    free(text);
    return at;
}

static void test_a_gemm_without_one_of_its_barriers_is_reported(void **state)
{
    (void)state;
    int found = 0;
    char error[1500];
    vgpu_outcome outcome;
    for (uint64_t seed = 0; seed < 3; seed++) {
        for (int n = 0; run_gemm_without("gemm.75.ptx", "bar.sync", n, seed, &outcome, error,
                                         sizeof error); n++, found++) {
            assert_reported(outcome, VGPU_REPORT, error, WORDS("kernel gemm", "PTX line",
                                                               "gemm.cu:", "shared"));
        }
    }
    assert_true(found >= 6);
}

static void test_a_gemm_without_one_of_its_waits_is_reported(void **state)
{
    (void)state;
    int found = 0;
    char error[1500];
    vgpu_outcome outcome;
    for (; run_gemm_without("gemm.80.ptx", "cp.async.wait_group", found, 1, &outcome, error,
                            sizeof error); found++) {
        assert_reported(outcome, VGPU_REPORT, error, WORDS("cp.async", "is not waited for"));
    }
    assert_true(found >= 2);
}

/* -- meetings --------------------------------------------------------------------------------- */

typedef struct {
    char *text;
    vgpu_program *program;
    machine m;
} meeting;

static void meeting_init(meeting *s)
{
    s->text = read_kernel_text("meetings.75.ptx");
    s->program = load(s->text);
    machine_init(&s->m);
}

static void meeting_free(meeting *s)
{
    machine_free(&s->m);
    vgpu_program_destroy(s->program);
    free(s->text);
}

static vgpu_outcome meet(meeting *s, const char *kernel, const vgpu_launch *launch, char *error,
                         size_t error_bytes)
{
    return vgpu_run(s->program, kernel_of(s->program, kernel), launch, error, error_bytes);
}

static void test_a_tree_reduction_has_the_bits_of_the_tree(void **state)
{
    (void)state;
    enum { COUNT = 700 };
    float x[768] = {0}, error_free[3];
    unsigned seed = 3;
    for (int i = 0; i < COUNT; i++) x[i] = small_number(&seed);
    meeting s;
    char error[500];
    meeting_init(&s);
    struct {
        int count;
        uint64_t x, sums;
    } params = {COUNT, allocate_filled(&s.m, 0, x, COUNT * sizeof x[0])->address, 0};
    allocation *sums = allocate(&s.m, 0, 3 * sizeof(float));
    params.sums = sums->address;
    const vgpu_launch launch = launch_on(&s.m, 0, 3, 256, &params);
    assert_done(meet(&s, "tree_sum", &launch, error, sizeof error), error);
    for (int b = 0; b < 3; b++) {
        float *t = x + 256 * b;
        for (int half = 128; half > 0; half /= 2) {
            for (int i = 0; i < half; i++) t[i] += t[i + half];
        }
        error_free[b] = t[0];
    }
    assert_memory_equal(error_free, sums->data, sizeof error_free);
    meeting_free(&s);
}

static vgpu_outcome run_chain(uint32_t blocks, unsigned resident, uint64_t seed, unsigned threads,
                              uint32_t *first, char *error, size_t error_bytes)
{
    uint32_t flags[33] = {0}, values[33] = {0};
    flags[blocks] = 1;
    meeting s;
    meeting_init(&s);
    allocation *v = allocate_filled(&s.m, 0, values, sizeof values);
    const uint64_t params[2] = {allocate_filled(&s.m, 0, flags, sizeof flags)->address,
                                v->address};
    vgpu_launch launch = launch_on(&s.m, 0, blocks, 64, params);
    launch.resident_blocks = resident;
    launch.seed = seed;
    launch.host_threads = threads;
    launch.instruction_budget = 3000000;
    const vgpu_outcome outcome = meet(&s, "chain", &launch, error, error_bytes);
    memcpy(first, v->data, sizeof *first);
    meeting_free(&s);
    return outcome;
}

static void test_blocks_wait_for_each_other(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        uint32_t first;
        char error[1500];
        assert_done(run_chain(20, 20, seed, 1 + seed % 2, &first, error, sizeof error), error);
        assert_int_equal(first, 19 * 20 / 2);
    }
}

static void test_a_block_that_waits_for_one_that_cannot_start_hangs_by_name(void **state)
{
    (void)state;
    uint32_t first;
    char error[1500];
    const vgpu_outcome outcome = run_chain(20, 4, 1, 1, &first, error, sizeof error);
    assert_reported(outcome, VGPU_HANG, error,
                    WORDS("kernel chain", "16 of 20 blocks have not started", "meetings.cu:",
                          "last flag read: 0x0 at 0x7000"));
}

static void test_threads_that_left_early_do_not_hold_a_barrier(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 31, 32, 33, 100, 128};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        meeting s;
        char error[500];
        meeting_init(&s);
        allocation *out = allocate(&s.m, 0, 128 * 4);
        const struct {
            uint32_t count;
            uint64_t out;
        } params = {counts[c], out->address};
        vgpu_launch launch = launch_on(&s.m, 0, 1, 128, &params);
        launch.seed = c;
        assert_done(meet(&s, "early_return", &launch, error, sizeof error), error);
        const uint32_t *got = (const uint32_t *)(const void *)out->data;
        for (uint32_t i = 0; i < counts[c]; i++) assert_int_equal(got[i], counts[c] - 1 - i);
        meeting_free(&s);
    }
}

static void test_lanes_of_a_warp_wait_for_each_other(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        meeting s;
        char error[1500];
        meeting_init(&s);
        allocation *out = allocate(&s.m, 0, 32 * 4);
        const struct {
            uint32_t count;
            uint64_t out;
        } params = {20, out->address};
        vgpu_launch launch = launch_on(&s.m, 0, 1, 32, &params);
        launch.seed = seed;
        assert_done(meet(&s, "turn_taking", &launch, error, sizeof error), error);
        const uint32_t *got = (const uint32_t *)(const void *)out->data;
        for (uint32_t i = 0; i < 20; i++) assert_int_equal(got[i], 20 - i);
        meeting_free(&s);
    }
}

static void test_threads_have_arrays_of_their_own(void **state)
{
    (void)state;
    int index[64];
    float x[512];
    for (int i = 0; i < 64; i++) index[i] = i * 5 % 8;
    for (int i = 0; i < 512; i++) x[i] = (float)i;
    meeting s;
    char error[500];
    meeting_init(&s);
    allocation *out = allocate(&s.m, 0, 64 * sizeof(float));
    const uint64_t params[3] = {allocate_filled(&s.m, 0, index, sizeof index)->address,
                                allocate_filled(&s.m, 0, x, sizeof x)->address, out->address};
    const vgpu_launch launch = launch_on(&s.m, 0, 1, 64, params);
    assert_done(meet(&s, "local_array", &launch, error, sizeof error), error);
    const float *got = (const float *)(const void *)out->data;
    for (int i = 0; i < 64; i++) assert_true(got[i] == x[i * 8 + index[i]] * 2.0f);
    meeting_free(&s);
}

/* -- several devices -------------------------------------------------------------------------- */

enum { RING_DEVICES = 3, RING_ROUNDS = 20 };

typedef struct {
    const vgpu_program *program;
    vgpu_launch launch;
    struct {
        uint64_t mine, right;
        uint32_t rounds;
        int starts;
    } params;
    vgpu_outcome outcome;
    char error[1500];
} ring_device;

static void *run_ring_device(void *argument)
{
    ring_device *d = argument;
    d->outcome = vgpu_run(d->program, vgpu_program_kernel(d->program, "ring"), &d->launch,
                          d->error, sizeof d->error);
    return NULL;
}

/* All devices at once, each on a thread; the value of device 0 afterwards. */
static uint32_t run_ring(const vgpu_program *program, machine *m, ring_device *devices)
{
    pthread_t threads[RING_DEVICES];
    allocation *memory[RING_DEVICES];
    atomic_bool abort = false;
    for (int d = 0; d < RING_DEVICES; d++) memory[d] = allocate_filled(m, d, NULL, 8);
    for (int d = 0; d < RING_DEVICES; d++) {
        devices[d].program = program;
        devices[d].params.mine = memory[d]->address;
        devices[d].params.right = memory[(d + 1) % RING_DEVICES]->address;
        devices[d].params.rounds = RING_ROUNDS;
        devices[d].params.starts = d == 0;
        devices[d].launch = launch_on(m, d, 1, 32, &devices[d].params);
        devices[d].launch.abort = &abort;
        assert_int_equal(pthread_create(&threads[d], NULL, run_ring_device, &devices[d]), 0);
    }
    for (int d = 0; d < RING_DEVICES; d++) {
        pthread_join(threads[d], NULL);
        if (devices[d].outcome != VGPU_DONE) atomic_store(&abort, true);
    }
    uint32_t value;
    memcpy(&value, memory[0]->data + 4, sizeof value);
    return value;
}

static void test_devices_pass_a_value_around_by_flags(void **state)
{
    (void)state;
    static ring_device devices[RING_DEVICES];
    meeting s;
    meeting_init(&s);
    const uint32_t value = run_ring(s.program, &s.m, devices);
    for (int d = 0; d < RING_DEVICES; d++) assert_done(devices[d].outcome, devices[d].error);
    assert_int_equal(value, RING_DEVICES * RING_ROUNDS);
    meeting_free(&s);
}

/* One device is enough: it polls, or sets, a flag of another. */
static void test_a_flag_of_another_device_needs_system_scope(void **state)
{
    (void)state;
    static const char *const flags[] = {"st.release.sys", "ld.acquire.sys"};
    for (int i = 0; i < 2; i++) {
        meeting s;
        meeting_init(&s);
        for (char *at; (at = strstr(s.text, flags[i]));) memcpy(at + 11, "gpu", 3);
        vgpu_program *narrow = load(s.text);
        static const uint32_t set[2] = {1, 0};
        static ring_device d;
        d.program = narrow;
        d.params.mine = allocate_filled(&s.m, i == 1, set, 8)->address;
        d.params.right = allocate_filled(&s.m, 1, NULL, 8)->address;
        d.params.rounds = 1;
        d.params.starts = i == 0;
        d.launch = launch_on(&s.m, 0, 1, 32, &d.params);
        run_ring_device(&d);
        assert_reported(d.outcome, VGPU_REPORT, d.error,
                        WORDS("a flag at 0x7", "device 1", "less than .sys scope"));
        vgpu_program_destroy(narrow);
        meeting_free(&s);
    }
}

static void test_a_flag_that_another_device_uses_is_polled_at_system_scope(void **state)
{
    (void)state;
    meeting s;
    meeting_init(&s);
    for (char *at; (at = strstr(s.text, "ld.acquire.sys"));) memcpy(at + 11, "gpu", 3);
    vgpu_program *narrow = load(s.text);
    static ring_device d;
    const uint32_t set[2] = {1, 0};
    allocation *mine = allocate_filled(&s.m, 0, set, 8);
    mine->shadow[0] |= VGPU_FLAG_REMOTE; /* as a store by another device leaves it */
    d.program = narrow;
    d.params.mine = mine->address;
    d.params.right = allocate_filled(&s.m, 1, NULL, 8)->address;
    d.params.rounds = 1;
    d.params.starts = false;
    d.launch = launch_on(&s.m, 0, 1, 32, &d.params);
    run_ring_device(&d);
    assert_reported(d.outcome, VGPU_REPORT, d.error, WORDS("another device uses it too"));
    vgpu_program_destroy(narrow);
    meeting_free(&s);
}

/* -- refusals --------------------------------------------------------------------------------- */

/* A module with one kernel, "test": %d0 and %d1 are its arguments, %r0 the thread. Line 12 is the
 * first of the body. */
static const char *module_of(const char *body)
{
    static char text[4096];
    snprintf(text, sizeof text,
             ".version 7.0\n.target sm_80\n.address_size 64\n"
             ".visible .entry test(.param .u64 in, .param .u64 out)\n{\n"
             ".reg .pred %%p<4>; .reg .b16 %%h<8>;\n.reg .b32 %%r<16>; .reg .f32 %%f<8>;\n"
             ".reg .b64 %%d<16>; .reg .f64 %%e<4>;\n"
             "ld.param.u64 %%d0, [in];\nld.param.u64 %%d1, [out];\nmov.u32 %%r0, %%tid.x;\n"
             "%s\nret;\n}\n", body);
    return text;
}

static void test_what_is_not_in_the_table_is_refused_with_line_and_reason(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        {"add.f32 %f1, %f2, %f3;", "without .rn an assembler may fuse it"},
        {"mul.ftz.f32 %f1, %f2, %f3;", "subnormals"},
        {"add.rn.ftz.f32 %f1, %f2, %f3;", "subnormals"},
        {"fma.rz.f32 %f1, %f2, %f3, %f4;", "not implemented"},
        {"ex2.approx.f32 %f1, %f2;", "approximations"},
        {"div.full.f32 %f1, %f2, %f3;", "approximations"},
        {"add.rn.f16 %h1, %h2, %h3;", "16-bit floating point"},
        {"fma.rn.bf16x2 %r1, %r2, %r3, %r4;", "16-bit floating point"},
        {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2},{%r1,%r2};",
         "tensor cores"},
        {"tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%d0, {%f5,%f6}];", "textures"},
        {"call.uni foo;", "calls of functions"},
        {"atom.global.add.f32 %f1, [%d0], %f2;", "no defined order"},
        {"red.global.add.f32 [%d0], %f2;", "no defined order"},
        {"ld.global.v4.u64 {%d2,%d3,%d4,%d5}, [%d0];", "more than 16 bytes"},
        {"ld.acquire.gpu.global.f32 %f1, [%d0];", "not implemented"},
        {"cvt.sat.f32.f32 %f1, %f2;", "not implemented"},
        {"add.u32 %r1, %r2, %d3;", "has 8 bytes, the type 4"},
        {"add.u32 %r1, %r2;", "is wanted before"},
        {"add.u32 %r1, %r2, %r99;", "unknown name %r99"},
        {"add.u32 3, %r2, %r3;", "not a register"},
        {"add.rn.f32 %f1, %f2, 3;", "an integer where a float is wanted"},
        {"add.rn.f32 %f1, %f2, 0d3FF0000000000000;", "constant of another type"},
        {"mov.u32 %r1, %smid;", "unknown name %smid"},
        {"bra nowhere;", "nowhere"},
        {"@%r1 bra nowhere;", "guard is no predicate"},
        {"cp.async.cg.shared.global [%r1], [%d0], 4;", "cp.async of this size"},
        {"setp.lt.and.u32 %p1, %r1, %r2, %p2;", "not implemented"},
        {".tex .u64 t;", "directive"},
        {"here: here: mov.u32 %r1, %r2;", "stands twice"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char error[500] = "";
        vgpu_program *program;
        const char *text = module_of(refused[i][0]);
        assert_false(vgpu_program_create(text, strlen(text), &program, error, sizeof error));
        assert_null(program);
        if (!strstr(error, refused[i][1]) || !strstr(error, "PTX line 12")) {
            fail_msg("'%s' in line 12 is not in: %s", refused[i][1], error);
        }
    }
}

static void test_broken_text_is_refused_and_never_read_beyond(void **state)
{
    (void)state;
    char *text = read_kernel_text("meetings.75.ptx");
    const size_t bytes = strlen(text);
    for (size_t cut = 0; cut < bytes; cut += 1 + cut / 40) {
        char error[500] = "", *part = malloc(cut + 1); /* no NUL behind it */
        vgpu_program *program = NULL;
        assert_non_null(part);
        memcpy(part, text, cut);
        if (!vgpu_program_create(part, cut, &program, error, sizeof error)) {
            assert_true(strlen(error) > 0);
        }
        vgpu_program_destroy(program);
        free(part);
    }
    free(text);
}

/* -- reports ---------------------------------------------------------------------------------- */

/* Runs a body with two buffers: in has 252 bytes, all zero, out has 256 and is fresh. */
static vgpu_outcome run_body(const char *body, uint32_t threads, char *error, size_t error_bytes)
{
    vgpu_program *program = load(module_of(body));
    machine m;
    machine_init(&m);
    const uint64_t params[2] = {allocate_filled(&m, 0, NULL, 252)->address,
                                allocate(&m, 0, 256)->address};
    vgpu_launch launch = launch_on(&m, 0, 1, threads, params);
    launch.instruction_budget = 5000000;
    const vgpu_outcome outcome =
        vgpu_run(program, vgpu_program_kernel(program, "test"), &launch, error, error_bytes);
    machine_free(&m);
    vgpu_program_destroy(program);
    return outcome;
}

#define SHARED ".shared .align 16 .b8 s[256]; mov.u64 %d2, s; mad.wide.u32 %d3, %r0, 4, %d2;\n"

static void test_deliberate_errors_are_reported_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *what, *body;
        uint32_t threads;
        vgpu_outcome outcome;
        const char *words[3];
    } errors[] = {
        {"load behind the end", "add.u64 %d0, %d0, 253; ld.global.u8 %r1, [%d0+3];", 1,
         VGPU_ILLEGAL_ADDRESS, {"illegal global load of 1 bytes", "not allocated"}},
        {"load across the end",
         ".reg .b32 %q<4>; ld.global.v4.u32 {%q0,%q1,%q2,%q3}, [%d0+240];", 1,
         VGPU_ILLEGAL_ADDRESS, {"illegal global load of 16 bytes", "ends 12 bytes behind it"}},
        {"store to nothing", "mov.u64 %d4, 64; st.global.u32 [%d4], %r0;", 1,
         VGPU_ILLEGAL_ADDRESS, {"illegal global store of 4 bytes at 0x40"}},
        {"misaligned", "ld.global.u32 %r1, [%d0+2];", 1, VGPU_MISALIGNED_ADDRESS,
         {"misaligned load of 4 bytes"}},
        {"fresh memory", "ld.global.u32 %r1, [%d1];", 1, VGPU_REPORT, {"nobody has written"}},
        {"fresh flag", "ld.acquire.sys.global.u32 %r1, [%d1];", 1, VGPU_REPORT,
         {"nobody has set"}},
        {"shared overrun", SHARED "st.shared.u32 [%d3+256], %r0;", 1, VGPU_ILLEGAL_ADDRESS,
         {"illegal shared store", "256 static bytes"}},
        {"dynamic shared memory, of which there is none",
         "mov.u64 %d4, 1048576; st.shared.u32 [%d4], %r0;", 1, VGPU_ILLEGAL_ADDRESS,
         {"illegal shared store", "0 dynamic ones"}},
        {"fresh shared memory", SHARED "ld.shared.u32 %r1, [%d3];", 1, VGPU_REPORT,
         {"shared load of 4 bytes", "nobody has written"}},
        {"race of warps", SHARED "st.shared.u32 [%d3], %r0; ld.shared.u32 %r1, [%d2];", 64,
         VGPU_REPORT, {"race: this read of static shared memory at +0", "write by thread 0"}},
        {"race of lanes", SHARED "st.shared.u32 [%d3], %r0; ld.shared.u32 %r1, [%d2+12];", 32,
         VGPU_REPORT, {"race: this read", "write by thread 3 of the block at PTX line 13"}},
        {"write after read", SHARED "st.shared.u32 [%d3], %r0; bar.sync 0;\n"
         "ld.shared.u32 %r1, [%d2]; st.shared.u32 [%d2], %r1; st.shared.u32 [%d2], %r0;", 64,
         VGPU_REPORT, {"race: this write", "after the read by thread"}},
        {"two values in one store", SHARED "st.shared.u32 [%d2], %r0;", 32, VGPU_REPORT,
         {"race: this write", "after the write by thread 0"}},
        {"bytes of one word", SHARED "cvt.u64.u32 %d4, %r0; add.u64 %d4, %d4, %d2;\n"
         "st.shared.u8 [%d4], %r0; ld.shared.u8 %r1, [%d4];", 64, VGPU_DONE, {NULL}},
        {"a barrier of other warps", ".reg .b32 %w; shr.u32 %w, %r0, 5;\n" SHARED
         "setp.eq.u32 %p1, %w, 2; st.shared.u32 [%d2+0], 5;\n"
         "@%p1 bra other;\nbar.sync 1, 64;\nbra.uni end;\nother:\nst.shared.u32 [%d2], 6;\nend:",
         96, VGPU_REPORT, {"race: this write"}},
        {"exited lane", "setp.eq.u32 %p1, %r0, 5; @%p1 ret;\n"
         "shfl.sync.idx.b32 %r1, %r0, 0, 31, -1;", 32, VGPU_REPORT,
         {"lane 5 is in the mask 0xffffffff, but has exited", "PTX line 13"}},
        {"not in its mask", "shfl.sync.idx.b32 %r1, %r0, 0, 31, 0xffff;", 32, VGPU_REPORT,
         {"lane 16 is not in its own mask"}},
        {"reads outside of the mask", "setp.lt.u32 %p1, %r0, 16;\n"
         "@%p1 shfl.sync.idx.b32 %r1, %r0, 20, 31, 0xffff;", 32, VGPU_REPORT,
         {"reads lane 20, which is not in the mask"}},
        {"two collectives", "setp.lt.u32 %p1, %r0, 16; @%p1 bra low;\nbar.warp.sync -1;\n"
         "bra.uni end;\nlow:\nshfl.sync.idx.b32 %r1, %r0, 0, 31, -1;\nend:", 32, VGPU_REPORT,
         {"divergent collective", "bar.warp.sync"}},
        {"a lane elsewhere", "setp.lt.u32 %p1, %r0, 16; @%p1 bra low;\nbar.sync 0;\n"
         "bra.uni end;\nlow:\nbar.warp.sync -1;\nend:", 32, VGPU_HANG,
         {"no thread can go on", "warp 0 lanes 0x0000ffff wait at PTX line 16",
          "warp 0 lanes 0xffff0000 wait at PTX line 13"}},
        {"two barriers", "setp.lt.u32 %p1, %r0, 16; @%p1 bra low;\nbar.sync 0;\n"
         "bra.uni end;\nlow:\nbar.sync 0;\nend:", 64, VGPU_REPORT, {"divergent barrier"}},
        {"a barrier for too many", "setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 1, 64;", 64,
         VGPU_HANG, {"no thread can go on", "warp 0 lanes 0xffffffff wait"}},
        {"two counts", "setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 1, 64; @!%p1 bar.sync 1, 96;",
         96, VGPU_REPORT, {"barrier 1 waits for"}},
        {"endless", "again: add.u32 %r1, %r1, 0; bra.uni again;", 32, VGPU_HANG,
         {"no thread can go on", "loop at PTX line 12"}},
        {"endless in shared memory", SHARED "st.shared.u32 [%d3], 0;\nagain:\n"
         "ld.volatile.shared.u32 %r1, [%d3]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again;", 32,
         VGPU_HANG, {"no thread can go on", "last flag read: 0x0"}},
        {"endless by a flag", "again: ld.acquire.gpu.global.u32 %r1, [%d0];\n"
         "setp.eq.u32 %p1, %r1, 0; @%p1 bra again;", 32, VGPU_HANG,
         {"warp instructions are spent", "last flag read: 0x0 at 0x7000"}},
        {"copied, not waited for", SHARED "cp.async.ca.shared.global [%d3], [%d0], 4;\n"
         "cp.async.commit_group; ld.shared.u32 %r1, [%d3];", 32, VGPU_REPORT,
         {"cp.async", "is not waited for"}},
        {"the older group is waited for, not the newer",
         SHARED "cp.async.ca.shared.global [%d3], [%d0], 4; cp.async.commit_group;\n"
         "cp.async.ca.shared.global [%d3+128], [%d0], 4; cp.async.commit_group;\n"
         "cp.async.wait_group 1; ld.shared.u32 %r1, [%d3]; ld.shared.u32 %r1, [%d3+128];", 32,
         VGPU_REPORT, {"PTX line 15", "is not waited for"}},
        {"copied from an odd place", SHARED "cp.async.ca.shared.global [%d2], [%d0+4], 16;\n"
         "cp.async.wait_all;", 1, VGPU_MISALIGNED_ADDRESS, {"misaligned cp.async of 16 bytes"}},
        {"another's copy, no barrier", SHARED "cp.async.ca.shared.global [%d3], [%d0], 4;\n"
         "cp.async.wait_all; ld.shared.u32 %r1, [%d2];", 64, VGPU_REPORT, {"race: this read"}},
        {"copied from nowhere", SHARED "mov.u64 %d4, 128; cp.async.ca.shared.global [%d3], [%d4], "
         "4;\ncp.async.wait_all;", 1, VGPU_ILLEGAL_ADDRESS, {"illegal global load", "at 0x80"}},
        {"division by zero", "mov.u32 %r1, 0; div.u32 %r2, %r0, %r1;", 1, VGPU_REPORT,
         {"division by zero"}},
        {"trap", "setp.eq.u32 %p1, %r0, 7; @%p1 trap;", 32, VGPU_TRAP,
         {"thread (7,0,0)", "stops itself"}},
        {"parameters are read-only", "cvta.param.u64 %d4, in; st.u32 [%d4], %r0;", 1,
         VGPU_ILLEGAL_ADDRESS, {"parameters"}},
    };
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        char error[1500] = "";
        const vgpu_outcome outcome = run_body(errors[i].body, errors[i].threads, error,
                                              sizeof error);
        if (outcome != errors[i].outcome) {
            fail_msg("%s: outcome %d, not %d: %s", errors[i].what, outcome, errors[i].outcome,
                     error);
        }
        for (int w = 0; w < 3 && errors[i].words[w]; w++) {
            if (!strstr(error, errors[i].words[w])) {
                fail_msg("%s: '%s' is not in: %s", errors[i].what, errors[i].words[w], error);
            }
        }
    }
}

static void test_memory_freed_during_a_launch_is_not_used_any_more(void **state)
{
    (void)state;
    static const char *const last[] = {"ld.global.u32 %r1, [%d0];", "st.global.u32 [%d0], %r0;"};
    for (int i = 0; i < 2; i++) {
        char body[200], error[500];
        snprintf(body, sizeof body, "ld.global.u32 %%r1, [%%d0]; ld.global.u32 %%r1, [%%d1]; %s",
                 last[i]);
        vgpu_program *program = load(module_of(body));
        machine m;
        machine_init(&m);
        const uint64_t params[2] = {allocate_filled(&m, 0, NULL, 64)->address,
                                    allocate_filled(&m, 0, NULL, 64)->address};
        m.doomed = &m.at[0];
        const vgpu_launch launch = launch_on(&m, 0, 1, 1, params);
        const vgpu_outcome outcome = vgpu_run(program, vgpu_program_kernel(program, "test"),
                                              &launch, error, sizeof error);
        assert_reported(outcome, VGPU_ILLEGAL_ADDRESS, error, WORDS("PTX line 12", "illegal"));
        machine_free(&m);
        vgpu_program_destroy(program);
    }
}

static void test_lanes_that_parted_go_on_together(void **state)
{
    (void)state;
    char body[3000] = "setp.lt.u32 %p1, %r0, 7; @%p1 bra a; add.u32 %r1, %r0, 1; a:\n";
    for (int i = 0; i < 100; i++) strcat(body, "add.u32 %r1, %r1, 3;\n");
    vgpu_program *program = load(module_of(body));
    machine m;
    char error[500];
    uint64_t instructions = 0, params[2] = {0};
    machine_init(&m);
    vgpu_launch launch = launch_on(&m, 0, 1, 32, params);
    launch.instructions = &instructions;
    assert_done(vgpu_run(program, vgpu_program_kernel(program, "test"), &launch, error,
                         sizeof error), error);
    assert_in_range(instructions, 107, 110);
    vgpu_program_destroy(program);
}

static void test_what_is_read_incoherently_is_not_written(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "ld.global.nc.u32 %r1, [%d0]; st.global.u32 [%d0], %r1;",
        "st.global.u32 [%d0], %r0; ld.global.nc.u32 %r1, [%d0];",
        "ld.global.nc.u32 %r1, [%d0]; st.global.u32 [%d1], %r1; ld.global.u32 %r1, [%d1];",
    };
    for (int i = 0; i < 3; i++) {
        vgpu_program *program = load(module_of(bodies[i]));
        machine m;
        char error[500];
        machine_init(&m);
        const uint64_t params[2] = {allocate_filled(&m, 0, NULL, 64)->address,
                                    allocate(&m, 0, 64)->address};
        unsigned char trails[2][64] = {{0}}, pages[2][1] = {{0}};
        for (int k = 0; k < 2; k++) {
            m.at[k].trail = trails[k];
            m.at[k].trail_pages = pages[k];
        }
        const vgpu_launch launch = launch_on(&m, 0, 1, 1, params);
        const vgpu_outcome outcome = vgpu_run(program, vgpu_program_kernel(program, "test"),
                                              &launch, error, sizeof error);
        if (i < 2) assert_reported(outcome, VGPU_REPORT, error, WORDS("ld.nc"));
        else assert_done(outcome, error);
        assert_int_equal(pages[0][0], 1);
        assert_true(trails[0][3] & (i == 1 ? VGPU_TRAIL_WRITTEN : VGPU_TRAIL_READ));
        assert_int_equal(trails[0][4], 0);
        if (i == 2) assert_int_equal(trails[1][0], VGPU_TRAIL_READ | VGPU_TRAIL_WRITTEN);
        machine_free(&m);
        vgpu_program_destroy(program);
    }
}

static void test_a_launch_beyond_the_limits_is_refused(void **state)
{
    (void)state;
    meeting s;
    char error[500];
    meeting_init(&s);
    vgpu_launch launch = launch_on(&s.m, 0, 1, 257, NULL);
    assert_int_equal(meet(&s, "tree_sum", &launch, error, sizeof error), VGPU_BAD_LAUNCH);
    assert_non_null(strstr(error, "257 threads in a block of at most 256"));
    launch = launch_on(&s.m, 0, 0, 32, NULL);
    assert_int_equal(meet(&s, "tree_sum", &launch, error, sizeof error), VGPU_BAD_LAUNCH);
    meeting_free(&s);
}

static void test_a_launch_ends_when_it_is_told_to(void **state)
{
    (void)state;
    vgpu_program *program = load(module_of("again: ld.acquire.sys.global.u32 %r1, [%d0];\n"
                                           "setp.eq.u32 %p1, %r1, 0; @%p1 bra again;"));
    machine m;
    char error[500];
    atomic_bool abort = true;
    machine_init(&m);
    const uint64_t params[2] = {allocate_filled(&m, 0, NULL, 64)->address, 0};
    vgpu_launch launch = launch_on(&m, 0, 1, 32, params);
    launch.abort = &abort;
    assert_int_equal(vgpu_run(program, vgpu_program_kernel(program, "test"), &launch, error,
                              sizeof error), VGPU_ABORTED);
    machine_free(&m);
    vgpu_program_destroy(program);
}

static void test_parameters_lie_as_in_a_struct_of_c(void **state)
{
    (void)state;
    vgpu_program *program =
        load(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry test(\n"
             ".param .u32 n, .param .u64 .ptr .global .align 1 p, .param .u8 c,\n"
             ".param .align 16 .b8 s[20], .param .f32 f)\n.maxntid 8, 4, 2\n{ ret; }\n");
    const vgpu_kernel *kernel = kernel_of(program, "test");
    static const size_t offsets[] = {0, 8, 16, 32, 52}, sizes[] = {4, 8, 1, 20, 4};
    assert_int_equal(kernel->param_count, 5);
    assert_memory_equal(kernel->param_offset, offsets, sizeof offsets);
    assert_memory_equal(kernel->param_size, sizes, sizeof sizes);
    assert_int_equal(kernel->param_bytes, 56);
    assert_int_equal(kernel->max_threads, 64);
    vgpu_program_destroy(program);
}

static void test_a_kernel_tells_what_it_needs(void **state)
{
    (void)state;
    meeting s;
    meeting_init(&s);
    const vgpu_kernel *sum = kernel_of(s.program, "tree_sum");
    assert_int_equal(sum->param_count, 1);
    assert_int_equal(sum->param_bytes, 24);
    assert_int_equal(sum->param_size[0], 24);
    assert_int_equal(sum->static_shared_bytes, 1024);
    assert_int_equal(sum->max_threads, 256);
    assert_in_range(sum->register_estimate, 5, 40);
    assert_int_equal(kernel_of(s.program, "local_array")->local_bytes, 32);
    assert_null(vgpu_program_kernel(s.program, "nothing"));
    assert_ptr_equal(vgpu_program_kernel_at(s.program, 0), sum);
    assert_null(vgpu_program_kernel_at(s.program, 6));
    meeting_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_arithmetic_instruction_gives_what_the_isa_says),
        cmocka_unit_test(test_every_arithmetic_row_of_the_table_has_cases),
        cmocka_unit_test(test_memory_branches_and_collectives_give_what_the_isa_says),
        cmocka_unit_test(test_a_tiled_gemm_has_the_bits_of_fmaf_chains),
        cmocka_unit_test(test_a_gemm_without_one_of_its_barriers_is_reported),
        cmocka_unit_test(test_a_gemm_without_one_of_its_waits_is_reported),
        cmocka_unit_test(test_a_tree_reduction_has_the_bits_of_the_tree),
        cmocka_unit_test(test_blocks_wait_for_each_other),
        cmocka_unit_test(test_a_block_that_waits_for_one_that_cannot_start_hangs_by_name),
        cmocka_unit_test(test_threads_that_left_early_do_not_hold_a_barrier),
        cmocka_unit_test(test_lanes_of_a_warp_wait_for_each_other),
        cmocka_unit_test(test_threads_have_arrays_of_their_own),
        cmocka_unit_test(test_devices_pass_a_value_around_by_flags),
        cmocka_unit_test(test_a_flag_of_another_device_needs_system_scope),
        cmocka_unit_test(test_a_flag_that_another_device_uses_is_polled_at_system_scope),
        cmocka_unit_test(test_what_is_not_in_the_table_is_refused_with_line_and_reason),
        cmocka_unit_test(test_broken_text_is_refused_and_never_read_beyond),
        cmocka_unit_test(test_deliberate_errors_are_reported_by_name),
        cmocka_unit_test(test_memory_freed_during_a_launch_is_not_used_any_more),
        cmocka_unit_test(test_lanes_that_parted_go_on_together),
        cmocka_unit_test(test_what_is_read_incoherently_is_not_written),
        cmocka_unit_test(test_a_launch_beyond_the_limits_is_refused),
        cmocka_unit_test(test_a_launch_ends_when_it_is_told_to),
        cmocka_unit_test(test_parameters_lie_as_in_a_struct_of_c),
        cmocka_unit_test(test_a_kernel_tells_what_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
