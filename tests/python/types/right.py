"""A program in which a type checker is to find nothing."""

import pathlib
from typing import Any, List, Optional

import numpy as np
import tensorkv
import tensorkv.torch
import torch
from tensorkv.federated import FedAdam, FederatedAveraging, Nesterov
from tensorkv.torch import DiLoCo, Publisher, Reader
from tensorkv.torch.deltas import export_deltas, import_deltas

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


def steps(client: tensorkv.Client) -> None:
    for record in client.describe_steps(3, first_step=2):
        weights: List[Optional[float]] = [
            each.weight
            for keys in record.contributors
            for each in keys.contributions
        ]
        names: List[str] = [worker.name for worker in record.workers]
        print(weights, names, [each.reason for each in record.failures])


def snapshots(client: tensorkv.Client, array: Floats) -> None:
    publish_as = tensorkv.PublishAs("policy", keep_last=2)
    part = tensorkv.PublishAs("policy", 7, part=(0, 2))
    missing: int = client.init("a", array, publish_as=part).parts_missing
    taken: tensorkv.Snapshot = client.init("a", array, publish_as=publish_as)
    pushed = client.push(["a"], [array], publish_as=publish_as)
    made = client.create_snapshot("policy", 9, metadata={"loss": "0.5"})
    pulled: Floats = client.pull("a", at=made.at)
    rows: Floats = client.pull_rows("a", [1], at=tensorkv.At("policy", 9))
    keys: List[str] = client.keys(at=tensorkv.At("policy", at_least=3))
    with client.lease_snapshot("policy", duration=3) as leased:
        print(client.stat("a", at=leased.at).shape, taken.at, pushed.revision)
    for each in client.snapshots("pol"):
        left: Optional[float] = each.time_left
        print(each.metadata["loss"], left, pulled, rows, keys)
    leases = client.describe_snapshot("policy", at_least=9).leases
    print([lease.caller for lease in leases], client.delete_snapshot("policy"))


def watches(client: tensorkv.Client) -> None:
    watch: tensorkv.Watch = client.watch("a", series="policy", initial=True)
    for change in watch:
        key: Optional[str] = change.key
        print(key, change.version, change.number, watch.token)
    changes: List[tensorkv.Change] = watch.begin().next(timeout=3)
    print(changes)


async def coroutines(array: Floats) -> None:
    client = tensorkv.Client("host:1")
    pulled: Floats = await client.aio.pull("a", wait=True)
    await client.aio.push(["a"], [pulled])
    await client.aio.set_rule("sgd", learning_rate=0.1)
    keys: List[str] = await client.aio.keys(prefix="a")
    await client.aio.create_namespace("n", mode="sync", timeout=3)
    print(keys, (await client.aio.save_checkpoint()).num_keys)
    taken = await client.aio.create_snapshot("policy", keep_last=1)
    again: Floats = await client.aio.pull("a", at=taken.at)
    published: tensorkv.Snapshot = await client.aio.push(
        "a", again, publish_as=tensorkv.PublishAs("policy")
    )
    print(published.number, (await client.aio.describe_snapshot("policy")).at)
    async for change in client.watch(key="a"):
        print(change.deleted, await client.watch().aio.next(timeout=1))
    kv = tensorkv.create()
    await kv.aio.push("a", array)
    same: Floats = await kv.aio.broadcast("a", array, out=array)
    print(same)


def average(client: tensorkv.Client, module: torch.nn.Module) -> None:
    arrays = {"w": np.zeros(3)}
    averaging = FederatedAveraging(arrays, client, optimizer=FedAdam(beta1=0.8))
    while averaging.round < 3:
        counted: bool = averaging.average(weight=120)
        print(counted)
    modules = tensorkv.torch.FederatedAveraging(module, client, quorum=3)
    modules.leave()


def diloco(client: tensorkv.Client, module: torch.nn.Module) -> None:
    outer = Nesterov(momentum=0.8)
    diloco = DiLoCo(client, [module], sync_every=500, outer_optimizer=outer)
    while diloco.round < 3:
        ended: bool = diloco.step(4096)
        print(ended, diloco.is_in)
    DiLoCo(client, module, sync_every=5, quorum=3).leave()


def weights(client: tensorkv.Client, module: torch.nn.Module) -> None:
    publisher = Publisher(client, "policy", keep_last=2, deltas=True)
    number: int = publisher.publish(module, 3, metadata={"loss": 0.5})
    publisher.publish(dict(module.named_parameters()), dtype=torch.float16)
    publisher.clear()
    reader = Reader(client)
    reader.fetch(into=module, at_least=number)
    tensors = reader.fetch(into={"w": torch.zeros(3)}, number=reader.number)
    print(number, tensors["w"], reader.metadata["loss"])


def directories(client: tensorkv.Client, folder: pathlib.Path) -> None:
    version: int = export_deltas(client, folder, "base", number=3)
    imported = import_deltas(client, folder, series="other", version=version)
    print(imported + 1)
