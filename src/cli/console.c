/* SPDX-License-Identifier: MIT */
/* console.c -- progress lines. See console.h.
 *
 *     epoch  3/10  [=======>....]  520/782  0:02 left  loss 1.2345  accuracy 0.5601
 *     epoch  3/10  loss 1.2101  accuracy 0.5689  val_loss 1.3002  val_accuracy 0.5411  ...
 */
#include "cli/console.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/report.h"
#include "cli/signals.h"
#include "printable.h"
#include "thread.h"

#define REDRAW_SECONDS 0.1
enum { BAR_CELLS_MAX = 24, LINE_BYTES = 256, TEXT_COLUMNS = 72 };

void ls_console_init(ls_console *console)
{
    const char *terminal = getenv("TERM");
    const bool is_dumb = terminal && strcmp(terminal, "dumb") == 0;
    *console = (ls_console){ .is_live = isatty(STDOUT_FILENO) == 1 && !is_dumb };
}

const char *ls_readable(double x, char out[LS_READABLE_BYTES])
{
    const double size = fabs(x);
    snprintf(out, LS_READABLE_BYTES, size != 0 && (size < 1e-3 || size >= 1e7) ? "%.4e" : "%.4f",
             ls_printable(x));
    return out;
}

void ls_console_clear(ls_console *console)
{
    if (!console->is_drawn) return;
    fputs("\r\033[K", stdout); /* to the line's start, erase to its end */
    fflush(stdout);
    console->is_drawn = false;
}

/* " 3/10", or "3" where the end is not counted in epochs. */
static void epoch_text(uint64_t epoch, uint64_t epochs, char out[48])
{
    if (epochs == 0) {
        snprintf(out, 48, "%" PRIu64, epoch);
        return;
    }
    char last[24];
    const int width = snprintf(last, sizeof last, "%" PRIu64, epochs);
    snprintf(out, 48, "%*" PRIu64 "/%s", width, epoch, last);
}

static void print_value(FILE *out, const char *prefix, const char *name, double value)
{
    char text[LS_READABLE_BYTES];
    if (!isnan(value)) fprintf(out, "  %s%s %s", prefix, name, ls_readable(value, text));
}

void ls_console_print_epoch(FILE *out, const ls_history_line *line, uint64_t epochs)
{
    char place[48];
    epoch_text(line->epoch, epochs, place);
    fprintf(out, "epoch %s", place);
    print_value(out, "", "loss", line->loss);
    for (int m = 0; m < line->metric_count; m++) {
        print_value(out, "", line->metric_name[m], line->metric[m]);
    }
    print_value(out, "val_", "loss", line->val_loss);
    for (int m = 0; m < line->metric_count; m++) {
        print_value(out, "val_", line->metric_name[m], line->val_metric[m]);
    }
    if (!isnan(line->samples_per_second)) {
        fprintf(out, "  %.0f samples/s", line->samples_per_second);
    }
    if (!isnan(line->seconds)) fprintf(out, "  %.1f s", line->seconds);
    if (line->seconds >= LS_INPUT_BOUND_SECONDS && line->input_share >= LS_INPUT_BOUND_SHARE) {
        fprintf(out, "  input-bound by %.0f %%", 100 * line->input_share);
    }
    fputc('\n', out);
}

/* -- the observer --------------------------------------------------------------------------- */

static void on_plan(void *context, const ls_train_plan *plan)
{
    ls_console *console = context;
    console->effective = *plan->config;
    ls_report_plan(stdout, plan);
    fflush(stdout);
}

/* Seconds as "1:02:03" or "2:03". */
static void duration_text(double seconds, char out[32])
{
    const uint64_t s = seconds > 0 && seconds < 1e15 ? (uint64_t)(seconds + 0.5) : 0;
    if (s >= 3600) {
        snprintf(out, 32, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
    } else {
        snprintf(out, 32, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
    }
}

/* Columns of the terminal; a line that wraps could not be redrawn. */
static int terminal_columns(void)
{
    struct winsize size = { .ws_col = 0 };
    const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    const int columns = is_known ? size.ws_col : 80;
    return columns < LINE_BYTES ? columns : LINE_BYTES - 1;
}

/* "[=====>....]" of as many cells as fit beside the text, or nothing. */
static void draw_bar(double part, int columns, char out[BAR_CELLS_MAX + 8])
{
    const int room = columns - TEXT_COLUMNS;
    const int cells = room < BAR_CELLS_MAX ? room : BAR_CELLS_MAX;
    out[0] = '\0';
    if (cells < 4) return;
    const int done = (int)(part * cells);
    char bar[BAR_CELLS_MAX + 1];
    memset(bar, '.', (size_t)cells);
    memset(bar, '=', (size_t)done);
    if (done < cells) bar[done] = '>';
    snprintf(out, BAR_CELLS_MAX + 8, "[%.*s]  ", cells, bar);
}

static void on_step(void *context, const ls_step_report *report)
{
    ls_console *console = context;
    const double now = ls_clock();
    if (!console->is_live || now - console->drawn_at < REDRAW_SECONDS) return;
    console->drawn_at = now;
    console->is_drawn = true;

    char bar[BAR_CELLS_MAX + 8], place[48], loss[LS_READABLE_BYTES], left[32], line[LINE_BYTES];
    char metric[LS_READABLE_BYTES];
    const int columns = terminal_columns();
    const double total = (double)(report->steps_per_epoch ? report->steps_per_epoch : 1);
    const double part = fmin((double)report->step_of_epoch / total, 1);
    draw_bar(part, columns, bar);
    epoch_text(report->epoch, report->epochs, place);
    duration_text(report->seconds * (1 - part) / fmax(part, 1e-9), left);
    int n = snprintf(line, sizeof line, "epoch %s  %s%" PRIu64 "/%" PRIu64 "  %s left  loss %s",
                     place, bar, report->step_of_epoch, report->steps_per_epoch, left,
                     ls_readable(report->epoch_loss, loss));
    if (!isnan(report->epoch_metric) && n < LINE_BYTES) {
        snprintf(line + n, sizeof line - (size_t)n, "  %s %s", report->metric_name,
                 ls_readable(report->epoch_metric, metric));
    }
    printf("\r%.*s\033[K", columns - 1, line);
    fflush(stdout);
}

static void on_epoch(void *context, const ls_history_line *line, uint64_t epochs)
{
    ls_console *console = context;
    ls_console_clear(console);
    ls_console_print_epoch(stdout, line, epochs);
    fflush(stdout);
}

static void on_explain(void *context, const char *text)
{
    ls_console_clear(context);
    fputs(text, stdout);
    fflush(stdout);
}

static void on_note(void *context, const char *text)
{
    ls_console_clear(context);
    fprintf(stderr, "lockstep: %s\n", text);
}

ls_observer ls_console_observer(ls_console *console)
{
    return (ls_observer){ .plan = on_plan, .step = on_step, .epoch = on_epoch,
                          .explain = on_explain, .note = on_note,
                          .should_stop = ls_signals_should_stop, .stuck = ls_console_leave,
                          .context = console };
}

void ls_console_error(void)
{
    fflush(stdout);
    fprintf(stderr, "lockstep: %s [%s]\n", ls_last_error(), ls_last_error_place());
}

void ls_console_leave(void)
{
    ls_console_error();
    _exit(ls_exit_code(LS_ERR_DEVICE));
}

ls_status ls_console_print_json(ls_json_writer *json)
{
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_json_write_end(json, &text, &bytes));
    fwrite(text, 1, bytes, stdout);
    putchar('\n');
    free(text);
    return LS_OK;
}
