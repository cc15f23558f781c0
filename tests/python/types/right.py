"""A program in which a type checker is to find nothing."""

from typing import Any, List, Optional

import numpy as np
import tensorkv
import torch
from tensorkv.torch import Publisher, Reader

Floats = np.ndarray[Any, np.dtype[np.float64]]


def store(name: str, array: Floats) -> None:
    with tensorkv.create(
        "dist_sync", target="host:1", num_workers=4, worker_name="w0"
    ) as kv:
        step = kv.resume()
        kv.init(["a", "b"], [array, array])
        kv.push("a", array, timeout=3)
        first: int = step + kv.rank
        pulled: Floats = kv.pull("a")
        both: List[Floats] = kv.pull(["a", "b"])
        same: Floats = kv.pull("a", out=array)
        print(first, pulled, both, same)
    print(tensorkv.create().type, tensorkv.create(name, namespace="n").type)


def client(array: Floats) -> None:
    client = tensorkv.Client("host:1", timeout=3)
    versions: List[int] = client.init(["a"], [array], on_existing="keep")
    version: Optional[int] = client.push("a", array)
    shape = client.stat("a").shape
    for worker in client.describe_namespace().workers:
        print(worker.name, worker.step, shape, version, versions)


async def coroutines(array: Floats) -> None:
    client = tensorkv.Client("host:1")
    pulled: Floats = await client.aio.pull("a", wait=True)
    await client.aio.push(["a"], [pulled])
    await client.aio.set_rule("sgd", learning_rate=0.1)
    keys: List[str] = await client.aio.keys(prefix="a")
    await client.aio.create_namespace("n", mode="sync", timeout=3)
    print(keys, (await client.aio.save_checkpoint()).num_keys)
    kv = tensorkv.create()
    await kv.aio.push("a", array)
    same: Floats = await kv.aio.broadcast("a", array, out=array)
    print(same)


def weights(client: tensorkv.Client, module: torch.nn.Module) -> None:
    publisher = Publisher(client, run="r")
    version: int = publisher.publish(module, metadata={"step": 3})
    publisher.publish(dict(module.named_parameters()), dtype=torch.float16)
    reader = Reader(client)
    reader.fetch(into=module)
    tensors = reader.fetch(into={"w": torch.zeros(3)})
    print(version, tensors["w"], reader.metadata["step"])
