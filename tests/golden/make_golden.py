#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_golden.py -- twenty losses of Keras for each golden run, from lockstep's own first weights.

    python3 -m venv venv && venv/bin/pip install tensorflow-cpu
    venv/bin/python tests/golden/make_golden.py > tests/golden/losses.inc

tests/unit/test_golden.c trains the same runs with lockstep and compares. Nothing has to be handed
over: the first weights and the synthetic pictures are functions of a seed (Philox, docs/numerics.md
7), computed here by drawn.py and there by the program; digits.csv is in the tree.
Neither side shuffles. Agreement to 1e-4 relative is asked for, not bits: TensorFlow adds in another
order, and not always in the same one.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf

from drawn import digits, glorot_uniform as glorot, pictures

STEPS, BATCH = 20, 32


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
    x, y = (part[:STEPS * BATCH] for part in data)
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
    for name, make, data in (("mlp", mlp, digits()), ("cnn", cnn, pictures(STEPS * BATCH))):
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
