#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""put_weights.py -- arrays from elsewhere, put into a lockstep checkpoint.

    python3 tests/interop/put_weights.py CHECKPOINT ARRAYS OUT

CHECKPOINT is one that lockstep wrote for the model that the arrays are of; a training of one step
makes one. ARRAYS is an .npz (then numpy is needed) or a .safetensors file, of float32. Its arrays
are named and shaped as the tensors of CHECKPOINT that they replace, weights/... and
statistics/... (`lockstep show CHECKPOINT` lists them); what else a .safetensors file holds is
passed over. OUT is CHECKPOINT with these in place and the CRC-32Cs of what changed made anew: for
`lockstep eval`, `predict` and `train --init`. Not for --resume: step and optimizer are
CHECKPOINT's.

Prints what was put and what stays, and refuses a name or shape that CHECKPOINT does not have.
"""

import json
import struct
import sys

from crc32c import crc32c

GROUPS = ("weights/", "statistics/")


def read_safetensors(path):
    """(header's bytes, header, data's bytes)"""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = file.read(length)
        return header, json.loads(header), bytearray(file.read())


def read_arrays(path):
    """name: (dtype, shape, bytes)"""
    if path.endswith(".npz"):
        import numpy
        return {name: ("F32" if x.dtype == "f4" else str(x.dtype), list(x.shape),
                       numpy.ascontiguousarray(x, "<f4").tobytes())
                for name, x in numpy.load(path).items()}
    _, header, data = read_safetensors(path)
    return {name: (x["dtype"], x["shape"], bytes(data[slice(*x["data_offsets"])]))
            for name, x in header.items() if name.startswith(GROUPS)}


def with_crc(header, name, data):
    """`header` with the CRC-32C of `data` under `name`."""
    mark = f'"crc32c/{name}":"'.encode()
    if header.count(mark) != 1:
        sys.exit(f"{name}: its CRC is not there once")
    at = header.index(mark) + len(mark)
    return header[:at] + crc32c(data).encode() + header[at + 8:]


def with_zeros(header):
    """`header` as its own CRC-32C is taken: that one's digits are zeros."""
    at = header.index(b'"crc32c/header":"') + len(b'"crc32c/header":"')
    return header[:at] + b"00000000" + header[at + 8:]


def main(checkpoint, arrays, out):
    header, tensors, data = read_safetensors(checkpoint)
    found = read_arrays(arrays)
    for name, (dtype, shape, values) in found.items():
        expected = tensors.get(name) if name.startswith(GROUPS) else None
        if not expected:
            sys.exit(f"{arrays}: {name}: no weights or statistics of {checkpoint} have this name")
        if dtype != expected["dtype"] or shape != expected["shape"]:
            sys.exit(f"{arrays}: {name}: {dtype} {shape}, "
                     f"expected {expected['dtype']} {expected['shape']}")
        data[slice(*expected["data_offsets"])] = values
        header = with_crc(header, name, values)
        print(f"put    {name} {shape}")
    for name in tensors:
        if name.startswith(GROUPS) and name not in found:
            print(f"stays  {name}")
    header = with_crc(header, "header", with_zeros(header))
    with open(out, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
