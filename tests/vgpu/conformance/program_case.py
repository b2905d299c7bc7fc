# SPDX-License-Identifier: MIT
"""program_case.py -- one case of programs.txt, and the numbers that cases are made of. See
make_programs.py."""
import random

RANDOM = random.Random(80)
WORD = 0xffffffff
THREADS = 8  # where nothing depends on their number
TYPES = [f"{k}{n}" for n in (8, 16, 32, 64) for k in "bus"] + ["f32", "f64"]


def words(values):
    return " ".join(f"{v & WORD:08x}" for v in values)


def case(name, body, out, given=(), module=(), block=(32, 1, 1), grid=(1, 1, 1), dynamic=0,
         target=75):
    block, grid = (" ".join(map(str, x)) for x in (block, grid))
    print(f"case {name} sm_{target} grid {grid} block {block} dynamic {dynamic}")
    print(("in " + words(given)).strip())
    print("out " + words(out))
    for line in module:
        print("module " + line)
    for line in body.strip().split("\n"):
        print(" " + line.strip())
    print("end")


def chance(n):
    return [RANDOM.getrandbits(32) for _ in range(n)]


def bits_of(t):
    return int(t[1:])


def extended(value, t):
    """What a load of type t leaves in a register of 64 bits, given the bits in memory."""
    n = bits_of(t)
    value &= (1 << n) - 1
    if t[0] == "s" and value >> (n - 1):
        value |= (1 << 64) - (1 << n)
    return value


def halves(values):
    return [w for v in values for w in (v & WORD, v >> 32)]
