"""Stores that share a server's values with other workers."""

from __future__ import annotations

import os
import socket
import threading
import uuid
import weakref
from typing import Any, Dict, Iterator, List, Optional, Tuple

from tensorkv._key_values import (
    Keys,
    by_key,
    check_like,
    check_no_rows,
    first_values,
    flat,
    have_rows,
    lists_of,
    number_in,
)
from tensorkv.client import DEFAULT_ADDRESS, Client
from tensorkv.errors import (
    FailedPreconditionError,
    NotFoundError,
    UnimplementedError,
)
from tensorkv.kvstore import KVStore


class DistKVStore(KVStore):
    """A worker's view of a namespace that it shares with others.

    It joins the namespace, which is made if it is not there, renews its lease,
    and leaves when it is closed. A worker or connection that is lost does not
    concern the caller: tensorkv.Client.join says what is done about it.

    In "dist_sync" a round of a key closes when every worker has pushed it: the
    n-th push of a key joins its n-th round, in whatever order keys are pushed.
    A push returns when the server holds it, and a pull waits for the rounds
    that this worker has pushed to. At most 4 rounds of a key may be open. A
    worker that was killed and comes back begins with the push that was its
    last: what is held of it counts once. It begins all keys with that step, so
    a worker that may come back pushes every key equally often.

    A server that is restarted from a checkpoint has an earlier state, to which
    a store does not go back: a push that is the first of its number among all
    keys raises an error whose `reason` is "SERVER_RESTARTED", and until then
    pushes are dropped. Make another store then, and load the weights from it.
    """

    def __init__(
        self,
        kind: str,
        mode: str,
        *,
        address: Optional[str] = None,
        namespace: Optional[str] = None,
        num_workers: Optional[int] = None,
        worker_name: Optional[str] = None,
        timeout: float = 120.0,
        lease: float = 10.0,
        **credentials: Any,
    ):
        """Joins.

        Args:
          address: of the server; else TENSORKV_ADDRESS, or 127.0.0.1:7363.
          namespace: of the group; else TENSORKV_NAMESPACE, or what `kind` is.
          num_workers: of the group, unless it exists; else DMLC_NUM_WORKER, or
            1. "dist_async" has no fixed number.
          worker_name: the same when the worker comes back after a failure;
            else one that nobody else has.
          timeout: seconds for each attempt at a call.
          lease: seconds without a sign of life until the worker counts as lost.
          **credentials: tls_ca, tls_cert, tls_key, tls_server_name and
            token_file, as tensorkv.Client takes them.

        Errors: FailedPreconditionError where the namespace is of another mode
        or number of workers; ResourceExhaustedError where the group is full.
        """
        address = address or os.environ.get("TENSORKV_ADDRESS", DEFAULT_ADDRESS)
        namespace = namespace or os.environ.get("TENSORKV_NAMESPACE", kind)
        client = Client(
            address, namespace=namespace, timeout=timeout, **credentials
        )
        super().__init__(kind, client)
        self._close = weakref.finalize(self, client.close)
        self._mode = mode
        self._num_workers = self._enter_namespace(namespace, num_workers)
        self._rank = client.join(worker_name or _unique_name(), lease=lease)
        self._first_step = client.next_step
        # Of each key the step of its last push.
        self._steps: Dict[str, int] = {}
        self._stepping = threading.Lock()

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def num_workers(self) -> int:
        if self._mode == "async":
            return self._client.describe_namespace()["live_workers"]
        return self._num_workers

    def is_capable(self, capability: str) -> bool:
        return super().is_capable(capability) and self.type != "byteps"

    def init(self, key: Keys, value: Any) -> None:
        """Creates keys with the values of rank 0; the others wait for them.

        A worker that has come back takes what is stored.
        """
        keys, values = self._keys(key), first_values(key, value)
        if self.rank == 0:
            existing = "keep" if self._first_step > 1 else "fail"
            self._client.init(keys, values, on_existing=existing)
            return
        try:
            stored = self._client.stat(keys)
        except NotFoundError:
            self._client.pull(keys, wait=True)
            stored = self._client.stat(keys)
        for status, each in zip(stored, values):
            check_like(status, each)

    def push(self, key: Keys, value: Any, priority: int = 0) -> None:
        keys, values = self._contributions(key, value)
        kinds = have_rows(keys, values)
        with _StepsOfCall(self, keys, kinds) as steps:
            for step, at in steps:
                now = [keys[i] for i in at]
                self._send(now, [values[i] for i in at], kinds[at[0]], step)

    def pushpull(
        self, key: Keys, value: Any, out: Any = None, priority: int = 0
    ) -> Any:
        out = value if out is None else out
        keys, values = self._contributions(key, value)
        kinds = have_rows(keys, values)
        check_no_rows(kinds)
        outs = by_key(self._keys(key), lists_of(key, out, "out"))[1]
        with _StepsOfCall(self, keys, kinds) as steps:
            for step, at in steps:
                now = [keys[i] for i in at]
                sent, parts = flat(now, [values[i] for i in at])
                # The value comes once, for the first entry of its key.
                targets = [
                    outs[i] if first else []
                    for i in at
                    for first in [True] + [False] * (len(values[i]) - 1)
                ]
                self._client.push_pull(sent, parts, out=targets, step=step)
        return out

    def set_optimizer(self, optimizer: Any, **hyperparameters: float) -> None:
        if not self.is_capable("optimizer"):
            raise UnimplementedError(
                f"set_optimizer of {self.type}: it only sums; use dist_sync"
            )
        super().set_optimizer(optimizer, **hyperparameters)

    def barrier(self) -> None:
        self._client.barrier("kvstore")

    def close(self) -> None:
        self._close()

    def _enter_namespace(
        self, namespace: str, num_workers: Optional[int]
    ) -> int:
        wanted = int(num_workers or number_in("DMLC_NUM_WORKER", 1))
        is_sync = self._mode == "sync"
        self._client.create_namespace(
            namespace, mode=self._mode, num_workers=wanted if is_sync else 0
        )
        found = self._client.describe_namespace(namespace)
        if found["mode"] != self._mode:
            raise FailedPreconditionError(
                f"namespace {namespace!r}: expected the mode {self._mode}, "
                f"got {found['mode']}"
            )
        if is_sync and num_workers and found["num_workers"] != wanted:
            raise FailedPreconditionError(
                f"namespace {namespace!r}: expected {wanted} workers, got "
                f"{found['num_workers']}"
            )
        return found["num_workers"]


class _StepsOfCall:
    """The next step of each of the keys that a call pushes.

    Keys with rows go by themselves, since they are pushed by other calls.
    If the call fails, it takes those back that have not been pushed: they can
    be pushed again. What the server has of them even so counts once in
    "dist_sync", and again in "dist_async".
    """

    def __init__(self, store: DistKVStore, keys: List[str], kinds: List[bool]):
        self._store, self._keys, self._kinds = store, keys, kinds
        # Of each step that is not pushed the places of its keys in `keys`, by
        # their kind.
        self._places: Dict[Tuple[int, bool], List[int]] = {}

    def __enter__(self) -> "_StepsOfCall":
        store = self._store
        with store._stepping:
            for i, key in enumerate(self._keys):
                step = store._steps.get(key, store._first_step - 1) + 1
                store._steps[key] = step
                self._places.setdefault((step, self._kinds[i]), []).append(i)
        return self

    def __iter__(self) -> Iterator[Tuple[int, List[int]]]:
        """Steps and their places; to go on is to say that one was pushed."""
        for of, places in list(self._places.items()):
            yield of[0], places
            del self._places[of]

    def __exit__(self, error: Any, *_) -> None:
        if error is None:
            return
        steps = self._store._steps
        with self._store._stepping:
            for (step, _), places in self._places.items():
                for i in places:
                    if steps.get(self._keys[i]) == step:
                        steps[self._keys[i]] = step - 1


def _unique_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
