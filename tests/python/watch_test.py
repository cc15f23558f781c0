"""Watches: what a client is told of changes."""

import asyncio
import os
import sys
import threading
import unittest

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest, full, new_namespace, on_every_client


class WatchTest(StoreTest):

    def setUp(self):
        served = self.open_client(namespace=new_namespace())
        served.create_namespace(served.namespace)
        embedded = tensorkv.Client.embedded()
        self.addCleanup(embedded.close)
        self.clients = {"served": served, "embedded": embedded}

    @on_every_client
    def test_tells_what_changes(self, client):
        client.init("b/x", full(1))
        watch = client.watch("a/", interval=0).begin()
        of_all = client.watch(initial=True, interval=0)
        client.init(["a/x", "c"], [full(1), full(1)])

        change = next(watch)
        self.assertEqual((change.key, change.version), ("a/x", 1))
        self.assertFalse(change.deleted)
        self.assertIsNone(change.series)
        self.assertEqual(watch.next(timeout=0.01), [])
        client.delete("a/x")
        change = next(watch)
        self.assertEqual((change.key, change.deleted), ("a/x", True))
        self.assertIn("b/x", {each.key for each in of_all.next()})

    @on_every_client
    def test_waits_for_a_key_to_exist(self, client):
        watch = client.watch(key="k", initial=True).begin()
        thread = threading.Thread(target=client.init, args=("k", full(1)))
        thread.start()
        self.addCleanup(thread.join)

        self.assertEqual(next(watch).key, "k")
        there = client.watch(key="k", initial=True)
        self.assertEqual(next(there).version, 1)

    @on_every_client
    def test_tells_snapshots_and_goes_on_from_a_token(self, client):
        watch = client.watch(series="s", interval=0).begin()
        client.create_snapshot("s", 42)
        change = next(watch)
        self.assertEqual((change.series, change.number), ("s", 42))
        self.assertIsNone(change.key)
        client.create_snapshot("s", 43)

        later = client.watch(series="s", interval=0, token=watch.token)

        self.assertEqual(next(later).number, 43)

    @on_every_client
    def test_is_awaited(self, client):
        async def told():
            watch = client.watch(series="", initial=True, interval=0)
            numbers = []
            async for change in watch:
                numbers.append(change.number)
                if len(numbers) == 2:
                    return numbers
                client.create_snapshot("s", 2)

        client.create_snapshot("s", 1)

        self.assertEqual(asyncio.run(told()), [1, 2])

    @on_every_client
    def test_a_task_that_is_cancelled_loses_no_changes(self, client):
        class Slow:
            """The watch's client, whose reply comes as the task has gone."""

            _threads = client._threads
            _pushing_threads = client._pushing_threads

            def __init__(self):
                self.came = threading.Event()
                self.gone = threading.Event()
                self._store = self

            def watch(self, *arguments):
                reply = client._store.watch(*arguments)
                if reply[0]:
                    self.came.set()
                    self.gone.wait()
                return reply

        slow = Slow()
        watch = client.watch(interval=0).begin()
        watch._client = slow
        client.init("k", full(1))

        async def told():
            task = asyncio.ensure_future(anext_of(watch))
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, slow.came.wait)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            slow.gone.set()
            return (await watch.__anext__()).key

        async def anext_of(watch):
            return await watch.__anext__()

        self.assertEqual(asyncio.run(told()), "k")

    @on_every_client
    def test_tells_who_does_not_wait(self, client):
        watch = client.watch().begin()
        client.init("k", full(1))
        changes = []

        while not changes:
            changes = watch.next(timeout=0)

        self.assertEqual(changes[0].key, "k")

    @on_every_client
    def test_has_the_token_of_what_was_handed_over(self, client):
        client.init(["a", "b"], [full(1), full(1)])
        watch = client.watch(initial=True).begin()
        self.assertEqual(watch.token, b"")

        next(watch)
        self.assertEqual(watch.token, b"")
        next(watch)

        self.assertNotEqual(watch.token, b"")

    def test_begins_anew_in_another_namespace(self):
        client = self.clients["served"]
        watch = client.watch(interval=0).begin()
        client.delete_namespace(client.namespace)
        client.create_namespace(client.namespace)

        with self.assertRaises(tensorkv.RevisionCompactedError) as raised:
            watch.next(timeout=10)
        self.assertEqual(raised.exception.reason, "REVISION_COMPACTED")

    def test_says_what_is_wrong(self):
        client = self.clients["served"]
        for arguments in [
            {"prefix": "a", "interval": -1},
            {"prefix": "a", "key": "b"},
            {"key": "a\nb"},
            {"series": "a\nb"},
            {"token": b"token"},
        ]:
            with self.assertRaises(tensorkv.InvalidArgumentError):
                client.watch(**arguments).next(timeout=1)


if __name__ == "__main__":
    unittest.main()
