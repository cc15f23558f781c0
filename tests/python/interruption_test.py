"""Signals and forks."""

import asyncio
import inspect
import os
import signal
import socket
import subprocess
import sys
import threading
import unittest

import numpy as np
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from holding_proxy import HoldingProxy
from stores import ADDRESS, StoreTest, full, new_namespace

WAITS = {
    "a key": "client.pull('unknown', wait=True)",
    "a version": "client.pull('w', min_version=9)",
    "a barrier": "client.barrier()",
    "a round": "client.push_pull('w', array, step=1)",
    "a key into an array": "client.pull('unknown', out=array, wait=True)",
    "a round into an array": "client.push_pull('w', array, array, step=1)",
}

# Waits, and says how that ended and that the client still works.
PROGRAM = """
import signal, time
import numpy as np, tensorkv
# Where a shell has started the test in the background, it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
client = tensorkv.Client({address!r}, namespace={namespace!r}, timeout=60)
client.join("worker")
array = np.ones((2, 3), "float32")
client.init("w", array, on_existing="keep")
try:
    {wait}
except KeyboardInterrupt:
    # Nobody writes it any more, not even once there is what was waited for.
    array.fill(7)
    client.init("unknown", np.zeros((2, 3), "float32"))
    # What nobody waits for any more is waited for by no server either.
    while client.describe_namespace().calls_waiting > 0:
        time.sleep(0.01)
    print("interrupted", client.keys(), (array == 7).all())
"""

# These wait for a server that takes connections and never answers.
UNANSWERED = {
    "init": "client.init('w', array)",
    "push": "client.push('w', array)",
    "push of rows": "client.push_rows('w', np.array([1, 0]), array)",
    "pull of rows": "client.pull_rows('w', np.array([1, 0]))",
}

CALL_UNANSWERED = """
import signal
import numpy as np, tensorkv
signal.signal(signal.SIGINT, signal.default_int_handler)
array = np.ones((2, 3), "float32")
try:
    client = tensorkv.Client({address!r}, timeout=60)
    {call}
except KeyboardInterrupt:
    print("interrupted")
"""

# A push that is interrupted when a part of it has arrived, and made again.
CALL_CUT_SHORT = """
import signal
import numpy as np, tensorkv
signal.signal(signal.SIGINT, signal.default_int_handler)
client = tensorkv.Client({address!r}, namespace={namespace!r}, timeout=60)
client.join("worker")
try:
    client.{verb}("w", np.ones({size}, "float32"), step=1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
client.{verb}("w", np.full({size}, 2, "float32"), step=1)
print(np.unique(client.pull("w")), client.stat("w").version)
client.close()
"""

# Two processes that are the same until they fork meet in a round of two.
FORKED = """
import os
import numpy as np, tensorkv
is_child = os.fork() == 0
kv = tensorkv.create(
    "dist_sync", target={address!r}, namespace={namespace!r}, num_workers=2)
kv.init("w", np.zeros(3))
value = kv.push_pull("w", np.full(3, 2.0 if is_child else 1.0))
os.write(1, f"{{kv.rank}} {{value[0]}}\\n".encode())
kv.close()
if is_child:
    os._exit(0)
os.wait()
"""


class InterruptionTest(StoreTest):

    def await_waiting_call(self, client, process=None):
        while client.describe_namespace().calls_waiting == 0:
            if process is not None:
                self.assertIsNone(process.poll(), "the caller has ended")
            threading.Event().wait(0.01)

    def test_ctrl_c_interrupts_waits(self):
        for what, wait in WAITS.items():
            with self.subTest(what):
                namespace = new_namespace()
                client = self.open_client(namespace=namespace)
                client.create_namespace(namespace, mode="sync", num_workers=2)
                program = PROGRAM.format(
                    address=ADDRESS, namespace=namespace, wait=wait
                )
                self.assert_interrupted(
                    program,
                    lambda process: self.await_waiting_call(client, process),
                    "interrupted ['unknown', 'w'] True\n",
                )

    def test_ctrl_c_interrupts_calls_without_an_answer(self):
        for what, call in UNANSWERED.items():
            with self.subTest(what), socket.socket() as silent:
                silent.bind(("127.0.0.1", 0))
                silent.listen()
                silent.settimeout(60)
                host, port = silent.getsockname()
                program = CALL_UNANSWERED.format(
                    address=f"{host}:{port}", call=call
                )
                self.assert_interrupted(
                    program,
                    lambda _: self.addCleanup(silent.accept()[0].close),
                    "interrupted\n",
                )

    def test_ctrl_c_interrupts_a_workers_push_in_its_middle(self):
        size = 4 << 20
        for verb in ("push", "push_pull"):
            with self.subTest(verb):
                namespace = new_namespace()
                client = self.open_client(namespace=namespace)
                client.create_namespace(namespace, mode="sync", num_workers=1)
                client.init("w", np.zeros(size, "float32"))
                proxy = HoldingProxy(ADDRESS, num_bytes=2 * size)
                self.addCleanup(proxy.close)
                program = CALL_CUT_SHORT.format(
                    address=proxy.address,
                    namespace=namespace,
                    size=size,
                    verb=verb,
                )
                with self.start(program) as process:
                    self.addCleanup(process.kill)
                    self.assertTrue(proxy.held.wait(60))
                    process.send_signal(signal.SIGINT)
                    self.assertEqual(process.stdout.readline(), "interrupted\n")
                    proxy.release()
                    out, errors = process.communicate(timeout=60)
                # Each element is of the second push, which counts once.
                self.assertEqual(out, "[2.] 2\n", errors)
                client.delete_namespace(namespace)

    @staticmethod
    def start(program):
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def assert_interrupted(self, program, wait, output):
        """Interrupts the program once wait(process) has returned."""
        with self.start(program) as process:
            try:
                wait(process)
                process.send_signal(signal.SIGINT)
                out, errors = process.communicate(timeout=60)
            finally:
                process.kill()
        self.assertEqual(out, output, errors)
        self.assertEqual(process.returncode, 0, errors)

    def test_ctrl_c_interrupts_waits_of_a_store_in_the_process(self):
        client = tensorkv.Client.embedded()
        self.addCleanup(client.close)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

        def interrupt():
            self.await_waiting_call(client)
            os.kill(os.getpid(), signal.SIGINT)

        helper = threading.Thread(target=interrupt)
        helper.start()
        with self.assertRaises(KeyboardInterrupt):
            client.pull("w", wait=True)
        helper.join()
        # The call that was interrupted ends, too.
        client.init("w", full(3))
        self.assert_array(client.pull("w"), full(3))

    def test_handlers_make_calls_while_a_call_waits(self):
        client = self.open_client(timeout=60)
        key, other = new_namespace(), new_namespace()
        handled = threading.Event()

        def handle(*_):
            for value in (1, 2):
                client.init(other, full(value), on_existing="replace")
            handled.set()

        before = signal.signal(signal.SIGUSR1, handle)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

        def interrupt_then_init():
            self.await_waiting_call(client)
            os.kill(os.getpid(), signal.SIGUSR1)
            handled.wait(60)
            client.init(key, full(3))

        helper = threading.Thread(target=interrupt_then_init)
        helper.start()
        self.assert_array(client.pull(key, wait=True), full(3))
        helper.join()
        self.assert_array(client.pull(other), full(2))
        client.delete([key, other])


class CloseTest(StoreTest):
    """Calls end with what makes them."""

    def await_waiting_calls(self, client, count):
        while client.describe_namespace().calls_waiting != count:
            threading.Event().wait(0.01)

    def test_close_ends_the_calls_that_wait(self):
        for joins in (False, True):
            namespace = new_namespace()
            watching = self.open_client(namespace=namespace)
            watching.create_namespace(namespace, mode="sync", num_workers=2)
            watching.init("w", full(0))
            client = self.open_client(namespace=namespace, timeout=600)
            if joins:
                client.join("worker")
            waits = [
                lambda: client.pull("unknown", wait=True),
                lambda: client.pull("w", min_version=9),
                lambda: client.pull("unknown", out=full(0), wait=True),
            ]
            if joins:
                waits += [
                    lambda: client.push_pull("w", full(1), step=1),
                    client.barrier,
                ]
            errors = []

            def work(wait):
                try:
                    wait()
                except tensorkv.Error as error:
                    errors.append(type(error))

            calls = [
                threading.Thread(target=work, args=(wait,)) for wait in waits
            ]
            for call in calls:
                call.start()
            self.await_waiting_calls(watching, len(waits))
            client.close()
            for call in calls:
                call.join()
            self.assertEqual(errors, [tensorkv.ClosedError] * len(waits))
            self.await_waiting_calls(watching, 0)

    def test_close_ends_the_calls_of_tasks(self):
        watching = self.open_client(namespace=new_namespace())
        watching.create_namespace(watching.namespace)
        client = self.open_client(namespace=watching.namespace, timeout=600)

        async def work():
            tasks = [
                asyncio.ensure_future(client.aio.pull("unknown", wait=True)),
                asyncio.ensure_future(client.aio.barrier()),
            ]
            while watching.describe_namespace().calls_waiting == 0:
                await asyncio.sleep(0.01)
            client.close()
            return await asyncio.gather(*tasks, return_exceptions=True)

        for error in asyncio.run(work()):
            self.assertIsInstance(error, tensorkv.FailedPreconditionError)
        self.await_waiting_calls(watching, 0)

    def test_calls_of_tasks_that_were_cancelled_end_at_the_server(self):
        namespace = new_namespace()
        watching = self.open_client(namespace=namespace)
        watching.create_namespace(namespace, mode="sync", num_workers=2)
        watching.init("w", full(0))
        client = self.open_client(namespace=namespace, timeout=600)
        worker = self.open_client(namespace=namespace, timeout=600)
        worker.join("worker")

        async def work():
            tasks = [
                asyncio.ensure_future(each)
                for each in (
                    client.aio.pull("unknown", wait=True),
                    client.aio.pull("unknown", wait=True, timeout=500),
                    worker.aio.pull("unknown", wait=True),
                    worker.aio.push_pull("w", full(1), step=1),
                )
            ]
            while watching.describe_namespace().calls_waiting != 4:
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            while watching.describe_namespace().calls_waiting != 0:
                await asyncio.sleep(0.01)

        asyncio.run(work())

    def test_calls_of_coroutines_that_were_closed_end_at_the_server(self):
        watching = self.open_client(namespace=new_namespace())
        watching.create_namespace(watching.namespace)
        client = self.open_client(namespace=watching.namespace, timeout=600)

        async def call():
            await client.aio.pull("unknown", wait=True)

        async def begin():
            # It is driven by hand: a loop cancels its tasks when it ends.
            coroutine = call()
            coroutine.send(None)
            while watching.describe_namespace().calls_waiting == 0:
                await asyncio.sleep(0.01)
            return coroutine

        asyncio.run(begin()).close()
        self.await_waiting_calls(watching, 0)

    def test_calls_have_timeouts_of_their_own(self):
        namespace = new_namespace()
        client = self.open_client(namespace=namespace, timeout=600)
        client.create_namespace(namespace, mode="sync", num_workers=2)
        client.init("w", full(0))
        calls = [
            lambda: client.pull("unknown", wait=True, timeout=0.05),
            lambda: asyncio.run(
                client.aio.pull("unknown", wait=True, timeout=0.05)
            ),
            lambda: client.barrier(timeout=0.05),
            lambda: client.push_pull("w", full(1), step=1, timeout=0.05),
        ]
        with self.assertRaises(tensorkv.DeadlineExceededError):
            calls[0]()
        with self.assertRaises(tensorkv.DeadlineExceededError):
            calls[1]()
        client.join("worker")
        for call in calls:
            with self.assertRaises(tensorkv.DeadlineExceededError):
                call()

    def test_every_call_to_a_server_takes_a_timeout(self):
        in_the_process = {
            tensorkv.Client: {
                *("close", "embedded", "leave", "reconnect"),
                "set_compression",
                "join",  # It has takeover_timeout.
                "watch",  # It makes no call; what it returns has timeouts.
            },
            tensorkv.KVStore: {
                *("close", "is_capable", "leave", "set_gradient_compression"),
            },
        }
        for cls, names in in_the_process.items():
            without = {
                name
                for name, verb in inspect.getmembers(cls, callable)
                if not name.startswith("_")
                and "timeout" not in inspect.signature(verb).parameters
            }
            self.assertEqual(without, names)

    def test_a_timeout_ends_any_call_that_nobody_answers(self):
        w, array = "w", full(1)
        calls = {
            "broadcast": (w, array),
            "create_namespace": ("n",),
            "delete": (w,),
            "delete_checkpoint": ("c",),
            "delete_namespace": ("n",),
            "describe_namespace": (),
            "describe_server": (),
            "describe_steps": (),
            "get_state": (w, "momentum"),
            "init": (w, array),
            "keys": (),
            "list_checkpoints": (),
            "list_namespaces": (),
            "pull": (w,),
            "pull_rows": (w, [0]),
            "push": (w, array),
            "push_pull": (w, array),
            "push_rows": (w, [0], full(1, shape=(1, 3))),
            "restore_checkpoint": ("c",),
            "save_checkpoint": (),
            "set_hyperparameters": (),
            "set_multipliers": (w,),
            "set_rule": ("sgd",),
            "set_state": (w, "momentum", array),
            "stat": (w,),
            "unset_multipliers": (w,),
            "unset_rule": (w,),
            "update_namespace": ("n",),
            "verify_checkpoint": ("c",),
        }
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            client = self.open_client(f"127.0.0.1:{port}", timeout=600)
            for name, arguments in calls.items():
                with self.subTest(name):
                    with self.assertRaises(
                        (
                            tensorkv.DeadlineExceededError,
                            tensorkv.UnavailableError,
                        )
                    ):
                        getattr(client, name)(*arguments, timeout=0.01)


class ForkTest(StoreTest):

    def in_child(self, work):
        """What work() returns in a forked child, as text."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                answer = str(work())
            except BaseException as error:
                answer = type(error).__name__
            os.write(writer, answer.encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answer = pipe.read()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        return answer

    def test_inherited_stores_say_that_they_are(self):
        for kind in ("local", "dist_sync"):
            store = self.open(kind)
            store.init(1, full(1))
            for call in (lambda: store.pull(1), lambda: store.push(1, full(1))):
                self.assertEqual(self.in_child(call), "ForkedError")
            self.assertEqual(self.in_child(store.close), "None")
            self.assert_array(store.pull(1), full(1))

    def test_a_forked_child_cannot_make_a_client_of_a_server(self):
        def work():
            try:
                tensorkv.Client(ADDRESS, timeout=5)
            except tensorkv.ForkedError as error:
                return "spawn" in str(error)

        client = self.open_client()
        client.keys()
        self.assertEqual(self.in_child(work), "True")
        # Its threads go on.
        client.close()
        self.assertEqual(self.in_child(work), "True")

    def test_a_fork_is_another_worker(self):
        program = FORKED.format(address=ADDRESS, namespace=new_namespace())
        ended = subprocess.run(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
            check=True,
        )
        # Two contributions and two names: neither was taken for a repeat of the
        # other's.
        self.assertEqual(sorted(ended.stdout.splitlines()), ["0 3.0", "1 3.0"])

    def test_a_child_opens_its_own_local_store(self):
        self.open("local").init(1, full(1))

        def work():
            store = tensorkv.create("local")
            store.init(1, full(7))
            return store.pull(1)[0, 0]

        self.assertEqual(self.in_child(work), "7.0")


if __name__ == "__main__":
    unittest.main()
