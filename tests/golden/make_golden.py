#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_golden.py -- twenty losses of Keras for each golden run, from lockstep's own first weights.

    python3 -m venv venv && venv/bin/pip install tensorflow-cpu
    venv/bin/python tests/golden/make_golden.py > tests/golden/losses.inc

tests/unit/test_golden.c trains the same runs with lockstep and compares. Nothing has to be handed
over: the first weights and the synthetic pictures are functions of a seed (Philox, docs/numerics.md
7), computed here by the few lines below and there by the program; digits.csv is in the tree.
Neither side shuffles. Agreement to 1e-4 relative is asked for, not bits: TensorFlow adds in another
order, and not always in the same one.
"""
import csv
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf

STEPS, BATCH, SEED = 20, 32, 1
INIT, AUGMENT = 1, 4


def philox(c0, c1, c2, c3, seed):
    """Philox4x32-10 of arrays of counters; the four words as an array [..., 4]."""
    c = [np.asarray(x, dtype=np.uint64) for x in np.broadcast_arrays(c0, c1, c2, c3)]
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ k0, b & low,
             (a >> np.uint64(32)) ^ c[3] ^ k1, a & low]
        k0 = (k0 + np.uint64(0x9E3779B9)) & low
        k1 = (k1 + np.uint64(0xBB67AE85)) & low
    return np.stack(c, axis=-1).astype(np.uint32)


def words(count, purpose, layer, sample=0):
    quads = np.arange((count + 3) // 4)
    return philox(quads, sample, 0, purpose << 16 | layer, SEED).reshape(-1)[:count]


def glorot(shape, fan_in, fan_out, layer):
    """A kernel as lockstep stores it: output first."""
    limit = np.sqrt(6.0 / (fan_in + fan_out))
    w = words(int(np.prod(shape)), INIT, layer).astype(np.float64)
    return (limit * (w * 2.0 ** -31 - 1)).astype(np.float32).reshape(shape)


def digits():
    with open("src/data/digits.csv") as file:
        rows = [[int(x) for x in row] for i, row in enumerate(csv.reader(file)) if (i + 1) % 5]
    a = np.array(rows[:STEPS * BATCH])
    return (a[:, :64] / 16).astype(np.float32).reshape(-1, 8, 8, 1), a[:, 64]


def pictures():
    """Noise on a brightness that tells the class; record i's bytes are words of sample i."""
    n = STEPS * BATCH
    raw = np.stack([words(769, AUGMENT, 0, i) for i in range(n)]).view(np.uint8).reshape(n, -1)
    label = raw[:, 0].astype(int) % 10
    planes = (raw[:, 4:3076].astype(int) // 2 + 12 * label[:, None]).astype(np.uint8)
    x = planes.reshape(n, 3, 32, 32).transpose(0, 2, 3, 1)
    return (x / 255.0).astype(np.float32), label


def mlp(regularizer):
    layers = [tf.keras.layers.Input((8, 8, 1)), tf.keras.layers.Flatten(),
              tf.keras.layers.Dense(64, "relu", kernel_regularizer=regularizer),
              tf.keras.layers.Dense(10, kernel_regularizer=regularizer)]
    return tf.keras.Sequential(layers), [glorot((64, 64), 64, 64, 2), glorot((10, 64), 64, 10, 3)]


def cnn(regularizer):
    layers = [tf.keras.layers.Input((32, 32, 3)),
              tf.keras.layers.Conv2D(32, 3, activation="relu", kernel_regularizer=regularizer),
              tf.keras.layers.MaxPooling2D(2), tf.keras.layers.Flatten(),
              tf.keras.layers.Dense(64, "relu", kernel_regularizer=regularizer),
              tf.keras.layers.Dense(10, kernel_regularizer=regularizer)]
    return tf.keras.Sequential(layers), [glorot((32, 3, 3, 3), 27, 288, 1),
                                         glorot((64, 7200), 7200, 64, 4),
                                         glorot((10, 64), 64, 10, 5)]


def run(make, data, optimizer, l2):
    model, kernels = make(tf.keras.regularizers.L2(l2) if l2 else None)
    weights = []
    for k in kernels:
        weights += [k.transpose(1, 2, 3, 0) if k.ndim == 4 else k.T, np.zeros(k.shape[0])]
    model.set_weights(weights)
    model.compile(optimizer, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = data
    losses = []
    for s in range(STEPS):
        part = slice(s * BATCH, (s + 1) * BATCH)
        losses.append(float(model.train_on_batch(x[part], y[part])))
        model.reset_metrics()
    return losses


def adamw():
    optimizer = tf.keras.optimizers.AdamW(0.001)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


def main():
    print("/* Written by make_golden.py with TensorFlow " + tf.__version__ + ". */")
    optimizers = {"sgd": lambda: tf.keras.optimizers.SGD(0.05),
                  "momentum": lambda: tf.keras.optimizers.SGD(0.02, momentum=0.9),
                  "adam": lambda: tf.keras.optimizers.Adam(0.001),
                  "nesterov": lambda: tf.keras.optimizers.SGD(0.02, momentum=0.9, nesterov=True),
                  "adamw": adamw,
                  "rmsprop": lambda: tf.keras.optimizers.RMSprop(0.001)}
    for name, make, data in (("mlp", mlp, digits()), ("cnn", cnn, pictures())):
        for optimizer, build in optimizers.items():
            brief = optimizer in ("nesterov", "adamw", "rmsprop")
            if brief and name == "cnn":
                continue
            for l2 in (0,) if brief else (0, 0.01):
                losses = run(make, data, build(), l2)
                print('{ "%s", "%s", "%g", {' % (name, optimizer, l2))
                for i in range(0, STEPS, 5):
                    print("    " + ", ".join("%.9g" % x for x in losses[i:i + 5]) + ",")
                print("} },")


main()
