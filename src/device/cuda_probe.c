/* SPDX-License-Identifier: MIT */
/* cuda_probe.c -- asks a child process which pairs of GPUs really reach each other, and remembers.
 *
 * A pair may be allowed by the driver and still deliver nothing, zeros, or a bit too few: an IOMMU
 * that translates peer addresses, a container without the right device, a broken bridge. Some of
 * these end in a fault that makes the process useless. So pairs are tried before anything depends
 * on them, by a child (cuda_probe_child.c), started before this process initialises the driver: a
 * child of a process that uses GPUs must not be a fork of it, and on a GPU that allows one process
 * at a time only one of the two can be using it.
 *
 *     this process                              child
 *     posix_spawn of /proc/self/exe  ------->   opens the GPUs, probes pair by pair
 *     reads lines from a pipe        <-------   "try 3", "yes 3 0", "try 4" ...
 *     silence or end after "try 4":
 *       pair 4 is refused, kill, wait,
 *       another child from pair 5
 *
 * All of it ends PROBE_SECONDS after the first child has told its GPUs; what is not proven by then
 * is refused. Until then the driver wakes the GPUs: where nothing keeps them awake that takes a
 * second or two for each, and says nothing about their links.
 *
 * The child is this very program. A constructor recognises it, and not main, so that whatever links
 * this file -- the program, a test, a benchmark -- can probe, and runs nothing else when it is the
 * child.
 *
 * Thread rule: ls_cuda_probe is called by the main thread before ranks exist; what it learned is
 * constant after.
 */
#define _GNU_SOURCE /* pipe2 */

#include "device/cuda_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cuda.h"
#include "device/cuda_context.h"
#include "device/cuda_driver.h"
#include "thread.h"

enum {
    START_SECONDS = 60, /* of the first child, up to its first line */
    PROBE_SECONDS = 20, /* in all, from there on */
    SILENT_SECONDS = 8, /* between two lines */
    GPU_MAX = LS_CUDA_GPU_MAX,
    WHY_BYTES = 320
};

extern char **environ;

/* What is known of the pairs. The only state of this file; see the thread rule. */
static struct {
    bool all;                       /* every pair there is has been asked for */
    struct {
        bool known, proven;
        int rank;
        char why_not[WHY_BYTES];
    } pair[GPU_MAX][GPU_MAX];
    ls_cuda_speed speed[GPU_MAX + 1][GPU_MAX + 1]; /* [from][to], GPU_MAX the host; 0: unknown */
    int partner_max[GPU_MAX];       /* 0: no limit was found */
} learned;

__attribute__((constructor)) static void become_the_probe(void)
{
    const char *request = getenv(LS_CUDA_PROBE_VARIABLE);
    if (request != NULL) _exit(ls_cuda_probe_run(request));
}

/* -- one child --------------------------------------------------------------------------------- */

typedef struct {
    pid_t process;
    int descriptor;                     /* of the pipe's end that is read */
    char line[LS_CUDA_PROBE_LINE_BYTES]; /* what has come of the next line */
    size_t used;
} child;

/* Start a child for the list, from pair `first` on. False: it could not be started. */
static bool child_start(child *c, const char *list, int first)
{
    char request[64 + 4 * GPU_MAX];
    int ends[2];
    size_t count = 0;
    *c = (child){ .descriptor = -1 };
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    while (environ[count] != NULL) count++;
    char **environment = calloc(count + 2, sizeof *environment);
    posix_spawn_file_actions_t actions;
    bool started = false;
    if (environment != NULL && posix_spawn_file_actions_init(&actions) == 0) {
        /* The child's end gets a number that is not the original's, so that it is not closed. */
        const int theirs = ends[1] == 3 ? 4 : 3;
        memcpy(environment, environ, count * sizeof *environment);
        (void)snprintf(request, sizeof request, "%s=%d %d %s", LS_CUDA_PROBE_VARIABLE, theirs,
                       first, list);
        environment[count] = request;
        char *const arguments[] = { "lockstep-link-probe", NULL };
        started = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0) == 0 &&
                  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_RDWR, 0) == 0 &&
                  posix_spawn_file_actions_adddup2(&actions, ends[1], theirs) == 0 &&
                  posix_spawn(&c->process, "/proc/self/exe", &actions, NULL, arguments,
                              environment) == 0;
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    free(environment);
    (void)close(ends[1]);
    if (started) c->descriptor = ends[0];
    else (void)close(ends[0]);
    return started;
}

/* The next line, without its end; NULL if none came within `seconds` or none will come. */
static const char *child_line(child *c, double seconds, char line[LS_CUDA_PROBE_LINE_BYTES])
{
    const double deadline = ls_clock() + seconds;
    for (;;) {
        char *end = memchr(c->line, '\n', c->used);
        if (end != NULL) {
            const size_t length = (size_t)(end - c->line);
            memcpy(line, c->line, length);
            line[length] = '\0';
            c->used -= length + 1;
            memmove(c->line, end + 1, c->used);
            return line;
        }
        if (c->used == sizeof c->line) return NULL; /* no line is so long */
        const double left = deadline - ls_clock();
        struct pollfd wait = { .fd = c->descriptor, .events = POLLIN };
        if (left <= 0 || (poll(&wait, 1, (int)(left * 1000) + 1) < 0 && errno != EINTR))
            return NULL;
        if (wait.revents == 0) continue;
        const ssize_t got = read(c->descriptor, c->line + c->used, sizeof c->line - c->used);
        if (got <= 0) return NULL;
        c->used += (size_t)got;
    }
}

/* End the child, and say how it ended. One that even SIGKILL does not end within a second sits in
 * the kernel; it is left behind. */
static void child_end(child *c, bool silent, char how[WHY_BYTES])
{
    int status = 0;
    pid_t ended = 0;
    (void)close(c->descriptor);
    if (silent) (void)kill(c->process, SIGKILL);
    const double deadline = ls_clock() + 1;
    while (ended == 0 && ls_clock() < deadline) {
        ended = waitpid(c->process, &status, WNOHANG);
        if (ended == 0) (void)poll(NULL, 0, 1);
    }
    if (silent || ended != c->process)
        (void)snprintf(how, WHY_BYTES, "the probe hung");
    else if (WIFSIGNALED(status))
        (void)snprintf(how, WHY_BYTES, "the probe died of signal %d", WTERMSIG(status));
    else
        (void)snprintf(how, WHY_BYTES, "the probe ended early");
}

/* -- what it tells ----------------------------------------------------------------------------- */

typedef struct {
    int gpu[GPU_MAX]; /* as the child found them */
    int gpu_count;    /* -1: it has not said */
    int trying;       /* the pair that is being probed, or -1 */
    int next;         /* the first pair that nothing is known of */
    bool ended;
    double deadline;  /* ls_clock */
} progress;

static void refuse(const progress *p, int pair, const char *why)
{
    int from = 0, to = 0;
    ls_cuda_probe_pair_at(pair, p->gpu_count, &from, &to);
    from = p->gpu[from];
    to = p->gpu[to];
    learned.pair[from][to].known = true;
    learned.pair[from][to].proven = false;
    (void)snprintf(learned.pair[from][to].why_not, WHY_BYTES, "%s", why);
}

static void accept(const progress *p, int pair, int rank, ls_cuda_speed speed)
{
    int from = 0, to = 0;
    ls_cuda_probe_pair_at(pair, p->gpu_count, &from, &to);
    from = p->gpu[from];
    to = p->gpu[to];
    learned.pair[from][to].known = true;
    learned.pair[from][to].proven = true;
    learned.pair[from][to].rank = rank;
    learned.speed[from][to] = speed;
}

/* "host 2 55.1 8.0 53.2 9.1" */
static bool read_host(const char *line)
{
    int gpu = -1;
    ls_cuda_speed down, up;
    if (sscanf(line, "host %d %lf %lf %lf %lf", &gpu, &down.gb_per_s, &down.us, &up.gb_per_s,
               &up.us) != 5)
        return false;
    if (gpu < 0 || gpu >= GPU_MAX) return false;
    learned.speed[gpu][GPU_MAX] = down;
    learned.speed[GPU_MAX][gpu] = up;
    return true;
}

static void read_gpus(progress *p, const char *list)
{
    p->gpu_count = 0;
    for (char *end = NULL; p->gpu_count < GPU_MAX; list = end) {
        const long gpu = strtol(list, &end, 10);
        if (end == list || gpu < 0 || gpu >= GPU_MAX) return;
        p->gpu[p->gpu_count++] = (int)gpu;
    }
}

/* Take one line. False: it is none of those that a child writes. */
static bool read_line(progress *p, const char *line)
{
    int pair = 0, value = 0, at = 0;
    ls_cuda_speed speed = { 0 };
    if (strncmp(line, "gpus", 4) == 0) {
        if (p->gpu_count < 0) p->deadline = ls_clock() + PROBE_SECONDS;
        read_gpus(p, line + 4);
        return true;
    }
    if (strcmp(line, "end") == 0) {
        p->ended = true;
        return true;
    }
    if (sscanf(line, "limit %d %d", &pair, &value) == 2) {
        if (pair >= 0 && pair < GPU_MAX) learned.partner_max[pair] = value;
        return true;
    }
    if (strncmp(line, "host", 4) == 0) return read_host(line);
    const bool tries = sscanf(line, "try %d", &pair) == 1;
    const bool works = !tries && sscanf(line, "yes %d %d %lf %lf", &pair, &value, &speed.gb_per_s,
                                        &speed.us) == 4;
    if (!tries && !works && (sscanf(line, "no %d %n", &pair, &at) != 1 || at == 0)) return false;
    if (pair < 0 || pair >= ls_cuda_probe_pair_count(p->gpu_count)) return false;
    if (works) accept(p, pair, value, speed);
    else if (!tries) refuse(p, pair, line + at);
    p->trying = tries ? pair : -1;
    p->next = tries ? pair : pair + 1;
    return true;
}

/* Read what a child tells until it ends, goes silent or talks nonsense. */
static void listen_to(child *c, progress *p)
{
    char line[LS_CUDA_PROBE_LINE_BYTES];
    bool silent = true;
    p->trying = -1;
    for (bool started = false;; started = true) {
        const double begin = ls_clock(), left = p->deadline - begin;
        const double patience = started && left > SILENT_SECONDS ? SILENT_SECONDS : left;
        if (child_line(c, patience, line) == NULL) {
            silent = ls_clock() - begin >= patience;
            break;
        }
        if (!read_line(p, line) || p->ended) break;
    }
    char how[WHY_BYTES];
    child_end(c, silent && !p->ended, how);
    if (p->ended || p->trying < 0) return;
    refuse(p, p->trying, how);
    p->next = p->trying + 1;
}

/* -- the probe --------------------------------------------------------------------------------- */

/* "all" or "0,2,5": the list for a child; false if everything about it is known already. */
static bool write_list(const int *ordinal, int count, char *list, size_t bytes)
{
    bool known = true;
    size_t used = 0;
    if (count == 0) {
        (void)snprintf(list, bytes, "all");
        return !learned.all;
    }
    if (count == 1)
        known = ordinal[0] >= GPU_MAX || learned.speed[ordinal[0]][GPU_MAX].gb_per_s > 0;
    for (int i = 0; i < count; i++) {
        if (ordinal[i] < 0 || ordinal[i] >= GPU_MAX) return false; /* there is none such */
        const int wrote = snprintf(list + used, bytes - used, i > 0 ? ",%d" : "%d", ordinal[i]);
        used += (size_t)wrote;
        for (int k = 0; k < count; k++)
            if (ordinal[k] != ordinal[i] && ordinal[k] >= 0 && ordinal[k] < GPU_MAX)
                known = known && learned.pair[ordinal[i]][ordinal[k]].known;
    }
    return !known;
}

void ls_cuda_probe(const int *ordinal, int count)
{
    char list[4 * GPU_MAX + 8];
    if (count > GPU_MAX || !write_list(ordinal, count, list, sizeof list)) return;
    if (!ls_cuda_driver_is_there()) return;
    progress p = { .gpu_count = -1, .trying = -1, .deadline = ls_clock() + START_SECONDS };
    while (!p.ended && ls_clock() < p.deadline) {
        const int first = p.next;
        child c;
        if (!child_start(&c, list, first)) break;
        listen_to(&c, &p);
        if (p.next == first) break; /* it did not even begin with the next pair */
        if (p.gpu_count > 0 && p.next >= ls_cuda_probe_pair_count(p.gpu_count)) break;
    }
    const int pairs = p.gpu_count > 1 && !p.ended ? ls_cuda_probe_pair_count(p.gpu_count) : 0;
    for (int pair = p.next; pair < pairs; pair++) refuse(&p, pair, "it could not be probed");
    learned.all = learned.all || count == 0;
}

bool ls_cuda_pair_is_proven(int from, int to, const char **why_not)
{
    *why_not = "it was not probed";
    if (from < 0 || from >= GPU_MAX || to < 0 || to >= GPU_MAX) return false;
    if (learned.pair[from][to].known) *why_not = learned.pair[from][to].why_not;
    return learned.pair[from][to].known && learned.pair[from][to].proven;
}

int ls_cuda_pair_rank(int from, int to)
{
    return learned.pair[from][to].rank;
}

bool ls_cuda_speed_of(int from, int to, ls_cuda_speed *out)
{
    const int a = from == LS_CUDA_HOST ? GPU_MAX : from, b = to == LS_CUDA_HOST ? GPU_MAX : to;
    *out = (ls_cuda_speed){ 0 };
    if (a < 0 || a > GPU_MAX || b < 0 || b > GPU_MAX) return false;
    *out = learned.speed[a][b];
    return out->gb_per_s > 0;
}

int ls_cuda_partner_max(int ordinal)
{
    const bool limited = ordinal >= 0 && ordinal < GPU_MAX && learned.partner_max[ordinal] > 0;
    return limited ? learned.partner_max[ordinal] : GPU_MAX;
}
