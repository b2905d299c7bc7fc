# SPDX-License-Identifier: MIT
"""keras_model.py -- a model file as a Keras model, each line by Keras' layer of that name.

    model = KerasModel(text)            a file as docs/formats.md describes, without dropout
    model.tensors, model.statistics     [(layer's place, kind, variable)] in the file's order
    model.loss(x, labels, training)     the mean over the samples, smoothed, plus regularisers

Layouts differ: what lockstep stores output first ends with the output in Keras.
"""
import numpy as np
import tensorflow as tf

L = tf.keras.layers
ACTIVATIONS = {"sigmoid": "sigmoid", "tanh": "tanh", "gelu": "gelu", "silu": "silu"}


def to_keras(a):
    return a.transpose(1, 2, 3, 0) if a.ndim == 4 else a.T


def to_lockstep(a):
    return a.transpose(3, 0, 1, 2) if a.ndim == 4 else a.T


def extents(text):
    part = [int(x) for x in text.split("x")]
    return tuple(part * 2 if len(part) == 1 else part)


class KerasModel:
    def __init__(self, text, regularizer=None):
        self.regularizer = regularizer
        self.tensors, self.statistics, self.smoothing = [], [], 0.0
        outputs, self.names = [], {}
        for line in text.splitlines():
            words = line.split("#")[0].split()
            if words and words[0] == "loss":
                assert words[1] == "softmax-crossentropy"
                self.smoothing = float(self.options(words[2:]).get("smoothing", 0))
            elif words:
                outputs.append(self.layer(words, outputs))
        self.model = tf.keras.Model(outputs[0], outputs[-1])

    @staticmethod
    def options(words):
        return dict(word.split("=") for word in words if "=" in word)

    def layer(self, words, outputs):
        if words[1:2] == ["="]:
            self.names[words[0]], words = len(outputs), words[2:]
        inputs = outputs[-1:]
        if "from" in words:
            cut = words.index("from")
            inputs = [outputs[self.names[name]] for name in words[cut + 1:]]
            words = words[:cut]
        y = self.apply(words[0], words[1:], self.options(words), inputs, len(outputs))
        return L.ReLU()(y) if "relu" in words[1:] else y

    def apply(self, op, arguments, options, inputs, place):
        x = inputs[0] if inputs else None
        if op == "input":
            size = arguments[0].split(":")[-1]
            return L.Input(tuple(int(n) for n in size.split("x")))
        if op in ("conv", "dense"):
            return self.product(op, arguments, options, x, place)
        if op == "batchnorm":
            layer = L.BatchNormalization(momentum=float(options.get("momentum", 0.99)),
                                         epsilon=float(options.get("epsilon", 1e-3)))
            y = layer(x)
            self.tensors += [(place, "gamma", layer.gamma), (place, "beta", layer.beta)]
            self.statistics += [(place, "mean", layer.moving_mean),
                                (place, "variance", layer.moving_variance)]
            return y
        if op in ("maxpool", "avgpool"):
            kind = L.MaxPooling2D if op == "maxpool" else L.AveragePooling2D
            window = extents(arguments[0])
            stride = extents(options["stride"]) if "stride" in options else window
            return kind(window, stride, options.get("pad", "valid"))(x)
        if op == "zeropad":
            edge = [int(n) for n in arguments[0].split(",")]
            return L.ZeroPadding2D(((edge[0], edge[1]), (edge[2], edge[3])))(x)
        if op in ACTIVATIONS:
            return L.Activation(ACTIVATIONS[op])(x)
        if op == "leakyrelu":
            slope = {"negative_slope": float(options["slope"])} if "slope" in options else {}
            return L.LeakyReLU(**slope)(x)
        simple = {"flatten": L.Flatten, "relu": L.ReLU, "globalavgpool": L.GlobalAveragePooling2D}
        if op in simple:
            return simple[op]()(x)
        return {"add": L.Add, "multiply": L.Multiply, "concat": L.Concatenate}[op]()(inputs)

    def product(self, op, arguments, options, x, place):
        same = {"use_bias": options.get("bias", "yes") == "yes",
                "kernel_regularizer": self.regularizer}
        if op == "dense":
            layer = L.Dense(int(arguments[0].split(":")[-1]), **same)
        else:
            pad = options.get("pad", "valid")
            if pad.isdigit():
                x, pad = L.ZeroPadding2D(int(pad))(x), "valid"
            layer = L.Conv2D(int(arguments[0]), extents(arguments[1]),
                             extents(options.get("stride", "1")), pad, **same)
        y = layer(x)
        self.tensors.append((place, "kernel", layer.kernel))
        if layer.use_bias:
            self.tensors.append((place, "bias", layer.bias))
        return y

    def loss(self, x, labels, training):
        scores = self.model(x, training=training)
        classes = scores.shape[-1]
        loss = tf.keras.losses.CategoricalCrossentropy(from_logits=True,
                                                       label_smoothing=self.smoothing)
        value = loss(np.eye(classes)[labels], scores)
        return value + sum(self.model.losses) if self.regularizer else value

    @property
    def variables(self):
        return [variable for _, _, variable in self.tensors]

    @property
    def moving(self):
        return [variable for _, _, variable in self.statistics]

    def gradients(self, x, labels, shards=1):
        """Loss and gradients of a batch; batch normalisation's statistics move. With more shards
        each, of equal size, is normalised by itself, as each replica's part is by default under
        MirroredStrategy, and their gradients and statistics are averaged."""
        before = [v.numpy() for v in self.moving]
        losses, gradients, moved = [], [], []
        for part in np.split(np.arange(len(x)), shards):
            for v, value in zip(self.moving, before):
                v.assign(value)
            with tf.GradientTape() as tape:
                loss = self.loss(x[part], labels[part], training=True)
            losses.append(float(loss))
            gradients.append(tape.gradient(loss, self.variables))
            moved.append([v.numpy() for v in self.moving])
        for v, values in zip(self.moving, zip(*moved)):
            v.assign(np.mean(values, axis=0))
        return np.mean(losses), [tf.add_n(g) / shards for g in zip(*gradients)]
