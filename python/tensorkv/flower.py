"""Flower, with arrays that go between clients and a TensorKV server.

Flower samples clients, carries messages and metrics, and says who has dropped
out; the server keeps the model, and makes the step of a round. An app changes
two lines:

    from tensorkv.flower import ClientApp     # in place of flwr.clientapp's
    from tensorkv.flower import FedAvg        # of flwr.serverapp.strategy's

It is for Flower 1.21 or newer, and its strategies of messages. The server is
that of TENSORKV_TARGET where the ServerApp runs, unless `target` names one, and
clients hear of it by their messages.
"""

from __future__ import annotations

import functools
import logging
import threading
import uuid
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Optional,
    Set,
    Tuple,
    cast,
)

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp as _FlowerClientApp
from flwr.serverapp.strategy import FedAvg as _FlowerFedAvg
from flwr.serverapp.strategy import Result

from tensorkv import federated
from tensorkv._types import NDArray
from tensorkv.client import Client
from tensorkv.errors import (
    AlreadyExistsError,
    Error,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)

_LOGGER = logging.getLogger(__name__)

# Of the record of a message that says where arrays are.
_RECORD = "tensorkv"
# Seconds, of which Flower waits as many for replies.
_TIMEOUT = 3600.0
_DELETE_TIMEOUT = 30.0
# Where a namespace that stays has the last step of all runs.
_STEP_KEY = "flower-last-step"
# As many as a namespace takes.
_MAX_NODES = 4096

_Next = Callable[[Message, Context], Message]
_Mod = Callable[[Message, Context, _Next], Message]


# --- Clients ----------------------------------------------------------------


class ClientApp(_FlowerClientApp):
    """Flower's ClientApp with `exchange_arrays` around its other mods."""

    def __init__(self, client_fn: Any = None, mods: Optional[List[Any]] = None):
        super().__init__(client_fn, [exchange_arrays, *(mods or [])])


def exchange_arrays_with(
    *, timeout: float = _TIMEOUT, **credentials: Any
) -> _Mod:
    """`exchange_arrays` with credentials, as tensorkv.Client takes them.

    `timeout` is of each transfer of a model, in seconds.
    """

    # A client that is no longer here ends with its last call.
    @functools.lru_cache(maxsize=2)
    def client_of(target: str, namespace: str) -> Client:
        return Client(
            target, namespace=namespace, timeout=timeout, **credentials
        )

    lock = threading.Lock()

    def exchange(message: Message, context: Context, app: _Next) -> Message:
        where = message.content.config_records.get(_RECORD)
        if where is None:
            return app(message, context)
        del message.content[_RECORD]
        with lock:
            client = client_of(str(where["target"]), str(where["namespace"]))
        model = _Model.of_record(where)
        start = client.pull(model.keys.all())[:-1]
        message.content[str(where["arrays"])] = model.to_record(start)
        reply = app(message, context)
        if "rank" in where and not reply.has_error():
            _contribute(client, model, where, start, reply.content)
        return reply

    return exchange


exchange_arrays = exchange_arrays_with()
"""A mod of a ClientApp, around all others.

It puts the model that the server has into messages to train and to evaluate,
and gives the server the arrays of the reply, which goes on without them.
"""


def _contribute(
    client: Client,
    model: "_Model",
    where: ConfigRecord,
    start: List[NDArray],
    content: RecordDict,
) -> None:
    """Pushes the arrays of a reply, and empties their record."""
    records = content.array_records, content.metric_records
    if [len(each) for each in records] != [1, 1]:
        arrays_found, metrics_found = map(list, records)
        raise InvalidArgumentError(
            "reply: expected one ArrayRecord and one MetricRecord, got "
            f"{arrays_found} and {metrics_found}"
        )
    ((name, arrays),) = content.array_records.items()
    (metrics,) = content.metric_records.values()
    weight = float(cast(float, metrics[str(where["weight"])]))
    ends = model.of_arrays(arrays)
    num_optimized = len(model.keys.optimized)
    moves = [
        federated.moved(old, new)
        for old, new in zip(start[:num_optimized], ends)
    ]
    step = int(cast(int, where["step"]))
    client._store.push_as(
        int(cast(int, where["rank"])),
        model.keys.all(),
        model.keys.contribution(moves, ends[num_optimized:], step),
        step,
        model.keys.weights(weight),
    )
    content[name] = ArrayRecord()


class _Model:
    """The arrays of a model, their order in a record, and their keys."""

    def __init__(self, name: str, names: List[str], optimized: List[str]):
        self.names = names
        self.keys = federated.ModelKeys(
            name, optimized, [n for n in names if n not in set(optimized)]
        )

    @classmethod
    def of_record(cls, where: ConfigRecord) -> "_Model":
        return cls(
            str(where["model"]),
            list(cast(List[str], where["names"])),
            list(cast(List[str], where["optimized"])),
        )

    def of_arrays(self, arrays: ArrayRecord) -> List[NDArray]:
        """The arrays in the order of the keys."""
        if set(arrays) != set(self.names):
            raise InvalidArgumentError(
                f"reply: expected the arrays {self.names}, got {list(arrays)}"
            )
        return [
            np.asarray(arrays[name].numpy(), order="C")
            for name in (*self.keys.optimized, *self.keys.averaged)
        ]

    def to_record(self, values: List[NDArray]) -> ArrayRecord:
        """Takes values in the order of the keys."""
        names = (*self.keys.optimized, *self.keys.averaged)
        by_name = dict(zip(names, values))
        return ArrayRecord({name: Array(by_name[name]) for name in self.names})


# --- Strategies -------------------------------------------------------------


class FedAvg(_FlowerFedAvg):
    """Flower's FedAvg, whose arrays the server keeps, and takes the mean of."""

    def __init__(
        self,
        *args: Any,
        target: Optional[str] = None,
        namespace: Optional[str] = None,
        optimizer: federated.ServerOptimizer = federated.FedAvg(),
        credentials: Optional[Dict[str, Any]] = None,
        timeout: float = _TIMEOUT,
        **kwargs: Any,
    ):
        """Connects; the arguments are Flower's, but for these.

        Args:
          target: as tensorkv.Client takes it, and as clients reach it.
          namespace: for the model of a run, which stays there as
            run-ID/ARRAY; else one that goes when `start` ends.
          optimizer: the server's, such as a tensorkv.federated.FedAdagrad.
          credentials: further arguments of tensorkv.Client.
          timeout: seconds for a transfer of the model, and for the step
            that ends a round.
        """
        super().__init__(*args, **kwargs)
        self._is_passing = namespace is None
        self._client = Client(
            target,
            namespace=namespace or f"flower-{uuid.uuid4().hex}",
            timeout=timeout,
            **(credentials or {}),
        )
        self._optimizer = optimizer
        self._begin()

    def _begin(self) -> None:
        """Has no model yet."""
        self._has_group = False
        self._model: Optional[_Model] = None
        # What the server has, as Flower has heard of it.
        self._arrays: Optional[ArrayRecord] = None
        # Versions, of the number of the round and of the model.
        self._round_version = 0
        self._model_version = 0
        self._step = 0
        # Of the nodes of the step, and how many were sampled last.
        self._ranks: Dict[int, int] = {}
        self._quorum = 0
        # As many as the namespace takes.
        self._max_nodes = 0

    def start(self, *args: Any, **kwargs: Any) -> Result:
        try:
            return super().start(*args, **kwargs)
        finally:
            if self._is_passing and self._has_group:
                self._delete_namespace()
            self._begin()

    def _delete_namespace(self) -> None:
        """Says so where it cannot: the run has its result, or its error."""
        try:
            self._client.delete_namespace(
                self._client.namespace, timeout=_DELETE_TIMEOUT
            )
        except Error as error:
            _LOGGER.warning(
                "namespace %s stays on the server: %s",
                self._client.namespace,
                error,
            )

    def configure_train(
        self,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Any,
    ) -> Iterable[Message]:
        messages = list(
            super().configure_train(server_round, ArrayRecord(), config, grid)
        )
        if not messages:
            return messages
        self._have_arrays(arrays, len(messages))
        self._begin_step()
        self._ranks = {
            message.metadata.dst_node_id: rank
            for rank, message in enumerate(messages)
        }
        for message in messages:
            rank = self._ranks[message.metadata.dst_node_id]
            self._say_where(message, {"rank": rank, "step": self._step})
        return messages

    def configure_evaluate(
        self,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Any,
    ) -> Iterable[Message]:
        messages = list(
            super().configure_evaluate(server_round, arrays, config, grid)
        )
        if self._arrays is not None and arrays is self._arrays:
            for message in messages:
                self._say_where(message, {})
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> Tuple[Optional[ArrayRecord], Optional[MetricRecord]]:
        replies = list(replies)
        came = {
            self._ranks[reply.metadata.src_node_id]
            for reply in replies
            if not reply.has_error()
        }
        # Before Flower looks at the replies: the round is to close even so.
        came |= self._skip(set(self._ranks.values()) - came)
        self._ranks = {}
        self._round_version += bool(came)
        # A round of no weight leaves the model as it is.
        self._model_version += any(map(self._weighs, replies))
        _, metrics = super().aggregate_train(server_round, replies)
        if not came:
            return None, metrics
        assert self._model is not None
        keys = self._model.keys.all()
        self._client.pull(keys[-1], min_version=self._round_version)
        values = self._client.pull(keys, min_version=self._model_version)
        # Who weighs something may have come, and its reply be lost.
        self._model_version = self._client.stat(keys[0]).version
        self._arrays = self._model.to_record(values[:-1])
        return self._arrays, metrics

    def _weighs(self, reply: Message) -> bool:
        return not reply.has_error() and any(
            cast(float, metrics.get(self.weighted_by_key, 0)) > 0
            for metrics in reply.content.metric_records.values()
        )

    def _have_arrays(self, arrays: ArrayRecord, num_nodes: int) -> None:
        """Has the server keep these arrays, and take so many nodes' means."""
        if not self._has_group:
            group = federated.create_group(
                self._client,
                num_workers=_MAX_NODES,
                quorum=num_nodes,
                sum_order="arrival",
            )
            self._has_group = True
            if group.max_workers > group.num_workers:
                raise FailedPreconditionError(
                    f"namespace {self._client.namespace!r}: expected one whose "
                    "rounds do not end with those who have joined, got "
                    f"max_workers {group.max_workers} above num_workers"
                )
            self._max_nodes = group.num_workers
            self._step = self._last_step()
        if num_nodes > self._max_nodes:
            raise InvalidArgumentError(
                f"configure_train: expected at most {self._max_nodes} nodes, "
                f"got {num_nodes}"
            )
        if num_nodes != self._quorum:
            # The namespace may have been there, with what it was made with.
            self._client.update_namespace(
                self._client.namespace, quorum=num_nodes, quorum_grace=0.0
            )
        self._quorum = num_nodes
        if self._model is None or arrays is not self._arrays:
            self._keep(arrays)

    def _last_step(self) -> int:
        """That of former runs: up to there their quorums count."""
        try:
            return int(self._client.pull(_STEP_KEY)[0])
        except NotFoundError:
            return 0

    def _begin_step(self) -> None:
        self._step += 1
        if not self._is_passing:
            self._client.init(_STEP_KEY, np.array([self._step]), "replace")

    def _keep(self, arrays: ArrayRecord) -> None:
        values = {name: array.numpy() for name, array in arrays.items()}
        is_new = self._model is None
        if self._model is None:
            floats = [n for n, v in values.items() if federated.is_float(v)]
            # Of this run alone: steps of another are closed for its keys.
            name = f"run-{uuid.uuid4().hex}"
            self._model = _Model(name, list(values), floats)
        versions = self._model.keys.create(
            self._client,
            self._optimizer.rule(),
            self._model.of_arrays(arrays),
            "fail" if is_new else "replace",
        )
        self._model_version, self._round_version = versions[0], versions[-1]
        self._arrays = arrays

    def _say_where(self, message: Message, more: Dict[str, Any]) -> None:
        """Has the message say where arrays are, in the place of arrays."""
        assert self._model is not None
        where = {
            "target": self._client.target,
            "namespace": self._client.namespace,
            "model": self._model.keys.name,
            "names": self._model.names,
            "optimized": self._model.keys.optimized,
            "arrays": self.arrayrecord_key,
            "weight": self.weighted_by_key,
            **more,
        }
        content = dict(message.content)
        content[self.arrayrecord_key] = ArrayRecord()
        content[_RECORD] = ConfigRecord(where)
        message.content = RecordDict(content)

    def _skip(self, ranks: Set[int]) -> Set[int]:
        """Has the round not wait for these; those whose arrays have come."""
        came = set()
        for rank in ranks:
            assert self._model is not None
            try:
                self._client._store.push_as(
                    rank, self._model.keys.all(), [], self._step, []
                )
            except AlreadyExistsError:
                came.add(rank)
        return came


class FedAvgM(FedAvg):
    """Flower's FedAvgM by the server, with Flower's arguments."""

    def __init__(
        self,
        *args: Any,
        server_learning_rate: float = 1.0,
        server_momentum: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(
            *args,
            optimizer=federated.FedAvgM(server_learning_rate, server_momentum),
            **kwargs,
        )


class FedAdam(FedAvg):
    """Flower's FedAdam by the server, with Flower's arguments."""

    _OPTIMIZER: Callable[..., federated.ServerOptimizer] = federated.FedAdam

    def __init__(
        self,
        *,
        eta: float = 1e-1,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        tau: float = 1e-3,
        **kwargs: Any,
    ):
        optimizer = type(self)._OPTIMIZER(eta, beta_1, beta_2, tau)
        super().__init__(optimizer=optimizer, **kwargs)


class FedYogi(FedAdam):
    """Flower's FedYogi by the server, with Flower's arguments."""

    _OPTIMIZER = federated.FedYogi

    def __init__(
        self,
        *,
        eta: float = 1e-2,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        tau: float = 1e-3,
        **kwargs: Any,
    ):
        super().__init__(
            eta=eta, beta_1=beta_1, beta_2=beta_2, tau=tau, **kwargs
        )


class FedAdagrad(FedAvg):
    """Flower's FedAdagrad by the server, with Flower's arguments."""

    def __init__(self, *, eta: float = 1e-1, tau: float = 1e-3, **kwargs: Any):
        super().__init__(optimizer=federated.FedAdagrad(eta, tau), **kwargs)
