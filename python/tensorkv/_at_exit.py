"""Whether a worker that ends is done with its steps, or lost."""

from __future__ import annotations

import atexit
import sys
import weakref
from typing import Any, Optional

_workers: "weakref.WeakSet[Any]" = weakref.WeakSet()


def is_failure(error: Optional[BaseException]) -> bool:
    """Whether the exception says that what raised it was not done."""
    if isinstance(error, SystemExit):
        return error.code not in (None, 0, False)
    return error is not None


def ends_by_exception(error: Optional[BaseException] = None) -> bool:
    """Whether `error`, or an exception that is handled now, is a failure."""
    return is_failure(error if error is not None else sys.exc_info()[1])


def watch_worker(client: Any) -> None:
    """Has the client of a worker end when the interpreter does."""
    _workers.add(client)


def _end_workers() -> None:
    # The last exception that was printed: in a program it is what has ended the
    # interpreter, while a session at a prompt goes on after it. The status of
    # SystemExit nobody tells before the process ends.
    is_lost = not hasattr(sys, "ps1") and is_failure(
        getattr(sys, "last_value", None)
    )
    for client in list(_workers):
        if is_lost:
            client._end(is_lost=True)
        else:
            client._store.close_at_exit()


atexit.register(_end_workers)
