"""Clients and workers whose server ends and starts again."""

import os
import sys
import unittest

import numpy as np
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from servers import RestartableServer
from stores import StoreTest, full
from tensorkv import RowSparseArray


class RestartedServerTest(StoreTest):

    def setUp(self):
        self.server = RestartableServer(self)

    def connect(self, **options):
        return self.open_client(self.server.address, timeout=60, **options)

    def assert_refused(self, call):
        with self.assertRaises(tensorkv.FailedPreconditionError) as raised:
            call()
        self.assertEqual(raised.exception.reason, "SERVER_RESTARTED")
        # What helps is not what the C++ client calls it.
        self.assertEqual(str(raised.exception).count("resume()"), 1)

    def test_a_client_that_connects_again_goes_on(self):
        client = self.connect()
        client.set_compression("f16", min_bytes=0)
        client.init("w", full(1))
        self.server.restart()
        self.assert_refused(lambda: client.pull("w"))
        client.reconnect()
        client.push("w", full(2))
        self.assert_array(client.pull("w"), full(2))

    def test_workers_go_back_with_their_server(self):
        def open_store(**options):
            return self.open(
                "dist_sync",
                target=self.server.address,
                namespace="train",
                lease=2,
                step_timeout=60,
                **options,
            )

        ends = {3: self.server.restart, 5: self.kill_and_start}
        kv = open_store(worker_name="w0")
        self.assertEqual(kv.resume(), 1)
        kv.set_optimizer("accumulate", scale=1)
        kv.init(["a", "b"], [full(0)] * 2)
        steps, step = [], 1
        while step <= 8:
            try:
                kv.push("a", full(1))
                kv.push_pull("b", full(step), out=full(0))
                steps.append(step)
            except tensorkv.FailedPreconditionError as error:
                if error.reason != "SERVER_RESTARTED":
                    raise
                step = kv.resume()
                continue
            ends.pop(step, lambda: None)()
            step += 1
        # It had saved its state after step 3.
        self.assertEqual(steps[:3] + steps[-5:], [1, 2, 3, 4, 5, 6, 7, 8])
        self.assert_array(kv.pull(["a", "b"]), [full(8), full(36)])

    def open_workers(self, names, **options):
        """Alone in their groups, each after two steps."""
        workers = {}
        for name in names:
            kv = self.open(
                "dist_sync",
                target=self.server.address,
                namespace=name,
                **{"lease": 2, "step_timeout": 60, **options},
            )
            kv.set_optimizer("accumulate", scale=1)
            kv.init("w", full(0))
            for _ in range(2):
                kv.push_pull("w", full(1), out=full(0))
            workers[name] = kv
        return workers

    def go_on(self, kv):
        for _ in range(kv.resume(), 4):
            value = kv.push_pull("w", full(1))
        self.assert_array(value, full(3))

    def test_whatever_call_finds_a_restart_says_so(self):
        rows = RowSparseArray(full(1, shape=(1, 3)), [1])
        calls = {
            "push": lambda kv: kv.push("w", full(1)),
            "push of rows": lambda kv: kv.push("w", rows),
            "pull": lambda kv: kv.pull("w"),
            "pull of rows": lambda kv: kv.row_sparse_pull(
                "w", full(0), row_ids=np.array([1])
            ),
            "push_pull": lambda kv: kv.push_pull("w", full(1), out=full(0)),
            "init": lambda kv: kv.init("v", full(1)),
            "barrier": lambda kv: kv.barrier(),
            "other verbs": lambda kv: kv.set_updater("stored += grad"),
        }
        workers = self.open_workers(calls)
        self.server.restart()
        for name, kv in workers.items():
            with self.subTest(name):
                self.assert_refused(lambda: calls[name](kv))
                self.go_on(kv)

    def test_who_resumes_hears_that_the_namespace_is_gone(self):
        workers = self.open_workers(["a", "b"])
        self.kill_and_start()
        self.assert_refused(lambda: workers["a"].push_pull("w", full(1)))
        for kv in workers.values():
            with self.assertRaises(tensorkv.NotFoundError) as raised:
                kv.resume()
            self.assertEqual(raised.exception.reason, "NAMESPACE_NOT_FOUND")
            self.assertIn("tensorkv.create", str(raised.exception))
        again = self.open_workers(["a"])["a"]
        with self.assertRaises(tensorkv.FailedPreconditionError) as raised:
            workers["a"].resume()
        self.assertEqual(raised.exception.reason, "NAMESPACE_REPLACED")
        self.assert_array(again.pull("w"), full(2))

    def test_a_worker_that_steps_in_vain_is_told_once_what_helps(self):
        client = self.connect()
        client.init("w", full(1))
        client.join("w0")
        client.push("w", full(1), step=1)
        self.server.restart()
        # It finds the restart.
        self.assert_refused(lambda: client.push("w", full(1), step=1))
        self.assert_refused(lambda: client.push("w", full(1), step=2))
        self.assertEqual(client.resume(), client.next_step)
        client.push("w", full(1), step=client.next_step)

    def test_who_resumes_knows_its_new_rank(self):
        def open_store():
            return self.open(
                "dist_async", target=self.server.address, namespace="async"
            )

        kv = open_store()
        self.assertEqual(kv.rank, 0)
        self.server.restart()
        other = open_store()
        kv.resume()
        self.assertEqual(kv.rank, kv.client.rank)
        self.assertNotEqual(kv.rank, other.rank)
        rank = kv.rank
        kv.leave()
        self.assertEqual(kv.rank, rank)

    def test_checkpoints_are_saved_listed_and_restored(self):
        client = self.connect()
        self.assertEqual(client.list_checkpoints(), [])
        client.init("w", full(1))
        saved = client.save_checkpoint("first")
        self.assertEqual(saved.num_keys, 1)
        self.assertEqual(client.list_checkpoints(), [saved])
        client.push("w", full(2))
        with self.assertRaises(tensorkv.AlreadyExistsError):
            client.restore_checkpoint("first")
        client.restore_checkpoint("first", ["default"], "copy")
        with self.open_client(self.server.address, namespace="copy") as copy:
            self.assert_array(copy.pull("w"), full(1))
        client.restore_checkpoint("first", on_existing="replace")
        client.reconnect()
        self.assert_array(client.pull("w"), full(1))
        self.assertEqual(client.verify_checkpoint("first"), saved)
        client.delete_checkpoint("first")
        with self.assertRaises(tensorkv.NotFoundError):
            client.verify_checkpoint("first")
        names = [each.name for each in client.list_namespaces()]
        self.assertEqual(names, ["copy", "default"])
        self.assertEqual(client.describe_server().devices, ["cpu"])

    def kill_and_start(self):
        self.server.kill()
        self.server.start()


if __name__ == "__main__":
    unittest.main()
