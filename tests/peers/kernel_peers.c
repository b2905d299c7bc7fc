/* SPDX-License-Identifier: MIT */
/* kernel_peers.c -- products and convolutions of the built-in models beside OpenBLAS and oneDNN.
 *
 *     kernel_peers [--rounds R] [square | MODEL] ...         (see tests/peers/kernels)
 *
 * All contenders work in this process, on one thread, on the same buffers, in turn: a round times
 * each once, as many calls as take a millisecond, and a loop of multiply-adds in registers, so that
 * all of them see the same moods of the machine. What counts is the median over the rounds.
 *
 *   ours       the library's kernels, on plain row-major and NHWC buffers; weights are packed in
 *              every call; a weight gradient is that of 8 shards
 *   OpenBLAS   cblas_sgemm; products only
 *   oneDNN     twice: plain formats, and those that it likes best, reordered outside of the timing
 *              (onednn.h); the faster one counts: p or a in the table
 *
 * Ratios are speeds, ours over the peer's. A convolution of resnet50 has 4 samples, any other 64;
 * a shape that a model has several times is one row with its count. Before it is timed a
 * contender's result is compared with ours.
 */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/host/host.h"
#include "onednn.h"
#include "train/model.h"

enum { ROWS_MAX = 256, ROUNDS_MAX = 101, SHARDS = 8, CALLS_MAX = 20000 };

static const double ROUND_SECONDS = 1e-3;

typedef enum { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, PASSES } pass_kind;
static const char *const pass_name[] = {"forward", "dx", "dw"};

typedef enum { OURS, OPENBLAS, ONEDNN_P, ONEDNN_A, PEAK, CONTENDERS } contender;

/* One case. A dense layer's weight gradient is both: a product for the peers, for us the op that
 * training calls. */
typedef struct {
    char name[64];       /* "resnet20 conv2" */
    const char *model;   /* NULL: a square */
    bool is_convolution;
    pass_kind pass;
    int count;           /* how often the model has it */
    ls_gemm_args gemm;
    ls_conv_shape conv;
    double seconds[CONTENDERS]; /* of a call, medians; 0: none */
    double spread;       /* of ours: (most - least) / median */
} row;

typedef struct {
    row row[ROWS_MAX];
    int count, rounds;
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

static bool is_same_case(const row *a, const row *b)
{
    return a->model == b->model && a->pass == b->pass && a->is_convolution == b->is_convolution
           && memcmp(&a->gemm, &b->gemm, sizeof a->gemm) == 0
           && memcmp(&a->conv, &b->conv, sizeof a->conv) == 0;
}

static void add_row(bench *b, const row *r)
{
    for (int i = 0; i < b->count; i++) {
        if (!is_same_case(&b->row[i], r)) continue;
        b->row[i].count++;
        return;
    }
    if (b->count == ROWS_MAX) die("too many rows");
    b->row[b->count++] = *r;
}

/* All-zero, padding too, so that cases can be compared as bytes. */
static row new_row(const char *model, const char *layer, pass_kind pass)
{
    row r;
    memset(&r, 0, sizeof r);
    snprintf(r.name, sizeof r.name, "%.20s %.20s %s", model, layer, pass_name[pass]);
    r.model = model;
    r.pass = pass;
    r.count = 1;
    return r;
}

static void set_product(ls_gemm_args *g, size_t M, size_t N, size_t K, bool transpose_a,
                        bool transpose_b)
{
    g->M = M;
    g->N = N;
    g->K = K;
    g->transpose_a = transpose_a;
    g->transpose_b = transpose_b;
}

static void add_dense(bench *b, const char *model, const ls_layer *layer, size_t samples,
                      bool is_first)
{
    const size_t in = ls_shape_floats(layer->in), out = ls_shape_floats(layer->out);
    row forward = new_row(model, layer->name, FORWARD);
    set_product(&forward.gemm, samples, out, in, false, true);
    add_row(b, &forward);
    row dx = new_row(model, layer->name, INPUT_GRADIENT);
    set_product(&dx.gemm, samples, in, out, false, false);
    if (!is_first) add_row(b, &dx);
    row dw = new_row(model, layer->name, WEIGHT_GRADIENT);
    set_product(&dw.gemm, out, in, samples, true, false);
    dw.conv = (ls_conv_shape){
        .samples = samples, .height = 1, .width = 1, .channels = in, .filters = out,
        .kernel_height = 1, .kernel_width = 1, .stride_height = 1, .stride_width = 1,
        .out_height = 1, .out_width = 1};
    add_row(b, &dw);
}

static void add_model(bench *b, const char *name)
{
    ls_model model = {0};
    must(ls_model_init(&model, name, ls_model_builtin(name), NULL), name);
    const size_t samples = strcmp(name, "resnet50") == 0 ? 4 : 64;
    bool is_first = true; /* of the layers with weights: what feeds it needs no gradient */
    for (int l = 0; l < model.layer_count; l++) {
        const ls_layer *layer = &model.layer[l];
        if (layer->op == LS_OP_DENSE) add_dense(b, name, layer, samples, is_first);
        for (pass_kind p = FORWARD; layer->op == LS_OP_CONV && p < PASSES; p++) {
            if (p == INPUT_GRADIENT && is_first) continue;
            row r = new_row(name, layer->name, p);
            r.is_convolution = true;
            r.conv = layer->conv;
            r.conv.samples = samples;
            add_row(b, &r);
        }
        is_first = is_first && layer->kernel < 0;
    }
    ls_model_free(&model);
}

static void add_squares(bench *b)
{
    for (size_t n = 256; n <= 2048; n *= 2) {
        row r = new_row("square", "", FORWARD);
        r.model = NULL;
        set_product(&r.gemm, n, n, n, false, false);
        snprintf(r.name, sizeof r.name, "square");
        add_row(b, &r);
    }
}

/* -- the contenders ---------------------------------------------------------------------------- */

/* Inputs, our output and a peer's, as long as the row needs them. */
typedef struct {
    bench *b;
    const row *r;
    size_t count[3];
    float *a, *b_, *ours, *peer;
    onednn *onednn[2]; /* plain, any */
    size_t peak_rounds;
} arena;

static void count_floats(const row *r, size_t count[3])
{
    const ls_gemm_args *g = &r->gemm;
    const ls_conv_shape *s = &r->conv;
    if (!r->is_convolution) {
        count[0] = g->M * g->K;
        count[1] = g->K * g->N;
        count[2] = g->M * g->N;
        return;
    }
    const size_t x = s->samples * s->height * s->width * s->channels;
    const size_t y = s->samples * s->out_height * s->out_width * s->filters;
    const size_t w = s->filters * s->kernel_height * s->kernel_width * s->channels;
    const size_t by_pass[PASSES][3] = {{x, w, y}, {y, w, x}, {x, y, w}};
    memcpy(count, by_pass[r->pass], sizeof by_pass[r->pass]);
}

static double flops(const row *r)
{
    const ls_gemm_args *g = &r->gemm;
    const ls_conv_shape *s = &r->conv;
    if (!r->is_convolution) return 2 * (double)g->M * (double)g->N * (double)g->K;
    return 2 * (double)(s->samples * s->out_height * s->out_width) * (double)s->filters
           * (double)(s->kernel_height * s->kernel_width * s->channels);
}

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

static ls_gemm_args product_of(const arena *a, float *C)
{
    ls_gemm_args g = a->r->gemm;
    g.A = a->a;
    g.B = a->b_;
    g.C = C;
    return g;
}

/* The inputs of a dense layer's weight gradient are dy and x for a product, x and dy for us. */
static void run_ours(const arena *a)
{
    ls_stream *stream = &a->b->stream;
    const ls_conv_shape shape = a->r->conv;
    const ls_gemm_args gemm = product_of(a, a->ours);
    if (!a->r->is_convolution && a->r->pass != WEIGHT_GRADIENT) {
        must(ls_gemm(stream, &gemm), "gemm");
        return;
    }
    switch (a->r->pass) {
    case FORWARD:
        must(ls_conv_forward(stream, &(ls_conv_forward_args){
            .shape = shape, .x = a->a, .w = a->b_, .y = a->ours}), "forward");
        break;
    case INPUT_GRADIENT:
        must(ls_conv_input_gradient(stream, &(ls_conv_input_gradient_args){
            .shape = shape, .dy = a->a, .w = a->b_, .dx = a->ours}), "dx");
        break;
    case WEIGHT_GRADIENT:
        must(ls_conv_weight_gradient(stream, &(ls_conv_weight_gradient_args){
            .shape = shape, .fold = &a->b->plan.pass[0],
            .x = a->r->is_convolution ? a->a : a->b_, .dy = a->r->is_convolution ? a->b_ : a->a,
            .dw = a->ours, .piece_stride = a->count[2]}), "dw");
        break;
    case PASSES: break;
    }
}

static void run_openblas(const arena *a)
{
    const ls_gemm_args g = product_of(a, a->peer);
    cblas_sgemm(CblasRowMajor, g.transpose_a ? CblasTrans : CblasNoTrans,
                g.transpose_b ? CblasTrans : CblasNoTrans, (int)g.M, (int)g.N, (int)g.K, 1.0f, g.A,
                (int)(g.transpose_a ? g.M : g.K), g.B, (int)(g.transpose_b ? g.K : g.N), 0.0f, g.C,
                (int)g.N);
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
    case OPENBLAS: return !a->r->is_convolution;
    case ONEDNN_P: return a->onednn[0] != NULL;
    case ONEDNN_A: return a->onednn[1] != NULL;
    default: return true;
    }
}

static void run(const arena *a, contender who)
{
    switch (who) {
    case OURS: run_ours(a); break;
    case OPENBLAS: run_openblas(a); break;
    case ONEDNN_P: onednn_run(a->onednn[0]); break;
    case ONEDNN_A: onednn_run(a->onednn[1]); break;
    case PEAK: (void)run_peak(a); break;
    case CONTENDERS: break;
    }
}

/* -- measuring --------------------------------------------------------------------------------- */

static void open_arena(bench *b, const row *r, arena *a)
{
    *a = (arena){.b = b, .r = r, .peak_rounds = 10000};
    count_floats(r, a->count);
    a->a = new_floats(b, a->count[0]);
    a->b_ = new_floats(b, a->count[1]);
    a->ours = new_floats(b, a->count[2]);
    a->peer = new_floats(b, a->count[2]);
    ls_fold_plan_init(&b->plan, SHARDS, 1, 0, 1, r->conv.samples);
    const ls_gemm_args gemm = product_of(a, a->peer);
    for (int f = 0; f < 2; f++) {
        a->onednn[f] = r->is_convolution
            ? onednn_open_convolution(&r->conv, (onednn_pass)r->pass, (onednn_formats)f, a->a,
                                      a->b_, a->peer)
            : onednn_open_product(&gemm, (onednn_formats)f);
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
        fprintf(stderr, "kernel_peers: %s: contender %d is off by %g of %g at %zu\n", a->r->name,
                (int)who, (double)difference, (double)most, i);
        exit(1);
    }
}

static double time_calls(const arena *a, contender who, int calls)
{
    const double begin = ls_clock();
    for (int i = 0; i < calls; i++) run(a, who);
    return (ls_clock() - begin) / calls;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(bench *b, row *r)
{
    static double seconds[CONTENDERS][ROUNDS_MAX];
    arena a;
    open_arena(b, r, &a);
    int calls[CONTENDERS] = {0};
    for (contender who = OURS; who < CONTENDERS; who++) {
        if (!is_there(&a, who)) continue;
        run(&a, who);
        check_result(&a, who);
        const double wanted = ROUND_SECONDS / time_calls(&a, who, 1);
        calls[who] = wanted < CALLS_MAX ? 1 + (int)wanted : CALLS_MAX;
    }
    for (int k = 0; k < b->rounds; k++) {
        for (contender who = OURS; who < CONTENDERS; who++) {
            if (calls[who] > 0) seconds[who][k] = time_calls(&a, who, calls[who]);
        }
    }
    for (contender who = OURS; who < CONTENDERS; who++) {
        if (calls[who] == 0) continue;
        qsort(seconds[who], (size_t)b->rounds, sizeof seconds[who][0], compare);
        r->seconds[who] = seconds[who][b->rounds / 2];
    }
    r->spread = (seconds[OURS][b->rounds - 1] - seconds[OURS][0]) / r->seconds[OURS];
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

static const char *shape_text(const row *r, char out[64])
{
    const ls_gemm_args *g = &r->gemm;
    const ls_conv_shape *s = &r->conv;
    if (!r->is_convolution) {
        snprintf(out, 64, "%zux%zux%zu %c%c", g->M, g->N, g->K, g->transpose_a ? 't' : 'n',
                 g->transpose_b ? 't' : 'n');
    } else {
        snprintf(out, 64, "%zux%zux%zu>%zu %zux%zu/%zu%s", s->height, s->width, s->channels,
                 s->filters, s->kernel_height, s->kernel_width, s->stride_height,
                 s->pad_top + s->pad_left > 0 ? "p" : "");
    }
    return out;
}

static void print_speed(double work, double seconds, double ours, char mark)
{
    if (seconds > 0) printf(" %8.1f%c %5.2f", work / seconds * 1e-9, mark, seconds / ours);
    else printf(" %9s %5s", "-", "-");
}

static void print_row(const row *r)
{
    char shape[64];
    const double work = flops(r), ours = r->seconds[OURS], speed = work / ours;
    printf("%-26s %-23s %2d %9.1f %7.1f %3.0f%% %3.0f%%", r->name, shape_text(r, shape), r->count,
           ours * 1e6, speed * 1e-9, 100 * speed * r->seconds[PEAK] / 2, 100 * r->spread);
    print_speed(work, r->seconds[OPENBLAS], ours, ' ');
    const double peer_seconds = onednn_seconds(r);
    print_speed(work, peer_seconds, ours, peer_seconds == r->seconds[ONEDNN_P] ? 'p' : 'a');
    printf("\n");
    fflush(stdout);
}

/* One pass of the convolutions of one model, or of all (NULL). */
static void print_sum(const bench *b, const char *model, pass_kind pass)
{
    double ours = 0, peer = 0, worst = HUGE_VAL;
    const row *worst_row = NULL;
    for (int i = 0; i < b->count; i++) {
        const row *r = &b->row[i];
        const double peer_seconds = onednn_seconds(r);
        if (!r->is_convolution || r->pass != pass || peer_seconds == 0) continue;
        if (model != NULL && r->model != model) continue;
        ours += r->count * r->seconds[OURS];
        peer += r->count * peer_seconds;
        if (peer_seconds / r->seconds[OURS] >= worst) continue;
        worst = peer_seconds / r->seconds[OURS];
        worst_row = r;
    }
    if (worst_row == NULL) return;
    printf("# %-12s %-8s ours %8.2f ms, oneDNN %8.2f ms, ratio %.3f; worst row %.2f, %s\n",
           model == NULL ? "all" : model, pass_name[pass], ours * 1e3, peer * 1e3, peer / ours,
           worst, worst_row->name);
}

/* -- the command ------------------------------------------------------------------------------- */

static const char *const models[] = {"cifar10-cnn", "mnist-mlp", "resnet20", "resnet50"};
enum { MODELS = sizeof models / sizeof models[0] };

static void add_group(bench *b, const char *name)
{
    if (strcmp(name, "square") == 0) {
        add_squares(b);
        return;
    }
    for (int m = 0; m < MODELS; m++) {
        if (strcmp(name, models[m]) != 0) continue;
        add_model(b, models[m]);
        return;
    }
    fprintf(stderr, "kernel_peers: %s: want square, cifar10-cnn, mnist-mlp, resnet20, resnet50\n",
            name);
    exit(2);
}

static void read_command(bench *b, int count, char **word)
{
    bool is_all = true;
    b->rounds = 7;
    for (int i = 1; i < count; i++) {
        if (strcmp(word[i], "--rounds") == 0 && i + 1 < count) {
            b->rounds = atoi(word[++i]);
            if (b->rounds < 1 || b->rounds > ROUNDS_MAX) die("--rounds: 1 to 101");
            continue;
        }
        is_all = false;
        add_group(b, word[i]);
    }
    if (!is_all) return;
    add_squares(b);
    for (int m = 0; m < MODELS; m++) add_model(b, models[m]);
}

/* Both libraries read their settings when they are loaded: one thread, and OpenBLAS' own choice of
 * core unless PEER_CORE names one. Starts this program again where they are different. */
static void settle_environment(char **word)
{
    const char *threads = getenv("OMP_NUM_THREADS"), *core = getenv("PEER_CORE");
    const char *core_now = getenv("OPENBLAS_CORETYPE");
    if (threads != NULL && strcmp(threads, "1") == 0 && getenv("OPENBLAS_NUM_THREADS") != NULL
        && (core == NULL ? core_now == NULL : core_now != NULL && strcmp(core, core_now) == 0)) {
        return;
    }
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    if (core == NULL) unsetenv("OPENBLAS_CORETYPE");
    else setenv("OPENBLAS_CORETYPE", core, 1);
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
    printf("# kernels %s (%s); OpenBLAS %s core %s; oneDNN %s; one thread; medians of %d rounds\n",
           b.device->kernels->name, ls_cpu_features(), openblas_get_config(),
           openblas_get_corename(), onednn_version(), b.rounds);
    printf("%-26s %-23s %2s %9s %7s %4s %4s %9s %5s %9s %5s\n", "# case", "shape", "n", "us",
           "GF/s", "peak", "+-", "OpenBLAS", "ratio", "oneDNN", "ratio");
    for (int i = 0; i < b.count; i++) {
        measure(&b, &b.row[i]);
        print_row(&b.row[i]);
    }
    for (pass_kind p = FORWARD; p < PASSES; p++) {
        for (int m = 0; m < MODELS; m++) print_sum(&b, models[m], p);
        print_sum(&b, NULL, p);
    }
    ls_stream_free(&b.stream);
    ls_device_close(b.device);
    return 0;
}
