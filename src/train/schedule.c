/* SPDX-License-Identifier: MIT */
/* schedule.c -- the learning rate as a function of the update's number.
 *
 * config.h states the formulas. Because the rate depends on the number alone, a run that was
 * stopped and continued, or that runs on another number of replicas, takes the same rates. All
 * arithmetic is in double with a fixed order and without libm (docs/numerics.md 1.4), so the rates
 * have the same bits everywhere.
 *
 *     lr |      ______            constant          \                     cosine
 *        |     /      |____       step               \__
 *        |    /            |____  exponential           \__                polynomial
 *        |___/______________________ step                  \____
 *         warmup  every  every
 *
 * Sources: I. Loshchilov, F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR
 * 2017 (cosine, here one period). P. Goyal et al., "Accurate, Large Minibatch SGD: Training
 * ImageNet in 1 Hour", 2017 (linear warm-up).
 */
#include "train/config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "numerics.h"
#include "plural.h"

static const double pi = 3.14159265358979323846;

/* lr * factor^drops, multiplied from left to right. Once a product no longer changes (0, or a
 * factor of 1) no later one does. */
static double step_rate(double lr, double factor, uint64_t drops)
{
    for (uint64_t i = 0; i < drops; i++) {
        const double next = lr * factor;
        if (next == lr) break;
        lr = next;
    }
    return lr;
}

static double cosine_rate(const ls_schedule *s, double lr, uint64_t t)
{
    assert(s->steps > 0);
    const double part = t < s->steps ? (double)t / (double)s->steps : 1.0;
    return lr * (s->final + (1.0 - s->final) * (0.5 * (1.0 + ls_cos(pi * part))));
}

/* RATE^(t / STEPS), the whole power as a product. */
static double exponential_rate(const ls_schedule *s, double lr, uint64_t t)
{
    const double whole = step_rate(lr, s->factor, t / s->steps);
    const uint64_t rest = t % s->steps;
    if (s->staircase || rest == 0) return whole;
    return whole * ls_exp(ls_log(s->factor) * ((double)rest / (double)s->steps));
}

/* base^power for 0 <= base <= 1. */
static double power_of(double base, double power)
{
    const int whole = (int)power; /* at most 64 */
    if (base == 0) return 0;
    if ((double)whole != power) return ls_exp(power * ls_log(base));
    double product = 1;
    for (int i = 0; i < whole; i++) product *= base;
    return product;
}

static double polynomial_rate(const ls_schedule *s, double lr, uint64_t t)
{
    const double part = t < s->steps ? (double)t / (double)s->steps : 1.0;
    return s->final + (lr - s->final) * power_of(1.0 - part, s->power);
}

static double table_rate(const ls_schedule *s, uint64_t t)
{
    int e = s->entry_count - 1;
    while (s->entry[e].step > t) e--; /* the first one's step is 0 */
    return s->entry[e].rate;
}

double ls_schedule_rate(const ls_schedule *s, double lr, uint64_t step)
{
    const double first = s->kind == LS_SCHEDULE_TABLE ? s->entry[0].rate : lr;
    if (step < s->warmup) return first * ((double)(step + 1) / (double)s->warmup);
    const uint64_t t = step - s->warmup;
    switch (s->kind) {
    case LS_SCHEDULE_STEP: return step_rate(lr, s->factor, t / s->every);
    case LS_SCHEDULE_COSINE: return cosine_rate(s, lr, t);
    case LS_SCHEDULE_EXPONENTIAL: return exponential_rate(s, lr, t);
    case LS_SCHEDULE_POLYNOMIAL: return polynomial_rate(s, lr, t);
    case LS_SCHEDULE_TABLE: return table_rate(s, t);
    case LS_SCHEDULE_CONSTANT: break;
    }
    return lr;
}

void ls_schedule_fill(ls_schedule *s, uint64_t run_steps)
{
    if (s->kind != LS_SCHEDULE_COSINE || s->steps > 0) return;
    s->steps = run_steps > s->warmup ? run_steps - s->warmup : 1;
}

static void describe_table(const ls_schedule *s, char *out, size_t bytes)
{
    const ls_rate_entry *last = &s->entry[s->entry_count - 1];
    snprintf(out, bytes, "a table of %d rate%s, %g at first and %g from update %" PRIu64 " on",
             s->entry_count, LS_PLURAL(s->entry_count), s->entry[0].rate, last->rate,
             last->step + 1);
}

void ls_schedule_describe(const ls_schedule *s, char *out, size_t bytes)
{
    char warmup[64] = "", shape[128] = "constant";
    if (s->warmup > 0)
        snprintf(warmup, sizeof warmup, ", after %" PRIu64 " of warm-up", s->warmup);
    switch (s->kind) {
    case LS_SCHEDULE_CONSTANT: break;
    case LS_SCHEDULE_STEP:
        snprintf(shape, sizeof shape, "times %g every %" PRIu64 " update%s", s->factor, s->every,
                 LS_PLURAL(s->every));
        break;
    case LS_SCHEDULE_COSINE:
        snprintf(shape, sizeof shape, "cosine over %" PRIu64 " update%s to %g of lr", s->steps,
                 LS_PLURAL(s->steps), s->final);
        break;
    case LS_SCHEDULE_EXPONENTIAL:
        snprintf(shape, sizeof shape, "times %g %s %" PRIu64 " update%s", s->factor,
                 s->staircase ? "every" : "over each", s->steps, LS_PLURAL(s->steps));
        break;
    case LS_SCHEDULE_POLYNOMIAL:
        snprintf(shape, sizeof shape, "polynomial of power %g over %" PRIu64 " update%s to %g",
                 s->power, s->steps, LS_PLURAL(s->steps), s->final);
        break;
    case LS_SCHEDULE_TABLE: describe_table(s, shape, sizeof shape); break;
    }
    snprintf(out, bytes, "%s%s", shape, warmup);
}
