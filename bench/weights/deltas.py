#!/usr/bin/python3
"""Measures what readers are sent after small steps, beside XOR + zstd-3.

  bench/weights/deltas.py --ours=PACKAGE --server=BINARY

PACKAGE is the folder that has tensorkv/. torch and zstandard are Debian's.

A row is a step of bf16 weights with an f32 master: "normal", whose master moves
by lr * normal, and "trained", of a transformer that AdamW trains here on the
source of Python's standard library. The same two states are published, and
fetched by readers that have the first of them; and XORed and compressed by
zstd at level 3, decompressed and XORed again by one thread, as others send
them. Both are measured in turns. Told are: bytes as a share of the dense ones;
seconds of a reader's fetch, the first of a state and a later one, over
loopback, and of XOR + zstd-3 without any transport; and seconds of the server's
processors for that fetch.

Then --fleet readers at --bases different states fetch the next one, and the one
after it, for which all have the same: what the server's processors take for
each. Whether all are right is checked by a checksum.
"""

import argparse
import contextlib
import pathlib
import statistics
import sys
import tempfile
import threading
import time

import children
from children import Child, Failed, call_all

HERE = pathlib.Path(__file__).absolute()
RATES = (1e-6, 3e-6, 1e-5)


class Trainer:
    """Makes states, publishes them, and compresses them as others do."""

    def __init__(self, address, kind, megabytes):
        import torch

        import tensorkv

        torch.set_num_threads(1)
        torch.manual_seed(0)
        self._client = tensorkv.Client(address, timeout=100)
        if kind == "normal":
            self._model = Normal(megabytes)
        else:
            self._model = Trained(megabytes)
        self._publisher = None
        self._former = None

    def begin(self, series, keep_last):
        from tensorkv.torch import Publisher

        self._publisher = Publisher(self._client, series, keep_last)

    def step(self, learning_rate):
        self._former = {k: v.clone() for k, v in self._model.state().items()}
        self._model.step(learning_rate)

    def publish(self):
        self._publisher.publish(self._model.state())
        return checksum_of(self._model.state())

    def size_bytes(self):
        return sum(len(each) for each in arrays(self._model.state()))

    def xor(self):
        """Bytes, and seconds of encoding and decoding, of the last step."""
        import numpy as np
        import zstandard

        encoder = zstandard.ZstdCompressor(level=3)
        decoder = zstandard.ZstdDecompressor()
        pairs = list(
            zip(arrays(self._former), arrays(self._model.state()))
        )
        times = [time.monotonic()]
        sent = [encoder.compress(before ^ after) for before, after in pairs]
        times.append(time.monotonic())
        made = [
            before ^ np.frombuffer(decoder.decompress(each), "u1")
            for (before, _), each in zip(pairs, sent)
        ]
        times.append(time.monotonic())
        for (_, after), each in zip(pairs, made):
            assert (after == each).all()
        return sum(map(len, sent)), times[1] - times[0], times[2] - times[1]

    def clear(self):
        self._publisher.clear()


class Normal:
    """The model of model.py."""

    def __init__(self, megabytes):
        import torch
        from model import TrainedModel

        self._model = TrainedModel(megabytes, torch.bfloat16)
        self.step = self._model.step

    def state(self):
        return self._model.tensors


class Trained:
    """A transformer whose parameters are bf16, with an f32 master."""

    LENGTH, BATCH, DEPTH = 32, 4, 4

    def __init__(self, megabytes):
        import torch

        sys.path.insert(0, str(HERE.parents[2] / "examples"))
        import pytorch_diloco as example

        # 12 w² of each layer, with heads of a width that is a multiple of 16.
        width = int((megabytes * 1e6 / 4 / 12 / self.DEPTH) ** 0.5) // 16 * 16
        width = max(16, width)
        self._example = example
        self._text, _ = example.text()
        self._model = example.Transformer(width, self.DEPTH, self.LENGTH)
        self._master = [p.detach().clone() for p in self._model.parameters()]
        for master in self._master:
            # GPT-2 begins with the same spread.
            if master.dim() > 1:
                master.normal_(0, 0.02)
        self._optimizer = torch.optim.AdamW(self._master, lr=1e-3)
        for _ in range(20):
            self.step(1e-3)

    def step(self, learning_rate):
        """One of AdamW, by the gradient at the parameters in bf16."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        parameters = list(self._model.parameters())
        for parameter, master in zip(parameters, self._master):
            parameter.data = master.bfloat16().float()
        batch = self._example.batch_of(self._text, self.BATCH, self.LENGTH)
        self._model.zero_grad()
        self._model.loss(batch).backward()
        for parameter, master in zip(parameters, self._master):
            master.grad = parameter.grad
        self._optimizer.step()

    def state(self):
        names = [name for name, _ in self._model.named_parameters()]
        return {
            name: master.detach().bfloat16()
            for name, master in zip(names, self._master)
        }


class Fleet:
    """Readers in one process, each with what it has fetched."""

    def __init__(self, address, count):
        import torch

        import tensorkv

        torch.set_num_threads(1)
        self._client = tensorkv.Client(address, timeout=100)
        self._count = count

    def begin(self, series):
        from tensorkv.torch import Reader

        self._readers = [
            Reader(self._client, series) for _ in range(self._count)
        ]

    def fetch(self, index, number):
        """Seconds, bytes and the checksum of what one of them has then."""
        reader = self._readers[index]
        before = reader.bytes_read
        begin = time.monotonic()
        state = reader.fetch(number=number)
        seconds = time.monotonic() - begin
        return seconds, reader.bytes_read - before, checksum_of(state)

    def fetch_all(self, number, indices, threads=4):
        """Checksums of what those of these indices have then."""
        left = iter(indices)
        lock = threading.Lock()
        checksums = {}

        def work():
            while True:
                with lock:
                    index = next(left, None)
                if index is None:
                    return
                # A state goes as the next comes, so that memory suffices.
                checksums[index] = self.fetch(index, number)[-1]

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        return [checksums.get(index) for index in indices]


def arrays(state):
    from model import bytes_of

    return [bytes_of(tensor) for _, tensor in sorted(state.items())]


def checksum_of(state):
    import zlib

    total = 0
    for each in arrays(state):
        total = zlib.crc32(each, total)
    return total


class Run:
    """A server, a trainer and readers."""

    def __init__(self, stack, options, kind, megabytes, fleets):
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server, address = children.start_ours(options.server, folder)
        stack.callback(server.end)
        self._server = server.pid

        def child(*arguments, log):
            made = Child(
                *(HERE, *arguments),
                folders=[pathlib.Path(options.ours).resolve()],
                log=f"{folder}/{log}",
            )
            stack.callback(made.end)
            return made

        self.trainer = child(
            *("--trainer", address, kind, megabytes), log="trainer"
        )
        self.fleets = [
            child("--fleet_of", address, count, log=f"fleet{i}")
            for i, count in enumerate(fleets)
        ]
        self.size = self.trainer.call("size_bytes")

    def begin(self, series, keep_last):
        self.trainer.call("begin", series, keep_last)
        call_all(self.fleets, "begin", series)

    def used(self):
        return children.processor_seconds([self._server])


def check(is_right):
    if not is_right:
        raise Failed("a reader has other values")


def measure_steps(options, kind):
    """The rows of one kind of training."""
    later = options.later
    with contextlib.ExitStack() as stack:
        sizes = {
            "normal": options.megabytes,
            "trained": options.trained_megabytes,
        }
        run = Run(stack, options, kind, sizes[kind], [later])
        (fleet,) = run.fleets
        for rate in RATES:
            found = []
            run.begin(f"{kind}-{rate}", 2)
            number = 1
            run.trainer.call("publish")
            for i in range(later):
                fleet.call("fetch", i, number)
            for _ in range(options.turns):
                number += 1
                run.trainer.call("step", rate)
                checksum = run.trainer.call("publish")
                each = [fetched(run, fleet, i, number) for i in range(later)]
                check(all(one[2] == checksum for one in each))
                found.append((each, run.trainer.call("xor")))
            run.trainer.call("clear")
            print_step(kind, rate, run.size, found)


def fetched(run, fleet, index, number):
    """What one fetch is, with seconds of the server's processors."""
    before = run.used()
    return [*fleet.call("fetch", index, number), run.used() - before]


def print_step(kind, rate, size, found):
    def of_ours(index, reader):
        return statistics.median(each[reader][index] for each, _ in found)

    def of_xor(index):
        return statistics.median(xor[index] for _, xor in found)

    ratios = [sum(xor[1:]) / each[0][0] for each, xor in found]
    print(
        f"{kind:8} {rate:5.0e} {size / 1e6:5.0f} "
        f"{100 * of_ours(1, 0) / size:6.1f} {100 * of_xor(0) / size:6.1f} "
        f"{of_ours(0, 0):7.3f} {of_ours(0, -1):7.3f} "
        f"{of_xor(1):7.3f} {of_xor(2):7.3f} {statistics.median(ratios):6.1f} "
        f"{1e3 * of_ours(3, 0):8.1f} {1e3 * of_ours(3, -1):8.1f}",
        flush=True,
    )


def measure_fleet(options):
    """Readers that are at different states."""
    processes = min(4, options.fleet)
    fleet = [(i % processes, i // processes) for i in range(options.fleet)]
    counts = [
        sum(of == process for of, _ in fleet) for process in range(processes)
    ]
    with contextlib.ExitStack() as stack:
        run = Run(stack, options, "normal", options.megabytes, counts)
        found = [one_fleet(options, run, fleet, i) for i in range(options.turns)]
    together, first, last = (
        1e3 * statistics.median(each) for each in zip(*found)
    )
    count = options.fleet
    print(
        f"{count} readers at {options.bases} states, {run.size / 1e6:.0f} MB of "
        f"bf16, lr {options.rate:.0e}: all have the right one next; CPU ms of "
        f"the server: {together / count:.1f} a reader; where all have the same "
        f"state, {first:.1f} for the first and {last:.1f} for reader {count}"
    )


def one_fleet(options, run, fleet, turn):
    """Seconds of the server's processors: for all, and for two of them."""
    run.begin(f"fleet{turn}", options.bases + 1)
    for number in range(1, options.bases + 1):
        run.trainer.call("step", options.rate)
        checksum = run.trainer.call("publish")
        # Each state has as many of the readers.
        at_it = fleet[number - 1 :: options.bases]
        fetch_by(run, at_it, number, checksum)

    def next_state():
        run.trainer.call("step", options.rate)
        return run.trainer.call("publish")

    number = options.bases + 1
    together = fetch_by(run, fleet, number, next_state())
    number, checksum = number + 1, next_state()
    first = fetch_by(run, fleet[:1], number, checksum)
    fetch_by(run, fleet[1:-1], number, checksum)
    last = fetch_by(run, fleet[-1:], number, checksum)
    run.trainer.call("clear")
    return together, first, last


def fetch_by(run, readers, number, checksum):
    """Seconds of the server's processors for a fetch by all of these."""
    shares = [
        [index for of, index in readers if of == process]
        for process in range(len(run.fleets))
    ]
    before = run.used()
    for fleet, share in zip(run.fleets, shares):
        fleet.send("fetch_all", number, share)
    for fleet, share in zip(run.fleets, shares):
        check(fleet.receive() == [checksum] * len(share))
    return run.used() - before


def main():
    if sys.argv[1:2] == ["--trainer"]:
        address, kind, megabytes = sys.argv[2:]
        children.serve(Trainer(address, kind, float(megabytes)))
    if sys.argv[1:2] == ["--fleet_of"]:
        address, count = sys.argv[2:]
        children.serve(Fleet(address, int(count)))
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ours", required=True)
    parser.add_argument("--server", required=True)
    parser.add_argument(
        "--megabytes", type=float, default=100, help="of the model as f32"
    )
    parser.add_argument(
        "--trained_megabytes", type=float, default=10, help="of the trained one"
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--later", type=int, default=4, help="readers of each state"
    )
    parser.add_argument("--fleet", type=int, default=64, help="readers")
    parser.add_argument("--bases", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1e-6, help="of the fleet")
    options = parser.parse_args()
    print(
        "                  MB   bytes: %       fetch: s   xor+zstd-3: s  times"
        " server: CPU ms\n"
        "            lr  bf16   ours    xor   first   later  encode  decode "
        " ours    first    later"
    )
    for kind in ("normal", "trained"):
        measure_steps(options, kind)
    measure_fleet(options)


if __name__ == "__main__":
    main()
