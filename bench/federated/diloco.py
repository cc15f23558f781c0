#!/usr/bin/python3
"""Trains with DiLoCo while workers are killed, and without: goodput and loss.

  PYTHONPATH=... bench/federated/diloco.py --server=.../tensorkv-server

Workers are processes that train the transformer of examples/pytorch_diloco.py
on the source of Python's standard library. In one of two trainings one of them
is killed every --kill_every seconds, in turns, and started again at once. Both
have as many rounds.

Tokens are counted twice: workers write down each step that they compute, and
the model has a parameter for each worker, which moves by the tokens that it has
sent and whose rule is the mean itself: so what of them is in the model shows
there. Goodput is what of the tokens that were computed is in the model.
"""

import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

import tensorkv
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
import pytorch_diloco as example
from tensorkv.torch import DiLoCo

BATCH, LENGTH, WIDTH, DEPTH = 8, 64, 32, 2
TALLY = "diloco/0/tally"


class Model(example.Transformer):
    """With the tokens of each worker, as they are in what it has moved by."""

    def __init__(self, num_workers):
        super().__init__(WIDTH, DEPTH, LENGTH)
        zeros = torch.zeros(num_workers, dtype=torch.float64)
        self.tally = torch.nn.Parameter(zeros)

    def trained(self):
        return [p for p in self.parameters() if p is not self.tally]


def work(options):
    """What a worker's process does."""
    torch.set_num_threads(1)
    torch.manual_seed(os.getpid())
    model = Model(options.workers)
    optimizer = torch.optim.AdamW(model.trained(), lr=1e-3)
    trained, _ = example.text()
    diloco = DiLoCo(
        tensorkv.Client(options.target, namespace=options.namespace),
        model,
        sync_every=options.sync_every,
        worker_name=f"worker-{options.worker}",
        num_workers=options.workers,
        lease=2.0,
    )
    with open(options.log, "a", buffering=1) as log:
        while diloco.round < options.rounds:
            loss = model.loss(example.batch_of(trained, BATCH, LENGTH))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.tally.data[options.worker] -= BATCH * LENGTH
            print(BATCH * LENGTH, file=log)
            diloco.step(BATCH * LENGTH)
    diloco.leave()


class Training:
    """Workers of a namespace, and what becomes of their model."""

    def __init__(self, options, target, namespace, folder):
        self._options = options
        self._target = target
        self._namespace = namespace
        prefix = f"{folder}/{namespace}"
        self._logs = [f"{prefix}-{i}" for i in range(options.workers)]
        self._client = tensorkv.Client(target, namespace=namespace, timeout=600)
        self.counted = torch.zeros(options.workers, dtype=torch.float64)
        self.kills = 0

    def start(self, worker):
        o = self._options
        return subprocess.Popen(
            [
                *(sys.executable, __file__, f"--worker={worker}"),
                *(f"--target={self._target}", f"--log={self._logs[worker]}"),
                *(f"--namespace={self._namespace}", f"--rounds={o.rounds}"),
                *(f"--workers={o.workers}", f"--sync_every={o.sync_every}"),
            ]
        )

    def run(self, kill_every):
        """Returns the seconds of a round, and the loss after the last."""
        workers = [self.start(i) for i in range(self._options.workers)]
        ended = threading.Event()
        killer = threading.Thread(
            target=self._kill, args=(workers, kill_every, ended)
        )
        if kill_every:
            killer.start()
        seconds = self._observe()
        ended.set()
        if kill_every:
            killer.join()
        for each in workers:
            if each.wait():
                raise RuntimeError("a worker has ended with an error")
        return seconds, self._loss()

    def computed(self):
        lines = (open(name).read().split() for name in self._logs)
        return sum(int(number) for each in lines for number in each)

    def _kill(self, workers, every, ended):
        while not ended.wait(every):
            worker = self.kills % len(workers)
            workers[worker].kill()
            workers[worker].wait()
            workers[worker] = self.start(worker)
            self.kills += 1

    def _observe(self):
        """Counts the tokens of each round; returns the seconds of a round."""
        client, begin = self._client, None
        while True:
            with contextlib.suppress(tensorkv.NotFoundError):
                client.pull(TALLY, wait=True)
                break
            time.sleep(0.1)  # There is no namespace yet.
        client.set_rule("sgd", key_pattern=TALLY, learning_rate=1.0)
        before, version = client.pull(TALLY), client.stat(TALLY).version
        number = 0
        while number < self._options.rounds:
            version += 1
            tally, number = client.pull(
                [TALLY, "diloco/.round"], min_version=version
            )
            begin = begin or time.monotonic()
            roots = torch.tensor(before - tally).clamp(min=0).sqrt()
            self.counted += (roots * roots.sum()).round()
            before = tally
        return (time.monotonic() - begin) / (self._options.rounds - 1)

    def _loss(self):
        model = Model(self._options.workers)
        for name, parameter in model.named_parameters():
            value = self._client.pull(f"diloco/0/{name}")
            parameter.data.copy_(torch.from_numpy(value))
        return example.evaluate(model, example.text()[1], LENGTH)


@contextlib.contextmanager
def server(binary):
    process = subprocess.Popen(
        [
            *(binary, "--device=cpu", "--listen=127.0.0.1:0"),
            "--metrics_listen=127.0.0.1:0",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr:
            found = re.search(r" ready listen=(\S+)", line)
            if found:
                yield found[1]
                return
        raise RuntimeError("the server did not start")
    finally:
        process.kill()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", default="bazel-bin/service/tensorkv-server")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--sync_every", type=int, default=60)
    parser.add_argument("--kill_every", type=float, default=20.0)
    # Of a worker's process.
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    for name in ("target", "namespace", "log"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        work(options)
        return
    with server(options.server) as target, contextlib.ExitStack() as stack:
        logs = stack.enter_context(tempfile.TemporaryDirectory())
        for kill_every in (0.0, options.kill_every):
            namespace = "killed" if kill_every else "unharmed"
            training = Training(options, target, namespace, logs)
            seconds, loss = training.run(kill_every)
            computed, counted = training.computed(), int(training.counted.sum())
            print(
                f"{namespace}: {training.kills} kills, {options.rounds} rounds "
                f"of {seconds:.1f} s, loss {loss:.3f} per byte, {computed} "
                f"tokens computed, {counted} in the model: goodput "
                f"{counted / computed:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
