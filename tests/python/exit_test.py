"""How workers end: done with their steps, or lost."""

import math
import os
import signal
import subprocess
import sys
import unittest

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from servers import RestartableServer
from stores import ADDRESS, StoreTest, full, new_namespace

PROGRAM = """
import os, signal, sys
import numpy as np, tensorkv
signal.signal(signal.SIGINT, signal.default_int_handler)
def open_store():
    kv = tensorkv.create(
        "dist_sync", target={address!r}, namespace={namespace!r},
        num_workers=2, worker_name="w1", lease=600)
    kv.init("w", np.zeros(3))
    return kv
{end}
"""

IN_BLOCK = """
with kv:
    {0}
"""
IN_FUNCTION = """
def train():
    kv = open_store()
    {0}
train()
"""
IN_FINALLY = """
try:
    {0}
finally:
    kv.close()
"""
HANDLED = """
try:
    {0}
except BaseException:
    pass
"""

DONE = {
    "leave": "kv.leave()",
    "close": "kv.close()",
    "the end": "pass",
    "exit": "sys.exit(0)",
    "exit of a block": IN_BLOCK.format("sys.exit()"),
    "a block": IN_BLOCK.format("pass"),
    "a handled exception": HANDLED.format("1 / 0"),
    "leave in an exception": IN_FINALLY.format("kv.leave(); 1 / 0"),
    "finally": IN_FINALLY.format("pass"),
    "a store that is dropped": "del kv",
    "a dropped store, and an exit": "del kv; sys.exit(0)",
    "a local of a function": IN_FUNCTION.format("return"),
    "exit in a function": IN_FUNCTION.format("sys.exit()"),
}
LOST = {
    "an exception": "1 / 0",
    "an exit with a status": "sys.exit(3)",
    "an exit with a message": "raise SystemExit('no')",
    "an exception in a block": IN_BLOCK.format("1 / 0"),
    "an exception of a block that is handled": (
        "try:\n    with kv:\n        1 / 0\nexcept ZeroDivisionError:\n    pass"
    ),
    "a status of a block": IN_BLOCK.format("sys.exit(1)"),
    "close in an exception": IN_FINALLY.format("1 / 0"),
    "an interruption": "os.kill(os.getpid(), signal.SIGINT)",
    "a dropped store, and an exception": "del kv; 1 / 0",
    "a dropped store, and a status": "del kv; sys.exit(3)",
    "an exception of a function": IN_FUNCTION.format("1 / 0"),
    "a status in a function": IN_FUNCTION.format("sys.exit(1)"),
}

# What a child of multiprocessing does.
CHILD = """
import multiprocessing
def run():
    kv = open_store()
    {0}
child = multiprocessing.get_context("fork").Process(target=run)
child.start()
child.join()
"""


class ExitTest(StoreTest):

    def end(self, end):
        """The status of the worker whose program ends so."""
        namespace = new_namespace()
        kv = self.open(
            "dist_sync", namespace=namespace, num_workers=2, worker_name="w0"
        )
        kv.init("w", full(0, "float64", (3,)))
        if "open_store()" not in end:
            end = "kv = open_store()\n" + end
        program = PROGRAM.format(address=ADDRESS, namespace=namespace, end=end)
        subprocess.run(
            [sys.executable, "-c", program],
            stderr=subprocess.DEVNULL,
            timeout=100,
        )
        workers = kv.client.describe_namespace().workers
        kv.client.delete_namespace(namespace)
        kv.leave()
        return next(each for each in workers if each.name == "w1")

    def test_who_ends_well_is_done(self):
        for what, end in DONE.items():
            with self.subTest(what):
                worker = self.end(end)
                self.assertTrue(worker.left and not worker.live)

    def test_who_ends_otherwise_is_lost_at_once(self):
        for what, end in LOST.items():
            with self.subTest(what):
                worker = self.end(end)
                self.assertFalse(worker.left or worker.live)

    def test_children_end_as_what_they_run(self):
        for end, has_left in {
            "return": True,
            "sys.exit()": True,
            "kv.leave(); sys.exit(1)": True,
            "1 / 0": False,
            "sys.exit(1)": False,
        }.items():
            with self.subTest(end):
                worker = self.end(CHILD.format(end))
                self.assertEqual(worker.left, has_left)
                self.assertFalse(worker.live)

    def test_another_store_loses_one_that_was_dropped(self):
        namespace = new_namespace()

        def train(name):
            kv = tensorkv.create(
                "dist_sync",
                target=ADDRESS,
                namespace=namespace,
                worker_name=name,
                resume=name is None,
                takeover_timeout=5,
            )
            kv.init("w", full(1))
            return kv.push_pull("w", full(kv.resume()))

        for name in ("w0", "w0", None):
            self.assert_array(train(name), full(1))

    def test_another_store_of_the_name_takes_the_place_of_one(self):
        namespace = new_namespace()

        def open_store():
            return self.open(
                "dist_sync",
                namespace=namespace,
                worker_name="w0",
                takeover_timeout=5,
            )

        kv = open_store()
        kv.init("w", full(1))
        again = open_store()
        again.init("w", full(1))
        self.assert_array(again.push_pull("w", full(2)), full(2))
        with self.assertRaises(tensorkv.ClosedError):
            kv.pull("w")

    def test_a_join_that_is_refused_takes_nobodys_place(self):
        namespace = new_namespace()

        def connect(address=ADDRESS):
            return self.open_client(address, namespace=namespace, timeout=1)

        worker = connect()
        worker.create_namespace(namespace)
        worker.init("w", full(1))
        worker.join("w0")
        refused = {
            "a worker": lambda: worker.join("w0"),
            "no lease": lambda: connect().join("w0", lease=math.nan),
            "a short lease": lambda: connect().join("w0", lease=0.0),
            "no time": lambda: connect().join(
                "w0", takeover_timeout=math.nan
            ),
            "no rank": lambda: connect().join("w0", rank=-1),
        }
        for what, join in refused.items():
            with self.subTest(what):
                with self.assertRaises((tensorkv.Error, TypeError)) as raised:
                    join()
                self.assertNotIsInstance(
                    raised.exception, tensorkv.ClosedError
                )
                self.assertTrue(worker._store.is_worker)
        worker.push("w", full(2))
        again = connect()
        again.join("w0", takeover_timeout=5)
        with self.assertRaises(tensorkv.ClosedError):
            worker.pull("w")
        self.assert_array(again.pull("w"), full(2))

    def test_a_join_that_reaches_no_server_takes_nobodys_place(self):
        server = RestartableServer(self)
        worker, other = (
            self.open_client(server.address, timeout=1) for _ in range(2)
        )
        worker.join("w0", lease=600)
        server.kill()
        with self.assertRaises(tensorkv.Error):
            other.join("w0")
        self.assertTrue(worker._store.is_worker)

    def test_a_worker_whose_client_is_dropped_is_told_of(self):
        client = tensorkv.Client(ADDRESS, namespace=new_namespace())
        client.create_namespace(client.namespace)
        client.join("w0")
        again = self.open_client(ADDRESS, namespace=client.namespace)
        with self.assertWarnsRegex(ResourceWarning, "w0.*leave or close"):
            del client
        again.join("w0", takeover_timeout=5)

    def test_only_workers_resume(self):
        for client in (
            self.open_client(ADDRESS),
            tensorkv.Client.embedded(),
        ):
            with self.assertRaises(tensorkv.FailedPreconditionError):
                client._store.resume()

    def test_who_waits_for_a_worker_that_is_done_hears_of_it(self):
        kv, other = self.open_group("dist_sync", 2)
        kv.init("w", full(0))
        other.init("w", full(0))
        other.leave()
        with self.assertRaises(tensorkv.WorkerLeftError) as raised:
            kv.push_pull("w", full(1))
        self.assertEqual(raised.exception.ranks, [1])

    def test_rank_0_comes_back_before_its_first_push(self):
        namespace = new_namespace()

        def open_store():
            return self.open(
                "dist_sync",
                namespace=namespace,
                num_workers=2,
                worker_name="w0",
            )

        kv = open_store()
        kv.init("w", full(1))
        kv._end(is_lost=True)
        kv = open_store()
        kv.init(["w", "v"], [full(2), full(3)])
        self.assert_array(kv.pull(["w", "v"]), [full(1), full(3)])


if __name__ == "__main__":
    unittest.main()
