"""What clients are told of the steps of a namespace."""

import asyncio
import os
import sys
import unittest

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest, full, new_namespace


class StepRecordsTest(StoreTest):

    def setUp(self):
        self.namespace = new_namespace()
        self.client = self.open_client(namespace=self.namespace)

    def create(self, **config):
        """A group of two, of which each has joined by its name."""
        self.client.create_namespace(
            self.namespace, mode="sync", num_workers=2, **config
        )
        self.client.init(["a", "b"], [full(0), full(0)])
        workers = []
        for name in ("first", "second"):
            workers.append(self.open_client(namespace=self.namespace))
            workers[-1].join(name)
        return workers

    def test_tells_who_contributed_with_what_weight(self):
        first, second = self.create(aggregation="mean")
        first.push(["a", "b"], [full(1), full(1)], step=1)
        second.push(["a", "b"], [full(1), full(1)], step=1, weight=2.5)

        (record,) = self.client.describe_steps()
        self.assertEqual(record.step, 1)
        self.assertEqual((record.rounds_closed, record.rounds_failed), (2, 0))
        self.assertGreater(record.last_end, 1e9)
        self.assertEqual([w.name for w in record.workers], ["first", "second"])
        (keys,) = record.contributors
        self.assertEqual((keys.num_keys, keys.missing), (2, []))
        self.assertEqual(
            keys.contributions,
            [
                tensorkv.StepContribution(0, None, False, 1.0),
                tensorkv.StepContribution(1, None, False, 2.5),
            ],
        )

    def test_tells_the_newest_steps_of_a_range(self):
        first, second = self.create()
        for step in range(1, 6):
            for worker in (first, second):
                worker.push(["a", "b"], [full(1), full(1)], step=step)

        def told(*args, **options):
            records = self.client.describe_steps(*args, **options)
            return [record.step for record in records]

        self.assertEqual(told(), [5, 4, 3, 2, 1])
        self.assertEqual(told(2), [5, 4])
        self.assertEqual(told(2, last_step=3), [3, 2])
        self.assertEqual(told(first_step=4), [5, 4])
        self.assertIsNone(
            self.client.describe_steps(1)[0]
            .contributors[0]
            .contributions[0]
            .weight
        )

    def test_tells_why_rounds_failed(self):
        first, _ = self.create()
        first.push(["a", "b"], [full(1), full(1)], step=1)
        self.client.delete("a")

        (record,) = self.client.describe_steps()
        self.assertEqual(record.rounds_failed, 1)
        (failure,) = record.failures
        self.assertEqual(failure.reason, "its key was deleted")
        self.assertEqual((failure.keys, failure.came), (["a"], [0]))

    def test_is_for_workers_of_one_mode_alone(self):
        self.client.create_namespace(self.namespace)
        with self.assertRaises(tensorkv.FailedPreconditionError):
            self.client.describe_steps()

    def test_has_a_coroutine(self):
        self.create()
        self.assertEqual(asyncio.run(self.client.aio.describe_steps()), [])


if __name__ == "__main__":
    unittest.main()
