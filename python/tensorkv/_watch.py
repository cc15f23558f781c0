"""The verb of a Client that is about what changes."""

from __future__ import annotations

import collections
import threading
import time
from typing import Any, Deque, List, Optional, Tuple

from tensorkv._client_arguments import within
from tensorkv._types import Change
from tensorkv.aio import WatchCoroutines
from tensorkv.errors import InvalidArgumentError

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
          key: in place of a prefix; a value that lies in slices over servers
            is not told.
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
    """What changes, as it does; see Client.watch. Used by one caller at a time.

    A caller that gives up, as a task that is cancelled, loses no changes: they
    are told to the next.
    """

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
        if prefix is not None and key is not None:
            raise InvalidArgumentError("expected a key or a prefix, got both")
        if prefix is None and key is None and series is None:
            prefix = ""
        self._client = client
        self._what = (prefix, key, series, initial)
        self._interval = interval
        self._longest_wait = max(_LONGEST_WAIT, 2 * interval)
        # Held by who asks: it may be a thread whose caller has given up.
        self._lock = threading.Lock()
        # What is yet to be handed over; each with the token of after it, which
        # is None where more came with it.
        self._changes: Deque[Tuple[Change, Optional[bytes]]] = (
            collections.deque()
        )
        # That of after all of these, and of what was handed over.
        self._asked = token
        self._token = token

    @property
    def token(self) -> bytes:
        """Up to where changes were handed over, for `Client.watch(token=...)`.

        Of changes that came together, that of before them until the last.
        """
        return self._token

    @property
    def aio(self) -> WatchCoroutines:
        """`await watch.aio.next(timeout=1)`."""
        threads = self._client._threads
        return WatchCoroutines(self, threads, self._client._pushing_threads)

    def begin(self) -> Watch:
        """Returns once the watch has begun: what changes then it tells."""
        with self._lock:
            self._begin()
        return self

    def next(self, timeout: Optional[float] = None) -> List[Change]:
        """Waits for changes; returns none where none come within `timeout`.

        Asks at least once, so that 0 tells what there is to tell now.
        """
        self.wait(timeout)
        return self._pop_all()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Returns whether `next` returns changes at once, after at most
        `timeout`."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._begin()
            left = timeout
            while not self._changes:
                longest = self._longest_wait
                self._ask(longest if left is None else min(left, longest))
                if end is None:
                    continue
                left = max(0.0, end - time.monotonic())
                if left == 0.0:
                    break
            return bool(self._changes)

    def _begin(self) -> None:
        if not self._asked:
            self._ask(0.0)

    def _ask(self, max_wait: float) -> None:
        with within(max_wait + _ANSWER_TIME):
            changes, token = self._client._store.watch(
                *self._what, self._asked, self._interval, max_wait
            )
        tokens = [None] * (len(changes) - 1) + [token]
        self._changes.extend(
            (Change(*each), after) for each, after in zip(changes, tokens)
        )
        # Who is interrupted before this is told again, and not too little.
        self._asked = token
        if not self._changes:
            self._token = token

    def _pop(self) -> Change:
        change, token = self._changes.popleft()
        if token is not None:
            self._token = token
        return change

    def _pop_all(self) -> List[Change]:
        # A thread whose caller has given up may be adding to them.
        return [self._pop() for _ in range(len(self._changes))]

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Change:
        while not self._changes:
            self.wait()
        return self._pop()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        while not self._changes:
            await self.aio.wait()
        return self._pop()
