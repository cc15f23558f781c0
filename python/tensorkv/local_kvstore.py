"""Stores in the process of their one worker."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, Optional

from tensorkv._key_values import (
    Array,
    Key,
    Keys,
    check_no_rows,
    first_values,
    have_rows,
    lists_of,
)
from tensorkv.client import Client
from tensorkv.compression import encoding_of
from tensorkv.errors import InvalidArgumentError, UnimplementedError
from tensorkv.kvstore import KVStore, Updater
from tensorkv.row_sparse import dense


class LocalKVStore(KVStore):
    """A store in this process, for the arrays of one worker."""

    def __init__(self, kind: str, num_threads: int = 0):
        super().__init__(kind, Client.embedded(num_threads))
        self._updater: Optional[Callable[[Key, Any, Any], None]] = None
        # Held while an updater runs.
        self._updating = threading.RLock()

    def init(
        self, key: Keys, value: Any, timeout: Optional[float] = None
    ) -> None:
        self._client.init(
            self._keys(key), first_values(key, value), timeout=timeout
        )

    def push(
        self,
        key: Keys,
        value: Any,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> None:
        keys, values = self._contributions(key, value)
        updater = self._updater
        if updater is not None:
            with self._updating:
                self._update(updater, keys, values)
            return
        kinds = have_rows(keys, values)
        for has_rows in sorted(set(kinds)):
            at = [i for i, kind in enumerate(kinds) if kind == has_rows]
            now = [keys[i] for i in at]
            self._send(now, [values[i] for i in at], has_rows)

    def push_pull(
        self,
        key: Keys,
        value: Any,
        out: Any = None,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Any:
        values = lists_of(key, value, "value")
        check_no_rows(have_rows(self._keys(key), values))
        self.push(key, value)
        return self.pull(key, value if out is None else out)

    def set_updater(
        self, updater: Updater, timeout: Optional[float] = None
    ) -> None:
        with self._updating:
            if callable(updater):
                if self._compresses:
                    raise _no_updater_of_compressed()
                self._client.set_rule("assign", timeout=timeout)
                self._updater = updater
            else:
                super().set_updater(updater, timeout)
                self._updater = None

    def set_optimizer(
        self,
        optimizer: Any,
        *,
        timeout: Optional[float] = None,
        **hyperparameters: float,
    ) -> None:
        with self._updating:
            super().set_optimizer(optimizer, timeout=timeout, **hyperparameters)
            self._updater = None

    def set_gradient_compression(
        self, compression_params: Dict[str, Any]
    ) -> None:
        if "device" not in self.type:
            raise UnimplementedError(
                f"set_gradient_compression of {self.type}: expected a store of "
                "devices or of a server"
            )
        with self._updating:
            compression = encoding_of(compression_params).compression
            if self._updater is not None and compression != "none":
                raise _no_updater_of_compressed()
            super().set_gradient_compression(compression_params)

    def _update(
        self,
        updater: Callable[[Key, Any, Any], None],
        keys: List[str],
        values: List[List[Array]],
    ) -> None:
        kind = int if self._key_kind is int else str
        stored = self._client.pull(keys)
        for key, parts, value in zip(keys, values, stored):
            merged = dense(parts[0], value.shape)
            for part in parts[1:]:
                merged = merged + dense(part, value.shape)
            if merged.shape != value.shape:
                raise InvalidArgumentError(
                    f"value of key {key!r}: expected the shape {value.shape}, "
                    f"got {merged.shape}"
                )
            updater(kind(key), merged, value)
        self._client.push(keys, stored)


def _no_updater_of_compressed() -> UnimplementedError:
    return UnimplementedError(
        "a function as updater and gradient compression: expected one of them, "
        "or an expression as updater"
    )
