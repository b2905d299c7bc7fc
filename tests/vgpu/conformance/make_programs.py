#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_programs.py -- writes programs.txt: small kernels with inputs and what they must give.

For instructions that are no arithmetic of one lane: memory, atomics, shuffles, votes, barriers,
branches, special registers. The expected words come from models (memory_programs.py,
thread_programs.py), after the text of the PTX ISA (version 9.0). programs.txt is committed, so
tests need no Python. A case is

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
from memory_programs import (atomics, copies, generic_addresses, memory_types, other_loads,
                             vectors)
from thread_programs import barriers, branches, moves, shuffles, votes


def main():
    print("# Written by make_programs.py, which says what the lines mean.")
    for group in (memory_types, vectors, other_loads, generic_addresses, atomics, shuffles, votes,
                  barriers, branches, moves, copies):
        group()


if __name__ == "__main__":
    main()
