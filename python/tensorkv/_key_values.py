"""What the arguments of a KVStore are: keys, and the arrays of each."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Sequence, Tuple, Union

import numpy as np

from tensorkv._arrays import as_numpy, dtype_name, is_array
from tensorkv._types import KeyStatus, NDArray
from tensorkv.errors import InvalidArgumentError, UnimplementedError
from tensorkv.row_sparse import RowSparseArray, row_ids_of

Key = Union[int, str]
Keys = Union[Key, Sequence[Key]]
Array = Any


def number_in(variable: str, default: int) -> int:
    """The number that an environment variable has.

    Errors: InvalidArgumentError.
    """
    text = os.environ.get(variable) or str(default)
    try:
        return int(text)
    except ValueError:
        raise InvalidArgumentError(
            f"{variable}: expected a number, got {text!r}"
        ) from None


def kind_of(key: Key) -> type:
    if isinstance(key, str):
        return str
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return int
    raise TypeError(f"key: expected an int or a str, got {key!r}")


def lists_of(key: Keys, value: Any, what: str) -> List[List[Array]]:
    """Of each key a list of arrays."""
    if not isinstance(key, (list, tuple)):
        value = [value]
    elif is_array(value) or len(value) != len(key):
        got = "an array" if is_array(value) else f"{len(value)}"
        raise InvalidArgumentError(
            f"{what}: expected a list of {len(key)}, one for each key, got "
            f"{got}"
        )
    lists = [[each] if is_array(each) else list(each) for each in value]
    if not all(lists):
        raise InvalidArgumentError(f"{what}: expected arrays, got no array")
    return lists


def first_values(key: Keys, value: Any) -> List[Array]:
    """Of each key its one array."""
    lists = lists_of(key, value, "value")
    for each in lists:
        if len(each) != 1:
            raise InvalidArgumentError(
                f"value: expected one array per key, got {len(each)}"
            )
    return [each[0] for each in lists]


def by_key(
    keys: List[str], values: List[List[Array]]
) -> Tuple[List[str], List[List[Array]]]:
    """Each key once, with all that belongs to it."""
    grouped: Dict[str, List[Array]] = {}
    for key, parts in zip(keys, values):
        grouped.setdefault(key, []).extend(parts)
    return list(grouped), list(grouped.values())


def flat(
    keys: List[str], values: List[List[Array]]
) -> Tuple[List[str], List[Array]]:
    """A key for each array."""
    if all(len(parts) == 1 for parts in values):
        return keys, [parts[0] for parts in values]
    pairs = [(k, part) for k, parts in zip(keys, values) for part in parts]
    return [key for key, _ in pairs], [part for _, part in pairs]


def have_rows(keys: List[str], values: List[List[Array]]) -> List[bool]:
    """Of each key whether rows are pushed to it."""
    if not any(type(p) is RowSparseArray for parts in values for p in parts):
        return [False] * len(keys)
    kinds: List[bool] = []
    for key, parts in zip(keys, values):
        of_parts = {type(part) is RowSparseArray for part in parts}
        if len(of_parts) > 1:
            raise InvalidArgumentError(
                f"values of key {key!r}: expected RowSparseArrays or arrays, "
                "got both"
            )
        kinds.extend(of_parts)
    return kinds


def check_no_rows(kinds: List[bool]) -> None:
    if any(kinds):
        raise UnimplementedError(
            "push_pull of a RowSparseArray: use push and row_sparse_pull"
        )


_FLOATS = ("f16", "bf16", "f8e4m3fn", "f8e5m2", "f32", "f64")


def sum_of(parts: List[Array]) -> List[Array]:
    """The sum of arrays of one shape, in f32 or f64; others as they are."""
    if len(parts) == 1 or RowSparseArray in map(type, parts):
        return parts
    arrays = [as_numpy(part) for part in parts]
    if len({array.shape for array in arrays}) > 1 or any(
        dtype_name(array) not in _FLOATS for array in arrays
    ):
        return parts
    dtype = np.result_type("float32", *(array.dtype for array in arrays))
    total = arrays[0].astype(dtype)
    for array in arrays[1:]:
        total += array.astype(dtype)
    return [total]


def ids_like(outs: List[List[Array]], row_ids: Any) -> List[List[Array]]:
    """The row ids of each out."""
    num_outs = sum(len(each) for each in outs)
    flat = [row_ids] * num_outs if is_array(row_ids) else list(row_ids)
    if len(flat) == 1:
        flat *= num_outs
    if len(flat) != num_outs:
        raise InvalidArgumentError(
            f"row_ids: expected one array, or one for each of {num_outs} outs, "
            f"got {len(flat)}"
        )
    ids = iter(flat)
    return [[next(ids) for _ in each] for each in outs]


class PullOfRows:
    """Rows of a key, and the outs that they fill."""

    def __init__(self, key: str, rows: NDArray):
        self.key = key
        self.rows = rows
        self.outs: List[NDArray] = []

    def check(self, value: NDArray) -> None:
        """Whether all outs take the rows. Errors: InvalidArgumentError."""
        last = self.rows[-1] if self.rows.size else -1
        for out in self.outs:
            if (
                (out.dtype, out.ndim) != (value.dtype, value.ndim)
                or out.shape[1:] != value.shape[1:]
                or not out.flags.writeable
                or last >= len(out)
            ):
                raise InvalidArgumentError(
                    f"out: expected to write {value.dtype} rows of shape "
                    f"{list(value.shape[1:])} up to row {max(last, 0)}, "
                    f"got {out.dtype}{list(out.shape)}"
                )

    def fill(self, value: NDArray) -> None:
        for out in self.outs:
            out[...] = 0
            out[self.rows] = value


def pulls_of_rows(
    keys: List[str], outs: List[List[Array]], ids: List[List[Array]]
) -> List[PullOfRows]:
    """One for all outs of a key that have their ids in common."""
    pulls: Dict[Tuple[str, int], PullOfRows] = {}
    for key, of_key, ids_of_key in zip(keys, outs, ids):
        for out, each in zip(of_key, ids_of_key):
            name = key, id(each)
            if name not in pulls:
                pulls[name] = PullOfRows(key, np.unique(row_ids_of(each)))
            pulls[name].outs.append(as_numpy(out))
    return list(pulls.values())


def check_like(status: KeyStatus, value: Array) -> None:
    array = as_numpy(value)
    if (status.dtype, status.shape) != (dtype_name(array), array.shape):
        raise InvalidArgumentError(
            f"value of key {status.key!r}: expected what rank 0 has, "
            f"{status.dtype}{list(status.shape)}, got "
            f"{dtype_name(array)}{list(array.shape)}"
        )
