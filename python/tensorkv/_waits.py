"""Says whom a worker waits for."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import threading
import time
from typing import Callable, Dict, Iterator, List, Optional

from tensorkv._types import NamespaceStatus, WorkerStatus
from tensorkv.errors import Error

_log = logging.getLogger("tensorkv")


class _Wait:
    def __init__(self, what: str, step: int, next_at: float):
        self.what = what
        self.step = step
        self.began = time.monotonic()
        self.next_at = next_at
        self.was_told = False


class WaitLog:
    """Logs which workers a call waits for that takes longer than `after`.

    It warns by the logger "tensorkv", and again each time that the call has
    taken twice as long. Thread-safe.
    """

    def __init__(
        self,
        rank: int,
        describe: Callable[[], Optional[NamespaceStatus]],
        after: float,
    ):
        """`describe` describes the namespace; None where nobody asks any more.

        `after` may be infinite.
        """
        self._rank = rank
        self._describe = describe
        self._after = after
        self._waits: Dict[int, _Wait] = {}
        self._numbers = itertools.count()
        self._closing = threading.Event()
        self._starting = threading.Lock()
        self._thread: Optional[threading.Thread] = None

    @contextlib.contextmanager
    def watch(self, what: str, step: int = 0) -> Iterator[None]:
        """Watches over what the block does: `what` it is, and of which step."""
        if self._after == math.inf:
            yield
            return
        if self._thread is None:
            self._start()
        number = next(self._numbers)
        wait = _Wait(what, step, time.monotonic() + self._after)
        self._waits[number] = wait
        try:
            yield
        finally:
            del self._waits[number]
            if wait.was_told:
                seconds = time.monotonic() - wait.began
                _log.info("%s has ended after %.0f s", wait.what, seconds)

    def close(self) -> None:
        self._closing.set()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="tensorkv-waits", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while not self._closing.wait((self._after or 1.0) / 4):
            now = time.monotonic()
            due = [w for w in list(self._waits.values()) if w.next_at <= now]
            if due:
                self._tell(due, now)

    def _tell(self, waits: List[_Wait], now: float) -> None:
        try:
            status = self._describe()
        except Error as error:
            # Where it was closed there is nothing to wait for.
            for wait in waits if not self._closing.is_set() else ():
                self._warn(wait, now, f"the server ({error})")
            return
        if status is None:
            return
        for wait in waits:
            workers = whom(
                status.workers, status.num_workers, self._rank, wait.step
            )
            self._warn(wait, now, workers)

    @staticmethod
    def _warn(wait: _Wait, now: float, whom: str) -> None:
        seconds = now - wait.began
        wait.next_at = now + seconds
        wait.was_told = True
        _log.warning(
            "%s has waited %.0f s for %s", wait.what, seconds, whom
        )


def whom(
    members: List[WorkerStatus], num_workers: int, rank: int, step: int
) -> str:
    """Whom a worker waits for that is at that step; 0 stands for a barrier."""
    workers = {each.rank: each for each in members}
    ranks = range(max([num_workers, *(r + 1 for r in workers)]))
    behind = [
        _name(each, workers.get(each))
        for each in ranks
        if each != rank and _is_awaited(workers.get(each), step)
    ]
    return ", ".join(behind) or "the server"


def _is_awaited(worker: Optional[WorkerStatus], step: int) -> bool:
    if worker is None or not worker.live:
        return True
    return step == 0 or worker.step < step


def _name(rank: int, worker: Optional[WorkerStatus]) -> str:
    if worker is None:
        return f"rank {rank}, which has not joined"
    at = f"at step {worker.step}"
    if not worker.live:
        at = f"{'left' if worker.left else 'lost'} {at}"
    return f"rank {rank} ({worker.name}, {at})"
