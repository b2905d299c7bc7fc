# SPDX-License-Identifier: MIT
"""drawn.py -- what lockstep draws from a seed, for the other scripts here: weights and pictures.

The first weights and the synthetic pictures of a run are functions of a seed (Philox4x32-10,
docs/numerics.md 7). These lines are that page once more; the digits are read from the tree.
"""
import csv

import numpy as np

SEED, INIT, AUGMENT = 1, 1, 4
KEPT_DEVIATION = 0.87962566103423978


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


def glorot_uniform(shape, fan_in, fan_out, layer):
    """A kernel as lockstep stores it: output first."""
    limit = np.sqrt(6.0 / (fan_in + fan_out))
    w = words(int(np.prod(shape)), INIT, layer).astype(np.float64)
    return (limit * (w * 2.0 ** -31 - 1)).astype(np.float32).reshape(shape)


def truncated_normal(count, layer):
    """Within two deviations: of each element the first attempt that is."""
    out, missing, sample = np.zeros(count), np.arange(count), 0
    while len(missing):
        w = philox(missing, sample, 0, INIT << 16 | layer, SEED).astype(np.float64)
        for k in (2, 0):  # the first attempt is written last
            radius = np.sqrt(-2 * np.log((w[:, k] + 1) * 2.0 ** -32))
            x = radius * np.cos(np.pi * ((w[:, k + 1] + 0.5) * 2.0 ** -32))
            good = np.abs(x) <= 2
            out[missing[good]] = x[good]
            bad = ~good if k == 2 else bad & ~good
        missing, sample = missing[bad], sample + 1
    return out


def he_normal(shape, fan_in, layer):
    x = truncated_normal(int(np.prod(shape)), layer)
    return (np.sqrt(2 / fan_in) / KEPT_DEVIATION * x).astype(np.float32).reshape(shape)


def digits(part="train"):
    """Pictures [N, 8, 8, 1] and labels; every fifth line belongs to the test part."""
    with open("src/data/digits.csv") as file:
        rows = [[int(x) for x in row] for i, row in enumerate(csv.reader(file))
                if ((i + 1) % 5 == 0) == (part == "test")]
    a = np.array(rows)
    return (a[:, :64] / 16).astype(np.float32).reshape(-1, 8, 8, 1), a[:, 64]


def pictures(count):
    """Noise on a brightness that tells the class; record i's bytes are words of sample i."""
    raw = np.stack([words(769, AUGMENT, 0, i) for i in range(count)]).view(np.uint8)
    raw = raw.reshape(count, -1)
    label = raw[:, 0].astype(int) % 10
    planes = (raw[:, 4:3076].astype(int) // 2 + 12 * label[:, None]).astype(np.uint8)
    x = planes.reshape(count, 3, 32, 32).transpose(0, 2, 3, 1)
    return (x / 255.0).astype(np.float32), label
