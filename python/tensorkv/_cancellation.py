"""Tells the thread that makes a task's call that the task was cancelled."""

from __future__ import annotations

import contextlib
import contextvars
from typing import Callable, Iterator, List, Optional

from tensorkv import _core


class Cancellation:
    """Ends what a thread does within it, once somebody cancels. Thread-safe.

    Calls of the extension end by themselves; what waits in Python listens.
    """

    def __init__(self) -> None:
        self._scope = _core.CallScope()
        # What Python does to a list is atomic.
        self._listeners: List[Callable[[], None]] = []
        self._is_cancelled = False

    def cancel(self) -> None:
        self._is_cancelled = True
        self._scope.cancel()
        for each in list(self._listeners):
            each()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Has it end what the thread does in the block."""
        token = _current.set(self)
        try:
            with self._scope:
                yield
        finally:
            _current.reset(token)


_current: contextvars.ContextVar[Optional[Cancellation]] = (
    contextvars.ContextVar("tensorkv_cancellation", default=None)
)


def is_cancelled() -> bool:
    """Whether somebody has cancelled what this thread does."""
    current = _current.get()
    return current is not None and current._is_cancelled


@contextlib.contextmanager
def listening(listener: Callable[[], None]) -> Iterator[None]:
    """Runs the listener, on any thread, when somebody cancels the block.

    Whoever cancels just before the block does not run it: is_cancelled tells.
    """
    current = _current.get()
    if current is None:
        yield
        return
    current._listeners.append(listener)
    try:
        yield
    finally:
        current._listeners.remove(listener)
