"""What verbs take by name, and the dataclasses that they return."""

from __future__ import annotations

import dataclasses
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    List,
    Literal,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

import numpy as np

if TYPE_CHECKING:
    NDArray = np.ndarray[Any, Any]
else:
    NDArray = np.ndarray

Mode = Literal["async", "sync", "bounded"]
OnExisting = Literal["fail", "keep", "replace"]
OnExistingNamespace = Literal["fail", "keep"]
OnRestoring = Literal["fail", "replace"]
OnWorkerLoss = Literal["fail", "continue"]
Aggregation = Literal["sum", "mean", "median", "trimmed_mean"]
SumOrder = Literal["rank", "arrival"]
Late = Literal["refuse", "carry"]
OnNonFinite = Literal["apply", "count", "skip", "refuse"]
OnLargeNorm = Literal["clip", "refuse"]


class HasShape(Protocol):
    """An array of any library."""

    @property
    def shape(self) -> Any: ...


# An array, or a list of arrays, to be filled.
Out = TypeVar("Out", bound=Union[HasShape, Sequence[Any]])


@dataclasses.dataclass(frozen=True)
class KeyStatus:
    """What `Client.stat` says of a key.

    Of a key in a snapshot: the key, its dtype, shape, version, and value_bytes,
    and the digest if it was asked for. The rest is 0 or empty.
    """

    key: str
    dtype: str
    shape: Tuple[int, ...]
    version: int
    value_bytes: int
    state_bytes: int
    # The states of the rule, as `Client.get_state` names them.
    states: List[str]
    rule: str
    # Updates that the rule of this name has made.
    update_count: int
    # What the next update computes with; 0 for a rule without one.
    learning_rate: float
    # XXH3-64 of the value's bytes in hexadecimal, as the command prints it;
    # None unless it was asked for.
    digest: Optional[str]


@dataclasses.dataclass(frozen=True)
class At:
    """Which snapshot of a series a call reads: without a number the latest.

    With `number` exactly that one; with `at_least` the latest, once its number
    is at least this, for which the call waits until its timeout.
    """

    series: str
    number: Optional[int] = None
    at_least: Optional[int] = None

    def __post_init__(self) -> None:
        if self.number is not None and self.at_least is not None:
            raise ValueError("At: expected number or at_least, got both")


@dataclasses.dataclass(frozen=True)
class PublishAs:
    """Has an init or a push take a snapshot of what there is when it is made.

    The fields are those of `Client.create_snapshot`, and `part`: (index, count)
    of a snapshot that so many callers publish together. Each part has the keys
    of its own call, or those below its own `prefixes`, and all say the same
    `number`. Readers find the snapshot once all parts have come.
    """

    series: str
    number: Optional[int] = None
    expected_latest: Optional[int] = None
    prefixes: Sequence[str] = ()
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    time_to_live: Optional[float] = None
    keep_last: Optional[int] = None
    dtype: Any = None
    part: Optional[Tuple[int, int]] = None


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A snapshot that a call has taken."""

    series: str
    number: int
    # The changes of the namespace that it has: all up to this, and no other.
    revision: int
    # Its keys, and the bytes of their values; None where they are not counted,
    # as for an init or a push, and for many keys below prefixes.
    num_keys: Optional[int] = None
    bytes: Optional[int] = None
    # Counts the other parts that were yet to come, where it was of one.
    parts_missing: int = 0

    @property
    def at(self) -> At:
        """What reads it: `client.pull("w", at=snapshot.at)`."""
        return At(self.series, self.number)


@dataclasses.dataclass(frozen=True)
class Change:
    """What a watch tells: that a key, or a series of snapshots, has changed."""

    # None where a snapshot can be read.
    key: Optional[str]
    # That of the key's value; 0 for one that was deleted.
    version: int
    deleted: bool
    # That of the change; 0 in what `initial` tells.
    revision: int
    # None where a key has changed.
    series: Optional[str]
    number: int


@dataclasses.dataclass(frozen=True)
class SnapshotLease:
    """Who keeps a snapshot."""

    name: str
    # As the server knows its callers; "" where it knows none.
    caller: str
    # In seconds.
    time_left: float


@dataclasses.dataclass(frozen=True)
class SnapshotStatus:
    """What a server tells of a snapshot."""

    series: str
    number: int
    revision: int
    # Seconds since 1970.
    created: float
    # Seconds until it goes, unless somebody has a lease; None: it stays.
    time_left: Optional[float]
    metadata: Dict[str, str]
    # It has the keys that begin with one of these; all where there is none, but
    # of one that is made of parts.
    prefixes: List[str]
    # As in Snapshot.
    num_keys: Optional[int]
    bytes: Optional[int]
    num_leases: int
    # What readers get of floats that are no narrower, as "bf16"; None: what is
    # stored.
    dtype: Optional[str]
    # Of how many parts it is made; 0: one call has taken it.
    num_parts: int = 0
    # Only `describe_snapshot` tells these.
    leases: List[SnapshotLease] = dataclasses.field(default_factory=list)
    # What is kept of former values for it and for no newer snapshot.
    retained_bytes: Optional[int] = None
    # How many snapshots the series keeps; 0: all.
    keep_last: Optional[int] = None

    @property
    def at(self) -> At:
        """What reads it."""
        return At(self.series, self.number)


@dataclasses.dataclass(frozen=True)
class WorkerStatus:
    """A member of a namespace."""

    name: str
    rank: int
    epoch: int
    # Whether its lease runs, and for how many seconds.
    live: bool
    lease_remaining: float
    # Whether it has left, done with its steps; who is neither that nor live was
    # lost.
    left: bool
    # The last that it has contributed to; 0 if there is none.
    step: int


@dataclasses.dataclass(frozen=True)
class CheckpointStatus:
    """A checkpoint of a server."""

    name: str
    # Seconds since 1970.
    created: float
    # With what it shares with earlier ones, and without.
    bytes: int
    written_bytes: int
    num_keys: int
    namespaces: List[str]
    # The newest has the highest.
    sequence: int
    # Whether the server has made it by itself.
    automatic: bool


@dataclasses.dataclass(frozen=True)
class ServerStatus:
    """What `Client.describe_server` says."""

    version: str
    # Another one each time that the server starts.
    incarnation: int
    # Seconds since 1970.
    started: int
    devices: List[str]
    budget_bytes: int
    used_bytes: int
    max_message_bytes: int
    max_entries: int


@dataclasses.dataclass(frozen=True)
class GuardCounts:
    """What the gradient guard has found in a rank's pushes."""

    # None for all who push without a rank.
    rank: Optional[int]
    not_finite: int
    too_large: int


@dataclasses.dataclass(frozen=True)
class NamespaceStatus:
    """What `Client.describe_namespace` says."""

    name: str
    mode: str
    num_workers: int
    max_workers: int
    staleness: int
    on_worker_loss: str
    rescale_partial_rounds: bool
    quorum: int
    quorum_grace: float
    max_open_rounds: int
    aggregation: str
    trim_fraction: float
    sum_order: str
    mirrored: bool
    on_non_finite: str
    max_norm: float
    max_call_norm: float
    on_large_norm: str
    budget_bytes: int
    max_retained_bytes: int
    round_timeout: float
    late: str
    staleness_decay: float
    guard_counts: List[GuardCounts]
    live_workers: int
    workers: List[WorkerStatus]
    # By key pattern; "" has the default.
    rules: Dict[str, str]
    num_keys: int
    revision: int
    rounds_open: int
    rounds_closed: int
    rounds_failed: int
    calls_waiting: int
    # Those that can be read.
    num_snapshots: int


def key_status(fields: Mapping[str, Any]) -> KeyStatus:
    """The status of which the extension module has a dict."""
    shown = dict(fields)
    if shown["digest"] is not None:
        shown["digest"] = f"{shown['digest']:016x}"
    return KeyStatus(**shown)


def snapshot_status(fields: Mapping[str, Any]) -> SnapshotStatus:
    """The status of which the extension module has a dict."""
    shown = dict(fields)
    leases = shown.get("leases", ())
    shown["leases"] = [SnapshotLease(**lease) for lease in leases]
    return SnapshotStatus(**shown)


def namespace_status(fields: Mapping[str, Any]) -> NamespaceStatus:
    """The status of which the extension module has a dict."""
    parts = {
        "guard_counts": [GuardCounts(**c) for c in fields["guard_counts"]],
        "workers": [WorkerStatus(**w) for w in fields["workers"]],
    }
    return NamespaceStatus(**{**fields, **parts})
