#!/usr/bin/python3
"""Trains a network of PyTorch on Fashion-MNIST with several workers.

  tensorkv-server --checkpoint_dir=/var/tmp/tensorkv --checkpoint_interval=1m &
  python3 pytorch_data_parallel.py --workers=2 --name=w0 &
  python3 pytorch_data_parallel.py --workers=2 --name=w1

The server sums the workers' gradients and makes the optimizer's steps; to use
it, a training loop needs the lines that are marked. Workers and the server may
be killed at any time: a worker that is started again with its --name goes on
where it was, and a server with its last checkpoint, to which the workers go
back. The namespace is deleted at the end; where all were interrupted, go on by
--resume, or name another one.
"""

import argparse
import gzip
import pathlib
import time

import numpy as np
import tensorkv
import torch
from tensorkv.torch import StoreOptimizer

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")


def images(part, share=slice(None)):
    content = gzip.open(FOLDER / f"{part}-images-idx3-ubyte.gz").read()
    pixels = np.frombuffer(content, "uint8", offset=16).reshape(-1, 784)
    return torch.from_numpy(pixels[share].astype("float32") / 255)


def labels(part, share=slice(None)):
    content = gzip.open(FOLDER / f"{part}-labels-idx1-ubyte.gz").read()
    classes = np.frombuffer(content, "uint8", offset=8)
    return torch.from_numpy(classes[share].astype("int64"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default="127.0.0.1:7363")
    parser.add_argument("--namespace", default="pytorch-example")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--name", help="of this worker, to come back by")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch_size", type=int, default=100)
    options = parser.parse_args()

    kv = tensorkv.create(  # this
        "dist_sync",
        target=options.target,
        namespace=options.namespace,
        num_workers=options.workers,
        worker_name=options.name,
        resume=options.resume,
    )
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    optimizer = StoreOptimizer(optimizer, kv)  # this

    share = slice(kv.rank, None, kv.num_workers)  # this
    inputs, targets = images("train", share), labels("train", share)
    start = time.monotonic()
    step = optimizer.resume()  # this: 1, but for a worker that comes back
    while step <= options.steps:
        batch = torch.randint(len(inputs), (options.batch_size,))
        loss = torch.nn.functional.cross_entropy(
            model(inputs[batch]), targets[batch]
        )
        optimizer.zero_grad()
        loss.backward()
        try:
            optimizer.step()
            step += 1
            if step > options.steps:
                kv.barrier()
        except tensorkv.FailedPreconditionError as error:  # and this
            if error.reason != "SERVER_RESTARTED":
                raise
            step = optimizer.resume()  # of the checkpoint
    seconds = time.monotonic() - start

    with torch.no_grad():
        predicted = model(images("t10k")).argmax(1)
    accuracy = (predicted == labels("t10k")).float().mean()
    print(f"rank {kv.rank}: accuracy {accuracy:.4f}, training {seconds:.1f} s")

    if kv.rank == 0:  # Another training may have another number of workers.
        kv.client.delete_namespace(options.namespace)
    kv.leave()


if __name__ == "__main__":
    main()
