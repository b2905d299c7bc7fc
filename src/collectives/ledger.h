/* SPDX-License-Identifier: MIT */
/* ledger.h -- what each sender said it sent, and what the receiver saw.
 *
 * A contribution that loses a bit on its way into the sum makes the owner's result wrong, and then
 * every replica's alike: no comparison of replicas can see it. So each contribution carries its
 * digest (ls_digest), computed by the sender on its source; the receiver computes it again in the
 * kernel that consumes the bytes. Both land here, in device memory, and are compared on the host at
 * the end of the step: in time, because no update is counted before that.
 *
 * Thread rule: a ledger belongs to one rank's thread.
 */
#ifndef LS_COLLECTIVES_LEDGER_H
#define LS_COLLECTIVES_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/link.h"
#include "device/device.h"
#include "kernels/fold.h"
#include "status.h"

/* One contribution: two places of the ledger that must hold the same digest. */
typedef struct {
    int from, to;         /* ranks of the link it came over */
    ls_transfer transfer; /* what it was part of */
    ls_node node;         /* the shards it is the sum of; {0, 0}: a running sum, or no sum */
    size_t sent, seen;    /* where in `digest` */
} ls_ledger_entry;

typedef struct {
    ls_device *device;      /* borrowed */
    size_t capacity;        /* of each array below */
    uint64_t *digest;       /* owned, device memory */
    uint64_t *digest_host;  /* owned, pinned */
    ls_ledger_entry *entry; /* owned */
    size_t digest_count;
    size_t entry_count;
} ls_ledger;

LS_MUST_USE ls_status ls_ledger_init(ls_ledger *ledger, ls_device *device, size_t capacity);
void ls_ledger_free(ls_ledger *ledger); /* accepts all-zero */

/* May `count` more digests be written? */
bool ls_ledger_has_room(const ls_ledger *ledger, size_t count);
/* The place of the next `count` digests, from ls_ledger_digest_at(place) on; there must be room. */
size_t ls_ledger_reserve(ls_ledger *ledger, size_t count);
uint64_t *ls_ledger_digest_at(ls_ledger *ledger, size_t place);
void ls_ledger_enter(ls_ledger *ledger, const ls_ledger_entry *entry);

/* Enqueue the copy of what was written so far to the host; once `stream` is idle,
 * ls_ledger_compare may be called. */
LS_MUST_USE ls_status ls_ledger_fetch(ls_ledger *ledger, ls_stream *stream);
/* Compare all entries and start again, empty. Errors: DIVERGED, naming link, bucket, ring step,
 * shards and both digests of the first that differs. */
LS_MUST_USE ls_status ls_ledger_compare(ls_ledger *ledger);

#endif
