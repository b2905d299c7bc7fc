/* SPDX-License-Identifier: MIT */
/* input.c -- how far the readers are ahead of the steps, and how often they were not.
 *
 * The pipeline counts from the run's start; what a step's line, an epoch and a run say of it are
 * differences. The time that steps lost is that of the rank that waited longest: the others wait
 * for it in the exchange. Readers work ahead, so the batches that they fill during a step are not
 * the step's own.
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
    ls_input_notes *notes = &rank->input;
    const uint64_t waited = notes->counts.waited_ns - notes->epoch_waited_ns;
    notes->epoch_waited_ns = notes->counts.waited_ns;
    return seconds > 0 ? seconds_of(waited) / seconds : 0;
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
