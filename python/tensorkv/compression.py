"""Parameters of gradient compression as the client's encodings."""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple

from tensorkv.errors import InvalidArgumentError, UnimplementedError


class Encoding(NamedTuple):
    """What tensorkv.Client.set_compression takes."""

    compression: str
    min_bytes: int


# The encodings by the names that MXNet and BytePS have for them.
_TYPES = {
    "none": "none",
    "2bit": "2bit",
    "1bit": "1bit",
    "onebit": "sign",
    "topk": "topk",
    "randomk": "randomk",
    "dithering": "dithering",
    "fp16": "f16",
    "bf16": "bf16",
    "fp8": "f8e4m3fn:128",
    "float8_e5m2": "f8e5m2:128",
    "int8": "i8",
}
# The parameter that is an encoding's number.
_NUMBERS = {
    "2bit": "threshold",
    "1bit": "threshold",
    "topk": "k",
    "randomk": "k",
    "dithering": "bits",
    "f8e4m3fn:128": "block_size",
    "f8e5m2:128": "block_size",
    "i8": "block_size",
}


def encoding_of(params: Dict[str, Any]) -> Encoding:
    """The encoding that KVStore.set_gradient_compression is asked for.

    Errors: TypeError for what is no dict; InvalidArgumentError for one without
    "type", and for parameters that its type does not have; UnimplementedError
    for "onebit" without scaling. Whether numbers make sense the store checks.
    """
    if not isinstance(params, dict):
        raise TypeError(
            "compression_params: expected a dict, got "
            f"{type(params).__name__}"
        )
    left = dict(params)
    name = left.pop("type", None) or left.pop("compressor", None)
    if not isinstance(name, str) or name not in _TYPES:
        raise InvalidArgumentError(
            f'compression_params: expected a "type" of {", ".join(_TYPES)}, '
            f"got {name!r}"
        )
    text = _TYPES[name]
    min_bytes = left.pop("min_bytes", 0)
    if not isinstance(min_bytes, int) or min_bytes < 0:
        raise InvalidArgumentError(
            f"min_bytes: expected a number of bytes, got {min_bytes!r}"
        )
    number = left.pop(_NUMBERS.get(text, ""), None)
    if number is not None:
        text = f"{text.partition(':')[0]}:{_number(number)}"
    text += _options(name, left)
    if left:
        raise InvalidArgumentError(
            f"compression_params of {name}: unknown {', '.join(map(str, left))}"
        )
    return Encoding(text, min_bytes)


def _options(name: str, left: Dict[str, Any]) -> str:
    """What follows an encoding's number; takes it from `left`."""
    text = ""
    if name == "dithering":
        levels = {"linear": "", "natural": ",natural"}
        text += _choice(left, "partition", levels)
        text += _choice(left, "normalize", {"max": "", "l2": ",l2"})
    if name == "onebit" and not left.pop("scaling", True):
        raise UnimplementedError(
            "compression_params of onebit: without scaling it is 1bit with a "
            "threshold of 0"
        )
    if name == "none":
        return text
    if "ef" in left:
        feedback = {"vanilla": ",feedback", None: ",no-feedback"}
        text += _choice(left, "ef", feedback)
    if left.get("momentum") == "nesterov":
        del left["momentum"]
        text += f",momentum={_number(left.pop('mu', 0.9))}"
    return text


def _choice(
    left: Dict[str, Any], name: str, choices: Mapping[Any, str]
) -> str:
    choice = left.pop(name, next(iter(choices)))
    if choice not in choices:
        raise InvalidArgumentError(
            f"{name}: expected one of {', '.join(map(str, choices))}, got "
            f"{choice!r}"
        )
    return choices[choice]


def _number(value: Any) -> str:
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise InvalidArgumentError(
            f"compression_params: expected a number, got {value!r}"
        )
    return repr(float(value))
