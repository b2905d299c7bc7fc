/* SPDX-License-Identifier: MIT */
/* link.c -- how bytes are handed from rank a to rank b, by two threads and four streams.
 *
 * Two things must be ordered for every transfer: the device work (a's copy before b's reading, b's
 * reading before a's next copy into the same slot) and the host calls that order it. An event wait
 * means "the latest record that was called before this wait was called", so a wait must be called
 * after the record it is meant for, and before that event is recorded again. That is what the two
 * counters are for. Transfer t uses slot s = t mod S (S = LS_LINK_SLOTS); its event full, taken
 * from a longer row of W, is full[t mod W], so that of the last W transfers each can be asked for
 * when nothing moves (overdue.c):
 *
 *     send(t), a's thread                             recv(t), b's thread
 *     1  host-wait until freed >= t - S + 1           1  host-wait until posted >= t + 1
 *     2  t >= S: a.out waits for free[s]              2  b.in waits for full[t]
 *     3  (caller: a.out waits for what made the       3  STAGED: copy slot -> b's memory,
 *         bytes)                                          record free[s] on b.in, freed = t + 1
 *     4  copy into slot s                             4  the consumer, on b.in
 *     5  record full[t] on a.out                      5  not STAGED: record free[s] on b.in,
 *     6  posted = t + 1                                   freed = t + 1
 *
 * Edges, each with what makes it hold:
 *   bytes in slot s    a's copies precede record full[t] on a.out; b.in waits for full[t] after it
 *                      saw posted >= t + 1, which a stored (release) after the record was called.
 *   slot s reused      b's reads of transfer t - S precede record free[s] on b.in; a.out waits for
 *                      free[s] after it saw freed >= t - S + 1.
 *   full[t] recorded   again at t + W: b has called its wait for transfer t, because it stored
 *                      freed = t + 1 after that, and W >= S. free[s] again at t: a has called its
 *                      wait for it before transfer t was posted.
 *   host state         the rank threads' plain writes before a release store are seen after the
 *                      acquire load that reads it.
 *
 * No deadlock: a host wait of transfer t needs only posted(t) and freed(t - S) of ranks that are at
 * transfer t or later; the rank that is furthest behind therefore never waits for a rank that waits
 * for it, for any S >= 1. Callers keep to this by sending a transfer before they wait for the one
 * with the same number. Device work waits only for records already called, so what is enqueued is
 * acyclic and runs to its end without the host.
 *
 * Kinds differ in where a slot lies and how it is filled and emptied, nothing else:
 *   LOCAL, PEER   slot in b's device memory; a writes it (push); b reads it in place
 *   STAGED        slot in pinned host memory; a copies down, b copies up into `landing`
 *
 * Every wait polls through ls_wait: it ends when the group stops, and when nothing has moved for
 * the group's timeout it names the link and what the transfer was part of.
 */
#include "collectives/link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/topology.h"

const char *ls_transfer_text(const ls_transfer *transfer, char text[LS_TRANSFER_TEXT_BYTES])
{
    if (transfer->bucket >= 0) {
        snprintf(text, LS_TRANSFER_TEXT_BYTES, "%s %d, ring step %d", transfer->what,
                 transfer->bucket, transfer->step);
    } else {
        snprintf(text, LS_TRANSFER_TEXT_BYTES, "%s, ring step %d", transfer->what,
                 transfer->step);
    }
    return text;
}

bool ls_link_is_direct(const ls_link *link)
{
    return link->kind != LS_PAIR_STAGED;
}

bool ls_link_is_shared(const ls_link *link)
{
    return ls_link_is_direct(link) && link->from_device->kind == LS_DEVICE_HOST
           && link->to_device->kind == LS_DEVICE_HOST;
}

static ls_status open_rows(ls_link *link)
{
    link->full = calloc(link->watched, sizeof *link->full);
    link->given = calloc(link->watched, sizeof *link->given);
    link->taken = calloc(link->watched, sizeof *link->taken);
    if (link->full == NULL || link->given == NULL || link->taken == NULL) {
        return ls_fail(LS_ERR_MEMORY, "no memory to watch %zu transfers", link->watched);
    }
    for (size_t i = 0; i < link->watched; i++) {
        LS_TRY(ls_event_init(&link->full[i], link->from_device));
    }
    return LS_OK;
}

static ls_status open_memory(ls_link *link)
{
    const bool staged = link->kind == LS_PAIR_STAGED;
    for (int s = 0; s < LS_LINK_SLOTS; s++) {
        LS_TRY(staged ? ls_pinned_alloc(link->to_device, link->slot_bytes, &link->slot[s])
                      : ls_device_alloc(link->to_device, link->slot_bytes, &link->slot[s]));
        LS_TRY(ls_event_init(&link->free[s], link->to_device));
    }
    LS_TRY(open_rows(link));
    if (staged) LS_TRY(ls_device_alloc(link->to_device, link->slot_bytes, &link->landing));
    return LS_OK;
}

ls_status ls_link_open(ls_link *link, int from, ls_device *from_device, int to,
                       ls_device *to_device, ls_pair_kind kind, size_t slot_bytes, size_t watched)
{
    assert(watched >= LS_LINK_SLOTS);
    memset(link, 0, sizeof *link);
    link->from = from;
    link->to = to;
    link->kind = kind;
    link->from_device = from_device;
    link->to_device = to_device;
    link->slot_bytes = slot_bytes;
    link->watched = watched;
    atomic_init(&link->posted, 0);
    atomic_init(&link->freed, 0);
    ls_status status = open_memory(link);
    if (status == LS_OK && ls_link_is_direct(link))
        status = ls_device_reach(from_device, to_device);
    if (status != LS_OK) ls_link_close(link);
    return status;
}

void ls_link_close(ls_link *link)
{
    for (size_t i = 0; link->full != NULL && i < link->watched; i++) ls_event_free(&link->full[i]);
    free(link->taken);
    free(link->given);
    free(link->full);
    for (int s = LS_LINK_SLOTS - 1; s >= 0; s--) {
        ls_event_free(&link->free[s]);
        if (link->slot[s] == NULL) continue;
        if (link->kind == LS_PAIR_STAGED) ls_pinned_release(link->to_device, link->slot[s]);
        else ls_device_release(link->to_device, link->slot[s]);
    }
    if (link->landing != NULL) ls_device_release(link->to_device, link->landing);
    memset(link, 0, sizeof *link);
}

/* Host-wait until *count >= want. `missing` says what the other side has not done. */
static ls_status wait_count(const ls_link *link, ls_channel *channel, atomic_size_t *count,
                            size_t want, const ls_transfer *transfer, const char *missing)
{
    if (atomic_load_explicit(count, memory_order_acquire) >= want) return LS_OK;
    const double begin = ls_clock();
    ls_wait wait = ls_wait_begin(channel->group);
    ls_status status = LS_OK;
    while (status == LS_OK && atomic_load_explicit(count, memory_order_acquire) < want) {
        ls_device_look(channel->in.device);
        status = ls_wait_poll(&wait);
    }
    channel->waited += ls_clock() - begin;
    if (status != LS_ERR_TIMEOUT) return status;
    channel->awaited = transfer->order;
    char text[LS_TRANSFER_TEXT_BYTES];
    return ls_fail(LS_ERR_TIMEOUT, "%s: link %d -> %d (%s): %s within the timeout",
                   ls_transfer_text(transfer, text), link->from, link->to,
                   ls_pair_kind_name(link->kind), missing);
}

ls_status ls_link_send_begin(ls_link *link, ls_channel *channel, const ls_transfer *transfer)
{
    const size_t t = link->sent;
    if (t >= LS_LINK_SLOTS) { /* the slot has been used before */
        LS_TRY(wait_count(link, channel, &link->freed, t - LS_LINK_SLOTS + 1, transfer,
                          "the receiver did not free a slot"));
        LS_TRY(ls_stream_wait(&channel->out, &link->free[t % LS_LINK_SLOTS]));
    }
    link->given[t % link->watched] = *transfer;
    return LS_OK;
}

ls_status ls_link_push(ls_link *link, ls_channel *channel, size_t offset, const void *from,
                       size_t bytes)
{
    unsigned char *to = (unsigned char *)link->slot[link->sent % LS_LINK_SLOTS] + offset;
    if (offset + bytes > link->slot_bytes) {
        return ls_fail(LS_ERR_ARGUMENT, "link %d -> %d: %zu bytes at %zu in a slot of %zu",
                       link->from, link->to, bytes, offset, link->slot_bytes);
    }
    if (link->kind == LS_PAIR_STAGED) return ls_copy_to_host(&channel->out, to, from, bytes);
    return ls_copy_peer(&channel->out, to, from, bytes);
}

ls_status ls_link_send_end(ls_link *link, ls_channel *channel)
{
    LS_TRY(ls_event_record(&link->full[link->sent % link->watched], &channel->out));
    link->sent++;
    atomic_store_explicit(&link->posted, link->sent, memory_order_release);
    return LS_OK;
}

ls_event *ls_link_last_full(ls_link *link)
{
    return &link->full[(link->sent - 1) % link->watched];
}

ls_status ls_link_recv_begin(ls_link *link, ls_channel *channel, const ls_transfer *transfer)
{
    const size_t t = link->received, w = t % link->watched;
    LS_TRY(wait_count(link, channel, &link->posted, t + 1, transfer, "the sender did not send"));
    LS_TRY(ls_stream_wait(&channel->in, &link->full[w]));
    link->taken[w] = *transfer;
    link->slot_open = true;
    return LS_OK;
}

ls_status ls_link_pull(ls_link *link, ls_channel *channel, size_t offset, void *to, size_t bytes)
{
    const unsigned char *from = link->slot[link->received % LS_LINK_SLOTS];
    if (link->kind == LS_PAIR_STAGED) {
        return ls_copy_to_device(&channel->in, to, from + offset, bytes);
    }
    return ls_copy_within(&channel->in, to, from + offset, bytes);
}

ls_status ls_link_land(ls_link *link, ls_channel *channel, size_t bytes, const void **data)
{
    *data = link->slot[link->received % LS_LINK_SLOTS];
    if (ls_link_is_direct(link)) return LS_OK;
    *data = link->landing;
    LS_TRY(ls_link_pull(link, channel, 0, link->landing, bytes));
    /* What follows reads `landing`, on the same stream: the slot itself is free for the sender
     * while the consumer still runs. */
    return ls_link_recv_end(link, channel);
}

ls_status ls_link_recv_end(ls_link *link, ls_channel *channel)
{
    if (!link->slot_open) return LS_OK; /* freed when it was landed */
    link->slot_open = false;
    LS_TRY(ls_event_record(&link->free[link->received % LS_LINK_SLOTS], &channel->in));
    link->received++;
    atomic_store_explicit(&link->freed, link->received, memory_order_release);
    return LS_OK;
}

/* The label of the oldest of the last W transfers before number `end` whose `full` is not complete;
 * NULL if there is none. */
static ls_status find_incomplete(ls_link *link, size_t end, const ls_transfer *label,
                                 const ls_transfer **found)
{
    *found = NULL;
    for (size_t t = end > link->watched ? end - link->watched : 0; t < end; t++) {
        bool complete = false;
        LS_TRY(ls_event_poll(&link->full[t % link->watched], &complete));
        if (complete) continue;
        *found = &label[t % link->watched];
        return LS_OK;
    }
    return LS_OK;
}

ls_status ls_link_unsent(ls_link *link, const ls_transfer **unsent)
{
    return find_incomplete(link, link->sent, link->given, unsent);
}

ls_status ls_link_overdue(ls_link *link, const ls_transfer **overdue)
{
    return find_incomplete(link, link->received + (link->slot_open ? 1 : 0), link->taken, overdue);
}
