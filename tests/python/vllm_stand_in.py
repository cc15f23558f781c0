"""A stand-in for vLLM, where that is not installed.

It has what tensorkv.vllm uses of the interface of vLLM 0.33, which is that of
0.32 but for the sources of weights, with the same names and signatures, and
nothing behind them: vllm/distributed/weight_transfer/base.py and factory.py,
vllm/model_executor/model_loader/reload.
"""

import abc
import dataclasses
import functools
import importlib
import importlib.util
import sys
import types
from typing import Any, ClassVar, Generic, Optional, TypeVar

IS_INSTALLED = importlib.util.find_spec("vllm") is not None

InitInfo = TypeVar("InitInfo")
UpdateInfo = TypeVar("UpdateInfo")


class WeightTransferInitInfo(abc.ABC):
    pass


class WeightTransferUpdateInfo(abc.ABC):
    pass


@dataclasses.dataclass
class TrainerInitInfo:
    backend: ClassVar[str]

    rank: int = dataclasses.field(kw_only=True)

    @property
    def is_sender(self):
        return self.rank == 0


@dataclasses.dataclass(frozen=True)
class ParamMeta:
    name: str
    dtype: Any
    shape: Any


class WeightSource(abc.ABC):
    """Has `metadata`, and `iter_full` that gives what the rank owns."""


class ModuleSource(WeightSource):
    def __init__(self, module):
        self._module = module

    @functools.cached_property
    def metadata(self):
        return [
            ParamMeta(name, each.dtype, tuple(each.shape))
            for name, each in self._module.named_parameters()
        ]

    def iter_full(self):
        yield from self._module.named_parameters()


class VLLMWeightSyncClient:
    """The engines, as a trainer calls them."""


class WeightTransferEngine(abc.ABC, Generic[InitInfo, UpdateInfo]):
    def __init__(self, config, vllm_config, device, model):
        self.config = config
        self.vllm_config = vllm_config
        self.parallel_config = vllm_config.parallel_config
        self.model_config = vllm_config.model_config
        self.device = device
        self.model = model

    def parse_init_info(self, init_dict):
        return _parsed(self.init_info_cls, init_dict)

    def parse_update_info(self, update_dict):
        return _parsed(self.update_info_cls, update_dict)

    @abc.abstractmethod
    def init_transfer_engine(self, init_info):
        pass

    @abc.abstractmethod
    def start_weight_update(self):
        pass

    @abc.abstractmethod
    def finish_weight_update(self):
        pass

    def update_weights(self, update_info):
        self.receive_weights(self.parse_update_info(update_info))

    @abc.abstractmethod
    def receive_weights(self, update_info):
        pass

    @abc.abstractmethod
    def shutdown(self):
        pass


class TrainerWeightTransferEngine(abc.ABC, Generic[InitInfo]):
    def __init__(self, *, client, source=None, is_sender=True, rank=0):
        self.client = client
        self.source = source
        self.is_sender = is_sender
        self.rank = rank

    @classmethod
    @abc.abstractmethod
    def trainer_init(cls, init_info, *, client, source=None):
        pass

    @abc.abstractmethod
    def send_weights(self):
        pass

    def shutdown(self):
        pass


def _parsed(info_cls, fields):
    try:
        return info_cls(**fields)
    except TypeError as error:
        raise ValueError(str(error)) from error


class _Registry:
    @classmethod
    def register_engine(
        cls, name: str, module_path: str, class_name: Optional[str] = None
    ):
        if name in cls._registry:
            raise ValueError(f"{name!r} is already registered")
        cls._registry[name] = lambda: getattr(
            importlib.import_module(module_path), class_name
        )


class WeightTransferEngineFactory(_Registry):
    _registry = {}

    @classmethod
    def create_engine(cls, config, vllm_config, device, model):
        engine = cls._registry[config.backend]()
        return engine(config, vllm_config, device, model)


class WeightTransferTrainerFactory(_Registry):
    _registry = {}

    @classmethod
    def trainer_init(cls, init_info, *, client, source=None):
        engine = cls._registry[init_info.backend]()
        return engine.trainer_init(
            init_info=init_info, client=client, source=source
        )


def initialize_layerwise_reload(model):
    pass


def finalize_layerwise_reload(model, model_config):
    pass


def install():
    """Has this be `vllm` for whoever imports that, unless it is installed."""
    if IS_INSTALLED:
        return
    modules = [
        "vllm.distributed.weight_transfer.base",
        "vllm.distributed.weight_transfer.factory",
        "vllm.model_executor.model_loader.reload",
    ]
    for name in modules:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            path = ".".join(parts[:end])
            module = sys.modules.setdefault(path, types.ModuleType(path))
            if end > 1:
                parent = sys.modules[".".join(parts[: end - 1])]
                setattr(parent, parts[end - 1], module)
        sys.modules[name].__dict__.update(
            {
                each: value
                for each, value in globals().items()
                if not each.startswith("_")
            }
        )
