#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lint.py -- the rules of the tree that a compiler does not check. Run by `ninja lint`.

Layers, lowest first; a file may include its own folder and what stands before it:

    status thread and the small pure files of src/ < device < kernels < collectives < train < cli
    io sees host memory only: it may include src/ itself and io; train and cli may include io

Three kinds of rule: of one text file, of the tree as a whole, and of object files (nm). Each rule
comes with an example that it must reject, and every run tries those first: a rule that lets its
example pass is itself reported. The last line is "N passed, N failed", counted in rules.
"""

import os
import re
import subprocess
import sys

LAYERS = {
    "": {""},
    "io": {"", "io"},
    "device": {"", "device"},
    "kernels": {"", "device", "kernels"},
    "collectives": {"", "device", "kernels", "collectives"},
    "train": {"", "io", "device", "kernels", "collectives", "train"},
    "cli": {"", "io", "device", "kernels", "collectives", "train", "cli"},
}
CODE = (".c", ".h", ".S", ".py", ".sh")
SCRIPTS = ("bootstrap", ".ci/run", "tests/tally")


def layer(path):
    """The folder of src/ that decides what a source may include: "", "io", "kernels" ..."""
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else ""


def lines_that(path, text, pattern, message):
    return [f"{path}:{i}: {message}: {line.strip()[:60]}"
            for i, line in enumerate(text.split("\n"), 1) if re.search(pattern, line)]


# -- rules of one text file: (path, text) -> problems --------------------------------------------

def is_code(path):
    return path.endswith(CODE) or path in SCRIPTS


def lines_are_short(path, text):
    return lines_that(path, text, r"^.{101}", "longer than 100 columns") if is_code(path) else []


def text_is_ascii(path, text):
    return lines_that(path, text, r"[^\x00-\x7f]", "not ASCII")


def no_stray_blanks(path, text):
    return lines_that(path, text, r"\t|[ \r]$", "tab or blank at the end")


def nothing_unfinished(path, text):
    words = "TO" + "DO|FIX" + "ME|X" + "XX"
    return lines_that(path, text, rf"\b({words})\b|^\s*#\s*if\s+0\b", "unfinished")


def no_path_of_a_machine(path, text):
    folders = "|".join(["wo" + "rk", "ho" + "me", "ro" + "ot", "Us" + "ers"])
    return lines_that(path, text, rf"(^|[\s\"'`(=])/({folders})/", "a path of some machine")


def licence_comes_first(path, text):
    if not is_code(path):
        return []
    spdx = "SPDX-License-Identifier: MIT"
    found = any(spdx in line for line in text.split("\n")[:2])
    return [] if found else [f"{path}:1: no {spdx}"]


def head_names_the_file(path, text):
    if not path.endswith((".c", ".h", ".S")) or not path.startswith(("src/", "tests/")):
        return []
    head = text.split("\n")[1:2]
    name = re.escape(os.path.basename(path))
    return [] if head and re.match(rf"/\* {name} -- \S", head[0]) else [
        f"{path}:2: the second line must begin \"/* {os.path.basename(path)} -- \""]


def file_name_says_what(path, text):
    del text
    return [f"{path}: a name that says nothing" for part in path.split("/")
            if re.match(r"(util|misc|common|helper)s?\b", part)]


def names_follow_the_pattern(path, text):
    if not path.endswith((".c", ".h")):
        return []
    return lines_that(path, text,
                      r"\bls_\w+_t\b|\bls_(\w+_)?(get|do|handle|process|manage|perform)(_\w+)?\(",
                      "name")


def includes_keep_the_layers(path, text):
    if not path.startswith("src/"):
        return []
    problems, own = [], layer(path)
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
        folder = layer("src/" + name)
        if folder not in LAYERS.get(own, set()):
            problems.append(f"{path}: {own or 'src'} may not include {name}")
        if path.startswith("src/kernels/reference/") and name.startswith("kernels/host/"):
            problems.append(f"{path}: the definition of the bits may not include {name}")
    return problems


def no_conditional_on_machine(path, text):
    if not path.startswith("src/"):
        return []
    family = "CUDA|x86|X64|amd64|aarch64|ARM|__AVX|__SSE|__FMA|__linux|_WIN32|__APPLE"
    found = lines_that(path, text, rf"^\s*#\s*(el)?if(?!ndef LS_\w+_H$).*({family})",
                       "conditional on the machine")
    if not re.match(r"src/(kernels/host/(simd_\w+\.h|cpu\w*\.c)|cpu_bytes_\w+\.c)$", path):
        found += lines_that(path, text, r"#\s*include\s+<(\w+intrin|cpuid|arm_\w+)\.h>",
                            "intrinsics outside kernels/host and cpu_bytes")
    return found


def no_atomic_floats(path, text):
    return lines_that(path, text, r"_Atomic\W+(float|double)", "a floating-point atomic")


def tests_are_named_and_run(path, text):
    if not re.match(r"tests/unit/\w+\.c$", path):
        return []
    problems = []
    if not os.path.basename(path).startswith(("test_", "long_")):
        problems.append(f"{path}: neither test_<module>.c nor long_<module>.c")
    declared = re.findall(r"^static void (test_\w+)\(void \*\*", text, re.M)
    for name in declared:
        if text.count(name) < 2:
            problems.append(f"{path}: {name} is never run")
        if name.count("_") < 3:
            problems.append(f"{path}: {name} is no sentence")
    return problems if declared else problems + [f"{path}: no test"]


TEXT_RULES = [  # (rule, path and text that it must reject)
    (lines_are_short, "src/a.c", "x" * 101),
    (text_is_ascii, "docs/a.md", "na\u00efve"),
    (no_stray_blanks, "src/a.c", "int a; \n"),
    (nothing_unfinished, "src/a.c", "/* TO" + "DO */"),
    (no_path_of_a_machine, "docs/a.md", "see /ho" + "me/someone"),
    (licence_comes_first, "src/a.c", "int a;\nint b;\nint c;\n"),
    (head_names_the_file, "src/a.c", "/* SPDX-License-Identifier: MIT */\n/* b.c -- x. */\n"),
    (file_name_says_what, "src/utils.c", ""),
    (names_follow_the_pattern, "src/a.h", "void ls_data_process(void);"),
    (includes_keep_the_layers, "src/io/a.c", '#include "train/model.h"\n'),
    (includes_keep_the_layers, "src/kernels/a.c", '#include "collectives/ring.h"\n'),
    (includes_keep_the_layers, "src/kernels/reference/a.c", '#include "kernels/host/host.h"\n'),
    (includes_keep_the_layers, "src/status.c", '#include "device/device.h"\n'),
    (no_conditional_on_machine, "src/a.c", "#ifdef __x86_64__"),
    (no_conditional_on_machine, "src/train/a.c", "#include <immintrin.h>"),
    (no_atomic_floats, "src/a.c", "_At" + "omic float x;"),
    (tests_are_named_and_run, "tests/unit/test_a.c",
     "static void test_one_is_one(void **state)\n"),
]


# -- rules of object files: (path, symbols) -> problems; a symbol is (name, class, section) -------

LIBM = {name + suffix for suffix in ("", "f", "l") for name in (
    "exp exp2 expm1 log log2 log10 log1p pow sin cos tan sinh cosh tanh asin acos atan atan2 erf "
    "erfc cbrt hypot fma fmin fmax tgamma lgamma").split()}
ENDS = set("exit _exit _Exit quick_exit abort raise".split())
SPEAKS = set("stdout stderr printf vprintf puts putchar perror __printf_chk".split())
UNSAFE = set("gets strcpy strcat sprintf vsprintf strtok rand srand random drand48 system popen "
             "setlocale asctime ctime gmtime localtime".split())


def undefined_in(path, symbols, banned, why):
    return [f"{path}: {name}: {why}" for name, kind, _ in symbols
            if kind == "U" and name in banned]


def no_libm_in_the_bits(path, symbols):
    return [] if path.startswith("cli/") else undefined_in(
        path, symbols, LIBM, "libm's bits differ between machines (docs/numerics.md)")


# The probe's child is a program of its own: it ends itself.
ENDS_ITSELF = ("device/cuda_probe.o",)


def only_the_cli_ends_or_speaks(path, symbols):
    return [] if path.startswith("cli/") else undefined_in(
        path, symbols, SPEAKS if path in ENDS_ITSELF else ENDS | SPEAKS, "belongs to cli")


def no_unsafe_calls(path, symbols):
    return undefined_in(path, symbols, UNSAFE, "not used here")


# The driver is one per process, and so is what this process has of it; each file says which lock.
OF_THE_PROCESS = ("device/cuda_context.o", "device/cuda_driver.o", "device/cuda_probe.o")


def no_mutable_globals(path, symbols):
    return [f"{path}: {name}: mutable and global" for name, kind, section in symbols
            if not path.startswith("cli/") and path not in OF_THE_PROCESS and kind.upper() in "BDC"
            and re.match(r"\.(data|bss)(\.(?!rel\.ro)|$)|\*COM\*", section)]


def reference_stands_alone(path, symbols):
    return [f"{path}: {name}: reference kernels call no other implementation"
            for name, kind, _ in symbols if path.startswith("kernels/reference/")
            and kind == "U" and re.search(r"_(portable|avx2|avx512)$", name)]


OBJECT_RULES = [  # (rule, path and symbols that it must reject)
    (no_libm_in_the_bits, "train/a.o", [("expf", "U", "*UND*")]),
    (no_libm_in_the_bits, "kernels/host/avx2/a.o", [("fma", "U", "*UND*")]),
    (only_the_cli_ends_or_speaks, "io/a.o", [("printf", "U", "*UND*")]),
    (only_the_cli_ends_or_speaks, "thread.o", [("_exit", "U", "*UND*")]),
    (no_unsafe_calls, "cli/a.o", [("strcpy", "U", "*UND*")]),
    (no_mutable_globals, "device/a.o", [("count", "b", ".bss")]),
    (reference_stands_alone, "kernels/reference/a.o", [("ls_gemm_avx2", "U", "*UND*")]),
]


def read_symbols(object_path):
    out = subprocess.run(["nm", "-f", "sysv", object_path], check=True, capture_output=True,
                         text=True).stdout
    rows = [[field.strip() for field in line.split("|")] for line in out.split("\n")]
    return [(r[0].split("@")[0], r[2], r[6]) for r in rows if len(r) == 7]


# -- rules of the whole tree: (files, build text) -> problems -------------------------------------

def sources_are_listed(files, build):
    built = re.compile(r"(src|tests/unit|tests/support)/\S+\.[cS]$")
    words = set(build.split())
    return [f"{f}: not in build.ninja: add it to src/sources.py or tests/sources.py" for f in files
            if built.match(f) and f not in words]


def build_is_what_configure_writes(files, build):
    del files
    if build == "":
        return ["build.ninja: empty"]
    run = subprocess.run([sys.executable, "configure.py", "--check"], capture_output=True,
                         text=True, check=False)
    return [run.stderr.strip()] if run.returncode else []


def layers_are_known(files, build):
    del build
    return [f"{f}: a folder of src/ that lint.py does not know" for f in files
            if f.startswith("src/") and f.endswith((".c", ".h")) and layer(f) not in LAYERS]


TREE_RULES = [  # (rule, files and build text that it must reject)
    (sources_are_listed, ["src/a.c"], "build x: cc src/b.c"),
    (build_is_what_configure_writes, [], ""),
    (layers_are_known, ["src/misc/a.c"], ""),
]


# -- running them --------------------------------------------------------------------------------

def tree_files():
    skip = {".git", "build", "runs", "__pycache__", "golden"}
    out = []
    for folder, folders, names in os.walk("."):
        folders[:] = sorted(d for d in folders if d not in skip)
        out += [os.path.relpath(os.path.join(folder, n), ".") for n in sorted(names)]
    return [f for f in out if not f.startswith((".ninja", "build."))]


def object_files(root):
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            if name.endswith(".o"):
                yield os.path.join(folder, name)


def main():
    files = tree_files()
    texts = [f for f in files if is_code(f) or f.endswith((".md", ".model"))]
    with open("build.ninja", encoding="utf-8") as f:
        build = f.read()
    problems = {}
    for rule, *example in TEXT_RULES + OBJECT_RULES + TREE_RULES:
        found = problems.setdefault(rule.__name__, [])
        if not rule(*example):
            found.append(f"lint.py: the rule lets {example} pass")
    for path in texts:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for rule in dict.fromkeys(r[0] for r in TEXT_RULES):
            problems[rule.__name__] += rule(path, text)
    root, words = "build/host/obj", set(build.split()) | {w + ":" for w in build.split()}
    for path in object_files(root):
        if path + ":" in words or path in words:  # not one that an older build left
            symbols = read_symbols(path)
            for rule in dict.fromkeys(r[0] for r in OBJECT_RULES):
                problems[rule.__name__] += rule(os.path.relpath(path, root), symbols)
    for rule, *_ in TREE_RULES:
        problems[rule.__name__] += rule(files, build)
    for name, found in problems.items():
        for line in dict.fromkeys(found):
            print(f"{name}: {line}")
    failed = sum(1 for found in problems.values() if found)
    print(f"{len(problems) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
