"""tensorkv._core.EngineJobs, driven as MXNet's engine drives it."""

import collections
import ctypes
import threading
import time
import unittest

from tensorkv import InvalidArgumentError
from tensorkv._core import EngineJobs

_POINTER = ctypes.c_void_p
_CALLBACK = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _POINTER)


class _OnComplete(ctypes.Structure):
    _fields_ = [
        ("callback", _CALLBACK),
        ("engine", _POINTER),
        ("parameter", _POINTER),
    ]


class Engine:
    """Runs operations of some jobs, and counts how often each has ended."""

    def __init__(self, jobs):
        self._jobs = jobs
        self._begin = _CALLBACK(EngineJobs.begin)
        self._delete = ctypes.CFUNCTYPE(None, _POINTER)(EngineJobs.delete)
        self._callback = _CALLBACK(self._on_complete)
        self.ends = collections.Counter()

    def _on_complete(self, engine, parameter, error):
        assert engine == 11 and error is None
        self.ends[parameter] += 1

    def add(self, number, num_bytes=4, key=None):
        key = number if key is None else key
        return number, self._jobs.new_operation(number, key, num_bytes)

    def run(self, operation):
        number, address = operation
        on_complete = _OnComplete(self._callback, 11, number)
        self._begin(None, ctypes.addressof(on_complete), address)
        # What the engine has given is gone when the function has returned.
        on_complete.parameter = 0
        self._delete(address)

    def drop(self, operation):
        self._delete(operation[1])


class EngineJobsTest(unittest.TestCase):

    def setUp(self):
        self.jobs = EngineJobs()
        self.engine = Engine(self.jobs)

    def test_a_job_ends_once_it_is_said_to(self):
        self.engine.run(self.engine.add(1))
        self.assertEqual(self.jobs.take(), [1])
        self.assertEqual(self.engine.ends, {})
        self.jobs.end([1])
        self.assertEqual(self.engine.ends, {1: 1})
        self.jobs.end([1])
        self.assertEqual(self.engine.ends, {1: 1})

    def test_jobs_that_are_ready_are_taken_together(self):
        for operation in [self.engine.add(number) for number in (1, 2, 3)]:
            self.engine.run(operation)
        self.assertEqual(self.jobs.take(), [1, 2, 3])

    def test_ready_jobs_do_not_wait_for_long(self):
        # The engine may need what comes of one job to begin the other.
        first, second = self.engine.add(1), self.engine.add(2)
        self.engine.run(first)
        self.assertEqual(self.jobs.take(), [1])
        self.engine.run(second)
        self.assertEqual(self.jobs.take(), [2])

    def test_ready_jobs_wait_for_those_that_are_about_to_be(self):
        jobs, taken = self.jobs_that_wait_for_long()
        engine = Engine(jobs)
        first, second = engine.add(1), engine.add(2)
        engine.run(first)
        taker = self.start_taking(jobs, taken)
        engine.run(second)
        taker.join(60)
        self.assertEqual(taken, [1, 2])

    def test_ready_jobs_wait_for_no_later_ones_of_their_keys(self):
        jobs, taken = self.jobs_that_wait_for_long()
        engine = Engine(jobs)
        steps = [
            [engine.add(10 * step + key, key=key) for key in (1, 2)]
            for step in (0, 1)
        ]
        for first, second in steps:
            engine.run(first)
            taker = self.start_taking(jobs, taken)
            engine.run(second)
            taker.join(60)
            jobs.end(taken)
        self.assertEqual(taken, [1, 2, 11, 12])

    def test_ready_jobs_wait_for_keys_that_they_went_with_the_last_time(self):
        jobs, taken = self.jobs_that_wait_for_long()
        engine = Engine(jobs)
        for added in [engine.add(number, key=number) for number in (1, 2)]:
            engine.run(added)
        jobs.end(jobs.take())
        engine.run(engine.add(3, key=1))
        taker = self.start_taking(jobs, taken)
        # The other key is not added before.
        engine.run(engine.add(4, key=2))
        taker.join(60)
        self.assertEqual(taken, [3, 4])

    def test_keys_that_do_not_come_are_waited_for_once(self):
        for number in (1, 2):
            self.engine.run(self.engine.add(number, key=number))
        self.jobs.end(self.jobs.take())
        self.engine.run(self.engine.add(3, key=1))
        # This waits for the other key, but not for long.
        self.assertEqual(self.jobs.take(), [3])
        self.jobs.end([3])
        self.engine.run(self.engine.add(4, key=2))
        self.assertEqual(self.jobs.take(), [4])

    def test_many_bytes_wait_for_nothing(self):
        jobs, taken = self.jobs_that_wait_for_long()
        engine = Engine(jobs)
        large, small = engine.add(1, 4 << 20), engine.add(2)
        engine.run(large)
        self.start_taking(jobs, taken).join(60)
        self.assertEqual(taken, [1])
        engine.drop(small)

    def test_longest_wait_is_a_number(self):
        with self.assertRaisesRegex(InvalidArgumentError, "longest_wait"):
            EngineJobs(longest_wait=float("nan"))

    def jobs_that_wait_for_long(self):
        jobs = EngineJobs(longest_wait=3600)
        self.addCleanup(jobs.close)
        return jobs, []

    def start_taking(self, jobs, taken):
        """A thread that takes once, and has begun to."""
        begins = threading.Event()

        def take():
            begins.set()
            taken.extend(jobs.take())

        taker = threading.Thread(target=take, daemon=True)
        taker.start()
        begins.wait(60)
        return taker

    def test_operations_may_be_dropped_before_they_begin(self):
        self.engine.drop(self.engine.add(1))
        self.engine.run(self.engine.add(2))
        self.assertEqual(self.jobs.take(), [2])

    def test_each_job_is_taken_once_whoever_waits(self):
        taken = []

        def work():
            for numbers in iter(lambda: self.jobs.take(), []):
                taken.extend(numbers)
                self.jobs.end(numbers)

        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        numbers = range(1, 501)
        added = [self.engine.add(number) for number in numbers]
        for operation in added:
            self.engine.run(operation)
        deadline = time.monotonic() + 60
        while sum(self.engine.ends.values()) < len(numbers):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.001)
        self.jobs.close()
        for worker in workers:
            worker.join()
        self.assertEqual(sorted(taken), list(numbers))
        self.assertEqual(self.engine.ends, {number: 1 for number in numbers})

    def test_operations_may_outlive_the_jobs(self):
        operation = self.engine.add(1)
        del self.jobs, self.engine._jobs
        self.engine.run(operation)


if __name__ == "__main__":
    unittest.main()
