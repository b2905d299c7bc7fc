#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_programs.py -- writes programs.txt: small kernels with inputs and what they must give.

For instructions that are no arithmetic of one lane: memory, atomics, shuffles, votes, barriers,
branches, special registers. The expected words come from models in this file, after the text of
the PTX ISA (version 9.0). programs.txt is committed, so tests need no Python. A case is

    case NAME sm_75 grid X Y Z block X Y Z dynamic BYTES
    in WORD ...              32-bit words in hexadecimal; the kernel's first argument
    out WORD ...             what must lie behind its second argument afterwards
    module LINE              PTX before the kernel; any number of lines
    LINE                     PTX of the body, indented by one blank
    end

The body finds: %d0 in, %d1 out (addresses of .global); %r0 the number of the thread in its block
(x only); %d2 = in + 4 %r0; %d3 = out + 4 %r0; %r1.. %d4.. %f %h %p0.. free to use.

    python3 tests/vgpu/conformance/make_programs.py > tests/vgpu/conformance/programs.txt
"""

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


# -- loads and stores --------------------------------------------------------------------------

def register_for(t):
    """Registers of the type's own kind where that is a float, else as wide as there are."""
    return "%e" if t == "f64" else "%f" if t == "f32" else "%d"


def memory_types():
    """Each thread stores a value of type t, truncated from 64 bits, and loads it again."""
    for space in ("global", "shared", "local"):
        for t in TYPES:
            values = chance(2 * THREADS)
            if space == "global":
                place = "mad.wide.u32 %d5, %r0, 8, %d1;\nadd.u64 %d5, %d5, 64;"
            elif space == "shared":
                place = ".shared .align 8 .b8 s[64];\nmov.u64 %d5, s;\n" \
                        "mad.wide.u32 %d5, %r0, 8, %d5;"
            else:
                place = ".local .align 8 .b8 l[8];\nmov.u64 %d5, l;"
            back = ""
            if t[0] == "f":
                r = register_for(t) + "5"
                size = bits_of(t)
                move = "cvt.u32.u64 %r5, %d4;\nmov.b32 %f5, %r5;" if size == 32 \
                    else "mov.b64 %e5, %d4;"
                back = f"{move}\nst.{space}.{t} [%d5], {r};\nld.{space}.{t} {r}, [%d5];\n" + (
                    "mov.b32 %r5, %f5;\ncvt.u64.u32 %d6, %r5;" if size == 32
                    else "mov.b64 %d6, %e5;")
            else:
                back = f"st.{space}.{t} [%d5], %d4;\nld.{space}.{t} %d6, [%d5];"
            pairs = [values[2 * i] | values[2 * i + 1] << 32 for i in range(THREADS)]
            out = halves(extended(v, t) for v in pairs)
            if space == "global":  # the stored bytes stand behind the results; rest: as st.u64 left
                n = bits_of(t)
                out += halves(0x1111111111111111 >> n << n | v & (1 << n) - 1 for v in pairs)
            first = "mov.u64 %d7, 0x1111111111111111;\nst.global.u64 [%d5], %d7;\n" \
                if space == "global" else ""
            case(f"st_ld.{space}.{t}", f"""
                mad.wide.u32 %d8, %r0, 8, %d0;
                ld.global.u64 %d4, [%d8];
                {place}
                {first}{back}
                mad.wide.u32 %d9, %r0, 8, %d1;
                st.global.u64 [%d9], %d6;""", out, values, block=(THREADS, 1, 1))


def vectors():
    for space in ("global", "shared", "local"):
        for t, letter, count in (("f32", "%f", 4), ("f32", "%f", 2), ("u32", "%r", 4),
                                 ("u8", "%r", 4), ("s16", "%r", 2), ("u64", "%d", 2),
                                 ("b64", "%d", 2), ("f64", "%e", 2)):
            size = bits_of(t) * count // 8
            names = "{" + ", ".join(f"{letter}{10 + i}" for i in range(count)) + "}"
            declare = f".{space} .align 16 .b8 v[{size * 4}];" if space != "global" else ""
            base = "mov.u64 %d5, v;" if space != "global" else "add.u64 %d5, %d1, 64;"
            if space == "local":
                base += "\nmov.u32 %r7, 0;"
            else:
                base += "\nmov.u32 %r7, %r0;"
            given = chance(size)  # 4 threads, size/4 words each
            case(f"st_ld.{space}.v{count}.{t}", f"""
                {declare}
                {base}
                mad.wide.u32 %d5, %r7, {size}, %d5;
                mad.wide.u32 %d6, %r0, {size}, %d0;
                mad.wide.u32 %d7, %r0, {size}, %d1;
                ld.global.v{count}.{t} {names}, [%d6];
                st.{space}.v{count}.{t} [%d5], {names};
                ld.{space}.v{count}.{t} {names}, [%d5];
                st.global.v{count}.{t} [%d7], {names};""",
                 given if space != "global" else
                 given + [0] * (16 - len(given)) + given, given, block=(4, 1, 1))


def other_loads():
    data = chance(8)
    listed = ", ".join(str(w >> 8 * i & 255) for w in data for i in range(4))
    for t in TYPES:
        size = bits_of(t) // 8
        memory = sum(w << 32 * i for i, w in enumerate(data))
        count = 32 // size
        values = [extended(memory >> 8 * size * i, t) for i in range(count)]
        keep = {"f32": "mov.b32 %r5, %f5;\ncvt.u64.u32 %d6, %r5;", "f64": "mov.b64 %d6, %e5;"}
        r = {"f32": "%f5", "f64": "%e5"}.get(t, "%d6")
        case(f"ld.const.{t}", f"""
            mov.u64 %d5, data;
            mad.wide.u32 %d5, %r0, {size}, %d5;
            ld.const.{t} {r}, [%d5];
            {keep.get(t, "")}
            mad.wide.u32 %d9, %r0, 8, %d1;
            st.global.u64 [%d9], %d6;""", halves(values), block=(count, 1, 1),
             module=[f".const .align 8 .b8 data[32] = {{{listed}}};"])
    given = chance(32)
    for name in ("ld.global.nc", "ld.global.ca", "ld.global.cg", "ld.global.cs", "ld.weak.global",
                 "ld.volatile.global", "ld.relaxed.gpu.global", "ld.relaxed.sys.global",
                 "ld.acquire.cta.global", "ld.acquire.gpu.global", "ld.acquire.sys.global", "ld",
                 "ld.volatile", "ld.acquire.sys"):
        case(f"{name}.u32", f"{name}.u32 %r5, [%d2];\nst.global.u32 [%d3], %r5;", given, given)
    for name in ("st.global.wb", "st.global.cg", "st.global.cs", "st.weak.global",
                 "st.volatile.global", "st.relaxed.gpu.global", "st.relaxed.sys.global",
                 "st.release.cta.global", "st.release.gpu.global", "st.release.sys.global", "st",
                 "st.release.sys"):
        case(f"{name}.u32", f"ld.global.u32 %r5, [%d2];\n{name}.u32 [%d3], %r5;", given, given)
    for t in ("b64", "u64", "s64"):
        case(f"ld.acquire_st.release.{t}", f"""
            mad.wide.u32 %d4, %r0, 8, %d0;
            mad.wide.u32 %d5, %r0, 8, %d1;
            ld.acquire.sys.global.{t} %d6, [%d4];
            st.release.sys.global.{t} [%d5], %d6;""", given, given, block=(16, 1, 1))
    case("address.displacement", """
        ld.global.u32 %r5, [%d2+4];
        add.u64 %d4, %d3, 16;
        st.global.u32 [%d4+-16], %r5;""", given[1:], given, block=(31, 1, 1))


def generic_addresses():
    given = chance(32)
    case("cvta.shared", """
        .shared .align 4 .b8 s[128];
        mov.u64 %d4, s;
        cvta.shared.u64 %d5, %d4;
        mad.wide.u32 %d6, %r0, 4, %d5;
        ld.global.u32 %r5, [%d2];
        st.u32 [%d6], %r5;
        cvta.to.shared.u64 %d7, %d6;
        ld.shared.u32 %r6, [%d7];
        st.global.u32 [%d3], %r6;""", given, given)
    case("cvta.local", """
        .local .align 4 .b8 l[8];
        mov.u64 %d4, l;
        cvta.local.u64 %d5, %d4;
        ld.global.u32 %r5, [%d2];
        st.u32 [%d5+4], %r5;
        ld.local.u32 %r6, [%d4+4];
        st.global.u32 [%d3], %r6;""", given, given)
    case("cvta.global", """
        cvta.global.u64 %d5, %d2;
        ld.u32 %r6, [%d5];
        cvta.to.global.u64 %d6, %d5;
        ld.global.u32 %r7, [%d6];
        add.u32 %r6, %r6, %r7;
        st.global.u32 [%d3], %r6;""", [2 * g for g in given], given)
    case("cvta.const", """
        cvta.const.u64 %d5, table;
        mad.wide.u32 %d5, %r0, 4, %d5;
        ld.u32 %r6, [%d5];
        st.global.u32 [%d3], %r6;""", [7, 8, 9, 0], block=(4, 1, 1),
         module=[".const .align 4 .u32 table[4] = {7, 8, 9};"])
    case("variables", """
        ld.global.u64 %d4, [pointers];
        ld.u32 %r5, [%d4];
        ld.global.u64 %d4, [pointers+8];
        ld.u32 %r6, [%d4];
        ld.global.f32 %f5, [number];
        mov.b32 %r7, %f5;
        ld.global.u32 %r8, [empty];
        st.global.v4.u32 [%d1], {%r5, %r6, %r7, %r8};""", [3, 0xfffffffe, 0x40490fdb, 0],
         block=(1, 1, 1), module=[".global .align 4 .u32 pair[2] = {3, -2};",
                                  ".global .align 4 .f32 number = 0f40490FDB;",
                                  ".global .align 4 .b8 empty[8];",
                                  ".global .align 8 .u64 pointers[2] = {generic(pair), "
                                  "generic(pair)+4};"])
    case("dynamic_shared", """
        mov.u32 %r5, dynamic;
        mad.lo.u32 %r6, %r0, 4, %r5;
        ld.global.u32 %r7, [%d2];
        st.shared.u32 [%r6], %r7;
        bar.sync 0;
        xor.b32 %r8, %r0, 31;
        mad.lo.u32 %r6, %r8, 4, %r5;
        ld.shared.u32 %r7, [%r6];
        mov.u32 %r9, %dynamic_smem_size;
        add.u32 %r7, %r7, %r9;
        st.global.u32 [%d3], %r7;""", [g + 128 for g in reversed(given)], given, dynamic=128,
         module=[".extern .shared .align 16 .b8 dynamic[];"])


# -- atomics -----------------------------------------------------------------------------------

def s(x, n):
    return x - (1 << n) if x >> (n - 1) else x


def atomics():
    def order(t, f):
        n = bits_of(t)
        return lambda a, b: f(a, b, key=lambda x: s(x, n) if t[0] == "s" else x)
    operations = [("add", t, lambda a, b: a + b) for t in ("u32", "s32", "u64")]
    operations += [(f.__name__, t, order(t, f)) for f in (min, max)
                   for t in ("u32", "s32", "u64", "s64")]
    for t in ("b32", "b64"):
        operations += [("and", t, lambda a, b: a & b), ("or", t, lambda a, b: a | b),
                       ("xor", t, lambda a, b: a ^ b), ("exch", t, lambda a, b: b)]
    operations += [("inc", "u32", lambda a, b: 0 if a >= b else a + 1),
                   ("dec", "u32", lambda a, b: b if a == 0 or a > b else a - 1)]
    for space in ("global", "shared"):
        for name, t, f in operations:
            atomic(space, name, t, f)
        for t in ("b32", "b64"):
            cas(space, t)
    for words_of in ("atom.relaxed.gpu.global", "atom.acquire.sys.global",
                     "atom.release.gpu.global", "atom.acq_rel.sys.global", "atom.global.sys",
                     "atom.global.gpu", "atom"):
        case(f"{words_of}.add.u32", f"{words_of}.add.u32 %r5, [%d1], 3;", [96],
             ())
    case("red.global.add.u32", "add.u32 %r5, %r0, 1;\nred.global.add.u32 [%d1], %r5;", [528])
    case("red.shared.max.s32", """
        .shared .align 4 .b32 top;
        setp.ne.u32 %p1, %r0, 0;
        mov.u32 %r6, -100;
        @!%p1 st.shared.u32 [top], %r6;
        bar.sync 0;
        ld.global.u32 %r5, [%d2];
        red.shared.max.s32 [top], %r5;
        bar.sync 0;
        ld.shared.u32 %r7, [top];
        st.global.u32 [%d3], %r7;""", [17] * 32, [(-5 * i) & WORD for i in range(31)] + [17])


def atomic_body(space, t, instruction):
    size = bits_of(t) // 8
    if space == "global":
        place = f"mad.wide.u32 %d5, %r0, {size}, %d1;"
    else:
        place = f".shared .align 8 .b8 s[{8 * size}];\nmov.u64 %d5, s;\n" \
                f"mad.wide.u32 %d5, %r0, {size}, %d5;"
    r = "%d" if size == 8 else "%r"
    return f"""
        {place}
        mad.wide.u32 %d6, %r0, {3 * size}, %d0;
        ld.global.{t} {r}10, [%d6];
        ld.global.{t} {r}11, [%d6+{size}];
        ld.global.{t} {r}12, [%d6+{2 * size}];
        st.{space}.{t} [%d5], {r}10;
        {instruction.format(r=r)}
        ld.{space}.{t} {r}14, [%d5];
        mad.wide.u32 %d7, %r0, {size}, %d1;
        st.global.{t} [%d7], {r}14;
        st.global.{t} [%d7+{8 * size}], {r}13;"""


def to_words(values, n):
    return list(values) if n == 32 else halves(values)


def atomic(space, name, t, f):
    n = bits_of(t)
    a = [RANDOM.getrandbits(n) for _ in range(8)]
    b = [RANDOM.getrandbits(n) for _ in range(6)] + [a[6], 0]
    if name in ("inc", "dec"):
        a, b = [5, 6, 7, 0, 9, 1 << 31, 3, 0], [6, 6, 6, 6, 6, 6, 0, 0]
    given = [x for i in range(8) for x in (a[i], b[i], 0)]
    new = [f(x, y) & ((1 << n) - 1) for x, y in zip(a, b)]
    case(f"atom.{space}.{name}.{t}",
         atomic_body(space, t, f"atom.{space}.{name}.{t} {{r}}13, [%d5], {{r}}11;"),
         to_words(new + a, n), to_words(given, n), block=(8, 1, 1))
    if name != "exch":
        case(f"red.{space}.{name}.{t}",
             atomic_body(space, t, f"red.{space}.{name}.{t} [%d5], {{r}}11;\n"
                                   f"mov.b{n} {{r}}13, {{r}}11;"),
             to_words(new + b, n), to_words(given, n), block=(8, 1, 1))


def cas(space, t):
    n = bits_of(t)
    a = [RANDOM.getrandbits(n) for _ in range(8)]
    b = [x if i % 2 else x ^ 1 << i for i, x in enumerate(a)]
    c = [RANDOM.getrandbits(n) for _ in range(8)]
    given = [x for i in range(8) for x in (a[i], b[i], c[i])]
    new = [z if x == y else x for x, y, z in zip(a, b, c)]
    case(f"atom.{space}.cas.{t}",
         atomic_body(space, t, f"atom.{space}.cas.{t} {{r}}13, [%d5], {{r}}11, {{r}}12;"),
         to_words(new + a, n), to_words(given, n), block=(8, 1, 1))


# -- lanes together ----------------------------------------------------------------------------

def shuffled(mode, lane, b, c):
    segment, clamp, b = c >> 8 & 31, c & 31, b & 31
    most, least = lane & segment | clamp & ~segment, lane & segment
    j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": least | b & ~segment}[mode]
    inside = j >= most if mode == "up" else j <= most
    return (j if inside else lane), inside


def shuffles():
    given = chance(32)
    for mode in ("up", "down", "bfly", "idx"):
        for b, width in ((1, 32), (5, 32), (16, 32), (3, 8), (9, 16), (31, 32)):
            c = (32 - width) << 8 | (0 if mode == "up" else 31)
            picks = [shuffled(mode, lane, b, c) for lane in range(32)]
            case(f"shfl.sync.{mode}.{b}.{width}", f"""
                ld.global.u32 %r5, [%d2];
                shfl.sync.{mode}.b32 %r6|%p1, %r5, {b}, {c:#x}, -1;
                selp.u32 %r7, 1, 0, %p1;
                st.global.u32 [%d3], %r6;
                st.global.u32 [%d3+128], %r7;""",
                 [given[j] for j, _ in picks] + [int(i) for _, i in picks], given)
    case("shfl.sync.subset", """
        setp.lt.u32 %p1, %r0, 16;
        ld.global.u32 %r5, [%d2];
        @%p1 bra low;
        shfl.sync.bfly.b32 %r6, %r5, 1, 31, 0xffff0000;
        bra.uni join;
        low:
        shfl.sync.bfly.b32 %r6, %r5, 2, 31, 0x0000ffff;
        join:
        st.global.u32 [%d3], %r6;""",
         [given[i ^ (2 if i < 16 else 1)] for i in range(32)], given)


def votes():
    for name, given in (("some", [i % 3 == 0 for i in range(32)]), ("all", [1] * 32),
                        ("none", [0] * 32)):
        yes = [i for i in range(32) if given[i]]
        expected = {"all": len(yes) == 32, "any": bool(yes), "uni": len(yes) in (0, 32)}
        for mode, result in expected.items():
            case(f"vote.sync.{mode}.{name}", f"""
                ld.global.u32 %r5, [%d2];
                setp.ne.u32 %p1, %r5, 0;
                vote.sync.{mode}.pred %p2, %p1, -1;
                selp.u32 %r6, 1, 0, %p2;
                st.global.u32 [%d3], %r6;""", [int(result)] * 32, given)
        case(f"vote.sync.ballot.{name}", """
            ld.global.u32 %r5, [%d2];
            setp.ne.u32 %p1, %r5, 0;
            vote.sync.ballot.b32 %r6, !%p1, -1;
            st.global.u32 [%d3], %r6;""", [WORD ^ sum(1 << i for i in yes)] * 32, given)
    case("activemask", "bar.warp.sync -1;\nactivemask.b32 %r5;\nst.global.u32 [%d3], %r5;",
         [WORD] * 32)
    case("bar.warp.sync", """
        .shared .align 4 .b8 s[128];
        mov.u64 %d4, s;
        mad.wide.u32 %d5, %r0, 4, %d4;
        st.shared.u32 [%d5], %r0;
        bar.warp.sync -1;
        xor.b32 %r5, %r0, 5;
        mad.wide.u32 %d5, %r5, 4, %d4;
        ld.shared.u32 %r6, [%d5];
        st.global.u32 [%d3], %r6;""", [i ^ 5 for i in range(32)])


def barriers():
    given = chance(96)
    exchange = """
        .shared .align 4 .b8 s[512];
        mov.u64 %d4, s;
        mad.wide.u32 %d5, %r0, 4, %d4;
        ld.global.u32 %r5, [%d2];
        st.shared.u32 [%d5], %r5;
        BARRIER
        sub.u32 %r6, 95, %r0;
        mad.wide.u32 %d5, %r6, 4, %d4;
        ld.shared.u32 %r6, [%d5];
        st.global.u32 [%d3], %r6;"""
    for barrier in ("bar.sync 0;", "bar.sync 3, 96;", "mov.u32 %r9, 15;\nbar.sync %r9;",
                    "barrier.sync 1;", "barrier.sync.aligned 2, 96;"):
        case("exchange." + barrier.split("\n")[-1].replace(" ", "_").strip(";"),
             exchange.replace("BARRIER", barrier), given[::-1], given, block=(96, 1, 1))
    for name, given in (("some", [i % 5 == 1 for i in range(64)]), ("all", [1] * 64)):
        count = sum(given)
        results = {"and.pred": int(count == 64), "or.pred": int(count > 0)}
        for mode, result in results.items():
            case(f"bar.red.{mode}.{name}", f"""
                ld.global.u32 %r5, [%d2];
                setp.ne.u32 %p1, %r5, 0;
                bar.red.{mode} %p2, 0, %p1;
                selp.u32 %r6, 1, 0, %p2;
                st.global.u32 [%d3], %r6;""", [result] * 64, given, block=(64, 1, 1))
        case(f"bar.red.popc.{name}", """
            ld.global.u32 %r5, [%d2];
            setp.eq.u32 %p1, %r5, 0;
            bar.red.popc.u32 %r6, 1, !%p1;
            st.global.u32 [%d3], %r6;""", [count] * 64, given, block=(64, 1, 1))
    for arrive in ("bar.arrive", "barrier.arrive"):
        case(f"{arrive}.producer_consumer", f"""
            .shared .align 4 .b8 s[128];
            mov.u64 %d4, s;
            and.b32 %r5, %r0, 31;
            mad.wide.u32 %d5, %r5, 4, %d4;
            setp.ge.u32 %p1, %r0, 32;
            @%p1 bra consume;
            st.shared.u32 [%d5], %r0;
            {arrive} 4, 64;
            ret;
            consume:
            bar.sync 4, 64;
            xor.b32 %r5, %r5, 31;
            mad.wide.u32 %d5, %r5, 4, %d4;
            ld.shared.u32 %r6, [%d5];
            st.global.u32 [%d3+-128], %r6;""", list(range(31, -1, -1)), block=(64, 1, 1))
    case("early_return", """
        setp.lt.u32 %p1, %r0, 20;
        @%p1 ret;
        bar.sync 0;
        st.global.u32 [%d3], %r0;""", [0] * 20 + list(range(20, 64)), block=(64, 1, 1))


# -- branches and special registers ------------------------------------------------------------

def branches():
    case("loop.divergent", """
        mov.u32 %r5, 0;
        mov.u32 %r6, %r0;
        again:
        setp.eq.u32 %p1, %r6, 0;
        @%p1 bra done;
        add.u32 %r5, %r5, %r6;
        sub.u32 %r6, %r6, 1;
        bra.uni again;
        done:
        st.global.u32 [%d3], %r5;""", [i * (i + 1) // 2 for i in range(32)])
    case("guard.negated", """
        and.b32 %r5, %r0, 1;
        setp.eq.u32 %p1, %r5, 0;
        mov.u32 %r6, 5;
        @%p1 mov.u32 %r6, 7;
        @!%p1 add.u32 %r6, %r6, 1;
        st.global.u32 [%d3], %r6;""", [6 if i & 1 else 7 for i in range(32)])
    case("brx.idx", """
        and.b32 %r5, %r0, 3;
        targets: .branchtargets a, b, c, b;
        brx.idx %r5, targets;
        a:
        mov.u32 %r6, 10;
        bra e;
        b:
        mov.u32 %r6, 20;
        bra e;
        c:
        mov.u32 %r6, 30;
        e:
        st.global.u32 [%d3], %r6;""", [(10, 20, 30, 20)[i & 3] for i in range(32)])
    case("exit", """
        setp.gt.u32 %p1, %r0, 9;
        @%p1 exit;
        st.global.u32 [%d3], 1;""", [1] * 10 + [0] * 22)
    case("scope", """
        mov.u32 %r5, 1;
        {
        .reg .b32 %r5;
        .reg .b32 inner;
        mov.u32 inner, 4;
        mov.u32 %r5, 2;
        }
        st.global.u32 [%d3], %r5;""", [1] * 32)
    case("nanosleep_and_time", """
        mov.u64 %d4, %globaltimer;
        mov.u64 %d5, %clock64;
        mov.u32 %r5, %clock;
        nanosleep.u32 100;
        mov.u64 %d6, %globaltimer;
        mov.u64 %d7, %clock64;
        setp.ge.u64 %p1, %d6, %d4;
        setp.gt.u64 %p2, %d7, %d5;
        and.pred %p1, %p1, %p2;
        selp.u32 %r6, 1, 0, %p1;
        st.global.u32 [%d3], %r6;""", [1] * 32)
    for fence in ("membar.cta", "membar.gl", "membar.sys", "fence.acq_rel.cta", "fence.sc.gpu",
                  "fence.acq_rel.sys"):
        case(fence, f"st.global.u32 [%d3], 1;\n{fence};\nld.global.u32 %r5, [%d3];\n"
             "add.u32 %r5, %r5, %r0;\nst.global.u32 [%d3], %r5;", [i + 1 for i in range(32)])


def moves():
    given = chance(32)
    case("mov.pack", """
        mad.wide.u32 %d4, %r0, 8, %d0;
        ld.global.u64 %d5, [%d4];
        mov.b64 {%r5, %r6}, %d5;
        mov.b32 {%h5, %h6}, %r5;
        mov.b32 %r7, {%h6, %h5};
        mov.b64 %d6, {%r6, %r7};
        mov.b64 {_, %r8}, %d6;
        mov.b64 {%h7, %h8, %h9, %h10}, %d6;
        mov.b64 %d7, {%h10, %h9, %h8, %h7};
        mad.wide.u32 %d8, %r0, 16, %d1;
        st.global.u64 [%d8], %d7;
        st.global.u32 [%d8+8], %r8;
        st.global.u32 [%d8+12], WARP_SZ;""",
         [w for lo, hi in zip(given[::2], given[1::2]) for w in
          (lo, hi << 16 & WORD | hi >> 16, lo << 16 & WORD | lo >> 16, 32)], given,
         block=(16, 1, 1))
    case("mov.types", """
        mov.pred %p1, 1;
        mov.pred %p2, %p1;
        mov.u16 %h5, 0xfff0;
        mov.b16 %h6, %h5;
        mov.s32 %r5, -2;
        mov.f32 %f5, 0f3F800000;
        mov.b32 %r6, %f5;
        mov.f64 %e5, 0d3FF8000000000000;
        mov.b64 %d5, %e5;
        cvt.u32.u16 %r7, %h6;
        selp.u32 %r8, 3, 4, %p2;
        st.global.v4.u32 [%d1], {%r5, %r6, %r7, %r8};
        st.global.u64 [%d1+16], %d5;""",
         [0xfffffffe, 0x3f800000, 0xfff0, 3, 0, 0x3ff80000], block=(1, 1, 1))
    places = (("tid.x", lambda i, b: i % 2), ("tid.y", lambda i, b: i // 2 % 3),
              ("tid.z", lambda i, b: i // 6), ("ntid.x", lambda i, b: 2),
              ("ntid.y", lambda i, b: 3), ("ntid.z", lambda i, b: 2),
              ("ctaid.x", lambda i, b: b % 2), ("ctaid.y", lambda i, b: b // 2),
              ("ctaid.z", lambda i, b: 0), ("nctaid.x", lambda i, b: 2),
              ("nctaid.y", lambda i, b: 3), ("nctaid.z", lambda i, b: 1))
    for name, value in places:
        case(name, f"""
            mov.u32 %r5, %ctaid.y;
            mov.u32 %r6, %ctaid.x;
            mad.lo.u32 %r5, %r5, 2, %r6;
            mov.u32 %r6, %tid.z;
            mov.u32 %r7, %tid.y;
            mad.lo.u32 %r6, %r6, 3, %r7;
            mad.lo.u32 %r6, %r6, 2, %r0;
            mad.lo.u32 %r6, %r5, 12, %r6;
            mad.wide.u32 %d4, %r6, 4, %d1;
            mov.u32 %r7, %{name};
            st.global.u32 [%d4], %r7;""", [value(i, b) for b in range(6) for i in range(12)],
             block=(2, 3, 2), grid=(2, 3, 1))
    masks = (("laneid", lambda i: i), ("lanemask_eq", lambda i: 1 << i),
             ("lanemask_lt", lambda i: (1 << i) - 1), ("lanemask_le", lambda i: (2 << i) - 1),
             ("lanemask_gt", lambda i: WORD ^ (2 << i) - 1),
             ("lanemask_ge", lambda i: WORD ^ (1 << i) - 1))
    for name, value in masks:
        case(name, f"mov.u32 %r5, %{name};\nst.global.u32 [%d3], %r5;",
             [value(i) for i in range(32)])


# -- asynchronous copies -----------------------------------------------------------------------

def copies():
    given = chance(128)
    for level, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        for kept in (None, 0, 4, size):
            tail = "" if kept is None else f", {kept}"
            count = size // 4
            kept_words = count if kept is None else kept // 4
            out = [given[i * count + j] if j < kept_words else 0
                   for i in range(31, -1, -1) for j in range(count)]
            load = "ld.shared.u32 %r6, [%d7];\nst.global.u32 [%d8], %r6;\n" \
                   "add.u64 %d7, %d7, 4;\nadd.u64 %d8, %d8, 4;\n"
            case(f"cp.async.{level}.{size}" + ("" if kept is None else f".of.{kept}"), f"""
                .shared .align 16 .b8 s[{32 * size}];
                mov.u64 %d4, s;
                mad.wide.u32 %d5, %r0, {size}, %d4;
                mad.wide.u32 %d6, %r0, {size}, %d0;
                cp.async.{level}.shared.global [%d5], [%d6], {size}{tail};
                cp.async.wait_all;
                bar.sync 0;
                xor.b32 %r5, %r0, 31;
                mad.wide.u32 %d7, %r5, {size}, %d4;
                mad.wide.u32 %d8, %r0, {size}, %d1;
                {load * count}""", out, given[:32 * count], target=80)
    case("cp.async.groups", """
        .shared .align 16 .b8 s[256];
        mov.u64 %d4, s;
        mad.wide.u32 %d5, %r0, 4, %d4;
        cp.async.ca.shared.global [%d5], [%d2], 4;
        cp.async.commit_group;
        cp.async.ca.shared.global [%d5+128], [%d2+128], 4;
        cp.async.commit_group;
        cp.async.commit_group;
        cp.async.wait_group 2;
        ld.shared.u32 %r5, [%d5];
        cp.async.wait_group 0;
        ld.shared.u32 %r6, [%d5+128];
        sub.u32 %r5, %r5, %r6;
        st.global.u32 [%d3], %r5;""", [given[i] - given[i + 32] for i in range(32)], given[:64],
         target=80)


def main():
    print("# Written by make_programs.py, which says what the lines mean.")
    for group in (memory_types, vectors, other_loads, generic_addresses, atomics, shuffles, votes,
                  barriers, branches, moves, copies):
        group()


if __name__ == "__main__":
    main()
