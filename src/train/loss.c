/* SPDX-License-Identifier: MIT */
/* loss.c -- the loss of a forward pass's output, its gradient, and its sums by shard; and the
 * regulariser, which is a matter of the weights alone. */
#include "numerics.h"
#include "train/storage.h"

/* The label that is hot keeps 1 - e of its target; e spreads over `classes`. */
static void smoothing_of(const ls_model *model, size_t classes, float *hot, float *all)
{
    *hot = (float)(1 - model->smoothing);
    *all = (float)(model->smoothing / (double)classes);
}

static ls_status softmax_loss(ls_replica *r, const ls_pass_input *input, float *dlogits,
                              float *probability)
{
    const ls_model *model = r->config->model;
    ls_softmax_loss_args args = {
        .samples = input->samples,
        .classes = ls_model_outputs(model),
        .loss_scale = r->loss_scale,
        .logits = ls_replica_output(r),
        .label = input->label,
        .weight = input->weight,
        .loss = r->loss,
        .place = r->label_place,
        .predicted = r->predicted,
        .dlogits = dlogits,
        .probability = probability,
    };
    smoothing_of(model, args.classes, &args.smooth_hot, &args.smooth_all);
    return ls_softmax_loss(&r->compute, &args);
}

static ls_status sigmoid_loss(ls_replica *r, const ls_pass_input *input, float *dlogits,
                              float *probability)
{
    const ls_model *model = r->config->model;
    ls_sigmoid_loss_args args = {
        .samples = input->samples,
        .outputs = ls_model_outputs(model),
        .loss_scale = r->loss_scale,
        .logits = ls_replica_output(r),
        .label = input->label,
        .target = input->target,
        .weight = input->weight,
        .loss = r->loss,
        .place = input->label ? r->label_place : NULL,
        .predicted = input->label ? r->predicted : NULL,
        .absolute_error = r->absolute_error,
        .squared_error = r->squared_error,
        .dlogits = dlogits,
        .probability = probability,
    };
    smoothing_of(model, 2, &args.smooth_hot, &args.smooth_all);
    return ls_sigmoid_loss(&r->compute, &args);
}

static ls_status regression_loss(ls_replica *r, const ls_pass_input *input, float *dlogits)
{
    const ls_model *model = r->config->model;
    return ls_regression_loss(&r->compute, &(ls_regression_loss_args){
        .kind = model->loss == LS_LOSS_MSE ? LS_REGRESSION_SQUARED : LS_REGRESSION_ABSOLUTE,
        .samples = input->samples,
        .outputs = ls_model_outputs(model),
        .loss_scale = r->loss_scale,
        .prediction = ls_replica_output(r),
        .target = input->target,
        .weight = input->weight,
        .loss = r->loss,
        .absolute_error = r->absolute_error,
        .squared_error = r->squared_error,
        .dprediction = dlogits,
    });
}

/* `dlogits` and `probability` may be NULL: not wanted. */
static ls_status run_loss(ls_replica *r, const ls_pass_input *input, float *dlogits,
                          float *probability)
{
    switch (r->config->model->loss) {
    case LS_LOSS_SOFTMAX_CROSSENTROPY: return softmax_loss(r, input, dlogits, probability);
    case LS_LOSS_SIGMOID_CROSSENTROPY: return sigmoid_loss(r, input, dlogits, probability);
    case LS_LOSS_MSE:
    case LS_LOSS_MAE: break;
    }
    return regression_loss(r, input, dlogits);
}

ls_status ls_replica_loss(ls_replica *replica, const ls_pass_input *input, bool gradient,
                          bool probability)
{
    ls_replica *r = replica;
    const ls_model *model = r->config->model;
    float *rows = probability ? r->probability : NULL;
    if (!gradient) return run_loss(r, input, NULL, rows);
    const ls_stored dy = r->gradient_slot[r->backward.step[model->layer_count - 1].dy];
    LS_TRY(run_loss(r, input, ls_storage_draft(r, dy), rows));
    return ls_storage_write(r, dy, input->samples * ls_model_outputs(model));
}

ls_status ls_replica_sum(ls_replica *replica, const ls_pass_input *input, const ls_fold *fold)
{
    const bool classify = replica->config->data->task == LS_TASK_CLASSIFY;
    return ls_shard_sums(&replica->compute, &(ls_shard_sums_args){
        .fold = fold,
        .top_k = replica->config->top_k,
        .loss = replica->loss,
        .weight = input->weight,
        .absolute_error = classify ? NULL : replica->absolute_error,
        .squared_error = classify ? NULL : replica->squared_error,
        .place = classify ? replica->label_place : NULL,
        .out = replica->results.shard_sum,
    });
}

ls_status ls_replica_regularizer(ls_replica *replica, ls_group *group, double *out)
{
    ls_replica *r = replica;
    const ls_model *model = r->config->model;
    bool any = false;
    *out = 0;
    for (int p = 0; p < model->parameter_count; p++)
        any = any || r->config->rule[p].l1 > 0 || r->config->rule[p].l2 > 0;
    if (!any) return LS_OK;
    LS_TRY(ls_weight_sums(&r->compute, &(ls_weight_sums_args){
        .tensors = &r->tensors,
        .w = r->weights,
        .square_sum = r->results.weight_square,
        .absolute_sum = r->results.weight_absolute }));
    LS_TRY(ls_replica_read_results(r, group, "summing the weights"));
    ls_tree_f64 sum = { .depth = 0 };
    for (int p = 0; p < model->parameter_count; p++) {
        const ls_parameter_rule *rule = &r->config->rule[p];
        ls_tree_push_f64(&sum, rule->l1 * r->results_host.weight_absolute[p]
                               + rule->l2 * r->results_host.weight_square[p]);
    }
    *out = ls_tree_root_f64(&sum);
    return LS_OK;
}
