"""Stores with the vocabulary of MXNet's KVStore.

>>> import numpy as np
>>> import tensorkv
>>> kv = tensorkv.create("local")
>>> kv.init(3, np.ones((2, 3), "float32") * 2)
>>> kv.push(3, np.ones((2, 3), "float32") * 8)
>>> kv.pull(3)
array([[8., 8., 8.],
       [8., 8., 8.]], dtype=float32)
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
import weakref
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from tensorkv._arrays import as_numpy, dtype_name, is_array
from tensorkv._safetensors import load_file, save_file
from tensorkv.client import DEFAULT_ADDRESS, Client
from tensorkv.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from tensorkv.optimizer import rule_of

Key = Union[int, str]
Keys = Union[Key, Sequence[Key]]
Array = Any
# An expression, or what changes the stored array.
Updater = Union[str, Callable[[Key, Any, Any], None]]

_LOCAL = (
    "local",
    "local_update_cpu",
    "local_allreduce_cpu",
    "device",
    "local_allreduce_device",
)
_SYNC = ("dist", "dist_sync", "dist_device_sync", "dist_sync_device", "byteps")
_ASYNC = ("dist_async", "dist_async_device", "dist_device_async")


def create(name: str = "local", **options: Any) -> "KVStore":
    """Makes a store.

    Args:
      name: "local" or "device" for a store in this process; "dist_sync",
        "dist_device_sync", "dist_async" or "byteps" for a worker's view of a
        server's. Where values are on GPUs is the server's choice. "byteps" only
        sums.
      **options: none of a local store; of the others those of DistKVStore.

    Errors: InvalidArgumentError for an unknown name; those of
    DistKVStore.
    """
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


class KVStore:
    """Keys with arrays, into which pushed arrays are folded.

    Keys are ints or strs, of one kind in a store; a call takes one or a list.
    A value is one array, or a list of arrays, one per device, which are summed.
    Of a list of keys, the values are a list with one such value per key.
    Arrays are those that tensorkv.Client takes; `priority` is accepted, and
    changes nothing.

    A push without optimizer or updater assigns: the value becomes the sum of
    what was pushed.

    Thread-safe. Errors: subclasses of tensorkv.Error, and TypeError for what is
    no key or array.
    """

    def __init__(self, kind: str, client: Client):
        self._kind = kind
        self._client = client
        self._key_kind: Optional[type] = None

    @property
    def type(self) -> str:
        """The name that the store was made with, in lower case."""
        return self._kind

    @property
    def client(self) -> Client:
        """The client behind, whose keys are those of this store as strs."""
        return self._client

    @property
    def rank(self) -> int:
        """This worker's rank in its group."""
        return 0

    @property
    def num_workers(self) -> int:
        """How many workers the group has."""
        return 1

    @property
    def local_rank(self) -> int:
        """The rank among the workers of this host: LOCAL_RANK, else 0."""
        return int(os.environ.get("LOCAL_RANK", "0"))

    def is_capable(self, capability: str) -> bool:
        """Whether the store can do that. Errors: InvalidArgumentError."""
        if capability.lower() != "optimizer":
            raise InvalidArgumentError(f"Unknown capability: {capability}")
        return True

    def init(self, key: Keys, value: Any) -> None:
        """Creates keys with values.

        Errors: AlreadyExistsError for a key that was initialised before.
        """
        raise NotImplementedError

    def push(self, key: Keys, value: Any, priority: int = 0) -> None:
        """Folds values into those of the keys.

        Errors: NotFoundError for a key without init; InvalidArgumentError
        where shape or dtype do not fit.
        """
        raise NotImplementedError

    def pull(
        self,
        key: Keys,
        out: Any = None,
        priority: int = 0,
        ignore_sparse: bool = True,
    ) -> Any:
        """Copies the values of keys to `out`, one array per key or a list.

        Returns `out`; without it, new arrays. Errors: NotFoundError;
        InvalidArgumentError where `out` has another dtype or shape.
        """
        keys = self._keys(key)
        if out is None:
            return self._client.pull(keys if _is_list(key) else keys[0])
        pulled, outs = _by_key(keys, _lists(key, out, "out"))
        self._client.pull(pulled, out=outs)
        return out

    def pushpull(
        self, key: Keys, value: Any, out: Any = None, priority: int = 0
    ) -> Any:
        """Push, then pull of the same keys, in place without `out`.

        What comes out is the updated value; without optimizer or updater that
        is the sum over devices and workers.
        """
        raise NotImplementedError

    def broadcast(
        self, key: Keys, value: Any, out: Any, priority: int = 0
    ) -> Any:
        """init, then pull: everybody gets the value of rank 0."""
        self.init(key, value)
        return self.pull(key, out)

    def row_sparse_pull(
        self, key: Keys, out: Any, priority: int = 0, row_ids: Any = None
    ) -> Any:
        """Copies rows of values to `out`, whose other rows become 0.

        Row ids may be of any rank and order, and repeat. The whole value is
        read: the server has no calls for rows yet.

        Args:
          out: arrays of the stored shape.
          row_ids: an integer array for each out, or one for all.
        """
        if row_ids is None:
            raise InvalidArgumentError("row_ids: expected row ids, got None")
        keys = self._keys(key)
        outs = _lists(key, out, "out")
        ids = _ids_like(outs, row_ids)
        for value, targets, indices in zip(self._client.pull(keys), outs, ids):
            for target, rows in zip(targets, indices):
                _copy_rows(value, as_numpy(target), rows)
        return out

    def set_optimizer(self, optimizer: Any, **hyperparameters: float) -> None:
        """Lets the store update values: push then takes gradients.

        The same optimizer again, with other hyperparameters, keeps its state.
        Arguments and errors are those of tensorkv.optimizer.rule_of; also
        InvalidArgumentError for a rule that the store does not have.
        """
        rule = rule_of(optimizer, **hyperparameters)
        self._client.set_rule(
            rule.name, keep_master=rule.keep_master, **rule.hyperparameters
        )

    def set_learning_rate(self, learning_rate: float) -> None:
        """Changes the optimizer's learning rate, and keeps its state."""
        self._client.set_hyperparameters(learning_rate=learning_rate)

    def set_updater(self, updater: Updater) -> None:
        """Says how a push changes what is stored.

        Args:
          updater: an expression, such as "stored += 2 * grad", that the store
            computes; on a store in this process also a function that changes
            `stored`: updater(key, pushed, stored).
        """
        if isinstance(updater, str):
            self._client.set_rule(f"expression: {updater}")
            return
        if not callable(updater):
            raise InvalidArgumentError(
                "invalid updater: expected an expression or a callable"
            )
        raise UnimplementedError(
            f"set_updater of {self.type}: a server runs no Python; use an "
            "expression or set_optimizer"
        )

    _set_updater = set_updater

    def set_gradient_compression(self, compression_params: Dict) -> None:
        """Errors: UnimplementedError: pushes are not compressed yet."""
        raise UnimplementedError(
            "set_gradient_compression: Python pushes whole tensors so far"
        )

    def save_optimizer_states(
        self, fname: str, dump_optimizer: bool = False
    ) -> None:
        """Writes what the optimizer keeps of every key to a safetensors file.

        The names are "STATE/KEY", such as "momentum/fc1.w"; "update_count/KEY"
        is how many updates there were. No pickle, so any program may read it.
        Keys that change meanwhile are saved at different moments.

        Errors: UnimplementedError for `dump_optimizer`: the rule is the
        server's, not an object of Python.
        """
        if dump_optimizer:
            raise UnimplementedError(
                "save_optimizer_states: dump_optimizer: there is no optimizer "
                "object; call set_optimizer before load_optimizer_states"
            )
        tensors = {}
        keys = self._client.keys()
        for status in self._client.stat(keys) if keys else []:
            key = status["key"]
            for state in [*status["states"], "update_count"]:
                tensors[f"{state}/{key}"] = self._client.pull(key, state=state)
        save_file(fname, tensors)

    def load_optimizer_states(self, fname: str) -> None:
        """Sets what save_optimizer_states has written.

        The keys exist and have the optimizer that they had then; of a group one
        worker loads. Errors: NotFoundError for a key, or a state that its
        optimizer does not keep; InvalidArgumentError for what is no such file,
        or does not fit a key; OSError.
        """
        for name, array in load_file(fname).items():
            state, _, key = name.partition("/")
            self._client.init(key, array, state=state)

    def barrier(self) -> None:
        """Returns when all workers have come to it."""

    def _barrier(self) -> None:
        self.barrier()

    def close(self) -> None:
        """Ends the store; a worker leaves its group."""
        self._client.close()

    def __enter__(self) -> "KVStore":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tensorkv.KVStore {self.type} of {self._client.address}>"

    def _keys(self, key: Keys) -> List[str]:
        """The names of the keys in the store."""
        keys = list(key) if _is_list(key) else [key]
        for each in keys:
            kind = _kind_of(each)
            if self._key_kind not in (None, kind):
                raise InvalidArgumentError(
                    "Mixed key types are not allowed: expected "
                    f"{self._key_kind.__name__}, got {each!r}"
                )
            self._key_kind = kind
        return [str(each) for each in keys]


class LocalKVStore(KVStore):
    """A store in this process, for the arrays of one worker."""

    def __init__(self, kind: str, num_threads: int = 0):
        super().__init__(kind, Client.embedded(num_threads))
        self._updater: Optional[Callable[[Key, Any, Any], None]] = None
        # Held while an updater runs.
        self._updating = threading.RLock()

    def init(self, key: Keys, value: Any) -> None:
        self._client.init(self._keys(key), _first_values(key, value))

    def push(self, key: Keys, value: Any, priority: int = 0) -> None:
        keys, values = self._keys(key), _lists(key, value, "value")
        if self._updater is None:
            self._client.push(*_flat(keys, values))
            return
        with self._updating:
            self._update(keys, values)

    def pushpull(
        self, key: Keys, value: Any, out: Any = None, priority: int = 0
    ) -> Any:
        self.push(key, value)
        return self.pull(key, value if out is None else out)

    def set_updater(self, updater: Updater) -> None:
        with self._updating:
            if callable(updater):
                self._client.set_rule("assign")
                self._updater = updater
            else:
                super().set_updater(updater)
                self._updater = None

    _set_updater = set_updater

    def set_optimizer(self, optimizer: Any, **hyperparameters: float) -> None:
        with self._updating:
            super().set_optimizer(optimizer, **hyperparameters)
            self._updater = None

    def _update(self, keys: List[str], values: List[List[Array]]) -> None:
        keys, values = _by_key(keys, values)
        stored = self._client.pull(keys)
        for key, parts, value in zip(keys, values, stored):
            merged = as_numpy(parts[0])
            for part in parts[1:]:
                merged = merged + as_numpy(part)
            if merged.shape != value.shape:
                raise InvalidArgumentError(
                    f"value of key {key!r}: expected the shape {value.shape}, "
                    f"got {merged.shape}"
                )
            self._updater(self._key_kind(key), merged, value)
        self._client.push(keys, stored)


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

        Errors: FailedPreconditionError where the namespace is of another mode
        or number of workers; ResourceExhaustedError where the group is full.
        """
        address = address or os.environ.get("TENSORKV_ADDRESS", DEFAULT_ADDRESS)
        namespace = namespace or os.environ.get("TENSORKV_NAMESPACE", kind)
        client = Client(address, namespace=namespace, timeout=timeout)
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
        keys, values = self._keys(key), _first_values(key, value)
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
            _check_like(status, each)

    def push(self, key: Keys, value: Any, priority: int = 0) -> None:
        keys, values = _by_key(self._keys(key), _lists(key, value, "value"))
        with _StepsOfCall(self, keys) as steps:
            for step, at in steps:
                now = [keys[i] for i in at]
                self._client.push(*_flat(now, [values[i] for i in at]), step)

    def pushpull(
        self, key: Keys, value: Any, out: Any = None, priority: int = 0
    ) -> Any:
        out = value if out is None else out
        names = self._keys(key)
        keys, values = _by_key(names, _lists(key, value, "value"))
        outs = _by_key(names, _lists(key, out, "out"))[1]
        with _StepsOfCall(self, keys) as steps:
            for step, at in steps:
                now = [keys[i] for i in at]
                sent, parts = _flat(now, [values[i] for i in at])
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
        wanted = int(num_workers or os.environ.get("DMLC_NUM_WORKER", "1"))
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

    If the call fails, it takes those back that have not been pushed: they can
    be pushed again.
    """

    def __init__(self, store: DistKVStore, keys: List[str]):
        self._store, self._keys = store, keys
        # Of each step that is not pushed the places of its keys in `keys`.
        self._places: Dict[int, List[int]] = {}

    def __enter__(self) -> "_StepsOfCall":
        store = self._store
        with store._stepping:
            for i, key in enumerate(self._keys):
                step = store._steps.get(key, store._first_step - 1) + 1
                store._steps[key] = step
                self._places.setdefault(step, []).append(i)
        return self

    def __iter__(self) -> Iterator[Tuple[int, List[int]]]:
        """Steps and their places; to go on is to say that one was pushed."""
        for step, places in list(self._places.items()):
            yield step, places
            del self._places[step]

    def __exit__(self, error: Any, *_) -> None:
        if error is None:
            return
        steps = self._store._steps
        with self._store._stepping:
            for step, places in self._places.items():
                for i in places:
                    if steps.get(self._keys[i]) == step:
                        steps[self._keys[i]] = step - 1


def _is_list(key: Keys) -> bool:
    return isinstance(key, (list, tuple))


def _kind_of(key: Key) -> type:
    if isinstance(key, str):
        return str
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return int
    raise TypeError(f"key: expected an int or a str, got {key!r}")


def _lists(key: Keys, value: Any, what: str) -> List[List[Array]]:
    """Of each key a list of arrays."""
    if not _is_list(key):
        value = [value]
    elif is_array(value) or len(value) != len(key):
        got = "an array" if is_array(value) else f"{len(value)}"
        raise InvalidArgumentError(
            f"{what}: expected a list of {len(key)}, one for each key, got "
            f"{got}"
        )
    lists = [[each] if is_array(each) else list(each) for each in value]
    if not all(lists):
        raise InvalidArgumentError(f"{what}: expected arrays, got no array")
    return lists


def _first_values(key: Keys, value: Any) -> List[Array]:
    """Of each key its one array."""
    lists = _lists(key, value, "value")
    for each in lists:
        if len(each) != 1:
            raise InvalidArgumentError(
                f"value: expected one array per key, got {len(each)}"
            )
    return [each[0] for each in lists]


def _by_key(keys: List[str], values: List[List[Array]]) -> tuple:
    """Each key once, with all that belongs to it."""
    grouped: Dict[str, List[Array]] = {}
    for key, parts in zip(keys, values):
        grouped.setdefault(key, []).extend(parts)
    return list(grouped), list(grouped.values())


def _flat(keys: List[str], values: List[List[Array]]) -> tuple:
    """A key for each array."""
    if all(len(parts) == 1 for parts in values):
        return keys, [parts[0] for parts in values]
    pairs = [(k, part) for k, parts in zip(keys, values) for part in parts]
    return [key for key, _ in pairs], [part for _, part in pairs]


def _ids_like(outs: List[List[Array]], row_ids: Any) -> List[List[Array]]:
    """The row ids of each out."""
    num_outs = sum(len(each) for each in outs)
    flat = [row_ids] * num_outs if is_array(row_ids) else list(row_ids)
    if len(flat) == 1:
        flat *= num_outs
    if len(flat) != num_outs:
        raise InvalidArgumentError(
            f"row_ids: expected one array, or one for each of {num_outs} outs, "
            f"got {len(flat)}"
        )
    ids = iter(flat)
    return [[next(ids) for _ in each] for each in outs]


def _copy_rows(value: np.ndarray, out: np.ndarray, row_ids: Array) -> None:
    if out.dtype != value.dtype or out.shape != value.shape:
        raise InvalidArgumentError(
            f"out: expected {value.dtype}{list(value.shape)}, got "
            f"{out.dtype}{list(out.shape)}"
        )
    rows = np.unique(np.asarray(as_numpy(row_ids)).astype("int64"))
    if rows.size and not 0 <= rows[0] <= rows[-1] < len(value):
        raise InvalidArgumentError(
            f"row_ids: expected 0 to {len(value) - 1}, got {rows[0]} to "
            f"{rows[-1]}"
        )
    out[...] = 0
    out[rows] = value[rows]


def _check_like(status: Dict[str, Any], value: Array) -> None:
    array = as_numpy(value)
    if (status["dtype"], status["shape"]) != (dtype_name(array), array.shape):
        raise InvalidArgumentError(
            f"value of key {status['key']!r}: expected what rank 0 has, "
            f"{status['dtype']}{list(status['shape'])}, got "
            f"{dtype_name(array)}{list(array.shape)}"
        )


def _unique_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
