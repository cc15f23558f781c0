"""Publishers and readers whose calls meet others, and servers that end."""

import asyncio
import os
import sys
import types
import unittest

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from servers import RestartableServer
from stores import StoreTest, new_namespace

import torch
from tensorkv.torch import Publisher, Reader


def state(number, count=3):
    return {str(i): torch.full((4,), float(number)) for i in range(count)}


def number_of(tensors):
    """The one number that all elements are."""
    numbers = {float(x) for tensor in tensors.values() for x in tensor}
    assert len(numbers) == 1, f"a mix of {sorted(numbers)}"
    return numbers.pop()


class CutClient:
    """Makes the calls of a client key by key, as a cluster may.

    Before each of its reads it calls `before_read`.
    """

    def __init__(self, client):
        self._client = client
        self.before_read = lambda: None

    def __getattr__(self, name):
        return getattr(self._client, name)

    def init(self, keys, values, **options):
        if isinstance(keys, str):
            return self._client.init(keys, values, **options)
        return [
            self._client.init(key, value, **options)
            for key, value in zip(keys, values)
        ]

    def _pull_memory(self, keys, *options):
        values = []
        for key in keys:
            self.before_read()
            values += self._client._pull_memory([key], *options)
        return values


class CutCallsTest(StoreTest):
    """States come whole where calls do not."""

    def setUp(self):
        client = tensorkv.Client.embedded()
        self.addCleanup(client.close)
        self.client = client
        self.cut = CutClient(client)
        self.publisher = Publisher(types.SimpleNamespace(client=self.cut))
        self.reader = Reader(types.SimpleNamespace(client=self.cut))
        self.count = 0

    def publish_next(self):
        self.count += 1
        # The publisher's own reads are followed by no other state.
        before_read, self.cut.before_read = self.cut.before_read, lambda: None
        self.publisher.publish(state(self.count, count=2 + self.count % 2))
        self.cut.before_read = before_read

    def test_a_reader_gets_no_mix_whenever_another_state_comes(self):
        for dtype in (None, torch.float16):
            for reads_before in range(8):
                left = [reads_before]

                def before_read():
                    left[0] -= 1
                    if left[0] == 0:
                        self.publish_next()

                self.publish_next()
                self.cut.before_read = before_read
                number = number_of(self.reader.fetch(dtype=dtype))
                self.assertIn(number, (self.count - 1, self.count))

    def test_a_reader_catches_up_with_one_that_publishes_all_the_time(self):
        self.publish_next()
        left = [20]

        def before_read():
            left[0] -= 1
            if left[0] >= 0:
                self.publish_next()

        self.cut.before_read = before_read
        self.assertEqual(number_of(self.reader.fetch()), self.count)

    def test_what_a_publisher_that_was_killed_has_left_is_deleted(self):
        self.client.init("published/.0123456789abcdef/w", torch.ones(3))
        self.publish_next()
        self.client.init("published/.0123456789abcdef/w", torch.ones(3))
        Publisher(self.client).publish(state(7))
        self.assertEqual(len(self.client.keys()), 1 + 3)

    def test_a_name_that_is_refused_is_forgotten(self):
        self.publish_next()
        version = self.reader.wait()
        with self.assertRaises(tensorkv.InvalidArgumentError):
            self.publisher.publish({**state(0), "a\nb": torch.ones(2)})
        self.assertEqual(number_of(self.reader.fetch()), self.count)
        self.assertEqual(self.reader.version, version)
        for _ in range(2):
            self.publish_next()
            self.assertEqual(number_of(self.reader.fetch()), self.count)
        self.assertEqual(len(self.client.keys()), 1 + 2 + self.count % 2)

    def test_keys_of_others_are_not_taken_over(self):
        self.client.init("published/w", torch.ones(3))
        with self.assertRaisesRegex(
            tensorkv.FailedPreconditionError, "'published/w'"
        ):
            self.publish_next()
        self.assertEqual(self.client.keys(), ["published/w"])


class RunsTest(StoreTest):
    """Readers tell one training from another."""

    def setUp(self):
        self.client = tensorkv.Client.embedded()
        self.addCleanup(self.client.close)

    def impatient(self, reader):
        with self.assertRaises(tensorkv.DeadlineExceededError):
            reader.wait(timeout=0.05)

    def test_a_reader_of_a_run_waits_for_it(self):
        reader = Reader(self.client, run="new")
        Publisher(self.client, run="old").publish(state(1))
        self.impatient(reader)
        with self.assertRaises(tensorkv.DeadlineExceededError):
            reader.fetch(timeout=0.05)
        version = Publisher(self.client, run="new").publish(state(2))
        self.assertEqual(reader.wait(), version)
        self.assertEqual(number_of(reader.fetch()), 2)
        self.assertEqual(number_of(Reader(self.client).fetch()), 2)

    def test_what_is_no_state_is_refused_by_its_type(self):
        for wrong in ("nonsense", 3, [("w", torch.zeros(3))]):
            for call in (
                Publisher(self.client).publish,
                Reader(self.client).fetch,
            ):
                with self.assertRaisesRegex(TypeError, "expected a module"):
                    call(wrong)

    def test_metadata_come_with_their_state(self):
        publisher, reader = Publisher(self.client), Reader(self.client)
        self.assertEqual(reader.metadata, {})
        for step in (3, 4):
            publisher.publish(state(step), metadata={"step": step, "é": None})
            reader.fetch()
            self.assertEqual(reader.metadata, {"step": step, "é": None})
        with self.assertRaises(TypeError):
            publisher.publish(state(5), metadata={"step": object()})
        self.assertEqual(number_of(reader.fetch()), 4)

    def test_what_is_taken_back_is_waited_for(self):
        publisher, reader = Publisher(self.client), Reader(self.client)
        publisher.unpublish()
        first = publisher.publish(state(1))
        publisher.unpublish()
        self.assertEqual(self.client.keys(), [])
        self.impatient(reader)
        self.assertGreater(publisher.publish(state(2)), first)
        self.assertEqual(number_of(reader.fetch()), 2)

    def test_tasks_wait_and_are_cancelled(self):
        client = self.open_client(namespace=new_namespace())
        client.create_namespace(client.namespace)
        publisher, reader = Publisher(client), Reader(client)

        async def work():
            task = asyncio.ensure_future(reader.aio.wait())
            while client.describe_namespace().calls_waiting == 0:
                await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            # Nobody waits for it at the server any more.
            while client.describe_namespace().calls_waiting > 0:
                await asyncio.sleep(0.01)
            version = publisher.publish(state(1))
            self.assertEqual(await reader.aio.wait(timeout=30), version)
            self.assertEqual(number_of(await reader.aio.fetch()), 1)

        asyncio.run(work())


class RestartTest(StoreTest):
    """Publishers and readers go on with whatever a server has."""

    def setUp(self):
        self.server = RestartableServer(self)
        self.client = self.open_client(self.server.address, timeout=60)
        self.publisher = Publisher(self.client)
        self.reader = Reader(self.client)

    def test_both_go_on_after_a_restart(self):
        self.publisher.publish(state(1))
        self.assertEqual(number_of(self.reader.fetch()), 1)
        self.server.restart()
        # It has the same state, which is not new.
        with self.assertRaises(tensorkv.DeadlineExceededError):
            self.reader.wait(timeout=0.2)
        self.assertEqual(number_of(self.reader.fetch()), 1)
        version = self.publisher.publish(state(2))
        self.assertEqual(self.reader.wait(), version)
        self.assertEqual(number_of(self.reader.fetch()), 2)
        # What else the client does is told that there was a restart.
        with self.assertRaises(tensorkv.FailedPreconditionError) as raised:
            self.client.pull("published/.manifest")
        self.assertEqual(raised.exception.reason, "SERVER_RESTARTED")

    def test_a_server_without_its_state_gets_the_next_one(self):
        self.publisher.publish(state(1))
        self.reader.fetch()
        self.server.kill()
        self.server.start()
        self.publisher.publish(state(2))
        self.assertEqual(self.reader.wait(), 1)
        self.assertEqual(number_of(self.reader.fetch()), 2)


if __name__ == "__main__":
    unittest.main()
