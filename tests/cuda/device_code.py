#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""device_code.py -- what the toolkit made of the device code: registers, stack, instructions.

    device_code.py OBJECTS            check build/cuda/obj/kernels/cuda, say, against registers.tsv
    device_code.py OBJECTS --write    write registers.tsv anew from it

OBJECTS holds, for each .cu file, what ptxas said for each GPU (NAME.90.log) and the PTX texts
(NAME.low.ptx, NAME.80.ptx). Registers are given to a thread in units of 8, so a budget is a
multiple of 8: what a kernel may use before fewer of its blocks fit a multiprocessor. A kernel that
needs more shows up here, with another compiler as well; docs/kernels-gpu.md says what the numbers
are for. Of the instructions, those that numerics.md bans: approximations, flushing, minimum and
maximum of floating-point numbers, arithmetic that does not say how it rounds, atomic additions of
floats; and loads through the read-only cache, which need not see what another GPU wrote.

Each rule comes with an example that it must reject, tried first. The last line is
"N passed, N failed", counted in rules.
"""

import os
import re
import sys

BUDGET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "registers.tsv")
UNIT = 8


def read_logs(folder):
    """{(kernel, gpu): {"registers": n, "stack": bytes}} of all logs."""
    kernels = {}
    for name in sorted(os.listdir(folder)):
        found = re.fullmatch(r"\w+\.(\d+)\.log", name)
        if not found:
            continue
        with open(os.path.join(folder, name), encoding="ascii") as f:
            kernels.update(read_log(f.read(), found[1]))
    return kernels


def read_log(text, gpu):
    kernels, at = {}, None
    for line in text.split("\n"):
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            at = kernels[found[1], gpu] = {"registers": 0, "stack": 0}
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", line):
            at["stack"] = int(found[1]) + int(found[2])
        elif found := re.search(r"Used (\d+) registers", line):
            at["registers"] = int(found[1])
    return kernels


def read_texts(folder):
    texts = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".ptx"):
            with open(os.path.join(folder, name), encoding="ascii") as f:
                texts[name] = f.read()
    return texts


def read_budget(text):
    """{(kernel, gpu): registers}"""
    lines = [line.split("\t") for line in text.split("\n") if line and not line.startswith("#")]
    gpus = lines[0][1:]
    return {(kernel, gpu): int(n) for kernel, *numbers in lines[1:]
            for gpu, n in zip(gpus, numbers)}


def write_budget(kernels):
    gpus = sorted({gpu for _, gpu in kernels}, key=int)
    out = ["# Registers that a thread of each kernel may use, by GPU (90: compute capability 9.0).",
           "# Written by tests/cuda/device_code.py --write; multiples of 8.",
           "\t".join(["kernel"] + gpus)]
    for name in sorted({kernel for kernel, _ in kernels}):
        numbers = [kernels[name, gpu]["registers"] for gpu in gpus]
        out.append("\t".join([name] + [str((n + UNIT - 1) // UNIT * UNIT) for n in numbers]))
    return "\n".join(out) + "\n"


# -- rules: -> problems --------------------------------------------------------------------------

def registers_are_within_budget(kernels, texts, budget):
    del texts
    return [f"{kernel} for {gpu}: {used['registers']} registers, the budget is "
            f"{budget[kernel, gpu]}" for (kernel, gpu), used in kernels.items()
            if used["registers"] > budget.get((kernel, gpu), 255)]


def every_kernel_has_a_budget(kernels, texts, budget):
    del texts
    built = {gpu for _, gpu in kernels}
    return ([f"{kernel} for {gpu}: no budget" for kernel, gpu in kernels
             if (kernel, gpu) not in budget]
            + [f"{kernel} for {gpu}: a budget but no such kernel" for kernel, gpu in budget
               if gpu in built and (kernel, gpu) not in kernels])


def no_kernel_uses_a_stack(kernels, texts, budget):
    del texts, budget
    return [f"{kernel} for {gpu}: {used['stack']} bytes" for (kernel, gpu), used in kernels.items()
            if used["stack"] > 0]


BANNED = [
    (r"\.(approx|ftz|full)\b", "an approximation, or flushing"),
    (r"^(min|max)(\.\w+)*\.f(32|64)", "minimum and maximum differ on NaN and zeros"),
    (r"^(add|sub|mul|div|fma|mad|sqrt|rcp)(?!(\.\w+)*\.rn)(\.\w+)*\.f(32|64)", "does not say .rn"),
    (r"^(atom|red)(\.\w+)*\.f(16|32|64)", "an atomic addition of floats"),
    (r"^ld\.global(\.\w+)*\.nc", "the read-only cache"),
]


def instructions_are_allowed(kernels, texts, budget):
    del kernels, budget
    problems = []
    for name, text in texts.items():
        for number, line in enumerate(text.split("\n"), 1):
            instruction = re.sub(r"^\s*(@!?%p\d+\s+)?", "", line)
            for pattern, why in BANNED:
                if not instruction.startswith("//") and re.search(pattern, instruction):
                    problems.append(f"{name}:{number}: {why}: {instruction}")
    return problems


USED = {("k", "90"): {"registers": 33, "stack": 8}}
EXAMPLES = [
    (registers_are_within_budget, (USED, {}, {("k", "90"): 32})),
    (every_kernel_has_a_budget, (USED, {}, {})),
    (every_kernel_has_a_budget, (USED, {}, {("k", "90"): 40, ("l", "90"): 40})),
    (no_kernel_uses_a_stack, (USED, {}, {})),
] + [(instructions_are_allowed, ({}, {"a.ptx": f"\t@%p1 {text} \t%f1, %f2;"}, {})) for text in (
    "ex2.approx.f32", "add.rn.ftz.f32", "max.f32", "min.NaN.f32", "add.f32", "mul.f64",
    "fma.rz.f32", "atom.global.add.f32", "ld.global.nc.v4.f32")]


def main():
    folder = sys.argv[1]
    kernels, texts = read_logs(folder), read_texts(folder)
    if "--write" in sys.argv[2:]:
        with open(BUDGET, "w", encoding="ascii", newline="\n") as f:
            f.write(write_budget(kernels))
        return 0
    with open(BUDGET, encoding="ascii") as f:
        budget = read_budget(f.read())
    failed = 0
    rules = list(dict.fromkeys(rule for rule, _ in EXAMPLES))
    for rule in rules:
        problems = [f"lets example {i} pass" for i, (r, example) in enumerate(EXAMPLES)
                    if r is rule and not rule(*example)]
        problems += rule(kernels, texts, budget)
        if not kernels or not texts:
            problems.append(f"nothing built in {folder}")
        for problem in problems:
            print(f"{rule.__name__}: {problem}")
        failed += bool(problems)
    print(f"{len(kernels)} kernels and GPUs, {len(texts)} texts")
    print(f"{len(rules) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
