"""Steps of keys that several threads or tasks push."""

import asyncio
import os
import sys
import threading
import unittest

import tensorkv
from tensorkv._cancellation import Cancellation
from tensorkv._steps import QueuedSteps

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest, full

NUM_THREADS = 4
NUM_PUSHES = 60
NUM_TASKS = 64
NUM_PUSHES_OF_TASK = 2


class QueuedStepsTest(unittest.TestCase):
    def begin(self, steps, keys, cancellation=None):
        """A ticket, and a thread that waits for it."""
        ticket = steps.ticket(keys, 60)
        outcome = []
        cancellation = cancellation or Cancellation()

        def enter():
            try:
                with cancellation.entered():
                    ticket.__enter__()
                outcome.append(dict(ticket.steps))
            except tensorkv.Error as error:
                outcome.append(error)

        thread = threading.Thread(target=enter, daemon=True)
        thread.start()
        return ticket, thread, outcome

    def await_calls(self, steps, key, count):
        with steps._changed:
            while len(steps._calls.get(key, ())) < count:
                steps._changed.wait(0.01)

    def push(self, steps, *keys):
        with steps.ticket(list(keys), 60) as ticket:
            for _ in ticket.parts([False] * len(keys)):
                pass
        return ticket.steps

    def test_each_key_has_steps_of_its_own(self):
        steps = QueuedSteps(5)
        self.assertEqual(self.push(steps, "a", "b"), {"a": 5, "b": 5})
        self.assertEqual(self.push(steps, "b"), {"b": 6})
        self.assertEqual(self.push(steps, "a", "b"), {"a": 6, "b": 7})
        self.assertEqual(steps.last(), 7)

    def test_a_call_waits_for_those_before_it_of_any_of_its_keys(self):
        steps = QueuedSteps(1)
        first = steps.ticket(["a", "b"], 60)
        first.__enter__()
        second, thread, outcome = self.begin(steps, ["b", "c"])
        self.await_calls(steps, "c", 1)
        # It comes after the second, although its key is free.
        third, other, late = self.begin(steps, ["c"])
        self.await_calls(steps, "c", 2)
        self.assertEqual(self.push(steps, "d"), {"d": 1})
        self.assertEqual((outcome, late), ([], []))

        list(first.parts([False] * 2))
        first.__exit__(None, None, None)
        thread.join()
        self.assertEqual(outcome, [{"b": 2, "c": 1}])
        self.assertEqual(late, [])
        list(second.parts([False] * 2))
        second.__exit__(None, None, None)
        other.join()
        self.assertEqual(late, [{"c": 2}])
        self.assertTrue(third.is_shared)

    def test_a_step_that_was_refused_is_that_of_the_next_call(self):
        for error in (tensorkv.InvalidArgumentError("no"), TypeError("no")):
            steps = QueuedSteps(1)
            first = steps.ticket(["a"], 60)
            first.__enter__()
            _, thread, outcome = self.begin(steps, ["a"])
            self.await_calls(steps, "a", 2)
            first.__exit__(type(error), error, None)
            thread.join()
            self.assertEqual(outcome, [{"a": 1}])

    def test_who_waits_behind_an_unknown_outcome_is_refused(self):
        for error in (
            tensorkv.UnavailableError("no answer"),
            tensorkv.DeadlineExceededError("late"),
            KeyboardInterrupt(),
        ):
            steps = QueuedSteps(1)
            first = steps.ticket(["a", "b"], 60)
            first.__enter__()
            _, thread, outcome = self.begin(steps, ["b"])
            self.await_calls(steps, "b", 2)
            first.__exit__(type(error), error, None)
            thread.join()
            self.assertIsInstance(outcome[0], tensorkv.AbortedError)
            # Whoever comes now pushes that step again.
            self.assertEqual(self.push(steps, "a", "b"), {"a": 1, "b": 1})

    def test_who_waits_behind_one_that_found_a_restart_hears_of_it(self):
        steps = QueuedSteps(1)
        first = steps.ticket(["a"], 60)
        first.__enter__()
        _, thread, outcome = self.begin(steps, ["a"])
        self.await_calls(steps, "a", 2)
        error = tensorkv.FailedPreconditionError("again", "SERVER_RESTARTED")
        first.__exit__(type(error), error, None)
        thread.join()
        self.assertIsInstance(outcome[0], tensorkv.FailedPreconditionError)
        self.assertEqual(outcome[0].reason, "SERVER_RESTARTED")

    def test_a_call_that_is_cancelled_while_it_waits_holds_up_none(self):
        steps = QueuedSteps(1)
        first = steps.ticket(["a"], 60)
        first.__enter__()
        cancellation = Cancellation()
        _, cancelled, outcome = self.begin(steps, ["a", "b"], cancellation)
        self.await_calls(steps, "b", 1)
        _, behind, late = self.begin(steps, ["b"])
        self.await_calls(steps, "b", 2)

        cancellation.cancel()
        # The first one goes on, and is not waited for.
        cancelled.join()
        behind.join()
        self.assertIn("it has not been made", str(outcome[0]))
        self.assertEqual(late, [{"b": 1}])
        list(first.parts([False]))
        first.__exit__(None, None, None)
        self.assertEqual(self.push(steps, "a"), {"a": 2})

    def test_a_call_that_was_cancelled_before_takes_nothing(self):
        steps = QueuedSteps(1)
        cancellation = Cancellation()
        cancellation.cancel()
        _, thread, outcome = self.begin(steps, ["a"], cancellation)
        thread.join()
        self.assertIn("it has not been made", str(outcome[0]))
        self.assertEqual(self.push(steps, "a"), {"a": 1})

    def test_a_ticket_that_is_not_served_in_time_takes_nothing(self):
        steps = QueuedSteps(1)
        with steps.ticket(["a"], 60):
            with self.assertRaises(tensorkv.DeadlineExceededError):
                steps.ticket(["a", "b"], 0).__enter__()
            self.assertEqual(self.push(steps, "b"), {"b": 1})


class PushesOfOneKeyTest(StoreTest):
    """Sums tell which pushes were lost."""

    def open_summing(self):
        kv = self.open("dist_sync", num_workers=1)
        kv.set_optimizer("accumulate", scale=1)
        kv.init(["a", "b", "c"], [full(0)] * 3)
        return kv

    def test_threads_lose_none(self):
        kv = self.open_summing()

        def work(i):
            for _ in range(NUM_PUSHES):
                # Calls have the keys in different orders.
                kv.push(["a", "b"] if i % 2 else ["b", "a"], [full(1)] * 2)
                kv.push_pull(["b", "c"], [full(1), full(1)], out=[full(0)] * 2)

        self.together(range(NUM_THREADS), work)

        count = NUM_THREADS * NUM_PUSHES
        values = kv.pull(["a", "b", "c"])
        self.assert_array(values, [full(count), full(2 * count), full(count)])

    def test_threads_and_tasks_lose_none(self):
        kv = self.open_summing()

        async def push_in_tasks():
            async def push():
                for _ in range(NUM_PUSHES_OF_TASK):
                    await kv.aio.push("a", full(1))
                    await kv.aio.push_pull("a", full(1), out=full(0))

            await asyncio.gather(*(push() for _ in range(NUM_TASKS)))

        def work(i):
            if i == NUM_THREADS:
                asyncio.run(push_in_tasks())
                return
            for _ in range(NUM_PUSHES):
                kv.push("a", full(1))

        self.together(range(NUM_THREADS + 1), work)

        self.assert_array(
            kv.pull("a"),
            full(NUM_THREADS * NUM_PUSHES + 2 * NUM_TASKS * NUM_PUSHES_OF_TASK),
        )

    def test_tasks_that_are_cancelled_leave_the_others_their_pushes(self):
        kv, other = self.open_group("dist_sync", 2)

        def begin(store):
            store.set_optimizer("accumulate", scale=1)
            store.init("w", full(0))

        self.together([kv, other], begin)

        async def work():
            # It waits for the other worker, and the rest for it.
            first = asyncio.create_task(kv.aio.push_pull("w", full(1)))
            while kv.client.describe_namespace().calls_waiting == 0:
                await asyncio.sleep(0.01)
            # More than there are threads for pushes.
            tasks = [
                asyncio.create_task(kv.aio.push("w", full(100)))
                for _ in range(NUM_TASKS)
            ]
            while len(kv._steps._calls["w"]) < 2:
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            last = asyncio.create_task(kv.aio.push("w", full(2)))
            # Those that were cancelled have let go of their threads.
            while len(kv._steps._calls["w"]) != 2:
                await asyncio.sleep(0.01)
            for value in (10, 20):
                await other.aio.push("w", full(value))
            await asyncio.gather(first, last)

        asyncio.run(work())

        self.assert_array(kv.pull("w"), full(33))

    def test_workers_of_several_threads_meet_in_their_rounds(self):
        stores = self.open_group("dist_sync", 2)

        def work(kv):
            kv.set_optimizer("accumulate", scale=1)
            kv.barrier()
            kv.init(["a", "b"], [full(0)] * 2)

            def push(key):
                for _ in range(20):
                    kv.push_pull(key, full(1), out=full(0))

            self.together(["a", "b", "a"], push)
            return kv.pull(["a", "b"])

        for values in self.together(stores, work):
            self.assert_array(values, [full(80), full(40)])


if __name__ == "__main__":
    unittest.main()
