#!/usr/bin/python3
"""Times small pushes beside many watchers and snapshots, and without.

  bench/weights/writers.py --ours=PACKAGE --server=BINARY

PACKAGE is the folder that has tensorkv/. Three servers have the same keys. One
has nothing else; the second has --snapshots snapshots, between each two of
which a key has changed, and --watchers watches of keys that nobody changes; the
third as many watches of all keys, each of which is told of what changes every
--interval seconds. One writer pushes 4 KiB at a time to each of them in turns.
Told are p50 and p99 of a push in microseconds over all turns, and how many
times that of the first server the p99 is in the same turn, median of the turns.

Watchers are processes of this machine at the lowest priority: what they make of
what they are told is no matter of the server's.
"""

import argparse
import contextlib
import pathlib
import random
import re
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

import children
from children import Child, call_all

HERE = pathlib.Path(__file__).resolve()
KEYS = [f"model/{i}" for i in range(100)]
BYTES = 4096
# A client has at most 64 calls at a time.
WATCHES_OF_CLIENT = 60
PROCESSES = 4


class Writer:
    """Pushes to one server."""

    def __init__(self, address):
        import numpy as np

        import tensorkv

        self._tensorkv = tensorkv
        self._client = tensorkv.Client(address, timeout=60)
        self._value = np.ones(BYTES // 4, "float32")
        self._random = random.Random(0)
        self._client.init(KEYS, [self._value] * len(KEYS))

    def take_snapshots(self, count):
        publish_as = self._tensorkv.PublishAs("states", prefixes=("model/",))
        for _ in range(count):
            key = self._random.choice(KEYS)
            self._client.push(key, self._value, publish_as=publish_as)

    def push(self, count):
        """Seconds of each push."""
        taken = []
        for _ in range(count):
            key = self._random.choice(KEYS)
            begin = time.perf_counter()
            self._client.push(key, self._value)
            taken.append(time.perf_counter() - begin)
        return taken


class Watchers:
    """Watches of one server, each of which a thread waits for."""

    def __init__(self, address, count, prefix, interval):
        import tensorkv

        self._begun = threading.Semaphore(0)
        client = None
        for i in range(count):
            if i % WATCHES_OF_CLIENT == 0:
                client = tensorkv.Client(address, timeout=60)
            watch = client.watch(prefix, interval=interval)
            threading.Thread(
                target=self._watch, args=(watch,), daemon=True
            ).start()
        for _ in range(count):
            self._begun.acquire()

    def ready(self):
        """Answered once there is this object."""

    def _watch(self, watch):
        watch.begin()
        self._begun.release()
        while True:
            watch.next()


class Case:
    """A server with its writer and those who watch it."""

    def __init__(self, stack, options, snapshots, watched):
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server, address = children.start_ours(options.server, folder)
        stack.callback(server.end)
        self._metrics = server.ready[2]
        self.taken = []

        def child(*arguments, log, nice=0):
            made = Child(
                *(HERE, *arguments),
                folders=[pathlib.Path(options.ours).resolve()],
                log=f"{folder}/{log}",
                nice=nice,
            )
            stack.callback(made.end)
            return made

        self.writer = child("--writer", address, log="writer")
        self.writer.call("take_snapshots", snapshots)
        if watched is None:
            return
        count = options.watchers // PROCESSES
        watchers = [
            child(
                *("--watchers_of", address, count, watched, options.interval),
                log=f"watchers{i}",
                nice=19,
            )
            for i in range(PROCESSES)
        ]
        # They answer once all watches have begun.
        call_all(watchers, "ready")

    def told(self):
        """How many changes the server has told."""
        with urllib.request.urlopen(f"http://{self._metrics}/metrics") as page:
            text = page.read().decode()
        told = re.findall(r"^tensorkv_changes_told_total\S* (\S+)", text, re.M)
        return int(sum(map(float, told)))

    def push(self, count):
        self.taken.append(self.writer.call("push", count))


def percentile(values, share):
    return sorted(values)[int(share * (len(values) - 1))]


def main():
    if sys.argv[1:2] == ["--writer"]:
        children.serve(Writer(sys.argv[2]))
    if sys.argv[1:2] == ["--watchers_of"]:
        address, count, prefix, interval = sys.argv[2:]
        children.serve(Watchers(address, int(count), prefix, float(interval)))
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ours", required=True)
    parser.add_argument("--server", required=True)
    parser.add_argument("--snapshots", type=int, default=10_000)
    parser.add_argument("--watchers", type=int, default=1_000)
    parser.add_argument("--interval", type=float, default=0.1)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--pushes", type=int, default=2_000, help="in a turn")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        what = f"{options.snapshots} snapshots, {options.watchers} watches"
        cases = {
            "none": Case(stack, options, 0, None),
            f"{what} of others": Case(
                stack, options, options.snapshots, "other/"
            ),
            f"{what} of these": Case(
                stack, options, options.snapshots, "model/"
            ),
        }
        for case in cases.values():
            case.push(options.pushes)
            case.taken.clear()
        for _ in range(options.turns):
            for case in cases.values():
                case.push(options.pushes)
        first = [percentile(each, 0.99) for each in cases["none"].taken]
        for name, case in cases.items():
            pooled = [1e6 * one for each in case.taken for one in each]
            ratios = [
                percentile(each, 0.99) / own
                for each, own in zip(case.taken, first)
            ]
            print(
                f"{name}: p50 {percentile(pooled, 0.5):.0f}, "
                f"p99 {percentile(pooled, 0.99):.0f}, "
                f"{statistics.median(ratios):.2f} of none; "
                f"{case.told()} changes told"
            )


if __name__ == "__main__":
    main()
