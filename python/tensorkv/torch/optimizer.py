"""Optimizers of PyTorch that run in the store."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional

import torch

from tensorkv.errors import FailedPreconditionError, UnimplementedError
from tensorkv.kvstore import KVStore
from tensorkv.torch._tensors import on_host, put_back
from tensorkv.torch.publishing import MANIFEST


class StoreOptimizer(torch.optim.Optimizer):
    """Lets a store update the parameters, in the place of a torch.optim one.

    The store does what the optimizer would do with the mean of the workers'
    gradients, and keeps its state. Formulas are PyTorch's own: a training with
    one worker goes as it would without the store, up to rounding.

        kv = tensorkv.create("dist_sync", address=..., num_workers=4)
        optimizer = StoreOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), kv
        )
        ...
        loss.backward()
        optimizer.step()

    The groups of parameters are those of the optimizer that it stands for:
    schedulers of torch.optim.lr_scheduler may be given either, and what they
    change reaches the store with the next step of rank 0. `state` is empty;
    KVStore.save_optimizer_states saves that of the store.

    Parameters without a gradient are not updated; in a group of workers, all
    have gradients for the same ones.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        store: KVStore,
        name: str = "model",
        named_parameters: Any = (),
    ):
        """Creates the parameters in the store, and takes those of rank 0.

        Args:
          optimizer: SGD, Adam, AdamW, Adagrad, Adadelta, Adamax or RMSprop
            of torch.optim, as it is before its first step.
          store: what tensorkv.create makes.
          name: the keys are NAME/0, NAME/1, ... in the optimizer's order.
          named_parameters: of a module: then keys are NAME/PARAMETER.

        Errors: UnimplementedError for another optimizer, or an argument of it
        that no rule stands for; FailedPreconditionError where a Publisher has
        the name.
        """
        super().__init__(optimizer.param_groups, dict(optimizer.defaults))
        self._kind = type(optimizer).__name__
        self._store = store
        if store.client.keys(f"{name}/{MANIFEST}"):
            raise FailedPreconditionError(
                f"{name}/: a Publisher has this name; use another"
            )
        names = {parameter: each for each, parameter in named_parameters}
        parameters = [p for group in self.param_groups for p in group["params"]]
        self._keys = {
            parameter: f"{name}/{names.get(parameter, i)}"
            for i, parameter in enumerate(parameters)
        }
        self._pattern = f"{name}/*"
        # In a group without rounds every push is an update.
        self._scale = 1.0 if "async" in store.type else 1.0 / store.num_workers
        self._rules: List[Optional[_Rule]] = [None] * len(self.param_groups)
        self._set_rules()
        values = [on_host(parameter) for parameter in parameters]
        store.broadcast(list(self._keys.values()), values, out=values)
        put_back(parameters, values)

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Pushes the gradients, and pulls what the parameters have become.

        Returns what `closure` returns. Errors: those of KVStore.pushpull.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._set_rules()
        updated = [p for p in self._keys if p.grad is not None]
        keys = [self._keys[parameter] for parameter in updated]
        gradients = [on_host(parameter.grad) for parameter in updated]
        values = [on_host(parameter) for parameter in updated]
        if keys:
            self._store.pushpull(keys, gradients, out=values)
        put_back(updated, values)
        return loss

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Adds a group, before the first step alone."""
        if hasattr(self, "_rules"):
            raise UnimplementedError(
                "add_param_group: expected all groups before the "
                "StoreOptimizer is made"
            )
        super().add_param_group(param_group)

    def _set_rules(self) -> None:
        """Tells the store what has changed in the groups."""
        if self._store.rank != 0:
            return
        for i, group in enumerate(self.param_groups):
            rule = _rule_of(self._kind, group, self._scale)
            known, self._rules[i] = self._rules[i], rule
            if rule == known:
                continue
            for pattern in self._patterns(group):
                self._set_rule(rule, known, pattern)

    def _set_rule(
        self, rule: "_Rule", known: Optional["_Rule"], pattern: str
    ) -> None:
        client, numbers = self._store.client, rule.hyperparameters
        if known is None or known.text != rule.text:
            client.set_rule(rule.text, key_pattern=pattern, **numbers)
            return
        client.set_hyperparameters(
            key_pattern=pattern,
            **{
                name: number
                for name, number in numbers.items()
                if number != known.hyperparameters[name]
            },
        )

    def _patterns(self, group: Dict[str, Any]) -> List[str]:
        if len(self.param_groups) == 1:
            return [self._pattern]
        return [self._keys[parameter] for parameter in group["params"]]


class _Rule(NamedTuple):
    """A rule's name, or an expression, and its hyperparameters."""

    text: str
    hyperparameters: Dict[str, float]


def _rule_of(kind: str, group: Dict[str, Any], scale: float) -> _Rule:
    if kind not in _KINDS:
        raise UnimplementedError(
            f"optimizer {kind}: expected one of {', '.join(_KINDS)}"
        )
    if group.get("maximize"):
        scale = -scale
    rule = _KINDS[kind](group)
    numbers = {k: float(value) for k, value in rule.hyperparameters.items()}
    numbers["learning_rate"] = float(group["lr"])
    numbers["weight_decay"] = float(group["weight_decay"])
    if not rule.text.startswith("expression: "):
        return _Rule(rule.text, {**numbers, "rescale_grad": scale})
    text = rule.text.replace("GRADIENT", "scale * grad + weight_decay * stored")
    return _Rule(text, {**numbers, "scale": scale})


def _sgd(group: Dict[str, Any]) -> _Rule:
    if not group["momentum"]:
        return _Rule("sgd", {})
    # The learning rate is not part of what is kept, unlike in the rule `sgd`:
    # schedulers change it.
    change = "g + momentum * m" if group["nesterov"] else "m"
    return _Rule(
        "expression: state m; g = GRADIENT; "
        "m = select(step == 1, g, momentum * m + (1 - dampening) * g); "
        f"stored -= learning_rate * ({change})",
        {"momentum": group["momentum"], "dampening": group["dampening"]},
    )


def _of_adam(group: Dict[str, Any]) -> Dict[str, float]:
    beta1, beta2 = group["betas"]
    return {"beta1": beta1, "beta2": beta2, "epsilon": group["eps"]}


def _adam(group: Dict[str, Any]) -> _Rule:
    if not group["weight_decay"] and not group["amsgrad"]:
        return _Rule("adamw", _of_adam(group))
    return _Rule(_adam_text("g = GRADIENT", group), _of_adam(group))


def _adamw(group: Dict[str, Any]) -> _Rule:
    if not group["amsgrad"]:
        return _Rule("adamw", _of_adam(group))
    decay = "g = scale * grad; stored -= learning_rate * weight_decay * stored"
    return _Rule(_adam_text(decay, group), _of_adam(group))


def _adam_text(first: str, group: Dict[str, Any]) -> str:
    """Adam, after what `first` does to get the gradient g."""
    largest = group["amsgrad"]
    return (
        f"expression: state m, v{', u' if largest else ''}; {first}; "
        "m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g * g; "
        + ("u = max(u, v); " if largest else "")
        + "stored -= learning_rate / (1 - pow(beta1, step)) * m / "
        f"(sqrt({'u' if largest else 'v'}) / sqrt(1 - pow(beta2, step)) "
        "+ epsilon)"
    )


def _adagrad(group: Dict[str, Any]) -> _Rule:
    if group.get("initial_accumulator_value"):
        raise UnimplementedError(
            "optimizer Adagrad: expected an initial_accumulator_value of 0"
        )
    return _Rule(
        "expression: state h; g = GRADIENT; h += g * g; "
        "stored -= learning_rate / (1 + (step - 1) * decay) * g / "
        "(sqrt(h) + epsilon)",
        {"decay": group["lr_decay"], "epsilon": group["eps"]},
    )


def _adadelta(group: Dict[str, Any]) -> _Rule:
    return _Rule("adadelta", {"rho": group["rho"], "epsilon": group["eps"]})


def _adamax(group: Dict[str, Any]) -> _Rule:
    return _Rule(
        "expression: state m, u; g = GRADIENT; "
        "m = beta1 * m + (1 - beta1) * g; "
        "u = max(beta2 * u, abs(g) + epsilon); "
        "stored -= learning_rate / (1 - pow(beta1, step)) * m / u",
        _of_adam(group),
    )


def _rmsprop(group: Dict[str, Any]) -> _Rule:
    states = ["n"]
    text = "n = alpha * n + (1 - alpha) * g * g; "
    mean_square, change = "n", "d"
    if group["centered"]:
        states.append("a")
        text += "a = alpha * a + (1 - alpha) * g; "
        mean_square = "n - a * a"
    text += f"d = g / (sqrt({mean_square}) + epsilon); "
    numbers = {"alpha": group["alpha"], "epsilon": group["eps"]}
    if group["momentum"]:
        states.append("b")
        text += "b = momentum * b + d; "
        change = "b"
        numbers["momentum"] = group["momentum"]
    return _Rule(
        f"expression: state {', '.join(states)}; g = GRADIENT; {text}"
        f"stored -= learning_rate * {change}",
        numbers,
    )


_KINDS: Dict[str, Callable[[Dict[str, Any]], _Rule]] = {
    "SGD": _sgd,
    "Adam": _adam,
    "AdamW": _adamw,
    "Adagrad": _adagrad,
    "Adadelta": _adadelta,
    "Adamax": _adamax,
    "RMSprop": _rmsprop,
}
