"""The calls of the C++ client, as tensorkv.client makes them."""

from typing import Any, Dict, List, Optional, Tuple

version: str

def use_numpy(api: Any, dtypes: Dict[str, Any]) -> None:
    """Takes numpy's _ARRAY_API, and its dtypes by their names in the store."""

class PulledArray:
    """Memory of a pulled value, with the buffer protocol."""

    @property
    def version(self) -> int: ...
    @property
    def dtype(self) -> str: ...

class CallScope:
    """Bounds the calls that a thread begins within it.

    They end by `cancel`, on any thread, and when `timeout` seconds have passed
    since it was made.
    """

    def __init__(self, timeout: Optional[float] = None) -> None: ...
    def cancel(self) -> None: ...
    def __enter__(self) -> CallScope: ...
    def __exit__(self, *_: Any) -> None: ...

class Inbox:
    """Takes what calls come to that nobody waits for.

    `fileno` can be read when there is any; `take` gives (call, result,
    exception) of each.
    """

    def __init__(self) -> None: ...
    def fileno(self) -> int: ...
    def take(
        self,
    ) -> List[Tuple[int, Any, Optional[BaseException]]]: ...

class NamespaceConfig:
    def __init__(
        self,
        *,
        mode: str,
        num_workers: int,
        max_workers: int,
        staleness: int,
        on_worker_loss: str,
        rescale_partial_rounds: bool,
        quorum: int,
        quorum_grace: float,
        max_open_rounds: int,
        aggregation: str,
        trim_fraction: float,
        mirrored: bool,
        on_non_finite: str,
        max_norm: float,
        max_call_norm: float,
        on_large_norm: str,
        budget_bytes: int,
    ) -> None: ...

class Store:
    @staticmethod
    def connect(
        address: str,
        namespace: str,
        timeout: float,
        tls_ca: str,
        tls_cert: str,
        tls_key: str,
        tls_server_name: str,
        token_file: str,
    ) -> Store: ...
    @staticmethod
    def embed(num_threads: int) -> Store: ...
    def close(self, is_lost: bool) -> None: ...
    def close_at_exit(self) -> None: ...
    def join(
        self,
        name: str,
        lease: float,
        takeover_timeout: float,
        step_timeout: float,
        rank: Optional[int],
    ) -> bool:
        """Whether a worker of that name had been lost."""

    def resume(self) -> int:
        """The step to make next of the server as it is, for a worker."""

    def init(
        self, keys: List[str], arrays: List[Any], on_existing: str, state: str
    ) -> List[int]: ...
    def push(
        self,
        keys: List[str],
        arrays: List[Any],
        step: int,
        weights: List[float],
    ) -> List[int]: ...
    def push_pull(
        self,
        keys: List[str],
        arrays: List[Any],
        outs: Optional[List[Any]],
        step: int,
        weights: List[float],
    ) -> List[Any]: ...
    def pull(
        self,
        keys: List[str],
        outs: Optional[List[Any]],
        wait: bool,
        min_version: int,
        state: str,
        dtype: str,
    ) -> List[Any]: ...
    def pull_memory(
        self, keys: List[str], wait: bool, min_version: int, dtype: str
    ) -> List[PulledArray]: ...
    def start_push(
        self,
        inbox: Inbox,
        call: int,
        keys: List[str],
        arrays: List[Any],
        step: int,
        weights: List[float],
    ) -> None: ...
    def start_push_pull(
        self,
        inbox: Inbox,
        call: int,
        keys: List[str],
        arrays: List[Any],
        outs: Optional[List[Any]],
        step: int,
        weights: List[float],
    ) -> None: ...
    def start_pull(
        self,
        inbox: Inbox,
        call: int,
        keys: List[str],
        outs: Optional[List[Any]],
        wait: bool,
        min_version: int,
        state: str,
        dtype: str,
    ) -> None: ...
    @property
    def may_start(self) -> bool: ...
    def push_rows(
        self,
        keys: List[str],
        row_ids: List[Any],
        arrays: List[Any],
        step: int,
        update_all_rows: bool,
    ) -> List[int]: ...
    def pull_rows(self, keys: List[str], row_ids: List[Any]) -> List[Any]: ...
    def set_compression(self, compression: str, min_bytes: int) -> None: ...
    def delete(self, keys: List[str], allow_missing: bool) -> int: ...
    def list(self, prefix: str) -> List[Dict[str, Any]]: ...
    def stat(
        self, keys: List[str], with_digest: bool
    ) -> List[Dict[str, Any]]: ...
    def set_rule(
        self,
        rule: str,
        hyperparameters: Dict[str, float],
        keep_master: bool,
        key_pattern: str,
    ) -> None: ...
    def set_multipliers(
        self, learning_rate: float, weight_decay: float, key_pattern: str
    ) -> None: ...
    def set_hyperparameters(
        self, hyperparameters: Dict[str, float], key_pattern: str
    ) -> None: ...
    def create_namespace(self, name: str, config: NamespaceConfig) -> bool: ...
    def describe_namespace(self, name: str) -> Dict[str, Any]: ...
    def list_namespaces(self) -> List[Dict[str, Any]]: ...
    def delete_namespace(self, name: str) -> None: ...
    def barrier(self, name: str) -> None: ...
    def save_checkpoint(
        self, name: str, namespaces: List[str]
    ) -> Dict[str, Any]: ...
    def restore_checkpoint(
        self,
        name: str,
        namespaces: List[str],
        as_namespace: str,
        on_existing: str,
    ) -> Dict[str, Any]: ...
    def list_checkpoints(self) -> List[Dict[str, Any]]: ...
    def describe_server(self) -> Dict[str, Any]: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def is_worker(self) -> bool: ...
    @property
    def has_gone_back(self) -> bool: ...
    @property
    def rank(self) -> int: ...
    @property
    def next_step(self) -> int: ...
