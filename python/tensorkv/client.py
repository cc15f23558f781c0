"""A client of one namespace of a server, or of a store in this process."""

from __future__ import annotations

import copy
import functools
import os
from typing import Any, List, Optional, Sequence, Union

from tensorkv import _core
from tensorkv._at_exit import (
    ends_by_exception,
    forget_worker,
    lose,
    lose_dropped,
    named,
    watch_worker,
)
from tensorkv._client_arguments import within
from tensorkv._client_rows import RowVerbs
from tensorkv._client_values import ValueVerbs
from tensorkv._snapshots import SnapshotVerbs
from tensorkv._step_records import StepVerbs
from tensorkv._types import (
    Aggregation,
    CheckpointStatus,
    Late,
    Mode,
    NamespaceStatus,
    OnExistingNamespace,
    OnLargeNorm,
    OnNonFinite,
    OnRestoring,
    OnWorkerLoss,
    ServerStatus,
    SumOrder,
    namespace_status,
)
from tensorkv._watch import WatchVerbs
from tensorkv.aio import MAX_CALLS, MAX_PUSHES, ClientCoroutines, Threads
from tensorkv.errors import AlreadyExistsError, FailedPreconditionError

_DEFAULT_TARGET = "127.0.0.1:7363"

Path = Union[str, "os.PathLike[str]"]


class Client(ValueVerbs, RowVerbs, SnapshotVerbs, StepVerbs, WatchVerbs):
    """The verbs of TensorKV.

    Every verb takes one key, a str, or a list of keys with a list of arrays. A
    call over many keys is all or nothing.

    Arrays are read, and those of `out` written, where they are: NumPy arrays,
    objects with the buffer protocol, CPU tensors of PyTorch, or DLPack in host
    memory. They are C-contiguous and little-endian. dtypes: float16, float32,
    float64, signed and unsigned integers, bool; with the package ml_dtypes also
    bfloat16, float8_e4m3fn and float8_e5m2. No call holds the GIL.

    On Python's main thread Ctrl-C interrupts every call to a server, and what
    waits in a store in this process; calls on other threads end by their
    timeout, or by `close` with ClosedError. The server drops them too. Nobody
    knows whether a call that was interrupted was made. Nobody
    writes its arrays any more; those of an init, or of a push of a client that
    has not joined, may be read until the connection has let go of what it was
    sending, as after any such call that fails: use other arrays then. A worker
    pushes the same step again, which counts once in the modes "sync" and
    "bounded", but may count twice in "async".

    Thread-safe. In a forked child every call raises ForkedError, and so does
    the making of another client of a server: fork before the first one is made,
    or let multiprocessing use "spawn".

    A server that was restarted refuses the calls of its former clients with an
    error whose `reason` is "SERVER_RESTARTED", since it may have an earlier
    state, or none: `reconnect` takes it as it is. A worker that has joined goes
    on by itself, as `join` says.

    Errors: subclasses of tensorkv.Error, and TypeError for what is no array.
    Every verb raises InvalidArgumentError, NotFoundError, UnavailableError
    where no server answers, and DeadlineExceededError after `timeout` seconds:
    those of the client, or of the call where it has its own.
    """

    # Of its coroutines: others may wait for these, and these for none.
    _WAIT_FOR_NONE = ("init", "push", "push_rows", "set_state")

    def __init__(
        self,
        target: Optional[str] = None,
        *,
        namespace: str = "",
        timeout: float = 30.0,
        tls_ca: Path = "",
        tls_cert: Path = "",
        tls_key: Path = "",
        tls_server_name: str = "",
        token_file: Path = "",
    ):
        """Connects in the background: a server that is down shows later.

        Args:
          target: "host:port" or "unix:/path" of a server, or
            "cluster:host:port,host:port" for some of several that are one
            store; else TENSORKV_TARGET, or 127.0.0.1:7363.
          timeout: seconds for each call that has no other.
          tls_ca: a PEM file with the authorities that may sign the server's
            certificate. With it connections are encrypted, else in plain text.
          tls_cert, tls_key: PEM files with the client's certificate and key.
          tls_server_name: the name in the server's certificate, if it is not
            that of the target.
          token_file: a file whose one line is a bearer token. It goes over TLS
            and Unix sockets alone.

        Errors: InvalidArgumentError for a file that cannot be read, or that
        makes no sense; where the server knows its callers, every verb raises
        UnauthenticatedError for one that it does not know, and
        PermissionDeniedError for what the policy does not grant.
        """
        target = target or os.environ.get("TENSORKV_TARGET") or _DEFAULT_TARGET
        files = (tls_ca, tls_cert, tls_key)
        self._open = functools.partial(
            _core.Store.connect,
            target,
            namespace,
            timeout,
            *(os.fspath(each) for each in files),
            tls_server_name,
            os.fspath(token_file),
        )
        self._store = self._open()
        self._compression = None
        self.target = target
        self.namespace = namespace or "default"

    @classmethod
    def embedded(cls, num_threads: int = 0) -> "Client":
        """A client of a store of its own in this process, without a server.

        It keeps copies of what is pushed, and gives copies. `num_threads` 0
        stands for one per core.
        """
        client = cls.__new__(cls)
        client._store = _core.Store.embed(num_threads)
        client._compression = None
        client.target = "local"
        client.namespace = "default"
        return client

    def close(self) -> None:
        """Ends the connection, and the calls that are under way.

        A worker leaves its group, as done, unless it is closed while an
        exception is handled: then it is lost, as one that is killed, and its
        group waits for it to come back. May be repeated.
        """
        self._end(is_lost=ends_by_exception())

    def leave(self) -> None:
        """Closes the client; a worker is done with all its steps."""
        self._end(is_lost=False)

    def _end(self, is_lost: bool) -> None:
        forget_worker(self._store)
        try:
            self._store.close(is_lost)
        finally:
            self._threads.close()
            self._pushing_threads.close()

    def reconnect(self) -> None:
        """Takes the server as it is now, after it was restarted.

        From then on calls are made that a server which has another state than
        this client has seen would have refused.

        Errors: FailedPreconditionError for a worker, which joins again by
        itself: `resume`.
        """
        if self._store.is_worker:
            raise FailedPreconditionError(
                "reconnect: expected a client that has not joined; a worker "
                "goes on by resume()"
            )
        if self.target == "local":
            return
        store = self._open()
        if self._compression is not None:
            store.set_compression(*self._compression)
        # Calls that are under way end with the store that they have.
        self._store = store

    @property
    def aio(self) -> ClientCoroutines:
        """The verbs as coroutines: `await client.aio.pull("w")`."""
        return ClientCoroutines(self, self._threads, self._pushing_threads)

    @functools.cached_property
    def _threads(self) -> Threads:
        return Threads(MAX_CALLS)

    @functools.cached_property
    def _pushing_threads(self) -> Threads:
        return Threads(MAX_PUSHES)

    def __repr__(self) -> str:
        closed = "closed " if self._store.is_closed else ""
        return (
            f"<{closed}tensorkv.Client of {self.namespace!r} at {self.target}>"
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, _: Any, error: Any, __: Any) -> None:
        self._end(is_lost=ends_by_exception(error))

    # --- Rules --------------------------------------------------------------

    def set_rule(
        self,
        rule: str,
        *,
        key_pattern: str = "",
        keep_master: bool = True,
        timeout: Optional[float] = None,
        **hyperparameters: float,
    ) -> None:
        """Chooses what turns stored value and contribution into the new value.

        A key whose rule keeps its name keeps its state.

        Args:
          rule: "assign", "accumulate", "average", "sgd", "adam", ..., or a text
            such as "sgd(learning_rate=1, schedule=cosine(max_updates=1000))",
            or "expression: stored -= 0.1 * grad": help(tensorkv.optimizer) has
            all, with their hyperparameters.
          key_pattern: a glob over keys; empty is the namespace's default.
          keep_master: whether keys of 16 and 8 bits keep an f32 copy.
          **hyperparameters: of the rule, such as learning_rate=0.01.
        """
        with within(timeout):
            self._store.set_rule(
                rule, hyperparameters, keep_master, key_pattern
            )

    def unset_rule(
        self, key_pattern: str, timeout: Optional[float] = None
    ) -> None:
        """Removes the rule of a pattern: its keys fall to the one before it.

        Errors: NotFoundError where exactly that pattern has no rule.
        """
        with within(timeout):
            self._store.unset_rule(key_pattern)

    def set_multipliers(
        self,
        key_pattern: str,
        *,
        learning_rate: float = 1.0,
        weight_decay: float = 1.0,
        timeout: Optional[float] = None,
    ) -> None:
        """Multiplies learning rate and weight decay of keys of a pattern."""
        with within(timeout):
            self._store.set_multipliers(
                learning_rate, weight_decay, key_pattern
            )

    def unset_multipliers(
        self, key_pattern: str, timeout: Optional[float] = None
    ) -> None:
        """Removes the multipliers of a pattern.

        Errors: NotFoundError where exactly that pattern has none.
        """
        with within(timeout):
            self._store.unset_multipliers(key_pattern)

    def set_hyperparameters(
        self,
        *,
        key_pattern: str = "",
        timeout: Optional[float] = None,
        **hyperparameters: float,
    ) -> None:
        """Changes some hyperparameters of a rule, and keeps its state."""
        with within(timeout):
            self._store.set_hyperparameters(hyperparameters, key_pattern)

    # --- Namespaces ---------------------------------------------------------

    def create_namespace(
        self,
        name: str,
        *,
        mode: Mode = "async",
        num_workers: int = 0,
        max_workers: int = 0,
        staleness: int = 0,
        on_worker_loss: OnWorkerLoss = "fail",
        rescale_partial_rounds: bool = False,
        quorum: int = 0,
        quorum_grace: float = 0.0,
        max_open_rounds: int = 0,
        aggregation: Aggregation = "sum",
        trim_fraction: float = 0.0,
        sum_order: SumOrder = "rank",
        mirrored: bool = False,
        on_non_finite: OnNonFinite = "apply",
        max_norm: float = 0.0,
        max_call_norm: float = 0.0,
        on_large_norm: OnLargeNorm = "clip",
        budget_bytes: int = 0,
        max_retained_bytes: int = 0,
        round_timeout: float = 0.0,
        late: Late = "refuse",
        staleness_decay: float = 0.0,
        on_existing: OnExistingNamespace = "fail",
        timeout: Optional[float] = None,
    ) -> None:
        """Creates a namespace of the server.

        `describe_namespace` tells what it is. Its rule is what `set_rule` sets.

        Args:
          mode: "async" applies each push at once; in "sync" a round of a key
            and step closes when all workers have contributed; "bounded" applies
            at once, but a worker waits that is more than `staleness` steps
            ahead of the slowest.
          num_workers: the size of a group that is whole or does not go on. With
            `max_workers` above it the size with which the group begins; from
            then on a round needs those who are there. 0 in "async".
          on_worker_loss: "fail" drops a round that a lost worker lacks in, to
            be repeated when it has come back; "continue" closes it without.
          rescale_partial_rounds: multiplies a sum of fewer than all, so that it
            counts as much as one of all.
          quorum, quorum_grace: a round closes, too, when it has so many
            contributions, and so many seconds have passed since.
          max_open_rounds: how many steps of a key may be open; 0 stands for 4.
          aggregation: what contributions become, before the rule: "sum"; the
            "mean", weighted by the `weight` of pushes; of rounds also "median",
            or "trimmed_mean" without the fraction `trim_fraction` at either end.
          sum_order: of the contributions to sums and means in "sync": "rank",
            for the same bits every time, or "arrival", for memory that does not
            grow with the number of workers.
          mirrored: has every server of a cluster keep all keys.
          on_non_finite: of contributions with Inf or NaN: "apply", "count",
            "skip" or "refuse".
          max_norm, max_call_norm: bounds of the norm of one contribution, and
            of all of a call; 0 for none. `on_large_norm`: "clip" or "refuse".
          budget_bytes: for all its tensors; 0 for the server's.
          max_retained_bytes: for what snapshots keep of former values, which is
            no part of that; 0 for the server's bound.
          round_timeout: a round that has too few contributions, so many seconds
            after its first, fails; 0 for never.
          late: what becomes of a contribution to a round of sums or means that
            a quorum has closed without it: "refuse" it, or "carry" it into the
            next round.
          staleness_decay: what its weight in a mean is multiplied by for each
            step that it is carried; 0 stands for 1.
          on_existing: where the name is taken, "fail" raises
            AlreadyExistsError, and "keep" FailedPreconditionError unless that
            namespace is the same.
        """
        config = dict(locals())
        for each in ("self", "name", "on_existing", "timeout"):
            del config[each]
        with within(timeout):
            self._store.create_namespace(name, config, on_existing)

    def update_namespace(
        self,
        name: str,
        *,
        on_worker_loss: Optional[OnWorkerLoss] = None,
        rescale_partial_rounds: Optional[bool] = None,
        quorum: Optional[int] = None,
        quorum_grace: Optional[float] = None,
        on_non_finite: Optional[OnNonFinite] = None,
        max_norm: Optional[float] = None,
        max_call_norm: Optional[float] = None,
        on_large_norm: Optional[OnLargeNorm] = None,
        budget_bytes: Optional[int] = None,
        max_retained_bytes: Optional[int] = None,
        round_timeout: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """Changes options of a namespace while it is used.

        The arguments are those of `create_namespace`; what is None stays as it
        is. All count at once, but for a higher `quorum`, or 0: that counts from
        the next step on. A budget below what is used removes nothing, and
        refuses what would need more.

        Errors: InvalidArgumentError for what `create_namespace` refuses.
        """
        changes = dict(locals())
        for each in ("self", "name", "timeout"):
            del changes[each]
        changes = {
            field: to for field, to in changes.items() if to is not None
        }
        with within(timeout):
            self._store.update_namespace(name, changes)

    def describe_namespace(
        self, name: Optional[str] = None, timeout: Optional[float] = None
    ) -> NamespaceStatus:
        """What the namespace is, and who works there."""
        with within(timeout):
            found = self._store.describe_namespace(name or self.namespace)
        return namespace_status(found)

    def delete_namespace(
        self, name: str, timeout: Optional[float] = None
    ) -> None:
        """Removes a namespace with all its keys."""
        with within(timeout):
            self._store.delete_namespace(name)

    def list_namespaces(
        self, timeout: Optional[float] = None
    ) -> List[NamespaceStatus]:
        """The namespaces of the server, each without its workers."""
        with within(timeout):
            return [namespace_status(n) for n in self._store.list_namespaces()]

    # --- The server ---------------------------------------------------------

    def describe_server(self, timeout: Optional[float] = None) -> ServerStatus:
        """What the server is."""
        with within(timeout):
            return ServerStatus(**self._store.describe_server())

    def save_checkpoint(
        self,
        name: str = "",
        namespaces: Sequence[str] = (),
        timeout: Optional[float] = None,
    ) -> CheckpointStatus:
        """Has the server write its namespaces, or these, to its folder.

        A server that starts takes the newest checkpoint. Without a name it gets
        one of the time. To write much takes a while: give a `timeout` then. The
        server goes on after it, and `list_checkpoints` tells when it is done.

        Errors: FailedPreconditionError for a server without a folder;
        AlreadyExistsError.
        """
        with within(timeout):
            saved = self._store.save_checkpoint(name, list(namespaces))
        return CheckpointStatus(**saved)

    def restore_checkpoint(
        self,
        name: str,
        namespaces: Sequence[str] = (),
        as_namespace: str = "",
        on_existing: OnRestoring = "fail",
        timeout: Optional[float] = None,
    ) -> CheckpointStatus:
        """Has the server read namespaces of a checkpoint: all, or these.

        Args:
          as_namespace: what a single one is to be called here.
          on_existing: what becomes of a namespace that is there: "fail", or
            "replace". Every client of one that is replaced, this one included,
            is refused until it calls `reconnect`; its workers cannot go on, and
            `KVStore.resume` ends with the reason "NAMESPACE_REPLACED": they
            join anew, by other clients.

        Errors: NotFoundError; AlreadyExistsError for a namespace that is there;
        FailedPreconditionError for a server without a folder.
        """
        with within(timeout):
            restored = self._store.restore_checkpoint(
                name, list(namespaces), as_namespace, on_existing
            )
        return CheckpointStatus(**restored)

    def list_checkpoints(
        self, timeout: Optional[float] = None
    ) -> List[CheckpointStatus]:
        """The checkpoints in the server's folder, the oldest first."""
        with within(timeout):
            found = self._store.list_checkpoints()
        return [CheckpointStatus(**each) for each in found]

    def verify_checkpoint(
        self, name: str, timeout: Optional[float] = None
    ) -> CheckpointStatus:
        """Has the server read all of a checkpoint, and compare its digests.

        Errors: NotFoundError; DataLossError where it is damaged.
        """
        with within(timeout):
            return CheckpointStatus(**self._store.verify_checkpoint(name))

    def delete_checkpoint(
        self, name: str, timeout: Optional[float] = None
    ) -> None:
        """Removes a checkpoint from the server's folder.

        Errors: NotFoundError.
        """
        with within(timeout):
            self._store.delete_checkpoint(name)

    # --- Workers ------------------------------------------------------------

    def join(
        self,
        name: str,
        *,
        lease: float = 10.0,
        takeover_timeout: float = 60.0,
        step_timeout: float = 600.0,
        rank: Optional[int] = None,
    ) -> int:
        """Becomes a worker of the namespace; returns its rank.

        From then on the lease is renewed, and verbs recover by themselves from
        lost workers and broken connections, for at most `step_timeout` seconds.
        To be called before other threads use the client.

        Once the server was restarted from a checkpoint, pushes raise a
        FailedPreconditionError whose `reason` is "SERVER_RESTARTED", until
        `resume`, which tells the step to go back to. The client of a KVStore,
        which counts steps itself, is resumed by KVStore.resume.

        tensorkv.DistKVStore says when the worker is done with its steps, and
        when it is lost; for a store there it is a client here. A former worker
        of the process that has the name, and was not dropped, is lost once the
        server says that only the name is in the way.

        Args:
          name: unique among the workers, and the same for a worker that comes
            back, which goes on from `resume()`.
          lease: seconds without a sign of life until the worker counts as lost.
          takeover_timeout: how many seconds to wait for the lease of a worker
            of that name to end.
          rank: the one to have; by default the server chooses.

        Errors: FailedPreconditionError for a client that has joined.
        """
        if self._store.is_worker:
            raise FailedPreconditionError(
                "join: expected a client that has not joined, got a worker"
            )
        place = (self.target, self.namespace)
        lose_dropped(place)
        former = named(place, name)

        def join(timeout: float) -> bool:
            return self._store.join(name, lease, timeout, step_timeout, rank)

        try:
            # The server says at once whether a former self is in the way. A NaN
            # stays one, and is refused.
            self._was_lost = join(
                min(takeover_timeout, 0.0) if former else takeover_timeout
            )
            lose(former)
        except AlreadyExistsError:
            if not former:
                raise
            lose(former)
            self._was_lost = join(takeover_timeout)
        watch_worker(self, self._store, place, name)
        return self._store.rank

    @property
    def rank(self) -> int:
        """The worker's rank; 0 for who is none."""
        return self._store.rank

    @property
    def next_step(self) -> int:
        """The step that the worker pushes next."""
        return self._store.next_step

    def resume(self, timeout: Optional[float] = None) -> int:
        """Returns the step that the worker makes next.

        Where the server was restarted, the worker joins it again first, and
        goes back to what the server has: pushes count again from then on.

        Errors: FailedPreconditionError for who is no worker, or where the
        server has lost what the worker had; NotFoundError where the namespace
        is gone.
        """
        with within(timeout):
            return self._store.resume()

    def barrier(
        self, name: str = "barrier", timeout: Optional[float] = None
    ) -> None:
        """Returns when all workers of the group have come to it."""
        with within(timeout):
            self._store.barrier(name)

    def _again(self) -> "Client":
        """A client of the server as it is now, which has not joined."""
        again = copy.copy(self)
        again._store = self._open()
        again._compression = None
        for threads in ("_threads", "_pushing_threads"):
            again.__dict__.pop(threads, None)
        return again
