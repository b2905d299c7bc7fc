/* SPDX-License-Identifier: MIT */
/* test_vgpu_gemm.c -- a GEMM that nvcc wrote, whole and with a barrier or a wait left out.
 *
 * On the interpreter, without a driver (ptx_machine.h).
 */
#include "support/test.h"

#include <math.h>

#include "support/naive.h"
#include "support/ptx_machine.h"

typedef struct {
    int M, N, K;
    uint64_t A, B, C;
} gemm_params;

typedef struct {
    ptx_machine m;
    gemm_params params;
    vgpu_launch launch;
    float *A, *B, *C;
} gemm;

static void gemm_init(gemm *g, int M, int N, int K)
{
    ptx_machine_init(&g->m);
    const size_t sizes[2] = {(size_t)(M * K), (size_t)(K * N)};
    float *values[2];
    uint64_t addresses[2];
    naive_random random = { 7 };
    for (int i = 0; i < 2; i++) {
        allocation *a = allocate_filled(&g->m, 0, NULL, sizes[i] * sizeof(float));
        values[i] = (float *)(void *)a->data;
        addresses[i] = a->address;
        for (size_t k = 0; k < sizes[i]; k++) values[i][k] = naive_unit(&random);
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
        vgpu_program *program = load_ptx(text);
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
            ptx_machine_free(&g.m);
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
        vgpu_program *program = load_ptx(text);
        gemm g;
        gemm_init(&g, 64, 64, 40);
        g.launch.seed = seed;
        *outcome = vgpu_run(program, kernel_of(program, "gemm"), &g.launch, error, error_bytes);
        ptx_machine_free(&g.m);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tiled_gemm_has_the_bits_of_fmaf_chains),
        cmocka_unit_test(test_a_gemm_without_one_of_its_barriers_is_reported),
        cmocka_unit_test(test_a_gemm_without_one_of_its_waits_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
