#!/usr/bin/python3
"""Trains a small transformer on text with workers that meet seldom.

  tensorkv-server --checkpoint_dir=/var/tmp/tensorkv --checkpoint_interval=1m &
  python3 pytorch_diloco.py --workers=2 --name=w0 &
  python3 pytorch_diloco.py --workers=2 --name=w1

Workers train by themselves, and the server takes the mean of what they have
moved by, and makes DiLoCo's outer step; to use it, a training loop needs the
lines that are marked. Workers and the server may be killed at any time: a
worker that is started again takes the model that the server has, and one more
takes part as well. The namespace stays: delete it before another training, or
name another one.

The text is the source of Python's standard library, byte by byte; to evaluate,
a part of it is set aside.
"""

import argparse
import pathlib
import sysconfig

import numpy as np
import tensorkv
import torch
from tensorkv.torch import DiLoCo


def text():
    """Bytes to train on, and bytes to evaluate on."""
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    files = [path.read_bytes() for path in sorted(folder.glob("*.py"))]
    evaluated = b"".join(files[::10])
    del files[::10]
    trained = b"".join(files)
    return [torch.tensor(np.frombuffer(p, "u1")) for p in (trained, evaluated)]


def batch_of(data, size, length):
    starts = torch.randint(len(data) - length - 1, (size, 1))
    return data[starts + torch.arange(length + 1)].long()


class Transformer(torch.nn.Module):

    def __init__(self, width, depth, length):
        super().__init__()
        self.embedding = torch.nn.Embedding(256, width)
        self.place = torch.nn.Parameter(torch.zeros(length, width))
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(
                width,
                nhead=4,
                dim_feedforward=4 * width,
                dropout=0.0,
                batch_first=True,
                norm_first=True,
            )
            for _ in range(depth)
        )
        self.head = torch.nn.Linear(width, 256)
        later = torch.full((length, length), -torch.inf).triu(1)
        self.register_buffer("later", later)

    def loss(self, batch):
        x = self.embedding(batch[:, :-1]) + self.place
        for layer in self.layers:
            x = layer(x, self.later)
        scores = self.head(x).flatten(0, 1)
        return torch.nn.functional.cross_entropy(
            scores, batch[:, 1:].flatten()
        )

    def fragments(self, count):
        """All of it in `count` parts: the layers, and the rest in the last."""
        rest = torch.nn.ModuleDict(
            {"embedding": self.embedding, "head": self.head}
        )
        rest.register_parameter("place", self.place)
        shares = [self.layers[i::count] for i in range(count)]
        return [*shares[:-1], torch.nn.ModuleList([*shares[-1], rest])]


def evaluate(model, data, length):
    """The mean loss per byte of some of it, always the same."""
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        batches = [batch_of(data, 64, length) for _ in range(8)]
        losses = [model.loss(batch) for batch in batches]
    return float(torch.stack(losses).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default="127.0.0.1:7363")
    parser.add_argument("--namespace", default="diloco-example")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--name", help="of this worker, to come back by")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sync_every", type=int, default=100)
    parser.add_argument("--fragments", type=int, default=1)
    parser.add_argument("--delay", type=int, default=0)
    parser.add_argument("--alpha", type=float, default=0.0)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--batch_size", type=int, default=16)
    options = parser.parse_args()

    model = Transformer(options.width, options.depth, options.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    diloco = DiLoCo(  # this
        tensorkv.Client(options.target, namespace=options.namespace),
        model.fragments(options.fragments),
        sync_every=options.sync_every,
        fragment_sync_delay=options.delay,
        fragment_update_alpha=options.alpha,
        worker_name=options.name,
        num_workers=options.workers,
    )
    trained, evaluated = text()
    torch.seed()  # each worker has batches of its own
    num_tokens = 0
    while diloco.round < options.rounds:
        batch = batch_of(trained, options.batch_size, options.length)
        loss = model.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        num_tokens += options.batch_size * options.length
        # And this:
        if diloco.step(options.batch_size * options.length):
            print(
                f"round {diloco.round}: loss {loss:.3f} of this worker after "
                f"{num_tokens} tokens",
                flush=True,
            )
    loss = evaluate(model, evaluated, options.length)
    diloco.leave()
    print(f"loss {loss:.3f} after {diloco.round} rounds")


if __name__ == "__main__":
    main()
