"""PyTorch over a TensorKV store, for PyTorch 1.13 or newer.

`Publisher` and `Reader` hand states of modules from a trainer to whoever reads
them; `StoreOptimizer` updates parameters in the store; `MeanGradients` is a
communication hook of DistributedDataParallel; `FederatedAveraging` and `DiLoCo`
are for groups that meet seldom.
"""

from tensorkv.torch.diloco import DiLoCo
from tensorkv.torch.groups import FederatedAveraging, MeanGradients
from tensorkv.torch.optimizer import StoreOptimizer
from tensorkv.torch.publishing import Publisher, Reader

__all__ = [
    "DiLoCo",
    "FederatedAveraging",
    "MeanGradients",
    "Publisher",
    "Reader",
    "StoreOptimizer",
]
