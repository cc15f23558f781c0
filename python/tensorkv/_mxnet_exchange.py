"""Pushes and pulls of NDArrays while MXNet's engine goes on."""

from __future__ import annotations

import atexit
import ctypes
import sys
import threading
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple

import mxnet
import numpy as np
from mxnet.base import _LIB, check_call
from mxnet.ndarray import NDArray

from tensorkv.errors import ClosedError, UnimplementedError
from tensorkv.kvstore import KVStore

# These are numbers of MXNet's C API for what runs an operation. The second is
# for operations that wait, and does not hold up those that compute.
_NORMAL, _PRIORITIZED = 0, 3
_CPU = (ctypes.c_int32 * 2)(1, 0)

_Run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_Delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Job(NamedTuple):
    """A key to be pushed and pulled, with arrays in host memory."""

    key: Any
    gradients: List[NDArray]
    out: NDArray
    hyperparameters: Dict[str, float]
    has_ended: threading.Event


class Exchange:
    """Pushes keys as their gradients are computed, and pulls them together.

    MXNet's engine has two operations per key. The first reads the gradients,
    and only says that they are there: it runs where computations do, and never
    waits. The second writes `out`, and waits until that has happened. Calls are
    made by two threads, each of which takes all keys that are ready at once.
    What pushes waits for no other worker, so that workers may come to their
    keys in different orders. What fails leaves `out` as it was, or where there
    are several, all as the first of them was.

    For one thread.
    """

    def __init__(self, store: KVStore):
        self._store = store
        self._is_closed = False
        self._error: Any = None  # guarded by _error_lock
        self._error_lock = threading.Lock()
        # The hyperparameters that the store has.
        self.known: Dict[str, float] = {}
        self._ready, self._pushed = _Jobs(), _Jobs()
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._push, self._pull)
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
        for array in (*gradients, *outs):
            check_is_dense(array)
        # These are copies, since arrays may be on other devices, and in layouts
        # of the libraries that compute with them.
        cpu = mxnet.cpu()
        job = _Job(
            key,
            [gradient.copyto(cpu) for gradient in gradients],
            # This goes back where a call fails.
            outs[0].copyto(cpu),
            hyperparameters,
            threading.Event(),
        )
        _run_in_engine(
            lambda: self._ready.put(job), job.gradients, [], _NORMAL, priority
        )
        _run_in_engine(
            job.has_ended.wait, job.gradients, [job.out], _PRIORITIZED, priority
        )
        for out in outs:
            job.out.copyto(out)

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
        self._ready.close()
        for thread in self._threads:
            thread.join()

    def _settle_at_exit(self) -> None:
        try:
            self.settle()
        except Exception as error:
            print(
                f"tensorkv: an exchange has failed: {error!r}", file=sys.stderr
            )

    def _push(self) -> None:
        for jobs in iter(self._ready.take, []):
            try:
                # Gradients depend on what all keys had become with those
                # before, so that these rounds have closed, and the next ones
                # wait for this push.
                for job in jobs:
                    self.tell(job.hyperparameters)
                self._store.push(
                    [job.key for job in jobs],
                    [[_memory_of(g) for g in job.gradients] for job in jobs],
                )
            except Exception as error:
                self._end(jobs, error)
            else:
                for job in jobs:
                    self._pushed.put(job)
            # Their arrays are not to live until there are others.
            jobs = job = None
        self._pushed.close()

    def _pull(self) -> None:
        for jobs in iter(self._pushed.take, []):
            try:
                self._store.pull(
                    [job.key for job in jobs],
                    out=[_memory_of(job.out) for job in jobs],
                )
            except Exception as error:
                self._end(jobs, error)
            else:
                self._end(jobs)
            jobs = None

    def _end(self, jobs: List[_Job], error: Any = None) -> None:
        with self._error_lock:
            self._error = self._error or error
        for job in jobs:
            job.has_ended.set()


class _Jobs:
    """A queue."""

    def __init__(self):
        self._jobs: Deque[_Job] = deque()
        self._is_closed = False
        self._has_some = threading.Condition()

    def put(self, job: _Job) -> None:
        with self._has_some:
            self._jobs.append(job)
            self._has_some.notify()

    def close(self) -> None:
        """There will be no more."""
        with self._has_some:
            self._is_closed = True
            self._has_some.notify()

    def take(self) -> List[_Job]:
        """Waits for a job; takes all that are there, but each key once.

        Takes none at the end.
        """
        with self._has_some:
            while not self._jobs and not self._is_closed:
                self._has_some.wait()
            taken = {}
            while self._jobs and self._jobs[0].key not in taken:
                job = self._jobs.popleft()
                taken[job.key] = job
            return list(taken.values())


def check_is_dense(array: NDArray) -> None:
    """Errors: UnimplementedError where it is not."""
    if array.stype != "default":
        raise UnimplementedError(
            f"an array of the storage type {array.stype!r}: expected a dense "
            "one; use tensorkv.KVStore with RowSparseArray"
        )


def _memory_of(array: NDArray) -> np.ndarray:
    """The elements of an array in host memory, which the engine may hold."""
    pointer = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(pointer)))
    dtype = np.dtype(array.dtype)
    count = int(np.prod(array.shape))
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(
        pointer.value
    )
    return np.frombuffer(memory, dtype).reshape(array.shape)


# Functions that the engine has not run yet, by their numbers.
_functions: dict = {}
_numbers = iter(range(1, 1 << 62))


@_Run
def _run(_: Any, number: int) -> None:
    _functions[number]()


@_Delete
def _delete(number: int) -> None:
    del _functions[number]


def _run_in_engine(
    function: Callable[[], Any],
    read: List[NDArray],
    written: List[NDArray],
    runs_as: int,
    priority: int,
) -> None:
    """Runs `function` when these arrays may be read and written."""
    number = next(_numbers)
    _functions[number] = function
    check_call(
        _LIB.MXEnginePushSyncND(
            _run,
            ctypes.c_void_p(number),
            _delete,
            ctypes.byref(_CPU),
            (ctypes.c_void_p * len(read))(*(a.handle.value for a in read)),
            ctypes.c_int(len(read)),
            (ctypes.c_void_p * len(written))(
                *(a.handle.value for a in written)
            ),
            ctypes.c_int(len(written)),
            ctypes.byref(ctypes.c_int(runs_as)),
            ctypes.c_int(priority),
            ctypes.c_char_p(b"tensorkv"),
        )
    )
