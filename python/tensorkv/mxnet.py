"""MXNet over a TensorKV server: stores for mx.kv.create and gluon.Trainer.

To import this registers "tensorkv" and "tensorkv_dist_sync", which are one, and
"tensorkv_dist_async":

    import tensorkv.mxnet

    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1},
                            kvstore=mx.kv.create("tensorkv"))

Address, namespace and number of workers are those of TENSORKV_ADDRESS,
TENSORKV_NAMESPACE and DMLC_NUM_WORKER. There is no scheduler and no server of
MXNet; roles are not told apart.
"""

from __future__ import annotations

import collections
import copy
import types
from typing import Any, Callable, Dict, List, Optional

import mxnet
import numpy as np
from mxnet.kvstore import KVStoreBase
from mxnet.ndarray import NDArray

import tensorkv
from tensorkv.errors import UnimplementedError
from tensorkv.kvstore import KVStore


class TensorKV(KVStoreBase):
    """A tensorkv.KVStore for MXNet: a worker's view of a server's values.

    Takes NDArrays that are dense, on any device: one or a list of keys, and for
    each key an NDArray or a list of one per device, which are summed. A call
    waits until MXNet's engine has computed what is pushed, and returns when it
    is done; what fails leaves `out` as it was. Priorities are ignored: workers
    make their calls in the same order, as gluon.Trainer does.

    With gluon.Trainer the server updates the weights, or the workers do with
    update_on_kvstore=False. A server uses the rule of the optimizer's name,
    whose formula is the same; what learning-rate schedulers and
    set_learning_rate change on rank 0 reaches it with the next step. As with
    MXNet's own servers, gluon.Trainer refuses another batch size after the
    first step, also for the last batch of an epoch.

    Errors: subclasses of tensorkv.Error; UnimplementedError for arrays that are
    not dense.
    """

    _KIND = "dist_sync"

    def __init__(self, store: Optional[KVStore] = None):
        """Joins the group, or takes a store that has."""
        self._store = store or tensorkv.create(self._KIND)
        # gluon.Trainer looks here for the optimizer of states it has loaded.
        self._updater = types.SimpleNamespace(optimizer=None)
        # The hyperparameters that the server has.
        self._known: Dict[str, float] = {}
        # This counts the pushes of each key, by its name in the store.
        self._updates: Dict[str, int] = collections.Counter()

    @property
    def store(self) -> KVStore:
        """The store behind."""
        return self._store

    @property
    def type(self) -> str:
        return f"tensorkv_{self._store.type}"

    @property
    def rank(self) -> int:
        return self._store.rank

    @property
    def num_workers(self) -> int:
        return self._store.num_workers

    def is_capable(self, capability: str) -> bool:
        return self._store.is_capable(capability)

    def init(self, key: Any, value: Any) -> None:
        """Creates keys with the values of rank 0."""
        self._store.init(key, _each(value, _elements))

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0):
        """init, and then pull."""
        self.init(key, value)
        self.pull(key, out)

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Contributes gradients, or values where there is no optimizer."""
        pushed = _each(value, _elements)
        self._follow_optimizer(key)
        self._store.push(key, pushed)

    def pull(self, key: Any, out: Any, priority: int = 0, **_: Any) -> None:
        """Fills `out` with the values."""
        _each(out, _check_is_dense)
        _fill(key, out, self._store.pull(key))

    def pushpull(
        self, key: Any, value: Any, out: Any = None, priority: int = 0
    ) -> None:
        """push, and then pull, in place without `out`."""
        out = value if out is None else out
        _each(out, _check_is_dense)
        pushed = _each(value, _elements)
        self._follow_optimizer(key)
        _fill(key, out, self._store.pushpull(key, pushed))

    def set_optimizer(self, optimizer: "mxnet.optimizer.Optimizer") -> None:
        """Lets the server do what rank 0's optimizer would do.

        Errors: UnimplementedError for an optimizer that no rule stands for.
        """
        self._updater.optimizer = optimizer
        if self.rank != 0:
            return
        plain = copy.copy(optimizer)
        plain.lr, plain.lr_scheduler = optimizer.learning_rate, None
        plain.lr_mult, plain.wd_mult = {}, {}
        self._store.set_optimizer(plain)
        self._known = _followed(plain)
        for key, (lr_mult, wd_mult) in _multipliers(optimizer).items():
            self._store.client.set_multipliers(
                str(key), learning_rate=lr_mult, weight_decay=wd_mult
            )

    def set_gradient_compression(self, compression_params: Dict) -> None:
        """As tensorkv.KVStore.set_gradient_compression."""
        self._store.set_gradient_compression(compression_params)

    def save_optimizer_states(
        self, fname: str, dump_optimizer: bool = False
    ) -> None:
        """Writes the server's states to a safetensors file, without pickle.

        The optimizer itself is not in it, whatever `dump_optimizer` says.
        """
        self._store.save_optimizer_states(fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Sets what save_optimizer_states has written; one worker calls it.

        That is rank 0 where a learning-rate scheduler is to go on.
        """
        self._store.load_optimizer_states(fname)
        client = self._store.client
        keys = client.keys()
        counts = client.pull(keys, state="update_count") if keys else []
        self._updates = collections.Counter(dict(zip(keys, map(int, counts))))
        optimizer = self._updater.optimizer
        if optimizer is not None:
            optimizer.num_update = max(
                [optimizer.begin_num_update, *self._updates.values()]
            )

    def barrier(self) -> None:
        """Returns when all workers have come to it."""
        self._store.barrier()

    _barrier = barrier

    def close(self) -> None:
        """Leaves the group."""
        self._store.close()

    def _follow_optimizer(self, key: Any) -> None:
        """Gives the server what rank 0's optimizer has for this push."""
        optimizer = self._updater.optimizer
        if optimizer is None or self.rank != 0:
            return
        for each in map(str, _per_key(key, key)):
            self._updates[each] += 1
            optimizer.num_update = max(
                optimizer.num_update, self._updates[each]
            )
        followed = _followed(optimizer)
        if followed != self._known:
            self._store.client.set_hyperparameters(**followed)
            self._known = followed


class TensorKVAsync(TensorKV):
    """A TensorKV where every push is an update."""

    _KIND = "dist_async"


# Trainers that are given a name take those with "dist" in them alone, where
# there is one device.
KVStoreBase.kv_registry.update(
    {
        "tensorkv": TensorKV,
        "tensorkv_dist_sync": TensorKV,
        "tensorkv_dist_async": TensorKVAsync,
    }
)


def _followed(optimizer: "mxnet.optimizer.Optimizer") -> Dict[str, float]:
    return {
        "learning_rate": float(optimizer.learning_rate),
        "rescale_grad": float(optimizer.rescale_grad),
    }


def _multipliers(optimizer: "mxnet.optimizer.Optimizer") -> Dict[Any, tuple]:
    """Returns what multiplies a key's learning rate and weight decay."""
    found = {
        key: (parameter.lr_mult, parameter.wd_mult)
        for key, parameter in optimizer.param_dict.items()
    }
    for key in {*optimizer.lr_mult, *optimizer.wd_mult}:
        found[key] = (
            optimizer.lr_mult.get(key, 1.0),
            optimizer.wd_mult.get(key, 1.0),
        )
    return {key: each for key, each in found.items() if each != (1.0, 1.0)}


def _each(value: Any, convert: Callable[[NDArray], Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_each(each, convert) for each in value]
    return convert(value)


def _check_is_dense(array: NDArray) -> None:
    if array.stype != "default":
        raise UnimplementedError(
            f"an array of the storage type {array.stype!r}: expected a dense "
            "one; use tensorkv.KVStore with RowSparseArray"
        )


def _elements(array: NDArray) -> np.ndarray:
    _check_is_dense(array)
    return array.asnumpy()


def _per_key(key: Any, value: Any) -> List[Any]:
    return list(value) if isinstance(key, (list, tuple)) else [value]


def _list(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _fill(key: Any, out: Any, values: Any) -> None:
    """Copies the value of each key, or the first of its equal ones, to all."""
    for targets, value in zip(_per_key(key, out), _per_key(key, values)):
        for target in _list(targets):
            target[:] = _list(value)[0]
