"""Files of named arrays in the safetensors format: JSON, then elements."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Dict, Union

import numpy as np

from tensorkv._types import NDArray
from tensorkv.errors import InvalidArgumentError

_DTYPES = {"F32": "<f4", "F64": "<f8", "U64": "<u8"}
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
_HEADER_ALIGNMENT = 8

Path = Union[str, "os.PathLike[str]"]


def save_file(path: Path, tensors: Dict[str, NDArray]) -> None:
    """Writes arrays of the dtypes that states have.

    A file that was there stays until the new one is whole.
    """
    header: Dict[str, Any] = {}
    end = 0
    for name, array in tensors.items():
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _HEADER_ALIGNMENT)
    partial = f"{os.fspath(path)}.partial"
    try:
        with open(partial, "wb") as file:
            file.write(len(text).to_bytes(8, "little"))
            file.write(text)
            for array in tensors.values():
                file.write(np.ascontiguousarray(array).tobytes())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(partial)
        raise


def load_file(path: Path) -> Dict[str, NDArray]:
    """Reads what save_file has written."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        return _parse(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgumentError(
            f"{path}: expected a safetensors file of states: {error!r}"
        ) from error


def _parse(content: bytes) -> Dict[str, NDArray]:
    header_bytes = int.from_bytes(content[:8], "little")
    if len(content) < 8 + header_bytes:
        raise ValueError("the file ends within its header")
    header = json.loads(content[8 : 8 + header_bytes])
    data = content[8 + header_bytes :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if not 0 <= begin <= end <= len(data):
            raise ValueError(f"{name}: its elements are not in the file")
        array = np.frombuffer(data[begin:end], _DTYPES[entry["dtype"]])
        tensors[name] = array.reshape(entry["shape"])
    return tensors
