"""Optimizers as rules of the server.

All rules, by which a server makes the new value of what is stored and what is
pushed, with their hyperparameters and the defaults of those:

    assign        none: the value becomes what is pushed
    accumulate    scale=1: adds what is pushed, times the scale
    average       weight=1, initial_weight=0, rescale_grad=1: a running mean
    expression    those that its text names

The optimizers also have weight_decay=0, rescale_grad=1, which multiplies what
is pushed, and clip_gradient=-1, which clips that where it is not negative:

    test          learning_rate=0.01
    sgd           learning_rate=0.1, momentum=0
    nag           learning_rate=0.1, momentum=0.9
    diloco        learning_rate=0.7, momentum=0.9
    adam          learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8
    amsgrad       learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8
    adamw         learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8,
                  correct_bias=1, mxnet_form=0
    adamax        learning_rate=0.002, beta1=0.9, beta2=0.999, epsilon=1e-8
    nadam         learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8,
                  momentum_decay=0.004
    radam         learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8
    adabelief     learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6
    yogi          learning_rate=0.01, beta1=0.9, beta2=0.99, epsilon=1e-3
    adagrad       learning_rate=0.01, epsilon=1e-6
    groupadagrad  learning_rate=0.01, epsilon=1e-6
    adafactor     learning_rate=0.01, beta2_decay=0.8, epsilon1=1e-30,
                  epsilon2=1e-3, clip_threshold=1
    rmsprop       learning_rate=0.001, rho=0.9, momentum=0.9, epsilon=1e-8,
                  centered=0, clip_weights=-1
    adadelta      learning_rate=1, rho=0.9, epsilon=1e-6
    ftrl          learning_rate=0.1, lambda1=0.01, beta=1
    ftml          learning_rate=0.0025, beta1=0.6, beta2=0.999, epsilon=1e-8
    signum        learning_rate=0.01, momentum=0.9, wd_lh=0
    signsgd       learning_rate=0.01, wd_lh=0
    sgld          learning_rate=0.1
    dcasgd        learning_rate=0.1, momentum=0, lambda=0.04
    lion          learning_rate=0.0001, beta1=0.9, beta2=0.99
    lars          learning_rate=0.1, momentum=0, eta=0.001, epsilon=1e-8
    lamb          learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6,
                  lower_bound=-1, upper_bound=-1, bias_correction=1
    lans          learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6,
                  lower_bound=-1, upper_bound=-1

Their formulas are those of MXNet 2's optimizers of these names, of adamw and
radam those of PyTorch, of yogi that of FedYogi. Any optimizer may have a schedule of its learning rate:
"sgd(learning_rate=1, schedule=cosine(max_updates=1000))".

The text of an expression is a program for one element:

    expression(beta=0.9, lr=0.1): state m; m = beta*m + grad; stored -= lr*m

It reads `stored`, `grad`, which is what was pushed, `step`, its
hyperparameters, and what `state` names, which is kept from update to update and
begins at 0; it assigns by =, +=, -=, *= and /=. It has + - * / < <= > >= == !=
and abs sqrt rsqrt exp log pow min max clip sign select.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

from tensorkv.errors import InvalidArgumentError, UnimplementedError


class Rule(NamedTuple):
    """A rule of the server, as Client.set_rule takes it."""

    name: str
    hyperparameters: Dict[str, Any]
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
_MORE: Dict[str, Dict[str, float]] = {"adamw": {"mxnet_form": 1.0}}
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
    hyperparameters = _hyperparameters(values)
    hyperparameters.update(_MORE.get(name, {}))
    return Rule(name, hyperparameters, keeps_master)


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
