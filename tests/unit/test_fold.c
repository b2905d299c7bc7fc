/* SPDX-License-Identifier: MIT */
/* test_fold.c -- fold.c: every plan, executed on names, gives exactly the nodes of the tree. */
#include "support/test.h"

#include <stdio.h>

#include "kernels/fold.h"

/* What the sum in a slot is made of, as text: leaf 5 is "5", a sum is "(left+right)". Two sums are
 * the same bits if their texts are equal up to the order of the two sides, so texts are built with
 * the lower shard on the left. */
enum { NAME_BYTES = 1024 };
typedef struct {
    char text[NAME_BYTES]; /* "" : nothing lives here */
    int first;             /* the lowest shard in it */
} name;

static void leaf_name(name *out, int shard)
{
    snprintf(out->text, sizeof out->text, "%d", shard);
    out->first = shard;
}

static void sum_name(name *out, const name *a, const name *b)
{
    const name *left = a->first < b->first ? a : b, *right = left == a ? b : a;
    name sum = {.first = left->first};
    snprintf(sum.text, sizeof sum.text, "(%.500s+%.500s)", left->text, right->text);
    *out = sum;
}

/* The canonical tree over [begin, begin + count), by its definition. */
static void tree_name(name *out, int begin, int count)
{
    if (count == 1) {
        leaf_name(out, begin);
        return;
    }
    int half = 1;
    while (half * 2 < count) half *= 2;
    name left, right;
    tree_name(&left, begin, half);
    tree_name(&right, begin + half, count - half);
    sum_name(out, &left, &right);
}

/* All nodes of the canonical tree, by its definition. */
static int all_nodes(ls_node at, ls_node *out, int count)
{
    out[count++] = at;
    if (at.count == 1) return count;
    int half = 1;
    while (half * 2 < at.count) half *= 2;
    count = all_nodes((ls_node){at.begin, half}, out, count);
    return all_nodes((ls_node){at.begin + half, at.count - half}, out, count);
}

/* Maximal nodes inside [begin, end), the slow way: at each place the largest that fits. */
static int maximal_nodes(int begin, int end, int V, ls_node *out)
{
    ls_node all[2 * LS_SHARD_MAX];
    const int count = all_nodes((ls_node){0, V}, all, 0);
    int found = 0;
    for (int at = begin; at < end;) {
        ls_node best = {at, 0};
        for (int i = 0; i < count; i++) {
            if (all[i].begin == at && at + all[i].count <= end && all[i].count > best.count) {
                best = all[i];
            }
        }
        assert_true(best.count > 0);
        out[found++] = best;
        at += best.count;
    }
    return found;
}

typedef struct {
    int V, N, rank, A;
    size_t samples;
} plan_case;

#define FAIL_CASE(c, what)                                                                        \
    fail_msg("%s: V %d N %d rank %d A %d samples %zu", what, (c)->V, (c)->N, (c)->rank, (c)->A,   \
             (c)->samples)

static size_t shard_samples(const plan_case *c, int shard)
{
    return (size_t)(shard + 1) * c->samples / (size_t)c->V
           - (size_t)shard * c->samples / (size_t)c->V;
}

/* Execute one pass on names. Returns the shards met. */
static int execute_pass(const plan_case *c, const ls_fold *fold, int pass, name *slot, bool *seen)
{
    if (fold->sample[0] != 0) FAIL_CASE(c, "a pass does not begin at row 0");
    for (int i = 0; i < fold->leaf_count; i++) {
        const int shard = fold->shard[i];
        if (shard % c->A != pass || seen[shard]) FAIL_CASE(c, "a shard in a wrong pass, or twice");
        if (i > 0 && shard <= fold->shard[i - 1]) FAIL_CASE(c, "shards do not ascend");
        seen[shard] = true;
        if (fold->sample[i + 1] - fold->sample[i] != shard_samples(c, shard)) {
            FAIL_CASE(c, "a leaf's rows are not its shard's samples");
        }
        name t;
        leaf_name(&t, shard);
        for (int m = 0; m < fold->merge_count[i]; m++) {
            name *from = &slot[fold->merge[i][m]];
            if (fold->merge[i][m] >= fold->slot_count || from->text[0] == '\0') {
                FAIL_CASE(c, "merge with an empty slot");
            }
            sum_name(&t, from, &t);
            from->text[0] = '\0';
        }
        if (fold->store[i] >= fold->slot_count || slot[fold->store[i]].text[0] != '\0') {
            FAIL_CASE(c, "a live slot is overwritten");
        }
        slot[fold->store[i]] = t;
    }
    for (int s = fold->piece_count; s < fold->slot_count; s++) {
        if (slot[s].text[0] != '\0') FAIL_CASE(c, "a temporary outlives its pass");
    }
    return fold->leaf_count;
}

static void check_final(const plan_case *c, const ls_fold_plan *plan, const name *slot, int begin,
                        int end)
{
    ls_node want[2 * LS_SHARD_MAX];
    const int count = maximal_nodes(begin, end, c->V, want);
    if (count != plan->final_count) FAIL_CASE(c, "number of final pieces");
    int live = 0;
    for (int s = 0; s < plan->piece_count; s++) live += slot[s].text[0] != '\0';
    if (live != count) FAIL_CASE(c, "pieces left over");
    for (int i = 0; i < count; i++) {
        name tree;
        tree_name(&tree, want[i].begin, want[i].count);
        if (plan->final_node[i].begin != want[i].begin || plan->final_node[i].count != want[i].count
            || strcmp(slot[plan->final_slot[i]].text, tree.text) != 0) {
            FAIL_CASE(c, "a final piece is not the tree's node");
        }
    }
    if (c->A == 1 && plan->piece_count != count) FAIL_CASE(c, "more pieces than needed");
}

static void check_plan(const plan_case *c)
{
    static ls_fold_plan plan;
    ls_fold_plan_init(&plan, c->V, c->N, c->rank, c->A, c->samples);
    const int begin = c->rank * c->V / c->N, end = (c->rank + 1) * c->V / c->N;
    static name slot[256];
    bool seen[LS_SHARD_MAX] = {false};
    for (int s = 0; s < 256; s++) slot[s].text[0] = '\0';
    if (plan.pass_count != c->A) FAIL_CASE(c, "number of passes");
    int met = 0;
    for (int k = 0; k < c->A; k++) {
        const ls_fold *fold = &plan.pass[k];
        if (fold->piece_count != plan.piece_count) FAIL_CASE(c, "passes differ in pieces");
        met += execute_pass(c, fold, k, slot, seen);
        for (size_t row = 0; row < fold->sample[fold->leaf_count]; row++) {
            int leaf = 0;
            while (row >= fold->sample[leaf + 1]) leaf++;
            const size_t first = (size_t)fold->shard[leaf] * c->samples / (size_t)c->V;
            if (ls_fold_sample_at(&plan, k, row, c->V, c->samples)
                != first + (row - fold->sample[leaf])) {
                FAIL_CASE(c, "a row is another sample");
            }
        }
    }
    if (met != end - begin) FAIL_CASE(c, "a shard was left out");
    for (int s = begin; s < end; s++) {
        if (!seen[s]) FAIL_CASE(c, "a foreign shard was met");
    }
    check_final(c, &plan, slot, begin, end);
    if (plan.sample_begin != (size_t)begin * c->samples / (size_t)c->V
        || plan.sample_begin + plan.sample_count != (size_t)end * c->samples / (size_t)c->V) {
        FAIL_CASE(c, "the rank's samples");
    }
}

static const int shard_counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                   12, 13, 14, 15, 16, 17, 24, 32, 64};
enum { SHARD_COUNTS = sizeof shard_counts / sizeof shard_counts[0] };

/* For small V everything; for large V every N with some A, and every A with some N. */
static void test_every_plan_gives_the_nodes_of_the_tree(void **state)
{
    (void)state;
    for (int i = 0; i < SHARD_COUNTS; i++) {
        const int V = shard_counts[i];
        for (int N = 1; N <= V; N++) {
            for (int A = 1; A <= V; A++) {
                if (V > 17 && A > 4 && A % 7 != 0 && A != V && N > 3) continue;
                if (V > 32 && N > 8 && N % 9 != 0 && N != V) continue;
                for (int rank = 0; rank < N; rank++) {
                    if (V > 17 && rank > 4 && rank % 5 != 0 && rank != N - 1) continue;
                    check_plan(&(plan_case){V, N, rank, A, (size_t)(3 * V + N)});
                }
            }
        }
    }
}

static void test_shards_may_be_empty(void **state)
{
    (void)state;
    for (int V = 1; V <= 17; V++) {
        for (size_t samples = 0; samples <= (size_t)V + 1; samples++) {
            for (int rank = 0; rank < (V + 1) / 2; rank++) {
                check_plan(&(plan_case){V, (V + 1) / 2, rank, (V + 2) / 3, samples});
            }
        }
    }
}

static void test_slots_do_not_depend_on_the_number_of_samples(void **state)
{
    (void)state;
    static ls_fold_plan a, b;
    for (int N = 1; N <= 8; N++) {
        for (int A = 1; A <= 8; A++) {
            ls_fold_plan_init(&a, 8, N, N - 1, A, 64);
            ls_fold_plan_init(&b, 8, N, N - 1, A, 5);
            assert_int_equal(a.piece_count, b.piece_count);
            assert_int_equal(a.final_count, b.final_count);
            assert_memory_equal(a.final_slot, b.final_slot, sizeof a.final_slot);
            for (int k = 0; k < A; k++) {
                assert_memory_equal(a.pass[k].store, b.pass[k].store, sizeof a.pass[k].store);
                assert_memory_equal(a.pass[k].merge, b.pass[k].merge, sizeof a.pass[k].merge);
            }
        }
    }
}

/* The two examples of fold.h. */
static void test_the_documented_examples(void **state)
{
    (void)state;
    static ls_fold_plan plan;
    ls_fold_plan_init(&plan, 8, 1, 0, 1, 64);
    assert_int_equal(plan.piece_count, 1);
    assert_int_equal(plan.pass[0].slot_count, 4);
    const unsigned char merges[8] = {0, 1, 0, 2, 0, 1, 0, 3}, stores[8] = {1, 1, 2, 1, 2, 2, 3, 0};
    assert_memory_equal(plan.pass[0].merge_count, merges, sizeof merges);
    assert_memory_equal(plan.pass[0].store, stores, sizeof stores);
    ls_fold_plan_init(&plan, 8, 1, 0, 2, 64);
    assert_int_equal(plan.piece_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(plan.pass[0].shard[i], 2 * i);
        assert_int_equal(plan.pass[0].store[i], i);
        assert_int_equal(plan.pass[1].shard[i], 2 * i + 1);
        assert_int_equal(plan.pass[1].merge[i][0], i);
    }
}

static void test_a_sibling_is_the_other_half_of_the_parent(void **state)
{
    (void)state;
    for (int V = 1; V <= LS_SHARD_MAX; V++) {
        ls_node all[2 * LS_SHARD_MAX];
        const int count = all_nodes((ls_node){0, V}, all, 0);
        for (int i = 0; i < count; i++) {
            const ls_node s = ls_node_sibling(all[i], V);
            if (all[i].count == V) {
                assert_int_equal(s.count, 0);
                continue;
            }
            const ls_node back = ls_node_sibling(s, V);
            assert_true(back.begin == all[i].begin && back.count == all[i].count);
            /* Together they are a node. */
            const int begin = s.begin < all[i].begin ? s.begin : all[i].begin;
            bool is_node = false;
            for (int k = 0; k < count; k++) {
                is_node |= all[k].begin == begin && all[k].count == s.count + all[i].count;
            }
            assert_true(is_node);
        }
    }
}

static void test_a_cover_is_the_maximal_nodes(void **state)
{
    (void)state;
    for (int V = 1; V <= LS_SHARD_MAX; V++) {
        for (int begin = 0; begin < V; begin++) {
            for (int end = begin; end <= V; end++) {
                ls_node got[2 * LS_SHARD_MAX], want[2 * LS_SHARD_MAX] = {{0, 0}};
                const int count = ls_node_cover(begin, end - begin, V, got);
                assert_int_equal(count, maximal_nodes(begin, end, V, want));
                for (int i = 0; i < count; i++) {
                    assert_int_equal(got[i].begin, want[i].begin);
                    assert_int_equal(got[i].count, want[i].count);
                }
                assert_true(count <= LS_FOLD_MERGE_MAX * 2);
            }
        }
    }
}

static void test_a_slice_is_whole_rows_of_about_a_thousand_places(void **state)
{
    (void)state;
    assert_int_equal(ls_slice_rows(0), 1);
    assert_int_equal(ls_slice_rows(1), 1024);
    assert_int_equal(ls_slice_rows(30), 34);
    assert_int_equal(ls_slice_rows(512), 2);
    assert_int_equal(ls_slice_rows(513), 1);
    assert_int_equal(ls_slice_rows(1024), 1);
    assert_int_equal(ls_slice_rows(5000), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_plan_gives_the_nodes_of_the_tree),
        cmocka_unit_test(test_shards_may_be_empty),
        cmocka_unit_test(test_slots_do_not_depend_on_the_number_of_samples),
        cmocka_unit_test(test_the_documented_examples),
        cmocka_unit_test(test_a_sibling_is_the_other_half_of_the_parent),
        cmocka_unit_test(test_a_cover_is_the_maximal_nodes),
        cmocka_unit_test(test_a_slice_is_whole_rows_of_about_a_thousand_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
