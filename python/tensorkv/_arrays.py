"""Arrays of any library, as the extension module takes and gives them."""

from __future__ import annotations

import operator
from typing import Any, Dict, List

import numpy as np

from tensorkv import _core
from tensorkv._types import NDArray

try:
    from numpy._core import multiarray
except ImportError:  # before NumPy 2
    from numpy.core import multiarray
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

# Dtypes that NumPy lets others define: their names here, and integers of their
# size.
_FOREIGN = {
    "bfloat16": ("bf16", np.uint16),
    "float8_e4m3fn": ("f8e4m3fn", np.uint8),
    "float8_e5m2": ("f8e5m2", np.uint8),
}
# What numpy.dtype.isbuiltin says; a dtype's name is slow to get.
_BUILTIN = 1
_REGISTERED = 2
_FOREIGN_NAMES = {short: name for name, (short, _) in _FOREIGN.items()}
_FLOAT_NAMES = {"f16", "f32", "f64", *_FOREIGN_NAMES}
_NATIVE_NAMES = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split()
_dtype_of = operator.attrgetter("dtype")


def _dtypes() -> Dict[str, Any]:
    """Dtypes by their names in the store."""
    dtypes: Dict[str, Any] = {
        f"{name[0]}{8 * int(name[1])}": np.dtype(name) for name in _NATIVE_NAMES
    }
    dtypes["bool"] = np.dtype(np.bool_)
    for short, name in _FOREIGN_NAMES.items():
        if hasattr(ml_dtypes, name):
            dtypes[short] = np.dtype(getattr(ml_dtypes, name))
    return dtypes


_core.use_numpy(multiarray._ARRAY_API, _dtypes())


def _numpy_of(value: Any) -> Any:
    """`value` with NumPy's or its own buffer protocol; its memory is shared."""
    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.partition(".")[0] == "torch":
        return _numpy_of_torch(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return value


def _numpy_of_torch(tensor: Any) -> Any:
    import torch

    tensor = tensor.detach()
    foreign = _FOREIGN.get(str(tensor.dtype).partition(".")[2])
    if foreign is None:
        return tensor.numpy()
    short, integer = foreign
    signed = torch.int16 if integer is np.uint16 else torch.int8
    return tensor.view(signed).numpy().view(integer), short


def to_core(value: Any) -> Any:
    """`value` as the extension module takes it: without a copy.

    Takes NumPy arrays, whatever has the buffer protocol, CPU tensors of
    PyTorch, and arrays with DLPack in host memory.
    """
    if type(value) is not np.ndarray:
        value = _numpy_of(value)
        if not isinstance(value, np.ndarray):
            return value
    dtype = value.dtype
    if dtype.isbuiltin == _REGISTERED and dtype.name in _FOREIGN:
        name, integer = _FOREIGN[dtype.name]
        return value.view(integer), name
    return value


def all_to_core(values: List[Any]) -> List[Any]:
    """Each as `to_core` has it."""
    # Most need no call of their own, which a thousand of them notice.
    if set(map(type, values)) == {np.ndarray}:
        dtypes = set(map(_dtype_of, values))
        if all(dtype.isbuiltin == _BUILTIN for dtype in dtypes):
            return values
    return [to_core(value) for value in values]


def is_array(value: Any) -> bool:
    """Whether `value` is one array, not a list of them."""
    return not isinstance(value, (list, tuple))


def as_numpy(value: Any) -> NDArray:
    """`value` as a NumPy array that shares its memory.

    Errors: TypeError for bfloat16 of PyTorch without the package ml_dtypes.
    """
    value = _numpy_of(value)
    if isinstance(value, tuple):  # PyTorch's bfloat16
        array, short = value
        name = _FOREIGN_NAMES[short]
        if not hasattr(ml_dtypes, name):
            raise TypeError(
                f"the array is of dtype {short}: expected the package "
                f"ml_dtypes with {name}, which is not installed"
            )
        value = array.view(getattr(ml_dtypes, name))
    return np.asarray(value if hasattr(value, "dtype") else memoryview(value))


def name_of(dtype: Any) -> str:
    """The name of a dtype in the store: "f32", "i64", "bool", ...

    Floats may have their names in the store already; "f16" is not NumPy's
    float128 then, which no store has.

    Errors: TypeError for what is no dtype of NumPy, or of the store by name.
    """
    if isinstance(dtype, str):
        if dtype in _FOREIGN:
            return _FOREIGN[dtype][0]
        if dtype in _FLOAT_NAMES:
            return dtype
    dtype = np.dtype(dtype)
    if dtype.name in _FOREIGN:
        return _FOREIGN[dtype.name][0]
    if dtype == np.bool_:
        return "bool"
    return f"{dtype.kind}{dtype.itemsize * 8}"


def dtype_name(array: NDArray) -> str:
    """The name of an array's dtype in the store."""
    return name_of(array.dtype)
