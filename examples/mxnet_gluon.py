#!/usr/bin/python3
"""Trains a network of Gluon on Fashion-MNIST with several workers.

  tensorkv-server &
  DMLC_NUM_WORKER=2 python3 mxnet_gluon.py &
  DMLC_NUM_WORKER=2 python3 mxnet_gluon.py

It is a Gluon script but for `import tensorkv.mxnet` and the store's name. For
another training on the same server, name another TENSORKV_NAMESPACE.
"""

import argparse
import gzip
import pathlib
import time

import mxnet as mx
import numpy as np
import tensorkv.mxnet
from mxnet import autograd, gluon

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")


def images(part, share=slice(None)):
    content = gzip.open(FOLDER / f"{part}-images-idx3-ubyte.gz").read()
    pixels = np.frombuffer(content, "uint8", offset=16).reshape(-1, 784)
    return mx.nd.array(pixels[share].astype("float32") / 255)


def labels(part, share=slice(None)):
    content = gzip.open(FOLDER / f"{part}-labels-idx1-ubyte.gz").read()
    classes = np.frombuffer(content, "uint8", offset=8)
    return mx.nd.array(classes[share])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kvstore", default="tensorkv_dist_sync")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=100)
    parser.add_argument("--update_in_worker", action="store_true")
    options = parser.parse_args()

    mx.random.seed(1)
    kv = mx.kv.create(options.kvstore)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(256, activation="relu"))
    net.add(gluon.nn.Dense(128, activation="relu"))
    net.add(gluon.nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(
        net.collect_params(),
        "sgd",
        {"learning_rate": 0.1, "momentum": 0.9},
        kvstore=kv,
        update_on_kvstore=not options.update_in_worker,
    )
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

    share = slice(kv.rank, None, kv.num_workers)
    inputs, targets = images("train", share), labels("train", share)
    order = np.random.default_rng(kv.rank)
    start = time.monotonic()
    for epoch in range(options.epochs):
        permutation = mx.nd.array(order.permutation(len(inputs)))
        for i in range(0, len(inputs), options.batch_size):
            batch = permutation[i : i + options.batch_size]
            with autograd.record():
                loss = loss_of(net(inputs.take(batch)), targets.take(batch))
            loss.backward()
            trainer.step(options.batch_size * kv.num_workers)
    mx.nd.waitall()
    seconds = time.monotonic() - start
    rank = kv.rank
    if hasattr(kv, "close"):  # MXNet's own stores have none.
        kv.close()

    predicted = net(images("t10k")).argmax(1)
    accuracy = (predicted == labels("t10k")).mean().asscalar()
    print(f"rank {rank}: accuracy {accuracy:.4f}, training {seconds:.1f} s")


if __name__ == "__main__":
    main()
