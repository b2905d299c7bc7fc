#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""keras_speed.py -- images per second of a model, lockstep beside Keras, on this machine.

    python3 -m venv venv && venv/bin/pip install tensorflow-cpu
    venv/bin/python tests/peers/keras_speed.py build/host/lockstep FOLDER [--rounds 5]
        [--model cifar10-cnn|resnet20] [--batch 64,256] [--images 10000]

FOLDER holds CIFAR-10 in the binary release's layout. Four runs take turns, so that all of them
see the same moods of a shared machine: lockstep on host:1 with two threads and on host:2 with one,
Keras `fit`, and Keras under MirroredStrategy over two logical CPUs. Each trains one epoch of
warm-up and one that counts (fp32, Adam, the same global batch) over the first --images of the
training part; medians and their ratios are printed. Images per second are those of the training
steps: evaluation and start-up do not count on either side.
"""
import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile

PEER = r"""
import os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf
folder, batch, mirrored = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "mirrored"
name, images = sys.argv[4], int(sys.argv[5])
cpu = tf.config.list_physical_devices("CPU")[0]
if mirrored:
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
raw = np.fromfile(os.path.join(folder, "data_batch_1.bin"), np.uint8).reshape(-1, 3073)[:images]
x = (raw[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1) / 255.0).astype(np.float32)
y = raw[:, 0].astype(np.int32)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]) if mirrored \
    else tf.distribute.get_strategy()
layers = tf.keras.layers
def small():
    return tf.keras.Sequential([
        layers.Input((32, 32, 3)), layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(2), layers.Flatten(), layers.Dense(64, activation="relu"),
        layers.Dense(10)])
def conv(h, filters, size=3, strides=1):
    return layers.Conv2D(filters, size, strides, "same", kernel_initializer="he_normal")(h)
def resnet20():
    image = layers.Input((32, 32, 3))
    h = layers.ReLU()(layers.BatchNormalization()(conv(image, 16)))
    for filters in (16, 32, 64):
        for block in range(3):
            strides = 2 if filters > 16 and block == 0 else 1
            g = layers.ReLU()(layers.BatchNormalization()(conv(h, filters, 3, strides)))
            g = layers.BatchNormalization()(conv(g, filters))
            if strides == 2:
                h = conv(h, filters, 1, 2)
            h = layers.ReLU()(layers.Add()([h, g]))
    h = layers.GlobalAveragePooling2D()(h)
    return tf.keras.Model(image, layers.Dense(10, kernel_initializer="he_normal")(h))
with strategy.scope():
    model = resnet20() if name == "resnet20" else small()
    model.compile(tf.keras.optimizers.Adam(0.001),
                  tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
model.fit(x, y, batch_size=batch, epochs=1, verbose=0)
begin = time.perf_counter()
model.fit(x, y, batch_size=batch, epochs=1, verbose=0)
print(len(x) / (time.perf_counter() - begin))
"""


def lockstep(options, data, batch, devices, threads):
    with tempfile.TemporaryDirectory() as out:
        run = os.path.join(out, "run")
        subprocess.run([options.program, "train", options.model, "--data", data,
                        "--global-batch", str(batch), "--epochs", "2", "--devices", devices,
                        "--threads", str(threads), "--timeout", "600", "--out", run], check=True,
                       stdout=subprocess.DEVNULL)
        with open(os.path.join(run, "history.csv"), encoding="ascii") as file:
            return float(list(csv.DictReader(file))[-1]["samples_per_second"])


def keras(options, batch, mode):
    done = subprocess.run([sys.executable, "-c", PEER, options.folder, str(batch), mode,
                           options.model, str(options.images)], check=True,
                          capture_output=True, text=True)
    return float(done.stdout.strip().splitlines()[-1])


def first_images(options, folder):
    """The --data spec of the first images, copied to `folder` with a test part of one image."""
    record = 3073
    with open(os.path.join(options.folder, "data_batch_1.bin"), "rb") as file:
        data = file.read(options.images * record)
    for name, part in (("data_batch_1.bin", data), ("test_batch.bin", data[:record])):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(part)
    return "cifar10:" + folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", choices=["cifar10-cnn", "resnet20"], default="cifar10-cnn")
    parser.add_argument("--batch", default="64,256")
    parser.add_argument("--images", type=int, default=10000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = first_images(options, folder)
        for batch in map(int, options.batch.split(",")):
            compare(options, data, batch)


def compare(options, data, batch):
    runs = {
        "lockstep host:1, 2 threads": lambda: lockstep(options, data, batch, "host:1", 2),
        "lockstep host:2, 1 thread": lambda: lockstep(options, data, batch, "host:2", 1),
        "Keras fit": lambda: keras(options, batch, "fit"),
        "Keras MirroredStrategy, 2 CPUs": lambda: keras(options, batch, "mirrored"),
    }
    speeds = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            speeds[name].append(run())
    print(f"{options.model}, global batch {batch}, {options.rounds} rounds, images/s: "
          "median (min .. max)")
    medians = {name: statistics.median(s) for name, s in speeds.items()}
    for name, s in speeds.items():
        print(f"  {name:32} {medians[name]:8.0f}  ({min(s):.0f} .. {max(s):.0f})")
    names = list(runs)
    print(f"  {names[0]} / {names[2]}: {medians[names[0]] / medians[names[2]]:.2f}")
    print(f"  {names[1]} / {names[3]}: {medians[names[1]] / medians[names[3]]:.2f}", flush=True)


main()
