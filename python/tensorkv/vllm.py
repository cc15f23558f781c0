"""TensorKV as a back end of vLLM's weight transfer: "tensorkv".

The trainer publishes its weights as a snapshot of a series, and every worker of
vLLM fetches the snapshot of that number and loads it. An engine:

    LLM(..., weight_transfer_config=WeightTransferConfig(backend="tensorkv"))

A trainer, on each of its ranks:

    engine = WeightTransferTrainerFactory.trainer_init(
        TensorKVTrainerInitInfo(
            rank=0, series="policy", client={"target": "host:7363"}
        ),
        client=HTTPVLLMWeightSyncClient("http://engine:8000"),
        source=ModuleSource(model),
    )
    engine.send_weights()

A trainer that has no vLLM publishes by itself (tensorkv.torch.Publisher), and
tells engines `{"series": "policy", "client": {"target": "host:7363"}}` once, as
vLLM's init info, and `{"number": 42}` for each update.

vLLM, which loads its plug-ins in every process, finds an installed tensorkv by
itself. Where tensorkv is merely on sys.path, call `register` in every process.
The interface is that of vLLM 0.32 and 0.33.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, ClassVar, Dict, Iterator, Optional, Set, Tuple

from vllm.distributed.weight_transfer.base import (
    TrainerInitInfo,
    TrainerWeightTransferEngine,
    VLLMWeightSyncClient,
    WeightSource,
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import (
    WeightTransferEngineFactory,
    WeightTransferTrainerFactory,
)

from tensorkv.client import Client
from tensorkv.torch._tensors import on_host
from tensorkv.torch.publishing import Publisher, Reader

_BACKEND = "tensorkv"


def register() -> None:
    """Has vLLM know the back end in this process. May be repeated."""
    for factory, name in (
        (WeightTransferEngineFactory, "TensorKVWeightTransferEngine"),
        (WeightTransferTrainerFactory, "TensorKVTrainerWeightTransferEngine"),
    ):
        # It raises that where the name is there.
        with contextlib.suppress(ValueError):
            factory.register_engine(_BACKEND, __name__, name)


@dataclasses.dataclass
class TensorKVWeightTransferInitInfo(WeightTransferInitInfo):
    """Where workers find the weights."""

    series: str = "published"
    # What tensorkv.Client takes, by name.
    client: Dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class TensorKVWeightTransferUpdateInfo(WeightTransferUpdateInfo):
    """Which weights workers are to load."""

    number: int
    # Seconds for a worker to fetch them, in place of the client's.
    timeout: Optional[float] = None


@dataclasses.dataclass
class TensorKVTrainerInitInfo(TrainerInitInfo):
    """Where the trainer publishes, and workers find it."""

    backend: ClassVar[str] = _BACKEND

    series: str = "published"
    # What tensorkv.Client takes, by name, here and at the workers.
    client: Dict[str, Any] = dataclasses.field(default_factory=dict)
    # How many numbers stay readable, for engines that are late.
    keep_last: Optional[int] = 1


class TensorKVWeightTransferEngine(
    WeightTransferEngine[
        TensorKVWeightTransferInitInfo, TensorKVWeightTransferUpdateInfo
    ]
):
    """Fetches and loads weights in a worker of vLLM.

    An update is one call of `update_weights`: a worker has all tensors in host
    memory before it loads the first one. An update that cannot be fetched
    leaves the model as it was.
    """

    init_info_cls = TensorKVWeightTransferInitInfo
    update_info_cls = TensorKVWeightTransferUpdateInfo

    _client: Optional[Client] = None

    def init_transfer_engine(
        self, init_info: TensorKVWeightTransferInitInfo
    ) -> None:
        """Connects to the store, in place of one before."""
        self.shutdown()
        self._client = Client(**init_info.client)
        self._reader = Reader(self._client, init_info.series)

    def start_weight_update(self) -> None:
        """Has the model take weights as checkpoints have them."""
        from vllm.model_executor.model_loader import reload

        reload.initialize_layerwise_reload(self.model)

    def finish_weight_update(self) -> None:
        """Has the model use what was loaded."""
        from vllm.model_executor.model_loader import reload

        reload.finalize_layerwise_reload(self.model, self.model_config)

    def receive_weights(
        self, update_info: TensorKVWeightTransferUpdateInfo
    ) -> None:
        """Fetches the tensors of that number, and loads them.

        Errors: RuntimeError before init_transfer_engine; those of
        tensorkv.torch.Reader.fetch.
        """
        if self._client is None:
            raise RuntimeError("expected a call of init_transfer_engine before")
        try:
            tensors = self._reader.fetch(
                number=update_info.number, timeout=update_info.timeout
            )
        except BaseException:
            # vLLM finishes no update that has failed. Nothing was loaded, so
            # that the model gets back what it had.
            self.finish_weight_update()
            raise
        self.model.load_weights(tensors.items())

    def shutdown(self) -> None:
        """Closes the connection. May be repeated."""
        if self._client is not None:
            self._client.close()
            self._client = None


class TensorKVTrainerWeightTransferEngine(
    TrainerWeightTransferEngine[TensorKVTrainerInitInfo]
):
    """Publishes the weights of a trainer, and has engines load them.

    All ranks of the trainer make the same calls. Rank 0, which publishes, has
    all tensors in host memory.
    """

    init_info_cls = TensorKVTrainerInitInfo

    _client: Optional[Client] = None

    @classmethod
    def trainer_init(
        cls,
        init_info: TensorKVTrainerInitInfo,
        *,
        client: VLLMWeightSyncClient,
        source: Optional[WeightSource] = None,
    ) -> TensorKVTrainerWeightTransferEngine:
        """Connects rank 0 to the store, and has the workers connect.

        Errors: ValueError without a source.
        """
        if source is None:
            raise ValueError("source: expected a WeightSource, got none")
        engine = cls(
            client=client, source=source, is_sender=init_info.is_sender
        )
        if not engine.is_sender:
            return engine
        engine._client = Client(**init_info.client)
        engine._publisher = Publisher(
            engine._client, init_info.series, init_info.keep_last
        )
        told = TensorKVWeightTransferInitInfo(
            init_info.series, init_info.client
        )
        client.init_weight_transfer_engine(dataclasses.asdict(told))
        return engine

    def send_weights(self, number: Optional[int] = None) -> None:
        """Publishes what the source has now, and has the engines load it.

        `number` is as tensorkv.torch.Publisher.publish has it. vLLM's requests
        tell it as their weight version.

        Errors: ValueError where the source does not give rank 0 all of the
        model, and those of `publish`, before the engines hear of it; those of
        the client of the engines.
        """
        names = _names_of(self.source)
        # One after the other, as ranks of the trainer gather them together.
        state = {
            name: on_host(tensor)
            for name, tensor in _tensors_of(self.source)
            if self.is_sender and tensor is not None
        }
        if not self.is_sender:
            return
        if names != state.keys():
            raise ValueError(
                "source: expected all tensors of the model at rank 0, got "
                f"{len(state)} of {len(names)}"
            )
        number = self._publisher.publish(state, number)
        self.client.start_weight_update()
        self.client.update_weights({"number": number})
        self.client.finish_weight_update(weight_version=str(number))

    def shutdown(self) -> None:
        """Closes the connection; what was published stays."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _names_of(source: Any) -> Set[str]:
    """The names of the model's tensors, whichever ranks hold them."""
    # It is a method in vLLM 0.32, and a property in 0.33.
    metadata = source.metadata
    entries = metadata() if callable(metadata) else metadata
    return {entry.name for entry in entries}


def _tensors_of(source: Any) -> Iterator[Tuple[str, Any]]:
    """Each name with a tensor, or with None where the rank does not hold it."""
    # vLLM 0.32 iterates over the source.
    if hasattr(source, "iter_full"):
        return iter(source.iter_full())
    return iter(source)
