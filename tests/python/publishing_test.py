"""Publishers and readers whose calls meet others, and servers that end."""

import asyncio
import doctest
import os
import sys
import threading
import types
import unittest

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from servers import Cluster, RestartableServer
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
    """Makes the reads of a client key by key, as large ones may be.

    Before each of its reads it calls `before_read`.
    """

    def __init__(self, client):
        self._client = client
        self.before_read = lambda: None

    def __getattr__(self, name):
        return getattr(self._client, name)

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
        self.publisher = Publisher(client)
        self.reader = Reader(types.SimpleNamespace(client=self.cut))
        self.count = 0

    def publish_next(self):
        self.count += 1
        self.publisher.publish(state(self.count, count=2 + self.count % 2))

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
                self.assertEqual(self.reader.number, number)

    def test_a_reader_catches_up_with_one_that_publishes_all_the_time(self):
        self.publish_next()
        self.cut.before_read = self.publish_next
        for _ in range(3):
            before = self.count
            # Whoever reads the first is late, and keeps the next one.
            self.assertGreater(number_of(self.reader.fetch()), before)
        # Only the latest stays.
        self.assertEqual(len(self.client.snapshots()), 1)

    def test_what_a_publisher_that_was_killed_has_left_is_deleted(self):
        self.publish_next()
        self.client.init("published/w", torch.ones(3))
        Publisher(self.client).publish(state(7))
        self.assertEqual(self.client.keys(), [f"published/{i}" for i in "012"])

    def test_a_state_that_is_refused_is_forgotten(self):
        self.publish_next()
        number = self.reader.wait()
        with self.assertRaises(tensorkv.InvalidArgumentError):
            self.publisher.publish({**state(0), "a\nb": torch.ones(2)})
        self.assertEqual(number_of(self.reader.fetch()), self.count)
        self.assertEqual(self.reader.number, number)
        for _ in range(2):
            self.publish_next()
            self.assertEqual(number_of(self.reader.fetch()), self.count)
        self.assertEqual(len(self.client.keys()), 2 + self.count % 2)

    def test_keys_of_others_are_not_taken_over(self):
        self.client.init("published/w", torch.ones(3))
        for call in (self.publish_next, self.publisher.clear):
            with self.assertRaisesRegex(
                tensorkv.FailedPreconditionError, "'published/w'"
            ):
                call()
        self.assertEqual(self.client.keys(), ["published/w"])


class SeriesTest(StoreTest):
    """Readers choose a series, and a state of it by its number."""

    def setUp(self):
        self.client = tensorkv.Client.embedded()
        self.addCleanup(self.client.close)

    def impatient(self, reader):
        with self.assertRaises(tensorkv.DeadlineExceededError):
            reader.wait(timeout=0.05)

    def test_a_reader_of_a_series_waits_for_it(self):
        reader = Reader(self.client, "run-2/policy")
        Publisher(self.client, "run-1/policy").publish(state(1))
        self.impatient(reader)
        with self.assertRaises(tensorkv.DeadlineExceededError):
            reader.fetch(timeout=0.05)
        number = Publisher(self.client, "run-2/policy").publish(state(2), 42)
        self.assertEqual((number, reader.wait()), (42, 42))
        self.assertEqual(number_of(reader.fetch()), 2)

    def test_a_reader_asks_for_numbers(self):
        publisher = Publisher(self.client, keep_last=2)
        reader = Reader(self.client)
        for number in (10, 20, 30):
            publisher.publish(state(number), number)
        into = state(0)
        for options, expected in (
            ({}, 30),
            ({"number": 20}, 20),
            ({"at_least": 5}, 30),
            ({"at_least": 30}, 30),
        ):
            self.assertEqual(number_of(reader.fetch(**options)), expected)
            self.assertEqual(reader.number, expected)
        for options, error in (
            ({"number": 10}, tensorkv.SnapshotLostError),
            ({"number": 40}, tensorkv.SnapshotNotFoundError),
            (
                {"at_least": 40, "timeout": 0.05},
                tensorkv.DeadlineExceededError,
            ),
        ):
            with self.assertRaises(error):
                reader.fetch(into=into, **options)
            self.assertEqual(number_of(into), 0)
            self.assertEqual(reader.number, 30)
        with self.assertRaises(tensorkv.FailedPreconditionError) as raised:
            publisher.publish(state(1), 30)
        self.assertEqual(raised.exception.reason, "SNAPSHOT_NUMBER_PASSED")

    def test_snapshots_of_what_is_trained_are_read_too(self):
        self.client.init(["model/a", "other"], [torch.ones(2)] * 2)
        for prefixes, names in (
            (["model/"], ["a"]),
            ([], ["model/a", "other"]),
        ):
            self.client.create_snapshot("trained", prefixes=prefixes)
            self.assertEqual(
                sorted(Reader(self.client, "trained").fetch()), names
            )

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
            metadata = {
                "step": step,
                "é": None,
                "text": "a b",
                "digits": "12",
                "list": [1.5, "x"],
            }
            publisher.publish(state(step), metadata=metadata)
            reader.fetch()
            self.assertEqual(reader.metadata, metadata)
        texts = self.client.describe_snapshot("published").metadata
        self.assertEqual((texts["step"], texts["text"]), ("4", "a b"))
        with self.assertRaises(TypeError):
            publisher.publish(state(5), metadata={"step": object()})
        self.assertEqual(number_of(reader.fetch()), 4)

    def test_only_what_has_changed_comes(self):
        publisher = Publisher(self.client, keep_last=2)
        reader = Reader(self.client)
        weights = {"w": torch.ones(10_000), "v": torch.ones(10_000)}
        publisher.publish(weights)
        reader.fetch()
        self.assertEqual(reader.bytes_read, 80_000)

        for step in range(2, 5):
            weights["w"][step] = step
            publisher.publish(weights)
            fetched = reader.fetch()
            for name, tensor in fetched.items():
                self.assertTrue(torch.equal(tensor, weights[name]))
                tensor.zero_()  # what is kept is not the caller's

        self.assertLess(reader.bytes_read, 81_000)
        fetched = reader.fetch()
        self.assertTrue(torch.equal(fetched["w"], weights["w"]))

    def test_changes_are_those_of_the_converted_value(self):
        publisher = Publisher(self.client, keep_last=2)
        reader = Reader(self.client)
        served = {"w": torch.zeros(10_000, dtype=torch.bfloat16)}
        weights = {"w": torch.randn(10_000)}
        for step in range(3):
            weights["w"][step] += 1
            publisher.publish(weights)
            reader.fetch(into=served)
            self.assertTrue(torch.equal(served["w"], weights["w"].bfloat16()))
        self.assertLess(reader.bytes_read, 21_000)
        # The targets are the caller's to change.
        served["w"].zero_()
        reader.fetch(into=served)
        self.assertTrue(torch.equal(served["w"], weights["w"].bfloat16()))
        with self.assertRaises(tensorkv.InvalidArgumentError):
            reader.fetch(into={"other": torch.zeros(3)})
        reader.fetch(into=served)
        self.assertLess(reader.bytes_read, 21_000)

    def test_readers_get_what_the_server_converts(self):
        publisher = Publisher(self.client, "cast", keep_last=2)
        reader = Reader(self.client, "cast")
        for number in (1, 2):
            publisher.publish(state(number), as_dtype=torch.bfloat16)
            fetched = reader.fetch()
            self.assertEqual(fetched["0"].dtype, torch.bfloat16)
            self.assertEqual(number_of(fetched), number)
            # Older versions of PyTorch have none that is narrower.
            if hasattr(torch, "float8_e5m2"):
                narrower = reader.fetch(dtype=torch.float8_e5m2)
                self.assertEqual(narrower["0"].dtype, torch.float8_e5m2)
        self.assertEqual(self.client.stat("cast/0").dtype, "f32")

    def test_a_reader_that_keeps_nothing_gets_all(self):
        Publisher(self.client, keep_last=2).publish(state(1))
        reader = Reader(self.client, keep=False)
        for _ in range(2):
            self.assertEqual(number_of(reader.fetch()), 1)
        self.assertEqual(reader.bytes_read, 0)

    def test_ranks_publish_the_parts_of_a_state(self):
        client = self.client
        ranks = [Publisher(client, "ranks", 2, part=(i, 3)) for i in range(3)]
        reader = Reader(client, "ranks")
        for number in (1, 2):
            for rank, publisher in enumerate(ranks):
                self.assertEqual(reader.number, number - 1)
                with self.assertRaises(tensorkv.DeadlineExceededError):
                    reader.wait(number, timeout=0.01)
                part = {f"w/{rank}": torch.full((4,), float(number))}
                self.assertEqual(publisher.publish(part, number), number)
            fetched = reader.fetch()
            self.assertEqual(set(fetched), {"w/0", "w/1", "w/2"})
            self.assertEqual(number_of(fetched), number)
        status = client.describe_snapshot("ranks", 2)
        self.assertEqual((status.num_parts, status.num_keys), (3, 3))
        # One that has the number, or a tensor, of another changes nothing.
        with self.assertRaises(tensorkv.FailedPreconditionError):
            ranks[0].publish({"w/0": torch.zeros(4)}, 2)
        ranks[0].publish({"w/0": torch.full((4,), 3.0)}, 3)
        with self.assertRaises(tensorkv.InvalidArgumentError):
            ranks[1].publish({"w/0": torch.zeros(4)}, 3)
        with self.assertRaises(tensorkv.InvalidArgumentError):
            ranks[1].publish({"w/1": torch.zeros(4)})
        self.assertEqual(number_of(reader.fetch()), 2)
        ranks[2].clear()
        self.assertEqual(client.keys("ranks/"), [])

    def test_a_part_says_how_many_are_missing(self):
        taken = [
            self.client.init(
                f"key{i}", torch.ones(1), publish_as=tensorkv.PublishAs("p", 4, part=(i, 2))
            )
            for i in range(2)
        ]
        self.assertEqual([each.parts_missing for each in taken], [1, 0])
        self.assertEqual(self.client.pull("key0", at=taken[1].at), [1.0])

    def test_what_is_taken_back_is_waited_for(self):
        publisher, reader = Publisher(self.client), Reader(self.client)
        publisher.clear()
        first = publisher.publish(state(1))
        publisher.clear()
        self.assertEqual(self.client.keys(), [])
        self.impatient(reader)
        self.assertGreater(publisher.publish(state(2)), first)
        self.assertEqual(number_of(reader.fetch()), 2)

    def test_a_reader_does_not_go_back_by_itself(self):
        publisher = Publisher(self.client, keep_last=None)
        reader = Reader(self.client)
        for number in (1, 2):
            publisher.publish(state(number))
        reader.fetch()
        self.client.delete_snapshot("published", 2)
        into = state(0)
        with self.assertRaisesRegex(
            tensorkv.OlderSnapshotError, "latest number is 1, after 2"
        ):
            reader.fetch(into=into)
        self.assertEqual(number_of(into), 0)
        self.assertEqual(number_of(reader.fetch(number=1)), 1)
        self.assertEqual(number_of(reader.fetch()), 1)

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
            number = publisher.publish(state(1))
            self.assertEqual(await reader.aio.wait(timeout=30), number)
            self.assertEqual(number_of(await reader.aio.fetch()), 1)

        asyncio.run(work())


class DocumentationTest(unittest.TestCase):

    def test_transcripts_of_the_page_about_weights(self):
        failed, attempted = doctest.testfile(
            os.path.abspath("docs/weights.md"), module_relative=False
        )
        self.assertEqual(failed, 0)
        self.assertGreater(attempted, 15)


class RestartTest(StoreTest):
    """Publishers and readers go on with whatever a server has."""

    def setUp(self):
        self.server = RestartableServer(self)
        self.client = self.open_client(self.server.address, timeout=60)
        self.publisher = Publisher(self.client)
        self.reader = Reader(self.client)

    def test_both_go_on_after_a_restart(self):
        number = self.publisher.publish(state(1))
        self.assertEqual(number_of(self.reader.fetch()), 1)
        self.server.restart()
        # What was there is no news.
        with self.assertRaises(tensorkv.DeadlineExceededError):
            self.reader.wait(timeout=0.2)
        self.assertEqual(self.publisher.publish(state(2)), number + 1)
        self.assertEqual(self.reader.wait(), number + 1)
        self.assertEqual(number_of(self.reader.fetch()), 2)
        # What else the client does is told that there was a restart.
        with self.assertRaises(tensorkv.FailedPreconditionError) as raised:
            self.client.pull("published/0")
        self.assertEqual(raised.exception.reason, "SERVER_RESTARTED")

    def test_a_server_without_its_state_gets_the_next_one(self):
        self.publisher.publish(state(1))
        self.reader.fetch()
        self.server.kill()
        self.server.start()
        self.publisher.publish(state(2))
        self.assertEqual(self.reader.wait(), 2)
        self.assertEqual(number_of(self.reader.fetch()), 2)

    def test_an_older_number_is_no_later_state(self):
        self.publisher.publish(state(1), 41)
        self.publisher.publish(state(2), 42)
        self.reader.fetch()
        self.server.kill()
        self.server.start()
        again = Publisher(self.open_client(self.server.address))
        again.publish(state(3), 41)
        for call in (
            self.reader.fetch,
            self.reader.wait,
            lambda: self.reader.fetch(at_least=41),
        ):
            with self.assertRaises(tensorkv.OlderSnapshotError) as raised:
                call()
            self.assertEqual(raised.exception.metadata["latest"], "41")
        again.publish(state(4), 42)
        self.assertEqual(number_of(self.reader.fetch()), 4)


class ClusterTest(StoreTest):
    """States of several servers are as whole as those of one."""

    def start(self, *options):
        self.cluster = Cluster(self, options=options)
        self.client = self.open_client(self.cluster.target, timeout=120)
        self.publisher = Publisher(self.client, "policy")
        self.reader = Reader(self.client, "policy")

    def test_a_reader_gets_no_mix(self):
        self.start("--cluster_split_bytes=1MiB")
        large = torch.full((1024, 512), 1.0)
        self.publisher.publish({**state(1, count=20), "large": large})
        tensors = self.reader.fetch()
        self.assertTrue(torch.equal(tensors.pop("large"), large))
        self.assertEqual(number_of(tensors), 1)
        for number in range(2, 12):
            published = self.publisher.publish(state(number, count=20))
            tensors = self.reader.fetch()
            self.assertEqual(self.reader.number, published)
            self.assertEqual(len(tensors), 20)
            self.assertEqual(number_of(tensors), number)
        # Only the latest stays.
        self.assertEqual(len(self.client.snapshots()), 1)
        self.publisher.clear()
        self.assertEqual(self.client.keys(), [])
        self.assertEqual(self.client.snapshots(), [])

    def test_one_reads_while_another_publishes(self):
        self.start()
        self.publisher.publish(state(1, count=20))
        publisher = Publisher(self.open_client(self.cluster.target), "policy")

        def publish():
            for number in range(2, 30):
                publisher.publish(state(number, count=20))

        thread = threading.Thread(target=publish)
        thread.start()
        last = 0
        while thread.is_alive():
            number = number_of(self.reader.fetch())
            self.assertEqual(number, self.reader.number)
            self.assertGreaterEqual(number, last)
            last = number
        thread.join()
        self.assertEqual(number_of(self.reader.fetch()), 29)

    def test_both_go_on_after_restarts(self):
        self.start()
        self.publisher.publish(state(1, count=20))
        self.reader.fetch()
        for server in range(3):
            self.cluster.restart(server)
            value = server + 2
            number = self.publisher.publish(state(value, count=20))
            self.assertEqual(number, value)
            self.assertEqual(self.reader.wait(number), number)
            self.assertEqual(number_of(self.reader.fetch()), value)

    def test_all_verbs_are_those_of_one_server(self):
        self.start()
        client = self.client
        client.init(["a", "b"], [torch.zeros(2), torch.zeros(2, 2)])
        taken = client.push_rows(
            "b", [1], torch.ones(1, 2), publish_as=tensorkv.PublishAs("s")
        )
        self.assertEqual(taken.number, 1)
        self.assertEqual(client.create_snapshot("s", 7).number, 7)
        client.push("a", torch.ones(2))
        at = tensorkv.At("s")
        self.assertEqual(client.pull("a", at=at).tolist(), [0, 0])
        self.assertEqual(client.pull_rows("b", [1], at=at).tolist(), [[1, 1]])
        self.assertEqual(client.keys(at=at), ["a", "b"])
        self.assertEqual(client.stat("a", at=at).version, 1)
        with client.lease_snapshot("s") as leased:
            self.assertEqual(leased.at.number, 7)
            client.create_snapshot("s", keep_last=1)
            numbers = [each.number for each in client.snapshots("s")]
            self.assertEqual(numbers, [7, 8])
        self.assertEqual(len(client.snapshots("s")), 1)
        client.create_snapshot("s", keep_last=0)
        client.create_snapshot("s")
        self.assertEqual(client.describe_snapshot("s").keep_last, 0)
        self.assertEqual(len(client.snapshots("s")), 3)
        self.assertEqual(client.delete_snapshot("s"), 3)


if __name__ == "__main__":
    unittest.main()
