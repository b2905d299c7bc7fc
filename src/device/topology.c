/* SPDX-License-Identifier: MIT */
/* topology.c -- from the text of --devices to a list, and from open devices to pairs and a ring.
 *
 * Text:
 *     list    = "auto" | "host" [":" N] | "cuda" [":" element {"," element}]
 *     element = K ["*" M]                M replicas on GPU K; M = 1 without "*"
 *
 * A GPU that is named twice is more often a slip than a wish, so sharing has to be spelled K*M.
 * Syntax is checked before the machine is: the same typing error gives the same message everywhere.
 *
 * Pairs: a device reaches itself (LOCAL); host devices are one memory (PEER); two GPUs are PEER if
 * the probe has proven it (cuda.h). Anything else is STAGED, with the reason.
 *
 * The ring and the limit of partners are ring_order.c's. The ring is walked after it is built: a
 * schedule over a broken ring hangs, and hanging is the worst way to fail.
 *
 * Pure but for the questions how many GPUs there are and what the probe has found.
 */
#include "device/topology.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "nearest.h"
#include "plural.h"

enum { NUMBER_MAX = 9999 }; /* far beyond every machine, and ten times it fits an int */

/* -- the list -------------------------------------------------------------------------------- */

/* What is being read, for messages with the place in it. */
typedef struct {
    const char *text; /* all of it */
    const char *at;   /* the rest */
} scanner;

static ls_status expected(const scanner *s, const char *what)
{
    const int column = (int)(s->at - s->text) + 1;
    if (*s->at == '\0')
        return ls_fail(LS_ERR_ARGUMENT, "--devices %.80s: ends where %s is expected", s->text,
                       what);
    return ls_fail(LS_ERR_ARGUMENT, "--devices %.80s: found '%.20s' at column %d, expected %s",
                   s->text, s->at, column, what);
}

/* What stands where one of the three words should. */
static ls_status expected_word(const scanner *s)
{
    static const char *const words[] = { "auto", "host", "cuda", NULL };
    static const char forms[] = "auto, host, host:N, cuda or cuda:K,K*M,...";
    char word[16];
    (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(s->at, ":"), s->at);
    const char *nearest = ls_nearest_name(word, words);
    if (nearest == NULL) return expected(s, forms);
    return ls_fail(LS_ERR_ARGUMENT, "--devices %.80s: unknown '%s', did you mean '%s'? (%s)",
                   s->text, word, nearest, forms);
}

/* A decimal number without sign; what is larger than NUMBER_MAX is read as NUMBER_MAX. */
static ls_status scan_number(scanner *s, const char *what, int *out)
{
    if (*s->at < '0' || *s->at > '9') return expected(s, what);
    *out = 0;
    for (; *s->at >= '0' && *s->at <= '9'; s->at++) {
        *out = *out * 10 + (*s->at - '0');
        if (*out > NUMBER_MAX) *out = NUMBER_MAX;
    }
    return LS_OK;
}

static bool scan_character(scanner *s, char c)
{
    if (*s->at != c) return false;
    s->at++;
    return true;
}

/* The word in front, if it is `word` and ends there or before a ':'. */
static bool scan_word(scanner *s, const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(s->at, word, length) != 0) return false;
    if (s->at[length] != '\0' && s->at[length] != ':') return false;
    s->at += length;
    return true;
}

/* Append `replicas` replicas on one device. */
static ls_status list_append(ls_device_list *list, const char *text, ls_device_kind kind,
                             int ordinal, int replicas)
{
    if (replicas > LS_WORLD_MAX - list->count)
        return ls_fail(LS_ERR_ARGUMENT, "--devices %.80s: too many replicas; %d is the most", text,
                       LS_WORLD_MAX);
    for (int i = 0; i < replicas; i++)
        list->device[list->count++] = (ls_device_choice){ .kind = kind, .ordinal = ordinal };
    return LS_OK;
}

/* [":" N], after "host". */
static ls_status scan_host(scanner *s, ls_device_list *list)
{
    int count = 1;
    if (scan_character(s, ':')) {
        const scanner before = *s;
        LS_TRY(scan_number(s, "a number of replicas", &count));
        if (count == 0) return expected(&before, "at least 1 replica");
    }
    if (*s->at != '\0') return expected(s, "the end");
    for (int i = 0; i < count; i++) LS_TRY(list_append(list, s->text, LS_DEVICE_HOST, i, 1));
    return LS_OK;
}

/* Is GPU `ordinal` among the first `count` entries? */
static bool list_has(const ls_device_list *list, int ordinal)
{
    for (int i = 0; i < list->count; i++)
        if (list->device[i].ordinal == ordinal) return true;
    return false;
}

/* element {"," element}, after "cuda:". */
static ls_status scan_gpus(scanner *s, ls_device_list *list)
{
    do {
        scanner before = *s;
        int ordinal = 0, replicas = 1;
        LS_TRY(scan_number(s, "a GPU's number", &ordinal));
        if (scan_character(s, '*')) {
            before = *s;
            LS_TRY(scan_number(s, "a number of replicas", &replicas));
            if (replicas == 0) return expected(&before, "at least 1 replica");
        }
        if (list_has(list, ordinal))
            return ls_fail(LS_ERR_ARGUMENT,
                           "--devices %.80s: GPU %d is named twice; two replicas on it are "
                           "written cuda:%d*2", s->text, ordinal, ordinal);
        LS_TRY(list_append(list, s->text, LS_DEVICE_CUDA, ordinal, replicas));
    } while (scan_character(s, ','));
    if (*s->at != '\0') return expected(s, "',' or the end");
    return LS_OK;
}

/* All GPUs, or as many as a run may have. */
static void list_all_gpus(ls_device_list *list, int gpu_count)
{
    list->count = gpu_count < LS_WORLD_MAX ? gpu_count : LS_WORLD_MAX;
    for (int i = 0; i < list->count; i++)
        list->device[i] = (ls_device_choice){ .kind = LS_DEVICE_CUDA, .ordinal = i };
}

static ls_status no_usable_gpu(const char *text, const char *why_none)
{
    return ls_fail(LS_ERR_DEVICE,
                   "--devices %.80s: no usable GPU: %s (--devices host:N runs on the CPU)", text,
                   why_none);
}

/* Do the GPUs that were named exist? */
static ls_status list_check_gpus(const ls_device_list *list, const char *text, int gpu_count,
                                 const char *why_none)
{
    if (gpu_count == 0) return no_usable_gpu(text, why_none);
    for (int i = 0; i < list->count; i++)
        if (list->device[i].ordinal >= gpu_count)
            return ls_fail(LS_ERR_DEVICE,
                           "--devices %.80s: there is no GPU %d; %d usable, counted from 0", text,
                           list->device[i].ordinal, gpu_count);
    return LS_OK;
}

/* `cuda`: all GPUs, which must fit one run; what is asked for by name is not cut short. */
static ls_status list_cuda(ls_device_list *list, int gpu_count, const char *why_none)
{
    if (gpu_count == 0) return no_usable_gpu("cuda", why_none);
    if (gpu_count > LS_WORLD_MAX)
        return ls_fail(LS_ERR_ARGUMENT,
                       "--devices cuda: %d usable GPUs, but a run has at most %d replicas; name "
                       "those to be used: --devices cuda:K,K,...", gpu_count, LS_WORLD_MAX);
    list_all_gpus(list, gpu_count);
    return LS_OK;
}

/* `auto`: all GPUs if there are any, else the CPU; and which of the two it was. */
static ls_status list_auto(ls_device_list *list, int gpu_count, const char *why_none)
{
    list_all_gpus(list, gpu_count);
    if (gpu_count > LS_WORLD_MAX) {
        (void)snprintf(list->reason, sizeof list->reason,
                       "auto: the first %d of %d usable GPUs; a run has no more", LS_WORLD_MAX,
                       gpu_count);
        return LS_OK;
    }
    if (list->count > 0) {
        (void)snprintf(list->reason, sizeof list->reason, "auto: %d usable GPU%s", gpu_count,
                       LS_PLURAL(gpu_count));
        return LS_OK;
    }
    (void)snprintf(list->reason, sizeof list->reason, "auto: no usable GPU (%.100s)", why_none);
    return list_append(list, "auto", LS_DEVICE_HOST, 0, 1);
}

/* What the text says, without a look at the machine. Of `auto` and of `cuda` without a list, that
 * is nothing yet: `out` is left empty. */
static ls_status scan(const char *text, ls_device_list *out)
{
    *out = (ls_device_list){ .count = 0 };
    scanner s = { .text = text, .at = text };
    (void)snprintf(out->reason, sizeof out->reason, "--devices %.80s", text);
    if (scan_word(&s, "host")) return scan_host(&s, out);
    const bool automatic = scan_word(&s, "auto");
    if (!automatic && !scan_word(&s, "cuda")) return expected_word(&s);
    if (!automatic && scan_character(&s, ':')) return scan_gpus(&s, out);
    return *s.at == '\0' ? LS_OK : expected(&s, "the end");
}

ls_status ls_device_list_resolve(const char *text, int gpu_count, const char *why_none,
                                 ls_device_list *out)
{
    LS_TRY(scan(text, out));
    if (out->count > 0 && out->device[0].kind == LS_DEVICE_HOST) return LS_OK;
    if (out->count > 0) return list_check_gpus(out, text, gpu_count, why_none);
    if (text[0] == 'a') return list_auto(out, gpu_count, why_none);
    return list_cuda(out, gpu_count, why_none);
}

/* Probe the pairs of what was scanned, before the driver is used here. One GPU needs no probe. */
static void probe(const ls_device_list *list)
{
    int ordinal[LS_WORLD_MAX], count = 0;
    for (int i = 0; i < list->count; i++)
        if (count == 0 || ordinal[count - 1] != list->device[i].ordinal)
            ordinal[count++] = list->device[i].ordinal; /* replicas of one GPU stand together */
    if (count != 1) ls_cuda_probe(ordinal, count); /* 0: all there are */
}

ls_status ls_device_list_parse(const char *text, ls_p2p p2p, ls_device_list *out)
{
    const char *why_none = "";
    /* Host lists and wrong texts are told from the rest without the driver: what does not ask for
     * a GPU does not touch it. */
    LS_TRY(scan(text, out));
    if (out->count > 0 && out->device[0].kind == LS_DEVICE_HOST) return LS_OK;
    if (p2p != LS_P2P_OFF) probe(out);
    const int gpu_count = ls_cuda_usable_count(&why_none);
    return ls_device_list_resolve(text, gpu_count, why_none, out);
}

/* -- pairs and ring -------------------------------------------------------------------------- */

ls_status ls_device_open(const ls_device_choice *choice, int thread_count, bool spin,
                         atomic_ulong *progress, ls_device **out)
{
    if (choice->kind == LS_DEVICE_CUDA)
        return ls_device_open_cuda(choice->ordinal, progress, out);
    return ls_device_open_host(choice->ordinal, thread_count, spin, progress, out);
}

static bool is_same(const ls_device *a, const ls_device *b)
{
    return a == b || (a->kind == b->kind && a->ordinal == b->ordinal);
}

/* Kind and link rank of a pair; *reason is NULL unless it is STAGED. */
static ls_pair_kind pair_kind(const ls_device *a, const ls_device *b, ls_p2p p2p, int *rank,
                              const char **reason)
{
    *rank = 0;
    *reason = NULL;
    if (is_same(a, b)) return LS_PAIR_LOCAL;
    *reason = "--p2p off";
    if (p2p == LS_P2P_OFF) return LS_PAIR_STAGED;
    *reason = "they are of different kinds";
    if (a->kind != b->kind) return LS_PAIR_STAGED;
    if (a->kind == LS_DEVICE_CUDA) {
        if (!ls_cuda_pair_is_proven(a->ordinal, b->ordinal, reason)) return LS_PAIR_STAGED;
        *rank = ls_cuda_pair_rank(a->ordinal, b->ordinal);
    }
    *reason = NULL;
    return LS_PAIR_PEER;
}

/* Apply the GPUs' limits. Host devices have none. */
static void limit_partners(ls_topology *topology, ls_device *const *device)
{
    const int count = topology->count;
    int device_of[LS_WORLD_MAX] = { 0 }, partner_max[LS_WORLD_MAX] = { 0 };
    bool dropped[LS_WORLD_MAX * LS_WORLD_MAX] = { false };
    for (int r = 0; r < count; r++) {
        int first = 0; /* a device is named by the first rank on it */
        while (!is_same(device[first], device[r])) first++;
        device_of[r] = first;
        const bool gpu = device[r]->kind == LS_DEVICE_CUDA;
        partner_max[r] = gpu ? ls_cuda_partner_max(device[r]->ordinal) : LS_WORLD_MAX;
    }
    ls_pairs_limit(topology->pair, topology->ring, count, device_of, partner_max, dropped);
    for (int i = 0; i < count * count; i++)
        if (dropped[i]) topology->reason[i] = "one of them has as many partners as it can";
}

static void note_speeds(ls_topology *topology, ls_device *const *device)
{
    const int count = topology->count;
    for (int i = 0; i < count * count; i++) {
        const ls_device *a = device[i / count], *b = device[i % count];
        if (topology->pair[i] == LS_PAIR_PEER && a->kind == LS_DEVICE_CUDA)
            (void)ls_cuda_speed_of(a->ordinal, b->ordinal, &topology->speed[i]);
    }
}

ls_status ls_topology_init(ls_topology *topology, ls_device *const *device, int count, ls_p2p p2p)
{
    assert(1 <= count && count <= LS_WORLD_MAX);
    int rank[LS_WORLD_MAX * LS_WORLD_MAX];
    memset(topology, 0, sizeof *topology);
    topology->count = count;
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++)
            topology->pair[a * count + b] = pair_kind(device[a], device[b], p2p,
                                                      &rank[a * count + b],
                                                      &topology->reason[a * count + b]);
    ls_ring_choose(topology->pair, rank, count, topology->ring);
    assert(ls_ring_is_whole(topology->ring, count));
    limit_partners(topology, device);
    note_speeds(topology, device);
    for (int i = 0; i < count * count && p2p == LS_P2P_ON; i++)
        if (topology->pair[i] == LS_PAIR_STAGED)
            return ls_fail(LS_ERR_DEVICE, "--p2p on: %s cannot reach %s directly: %s",
                           device[i / count]->name, device[i % count]->name,
                           topology->reason[i]);
    return LS_OK;
}

const char *ls_pair_kind_name(ls_pair_kind kind)
{
    switch (kind) {
    case LS_PAIR_LOCAL: return "LOCAL";
    case LS_PAIR_PEER: return "PEER";
    case LS_PAIR_STAGED: return "STAGED";
    }
    return "UNKNOWN";
}
