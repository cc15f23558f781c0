"""Verbs as coroutines, of a client and of a store."""

import asyncio
import contextvars
import inspect
import os
import subprocess
import sys
import threading
import time
import unittest
import weakref

import numpy as np
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import ADDRESS, StoreTest, full, new_namespace
from tensorkv.aio import Coroutines, Threads


class AioTest(StoreTest):

    def setUp(self):
        namespace = new_namespace()
        self.client = self.open_client(namespace=namespace)
        self.client.create_namespace(namespace)

    def test_many_calls_at_once(self):
        client = self.client
        client.set_rule("accumulate")
        client.init("w", full(0))

        async def run():
            versions = await asyncio.gather(
                *(client.aio.push("w", full(1)) for _ in range(100))
            )
            return versions, await client.aio.pull("w")

        versions, value = asyncio.run(run())

        self.assertEqual(sorted(versions), list(range(2, 102)))
        self.assert_array(value, full(100))

    async def _await_waiting(self, count):
        while self.client.describe_namespace().calls_waiting < count:
            await asyncio.sleep(0.01)

    def test_pushes_and_inits_wait_for_no_pull(self):
        async def run():
            aio = self.client.aio
            waits = [
                asyncio.create_task(aio.pull("w", wait=True, min_version=2))
                for _ in range(100)
            ]
            await self._await_waiting(64)
            await aio.init("w", full(1))
            await aio.push("w", full(2))
            for value in await asyncio.gather(*waits):
                self.assert_array(value, full(2))

        asyncio.run(run())

    def test_what_is_pushed_and_pulled_is_let_go(self):
        self.client.init("w", full(0))
        are_gone = threading.Event(), threading.Event()

        def push_and_pull():
            array, out = full(1), full(0)
            weakref.finalize(array, are_gone[0].set)
            weakref.finalize(out, are_gone[1].set)
            asyncio.run(self.client.aio.push_pull("w", array, out=out))
            del array, out
            # The connection's threads may need them for a moment longer; what
            # they let go is released by the next call.
            end = time.monotonic() + 60
            while not all(is_gone.is_set() for is_gone in are_gone):
                self.assertLess(time.monotonic(), end)
                self.client.push("w", full(1))

        # Python's main thread only waits meanwhile, and releases nothing.
        thread = threading.Thread(target=push_and_pull)
        thread.start()
        thread.join()

        self.assertTrue(all(is_gone.is_set() for is_gone in are_gone))

    def test_errors_are_those_of_the_verbs(self):
        async def run():
            with self.assertRaises(tensorkv.NotFoundError):
                await self.client.aio.pull("unknown")
            with self.assertRaises(tensorkv.NotFoundError):
                await self.client.aio.push("unknown", full(1))
            with self.assertRaises(tensorkv.InvalidArgumentError):
                await self.client.aio.push_pull(
                    "unknown", full(1), out=np.empty(9)
                )
            with self.assertRaises(TypeError):
                await self.client.aio.pull()
            self.client.close()
            with self.assertRaises(tensorkv.ClosedError):
                await self.client.aio.pull("w")

        asyncio.run(run())
        for name in ("target", "_store", "unknown"):
            with self.assertRaises(AttributeError):
                getattr(self.client.aio, name)

    def test_coroutines_say_what_their_methods_say(self):
        for name in ("push", "pull", "push_pull", "stat"):
            coroutine = getattr(self.client.aio, name)
            method = getattr(self.client, name)
            self.assertEqual(coroutine.__doc__, method.__doc__)
            self.assertEqual(
                inspect.signature(coroutine), inspect.signature(method)
            )

    def test_properties_are_not_asked_for_from_a_loop(self):
        kv = self.open("dist_async")
        kv.close()  # so that to ask would be a ClosedError
        with self.assertRaises(AttributeError):
            kv.aio.num_workers

    def test_calls_see_the_context_of_their_task(self):
        variable = contextvars.ContextVar("variable", default="none")

        class Target:
            def read(self):
                return variable.get()

        async def run():
            variable.set("the task's")
            return await Coroutines(Target(), Threads(1), Threads(1)).read()

        self.assertEqual(asyncio.run(run()), "the task's")

    def test_threads_make_the_calls_of_higher_priorities_first(self):
        begun, may_end = threading.Event(), threading.Event()
        made = []

        class Target:
            def wait(self):
                begun.set()
                may_end.wait()

            def pull(self, key, out=None, priority=0):
                made.append(priority)

        async def run():
            aio = Coroutines(Target(), Threads(1), Threads(1))
            calls = [asyncio.create_task(aio.wait())]
            while not begun.is_set():
                await asyncio.sleep(0.01)
            for priority in (0, -1, 7, 3, 0, 9):
                calls.append(
                    asyncio.create_task(aio.pull("w", None, priority))
                    if priority % 2
                    else asyncio.create_task(aio.pull("w", priority=priority))
                )
            await asyncio.sleep(0)  # They wait for the thread.
            calls[3].cancel()
            await asyncio.wait([calls[3]])
            may_end.set()
            await asyncio.gather(*calls, return_exceptions=True)

        asyncio.run(run())

        self.assertEqual(made, [9, 3, 0, 0, -1])

    def test_threads_end_with_their_client(self):
        for end in (tensorkv.Client.close, lambda client: None):
            # Those of other tests may be ending.
            before = set(threading.enumerate())
            client = tensorkv.Client(ADDRESS)
            asyncio.run(client.aio.keys())
            [thread] = set(threading.enumerate()) - before
            end(client)
            del client
            thread.join(60)
            self.assertFalse(thread.is_alive())

    def test_a_program_ends_while_a_call_waits(self):
        program = (
            "import asyncio, tensorkv\n"
            f"client = tensorkv.Client({ADDRESS!r}, timeout=600)\n"
            "async def run():\n"
            "    task = asyncio.create_task(\n"
            "        client.aio.pull('never', wait=True))\n"
            "    while not client.describe_namespace().calls_waiting:\n"
            "        await asyncio.sleep(0.01)\n"
            "    task.cancel()\n"
            "asyncio.run(run())\n"
        )
        subprocess.run([sys.executable, "-c", program], timeout=60, check=True)

    def test_a_thread_whose_call_ends_while_the_program_does_stays(self):
        # What sys has goes when the modules have gone, and no other thread gets
        # the GIL any more. The main thread's calls give it away all the same.
        program = (
            "import sys, threading\n"
            "import numpy as np, tensorkv\n"
            f"options = dict(namespace={self.client.namespace!r}, timeout=600)\n"
            f"client = tensorkv.Client({ADDRESS!r}, **options)\n"
            f"other = tensorkv.Client({ADDRESS!r}, **options)._store\n"
            "class LastToGo:\n"
            "    arrays = [np.ones(3)]\n"
            "    def __del__(self, init=other.init, stat=other.stat):\n"
            "        init(['later'], self.arrays, 'fail', None)\n"
            "        for _ in range(100):\n"
            "            stat(['later'], False, None)\n"
            "def wait(client=client):\n"
            "    client.pull('later', wait=True)\n"
            "threading.Thread(target=wait, daemon=True).start()\n"
            "while not client.describe_namespace().calls_waiting:\n"
            "    pass\n"
            "sys.last_to_go = LastToGo()\n"
        )
        subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
        self.assertEqual(self.client.keys(), ["later"])

    def test_workers_of_one_loop_meet_in_their_rounds(self):
        workers = self.open_group("dist_sync", 3)

        async def work(kv):
            await kv.aio.init("w", full(0))
            for _ in range(5):
                out = np.empty_like(full(0))
                await kv.aio.push_pull("w", full(kv.rank), out=out)
                self.assert_array(out, full(3))

        async def run():
            await asyncio.gather(*(work(kv) for kv in workers))

        asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
