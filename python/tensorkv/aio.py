"""Verbs that asyncio awaits."""

from __future__ import annotations

import asyncio
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

_MAX_CALLS = 32


class Coroutines:
    """The methods of a Client or KVStore as coroutines.

        array = await client.aio.pull("w")
        await asyncio.gather(*(client.aio.pull(key) for key in keys))

    Arguments, results and errors are those of the methods. Calls share 32
    threads, made when they are needed: further ones wait for their turn. What
    waits for others, as a pull with `min_version` does, has a thread as long,
    so that 32 such calls must not wait for one that comes after them.

    A task that is cancelled does not wait any more, but its call goes on until
    it ends: `out` may be written, and what is pushed be read, until then.
    """

    def __init__(self, target: Any):
        self._target = target
        self._pid = os.getpid()
        self._threads = ThreadPoolExecutor(_MAX_CALLS, "tensorkv-aio")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._target, name)
        if name.startswith("_") or not callable(method):
            raise AttributeError(f"{name!r} is no method to await")

        @functools.wraps(method)
        async def call(*arguments: Any, **options: Any) -> Any:
            bound = functools.partial(method, *arguments, **options)
            if os.getpid() != self._pid:
                return bound()  # It raises ForkedError: threads are not here.
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, bound)

        return call
