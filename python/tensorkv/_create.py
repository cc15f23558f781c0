"""`create`, which makes every kind of store."""

from __future__ import annotations

from typing import Optional

from tensorkv.client import Path
from tensorkv.dist_kvstore import DistKVStore
from tensorkv.errors import InvalidArgumentError
from tensorkv.kvstore import KVStore
from tensorkv.local_kvstore import LocalKVStore

_LOCAL = (
    "local",
    "local_update_cpu",
    "local_allreduce_cpu",
    "device",
    "local_allreduce_device",
)
_SYNC = ("dist", "dist_sync", "dist_device_sync", "dist_sync_device", "byteps")
_ASYNC = ("dist_async", "dist_async_device", "dist_device_async")


def create(
    name: str = "local",
    *,
    num_threads: Optional[int] = None,
    target: Optional[str] = None,
    namespace: Optional[str] = None,
    num_workers: Optional[int] = None,
    worker_name: Optional[str] = None,
    resume: Optional[bool] = None,
    timeout: Optional[float] = None,
    step_timeout: Optional[float] = None,
    lease: Optional[float] = None,
    takeover_timeout: Optional[float] = None,
    warn_after: Optional[float] = None,
    tls_ca: Optional[Path] = None,
    tls_cert: Optional[Path] = None,
    tls_key: Optional[Path] = None,
    tls_server_name: Optional[str] = None,
    token_file: Optional[Path] = None,
) -> KVStore:
    """Makes a store.

    Args:
      name: "local" or "device" for a store in this process; "dist_sync",
        "dist_device_sync", "dist_async" or "byteps" for a worker's view of a
        server's. The server says whether values are on a GPU. "byteps" only
        sums.
      num_threads: of a local store, by default one per core. All others are of
        a server's, whose worker tensorkv.DistKVStore describes.
      target: of the server, as tensorkv.Client takes it.
      namespace: of the group, such as one for each training; else
        TENSORKV_NAMESPACE, or what `name` is.
      num_workers: of the group, unless it exists; else WORLD_SIZE, which
        torchrun sets, DMLC_NUM_WORKER, or 1. In a group of WORLD_SIZE the rank
        is RANK. "dist_async" has no fixed number.
      worker_name: one that the worker has again when it comes back after a
        failure, such as that of its host; else one that nobody else has.
      resume: whether this run goes on with the keys of an earlier one, whatever
        has become of that. Without it only a worker whose `worker_name` was
        lost does, or that comes to a run which others make without it; any
        other finds AlreadyExistsError at its `init`.
      timeout: seconds for each attempt at a call, 120.
      step_timeout: seconds for a call with all that is done again while workers
        or servers are lost, 600.
      lease: seconds without a sign of life until the worker counts as lost, 10.
      takeover_timeout: how many seconds to wait for the lease of a lost worker
        to end whose name, or place in the group, this one takes, 60.
      warn_after: after so many seconds, 5, a call that waits for others says
        for whom (math.inf: never), by the logger "tensorkv".
      tls_ca, tls_cert, tls_key, tls_server_name, token_file: those of
        tensorkv.Client.

    Errors: InvalidArgumentError for an unknown name; FailedPreconditionError
    where the namespace is of another mode or number of workers;
    ResourceExhaustedError where the group is full.
    """
    options = {
        key: value
        for key, value in locals().items()
        if key != "name" and value is not None
    }
    if not isinstance(name, str):
        raise TypeError(f"name: expected a str, got {type(name).__name__}")
    kind = name.lower()
    if kind in _LOCAL:
        return LocalKVStore(kind, **options)
    if kind in _SYNC:
        return DistKVStore(kind, "sync", **options)
    if kind in _ASYNC:
        return DistKVStore(kind, "async", **options)
    raise InvalidArgumentError(
        f"store {name!r}: expected one of "
        f"{', '.join(_LOCAL + _SYNC + _ASYNC)}"
    )
