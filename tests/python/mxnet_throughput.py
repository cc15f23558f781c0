"""Prints how long a store takes to push and to pull.

Usage: mxnet_throughput.py STORE

STORE is one of MXNet's, "tensorkv.mxnet", or "tensorkv.Client", which has
arrays of NumPy. A line for each load: its name, the milliseconds of the fastest
push, and those of the fastest pull. What is pushed replaces the values.
"""

import os
import sys
import time

import mxnet as mx
import numpy as np

# The elements of each array, and the number of calls: the first ones of either
# store take longer, as they touch new memory.
LOADS = {
    "1,000 x 256 B": ([64] * 1000, 20),
    "1 MiB": ([256 << 10], 200),
    "64 MiB": ([16 << 20], 8),
}


def fastest(call, num_calls):
    """Milliseconds of `call` and of what it leaves to MXNet's engine."""
    seconds = []
    for _ in range(num_calls):
        begin = time.perf_counter()
        call()
        mx.nd.waitall()
        seconds.append(time.perf_counter() - begin)
    return min(seconds) * 1e3


def open_store(name):
    """A store, and what its keys and arrays are made by."""
    if name == "tensorkv.Client":
        import tensorkv

        namespace = os.environ["TENSORKV_NAMESPACE"]
        client = tensorkv.Client(
            os.environ["TENSORKV_ADDRESS"], namespace=namespace
        )
        client.create_namespace(namespace)
        return client, str, lambda size: np.ones(size, "float32")
    if name == "tensorkv.mxnet":
        import tensorkv.mxnet

        name = "tensorkv"
    return mx.kv.create(name), int, lambda size: mx.nd.ones((size,))


def main():
    kv, key_of, array_of = open_store(sys.argv[1])
    first = 0
    for name, (sizes, num_calls) in LOADS.items():
        keys = [key_of(first + i) for i in range(len(sizes))]
        first += len(sizes)
        arrays, outs = (list(map(array_of, sizes)) for _ in range(2))
        kv.init(keys, arrays)
        push = fastest(lambda: kv.push(keys, arrays), num_calls)
        pull = fastest(lambda: kv.pull(keys, out=outs), num_calls)
        print(f"{name}: push {push:.2f} ms, pull {pull:.2f} ms", flush=True)
    if hasattr(kv, "close"):
        kv.close()


if __name__ == "__main__":
    main()
