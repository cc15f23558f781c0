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

import functools
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
from tensorkv.aio import Coroutines
from tensorkv.client import DEFAULT_ADDRESS, Client
from tensorkv.compression import encoding_of
from tensorkv.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from tensorkv.optimizer import rule_of
from tensorkv.row_sparse import RowSparseArray, dense, row_ids_of

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
        self._compresses = False
        # What an optimizer does with rows that a RowSparseArray lacks.
        self._updates_all_rows = False

    @property
    def type(self) -> str:
        """The name that the store was made with, in lower case."""
        return self._kind

    @property
    def client(self) -> Client:
        """The client behind, whose keys are those of this store as strs."""
        return self._client

    @property
    def aio(self) -> Coroutines:
        """The methods as coroutines: `await kv.aio.pull("w")`."""
        return Coroutines(self, self._client._threads)

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

        A value may be a RowSparseArray, or all of a key's may be: then only
        the rows that they name change. A call with arrays and with rows is two
        calls of the store, one for each kind.

        Errors: NotFoundError for a key without init; InvalidArgumentError
        where shape or dtype do not fit, or row ids are out of range.
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
        is the sum over devices and workers. Errors: those of both;
        UnimplementedError for rows.
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

        Row ids may be of any rank and order, and repeat. Only these rows are
        read, each once.

        Args:
          out: arrays of the stored shape.
          row_ids: an integer array for each out, or one for all.

        Errors: those of `pull`; InvalidArgumentError for ids that are no
        integers, or out of range.
        """
        if row_ids is None:
            raise InvalidArgumentError("row_ids: expected row ids, got None")
        keys = self._keys(key)
        outs = _lists(key, out, "out")
        # Outs of a key that have their ids in common are filled by one pull.
        pulls: Dict[Tuple[str, int], Tuple[np.ndarray, List[np.ndarray]]] = {}
        for name, targets, ids in zip(keys, outs, _ids_like(outs, row_ids)):
            for target, each in zip(targets, ids):
                pull = name, id(each)
                if pull not in pulls:
                    pulls[pull] = np.unique(row_ids_of(each)), []
                pulls[pull][1].append(as_numpy(target))
        rows = [each for each, _ in pulls.values()]
        values = self._client.pull_rows([name for name, _ in pulls], rows)
        filled = [
            (target, each, value)
            for (each, targets), value in zip(pulls.values(), values)
            for target in targets
        ]
        for target, each, value in filled:
            _check_takes_rows(target, each, value)
        for target, each, value in filled:
            target[...] = 0
            target[each] = value
        return out

    def set_optimizer(self, optimizer: Any, **hyperparameters: float) -> None:
        """Lets the store update values: push then takes gradients.

        The same optimizer again, with other hyperparameters, keeps its state.
        Pushed rows are updated alone, unless the optimizer is an object whose
        `lazy_update` is False.
        Arguments and errors are those of tensorkv.optimizer.rule_of; also
        InvalidArgumentError for a rule that the store does not have.
        """
        rule = rule_of(optimizer, **hyperparameters)
        self._client.set_rule(
            rule.name, keep_master=rule.keep_master, **rule.hyperparameters
        )
        self._updates_all_rows = not getattr(optimizer, "lazy_update", True)

    def set_learning_rate(self, learning_rate: float) -> None:
        """Changes the optimizer's learning rate, and keeps its state."""
        self._client.set_hyperparameters(learning_rate=learning_rate)

    def set_updater(self, updater: Updater) -> None:
        """Says how a push changes what is stored.

        Args:
          updater: an expression, such as "stored += 2 * grad", that the store
            computes; on a store in this process also a function that changes
            `stored`: updater(key, pushed, stored).

        Errors: InvalidArgumentError; UnimplementedError for a function where
        pushes are compressed, since it would not get what is decoded, or for a
        server's store.
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

    def set_gradient_compression(
        self, compression_params: Dict[str, Any]
    ) -> None:
        """Has pushes of floats encoded; what that leaves out comes later.

        The values of several devices are summed first. What is pulled comes as
        it is stored. RowSparseArrays and integers are pushed as they are. May
        be called again, which forgets what was left out.

        Args:
          compression_params: a dict of "type", or BytePS's "compressor", and
            what that type has:

            "2bit", "1bit": "threshold", by default 0.5, as in MXNet.
            "onebit": the sign, times the mean magnitude ("scaling" is True).
            "topk", "randomk": "k", the fraction of the elements, 0.01.
            "dithering": "bits" of a code, 8; "partition", "linear" or
              "natural"; "normalize", "max" or "l2".
            "int8", "fp8", "float8_e5m2": "block_size", 128, the elements that
              share a scale. "fp8" is float8_e4m3fn.
            "fp16", "bf16": nothing. "none": as if never called.

            All but "none" also take "ef", by default "vanilla", or None to
            forget what a push leaves out; "momentum", which is "nesterov", and
            its "mu", 0.9; and "min_bytes", 0, below which arrays are pushed as
            they are.

        Errors: InvalidArgumentError; UnimplementedError for a local store that
        is not of the type "device", as in MXNet, or has a function as updater.
        """
        if self.type in _LOCAL and "device" not in self.type:
            raise UnimplementedError(
                f"set_gradient_compression of {self.type}: expected a store of "
                "devices or of a server"
            )
        encoding = encoding_of(compression_params)
        self._client.set_compression(*encoding)
        self._compresses = encoding.compression != "none"

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

    def _contributions(
        self, key: Keys, value: Any
    ) -> Tuple[List[str], List[List[Array]]]:
        """Each key once, and what is pushed to it."""
        keys, values = _by_key(self._keys(key), _lists(key, value, "value"))
        if self._compresses:
            values = [_sum(parts) for parts in values]
        return keys, values

    def _send(
        self,
        keys: List[str],
        values: List[List[Array]],
        has_rows: bool,
        step: int = 0,
    ) -> None:
        """Pushes arrays, or else RowSparseArrays."""
        sent, parts = _flat(keys, values)
        if not has_rows:
            self._client.push(sent, parts, step)
            return
        ids = [row_ids_of(part.indices) for part in parts]
        data = [part.data for part in parts]
        self._client.push_rows(sent, ids, data, step, self._updates_all_rows)


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
        keys, values = self._contributions(key, value)
        if self._updater is not None:
            with self._updating:
                self._update(keys, values)
            return
        kinds = _have_rows(keys, values)
        for has_rows in sorted(set(kinds)):
            at = [i for i, kind in enumerate(kinds) if kind == has_rows]
            now = [keys[i] for i in at]
            self._send(now, [values[i] for i in at], has_rows)

    def pushpull(
        self, key: Keys, value: Any, out: Any = None, priority: int = 0
    ) -> Any:
        values = _lists(key, value, "value")
        _check_no_rows(_have_rows(self._keys(key), values))
        self.push(key, value)
        return self.pull(key, value if out is None else out)

    def set_updater(self, updater: Updater) -> None:
        with self._updating:
            if callable(updater):
                if self._compresses:
                    raise _no_updater_of_compressed()
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

    def set_gradient_compression(
        self, compression_params: Dict[str, Any]
    ) -> None:
        with self._updating:
            compression = encoding_of(compression_params).compression
            if self._updater is not None and compression != "none":
                raise _no_updater_of_compressed()
            super().set_gradient_compression(compression_params)

    def _update(self, keys: List[str], values: List[List[Array]]) -> None:
        stored = self._client.pull(keys)
        for key, parts, value in zip(keys, values, stored):
            merged = dense(parts[0], value.shape)
            for part in parts[1:]:
                merged = merged + dense(part, value.shape)
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
        keys, values = self._contributions(key, value)
        kinds = _have_rows(keys, values)
        with _StepsOfCall(self, keys, kinds) as steps:
            for step, at in steps:
                now = [keys[i] for i in at]
                self._send(now, [values[i] for i in at], kinds[at[0]], step)

    def pushpull(
        self, key: Keys, value: Any, out: Any = None, priority: int = 0
    ) -> Any:
        out = value if out is None else out
        keys, values = self._contributions(key, value)
        kinds = _have_rows(keys, values)
        _check_no_rows(kinds)
        outs = _by_key(self._keys(key), _lists(key, out, "out"))[1]
        with _StepsOfCall(self, keys, kinds) as steps:
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

    Keys with rows go by themselves, since they are pushed by other calls.
    If the call fails, it takes those back that have not been pushed: they can
    be pushed again.
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


def _have_rows(keys: List[str], values: List[List[Array]]) -> List[bool]:
    """Of each key whether rows are pushed to it."""
    if not any(type(p) is RowSparseArray for parts in values for p in parts):
        return [False] * len(keys)
    kinds = []
    for key, parts in zip(keys, values):
        of_parts = {type(part) is RowSparseArray for part in parts}
        if len(of_parts) > 1:
            raise InvalidArgumentError(
                f"values of key {key!r}: expected RowSparseArrays or arrays, "
                "got both"
            )
        kinds.extend(of_parts)
    return kinds


def _check_no_rows(kinds: List[bool]) -> None:
    if any(kinds):
        raise UnimplementedError(
            "pushpull of a RowSparseArray: use push and row_sparse_pull"
        )


_FLOATS = ("f16", "bf16", "f8e4m3fn", "f8e5m2", "f32", "f64")


def _sum(parts: List[Array]) -> List[Array]:
    """The sum of arrays of one shape, in f32 or f64; others as they are."""
    if len(parts) == 1 or RowSparseArray in map(type, parts):
        return parts
    arrays = [as_numpy(part) for part in parts]
    if len({array.shape for array in arrays}) > 1 or any(
        dtype_name(array) not in _FLOATS for array in arrays
    ):
        return parts
    dtype = np.result_type("float32", *(array.dtype for array in arrays))
    total = arrays[0].astype(dtype)
    for array in arrays[1:]:
        total += array.astype(dtype)
    return [total]


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


def _no_updater_of_compressed() -> UnimplementedError:
    return UnimplementedError(
        "a function as updater and gradient compression: expected one of them, "
        "or an expression as updater"
    )


def _check_takes_rows(
    out: np.ndarray, rows: np.ndarray, value: np.ndarray
) -> None:
    if (
        out.dtype != value.dtype
        or out.ndim != value.ndim
        or out.shape[1:] != value.shape[1:]
        or not out.flags.writeable
        or (rows.size and rows[-1] >= len(out))
    ):
        last = rows[-1] if rows.size else 0
        raise InvalidArgumentError(
            f"out: expected to write {value.dtype} rows of shape "
            f"{list(value.shape[1:])} up to row {last}, "
            f"got {out.dtype}{list(out.shape)}"
        )


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
