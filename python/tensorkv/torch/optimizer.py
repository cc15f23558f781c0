"""Optimizers of PyTorch that run in the store."""

from __future__ import annotations

from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Tuple,
    Union,
)

import torch

from tensorkv.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnimplementedError,
)
from tensorkv.federated import ServerOptimizer
from tensorkv.kvstore import KVStore
from tensorkv.optimizer import Rule
from tensorkv.torch._tensors import on_host, put_back
from tensorkv.torch.publishing import has_publisher


class StoreOptimizer(torch.optim.Optimizer):
    """Lets a store update the parameters, in the place of a torch.optim one.

    The store does what the optimizer would do with the mean of the workers'
    gradients, and keeps its state. Formulas are PyTorch's own: a training with
    one worker goes as it would without the store, up to rounding.

        kv = tensorkv.create("dist_sync", target=..., num_workers=4)
        optimizer = StoreOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), kv
        )
        ...
        loss.backward()
        optimizer.step()

    The groups of parameters are those of the optimizer that it stands for:
    schedulers of torch.optim.lr_scheduler may be given either, and what they
    change reaches the store with the next step of rank 0; one that is made with
    the StoreOptimizer gives no warning that it is stepped first. `state` is
    empty, and state_dict() has no momentum: KVStore.save_optimizer_states saves
    that of the store.

    Parameters without a gradient are not updated. In a group of workers:

    - All have gradients for the same parameters in a step, and make as many
      steps; else the others wait until the store's step_timeout. So
      torch.cuda.amp.GradScaler, which skips the steps of a worker whose own
      gradients overflow, is for a single worker.
    - torch.nn.utils.clip_grad_norm_ clips the gradients of a worker, not their
      mean.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        store: KVStore,
        name: str = "model",
        named_parameters: Iterable[Tuple[str, torch.Tensor]] = (),
    ):
        """Creates the parameters in the store, and takes those of rank 0.

        Args:
          optimizer: SGD, Adam, AdamW, Adagrad, Adadelta, Adamax or RMSprop
            of torch.optim itself, as it is before its first step.
          store: what tensorkv.create makes.
          name: the keys are NAME/0, NAME/1, ... in the optimizer's order; with
            several groups of parameters NAME/GROUP/0, and so on.
          named_parameters: of a module: then keys end with these names.

        A worker that has come back takes what the store has.

        Errors: AlreadyExistsError where the keys are those of an earlier run;
        UnimplementedError for another optimizer, an argument of it that
        no rule stands for, or one that has made steps; InvalidArgumentError for
        names of some parameters that are those of others;
        FailedPreconditionError where a Publisher has the name.
        """
        super().__init__(optimizer.param_groups, dict(optimizer.defaults))
        _check_has_no_state(optimizer.state.values())
        self._kind = type(optimizer)
        self._store = store
        if has_publisher(store.client, name):
            raise FailedPreconditionError(
                f"{name}/: a Publisher has this name; use another"
            )
        # Each group has a folder, so that one call changes its learning rate.
        self._folders = [
            name if len(self.param_groups) == 1 else f"{name}/{i}"
            for i in range(len(self.param_groups))
        ]
        self._keys = self._name_keys(dict(named_parameters))
        parameters = list(self._keys)
        # In a group without rounds every push is an update.
        self._scale = 1.0 if "async" in store.type else 1.0 / store.num_workers
        self._rules: List[Optional[_Rule]] = [None] * len(self.param_groups)
        # Not one rule is to change for a run that may not begin.
        store._check_new(list(self._keys.values()))
        self._set_rules()
        values = [on_host(parameter) for parameter in parameters]
        store.broadcast(list(self._keys.values()), values, out=values)
        put_back(parameters, values)

    def _name_keys(
        self, named_parameters: Dict[str, torch.Tensor]
    ) -> Dict[torch.Tensor, str]:
        names = {each: name for name, each in named_parameters.items()}
        places = [
            (folder, parameter)
            for folder, group in zip(self._folders, self.param_groups)
            for parameter in group["params"]
        ]
        keys = {
            parameter: f"{folder}/{names.get(parameter, i)}"
            for i, (folder, parameter) in enumerate(places)
        }
        if len(set(keys.values())) < len(keys):
            raise InvalidArgumentError(
                "named_parameters: expected a name for each parameter, or none"
            )
        return keys

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Pushes the gradients, and pulls what the parameters have become.

        Returns what `closure` returns. Errors: UnimplementedError for sparse
        gradients, before any is pushed; those of KVStore.push_pull.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        updated = {p: p.grad for p in self._keys if p.grad is not None}
        for parameter, gradient in updated.items():
            if gradient.layout != torch.strided:
                raise UnimplementedError(
                    f"gradient of {self._keys[parameter]!r}: expected a dense "
                    f"one, got {gradient.layout}: keep such a table in the "
                    "store alone, by pull_rows and push_rows of its client"
                )
        self._set_rules()
        keys = [self._keys[parameter] for parameter in updated]
        gradients = [on_host(gradient) for gradient in updated.values()]
        values = [on_host(parameter) for parameter in updated]
        if keys:
            self._store.push_pull(keys, gradients, out=values)
        put_back(updated, values)
        return loss

    def resume(self) -> int:
        """The step to make next, by KVStore.resume, with its parameters.

        For a worker that has come back, and where the server was restarted from
        a checkpoint, which `step` tells by an error as KVStore.push_pull does:
        tensorkv.DistKVStore has the loop.
        """
        step = self._store.resume()
        parameters = list(self._keys)
        values = [on_host(parameter) for parameter in parameters]
        self._store.pull(list(self._keys.values()), out=values)
        put_back(parameters, values)
        # A server that went back has the rules of then.
        self._rules = [None] * len(self._rules)
        return step

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Adds a group, before the first step alone."""
        if hasattr(self, "_rules"):
            raise UnimplementedError(
                "add_param_group: expected all groups before the "
                "StoreOptimizer is made"
            )
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Takes the groups of what state_dict() has given.

        Errors: UnimplementedError for that of another optimizer with a state.
        """
        _check_has_no_state(state_dict["state"].values())
        super().load_state_dict(state_dict)

    def _set_rules(self) -> None:
        """Tells the store what has changed in the groups."""
        if self._store.rank != 0:
            return
        for i, (folder, group) in enumerate(
            zip(self._folders, self.param_groups)
        ):
            rule = _rule_of(self._kind, group, self._scale)
            known = self._rules[i]
            if rule == known:
                continue
            self._set_rule(rule, known, f"{folder}/*")
            # If the call fails, the next step makes it again.
            self._rules[i] = rule

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


def outer_rule_of(
    optimizer: Union[ServerOptimizer, torch.optim.Optimizer]
) -> Rule:
    """Returns the rule of a server that makes the steps of `optimizer`.

    Errors: UnimplementedError for one that no rule stands for.
    """
    if isinstance(optimizer, ServerOptimizer):
        return optimizer.rule()
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UnimplementedError(
            "outer_optimizer: expected one of tensorkv.federated or of "
            f"torch.optim for all fragments, got {type(optimizer).__name__}"
        )
    _check_has_no_state(optimizer.state.values())
    if len(optimizer.param_groups) != 1:
        raise UnimplementedError(
            "outer_optimizer: expected one group of parameters, got "
            f"{len(optimizer.param_groups)}"
        )
    rule = _rule_of(type(optimizer), optimizer.param_groups[0], 1.0)
    return Rule(rule.text, rule.hyperparameters)


class _Rule(NamedTuple):
    """A rule's name, or an expression, and its hyperparameters."""

    text: str
    hyperparameters: Dict[str, Any]


def _check_has_no_state(states: Iterable[Dict[str, Any]]) -> None:
    # Adagrad has one from its beginning, of step 0.
    if any(state.get("step", 1) for state in states):
        raise UnimplementedError(
            "optimizer: expected one that has made no steps, since its state "
            "does not go to the store"
        )


def _rule_of(kind: type, group: Dict[str, Any], scale: float) -> _Rule:
    if kind not in _KINDS:
        kinds = ", ".join(each.__name__ for each in _KINDS)
        raise UnimplementedError(
            f"optimizer {kind.__module__}.{kind.__name__}: expected one of "
            f"{kinds} of torch.optim"
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
    if group.get("decoupled_weight_decay"):  # of newer versions of PyTorch
        return _adamw(group)
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


_KINDS: Dict[type, Callable[[Dict[str, Any]], _Rule]] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adamw,
    torch.optim.Adagrad: _adagrad,
    torch.optim.Adadelta: _adadelta,
    torch.optim.Adamax: _adamax,
    torch.optim.RMSprop: _rmsprop,
}
