from typing import Any, Dict, List, Optional, overload

from tensorkv._key_values import Key, Keys
from tensorkv._types import NDArray, Out
from tensorkv.aio import Coroutines
from tensorkv.kvstore import KeyList, Updater


class KVStoreCoroutines(Coroutines):
    """The methods of a KVStore; each call takes a thread."""

    async def resume(self) -> int: ...
    async def init(
        self,
        key: Keys,
        value: Any,
        timeout: Optional[float] = None,
    ) -> None: ...
    async def push(
        self,
        key: Keys,
        value: Any,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> None: ...
    @overload
    async def pull(
        self,
        key: Key,
        out: None = None,
        priority: int = 0,
        ignore_sparse: bool = True,
        timeout: Optional[float] = None,
    ) -> NDArray: ...
    @overload
    async def pull(
        self,
        key: KeyList,
        out: None = None,
        priority: int = 0,
        ignore_sparse: bool = True,
        timeout: Optional[float] = None,
    ) -> List[NDArray]: ...
    @overload
    async def pull(
        self,
        key: Keys,
        out: Out,
        priority: int = 0,
        ignore_sparse: bool = True,
        timeout: Optional[float] = None,
    ) -> Out: ...
    @overload
    async def pushpull(
        self,
        key: Keys,
        value: Out,
        out: None = None,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Out: ...
    @overload
    async def pushpull(
        self,
        key: Keys,
        value: Any,
        out: Out,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Out: ...
    async def broadcast(
        self,
        key: Keys,
        value: Any,
        out: Out,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Out: ...
    async def row_sparse_pull(
        self,
        key: Keys,
        out: Out,
        priority: int = 0,
        row_ids: Any = None,
        timeout: Optional[float] = None,
    ) -> Out: ...
    async def set_optimizer(
        self,
        optimizer: Any,
        **hyperparameters: float,
    ) -> None: ...
    async def set_learning_rate(self, learning_rate: float) -> None: ...
    async def set_updater(self, updater: Updater) -> None: ...
    async def set_gradient_compression(
        self,
        compression_params: Dict[str, Any],
    ) -> None: ...
    async def save_optimizer_states(
        self,
        fname: str,
        dump_optimizer: bool = False,
    ) -> None: ...
    async def load_optimizer_states(
        self,
        fname: str,
    ) -> None: ...
    async def barrier(self, timeout: Optional[float] = None) -> None: ...
