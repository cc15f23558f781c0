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
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Union

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
_Pointer = ctypes.c_void_p


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


class _Lent:
    """An array that is exchanged where it is.

    A call that fails with a part of its reply leaves that in it.
    """

    copies_in = copies_out = ()
    goes_back = False

    def __init__(self, array: NDArray, order: NDArray):
        self._array = array
        self.read, self.written = _handles([]), _handles([array, order])
        self.order = order
        self.bytes = _size_bytes(array)
        self._chunk = _chunk_of(array)
        # The chunk that `memory` is of, and where that is.
        self._place: tuple = ()
        # The gradients and `out` of a job that has begun.
        self.memory: tuple = ()

    def are_of(self, gradients: List[NDArray], outs: List[NDArray]) -> bool:
        return len(gradients) == len(outs) == 1 and (
            gradients[0] is outs[0] is self._array
        )

    def begin(self) -> None:
        """Looks where the elements are, for a job that has begun.

        Puts them into NumPy's order first, as MXNet itself would: what computes
        with arrays puts some into layouts of its own.
        """
        chunk = self._chunk.value or 0
        _reorder()(chunk)
        place = chunk, _Pointer.from_address(chunk).value
        if place != self._place:
            elements = _elements_at(_address_of(self._array), self._array)
            self.memory = [elements], elements
            self._place = place


def _may_be_lent(gradients: List[NDArray], outs: List[NDArray]) -> bool:
    """Whether this is one array, which can be exchanged where it is."""
    array = outs[0]
    return (
        len(gradients) == len(outs) == 1
        and gradients[0] is array
        and is_on_host(array)
        and np.dtype(array.dtype).kind == "f"
        and _reorder() is not None
    )


class _Copied:
    """Arrays of a key in host memory, for all its jobs.

    They are copies, of arrays that may be on other devices, in layouts of the
    libraries that compute with them, or several.
    """

    def __init__(
        self, gradients: List[NDArray], out: NDArray, order: NDArray
    ):
        self.gradients = [_on_host(gradient) for gradient in gradients]
        self.out = _on_host(out)
        self.read = _handles(self.gradients)
        self.written = _handles([self.out, order])
        self.order = order
        self._kinds = _kinds_of([*gradients, out])
        self.bytes = _size_bytes(out)
        # The gradients and `out` of a job that has begun.
        self.memory: tuple = ()
        self._arrays: List[NDArray] = []
        # Whether `out` is to be what the gradient was, where a call fails.
        self.goes_back = False
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
        self.goes_back = outs[0] is gradients[0]
        self.copies_in = list(map(_Copy, gradients, self.gradients))
        if not self.goes_back:
            # It is still what it was, where a call fails.
            self.copies_in.append(_Copy(outs[0], self.out))
        self.copies_out = [_Copy(self.out, out) for out in outs]

    def begin(self) -> None:
        """Looks where the elements are, for a job that has begun."""
        if not self.memory:
            gradients = [memory_of(gradient) for gradient in self.gradients]
            self.memory = gradients, memory_of(self.out)


_Buffers = Union[_Lent, _Copied]


class _Job(NamedTuple):
    """A key to be pushed and pulled."""

    number: int
    key: Any
    buffers: _Buffers
    goes_back: bool
    hyperparameters: Dict[str, float]


class Exchange:
    """Pushes keys as their gradients are computed, and pulls them together.

    MXNet's engine has an operation per key, which reads the gradients and
    writes `out`, or works in place. It begins with saying that the gradients
    are there, and ends when the engine is told so; no thread of the engine
    waits meanwhile. Neither runs any Python, which would wait for the thread
    that trains. Calls are made by three threads, since more would take the
    processor from what computes. Two take all keys that are ready at once,
    small ones with those that are about to be. One of them at a time gets what
    becomes of its keys by the same call. Since that waits for other workers,
    which may come to their keys in another order, the other only pushes
    meanwhile, and leaves it to the third to pull. What fails leaves `out` as it
    was, or where there are several, all as the first of them was; or where that
    is what was pushed, perhaps with a part of the new value.

    For one thread.
    """

    def __init__(self, store: KVStore):
        self._store = store
        self._is_closed = False
        self._error: Any = None  # guarded by _error_lock
        self._error_lock = threading.Lock()
        self._telling = threading.Lock()
        # Held by the thread whose call waits for other workers.
        self._awaiting = threading.Lock()
        # The hyperparameters that the store has.
        self.known: Dict[str, float] = {}
        # Of each key what the latest job was made for, which is mostly what the
        # next is, and what all its jobs write, so that the engine keeps them in
        # their order.
        self._buffers: Dict[Any, _Buffers] = {}
        self._orders: Dict[Any, NDArray] = {}
        self._numbers = itertools.count()
        self._engine = EngineJobs()
        # Those that the engine has, by their numbers.
        self._jobs: Dict[int, _Job] = {}
        self._pushed: queue.SimpleQueue = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._exchange, self._exchange, self._pull)
        ]
        for thread in self._threads:
            thread.start()
        # This runs before the store is closed, which was made earlier.
        atexit.register(self._settle_at_exit)

    def check(
        self, key: Any, gradients: List[NDArray], outs: List[NDArray]
    ) -> None:
        """Errors: UnimplementedError for arrays that are not dense."""
        buffers = self._buffers.get(key)
        if buffers is None or not buffers.are_of(gradients, outs):
            for array in (*gradients, *outs):
                check_is_dense(array)

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

        REQUIRES: arrays that are dense, as `check` says.
        Errors: ClosedError.
        """
        if self._is_closed:
            raise ClosedError("the store is closed")
        buffers = self._buffers_of(key, gradients, outs)
        for copy in buffers.copies_in:
            copy()
        number, goes_back = next(self._numbers), buffers.goes_back
        job = _Job(number, key, buffers, goes_back, hyperparameters)
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
        *exchanging, pulling = self._threads
        for thread in exchanging:
            thread.join()
        self._pushed.put([])  # Nobody pushes any more.
        pulling.join()
        # They have the arrays that were exchanged last.
        self._buffers.clear()
        self._orders.clear()

    def _buffers_of(
        self, key: Any, gradients: List[NDArray], outs: List[NDArray]
    ) -> _Buffers:
        buffers = self._buffers.get(key)
        if buffers is not None and buffers.are_of(gradients, outs):
            return buffers
        if key not in self._orders:
            self._orders[key] = mxnet.nd.empty(1, mxnet.cpu())
        if _may_be_lent(gradients, outs):
            buffers = _Lent(outs[0], self._orders[key])
        else:
            if type(buffers) is not _Copied or not buffers.fit(
                gradients, outs[0]
            ):
                buffers = _Copied(gradients, outs[0], self._orders[key])
            buffers.become_of(gradients, outs)
        self._buffers[key] = buffers
        return buffers

    def _settle_at_exit(self) -> None:
        try:
            self.settle()
        except Exception as error:
            print(
                f"tensorkv: an exchange has failed: {error!r}", file=sys.stderr
            )

    def _ready(self) -> Iterator[List[_Job]]:
        """The jobs that are ready, whenever there are some."""
        for numbers in iter(self._engine.take, []):
            jobs = [self._jobs.pop(n) for n in numbers]
            jobs = list(filter(self._begin, jobs))
            if jobs:
                yield jobs

    def _begin(self, job: _Job) -> bool:
        """Whether the job can be done; ends it alone if not."""
        try:
            job.buffers.begin()
        except Exception as error:
            self._end([job], error)
            return False
        return True

    def _waiting(self) -> Iterator[List[_Job]]:
        """The jobs that were pushed, whenever there are some."""
        for jobs in iter(self._pushed.get, []):
            while not self._pushed.empty():
                more = self._pushed.get()
                if not more:
                    self._pushed.put(more)
                    break
                jobs += more
            yield jobs

    def _exchange(self) -> None:
        for jobs in self._ready():
            if self._awaiting.acquire(blocking=False):
                self._push_pull(jobs)
            else:
                self._push(jobs)

    def _push_pull(self, jobs: List[_Job]) -> None:
        error = None
        try:
            self._tell(jobs)
            gradients, outs = _memory_of_all(jobs)
            keys = [job.key for job in jobs]
            self._store.pushpull(keys, gradients, out=outs)
        except Exception as raised:
            error = raised
        finally:
            self._awaiting.release()
        self._end(jobs, error)

    def _push(self, jobs: List[_Job]) -> None:
        try:
            self._tell(jobs)
            gradients, _ = _memory_of_all(jobs)
            self._store.push([job.key for job in jobs], gradients)
        except Exception as error:
            self._end(jobs, error)
        else:
            self._pushed.put(jobs)

    def _pull(self) -> None:
        for jobs in self._waiting():
            try:
                _, outs = _memory_of_all(jobs)
                self._store.pull([job.key for job in jobs], out=outs)
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
                if job.goes_back and job.buffers.memory:
                    gradients, out = job.buffers.memory
                    out[...] = gradients[0]
        self._engine.end([job.number for job in jobs])

    def _run_in_engine(self, job: _Job, priority: int) -> None:
        check_call(
            _LIB.MXEnginePushAsyncND(
                ctypes.c_void_p(EngineJobs.begin),
                ctypes.c_void_p(
                    self._engine.new_operation(
                        job.number,
                        job.buffers.order.handle.value,
                        job.buffers.bytes,
                    )
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
    return _elements_at(pointer.value, array)


@functools.lru_cache(maxsize=None)
def _reorder() -> Any:
    """Puts a chunk into NumPy's order, without the engine; None if unknown.

    Functions of MXNet's C API that do would wait for the engine.
    """
    name = "_ZN5mxnet7NDArray5Chunk15Reorder2DefaultEv"
    array = mxnet.nd.zeros(3)
    array.wait_to_read()
    # A chunk begins with the address of its memory and its size.
    begin = (ctypes.c_size_t * 2).from_address(_chunk_of(array).value or 0)
    if list(begin) != [_address_of(array), 12] or not hasattr(_LIB, name):
        return None
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)((name, _LIB))


def _chunk_of(array: NDArray) -> _Pointer:
    """What holds the elements: an NDArray of C++ begins with its address."""
    return _Pointer.from_address(array.handle.value)


def _address_of(array: NDArray) -> Optional[int]:
    """Where the elements are. Errors: MXNetError if in no order of NumPy's."""
    tensor = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayToDLPack(array.handle, ctypes.byref(tensor)))
    # The first member of DLPack's struct is the address of the elements.
    pointer = ctypes.c_void_p.from_address(tensor.value or 0).value
    check_call(_LIB.MXNDArrayCallDLPackDeleter(tensor))
    return pointer


def _elements_at(pointer: Optional[int], array: NDArray) -> np.ndarray:
    memory = (ctypes.c_char * _size_bytes(array)).from_address(pointer or 0)
    memory.owner = array
    return np.ndarray(array.shape, np.dtype(array.dtype), memory)


def _size_bytes(array: NDArray) -> int:
    return math.prod(array.shape) * np.dtype(array.dtype).itemsize


def _memory_of_all(jobs: List[_Job]) -> tuple:
    """The gradients and the `out` of each job."""
    return tuple(zip(*(job.buffers.memory for job in jobs)))


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
