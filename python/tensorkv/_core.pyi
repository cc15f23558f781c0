# What the extension module has. Where a list is of arrays, they are as
# _arrays.to_core gives them; dicts have the fields of the dataclasses of _types.

from typing import Any, Dict, List, Optional, Tuple

# The fields of an At, and those of a PublishAs.
AtFields = Tuple[str, Optional[int], Optional[int]]
PublishFields = Tuple[
    str,
    Optional[int],
    Optional[int],
    List[str],
    Dict[str, str],
    Optional[float],
    Optional[int],
    str,
    Optional[Tuple[int, int]],
]
_Fields = Dict[str, Any]

version: str

def use_numpy(array_api: Any, dtypes: Dict[str, Any]) -> None: ...

class CallScope:
    def __init__(self, timeout: Optional[float] = None) -> None: ...
    def __enter__(self) -> CallScope: ...
    def __exit__(self, *args: Any) -> None: ...
    def cancel(self) -> None: ...

class ChangeReader:
    def __init__(self) -> None: ...
    def clear(self) -> None: ...
    @property
    def bytes(self) -> int: ...

class ChangeWriter:
    def __init__(self) -> None: ...
    def clear(self) -> None: ...
    @property
    def bytes(self) -> int: ...

class Store:
    @staticmethod
    def connect(
        target: str,
        namespace: str,
        timeout: float,
        tls_ca: str,
        tls_cert: str,
        tls_key: str,
        tls_server_name: str,
        token_file: str,
        /,
    ) -> Store: ...
    @staticmethod
    def embed(num_threads: int, /) -> Store: ...
    def close(self, is_lost: bool, /) -> None: ...
    def close_at_exit(self) -> None: ...
    def join(
        self,
        name: str,
        lease: float,
        takeover_timeout: float,
        step_timeout: float,
        rank: Optional[int],
        /,
    ) -> bool: ...
    def resume(self) -> int: ...
    def init(
        self,
        keys: List[str],
        values: List[Any],
        on_existing: str,
        publish_as: Optional[PublishFields],
        /,
    ) -> Any: ...
    def push(
        self,
        keys: List[str],
        values: List[Any],
        step: int,
        weights: List[float],
        publish_as: Optional[PublishFields],
        /,
    ) -> Any: ...
    def push_changes(
        self,
        keys: List[str],
        values: List[Any],
        publish_as: PublishFields,
        changes: ChangeWriter,
        /,
    ) -> Any: ...
    def push_as(
        self,
        rank: int,
        keys: List[str],
        values: List[Any],
        step: int,
        weights: List[float],
        /,
    ) -> None: ...
    def push_pull(
        self,
        keys: List[str],
        values: List[Any],
        outs: Optional[List[Any]],
        step: int,
        weights: List[float],
        /,
    ) -> List[Any]: ...
    def pull(
        self,
        keys: List[str],
        outs: Optional[List[Any]],
        wait: bool,
        min_version: int,
        dtype: str,
        at: Optional[AtFields],
        /,
    ) -> List[Any]: ...
    def pull_memory(
        self,
        keys: List[str],
        dtype: str,
        at: AtFields,
        changes: Optional[ChangeReader],
        /,
    ) -> List[Tuple[Any, str, int]]: ...
    def push_rows(
        self,
        keys: List[str],
        row_ids: List[Any],
        values: List[Any],
        step: int,
        update_all_rows: bool,
        weights: List[float],
        publish_as: Optional[PublishFields],
        /,
    ) -> Any: ...
    def pull_rows(
        self, keys: List[str], row_ids: List[Any], at: Optional[AtFields], /
    ) -> List[Any]: ...
    def set_state(
        self, keys: List[str], state: str, values: List[Any], /
    ) -> List[int]: ...
    def get_state(
        self, keys: List[str], state: str, outs: Optional[List[Any]], /
    ) -> List[Any]: ...
    def set_compression(self, compression: str, min_bytes: int, /) -> None: ...
    def delete(self, keys: List[str], allow_missing: bool, /) -> int: ...
    def list(self, prefix: str, at: Optional[AtFields], /) -> List[_Fields]: ...
    def stat(
        self, keys: List[str], compute_digests: bool, at: Optional[AtFields], /
    ) -> List[_Fields]: ...
    def set_rule(
        self,
        rule: str,
        hyperparameters: Dict[str, float],
        keep_master: bool,
        key_pattern: str,
        /,
    ) -> None: ...
    def unset_rule(self, key_pattern: str, /) -> None: ...
    def set_multipliers(
        self, learning_rate: float, weight_decay: float, key_pattern: str, /
    ) -> None: ...
    def unset_multipliers(self, key_pattern: str, /) -> None: ...
    def set_hyperparameters(
        self, hyperparameters: Dict[str, float], key_pattern: str, /
    ) -> None: ...
    def create_snapshot(self, wanted: PublishFields, /) -> _Fields: ...
    def watch(
        self,
        prefix: Optional[str],
        key: Optional[str],
        series: Optional[str],
        initial: bool,
        token: bytes,
        interval: float,
        max_wait: float,
        /,
    ) -> Tuple[List[Tuple[Any, ...]], bytes]: ...
    def list_snapshots(self, series_prefix: str, /) -> List[_Fields]: ...
    def describe_snapshot(self, at: AtFields, /) -> _Fields: ...
    def delete_snapshot(self, series: str, number: Optional[int], /) -> int: ...
    def lease_snapshot(self, at: AtFields, lease: str, duration: float, /) -> int: ...
    def create_namespace(
        self, name: str, config: _Fields, on_existing: str, /
    ) -> None: ...
    def update_namespace(self, name: str, changes: _Fields, /) -> None: ...
    def describe_namespace(self, name: str, /) -> _Fields: ...
    def describe_steps(
        self, newest: int, first_step: int, last_step: int, /
    ) -> List[_Fields]: ...
    def list_namespaces(self) -> List[_Fields]: ...
    def delete_namespace(self, name: str, /) -> None: ...
    def barrier(self, name: str, /) -> None: ...
    def save_checkpoint(
        self, name: str, namespaces: List[str], /
    ) -> _Fields: ...
    def restore_checkpoint(
        self,
        name: str,
        namespaces: List[str],
        as_namespace: str,
        on_existing: str,
        /,
    ) -> _Fields: ...
    def list_checkpoints(self) -> List[_Fields]: ...
    def verify_checkpoint(self, name: str, /) -> _Fields: ...
    def delete_checkpoint(self, name: str, /) -> None: ...
    def describe_server(self) -> _Fields: ...
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
    @property
    def last_dropped_step(self) -> int: ...
