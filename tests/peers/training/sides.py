# SPDX-License-Identifier: MIT
"""sides.py -- what takes turns: lockstep and the peers, and the settings that a peer may have.

A peer is a process that trains when it is told to and waits otherwise (tensorflow_peer.py,
torch_peer.py); lockstep is started anew for each turn. A case is (model, global batch, cores).
"""
import contextlib
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
IMAGES = {"cifar10-cnn": 9984, "mnist-mlp": 59904, "resnet20": 512}  # of an epoch; 256 divides it
SETTLE = {"cifar10-cnn": 20, "mnist-mlp": 100, "resnet20": 1}        # lockstep's warm-up, in steps

# By the name of a contestant: its script, and its settings on one core and on two.
SETTINGS = {
    "Keras fit as written": ("tensorflow", ["arrays"], ["arrays"]),
    "Keras fit": ("tensorflow", ["dataset+loop", "dataset+loop+jit"],
                  ["dataset+loop", "dataset+loop+jit", "dataset+loop+single",
                   "dataset+loop+jit+single"]),
    "MirroredStrategy": ("tensorflow", [], ["mirrored+arrays", "mirrored+dataset"]),
    "PyTorch": ("torch", ["eager", "eager+last", "eager+last+heap", "compile", "compile+last"],
                ["eager", "eager+last", "eager+last+heap", "eager+single", "compile",
                 "compile+last"]),
}

# A peer's, without and with the word `heap`: large arrays are then kept by the allocator from step
# to step and not handed back to the kernel, which would have to clear their pages again.
ENVIRONMENT = [dict(os.environ), dict(os.environ, MALLOC_MMAP_THRESHOLD_=str(1 << 33),
                                      MALLOC_TRIM_THRESHOLD_=str(1 << 34))]


def bound_to(cores):
    """What a child calls before it begins: stay on the first `cores` of this process's cores."""
    return lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


class Peer:
    """A process that trains when it is told to (tensorflow_peer.py, torch_peer.py)."""

    def __init__(self, options, script, setting, case, data, images):
        model, batch, cores = case
        python = os.path.join(options.venv, "bin", "python")
        self.setting = setting
        threads = 1 if "single" in setting else cores
        self.process = subprocess.Popen(
            [python, os.path.join(HERE, script + "_peer.py"), model, data, str(images), str(batch),
             str(threads), setting], env=ENVIRONMENT["heap" in setting],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            preexec_fn=bound_to(cores))
        greeting, want = self.answer(), parameter_count(options, model)
        self.images, found = greeting["images"], greeting["parameters"]
        if found != want:
            sys.exit(f"{script} builds {model} with {found} parameters, lockstep with {want}")

    def answer(self):
        """What it prints next. Closes a peer that has ended, which is a RuntimeError."""
        line = self.process.stdout.readline()
        if not line:
            self.close()
            raise RuntimeError(f"the peer with setting {self.setting} has ended")
        return json.loads(line)

    def ask(self, word, key):
        with contextlib.suppress(BrokenPipeError):       # it has ended: answer says so
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
        return self.answer()[key]

    def speed(self):
        return self.images / self.ask("train", "seconds")

    def close(self):
        """Ends it; returns the most memory that it had, in bytes."""
        with contextlib.suppress(BrokenPipeError):       # of a word that it will not read
            self.process.stdin.close()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return usage.ru_maxrss * 1024


def parameter_count(options, model):
    """What a peer's model must have to be the same one."""
    page = subprocess.run([options.program, "show", model], check=True, capture_output=True,
                          text=True).stdout
    return int(re.search(r"^parameters +([0-9,]+)", page, re.M).group(1).replace(",", ""))


def image_count(options, data):
    """How many images lockstep trains on."""
    page = subprocess.run([options.program, "data", "verify", data], check=True,
                          capture_output=True, text=True).stdout
    return int(re.search(r"([0-9]+) train and", page).group(1))


def bench_step(options, case, replicas, data, steps, settle, more=()):
    """What one repetition of `lockstep bench step` says."""
    model, batch, cores = case
    done = subprocess.run(
        [options.program, "bench", "step", model, "--data", data, "--global-batch", str(batch),
         "--devices", f"host:{replicas}", "--threads", str(cores // replicas), "--steps",
         str(steps), "--settle", str(settle), "--repeat", "1", "--json", *more],
        check=True, capture_output=True, text=True, preexec_fn=bound_to(cores))
    return json.loads(done.stdout)


def lockstep_speed(options, case, replicas, data):
    model, batch, _ = case
    steps = IMAGES[model] // batch
    return bench_step(options, case, replicas, data, steps,
                      min(steps, SETTLE[model]))["samples_per_second"]
