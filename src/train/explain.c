/* SPDX-License-Identifier: MIT */
/* explain.c -- see explain.h. */
#include "train/explain.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numerics.h"
#include "page.h"
#include "plural.h"
#include "printable.h"

ls_status ls_explanation_create(ls_run *run)
{
    const size_t floats = run->model.arena_floats * (size_t)run->world_size;
    run->explanation = calloc(1, sizeof *run->explanation);
    if (run->explanation) run->explanation->saved = calloc(floats + 1, sizeof(float));
    if (!run->explanation || !run->explanation->saved)
        return ls_fail(LS_ERR_MEMORY, "no memory to explain a step");
    return LS_OK;
}

void ls_explanation_free(ls_explanation *explanation)
{
    if (explanation) free(explanation->saved);
    free(explanation);
}

/* -- gathering --------------------------------------------------------------------------------- */

/* The first kernel that is trained; the first parameter that is, where there is no such kernel. */
static int shown_parameter(const ls_run *run)
{
    const ls_model *model = &run->model;
    int first = model->parameter_count;
    for (int p = model->parameter_count - 1; p >= 0; p--)
        if (!run->rule[p].frozen) first = p;
    for (int p = first; p < model->parameter_count; p++)
        if (!run->rule[p].frozen && model->parameter[p].is_kernel) return p;
    return first;
}

/* Its element with the largest combined gradient; equal on every rank. */
static void choose_element(const ls_run *run, const float *reduced, int *parameter,
                           size_t *element)
{
    const ls_model *model = &run->model;
    *parameter = shown_parameter(run);
    const float *g = reduced + model->parameter[*parameter].begin;
    *element = 0;
    for (size_t i = 1; i < model->parameter[*parameter].count; i++)
        if (fabsf(g[i]) > fabsf(g[*element])) *element = i;
}

static ls_status read_float(ls_rank *k, const float *device, float *out)
{
    return ls_replica_read_word(&k->replica, device, out, k->run->group, "explaining a step");
}

/* Shard `leaf` of pass `pass` alone: its gradient lands in piece 0. */
static ls_status run_shard(ls_rank *k, int pass, int leaf)
{
    ls_replica *r = &k->replica;
    const ls_fold *whole = &r->plan.pass[pass];
    const ls_dataset_info *data = r->config->data;
    const size_t first = whole->sample[leaf], count = whole->sample[leaf + 1] - first;
    ls_pass_input input = ls_replica_pass(r, pass);
    input.samples = count;
    const size_t skipped = first * ls_shape_floats(k->run->model.layer[0].out);
    if (input.bytes) input.bytes += skipped;
    else input.x += skipped;
    input.index += first;
    if (input.label) input.label += first;
    if (input.target) input.target += first * data->outputs;
    if (input.weight) input.weight += first;
    const ls_fold fold = { .leaf_count = 1, .piece_count = 1, .slot_count = 1,
                           .shard = { whole->shard[leaf] }, .sample = { 0, count } };
    input.kind = LS_PASS_REPEATED;
    LS_TRY(ls_replica_forward(r, &input, &fold));
    LS_TRY(ls_replica_loss(r, &input, true, false));
    return ls_replica_backward(r, &input, &fold, NULL, NULL);
}

ls_status ls_explain_begin(ls_rank *rank)
{
    ls_rank *k = rank;
    ls_run *run = k->run;
    ls_replica *r = &k->replica;
    ls_explanation *e = run->explanation;
    const size_t floats = run->model.arena_floats;
    float *combined = ls_replica_sums(r);
    float *saved = e->saved + (size_t)k->rank * floats;
    int parameter;
    size_t element;
    LS_TRY(ls_replica_fetch(r, saved, combined, run->group));
    choose_element(run, saved, &parameter, &element);
    const size_t place = run->model.parameter[parameter].begin + element;
    if (k->rank == 0) {
        e->parameter = parameter;
        e->element = element;
        e->reduced = saved[place];
        memcpy(e->row, r->results_host.shard_sum,
               (size_t)run->config.shards * sizeof(ls_shard_sum));
        LS_TRY(read_float(k, r->weights + place, &e->before));
    }
    for (int pass = 0; pass < r->plan.pass_count; pass++)
        for (int leaf = 0; leaf < r->plan.pass[pass].leaf_count; leaf++) {
            LS_TRY(run_shard(k, pass, leaf));
            LS_TRY(read_float(k, r->gradients + place,
                              &e->shard_gradient[r->plan.pass[pass].shard[leaf]]));
        }
    return ls_replica_store(r, combined, saved, run->group);
}

/* -- the page ---------------------------------------------------------------------------------- */

static float fold_shards(const float *x, int count)
{
    ls_tree_f32 tree = { .depth = 0 };
    for (int s = 0; s < count; s++) ls_tree_push_f32(&tree, x[s]);
    return ls_tree_root_f32(&tree);
}

static void put_shards(FILE *out, const ls_run *run)
{
    const ls_explanation *e = run->explanation;
    const int shards = run->config.shards;
    fprintf(out, "\n  rank shard samples        loss sum   correct    gradient sum\n");
    for (int r = 0; r < run->world_size; r++) {
        const int begin = ls_rank_shard_begin(r, shards, run->world_size);
        const int end = ls_rank_shard_begin(r + 1, shards, run->world_size);
        int64_t samples = 0;
        for (int s = begin; s < end; s++) {
            samples += e->row[s].samples;
            fprintf(out, "  %4d %5d %7" PRId64 " %15.9g %9" PRId64 " %15.9g\n", r, s,
                    e->row[s].samples, ls_printable(e->row[s].loss), e->row[s].correct,
                    ls_printable((double)e->shard_gradient[s]));
        }
        if (end - begin == 1) fprintf(out, "  rank %d owns shard %d: ", r, begin);
        else fprintf(out, "  rank %d owns shards %d..%d: ", r, begin, end - 1);
        fprintf(out, "%" PRId64 " sample%s\n", samples, LS_PLURAL(samples));
    }
}

static void put_division(FILE *out, const ls_run *run, const ls_step_numbers *n)
{
    const ls_explanation *e = run->explanation;
    const ls_parameter_rule *rule = &run->rule[e->parameter];
    const float scale = n->scale, l1 = (float)rule->l1;
    const double loss_scale = (double)run->rank[0].replica.loss_scale;
    char divisor[48] = "D";
    if (loss_scale != 1) snprintf(divisor, sizeof divisor, "(D * loss scale %g)", loss_scale);
    fprintf(out, "\nCombined, by the canonical tree over the shards\n"
            "  samples %" PRId64 ", loss sum %.9g, gradient sum %.9g (folded again here: %.9g)\n",
            n->totals.samples, n->totals.loss, (double)e->reduced,
            (double)fold_shards(e->shard_gradient, run->config.shards));
    fprintf(out, "\nDivided, once\n  D = %.9g (--reduction %s), data loss = %.9g\n"
            "  gradient = %.9g * (float)(1 / %s) = %.9g\n", n->denominator,
            ls_reduction_name(run->config.reduction), n->data_loss, (double)e->reduced, divisor,
            (double)(e->reduced * scale));
    float g = e->reduced * scale;
    if (rule->l2 > 0) g = ls_fmaf((float)(2 * rule->l2), e->before, g);
    if (rule->l1 > 0) g += e->before > 0 ? l1 : e->before < 0 ? -l1 : 0;
    fprintf(out, "\nRegularised, once\n"
            "  l1 %g, l2 %g: regulariser %.9g, loss %.9g, gradient %.9g\n",
            rule->l1, rule->l2, n->regularizer, n->loss, (double)g);
}

/* `step`: what the update did to the parameter that is shown. */
static void put_update(FILE *out, const ls_run *run, const ls_step_numbers *n,
                       const ls_tensor_step *step)
{
    const ls_explanation *e = run->explanation;
    const ls_config *config = &run->config;
    char clip[96] = "no clipping";
    if (config->clip_value > 0)
        snprintf(clip, sizeof clip, "elements cut to %g", config->clip_value);
    if (config->clip_norm > 0)
        snprintf(clip, sizeof clip, "norm of this tensor at most %g", config->clip_norm);
    if (config->clip_global_norm > 0)
        snprintf(clip, sizeof clip, "norm at most %g", config->clip_global_norm);
    fprintf(out, "\nUpdated alike on every rank\n"
            "  gradient norm %.9g, clip factor %.9g (%s), learning rate %.9g\n"
            "  rate of this tensor %.9g, decoupled decay %.9g\n"
            "  weights/%s[%zu]: %.9g -> %.9g, change %.9g; update norm %.9g\n"
            "  digest of the weights and statistics on every rank: %016" PRIx64 "\n", n->grad_norm,
            (double)step->clip, clip, n->lr, (double)step->rate, (double)step->decay,
            run->model.parameter[e->parameter].name, e->element, (double)e->before,
            (double)e->after, (double)(e->after - e->before), n->update_norm, n->digest);
}

ls_status ls_explain_end(ls_rank *rank)
{
    ls_rank *k = rank;
    const ls_run *run = k->run;
    ls_explanation *e = run->explanation;
    /* Makes what each rank wrote of its shards visible to rank 0. If this step failed the next one
     * is explained too: there the others write only after they have rank 0's sums of it. */
    LS_TRY(ls_barrier_wait(run->group, k->rank, "explaining a step"));
    if (k->rank != 0) return LS_OK;
    const ls_parameter *parameter = &run->model.parameter[e->parameter];
    LS_TRY(read_float(k, k->replica.weights + parameter->begin + e->element, &e->after));
    ls_page page;
    char *text = NULL;
    LS_TRY(ls_page_begin(&page));
    fprintf(page.out,
            "Step %" PRIu64 ": %d rank%s, %d shard%s; gradients are those of weights/%s[%zu]\n",
            run->config.explain_step, run->world_size, LS_PLURAL(run->world_size),
            run->config.shards, LS_PLURAL(run->config.shards), parameter->name, e->element);
    put_shards(page.out, run);
    if (k->numbers.skipped) {
        fprintf(page.out, "\nSkipped: %s, there is no update\n",
                k->numbers.failed ? "a number of this step is not finite"
                                  : "all weights of the batch are zero");
    } else {
        put_division(page.out, run, &k->numbers);
        put_update(page.out, run, &k->numbers, &k->replica.step_host[e->parameter]);
    }
    LS_TRY(ls_page_end(&page, &text));
    if (run->observer->explain) run->observer->explain(run->observer->context, text);
    free(text);
    return LS_OK;
}
