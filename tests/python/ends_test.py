"""Ten ways in which a worker's program ends, and what its group hears."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from holding_proxy import HoldingProxy
from stores import ADDRESS, StoreTest, full, new_namespace

PROGRAM = """
import os, signal, sys, threading
import numpy as np, tensorkv
signal.signal(signal.SIGINT, signal.default_int_handler)
kv = tensorkv.create(
    "dist_sync", target={target!r}, namespace={namespace!r},
    num_workers=2, worker_name="w1", lease={lease})
kv.init("w", np.zeros((2, 3), "float32"))
kv.push_pull("w", np.ones((2, 3), "float32"))
def ready():
    print("ready", flush=True)
{end}
"""

IN_THREAD = """
waiting = threading.Thread(
    target=kv.client.pull, args=("unknown", None, True), daemon=True)
waiting.start()
ready()
waiting.join()
"""

# A child has the worker's memory, and is interrupted, too.
AT_FORK = """
if os.fork() == 0:
    signal.pause()
ready()
os.wait()
"""

# By way: the end of the program, the signal that it gets once it is ready, and
# what its worker is then. Where that is told by nobody, the lease says it.
ENDS = {
    "return": ("", None, "done"),
    "exception": ("1 / 0", None, "lost"),
    "sys.exit(1)": ("sys.exit(1)", None, "lost"),
    "SIGTERM": ("ready(); signal.pause()", signal.SIGTERM, "silent"),
    "SIGKILL": ("ready(); signal.pause()", signal.SIGKILL, "silent"),
    "Ctrl-C in pull": (
        "ready(); kv.client.pull('unknown', wait=True)",
        signal.SIGINT,
        "lost",
    ),
    "Ctrl-C in a wait": ("ready(); kv.barrier()", signal.SIGINT, "lost"),
    "Ctrl-C in close": ("ready(); input(); kv.close()", signal.SIGINT, "done"),
    "Ctrl-C beside a thread": (IN_THREAD, signal.SIGINT, "lost"),
    "Ctrl-C beside a child": (AT_FORK, signal.SIGINT, "lost"),
}


class EndsTest(StoreTest):

    def start(self, way):
        """A group of two in its second step, which the other does not make."""
        end, _, what = ENDS[way]
        self.proxy = HoldingProxy(ADDRESS, num_bytes=1 << 30)
        self.addCleanup(self.proxy.close)
        kv = self.open(
            "dist_sync",
            namespace=new_namespace(),
            num_workers=2,
            worker_name="w0",
        )
        kv.init("w", full(0))
        program = PROGRAM.format(
            target=self.proxy.address,
            namespace=kv.client.namespace,
            lease=1 if what == "silent" else 600,
            end=end,
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(process.wait)
        self.addCleanup(self.kill_group, process.pid)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        kv.push_pull("w", full(1))
        return kv, process

    @staticmethod
    def kill_group(number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(number, signal.SIGKILL)

    def end(self, way, process):
        """Returns when the program has ended, at that time."""
        number = ENDS[way][1]
        if number is None:
            process.wait()
            return time.monotonic()
        self.assertEqual(process.stdout.readline(), "ready\n")
        if way == "Ctrl-C in close":
            # The server gets what says so, and its answer does not come.
            self.proxy.hold_after(1)
            process.stdin.write("close\n")
            process.stdin.close()
            self.assertTrue(self.proxy.held.wait(60))
        os.killpg(process.pid, number)
        ended = time.monotonic()
        process.wait()
        return ended

    def hear(self, kv, errors):
        try:
            kv.push_pull("w", full(1))
        except tensorkv.Error as error:
            errors.append(type(error))

    def test_what_the_others_hear(self):
        for way, (_, _, what) in ENDS.items():
            with self.subTest(way):
                kv, process = self.start(way)
                errors = []
                waiting = threading.Thread(target=self.hear, args=(kv, errors))
                waiting.start()
                ended = self.end(way, process)
                while (worker := self.worker_of(kv)).live:
                    threading.Event().wait(0.01)
                seconds = time.monotonic() - ended
                self.assertEqual(worker.left, what == "done")
                if what != "done":
                    # It waits for the worker to come back, until it is closed.
                    kv.close()
                waiting.join()
                expected = "WorkerLeft" if what == "done" else "Closed"
                [error] = errors
                self.assertEqual(error.__name__, f"{expected}Error")
                print(f"{way}: {what}, heard after {seconds:.2f} s")

    @staticmethod
    def worker_of(kv):
        workers = kv.client.describe_namespace().workers
        return next(each for each in workers if each.name == "w1")


if __name__ == "__main__":
    unittest.main()
