#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_metrics.py -- what Keras' losses and metrics make of given scores and targets.

    python3 -m venv venv && venv/bin/pip install tensorflow-cpu
    venv/bin/python tests/golden/make_metrics.py > tests/golden/metrics.inc

tests/unit/test_metrics.c makes the same scores, labels, targets and weights by the same formula
(exact fractions) and compares. Each loss is the weighted sum over the samples divided by their
number, with the gradient of that by the scores.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf

SAMPLES, CLASSES = 24, 4
k = tf.keras


def fraction(i, seed):
    return ((i * 37 + seed * 61) % 101 - 50) / 16


def scores(columns):
    x = [fraction(i, 1) for i in range(SAMPLES * columns)]
    return np.array(x, np.float32).reshape(SAMPLES, columns)


def labels(classes):
    return np.array([(i * i + i // 3) % classes for i in range(SAMPLES)], np.int32)


TARGET = np.array([fraction(i, 2) for i in range(SAMPLES * CLASSES)],
                  np.float32).reshape(SAMPLES, CLASSES)
WEIGHT = np.array([(i % 5) / 2 for i in range(SAMPLES)], np.float32)


def losses():
    one_hot = np.eye(CLASSES, dtype=np.float32)[labels(CLASSES)]
    binary = labels(2).reshape(SAMPLES, 1).astype(np.float32)
    for e in (0.0, 0.2, 1.0):
        yield "softmax", e, scores(CLASSES), one_hot, k.losses.CategoricalCrossentropy(
            from_logits=True, label_smoothing=e)
        yield "sigmoid", e, scores(CLASSES), one_hot, k.losses.BinaryCrossentropy(
            from_logits=True, label_smoothing=e)
        yield "binary", e, scores(1), binary, k.losses.BinaryCrossentropy(
            from_logits=True, label_smoothing=e)
    yield "mse", 0.0, scores(CLASSES), TARGET, k.losses.MeanSquaredError()
    yield "mae", 0.0, scores(CLASSES), TARGET, k.losses.MeanAbsoluteError()


def print_losses():
    for name, e, x, y, loss in losses():
        x = tf.Variable(x)
        with tf.GradientTape() as tape:
            value = loss(y, x, sample_weight=WEIGHT)
        gradient = np.array(tape.gradient(value, x)).ravel()
        text = ["%.9g" % g for g in gradient]
        rows = [", ".join(text[i:i + 6]) for i in range(0, len(text), 6)]
        print('{ "%s", %g, %.9g,\n  { %s } },' % (name, e, value, ",\n    ".join(rows)))


def value_of(metric, *arguments):
    metric.update_state(*arguments)
    return float(metric.result())


def print_metrics():
    y, x = labels(CLASSES), scores(CLASSES)
    one_hot = np.eye(CLASSES, dtype=np.float32)[y]
    print("#else")
    print('{ "accuracy", %.9g },' % value_of(k.metrics.SparseCategoricalAccuracy(), y, x))
    for top in (2, 3):
        metric = k.metrics.SparseTopKCategoricalAccuracy(k=top)
        print('{ "top%d", %.9g },' % (top, value_of(metric, y, x)))
    print('{ "f1", %.9g },' % value_of(k.metrics.F1Score(average="macro"), one_hot, tf.nn.softmax(x)))
    binary, p = labels(2).reshape(SAMPLES, 1), tf.sigmoid(scores(1))
    print('{ "binary accuracy", %.9g },' % value_of(k.metrics.BinaryAccuracy(), binary, p))
    print('{ "binary precision", %.9g },' % value_of(k.metrics.Precision(), binary, p))
    print('{ "binary recall", %.9g },' % value_of(k.metrics.Recall(), binary, p))
    metric = k.metrics.F1Score(average=None, threshold=0.5)
    metric.update_state(binary.astype(np.float32), p)
    print('{ "binary f1", %.9g },' % float(metric.result()[0]))
    print('{ "mse", %.9g },' % value_of(k.metrics.MeanSquaredError(), TARGET, x))
    print('{ "mae", %.9g },' % value_of(k.metrics.MeanAbsoluteError(), TARGET, x))
    print('{ "r2", %.9g },' % value_of(k.metrics.R2Score(), TARGET, x))


print("/* Written by make_metrics.py with TensorFlow " + tf.__version__ + ". */")
print("#ifdef GOLDEN_LOSSES")
print_losses()
print_metrics()
print("#endif")
