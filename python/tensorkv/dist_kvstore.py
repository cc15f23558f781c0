"""Stores that share a server's values with other workers."""

from __future__ import annotations

import contextlib
import os
import socket
import time
import weakref
from typing import Any, ContextManager, Dict, Iterator, List, Optional, Set

from tensorkv._arrays import as_numpy
from tensorkv._client_arguments import within
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
from tensorkv._steps import QueuedSteps, Ticket, UnorderedSteps
from tensorkv._types import (
    KeyStatus,
    Mode,
    NamespaceStatus,
    WorkerStatus,
)
from tensorkv._waits import WaitLog
from tensorkv.client import Client
from tensorkv.errors import (
    AlreadyExistsError,
    ClosedError,
    FailedPreconditionError,
    ForkedError,
    NotFoundError,
    ResourceExhaustedError,
    UnimplementedError,
)
from tensorkv.kvstore import KVStore

# Between attempts at joining a group that is full.
_PAUSE = 0.2

# The namespace is not there any more, though its name may be.
_IS_GONE = ("NAMESPACE_NOT_FOUND", "NAMESPACE_REPLACED")


class DistKVStore(KVStore):
    """A worker's view of a namespace that it shares with others.

    It joins the namespace, which is made if it is not there, renews its lease,
    and leaves when it is closed. A worker or connection that is lost does not
    concern the caller: tensorkv.Client.join says what is done about it.

    In "dist_sync" a round of a key closes when every worker has pushed it: the
    n-th push of a key joins its n-th round, in whatever order keys are pushed.
    A push returns when the server holds it, and a pull waits for the rounds
    that this worker has pushed to. At most 4 rounds of a key may be open.
    Threads may push the same key: one after another, in an order of their own;
    a push_pull of theirs that fails may have pushed. A call that waits for
    others says for whom by the logger "tensorkv".

    A worker is done when it says so: by `leave`, by `close` outside of an
    exception, or by a `with` block or an interpreter that ends without one.
    However else it ends, it is lost, and its group waits for it to come back.
    What needs a worker that has left ends with WorkerLeftError. A store that is
    dropped, as a local of a function is, stays a worker until the interpreter,
    or a child of multiprocessing, ends: how that ends counts for it, too. If
    the process makes another store of the namespace before, it is lost; so is
    one that was not dropped, where the other has its `worker_name`.

    Workers make their push_pulls in the same order, as each waits for all; and
    so do the threads of workers where push_pulls have some keys in common, but
    not all. Or they push, and then pull.

    A worker that was lost comes back by `create` with the same `worker_name`,
    or with `resume=True`, and goes on with the step that `resume` tells: the
    one that was its last. What is held of that counts once. It begins all keys
    with that step, so a worker that may come back pushes every key equally
    often.

    A server that is restarted from a checkpoint has an earlier state. Whatever
    call finds that, in the last step too, raises an error whose `reason` is
    "SERVER_RESTARTED", and so do all after it, until `resume` is asked. Workers
    go back with the server:

        step = kv.resume()
        while step <= num_steps:
            try:
                ...  # pushes and pulls of the step
                step += 1
            except tensorkv.FailedPreconditionError as error:
                if error.reason != "SERVER_RESTARTED":
                    raise
                step = kv.resume()
                ...  # pulls all values anew
    """

    def __init__(
        self,
        kind: str,
        mode: Mode,
        *,
        target: Optional[str] = None,
        namespace: Optional[str] = None,
        num_workers: Optional[int] = None,
        worker_name: Optional[str] = None,
        resume: bool = False,
        timeout: float = 120.0,
        step_timeout: float = 600.0,
        lease: float = 10.0,
        takeover_timeout: float = 60.0,
        warn_after: float = 5.0,
        **credentials: Any,
    ):
        """Joins, as tensorkv.create says.

        Errors: FailedPreconditionError where the namespace is of another mode
        or number of workers; ResourceExhaustedError where the group is full,
        after half a `lease` and 0.2 s: until then a worker may show to be lost.
        """
        name = namespace or os.environ.get("TENSORKV_NAMESPACE") or kind
        client = Client(target, namespace=name, timeout=timeout, **credentials)
        super().__init__(kind, client)
        self._mode = mode
        self._step_timeout = step_timeout
        self._config = self._enter_namespace(name, num_workers)
        self._num_workers = self._config.num_workers
        self._join(
            worker_name or _unique_name(), lease, takeover_timeout, step_timeout
        )
        self._comes_back = resume or bool(worker_name and client._was_lost)
        first = client.next_step
        # Keys with which this store has begun.
        self._begun: Set[str] = set()
        # Whether the rank has made steps before, in this run or another.
        self._has_steps = first > 1
        self._steps = (
            QueuedSteps(first) if mode == "sync" else UnorderedSteps(first)
        )
        self._waits = _waits_of(client, warn_after)

    @property
    def rank(self) -> int:
        # One that joins again, in whatever call, may get another. The last one
        # stays that of a store which has ended.
        with contextlib.suppress(ClosedError, ForkedError):
            self._rank = self._client.rank
        return self._rank

    @property
    def num_workers(self) -> int:
        if self._mode == "async":
            return self._client.describe_namespace().live_workers
        return self._num_workers

    def is_capable(self, capability: str) -> bool:
        return super().is_capable(capability) and self.type != "byteps"

    def resume(self, timeout: Optional[float] = None) -> int:
        try:
            first = self._client.resume(timeout)
        except (NotFoundError, FailedPreconditionError) as error:
            if error.reason not in _IS_GONE:
                raise
            raise type(error)(
                f"{error}: the server has lost what this store had, or it was "
                "deleted; begin anew by tensorkv.create",
                error.reason,
                error.metadata,
            ) from None
        self._steps.go_back_to(first)
        return first

    def init(
        self, key: Keys, value: Any, timeout: Optional[float] = None
    ) -> None:
        """Creates keys with the values of rank 0; the others wait for them.

        A worker that has come back takes what is stored, and so does one that
        comes to a run under way, unless its group is whole or does not go on.
        Any other finds AlreadyExistsError where the keys are those of an
        earlier run, whatever its rank. In "dist_async", or where a quorum lets
        rounds close without it, so does a slow worker of the same run where
        those before it have left meanwhile: have all meet at a `barrier` before
        they leave, or give the slow one `resume=True`.
        """
        keys, values = self._keys(key), first_values(key, value)
        with within(timeout), self._watch(f"init of {keys[0]!r}"):
            if self.rank == 0:
                self._create(keys, values)
            else:
                self._await(keys, values)
        self._begun.update(keys)

    def push(
        self,
        key: Keys,
        value: Any,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> None:
        keys, values = self._contributions(key, value)
        kinds = have_rows(keys, values)
        with self._ticket(keys, timeout) as ticket:
            for step, at in ticket.parts(kinds):
                now = [keys[i] for i in at]
                with self._watch(f"push of step {step}", step):
                    self._send(now, [values[i] for i in at], kinds[at[0]], step)

    def push_pull(
        self,
        key: Keys,
        value: Any,
        out: Any = None,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Any:
        out = value if out is None else out
        keys, values = self._contributions(key, value)
        kinds = have_rows(keys, values)
        check_no_rows(kinds)
        outs = by_key(self._keys(key), lists_of(key, out, "out"))[1]
        with self._ticket(keys, timeout) as ticket:
            for step, at in ticket.parts(kinds):
                now = [keys[i] for i in at]
                sent, parts = flat(now, [values[i] for i in at])
                with self._watch(f"push_pull of step {step}", step):
                    if ticket.is_shared:
                        self._client.push(sent, parts, step=step)
                        continue
                    # The value comes once, for the first entry of its key.
                    targets = [
                        outs[i] if first else []
                        for i in at
                        for first in [True] + [False] * (len(values[i]) - 1)
                    ]
                    self._client.push_pull(sent, parts, out=targets, step=step)
        if ticket.is_shared:
            step = max(ticket.steps.values())
            with self._watch(f"pull of step {step}", step):
                self._client.pull(keys, out=outs, timeout=timeout)
        return out

    def set_optimizer(
        self,
        optimizer: Any,
        *,
        timeout: Optional[float] = None,
        **hyperparameters: float,
    ) -> None:
        """Has an optimizer of the group apply what is pushed.

        Pushes before it assign. In "dist_async", where nobody waits for others,
        call it in every worker, before its first push.
        """
        if not self.is_capable("optimizer"):
            raise UnimplementedError(
                f"set_optimizer of {self.type}: it only sums; use dist_sync"
            )
        super().set_optimizer(optimizer, timeout=timeout, **hyperparameters)

    def barrier(self, timeout: Optional[float] = None) -> None:
        with self._watch("barrier"):
            self._client.barrier("kvstore", timeout)

    def _end(self, is_lost: bool) -> None:
        waits = getattr(self, "_waits", None)
        if waits is not None:
            waits.close()
        self._client._end(is_lost)

    @contextlib.contextmanager
    def _watch(self, what: str, step: int = 0) -> Iterator[None]:
        """Logs whom the call waits for, and tells a restart that it found."""
        has_gone_back = False
        try:
            with self._waits.watch(what, step):
                yield
        except FailedPreconditionError:
            has_gone_back = self._client._store.has_gone_back
            if not has_gone_back:
                raise
        if has_gone_back or self._client._store.has_gone_back:
            raise FailedPreconditionError(
                f"{what}: the server was restarted, and may have gone back to "
                "an earlier step: go on from the one that resume() tells",
                "SERVER_RESTARTED",
            )

    def _watch_read(self, what: str) -> ContextManager[None]:
        last = self._steps.last()
        return self._watch(f"{what} after step {last}", last)

    @contextlib.contextmanager
    def _ticket(
        self, keys: List[str], timeout: Optional[float]
    ) -> Iterator[Ticket]:
        """The steps of a call that pushes these keys."""
        # Errors: ClosedError, ForkedError; nobody would close a ticket here.
        self._client._store.is_worker
        longest = self._step_timeout if timeout is None else timeout
        with within(timeout), self._steps.ticket(keys, longest) as ticket:
            yield ticket

    def _check_new(self, keys: List[str]) -> None:
        if self.rank != 0 or self._comes_back:
            return
        try:
            self._client.stat(keys)
        except NotFoundError:
            return
        if self._is_whole() or not self._joins_a_run():
            raise self._of_another_run(keys[0])

    def _create(self, keys: List[str], values: List[Any]) -> None:
        if self._comes_back:
            self._client.init(keys, values, on_existing="keep")
            return
        try:
            self._client.init(keys, values)
        except AlreadyExistsError as error:
            again = not self._begun.isdisjoint(keys)
            if again or self._is_whole() or not self._joins_a_run():
                raise self._of_another_run(error.key or keys[0]) from error
            self._client.init(keys, values, on_existing="keep")

    def _await(self, keys: List[str], values: List[Any]) -> None:
        """Returns when rank 0 has created keys that are like the values."""
        for status, each in zip(self._stat_when_there(keys, values), values):
            check_like(status, each)
            if (
                status.update_count
                and not self._comes_back
                and status.key not in self._begun
                # No round closes without a worker of a whole group.
                and (
                    self._has_steps
                    if self._is_whole()
                    else not self._joins_a_run()
                )
            ):
                raise self._of_another_run(status.key)

    def _stat_when_there(
        self, keys: List[str], values: List[Any]
    ) -> List[KeyStatus]:
        """Waits for keys by reading as little as that takes.

        They come together, but to the servers of a cluster one after another.
        """
        sizes = [as_numpy(each).nbytes for each in values]
        awaited: Optional[str] = keys[sizes.index(min(sizes))]
        while True:
            try:
                return self._client.stat(keys)
            except NotFoundError as error:
                self._client.pull(awaited or error.key or keys[0], wait=True)
                awaited = None

    def _joins_a_run(self) -> bool:
        """Whether there are others who have made steps since they joined."""
        return any(
            each.live and each.step and each.rank != self.rank
            for each in self._client.describe_namespace().workers
        )

    def _is_whole(self) -> bool:
        config = self._config
        return (
            self._mode == "sync"
            and config.on_worker_loss == "fail"
            and not config.quorum
            and config.max_workers in (0, config.num_workers)
        )

    def _of_another_run(self, key: str) -> AlreadyExistsError:
        return AlreadyExistsError(
            f"key {key!r} of namespace {self._client.namespace!r}: it is there "
            "already, from an earlier run: delete the keys or the namespace, "
            "use another namespace, or go on from there by "
            "tensorkv.create(..., resume=True)",
            "KEY_EXISTS",
            {"key": key},
        )

    def _join(
        self, name: str, lease: float, takeover: float, step_timeout: float
    ) -> None:
        """Joins, and waits meanwhile for the lease of who may be lost."""
        begin = time.monotonic()
        # By then a worker that is lost shows by its lease.
        shows = begin + min(lease / 2 + _PAUSE, takeover)
        while True:
            try:
                self._rank = self._client.join(
                    name,
                    lease=lease,
                    takeover_timeout=takeover,
                    step_timeout=step_timeout,
                    rank=self._rank_of_launcher(),
                )
                return
            except ResourceExhaustedError as error:
                if error.reason != "GROUP_FULL":
                    raise
                members = self._client.describe_namespace().workers
                silent = silent_of(members, lease)
                if time.monotonic() >= (begin + takeover if silent else shows):
                    raise _group_full(error, self._client, silent) from None
            time.sleep(_PAUSE)

    def _rank_of_launcher(self) -> Optional[int]:
        """The rank that torchrun gives, in a group of its size."""
        size = number_in("WORLD_SIZE", 0)
        if self._mode != "sync" or size != self._num_workers:
            return None
        rank = number_in("RANK", -1)
        return rank if 0 <= rank < size else None

    def _enter_namespace(
        self, namespace: str, num_workers: Optional[int]
    ) -> NamespaceStatus:
        launched = number_in("WORLD_SIZE", number_in("DMLC_NUM_WORKER", 1))
        wanted = int(num_workers or launched)
        is_sync = self._mode == "sync"
        with contextlib.suppress(AlreadyExistsError):
            self._client.create_namespace(
                namespace, mode=self._mode, num_workers=wanted if is_sync else 0
            )
        found = self._client.describe_namespace(namespace)
        if found.mode != self._mode:
            raise FailedPreconditionError(
                f"namespace {namespace!r}: expected the mode {self._mode}, "
                f"got {found.mode}"
            )
        if is_sync and num_workers and found.num_workers != wanted:
            raise FailedPreconditionError(
                f"namespace {namespace!r}: expected {wanted} workers, got "
                f"{found.num_workers}"
            )
        return found


def _unique_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}"


def _waits_of(client: Client, after: float) -> WaitLog:
    # The log's thread lives longer than who has dropped the store.
    of_client = weakref.ref(client)

    def describe() -> Optional[NamespaceStatus]:
        alive = of_client()
        return alive.describe_namespace(timeout=5) if alive else None

    waits = WaitLog(client.rank, describe, after)
    weakref.finalize(client, waits.close)
    return waits


def silent_of(members: List[WorkerStatus], lease: float) -> Dict[str, float]:
    """Workers that are or seem lost, and for how long their leases run."""
    return {
        f"rank {each.rank} ({each.name})": each.lease_remaining
        for each in members
        # Leases are renewed three times while they run.
        if not each.left and each.lease_remaining < lease / 2
    }


def _group_full(
    error: ResourceExhaustedError, client: Client, silent: Dict[str, float]
) -> ResourceExhaustedError:
    left = [
        f"{who}, whose lease ends in {seconds:.1f} s"
        for who, seconds in silent.items()
    ]
    names = [each.name for each in client.describe_namespace().workers]
    whom = "; silent: " + ", ".join(left) if left else ""
    return ResourceExhaustedError(
        f"{error}: its workers are {', '.join(names)}{whom}",
        error.reason,
        error.metadata,
    )
