from typing import Any, Dict, List, Optional, Sequence, Union, overload

from tensorkv._client_arguments import Keys
from tensorkv._types import (
    Aggregation,
    CheckpointStatus,
    KeyStatus,
    Mode,
    NamespaceStatus,
    NDArray,
    OnExisting,
    OnExistingNamespace,
    OnLargeNorm,
    OnNonFinite,
    OnWorkerLoss,
    Out,
    ServerStatus,
)
from tensorkv.aio import Coroutines
from tensorkv._client_values import Array, KeyList


class ClientCoroutines(Coroutines):
    """The verbs of a Client; those that a server answers take no thread."""

    @overload
    async def init(
        self,
        key: str,
        value: Array,
        on_existing: OnExisting = "fail",
        state: str = "",
        timeout: Optional[float] = None,
    ) -> int: ...
    @overload
    async def init(
        self,
        key: KeyList,
        value: Sequence[Array],
        on_existing: OnExisting = "fail",
        state: str = "",
        timeout: Optional[float] = None,
    ) -> List[int]: ...
    @overload
    async def push(
        self,
        key: str,
        value: Array,
        step: int = 0,
        weight: Optional[float] = None,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Optional[int]: ...
    @overload
    async def push(
        self,
        key: KeyList,
        value: Sequence[Array],
        step: int = 0,
        weight: Union[None, float, Sequence[float]] = None,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> List[Optional[int]]: ...
    @overload
    async def pull(
        self,
        key: str,
        out: None = None,
        wait: bool = False,
        min_version: int = 0,
        state: str = "",
        dtype: Any = None,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> NDArray: ...
    @overload
    async def pull(
        self,
        key: KeyList,
        out: None = None,
        wait: bool = False,
        min_version: int = 0,
        state: str = "",
        dtype: Any = None,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> List[NDArray]: ...
    @overload
    async def pull(
        self,
        key: Keys,
        out: Out,
        wait: bool = False,
        min_version: int = 0,
        state: str = "",
        dtype: Any = None,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Out: ...
    @overload
    async def push_pull(
        self,
        key: str,
        value: Array,
        out: None = None,
        step: int = 0,
        weight: Optional[float] = None,
        priority: int = 0,
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
        priority: int = 0,
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
        priority: int = 0,
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
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Optional[int]: ...
    @overload
    async def push_rows(
        self,
        key: KeyList,
        row_ids: Sequence[Array],
        value: Sequence[Array],
        step: int = 0,
        update_all_rows: bool = False,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> List[Optional[int]]: ...
    @overload
    async def pull_rows(
        self,
        key: str,
        row_ids: Array,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> NDArray: ...
    @overload
    async def pull_rows(
        self,
        key: KeyList,
        row_ids: Sequence[Array],
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> List[NDArray]: ...
    async def broadcast(
        self,
        key: Keys,
        value: Any,
        out: Any = None,
    ) -> Any: ...
    async def delete(
        self,
        key: Keys,
        allow_missing: bool = False,
        timeout: Optional[float] = None,
    ) -> int: ...
    async def keys(
        self,
        prefix: str = "",
        timeout: Optional[float] = None,
    ) -> List[str]: ...
    @overload
    async def stat(
        self,
        key: str,
        with_digest: bool = False,
        timeout: Optional[float] = None,
    ) -> KeyStatus: ...
    @overload
    async def stat(
        self,
        key: KeyList,
        with_digest: bool = False,
        timeout: Optional[float] = None,
    ) -> List[KeyStatus]: ...
    async def set_rule(
        self,
        rule: str,
        *,
        key_pattern: str = "",
        keep_master: bool = True,
        **hyperparameters: float,
    ) -> None: ...
    async def set_multipliers(
        self,
        key_pattern: str,
        *,
        learning_rate: float = 1.0,
        weight_decay: float = 1.0,
    ) -> None: ...
    async def set_hyperparameters(
        self,
        *,
        key_pattern: str = "",
        **hyperparameters: float,
    ) -> None: ...
    async def create_namespace(
        self,
        name: str,
        *,
        mode: Mode = "async",
        num_workers: int = 0,
        max_workers: int = 0,
        staleness: int = 0,
        on_worker_loss: OnWorkerLoss = "fail",
        rescale_partial_rounds: bool = False,
        quorum: int = 0,
        quorum_grace: float = 0.0,
        max_open_rounds: int = 0,
        aggregation: Aggregation = "sum",
        trim_fraction: float = 0.0,
        mirrored: bool = False,
        on_non_finite: OnNonFinite = "apply",
        max_norm: float = 0.0,
        max_call_norm: float = 0.0,
        on_large_norm: OnLargeNorm = "clip",
        budget_bytes: int = 0,
    ) -> bool: ...
    async def describe_namespace(
        self,
        name: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> NamespaceStatus: ...
    async def delete_namespace(self, name: str) -> None: ...
    async def describe_server(
        self, timeout: Optional[float] = None
    ) -> ServerStatus: ...
    async def save_checkpoint(
        self,
        name: str = "",
        namespaces: Sequence[str] = (),
        timeout: Optional[float] = None,
    ) -> CheckpointStatus: ...
    async def restore_checkpoint(
        self,
        name: str,
        namespaces: Sequence[str] = (),
        as_namespace: str = "",
        on_existing: OnExistingNamespace = "fail",
        timeout: Optional[float] = None,
    ) -> CheckpointStatus: ...
    async def list_checkpoints(
        self, timeout: Optional[float] = None
    ) -> List[CheckpointStatus]: ...
    async def list_namespaces(self) -> List[NamespaceStatus]: ...
    async def join(
        self,
        name: str,
        *,
        lease: float = 10.0,
        takeover_timeout: float = 60.0,
        step_timeout: float = 600.0,
        rank: Optional[int] = None,
    ) -> int: ...
    async def barrier(
        self,
        name: str = "barrier",
        timeout: Optional[float] = None,
    ) -> None: ...
