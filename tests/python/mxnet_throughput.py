"""Prints how long a store of MXNet takes to push and to pull.

Usage: mxnet_throughput.py STORE

A line for each load: its name, the milliseconds of the fastest push, and those
of the fastest pull. What is pushed replaces the values.
"""

import sys
import time

import mxnet as mx

if "tensorkv" in sys.argv[1]:
    import tensorkv.mxnet

NUM_CALLS = 8
LOADS = {
    "1,000 x 256 B": [64] * 1000,
    "1 MiB": [256 << 10],
    "64 MiB": [16 << 20],
}


def fastest(call):
    """Milliseconds of `call` and of what it leaves to MXNet's engine."""
    seconds = []
    for _ in range(NUM_CALLS):
        begin = time.perf_counter()
        call()
        mx.nd.waitall()
        seconds.append(time.perf_counter() - begin)
    return min(seconds) * 1e3


def main():
    kv = mx.kv.create(sys.argv[1])
    first = 0
    for name, sizes in LOADS.items():
        keys = list(range(first, first + len(sizes)))
        first += len(sizes)
        arrays = [mx.nd.ones((size,)) for size in sizes]
        outs = [mx.nd.zeros((size,)) for size in sizes]
        kv.init(keys, arrays)
        push = fastest(lambda: kv.push(keys, arrays))
        pull = fastest(lambda: kv.pull(keys, out=outs))
        print(f"{name}: push {push:.2f} ms, pull {pull:.2f} ms", flush=True)
    if hasattr(kv, "close"):
        kv.close()


if __name__ == "__main__":
    main()
