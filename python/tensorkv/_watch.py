"""The verb of a Client that is about what changes."""

from __future__ import annotations

import collections
import time
from typing import Any, Deque, List, Optional

from tensorkv._client_arguments import within
from tensorkv._types import Change
from tensorkv.aio import WatchCoroutines

# How long one call waits, and how much longer its answer may take.
_LONGEST_WAIT = 20.0
_ANSWER_TIME = 10.0


class WatchVerbs:
    """What tensorkv.Client adds a connection to."""

    _store: Any

    def watch(
        self,
        prefix: Optional[str] = None,
        *,
        key: Optional[str] = None,
        series: Optional[str] = None,
        initial: bool = False,
        token: bytes = b"",
        interval: float = 0.1,
    ) -> Watch:
        """Tells what changes: keys by prefix, one key, snapshots of a series.

            for change in client.watch("policy/"):
                print(change.key, change.version)

        Without arguments all keys are watched; an empty `series` stands for
        all. Changes come in their order; of what has changed several times the
        newest version alone, so that it only rises. Changes count from the
        first `next`, or from `token`, that of another watch.

        Args:
          initial: first comes what there is: to wait until a key exists, watch
            it so.
          interval: changes are gathered for so many seconds.

        The watch raises RevisionCompactedError where too much has changed since
        it was asked last, or the server was started anew: begin another one.
        Waiting takes one of the client's 64 calls at a time, also in `async
        for`.
        """
        return Watch(self, prefix, key, series, initial, token, interval)


class Watch:
    """What changes, as it does; see Client.watch. Used by one thread."""

    def __init__(
        self,
        client: Any,
        prefix: Optional[str],
        key: Optional[str],
        series: Optional[str],
        initial: bool,
        token: bytes,
        interval: float,
    ):
        if prefix is None and key is None and series is None:
            prefix = ""
        self._client = client
        self._what = (prefix, key, series, initial)
        self._token = token
        self._interval = interval
        self._changes: Deque[Change] = collections.deque()

    @property
    def token(self) -> bytes:
        """Up to where `next` has told, for `Client.watch(token=...)`."""
        return self._token

    @property
    def aio(self) -> WatchCoroutines:
        """`await watch.aio.next(timeout=1)`."""
        threads = self._client._threads
        return WatchCoroutines(self, threads, self._client._pushing_threads)

    def begin(self) -> Watch:
        """Returns once the watch has begun: what changes then it tells."""
        if not self._token:
            self._changes.extend(self._ask(0.0))
        return self

    def next(self, timeout: Optional[float] = None) -> List[Change]:
        """Waits for changes; returns none where none come within `timeout`."""
        end = None if timeout is None else time.monotonic() + timeout
        self.begin()
        changes = list(self._changes)
        self._changes.clear()
        while not changes:
            left = _LONGEST_WAIT if end is None else end - time.monotonic()
            if left <= 0:
                break
            changes = self._ask(min(left, _LONGEST_WAIT))
        return changes

    def _ask(self, max_wait: float) -> List[Change]:
        with within(max_wait + _ANSWER_TIME):
            changes, self._token = self._client._store.watch(
                *self._what, self._token, self._interval, max_wait
            )
        return [Change(*each) for each in changes]

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Change:
        if not self._changes:
            self._changes.extend(self.next())
        return self._changes.popleft()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        if not self._changes:
            self._changes.extend(await self.aio.next())
        return self._changes.popleft()
