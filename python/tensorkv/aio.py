"""Verbs that asyncio awaits."""

from __future__ import annotations

import contextvars
import functools
import heapq
import inspect
import itertools
import os
import queue
import threading
from concurrent.futures import Future
from typing import Any, Callable, List, Optional, Tuple

from tensorkv._cancellation import Cancellation

# A server takes 128 calls of a connection at a time, and those that wait must
# not keep all others out.
MAX_CALLS = 64
MAX_PUSHES = 32


class Threads:
    """Makes some calls at a time, on threads made when they are needed.

    Of the calls that wait for a thread the one with the highest priority is
    next, of several the first. Threads are daemons: the interpreter ends
    without waiting for their calls. Thread-safe. In a forked child, and once
    closed, callers make their calls themselves.
    """

    def __init__(self, max_calls: int):
        self._max_calls = max_calls
        self._pid = os.getpid()
        # A token for each call, or None to end a thread; a lock that Python's
        # garbage collector may come across would not do.
        self._tokens: queue.SimpleQueue = queue.SimpleQueue()
        # A heap: what Python does to it is atomic.
        self._calls: List[Tuple[int, int, Future, Callable[[], Any]]] = []
        self._numbers = itertools.count()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._count = 0
        self._is_closed = False

    def submit(self, call: Callable[[], Any], priority: int = 0) -> Future:
        future: Future = Future()
        # The lock of a forked child may be held for ever.
        if os.getpid() == self._pid:
            with self._lock:
                if not self._is_closed:
                    self._enqueue(future, call, priority)
                    return future
        _make(future, call)
        return future

    def close(self) -> None:
        """Ends the threads, after the calls that were submitted."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._is_closed:
                for _ in range(self._count):
                    self._tokens.put(None)
            self._is_closed = True

    def __del__(self):
        self.close()

    def _enqueue(
        self, future: Future, call: Callable[[], Any], priority: int
    ) -> None:
        # First what may fail, on a priority that is no number.
        entry = (-priority, next(self._numbers), future, call)
        if self._count < self._max_calls and not self._idle.acquire(False):
            threading.Thread(
                target=_serve,
                args=(self._tokens, self._calls, self._idle),
                name=f"tensorkv-aio_{self._count}",
                daemon=True,
            ).start()
            self._count += 1
        heapq.heappush(self._calls, entry)
        self._tokens.put(True)


def _serve(
    tokens: queue.SimpleQueue, calls: List[Any], idle: threading.Semaphore
) -> None:
    # This has no reference to the Threads, which end with their owner.
    for _ in iter(tokens.get, None):
        future, call = heapq.heappop(calls)[2:]
        _make(future, call)
        # What a call has got is not to live until there is another.
        del future, call
        idle.release()


def _make(future: Future, call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)


class Coroutines:
    """The methods of a Client, KVStore or Reader as coroutines.

        array = await client.aio.pull("w")
        await asyncio.gather(*(client.aio.pull(key) for key in keys))

    Arguments, results and errors are those of the methods. Each call has one of
    the client's 64 threads, or of 32 others for those that wait for no other
    call: `push` and `push_rows`, and a Client's `init` and `set_state`. Further
    calls wait for a thread, which goes first to the highest `priority`, where
    the method takes one: so many calls that wait for others must not wait for
    one that comes after them, unless that has other threads.

    A task that is cancelled does not wait any more. Its call is cancelled too,
    at the server as well, and nobody knows whether it was made: `out` may be
    written, and what is pushed be read, for a moment longer. The interpreter
    does not wait for calls when it ends.
    """

    def __init__(self, target: Any, threads: Threads, pushing: Threads):
        self._target = target
        self._threads = threads
        self._pushing = pushing

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(f"{name!r} is no method to await")
        # The class is asked, since a property may be a call to the server.
        if not callable(getattr(type(self._target), name, None)):
            raise AttributeError(f"{name!r} is no method to await")
        method = getattr(self._target, name)
        waits_for_none = getattr(type(self._target), "_WAIT_FOR_NONE", ())
        threads = self._pushing if name in waits_for_none else self._threads
        index = _index_of_priority(getattr(type(self._target), name))

        @functools.wraps(method)
        async def call(*arguments: Any, **options: Any) -> Any:
            priority = options.get("priority", 0)
            if index is not None and len(arguments) > index:
                priority = arguments[index]
            bound = functools.partial(method, *arguments, **options)
            return await _made_by(threads, bound, priority)

        return call

    def __dir__(self) -> List[str]:
        names = set(super().__dir__())
        cls = type(self._target)
        names.update(n for n in dir(cls) if callable(getattr(cls, n)))
        return sorted(n for n in names if not n.startswith("_"))

    def __repr__(self) -> str:
        return f"<coroutines of {self._target!r}>"


# aio.pyi has the methods of each.
ClientCoroutines = KVStoreCoroutines = ReaderCoroutines = Coroutines


class WatchCoroutines(Coroutines):
    """The methods of a Watch as coroutines."""

    async def next(self, timeout: Optional[float] = None) -> List[Any]:
        # The task takes the changes, not the thread: one that is cancelled
        # leaves them where they are.
        await self.wait(timeout)
        return self._target._pop_all()


async def _made_by(
    threads: Threads, call: Callable[[], Any], priority: int
) -> Any:
    """Has a thread make the call; cancels it where nobody awaits it."""
    # Whoever awaits has it already; it takes longer than all of this package.
    import asyncio

    cancellation = Cancellation()

    def make() -> Any:
        with cancellation.entered():
            return call()

    bound = functools.partial(contextvars.copy_context().run, make)
    future = threads.submit(bound, priority)
    try:
        return await asyncio.wrap_future(future)
    except (asyncio.CancelledError, GeneratorExit):
        # A coroutine that is closed, as by a loop that ends before it, too.
        future.cancel()
        cancellation.cancel()
        raise


@functools.lru_cache(maxsize=None)
def _index_of_priority(method: Callable[..., Any]) -> Optional[int]:
    """Its index among the arguments, less `self`; None where it is not one."""
    names = list(inspect.signature(method).parameters)
    return names.index("priority") - 1 if "priority" in names else None
