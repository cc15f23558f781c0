"""Groups of workers that train copies of a module, and meet in a store."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import torch

from tensorkv import federated
from tensorkv.aio import Threads
from tensorkv.errors import InvalidArgumentError
from tensorkv.kvstore import KVStore
from tensorkv.torch._tensors import moved, on_host, put_back


def _check_has_rounds(store: KVStore, what: str) -> None:
    if "async" in store.type:
        raise InvalidArgumentError(
            f"{what}: expected a store that sums what all workers push, such "
            f"as dist_sync, got {store.type}"
        )


class MeanGradients:
    """A communication hook of DistributedDataParallel that uses a store.

        kv = tensorkv.create("dist_sync", target=..., num_workers=4)
        kv.set_gradient_compression({"type": "2bit", "threshold": 0.01})
        model.register_comm_hook(MeanGradients(kv), MeanGradients.hook)

    Buckets of gradients are summed in the store, while the backward pass goes
    on. The store has no optimizer for these keys; that of the training loop
    stays. DistributedDataParallel wants a process group all the same, for what
    it exchanges before the first step.
    """

    def __init__(self, store: KVStore, name: str = "gradients"):
        """`store` is of a type whose pushes are summed: "dist_sync", ...

        Errors: InvalidArgumentError for another type.
        """
        _check_has_rounds(store, type(self).__name__)
        self._store = store
        self._name = name
        # There is one, so that workers push their buckets in the same order.
        self._thread = Threads(max_calls=1)
        # Of each bucket, by its index.
        self._keys: Dict[int, str] = {}
        if store.rank == 0:
            store.client.set_rule("assign", key_pattern=f"{name}/*")

    # It has no annotations: DistributedDataParallel would compare them.
    @staticmethod
    def hook(state, bucket):  # type: ignore[no-untyped-def]
        """What register_comm_hook takes, with a MeanGradients as its state.

        Errors of the store come out of backward() as a RuntimeError.
        """
        gradients = bucket.buffer()
        device, devices, wait = gradients.device, [], lambda: None
        if device.type == "cuda":
            # The backward pass may run on a stream of its own.
            computed = torch.cuda.current_stream(device).record_event()
            devices, wait = [device], computed.synchronize
        future = torch.futures.Future(devices=devices)
        reduce, index = state._reduce, bucket.index()
        state._thread.submit(lambda: reduce(index, gradients, wait, future))
        # DistributedDataParallel takes an exception that was set for a value,
        # but not one that a function has raised.
        return future.then(lambda done: done.value())

    def _reduce(
        self,
        index: int,
        gradients: torch.Tensor,
        wait: Callable[[], None],
        future: torch.futures.Future,
    ) -> None:
        try:
            wait()
            # Buckets are made anew after the first step, of other sizes.
            key = f"{self._name}/{index}/{gradients.numel()}"
            total = on_host(gradients)
            earlier = self._keys.get(index, key)
            if index not in self._keys or key != earlier:
                self._store.init(key, torch.zeros_like(total))
                self._keys[index] = key
            self._store.push_pull(key, total)
            if key != earlier and self._store.rank == 0:
                # All workers have pushed after they were done with that one.
                self._store.client.delete(earlier)
            put_back([gradients], [total])
            future.set_result(gradients.div_(self._store.num_workers))
        except Exception as error:
            future.set_exception(error)


class FederatedAveraging(federated.FederatedAveraging):
    """Lets clients train a module by themselves, and take the mean of all.

        client = tensorkv.Client("host:7363", namespace="federated-1")
        averaging = FederatedAveraging(module, client, optimizer=FedAdam())
        while averaging.round < 100:
            num_examples = train(module)
            averaging.average(num_examples)

    It is tensorkv.federated.FederatedAveraging, whose arguments it has, of a
    module in the place of arrays. Parameters go through the server's optimizer.
    Buffers that state_dict() has become the mean: running means and variances
    of normalisations, and their counters of batches.
    """

    @classmethod
    def _tensors_of(
        cls, model: Any
    ) -> Tuple[Dict[str, torch.Tensor], Dict[str, torch.Tensor]]:
        kept = model.state_dict().keys()
        parameters: Dict[str, torch.Tensor] = dict(model.named_parameters())
        optimized = {k: p for k, p in parameters.items() if cls._is_float(p)}
        averaged = {
            key: tensor
            for key, tensor in {
                **parameters,
                **dict(model.named_buffers()),
            }.items()
            if key in kept and key not in optimized
        }
        return optimized, averaged

    _is_float = staticmethod(torch.is_floating_point)
    _moved: Any = staticmethod(moved)
    _empty_like = staticmethod(torch.empty_like)

    def _on_host(self) -> List[torch.Tensor]:
        return [on_host(tensor) for tensor in self._targets()]

    def _put(self, values: List[torch.Tensor]) -> None:
        put_back(self._targets(), values)
