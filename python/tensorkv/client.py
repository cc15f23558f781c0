"""A client of one namespace of a server, or of a store in this process."""

from __future__ import annotations

import functools
import os
from typing import Any, Dict, List, Optional, Union

from tensorkv import _core
from tensorkv._arrays import all_to_core, name_of
from tensorkv._client_aio import ClientCoroutines
from tensorkv._client_arguments import (
    CoreCall,
    Keys,
    as_list,
    core_outs,
    step_of,
    weights_of,
)
from tensorkv.aio import Coroutines, StartedCalls, Threads

DEFAULT_ADDRESS = "127.0.0.1:7363"

Array = Any
Path = Union[str, "os.PathLike[str]"]


class Client:
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
    timeout. Nobody knows whether a call that was interrupted was made. Nobody
    writes its arrays any more; those of an init, or of a push of a client that
    has not joined, may be read until the connection has let go of what it was
    sending, as after any such call that fails: use other arrays then. A worker
    pushes the same step again, which counts once in the modes "sync" and
    "bounded", but may count twice in "async".

    Thread-safe. In a forked child every call raises ForkedError: make a client
    there. For one of a server, fork before the first client is made, or let
    multiprocessing use "spawn".

    Errors: subclasses of tensorkv.Error, and TypeError for what is no array.
    Every verb raises InvalidArgumentError, NotFoundError, UnavailableError
    where no server answers, and DeadlineExceededError after `timeout` seconds.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
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
          tls_ca: a PEM file with the authorities that may sign the server's
            certificate. With it connections are encrypted, else in plain text.
          tls_cert, tls_key: PEM files with the client's certificate and key.
          tls_server_name: the name in the server's certificate, if it is not
            that of the address.
          token_file: a file whose one line is a bearer token. It goes over TLS
            and Unix sockets alone.

        Errors: InvalidArgumentError for a file that cannot be read, or that
        makes no sense; where the server knows its callers, every verb raises
        UnauthenticatedError for one that it does not know, and
        PermissionDeniedError for what the policy does not grant.
        """
        files = (tls_ca, tls_cert, tls_key)
        self._store = _core.Store.connect(
            address,
            namespace,
            timeout,
            *map(os.fspath, files),
            tls_server_name,
            os.fspath(token_file),
        )
        self.address = address
        self.namespace = namespace or "default"

    @classmethod
    def embedded(cls, num_threads: int = 0) -> "Client":
        """A client of a store of its own in this process, without a server.

        It keeps copies of what is pushed, and gives copies. `num_threads` 0
        stands for one per core.
        """
        client = cls.__new__(cls)
        client._store = _core.Store.embed(num_threads)
        client.address = "local"
        client.namespace = "default"
        return client

    def close(self) -> None:
        """Ends the connection; a worker leaves its group. May be repeated."""
        try:
            self._store.close()
        finally:
            self._threads.close()
            self._pushing_threads.close()

    @property
    def aio(self) -> Coroutines:
        """The verbs as coroutines: `await client.aio.pull("w")`."""
        return ClientCoroutines(self, self._threads, self._pushing_threads)

    @functools.cached_property
    def _threads(self) -> Threads:
        return Threads()

    @functools.cached_property
    def _pushing_threads(self) -> Threads:
        return Threads()

    @functools.cached_property
    def _started(self) -> StartedCalls:
        return StartedCalls()

    def __repr__(self) -> str:
        return f"<tensorkv.Client of {self.namespace!r} at {self.address}>"

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    # --- Values -------------------------------------------------------------

    def init(
        self,
        key: Keys,
        value: Any,
        on_existing: str = "fail",
        state: str = "",
    ) -> None:
        """Creates keys with values.

        Args:
          on_existing: "fail" raises AlreadyExistsError; "keep" keeps what is
            stored if dtype and shape are the same, else raises
            FailedPreconditionError; "replace" takes the new value.
          state: sets that state of keys that exist instead, as `pull` names it.
        """
        keys, values = as_list(key, value, "value")
        arrays = all_to_core(values)
        self._store.init(keys, arrays, on_existing, state)

    def push(
        self,
        key: Keys,
        value: Any,
        step: int = 0,
        weight: Any = None,
        priority: int = 0,
    ) -> Any:
        """Contributes arrays of the stored shape.

        The dtype is the stored one; keys of a float dtype take any float dtype.
        Arrays of the same key in one call are summed first.

        Args:
          step: of a worker, counted from 1; required in namespaces of the mode
            sync or bounded.
          weight: for keys of the rule `average`, how much the arrays count in
            the mean, such as the number of samples: a number, or a list with
            one for each key.
          priority: of calls through `aio` that wait for their turn, those with
            a higher one go first. A call that is waited for has no queue.

        Returns:
          The version that the push made, or a list of them; 0 for a push that
          waits for its round. None for a worker that has joined, which pushes
          again by itself what is lost; it keeps a copy until the round is
          known to have closed.
        """
        return self._push_call(key, value, step, weight).make(self._store)

    def pull(
        self,
        key: Keys,
        out: Any = None,
        wait: bool = False,
        min_version: int = 0,
        state: str = "",
        dtype: Any = None,
        priority: int = 0,
    ) -> Any:
        """Reads values, all of one moment.

        Args:
          out: arrays of the stored shape, and dtype unless `dtype` is given, to
            be filled, one per key or a list of several. Values are received
            in the first of a key, and copied to its others. What a call that
            fails leaves in them is unspecified, unless they did not fit.
          wait: for keys that do not exist yet.
          min_version: waits until each key has that version.
          state: reads that state of each key's rule instead of the value, one
            of those that `stat` lists under "states", or "update_count".
          dtype: a float dtype, such as "float16" or "bf16", no wider than
            the stored one, that the server converts values of floats to before
            it sends them, rounded to nearest even. Not for states.
          priority: as in `push`.

        Returns:
          `out` or, without it, an array per key, which is the caller's.
        """
        return self._pull_call(key, out, wait, min_version, state, dtype).make(
            self._store
        )

    def push_pull(
        self,
        key: Keys,
        value: Any,
        out: Any = None,
        step: int = 0,
        weight: Any = None,
        priority: int = 0,
    ) -> Any:
        """Push, then pull of the same keys, in one round trip.

        In a namespace of the mode sync it returns when the rounds have closed:
        with the rule assign the sum over the workers. Arguments and result as
        those of `push` and `pull`.
        """
        return self._push_pull_call(key, value, out, step, weight).make(
            self._store
        )

    def push_rows(
        self,
        key: Keys,
        row_ids: Any,
        value: Any,
        step: int = 0,
        update_all_rows: bool = False,
        priority: int = 0,
    ) -> Any:
        """Contributes rows of keys of rank 1 or more, by their first index.

        Only the rows named are updated. A row that is named twice gets the sum.
        The cost does not grow with the number of rows that a key has. Of the
        compressions only casts and blocks are for rows, without what they have
        left out before; with others rows go as they are.

        Args:
          row_ids: int32 or int64 of shape [n], in any order.
          value: of shape [n, ...], a row for each id.
          step, priority: as in `push`.
          update_all_rows: gives those that are not named zeros, so that the
            rule's decays reach them too.

        Returns:
          As `push`. Errors: also InvalidArgumentError (ROW_OUT_OF_RANGE).
        """
        keys, values = as_list(key, value, "value")
        ids = all_to_core(as_list(key, row_ids, "row_ids")[1])
        versions = self._store.push_rows(
            keys, ids, all_to_core(values), step_of(step), update_all_rows
        )
        return self._answer(key, versions or [None] * len(keys))

    def pull_rows(self, key: Keys, row_ids: Any, priority: int = 0) -> Any:
        """Reads rows: arrays of shape [n, ...], in the order of the ids.

        Row ids and priority are as in `push_rows`, and so are errors. The rows
        of one key are of one moment, those of different keys perhaps of
        different ones.
        """
        keys, ids = as_list(key, row_ids, "row_ids")
        pulled = self._store.pull_rows(keys, all_to_core(ids))
        return self._answer(key, pulled)

    def set_compression(self, compression: str, min_bytes: int = 4096) -> None:
        """Says how pushes of floats are encoded on their way to the server.

        What an encoded push leaves out is added to the next push of its key,
        but for f16 and bf16, where ",feedback" asks for it.

        Args:
          compression: "2bit:0.5", "1bit:0.5", "sign", "topk:0.01",
            "randomk:0.01", "dithering:8", "i8:128", "f8e4m3fn:128",
            "f8e5m2:128", "f16", "bf16", "f8e4m3fn" or "f8e5m2", each perhaps
            with ",feedback", ",no-feedback", ",momentum=0.9" and, for
            dithering, ",natural" and ",l2"; or "none".
            client/compression/compression.h says what each does.
          min_bytes: smaller arrays are pushed as they are.

        What earlier pushes have left out is forgotten.
        """
        self._store.set_compression(compression, min_bytes)

    def broadcast(self, key: Keys, value: Any, out: Any = None) -> Any:
        """Creates keys unless they exist, then pulls: the first writer wins."""
        self.init(key, value, on_existing="keep")
        return self.pull(key, out)

    def delete(self, key: Keys, allow_missing: bool = False) -> int:
        """Removes keys; returns how many."""
        return self._store.delete(as_list(key, None, "")[0], allow_missing)

    def keys(self, prefix: str = "") -> List[str]:
        """The keys that begin with `prefix`, in byte order."""
        return [status["key"] for status in self._store.list(prefix)]

    def stat(self, key: Keys, with_digest: bool = False) -> Any:
        """Of each key a dict: dtype, shape, version, rule, states, ..."""
        keys = as_list(key, None, "")[0]
        return self._answer(key, self._store.stat(keys, with_digest))

    # --- Rules --------------------------------------------------------------

    def set_rule(
        self,
        rule: str,
        *,
        key_pattern: str = "",
        keep_master: bool = True,
        **hyperparameters: float,
    ) -> None:
        """Chooses what turns stored value and contribution into the new value.

        A key whose rule keeps its name keeps its state.

        Args:
          rule: a name of proto/tensorkv/v1/rule.proto, or a text such as
            "sgd(learning_rate=1, schedule=cosine(max_updates=1000))".
          key_pattern: a glob over keys; empty is the namespace's default.
          keep_master: whether keys of 16 and 8 bits keep an f32 copy.
          **hyperparameters: of the rule, such as learning_rate=0.01.
        """
        self._store.set_rule(rule, hyperparameters, keep_master, key_pattern)

    def set_multipliers(
        self,
        key_pattern: str,
        *,
        learning_rate: float = 1.0,
        weight_decay: float = 1.0,
    ) -> None:
        """Multiplies learning rate and weight decay of keys of a pattern."""
        self._store.set_multipliers(learning_rate, weight_decay, key_pattern)

    def set_hyperparameters(
        self, *, key_pattern: str = "", **hyperparameters: float
    ) -> None:
        """Changes some hyperparameters of a rule, and keeps its state."""
        self._store.set_hyperparameters(hyperparameters, key_pattern)

    # --- Namespaces and workers ---------------------------------------------

    def create_namespace(
        self,
        name: str,
        *,
        mode: str = "async",
        num_workers: int = 0,
        max_workers: int = 0,
        staleness: int = 0,
        on_worker_loss: str = "fail",
        rescale_partial_rounds: bool = False,
        quorum: int = 0,
        quorum_grace: float = 0.0,
        max_open_rounds: int = 0,
        aggregation: str = "sum",
        trim_fraction: float = 0.0,
        mirrored: bool = False,
        on_non_finite: str = "apply",
        max_norm: float = 0.0,
        max_call_norm: float = 0.0,
        on_large_norm: str = "clip",
        budget_bytes: int = 0,
    ) -> bool:
        """Creates a namespace of the server; False if the name is taken.

        proto/tensorkv/v1/namespace.proto says what they mean: NamespaceConfig
        has all of them, and GradientGuard those that say what happens to
        pushes with Inf or NaN and to large ones. `describe_namespace` gives
        them back. Its rule is what `set_rule` sets.

        Args:
          mode: "async", "sync" or "bounded".
          on_worker_loss: "fail" or "continue".
          quorum_grace: in seconds.
          aggregation: "sum", "median" or "trimmed_mean".
          on_non_finite: "apply", "count", "skip" or "refuse".
          on_large_norm: "clip" or "refuse".
        """
        config = _core.NamespaceConfig(
            mode=mode,
            num_workers=num_workers,
            max_workers=max_workers,
            staleness=staleness,
            on_worker_loss=on_worker_loss,
            rescale_partial_rounds=rescale_partial_rounds,
            quorum=quorum,
            quorum_grace=quorum_grace,
            max_open_rounds=max_open_rounds,
            aggregation=aggregation,
            trim_fraction=trim_fraction,
            mirrored=mirrored,
            on_non_finite=on_non_finite,
            max_norm=max_norm,
            max_call_norm=max_call_norm,
            on_large_norm=on_large_norm,
            budget_bytes=budget_bytes,
        )
        return self._store.create_namespace(name, config)

    def describe_namespace(self, name: Optional[str] = None) -> Dict[str, Any]:
        """What the namespace is, and who works there."""
        return self._store.describe_namespace(name or self.namespace)

    def delete_namespace(self, name: str) -> None:
        """Removes a namespace with all its keys."""
        self._store.delete_namespace(name)

    def join(
        self,
        name: str,
        *,
        lease: float = 10.0,
        takeover_timeout: float = 60.0,
        step_timeout: float = 600.0,
    ) -> int:
        """Becomes a worker of the namespace; returns its rank.

        From then on the lease is renewed, and verbs recover by themselves from
        lost workers and broken connections, for at most `step_timeout` seconds.
        To be called before other threads use the client.

        Once the server was restarted from a checkpoint, pushes do not count
        until `next_step` is read, which tells the step to go back to: those of
        steps that were pushed before are dropped, and others (in "async" also
        those without a step) raise an error whose `reason` is
        "SERVER_RESTARTED".

        Args:
          name: unique among the workers, and the same for a worker that comes
            back, which goes on from `next_step`.
          lease: seconds without a sign of life until the worker counts as lost.
          takeover_timeout: how many seconds to wait for the lease of a worker
            of that name to end.
        """
        self._store.join(name, lease, takeover_timeout, step_timeout)
        return self._store.rank

    @property
    def rank(self) -> int:
        """The worker's rank; 0 for who is none."""
        return self._store.rank

    @property
    def next_step(self) -> int:
        """The step that the worker pushes next."""
        return self._store.next_step

    def barrier(self, name: str = "barrier") -> None:
        """Returns when all workers of the group have come to it."""
        self._store.barrier(name)

    # What the verbs of these names are for the extension. ClientCoroutines has
    # them too, without the priority, which its queue takes.

    def _push_call(
        self, key: Keys, value: Any, step: int, weight: Any
    ) -> CoreCall:
        keys, values = as_list(key, value, "value")
        weights = weights_of(weight, len(keys))
        return CoreCall(
            "push",
            (keys, all_to_core(values), step_of(step), weights),
            lambda versions: self._answer(key, versions or [None] * len(keys)),
        )

    def _pull_call(
        self,
        key: Keys,
        out: Any,
        wait: bool,
        min_version: int,
        state: str,
        dtype: Any,
    ) -> CoreCall:
        keys = as_list(key, None, "")[0]
        outs = core_outs(key, out)
        as_dtype = "" if dtype is None else name_of(dtype)
        return CoreCall(
            "pull",
            (keys, outs, wait, min_version, state, as_dtype),
            lambda pulled: self._answer(key, pulled) if out is None else out,
        )

    def _push_pull_call(
        self, key: Keys, value: Any, out: Any, step: int, weight: Any
    ) -> CoreCall:
        keys, values = as_list(key, value, "value")
        values, outs = all_to_core(values), core_outs(key, out)
        weights = weights_of(weight, len(keys))
        return CoreCall(
            "push_pull",
            (keys, values, outs, step_of(step), weights),
            lambda pulled: self._answer(key, pulled) if out is None else out,
        )

    @staticmethod
    def _answer(key: Keys, answers: List[Any]) -> Any:
        return answers[0] if isinstance(key, str) else answers


# What help and inspect say of these is what they say of the verbs.
for _name in ("push", "pull", "push_pull"):
    functools.update_wrapper(
        getattr(ClientCoroutines, _name), getattr(Client, _name)
    )
