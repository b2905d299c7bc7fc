/* SPDX-License-Identifier: MIT */
/* kernel_peers.c -- products and convolutions of the built-in models beside OpenBLAS and oneDNN.
 *
 *     kernel_peers [--rounds R] [--least] [square | MODEL] ...         (see tests/peers/kernels)
 *
 * All contenders work in this process, on one thread, on the same buffers, in turn: a round times
 * each once, as many calls as take a millisecond, and a loop of multiply-adds in registers, so that
 * all of them see the same moods of the machine. What counts is the median over the rounds; with
 * --least, the least of them, each of some 20 us: a neighbour who takes a half of a core for
 * minutes lets go of it for so long now and then. Of thousands of rounds, and of calls that are not
 * much longer, that is what the contenders do alone.
 *
 *   ours       the library's kernels, on plain row-major and NHWC buffers; weights are packed in
 *              every call; a weight gradient is that of 8 shards, and a dense layer's also that
 *              of one (V=1): as the peers' it is a plain product then, without a tree
 *   OpenBLAS   sgemm; products only
 *   oneDNN     twice: plain formats, and those that it likes best, reordered outside of the timing
 *              (onednn.h); the faster one counts: p or a in the table
 *
 * Ratios are speeds, ours over the peer's. A batch of resnet50 has 4 samples, any other 64; cases
 * and their names are those of `lockstep bench` (cli/bench_cases.h), without relu. Before it is
 * timed a contender's result is compared with ours.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/bench_cases.h"
#include "kernels/host/host.h"
#include "onednn.h"
#include "openblas.h"

enum { GROUPS_MAX = 16, ROWS_MAX = 512, ROUNDS_MAX = 10000, SHARDS = 8, CALLS_MAX = 20000 };

#define SHORT_SECONDS 2e-5 /* of a round's sample that is to be the least */

typedef enum { OURS, OPENBLAS, ONEDNN_P, ONEDNN_A, PEAK, CONTENDERS } contender;

typedef struct {
    ls_kernel_case kernel;
    int group;
    int shards;          /* of a weight gradient */
    double seconds[CONTENDERS]; /* of a call, medians or the least; 0: none */
    double spread;       /* of ours: (most - least) / median */
} row;

typedef struct {
    row row[ROWS_MAX];
    const char *group[GROUPS_MAX]; /* as the command names them */
    int count, group_count, rounds;
    bool is_least;
    ls_device *device;
    ls_stream stream;
    ls_fold_plan plan;
} bench;

static void die(const char *message)
{
    fprintf(stderr, "kernel_peers: %s\n", message);
    exit(1);
}

static void must(ls_status status, const char *what)
{
    if (status == LS_OK) return;
    fprintf(stderr, "kernel_peers: %s: %s\n", what, ls_last_error());
    exit(1);
}

/* -- the rows ---------------------------------------------------------------------------------- */

/* A dense layer's weight gradient is both: the op that training calls for us, a product for the
 * peers. Of its arrays the first is x, the second dy. */
static bool is_dense_gradient(const ls_kernel_case *k)
{
    const ls_conv_shape *s = &k->conv;
    return k->op == LS_KERNEL_CONV_WEIGHT_GRADIENT && s->height * s->width == 1
           && s->kernel_height * s->kernel_width == 1;
}

static bool is_convolution(const ls_kernel_case *k)
{
    return k->op != LS_KERNEL_GEMM && !is_dense_gradient(k);
}

/* Peers know no relu. */
static row *add_row(bench *b, const ls_kernel_case *kernel, int shards)
{
    if (b->count == ROWS_MAX) die("too many rows");
    row *r = &b->row[b->count++];
    *r = (row){.kernel = *kernel, .group = b->group_count, .shards = shards};
    r->kernel.gemm.relu = false;
    return r;
}

static void add_rows(bench *b, const ls_bench_cases *cases)
{
    for (int i = 0; i < cases->count; i++) {
        const ls_kernel_case *k = &cases->kernel[i];
        (void)add_row(b, k, SHARDS);
        if (!is_dense_gradient(k)) continue;
        row *r = add_row(b, k, 1);
        snprintf(r->kernel.name, sizeof r->kernel.name, "%.40s V=1", k->name);
    }
}

/* A model's products, then its convolutions and weight gradients; or squares of 64 to 2048. */
static void add_group(bench *b, const char *name)
{
    static ls_bench_cases cases;
    const size_t samples = strcmp(name, "resnet50") == 0 ? 4 : 64;
    if (b->group_count == GROUPS_MAX) die("too many groups");
    for (int is_gemm = 1; is_gemm >= 0; is_gemm--) {
        cases = (ls_bench_cases){.is_gemm = is_gemm, .batch = samples};
        if (strcmp(name, "square") != 0) {
            must(ls_bench_cases_of_model(&cases, name, NULL), name);
        } else if (is_gemm) {
            must(ls_bench_cases_even(&cases, 256), name);
            must(ls_bench_cases_even(&cases, 2048), name);
        }
        add_rows(b, &cases);
    }
    b->group[b->group_count++] = name;
}

/* -- the contenders ---------------------------------------------------------------------------- */

/* Inputs, our output and a peer's, as long as the row needs them. */
typedef struct {
    bench *b;
    const row *r;
    size_t count[3];
    float *a, *b_, *ours, *peer;
    ls_gemm_args product; /* for the peers */
    onednn *onednn[2]; /* plain, any */
    size_t peak_rounds;
} arena;

static float *new_floats(bench *b, size_t count)
{
    void *out;
    must(ls_device_alloc(b->device, count * sizeof(float), &out), "memory");
    float *x = out;
    for (size_t i = 0; i < count; i++) {
        x[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-24f - 0.5f;
    }
    return x;
}

/* What the peers make; nothing of a convolution. */
static ls_gemm_args product_of(const arena *a)
{
    const ls_conv_shape *s = &a->r->kernel.conv;
    if (is_dense_gradient(&a->r->kernel)) {
        return (ls_gemm_args){.M = s->filters, .N = s->channels, .K = s->samples,
                              .transpose_a = true, .A = a->b_, .B = a->a, .C = a->peer};
    }
    ls_gemm_args g = a->r->kernel.gemm;
    g.A = a->a;
    g.B = a->b_;
    g.C = a->peer;
    return g;
}

static void run_ours(const arena *a)
{
    must(ls_kernel_call(&a->b->stream, &a->r->kernel, &a->b->plan.pass[0], a->a, a->b_, a->ours),
         a->r->kernel.name);
}

/* Of the instruction set that our kernels use. */
static double run_peak(const arena *a)
{
    float x[LS_PEAK_FLOATS];
    for (int i = 0; i < LS_PEAK_FLOATS; i++) x[i] = 1.0f;
    return ls_kernels_peak(a->b->device->kernels)(x, a->peak_rounds);
}

static bool is_there(const arena *a, contender who)
{
    switch (who) {
    case OPENBLAS: return !is_convolution(&a->r->kernel);
    case ONEDNN_P: return a->onednn[0] != NULL;
    case ONEDNN_A: return a->onednn[1] != NULL;
    default: return true;
    }
}

static void run(const arena *a, contender who)
{
    switch (who) {
    case OURS: run_ours(a); break;
    case OPENBLAS: openblas_run_product(&a->product); break;
    case ONEDNN_P: onednn_run(a->onednn[0]); break;
    case ONEDNN_A: onednn_run(a->onednn[1]); break;
    case PEAK: (void)run_peak(a); break;
    case CONTENDERS: break;
    }
}

/* -- measuring --------------------------------------------------------------------------------- */

static const onednn_pass onednn_pass_of[] = {
    [LS_KERNEL_CONV_FORWARD] = ONEDNN_FORWARD,
    [LS_KERNEL_CONV_INPUT_GRADIENT] = ONEDNN_INPUT_GRADIENT,
    [LS_KERNEL_CONV_WEIGHT_GRADIENT] = ONEDNN_WEIGHT_GRADIENT,
};

static void open_arena(bench *b, const row *r, arena *a)
{
    *a = (arena){.b = b, .r = r, .peak_rounds = 10000};
    ls_kernel_floats(&r->kernel, a->count);
    a->a = new_floats(b, a->count[0]);
    a->b_ = new_floats(b, a->count[1]);
    a->ours = new_floats(b, a->count[2]);
    a->peer = new_floats(b, a->count[2]);
    ls_fold_plan_init(&b->plan, r->shards, 1, 0, 1, r->kernel.conv.samples);
    a->product = product_of(a);
    for (int f = 0; f < 2; f++) {
        a->onednn[f] = is_convolution(&r->kernel)
            ? onednn_open_convolution(&r->kernel.conv, onednn_pass_of[r->kernel.op],
                                      (onednn_formats)f, a->a, a->b_, a->peer)
            : onednn_open_product(&a->product, (onednn_formats)f);
    }
}

static void close_arena(arena *a)
{
    for (int f = 0; f < 2; f++) onednn_close(a->onednn[f]);
    ls_device_release(a->b->device, a->peer);
    ls_device_release(a->b->device, a->ours);
    ls_device_release(a->b->device, a->b_);
    ls_device_release(a->b->device, a->a);
}

/* The peer's result against ours, of which it may differ by rounding. */
static void check_result(const arena *a, contender who)
{
    if (who == OURS || who == PEAK) return;
    if (who != OPENBLAS) onednn_fetch(a->onednn[who - ONEDNN_P]);
    float most = 0;
    for (size_t i = 0; i < a->count[2]; i++) most = fmaxf(most, fabsf(a->ours[i]));
    for (size_t i = 0; i < a->count[2]; i++) {
        const float difference = fabsf(a->ours[i] - a->peer[i]);
        if (difference <= 1e-3f * most) continue; /* false of a NaN */
        fprintf(stderr, "kernel_peers: %s: contender %d is off by %g of %g at %zu\n",
                a->r->kernel.name, (int)who, (double)difference, (double)most, i);
        exit(1);
    }
}

static double time_calls(const arena *a, contender who, int calls)
{
    const double begin = ls_clock();
    for (int i = 0; i < calls; i++) run(a, who);
    return (ls_clock() - begin) / calls;
}

static void measure(bench *b, row *r)
{
    static double seconds[CONTENDERS][ROUNDS_MAX];
    arena a;
    open_arena(b, r, &a);
    const double sample = b->is_least ? SHORT_SECONDS : LS_BENCH_SECONDS;
    int calls[CONTENDERS] = {0};
    for (contender who = OURS; who < CONTENDERS; who++) {
        if (!is_there(&a, who)) continue;
        run(&a, who);
        check_result(&a, who);
        const double wanted = sample / time_calls(&a, who, 1);
        calls[who] = wanted < CALLS_MAX ? 1 + (int)wanted : CALLS_MAX;
    }
    for (int k = 0; k < b->rounds; k++) {
        for (contender who = OURS; who < CONTENDERS; who++) {
            if (calls[who] > 0) seconds[who][k] = time_calls(&a, who, calls[who]);
        }
    }
    for (contender who = OURS; who < CONTENDERS; who++) {
        if (calls[who] == 0) continue;
        const ls_bench_spread s = ls_bench_spread_of(seconds[who], b->rounds);
        r->seconds[who] = b->is_least ? s.least : s.median;
        if (who == OURS) r->spread = (s.most - s.least) / s.median;
    }
    r->seconds[PEAK] /= run_peak(&a); /* of a multiply-add */
    close_arena(&a);
}

/* -- the table --------------------------------------------------------------------------------- */

static double onednn_seconds(const row *r)
{
    const double plain = r->seconds[ONEDNN_P], any = r->seconds[ONEDNN_A];
    if (plain == 0 || any == 0) return plain + any;
    return fmin(plain, any);
}

static void print_speed(double work, double seconds, double ours, char mark)
{
    if (seconds > 0) printf(" %8.1f%c %5.2f", work / seconds * 1e-9, mark, seconds / ours);
    else printf(" %9s %5s", "-", "-");
}

static void print_row(const row *r)
{
    char shape[LS_BENCH_SHAPE_BYTES];
    const double work = ls_kernel_flops(&r->kernel), ours = r->seconds[OURS], speed = work / ours;
    printf("%-26s %-29s %2d %9.1f %7.1f %3.0f%% %3.0f%%", r->kernel.name,
           ls_bench_shape_text(&r->kernel, shape), r->kernel.count, ours * 1e6, speed * 1e-9,
           100 * speed * r->seconds[PEAK] / 2, 100 * r->spread);
    print_speed(work, r->seconds[OPENBLAS], ours, ' ');
    const double peer_seconds = onednn_seconds(r);
    print_speed(work, peer_seconds, ours, peer_seconds == r->seconds[ONEDNN_P] ? 'p' : 'a');
    printf("\n");
    fflush(stdout);
}

/* One pass of the convolutions of one group, or of all (-1). */
static void print_sum(const bench *b, int group, ls_kernel_op op)
{
    static const char *const pass[] = {[LS_KERNEL_CONV_FORWARD] = "forward",
                                       [LS_KERNEL_CONV_INPUT_GRADIENT] = "dx",
                                       [LS_KERNEL_CONV_WEIGHT_GRADIENT] = "dw"};
    double ours = 0, peer = 0, worst = HUGE_VAL;
    const row *worst_row = NULL;
    for (int i = 0; i < b->count; i++) {
        const row *r = &b->row[i];
        const double peer_seconds = onednn_seconds(r);
        if (!is_convolution(&r->kernel) || r->kernel.op != op || peer_seconds == 0) continue;
        if (group >= 0 && r->group != group) continue;
        ours += r->kernel.count * r->seconds[OURS];
        peer += r->kernel.count * peer_seconds;
        if (peer_seconds / r->seconds[OURS] >= worst) continue;
        worst = peer_seconds / r->seconds[OURS];
        worst_row = r;
    }
    if (worst_row == NULL) return;
    printf("# %-12s %-8s ours %8.2f ms, oneDNN %8.2f ms, ratio %.3f; worst row %.2f, %s\n",
           group < 0 ? "all" : b->group[group], pass[op], ours * 1e3, peer * 1e3, peer / ours,
           worst, worst_row->kernel.name);
}

/* -- the command ------------------------------------------------------------------------------- */

static void read_command(bench *b, int count, char **word)
{
    bool is_all = true;
    b->rounds = 7;
    for (int i = 1; i < count; i++) {
        if (strcmp(word[i], "--rounds") == 0 && i + 1 < count) {
            b->rounds = atoi(word[++i]);
            if (b->rounds < 1 || b->rounds > ROUNDS_MAX) die("--rounds: 1 to 10000");
            continue;
        }
        if (strcmp(word[i], "--least") == 0) {
            b->is_least = true;
            continue;
        }
        is_all = false;
        add_group(b, word[i]);
    }
    static const char *const all[] = {"square", "cifar10-cnn", "mnist-mlp", "resnet20", "resnet50"};
    for (size_t i = 0; is_all && i < sizeof all / sizeof all[0]; i++) add_group(b, all[i]);
}

/* The core that OpenBLAS is to use where it does not know the processor, or NULL: a version that is
 * older than the processor takes the least that any x86-64 has, at a fifth of the speed. */
static const char *core_for_unknown_cpu(void)
{
    if (strcmp(openblas_core(), "Prescott") != 0) return NULL;
    const char *features = ls_cpu_features();
    if (strstr(features, "avx512vl") != NULL) return "SkylakeX";
    return strstr(features, "avx2") != NULL ? "Haswell" : NULL;
}

/* Both libraries read their settings when they are loaded: one thread, and OpenBLAS' own choice of
 * core unless PEER_CORE names one or it knows none. Starts this program again where they are
 * different. */
static void settle_environment(char **word)
{
    const char *threads = getenv("OMP_NUM_THREADS"), *core = getenv("PEER_CORE");
    const char *core_now = getenv("OPENBLAS_CORETYPE");
    if (core == NULL && core_now == NULL) core = core_for_unknown_cpu();
    if (threads != NULL && strcmp(threads, "1") == 0 && getenv("OPENBLAS_NUM_THREADS") != NULL
        && (core == NULL ? core_now == NULL : core_now != NULL && strcmp(core, core_now) == 0)) {
        return;
    }
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    if (core == NULL) {
        unsetenv("OPENBLAS_CORETYPE");
    } else {
        setenv("OPENBLAS_CORETYPE", core, 1);
        setenv("PEER_CORE", core, 1); /* it stays so */
    }
    execv("/proc/self/exe", word);
    perror("kernel_peers: /proc/self/exe");
    exit(1);
}

int main(int count, char **word)
{
    static bench b;
    settle_environment(word);
    read_command(&b, count, word);
    must(ls_device_open_host(0, 1, false, NULL, &b.device), "device");
    must(ls_kernels_bind(b.device), "kernels");
    must(ls_stream_init(&b.stream, b.device), "stream");
    if (ls_kernels_peak(b.device->kernels) == NULL) die("LOCKSTEP_ISA=reference has no peak");
    printf("# kernels %s (%s); OpenBLAS %s core %s; oneDNN %s; one thread; %s of %d rounds\n",
           b.device->kernels->name, ls_cpu_features(), openblas_version(),
           openblas_core(), onednn_version(), b.is_least ? "the least" : "medians", b.rounds);
    printf("%-26s %-29s %2s %9s %7s %4s %4s %9s %5s %9s %5s\n", "# case", "shape", "n", "us",
           "GF/s", "peak", "+-", "OpenBLAS", "ratio", "oneDNN", "ratio");
    for (int i = 0; i < b.count; i++) {
        measure(&b, &b.row[i]);
        print_row(&b.row[i]);
    }
    for (int op = LS_KERNEL_CONV_FORWARD; op <= LS_KERNEL_CONV_WEIGHT_GRADIENT; op++) {
        for (int g = 0; g < b.group_count; g++) print_sum(&b, g, (ls_kernel_op)op);
        print_sum(&b, -1, (ls_kernel_op)op);
    }
    ls_stream_free(&b.stream);
    ls_device_close(b.device);
    return 0;
}
