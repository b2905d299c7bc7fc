/* SPDX-License-Identifier: MIT */
/* input.c -- how far the readers are ahead of the steps, and how often they were not.
 *
 * The pipeline counts from the run's start; what a step's line and an epoch say of it are
 * differences. The time that an epoch's steps lost is that of the rank that waited longest in it:
 * the others wait for it in the exchange. It may be another rank in each epoch, so each rank's own
 * difference is taken. Readers work ahead, so the batches that they fill during a step are not the
 * step's own.
 */
#include "train/run.h"

static double seconds_of(uint64_t nanoseconds) { return 1e-9 * (double)nanoseconds; }

void ls_input_note_step(ls_rank *rank)
{
    ls_rank *k = rank;
    const ls_input_counts before = k->input.counts;
    k->input.counts = ls_pipeline_counts(k->run->pipeline);
    k->line.reader_seconds = seconds_of(k->input.counts.busy_ns - before.busy_ns);
    k->line.read_bytes = k->input.counts.bytes - before.bytes;
    k->input.ready += (uint64_t)k->line.queue;
    k->input.steps++;
}

double ls_input_end_epoch(ls_rank *rank, double seconds)
{
    uint64_t longest = 0;
    if (rank->rank != 0) return 0;
    for (int r = 0; r < rank->run->world_size; r++) {
        const uint64_t now = ls_pipeline_waited_ns(rank->run->pipeline, r);
        const uint64_t waited = now - rank->input.epoch_waited_ns[r];
        rank->input.epoch_waited_ns[r] = now;
        if (waited > longest) longest = waited;
    }
    return seconds > 0 ? seconds_of(longest) / seconds : 0;
}

ls_input_summary ls_input_summarize(const ls_rank *rank)
{
    const ls_input_notes *notes = &rank->input;
    return (ls_input_summary){
        .readers = rank->run->config.readers,
        .depth = LS_PIPELINE_DEPTH,
        .ready = notes->steps > 0 ? (double)notes->ready / (double)notes->steps : 0,
        .reader_seconds = seconds_of(notes->counts.busy_ns),
        .bytes = notes->counts.bytes,
        .waited = seconds_of(notes->counts.waited_ns),
    };
}
