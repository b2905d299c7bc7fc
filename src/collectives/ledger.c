/* SPDX-License-Identifier: MIT */
/* ledger.c -- two columns of digests in device memory, and the list that pairs them.
 *
 *     digest   | sent: 4-5 | sent: 6-7 | seen: 4-5 | seen: 6-7 | seen: own 2-3 | ...
 *     entry    (link 3 -> 0, bucket 1, step 2, shards 4-5, sent 0, seen 2), (..., sent 1, seen 3)
 *
 * The sender's digests arrive as the last bytes of its transfer and are copied here; the receiver's
 * are written here by its merge, one per source, its own pieces included (nobody pairs those). All
 * of it is enqueued on the rank's `in` stream, so once that stream is idle the columns are whole.
 *
 * A digest that is itself damaged on the way shows as a mismatch too: nothing passes that is not
 * equal on both sides.
 */
#include "collectives/ledger.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_ledger_init(ls_ledger *ledger, ls_device *device, size_t capacity)
{
    memset(ledger, 0, sizeof *ledger);
    ledger->device = device;
    ledger->capacity = capacity;
    const size_t bytes = capacity * sizeof(uint64_t);
    void *digest = NULL, *digest_host = NULL;
    ls_status status = ls_device_alloc(device, bytes, &digest);
    ledger->digest = digest;
    if (status == LS_OK) status = ls_pinned_alloc(device, bytes, &digest_host);
    ledger->digest_host = digest_host;
    if (status == LS_OK) {
        ledger->entry = malloc(capacity * sizeof *ledger->entry);
        if (ledger->entry == NULL) {
            status = ls_fail(LS_ERR_MEMORY, "no memory for a ledger of %zu digests", capacity);
        }
    }
    if (status != LS_OK) ls_ledger_free(ledger);
    return status;
}

void ls_ledger_free(ls_ledger *ledger)
{
    free(ledger->entry);
    if (ledger->digest_host != NULL) ls_pinned_release(ledger->device, ledger->digest_host);
    if (ledger->digest != NULL) ls_device_release(ledger->device, ledger->digest);
    memset(ledger, 0, sizeof *ledger);
}

bool ls_ledger_has_room(const ls_ledger *ledger, size_t count)
{
    /* An entry pairs two digests of its own, so the entries never outgrow the digests. */
    return ledger->digest_count + count <= ledger->capacity;
}

size_t ls_ledger_reserve(ls_ledger *ledger, size_t count)
{
    assert(ls_ledger_has_room(ledger, count));
    const size_t place = ledger->digest_count;
    ledger->digest_count += count;
    return place;
}

uint64_t *ls_ledger_digest_at(ls_ledger *ledger, size_t place)
{
    return ledger->digest + place;
}

void ls_ledger_enter(ls_ledger *ledger, const ls_ledger_entry *entry)
{
    assert(ledger->entry_count < ledger->capacity);
    ledger->entry[ledger->entry_count++] = *entry;
}

ls_status ls_ledger_fetch(ls_ledger *ledger, ls_stream *stream)
{
    return ls_copy_to_host(stream, ledger->digest_host, ledger->digest,
                           ledger->digest_count * sizeof(uint64_t));
}

static ls_status fail_entry(const ls_ledger_entry *entry, uint64_t sent, uint64_t seen)
{
    char text[LS_TRANSFER_TEXT_BYTES], shards[48] = "";
    if (entry->node.count > 0) {
        snprintf(shards, sizeof shards, " (shards %d to %d)", entry->node.begin,
                 entry->node.begin + entry->node.count - 1);
    }
    return ls_fail(LS_ERR_DIVERGED,
                   "%s%s: bytes changed on link %d -> %d: digest %016" PRIx64
                   " when sent, %016" PRIx64 " when received",
                   ls_transfer_text(&entry->transfer, text), shards, entry->from, entry->to, sent,
                   seen);
}

ls_status ls_ledger_compare(ls_ledger *ledger)
{
    const size_t count = ledger->entry_count;
    ledger->entry_count = 0;
    ledger->digest_count = 0;
    for (size_t i = 0; i < count; i++) {
        const ls_ledger_entry *entry = &ledger->entry[i];
        const uint64_t sent = ledger->digest_host[entry->sent];
        const uint64_t seen = ledger->digest_host[entry->seen];
        if (sent != seen) return fail_entry(entry, sent, seen);
    }
    return LS_OK;
}
