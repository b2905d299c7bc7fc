#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""configure.py -- writes build.ninja, which is committed: nobody needs Python to build.

The output is flat and complete. Every source is listed below by name, nothing is looked for on
the machine, and the same lists give the same bytes. Presets are parallel trees in one file,
chosen by target and not by configuring again:

    build/host   -O3 -g, what users run         build/static  the host objects, linked statically
    build/asan   address + undefined behaviour  build/tsan    data races
    build/cuda   the host objects, with the CUDA backend; build/cuda-asan, build/cuda-tsan likewise

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
    "": "cores crc32c nearest page planes pool sha256 status thread wait",
    "device": "device host host_room paper pcie ring_order topology",
    "kernels": "arena batchnorm check elementwise fold kernels loss row_merge",
    "kernels/reference": ("activation arena batch_sum batchnorm conv decode dropout format16 gemm "
                          "loss pool shard_sums table tensors whole"),
    "collectives": ("all_reduce bucket comm comm_create gather ledger link overdue "
                    "reduce_direct reduce_ring rendezvous ring ring_describe tree"),
    "io": ("augment augment_pixels batch_slot checkpoint checkpoint_header csv data_file dataset "
           "dataset_cifar dataset_csv dataset_digits dataset_idx dataset_npy dataset_read "
           "dataset_report dataset_scale dataset_spec json new_file pipeline png run_folder "
           "sample_cache sampler"),
    "train": ("apply backward best builtin callbacks class_weights compare config config_schedule "
              "config_value environment evaluate explain folder forward gradient_plan guard input "
              "loss machine memory metrics model_describe model_init model_ops model_options "
              "model_parameters model_parse model_shapes model_words nonfinite normalize "
              "optimizer rank replica replica_layout resume rules schedule scores state "
              "state_text step storage trainer"),
    # without main.c, which is not part of the library
    "cli": ("bench bench_allreduce bench_cases bench_exchange bench_kernel_run bench_kernels "
            "bench_peak bench_step console contact_sheet data devices eval glyph ladder options "
            "predict report rung_batch rung_bits rung_speed scratch_folder show signals train "
            "verify"),
}
# One micro-kernel source per op, compiled once per instruction set (src/kernels/host/host.h).
HOST_KERNELS = ("activation arena batch_sum batchnorm batchnorm_sums conv decode dropout "
                "format16 gemm in_place loss patch peak pool pooled_forward pooled_gradient "
                "product table tensors tile weight_gradient whole windows")
# A build links one of these: what chooses at run time, and the sets of kernels it chooses among.
HOST_TABLES = {
    "x86_64": (["kernels/host/cpu", "cpu_bytes_x86_64"], ["portable", "avx2", "avx512"]),
    "portable": (["kernels/host/cpu_portable", "cpu_bytes_portable"], ["portable"]),
}
# A build links one of these as well: the CUDA backend, or what says that there is none.
GPU_SOURCES = {
    "cuda": ["device/cuda", "device/cuda_context", "device/cuda_driver", "device/cuda_facts",
             "device/cuda_marks", "device/cuda_module", "device/cuda_probe",
             "device/cuda_probe_child", "device/cuda_speed", "kernels/cuda/launch",
             "kernels/cuda/launch_arena", "kernels/cuda/launch_batch",
             "kernels/cuda/launch_batchnorm",
             "kernels/cuda/launch_elements", "kernels/cuda/launch_product"],
    "absent": ["device/cuda_absent", "kernels/cuda_absent"],
}
# Device code: src/<name>.cu. The ops' kernels, and the link probe's.
CUDA_KERNELS = [f"kernels/cuda/{name}" for name in (
    "activation arena batch_sum batchnorm conv decode dropout format16 gemm loss pool shard_sums "
    "tensors weight_gradient whole").split()]
CUDA_PROBE = "device/probe"
# What src/embed.S includes.
EMBEDDED = [
    "src/data/digits.csv",
    "src/models/cifar10-cnn.model",
    "src/models/digits-cnn.model",
    "src/models/linear.model",
    "src/models/mlp.model",
    "src/models/mnist-mlp.model",
    "src/models/resnet18.model",
    "src/models/resnet20.model",
    "src/models/resnet50.model",
]

# -- the virtual GPU: tests/vgpu/<name>.c; driver_* around the interpreter ptx_* -----------------
VGPU = ("driver_call driver_config driver_copy driver_device driver_error driver_event "
        "driver_handle driver_launch driver_memory driver_module driver_order driver_stream "
        "ptx_access ptx_check ptx_collective ptx_execute ptx_instruction ptx_kernel ptx_lex "
        "ptx_memory ptx_parse ptx_pressure ptx_program ptx_rows ptx_run ptx_symbol ptx_table")

# -- tests: tests/support/<name>.c, tests/unit/<name>.c ----------------------------------------
TEST_SUPPORT = ("conformance convolution data_folder faulty_device fresh_process gpu_arrays "
                "gpu_machines late_device machines naive network normalisation product program "
                "ranks reduction reference residual stored_png training virtual_driver "
                "virtual_machine")
# check, check-asan, check-tsan
TESTS = ("test_activation test_all_reduce test_allocations test_arena test_augment test_batch_sum "
         "test_batchnorm test_bench test_broken_data test_bucket test_callbacks test_checkpoint "
         "test_cifar10 test_cifar100 test_cli test_config test_contact_sheet test_conv "
         "test_crc32c test_csv test_dataset test_decode test_device test_dropout test_faults "
         "test_fold test_format16 test_gemm test_gradient_plan test_gradients test_guard test_idx "
         "test_input test_json test_kernels test_late_streams test_link test_loss test_memory "
         "test_metrics test_model test_model_graph test_nearest test_network_gradients "
         "test_normalize test_npy test_numerics test_optimizer test_pcie test_pipeline "
         "test_planes test_png test_pool test_pooled test_protocol test_residual test_resume "
         "test_ring test_ring_order test_run_folder test_sample_cache test_sampler test_schedule "
         "test_semantics test_sha256 test_shard_sums test_status test_tensors test_thread "
         "test_topology test_tree test_unused test_vgpu_driver test_vgpu_launch test_vgpu_order "
         "test_vgpu_ptx test_weights test_whole")
# check only: whole trainings, too slow under a sanitizer
TESTS_HOST = ("test_golden test_golden_layers test_golden_resnet test_lockstep test_npy_large")
# check-long: exhaustive sweeps
TESTS_LONG = ("long_all_reduce long_conv long_gemm long_kills long_learning long_lockstep "
              "long_numerics long_residual long_resnet")
# These run the program itself, $LOCKSTEP.
TESTS_OF_PROGRAM = "test_bench test_cli long_kills"
# These open the virtual GPU, $LOCKSTEP_VGPU_LIBRARY, or link what it is made of.
TESTS_OF_VGPU = "test_vgpu_driver test_vgpu_launch test_vgpu_order test_vgpu_ptx"

# check-cuda, check-cuda-asan, check-cuda-tsan: on the virtual GPU
TESTS_CUDA = ("test_cuda_batchnorm test_cuda_collectives test_cuda_conformance test_cuda_decode "
              "test_cuda_device test_cuda_elements test_cuda_format16 test_cuda_products "
              "test_cuda_resnet test_cuda_tensors test_cuda_train test_cuda_waits")
# check-cuda-long; the second list also with sanitizers
TESTS_CUDA_LONG = "long_cuda_collectives long_cuda_faults"
TESTS_CUDA_LONG_ALL = "long_cuda_steps"
# Functions that a test puts its own in the place of.
REPLACED = {"test_allocations": "malloc calloc realloc aligned_alloc strdup free",
            "test_cuda_collectives": "ls_link_send_begin ls_link_recv_begin",
            "test_cuda_waits": "ls_stream_wait ls_link_send_begin ls_link_recv_begin"}

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
# No contraction here either; -lineinfo lets the virtual GPU name lines of a .cu file.
nvcc_flags   = -std=c++17 -O3 -fmad=false -lineinfo -Isrc -Werror all-warnings
ptxas_flags  = -v --warn-on-spills --warn-on-local-memory-usage --warning-as-error
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
        for name in names.split():
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
        for name in HOST_KERNELS.split():
            out.append(edge(f"{obj}/kernels/host/{isa}/{name}.o", f"cc_{p}",
                            [f"src/kernels/host/{name}.c"],
                            more=f"$isa_{isa} -DLS_ISA={isa} "
                                 f"-DLS_SIMD='\"kernels/host/simd_{isa}.h\"'"))
    for table, (choosers, isas) in HOST_TABLES.items():
        host = [f"{obj}/kernels/host/{i}/{n}.o" for i in isas for n in HOST_KERNELS.split()]
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
    for stem in CUDA_KERNELS + [CUDA_PROBE]:
        there = f"build/cuda/obj/{stem}"
        for name, target in ("low", "$cuda_low"), ("80", "80"):
            out.append(edge(f"{there}.{name}.ptx", "ptx", [f"src/{stem}.cu"], target=target))
        texts = [f"{there}.low.ptx", f"{there}.80.ptx"]
        out.append(edge(f"{there}.fatbin", "fatbin", texts, stem=there))
        files += texts + [f"{there}.fatbin"]
    names = ",".join(stem.split("/")[-1] for stem in CUDA_KERNELS)
    out.append(edge("build/cuda/obj/embed_cuda.o", "as_cuda", ["src/embed_cuda.S"], files,
                    kernels=names))


def fresh_ptx(out):
    """Tests of the interpreter on what this nvcc writes; returns the stamp."""
    folder, test, files = "build/cuda/vgpu", "build/host/tests/test_vgpu_ptx", []
    for name, target in ("gemm", "75"), ("gemm", "80"), ("meetings", "75"):
        files.append(f"{folder}/{name}.{target}.ptx")
        out.append(edge(files[-1], "ptx", [f"tests/vgpu/kernels/{name}.cu"], target=target))
    out.append(edge(f"{folder}/test_vgpu_ptx.ok", "run_test", [test], files, program="", vgpu="",
                    more=f"LS_VGPU_PTX={folder}"))
    return f"{folder}/test_vgpu_ptx.ok"


def replaced(name):
    """The linker's options for the functions that a test replaces."""
    return "".join(f" -Wl,--wrap={function}" for function in REPLACED.get(name, "").split())


def cuda(p, out):
    """The program with CUDA and its tests, of preset p's objects; returns long tests' stamps."""
    folder = "build/cuda" if p == "host" else f"build/cuda-{p}"
    vgpu_library, stamps, long_stamps = f"build/{p}/vgpu/libcuda.so.1", [], []
    out.append(edge(f"{folder}/lockstep", f"link_{p}", [f"build/{p}/obj/cli/main.o"]
                    + archives(p, "cuda"), libs="-ldl"))
    long_names = (TESTS_CUDA_LONG.split() if p == "host" else []) + TESTS_CUDA_LONG_ALL.split()
    for name in TESTS_CUDA.split() + long_names:
        program = f"{folder}/tests/{name}"
        out.append(edge(f"{program}.o", f"cc_{p}", [f"tests/unit/{name}.c"],
                        more="-Itests $cmocka_cflags -isystem $cuda_home/include "
                             "-DLS_CUDA_STUB='\"$cuda_home/lib64/stubs/libcuda.so\"'"))
        out.append(edge(program, f"link_{p}", [f"{program}.o", f"build/{p}/libsupport.a"]
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
        stamps += [fresh_ptx(out), "build/cuda/device_code.ok"]
        out.append(edge(stamps[-1], "device_code", ["tests/cuda/device_code.py"],
                        ["tests/cuda/registers.tsv", "build/cuda/obj/embed_cuda.o"]))
    out.append(edge("check-cuda" if p == "host" else f"check-cuda-{p}", "phony", stamps))
    return long_stamps


def vgpu(p, out):
    """The virtual GPU: an archive for tests of its parts, and the library that programs open."""
    objects = []
    for name in VGPU.split():
        objects.append(f"build/{p}/vgpu/{name}.o")
        out.append(edge(objects[-1], f"cc_{p}", [f"tests/vgpu/{name}.c"],
                        more="-fPIC -fvisibility=hidden"))
    out.append(edge(f"build/{p}/libvgpu.a", "ar", objects))
    out.append(edge(f"build/{p}/vgpu/libcuda.so.1", f"link_vgpu_{p}", objects))


def tests(p, names, out):
    """Programs of preset p and their stamps; returns the stamps."""
    folder, stamps = f"build/{p}/tests", []
    for name in names.split():
        program, of_program = f"{folder}/{name}", name in TESTS_OF_PROGRAM.split()
        of_vgpu, vgpu_library = name in TESTS_OF_VGPU.split(), f"build/{p}/vgpu/libcuda.so.1"
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
        vgpu(p, out)
        stamps = tests(p, TESTS, out)
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
    out.append(edge("gpu-tests", "phony", ["build/cuda/lockstep"]
                    + [f"build/cuda/tests/{name}" for name in TESTS_CUDA.split()]))
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
