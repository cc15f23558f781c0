"""Two workers of stubs alone train through a death and a restart.

Usage: python_training.py STUBS_DIRECTORY SERVER_BINARY
"""

import re
import signal
import subprocess
import sys
import time
import unittest

import grpc

STUBS, SERVER_BINARY = sys.argv[1:3]
del sys.argv[1:]
sys.path.insert(0, STUBS)

from tensorkv.v1 import namespace_pb2
from tensorkv.v1 import service_pb2_grpc

WORKER = "tests/integration/python_worker.py"


def weight_after(num_steps):
    """Ranks 0 and 1 have added (rank + 1) * step in each step."""
    return sum(3.0 * step for step in range(1, num_steps + 1))


class Server:

    def __init__(self, listen="127.0.0.1:0"):
        self.process = subprocess.Popen(
            [SERVER_BINARY, "--device=cpu", "--listen=" + listen]
            + ["--metrics_listen=", "--budget=64MiB"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for line in self.process.stdout:
            ready = re.search(r" ready listen=(\S+)", line)
            if ready:
                self.address = ready.group(1)
                return
        raise RuntimeError("the server did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Worker:

    def __init__(self, server, name):
        self.process = subprocess.Popen(
            ["/usr/bin/python3", WORKER, STUBS, server.address, "train", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def train(self, num_steps):
        self.process.stdin.write(f"{num_steps}\n")
        self.process.stdin.flush()

    def outcome(self):
        """The reasons that it went on from, the steps done and the weight."""
        reasons = set()
        for line in self.process.stdout:
            word, *fields = line.split()
            if word == "done":
                return reasons, int(fields[0]), float(fields[1])
            reasons.add(fields[0])
        raise RuntimeError("the worker has ended")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class TrainingTest(unittest.TestCase):

    def setUp(self):
        self.server = Server()
        self.workers = [Worker(self.server, f"w{i}") for i in (0, 1)]

    def tearDown(self):
        for each in (*self.workers, self.server):
            each.kill()

    def await_waiting_call(self):
        channel = grpc.insecure_channel(self.server.address)
        stub = service_pb2_grpc.NamespacesStub(channel)
        request = namespace_pb2.DescribeNamespaceRequest(namespace="train")
        while True:
            reply = stub.DescribeNamespace(request, timeout=20)
            if reply.status.calls_waiting > 0:
                break
            time.sleep(0.01)
        channel.close()

    def expect_done(self, num_steps):
        """Returns the reasons that the workers have met on the way."""
        all_reasons = []
        for worker in self.workers:
            reasons, done, weight = worker.outcome()
            self.assertEqual((done, weight), (num_steps, weight_after(done)))
            all_reasons.append(reasons)
        return all_reasons

    def test_goes_on_after_a_death_and_a_restart(self):
        for worker in self.workers:
            worker.train(20)
        self.expect_done(20)

        self.workers[0].train(40)
        self.await_waiting_call()
        self.workers[1].kill()
        self.workers[1] = Worker(self.server, "w1")
        self.workers[1].train(40)
        self.assertIn("ROUND_FAILED", self.expect_done(40)[0])

        self.workers[0].train(60)
        self.await_waiting_call()
        self.server.kill()
        self.server = Server(self.server.address)
        self.workers[1].train(60)
        for reasons in self.expect_done(60):
            self.assertIn("SERVER_RESTARTED", reasons)


if __name__ == "__main__":
    unittest.main(verbosity=2)
