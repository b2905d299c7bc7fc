#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_optimizers.py -- what Keras' optimizers make of given weights and given gradients.

    python3 -m venv venv && venv/bin/pip install tensorflow-cpu
    venv/bin/python tests/golden/make_optimizers.py > tests/golden/optimizers.inc

tests/unit/test_optimizer.c takes the same ten updates with lockstep and compares. A kernel [3, 2]
and a bias [3]; weights and gradients are exact fractions, made by the same formula on both sides.
Each row: lockstep's options; then the weights after ten updates, kernel first; then their moving
average, where one is kept.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf

UPDATES = 10
k = tf.keras.optimizers
s = k.schedules


def value(element, update):
    """Element of the gradient of an update; of the weights: update -1."""
    return ((element * 37 + (update + 1) * 61) % 101 - 50) / 64


CASES = [
    ("optimizer=sgd lr=0.1", lambda: k.SGD(0.1)),
    ("optimizer=momentum lr=0.05", lambda: k.SGD(0.05, momentum=0.9)),
    ("optimizer=nesterov lr=0.05 momentum=0.8", lambda: k.SGD(0.05, momentum=0.8, nesterov=True)),
    ("optimizer=adam", lambda: k.Adam()),
    ("optimizer=adam lr=0.02 beta1=0.8 beta2=0.95 epsilon=1e-05",
     lambda: k.Adam(0.02, beta_1=0.8, beta_2=0.95, epsilon=1e-5)),
    ("optimizer=adamw lr=0.01", lambda: k.AdamW(0.01)),
    ("optimizer=adamw lr=0.01 weight-decay=0.5", lambda: k.AdamW(0.01, weight_decay=0.5)),
    ("optimizer=momentum lr=0.05 weight-decay=0.1",
     lambda: k.SGD(0.05, momentum=0.9, weight_decay=0.1)),
    ("optimizer=rmsprop", lambda: k.RMSprop()),
    ("optimizer=rmsprop lr=0.01 rho=0.5", lambda: k.RMSprop(0.01, rho=0.5)),
    ("optimizer=sgd lr=0.1 clip-value=0.25", lambda: k.SGD(0.1, clipvalue=0.25)),
    ("optimizer=sgd lr=0.1 clip-norm=0.6", lambda: k.SGD(0.1, clipnorm=0.6)),
    ("optimizer=sgd lr=0.1 clip-global-norm=1.2", lambda: k.SGD(0.1, global_clipnorm=1.2)),
    ("optimizer=adam lr=0.02 ema=0.9", lambda: k.Adam(0.02, use_ema=True, ema_momentum=0.9)),
    ("optimizer=sgd lr=0.1 schedule=exponential:3,0.5",
     lambda: k.SGD(s.ExponentialDecay(0.1, 3, 0.5))),
    ("optimizer=sgd lr=0.1 schedule=exponential:3,0.5,staircase",
     lambda: k.SGD(s.ExponentialDecay(0.1, 3, 0.5, staircase=True))),
    ("optimizer=sgd lr=0.1 schedule=polynomial:8,0.01",
     lambda: k.SGD(s.PolynomialDecay(0.1, 8, 0.01))),
    ("optimizer=sgd lr=0.1 schedule=polynomial:8,0.01,2",
     lambda: k.SGD(s.PolynomialDecay(0.1, 8, 0.01, power=2))),
    ("optimizer=sgd lr=0.1 schedule=polynomial:8,0.01,0.5",
     lambda: k.SGD(s.PolynomialDecay(0.1, 8, 0.01, power=0.5))),
    ("optimizer=sgd lr=0.1 schedule=cosine:8,0.1", lambda: k.SGD(s.CosineDecay(0.1, 8, alpha=0.1))),
    ("optimizer=sgd schedule=table:0=0.2,3=0.1,6=0.02",
     lambda: k.SGD(s.PiecewiseConstantDecay([2, 5], [0.2, 0.1, 0.02]))),
    ("optimizer=sgd lr=0.1 schedule=step:4,0.3",
     lambda: k.SGD(s.ExponentialDecay(0.1, 4, 0.3, staircase=True))),
    ("optimizer=nesterov lr=0.05 weight-decay=0.2",
     lambda: k.SGD(0.05, momentum=0.9, nesterov=True, weight_decay=0.2)),
    ("optimizer=rmsprop lr=0.01 weight-decay=0.3 clip-norm=0.5",
     lambda: k.RMSprop(0.01, weight_decay=0.3, clipnorm=0.5)),
    ("optimizer=adam lr=0.02 clip-value=0.25 schedule=exponential:4,0.7",
     lambda: k.Adam(s.ExponentialDecay(0.02, 4, 0.7), clipvalue=0.25)),
    ("optimizer=adamw lr=0.05 clip-global-norm=1.2 ema=0.8 schedule=polynomial:8,0.01",
     lambda: k.AdamW(s.PolynomialDecay(0.05, 8, 0.01), global_clipnorm=1.2, use_ema=True,
                     ema_momentum=0.8)),
]


def row(numbers):
    text = ["%.9g" % x for x in numbers]
    return "{ " + ", ".join(text[:6]) + ",\n    " + ", ".join(text[6:]) + " }"


def main():
    print("/* Written by make_optimizers.py with TensorFlow " + tf.__version__ + ". */")
    for options, build in CASES:
        kernel = tf.keras.Variable(np.array([value(e, -1) for e in range(6)]).reshape(3, 2),
                                   dtype="float32", name="kernel")
        bias = tf.keras.Variable(np.array([value(e, -1) for e in range(6, 9)]),
                                 dtype="float32", name="bias")
        optimizer = build()
        optimizer.exclude_from_weight_decay(var_names=["bias"])
        for u in range(UPDATES):
            g = np.array([value(e, u) for e in range(9)], dtype="float32")
            optimizer.apply([tf.constant(g[:6].reshape(3, 2)), tf.constant(g[6:])], [kernel, bias])
        weights = [x for v in (kernel, bias) for x in v.numpy().reshape(-1)]
        average = [0] * 9
        if optimizer.use_ema:
            average = [x for v in optimizer._model_variables_moving_average
                       for x in v.numpy().reshape(-1)]
        print('{ "%s",\n  %s,\n  %s },' % (options, row(weights), row(average)))


main()
