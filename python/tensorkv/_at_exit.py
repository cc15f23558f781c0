"""Whether a worker that ends is done with its steps, or lost."""

from __future__ import annotations

import atexit
import os
import sys
import warnings
import weakref
from typing import Any, Dict, List, NamedTuple, Optional


class _Worker(NamedTuple):
    client: "weakref.ref[Any]"
    # The namespace, with its target.
    place: Any
    name: str


# The stores of workers that have not ended, also of clients that were dropped:
# how the interpreter ends says what these are.
_workers: Dict[Any, _Worker] = {}

# The process in which multiprocessing ends the workers.
_child = 0


def is_failure(error: Optional[BaseException]) -> bool:
    """Whether the exception says that what raised it was not done."""
    if isinstance(error, SystemExit):
        return error.code not in (None, 0, False)
    return error is not None


def ends_by_exception(error: Optional[BaseException] = None) -> bool:
    """Whether `error`, or an exception that is handled now, is a failure."""
    return is_failure(error if error is not None else sys.exc_info()[1])


def watch_worker(client: Any, store: Any, place: Any, name: str) -> None:
    """Has the store of a worker end when the interpreter does.

    Also where its client is dropped before, unless another worker of the same
    place comes then.
    """

    def warn(_: Any) -> None:
        warnings.warn(
            f"worker {name!r}: its client was dropped, and it stays a member "
            "until the interpreter ends: leave or close it",
            ResourceWarning,
        )

    _workers[store] = _Worker(weakref.ref(client, warn), place, name)
    _watch_child()


def forget_worker(store: Any) -> None:
    """It has ended."""
    _workers.pop(store, None)


def lose_dropped(place: Any) -> None:
    """Has workers of the place be lost whose clients were dropped.

    Whoever makes another one has not been done with them.
    """
    for store, worker in list(_workers.items()):
        if worker.place == place and worker.client() is None:
            _end(store, is_lost=True)


def named(place: Any, name: str) -> List[Any]:
    """The stores of workers of that name.

    An exception that is handled may hold their clients.
    """
    return [
        store
        for store, worker in list(_workers.items())
        if worker.place == place and worker.name == name
    ]


def lose(stores: List[Any]) -> None:
    """Has these workers be lost: another one takes their place."""
    for store in stores:
        _end(store, is_lost=True)


def _end(store: Any, is_lost: bool) -> None:
    forget_worker(store)
    store.close(is_lost)


def _end_workers() -> None:
    # The last exception that was printed: in a program it is what has ended the
    # interpreter, while a session at a prompt goes on after it. The status of
    # SystemExit nobody tells before the process ends.
    is_lost = not hasattr(sys, "ps1") and is_failure(
        getattr(sys, "last_value", None)
    )
    for store in list(_workers):
        if is_lost:
            _end(store, is_lost=True)
        else:
            forget_worker(store)
            store.close_at_exit()


def _watch_child() -> None:
    """Has workers of a child of multiprocessing end with what it runs.

    Such a child ends without the interpreter's own handlers.
    """
    global _child
    processes = sys.modules.get("multiprocessing.process")
    if processes is None or processes.parent_process() is None:
        return
    if _child == os.getpid():
        return
    _child = os.getpid()
    from multiprocessing.util import Finalize

    Finalize(None, _end_child, exitpriority=0)


def _end_child() -> None:
    # What has ended it is still on its way.
    is_lost = ends_by_exception()
    for store in list(_workers):
        _end(store, is_lost)


atexit.register(_end_workers)
