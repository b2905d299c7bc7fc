/* SPDX-License-Identifier: MIT */
/* memory.c -- see memory.h.
 *
 * A place is the host, or one GPU with all the replicas that share it. The host holds its replicas'
 * device memory, every replica's pinned memory, and rank 0's copy of weights and slots.
 */
#include "train/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/host_room.h"
#include "device/paper.h"
#include "train/rules.h"
#include "train/run.h"
#include "unit.h"

static ls_status open_paper(void *context, int rank, int threads, atomic_ulong *progress,
                            ls_device **out)
{
    const ls_device_list *list = context;
    (void)threads, (void)progress;
    LS_TRY(ls_device_open_paper(list->device[rank].kind, list->device[rank].ordinal, out));
    (*out)->kernels = &ls_kernels_reference; /* which are not called */
    return LS_OK;
}

static void read_rank(const ls_rank *from, ls_rank_memory *out)
{
    const ls_replica_parts *p = &from->replica.parts;
    out->parts = *p;
    out->device = atomic_load(&from->device->allocated_bytes);
    out->exchange = out->device - (p->weights + p->slots + p->gradients + p->activations +
                                   p->activation_gradients + p->samples + p->other);
    out->streams = ls_paper_stream_bytes(from->device);
    out->pinned = ls_paper_pinned_bytes(from->device);
}

ls_status ls_memory_measure(const ls_config *config, const ls_model *model,
                            const ls_dataset_info *data, const ls_dataset *dataset,
                            const ls_device_list *list, ls_rank_memory *out)
{
    ls_device_list copy = *list;
    const ls_observer observer = { .open_device = open_paper, .context = &copy };
    ls_run *run = calloc(1, sizeof *run);
    if (!run) return ls_fail(LS_ERR_MEMORY, "no memory for a run on paper");
    run->config = *config;
    run->model = *model;                     /* borrowed, as the next one is */
    run->dataset = (ls_dataset *)(uintptr_t)dataset; /* read only: no pipeline is opened */
    run->list = *list;
    run->world_size = list->count;
    run->threads = 1;
    run->observer = &observer;
    ls_status status = ls_rules_create(&run->config, &run->model, &run->rule);
    if (status == LS_OK) status = ls_machine_open_memory(run, data);
    for (int r = 0; r < list->count && status == LS_OK; r++) read_rank(&run->rank[r], &out[r]);
    ls_machine_close(run);
    free(run->rule);
    free(run);
    return status;
}

const ls_rank_memory *ls_memory_fullest(const ls_rank_memory *rank, int count)
{
    const ls_rank_memory *fullest = rank;
    for (int r = 1; r < count; r++) {
        if (rank[r].device > fullest->device) fullest = &rank[r];
    }
    return fullest;
}

const char *ls_memory_part(const ls_rank_memory *rank, int part, size_t *bytes)
{
    const ls_replica_parts *p = &rank->parts;
    const struct {
        const char *name;
        size_t bytes;
    } all[LS_MEMORY_PARTS] = {
        { "weights", p->weights },
        { "gradients", p->gradients },
        { "optimizer", p->slots },
        { "activations", p->activations },
        { "gradients of activations", p->activation_gradients },
        { "samples and results", p->samples + p->other },
        { "exchange", rank->exchange },
    };
    *bytes = all[part].bytes;
    return all[part].name;
}

ls_status ls_memory_compare(const ls_config *config, const ls_model *model,
                            const ls_rank_memory *fullest, const char *place, bool is_gpu,
                            size_t needed, size_t room, const char *why)
{
    if (needed <= room) return LS_OK;
    char text[LS_MESSAGE_BYTES] = "", remedy[100] = "", need[LS_UNIT_BYTES], have[LS_UNIT_BYTES],
        unit[LS_UNIT_BYTES];
    for (int i = 0; i < LS_MEMORY_PARTS; i++) {
        size_t bytes = 0;
        const size_t used = strlen(text);
        const char *name = ls_memory_part(fullest, i, &bytes);
        snprintf(text + used, sizeof text - used, "%s%s %s", i > 0 ? ", " : "", name,
                 ls_with_unit((double)bytes, unit));
    }
    const bool normalises = model->statistic_count > 0 && config->batchnorm == LS_BATCHNORM_SYNC;
    if (config->accumulate < config->shards)
        snprintf(remedy, sizeof remedy, "--accumulate %d (now %d; %s), ", config->shards,
                 config->accumulate, normalises ? "but batches are normalised by pass then"
                                                : "the same result");
    return ls_fail(LS_ERR_MEMORY, "the run does not fit: %s: needs %s, but %s %s. The fullest "
                   "replica: %.600s. To make it smaller: %sa smaller --global-batch (now %" PRIu64
                   ")%s%s",
                   place, ls_with_unit((double)needed, need), ls_with_unit((double)room, have),
                   why, text, remedy, config->global_batch,
                   is_gpu ? ", or more GPUs" : "",
                   !is_gpu && config->cache_bytes > 0 ? ", or a smaller --cache" : "");
}

/* All replicas on rank's GPU, if it is the first of them there. */
static ls_status check_gpu(const ls_run *run, const ls_rank_memory *memory, int rank)
{
    const ls_device *device = run->rank[rank].device;
    size_t needed = 0, room = 0;
    for (int r = 0; r < run->world_size; r++) {
        if (run->rank[r].device->ordinal != device->ordinal) continue;
        if (r < rank) return LS_OK;
        needed += memory[r].device + memory[r].streams;
    }
    LS_TRY(ls_device_room(run->rank[rank].device, &room));
    return ls_memory_compare(&run->config, &run->model,
                             ls_memory_fullest(memory, run->world_size), device->name, true,
                             needed, room, "are free on it");
}

/* Bytes that --cache will come to hold. */
static size_t cache_bytes(const ls_run *run)
{
    const ls_dataset_info *data = run->replica_config.data;
    const size_t most = data->count[LS_PART_TRAIN] * ls_dataset_raw_bytes(data);
    return run->config.cache_bytes < most ? run->config.cache_bytes : most;
}

ls_status ls_memory_check(ls_run *run)
{
    ls_rank_memory memory[LS_WORLD_MAX];
    const ls_replica_config *replica = &run->replica_config;
    LS_TRY(ls_memory_measure(&run->config, &run->model, replica->data, run->dataset, &run->list,
                             memory));
    size_t needed = run->model.arena_floats * sizeof(float) *
                    (size_t)ls_state_arena_count(&run->config);
    needed += cache_bytes(run);
    for (int r = 0; r < run->world_size; r++) {
        const bool is_gpu = run->rank[r].device->kind == LS_DEVICE_CUDA;
        needed += memory[r].pinned + (is_gpu ? 0 : memory[r].device);
        if (is_gpu) LS_TRY(check_gpu(run, memory, r));
    }
    ls_host_room room;
    ls_host_room_read("", &room);
    return ls_memory_compare(&run->config, &run->model,
                             ls_memory_fullest(memory, run->world_size), "host", false, needed,
                             room.bytes, room.why);
}
