#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""configure.py -- writes build.ninja, which is committed: nobody needs Python to build.

The output is flat and complete. Every source is listed below by name, nothing is looked for on
the machine, and the same lists give the same bytes. Presets are parallel trees in one file,
chosen by target and not by configuring again:

    build/host   -O3 -g, what users run         build/static  the host objects, linked statically
    build/asan   address + undefined behaviour  build/tsan    data races

The paragraph between the two "toolchain" lines holds all that may differ between machines. It is
meant to be edited by hand; this program keeps the one it finds in build.ninja. There is no edge
that runs this program from ninja: a checkout gives no promise about file times, and a build must
not start by asking for Python.

    python3 configure.py            write build.ninja
    python3 configure.py --check    compare all but the toolchain paragraph; 1 if they differ
"""

import sys

# -- sources: src/<folder>/<name>.c ------------------------------------------------------------
SOURCES = {
    "": "crc32c nearest pool sha256 status thread wait",
    "device": "cuda_absent device host topology",
    "kernels": "cuda_absent fold kernels",
    "kernels/reference": ("activation arena batch_sum conv dropout gemm loss pool shard_sums "
                          "table whole"),
    "collectives": ("all_reduce bucket comm comm_create gather ledger link reduce_direct "
                    "reduce_ring rendezvous ring ring_describe tree"),
    "io": ("checkpoint checkpoint_header csv data_file dataset dataset_cifar10 dataset_csv "
           "dataset_digits dataset_idx dataset_npy dataset_report dataset_scale dataset_spec json "
           "new_file pipeline run_folder sampler"),
    "train": ("apply builtin config config_value environment evaluate explain layers metrics "
              "model_describe model_init model_parse optimizer rank replica resume schedule state "
              "step trainer"),
    "cli": ("console data devices eval options predict report scratch_folder show signals train "
            "verify"),  # without main.c, which is not part of the library
}
# One micro-kernel source per op, compiled once per instruction set (src/kernels/host/host.h).
HOST_KERNELS = ("activation arena batch_sum conv dropout gemm loss patch pool product table tile "
                "weight_gradient whole")
# A build links one of these: what chooses the table at run time, and the sets it chooses among.
HOST_TABLES = {
    "x86_64": ("cpu", ["portable", "avx2", "avx512"]),
    "portable": ("cpu_portable", ["portable"]),
}
# What src/embed.S includes.
EMBEDDED = [
    "src/data/digits.csv",
    "src/models/cifar10-cnn.model",
    "src/models/digits-cnn.model",
    "src/models/linear.model",
    "src/models/mlp.model",
    "src/models/mnist-mlp.model",
]

# -- tests: tests/support/<name>.c, tests/unit/<name>.c ----------------------------------------
TEST_SUPPORT = ("convolution data_folder faulty_device late_device machines naive product ranks "
                "reduction reference training")
# check, check-asan, check-tsan
TESTS = ("test_activation test_all_reduce test_arena test_batch_sum test_broken_data "
         "test_bucket test_checkpoint test_cifar10 test_cli test_config test_conv test_crc32c "
         "test_csv test_dataset test_device test_dropout test_faults test_fold test_gemm "
         "test_gradients test_idx test_json test_kernels test_late_streams test_link test_loss "
         "test_model test_nearest test_npy test_numerics test_pipeline test_pool test_protocol "
         "test_resume test_ring test_run_folder test_sampler test_schedule test_semantics "
         "test_sha256 test_shard_sums test_status test_thread test_topology test_tree "
         "test_whole")
# check only: whole trainings, too slow under a sanitizer
TESTS_HOST = "test_golden test_lockstep"
# check-long: exhaustive sweeps
TESTS_LONG = "long_all_reduce long_conv long_gemm long_kills long_lockstep long_numerics"
# These run the program itself, $LOCKSTEP.
TESTS_OF_PROGRAM = "test_cli long_kills"

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
"""

FLAGS = """\
warnings = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
# No contraction, no reassociation: floating point is part of the contract (docs/numerics.md 1.5).
numerics = -ffp-contract=off -fno-math-errno -fno-trapping-math
cflags   = -std=c11 -D_POSIX_C_SOURCE=200809L -Isrc -pthread $warnings $numerics
isa_portable =
isa_avx2     = -mavx2 -mfma
isa_avx512   = -mavx512f -mavx512dq -mavx512vl -mavx512bw -mavx2 -mfma
cflags_host  = -O3 -g $werror
# Instrumented code confuses gcc's -Wmaybe-uninitialized; the host preset has it.
cflags_sanitizer = -g -fno-omit-frame-pointer -Werror -Wno-maybe-uninitialized
cflags_asan  = -O1 -fsanitize=address,undefined -fno-sanitize-recover=all $cflags_sanitizer
cflags_tsan  = -O2 -fsanitize=thread $cflags_sanitizer
ldflags_host =
ldflags_asan = -fsanitize=address,undefined
ldflags_tsan = -fsanitize=thread
ldflags_static = -static
"""

# rule, command, description, further variables. $out.d is the depfile of a C compilation.
RULES = [
    ("ar", "rm -f $out && $ar rcsD $out $in", "AR $out"),
    ("as", "$cc -Wa,-I. -c $in -o $out", "AS $out"),
    ("run_test", "rm -f $out; LOCKSTEP=$program timeout -k 5 900 ./$in > $out.log 2>&1 && "
                 "mv $out.log $out || { cat $out.log; exit 1; }", "TEST $in", "pool = tests"),
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
        for name in names.split():
            stem = f"{folder}/{name}" if folder else name
            out.append(edge(f"{obj}/{stem}.o", f"cc_{p}", [f"src/{stem}.c"]))
            objects.append(f"{obj}/{stem}.o")
    out.append(edge(f"{obj}/embed.o", "as", ["src/embed.S"], EMBEDDED))
    objects.append(f"{obj}/embed.o")
    for isa in HOST_TABLES["x86_64"][1]:
        for name in HOST_KERNELS.split():
            out.append(edge(f"{obj}/kernels/host/{isa}/{name}.o", f"cc_{p}",
                            [f"src/kernels/host/{name}.c"],
                            more=f"$isa_{isa} -DLS_ISA={isa} "
                                 f"-DLS_SIMD='\"kernels/host/simd_{isa}.h\"'"))
    for table, (cpu, isas) in HOST_TABLES.items():
        cpu = f"{obj}/kernels/host/{cpu}"
        out.append(edge(f"{cpu}.o", f"cc_{p}", [cpu.replace(obj, "src") + ".c"]))
        host = [f"{obj}/kernels/host/{i}/{n}.o" for i in isas for n in HOST_KERNELS.split()]
        out.append(edge(f"build/{p}/libhost_{table}.a", "ar", host + [f"{cpu}.o"]))
    out.append(edge(f"build/{p}/liblockstep.a", "ar", objects))


def archives(p):
    return [f"build/{p}/liblockstep.a", f"build/{p}/libhost_$host_table.a"]


def tests(p, names, out):
    """Programs of preset p and their stamps; returns the stamps."""
    folder, stamps = f"build/{p}/tests", []
    for name in names.split():
        program, of_program = f"{folder}/{name}", name in TESTS_OF_PROGRAM.split()
        out.append(edge(f"{program}.o", f"cc_{p}", [f"tests/unit/{name}.c"],
                        more="-Itests $cmocka_cflags"))
        out.append(edge(program, f"link_{p}", [f"{program}.o", f"build/{p}/libsupport.a"]
                        + archives(p), libs="$cmocka_libs"))
        out.append(edge(f"{program}.ok", "run_test", [program],
                        [f"build/{p}/lockstep"] if of_program else [],
                        program=f"build/{p}/lockstep"))
        stamps.append(f"{program}.ok")
    return stamps


def support(p, out):
    objects = []
    for name in TEST_SUPPORT.split():
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
        stamps = tests(p, TESTS, out)
        if p == "host":
            stamps += tests(p, TESTS_HOST, out)
            out.append(edge("check-long", "phony", tests(p, TESTS_LONG, out)))
        out.append(edge("check" if p == "host" else f"check-{p}", "phony", stamps))
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
