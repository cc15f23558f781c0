"""Verbs that asyncio awaits."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import heapq
import inspect
import itertools
import os
import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from tensorkv import _core

_MAX_CALLS = 32
# Of one event loop: a server takes 128 calls of a connection at a time, and
# those that wait must not keep all others out.
_MAX_STARTED = 64
_MAX_PUSHES = 32
# These wait for no other call, while others may wait for them: they have
# threads and a room of their own.
_PUSHES = ("push", "push_rows")


class Threads:
    """Makes up to 32 calls at a time, on threads made when they are needed.

    Of the calls that wait for a thread the one with the highest priority is
    next, of several the first. Threads are daemons: the interpreter ends
    without waiting for their calls. Thread-safe. In a forked child, and once
    closed, callers make their calls themselves.
    """

    def __init__(self):
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
        if self._count < _MAX_CALLS and not self._idle.acquire(False):
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


class StartedCalls:
    """Calls that need no thread: the client tells event loops of their ends.

    Thread-safe.
    """

    def __init__(self):
        self._ends: Dict[asyncio.AbstractEventLoop, _Ends] = {}
        self._lock = threading.Lock()

    async def make(
        self,
        start: Callable[..., None],
        *arguments: Any,
        priority: int,
        is_push: bool = False,
        timeout: Optional[float] = None,
    ) -> Any:
        """Awaits what `start(inbox, call, *arguments)` begins."""
        loop = asyncio.get_running_loop()
        with self._lock:
            ends = self._ends.get(loop)
            if ends is None:
                # Loops that were closed take nothing any more.
                for each in [each for each in self._ends if each.is_closed()]:
                    del self._ends[each]
                ends = self._ends[loop] = _Ends()
        return await ends.wait_for(
            loop, start, arguments, priority, is_push, timeout
        )


class _Room:
    """For so many at a time. Of those that wait, the highest priority is next.

    For the thread of one event loop.
    """

    def __init__(self, size: int):
        # While anybody waits there are none.
        self._free = size
        self._waiting: List[Tuple[int, int, asyncio.Future]] = []
        self._numbers = itertools.count()

    async def enter(self, priority: int) -> None:
        if self._free > 0:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-priority, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            # Perhaps at the moment when its turn came.
            if not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._free += 1


class _Ends:
    """The ends of the calls of one event loop, on whose thread this is used."""

    def __init__(self):
        self._inbox = _core.Inbox()
        self._calls: Dict[int, Tuple[asyncio.Future, _Room]] = {}
        self._last = 0
        self._pushes = _Room(_MAX_PUSHES)
        self._others = _Room(_MAX_STARTED)

    async def wait_for(
        self,
        loop: asyncio.AbstractEventLoop,
        start: Callable[..., None],
        arguments: Tuple[Any, ...],
        priority: int,
        is_push: bool,
        timeout: Optional[float],
    ) -> Any:
        room = self._pushes if is_push else self._others
        await room.enter(priority)
        self._last += 1
        scope = _core.CallScope(timeout)
        try:
            with scope:
                start(self._inbox, self._last, *arguments)
        except BaseException:
            room.leave()
            raise
        if not self._calls:
            loop.add_reader(self._inbox.fileno(), self._take, loop)
        future = loop.create_future()
        self._calls[self._last] = future, room
        try:
            return await future
        except asyncio.CancelledError:
            scope.cancel()
            raise

    def _take(self, loop: asyncio.AbstractEventLoop) -> None:
        for call, result, error in self._inbox.take():
            future, room = self._calls.pop(call)
            room.leave()
            if future.cancelled():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        if not self._calls:
            loop.remove_reader(self._inbox.fileno())


class Coroutines:
    """The methods of a Client or KVStore as coroutines.

        array = await client.aio.pull("w")
        await asyncio.gather(*(client.aio.pull(key) for key in keys))

    Arguments, results and errors are those of the methods. `pull`, `push` and
    `push_pull` of a Client, of a server and not joined, need no thread, however
    long they wait: 32 pushes and 64 others of an event loop run at a time.
    Where their tensors are so large that they go as streams, or go to a
    cluster, and while they encode, they have one of 32 threads, and pushes of
    32 others. All other calls have as many threads too. Further ones of each
    kind wait for their turn, which comes first to those with the highest
    `priority`, where the method takes one: so many calls that wait for others
    must not wait for one that comes after them, unless that is a push.

    A task that is cancelled does not wait any more. Its call is cancelled too,
    at the server as well, and nobody knows whether it was made: `out` may be
    written, and what is pushed be read, for a moment longer. The interpreter
    does not wait for calls when it ends.
    """

    def __init__(self, target: Any, threads: Threads, pushing: Threads):
        self._target = target
        self._threads = threads
        self._pushing = pushing

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            return self.by_thread(name)

    def by_thread(self, name: str) -> Callable[..., Any]:
        """The method as a coroutine function, whose calls threads make."""
        if name.startswith("_"):
            raise AttributeError(f"{name!r} is no method to await")
        # The class is asked, since a property may be a call to the server.
        if not callable(getattr(type(self._target), name, None)):
            raise AttributeError(f"{name!r} is no method to await")
        method = getattr(self._target, name)
        threads = self._pushing if name in _PUSHES else self._threads
        place = _place_of_priority(getattr(type(self._target), name))

        @functools.wraps(method)
        async def call(*arguments: Any, **options: Any) -> Any:
            priority = options.get("priority", 0)
            if place is not None and len(arguments) > place:
                priority = arguments[place]
            bound = functools.partial(method, *arguments, **options)
            return await _made_by(threads, bound, priority)

        return call

    async def _by_thread(self, call: Callable[[], Any]) -> Any:
        """What `call` returns, which makes calls of the target."""
        return await _made_by(self._threads, call, 0)

    def __dir__(self) -> List[str]:
        names = set(super().__dir__())
        cls = type(self._target)
        names.update(n for n in dir(cls) if callable(getattr(cls, n)))
        return sorted(n for n in names if not n.startswith("_"))

    def __repr__(self) -> str:
        return f"<coroutines of {self._target!r}>"


async def _made_by(
    threads: Threads, call: Callable[[], Any], priority: int
) -> Any:
    scope = _core.CallScope()

    def make() -> Any:
        with scope:
            return call()

    bound = functools.partial(contextvars.copy_context().run, make)
    try:
        return await asyncio.wrap_future(threads.submit(bound, priority))
    except asyncio.CancelledError:
        scope.cancel()
        raise


@functools.lru_cache(maxsize=None)
def _place_of_priority(method: Callable[..., Any]) -> Optional[int]:
    """Its place among the arguments, less `self`; None where it is not one."""
    names = list(inspect.signature(method).parameters)
    return names.index("priority") - 1 if "priority" in names else None
