# SPDX-License-Identifier: MIT
"""tensorflow_peer.py -- trains a model with Keras `fit` when it is told to. Started by training.

    tensorflow_peer.py MODEL DATA IMAGES BATCH THREADS SETTING

SETTING is plus-separated words: `dataset` (batches of a cached, prefetching tf.data pipeline
instead of arrays that fit cuts), `loop` (steps_per_execution: up to 32 steps in one call), `jit`
(XLA), `mirrored` (MirroredStrategy over two logical CPUs; it fails with `loop`, TensorFlow 2.21),
`shuffle`. Unknown words only tell settings apart. No metric but the loss is computed, which only
helps this side.

Talks in lines: prints {"parameters": n, "images": n} when the model and its samples are there.
Then, for each line read, "train" trains one epoch and prints {"seconds": of its steps},
"evaluate" prints {"accuracy": on the test part}, "restart" takes the model back to where it began.
"""
import json
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import tensorflow as tf  # noqa: E402
import samples  # noqa: E402

layers = tf.keras.layers


def cifar10_cnn():
    return tf.keras.Sequential([
        layers.Input((32, 32, 3)), layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(2), layers.Flatten(), layers.Dense(64, activation="relu"),
        layers.Dense(10)])


def mnist_mlp():
    return tf.keras.Sequential([
        layers.Input((28, 28, 1)), layers.Flatten(), layers.Dense(128, activation="relu"),
        layers.Dense(64, activation="relu"), layers.Dense(10)])


def convolution(h, filters, size=3, strides=1):
    return layers.Conv2D(filters, size, strides, "same", kernel_initializer="he_normal")(h)


def resnet20():
    image = layers.Input((32, 32, 3))
    h = layers.ReLU()(layers.BatchNormalization()(convolution(image, 16)))
    for filters in (16, 32, 64):
        for block in range(3):
            strides = 2 if filters > 16 and block == 0 else 1
            g = convolution(h, filters, 3, strides)
            g = layers.ReLU()(layers.BatchNormalization()(g))
            g = layers.BatchNormalization()(convolution(g, filters))
            if strides == 2:
                h = convolution(h, filters, 1, 2)
            h = layers.ReLU()(layers.Add()([h, g]))
    h = layers.GlobalAveragePooling2D()(h)
    return tf.keras.Model(image, layers.Dense(10, kernel_initializer="he_normal")(h))


MODELS = {"cifar10-cnn": cifar10_cnn, "mnist-mlp": mnist_mlp, "resnet20": resnet20}


class StepClock(tf.keras.callbacks.Callback):
    """From the first step's begin to the last one's end: what fit does around them is left out."""
    def on_epoch_begin(self, epoch, logs=None):
        self.begin = None

    def on_train_batch_begin(self, batch, logs=None):
        self.begin = self.begin or time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.seconds = time.perf_counter() - self.begin


def devices(threads, mirrored):
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    if not mirrored:
        return tf.distribute.get_strategy()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def feed(words, x, y, batch):
    """What fit is to take the samples from."""
    if "dataset" not in words:
        return {"x": x, "y": y, "batch_size": batch, "shuffle": "shuffle" in words}
    samples_of_all = tf.data.Dataset.from_tensor_slices((x, y))
    if "shuffle" in words:
        batches = samples_of_all.shuffle(len(x)).batch(batch)
    else:
        batches = samples_of_all.batch(batch).cache()
    return {"x": batches.prefetch(tf.data.AUTOTUNE)}


def state(model):
    return model.variables + model.optimizer.variables


def main():
    name, data, images, batch, threads, setting = sys.argv[1:]
    words, batch = setting.split("+"), int(batch)
    strategy = devices(int(threads), "mirrored" in words)
    x, y = samples.read(data, "train", int(images))
    with strategy.scope():
        model = MODELS[name]()
        model.compile(tf.keras.optimizers.Adam(0.001),
                      tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      steps_per_execution=min(32, len(x) // batch) if "loop" in words else 1,
                      jit_compile="jit" in words)
        model.optimizer.build(model.trainable_variables)
    first = [variable.numpy() for variable in state(model)]
    source, clock = feed(words, x, y, batch), StepClock()
    parameters = int(sum(v.numpy().size for v in model.trainable_variables))
    print(json.dumps({"parameters": parameters, "images": len(x)}), flush=True)
    for line in sys.stdin:
        if line.strip() == "train":
            model.fit(**source, epochs=1, verbose=0, callbacks=[clock])
            answer = {"seconds": clock.seconds}
        elif line.strip() == "restart":
            for variable, value in zip(state(model), first):
                variable.assign(value)
            answer = {"restarted": True}
        else:
            x_test, y_test = samples.read(data, "test", 10**9)
            right = model.predict(x_test, batch_size=256, verbose=0).argmax(1) == y_test
            answer = {"accuracy": float(right.mean())}
        print(json.dumps(answer), flush=True)


main()
