"""Optimizers as rules of the server."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

from tensorkv.errors import InvalidArgumentError, UnimplementedError


class Rule(NamedTuple):
    """A rule of the server, as Client.set_rule takes it."""

    name: str
    hyperparameters: Dict[str, float]
    keep_master: bool = True


# What MXNet calls a hyperparameter, and what a rule does.
_ALIASES = {
    "lr": "learning_rate",
    "wd": "weight_decay",
    "lamda": "lambda",
    "lamda1": "lambda1",
    "schedule_decay": "momentum_decay",
}
_COMMON = ("lr", "wd", "rescale_grad", "clip_gradient")
_ADAM = ("beta1", "beta2", "epsilon")

# The attributes of an optimizer object that its rule takes besides _COMMON, by
# the name of its class, which is the rule's.
_ATTRIBUTES = {
    "sgd": ("momentum",),
    "nag": ("momentum",),
    "adam": _ADAM,
    "adamw": ("correct_bias",) + _ADAM,
    "adamax": _ADAM,
    "nadam": ("schedule_decay",) + _ADAM,
    "adabelief": _ADAM,
    "adagrad": ("epsilon",),
    "rmsprop": ("rho", "momentum", "epsilon", "centered", "clip_weights"),
    "adadelta": ("rho", "epsilon"),
    "ftrl": ("lamda1", "beta"),
    "ftml": _ADAM,
    "signum": ("momentum", "wd_lh"),
    "sgld": (),
    "dcasgd": ("momentum", "lamda"),
    "lamb": ("lower_bound", "upper_bound", "bias_correction") + _ADAM,
    "lans": ("lower_bound", "upper_bound") + _ADAM,
}
# What a rule needs besides to have MXNet's formula.
_MORE = {"adamw": {"mxnet_form": 1.0}}
# What an optimizer may have that is not translated, and what does it here.
_UNTRANSLATED = {
    "lr_scheduler": "a schedule, as in 'sgd(schedule=cosine(max_updates=9))'",
    "lr_mult": "tensorkv.Client.set_multipliers",
    "wd_mult": "tensorkv.Client.set_multipliers",
}


def _of_object(optimizer: Any) -> Rule:
    kind = type(optimizer).__name__
    name = kind.lower()
    if name == "test":
        return Rule("accumulate", {"scale": float(optimizer.rescale_grad)})
    if name not in _ATTRIBUTES:
        raise UnimplementedError(
            f"optimizer {kind}: expected one of {', '.join(_ATTRIBUTES)}, or "
            "the name of a rule with its hyperparameters"
        )
    for attribute, instead in _UNTRANSLATED.items():
        if getattr(optimizer, attribute, None):
            raise UnimplementedError(
                f"optimizer {kind}: {attribute} is not translated; use "
                f"{instead}"
            )
    attributes = _ATTRIBUTES[name] + _COMMON
    values = {a: getattr(optimizer, a, None) for a in attributes}
    keeps_master = bool(getattr(optimizer, "multi_precision", True))
    return Rule(
        name, {**_hyperparameters(values), **_MORE.get(name, {})}, keeps_master
    )


def _hyperparameters(values: Dict[str, Any]) -> Dict[str, float]:
    return {
        _ALIASES.get(name, name): float(value)
        for name, value in values.items()
        if value is not None
    }


def rule_of(optimizer: Any, **hyperparameters: Any) -> Rule:
    """The rule that does what `optimizer` does.

    Args:
      optimizer: the name of a rule, such as "sgd", or its text, as
        tensorkv.Client.set_rule takes it; a dict of "name" and hyperparameters;
        or an object such as mxnet.optimizer.SGD(...), read by its attributes.
        `lr` and `wd` stand for learning_rate and weight_decay.

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
        return Rule(name, _hyperparameters(values), keeps_master)
    if optimizer is None or hyperparameters:
        raise InvalidArgumentError(
            "optimizer: expected a name with hyperparameters, a dict, or an "
            "object without further arguments"
        )
    return _of_object(optimizer)
