# SPDX-License-Identifier: MIT
"""machine.py -- lockstep beside itself: one core, two threads, two replicas, one shard, in turn.

What else a shared machine does changes within seconds, and differs between its cores. So turns are
short, a quarter of a second, and what is told is the median of the ratios of turns that follow one
another, and between what bounds half of them lie. A case is (model, global batch).
"""
import statistics

from sides import bench_step

# Steps of a turn. The first SETTLE do not count.
STEPS = {("cifar10-cnn", 64): 50, ("cifar10-cnn", 256): 14, ("mnist-mlp", 64): 400,
         ("mnist-mlp", 256): 120}
SETTLE = 10

# By the name of a run: cores, replicas, shards. A replica has its part of the cores as threads.
RUNS = {"one core": (1, 1, 8), "one core, one shard": (1, 1, 1), "two threads": (2, 1, 8),
        "two replicas": (2, 2, 8)}
RATIOS = [("one core", "one core, one shard", 1), ("two threads", "one core", 2),
          ("two replicas", "two threads", 1)]
PARTS = ["input", "copy", "forward", "backward", "exchange", "update", "rest"]


def compare_machine(options, case, data):
    """Rounds of a model and batch: what to record."""
    model, batch = case
    rows = {name: [] for name in RUNS}
    for _ in range(options.rounds):
        for name, (cores, replicas, shards) in RUNS.items():
            found = bench_step(options, (model, batch, cores), replicas, data, STEPS[case], SETTLE,
                               ["--shards", str(shards)])
            rows[name].append(found["rows"][0])
    return {"what": "machine", "model": model, "batch": batch, "rows": rows}


def middle(values):
    """The median, and between what half of the values lie."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def share(row):
    return row["gflops"] / row["peak_gflops"]


def print_machine(found):
    print(f"{found['model']}, global batch {found['batch']}, {len(found['rows']['one core'])} "
          "rounds: ms a step, medians")
    print(f"  {'':20} {'samples/s':>9} {'share':>6} {'step':>7}  " + " ".join(
        f"{part:>8}" for part in PARTS))
    for name, rows in found["rows"].items():
        speed = statistics.median(row["samples_per_second"] for row in rows)
        of_peak = statistics.median(map(share, rows))
        ms = [statistics.median(1e3 * row[key] / row["steps"] for row in rows)
              for key in ["seconds"] + [part + "_s" for part in PARTS]]
        print(f"  {name:20} {speed:9,.0f} {of_peak:6.2f} {ms[0]:7.3f}  " + " ".join(
            f"{part:8.3f}" for part in ms[1:]))
    print(f"  best share of the peak on one core: {max(map(share, found['rows']['one core'])):.2f}")
    for ours, other, times in RATIOS:
        ratios = [a["samples_per_second"] / b["samples_per_second"] / times
                  for a, b in zip(found["rows"][ours], found["rows"][other])]
        print(f"  {ours} / {f'{times} x ' if times > 1 else ''}{other}: {middle(ratios)}",
              flush=True)
