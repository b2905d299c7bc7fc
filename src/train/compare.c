/* SPDX-License-Identifier: MIT */
/* compare.c -- the replicas compare the digests of what they have; a difference is named.
 *
 * First of the reduced sums, if the update read them for that. Where these differ, the collectives
 * note what they have left out (all_reduce.h) and name the bucket.
 *
 * And whether their step failed: all decide that from numbers that they have alike, so where one
 * finds its update not finite and another does not, a weight or an optimizer slot of one has gone
 * bad. It may have gone back to its copy by then (guard.h), so its weights would not tell.
 *
 * A digest covers weights and moving statistics (ls_replica_digest). Where digests differ, every
 * rank copies both to the host, and rank 0 looks for the first element in which a rank differs from
 * the majority. The digest alone costs a few bytes per rank and step; the copies are made only when
 * the run is lost.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "printable.h"
#include "train/run.h"

/* The digest that most ranks have; rank 0's if none has a majority. */
static int reference_rank(const uint64_t *digest, int world_size)
{
    int best = 0, best_votes = 0;
    for (int a = 0; a < world_size; a++) {
        int votes = 0;
        for (int b = 0; b < world_size; b++) votes += digest[b] == digest[a];
        if (votes > best_votes) {
            best = a;
            best_votes = votes;
        }
    }
    return best;
}

/* Name the first element in which `x` of rank `bad` differs from `y` of rank `good`; LS_OK if there
 * is none. */
static ls_status name_element(const char *group, const ls_parameter *tensor, int count, int bad,
                              const float *x, int good, const float *y)
{
    for (int t = 0; t < count; t++)
        for (size_t i = tensor[t].begin; i < tensor[t].begin + tensor[t].count; i++)
            if (memcmp(&x[i], &y[i], sizeof *x) != 0)
                return ls_fail(LS_ERR_DIVERGED, "replicas diverged: %s/%s, element %zu: rank %d "
                               "has %.9g, rank %d has %.9g", group, tensor[t].name,
                               i - tensor[t].begin, bad, ls_printable((double)x[i]), good,
                               ls_printable((double)y[i]));
    return LS_OK;
}

/* Name the first difference between rank `bad` and rank `good`. Does not return LS_OK. */
static ls_status name_difference(const ls_run *run, int bad, int good)
{
    const ls_model *model = &run->model;
    const float *x = run->diverged[bad], *y = run->diverged[good];
    LS_TRY(name_element("weights", model->parameter, model->parameter_count, bad, x, good, y));
    LS_TRY(name_element("statistics", model->statistic, model->statistic_count, bad,
                        x + model->arena_floats, good, y + model->arena_floats));
    return ls_fail(LS_ERR_DIVERGED, "ranks %d and %d report different digests of equal numbers: "
                   "the memory or the digest itself changed meanwhile", bad, good);
}

/* All ranks show their weights; rank 0 names the difference. Does not return LS_OK. */
static ls_status find_divergence(ls_rank *k, const uint64_t *digest)
{
    ls_run *run = k->run;
    const size_t floats = run->model.arena_floats;
    float *copy = malloc((floats + run->model.statistic_floats + 1) * sizeof *copy);
    run->diverged[k->rank] = copy; /* freed with the run */
    if (!copy) return ls_fail(LS_ERR_MEMORY, "no memory to compare diverged weights");
    LS_TRY(ls_replica_fetch(&k->replica, copy, k->replica.weights, run->group));
    LS_TRY(ls_replica_fetch_statistics(&k->replica, copy + floats, run->group));
    /* The barrier makes every rank's copy visible to rank 0, which alone reads them; the one below
     * keeps the others from going on, until rank 0's error ends their wait. */
    LS_TRY(ls_barrier_wait(run->group, k->rank, "the comparison of diverged weights"));
    const int good = reference_rank(digest, run->world_size);
    int bad = 0;
    while (digest[bad] == digest[good]) bad++;
    if (k->rank == 0) return name_difference(run, bad, good);
    return ls_barrier_wait(run->group, k->rank, "the report of diverged weights");
}

/* All ranks note their reduced sums, or what an update on a GPU has made of them, for the
 * collectives to name the bucket that differs. They have met since the last such comparison, as
 * ls_comm_note asks. Does not return LS_OK. */
static ls_status find_bucket(ls_rank *k)
{
    const ls_run *run = k->run;
    for (int b = 0; b < run->bucket_count; b++)
        LS_TRY(ls_comm_note(run->comm, k->rank, b,
                            ls_replica_sums(&k->replica) + run->bucket[b].begin,
                            run->bucket[b].count));
    LS_TRY(ls_comm_verify(run->comm, k->rank));
    return ls_fail(LS_ERR_DIVERGED, "the updates of the replicas read different sums of gradients; "
                   "now these, or the gradients that were made of them, are equal");
}

/* What a rank lays open at the end of a step. */
typedef struct {
    uint64_t sums_digest, digest, stop, failed;
} vote;

static ls_status compare_failures(const vote *all, int world_size)
{
    int bad = 0, good = 0;
    while (bad < world_size && !all[bad].failed) bad++;
    while (good < world_size && all[good].failed) good++;
    if (bad == world_size || good == world_size) return LS_OK;
    return ls_fail(LS_ERR_DIVERGED, "replicas diverged: the update of rank %d is not finite, that "
                   "of rank %d is: weights or optimizer slots were not alike before it", bad, good);
}

ls_status ls_weights_compare(ls_rank *k, uint64_t digest, bool want_stop)
{
    const ls_step_numbers *n = &k->numbers;
    const vote mine = { .sums_digest = n->sums_digest, .digest = digest, .stop = want_stop,
                        .failed = n->failed || !isfinite(n->update_norm) };
    vote all[LS_WORLD_MAX];
    uint64_t digests[LS_WORLD_MAX];
    LS_TRY(ls_group_exchange(k->run->group, k->rank, &mine, sizeof mine, all,
                             "the end of a step"));
    for (int r = 0; r < k->run->world_size; r++) {
        if (all[r].sums_digest != all[0].sums_digest) return find_bucket(k);
        digests[r] = all[r].digest;
    }
    LS_TRY(compare_failures(all, k->run->world_size));
    k->stop = all[0].stop != 0;
    for (int r = 1; r < k->run->world_size; r++)
        if (digests[r] != digests[0]) return find_divergence(k, digests);
    return LS_OK;
}
