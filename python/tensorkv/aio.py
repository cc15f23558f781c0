"""Verbs that asyncio awaits."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import queue
import threading
from concurrent.futures import Future
from typing import Any, Callable, Dict, Tuple

from tensorkv import _core

_MAX_CALLS = 32
# Of one event loop: a server takes 128 calls of a connection at a time, and
# those that wait must not keep all others out.
_MAX_STARTED = 64


class Threads:
    """Makes up to 32 calls at a time, on threads made when they are needed.

    They are daemons: the interpreter ends without waiting for their calls.
    Thread-safe. In a forked child, and once closed, callers make their calls
    themselves.
    """

    def __init__(self):
        self._pid = os.getpid()
        self._calls: queue.SimpleQueue = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._count = 0
        self._is_closed = False

    def submit(self, call: Callable[[], Any]) -> Future:
        future: Future = Future()
        # The lock of a forked child may be held for ever.
        if os.getpid() == self._pid:
            with self._lock:
                if not self._is_closed:
                    self._enqueue(future, call)
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
                    self._calls.put(None)
            self._is_closed = True

    def __del__(self):
        self.close()

    def _enqueue(self, future: Future, call: Callable[[], Any]) -> None:
        if self._count < _MAX_CALLS and not self._idle.acquire(False):
            threading.Thread(
                target=_serve,
                args=(self._calls, self._idle),
                name=f"tensorkv-aio_{self._count}",
                daemon=True,
            ).start()
            self._count += 1
        self._calls.put((future, call))


def _serve(calls: queue.SimpleQueue, idle: threading.Semaphore) -> None:
    # This has no reference to the Threads, which end with their owner.
    for future, call in iter(calls.get, None):
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

    async def make(self, start: Callable[..., None], *arguments: Any) -> Any:
        """Awaits what `start(inbox, call, *arguments)` begins."""
        loop = asyncio.get_running_loop()
        with self._lock:
            ends = self._ends.get(loop)
            if ends is None:
                # Loops that were closed take nothing any more.
                for each in [each for each in self._ends if each.is_closed()]:
                    del self._ends[each]
                ends = self._ends[loop] = _Ends()
        return await ends.wait_for(loop, start, arguments)


class _Ends:
    """The ends of the calls of one event loop, on whose thread this is used."""

    def __init__(self):
        self._inbox = _core.Inbox()
        self._futures: Dict[int, asyncio.Future] = {}
        self._last = 0
        self._room = asyncio.Semaphore(_MAX_STARTED)

    async def wait_for(
        self,
        loop: asyncio.AbstractEventLoop,
        start: Callable[..., None],
        arguments: Tuple[Any, ...],
    ) -> Any:
        await self._room.acquire()
        self._last += 1
        try:
            start(self._inbox, self._last, *arguments)
        except BaseException:
            self._room.release()
            raise
        if not self._futures:
            loop.add_reader(self._inbox.fileno(), self._take, loop)
        future = self._futures[self._last] = loop.create_future()
        return await future

    def _take(self, loop: asyncio.AbstractEventLoop) -> None:
        for call, result, error in self._inbox.take():
            self._room.release()
            future = self._futures.pop(call)
            if future.cancelled():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        if not self._futures:
            loop.remove_reader(self._inbox.fileno())


class Coroutines:
    """The methods of a Client or KVStore as coroutines.

        array = await client.aio.pull("w")
        await asyncio.gather(*(client.aio.pull(key) for key in keys))

    Arguments, results and errors are those of the methods. `pull`, `push` and
    `push_pull` of a Client, of a server and not joined, need no thread, however
    long they wait: 64 of an event loop run at a time. Where their tensors are so
    large that they go as streams, or go to a cluster, and while they encode,
    they have one of 32 threads. All other calls share 32 threads too. Further
    ones of each kind wait for their turn: so many calls that wait for others
    must not wait for one that comes after them.

    A task that is cancelled does not wait any more, but its call goes on until
    it ends: `out` may be written, and what is pushed be read, until then. The
    interpreter does not wait for it when it ends.
    """

    def __init__(self, target: Any, threads: Threads):
        self._target = target
        self._threads = threads

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self.by_thread(name)

    def by_thread(self, name: str) -> Callable[..., Any]:
        """The method as a coroutine function that has a thread make the call."""
        if name.startswith("_"):
            raise AttributeError(f"{name!r} is no method to await")
        # The class is asked, since a property may be a call to the server.
        if not callable(getattr(type(self._target), name, None)):
            raise AttributeError(f"{name!r} is no method to await")
        method = getattr(self._target, name)

        @functools.wraps(method)
        async def call(*arguments: Any, **options: Any) -> Any:
            run = contextvars.copy_context().run
            bound = functools.partial(run, method, *arguments, **options)
            return await asyncio.wrap_future(self._threads.submit(bound))

        return call
