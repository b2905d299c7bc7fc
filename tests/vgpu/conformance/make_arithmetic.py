#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_arithmetic.py -- writes arithmetic.txt: what each arithmetic instruction gives.

The values come from the text of the PTX ISA (version 9.0, chapter 9.7) by exact arithmetic on
Python's integers and fractions; no float of Python's or of C takes part. arithmetic.txt is
committed, so tests need no Python:

    name operands [immediate]
     a b c = d          one line per case, hexadecimal bits

Letters of the operands as in tests/vgpu/ptx_table.h, d first. B, H: a type narrower than 32 bits
in a register of 32; the bits of a beyond the type are noise, those of d extend the value.

    python3 tests/vgpu/conformance/make_arithmetic.py > tests/vgpu/conformance/arithmetic.txt
"""

import random
from fractions import Fraction
from math import isqrt

WIDTH = {"h": 16, "r": 32, "d": 64, "B": 8, "H": 16, "R": 32, "D": 64}
RANDOM = random.Random(75)


def signed(x, bits):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


# -- floating point: a number is ("nan",), ("inf", sign) or (sign, Fraction) -------------------

FORMAT = {32: (8, 23), 64: (11, 52)}
NAN = {32: 0x7fffffff, 64: 0xfff8000000000000}


def decode(bits, width):
    exponent_bits, mantissa_bits = FORMAT[width]
    sign = bits >> (width - 1)
    exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = bits & ((1 << mantissa_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == (1 << exponent_bits) - 1:
        return ("nan",) if mantissa else ("inf", sign)
    if exponent:
        mantissa |= 1 << mantissa_bits
    scale = max(exponent, 1) - bias - mantissa_bits
    value = Fraction(mantissa) * (Fraction(2) ** scale)
    return (sign, -value if sign else value)


def nearest_integer(x):
    """Ties to even; x >= 0."""
    floor = x.numerator // x.denominator
    rest = x - floor
    return floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1))


def encode(value, width, zero_sign=0):
    """The bits of a Fraction, rounded to nearest, ties to even."""
    exponent_bits, mantissa_bits = FORMAT[width]
    bias = (1 << (exponent_bits - 1)) - 1
    sign = (zero_sign if value == 0 else int(value < 0)) << (width - 1)
    x = abs(value)
    if x == 0:
        return sign
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** exponent > x:
        exponent -= 1
    exponent = max(exponent, 1 - bias)
    mantissa = nearest_integer(x / Fraction(2) ** (exponent - mantissa_bits))
    if mantissa >> (mantissa_bits + 1):
        mantissa >>= 1
        exponent += 1
    if exponent > bias:
        return sign | ((1 << exponent_bits) - 1) << mantissa_bits
    if not mantissa >> mantissa_bits:
        return sign | mantissa  # subnormal
    return sign | (exponent + bias) << mantissa_bits | (mantissa - (1 << mantissa_bits))


def infinity(sign, width):
    exponent_bits, mantissa_bits = FORMAT[width]
    return sign << (width - 1) | ((1 << exponent_bits) - 1) << mantissa_bits


def is_nan(x):
    return x[0] == "nan"


def is_inf(x):
    return x[0] == "inf"


def sign_of(x):
    return x[1] if is_inf(x) else x[0]


def f_fma(a, b, c, w):
    a, b, c = decode(a, w), decode(b, w), decode(c, w)
    if is_nan(a) or is_nan(b) or is_nan(c):
        return NAN[w]
    sign = sign_of(a) ^ sign_of(b)
    if is_inf(a) or is_inf(b):
        if (not is_inf(a) and a[1] == 0) or (not is_inf(b) and b[1] == 0):
            return NAN[w]
        return NAN[w] if is_inf(c) and c[1] != sign else infinity(sign, w)
    if is_inf(c):
        return infinity(c[1], w)
    product = a[1] * b[1]
    # An exact zero sum of unlike signs is +0.
    zero_sign = sign if product == 0 and c[1] == 0 and sign == c[0] else 0
    return encode(product + c[1], w, zero_sign)


def f_add(a, b, w):
    one = encode(Fraction(1), w)
    return f_fma(a, one, b, w)


def f_sub(a, b, w):
    if is_nan(decode(b, w)):
        return NAN[w]
    return f_add(a, b ^ (1 << (w - 1)), w)


def f_mul(a, b, w):
    x, y = decode(a, w), decode(b, w)
    if is_nan(x) or is_nan(y):
        return NAN[w]
    sign = sign_of(x) ^ sign_of(y)
    if is_inf(x) or is_inf(y):
        zero = (not is_inf(x) and x[1] == 0) or (not is_inf(y) and y[1] == 0)
        return NAN[w] if zero else infinity(sign, w)
    return encode(x[1] * y[1], w, sign)


def f_div(a, b, w):
    x, y = decode(a, w), decode(b, w)
    if is_nan(x) or is_nan(y):
        return NAN[w]
    sign = sign_of(x) ^ sign_of(y)
    if is_inf(x):
        return NAN[w] if is_inf(y) else infinity(sign, w)
    if is_inf(y):
        return encode(Fraction(0), w, sign)
    if y[1] == 0:
        return NAN[w] if x[1] == 0 else infinity(sign, w)
    return encode(x[1] / y[1], w, sign)


def f_sqrt(a, w):
    x = decode(a, w)
    if is_nan(x):
        return NAN[w]
    if is_inf(x):
        return NAN[w] if x[1] else infinity(0, w)
    if x[1] == 0:
        return a
    if x[0]:
        return NAN[w]
    # A square root is never half-way between two floats: 200 more bits and a sticky one decide.
    shift = 2400
    n = x[1].numerator << shift
    root = isqrt(n // x[1].denominator)
    exact = root * root * x[1].denominator == n
    return encode(Fraction(2 * root + (not exact), 2) / Fraction(2) ** (shift // 2), w)


def f_min(a, b, w, larger=False):
    x, y = decode(a, w), decode(b, w)
    if is_nan(x):
        return NAN[w] if is_nan(y) else b
    if is_nan(y):
        return a
    # As sign and magnitude, floats order like integers; this puts -0 below +0.
    key = lambda bits: -(bits & ((1 << (w - 1)) - 1)) - 1 if bits >> (w - 1) else bits
    return (max if larger else min)(a, b, key=key)


def f_compare(a, b, w):
    """-1, 0, 1, or None where one is NaN."""
    x, y = decode(a, w), decode(b, w)
    if is_nan(x) or is_nan(y):
        return None
    big = Fraction(2) ** 2000
    x, y = ((-big if v[1] else big) if is_inf(v) else v[1] for v in (x, y))
    return (x > y) - (x < y)


ROUND = {"rni": lambda x: -nearest_integer(-x) if x < 0 else nearest_integer(x),
         "rzi": lambda x: -(-x // 1) if x < 0 else x // 1,
         "rmi": lambda x: x // 1,
         "rpi": lambda x: -(-x // 1)}


def f_to_integer(a, mode, w, bits, is_signed):
    x = decode(a, w)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    if is_nan(x):
        return 1 << (bits - 1) if w == 64 or bits == 64 else 0
    if is_inf(x):
        return (low if x[1] else high) & ((1 << bits) - 1)
    return min(max(int(ROUND[mode](x[1])), low), high) & ((1 << bits) - 1)


def f_round(a, mode, w):
    x = decode(a, w)
    if is_nan(x):
        return NAN[w]
    return a if is_inf(x) else encode(Fraction(ROUND[mode](x[1])), w, x[0])


# -- operands of the cases ---------------------------------------------------------------------

FLOATS = {
    32: [0, 1 << 31, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00001, 0xffa00000,
         1, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0x3f7fffff, 0x3f800001, 0x40490fdb,
         0x4b000001, 0xcb800001, 0x4f000000, 0xcf000000, 0x5f000000, 0x3effffff, 0x3fc00000,
         0xc0200000, 0x47800000, 0xc7000080],
    64: [0, 1 << 63, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000,
         0xfff0000000000000, 0x7ff8000000000001, 0xfff4000000000000, 1, 0x8000000000000001,
         0x000fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0x3fefffffffffffff,
         0x3ff0000000000001, 0x400921fb54442d18, 0x4330000000000001, 0x41e0000000000000,
         0xc1e0000000200000, 0x43e0000000000000, 0x3fdfffffffffffff, 0x3ff8000000000000,
         0xc004000000000000, 0x36a0000000000000, 0x47efffffe0000000, 0x47effffff0000000],
}


def integers(bits):
    top = 1 << (bits - 1)
    return [0, 1, 2, 7, 31, 32, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2,
            0x5a3c96e187d24bf0 >> (64 - bits)]


def pick(values, count, bits):
    """`count` operands: each special value once, then chance."""
    out = list(values)
    while len(out) < count:
        out.append(RANDOM.getrandbits(bits))
    RANDOM.shuffle(out)
    return out[:count]


def random_float(width):
    """Exponents near each other, so that sums and products do something."""
    exponent_bits, mantissa_bits = FORMAT[width]
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = bias + RANDOM.randint(-mantissa_bits // 2, mantissa_bits // 2)
    return (RANDOM.getrandbits(1) << (width - 1) | exponent << mantissa_bits
            | RANDOM.getrandbits(mantissa_bits))


def float_cases(arity, width, count):
    cases = [[RANDOM.choice(FLOATS[width]) for _ in range(arity)] for _ in range(count // 2)]
    return cases + [[random_float(width) for _ in range(arity)] for _ in range(count - count // 2)]


def emit(name, operands, cases, function, immediate=None):
    head = name + " " + operands
    print(head if immediate is None else f"{head} {immediate:#x}")
    letters = [letter for letter in operands if letter != "i"]
    digits = [1 if letter == "p" else max(WIDTH[letter], 32) // 4 for letter in letters]
    for case in cases:
        values = [f"{x:0{n}x}" for x, n in zip(case, digits[1:])]
        width = 1 if letters[0] == "p" else max(WIDTH[letters[0]], 32)
        result = int(function(*case)) & ((1 << width) - 1)
        print(" " + " ".join(values) + f" = {result:0{digits[0]}x}")


# -- the instructions --------------------------------------------------------------------------

def divide(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def integer_type(t, letter, bits):
    is_signed = t[0] == "s"
    wrap = (1 << bits) - 1
    v = (lambda x: signed(x, bits)) if is_signed else (lambda x: x & wrap)
    cases = [list(c) for c in zip(pick(integers(bits), 14, bits), pick(integers(bits), 14, bits))]
    cases += [[1 << (bits - 1), wrap], [wrap, wrap], [wrap, 1]]
    three = [c + [RANDOM.getrandbits(bits)] for c in cases]
    two, l = [letter * 3], letter

    def binary(name, f, cases=cases):
        emit(f"{name}.{t}", l * 3, cases, lambda a, b: f(v(a), v(b)) & wrap)

    binary("add", lambda a, b: a + b)
    binary("sub", lambda a, b: a - b)
    binary("mul.lo", lambda a, b: a * b)
    binary("mul.hi", lambda a, b: a * b >> bits)
    binary("min", min)
    binary("max", max)
    nonzero = [c for c in cases if c[1]]
    binary("div", divide, nonzero)
    binary("rem", lambda a, b: a - b * divide(a, b), nonzero)
    emit(f"mad.lo.{t}", l * 4, three, lambda a, b, c: v(a) * v(b) + c & wrap)
    emit(f"mad.hi.{t}", l * 4, three, lambda a, b, c: (v(a) * v(b) >> bits) + c & wrap)
    emit(f"sad.{t}", l * 4, three, lambda a, b, c: c + abs(v(a) - v(b)) & wrap)
    shifts = [[RANDOM.getrandbits(bits) | 1 << (bits - 1) * (i % 2), s] for i, s in
              enumerate([0, 1, bits // 2, bits - 1, bits, bits + 1, 0xffffffff])]
    emit(f"shr.{t}", l + l + "r", shifts, lambda a, s: v(a) >> min(s, 200) & wrap)
    for name, f in COMPARE.items():
        emit(f"setp.{name}.{t}", "p" + l + l, cases[:8] + [[5, 5]],
             lambda a, b, f=f: f((v(a) > v(b)) - (v(a) < v(b))))
    if is_signed:
        emit(f"neg.{t}", l * 2, [c[:1] for c in cases], lambda a: -a & wrap)
        emit(f"abs.{t}", l * 2, [c[:1] for c in cases], lambda a: abs(v(a)) & wrap)
    else:
        for name, f in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
            emit(f"setp.{name}.{t}", "p" + l + l, cases[:8] + [[5, 5]],
                 lambda a, b, f=COMPARE[f]: f((a > b) - (a < b)))
    if bits < 64:
        ll = {"h": "r", "r": "d"}[l]
        wide = (1 << 2 * bits) - 1
        emit(f"mul.wide.{t}", ll + l * 2, cases, lambda a, b: v(a) * v(b) & wide)
        emit(f"mad.wide.{t}", ll + l * 2 + ll,
             [c + [RANDOM.getrandbits(2 * bits)] for c in cases],
             lambda a, b, c: v(a) * v(b) + c & wide)
    select(t, l, bits)


COMPARE = {"eq": lambda c: c == 0, "ne": lambda c: c != 0, "lt": lambda c: c < 0,
           "le": lambda c: c <= 0, "gt": lambda c: c > 0, "ge": lambda c: c >= 0}


def select(t, l, bits):
    cases = [[RANDOM.getrandbits(bits), RANDOM.getrandbits(bits), i & 1] for i in range(4)]
    emit(f"selp.{t}", l * 3 + "p", cases, lambda a, b, p: a if p else b)


def bit_type(t, l, bits):
    wrap = (1 << bits) - 1
    cases = [list(c) for c in zip(pick(integers(bits), 8, bits), pick(integers(bits), 8, bits))]
    emit(f"and.{t}", l * 3, cases, lambda a, b: a & b)
    emit(f"or.{t}", l * 3, cases, lambda a, b: a | b)
    emit(f"xor.{t}", l * 3, cases, lambda a, b: a ^ b)
    emit(f"not.{t}", l * 2, [c[:1] for c in cases], lambda a: ~a & wrap)
    emit(f"cnot.{t}", l * 2, [[0], [1], [wrap], [2]], lambda a: a == 0)
    shifts = [[RANDOM.getrandbits(bits), s] for s in
              [0, 1, bits // 2, bits - 1, bits, bits + 1, 0xffffffff]]
    emit(f"shl.{t}", l + l + "r", shifts, lambda a, s: a << min(s, 200) & wrap)
    emit(f"shr.{t}", l + l + "r", shifts, lambda a, s: a >> min(s, 200))
    emit(f"setp.eq.{t}", "p" + l + l, cases[:6] + [[wrap, wrap]], lambda a, b: a == b)
    emit(f"setp.ne.{t}", "p" + l + l, cases[:6] + [[wrap, wrap]], lambda a, b: a != b)
    select(t, l, bits)


def slct(t, l, bits):
    for c_type, thirds in (("s32", [0, 1, 0x7fffffff, 0x80000000, 0xffffffff]),
                           ("f32", [0, 0x80000000, 0x3f800000, 0xbf800000, 0x7fc00000, 1])):
        cases = [[RANDOM.getrandbits(bits), RANDOM.getrandbits(bits), c] for c in thirds]
        at_least_0 = (lambda c: signed(c, 32) >= 0) if c_type == "s32" else \
            (lambda c: f_compare(c, 0, 32) in (0, 1))
        emit(f"slct.{t}.{c_type}", l * 3 + "r", cases,
             lambda a, b, c, f=at_least_0: a if f(c) else b)


def find(x, bits, is_signed):
    x = ~x if is_signed and x >> (bits - 1) else x
    return (x & ((1 << bits) - 1)).bit_length() - 1


def bfe(a, pos, length, bits, is_signed):
    pos, length, out = pos & 255, length & 255, 0
    sign = a >> min(pos + length - 1, bits - 1) & 1 if is_signed and length else 0
    for i in range(bits):
        bit = a >> (pos + i) & 1 if i < length and pos + i < bits else sign
        out |= bit << i
    return out


def bfi(a, b, pos, length, bits):
    pos, length = pos & 255, length & 255
    for i in range(length):
        if pos + i < bits:
            b = b & ~(1 << pos + i) | (a >> i & 1) << pos + i
    return b


def prmt(a, b, selector):
    value, out = b << 32 | a, 0
    for i in range(4):
        s = selector >> 4 * i & 15
        byte = value >> 8 * (s & 7) & 255
        out |= ((255 if byte & 128 else 0) if s & 8 else byte) << 8 * i
    return out


def lop3(a, b, c, table):
    return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i
               for i in range(32))


def bit_instructions():
    for bits, l in ((32, "r"), (64, "d")):
        one = [[x] for x in integers(bits)]
        emit(f"popc.b{bits}", "r" + l, one, lambda a: bin(a).count("1"))
        emit(f"clz.b{bits}", "r" + l, one, lambda a, n=bits: n - a.bit_length())
        emit(f"brev.b{bits}", l + l, one, lambda a, n=bits: int(f"{a:0{n}b}"[::-1], 2))
        fields = [[RANDOM.getrandbits(bits), p, n] for p, n in
                  [(0, 0), (0, bits), (3, 5), (bits - 4, 8), (bits, 3), (1, 255), (255, 1),
                   (256, 7), (bits - 1, 1), (5, 0)]]
        for t, is_signed in ((f"u{bits}", False), (f"s{bits}", True)):
            emit(f"bfind.{t}", "r" + l, one, lambda a, n=bits, s=is_signed: find(a, n, s))
            emit(f"bfind.shiftamt.{t}", "r" + l, one, lambda a, n=bits, s=is_signed:
                 -1 if find(a, n, s) < 0 else n - 1 - find(a, n, s))
            emit(f"bfe.{t}", l + l + "rr", fields,
                 lambda a, p, c, n=bits, s=is_signed: bfe(a, p, c, n, s))
        emit(f"bfi.b{bits}", l * 3 + "rr",
             [[f[0], RANDOM.getrandbits(bits)] + f[1:] for f in fields],
             lambda a, b, p, c, n=bits: bfi(a, b, p, c, n))
    words = [[RANDOM.getrandbits(32) for _ in range(3)] for _ in range(4)]
    for table in (0x96, 0xe8, 0x01, 0xca):
        emit("lop3.b32", "rrrri", words, lambda a, b, c, t=table: lop3(a, b, c, t), table)
    emit("prmt.b32", "rrrr", [w[:2] + [s] for w, s in
                              zip(words * 2, [0x3210, 0x7654, 0x1234, 0xba98, 0xfedc, 0x4567])],
         prmt)
    shifts = [w[:2] + [s] for w, s in zip(words * 2, [0, 1, 31, 32, 33, 0xffffffff])]
    for mode, amount in (("wrap", lambda s: s & 31), ("clamp", lambda s: min(s, 32))):
        emit(f"shf.l.{mode}.b32", "rrrr", shifts,
             lambda a, b, s, f=amount: (b << 32 | a) << f(s) >> 32 & 0xffffffff)
        emit(f"shf.r.{mode}.b32", "rrrr", shifts,
             lambda a, b, s, f=amount: (b << 32 | a) >> f(s) & 0xffffffff)
    truth = [[a, b] for a in (0, 1) for b in (0, 1)]
    emit("and.pred", "ppp", truth, lambda a, b: a & b)
    emit("or.pred", "ppp", truth, lambda a, b: a | b)
    emit("xor.pred", "ppp", truth, lambda a, b: a ^ b)
    emit("not.pred", "pp", [[0], [1]], lambda a: 1 - a)


def float_type(t, l, w):
    sign = 1 << (w - 1)
    one, two = [[x] for x in FLOATS[w]], float_cases(2, w, 24)
    two += [[0, sign], [sign, 0], [sign, sign], [NAN[w], 0], [0, NAN[w]]]
    emit(f"add.rn.{t}", l * 3, two, lambda a, b: f_add(a, b, w))
    emit(f"sub.rn.{t}", l * 3, two, lambda a, b: f_sub(a, b, w))
    emit(f"mul.rn.{t}", l * 3, two, lambda a, b: f_mul(a, b, w))
    emit(f"div.rn.{t}", l * 3, two, lambda a, b: f_div(a, b, w))
    emit(f"fma.rn.{t}", l * 4, float_cases(3, w, 32), lambda a, b, c: f_fma(a, b, c, w))
    emit(f"rcp.rn.{t}", l * 2, one, lambda a: f_div(encode(Fraction(1), w), a, w))
    emit(f"sqrt.rn.{t}", l * 2, one + [[random_float(w) & ~sign] for _ in range(6)],
         lambda a: f_sqrt(a, w))
    emit(f"min.{t}", l * 3, two, lambda a, b: f_min(a, b, w))
    emit(f"max.{t}", l * 3, two, lambda a, b: f_min(a, b, w, True))
    numbers = [x for x in one if not is_nan(decode(x[0], w))]
    emit(f"abs.{t}", l * 2, numbers, lambda a: a & ~sign)
    emit(f"neg.{t}", l * 2, numbers, lambda a: a ^ sign)
    emit(f"copysign.{t}", l * 3, [c for c in two if not is_nan(decode(c[1], w))],
         lambda a, b: a & sign | b & ~sign)
    some = two[:6] + [[0, sign], [one[2][0], one[2][0]], [NAN[w], one[2][0]], [0, NAN[w]],
                      [one[3][0], one[2][0]]]
    for name, f in COMPARE.items():
        emit(f"setp.{name}.{t}", "p" + l + l, some, lambda a, b, f=f:
             f_compare(a, b, w) is not None and f(f_compare(a, b, w)))
        emit(f"setp.{name}u.{t}", "p" + l + l, some, lambda a, b, f=f:
             f_compare(a, b, w) is None or f(f_compare(a, b, w)))
    emit(f"setp.num.{t}", "p" + l + l, some, lambda a, b: f_compare(a, b, w) is not None)
    emit(f"setp.nan.{t}", "p" + l + l, some, lambda a, b: f_compare(a, b, w) is None)
    select(t, l, w)


TYPES = [(s + str(n), s == "s", n, l) for n, l in ((8, "B"), (16, "H"), (32, "R"), (64, "D"))
         for s in "us"]


def conversions():
    for source, source_signed, m, a in TYPES:
        noise = [(RANDOM.getrandbits(32) << m | x) & 0xffffffff if m < 32 else x
                 for x in integers(m)[-8:]]
        v = (lambda x, m=m: signed(x, m)) if source_signed else \
            (lambda x, m=m: x & ((1 << m) - 1))
        for target, target_signed, n, d in TYPES:
            def convert(x, n=n, s=target_signed, v=v):
                return signed(v(x), n) if s else v(x) & ((1 << n) - 1)
            emit(f"cvt.{target}.{source}", d + a, [[x] for x in noise], convert)
        for w, l in ((32, "R"), (64, "D")):
            emit(f"cvt.rn.f{w}.{source}", l + a, [[x] for x in noise + [0]],
                 lambda x, w=w, v=v: encode(Fraction(v(x)), w))
    for w, l in ((32, "R"), (64, "D")):
        values = [[x] for x in FLOATS[w]]
        for mode in ROUND:
            for target, is_signed, n, d in TYPES[2:]:
                def to_integer(x, n=n, s=is_signed, mode=mode, w=w):
                    bits = f_to_integer(x, mode, w, n, s)
                    return signed(bits, n) if s else bits
                emit(f"cvt.{mode}.{target}.f{w}", d + l, values, to_integer)
            emit(f"cvt.{mode}.f{w}.f{w}", l + l, values,
                 lambda x, mode=mode, w=w: f_round(x, mode, w))

    def resize(x, a, b):
        x = decode(x, a)
        if is_nan(x):
            return NAN[b]
        return infinity(x[1], b) if is_inf(x) else encode(x[1], b, x[0])
    emit("cvt.rn.f32.f64", "RD", [[x] for x in FLOATS[64]], lambda x: resize(x, 64, 32))
    emit("cvt.f64.f32", "DR", [[x] for x in FLOATS[32]], lambda x: resize(x, 32, 64))


def main():
    print("# Written by make_arithmetic.py, which says what the lines mean.")
    for letter, bits in (("h", 16), ("r", 32), ("d", 64)):
        integer_type(f"u{bits}", letter, bits)
        integer_type(f"s{bits}", letter, bits)
        bit_type(f"b{bits}", letter, bits)
    for t, letter, bits in (("b32", "r", 32), ("u32", "r", 32), ("s32", "r", 32),
                            ("f32", "r", 32), ("b64", "d", 64), ("u64", "d", 64),
                            ("s64", "d", 64), ("f64", "d", 64)):
        slct(t, letter, bits)
    bit_instructions()
    float_type("f32", "r", 32)
    float_type("f64", "d", 64)
    conversions()


if __name__ == "__main__":
    main()
