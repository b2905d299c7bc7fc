/* SPDX-License-Identifier: MIT */
/* onednn.c -- one product or convolution as a oneDNN primitive. See onednn.h.
 *
 * Written for the C interface of oneDNN 2 [Intel, "oneAPI Deep Neural Network Library", developer
 * guide, version 2.6]: an operation descriptor, from it a primitive descriptor, which knows the
 * formats that were chosen for "any", from it the primitive.
 */
#include "onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

/* A tensor of the primitive: the plain buffer, and what the primitive works on. */
typedef struct {
    int argument;         /* DNNL_ARG_SRC ... */
    dnnl_memory_desc_t plain, chosen;
    dnnl_memory_t user;   /* the plain buffer */
    dnnl_memory_t memory; /* `user`, or memory of the library's own in the chosen format */
} tensor;

struct onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t primitive;
    tensor tensor[3];     /* two inputs, the output */
};

static void check(dnnl_status_t status, const char *call)
{
    if (status == dnnl_success) return;
    fprintf(stderr, "kernel_peers: %s: status %d\n", call, (int)status);
    exit(1);
}

#define CHECK(call) check((call), #call)

static onednn *new_primitive(void)
{
    onednn *p = calloc(1, sizeof *p);
    if (p == NULL) check(dnnl_out_of_memory, "calloc");
    CHECK(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    CHECK(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
    return p;
}

static dnnl_memory_desc_t describe(int dims, const dnnl_dims_t extent, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t out;
    CHECK(dnnl_memory_desc_init_by_tag(&out, dims, extent, dnnl_f32, tag));
    return out;
}

static void reorder(onednn *p, dnnl_memory_t from, const dnnl_memory_desc_t *from_format,
                    dnnl_memory_t to, const dnnl_memory_desc_t *to_format)
{
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t primitive;
    CHECK(dnnl_reorder_primitive_desc_create(&descriptor, from_format, p->engine, to_format,
                                             p->engine, NULL));
    CHECK(dnnl_primitive_create(&primitive, descriptor));
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    CHECK(dnnl_primitive_execute(primitive, p->stream, 2, arguments));
    CHECK(dnnl_stream_wait(p->stream));
    CHECK(dnnl_primitive_destroy(primitive));
    CHECK(dnnl_primitive_desc_destroy(descriptor));
}

/* Tensor `i`: a plain buffer, and what the primitive descriptor made of its format. */
static void open_tensor(onednn *p, int i, int argument, dnnl_query_t query,
                        dnnl_memory_desc_t plain, float *buffer)
{
    tensor *t = &p->tensor[i];
    *t = (tensor){.argument = argument, .plain = plain};
    t->chosen = *dnnl_primitive_desc_query_md(p->descriptor, query, 0);
    CHECK(dnnl_memory_create(&t->user, &plain, p->engine, buffer));
    t->memory = t->user;
    if (dnnl_memory_desc_equal(&t->plain, &t->chosen)) return;
    CHECK(dnnl_memory_create(&t->memory, &t->chosen, p->engine, DNNL_MEMORY_ALLOCATE));
    if (i < 2) reorder(p, t->user, &t->plain, t->memory, &t->chosen);
}

/* -- products ---------------------------------------------------------------------------------- */

static dnnl_memory_desc_t describe_matrix(size_t rows, size_t columns, bool transposed)
{
    const dnnl_dims_t extent = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    return describe(2, extent, transposed ? dnnl_ba : dnnl_ab);
}

onednn *onednn_open_product(const ls_gemm_args *g, onednn_formats formats)
{
    onednn *p = new_primitive();
    const dnnl_memory_desc_t plain[] = {
        describe_matrix(g->M, g->K, g->transpose_a), describe_matrix(g->K, g->N, g->transpose_b),
        describe_matrix(g->M, g->N, false)};
    dnnl_memory_desc_t wanted[3];
    for (int i = 0; i < 3; i++) {
        wanted[i] = formats == ONEDNN_PLAIN ? plain[i]
                                            : describe(2, plain[i].dims, dnnl_format_tag_any);
    }
    dnnl_matmul_desc_t operation;
    CHECK(dnnl_matmul_desc_init(&operation, &wanted[0], &wanted[1], NULL, &wanted[2]));
    CHECK(dnnl_primitive_desc_create(&p->descriptor, &operation, NULL, p->engine, NULL));
    CHECK(dnnl_primitive_create(&p->primitive, p->descriptor));
    open_tensor(p, 0, DNNL_ARG_SRC, dnnl_query_src_md, plain[0], (float *)g->A);
    open_tensor(p, 1, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, plain[1], (float *)g->B);
    open_tensor(p, 2, DNNL_ARG_DST, dnnl_query_dst_md, plain[2], g->C);
    return p;
}

/* -- convolutions ------------------------------------------------------------------------------ */

/* What all passes of a convolution are described with; x, w, y in the library's order of axes:
 * samples channels height width, filters channels height width. */
typedef struct {
    dnnl_memory_desc_t x, w, y;
    dnnl_dims_t stride, before, after;
} geometry;

static geometry geometry_of(const ls_conv_shape *s, dnnl_format_tag_t activations,
                            dnnl_format_tag_t weights)
{
    const dnnl_dims_t x = {(dnnl_dim_t)s->samples, (dnnl_dim_t)s->channels, (dnnl_dim_t)s->height,
                           (dnnl_dim_t)s->width};
    const dnnl_dims_t w = {(dnnl_dim_t)s->filters, (dnnl_dim_t)s->channels,
                           (dnnl_dim_t)s->kernel_height, (dnnl_dim_t)s->kernel_width};
    const dnnl_dims_t y = {(dnnl_dim_t)s->samples, (dnnl_dim_t)s->filters,
                           (dnnl_dim_t)s->out_height, (dnnl_dim_t)s->out_width};
    return (geometry){
        .x = describe(4, x, activations),
        .w = describe(4, w, weights),
        .y = describe(4, y, activations),
        .stride = {(dnnl_dim_t)s->stride_height, (dnnl_dim_t)s->stride_width},
        .before = {(dnnl_dim_t)s->pad_top, (dnnl_dim_t)s->pad_left},
        /* What padding is needed below and to the right; negative: rows that no filter reads. */
        .after = {(dnnl_dim_t)((s->out_height - 1) * s->stride_height + s->kernel_height)
                      - (dnnl_dim_t)(s->height + s->pad_top),
                  (dnnl_dim_t)((s->out_width - 1) * s->stride_width + s->kernel_width)
                      - (dnnl_dim_t)(s->width + s->pad_left)},
    };
}

static dnnl_primitive_desc_t describe_forward(const onednn *p, const geometry *g)
{
    dnnl_convolution_desc_t operation;
    dnnl_primitive_desc_t out = NULL;
    CHECK(dnnl_convolution_forward_desc_init(&operation, dnnl_forward_training,
                                             dnnl_convolution_direct, &g->x, &g->w, NULL, &g->y,
                                             g->stride, g->before, g->after));
    (void)dnnl_primitive_desc_create(&out, &operation, NULL, p->engine, NULL);
    return out;
}

/* A gradient's descriptor takes a forward one as a hint. */
static dnnl_primitive_desc_t describe_gradient(const onednn *p, const geometry *g, onednn_pass pass)
{
    dnnl_primitive_desc_t hint = describe_forward(p, g), out = NULL;
    if (hint == NULL) return NULL;
    dnnl_convolution_desc_t operation;
    if (pass == ONEDNN_INPUT_GRADIENT) {
        CHECK(dnnl_convolution_backward_data_desc_init(&operation, dnnl_convolution_direct, &g->x,
                                                       &g->w, &g->y, g->stride, g->before,
                                                       g->after));
    } else {
        CHECK(dnnl_convolution_backward_weights_desc_init(&operation, dnnl_convolution_direct,
                                                          &g->x, &g->w, NULL, &g->y, g->stride,
                                                          g->before, g->after));
    }
    (void)dnnl_primitive_desc_create(&out, &operation, NULL, p->engine, hint);
    CHECK(dnnl_primitive_desc_destroy(hint));
    return out;
}

onednn *onednn_open_convolution(const ls_conv_shape *s, onednn_pass pass, onednn_formats formats,
                                float *a, float *b, float *c)
{
    onednn *p = new_primitive();
    const geometry plain = geometry_of(s, dnnl_nhwc, dnnl_ohwi);
    const geometry wanted =
        geometry_of(s, formats == ONEDNN_PLAIN ? dnnl_nhwc : dnnl_format_tag_any,
                    dnnl_format_tag_any);
    p->descriptor = pass == ONEDNN_FORWARD ? describe_forward(p, &wanted)
                                           : describe_gradient(p, &wanted, pass);
    if (p->descriptor == NULL) {
        onednn_close(p);
        return NULL;
    }
    CHECK(dnnl_primitive_create(&p->primitive, p->descriptor));
    switch (pass) {
    case ONEDNN_FORWARD:
        open_tensor(p, 0, DNNL_ARG_SRC, dnnl_query_src_md, plain.x, a);
        open_tensor(p, 1, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, plain.w, b);
        open_tensor(p, 2, DNNL_ARG_DST, dnnl_query_dst_md, plain.y, c);
        break;
    case ONEDNN_INPUT_GRADIENT:
        open_tensor(p, 0, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, plain.y, a);
        open_tensor(p, 1, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, plain.w, b);
        open_tensor(p, 2, DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, plain.x, c);
        break;
    case ONEDNN_WEIGHT_GRADIENT:
        open_tensor(p, 0, DNNL_ARG_SRC, dnnl_query_src_md, plain.x, a);
        open_tensor(p, 1, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, plain.y, b);
        open_tensor(p, 2, DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, plain.w, c);
        break;
    }
    return p;
}

/* -- use --------------------------------------------------------------------------------------- */

void onednn_run(onednn *p)
{
    dnnl_exec_arg_t arguments[3];
    for (int i = 0; i < 3; i++) {
        arguments[i] = (dnnl_exec_arg_t){p->tensor[i].argument, p->tensor[i].memory};
    }
    CHECK(dnnl_primitive_execute(p->primitive, p->stream, 3, arguments));
    CHECK(dnnl_stream_wait(p->stream));
}

void onednn_fetch(onednn *p)
{
    tensor *t = &p->tensor[2];
    if (t->memory != t->user) reorder(p, t->memory, &t->chosen, t->user, &t->plain);
}

void onednn_close(onednn *p)
{
    if (p == NULL) return;
    for (int i = 0; i < 3; i++) {
        tensor *t = &p->tensor[i];
        if (t->memory != t->user) CHECK(dnnl_memory_destroy(t->memory));
        if (t->user != NULL) CHECK(dnnl_memory_destroy(t->user));
    }
    if (p->primitive != NULL) CHECK(dnnl_primitive_destroy(p->primitive));
    if (p->descriptor != NULL) CHECK(dnnl_primitive_desc_destroy(p->descriptor));
    CHECK(dnnl_stream_destroy(p->stream));
    CHECK(dnnl_engine_destroy(p->engine));
    free(p);
}

const char *onednn_version(void)
{
    static char text[32];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
    return text;
}
