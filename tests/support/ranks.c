/* SPDX-License-Identifier: MIT */
/* ranks.c -- rank threads for tests: see ranks.h. */
#include "support/ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    ls_rank_fn *fn;
    void *arg;
    int rank;
    ls_status status;
    char text[LS_MESSAGE_BYTES];
    char place[LS_MESSAGE_BYTES];
    pthread_t thread;
} rank_call;

static void *rank_main(void *argument)
{
    rank_call *call = argument;
    call->status = call->fn(call->rank, call->arg);
    (void)snprintf(call->text, sizeof call->text, "rank %d: %.1000s", call->rank,
                   ls_last_error());
    (void)snprintf(call->place, sizeof call->place, "%s", ls_last_error_place());
    return NULL;
}

static const rank_call *first_failure(const rank_call *call, int world_size)
{
    const rank_call *first = NULL;
    for (int rank = 0; rank < world_size; rank++) {
        if (call[rank].status == LS_OK) continue;
        if (call[rank].status != LS_ERR_ABORTED) return &call[rank];
        if (first == NULL) first = &call[rank];
    }
    return first;
}

ls_status run_ranks(int world_size, ls_rank_fn *fn, void *arg, ls_status *statuses)
{
    rank_call *call = calloc((size_t)world_size, sizeof *call);
    if (call == NULL) return ls_fail(LS_ERR_MEMORY, "run_ranks: %d ranks", world_size);
    for (int rank = 0; rank < world_size; rank++) {
        call[rank].fn = fn;
        call[rank].arg = arg;
        call[rank].rank = rank;
        const int failed = pthread_create(&call[rank].thread, NULL, rank_main, &call[rank]);
        if (failed != 0) {
            (void)fprintf(stderr, "run_ranks: rank %d: %s\n", rank, strerror(failed));
            abort(); /* the ranks that run may wait for this one for ever */
        }
    }
    for (int rank = 0; rank < world_size; rank++) {
        (void)pthread_join(call[rank].thread, NULL);
        if (statuses != NULL) statuses[rank] = call[rank].status;
    }
    const rank_call *failure = first_failure(call, world_size);
    ls_status status = LS_OK;
    if (failure != NULL) status = ls_fail_again(failure->status, failure->text, failure->place);
    free(call);
    return status;
}

typedef struct {
    ls_rank_fn *fn;
    void *arg;
    ls_status *statuses;
} group_call;

static ls_status group_rank(int rank, void *argument)
{
    const group_call *call = argument;
    const ls_status status = call->fn(rank, call->arg);
    if (call->statuses != NULL) call->statuses[rank] = status;
    return status;
}

static void stuck(void)
{
    (void)fprintf(stderr, "%s: %s\n", ls_last_error_place(), ls_last_error());
    _exit(ls_exit_code(LS_ERR_TIMEOUT));
}

ls_status run_ranks_in(ls_group *group, ls_rank_fn *fn, void *arg, ls_status *statuses)
{
    group_call call = { .fn = fn, .arg = arg, .statuses = statuses };
    return ls_group_run(group, group_rank, &call, stuck);
}
