#!/usr/bin/python3
"""A trainer that publishes its weights, and readers that use them.

  tensorkv-server &
  python3 publish_weights.py read &
  python3 publish_weights.py read --bfloat16 &
  python3 publish_weights.py train

The module learns to add up. A reader waits for a newer state, takes it as a
whole into its own module, and looks how well that adds; with --bfloat16 the
server halves the bytes before it sends them. It ends with the last state. A
series keeps that: another training has a --series of its own.
"""

import argparse

import tensorkv
import torch
from tensorkv.torch import Publisher, Reader


def make_model():
    return torch.nn.Linear(16, 1)


def error_of(model, inputs):
    return (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()


def train(client, options):
    model = make_model()
    publisher = Publisher(client, options.series)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for i in range(options.states):
        for _ in range(options.steps):
            optimizer.zero_grad()
            error = error_of(model, torch.randn(64, 16))
            error.backward()
            optimizer.step()
        metadata = {"is_last": i + 1 == options.states, "error": float(error)}
        number = publisher.publish(model, metadata=metadata)
        print(f"number {number}: trained to {error:.6f}", flush=True)


def read(client, options):
    model, reader = make_model(), Reader(client, options.series)
    if options.bfloat16:
        model.bfloat16()
    while not reader.metadata.get("is_last"):
        reader.wait()
        reader.fetch(into=model)
        with torch.no_grad():
            error = error_of(model, torch.randn(64, 16).to(model.weight.dtype))
        print(f"number {reader.number}: off by {error:.6f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("role", choices=["train", "read"])
    parser.add_argument("--target", default="127.0.0.1:7363")
    parser.add_argument("--series", default="adder")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--states", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    with tensorkv.Client(options.target) as client:
        {"train": train, "read": read}[options.role](client, options)


if __name__ == "__main__":
    main()
