"""Calls to several servers that their caller gives up."""

import asyncio
import os
import signal
import sys
import threading
import unittest

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from servers import Cluster
from stores import StoreTest, full

# More than servers, so that each has some.
KEYS = [f"w{i}" for i in range(16)]
VALUES = [full(1)] * len(KEYS)

# Of a worker of two, whose other one does nothing: arguments by verb.
WAITS = {
    "pull": (["unknown", *KEYS], None, True),
    "push_pull": (KEYS, VALUES, None, 1),
    "barrier": (),
    "describe_snapshot": ("policy",),
}
OPTIONS = {"describe_snapshot": {"at_least": 3}}


class GivenUpTest(StoreTest):
    """A call that is given up ends at every server, and holds up nothing."""

    def setUp(self):
        self.target = Cluster(self).target
        self.watching = self.connect()
        self.watching.create_namespace("n", mode="sync", num_workers=2)
        self.watching.init(KEYS, [full(0)] * len(KEYS))
        self.worker = self.connect()
        self.worker.join("w0")

    def connect(self):
        return self.open_client(self.target, namespace="n", timeout=60)

    def num_waiting(self):
        return self.watching.describe_namespace().calls_waiting

    def await_calls(self, wait):
        """Returns when the call waits at the servers that it concerns."""
        expected = 3 if wait == "push_pull" else 1
        while self.num_waiting() < expected:
            threading.Event().wait(0.01)

    def call(self, wait, **options):
        options = {**OPTIONS.get(wait, {}), **options}
        return getattr(self.worker, wait)(*WAITS[wait], **options)

    def by_deadline(self, wait):
        with self.assertRaises(tensorkv.DeadlineExceededError):
            self.call(wait, timeout=0.1)

    def by_ctrl_c(self, wait):
        def interrupt():
            self.await_calls(wait)
            os.kill(os.getpid(), signal.SIGINT)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        helper = threading.Thread(target=interrupt)
        helper.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                self.call(wait)
        finally:
            signal.signal(signal.SIGINT, before)
            helper.join()

    def by_cancelling_its_task(self, wait):
        async def work():
            call = getattr(self.worker.aio, wait)
            task = asyncio.create_task(
                call(*WAITS[wait], **OPTIONS.get(wait, {}))
            )
            await asyncio.get_running_loop().run_in_executor(
                None, self.await_calls, wait
            )
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(work())

    def test_calls_end_at_every_server(self):
        for wait in WAITS:
            for give_up in (
                self.by_deadline,
                self.by_ctrl_c,
                self.by_cancelling_its_task,
            ):
                with self.subTest(wait, by=give_up.__name__):
                    give_up(wait)
                    while self.num_waiting() > 0:
                        threading.Event().wait(0.01)
                    self.assertEqual(self.worker.keys(), sorted(KEYS))
        other = self.connect()
        other.join("w1")
        pushing = threading.Thread(
            target=other.push_pull, args=(KEYS, VALUES), kwargs={"step": 1}
        )
        pushing.start()
        # What was given up is pushed again, and counts once.
        self.assert_array(self.call("push_pull"), [full(2)] * len(KEYS))
        pushing.join()

    def test_close_ends_them_too(self):
        errors = {}

        def run(wait):
            try:
                self.call(wait)
            except tensorkv.Error as error:
                errors[wait] = type(error)

        calls = [threading.Thread(target=run, args=(wait,)) for wait in WAITS]
        for call in calls:
            call.start()
        while self.num_waiting() < 3 + len(WAITS) - 1:
            threading.Event().wait(0.01)
        self.worker.close()
        for call in calls:
            call.join()
        while self.num_waiting() > 0:
            threading.Event().wait(0.01)
        self.assertEqual(errors, dict.fromkeys(WAITS, tensorkv.ClosedError))


if __name__ == "__main__":
    unittest.main()
