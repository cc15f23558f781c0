"""Mistakes that a type checker is to find, each in a line with an E."""

import numpy as np
import tensorkv
import torch
from tensorkv.federated import FedAdam, FederatedAveraging
from tensorkv.torch import DiLoCo, Publisher, Reader
from tensorkv.torch.deltas import export_deltas, import_deltas

array = np.zeros(3)


def options() -> None:
    tensorkv.create("dist_sync", taget="host:1")  # E
    tensorkv.create("dist_sync", num_workers="4")  # E
    tensorkv.Client("host:1", tmeout=3)  # E


def store(kv: tensorkv.DistKVStore, local: tensorkv.KVStore) -> None:
    values: int = local.pull("w")  # E
    local.pull("w").nothing  # E
    kv.pul("w")  # E
    local.push("w", array, prio=1)  # E
    kv.resume().nothing  # E


def client(client: tensorkv.Client) -> None:
    client.init("w", array, on_existing="kep")  # E
    client.restore_checkpoint("c", on_existing="keep")  # E
    client.create_namespace("n", on_existing="replace")  # E
    client.stat("w")["version"]  # E
    client.save_checkpoint("c").num_key  # E
    client.create_namespace("n", mode="synch")  # E
    client.create_namespace("n", on_worker_loss="go on")  # E
    version: str = client.init("w", array)  # E
    client.pull(["a", "b"]).shape  # E
    client.stat("w").verion  # E
    client.describe_namespace().wrkers  # E
    client.push("w", array, step="1")  # E


def snapshots(client: tensorkv.Client) -> None:
    client.create_snapshot("policy", "3")  # E
    client.pull("w", at="policy")  # E
    version: int = client.init("w", array, publish_as=None)  # E
    client.push("w", array, publish_as=tensorkv.PublishAs("p")).nothing  # E
    tensorkv.At("policy", latest=True)  # E
    client.snapshots()[0].serie  # E


async def coroutines(client: tensorkv.Client, kv: tensorkv.KVStore) -> None:
    await client.aio.puull("w")  # E
    await client.aio.pull(3)  # E
    number: int = await client.aio.pull("w")  # E
    await kv.aio.psh("w", array)  # E
    await client.aio.push("w", array, sstep=1)  # E
    names: str = await client.aio.keys()  # E
    await kv.aio.init("w")  # E
    await client.aio.describe_snapshot("policy", number="3")  # E


def average(client: tensorkv.Client) -> None:
    averaging = FederatedAveraging({}, client, quorm=3)  # E
    FederatedAveraging({}, client, optimizer="FedAdam")  # E
    averaging.average(weight="3")  # E
    FedAdam(learningrate=0.1)  # E


def diloco(client: tensorkv.Client, module: torch.nn.Module) -> None:
    diloco = DiLoCo(client, module, inner_steps=3, sync_every=3)  # E
    DiLoCo(client, "module", sync_every=3)  # E
    DiLoCo(client, module)  # E
    diloco.step("3")  # E


def weights(publisher: Publisher, reader: Reader) -> None:
    publisher.publish("nonsense")  # E
    publisher.publish({"w": 3})  # E
    publisher.publish(torch.nn.Module(), dtype="f16")  # E
    reader.fetch(into=3)  # E
    reader.fetch()["w"].nothing  # E
    Reader("host:1")  # E
    reader.wait("3")  # E


def directories(client: tensorkv.Client) -> None:
    export_deltas(client, "deltas")  # E
    text: str = import_deltas(client, "deltas")  # E
