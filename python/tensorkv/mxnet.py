"""MXNet over a TensorKV server: stores for mx.kv.create and gluon.Trainer.

To import this registers "tensorkv_dist_sync" and "tensorkv_dist_async":

    import tensorkv.mxnet

    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1},
                            kvstore=mx.kv.create("tensorkv_dist_sync"))

Target, namespace and number of workers are those of TENSORKV_TARGET,
TENSORKV_NAMESPACE and DMLC_NUM_WORKER. There is no scheduler and no server of
MXNet; roles are not told apart.
"""

from __future__ import annotations

import copy
import types
from typing import Any, Callable, Dict, List

import mxnet
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

    Methods do what those of tensorkv.KVStore do. Errors: subclasses of
    tensorkv.Error; UnimplementedError for arrays that are not dense.
    """

    def __init__(self, store: KVStore):
        self._store = store
        # gluon.Trainer looks here for the optimizer of states it has loaded.
        self._updater = types.SimpleNamespace(optimizer=None)
        # The hyperparameters that the server has.
        self._known: Dict[str, float] = {}

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
        self._store.init(key, _each(value, _elements))

    def broadcast(
        self, key: Any, value: Any, out: Any, priority: int = 0
    ) -> None:
        self.init(key, value)
        self.pull(key, out)

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        pushed = _each(value, _elements)
        self._follow_optimizer(key)
        self._store.push(key, pushed)

    def pull(self, key: Any, out: Any, priority: int = 0, **_: Any) -> None:
        _each(out, _check_is_dense)
        _fill(key, out, self._store.pull(key))

    def pushpull(
        self, key: Any, value: Any, out: Any = None, priority: int = 0
    ) -> None:
        out = value if out is None else out
        _each(out, _check_is_dense)
        pushed = _each(value, _elements)
        self._follow_optimizer(key)
        _fill(key, out, self._store.push_pull(key, pushed))

    def set_optimizer(self, optimizer: "mxnet.optimizer.Optimizer") -> None:
        """Lets the server do what rank 0's optimizer would do."""
        self._updater.optimizer = optimizer
        if self.rank != 0:
            return
        bare = copy.copy(optimizer)
        bare.lr, bare.lr_scheduler = optimizer.learning_rate, None
        bare.lr_mult, bare.wd_mult = {}, {}
        self._store.set_optimizer(bare)
        self._known = _followed(bare)
        multiplied = {
            key: (parameter.lr_mult, parameter.wd_mult)
            for key, parameter in optimizer.param_dict.items()
        }
        for key in {*optimizer.lr_mult, *optimizer.wd_mult}:
            lr_mult = optimizer.lr_mult.get(key, 1.0)
            multiplied[key] = lr_mult, optimizer.wd_mult.get(key, 1.0)
        for key, (lr_mult, wd_mult) in multiplied.items():
            if (lr_mult, wd_mult) != (1.0, 1.0):
                self._store.client.set_multipliers(
                    str(key), learning_rate=lr_mult, weight_decay=wd_mult
                )

    def set_gradient_compression(
        self, compression_params: Dict[str, Any]
    ) -> None:
        self._store.set_gradient_compression(compression_params)

    def save_optimizer_states(
        self, fname: str, dump_optimizer: bool = False
    ) -> None:
        """Writes states alone: without pickle there is no optimizer object."""
        self._store.save_optimizer_states(fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Sets the server's states; one worker calls it.

        That is rank 0 where a learning-rate scheduler is to go on.
        """
        self._store.load_optimizer_states(fname)
        client, optimizer = self._store.client, self._updater.optimizer
        keys = client.keys()
        if keys and optimizer is not None:
            counts = map(int, client.get_state(keys, "update_count"))
            optimizer._index_update_count.update(zip(keys, counts))
            optimizer.num_update = max(optimizer._index_update_count.values())

    def barrier(self) -> None:
        self._store.barrier()

    def close(self) -> None:
        self._store.close()

    def _follow_optimizer(self, key: Any) -> None:
        """Gives the server what rank 0's optimizer has for this push."""
        optimizer = self._updater.optimizer
        if optimizer is None or self.rank != 0:
            return
        optimizer._update_count([str(each) for each in _list(key)])
        followed = _followed(optimizer)
        if followed != self._known:
            self._store.client.set_hyperparameters(**followed)
            self._known = followed


# Trainers that are given a name take those with "dist" in them alone, where
# there is one device.
KVStoreBase.kv_registry.update(
    tensorkv_dist_sync=lambda: TensorKV(tensorkv.create("dist_sync")),
    tensorkv_dist_async=lambda: TensorKV(tensorkv.create("dist_async")),
)


def _followed(optimizer: "mxnet.optimizer.Optimizer") -> Dict[str, Any]:
    return {
        "learning_rate": float(optimizer.learning_rate),
        "rescale_grad": float(optimizer.rescale_grad),
    }


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


def _elements(array: NDArray) -> Any:
    _check_is_dense(array)
    return array.asnumpy()


def _list(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _fill(key: Any, out: Any, values: Any) -> None:
    """Copies the value of each key, or the first of its equal ones, to all."""
    if not isinstance(key, (list, tuple)):
        out, values = [out], [values]
    for targets, value in zip(out, values):
        for target in _list(targets):
            target[:] = _list(value)[0]
