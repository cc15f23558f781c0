"""Snapshots of a client: values that stay, who keeps them, and for how long."""

import asyncio
import concurrent.futures
import os
import sys
import threading
import unittest

import numpy as np
import tensorkv
from tensorkv import At, PublishAs

sys.path.insert(0, os.path.dirname(__file__))
from stores import ADDRESS, StoreTest, full, new_namespace, on_every_client


class SnapshotsTest(StoreTest):

    def setUp(self):
        served = self.open_client(namespace=new_namespace())
        served.create_namespace(served.namespace)
        embedded = tensorkv.Client.embedded()
        self.addCleanup(embedded.close)
        self.clients = {"served": served, "embedded": embedded}

    def assert_raises(self, expected, reason, call, **metadata):
        with self.assertRaises(expected) as raised:
            call()
        error = raised.exception
        self.assertIs(type(error), expected)
        self.assertEqual(error.reason, reason)
        self.assertEqual({**error.metadata, **metadata}, error.metadata)

    @on_every_client
    def test_readers_get_another_dtype(self, client):
        client.init(["f", "i"], [full(1.001), full(3, "int32")])
        taken = client.create_snapshot("s", dtype="float16")
        published = client.push(
            ["f"], [full(2)], publish_as=PublishAs("s", dtype="f16")
        )

        for key, dtype in (("f", "float16"), ("i", "int32")):
            self.assertEqual(client.pull(key, at=taken.at).dtype, dtype)
        self.assert_array(client.pull("f", at=published.at), full(2, "float16"))
        self.assertEqual(client.stat("f", at=taken.at).dtype, "f16")
        self.assertEqual(client.describe_snapshot("s").dtype, "f16")
        with self.assertRaises(tensorkv.InvalidArgumentError):
            client.pull("f", dtype="float32", at=taken.at)

    @on_every_client
    def test_values_stay_as_they_were(self, client):
        client.init(["a", "b"], [full(1), full(2)])
        first = client.create_snapshot("s")
        client.push("a", full(7))
        client.delete("b")
        client.init("c", full(3))

        self.assertEqual((first.series, first.number), ("s", 1))
        self.assertEqual((first.num_keys, first.bytes), (2, 48))
        self.assertEqual(first.at, At("s", 1))
        pulled = client.pull(["b", "a"], at=first.at)
        self.assert_array(pulled[0], full(2))
        self.assert_array(pulled[1], full(1))
        out = full(0)
        self.assertIs(client.pull("a", out=out, at=At("s")), out)
        self.assert_array(out, full(1))
        self.assert_array(
            client.pull("a", dtype="float16", at=At("s", at_least=1)),
            full(1, "float16"),
        )
        self.assert_array(
            client.pull_rows("b", [1], at=first.at), full(2, shape=(1, 3))
        )
        self.assertEqual(client.keys(at=first.at), ["a", "b"])
        self.assertEqual(client.keys("b", at=At("s")), ["b"])
        stat = client.stat("b", True, at=first.at)
        self.assertEqual((stat.dtype, stat.shape), ("f32", (2, 3)))
        self.assertEqual((stat.version, stat.value_bytes), (1, 24))
        self.assertIsNotNone(stat.digest)
        self.assert_raises(
            tensorkv.NotFoundError,
            "KEY_NOT_FOUND",
            lambda: client.pull("c", at=first.at),
            key="c",
        )
        self.assert_array(client.pull("a"), full(7))

    @on_every_client
    def test_a_snapshot_is_told_as_it_was_taken(self, client):
        client.init(["w/a", "x/a", "y"], [full(1)] * 3)
        client.create_snapshot("s", 41)
        client.create_snapshot(
            "t",
            42,
            expected_latest=0,
            prefixes=["w/", "x/"],
            metadata={"loss": "0.5", "é": "ü"},
            time_to_live=3600,
            keep_last=3,
        )
        found = client.snapshots()
        self.assertEqual(
            [(each.series, each.number) for each in found],
            [("s", 41), ("t", 42)],
        )
        self.assertIsNone(found[0].time_left)
        self.assertEqual((found[0].metadata, found[0].prefixes), ({}, []))
        self.assertEqual((found[0].num_keys, found[0].bytes), (3, 72))
        status = client.snapshots("t")[0]
        self.assertEqual(status.metadata, {"loss": "0.5", "é": "ü"})
        self.assertEqual(status.prefixes, ["w/", "x/"])
        self.assertTrue(0 < status.time_left <= 3600)
        self.assertGreater(status.created, 1_700_000_000)
        self.assertEqual(client.keys(at=status.at), ["w/a", "x/a"])
        told = client.describe_snapshot("t")
        self.assertEqual((told.number, told.keep_last), (42, 3))
        self.assertEqual((told.leases, told.retained_bytes), ([], 0))
        self.assertEqual(told.revision, status.revision)

    @on_every_client
    def test_an_init_and_a_push_take_one(self, client):
        published = client.init(
            ["a", "b"],
            [full(1), full(2)],
            publish_as=PublishAs("s", metadata={"by": "init"}),
        )
        self.assertEqual((published.series, published.number), ("s", 1))
        pushed = client.push("a", full(3), publish_as=PublishAs("s", 9))
        self.assertEqual(pushed.number, 9)
        self.assertGreater(pushed.revision, published.revision)
        for at, expected in ((published.at, 1), (pushed.at, 3)):
            self.assert_array(client.pull("a", at=at), full(expected))
        self.assertEqual(
            client.describe_snapshot("s", 1).metadata, {"by": "init"}
        )
        # One that is refused has no effect.
        for call in (
            lambda wanted: client.init("c", full(0), publish_as=wanted),
            lambda wanted: client.push("a", full(0), publish_as=wanted),
        ):
            self.assert_raises(
                tensorkv.SnapshotConflictError,
                "SNAPSHOT_CONFLICT",
                lambda: call(PublishAs("s", expected_latest=1)),
                latest="9",
            )
        self.assertEqual(client.keys(), ["a", "b"])
        self.assert_array(client.pull("a"), full(3))

    @on_every_client
    def test_large_values_are_published_by_streams(self, client):
        large = np.arange(3 << 20, dtype="float32")
        published = client.init("w", large, publish_as=PublishAs("s"))
        pushed = client.push("w", large + 1, publish_as=PublishAs("s"))
        for at, expected in ((published.at, large), (pushed.at, large + 1)):
            self.assert_array(client.pull("w", at=at), expected)

    @on_every_client
    def test_errors_say_what_is_wrong(self, client):
        client.init("a", full(1))
        client.create_snapshot("s", 3)
        client.create_snapshot("s", 5)
        client.create_snapshot("s", 7, keep_last=2)
        client.delete_snapshot("s", 5)
        for expected, reason, call, metadata in (
            (
                tensorkv.FailedPreconditionError,
                "SNAPSHOT_NUMBER_PASSED",
                lambda: client.create_snapshot("s", 7),
                {"series": "s", "number": "7", "latest": "7"},
            ),
            (
                tensorkv.SnapshotConflictError,
                "SNAPSHOT_CONFLICT",
                lambda: client.create_snapshot("s", expected_latest=3),
                {"series": "s", "latest": "7"},
            ),
            (
                tensorkv.SnapshotNotFoundError,
                "SNAPSHOT_NOT_FOUND",
                lambda: client.pull("a", at=At("s", 8)),
                {"series": "s", "number": "8", "latest": "7"},
            ),
            (
                tensorkv.SnapshotNotFoundError,
                "SNAPSHOT_NOT_FOUND",
                lambda: client.keys(at=At("t")),
                {"series": "t", "latest": "0"},
            ),
            (
                tensorkv.SnapshotLostError,
                "SNAPSHOT_LOST",
                lambda: client.stat("a", at=At("s", 5)),
                {"number": "5", "cause": "deleted"},
            ),
            (
                tensorkv.SnapshotLostError,
                "SNAPSHOT_LOST",
                lambda: client.lease_snapshot("s", 3),
                {"number": "3", "cause": "keep_last"},
            ),
        ):
            self.assert_raises(expected, reason, call, **metadata)
        for call in (
            lambda: client.create_snapshot("a\nb"),
            lambda: client.create_snapshot("s", metadata={"a": "b" * 5000}),
            lambda: client.create_snapshot("s", time_to_live=float("nan")),
            lambda: client.lease_snapshot("s", duration=3601),
            lambda: client.pull("a", min_version=1, at=At("s")),
            lambda: client.pull("a", wait=True, at=At("s")),
        ):
            with self.assertRaises(tensorkv.InvalidArgumentError):
                call()
        with self.assertRaisesRegex(TypeError, "prefixes"):
            client.create_snapshot("s", prefixes="ab")
        with self.assertRaises(ValueError):
            At("s", 3, at_least=3)
        self.assertEqual([each.number for each in client.snapshots()], [7])

    @on_every_client
    def test_whoever_is_early_waits(self, client):
        client.init("a", full(1))
        with concurrent.futures.ThreadPoolExecutor() as threads:
            at = At("s", at_least=3)
            pulled = threads.submit(client.pull, "a", at=at, timeout=60)
            told = threads.submit(
                client.describe_snapshot, "s", at_least=3, timeout=60
            )
            client.create_snapshot("s", 2)
            client.push("a", full(2))
            client.create_snapshot("s", 4)
            self.assert_array(pulled.result(), full(2))
            self.assertEqual(told.result().number, 4)
        for call in (
            lambda: client.pull("a", at=At("s", at_least=5), timeout=0.05),
            lambda: client.describe_snapshot("s", at_least=5, timeout=0.05),
        ):
            # The server says so, or the client, where that comes later.
            self.assertRaises(tensorkv.DeadlineExceededError, call)

    @on_every_client
    def test_what_somebody_has_a_lease_of_stays(self, client):
        client.init("a", full(1))
        client.create_snapshot("s", keep_last=1)
        with client.lease_snapshot("s", name="engine 1") as leased:
            self.assertEqual(leased.at, At("s", 1))
            client.push("a", full(2))
            client.create_snapshot("s")
            self.assert_array(client.pull("a", at=leased.at), full(1))
            leases = client.describe_snapshot("s", 1).leases
            self.assertEqual([lease.name for lease in leases], ["engine 1"])
            self.assertEqual(client.snapshots()[0].num_leases, 1)
        self.assert_raises(
            tensorkv.SnapshotLostError,
            "SNAPSHOT_LOST",
            lambda: client.pull("a", at=leased.at),
            cause="keep_last",
        )
        leased.release()

    @on_every_client
    def test_leases_are_renewed_while_they_are_held(self, client):
        client.init("a", full(1))
        client.create_snapshot("s")

        def time_left():
            return client.describe_snapshot("s").leases[0].time_left

        with client.lease_snapshot("s", duration=3):
            before = time_left()
            while time_left() <= before:
                before = time_left()
                threading.Event().wait(0.01)
        self.assertEqual(client.describe_snapshot("s").leases, [])
        # Nobody renews it without a block.
        leased = client.lease_snapshot("s", at_least=1, duration=1800)
        self.assertTrue(0 < time_left() <= 1800)
        leased.renew()
        leased.release()
        self.assertEqual(client.describe_snapshot("s").num_leases, 0)

    @on_every_client
    def test_snapshots_are_deleted_and_numbers_go_on(self, client):
        client.init("a", full(1))
        for _ in range(3):
            client.create_snapshot("s")
        self.assertEqual(client.delete_snapshot("s", 2), 1)
        self.assertEqual([each.number for each in client.snapshots()], [1, 3])
        self.assertEqual(client.delete_snapshot("s"), 2)
        self.assertEqual(client.snapshots(), [])
        self.assertEqual(client.create_snapshot("s").number, 4)

    def test_at_the_bound_the_oldest_goes_and_no_push_is_refused(self):
        client = self.open_client(namespace=new_namespace())
        client.create_namespace(client.namespace, max_retained_bytes=20_000)
        client.init("a", full(0, shape=(1000,)))
        for number in range(1, 11):
            client.push(
                "a", full(number, shape=(1000,)), publish_as=PublishAs("s")
            )
        numbers = [each.number for each in client.snapshots()]
        self.assertEqual(numbers[-1], 10)
        self.assertTrue(1 < len(numbers) < 6, numbers)
        self.assertEqual(
            client.describe_namespace().num_snapshots, len(numbers)
        )
        self.assert_raises(
            tensorkv.SnapshotLostError,
            "SNAPSHOT_LOST",
            lambda: client.pull("a", at=At("s", 1)),
            cause="retained",
        )
        self.assert_array(
            client.pull("a", at=At("s", numbers[0])),
            full(numbers[0], shape=(1000,)),
        )

    def test_tasks_take_and_read_them(self):
        client = self.clients["served"]

        async def run():
            task = asyncio.ensure_future(
                client.aio.pull("a", at=At("s", at_least=2), timeout=60)
            )
            await client.aio.init("a", full(1), publish_as=PublishAs("s"))
            await client.aio.push("a", full(2), publish_as=PublishAs("s"))
            with await client.aio.lease_snapshot("s") as leased:
                self.assertEqual(leased.at.number, 2)
            told = await client.aio.describe_snapshot("s")
            self.assertEqual(told.number, 2)
            return await task

        self.assert_array(asyncio.run(run()), full(2))

    def test_workers_read_snapshots_and_take_them_by_inits(self):
        kv = self.open("dist_sync", num_workers=1)
        published = kv.client.init(
            "a", full(1), publish_as=PublishAs("s", metadata={"step": "0"})
        )
        kv.push_pull("a", full(5))
        self.assert_array(kv.client.pull("a", at=published.at), full(1))
        rows = kv.client.pull_rows("a", [0], at=published.at)
        self.assert_array(rows, full(1, shape=(1, 3)))
        with self.assertRaisesRegex(
            tensorkv.FailedPreconditionError, "create_snapshot"
        ):
            kv.client.push("a", full(1), step=2, publish_as=PublishAs("s"))
        reader = self.open_client(namespace=kv.client.namespace)
        with self.assertRaises(tensorkv.InvalidArgumentError):
            reader.push("a", full(1), step=2, publish_as=PublishAs("s"))
        self.assertEqual(kv.client.create_snapshot("s").number, 2)


if __name__ == "__main__":
    unittest.main()
