/* SPDX-License-Identifier: MIT */
/* bench_allreduce.c -- `lockstep bench allreduce`: time, bandwidth and wrong elements by size.
 *
 * The table is that of nccl-tests [NVIDIA, "NCCL Tests", doc/PERFORMANCE.md]:
 *
 *     algbw = size / time
 *     busbw = algbw * 2 (N - 1) / N
 *
 * busbw is what each replica's link carries in an all-reduce that sends no byte too many, so it can
 * be compared with the link's speed whatever N is. Under --order exact pieces travel in the first
 * half, and the bytes on the wire may be more than that; the formula stays the same.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench.h"
#include "cli/bench_exchange.h"
#include "cli/console.h"
#include "plural.h"

enum { FLAG_MIN, FLAG_MAX, FLAG_FACTOR, FLAG_ITERATIONS, FLAG_OFFSET, FLAG_JSON };
enum { SIZES_MAX = 64 };

static const double BYTES_MAX = 17179869184.0; /* 16 GiB */

typedef struct {
    ls_config config;
    ls_device_list list;
    ls_exchange exchange;
    size_t count[SIZES_MAX];
    bool is_json;
    ls_json_writer json;
    double busbw_sum;     /* GB/s, over all rows and both halves */
    uint64_t wrong_count;
    int row_count;
} bench;

/* -- what is asked for ------------------------------------------------------------------------- */

/* min, min * factor, ... and none above max. */
static int list_sizes(uint64_t min, uint64_t max, uint64_t factor, size_t count[SIZES_MAX])
{
    int n = 0;
    for (uint64_t bytes = min; bytes <= max && n < SIZES_MAX; bytes *= factor)
        count[n++] = (size_t)(bytes / sizeof(float));
    return n;
}

static ls_status read_sizes(const ls_invocation *v, bench *b)
{
    uint64_t min = 0, max = 0;
    int factor = 0, offset = 0;
    ls_exchange *x = &b->exchange;
    LS_TRY(ls_bench_bytes(v, FLAG_MIN, sizeof(float), BYTES_MAX, 4096, &min));
    LS_TRY(ls_bench_bytes(v, FLAG_MAX, sizeof(float), BYTES_MAX, 4 << 20, &max));
    LS_TRY(ls_flag_count(v, FLAG_FACTOR, 2, 1024, 4, &factor));
    LS_TRY(ls_flag_count(v, FLAG_ITERATIONS, 1, 10000, 10, &x->repetitions));
    LS_TRY(ls_flag_count(v, FLAG_OFFSET, 0, 31, 0, &offset));
    if (min > max && !v->flag[FLAG_MAX]) max = min;
    if (min > max && !v->flag[FLAG_MIN]) min = max;
    if (min > max) {
        return ls_fail(LS_ERR_ARGUMENT, "--min %s is more than --max %s", v->flag[FLAG_MIN],
                       v->flag[FLAG_MAX]);
    }
    x->count_count = list_sizes(min, max, (uint64_t)factor, b->count);
    x->count = b->count;
    x->count_max = b->count[x->count_count - 1];
    x->offset = (size_t)offset;
    return LS_OK;
}

/* -- what came out ----------------------------------------------------------------------------- */

static double algbw(size_t count, const ls_exchange_result *result)
{
    const double bytes = (double)count * sizeof(float);
    return result->seconds > 0 ? bytes / result->seconds * 1e-9 : 0;
}

static double busbw(const bench *b, size_t count, const ls_exchange_result *result)
{
    const double n = b->list.count;
    return algbw(count, result) * 2 * (n - 1) / n;
}

static void print_heading(const bench *b)
{
    const ls_exchange *x = &b->exchange;
    printf("# %d replica%s (%s)\n# %s; order %s; %d shard%s; offset %zu float%s\n", b->list.count,
           LS_PLURAL(b->list.count), b->list.reason, ls_comm_reason(x->comm),
           ls_order_name(b->config.order), x->shard_count, LS_PLURAL(x->shard_count), x->offset,
           LS_PLURAL(x->offset));
    printf("# pairs in the ring:");
    for (int i = 0; i < b->list.count; i++) {
        const int from = x->topology.ring[i], to = x->topology.ring[(i + 1) % b->list.count];
        printf(" %d-%s->%d", from,
               ls_pair_kind_name(x->topology.pair[from * b->list.count + to]), to);
    }
    printf("\n# time: median of %d, each the slowest replica's; busbw = algbw * 2 (N - 1) / N;"
           " GB = 1e9 bytes\n#\n", x->repetitions);
    printf("#%31s%s%26s%s\n", "", "out of place", "", "in place");
    printf("#%11s %10s  %9s %7s %7s %6s  %9s %7s %7s %6s\n", "size", "count", "time", "algbw",
           "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
    printf("#%11s %10s  %9s %7s %7s %6s  %9s %7s %7s\n", "(B)", "(floats)", "(us)", "(GB/s)",
           "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)");
    fflush(stdout);
}

static void print_half(const bench *b, size_t count, const ls_exchange_result *result)
{
    printf("  %9.1f %7.2f %7.2f %6" PRIu64, result->seconds * 1e6, algbw(count, result),
           busbw(b, count, result), result->wrong_count);
}

static void write_half(bench *b, const char *key, size_t count, const ls_exchange_result *result)
{
    ls_json_writer *json = &b->json;
    ls_json_write_key(json, key);
    ls_json_write_open(json, '{');
    ls_json_member_number(json, "time_us", result->seconds * 1e6);
    ls_json_member_number(json, "algbw_gb_s", algbw(count, result));
    ls_json_member_number(json, "busbw_gb_s", busbw(b, count, result));
    ls_json_member_count(json, "wrong", result->wrong_count);
    ls_json_write_close(json, '}');
}

static void write_row(bench *b, const ls_exchange_row *row)
{
    ls_json_writer *json = &b->json;
    ls_json_write_open(json, '{');
    ls_json_member_count(json, "bytes", row->count * sizeof(float));
    ls_json_member_count(json, "count", row->count);
    write_half(b, "out_of_place", row->count, &row->out_of_place);
    write_half(b, "in_place", row->count, &row->in_place);
    ls_json_write_close(json, '}');
}

static void on_row(void *context, const ls_exchange_row *row)
{
    bench *b = context;
    b->wrong_count += row->out_of_place.wrong_count + row->in_place.wrong_count;
    b->busbw_sum += busbw(b, row->count, &row->out_of_place) +
                    busbw(b, row->count, &row->in_place);
    b->row_count++;
    if (b->is_json) {
        write_row(b, row);
        return;
    }
    printf("%12zu %10zu", row->count * sizeof(float), row->count);
    print_half(b, row->count, &row->out_of_place);
    print_half(b, row->count, &row->in_place);
    printf("\n");
    fflush(stdout);
}

/* All but the rows, which come while the ranks run. */
static void begin_json(bench *b)
{
    ls_json_writer *json = &b->json;
    const ls_exchange *x = &b->exchange;
    ls_json_write_open(json, '{');
    ls_json_member_string(json, "bench", "allreduce");
    ls_json_write_key(json, "devices");
    ls_json_write_open(json, '[');
    for (int r = 0; r < b->list.count; r++) ls_json_write_string(json, x->rank[r].device->name);
    ls_json_write_close(json, ']');
    ls_json_member_string(json, "algorithm", ls_comm_reason(x->comm));
    ls_json_member_string(json, "order", ls_order_name(b->config.order));
    ls_json_member_count(json, "shards", (uint64_t)x->shard_count);
    ls_json_member_count(json, "offset_floats", x->offset);
    ls_json_member_count(json, "iterations", (uint64_t)x->repetitions);
    ls_json_write_key(json, "rows");
    ls_json_write_open(json, '[');
}

static ls_status end_report(bench *b)
{
    if (b->is_json) {
        ls_json_write_close(&b->json, ']');
        ls_json_write_key(&b->json, "wrong");
        ls_json_write_count(&b->json, b->wrong_count);
        ls_json_write_close(&b->json, '}');
        return ls_console_print_json(&b->json);
    }
    printf("# wrong elements: %" PRIu64 "\n# mean busbw: %.2f GB/s\n", b->wrong_count,
           b->busbw_sum / (2 * b->row_count));
    return LS_OK;
}

/* -- the command ------------------------------------------------------------------------------- */

static ls_status measure(bench *b)
{
    LS_TRY(ls_exchange_open(&b->exchange));
    if (b->is_json) begin_json(b);
    else print_heading(b);
    LS_TRY(ls_exchange_run(&b->exchange));
    LS_TRY(end_report(b));
    if (b->wrong_count == 0) return LS_OK;
    return ls_fail(LS_ERR_VERIFY, "%" PRIu64 " elements are not the sum", b->wrong_count);
}

static ls_status run_bench_allreduce(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    bench b = { .is_json = v->flag[FLAG_JSON] != NULL };
    ls_config_init(&b.config);
    LS_TRY(ls_invocation_config(v, &b.config));
    LS_TRY(read_sizes(v, &b));
    LS_TRY(ls_device_list_parse(b.config.devices, b.config.p2p, &b.list));
    b.exchange.config = &b.config;
    b.exchange.list = &b.list;
    b.exchange.shard_count = ls_config_is_given(&b.config, ls_option_find("shards"))
                                 ? b.config.shards
                                 : b.list.count;
    b.exchange.on_row = on_row;
    b.exchange.context = &b;
    const ls_status status = measure(&b);
    ls_record cause;
    ls_record_keep(&cause);
    ls_exchange_close(&b.exchange);
    free(b.json.text);
    ls_record_restore(&cause);
    return status;
}

static const char *const bench_allreduce_options[] = { "devices", "threads", "allreduce", "p2p",
                                                       "shards", "order", "timeout", NULL };

const ls_command ls_command_bench_allreduce = {
    .name = "bench allreduce",
    .arguments = "[--devices LIST] [option ...]",
    .summary = "time, bandwidth and wrong elements of the all-reduce, by size",
    .about =
        "The conventions are those of nccl-tests: for each size, out of place and in place, the\n"
        "time, algbw = size / time, busbw = algbw * 2 (N - 1) / N, and how many elements, over\n"
        "all replicas and iterations, are not the sum. The inputs have a known sum: element i of\n"
        "shard s is (s + 1) * (i mod 7 + 1). There are as many shards as replicas unless --shards\n"
        "says more; then a replica brings several pieces, as it does in training. Exit code 4 if\n"
        "an element is wrong.\n",
    .takes = bench_allreduce_options,
    .own_default = { { "shards", "as many as replicas" } },
    .flag = {
        [FLAG_MIN] = { "min", "BYTES", "the smallest buffer; K, M and G may follow (default 4K)" },
        [FLAG_MAX] = { "max", "BYTES", "the largest (default 4M)" },
        [FLAG_FACTOR] = { "factor", "F", "from a size to the next (default 4)" },
        [FLAG_ITERATIONS] = { "iterations", "K", "measured per row, after one that warms up "
                              "(default 10)" },
        [FLAG_OFFSET] = { "offset", "F", "floats by which the buffers are off 128 bytes "
                          "(default 0)" },
        [FLAG_JSON] = { "json", NULL, "print JSON in place of the table" },
    },
    .run = run_bench_allreduce,
};
