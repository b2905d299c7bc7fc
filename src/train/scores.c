/* SPDX-License-Identifier: MIT */
/* scores.c -- see scores.h. */
#include "train/scores.h"

#include <math.h>
#include <stdlib.h>

#include "numerics.h"

/* -- classes ----------------------------------------------------------------------------------- */

typedef struct {
    int64_t hits, labelled, predicted;
} class_count;

static double quotient(int64_t a, int64_t b) { return b > 0 ? (double)a / (double)b : 0; }

static ls_class_scores scores_of(const class_count *c)
{
    return (ls_class_scores){
        .precision = quotient(c->hits, c->predicted),
        .recall = quotient(c->hits, c->labelled),
        .f1 = quotient(2 * c->hits, c->labelled + c->predicted),
    };
}

/* The mean over the classes that occur; there is one. */
static ls_class_scores mean_scores(const class_count *count, size_t classes)
{
    ls_flat_f64 precision, recall, f1;
    ls_flat_init_f64(&precision);
    ls_flat_init_f64(&recall);
    ls_flat_init_f64(&f1);
    for (size_t c = 0; c < classes; c++) {
        if (count[c].labelled + count[c].predicted == 0) continue;
        const ls_class_scores scores = scores_of(&count[c]);
        ls_flat_add_f64(&precision, scores.precision);
        ls_flat_add_f64(&recall, scores.recall);
        ls_flat_add_f64(&f1, scores.f1);
    }
    const double n = (double)f1.count;
    return (ls_class_scores){ .precision = ls_flat_end_f64(&precision) / n,
                              .recall = ls_flat_end_f64(&recall) / n,
                              .f1 = ls_flat_end_f64(&f1) / n };
}

ls_status ls_class_scores_of(const int32_t *label, const int32_t *predicted, size_t count,
                             size_t classes, bool binary, ls_class_scores *out)
{
    const double nan = (double)NAN;
    *out = (ls_class_scores){ nan, nan, nan };
    if (count == 0) return LS_OK;
    class_count *of = calloc(classes, sizeof *of);
    if (!of) return ls_fail(LS_ERR_MEMORY, "no memory to count %zu classes", classes);
    for (size_t i = 0; i < count; i++) {
        of[label[i]].labelled++;
        of[predicted[i]].predicted++;
        of[label[i]].hits += label[i] == predicted[i];
    }
    *out = binary ? scores_of(&of[1]) : mean_scores(of, classes);
    free(of);
    return LS_OK;
}

/* -- numbers ----------------------------------------------------------------------------------- */

/* Of one output; x[i] is at i * stride. */
static double r_squared(const float *prediction, const float *target, size_t count, size_t stride)
{
    ls_flat_f64 sum, total, residual;
    ls_flat_init_f64(&sum);
    ls_flat_init_f64(&total);
    ls_flat_init_f64(&residual);
    bool equal = true; /* then a mean that rounds would make differences of its own */
    for (size_t i = 0; i < count; i++) {
        ls_flat_add_f64(&sum, (double)target[i * stride]);
        equal = equal && target[i * stride] == target[0];
    }
    const double mean = equal ? (double)target[0] : ls_flat_end_f64(&sum) / (double)count;
    for (size_t i = 0; i < count; i++) {
        const double y = (double)target[i * stride], p = (double)prediction[i * stride];
        ls_flat_add_f64(&total, (y - mean) * (y - mean));
        ls_flat_add_f64(&residual, (p - y) * (p - y));
    }
    const double of_targets = ls_flat_end_f64(&total), rest = ls_flat_end_f64(&residual);
    if (of_targets == 0) return rest == 0 ? 1 : 0;
    return 1 - rest / of_targets;
}

double ls_r_squared(const float *prediction, const float *target, size_t count, size_t outputs)
{
    if (count == 0) return (double)NAN;
    ls_flat_f64 sum;
    ls_flat_init_f64(&sum);
    for (size_t k = 0; k < outputs; k++) {
        ls_flat_add_f64(&sum, r_squared(prediction + k, target + k, count, outputs));
    }
    return ls_flat_end_f64(&sum) / (double)outputs;
}
