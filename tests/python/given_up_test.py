"""Calls to one or several servers that their caller gives up."""

import asyncio
import os
import signal
import sys
import threading
import unittest

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from servers import Cluster
from stores import ADDRESS, StoreTest, full, new_namespace

# In the namespace "n" each of three servers has some.
KEYS = [f"w{i}" for i in range(16)]

# What waits, of a worker of two, whose other one does nothing.
WAITS = ("pull", "push_pull", "barrier", "describe_snapshot")


class GivenUpTest(StoreTest):
    """A call that is given up ends at every server, and holds up nothing."""

    NUM_SERVERS = 3
    SERVER_OPTIONS = ()
    # The name decides which server has which keys.
    NAMESPACE = "n"
    SHAPE = (2, 3)

    def setUp(self):
        self.target = self.start_servers()
        self.namespace = self.NAMESPACE or new_namespace()
        self.watching = self.connect()
        self.watching.create_namespace(
            self.namespace, mode="sync", num_workers=2
        )
        self.addCleanup(self.watching.delete_namespace, self.namespace)
        self.watching.init(KEYS, self.values(0))
        self.worker = self.connect()
        self.worker.join("w0")
        # By verb.
        self.arguments = {
            "pull": (["unknown", *KEYS], None, True),
            "push_pull": (KEYS, self.values(1), None, 1),
            "barrier": (),
            "describe_snapshot": ("policy",),
        }

    def start_servers(self):
        options = self.SERVER_OPTIONS
        return Cluster(self, self.NUM_SERVERS, options).target

    def values(self, value):
        return [full(value, shape=self.SHAPE)] * len(KEYS)

    def connect(self):
        return self.open_client(
            self.target, namespace=self.namespace, timeout=60
        )

    def num_waiting(self):
        return self.watching.describe_namespace().calls_waiting

    def await_calls(self, wait):
        """Returns when the call waits at the servers that it concerns."""
        expected = self.NUM_SERVERS if wait == "push_pull" else 1
        while self.num_waiting() < expected:
            threading.Event().wait(0.01)

    def call(self, wait, verbs=None, **options):
        if wait == "describe_snapshot":
            options["at_least"] = 3
        verb = getattr(verbs or self.worker, wait)
        return verb(*self.arguments[wait], **options)

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
            task = asyncio.create_task(self.call(wait, self.worker.aio))
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
            target=other.push_pull,
            args=(KEYS, self.values(1)),
            kwargs={"step": 1},
        )
        pushing.start()
        # What was given up is pushed again, and counts once.
        self.assert_array(self.call("push_pull"), self.values(2))
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
        while self.num_waiting() < self.NUM_SERVERS + len(WAITS) - 1:
            threading.Event().wait(0.01)
        self.worker.close()
        for call in calls:
            call.join()
        while self.num_waiting() > 0:
            threading.Event().wait(0.01)
        self.assertEqual(errors, dict.fromkeys(WAITS, tensorkv.ClosedError))


class GivenUpStreamsTest(GivenUpTest):
    """Values that come and go as streams."""

    SHAPE = (512, 512)


class GivenUpSlicesTest(GivenUpStreamsTest):
    """Values that lie in slices over the servers."""

    SERVER_OPTIONS = ("--cluster_split_bytes=256KiB",)


class GivenUpStripesTest(GivenUpStreamsTest):
    """Values that come and go as several streams of one server."""

    NUM_SERVERS = 1
    NAMESPACE = None  # It has those of other tests, too.

    def start_servers(self):
        return ADDRESS


if __name__ == "__main__":
    unittest.main()
