"""Arrays of which some rows are there."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from tensorkv._arrays import as_numpy
from tensorkv._types import NDArray
from tensorkv.errors import InvalidArgumentError


class RowSparseArray:
    """Rows of an array whose other rows are zero, for KVStore.push.

    Not to be derived from.

    Attributes:
      data: an array of shape [n, ...], of any float dtype or the stored one.
      indices: integers of shape [n], an array or a list: which row each of
        them is, in any order. Those of the same row are summed.
    """

    def __init__(self, data: Any, indices: Any):
        self.data = data
        self.indices = indices

    def __repr__(self) -> str:
        return f"RowSparseArray(data={self.data!r}, indices={self.indices!r})"


def row_ids_of(indices: Any) -> NDArray:
    """Indices as int64, of their shape. Errors: InvalidArgumentError."""
    is_list = isinstance(indices, (list, tuple))
    array = np.asarray(indices) if is_list else as_numpy(indices)
    if array.dtype.kind not in "iu" and (array.size or not is_list):
        raise InvalidArgumentError(
            f"row ids: expected integers, got {array.dtype}"
        )
    return np.ascontiguousarray(array, "int64")


def dense(value: Any, shape: Tuple[int, ...]) -> NDArray:
    """A value as an array; of a RowSparseArray one of that shape."""
    if not isinstance(value, RowSparseArray):
        return as_numpy(value)
    rows, data = row_ids_of(value.indices), as_numpy(value.data)
    if rows.ndim != 1 or data.shape != rows.shape + shape[1:] or not shape:
        raise InvalidArgumentError(
            f"rows: expected ids of shape [n] and data of shape [n] + "
            f"{list(shape[1:])}, got {list(rows.shape)} and {list(data.shape)}"
        )
    if rows.size and not 0 <= rows.min() <= rows.max() < shape[0]:
        raise InvalidArgumentError(
            f"row ids: expected 0 to {shape[0] - 1}, got {rows.min()} to "
            f"{rows.max()}"
        )
    array = np.zeros(shape, data.dtype)
    np.add.at(array, rows, data)
    return array
