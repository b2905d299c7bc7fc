/* SPDX-License-Identifier: MIT */
/* residual.c -- see residual.h. */
#include "support/residual.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char residual_model[] =
    "input 32x32x3\n"
    "conv 8 3x3 pad=same stride=4 init=he-normal\n"
    "s0 = batchnorm relu\n"
    "conv 8 3x3 pad=same init=he-normal\n"
    "batchnorm relu\n"
    "spatialdropout 0.1\n"
    "conv 8 3x3 pad=same init=he-normal\n"
    "b1 = batchnorm\n"
    "s1 = add relu from s0 b1\n"
    "conv 12 3x3 pad=same stride=2 init=he-normal\n"
    "batchnorm relu\n"
    "conv 12 3x3 pad=same init=he-normal\n"
    "b2 = batchnorm\n"
    "p2 = conv 12 1x1 stride=2 init=he-normal from s1\n"
    "s2 = add relu from p2 b2\n"
    "globalavgpool\n"
    "dropout 0.2\n"
    "dense 10\n"
    "loss softmax-crossentropy\n";

char *residual_resnet20(void)
{
    static const char dropout[] = "dropout 0.2\n";
    const char *text = ls_model_builtin("resnet20"), *dense = strstr(text, "      dense ");
    char *variant = malloc(strlen(text) + sizeof dropout);
    if (!dense || !variant) abort();
    sprintf(variant, "%.*s%s%s", (int)(dense - text), text, dropout, dense);
    return variant;
}

void residual_set(training *t, const char *batch, const char *mode, const char *precision)
{
    training_reset(t);
    training_set(t, "global-batch", batch);
    training_set(t, "batchnorm", mode);
    training_set(t, "precision", precision);
    training_set(t, "epochs", "3");
    training_set(t, "augment", "crop:4,flip,brightness:0.1,contrast:0.2,cutout:8");
    training_set(t, "optimizer", "adam");
    training_set(t, "lr", "0.01");
    training_set(t, "warmup", "2");
    training_set(t, "l2", "0.0001");
    training_set(t, "clip-global-norm", "1");
    training_set(t, "ema", "0.9");
    training_set(t, "accumulate", "2");
    training_set(t, "class-weights", "0=0.5,3=2");
}

void residual_run(training *t, const char *options)
{
    char words[256], *rest = NULL;
    snprintf(words, sizeof words, "%s", options);
    for (char *name = strtok_r(words, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        training_set(t, name, strtok_r(NULL, " ", &rest));
    training_must_run(t);
}

void residual_interrupt(training *t, const char *before, uint64_t stop, const char *after)
{
    char checkpoint[1200];
    t->stop_after = stop;
    residual_run(t, before);
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    training_reset(t);
    training_set(t, "resume", checkpoint);
    residual_run(t, after);
}
