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

import contextlib
from typing import (
    Any,
    Callable,
    ContextManager,
    Dict,
    List,
    Optional,
    Tuple,
    TypeVar,
    Union,
    overload,
)

from tensorkv._key_values import (
    Array,
    Key,
    Keys,
    by_key,
    flat,
    ids_like,
    kind_of,
    lists_of,
    pulls_of_rows,
    sum_of,
)
from tensorkv._at_exit import ends_by_exception
from tensorkv._safetensors import Path, load_file, save_file
from tensorkv._client_arguments import within
from tensorkv._types import NDArray, Out
from tensorkv.aio import KVStoreCoroutines
from tensorkv.client import Client
from tensorkv.compression import encoding_of
from tensorkv.errors import InvalidArgumentError, UnimplementedError
from tensorkv.optimizer import rule_of
from tensorkv.row_sparse import row_ids_of

# An expression, or what changes the stored array.
Updater = Union[str, Callable[[Key, Any, Any], None]]
KeyList = Union[List[Key], List[int], List[str], Tuple[Key, ...]]
_Self = TypeVar("_Self", bound="KVStore")


class KVStore:
    """Keys with arrays, to which pushed arrays are applied.

    Keys are ints or strs, of one kind in a store; a call takes one or a list.
    A value is one array, or a list of arrays, one per device, which are summed.
    Of a list of keys, the values are a list with one such value per key.
    Arrays are those that tensorkv.Client takes. Of calls through `aio` that
    wait for a thread, those with a higher `priority` go first.

    A push without optimizer or updater assigns: the value becomes the sum of
    what was pushed.

    Thread-safe. Errors: subclasses of tensorkv.Error, and TypeError for what is
    no key or array.
    """

    # Of its coroutines. An init may wait for that of another worker.
    _WAIT_FOR_NONE = ("push",)

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
    def aio(self) -> KVStoreCoroutines:
        """The methods as coroutines: `await kv.aio.pull("w")`."""
        return KVStoreCoroutines(
            self, self._client._threads, self._client._pushing_threads
        )

    @property
    def rank(self) -> int:
        """This worker's rank in its group."""
        return 0

    @property
    def num_workers(self) -> int:
        """How many workers the group has."""
        return 1

    def is_capable(self, capability: str) -> bool:
        """Whether the store can do that. Errors: InvalidArgumentError."""
        if capability.lower() != "optimizer":
            raise InvalidArgumentError(f"Unknown capability: {capability}")
        return True

    def resume(self, timeout: Optional[float] = None) -> int:
        """The step that this worker makes next, to be asked between two steps.

        It is 1 in a new group. A worker that has come back, and one whose
        server has gone back to a checkpoint, goes on from there with all keys;
        the latter's pushes count again from now on.

        Errors: NotFoundError, or FailedPreconditionError with the reason
        "NAMESPACE_REPLACED", where a server that was restarted has lost the
        namespace.
        """
        return 1

    def init(
        self, key: Keys, value: Any, timeout: Optional[float] = None
    ) -> None:
        """Creates keys with values.

        `timeout` is in seconds, in place of the store's; so for all verbs.

        Errors: AlreadyExistsError for a key that was initialised before.
        """
        raise NotImplementedError

    def _check_new(self, keys: List[str]) -> None:
        """Errors: AlreadyExistsError where `init` of them all would fail."""

    def _watch_read(self, what: str) -> ContextManager[None]:
        """Watches over a read that may wait for others: `what` it is."""
        return contextlib.nullcontext()

    def push(
        self,
        key: Keys,
        value: Any,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> None:
        """Applies values to those of the keys.

        A value may be a RowSparseArray, or all of a key's may be: then only
        the rows that they name change.

        In a group keys are pushed as one call, which counts as a whole, where
        all have had as many pushes, and are arrays or rows. Else there is a
        call for each step and kind, one after another: push keys together each
        time, or not at all.

        Errors: NotFoundError for a key without init; InvalidArgumentError
        where shape or dtype do not fit, or row ids are out of range.
        """
        raise NotImplementedError

    @overload
    def pull(
        self,
        key: Key,
        out: None = None,
        priority: int = 0,
        ignore_sparse: bool = True,
        timeout: Optional[float] = None,
    ) -> NDArray: ...
    @overload
    def pull(
        self,
        key: KeyList,
        out: None = None,
        priority: int = 0,
        ignore_sparse: bool = True,
        timeout: Optional[float] = None,
    ) -> List[NDArray]: ...
    @overload
    def pull(
        self,
        key: Keys,
        out: Out,
        priority: int = 0,
        ignore_sparse: bool = True,
        timeout: Optional[float] = None,
    ) -> Out: ...
    def pull(
        self,
        key: Keys,
        out: Any = None,
        priority: int = 0,
        ignore_sparse: bool = True,
        timeout: Optional[float] = None,
    ) -> Any:
        """Copies the values of keys to `out`, one array per key or a list.

        Returns `out`; without it, new arrays. Errors: NotFoundError;
        InvalidArgumentError where `out` has another dtype or shape.
        """
        with self._watch_read("pull"):
            keys = self._keys(key)
            if out is None:
                pulled = self._client.pull(keys, timeout=timeout)
                return pulled if isinstance(key, (list, tuple)) else pulled[0]
            keys, outs = by_key(keys, lists_of(key, out, "out"))
            self._client.pull(keys, out=outs, timeout=timeout)
            return out

    @overload
    def push_pull(
        self,
        key: Keys,
        value: Out,
        out: None = None,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Out: ...
    @overload
    def push_pull(
        self,
        key: Keys,
        value: Any,
        out: Out,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Out: ...
    def push_pull(
        self,
        key: Keys,
        value: Any,
        out: Any = None,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Any:
        """Push, then pull of the same keys, in place without `out`.

        What comes out is the updated value; without optimizer or updater that
        is the sum over devices and workers. Errors: those of both;
        UnimplementedError for rows.
        """
        raise NotImplementedError

    def broadcast(
        self,
        key: Keys,
        value: Any,
        out: Out,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Out:
        """init, then pull: everybody gets the value of rank 0."""
        with within(timeout):
            self.init(key, value)
            return self.pull(key, out)

    def row_sparse_pull(
        self,
        key: Keys,
        out: Out,
        priority: int = 0,
        row_ids: Any = None,
        timeout: Optional[float] = None,
    ) -> Out:
        """Copies rows of values to `out`, whose other rows become 0.

        Row ids may be of any rank and order, and repeat. Only these rows are
        read, each once. `client.pull_rows` reads them without an `out` of the
        whole shape.

        Args:
          out: arrays of the stored shape.
          row_ids: an integer array for each out, or one for all.

        Errors: those of `pull`; InvalidArgumentError for ids that are no
        integers, or out of range.
        """
        if row_ids is None:
            raise InvalidArgumentError("row_ids: expected row ids, got None")
        keys = self._keys(key)
        outs = lists_of(key, out, "out")
        pulls = pulls_of_rows(keys, outs, ids_like(outs, row_ids))
        with self._watch_read("pull of rows"):
            values = self._client.pull_rows(
                [pull.key for pull in pulls],
                [pull.rows for pull in pulls],
                timeout=timeout,
            )
        for pull, value in zip(pulls, values):
            pull.check(value)
        for pull, value in zip(pulls, values):
            pull.fill(value)
        return out

    def set_optimizer(
        self,
        optimizer: Any,
        *,
        timeout: Optional[float] = None,
        **hyperparameters: float,
    ) -> None:
        """Lets the store update values: push then takes gradients.

        The same optimizer again, with other hyperparameters, keeps its state.
        Pushed rows are updated alone, unless the optimizer is an object whose
        `lazy_update` is False.
        Call it after `init`: a run that is refused there has changed nothing.
        Arguments and errors are those of tensorkv.optimizer.rule_of; also
        InvalidArgumentError for a rule that the store does not have.
        """
        rule = rule_of(optimizer, **hyperparameters)
        self._client.set_rule(
            rule.name,
            keep_master=rule.keep_master,
            timeout=timeout,
            **rule.hyperparameters,
        )
        self._updates_all_rows = not getattr(optimizer, "lazy_update", True)

    def set_learning_rate(
        self, learning_rate: float, timeout: Optional[float] = None
    ) -> None:
        """Changes the optimizer's learning rate, and keeps its state."""
        self._client.set_hyperparameters(
            timeout=timeout, learning_rate=learning_rate
        )

    def set_updater(
        self, updater: Updater, timeout: Optional[float] = None
    ) -> None:
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
            self._client.set_rule(f"expression: {updater}", timeout=timeout)
            return
        if not callable(updater):
            raise InvalidArgumentError(
                "invalid updater: expected an expression or a callable"
            )
        raise UnimplementedError(
            f"set_updater of {self.type}: a server runs no Python; use an "
            "expression or set_optimizer"
        )

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

            All but "none" also take "ef", "vanilla" or, to forget what a push
            leaves out, None, which "fp16" and "bf16" do by default;
            "momentum", which is "nesterov", and its "mu", 0.9; and
            "min_bytes", 0, below which arrays are pushed as they are.

        Errors: InvalidArgumentError; UnimplementedError for a local store that
        is not of the type "device", as in MXNet, or has a function as updater.
        """
        encoding = encoding_of(compression_params)
        self._client.set_compression(*encoding)
        self._compresses = encoding.compression != "none"

    def save_optimizer_states(
        self,
        fname: Path,
        dump_optimizer: bool = False,
        timeout: Optional[float] = None,
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
        with within(timeout):
            keys = self._client.keys()
            for status in self._client.stat(keys) if keys else []:
                key = status.key
                for state in [*status.states, "update_count"]:
                    array = self._client.get_state(key, state)
                    tensors[f"{state}/{key}"] = array
        save_file(fname, tensors)

    def load_optimizer_states(
        self, fname: Path, timeout: Optional[float] = None
    ) -> None:
        """Sets what save_optimizer_states has written.

        The keys exist and have the optimizer that they had then; of a group one
        worker loads. Errors: NotFoundError for a key, or a state that its
        optimizer does not keep; InvalidArgumentError for what is no such file,
        or does not fit a key; OSError.
        """
        with within(timeout):
            for name, array in load_file(fname).items():
                state, _, key = name.partition("/")
                self._client.set_state(key, state, array)

    def barrier(self, timeout: Optional[float] = None) -> None:
        """Returns when all workers have come to it."""

    def close(self) -> None:
        """Ends the store, and the calls that are under way.

        A worker leaves its group, as done, unless it is closed while an
        exception is handled: then it is lost, and may come back.
        """
        self._end(is_lost=ends_by_exception())

    def leave(self) -> None:
        """Closes the store; a worker is done with all its steps."""
        self._end(is_lost=False)

    def _end(self, is_lost: bool) -> None:
        self._client._end(is_lost)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, _: Any, error: Any, __: Any) -> None:
        self._end(is_lost=ends_by_exception(error))

    def __repr__(self) -> str:
        closed = "closed " if self._client._store.is_closed else ""
        return (
            f"<{closed}tensorkv.KVStore {self.type} of {self._client.target}>"
        )

    def _keys(self, key: Keys) -> List[str]:
        """The names of the keys in the store."""
        keys: List[Any] = list(key) if isinstance(key, (list, tuple)) else [key]
        for each in keys:
            kind = kind_of(each)
            if self._key_kind is not None and self._key_kind is not kind:
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
        keys, values = by_key(self._keys(key), lists_of(key, value, "value"))
        if self._compresses:
            values = [sum_of(parts) for parts in values]
        return keys, values

    def _send(
        self,
        keys: List[str],
        values: List[List[Array]],
        has_rows: bool,
        step: int = 0,
    ) -> None:
        """Pushes arrays, or else RowSparseArrays."""
        sent, parts = flat(keys, values)
        if not has_rows:
            self._client.push(sent, parts, step)
            return
        ids = [row_ids_of(part.indices) for part in parts]
        data = [part.data for part in parts]
        self._client.push_rows(sent, ids, data, step, self._updates_all_rows)
