# SPDX-License-Identifier: MIT
"""samples.py -- the first images and labels of a data folder, as the peers are given them.

The files are those that lockstep reads: CIFAR-10's binary release or MNIST's idx. Pixels become
float32 in 0..1, channels last, labels int32, all of it in memory before anything is timed.
"""
import os

import numpy

SHAPE = {"cifar10": (32, 32, 3), "idx": (28, 28, 1)}
FILES = {"cifar10": {"train": [f"data_batch_{i}.bin" for i in range(1, 6)],
                     "test": ["test_batch.bin"]},
         "idx": {"train": ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"],
                 "test": ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]}}


def read(data, part, count):
    """data: "cifar10:FOLDER" or "idx:FOLDER"; part: "train" or "test"; count: at most that many.
    Returns x [n, height, width, channels] and y [n]."""
    layout, folder = data.split(":", 1)
    paths = [os.path.join(folder, name) for name in FILES[layout][part]]
    if layout == "cifar10":                              # of whose batches some may not be there
        paths = [path for path in paths if os.path.exists(path)]
    files = [numpy.fromfile(path, numpy.uint8) for path in paths]
    if layout == "cifar10":
        records = numpy.concatenate(files).reshape(-1, 3073)[:count]
        pixels = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        labels = records[:, 0]
    else:
        pixels = files[0][16:].reshape(-1, 28, 28, 1)[:count]
        labels = files[1][8:][:count]
    return numpy.ascontiguousarray(pixels / numpy.float32(255)), labels.astype(numpy.int32)
