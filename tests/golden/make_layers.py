#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_layers.py -- losses, gradients and statistics that Keras finds for small models.

    python3 -m venv venv && venv/bin/pip install tensorflow-cpu
    venv/bin/python tests/golden/make_layers.py > tests/golden/layers.inc

tests/unit/test_golden_layers.c trains the same models from the same weights (a formula, exact
fractions) on the same digits. Keras computes in double here, so that what differs is lockstep's
rounding. Of each model: the losses of ten steps, the loss and two rows of probabilities of the test
part after them, the gradients of the first step, and the moving statistics after the first step and
after the last.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf

tf.keras.backend.set_floatx("float64")

from drawn import digits
from keras_model import KerasModel, to_keras, to_lockstep

STEPS, BATCH, ROWS = 10, 32, 2
RATE, MOMENTUM = 0.05, 0.9
HEAD = "globalavgpool\ndense 10\nloss softmax-crossentropy\n"
FLAT = "flatten\ndense 10\nloss softmax-crossentropy\n"

# Lockstep's options, shards of batch normalisation, L1 and L2, the model.
CASES = [
    ("", 1, 0, 0, "conv 3 3x3 stride=2 pad=same bias=no relu\nconv 4 2x3 stride=1x2\n" + HEAD),
    ("", 1, 0, 0, "conv 3 3x2 pad=1 stride=2x1\nconv 4 1x1 stride=3 bias=no\n" + HEAD),
    ("", 1, 0, 0, "conv 2 3x3 relu\navgpool 2x2\navgpool 3x3 stride=2 pad=same\n" + FLAT),
    ("", 1, 0, 0, "conv 2 3x3\navgpool 3x2 stride=2x1 pad=same\nconv 3 2x2\n" + HEAD),
    ("", 1, 0, 0, "conv 3 3x3\nmaxpool 3x3 stride=2 pad=same\nconv 4 2x2\n" + HEAD),
    ("", 1, 0, 0, "conv 2 3x3\nzeropad 1,2,0,3\nconv 4 3x3 stride=2 relu\n" + HEAD),
    ("", 1, 0, 0, "conv 3 3x3 bias=no\nbatchnorm relu\nconv 4 3x3 stride=2\n"
                  "batchnorm momentum=0.8 epsilon=0.01\n" + HEAD),
    ("batchnorm=shard shards=4", 4, 0, 0,
     "conv 3 3x3 bias=no\nbatchnorm relu\nconv 4 3x3 stride=2\n"
     "batchnorm momentum=0.8 epsilon=0.01\n" + HEAD),
    ("", 1, 0, 0, "avgpool 2x2\nflatten\ndense 5 bias=no\nbatchnorm\nsigmoid\ndense 10\n"
                  "loss softmax-crossentropy\n"),
    ("", 1, 0, 0, "a = conv 4 3x3 relu\nb = conv 4 3x3 from input1\n"
                  "c = conv 4 3x3 pad=same from a\nadd relu from a b c\n" + HEAD),
    ("", 1, 0, 0, "a = conv 4 3x3\nb = conv 4 3x3 from input1\nc = conv 4 1x1 from a\n"
                  "multiply from a b c\n" + HEAD),
    ("", 1, 0, 0, "a = conv 2 3x3\nb = conv 3 3x3 from input1\nconcat from b a\n"
                  "conv 3 2x2\n" + HEAD),
    ("", 1, 0, 0, "conv 4 3x3\nrelu\nconv 4 2x2\nleakyrelu\nconv 4 2x2\n"
                  "leakyrelu slope=0.1\n" + HEAD),
    ("", 1, 0, 0, "conv 4 3x3\nsigmoid\nconv 4 2x2 stride=2\n" + HEAD),
    ("", 1, 0, 0, "conv 4 3x3\ntanh\nconv 4 2x2 stride=2\n" + HEAD),
    ("", 1, 0, 0, "conv 4 3x3\ngelu\nconv 4 2x2 stride=2\n" + HEAD),
    ("", 1, 0, 0, "conv 4 3x3\nsilu\nconv 4 2x2 stride=2\n" + HEAD),
    ("l1=0.01 l2=0.02", 1, 0.01, 0.02,
     "conv 4 3x3 stride=2 relu\nglobalavgpool\ndense 10\n"
     "loss softmax-crossentropy smoothing=0.2\n"),
    ("", 1, 0, 0, "s = conv 3 3x3 bias=no\nbatchnorm relu\nconv 3 3x3 pad=same bias=no\n"
                  "b = batchnorm\nt = add relu from s b\np = conv 2 1x1 stride=2 from t\n"
                  "q = avgpool 2x2 from t\nconcat from p q\n" + HEAD),
]


def first(kind, tensor, element):
    """Exact in fp32; tensors are counted in the order of the model file."""
    x = ((element * element * 37 + element * 5 + tensor * 61) % 101 - 50) / 128
    return x + (kind in ("gamma", "variance"))


def assign_first(tensors):
    for t, (_, kind, variable) in enumerate(tensors):
        shape = to_lockstep(variable.numpy()).shape
        values = [first(kind, t, e) for e in range(int(np.prod(shape)))]
        variable.assign(to_keras(np.array(values).reshape(shape)))


def numbers(values):
    text = ["%.7g" % x for x in np.asarray(values).ravel()] or ["0"]
    return "{ " + ",\n    ".join(", ".join(text[i:i + 6]) for i in range(0, len(text), 6)) + " }"


def flat(arrays):
    return np.concatenate([to_lockstep(np.asarray(a)).ravel() for a in arrays] or [[]])


def train(model, shards):
    x, y = digits()
    optimizer = tf.keras.optimizers.SGD(RATE, momentum=MOMENTUM)
    losses, gradient, moved = [], None, None
    for s in range(STEPS):
        part = slice(s * BATCH, (s + 1) * BATCH)
        loss, g = model.gradients(x[part].astype(float), y[part], shards)
        losses.append(loss)
        if s == 0:
            gradient, moved = flat(g), flat(v.numpy() for v in model.moving)
        optimizer.apply(g, model.variables)
    return losses, gradient, moved


def main():
    print("/* Written by make_layers.py with TensorFlow " + tf.__version__ + ". */")
    x, y = digits("test")
    for options, shards, l1, l2, text in CASES:
        text = "input1 = input 8x8x1\n" + text
        regularizer = tf.keras.regularizers.L1L2(l1, l2) if l1 or l2 else None
        model = KerasModel(text, regularizer)
        assign_first(model.tensors)
        assign_first(model.statistics)
        losses, gradient, moved = train(model, shards)
        test_loss = float(model.loss(x.astype(float), y, training=False))
        rows = tf.nn.softmax(model.model(x[:ROWS].astype(float), training=False))
        lines = "\n".join('  "%s\\n"' % line for line in text.splitlines())
        print('{ "%s",\n%s,' % (options, lines))
        print("  %s, %.7g,\n  %s," % (numbers(losses), test_loss, numbers(rows)))
        print("  %d, %s," % (len(gradient), numbers(gradient)))
        print("  %d, %s,\n  %s }," % (len(moved), numbers(moved),
                                   numbers(flat(v.numpy() for v in model.moving))))


main()
