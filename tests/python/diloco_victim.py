"""Workers of DiLoCo in processes of their own, which tests kill."""

import contextlib
import os
import runpy
import signal
import sys

import tensorkv
import torch
from failing_store import FailingStore
from tensorkv.federated import FedAvg
from tensorkv.torch import DiLoCo

INNER_STEPS = 4


class Tally(torch.nn.Module):
    """A network, and for each worker the tokens by which it has moved.

    Of a round in which workers have trained on T tokens each, and moved their
    elements of `tokens` by as much, the mean is T * T / sum(T).
    """

    def __init__(self, num_workers):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 3, dtype=torch.float64)
        zeros = torch.zeros(num_workers, dtype=torch.float64)
        self.tokens = torch.nn.Parameter(zeros)

    def loss(self):
        distance = self.layer.weight - torch.eye(3).flip(0)
        return float(distance.square().sum())

    def train_on(self, worker, num_tokens):
        inputs = torch.randn(num_tokens, 3, dtype=torch.float64)
        (self.layer(inputs) - inputs.flip(1)).square().mean().backward()
        with torch.no_grad():
            self.layer.weight -= 0.1 * self.layer.weight.grad
            self.tokens[worker] -= num_tokens
        self.layer.zero_grad()


def join(address, namespace, module, num_workers, worker, lease=10.0):
    client = tensorkv.Client(address, namespace=namespace, timeout=60)
    return DiLoCo(
        client,
        module,
        sync_every=INNER_STEPS,
        outer_optimizer=FedAvg(),
        num_workers=num_workers,
        worker_name=f"worker-{worker}",
        lease=lease,
    )


def train(address, namespace, num_workers, worker, log):
    """Trains until it is killed, and writes into a file what it has done.

    That is a number of tokens before each step, and "round N" after a round
    that has counted the worker.
    """
    module = Tally(num_workers)
    with open(log, "a", buffering=1) as file:
        print("start", file=file)
        diloco = join(
            address, namespace, module, num_workers, worker, lease=0.5
        )
        while True:
            num_tokens = 1 + int(torch.randint(9, ()))
            module.train_on(worker, num_tokens)
            print(num_tokens, file=file)
            if diloco.step(num_tokens):
                print("round", diloco.round if diloco.is_in else 0, file=file)


def end_at_call(address, namespace, when, call, delay):
    """Trains, and ends without a word at a call of the store."""

    def end():
        os.kill(os.getpid(), signal.SIGKILL)

    client = tensorkv.Client(address, namespace=namespace, timeout=60)
    client._store = FailingStore(client._store, when, call, end)
    module = torch.nn.ParameterDict({"w": torch.nn.Parameter(torch.zeros(3))})
    diloco = DiLoCo(
        client,
        module,
        sync_every=2,
        outer_optimizer=FedAvg(),
        fragment_sync_delay=delay,
        worker_name="victim",
        lease=0.5,
    )
    while True:
        with torch.no_grad():
            module["w"] += 8
        diloco.step(2)


def run_example(log, *arguments):
    """Runs the example as it stands, and has a file be what it prints."""
    torch.set_num_threads(1)
    with open(log, "w") as file, contextlib.redirect_stdout(file):
        sys.argv = ["pytorch_diloco.py", *arguments]
        runpy.run_path("examples/pytorch_diloco.py", run_name="__main__")
