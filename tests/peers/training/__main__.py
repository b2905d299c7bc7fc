# SPDX-License-Identifier: MIT
"""training -- lockstep beside Keras and PyTorch: the same models on the same files, in turn.

    python3 tests/peers/training [--program build/host/lockstep] [--venv build/peers] ...

One command. Where the virtual environment is not there yet it is made, and tensorflow-cpu and
torch are installed into it by name (3 GB to fetch; the only step that needs a network). Then, for
each model, global batch and number of cores:

    trial     each setting of each peer (SETTINGS) trains a warm-up epoch and one that counts; the
              fastest setting of a kind goes on. Given --settings, only those named are tried.
    rounds    lockstep and the peers take turns, one epoch each, --rounds times, so that all of
              them meet the same moods of a shared machine.

Printed: medians of images per second with the least and the most, and lockstep's as a multiple of
each peer's: the ratio of the medians, and the least and the most ratio of a round. On one core
every process is bound to one; on two, to two. All sides compute float32, Adam at 0.001.

What counts is the time of training steps alone. Peers have their samples in memory as floats and
take them in the order of the files; lockstep reads its files, shuffles, logs each step, and
compares its replicas. Peers stay up from round to round and wait while others run; lockstep
starts anew each time, and its first steps do not count (`bench step`).

Samples are random bytes of CIFAR-10's and MNIST's layout in a temporary folder; no speed depends
on their values. Three more things are measured when asked for:

    --machine          lockstep beside itself, without peers: threads, replicas, shards (machine.py)
    --memory           the most memory of a process that trains cifar10-cnn for two epochs
    --floor ACCURACY   seconds of training until cifar10-cnn reaches it on the test part of --data
                       cifar10:FOLDER, tested after each epoch, shuffled on all sides; the rounds
                       are seeds

--record FILE appends every figure as a line of JSON; --report FILE prints what such a file says.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import made_samples
from machine import STEPS, compare_machine, print_machine
from sides import IMAGES, SETTINGS, Peer, image_count, lockstep_speed


# -- speeds ----------------------------------------------------------------------------------------

def best_peer(options, name, case, data):
    """The peer called `name`, warmed up, at the setting that is fastest here; None: it has none."""
    script, *by_cores = SETTINGS[name]
    settings = by_cores[case[2] - 1]
    if options.settings:
        settings = [s for s in settings if s in options.settings.split(",")]
    best, best_speed = None, 0
    for setting in settings:
        try:
            peer = Peer(options, script, setting, case, data, IMAGES[case[0]])
            peer.speed()
            speed = peer.speed() if len(settings) > 1 else 0
        except RuntimeError as error:
            print(f"  {name}: {error}", flush=True)
            continue
        if len(settings) > 1:
            print(f"  trial of {name}, {setting}: {speed:.0f} images/s", flush=True)
        if best:
            (peer if speed < best_speed else best).close()
        if not best or speed >= best_speed:
            best, best_speed = peer, speed
    return best


def compare(options, case, data):
    """Rounds of one model, batch and number of cores; a list of what to record."""
    names = [n for n in SETTINGS if not options.peers or n in options.peers.split(",")]
    peers = {name: best_peer(options, name, case, data) for name in names}
    peers = {name: peer for name, peer in peers.items() if peer}
    runs = {"lockstep": lambda: lockstep_speed(options, case, 1, data)}
    if "MirroredStrategy" in peers:
        runs["lockstep, 2 replicas"] = lambda: lockstep_speed(options, case, 2, data)
    runs.update({name: peer.speed for name, peer in peers.items()})
    speeds = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            speeds[name].append(run())
    for peer in peers.values():
        peer.close()
    settings = {name: peer.setting for name, peer in peers.items()}
    return {"what": "speed", "model": case[0], "batch": case[1], "cores": case[2],
            "settings": settings, "speeds": speeds}


def spread(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def print_speed(found):
    speeds = found["speeds"]
    print(f"{found['model']}, global batch {found['batch']}, {found['cores']} core"
          f"{'s' if found['cores'] > 1 else ''}, {len(speeds['lockstep'])} rounds: images/s")
    for name, values in speeds.items():
        setting = found["settings"].get(name, "")
        print(f"  {name:22} {spread(values, ',.0f'):32} {setting}")
    for name in found["settings"]:
        ours = "lockstep, 2 replicas" if name == "MirroredStrategy" else "lockstep"
        ratios = [a / b for a, b in zip(speeds[ours], speeds[name])]
        ratio = statistics.median(speeds[ours]) / statistics.median(speeds[name])
        print(f"  {ours} / {name}: {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    sys.stdout.flush()


# -- memory and time to an accuracy ----------------------------------------------------------------

CNN = ("cifar10-cnn", 64, 2)


def lockstep_memory(options, data):
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [options.program, "train", CNN[0], "--data", data, "--global-batch", str(CNN[1]),
             "--devices", "host:1", "--epochs", "2", "--out", os.path.join(folder, "run")],
            stdout=subprocess.DEVNULL)
        _, process.returncode, usage = os.wait4(process.pid, 0)
        return usage.ru_maxrss * 1024


def compare_memory(options, data):
    found = {"lockstep": lockstep_memory(options, data)}
    for name in ("Keras fit as written", "Keras fit", "MirroredStrategy", "PyTorch"):
        script, _, settings = SETTINGS[name]
        peer = Peer(options, script, settings[0], CNN, data, IMAGES[CNN[0]])
        peer.speed()
        peer.speed()
        found[name] = peer.close()
    return {"what": "memory", "bytes": found}


def print_memory(found):
    ours = found["bytes"]["lockstep"]
    print("most memory of a process that trains cifar10-cnn, batch 64, two epochs")
    for name, count in found["bytes"].items():
        print(f"  {name:22} {count / 1e6:7.0f} MB  {count / ours:5.1f}")


def lockstep_floor(options, seed):
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        subprocess.run(
            [options.program, "train", CNN[0], "--data", options.data, "--global-batch",
             str(CNN[1]), "--devices", "host:1", "--epochs", "30", "--until",
             f"val_accuracy>={options.floor}", "--seed", str(seed), "--out", run], check=True,
            stdout=subprocess.DEVNULL)
        with open(os.path.join(run, "history.csv"), encoding="ascii") as file:
            head, *lines = [line.split(",") for line in file.read().split()]
        return sum(float(line[head.index("seconds")]) for line in lines), len(lines)


def peer_floor(options, script, setting):
    peer = Peer(options, script, setting + "+shuffle", CNN, options.data, 10**9)
    want = image_count(options, options.data)
    if peer.images != want:
        sys.exit(f"{script} trains on {peer.images} images, lockstep on {want}")
    peer.speed()                          # what is compiled at the first step does not count
    peer.ask("restart", "restarted")
    seconds, epochs, accuracy = 0, 0, 0
    while accuracy < options.floor and epochs < 30:
        seconds += peer.ask("train", "seconds")
        accuracy = peer.ask("evaluate", "accuracy")
        epochs += 1
    peer.close()
    return seconds, epochs


def compare_floor(options):
    found = {"lockstep": [], "Keras fit": [], "PyTorch": []}
    for seed in range(1, options.rounds + 1):
        found["lockstep"].append(lockstep_floor(options, seed))
        found["Keras fit"].append(peer_floor(options, "tensorflow", "dataset+loop"))
        found["PyTorch"].append(peer_floor(options, "torch", "eager+last"))
    return {"what": "floor", "accuracy": options.floor, "runs": found}


def print_floor(found):
    print(f"cifar10-cnn, batch 64, 2 cores, to a test accuracy of {found['accuracy']}: seconds of "
          "training, epochs")
    for name, runs in found["runs"].items():
        seconds, epochs = zip(*runs)
        print(f"  {name:22} {spread(seconds, '.2f'):24} {spread(epochs, '.0f')}")


# -- the command -----------------------------------------------------------------------------------

def set_up(options):
    """The virtual environment with the peers, made where it is not there."""
    python = os.path.join(options.venv, "bin", "python")
    if os.path.exists(python):
        return
    subprocess.run([sys.executable, "-m", "venv", options.venv], check=True)
    subprocess.run([python, "-m", "pip", "install", "tensorflow-cpu", "torch"], check=True)


def made_data(model, folder):
    write = made_samples.idx_folder if model == "mnist-mlp" else made_samples.cifar_folder
    return write(os.path.join(folder, model), IMAGES[model])


PRINT = {"speed": print_speed, "machine": print_machine, "memory": print_memory,
         "floor": print_floor}


def keep(options, found):
    PRINT[found["what"]](found)
    if options.record:
        with open(options.record, "a", encoding="ascii") as file:
            file.write(json.dumps(found) + "\n")


def report(path):
    with open(path, encoding="ascii") as file:
        for line in file:
            found = json.loads(line)
            PRINT[found["what"]](found)


def read_options():
    parser = argparse.ArgumentParser(prog="python3 tests/peers/training", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/host/lockstep")
    parser.add_argument("--venv", default="build/peers/venv")
    parser.add_argument("--models", default="cifar10-cnn,mnist-mlp,resnet20")
    parser.add_argument("--batches", default="64,256")
    parser.add_argument("--cores", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", help="only these of: " + ", ".join(SETTINGS))
    parser.add_argument("--settings", help="only these, such as dataset+loop,eager+last")
    parser.add_argument("--machine", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--floor", type=float, metavar="ACCURACY")
    parser.add_argument("--data", metavar="cifar10:FOLDER", help="for --floor")
    parser.add_argument("--record", metavar="FILE")
    parser.add_argument("--report", metavar="FILE")
    options = parser.parse_args()
    if options.floor and not options.data:
        parser.error("--floor needs --data")
    if options.machine and options.rounds < 2:
        parser.error("--machine needs --rounds 2 or more")
    return options


def main():
    options = read_options()
    if options.report:
        report(options.report)
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.machine:
            data = {model: made_data(model, folder) for model in {model for model, _ in STEPS}}
            for case in STEPS:
                keep(options, compare_machine(options, case, data[case[0]]))
            return
        set_up(options)
        if options.floor:
            keep(options, compare_floor(options))
            return
        if options.memory:
            keep(options, compare_memory(options, made_data(CNN[0], folder)))
            return
        for model in options.models.split(","):
            data = made_data(model, folder)
            for batch in map(int, options.batches.split(",")):
                for cores in map(int, options.cores.split(",")):
                    keep(options, compare(options, (model, batch, cores), data))


main()
