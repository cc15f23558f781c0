"""The verbs of a Client as coroutines."""

from __future__ import annotations

from typing import Any

from tensorkv._arrays import all_to_core, name_of
from tensorkv._client_arguments import Keys, as_list, core_outs, weights_of
from tensorkv.aio import Coroutines


class ClientCoroutines(Coroutines):
    """The verbs of a Client; those that a server answers take no thread."""

    async def push(
        self,
        key: Keys,
        value: Any,
        step: int = 0,
        weight: Any = None,
        priority: int = 0,
    ) -> Any:
        client = self._target
        if not client._store.may_start:
            return await self.by_thread("push")(
                key, value, step, weight, priority
            )
        keys, values = as_list(key, value, "value")
        versions = await client._started.make(
            client._store.start_push,
            keys,
            all_to_core(values),
            step,
            weights_of(weight, len(keys)),
            priority=priority,
            is_push=True,
        )
        return client._answer(key, versions)

    async def pull(
        self,
        key: Keys,
        out: Any = None,
        wait: bool = False,
        min_version: int = 0,
        state: str = "",
        dtype: Any = None,
        priority: int = 0,
    ) -> Any:
        client = self._target
        if not client._store.may_start:
            return await self.by_thread("pull")(
                key, out, wait, min_version, state, dtype, priority
            )
        keys, outs = as_list(key, out, "out")
        pulled = await client._started.make(
            client._store.start_pull,
            keys,
            None if out is None else core_outs(outs),
            wait,
            min_version,
            state,
            "" if dtype is None else name_of(dtype),
            priority=priority,
        )
        return client._answer(key, pulled) if out is None else out

    async def push_pull(
        self,
        key: Keys,
        value: Any,
        out: Any = None,
        step: int = 0,
        weight: Any = None,
        priority: int = 0,
    ) -> Any:
        client = self._target
        if not client._store.may_start:
            return await self.by_thread("push_pull")(
                key, value, out, step, weight, priority
            )
        keys, values = as_list(key, value, "value")
        outs = None
        if out is not None:
            outs = core_outs(as_list(key, out, "out")[1])
        pulled = await client._started.make(
            client._store.start_push_pull,
            keys,
            all_to_core(values),
            outs,
            step,
            weights_of(weight, len(keys)),
            priority=priority,
        )
        return client._answer(key, pulled) if out is None else out
