"""Federated averaging: clients train by themselves, and meet in rounds.

The server takes the weighted mean of what the clients of a round have moved by,
and makes a step of a server's optimizer of it: `FedAvg`, `FedAvgM`, `FedAdam`,
`FedYogi` or `FedAdagrad`. `FederatedAveraging` is a client's part in it, for
NumPy arrays; tensorkv.torch has that for modules.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from tensorkv._arrays import dtype_name, to_core
from tensorkv._rounds import Rounds, round_value
from tensorkv._types import NamespaceStatus, NDArray, OnExisting, SumOrder
from tensorkv.client import Client
from tensorkv.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
)
from tensorkv.optimizer import Rule

# As many as a namespace takes.
MAX_CLIENTS = 4096


@dataclasses.dataclass(frozen=True)
class ServerOptimizer:
    """What the server does with the weighted mean of what clients moved by.

    That mean, of old minus new values, is the gradient g of a rule. Formulas
    are those of Flower's strategies of the same names, and of Reddi et al. 2021
    (arXiv:2003.00295) where these do not differ; w is the model.
    """

    learning_rate: float

    def rule(self) -> Rule:
        """The rule of the server."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class FedAvg(ServerOptimizer):
    """w <- w - learning_rate g: at 1 the mean of the clients' models."""

    learning_rate: float = 1.0

    def rule(self) -> Rule:
        return Rule("sgd", {"learning_rate": self.learning_rate})


@dataclasses.dataclass(frozen=True)
class FedAvgM(ServerOptimizer):
    """m <- momentum m + learning_rate g; w <- w - m.

    While learning_rate stays as it is, these are the values of m <- momentum m
    + g; w <- w - learning_rate m; where it is changed, m keeps the former one.
    """

    learning_rate: float = 1.0
    momentum: float = 0.9

    def rule(self) -> Rule:
        return Rule("sgd", dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True)
class Nesterov(ServerOptimizer):
    """m <- momentum m + learning_rate g; w <- w - momentum m - learning_rate g.

    It is the outer step of DiLoCo (arXiv:2311.08105) and, while learning_rate
    stays as it is, that of torch.optim.SGD with nesterov=True.
    """

    learning_rate: float = 0.7
    momentum: float = 0.9

    def rule(self) -> Rule:
        return Rule("nag", dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True)
class FedAdam(ServerOptimizer):
    """m <- beta1 m + (1 - beta1) g; v <- beta2 v + (1 - beta2) g^2;
    w <- w - lr_t m / (sqrt(v) + tau).

    Of round t, lr_t is learning_rate sqrt(1 - beta2^(t + 1)) / (1 - beta1^(t +
    1)), as Flower has it; learning_rate itself, as in the paper, unless
    `correct_bias`.
    """

    learning_rate: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3
    correct_bias: bool = True

    def rule(self) -> Rule:
        numbers = {
            "learning_rate": self.learning_rate,
            "beta1": self.beta1,
            "beta2": self.beta2,
        }
        if not self.correct_bias:
            return Rule(
                "adamw", {**numbers, "epsilon": self.tau, "correct_bias": 0.0}
            )
        return Rule(
            "expression: state m, v; m = beta1 * m + (1 - beta1) * grad; "
            "v = beta2 * v + (1 - beta2) * grad * grad; "
            "stored -= learning_rate * sqrt(1 - pow(beta2, step + 1)) / "
            "(1 - pow(beta1, step + 1)) * m / (sqrt(v) + tau)",
            {**numbers, "tau": self.tau},
        )


@dataclasses.dataclass(frozen=True)
class FedYogi(ServerOptimizer):
    """m <- beta1 m + (1 - beta1) g; v <- v - (1 - beta2) g^2 sign(v - g^2);
    w <- w - learning_rate m / (sqrt(v) + tau).
    """

    learning_rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    def rule(self) -> Rule:
        return Rule(
            "yogi",
            {
                "learning_rate": self.learning_rate,
                "beta1": self.beta1,
                "beta2": self.beta2,
                "epsilon": self.tau,
            },
        )


@dataclasses.dataclass(frozen=True)
class FedAdagrad(ServerOptimizer):
    """v <- v + g^2; w <- w - learning_rate g / (sqrt(v) + tau)."""

    learning_rate: float = 0.1
    tau: float = 1e-3

    def rule(self) -> Rule:
        return Rule(
            "adagrad",
            {"learning_rate": self.learning_rate, "epsilon": self.tau},
        )


@dataclasses.dataclass(frozen=True)
class ModelKeys:
    """The keys of a model, and what the server does with them.

    Attributes:
      optimized: names of tensors of floats, to which the optimizer is applied.
      averaged: names of those that become the mean, such as the running means
        of a normalisation; of integers it is rounded.
    """

    name: str
    optimized: List[str]
    averaged: List[str]

    def __post_init__(self) -> None:
        if set(self.name) & set("*?[]\\"):
            raise InvalidArgumentError(
                f"name: expected none of the characters of patterns, got "
                f"{self.name!r}"
            )
        for each in (*self.optimized, *self.averaged):
            if each.startswith("."):
                raise InvalidArgumentError(
                    f"model: expected names that do not begin with '.', which "
                    f"are those of the averaged and the round, got {each!r}"
                )

    def all(self) -> List[str]:
        """Keys of the optimized, of the averaged, and of the round's number."""
        return [
            *(f"{self.name}/{each}" for each in self.optimized),
            *(f"{self.name}/.mean/{each}" for each in self.averaged),
            f"{self.name}/.round",
        ]

    def create(
        self,
        client: Client,
        rule: Rule,
        values: List[Any],
        on_existing: OnExisting,
    ) -> List[int]:
        """Creates the keys with their rules, of round 0; their versions."""
        client.set_rule(
            rule.name, key_pattern=f"{self.name}/*", **rule.hyperparameters
        )
        # It takes precedence, since it was added later.
        client.set_rule("assign", key_pattern=f"{self.name}/.*")
        return client.init(self.all(), [*values, round_value(0)], on_existing)

    def contribution(
        self, moves: List[Any], means: List[Any], step: int
    ) -> List[Any]:
        """What a client pushes: what it has moved by, its values, the step."""
        return [*moves, *means, round_value(step)]

    def weights(self, weight: float) -> List[float]:
        """Those of a contribution: the step counts, whatever else does."""
        return [weight] * (len(self.optimized) + len(self.averaged)) + [1.0]


def is_float(array: Any) -> bool:
    """Whether it is of floats, be it that NumPy lacks them."""
    return dtype_name(array).startswith(("f", "bf"))


def moved(start: Any, end: Any) -> NDArray:
    """By how much. Narrow floats would leave some of it out."""
    wide = np.float64 if start.dtype == np.float64 else np.float32
    difference: NDArray = start.astype(wide) - end.astype(wide)
    return difference


def create_group(client: Client, **config: Any) -> NamespaceStatus:
    """Creates the client's namespace, of a mean, unless it is there.

    Errors: FailedPreconditionError where another kind of namespace is there.
    """
    with contextlib.suppress(AlreadyExistsError):
        client.create_namespace(
            client.namespace, mode="sync", aggregation="mean", **config
        )
    found = client.describe_namespace()
    # What is carried would count in a model that it was not made from.
    if (found.mode, found.aggregation, found.late) != (
        "sync",
        "mean",
        "refuse",
    ):
        raise FailedPreconditionError(
            f"namespace {client.namespace!r}: expected one of the mode sync "
            "with the aggregation mean that refuses what is late, got "
            f"{found.mode} with {found.aggregation} and late={found.late!r}: "
            "give the client another namespace"
        )
    return found


def join_rounds(
    client: Client,
    keys: ModelKeys,
    rule: Rule,
    values: List[Any],
    *,
    worker_name: Optional[str],
    lease: float,
    timeout: float,
    num_workers: int,
    max_workers: int,
    quorum: int,
    deadline: float,
    sum_order: SumOrder,
) -> Rounds:
    """Joins a group that goes on without who is lost.

    Makes its namespace, and its keys, unless they are there. Arguments and
    errors are those of FederatedAveraging.
    """
    if deadline and not quorum:
        raise InvalidArgumentError(
            "deadline: expected a quorum beside it, with which a round "
            "closes then"
        )
    group = create_group(
        client,
        num_workers=num_workers,
        max_workers=max_workers,
        on_worker_loss="continue",
        quorum=quorum,
        quorum_grace=deadline,
        sum_order=sum_order,
    )
    if group.on_worker_loss != "continue":
        raise FailedPreconditionError(
            f"namespace {client.namespace!r}: expected on_worker_loss "
            f"'continue', so that who is lost only misses, got "
            f"{group.on_worker_loss!r}"
        )
    # Others would wait for a client that has joined and then fails, or has not
    # all keys that they have.
    if not client.keys(f"{keys.name}/"):
        keys.create(client, rule, values, "keep")
    _check_is_whole(client, keys)
    _check_fits(client, keys, values)
    is_formed = group.live_workers >= group.num_workers
    client.join(
        worker_name or _unique_name(), lease=lease, step_timeout=timeout
    )
    return Rounds(client, timeout, is_formed or bool(client._was_lost))


def _check_is_whole(client: Client, keys: ModelKeys) -> None:
    found, own = set(client.keys(f"{keys.name}/")), set(keys.all())
    if found != own:
        raise InvalidArgumentError(
            f"model: expected the same tensors as the others, which have "
            f"{sorted(found - own)[:3]} besides, and lack "
            f"{sorted(own - found)[:3]}"
        )


def _check_fits(client: Client, keys: ModelKeys, values: List[Any]) -> None:
    for found, array in zip(client.stat(keys.all()), values):
        core, shape = to_core(array), tuple(array.shape)
        dtype = core[1] if isinstance(core, tuple) else dtype_name(core)
        if (found.dtype, tuple(found.shape)) != (dtype, shape):
            raise InvalidArgumentError(
                f"model: expected {found.dtype} of the shape "
                f"{found.shape} for {found.key!r}, got {dtype} of {shape}"
            )


class FederatedAveraging:
    """Lets clients train by themselves, and then take the mean of all.

        client = tensorkv.Client("host:7363", namespace="federated-1")
        averaging = FederatedAveraging(arrays, client, optimizer=FedAdam())
        while averaging.round < 100:
            num_examples = train(arrays)
            averaging.average(num_examples)

    The server has the model: that of the client that came first, at first. A
    round closes when all clients that are there have contributed, or when
    `quorum` of them have, `deadline` seconds after the first. Who is lost, by
    whatever end, only misses: the mean is that of those who came. Who comes
    later, or comes back, takes the model after the round that is open, and
    takes part from then on: all of a round start from one model.

    Arrays of floats go through the server's optimizer; of integers, such as
    counters, and bools the model has the mean, rounded to nearest even.

    Others may read the model: under NAME/ARRAY the server has the floats, under
    NAME/.mean/ARRAY the others, and under NAME/.round the number of the last
    round; a pull of all is of one moment.
    """

    def __init__(
        self,
        model: Any,
        client: Client,
        *,
        name: str = "federated",
        optimizer: ServerOptimizer = FedAvg(),
        worker_name: Optional[str] = None,
        num_clients: int = 1,
        max_clients: int = MAX_CLIENTS,
        quorum: int = 0,
        deadline: float = 0.0,
        sum_order: SumOrder = "rank",
        lease: float = 10.0,
        timeout: float = 600.0,
    ):
        """Joins the client's namespace, and takes the model that is there.

        Args:
          model: a dict of names and arrays, which are changed in place.
          client: one that has not joined. Its namespace is made, unless it is
            there; then it is as it was made, and so are the rules of the keys.
          optimizer: of the server.
          worker_name: as `Client.join` has it; else one that nobody else has.
          num_clients: how many are there before the first round closes. From
            then on a round needs those who are there, up to `max_clients`.
          quorum, deadline: a round closes with that many contributions, too,
            so many seconds, at most 3600, after its first; 0: it waits for all.
          sum_order: "rank" for the same bits every time, or "arrival" for
            memory of the server that does not grow with the number of clients.
          lease: seconds without a sign of life until a client counts as lost.
          timeout: seconds for which `average` waits for the others.

        Who joins and then fails, such as by a round that stays open for longer
        than `timeout`, closes the client.

        Errors: FailedPreconditionError where the namespace has no means, or
        rounds fail when a client is lost; InvalidArgumentError where arrays of
        these names have another shape or dtype there, or others are there, and
        for names that begin with "."; those of Client.join.
        """
        self._model = model
        self._client = client
        optimized, averaged = self._tensors_of(model)
        self._keys = ModelKeys(name, list(optimized), list(averaged))
        values = self._on_host()
        self._rounds = join_rounds(
            client,
            self._keys,
            optimizer.rule(),
            values,
            worker_name=worker_name,
            lease=lease,
            timeout=timeout,
            deadline=deadline,
            num_workers=num_clients,
            max_workers=max_clients,
            quorum=quorum,
            sum_order=sum_order,
        )
        # The model after the last round, of which moves are.
        self._start: List[Any] = []
        # What was taken, until it is in place.
        self._unplaced: Optional[List[Any]] = None
        try:
            received = self._memory_like(values)
            client.pull(self._keys.all(), received)
            self._take(received)
            self._place()
        except BaseException:
            client.leave()
            raise

    @property
    def round(self) -> int:
        """The number of the last round that the model here contains."""
        return self._rounds.number

    def average(self, weight: float = 1.0) -> bool:
        """Waits for the round to close, and puts the new model in place.

        Where it ends with an error, make it again: what has arrived counts
        once, and in its own round alone.

        Args:
          weight: such as the number of examples that the client has trained on;
            0 for one that has none, and takes what the others make.

        Returns:
          Whether the round is known to have counted this client; else it was
          closed without, and what the client had moved by is gone.

        Errors: ValueError for a weight that is negative or not finite;
        InvalidArgumentError where the client compresses and the model has
        floats that are averaged; those of Client.push_pull.
        """
        if self._unplaced is None:
            self._make_round(weight)
        self._place()
        return self._rounds.is_in

    def leave(self) -> None:
        """Closes the client: it makes no more rounds, and nobody waits."""
        self._client.leave()

    def _make_round(self, weight: float) -> None:
        """Pushes what the client has moved by, and takes the new model."""
        ends = self._on_host()
        keys, num_optimized = self._keys.all(), len(self._keys.optimized)
        self._check_exact(ends[num_optimized:])
        moves = [
            self._moved(start, end) for start, end in zip(self._start, ends)
        ]
        received = self._memory_like(ends)
        self._rounds.exchange(
            keys,
            self._keys.contribution(
                moves, ends[num_optimized:], self._rounds.number + 1
            ),
            self._keys.weights(weight),
            received,
            self._has_my_model,
        )
        self._take(received)

    def _has_my_model(self) -> bool:
        """Returns whether the server has the model that moves are from."""
        found = self._memory_like(self._on_host())
        self._client.pull(self._keys.all(), found)
        return int(found[-1][0]) == self._rounds.number and all(
            bool((own == there).all()) for own, there in zip(self._start, found)
        )

    def _take(self, received: List[Any]) -> None:
        """Has the client go on from these, or what is made of them."""
        number = self._rounds.settle(self._keys.all(), received)
        is_in = self._rounds.has_counted(number)
        self._unplaced = received[:-1]
        self._start = received[: len(self._keys.optimized)]
        self._rounds.has_gone_back = False
        self._rounds.take(number, is_in)

    def _place(self) -> None:
        """Puts in place what the client has taken."""
        assert self._unplaced is not None
        self._put(self._unplaced)
        self._unplaced = None

    def _memory_like(self, values: List[Any]) -> List[Any]:
        """What a model, and the number of its round, are received in."""
        return [*map(self._empty_like, values), round_value(0)]

    def _check_exact(self, means: List[Any]) -> None:
        if self._client._compression and any(map(self._is_float, means)):
            raise InvalidArgumentError(
                "set_compression: expected none, since the model has floats "
                "that are averaged as they are"
            )

    def _targets(self) -> List[Any]:
        optimized, averaged = self._tensors_of(self._model)
        return [*optimized.values(), *averaged.values()]

    # --- What arrays are ----------------------------------------------------

    @classmethod
    def _tensors_of(cls, model: Any) -> Tuple[Dict[str, Any], Dict[str, Any]]:
        """The tensors to be optimized, and those to be averaged."""
        optimized = {k: a for k, a in model.items() if cls._is_float(a)}
        averaged = {k: a for k, a in model.items() if k not in optimized}
        return optimized, averaged

    _is_float = staticmethod(is_float)
    _moved = staticmethod(moved)
    _empty_like = staticmethod(np.empty_like)

    def _on_host(self) -> List[Any]:
        """The present values, contiguous in the memory of the host."""
        return [np.asarray(each, order="C") for each in self._targets()]

    def _put(self, values: List[Any]) -> None:
        for target, value in zip(self._targets(), values):
            np.copyto(target, value)


def _unique_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}"
