"""Pushes and pulls of NDArrays while MXNet's engine goes on."""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import math
import operator
import queue
import sys
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import mxnet
import numpy as np
from mxnet.base import _LIB, check_call
from mxnet.ndarray import NDArray

from tensorkv._core import EngineJobs
from tensorkv.errors import ClosedError, UnimplementedError
from tensorkv.kvstore import KVStore

if not mxnet.__version__.startswith("1."):
    # Later engines give operations other arguments.
    raise ImportError(f"expected MXNet 1, got {mxnet.__version__}")

# The number of MXNet's C API for an operation that ends after its function has
# returned. Once what it reads is there, whichever thread of the engine finds
# that runs it.
_ASYNC = ctypes.c_int(4)
_CPU = (ctypes.c_int32 * 2)(1, 0)


class _Copy:
    """Copies an array to another, as NDArray.copyto does.

    The call of C is made ready once, which takes most of its time.
    """

    def __init__(self, source: NDArray, target: NDArray):
        self._arrays = source, target
        targets = ctypes.pointer((ctypes.c_void_p * 1)(target.handle.value))
        self._arguments = (
            _operation("_copyto"),
            ctypes.c_int(1),
            (ctypes.c_void_p * 1)(source.handle.value),
            ctypes.byref(ctypes.c_int(1)),
            ctypes.byref(targets),
            ctypes.c_int(0),
            None,
            None,
            ctypes.byref(ctypes.POINTER(ctypes.c_int)()),
        )

    def __call__(self) -> None:
        check_call(_LIB.MXImperativeInvokeEx(*self._arguments))


class _Buffers:
    """Arrays of a key in host memory, for all its jobs.

    They are copies, since arrays may be on other devices, and in layouts of the
    libraries that compute with them. The engine keeps jobs in their order.
    """

    def __init__(self, gradients: List[NDArray], out: NDArray):
        self.gradients = [_on_host(gradient) for gradient in gradients]
        self.out = _on_host(out)
        self.read, self.written = _handles(self.gradients), _handles([self.out])
        self._kinds = _kinds_of([*gradients, out])
        shape, dtype = self._kinds[0]
        self.bytes = math.prod(shape) * np.dtype(dtype).itemsize
        self._memory: Optional[tuple] = None
        # What the latest job was made for, which is mostly what the next is.
        self._arrays: List[NDArray] = []
        self.is_in_place = False
        self.copies_in: List[_Copy] = []
        self.copies_out: List[_Copy] = []

    def fit(self, gradients: List[NDArray], out: NDArray) -> bool:
        return self._kinds == _kinds_of([*gradients, out])

    def are_of(self, gradients: List[NDArray], outs: List[NDArray]) -> bool:
        arrays = gradients + outs
        return len(arrays) == len(self._arrays) and all(
            map(operator.is_, arrays, self._arrays)
        )

    def become_of(self, gradients: List[NDArray], outs: List[NDArray]) -> None:
        self._arrays = gradients + outs
        self.is_in_place = outs[0] is gradients[0]
        self.copies_in = list(map(_Copy, gradients, self.gradients))
        if not self.is_in_place:
            # This goes back where a call fails. What is exchanged in place is
            # in the gradient's buffer.
            self.copies_in.append(_Copy(outs[0], self.out))
        self.copies_out = [_Copy(self.out, out) for out in outs]

    @property
    def memory(self) -> tuple:
        """The gradients and `out`, for a job that is ready."""
        if self._memory is None:
            gradients = [memory_of(gradient) for gradient in self.gradients]
            self._memory = gradients, memory_of(self.out)
        return self._memory


class _Job(NamedTuple):
    """A key to be pushed and pulled."""

    number: int
    key: Any
    buffers: _Buffers
    is_in_place: bool
    hyperparameters: Dict[str, float]


class Exchange:
    """Pushes keys as their gradients are computed, and pulls them together.

    MXNet's engine has an operation per key, which reads the gradients and
    writes `out`. It begins with saying that the gradients are there, and ends
    when the engine is told so; no thread of the engine waits meanwhile. Neither
    runs any Python, which would wait for the thread that trains. Calls are made
    by three threads, since more would take the processor from what computes.
    One takes all keys that are ready at once, small ones with those that are
    about to be, and gets what becomes of them by the same call. Since that
    waits for other workers, which may come to their keys in another order,
    another only pushes meanwhile, and leaves it to the third to pull. What
    fails leaves `out` as it was, or where there are several, all as the first
    of them was.

    For one thread.
    """

    def __init__(self, store: KVStore):
        self._store = store
        self._is_closed = False
        self._error: Any = None  # guarded by _error_lock
        self._error_lock = threading.Lock()
        self._telling = threading.Lock()
        # The hyperparameters that the store has.
        self.known: Dict[str, float] = {}
        self._buffers: Dict[Any, _Buffers] = {}
        self._numbers = itertools.count()
        self._engine = EngineJobs()
        # Those that the engine has, by their numbers.
        self._jobs: Dict[int, _Job] = {}
        self._pushed: queue.SimpleQueue = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._push_pull, self._push, self._pull)
        ]
        for thread in self._threads:
            thread.start()
        # This runs before the store is closed, which was made earlier.
        atexit.register(self._settle_at_exit)

    def add(
        self,
        key: Any,
        gradients: List[NDArray],
        outs: List[NDArray],
        hyperparameters: Dict[str, float],
        priority: int,
    ) -> None:
        """Has the engine exchange a key once its gradients are computed.

        The store has these hyperparameters then; none are as they were.

        Errors: ClosedError; UnimplementedError for arrays that are not dense.
        """
        if self._is_closed:
            raise ClosedError("the store is closed")
        buffers = self._buffers_of(key, gradients, outs)
        for copy in buffers.copies_in:
            copy()
        number, is_in_place = next(self._numbers), buffers.is_in_place
        job = _Job(number, key, buffers, is_in_place, hyperparameters)
        self._jobs[job.number] = job
        self._run_in_engine(job, priority)
        for copy in buffers.copies_out:
            copy()

    def tell(self, hyperparameters: Dict[str, float]) -> None:
        """Changes those of the store, unless it has them or there are none."""
        if hyperparameters and hyperparameters != self.known:
            self._store.client.set_hyperparameters(**hyperparameters)
            self.known = hyperparameters

    def settle(self) -> None:
        """Waits until all is done. Raises what a call has ended with."""
        mxnet.nd.waitall()
        self.raise_error()

    def raise_error(self) -> None:
        """Raises what a call has ended with, once."""
        with self._error_lock:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Ends the threads. Nothing may be under way."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self._settle_at_exit)
        self._engine.close()
        for thread in self._threads:
            thread.join()
        # They have the arrays that were exchanged last.
        self._buffers.clear()

    def _buffers_of(
        self, key: Any, gradients: List[NDArray], outs: List[NDArray]
    ) -> _Buffers:
        buffers = self._buffers.get(key)
        if buffers is not None and buffers.are_of(gradients, outs):
            return buffers
        for array in (*gradients, *outs):
            check_is_dense(array)
        if buffers is None or not buffers.fit(gradients, outs[0]):
            buffers = self._buffers[key] = _Buffers(gradients, outs[0])
        buffers.become_of(gradients, outs)
        return buffers

    def _settle_at_exit(self) -> None:
        try:
            self.settle()
        except Exception as error:
            print(
                f"tensorkv: an exchange has failed: {error!r}", file=sys.stderr
            )

    def _ready(self, is_last: bool = False) -> Iterator[List[_Job]]:
        """The jobs that are ready, whenever there are some."""
        for numbers in iter(lambda: self._engine.take(is_last), []):
            yield from _distinct([self._jobs.pop(n) for n in numbers])

    def _waiting(self) -> Iterator[List[_Job]]:
        """The jobs that were pushed, whenever there are some."""
        for jobs in iter(self._pushed.get, []):
            while not self._pushed.empty():
                more = self._pushed.get()
                if not more:
                    self._pushed.put(more)
                    break
                jobs += more
            yield from _distinct(jobs)

    def _push_pull(self) -> None:
        for jobs in self._ready():
            try:
                self._tell(jobs)
                self._store.pushpull(
                    [job.key for job in jobs],
                    [job.buffers.memory[0] for job in jobs],
                    out=[job.buffers.memory[1] for job in jobs],
                )
            except Exception as error:
                self._end(jobs, error)
            else:
                self._end(jobs)

    def _push(self) -> None:
        for jobs in self._ready(is_last=True):
            try:
                self._tell(jobs)
                self._store.push(
                    [job.key for job in jobs],
                    [job.buffers.memory[0] for job in jobs],
                )
            except Exception as error:
                self._end(jobs, error)
            else:
                self._pushed.put(jobs)
        self._pushed.put([])  # There will be no more.

    def _pull(self) -> None:
        for jobs in self._waiting():
            try:
                self._store.pull(
                    [job.key for job in jobs],
                    out=[job.buffers.memory[1] for job in jobs],
                )
            except Exception as error:
                self._end(jobs, error)
            else:
                self._end(jobs)

    def _tell(self, jobs: List[_Job]) -> None:
        # Gradients depend on what all keys had become with those before, so
        # that these rounds have closed, and the next ones wait for this push.
        with self._telling:
            for job in jobs:
                self.tell(job.hyperparameters)

    def _end(self, jobs: List[_Job], error: Any = None) -> None:
        with self._error_lock:
            self._error = self._error or error
        if error is not None:
            for job in jobs:
                if job.is_in_place:
                    gradients, out = job.buffers.memory
                    out[...] = gradients[0]
        self._engine.end([job.number for job in jobs])

    def _run_in_engine(self, job: _Job, priority: int) -> None:
        check_call(
            _LIB.MXEnginePushAsyncND(
                ctypes.c_void_p(EngineJobs.begin),
                ctypes.c_void_p(
                    self._engine.new_operation(job.number, job.buffers.bytes)
                ),
                ctypes.c_void_p(EngineJobs.delete),
                ctypes.byref(_CPU),
                *job.buffers.read,
                *job.buffers.written,
                ctypes.byref(_ASYNC),
                ctypes.c_int(priority),
                ctypes.c_char_p(b"tensorkv"),
                ctypes.c_bool(False),
            )
        )


def check_is_dense(array: NDArray) -> None:
    """Errors: UnimplementedError where it is not."""
    if array.stype != "default":
        raise UnimplementedError(
            f"an array of the storage type {array.stype!r}: expected a dense "
            "one; use tensorkv.KVStore with RowSparseArray"
        )


def is_on_host(array: NDArray) -> bool:
    return array.context.device_type != "gpu"


def memory_of(array: NDArray) -> np.ndarray:
    """The elements of an array in host memory, which keep it alive.

    The engine does not know of them: it is to be done with the array, or to
    hold it for the caller.
    """
    pointer = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(pointer)))
    shape, dtype = array.shape, np.dtype(array.dtype)
    num_bytes = math.prod(shape) * dtype.itemsize
    memory = (ctypes.c_char * num_bytes).from_address(pointer.value or 0)
    memory.owner = array
    return np.ndarray(shape, dtype, memory)


def _distinct(jobs: List[_Job]) -> Iterator[List[_Job]]:
    """The jobs in their order, each key once at a time."""
    taken: Dict[Any, _Job] = {}
    for job in jobs:
        if job.key in taken:
            yield list(taken.values())
            taken = {}
        taken[job.key] = job
    yield list(taken.values())


def _on_host(array: NDArray) -> NDArray:
    return mxnet.nd.empty(array.shape, mxnet.cpu(), array.dtype)


def _handles(arrays: List[NDArray]) -> tuple:
    """The arrays as two arguments of a call of C."""
    handles = (ctypes.c_void_p * len(arrays))(
        *(array.handle.value for array in arrays)
    )
    return handles, ctypes.c_int(len(arrays))


@functools.lru_cache(maxsize=None)
def _operation(name: str) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    check_call(_LIB.NNGetOpHandle(name.encode(), ctypes.byref(handle)))
    return handle


def _kinds_of(arrays: List[NDArray]) -> List[tuple]:
    return [(array.shape, array.dtype) for array in arrays]
