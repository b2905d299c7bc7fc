/* SPDX-License-Identifier: MIT */
/* virtual_kernels.h -- a few kernels as PTX, for tests of the virtual driver.
 *
 *   fill(u32 *to, u32 value, u32 count)         to[i] = value + i
 *   copy(u32 *to, const u32 *from, u32 count)
 *   spin(u32 *flag)                             until *flag, of .sys scope, is not 0
 *   say_and_spin(u32 *flag, u32 *started)       the same, after *started = 1, of .sys scope
 *   lift(u32 *flag)                             *flag = 1, of .sys scope
 *   stop()                                      traps
 *   table_at(u32 *to, u32 index)                *to = table[index], of 4 initial values; counts
 *   small()                                     at most 64 threads a block; 1 KiB of shared memory
 */
#ifndef TEST_SUPPORT_VIRTUAL_KERNELS_H
#define TEST_SUPPORT_VIRTUAL_KERNELS_H

#define VIRTUAL_KERNELS(target)                                                                   \
    ".version 7.0\n.target sm_" target "\n.address_size 64\n" VIRTUAL_KERNEL_BODIES

#define VIRTUAL_KERNEL_BODIES                                                                     \
    ".global .align 4 .u32 calls;\n"                                                              \
    ".const .align 4 .u32 table[4] = {11, 22, 33, 44};\n"                                         \
    ".visible .entry fill(.param .u64 fill_0, .param .u32 fill_1, .param .u32 fill_2)\n{\n"       \
    ".reg .pred %p<2>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<5>;\n"                                    \
    "ld.param.u64 %rd1, [fill_0];\nld.param.u32 %r2, [fill_1];\nld.param.u32 %r3, [fill_2];\n"    \
    "mov.u32 %r4, %ctaid.x;\nmov.u32 %r5, %ntid.x;\nmov.u32 %r6, %tid.x;\n"                       \
    "mad.lo.s32 %r1, %r4, %r5, %r6;\nsetp.ge.u32 %p1, %r1, %r3;\n@%p1 bra $L_fill;\n"             \
    "cvta.to.global.u64 %rd2, %rd1;\nmul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd2, %rd3;\n"     \
    "add.s32 %r7, %r1, %r2;\nst.global.u32 [%rd4], %r7;\n$L_fill:\nret;\n}\n"                     \
    ".visible .entry copy(.param .u64 copy_0, .param .u64 copy_1, .param .u32 copy_2)\n{\n"       \
    ".reg .pred %p<2>;\n.reg .b32 %r<7>;\n.reg .b64 %rd<8>;\n"                                    \
    "ld.param.u64 %rd1, [copy_0];\nld.param.u64 %rd2, [copy_1];\nld.param.u32 %r2, [copy_2];\n"   \
    "mov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\nmov.u32 %r5, %tid.x;\n"                       \
    "mad.lo.s32 %r1, %r3, %r4, %r5;\nsetp.ge.u32 %p1, %r1, %r2;\n@%p1 bra $L_copy;\n"             \
    "cvta.to.global.u64 %rd3, %rd2;\nmul.wide.u32 %rd4, %r1, 4;\nadd.s64 %rd5, %rd3, %rd4;\n"     \
    "ld.global.u32 %r6, [%rd5];\ncvta.to.global.u64 %rd6, %rd1;\nadd.s64 %rd7, %rd6, %rd4;\n"     \
    "st.global.u32 [%rd7], %r6;\n$L_copy:\nret;\n}\n"                                             \
    ".visible .entry spin(.param .u64 spin_0)\n{\n"                                               \
    ".reg .pred %p<2>;\n.reg .b32 %r<2>;\n.reg .b64 %rd<3>;\n"                                    \
    "ld.param.u64 %rd1, [spin_0];\ncvta.to.global.u64 %rd2, %rd1;\n$L_spin:\n"                    \
    "ld.acquire.sys.global.u32 %r1, [%rd2];\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bra $L_spin;\nret;\n" \
    "}\n"                                                                                         \
    ".visible .entry say_and_spin(.param .u64 say_0, .param .u64 say_1)\n{\n"                     \
    ".reg .pred %p<2>;\n.reg .b32 %r<3>;\n.reg .b64 %rd<5>;\n"                                    \
    "ld.param.u64 %rd1, [say_0];\ncvta.to.global.u64 %rd2, %rd1;\n"                               \
    "ld.param.u64 %rd3, [say_1];\ncvta.to.global.u64 %rd4, %rd3;\n"                               \
    "mov.u32 %r2, 1;\nst.release.sys.global.u32 [%rd4], %r2;\n$L_say:\n"                          \
    "ld.acquire.sys.global.u32 %r1, [%rd2];\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bra $L_say;\nret;\n"  \
    "}\n"                                                                                         \
    ".visible .entry lift(.param .u64 lift_0)\n{\n.reg .b32 %r<2>;\n.reg .b64 %rd<3>;\n"          \
    "ld.param.u64 %rd1, [lift_0];\ncvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, 1;\n"             \
    "st.release.sys.global.u32 [%rd2], %r1;\nret;\n}\n"                                           \
    ".visible .entry stop()\n{\ntrap;\nret;\n}\n"                                                 \
    ".visible .entry table_at(.param .u64 table_at_0, .param .u32 table_at_1)\n{\n"               \
    ".reg .b32 %r<5>;\n.reg .b64 %rd<6>;\n"                                                       \
    "ld.param.u64 %rd1, [table_at_0];\nld.param.u32 %r1, [table_at_1];\n"                         \
    "cvta.to.global.u64 %rd2, %rd1;\nmul.wide.u32 %rd3, %r1, 4;\nmov.u64 %rd4, table;\n"          \
    "add.s64 %rd5, %rd4, %rd3;\nld.const.u32 %r2, [%rd5];\n"                                      \
    "ld.global.u32 %r3, [calls];\nadd.s32 %r4, %r3, 1;\nst.global.u32 [calls], %r4;\n"            \
    "add.s32 %r2, %r2, %r3;\nst.global.u32 [%rd2], %r2;\nret;\n}\n"                               \
    ".visible .entry small()\n.maxntid 64, 1, 1\n{\n"                                             \
    ".shared .align 4 .b8 room[1024];\nret;\n}\n"

#endif
