#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs_check.py -- runs what README.md and docs/*.md tell a reader to type. `ninja docs-check`.

Fenced blocks, by what follows the three backticks:

    sh              commands: run with sh -e in a folder made for the page, where build, src, tests
                    and docs are those of the tree; they must succeed
    sh exit=3       they must end with that status
    sh skip=WHY     not run (no GPU here ...); listed at the end. WHY is one word
    output          what the block before prints on stdout and stderr. A line of three dots stands
                    for any lines, three dots within a line for any text. Times and rates (numbers
                    with s, ms, samples/s, %) are not compared; losses and digests are: they
                    are the same on every machine
    ... file=NAME   written to the page's folder before the blocks after it run

`./bootstrap` and `ninja` commands run in the tree itself, and `./bootstrap check` only counts
what `ninja check` has already run. Links to files must lead somewhere, and every --option named
must be in some --help. The last line is "N passed, N failed", counted in blocks and pages.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.getcwd()
COMMANDS = ["", "train", "eval", "predict", "show", "devices", "verify", "data verify", "data show",
            "bench allreduce", "bench gemm", "bench conv", "bench step"]
# Of scripts, or of everything.
OTHER_OPTIONS = {"--check", "--help", "--least", "--rounds", "--version", "--virtual-gpus",
                 "--volatile"}


def blocks_of(text):
    """(line number, words after the backticks, contents) of each fenced block."""
    found, start, info, lines = [], 0, "", []
    for number, line in enumerate(text.split("\n"), 1):
        fence = re.match(r"```(.*)$", line)
        if fence and start:
            found.append((start, info.split(), "\n".join(lines) + "\n"))
            start = 0
        elif fence:
            start, info, lines = number, fence.group(1), []
        elif start:
            lines.append(line)
    return found


def masked(text):
    """`text` without what differs from run to run: times and rates, and blanks at line ends."""
    number = r"(?<![\w.])\d+(\.\d+)?"
    text = re.sub(number + r"(?= ?(s|ms|us|samples/s|steps/s|%)(?!\w))", "#", text)
    return [re.sub(r" +", " ", line).strip() for line in text.strip("\n").split("\n")]


def matches(expected, real):
    pattern = ""
    for line in expected:
        if line == "...":
            pattern += r"(.*\n)*?"
        else:
            pattern += r".*?".join(re.escape(part) for part in line.split("...")) + "\n"
    return re.fullmatch(pattern, "\n".join(real) + "\n") is not None


def first_difference(expected, real):
    """The longest beginning of `expected` that `real` can begin with, and what comes after."""
    for count in range(len(expected), -1, -1):
        if matches(expected[:count] + ["..."], real):
            break
    return f"    no such line here: {expected[count:count + 1]}\n    real output ends: {real[-8:]}"


def run(script, folder):
    """Status and output of a block of commands."""
    if re.match(r"\./bootstrap check\s*$", script):
        script = ("ninja -k 0 check > /dev/null 2>&1 || true\n"
                  "tests/tally $(ninja -t query check | grep '\\.ok$')\n")
        folder = ROOT
    elif re.match(r"(\./bootstrap|ninja)\b", script):
        folder = ROOT
    done = subprocess.run(["sh", "-e", "-c", script], cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, check=False)
    return done.returncode, done.stdout


def known_options():
    text = ""
    for command in COMMANDS:
        words = [os.path.join(ROOT, "build/host/lockstep")] + command.split() + ["--help"]
        text += subprocess.run(words, capture_output=True, text=True, check=False).stdout
    words = [sys.executable, os.path.join(ROOT, "tests/peers/training"), "--help"]
    text += subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"--[a-z][a-z0-9-]*", text)) | OTHER_OPTIONS


def check_words(page, text, options):
    """Links and option names of a page; returns problems."""
    problems = []
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target and not os.path.exists(os.path.join(os.path.dirname(page), target)):
            problems.append(f"{page}: the link to {target} leads nowhere")
    for option in sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text)) - options):
        problems.append(f"{page}: no --help knows {option}")
    return problems


def check_block(page, block, folder, last):
    """Run or compare one block; returns (problem or None, its output, why it was skipped)."""
    line, words, contents = block
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    if "file" in settings:
        with open(os.path.join(folder, settings["file"]), "w", encoding="ascii") as f:
            f.write(contents)
    if words[:1] == ["output"]:
        if last is None or matches(masked(contents), masked(last)):
            return None, last, None
        problem = first_difference(masked(contents), masked(last))
        return f"{page}:{line}: the output is another:\n{problem}", last, None
    if words[:1] != ["sh"]:
        return None, last, None
    if "skip" in settings:
        return None, None, f"{page}:{line}: not run: {settings['skip']}"
    wanted = int(settings.get("exit", 0))
    status, output = run(contents, folder)
    if status != wanted:
        return f"{page}:{line}: status {status}, expected {wanted}:\n{output[-2000:]}", output, None
    return None, output, None


def check_page(page, text, options):
    problems, skipped, counted, last = check_words(page, text, options), [], 1, None
    folder = tempfile.mkdtemp(prefix="lockstep-docs-")
    try:
        for name in ("build", "src", "tests", "docs"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
        for block in blocks_of(text):
            problem, last, skip = check_block(page, block, folder, last)
            counted += block[1][:1] in (["sh"], ["output"]) and not skip
            problems += [problem] if problem else []
            skipped += [skip] if skip else []
    finally:
        shutil.rmtree(folder)
    return problems, skipped, counted


def try_the_check_itself():
    """The check must reject a wrong status, output, link and option."""
    bad = ("```sh\nfalse\n```\n```sh\necho 0.5 loss in 3 s\n```\n```output\n0.6 loss in 4 s\n```\n"
           "[a](nowhere.md) --no-such-option\n")
    found = len(check_page("README.md", bad, {"--help"})[0])
    return [] if found == 4 else [f"docs_check.py: found {found} of the 4 planted problems"]


def main():
    pages = ["README.md"] + sorted("docs/" + n for n in os.listdir("docs") if n.endswith(".md"))
    problems, skipped, counted = try_the_check_itself(), [], 1
    options = known_options()
    for page in pages:
        with open(page, encoding="utf-8") as f:
            found, left, count = check_page(page, f.read(), options)
        problems, skipped, counted = problems + found, skipped + left, counted + count
        print(f"{page}: {count} checked, {len(found)} failed", flush=True)
    print("\n".join(skipped + problems))
    failed = len(problems)
    print(f"{max(counted - failed, 0)} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
