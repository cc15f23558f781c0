"""What the arguments of a Client become for the extension."""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
from typing import (
    Any,
    ContextManager,
    Iterable,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
    overload,
)

from tensorkv import _core
from tensorkv._arrays import all_to_core, name_of
from tensorkv._types import At, PublishAs

Array = Any
KeyList = Union[List[str], Tuple[str, ...]]
Keys = Union[str, Sequence[str]]


def as_list(keys: Keys, values: Any, what: str) -> Tuple[List[str], Any]:
    """Keys and what belongs to each, as lists."""
    if isinstance(keys, str):
        return [keys], [values]
    if isinstance(keys, (bytes, bytearray)):
        raise TypeError(
            f"key: expected a str or a list of them, got {type(keys).__name__}"
        )
    names: List[Any] = list(keys) if isinstance(keys, Iterable) else [keys]
    for each in set(map(type, names)):
        if not issubclass(each, str):
            raise TypeError(
                f"key: expected a str or a list of them, got {each.__name__}"
            )
    if values is not None and not isinstance(values, (list, tuple)):
        raise TypeError(f"{what}: expected a list, one for each key")
    return names, None if values is None else list(values)


def answer(key: Keys, answers: List[Any]) -> Any:
    """The answer of one key, or the list of those of several."""
    return answers[0] if isinstance(key, str) else answers


def within(timeout: Optional[float]) -> ContextManager[Any]:
    """Bounds the calls of the block by so many seconds, if they are given."""
    if timeout is None:
        return contextlib.nullcontext()
    return _core.CallScope(timeout)


@overload
def at_fields(at: At) -> _core.AtFields: ...
@overload
def at_fields(at: Optional[At]) -> Optional[_core.AtFields]: ...
def at_fields(at: Optional[At]) -> Any:
    return None if at is None else (at.series, at.number, at.at_least)


@overload
def publish_fields(wanted: PublishAs) -> _core.PublishFields: ...
@overload
def publish_fields(
    wanted: Optional[PublishAs],
) -> Optional[_core.PublishFields]: ...
def publish_fields(wanted: Optional[PublishAs]) -> Any:
    if wanted is None:
        return None
    if isinstance(wanted.prefixes, str):
        raise TypeError("prefixes: expected a list of str, got a str")
    return (
        wanted.series,
        wanted.number,
        wanted.expected_latest,
        list(wanted.prefixes),
        dict(wanted.metadata),
        wanted.time_to_live,
        wanted.keep_last,
        "" if wanted.dtype is None else name_of(wanted.dtype),
        wanted.part,
    )


def step_of(step: Any) -> int:
    """A step, from 1 on, or 0 for none."""
    number = operator.index(step)
    if number < 0:
        raise ValueError(f"step: expected no negative number, got {step}")
    return number


def weights_of(weight: Any, num_keys: int) -> List[float]:
    """A weight for each key, or none at all."""
    if weight is None:
        return []
    weights = weight
    if not isinstance(weight, (list, tuple)):
        weights = [weight] * num_keys
    if len(weights) != num_keys:
        raise ValueError(
            f"weight: expected {num_keys}, one for each key, got {len(weights)}"
        )
    if not all(
        isinstance(each, numbers.Real) and 0 <= float(each) < math.inf
        for each in weights
    ):
        raise ValueError(f"weight: expected 0 or more, got {weight}")
    return [float(each) for each in weights]


def core_outs(key: Keys, out: Any) -> Optional[List[Any]]:
    """Of each key an array, or a list of them; None where nothing is given."""
    if out is None:
        return None
    outs = as_list(key, out, "out")[1]
    types = set(map(type, outs))
    if not any(issubclass(each, (list, tuple)) for each in types):
        return all_to_core(outs)
    return [
        all_to_core(list(out) if isinstance(out, (list, tuple)) else [out])
        for out in outs
    ]
