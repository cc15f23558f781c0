"""What a store takes and gives, as tensors of PyTorch."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Sequence, Tuple, Union

import torch

from tensorkv.client import Client
from tensorkv.kvstore import KVStore

Store = Union[Client, KVStore]
State = Union[torch.nn.Module, Mapping[str, torch.Tensor]]

# The keys are the store's names. What this PyTorch does not have is left out.
_DTYPES: Dict[str, torch.dtype] = {
    name: getattr(torch, attribute)
    for name, attribute in (
        ("f32", "float32"),
        ("f64", "float64"),
        ("f16", "float16"),
        ("bf16", "bfloat16"),
        ("f8e4m3fn", "float8_e4m3fn"),
        ("f8e5m2", "float8_e5m2"),
        ("i8", "int8"),
        ("u8", "uint8"),
        ("i16", "int16"),
        ("u16", "uint16"),
        ("i32", "int32"),
        ("u32", "uint32"),
        ("i64", "int64"),
        ("u64", "uint64"),
        ("bool", "bool"),
    )
    if hasattr(torch, attribute)
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def client_of(store: Store) -> Client:
    return store if isinstance(store, Client) else store.client


def dtype_of(name: str) -> torch.dtype:
    """Errors: TypeError for a dtype that this PyTorch does not have."""
    if name not in _DTYPES:
        raise TypeError(f"dtype {name}: this PyTorch does not have it")
    return _DTYPES[name]


def name_of(dtype: torch.dtype) -> str:
    """Errors: TypeError for a dtype that the store does not have."""
    if dtype not in _NAMES:
        raise TypeError(f"{dtype}: expected one of {', '.join(_DTYPES)}")
    return _NAMES[dtype]


def size_of(dtype: torch.dtype) -> int:
    """The bytes of an element."""
    return torch.empty((), dtype=dtype).element_size()


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in contiguous host memory: where they are, or a copy."""
    return tensor.detach().cpu().contiguous()


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor in f32, or in f64 where it is of that."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def moved(start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    """Returns by how much. Narrow floats would leave some of it out."""
    return wide(start) - wide(end)


def put_back(
    tensors: Iterable[torch.Tensor], on_hosts: Iterable[torch.Tensor]
) -> None:
    """Copies what on_host gave, and was changed since, into the tensors."""
    with torch.no_grad():
        for tensor, changed in zip(tensors, on_hosts):
            if tensor.data_ptr() != changed.data_ptr():
                tensor.copy_(changed)


def from_pulled(
    pulled: Tuple[Any, str, int], shape: Sequence[int]
) -> torch.Tensor:
    """A tensor over memory that the extension module has pulled."""
    memory, name, _ = pulled
    dtype = dtype_of(name)
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype).reshape(shape)


def state_of(state: State) -> Dict[str, torch.Tensor]:
    """The tensors of a module, or of a mapping of names to tensors.

    Errors: TypeError for what is neither.
    """
    if hasattr(state, "state_dict"):
        state = state.state_dict()
    if not isinstance(state, Mapping):
        raise TypeError(
            "state: expected a module, or a mapping of names to tensors, got "
            f"{type(state).__name__}"
        )
    for name, tensor in dict(state).items():
        if not isinstance(tensor, torch.Tensor):
            is_nested = isinstance(tensor, Mapping)
            raise TypeError(
                f"{name!r}: expected a tensor, got {type(tensor).__name__}"
                + ("; what is nested is to be flattened" if is_nested else "")
            )
    return dict(state)
