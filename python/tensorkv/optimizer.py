"""Optimizers as rules of the server."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

from tensorkv.errors import InvalidArgumentError, UnimplementedError


class Rule(NamedTuple):
    """A rule of proto/tensorkv/v1/rule.proto."""

    name: str
    hyperparameters: Dict[str, float]
    keep_master: bool = True


# What MXNet calls a hyperparameter, and what a rule does.
_ALIASES = {"lr": "learning_rate", "wd": "weight_decay"}
_COMMON = ("lr", "wd", "rescale_grad", "clip_gradient")
_ADAM = ("beta1", "beta2", "epsilon")

# The attributes of an optimizer object that its rule takes, by its class' name.
_ATTRIBUTES = {
    "sgd": ("momentum",) + _COMMON,
    "adam": _ADAM + _COMMON,
    "adamw": ("correct_bias",) + _ADAM + _COMMON,
}
# What an optimizer may have that no rule does.
_UNKNOWN_TO_RULES = ("lr_scheduler", "lr_mult", "wd_mult")


def _of_object(optimizer: Any) -> Rule:
    name = type(optimizer).__name__.lower()
    if name == "test":
        return Rule("accumulate", {"scale": float(optimizer.rescale_grad)})
    if name not in _ATTRIBUTES:
        raise UnimplementedError(
            f"optimizer {type(optimizer).__name__}: expected one of "
            f"{', '.join(_ATTRIBUTES)}, or the name of a rule with its "
            "hyperparameters"
        )
    for attribute in _UNKNOWN_TO_RULES:
        if getattr(optimizer, attribute, None):
            raise UnimplementedError(
                f"optimizer {type(optimizer).__name__}: no rule has "
                f"{attribute}; change the rate with set_learning_rate"
            )
    values = {a: getattr(optimizer, a, None) for a in _ATTRIBUTES[name]}
    keeps_master = bool(getattr(optimizer, "multi_precision", True))
    return Rule(name, _hyperparameters(values), keeps_master)


def _hyperparameters(values: Dict[str, Any]) -> Dict[str, float]:
    return {
        _ALIASES.get(name, name): float(value)
        for name, value in values.items()
        if value is not None
    }


def rule_of(optimizer: Any, **hyperparameters: Any) -> Rule:
    """The rule that does what `optimizer` does.

    Args:
      optimizer: the name of a rule, such as "sgd"; a dict of "name" and
        hyperparameters; or an object such as mxnet.optimizer.SGD(...), read by
        its attributes. `lr` and `wd` stand for learning_rate and weight_decay.

    Errors: UnimplementedError for an object that no rule stands for;
    InvalidArgumentError for what is none of these.
    """
    if isinstance(optimizer, str):
        optimizer = {"name": optimizer}
    if isinstance(optimizer, dict):
        values = {**optimizer, **hyperparameters}
        keeps_master = bool(values.pop("multi_precision", True))
        name = values.pop("name", None)
        if not isinstance(name, str):
            raise InvalidArgumentError('optimizer: expected a dict with "name"')
        return Rule(name.lower(), _hyperparameters(values), keeps_master)
    if optimizer is None or hyperparameters:
        raise InvalidArgumentError(
            "optimizer: expected a name with hyperparameters, a dict, or an "
            "object without further arguments"
        )
    return _of_object(optimizer)
