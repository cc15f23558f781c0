"""Weights that one process publishes and others read."""

from __future__ import annotations

import contextlib
import json
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
    TypeVar,
)

import torch

from tensorkv import _core
from tensorkv._client_arguments import within
from tensorkv._types import At, PublishAs, Snapshot, SnapshotStatus
from tensorkv.aio import ReaderCoroutines
from tensorkv.client import Client
from tensorkv.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    OlderSnapshotError,
    PermissionDeniedError,
    SnapshotLostError,
    SnapshotNotFoundError,
)
from tensorkv.torch._tensors import (
    State,
    Store,
    client_of,
    dtype_of,
    from_pulled,
    name_of,
    on_host,
    size_of,
    state_of,
)

_Result = TypeVar("_Result")

# A tensor's name leads to its dtype, by the store's name, and its shape.
_Entries = Dict[str, Tuple[str, Tuple[int, ...]]]


class _FollowedServer:
    """A client that goes on with a server which was restarted.

    It has a connection of its own from then on: what else the client does is
    refused as before, since it may not know that there is another state.
    """

    def __init__(self, client: Client):
        self.client = client

    def call(self, call: Callable[[Client], _Result]) -> _Result:
        try:
            return call(self.client)
        except FailedPreconditionError as error:
            if error.reason != "SERVER_RESTARTED":
                raise
        self.client = self.client._again()
        return call(self.client)


class Publisher:
    """Publishes states as snapshots of a series, each with a number.

    The keys SERIES/TENSOR have the tensors. One call writes them and takes the
    snapshot, so that readers get whole states. Works in a namespace of any
    mode, beside other keys, but those below SERIES/ are its own, and have the
    rule `assign`. A series has one publisher at a time, and states go through
    calls of one thread; or it has one in each of several processes, which
    publish the parts of each state that they have.

    A publisher goes on with a server that was restarted, whatever that has: its
    numbers go on, too.

    With `deltas` it keeps what it has published last, in memory of the host,
    and sends only what has changed since, where that takes fewer bytes; the
    first two states, and what the server does not have any more, go whole.
    """

    def __init__(
        self,
        store: Store,
        series: str = "published",
        keep_last: Optional[int] = 1,
        deltas: bool = False,
        part: Optional[Tuple[int, int]] = None,
    ):
        """`store` is a tensorkv.Client, or what tensorkv.create makes.

        Args:
          series: readers know it.
          keep_last: how many states stay readable, 0: all; None leaves the
            series as it is, which is all at first. One that stays takes memory for what
            has changed since.
          deltas: sends what has changed: in a namespace of the mode "async"
            without gradient guard, by a client that has not joined.
          part: (index, count) where so many publishers, such as the ranks of a
            trainer, publish each state together: readers find it once all have
            published their parts of it. Each has names that no other has, all
            give the same `number` and dtypes, and none waits for another. Keys
            of tensors that no state has any more stay until `clear`, after
            which all ranks make new publishers. What waits for parts may go
            where too much is retained: `parts_missing` says how many were yet
            to come when this one had. For one server, not for a cluster of
            several.
        """
        self._server = _FollowedServer(client_of(store))
        self._series = series
        self._keep_last = keep_last
        self._part = part
        self.parts_missing = 0
        # The client by which the last state was published, its number, and its
        # keys; None where nobody knows what the last call has done.
        self._client: Optional[Client] = None
        self._number = 0
        self._keys: Optional[Set[str]] = None
        # What sends the changes, and what it sent last; or nothing.
        self._changes = _core.ChangeWriter() if deltas else None
        self._shapes: Optional[Dict[str, Tuple[torch.dtype, torch.Size]]] = None
        self._bytes_initialized = 0

    @property
    def bytes_sent(self) -> int:
        """How many bytes of values and of changes were published so far."""
        changed = self._changes.bytes if self._changes else 0
        return self._bytes_initialized + changed

    def __repr__(self) -> str:
        return f"<tensorkv.torch.Publisher of {self._series!r}>"

    def publish(
        self,
        state: State,
        number: Optional[int] = None,
        *,
        dtype: Optional[torch.dtype] = None,
        as_dtype: Optional[torch.dtype] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        timeout: Optional[float] = None,
    ) -> int:
        """Makes `state` what readers get from now on.

        Args:
          state: a module, or a mapping of names to tensors, on any device.
            Nested ones, as state_dict() of an optimizer has, are not taken.
          number: such as the step, above those before; without it one above
            the latest. A part needs one.
          dtype: of floats as they are stored, unless they are narrower;
            without it their own. They are converted here, in memory of their
            own.
          as_dtype: of floats as readers get them, unless they are narrower. The
            server converts them, and keeps them as they are stored.
          metadata: what readers find as `Reader.metadata`, such as the loss:
            at most 64 values that JSON can say, in 4096 bytes.
          timeout: seconds for all of it, in place of the client's.

        Returns:
          The number.

        Errors: TypeError for what is no tensor, or of a dtype that the store
        does not have, and for metadata that are no JSON;
        FailedPreconditionError where other keys have names below SERIES/, and,
        of a part, where the number has passed; InvalidArgumentError where
        another part has a tensor of that name;
        those of tensorkv.Client.init and create_snapshot. What a call that
        failed may have left, the next one replaces.
        """
        tensors = {
            f"{self._series}/{key}": on_host(_narrowed(tensor, dtype))
            for key, tensor in state_of(state).items()
        }
        for tensor in tensors.values():
            name_of(tensor.dtype)
        texts = {k: _text_of(value) for k, value in (metadata or {}).items()}
        with within(timeout):
            published = self._server.call(
                lambda client: self._publish(
                    client, tensors, number, texts, as_dtype
                )
            )
        return published.number

    def clear(self, timeout: Optional[float] = None) -> None:
        """Takes back what is published: readers wait for the next state."""

        def clear(client: Client) -> None:
            self._keys = None
            keys = self._take_over(client)
            with contextlib.suppress(SnapshotNotFoundError):
                client.delete_snapshot(self._series)
            if keys:
                client.delete(sorted(keys), allow_missing=True)
            client.unset_rule(_pattern(self._series))

        with within(timeout):
            self._server.call(clear)

    def _publish(
        self,
        client: Client,
        tensors: Dict[str, torch.Tensor],
        number: Optional[int],
        metadata: Dict[str, str],
        as_dtype: Optional[torch.dtype],
    ) -> Snapshot:
        keys, self._keys = self._keys, None
        if keys is None or client is not self._client:
            keys = self._take_over(client)
        is_again = self._client not in (None, client)
        if number is None and is_again and self._part is None:
            # The server was restarted, and may not know the numbers.
            self._number += 1
            number = self._number
        gone = keys.difference(tensors)
        # Those of other parts are not known here.
        if gone and self._part is None:
            client.delete(sorted(gone), allow_missing=True)
        publish_as = PublishAs(
            series=self._series,
            number=number,
            prefixes=() if self._part else (f"{self._series}/",),
            metadata=metadata,
            keep_last=self._keep_last,
            dtype=None if as_dtype is None else name_of(as_dtype),
            part=self._part,
        )
        is_same_client = client is self._client
        snapshot = self._write(client, tensors, publish_as, is_same_client)
        self._client, self._keys = client, set(tensors)
        self._number = snapshot.number
        self.parts_missing = snapshot.parts_missing
        return snapshot

    def _write(
        self,
        client: Client,
        tensors: Dict[str, torch.Tensor],
        publish_as: PublishAs,
        has_written: bool,
    ) -> Snapshot:
        """Sends the changes where keys have such tensors, else the tensors."""
        keys, values = list(tensors), list(tensors.values())
        shapes = {k: (each.dtype, each.shape) for k, each in tensors.items()}
        last, self._shapes = self._shapes, None
        snapshot = None
        if self._changes and has_written and shapes == last:
            # Who cannot change the keys so, replaces them.
            with contextlib.suppress(AbortedError, InvalidArgumentError):
                snapshot = client._push_changes(
                    keys, values, publish_as, self._changes
                )
        if snapshot is None:
            snapshot = client.init(
                keys, values, on_existing="replace", publish_as=publish_as
            )
            self._bytes_initialized += sum(
                each.numel() * each.element_size() for each in values
            )
            if self._changes:
                self._changes.clear()
        self._shapes = shapes
        return snapshot

    def _take_over(self, client: Client) -> Set[str]:
        """The keys that a publisher of the series has left.

        Errors: FailedPreconditionError where they are others.
        """
        keys = client.keys(f"{self._series}/")
        # One that has published knows its keys: a server of a cluster may have
        # lost their rule.
        is_new = self._number == 0
        if keys and is_new and not has_publisher(client, self._series):
            raise FailedPreconditionError(
                f"{self._series}/: expected the keys of a Publisher alone, got "
                f"{keys[0]!r}; publish another series"
            )
        if self._changes and client.describe_namespace().mode != "async":
            raise InvalidArgumentError(
                "deltas: expected a namespace of the mode async"
            )
        client.set_rule("assign", key_pattern=_pattern(self._series))
        return set(keys)


class Reader:
    """Reads what a Publisher of that series publishes, or create_snapshot.

    Tensors are named by their keys, of a snapshot with one prefix without that.
    A state that is read is one that was published, never a mix of two. Not
    thread-safe.

    A reader goes on with a server that was restarted, but gets no state by it
    that is older than the one that was fetched last, unless it asks for that
    number.

    It keeps what it has fetched last, in memory of the host, and has the server
    send only what has changed since. The server knows that as long as it has
    the former state: of a Publisher with `keep_last` 2 or more.
    """

    def __init__(
        self, store: Store, series: str = "published", keep: bool = True
    ):
        """`store` is as Publisher has it.

        Without `keep` a reader keeps nothing, and all of a state is sent.
        """
        self._server = _FollowedServer(client_of(store))
        self._series = series
        # Of values as they are stored, and of those that the server converts.
        self._changes = tuple(
            _core.ChangeReader() if keep else None for _ in range(2)
        )
        self._fetched: Optional[SnapshotStatus] = None
        # The client that has fetched it.
        self._client: Optional[Client] = None

    def __repr__(self) -> str:
        return (
            f"<tensorkv.torch.Reader of {self._series!r}, number {self.number}>"
        )

    @property
    def number(self) -> int:
        """The number of the state that was fetched last; 0 before."""
        return self._fetched.number if self._fetched else 0

    @property
    def metadata(self) -> Dict[str, Any]:
        """What was published with the state that was fetched last."""
        texts = self._fetched.metadata if self._fetched else {}
        return {name: _value_of(text) for name, text in texts.items()}

    @property
    def bytes_read(self) -> int:
        """How many bytes of values have come so far, if it keeps them."""
        return sum(each.bytes for each in self._changes if each)

    @property
    def aio(self) -> ReaderCoroutines:
        """`wait` and `fetch` as coroutines: `await reader.aio.fetch()`."""
        client = self._server.client
        return ReaderCoroutines(self, client._threads, client._pushing_threads)

    def wait(
        self, number: Optional[int] = None, timeout: Optional[float] = None
    ) -> int:
        """Returns when the latest number is at least `number`.

        Without `number`, when there is a state later than the one that was
        fetched. Returns what the latest is. `timeout` is in seconds; without
        it, that of the client. Errors: DeadlineExceededError;
        OlderSnapshotError, as of `fetch`.
        """
        least = self.number + 1 if number is None else number
        with within(timeout):
            return self._server.call(
                lambda client: self._await(client, least).number
            )

    def fetch(
        self,
        into: Optional[State] = None,
        dtype: Optional[torch.dtype] = None,
        timeout: Optional[float] = None,
        *,
        number: Optional[int] = None,
        at_least: Optional[int] = None,
    ) -> Dict[str, torch.Tensor]:
        """Reads the latest state; waits for the first one.

        Args:
          into: a module, or a mapping of names to tensors, which are filled in
            place, whatever their dtype and device; published tensors that it
            does not have are not read.
          dtype: of the floats, without `into`; else as they are published.
          timeout: seconds for all of it, in place of the client's.
          number: reads exactly that state, which is there.
          at_least: waits until the latest has that number.

        Floats that are wanted narrower than they are published are converted
        by the server, before they are sent, unless they are wanted in several
        such dtypes.

        Returns:
          The tensors by name: those of `into`, or new ones.

        Errors: InvalidArgumentError where a tensor of `into` is not published,
        or has another shape; SnapshotNotFoundError and SnapshotLostError for a
        `number` that is not there, or no more, the latter also for a latest
        one that was let go; OlderSnapshotError where the
        latest state is older than the last that was fetched;
        DeadlineExceededError. The tensors of `into` are as they were then.
        """
        targets = None if into is None else state_of(into)
        at = At(self._series, number, at_least)

        def read(
            client: Client,
        ) -> Tuple[Client, SnapshotStatus, Dict[str, torch.Tensor]]:
            return client, *self._read(client, at, targets, dtype)

        with within(timeout):
            client, status, tensors = self._server.call(read)
        self._client, self._fetched = client, status
        if targets is None:
            return tensors
        with torch.no_grad():
            for name, tensor in tensors.items():
                targets[name].copy_(tensor)
        return targets

    def _read(
        self,
        client: Client,
        at: At,
        targets: Optional[Dict[str, torch.Tensor]],
        dtype: Optional[torch.dtype],
    ) -> Tuple[SnapshotStatus, Dict[str, torch.Tensor]]:
        if at.number is not None:
            status = client.describe_snapshot(self._series, at.number)
            return status, self._pull(client, status, targets, dtype)
        least = 1 if at.at_least is None else at.at_least
        status = self._await(client, least)
        try:
            return status, self._pull(client, status, targets, dtype)
        except SnapshotLostError:
            # States come faster than they are read.
            pass
        try:
            leased = client.lease_snapshot(self._series, at_least=least)
        except PermissionDeniedError:
            # Who may not lease tries once more.
            status = self._await(client, least)
            return status, self._pull(client, status, targets, dtype)
        with leased:
            status = client.describe_snapshot(self._series, leased.at.number)
            return status, self._pull(client, status, targets, dtype)

    def _pull(
        self,
        client: Client,
        status: SnapshotStatus,
        targets: Optional[Dict[str, torch.Tensor]],
        dtype: Optional[torch.dtype],
    ) -> Dict[str, torch.Tensor]:
        """Reads the wanted tensors of a snapshot."""
        prefix = status.prefixes[0] if len(status.prefixes) == 1 else ""
        entries = client._entries(prefix, status.at)
        if status.num_parts > 0:
            prefix, entries = _less_prefix(f"{self._series}/", entries)
        wanted = _wanted(entries, targets, dtype)
        # What the snapshot converts, the server converts no further.
        narrower, as_dtype = (
            (set(), "") if status.dtype else _converted(wanted, entries)
        )
        others = [name for name in wanted if name not in narrower]
        groups = ((others, ""), (list(narrower), as_dtype))
        pulled: Dict[str, Any] = {}
        for (names, to), changes in zip(groups, self._changes):
            if names:
                keys = [f"{prefix}{name}" for name in names]
                values = client._pull_memory(keys, to, status.at, changes)
                pulled.update(zip(names, values))
            elif changes:
                changes.clear()
        # What is kept must not be written by the caller.
        is_copied = targets is None and self._changes[0] is not None
        return {
            name: from_pulled(pulled[name], entries[name][1]).to(
                dtype, copy=is_copied
            )
            for name, dtype in wanted.items()
        }

    def _await(self, client: Client, least: int) -> SnapshotStatus:
        """Waits until the latest snapshot has at least that number.

        Errors: OlderSnapshotError for one that is older than the last.
        """
        if self._fetched and client is not self._client:
            # Another server may never come to that number.
            with contextlib.suppress(SnapshotNotFoundError, SnapshotLostError):
                self._check_goes_on(client.describe_snapshot(self._series))
        status = client.describe_snapshot(self._series, at_least=least)
        self._check_goes_on(status)
        return status

    def _check_goes_on(self, latest: SnapshotStatus) -> None:
        if latest.number < self.number:
            raise OlderSnapshotError(
                f"series {self._series!r}: the latest number is "
                f"{latest.number}, after {self.number} was read: the server "
                "was restarted, or the later ones were deleted; "
                f"fetch(number={latest.number}) reads it all the same",
                metadata={
                    "series": self._series,
                    "number": str(self.number),
                    "latest": str(latest.number),
                },
            )


def _less_prefix(prefix: str, entries: _Entries) -> Tuple[str, _Entries]:
    """The prefix, and the entries without it, if all have it."""
    if not all(name.startswith(prefix) for name in entries):
        return "", entries
    return prefix, {name[len(prefix) :]: e for name, e in entries.items()}


def has_publisher(client: Client, series: str) -> bool:
    """Whether a Publisher has set the rule of its keys."""
    rules = client.describe_namespace().rules
    return rules.get(_pattern(series)) == "assign"


def _pattern(series: str) -> str:
    return f"{series}/*"


def _text_of(value: Any) -> str:
    """A value as a text of metadata: JSON, but a str as it is where it can be.

    Errors: TypeError.
    """
    if isinstance(value, str) and _value_of(value) is value:
        return value
    return json.dumps(value)


def _value_of(text: str) -> Any:
    """The value of such a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_narrower(dtype: torch.dtype, other: torch.dtype) -> bool:
    return (
        dtype.is_floating_point
        and other.is_floating_point
        and size_of(dtype) < size_of(other)
    )


def _converted(
    wanted: Dict[str, torch.dtype], entries: _Entries
) -> Tuple[Set[str], str]:
    """What the server is to convert, and to which dtype, if it is one."""
    narrower = {
        name
        for name, dtype in wanted.items()
        if _is_narrower(dtype, dtype_of(entries[name][0]))
    }
    dtypes = {wanted[name] for name in narrower}
    if len(dtypes) != 1:
        return set(), ""
    return narrower, name_of(dtypes.pop())


def _narrowed(
    tensor: torch.Tensor, dtype: Optional[torch.dtype]
) -> torch.Tensor:
    if dtype is not None and _is_narrower(dtype, tensor.dtype):
        return tensor.to(dtype)
    return tensor


def _wanted(
    entries: _Entries,
    targets: Optional[Dict[str, torch.Tensor]],
    dtype: Optional[torch.dtype],
) -> Dict[str, torch.dtype]:
    """The tensors to read, with their dtypes."""
    if targets is None:
        stored = {name: dtype_of(entry[0]) for name, entry in entries.items()}
        return {
            name: dtype if dtype and each.is_floating_point else each
            for name, each in stored.items()
        }
    for name, target in targets.items():
        if name not in entries:
            raise InvalidArgumentError(
                f"tensor {name!r}: expected one that is published, got none of "
                "that name"
            )
        shape = entries[name][1]
        if shape != tuple(target.shape):
            raise InvalidArgumentError(
                f"tensor {name!r}: expected the published shape {list(shape)}, "
                f"got {list(target.shape)}"
            )
    return {name: target.dtype for name, target in targets.items()}
