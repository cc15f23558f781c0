"""Prints the throughput of the Python client beside that of the C++ client.

Usage: throughput.py SERVER CPP_THROUGHPUT

CPP_THROUGHPUT makes the same calls in C++ and prints the seconds of the fastest
of each. Both go by turns, so that what else the machine does meets both.
"""

import subprocess
import sys
import time

import numpy as np
import tensorkv

SERVER, CPP_THROUGHPUT = sys.argv[1:]
NUM_TURNS = 3
NUM_CALLS = 8
WORKLOADS = {
    "64 MiB": [64 << 20],
    "1 MiB": [1 << 20],
    "1,000 x 256 B": [256] * 1000,
}


def fastest(call):
    seconds = []
    for _ in range(NUM_CALLS):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def python_seconds(sizes):
    with tensorkv.Client(SERVER) as client:
        keys = [f"{len(sizes)}/{i}" for i in range(len(sizes))]
        arrays = [np.ones(size // 4, "float32") for size in sizes]
        outs = [np.empty_like(array) for array in arrays]
        client.init(keys, arrays, on_existing="replace")
        seconds = {
            "push": fastest(lambda: client.push(keys, arrays)),
            "pull(out=)": fastest(lambda: client.pull(keys, out=outs)),
            "pull": fastest(lambda: client.pull(keys)),
        }
        client.delete(keys)
        return seconds


def cpp_seconds(sizes):
    command = [CPP_THROUGHPUT, SERVER, str(len(sizes)), str(sizes[0])]
    command.append(str(NUM_CALLS))
    output = subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout
    push, pull, pull_into = map(float, output.split())
    return {"push": push, "pull(out=)": pull_into, "pull": pull}


def take_fastest(best, seconds):
    for verb in seconds:
        best[verb] = min(best.get(verb, seconds[verb]), seconds[verb])


def main():
    print(f"{'':14} {'':10} {'Python':>9} {'C++':>9}  ratio")
    for name, sizes in WORKLOADS.items():
        ours, theirs = {}, {}
        for _ in range(NUM_TURNS):
            take_fastest(ours, python_seconds(sizes))
            take_fastest(theirs, cpp_seconds(sizes))
        for verb in ours:
            print(
                f"{name:14} {verb:10} {ours[verb] * 1e3:6.2f} ms "
                f"{theirs[verb] * 1e3:6.2f} ms  {theirs[verb] / ours[verb]:.2f}"
            )


if __name__ == "__main__":
    main()
