/* SPDX-License-Identifier: MIT */
/* storage.c -- see storage.h. */
#include "train/storage.h"

static ls_format16 format_of(const ls_replica *r)
{
    return r->config->precision == LS_PRECISION_F16 ? LS_FORMAT_F16 : LS_FORMAT_BF16;
}

ls_status ls_storage_read(ls_replica *r, ls_stored from, size_t count, int which,
                          const float **out)
{
    *out = from.at;
    if (!from.is_narrow) return LS_OK;
    *out = r->scratch[which];
    return ls_widen(&r->compute, &(ls_widen_args){
        .format = format_of(r), .count = count, .x = from.at, .y = r->scratch[which] });
}

float *ls_storage_draft(const ls_replica *r, ls_stored to)
{
    return to.is_narrow ? r->scratch[LS_SCRATCH_RESULT] : to.at;
}

ls_status ls_storage_write(ls_replica *r, ls_stored to, size_t count)
{
    if (!to.is_narrow) return LS_OK;
    return ls_narrow(&r->compute, &(ls_narrow_args){
        .format = format_of(r), .count = count, .x = r->scratch[LS_SCRATCH_RESULT],
        .y = to.at });
}

ls_status ls_storage_parameter(ls_replica *r, int parameter, const float **out)
{
    *out = NULL;
    if (parameter < 0) return LS_OK;
    const ls_parameter *p = &r->config->model->parameter[parameter];
    *out = r->weights + p->begin;
    if (!r->narrow_weights || !p->is_kernel) return LS_OK;
    *out = r->kernel_scratch;
    return ls_widen(&r->compute, &(ls_widen_args){
        .format = format_of(r), .count = p->count, .x = r->narrow_weights + p->begin,
        .y = r->kernel_scratch });
}

ls_status ls_replica_weights_changed(ls_replica *replica)
{
    ls_replica *r = replica;
    if (!r->narrow_weights) return LS_OK;
    return ls_narrow(&r->compute, &(ls_narrow_args){
        .format = format_of(r), .count = r->config->model->arena_floats, .x = r->weights,
        .y = r->narrow_weights });
}
