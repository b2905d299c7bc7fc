# SPDX-License-Identifier: MIT
"""made_samples.py -- random images in the layouts of CIFAR-10's binary release and MNIST's idx."""
import os
import random
import struct

SOURCE = random.Random(1)


def write(folder, name, *parts):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(b"".join(parts))


def cifar(count):
    return b"".join(bytes([i % 10]) + SOURCE.randbytes(3072) for i in range(count))


def cifar_folder(folder, images):
    """The --data text of a new folder with that many images to train on, and one to test with."""
    os.mkdir(folder)
    write(folder, "data_batch_1.bin", cifar(images))
    write(folder, "test_batch.bin", cifar(1))
    return "cifar10:" + folder


def idx_folder(folder, images):
    """The same, MNIST's layout."""
    os.mkdir(folder)
    for part, count in (("train", images), ("t10k", 1)):
        write(folder, part + "-images-idx3-ubyte", struct.pack(">4I", 0x803, count, 28, 28),
              SOURCE.randbytes(784 * count))
        write(folder, part + "-labels-idx1-ubyte", struct.pack(">2I", 0x801, count),
              bytes(i % 10 for i in range(count)))
    return "idx:" + folder
