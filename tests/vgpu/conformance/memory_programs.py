# SPDX-License-Identifier: MIT
"""memory_programs.py -- cases of loads, stores, atomics and asynchronous copies. See
make_programs.py."""
from program_case import (RANDOM, THREADS, TYPES, WORD, bits_of, case, chance, extended, halves,
                          words)


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
