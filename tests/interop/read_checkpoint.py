#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""read_checkpoint.py -- a lockstep checkpoint through somebody else's eyes.

    python3 tests/interop/read_checkpoint.py CHECKPOINT [LOCKSTEP]

Opens CHECKPOINT with the safetensors package (and numpy), which shares no code with lockstep, and
checks from the arrays that it gives:

  - every tensor's CRC-32C is the one in the metadata, and so is the header's;
  - the SHA-256 of each group of tensors, computed here as checkpoint.h says (name, dtype, shape and
    bytes, ascending by name). With LOCKSTEP, the program's path, `LOCKSTEP show CHECKPOINT` must
    print the same digests: then both see the same names, shapes and bits.

Prints a line per tensor and ends with "equal"; exits with 1 at the first difference.
"""

import hashlib
import json
import struct
import subprocess
import sys

from crc32c import crc32c
from safetensors import safe_open

DTYPES = {"float32": "F32", "float64": "F64", "int64": "I64", "uint32": "U32"}


def header_crc(path):
    """The CRC-32C of the header with its own eight digits as zeros."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = file.read(length)
    said = json.loads(header)["__metadata__"]["crc32c/header"].encode()
    mark = b'"crc32c/header":"'
    if header.count(mark + said) != 1:
        sys.exit("the header's CRC is not there once")
    return crc32c(header.replace(mark + said, mark + b"00000000"))


def group_sha256(tensors, prefix):
    sha = hashlib.sha256()
    for name in sorted(name for name in tensors if name.startswith(prefix)):
        x = tensors[name]
        sha.update(name.encode() + b"\0" + DTYPES[x.dtype.name].encode() + b"\0")
        sha.update(struct.pack(f"<{1 + x.ndim}Q", x.ndim, *x.shape))
        sha.update(x.tobytes())
    return sha.hexdigest()


def main(path, program=None):
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    if header_crc(path) != metadata["crc32c/header"]:
        sys.exit("the header's CRC differs")
    for name in sorted(tensors):
        x = tensors[name]
        print(f"{name}: {DTYPES[x.dtype.name]} {list(x.shape)}")
        if crc32c(x.tobytes()) != metadata["crc32c/" + name]:
            sys.exit(f"{name}: the CRC differs")
    shown = None
    if program:
        shown = subprocess.run([program, "show", path], check=True, capture_output=True,
                               text=True).stdout
    for prefix in sorted({name.split("/")[0] + "/" for name in tensors}):
        digest = group_sha256(tensors, prefix)
        print(f"{prefix} {digest}")
        # The scale of a run's data is no group that `show` digests.
        if shown is not None and prefix != "scale/" and digest not in shown:
            sys.exit(f"{prefix}: lockstep shows another digest")
    print("equal")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
