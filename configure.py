#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""configure.py -- writes build.ninja, which is committed: nobody needs Python to build.

The output is flat and complete. src/sources.py and tests/sources.py list every source by name,
nothing is looked for on the machine, and the same lists give the same bytes. Here is what is done
with a file of each list. Presets are parallel trees in one file, chosen by target and not by
configuring again:

    build/host   -O3, what users run             build/static  the host objects, linked statically
    build/asan   address + undefined behaviour  build/tsan    data races
    build/cuda   the host objects, with the CUDA backend; build/cuda-asan, build/cuda-tsan likewise

The paragraph between the two "toolchain" lines holds all that may differ between machines. It is
meant to be edited by hand; this program keeps the one it finds in build.ninja. There is no edge
that runs this program from ninja: a checkout gives no promise about file times, and a build must
not start by asking for Python.

The file is written in the order of body(): flags and rules; then for each preset its library,
program, test support, virtual GPU and tests; then all that has CUDA; then the targets to ask for.
Each function below adds its build statements to the list `out`, one text a statement.

    python3 configure.py            write build.ninja
    python3 configure.py --check    compare all but the toolchain paragraph; 1 if they differ
"""

import sys

from src.sources import (
    CUDA_KERNELS, CUDA_PROBE, EMBEDDED, GPU_SOURCES, HOST_KERNELS, HOST_TABLES, SOURCES)
from tests.sources import (
    PEERS, REPLACED, TESTS, TESTS_CUDA, TESTS_CUDA_HOST, TESTS_CUDA_LONG, TESTS_CUDA_LONG_ALL,
    TESTS_HOST, TESTS_LONG, TESTS_OF_PROGRAM, TESTS_OF_VGPU, TEST_SUPPORT, TEST_SUPPORT_CUDA, VGPU)

TOOLCHAIN_BEGIN = "# -- toolchain: all that may differ on your machine; edit by hand "
TOOLCHAIN_END = "# -- end of toolchain "
TOOLCHAIN = """\
cc            = gcc
ar            = ar
python        = python3
cmocka_cflags =
cmocka_libs   = -lcmocka
werror        =
# Host kernels: x86_64 (portable, AVX2 and AVX-512, chosen at run time) or, on any other 64-bit
# little-endian machine, portable.
host_table    = x86_64
# For `ninja cuda`, never for `ninja`: the compiler, and the toolkit's folder (headers, ptxas,
# fatbinary).
nvcc          = nvcc
cuda_home     = /usr/local/cuda
# GPUs to make machine code for (90: compute capability 9.0), and the lower of the two targets that
# the code is compiled for, the other being 80. With a toolkit 12 both may start at 70.
cuda_arch     = 75 80 86 89 90 100 120
cuda_low      = 75
"""

FLAGS = """\
warnings = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
# No contraction, no reassociation: floating point is part of the contract (docs/numerics.md 1.5).
numerics = -ffp-contract=off -fno-math-errno -fno-trapping-math
cflags   = -std=c11 -D_POSIX_C_SOURCE=200809L -Isrc -pthread $warnings $numerics
# prfchw: a line that is asked for to be written comes as this core's own. Without it the compiler
# asks as for reading, and where another core has the line too, the store waits for that one's word.
# CPUs with AVX2 know the instruction, or do nothing.
isa_portable =
isa_avx2     = -mavx2 -mfma -mprfchw
isa_avx512   = -mavx512f -mavx512dq -mavx512vl -mavx512bw -mavx2 -mfma -mprfchw
# -g1: lines and functions, for traces and profiles. -g, for variables in a debugger, compiles 1.3
# times as long and makes the program four times as large, with the same code.
cflags_host  = -O3 -g1 $werror
# Instrumented code confuses gcc's -Wmaybe-uninitialized; the host preset has it.
cflags_sanitizer = -g1 -fno-omit-frame-pointer -Werror -Wno-maybe-uninitialized
cflags_asan  = -O1 -fsanitize=address,undefined -fno-sanitize-recover=all $cflags_sanitizer
cflags_tsan  = -O2 -fsanitize=thread $cflags_sanitizer
ldflags_host =
ldflags_asan = -fsanitize=address,undefined
ldflags_tsan = -fsanitize=thread
ldflags_static = -static
# No contraction here either; -lineinfo lets the virtual GPU name lines of a .cu file. Machine code
# goes without: it would carry the lines and a copy of the PTX, for each GPU.
nvcc_flags   = -std=c++17 -O3 -fmad=false -lineinfo -Isrc -Werror all-warnings
ptxas_flags  = -v --warn-on-spills --warn-on-local-memory-usage --warning-as-error $
    --suppress-debug-info
"""

# rule, command, description, further variables. $out.d is the depfile of a C compilation.
RULES = [
    ("ar", "rm -f $out && $ar rcsD $out $in", "AR $out"),
    ("as", "$cc -Wa,-I. -c $in -o $out", "AS $out"),
    ("run_test", "rm -f $out; LOCKSTEP=$program LOCKSTEP_VGPU_LIBRARY=$vgpu $more "
                 "timeout -k 5 1500 ./$in > $out.log 2>&1 && "
                 "mv $out.log $out || { cat $out.log; exit 1; }",
     "TEST $in", "pool = tests"),
    # nvcc writes the folder it runs in into the text; two machines are to make the same.
    ("ptx", "$nvcc -ptx -arch=compute_$target $nvcc_flags -MD -MF $out.d -o $out $in && "
            "sed -i \"s|\\\"$$PWD/|\\\"|\" $out", "NVCC $out", "depfile = $out.d", "deps = gcc"),
    # Machine code for each GPU of $cuda_arch from the PTX that it can run, so that none holds code
    # that the virtual GPU has not run; what ptxas says of registers is kept beside it.
    ("fatbin", "set -e; images=; for a in $cuda_arch; do t=80; [ $$a -ge 80 ] || t=low; "
               "$cuda_home/bin/ptxas $ptxas_flags -arch=sm_$$a $stem.$$t.ptx -o $stem.$$a.cubin "
               "> $stem.$$a.log 2>&1 || { cat $stem.$$a.log; exit 1; }; "
               "images=\"$$images --image3=kind=elf,sm=$$a,file=$stem.$$a.cubin\"; done; "
               "$cuda_home/bin/fatbinary -64 --create=$out $$images", "PTXAS $out"),
    ("as_cuda", "$cc -Wa,-I. -DLS_CUDA_LOW=$cuda_low -DLS_CUDA_KERNELS=$kernels -c $in -o $out",
     "AS $out"),
    ("device_code", "rm -f $out; $python $in build/cuda/obj/kernels/cuda > $out.log 2>&1 && "
                    "mv $out.log $out || { cat $out.log; exit 1; }", "CHECK $in"),
    ("run_cuda_test", "rm -f $out; LOCKSTEP=$program LS_REQUIRE_GPU=2 LD_LIBRARY_PATH=$vgpu "
                      "LOCKSTEP_VGPU_LIBRARY=$vgpu/libcuda.so.1 timeout -k 5 1500 ./$in > $out.log "
                      "2>&1 && mv $out.log $out || { cat $out.log; exit 1; }", "TEST $in",
     "pool = tests"),
    # The machine with the GPU need not have cmocka: where it is a shared library, it comes along.
    ("cmocka", "for l in $$(ldd $in | awk '/libcmocka/ { print $$3 }'); do "
               "[ $$l -ef build/cuda/tests/$${l##*/} ] || cp $$l build/cuda/tests/ || exit 1; "
               "done; touch $out", "CP $out"),
    ("gpu", "LS_REQUIRE_GPU=$${LS_REQUIRE_GPU:-1} tests/gpu/run build/gpu", "GPU",
     "pool = console"),
    ("lint", "$python tests/lint/lint.py", "LINT", "pool = console"),
    ("docs", "$python tests/docs_check.py", "DOCS", "pool = console"),
]
PRESETS = ["host", "asan", "tsan"]


def rules():
    """The text of all rules, those of the presets included."""
    out = ["# Two at a time: most tests start several threads.\npool tests\n  depth = 2\n"]
    for name, command, description, *more in RULES:
        lines = [f"rule {name}", f"  command = {command}", f"  description = {description}"]
        out.append("\n".join(lines + [f"  {m}" for m in more]) + "\n")
    for p in PRESETS:
        out.append(f"rule cc_{p}\n  command = $cc $cflags $cflags_{p} $more -MMD -MF $out.d "
                   f"-c $in -o $out\n  depfile = $out.d\n  deps = gcc\n  description = CC $out\n")
        out.append(f"rule link_vgpu_{p}\n  command = $cc -pthread -shared "
                   f"-Wl,-soname,libcuda.so.1 $ldflags_{p} $in -o $out -lm\n"
                   f"  description = LINK $out\n")
    for p in PRESETS + ["static"]:
        out.append(f"rule link_{p}\n  command = $cc -pthread $ldflags_{p} -Wl,--start-group $in "
                   f"-Wl,--end-group -o $out $libs -lm\n  description = LINK $out\n")
    return out


def edge(outputs, rule, inputs, implicit=(), **variables):
    """One build statement, a line per input where one line would be too long."""
    words = [f"build {outputs}: {rule}"] + list(inputs)
    if implicit:
        words += ["|"] + list(implicit)
    text = " ".join(words)
    if len(text) > 100:
        text = " $\n    ".join(words)
    return text + "\n" + "".join(f"  {k} = {v}\n" for k, v in variables.items())


def library(p, out):
    """Objects and the archives of preset p."""
    obj = f"build/{p}/obj"
    objects = []
    for folder, names in SOURCES.items():
        for name in names:
            stem = f"{folder}/{name}" if folder else name
            out.append(edge(f"{obj}/{stem}.o", f"cc_{p}", [f"src/{stem}.c"]))
            objects.append(f"{obj}/{stem}.o")
    out.append(edge(f"{obj}/embed.o", "as", ["src/embed.S"], EMBEDDED))
    objects.append(f"{obj}/embed.o")
    for kind, stems in GPU_SOURCES.items():
        for stem in stems:
            more = {"more": "-isystem $cuda_home/include"} if kind == "cuda" else {}
            out.append(edge(f"{obj}/{stem}.o", f"cc_{p}", [f"src/{stem}.c"], **more))
        image = ["build/cuda/obj/embed_cuda.o"] if kind == "cuda" else []
        out.append(edge(f"build/{p}/libgpu_{kind}.a", "ar",
                        [f"{obj}/{stem}.o" for stem in stems] + image))
    for isa in HOST_TABLES["x86_64"][1]:
        for name in HOST_KERNELS:
            out.append(edge(f"{obj}/kernels/host/{isa}/{name}.o", f"cc_{p}",
                            [f"src/kernels/host/{name}.c"],
                            more=f"$isa_{isa} -DLS_ISA={isa} "
                                 f"-DLS_SIMD='\"kernels/host/simd_{isa}.h\"'"))
    for table, (choosers, isas) in HOST_TABLES.items():
        host = [f"{obj}/kernels/host/{i}/{n}.o" for i in isas for n in HOST_KERNELS]
        for stem in choosers:
            out.append(edge(f"{obj}/{stem}.o", f"cc_{p}", [f"src/{stem}.c"]))
            host.append(f"{obj}/{stem}.o")
        out.append(edge(f"build/{p}/libhost_{table}.a", "ar", host))
    out.append(edge(f"build/{p}/liblockstep.a", "ar", objects))


def archives(p, gpu="absent"):
    return [f"build/{p}/liblockstep.a", f"build/{p}/libgpu_{gpu}.a",
            f"build/{p}/libhost_$host_table.a"]


def image(out):
    """The device code: two PTX texts and a fatbin for each .cu file, and the object with all."""
    files = []
    for stem in [f"kernels/cuda/{name}" for name in CUDA_KERNELS] + [CUDA_PROBE]:
        there = f"build/cuda/obj/{stem}"
        for name, target in ("low", "$cuda_low"), ("80", "80"):
            out.append(edge(f"{there}.{name}.ptx", "ptx", [f"src/{stem}.cu"], target=target))
        texts = [f"{there}.low.ptx", f"{there}.80.ptx"]
        out.append(edge(f"{there}.fatbin", "fatbin", texts, stem=there))
        files += texts + [f"{there}.fatbin"]
    out.append(edge("build/cuda/obj/embed_cuda.o", "as_cuda", ["src/embed_cuda.S"], files,
                    kernels=",".join(CUDA_KERNELS)))


def fresh_ptx(out):
    """Tests of the interpreter on what this nvcc writes; returns the stamps."""
    folder, files, stamps = "build/cuda/vgpu", [], []
    for name, target in ("gemm", "75"), ("gemm", "80"), ("meetings", "75"):
        files.append(f"{folder}/{name}.{target}.ptx")
        out.append(edge(files[-1], "ptx", [f"tests/vgpu/kernels/{name}.cu"], target=target))
    for name in "test_vgpu_gemm", "test_vgpu_meetings":
        stamps.append(f"{folder}/{name}.ok")
        out.append(edge(stamps[-1], "run_test", [f"build/host/tests/{name}"], files, program="",
                        vgpu="", more=f"LS_VGPU_PTX={folder}"))
    return stamps


def replaced(name):
    """The linker's options for the functions that a test replaces."""
    return "".join(f" -Wl,--wrap={function}" for function in REPLACED.get(name, []))


def cuda(p, out):
    """The program with CUDA and its tests, of preset p's objects; returns long tests' stamps."""
    folder = "build/cuda" if p == "host" else f"build/cuda-{p}"
    vgpu_library, stamps, long_stamps = f"build/{p}/vgpu/libcuda.so.1", [], []
    headers = "-Itests $cmocka_cflags -isystem $cuda_home/include"
    objects = [f"{folder}/tests/support/{name}.o" for name in TEST_SUPPORT_CUDA]
    for name, target in zip(TEST_SUPPORT_CUDA, objects):
        out.append(edge(target, f"cc_{p}", [f"tests/support/{name}.c"], more=headers))
    out.append(edge(f"{folder}/libsupport_cuda.a", "ar", objects))
    out.append(edge(f"{folder}/lockstep", f"link_{p}", [f"build/{p}/obj/cli/main.o"]
                    + archives(p, "cuda"), libs="-ldl"))
    long_names = (TESTS_CUDA_LONG if p == "host" else []) + TESTS_CUDA_LONG_ALL
    for name in TESTS_CUDA + (TESTS_CUDA_HOST if p == "host" else []) + long_names:
        program = f"{folder}/tests/{name}"
        out.append(edge(f"{program}.o", f"cc_{p}", [f"tests/unit/{name}.c"],
                        more=headers + " -DLS_CUDA_STUB='\"$cuda_home/lib64/stubs/libcuda.so\"'"))
        out.append(edge(program, f"link_{p}", [f"{program}.o", f"build/{p}/libsupport.a",
                                               f"{folder}/libsupport_cuda.a"]
                        + archives(p, "cuda"), libs=f"$cmocka_libs -ldl{replaced(name)}"))
        out.append(edge(f"{program}.ok", "run_cuda_test", [program],
                        [f"{folder}/lockstep", vgpu_library],
                        program=f"{folder}/lockstep", vgpu=f"build/{p}/vgpu"))
        (long_stamps if name in long_names else stamps).append(f"{program}.ok")
    if p == "host":
        stamps.append("build/cuda/cuda_abi_check.o")
        out.append(edge(stamps[-1], "cc_host", ["tests/vgpu/cuda_abi_check.c"],
                        more="-isystem $cuda_home/include"))
    if p == "host":
        stamps += fresh_ptx(out) + ["build/cuda/device_code.ok"]
        out.append(edge(stamps[-1], "device_code", ["tests/cuda/device_code.py"],
                        ["tests/cuda/registers.tsv", "build/cuda/obj/embed_cuda.o"]))
    out.append(edge("check-cuda" if p == "host" else f"check-cuda-{p}", "phony", stamps))
    return long_stamps


def vgpu(p, out):
    """The virtual GPU: an archive for tests of its parts, and the library that programs open."""
    objects = []
    for name in VGPU:
        objects.append(f"build/{p}/vgpu/{name}.o")
        out.append(edge(objects[-1], f"cc_{p}", [f"tests/vgpu/{name}.c"],
                        more="-fPIC -fvisibility=hidden"))
    out.append(edge(f"build/{p}/libvgpu.a", "ar", objects))
    out.append(edge(f"build/{p}/vgpu/libcuda.so.1", f"link_vgpu_{p}", objects))


def tests(p, names, out):
    """Programs of preset p and their stamps; returns the stamps."""
    folder, stamps = f"build/{p}/tests", []
    for name in names:
        program, of_program = f"{folder}/{name}", name in TESTS_OF_PROGRAM
        of_vgpu, vgpu_library = name in TESTS_OF_VGPU, f"build/{p}/vgpu/libcuda.so.1"
        out.append(edge(f"{program}.o", f"cc_{p}", [f"tests/unit/{name}.c"],
                        more="-Itests $cmocka_cflags"))
        out.append(edge(program, f"link_{p}", [f"{program}.o", f"build/{p}/libsupport.a"]
                        + [f"build/{p}/libvgpu.a"] * of_vgpu + archives(p),
                        libs=f"$cmocka_libs{replaced(name)}"))
        out.append(edge(f"{program}.ok", "run_test", [program],
                        [f"build/{p}/lockstep"] * of_program + [vgpu_library] * of_vgpu,
                        program=f"build/{p}/lockstep", vgpu=vgpu_library))
        stamps.append(f"{program}.ok")
    return stamps


def peers(p, out):
    """Objects of preset p that only have to compile; returns them."""
    objects = [f"build/{p}/tests/peers/{name}.o" for name in PEERS]
    for name, target in zip(PEERS, objects):
        out.append(edge(target, f"cc_{p}", [f"tests/peers/{name}.c"]))
    return objects


def support(p, out):
    objects = []
    for name in TEST_SUPPORT:
        objects.append(f"build/{p}/tests/support/{name}.o")
        out.append(edge(objects[-1], f"cc_{p}", [f"tests/support/{name}.c"],
                        more="-Itests $cmocka_cflags"))
    out.append(edge(f"build/{p}/libsupport.a", "ar", objects))


def body():
    """All that follows the toolchain paragraph."""
    out = ["# -- flags and rules --\n" + FLAGS] + rules()
    for p in PRESETS:
        out.append(f"# -- {p} --")
        library(p, out)
        out.append(edge(f"build/{p}/obj/cli/main.o", f"cc_{p}", ["src/cli/main.c"]))
        out.append(edge(f"build/{p}/lockstep", f"link_{p}",
                        [f"build/{p}/obj/cli/main.o"] + archives(p)))
        support(p, out)
        vgpu(p, out)
        stamps = tests(p, TESTS, out) + peers(p, out)
        if p == "host":
            stamps += tests(p, TESTS_HOST, out)
            out.append(edge("check-long", "phony", tests(p, TESTS_LONG, out)))
        out.append(edge("check" if p == "host" else f"check-{p}", "phony", stamps))
    out.append("# -- cuda --")
    image(out)
    long_stamps = []
    for p in PRESETS:
        long_stamps += cuda(p, out)
    out.append(edge("check-cuda-long", "phony", long_stamps))
    out.append(edge("cuda", "phony", ["build/cuda/lockstep"]))
    programs = [f"build/cuda/tests/{name}" for name in TESTS_CUDA]
    out.append(edge("build/cuda/tests/cmocka.ok", "cmocka", programs[:1]))
    out.append(edge("gpu-tests", "phony", ["build/cuda/lockstep", "build/cuda/tests/cmocka.ok"]
                    + programs))
    out.append(edge("check-gpu", "gpu", ["gpu-tests"]))
    main = ["build/host/lockstep"]
    out.append(edge("build/static/lockstep", "link_static",
                    ["build/host/obj/cli/main.o"] + archives("host")))
    out.append(edge("static", "phony", ["build/static/lockstep"]))
    out.append(edge("lint", "lint", [], archives("host")))
    out.append(edge("docs-check", "docs", [], main))
    out.append("default " + main[0] + "\n")
    return "\n".join(out)


def main():
    try:
        with open("build.ninja", encoding="ascii") as f:
            old = f.read()
    except FileNotFoundError:
        old = ""
    toolchain = TOOLCHAIN
    begin, end = old.find(TOOLCHAIN_BEGIN), old.find(TOOLCHAIN_END)
    if 0 <= begin < end:
        toolchain = old[old.index("\n", begin) + 1:end]
    new = ("# Written by configure.py: edit the toolchain paragraph freely, the rest there.\n"
           "ninja_required_version = 1.5\nbuilddir = build\n"
           + TOOLCHAIN_BEGIN.ljust(100, "-") + "\n" + toolchain
           + TOOLCHAIN_END.ljust(100, "-") + "\n\n" + body())
    if "--check" in sys.argv[1:]:
        if new != old:
            sys.exit("build.ninja is not what configure.py writes: run python3 configure.py")
        return
    with open("build.ninja", "w", encoding="ascii", newline="\n") as f:
        f.write(new)


if __name__ == "__main__":
    main()
