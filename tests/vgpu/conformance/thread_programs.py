# SPDX-License-Identifier: MIT
"""thread_programs.py -- cases of what the threads of a block do together, of branches, of special
registers. See make_programs.py."""
from program_case import WORD, case, chance


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
