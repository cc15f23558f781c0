"""The steps of a worker's pushes, key by key."""

from __future__ import annotations

import collections
import copy
import threading
from typing import Any, Deque, Dict, Iterable, List, Optional, Set, Tuple

from tensorkv._cancellation import is_cancelled, listening
from tensorkv.errors import (
    AbortedError,
    AlreadyExistsError,
    DeadlineExceededError,
    Error,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnimplementedError,
)

# After these nothing was pushed.
_REFUSALS = (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnimplementedError,
)
_UNCERTAIN_REASONS = ("OUTCOME_UNKNOWN", "SERVER_RESTARTED")


def _may_have_pushed(error: Any) -> bool:
    if isinstance(error, Error):
        return error.reason in _UNCERTAIN_REASONS or not isinstance(
            error, _REFUSALS
        )
    # What Python refuses before a call is made; all else interrupts one.
    return not isinstance(error, (TypeError, ValueError))


class Ticket:
    """The steps of one call's keys, until all were pushed or the call failed.

    Attributes:
      is_shared: whether other calls push some of the keys at the same time, or
        have done so before: then nothing that waits for others is to be done
        while the ticket is held.
    """

    def __init__(self, steps: "_Steps", keys: List[str], timeout: float):
        self._steps = steps
        self.keys = keys
        self.timeout = timeout
        self.is_shared = False
        self.steps: Dict[str, int] = {}
        # What the call of an earlier ticket has ended with, if nobody knows
        # whether it was made.
        self.refused_by: Optional[BaseException] = None
        self.pushed: Set[str] = set()

    def __enter__(self) -> "Ticket":
        self._steps.begin(self)
        return self

    def __exit__(self, _: Any, error: Any, __: Any) -> None:
        self._steps.end(self, error)

    def parts(self, kinds: List[bool]) -> Iterable[Tuple[int, List[int]]]:
        """Steps, and the indices of the keys that are to be pushed with each.

        Keys of different kinds go by themselves. To go on says that the keys
        before were pushed.
        """
        parts: Dict[Tuple[int, bool], List[int]] = {}
        for i, key in enumerate(self.keys):
            parts.setdefault((self.steps[key], kinds[i]), []).append(i)
        for (step, _), indices in parts.items():
            yield step, indices
            self._steps.set_pushed(self, [self.keys[i] for i in indices])


class _Steps:
    """Counts the steps of keys, from `first` on. Thread-safe."""

    def __init__(self, first: int):
        self._first = first
        # Of each key the last that was pushed.
        self._last: Dict[str, int] = {}
        self._highest = first - 1
        self._changed = threading.Condition()

    def ticket(self, keys: List[str], timeout: float) -> Ticket:
        """A ticket for a call that pushes each of these keys once."""
        return Ticket(self, keys, timeout)

    def last(self) -> int:
        """The highest step that was pushed, of any key."""
        return self._highest

    def go_back_to(self, first: int) -> None:
        """Has all keys begin with that step, unless it is the next one.

        No call is to be under way.
        """
        with self._changed:
            if first == self._highest + 1:
                return
            self._first, self._highest = first, first - 1
            self._last.clear()

    def begin(self, ticket: Ticket) -> None:
        """Gives the ticket its steps, once it may have them."""
        raise NotImplementedError

    def set_pushed(self, ticket: Ticket, keys: List[str]) -> None:
        ticket.pushed.update(keys)
        with self._changed:
            self._highest = max(self._highest, ticket.steps[keys[0]])

    def end(self, ticket: Ticket, error: Optional[BaseException]) -> None:
        """Takes back the steps that were not pushed."""
        raise NotImplementedError

    def _take(self, ticket: Ticket) -> None:
        first = self._first
        last = self._last
        ticket.steps = {k: last.get(k, first - 1) + 1 for k in ticket.keys}


class QueuedSteps(_Steps):
    """Has the pushes of a key made one after another, in the order of steps.

    A call holds one ticket for all its keys, from before it takes their steps
    until the server has answered. Tickets are served in the order in which they
    come, so that none waits for a later one; those of other keys go beside it.
    A step counts once it was pushed: one that was refused is there for the next
    call.

    Where a call ends and nobody knows whether it has pushed, those that wait
    behind it are refused: what they push as the same step may be taken for a
    repeat of it. Where it found a restart, so do they.
    """

    def __init__(self, first: int):
        super().__init__(first)
        # The tickets of a key, the one that is served first.
        self._calls: Dict[str, Deque[Ticket]] = {}
        # Keys that calls have waited for.
        self._shared: Set[str] = set()

    def begin(self, ticket: Ticket) -> None:
        with listening(self._wake), self._changed:
            self._enqueue(ticket)
            try:
                came = self._changed.wait_for(
                    lambda: is_cancelled()
                    or ticket.refused_by
                    or self._is_next(ticket),
                    ticket.timeout,
                )
                if is_cancelled():
                    raise Error(
                        f"push of {ticket.keys[0]!r}: cancelled by the caller; "
                        "it has not been made"
                    )
            except BaseException:
                self._leave(ticket)
                raise
            if ticket.refused_by is None and came:
                ticket.is_shared = not self._shared.isdisjoint(ticket.keys)
                self._take(ticket)
                return
            self._leave(ticket)
        by = ticket.refused_by
        if isinstance(by, Error) and by.reason == "SERVER_RESTARTED":
            raise copy.copy(by)
        if by is not None:
            raise AbortedError(
                f"push of {ticket.keys[0]!r}: the one before it, of another "
                f"thread, has ended with {by!r}, and nobody "
                "knows whether it counts; nothing of this one was pushed: push "
                "that one again first"
            )
        raise DeadlineExceededError(
            f"push of {ticket.keys[0]!r}: pushes of other threads have not "
            f"ended within {ticket.timeout:g} s"
        )

    def set_pushed(self, ticket: Ticket, keys: List[str]) -> None:
        super().set_pushed(ticket, keys)
        with self._changed:
            self._last.update((key, ticket.steps[key]) for key in keys)

    def end(self, ticket: Ticket, error: Optional[BaseException]) -> None:
        with self._changed:
            if error is not None and _may_have_pushed(error):
                for key in ticket.keys:
                    if key in ticket.pushed:
                        continue
                    for behind in list(self._calls[key])[1:]:
                        behind.refused_by = error
            self._leave(ticket)

    def _enqueue(self, ticket: Ticket) -> None:
        for key in ticket.keys:
            calls = self._calls.setdefault(key, collections.deque())
            if calls:
                self._shared.add(key)
            calls.append(ticket)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _is_next(self, ticket: Ticket) -> bool:
        return all(self._calls[key][0] is ticket for key in ticket.keys)

    def _leave(self, ticket: Ticket) -> None:
        for key in ticket.keys:
            calls = self._calls[key]
            calls.remove(ticket)
            if not calls:
                del self._calls[key]
        self._changed.notify_all()


class UnorderedSteps(_Steps):
    """Counts steps where the server takes them in any order.

    No call waits for another. The step of one that fails is there again, unless
    a later one was taken meanwhile.
    """

    def begin(self, ticket: Ticket) -> None:
        with self._changed:
            self._take(ticket)
            self._last.update(ticket.steps)

    def end(self, ticket: Ticket, error: Optional[BaseException]) -> None:
        if error is None:
            return
        with self._changed:
            for key in ticket.steps.keys() - ticket.pushed:
                if self._last.get(key) == ticket.steps[key]:
                    self._last[key] -= 1
