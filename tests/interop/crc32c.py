# SPDX-License-Identifier: MIT
"""crc32c.py -- the checksum of a checkpoint's parts, for the scripts beside it."""


def crc32c(data):
    """CRC-32C, a byte at a time by a table made here."""
    if not hasattr(crc32c, "table"):
        crc32c.table = []
        for byte in range(256):
            for _ in range(8):
                byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
            crc32c.table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ crc32c.table[(crc ^ byte) & 255]
    return f"{crc ^ 0xFFFFFFFF:08x}"
