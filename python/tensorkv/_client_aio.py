"""The verbs of a Client as coroutines."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

from tensorkv.aio import Coroutines

_signature = functools.lru_cache(maxsize=None)(inspect.signature)


def _started(name: str, is_push: bool = False) -> Callable[..., Any]:
    """The verb of that name, with its arguments, where no thread makes it."""

    async def call(self: Coroutines, *arguments: Any, **options: Any) -> Any:
        client = self._target
        if not client._may_start(is_push or name == "push_pull"):
            return await self.by_thread(name)(*arguments, **options)
        verb = _signature(getattr(type(client), name))
        bound = verb.bind(client, *arguments, **options)
        bound.apply_defaults()
        values = dict(bound.arguments)
        del values["self"]
        priority, timeout = values.pop("priority"), values.pop("timeout")
        made = getattr(client, f"_{name}_call")(*values.values())
        return made.answer(
            await client._started.make(
                getattr(client._store, f"start_{name}"),
                *made.arguments,
                priority=priority,
                is_push=is_push,
                timeout=timeout,
            )
        )

    return call


class ClientCoroutines(Coroutines):
    """The verbs of a Client; those that a server answers take no thread."""

    push = _started("push", is_push=True)
    pull = _started("pull")
    push_pull = _started("push_pull")
