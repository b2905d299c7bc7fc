#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_resnet20.py -- twenty losses of Keras for resnet20, from lockstep's own first weights.

    python3 -m venv venv && venv/bin/pip install tensorflow-cpu
    venv/bin/python tests/golden/make_resnet20.py > tests/golden/resnet20.inc

The network is src/models/resnet20.model; its weights and the synthetic pictures are drawn as
lockstep draws them. tests/unit/test_golden_resnet.c trains the same, in the three precisions.

Keras computes in double here. The rate is small because this network, normalised over 16 pictures,
multiplies every rounding: at a rate of 0.01 Keras in float is 2e-2 from Keras in double after
twenty steps, at 0.0005 it is 2e-4.
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf

tf.keras.backend.set_floatx("float64")

from drawn import he_normal, pictures
from keras_model import KerasModel, to_keras, to_lockstep

STEPS, BATCH, RATE, MOMENTUM = 20, 16, 0.0005, 0.9
PARAMETERS = 273066


def main():
    with open("src/models/resnet20.model") as file:
        model = KerasModel(file.read())
    assert sum(int(np.prod(v.shape)) for v in model.variables) == PARAMETERS
    for place, kind, variable in model.tensors:
        if kind == "kernel":
            shape = to_lockstep(variable.numpy()).shape
            variable.assign(to_keras(he_normal(shape, int(np.prod(shape[1:])), place)))
    x, y = pictures(STEPS * BATCH)
    optimizer = tf.keras.optimizers.SGD(RATE, momentum=MOMENTUM)
    losses = []
    for s in range(STEPS):
        part = slice(s * BATCH, (s + 1) * BATCH)
        loss, gradients = model.gradients(x[part].astype(float), y[part])
        optimizer.apply(gradients, model.variables)
        losses.append(loss)
    print("/* Written by make_resnet20.py with TensorFlow " + tf.__version__ + ". */")
    for i in range(0, STEPS, 5):
        print("    " + ", ".join("%.9g" % loss for loss in losses[i:i + 5]) + ",")


main()
