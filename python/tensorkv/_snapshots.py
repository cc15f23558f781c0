"""The verbs of a Client that are about snapshots."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from tensorkv import _core
from tensorkv._arrays import all_to_core
from tensorkv._client_arguments import (
    Array,
    at_fields,
    publish_fields,
    within,
)
from tensorkv._types import (
    At,
    NDArray,
    PublishAs,
    Snapshot,
    SnapshotStatus,
    snapshot_status,
)
from tensorkv.errors import Error, FailedPreconditionError, NotFoundError

# However long a lease is, nobody waits longer for one renewal.
_LONGEST_RENEWAL = 5.0


class SnapshotVerbs:
    """What tensorkv.Client adds a connection to.

    A snapshot is the values of keys as they were at one moment, which stay
    readable while the keys change. It has a series, such as "policy", and a
    number, which rises. To take one copies nothing; values that change
    afterwards are kept once for all snapshots that have them. It goes when it
    is deleted, with its namespace, when the server ends and, unless somebody
    has a lease, by its time or by `keep_last`. What is kept has a bound: beyond
    it the oldest snapshots go, whoever has leases.
    """

    _store: _core.Store

    def create_snapshot(
        self,
        series: str,
        number: Optional[int] = None,
        *,
        expected_latest: Optional[int] = None,
        prefixes: Sequence[str] = (),
        metadata: Optional[Mapping[str, str]] = None,
        time_to_live: Optional[float] = None,
        keep_last: Optional[int] = None,
        dtype: Any = None,
        timeout: Optional[float] = None,
    ) -> Snapshot:
        """Takes a snapshot, and returns when it can be read.

        Args:
          number: such as a training's step, above all that the series has had;
            without it one above the latest, or 1.
          expected_latest: only if the series has given this number last, so
            that one of two publishers fails; 0: it has given none.
          prefixes: has the keys that begin with one of these, without them all.
          metadata: what readers are told.
          time_to_live: in seconds; without it there is no end.
          keep_last: the series keeps so many from now on, with 0 all; without
            it as many as was said before, or all.
          dtype: a float dtype, such as "bf16", that readers get in place of
            floats that are no narrower, as if these were stored so. The server
            converts them when they are read.

        Errors: FailedPreconditionError (SNAPSHOT_NUMBER_PASSED);
        SnapshotConflictError where another number is the latest than expected;
        ResourceExhaustedError; DeadlineExceededError, after which the snapshot
        may be there.
        """
        wanted = PublishAs(
            series=series,
            number=number,
            expected_latest=expected_latest,
            prefixes=prefixes,
            metadata=metadata or {},
            time_to_live=time_to_live,
            keep_last=keep_last,
            dtype=dtype,
        )
        with within(timeout):
            made = self._store.create_snapshot(publish_fields(wanted))
        return Snapshot(series, **made)

    def snapshots(
        self, series_prefix: str = "", timeout: Optional[float] = None
    ) -> List[SnapshotStatus]:
        """The snapshots that can be read, by series and then by number."""
        with within(timeout):
            found = self._store.list_snapshots(series_prefix)
        return [snapshot_status(each) for each in found]

    def describe_snapshot(
        self,
        series: str,
        number: Optional[int] = None,
        *,
        at_least: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> SnapshotStatus:
        """What a snapshot is, and who keeps it; which one, as `At` says.

        Errors: SnapshotNotFoundError; SnapshotLostError.
        """
        at = at_fields(At(series, number, at_least))
        with within(timeout):
            return snapshot_status(self._store.describe_snapshot(at))

    def delete_snapshot(
        self,
        series: str,
        number: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> int:
        """Lets a snapshot go, or all of a series; returns how many.

        Leases do not keep it. Numbers of the series go on.

        Errors: SnapshotNotFoundError; SnapshotLostError.
        """
        with within(timeout):
            return self._store.delete_snapshot(series, number)

    def lease_snapshot(
        self,
        series: str,
        number: Optional[int] = None,
        *,
        at_least: Optional[int] = None,
        name: str = "",
        duration: float = 60.0,
        timeout: Optional[float] = None,
    ) -> LeasedSnapshot:
        """Has a snapshot stay for `duration` seconds; which one, as `At` says.

            with client.lease_snapshot("policy") as leased:
                weights = client.pull(keys, at=leased.at)

        In the block the lease is renewed all the time, and at its end let go.

        Args:
          name: of the lease, for people; the same again renews it. One is made
            up without it.
          duration: at most an hour.

        Errors: SnapshotNotFoundError; SnapshotLostError.
        """
        name = name or f"lease-{uuid.uuid4().hex[:16]}"
        at = at_fields(At(series, number, at_least))
        with within(timeout):
            leased = self._store.lease_snapshot(at, name, duration)
        return LeasedSnapshot(self, At(series, leased), name, duration)

    def _push_changes(
        self,
        keys: List[str],
        values: List[Array],
        publish_as: PublishAs,
        changes: Any,
    ) -> Snapshot:
        """Pushes copies of the arrays, of which `changes` sends what is new.

        The keys are there, and have the rule assign.
        """
        made = self._store.push_changes(
            keys, all_to_core(values), publish_fields(publish_as), changes
        )
        return Snapshot(publish_as.series, **made)

    def _pull_memory(
        self,
        keys: List[str],
        dtype: str,
        at: At,
        changes: Optional[Any] = None,
    ) -> List[Tuple[NDArray, str, int]]:
        """Of each key its value's bytes, the name of its dtype, its version.

        With `changes`, which holds them then, they must not be written.
        """
        return self._store.pull_memory(keys, dtype, at_fields(at), changes)

    def _entries(
        self, prefix: str, at: At
    ) -> Dict[str, Tuple[str, Tuple[int, ...]]]:
        """The dtype and shape of each key of a snapshot, without the prefix."""
        return {
            status["key"][len(prefix) :]: (status["dtype"], status["shape"])
            for status in self._store.list(prefix, at_fields(at))
        }


class LeasedSnapshot:
    """A snapshot that stays while this has a lease of it; see lease_snapshot.

    Attributes:
      at: reads the snapshot, whose number it has.
      name: of the lease.
    """

    def __init__(
        self, client: SnapshotVerbs, at: At, name: str, duration: float
    ):
        self._store = client._store
        self._duration = duration
        self._ending = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self.at = at
        self.name = name

    def __repr__(self) -> str:
        return (
            f"<tensorkv.LeasedSnapshot {self.at.number} of {self.at.series!r}>"
        )

    def renew(self, timeout: Optional[float] = None) -> None:
        """Has the lease last for its duration from now on.

        Errors: SnapshotLostError, where it was let go nevertheless.
        """
        self._lease(self._duration, timeout)

    def release(self, timeout: Optional[float] = None) -> None:
        """Lets go of the lease. May be repeated."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(NotFoundError):
            self._lease(0.0, timeout)

    def __enter__(self) -> LeasedSnapshot:
        self._thread = threading.Thread(
            target=self._run, name="tensorkv-lease", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        # A lease that cannot be let go ends by itself.
        with contextlib.suppress(Error):
            self.release()

    def _lease(self, duration: float, timeout: Optional[float]) -> None:
        with within(timeout):
            self._store.lease_snapshot(at_fields(self.at), self.name, duration)

    def _run(self) -> None:
        # As a worker's lease: within one lease four renewals may fail.
        pause = self._duration / 3
        call_timeout = min(self._duration / 6, _LONGEST_RENEWAL)
        begin = time.monotonic()
        while not self._ending.wait(begin + pause - time.monotonic()):
            begin = time.monotonic()
            try:
                self.renew(call_timeout)
                pause = self._duration / 3
            except (NotFoundError, FailedPreconditionError):
                # Whoever reads the snapshot hears that it is gone.
                return
            except Error:
                pause = call_timeout
