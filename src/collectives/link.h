/* SPDX-License-Identifier: MIT */
/* link.h -- one direction between two ranks: slots, events, and the hand-over of each transfer.
 *
 * A link a -> b carries numbered transfers from rank a to rank b. It is the only place where two
 * rank threads touch the same state; link.c has the protocol and why it neither deadlocks nor
 * overwrites what is still being read.
 *
 * A transfer's bytes lie in a slot, unless the sender wrote them where they belong itself (which a
 * link that ls_link_is_direct allows); then the transfer only says that they are there.
 *
 * Thread rule: the functions under "sender" are called by rank a's thread, those under "receiver"
 * by rank b's. Opened and closed by the main thread while no rank runs.
 */
#ifndef LS_COLLECTIVES_LINK_H
#define LS_COLLECTIVES_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "status.h"
#include "thread.h"

enum { LS_LINK_SLOTS = 2 }; /* transfers that may be under way at once */

/* What a transfer is part of, for messages. */
typedef struct {
    const char *what; /* "bucket", "gather", "broadcast": a string constant */
    int bucket;       /* number of the bucket, or -1 */
    int step;         /* ring step; hop of a tree; hop of a broadcast */
    uint64_t order;   /* above that of every transfer that it depends on: overdue.c */
} ls_transfer;

enum { LS_TRANSFER_TEXT_BYTES = 64 };
/* "bucket 3, ring step 2", "gather, ring step 0". Returns `text`. */
const char *ls_transfer_text(const ls_transfer *transfer, char text[LS_TRANSFER_TEXT_BYTES]);

/* A rank's end of all its links: its two streams. */
typedef struct {
    ls_group *group; /* borrowed; NULL in a test without one */
    int rank;
    ls_stream out;   /* copies to others */
    ls_stream in;    /* copies from others, additions */
    double waited;   /* seconds in which this rank's thread waited for others' */
    uint64_t awaited; /* order of what the wait that ended with TIMEOUT was for */
} ls_channel;

typedef struct {
    int from, to;                  /* ranks a and b */
    ls_pair_kind kind;
    ls_device *from_device;        /* borrowed */
    ls_device *to_device;          /* borrowed */
    size_t slot_bytes;
    void *slot[LS_LINK_SLOTS];     /* owned; on b's device, or pinned host memory when STAGED */
    void *landing;                 /* owned; on b's device: where STAGED bytes go; else NULL */
    ls_event free[LS_LINK_SLOTS];  /* of b's device: the slot has been read */
    size_t watched;                /* W >= LS_LINK_SLOTS: transfers that are told apart */
    ls_event *full;                /* owned, [W]; of a's device: transfer t's bytes are there */
    ls_transfer *given;            /* owned, [W]; sender: what transfer t carries */
    ls_transfer *taken;            /* owned, [W]; receiver: likewise */
    size_t sent;                   /* sender: transfers posted */
    size_t received;               /* receiver: transfers taken */
    bool slot_open;                /* receiver: the current transfer's slot is not yet free */
    atomic_size_t posted;          /* written by a: transfers whose `full` has been recorded */
    atomic_size_t freed;           /* written by b: transfers whose `free` has been recorded */
} ls_link;

/* Open a link with slots of `slot_bytes`. `watched`: how many of the last transfers
 * ls_link_unsent and ls_link_overdue look at.
 * Errors: MEMORY, DEVICE (nothing is left allocated). */
LS_MUST_USE ls_status ls_link_open(ls_link *link, int from, ls_device *from_device, int to,
                                   ls_device *to_device, ls_pair_kind kind, size_t slot_bytes,
                                   size_t watched);
void ls_link_close(ls_link *link); /* accepts all-zero */

/* May the sender write into the receiver's memory itself? Pure. */
bool ls_link_is_direct(const ls_link *link);

/* Is the sender's memory to the receiver as near as its own, as that of host devices is? Then what
 * is only to be read need not be copied. Pure. */
bool ls_link_is_shared(const ls_link *link);

/* -- sender ------------------------------------------------------------------------------------
 * begin, any number of pushes and other work on channel->out, end. */

/* Wait until the next transfer's slot may be written. Blocks: until the receiver has freed it.
 * Errors: TIMEOUT (names link, bucket and ring step), ABORTED, DEVICE. */
LS_MUST_USE ls_status ls_link_send_begin(ls_link *link, ls_channel *channel,
                                         const ls_transfer *transfer);
/* Copy `bytes` bytes of a's device memory into the slot at `offset`. Async on channel->out. */
LS_MUST_USE ls_status ls_link_push(ls_link *link, ls_channel *channel, size_t offset,
                                   const void *from, size_t bytes);
/* Post the transfer: it is complete when channel->out has come here. */
LS_MUST_USE ls_status ls_link_send_end(ls_link *link, ls_channel *channel);
/* The event that the last ls_link_send_end recorded: that transfer's sources have been read. */
ls_event *ls_link_last_full(ls_link *link);

/* The oldest watched transfer that was posted and whose copies have not ended, or NULL.
 * Errors: DEVICE. */
LS_MUST_USE ls_status ls_link_unsent(ls_link *link, const ls_transfer **unsent);

/* -- receiver ----------------------------------------------------------------------------------
 * begin, pulls and consumers on channel->in, end. */

/* Take the next transfer: what is enqueued on channel->in after this runs after its bytes are
 * there. Blocks: until the sender has posted it. Errors: as ls_link_send_begin. */
LS_MUST_USE ls_status ls_link_recv_begin(ls_link *link, ls_channel *channel,
                                         const ls_transfer *transfer);
/* Copy `bytes` bytes of the slot at `offset` to b's device memory. Async on channel->in. */
LS_MUST_USE ls_status ls_link_pull(ls_link *link, ls_channel *channel, size_t offset, void *to,
                                   size_t bytes);
/* The slot's first `bytes` bytes as memory of b's device, to be read until ls_link_recv_end (or the
 * next transfer): the slot itself, or where they were landed; then the slot is already free. */
LS_MUST_USE ls_status ls_link_land(ls_link *link, ls_channel *channel, size_t bytes,
                                   const void **data);
/* Free the slot: it may be overwritten when channel->in has come here. */
LS_MUST_USE ls_status ls_link_recv_end(ls_link *link, ls_channel *channel);

/* The oldest watched transfer that was taken and whose bytes are not yet there, or NULL.
 * Errors: DEVICE. */
LS_MUST_USE ls_status ls_link_overdue(ls_link *link, const ls_transfer **overdue);

#endif
