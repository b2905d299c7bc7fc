/* SPDX-License-Identifier: MIT */
/* rendezvous.c -- a table with a seat per rank, where calls are laid open and compared.
 *
 * Rank r writes its record for call n into seat[r].call[n % 2] and stores arrived = n + 1
 * (release). It then waits until every seat has arrived >= n + 1 (acquire), which makes all N
 * records visible.
 *
 * Two records per seat are enough: rank r overwrites its record of call n only at call n + 2, after
 * it saw every rank arrive at n + 1; and a rank that has arrived at n + 1 is done with the records
 * of call n, because it copied or used them inside call n.
 *
 * All ranks compare against rank 0 in the same order, so all of them find the same first mismatch
 * and say the same thing; none of them has moved a byte.
 */
#include "collectives/rendezvous.h"

#include <stdio.h>
#include <string.h>

void ls_rendezvous_init(ls_rendezvous *rendezvous, int world_size)
{
    memset(rendezvous, 0, sizeof *rendezvous);
    rendezvous->world_size = world_size;
    for (int rank = 0; rank < LS_WORLD_MAX; rank++) atomic_init(&rendezvous->seat[rank].arrived, 0);
}

/* Calls that `channel`'s rank has handed in so far, the current one included. */
static size_t call_count(const ls_rendezvous *rendezvous, const ls_channel *channel)
{
    /* Only the rank's own thread writes this count, and only it asks. */
    return atomic_load_explicit(&rendezvous->seat[channel->rank].arrived, memory_order_relaxed);
}

uint64_t ls_rendezvous_order(const ls_rendezvous *rendezvous, const ls_channel *channel)
{
    return (uint64_t)call_count(rendezvous, channel) << 32;
}

const ls_call *ls_rendezvous_call_of(const ls_rendezvous *rendezvous, const ls_channel *channel,
                                     int rank)
{
    const size_t number = call_count(rendezvous, channel) - 1;
    return &rendezvous->seat[rank].call[number % 2];
}

enum { CALL_TEXT_BYTES = 96 };

/* "bucket 2 (4096 floats)", "a gather (rows of 40 bytes)". */
static const char *call_text(const ls_call *call, char text[CALL_TEXT_BYTES])
{
    switch (call->kind) {
    case LS_CALL_ALL_REDUCE:
        snprintf(text, CALL_TEXT_BYTES, "bucket %d (%zu floats)", call->bucket, call->count);
        break;
    case LS_CALL_GATHER:
        snprintf(text, CALL_TEXT_BYTES, "a gather (rows of %zu bytes)", call->count);
        break;
    case LS_CALL_BROADCAST:
        snprintf(text, CALL_TEXT_BYTES, "a broadcast (%zu floats)", call->count);
        break;
    case LS_CALL_VERIFY:
        snprintf(text, CALL_TEXT_BYTES, "the check of %zu buckets", call->count);
        break;
    }
    return text;
}

static ls_status wait_for_rank(ls_rendezvous *rendezvous, ls_channel *channel, int rank,
                               size_t want, const ls_call *mine)
{
    atomic_size_t *arrived = &rendezvous->seat[rank].arrived;
    if (atomic_load_explicit(arrived, memory_order_acquire) >= want) return LS_OK;
    const double begin = ls_clock();
    ls_wait wait = ls_wait_begin(channel->group);
    ls_status status = LS_OK;
    while (status == LS_OK && atomic_load_explicit(arrived, memory_order_acquire) < want) {
        ls_device_look(channel->in.device);
        status = ls_wait_poll(&wait);
    }
    channel->waited += ls_clock() - begin;
    if (status != LS_ERR_TIMEOUT) return status;
    channel->awaited = ls_rendezvous_order(rendezvous, channel);
    char text[CALL_TEXT_BYTES];
    return ls_fail(LS_ERR_TIMEOUT,
                   "call %zu: rank %d did not come within the timeout; rank %d waits with %s", want,
                   rank, channel->rank, call_text(mine, text));
}

static ls_status compare(const ls_rendezvous *rendezvous, const ls_channel *channel)
{
    const ls_call *first = ls_rendezvous_call_of(rendezvous, channel, 0);
    for (int rank = 1; rank < rendezvous->world_size; rank++) {
        const ls_call *call = ls_rendezvous_call_of(rendezvous, channel, rank);
        if (call->kind == first->kind && call->bucket == first->bucket &&
            call->count == first->count) {
            continue;
        }
        char text[CALL_TEXT_BYTES], first_text[CALL_TEXT_BYTES];
        return ls_fail(LS_ERR_DIVERGED,
                       "call %zu: rank %d submits %s where rank 0 submits %s; no data moved",
                       call_count(rendezvous, channel), rank, call_text(call, text),
                       call_text(first, first_text));
    }
    return LS_OK;
}

ls_status ls_rendezvous_meet(ls_rendezvous *rendezvous, ls_channel *channel, const ls_call *mine)
{
    ls_rendezvous_seat *seat = &rendezvous->seat[channel->rank];
    const size_t number = call_count(rendezvous, channel);
    seat->call[number % 2] = *mine;
    atomic_store_explicit(&seat->arrived, number + 1, memory_order_release);
    for (int rank = 0; rank < rendezvous->world_size; rank++) {
        LS_TRY(wait_for_rank(rendezvous, channel, rank, number + 1, mine));
    }
    return compare(rendezvous, channel);
}
