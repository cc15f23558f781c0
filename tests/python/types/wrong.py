"""Mistakes that a type checker is to find, each where "# E" is."""

import asyncio

import numpy as np
import tensorkv

array = np.zeros(3)


def store() -> None:
    kv = tensorkv.create("dist_sync", adress="host:1")  # E
    kv = tensorkv.create("dist_sync", num_workers="4")  # E
    local = tensorkv.create("local", address="host:1")  # E
    values: int = kv.pull("w")  # E
    kv.pull("w").nothing  # E
    kv.pul("w")  # E
    local.push("w", array, prio=1)  # E


def client() -> None:
    client = tensorkv.Client("host:1")
    client.init("w", array, on_existing="kep")  # E
    client.create_namespace("n", mode="synch")  # E
    client.create_namespace("n", on_worker_loss="go on")  # E
    version: str = client.init("w", array)  # E
    arrays: np.ndarray = client.pull(["a", "b"])  # type: ignore[type-arg]  # E
    client.stat("w")["verion"]  # E
    client.describe_namespace()["wrkers"]  # E
    client.push("w", array, step="1")  # E


async def coroutines() -> None:
    client = tensorkv.Client("host:1")
    await client.aio.puull("w")  # E
    await client.aio.pull(3)  # E
    number: int = await client.aio.pull("w")  # E
    kv = tensorkv.create()
    await kv.aio.psh("w", array)  # E
    await asyncio.gather(client.aio.push("w", array, sstep=1))  # E
