"""What weights are published by: ours, and what people use.

Each system has a publisher and readers, which are processes of their own. The
publisher tells when it began and ended to publish, a reader when it had the
values in the tensors that it serves.
"""

import contextlib
import os
import pathlib
import socket
import sys
import time

import children
import torch
from model import Model, TrainedModel, bytes_of

HERE = pathlib.Path(__file__).resolve()
BATCH_TIMEOUT = 100


def now():
    """All processes of a host have this clock."""
    return time.monotonic()


class Role:
    """A publisher or a reader, in its own process."""

    # Says that a reader asks before the state is published, and waits for it.
    waits = False

    def __init__(self, is_publisher, address, rank):
        torch.set_num_threads(1)
        self.address = address
        self.rank = rank
        self.is_publisher = is_publisher
        self.model = None
        self.series = ""
        self.connect()

    def begin(self, megabytes, dtype, series):
        """Has the model from now on."""
        kind = TrainedModel if self.is_publisher else Model
        self.model = None
        self.model = kind(megabytes, getattr(torch, dtype))
        self.series = series
        self.begin_series()

    def prepare(self, learning_rate):
        """The next state, and its checksum; 0: another value of each."""
        if learning_rate:
            self.model.step(learning_rate)
        else:
            self.model.replace()
        return self.model.checksum()

    def timed_publish(self, number):
        begin = now()
        self.publish(number)
        return begin, now()

    def timed_fetch(self, number):
        self.fetch(number)
        return now()

    def checksum(self):
        return self.model.checksum()

    def size_bytes(self):
        return self.model.size_bytes

    def connect(self):
        """What comes once."""

    def begin_series(self):
        """What comes before the first state."""

    def clear(self):
        """Lets go what was published."""


class Ours(Role):
    waits = True

    def connect(self):
        import tensorkv

        self._client = tensorkv.Client(self.address, timeout=BATCH_TIMEOUT)

    def begin_series(self):
        from tensorkv.torch import Publisher, Reader

        has_changes = "changes" in self.series
        if self.is_publisher:
            keep_last = 2 if has_changes else 1
            self._publisher = Publisher(self._client, self.series, keep_last)
        else:
            self._reader = Reader(self._client, self.series, keep=has_changes)

    def publish(self, number):
        self._publisher.publish(self.model.tensors, number)

    def fetch(self, number):
        self._reader.fetch(into=self.model.tensors, at_least=number)

    def clear(self):
        self._publisher.clear()


class Safetensors(Role):
    """A file on tmpfs, which gets its name when it is whole."""

    def _path(self, number):
        return f"{self.address}/{self.series}-{number}"

    def publish(self, number):
        from safetensors.torch import save_file

        path = self._path(number)
        save_file(self.model.tensors, f"{path}.part")
        os.rename(f"{path}.part", path)
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._path(number - 1))

    def fetch(self, number):
        from safetensors.torch import load_file

        loaded = load_file(self._path(number))
        for name, tensor in self.model.tensors.items():
            tensor.copy_(loaded[name])

    def clear(self):
        for path in pathlib.Path(self.address).iterdir():
            path.unlink()


class Gloo(Role):
    """A broadcast over loopback, of the whole as one tensor.

    That is faster than one for each tensor, and than buckets.
    """

    waits = True

    def connect(self):
        import torch.distributed as dist

        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        file, _, size = self.address.partition("|")
        dist.init_process_group(
            "gloo",
            init_method=f"file://{file}",
            rank=0 if self.is_publisher else 1 + self.rank,
            world_size=int(size),
        )

    def publish(self, number):
        import torch.distributed as dist

        # Gloo knows no bfloat16.
        dist.broadcast(self.model.flat.view(torch.uint8), 0)

    fetch = publish


class Redis(Role):
    """MSET of all, and MGET."""

    def connect(self):
        import redis

        self._redis = redis.Redis(port=int(self.address))

    def publish(self, number):
        self._redis.mset(
            {
                f"{self.series}/{name}": memoryview(bytes_of(tensor))
                for name, tensor in self.model.tensors.items()
            }
        )

    def fetch(self, number):
        names = [f"{self.series}/{name}" for name in self.model.tensors]
        values = self._redis.mget(names)
        for tensor, value in zip(self.model.tensors.values(), values):
            fill(tensor, value)

    def clear(self):
        self._redis.flushall()


class Mooncake(Role):
    """Its store over TCP, from and into registered memory."""

    def connect(self):
        from mooncake.store import MooncakeDistributedStore

        self._registered = None
        self._store = MooncakeDistributedStore()
        host = "127.0.0.1"
        segment = 1 << 32 if self.rank == -1 else 0
        result = self._store.setup(
            *(f"{host}:{free_port()}", "P2PHANDSHAKE", segment, 1 << 26),
            *("tcp", "", f"{host}:{self.address}"),
        )
        if result:
            raise RuntimeError(f"setup returned {result}")

    def begin_series(self):
        if self._registered:
            self._store.unregister_buffer(self._registered)
        flat = self.model.flat
        self._registered = flat.data_ptr()
        self._store.register_buffer(self._registered, self.model.size_bytes)

    def _entries(self, number):
        tensors = self.model.tensors
        return (
            # An object that is there cannot be written again.
            [f"{self.series}/{number}/{name}" for name in tensors],
            [each.data_ptr() for each in tensors.values()],
            [each.numel() * each.element_size() for each in tensors.values()],
        )

    def publish(self, number):
        results = self._store.batch_put_from(*self._entries(number))
        if any(results):
            raise RuntimeError(f"put returned {min(results)}")

    def fetch(self, number):
        results = self._store.batch_get_into(*self._entries(number))
        if min(results) < 0:
            raise RuntimeError(f"get returned {min(results)}")

    def clear(self):
        self._store.remove_all(True)


class RayRole(Role):
    """An actor: what is put is a dict of arrays, which readers copy."""

    def publish(self, number):
        import ray

        self._reference = ray.put(
            {
                name: bytes_of(tensor)
                for name, tensor in self.model.tensors.items()
            }
        )

    def timed_publish(self, number):
        times = super().timed_publish(number)
        return [*times, [self._reference]]

    def fetch(self, references):
        import ray

        value = ray.get(references[0])
        for name, tensor in self.model.tensors.items():
            fill(tensor, value[name])

    def pid(self):
        return os.getpid()


class RayDriver:
    """Has the actors do what the processes of other systems are told."""

    def __init__(self, readers):
        import ray

        ray.init(
            num_cpus=1 + readers,
            include_dashboard=False,
            object_store_memory=3 << 30,
            log_to_driver=False,
            runtime_env={"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}},
        )
        actor = ray.remote(num_cpus=1)(RayRole)
        self._get = ray.get
        self._publisher = actor.remote(True, "", 0)
        self._readers = [actor.remote(False, "", i) for i in range(readers)]
        self._all = [self._publisher, *self._readers]

    def pids(self):
        return self._get([each.pid.remote() for each in self._all])

    def begin(self, *arguments):
        self._get([each.begin.remote(*arguments) for each in self._all])

    def prepare(self, learning_rate):
        return self._get(self._publisher.prepare.remote(learning_rate))

    def size_bytes(self):
        return self._get(self._publisher.size_bytes.remote())

    def exchange(self, number):
        begin, _, references = self._get(
            self._publisher.timed_publish.remote(number)
        )
        ends = [each.timed_fetch.remote(references) for each in self._readers]
        return begin, self._get(ends)

    def checksums(self):
        return self._get([each.checksum.remote() for each in self._readers])


def fill(tensor, value):
    import numpy as np

    bytes_of(tensor)[:] = np.frombuffer(value, "u1")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


ROLES = {
    "ours": Ours,
    "safetensors": Safetensors,
    "gloo": Gloo,
    "redis": Redis,
    "mooncake": Mooncake,
}


def main():
    kind, *arguments = sys.argv[1:]
    if kind == "ray":
        children.serve(RayDriver(int(arguments[0])))
    role, address, rank = arguments
    children.serve(ROLES[kind](role == "publisher", address, int(rank)))


if __name__ == "__main__":
    main()
