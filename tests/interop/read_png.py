#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""read_png.py -- reads a PNG of lockstep's with Python's zlib and says what is in it.

    python3 tests/interop/read_png.py FILE.png

Checks the signature, every chunk's CRC-32, the stream's Adler-32 (zlib does), the number of bytes
and that each row has filter 0. Prints "WIDTH x HEIGHT grey|rgb, CRC of the pixels". Needs the
standard library alone.
"""

import struct
import sys
import zlib


def chunks(data):
    """(name, contents) of each chunk; its CRC must be right."""
    at = 8
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        (crc,) = struct.unpack(">I", data[at + 8 + length:at + 12 + length])
        if zlib.crc32(name + body) != crc:
            sys.exit(f"byte {at}: the CRC of {name!r} is wrong")
        yield name, body
        at += 12 + length


def main():
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        sys.exit("no PNG signature")
    found = list(chunks(data))
    if [name for name, _ in found] != [b"IHDR", b"IDAT", b"IEND"]:
        sys.exit(f"chunks {[name for name, _ in found]}, expected IHDR, IDAT, IEND")
    width, height, depth, kind = struct.unpack(">IIBB3x", found[0][1])
    if depth != 8 or kind not in (0, 2):
        sys.exit(f"depth {depth}, colour type {kind}")
    raw = zlib.decompress(found[1][1])
    row = 1 + width * (3 if kind == 2 else 1)
    if len(raw) != height * row or any(raw[i * row] for i in range(height)):
        sys.exit("the rows are not of the size that the header says, or are filtered")
    pixels = b"".join(raw[i * row + 1:(i + 1) * row] for i in range(height))
    print(f"{width} x {height} {'rgb' if kind == 2 else 'grey'}, {zlib.crc32(pixels):08x}")


if __name__ == "__main__":
    main()
