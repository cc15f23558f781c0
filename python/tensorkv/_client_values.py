"""The verbs of a Client that are about values."""

from __future__ import annotations

from typing import (
    Any,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
    cast,
    overload,
)

from tensorkv import _core
from tensorkv._arrays import all_to_core, name_of
from tensorkv._client_arguments import (
    Array,
    KeyList,
    Keys,
    answer,
    as_list,
    at_fields,
    core_outs,
    publish_fields,
    step_of,
    weights_of,
    within,
)
from tensorkv._types import (
    At,
    KeyStatus,
    NDArray,
    OnExisting,
    Out,
    PublishAs,
    Snapshot,
    key_status,
)


class ValueVerbs:
    """What tensorkv.Client adds a connection to."""

    _store: _core.Store
    _compression: Optional[Tuple[str, int]]

    @overload
    def init(
        self,
        key: str,
        value: Array,
        on_existing: OnExisting = "fail",
        timeout: Optional[float] = None,
    ) -> int: ...
    @overload
    def init(
        self,
        key: KeyList,
        value: Sequence[Array],
        on_existing: OnExisting = "fail",
        timeout: Optional[float] = None,
    ) -> List[int]: ...
    @overload
    def init(
        self,
        key: Keys,
        value: Any,
        on_existing: OnExisting = "fail",
        timeout: Optional[float] = None,
        *,
        publish_as: PublishAs,
    ) -> Snapshot: ...
    def init(
        self,
        key: Keys,
        value: Any,
        on_existing: OnExisting = "fail",
        timeout: Optional[float] = None,
        *,
        publish_as: Optional[PublishAs] = None,
    ) -> Any:
        """Creates keys with values.

        Args:
          on_existing: "fail" raises AlreadyExistsError; "keep" keeps what is
            stored if dtype and shape are the same, else raises
            FailedPreconditionError; "replace" takes the new value.
          timeout: seconds, in place of the client's; so for every verb.
          publish_as: takes a snapshot that has all of the call, whole.

        Returns:
          The version of the key, or a list of them. A key of a name that was
          deleted before begins above the versions that it had then, not at 1.
          With `publish_as` the Snapshot; errors are also those of
          `create_snapshot` then, and nothing was changed.
        """
        keys, values = as_list(key, value, "value")
        arrays, wanted = all_to_core(values), publish_fields(publish_as)
        with within(timeout):
            made = self._store.init(keys, arrays, on_existing, wanted)
        if publish_as is not None:
            return Snapshot(publish_as.series, **made)
        return answer(key, made)

    @overload
    def push(
        self,
        key: str,
        value: Array,
        step: int = 0,
        weight: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> Optional[int]: ...
    @overload
    def push(
        self,
        key: KeyList,
        value: Sequence[Array],
        step: int = 0,
        weight: Union[None, float, Sequence[float]] = None,
        timeout: Optional[float] = None,
    ) -> List[Optional[int]]: ...
    @overload
    def push(
        self,
        key: Keys,
        value: Any,
        step: int = 0,
        weight: Union[None, float, Sequence[float]] = None,
        timeout: Optional[float] = None,
        *,
        publish_as: PublishAs,
    ) -> Snapshot: ...
    def push(
        self,
        key: Keys,
        value: Any,
        step: int = 0,
        weight: Any = None,
        timeout: Optional[float] = None,
        *,
        publish_as: Optional[PublishAs] = None,
    ) -> Any:
        """Contributes arrays of the stored shape.

        The dtype is the stored one; keys of a float dtype take any float dtype.
        Arrays of the same key in one call are summed first, and have one
        weight.

        Args:
          step: of a worker, counted from 1; required in namespaces of the mode
            sync or bounded.
          weight: in a namespace whose aggregation is "mean", what the arrays
            weigh, such as the number of samples: a number, or a list with one
            for each key. 0 contributes nothing, whatever the array holds.
          publish_as: as in `init`, in the modes async and bounded; for clients
            that have not joined.

        Returns:
          The version that the push made, or a list of them; 0 for a push that
          waits for its round. None for a worker that has joined, which pushes
          again by itself what is lost; it keeps a copy until the round is
          known to have closed. With `publish_as` the Snapshot.
        """
        keys, values = as_list(key, value, "value")
        arrays, weights = all_to_core(values), weights_of(weight, len(keys))
        wanted = publish_fields(publish_as)
        with within(timeout):
            made = self._store.push(
                keys, arrays, step_of(step), weights, wanted
            )
        if publish_as is not None:
            return Snapshot(publish_as.series, **made)
        return answer(key, made or [None] * len(keys))

    @overload
    def pull(
        self,
        key: str,
        out: None = None,
        wait: bool = False,
        min_version: int = 0,
        dtype: Any = None,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> NDArray: ...
    @overload
    def pull(
        self,
        key: KeyList,
        out: None = None,
        wait: bool = False,
        min_version: int = 0,
        dtype: Any = None,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> List[NDArray]: ...
    @overload
    def pull(
        self,
        key: Keys,
        out: Out,
        wait: bool = False,
        min_version: int = 0,
        dtype: Any = None,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> Out: ...
    def pull(
        self,
        key: Keys,
        out: Any = None,
        wait: bool = False,
        min_version: int = 0,
        dtype: Any = None,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> Any:
        """Reads values, all of one moment.

        Args:
          out: arrays of the stored shape, and dtype unless `dtype` is given, to
            be filled, one per key or a list of several. Values are received
            in the first of a key, and copied to its others. What a call that
            fails leaves in them is unspecified, unless they did not fit.
          wait: for keys that do not exist yet.
          min_version: waits until each key has that version: one that `push`,
            `init` or `stat` told, and not a count of pushes.
          dtype: a float dtype, such as "float16" or "bf16", no wider than
            the stored one, that the server converts values of floats to before
            it sends them, rounded to nearest even.
          at: the values of a snapshot, whatever the keys are by now; waits for
            the snapshot alone, without `wait` and `min_version`.

        Returns:
          `out` or, without it, an array per key, which is the caller's.
        """
        keys = as_list(key, None, "")[0]
        outs = core_outs(key, out)
        as_dtype = "" if dtype is None else name_of(dtype)
        with within(timeout):
            pulled = self._store.pull(
                keys, outs, wait, min_version, as_dtype, at_fields(at)
            )
        return answer(key, pulled) if out is None else out

    @overload
    def push_pull(
        self,
        key: str,
        value: Array,
        out: None = None,
        step: int = 0,
        weight: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> NDArray: ...
    @overload
    def push_pull(
        self,
        key: KeyList,
        value: Sequence[Array],
        out: None = None,
        step: int = 0,
        weight: Union[None, float, Sequence[float]] = None,
        timeout: Optional[float] = None,
    ) -> List[NDArray]: ...
    @overload
    def push_pull(
        self,
        key: Keys,
        value: Any,
        out: Out,
        step: int = 0,
        weight: Union[None, float, Sequence[float]] = None,
        timeout: Optional[float] = None,
    ) -> Out: ...
    def push_pull(
        self,
        key: Keys,
        value: Any,
        out: Any = None,
        step: int = 0,
        weight: Any = None,
        timeout: Optional[float] = None,
    ) -> Any:
        """Push, then pull of the same keys, in one round trip.

        In a namespace of the mode sync it returns when the rounds have closed:
        with the rule assign the sum over the workers. Arguments and result as
        those of `push` and `pull`.
        """
        keys, values = as_list(key, value, "value")
        arrays, outs = all_to_core(values), core_outs(key, out)
        weights = weights_of(weight, len(keys))
        with within(timeout):
            pulled = self._store.push_pull(
                keys, arrays, outs, step_of(step), weights
            )
        return answer(key, pulled) if out is None else out

    @overload
    def set_state(
        self,
        key: str,
        state: str,
        value: Array,
        timeout: Optional[float] = None,
    ) -> int: ...
    @overload
    def set_state(
        self,
        key: KeyList,
        state: str,
        value: Sequence[Array],
        timeout: Optional[float] = None,
    ) -> List[int]: ...
    def set_state(
        self,
        key: Keys,
        state: str,
        value: Any,
        timeout: Optional[float] = None,
    ) -> Any:
        """Sets a state of keys that exist, between two updates of each.

        Args:
          state: one of the `states` that `stat` tells, such as "momentum", or
            "update_count".

        Returns:
          The version of the key, which stays, or a list of them.
        """
        keys, values = as_list(key, value, "value")
        arrays = all_to_core(values)
        with within(timeout):
            versions = self._store.set_state(keys, state, arrays)
        return answer(key, versions)

    @overload
    def get_state(
        self,
        key: str,
        state: str,
        out: None = None,
        timeout: Optional[float] = None,
    ) -> NDArray: ...
    @overload
    def get_state(
        self,
        key: KeyList,
        state: str,
        out: None = None,
        timeout: Optional[float] = None,
    ) -> List[NDArray]: ...
    @overload
    def get_state(
        self,
        key: Keys,
        state: str,
        out: Out,
        timeout: Optional[float] = None,
    ) -> Out: ...
    def get_state(
        self,
        key: Keys,
        state: str,
        out: Any = None,
        timeout: Optional[float] = None,
    ) -> Any:
        """Reads a state of keys, as `set_state` names it.

        The states of different keys are perhaps of different moments. `out`
        and the result are as in `pull`.
        """
        keys = as_list(key, None, "")[0]
        outs = core_outs(key, out)
        with within(timeout):
            states = self._store.get_state(keys, state, outs)
        return answer(key, states) if out is None else out

    def set_compression(self, compression: str, min_bytes: int = 4096) -> None:
        """Says how pushes of floats are encoded on their way to the server.

        What an encoded push leaves out is added to the next push of its key,
        but for f16 and bf16, where ",feedback" asks for it.

        Args:
          compression: one of these, or "none":

            "2bit:T", "1bit:T": two or one bit per element: those of at least
              T, such as 0.5, become T, and those of at most -T become -T.
            "sign": one bit, times the mean magnitude.
            "topk:F", "randomk:F": a fraction F of the elements, such as 0.01:
              the largest, or random ones.
            "dithering:B": B bits per element, such as 8, rounded at random.
            "i8:N", "f8e4m3fn:N", "f8e5m2:N": 8 bits per element, and a scale
              for every N of them, such as 128.
            "f16", "bf16", "f8e4m3fn", "f8e5m2": a cast.

            Each perhaps with ",feedback", ",no-feedback", ",momentum=0.9" and,
            for dithering, ",natural" and ",l2".
          min_bytes: smaller arrays are pushed as they are.

        What earlier pushes have left out is forgotten.
        """
        self._store.set_compression(compression, min_bytes)
        self._compression = compression, min_bytes

    def broadcast(
        self,
        key: Keys,
        value: Any,
        out: Any = None,
        timeout: Optional[float] = None,
    ) -> Any:
        """Creates keys unless they exist, then pulls: the first writer wins."""
        with within(timeout):
            self.init(cast(Any, key), value, on_existing="keep")
            return self.pull(key, out)

    def delete(
        self,
        key: Keys,
        allow_missing: bool = False,
        timeout: Optional[float] = None,
    ) -> int:
        """Removes keys; returns how many."""
        keys = as_list(key, None, "")[0]
        with within(timeout):
            return self._store.delete(keys, allow_missing)

    def keys(
        self,
        prefix: str = "",
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> List[str]:
        """The keys that begin with `prefix`, in byte order.

        With `at` those that a snapshot has, for which this does not wait.
        """
        with within(timeout):
            statuses = self._store.list(prefix, at_fields(at))
        return [status["key"] for status in statuses]

    @overload
    def stat(
        self,
        key: str,
        compute_digests: bool = False,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> KeyStatus: ...
    @overload
    def stat(
        self,
        key: KeyList,
        compute_digests: bool = False,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> List[KeyStatus]: ...
    def stat(
        self,
        key: Keys,
        compute_digests: bool = False,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> Any:
        """What each key is: its dtype, its shape, its version and so on.

        With `at` as a snapshot has it, for which this waits as `pull` does.
        """
        keys = as_list(key, None, "")[0]
        with within(timeout):
            found = self._store.stat(keys, compute_digests, at_fields(at))
        return answer(key, [key_status(each) for each in found])
