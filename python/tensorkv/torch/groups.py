"""Groups of workers that train copies of a module, and meet in a store."""

from __future__ import annotations

import math
from typing import Callable, Dict, List

import torch

from tensorkv.aio import Threads
from tensorkv.errors import InvalidArgumentError
from tensorkv.kvstore import KVStore
from tensorkv.torch._tensors import on_host, put_back


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
    def hook(state, bucket):
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


class _Copies:
    """The floats of a module, of which a store has one copy for a group."""

    def __init__(
        self, module: torch.nn.Module, store: KVStore, name: str, rule: str
    ):
        _check_has_rounds(store, type(self).__name__)
        self._store = store
        self._tensors = {
            key: tensor
            for key, tensor in self._part_of(module).items()
            if tensor.is_floating_point()
        }
        self._keys = [f"{name}/{key}" for key in self._tensors]
        # The rule is not to change for a run that may not begin.
        store._check_new(self._all_keys())
        if store.rank == 0:
            store.client.set_rule(rule, key_pattern=f"{name}/*")
        self._begin()

    def _all_keys(self) -> List[str]:
        return self._keys

    def _begin(self) -> None:
        """Takes the state that rank 0 has, or that of an earlier run."""
        values = self._values()
        self._store.broadcast(self._keys, values, out=values)
        put_back(self._tensors.values(), values)

    @staticmethod
    def _part_of(module: torch.nn.Module) -> Dict[str, torch.Tensor]:
        return module.state_dict()

    def _values(self) -> list:
        return [on_host(tensor) for tensor in self._tensors.values()]


def _check_is_exact(store: KVStore) -> None:
    if store._compresses:
        raise InvalidArgumentError(
            "FederatedAveraging: expected a store without gradient compression"
        )


def _sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """That of a sum of values: narrower ones would leave its range."""
    return torch.float64 if dtype == torch.float64 else torch.float32


class FederatedAveraging(_Copies):
    """Lets workers train by themselves, and then take the mean of all.

        averaging = FederatedAveraging(module, kv)
        for _ in range(rounds):
            num_examples = train(module)
            averaging.average(num_examples)

    The mean is over the floats of the module's state_dict, running means of
    normalisations among them, and over the workers that a round has: where the
    namespace goes on without those who are lost, or has a quorum, over those
    who came. Others may read it: under NAME/TENSOR the store has the weighted
    sum, as f32 or f64, and under NAME/.weight the sum of the weights. Integers
    stay as they are in each worker.
    """

    def __init__(
        self, module: torch.nn.Module, store: KVStore, name: str = "federated"
    ):
        """Takes the state of rank 0. `store` is of the type "dist_sync".

        Errors: InvalidArgumentError for a store without rounds, or one that
        compresses what is pushed, which would not be a mean.
        """
        _check_is_exact(store)
        self._weight_key = f"{name}/.weight"
        super().__init__(module, store, name, "assign")

    def average(self, weight: float = 1.0) -> None:
        """Waits for the group, and puts the weighted mean into the module.

        Args:
          weight: such as the number of examples since the last mean; 0 for a
            worker that has none, and takes what the others have.

        Errors: ValueError where it is negative or not finite, or all are 0;
        InvalidArgumentError for a store that compresses; those of
        KVStore.push_pull.
        """
        if not 0 <= weight < math.inf:
            raise ValueError(f"weight: expected 0 or more, got {weight}")
        _check_is_exact(self._store)
        sums = self._sums(weight)
        self._store.push_pull(self._all_keys(), sums)
        self._take(sums)

    def _begin(self) -> None:
        # The state that all begin with is that of one worker.
        sums = self._sums(1.0)
        self._store.broadcast(self._all_keys(), sums, out=sums)
        self._take(sums)

    def _all_keys(self) -> List[str]:
        return [*self._keys, self._weight_key]

    def _sums(self, weight: float) -> List[torch.Tensor]:
        """What this worker adds: its values, times the weight, and that."""
        values = [v.to(_sum_dtype(v.dtype)) for v in self._values()]
        # Whatever it has counts nothing without a weight, NaN neither.
        sums = [v * weight if weight else torch.zeros_like(v) for v in values]
        return [*sums, torch.tensor([weight], dtype=torch.float64)]

    def _take(self, sums: List[torch.Tensor]) -> None:
        """Puts the mean into the module."""
        *values, total = sums
        if not total.item():
            raise ValueError("weight: expected one of the group above 0")
        put_back(
            self._tensors.values(), [value / total.item() for value in values]
        )


class DiLoCo(_Copies):
    """Lets workers take many steps by themselves between steps of the group.

        diloco = DiLoCo(module, kv, inner_steps=500)
        for batch in batches:
            ...
            inner_optimizer.step()
            diloco.step()

    After every `inner_steps` steps the store takes the mean of what the workers
    have moved by as a gradient, and makes a step of Nesterov's momentum along
    it, from which all go on.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        store: KVStore,
        inner_steps: int,
        learning_rate: float = 0.7,
        momentum: float = 0.9,
        name: str = "diloco",
    ):
        """Takes rank 0's parameters. `store` is of the type "dist_sync".

        Errors: InvalidArgumentError for a store without rounds, or less than
        one inner step.
        """
        if inner_steps < 1:
            raise InvalidArgumentError(
                f"inner_steps: expected at least 1, got {inner_steps}"
            )
        rule = (
            f"diloco(learning_rate={learning_rate!r}, momentum={momentum!r}, "
            f"rescale_grad={1 / store.num_workers!r})"
        )
        super().__init__(module, store, name, rule)
        self._inner_steps = inner_steps
        self._steps = 0
        self._start = [value.clone() for value in self._values()]

    @staticmethod
    def _part_of(module: torch.nn.Module) -> Dict[str, torch.Tensor]:
        return {key: p.detach() for key, p in module.named_parameters()}

    def step(self) -> bool:
        """Counts a step of this worker; whether the group made one."""
        self._steps += 1
        if self._steps % self._inner_steps:
            return False
        values = self._values()
        moves = [old - new for old, new in zip(self._start, values)]
        self._store.push_pull(self._keys, moves, out=values)
        put_back(self._tensors.values(), values)
        self._start = [value.clone() for value in values]
        return True
