"""The types of coroutines: those of the methods, where mypy can derive them.

It takes a method's first overload alone, no **arguments, and no type variable.
"""

from concurrent.futures import Future
from typing import (
    Any,
    Callable,
    Coroutine,
    List,
    Optional,
    Sequence,
    TypeVar,
    Union,
    overload,
)

from tensorkv._client_arguments import Array, KeyList, Keys
from tensorkv._key_values import Key
from tensorkv._key_values import Keys as StoreKeys
from tensorkv._types import (
    At,
    KeyStatus,
    NDArray,
    OnExisting,
    Out,
    PublishAs,
    Snapshot,
)
from tensorkv._watch import Watch
from tensorkv.client import Client
from tensorkv.kvstore import KeyList as StoreKeyList
from tensorkv.kvstore import KVStore
from tensorkv.torch.publishing import Reader
from typing_extensions import Concatenate, ParamSpec

_P = ParamSpec("_P")
_R = TypeVar("_R")

MAX_CALLS: int
MAX_PUSHES: int

class Threads:
    def __init__(self, max_calls: int) -> None: ...
    def submit(
        self, call: Callable[[], _R], priority: int = 0
    ) -> Future[_R]: ...
    def close(self) -> None: ...

class Coroutines:
    def __init__(
        self, target: Any, threads: Threads, pushing: Threads
    ) -> None: ...

def _awaited(
    method: Callable[Concatenate[Any, _P], _R],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]]: ...

class ClientCoroutines(Coroutines):
    @overload
    async def init(
        self,
        key: str,
        value: Array,
        on_existing: OnExisting = "fail",
        timeout: Optional[float] = None,
    ) -> int: ...
    @overload
    async def init(
        self,
        key: KeyList,
        value: Sequence[Array],
        on_existing: OnExisting = "fail",
        timeout: Optional[float] = None,
    ) -> List[int]: ...
    @overload
    async def init(
        self,
        key: Keys,
        value: Any,
        on_existing: OnExisting = "fail",
        timeout: Optional[float] = None,
        *,
        publish_as: PublishAs,
    ) -> Snapshot: ...
    @overload
    async def push(
        self,
        key: str,
        value: Array,
        step: int = 0,
        weight: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> Optional[int]: ...
    @overload
    async def push(
        self,
        key: KeyList,
        value: Sequence[Array],
        step: int = 0,
        weight: Union[None, float, Sequence[float]] = None,
        timeout: Optional[float] = None,
    ) -> List[Optional[int]]: ...
    @overload
    async def push(
        self,
        key: Keys,
        value: Any,
        step: int = 0,
        weight: Union[None, float, Sequence[float]] = None,
        timeout: Optional[float] = None,
        *,
        publish_as: PublishAs,
    ) -> Snapshot: ...
    @overload
    async def pull(
        self,
        key: str,
        out: None = None,
        wait: bool = False,
        min_version: int = 0,
        dtype: Any = None,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> NDArray: ...
    @overload
    async def pull(
        self,
        key: KeyList,
        out: None = None,
        wait: bool = False,
        min_version: int = 0,
        dtype: Any = None,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> List[NDArray]: ...
    @overload
    async def pull(
        self,
        key: Keys,
        out: Out,
        wait: bool = False,
        min_version: int = 0,
        dtype: Any = None,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> Out: ...
    @overload
    async def push_pull(
        self,
        key: str,
        value: Array,
        out: None = None,
        step: int = 0,
        weight: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> NDArray: ...
    @overload
    async def push_pull(
        self,
        key: KeyList,
        value: Sequence[Array],
        out: None = None,
        step: int = 0,
        weight: Union[None, float, Sequence[float]] = None,
        timeout: Optional[float] = None,
    ) -> List[NDArray]: ...
    @overload
    async def push_pull(
        self,
        key: Keys,
        value: Any,
        out: Out,
        step: int = 0,
        weight: Union[None, float, Sequence[float]] = None,
        timeout: Optional[float] = None,
    ) -> Out: ...
    @overload
    async def push_rows(
        self,
        key: str,
        row_ids: Array,
        value: Array,
        step: int = 0,
        update_all_rows: bool = False,
        timeout: Optional[float] = None,
        *,
        weight: Optional[float] = None,
    ) -> Optional[int]: ...
    @overload
    async def push_rows(
        self,
        key: KeyList,
        row_ids: Sequence[Array],
        value: Sequence[Array],
        step: int = 0,
        update_all_rows: bool = False,
        timeout: Optional[float] = None,
        *,
        weight: Union[None, float, Sequence[float]] = None,
    ) -> List[Optional[int]]: ...
    @overload
    async def push_rows(
        self,
        key: Keys,
        row_ids: Any,
        value: Any,
        step: int = 0,
        update_all_rows: bool = False,
        timeout: Optional[float] = None,
        *,
        publish_as: PublishAs,
        weight: Union[None, float, Sequence[float]] = None,
    ) -> Snapshot: ...
    @overload
    async def pull_rows(
        self,
        key: str,
        row_ids: Array,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> NDArray: ...
    @overload
    async def pull_rows(
        self,
        key: KeyList,
        row_ids: Sequence[Array],
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> List[NDArray]: ...
    @overload
    async def set_state(
        self,
        key: str,
        state: str,
        value: Array,
        timeout: Optional[float] = None,
    ) -> int: ...
    @overload
    async def set_state(
        self,
        key: KeyList,
        state: str,
        value: Sequence[Array],
        timeout: Optional[float] = None,
    ) -> List[int]: ...
    @overload
    async def get_state(
        self,
        key: str,
        state: str,
        out: None = None,
        timeout: Optional[float] = None,
    ) -> NDArray: ...
    @overload
    async def get_state(
        self,
        key: KeyList,
        state: str,
        out: None = None,
        timeout: Optional[float] = None,
    ) -> List[NDArray]: ...
    @overload
    async def get_state(
        self,
        key: Keys,
        state: str,
        out: Out,
        timeout: Optional[float] = None,
    ) -> Out: ...
    @overload
    async def stat(
        self,
        key: str,
        compute_digests: bool = False,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> KeyStatus: ...
    @overload
    async def stat(
        self,
        key: KeyList,
        compute_digests: bool = False,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> List[KeyStatus]: ...
    async def set_rule(
        self,
        rule: str,
        *,
        key_pattern: str = "",
        keep_master: bool = True,
        timeout: Optional[float] = None,
        **hyperparameters: float,
    ) -> None: ...
    async def set_hyperparameters(
        self,
        *,
        key_pattern: str = "",
        timeout: Optional[float] = None,
        **hyperparameters: float,
    ) -> None: ...
    broadcast = _awaited(Client.broadcast)
    delete = _awaited(Client.delete)
    keys = _awaited(Client.keys)
    create_snapshot = _awaited(Client.create_snapshot)
    snapshots = _awaited(Client.snapshots)
    describe_snapshot = _awaited(Client.describe_snapshot)
    delete_snapshot = _awaited(Client.delete_snapshot)
    lease_snapshot = _awaited(Client.lease_snapshot)
    watch = _awaited(Client.watch)
    unset_rule = _awaited(Client.unset_rule)
    set_multipliers = _awaited(Client.set_multipliers)
    unset_multipliers = _awaited(Client.unset_multipliers)
    create_namespace = _awaited(Client.create_namespace)
    update_namespace = _awaited(Client.update_namespace)
    describe_namespace = _awaited(Client.describe_namespace)
    describe_steps = _awaited(Client.describe_steps)
    delete_namespace = _awaited(Client.delete_namespace)
    list_namespaces = _awaited(Client.list_namespaces)
    describe_server = _awaited(Client.describe_server)
    save_checkpoint = _awaited(Client.save_checkpoint)
    restore_checkpoint = _awaited(Client.restore_checkpoint)
    resume = _awaited(Client.resume)
    list_checkpoints = _awaited(Client.list_checkpoints)
    verify_checkpoint = _awaited(Client.verify_checkpoint)
    delete_checkpoint = _awaited(Client.delete_checkpoint)
    join = _awaited(Client.join)
    barrier = _awaited(Client.barrier)
    leave = _awaited(Client.leave)
    close = _awaited(Client.close)
    reconnect = _awaited(Client.reconnect)
    set_compression = _awaited(Client.set_compression)

class WatchCoroutines(Coroutines):
    begin = _awaited(Watch.begin)
    next = _awaited(Watch.next)
    wait = _awaited(Watch.wait)

class KVStoreCoroutines(Coroutines):
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
        key: StoreKeyList,
        out: None = None,
        priority: int = 0,
        ignore_sparse: bool = True,
        timeout: Optional[float] = None,
    ) -> List[NDArray]: ...
    @overload
    async def pull(
        self,
        key: StoreKeys,
        out: Out,
        priority: int = 0,
        ignore_sparse: bool = True,
        timeout: Optional[float] = None,
    ) -> Out: ...
    @overload
    async def push_pull(
        self,
        key: StoreKeys,
        value: Out,
        out: None = None,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Out: ...
    @overload
    async def push_pull(
        self,
        key: StoreKeys,
        value: Any,
        out: Out,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Out: ...
    async def broadcast(
        self,
        key: StoreKeys,
        value: Any,
        out: Out,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Out: ...
    async def row_sparse_pull(
        self,
        key: StoreKeys,
        out: Out,
        priority: int = 0,
        row_ids: Any = None,
        timeout: Optional[float] = None,
    ) -> Out: ...
    async def set_optimizer(
        self,
        optimizer: Any,
        *,
        timeout: Optional[float] = None,
        **hyperparameters: float,
    ) -> None: ...
    resume = _awaited(KVStore.resume)
    init = _awaited(KVStore.init)
    push = _awaited(KVStore.push)
    set_learning_rate = _awaited(KVStore.set_learning_rate)
    set_updater = _awaited(KVStore.set_updater)
    set_gradient_compression = _awaited(KVStore.set_gradient_compression)
    save_optimizer_states = _awaited(KVStore.save_optimizer_states)
    load_optimizer_states = _awaited(KVStore.load_optimizer_states)
    barrier = _awaited(KVStore.barrier)
    leave = _awaited(KVStore.leave)
    close = _awaited(KVStore.close)
    is_capable = _awaited(KVStore.is_capable)

class ReaderCoroutines(Coroutines):
    wait = _awaited(Reader.wait)
    fetch = _awaited(Reader.fetch)
