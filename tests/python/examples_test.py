"""The example that is to survive the end of a worker and of the server."""

import contextlib
import os
import re
import subprocess
import sys
import threading
import unittest

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from servers import RestartableServer
from stores import StoreTest

STEPS = 600


class DataParallelTest(StoreTest):

    def setUp(self):
        self.server = RestartableServer(self)
        self.client = self.open_client(self.server.address, timeout=60)

    def start(self, name):
        worker = subprocess.Popen(
            [
                *(sys.executable, "examples/pytorch_data_parallel.py"),
                f"--target={self.server.address}",
                *("--workers=2", f"--name={name}", f"--steps={STEPS}"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(worker.stdout.close)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        return worker

    def await_step(self, step):
        """Returns when both workers have come to that step."""
        while True:
            with contextlib.suppress(tensorkv.NotFoundError):
                status = self.client.describe_namespace("pytorch-example")
                steps = [each.step for each in status.workers]
                if len(steps) == 2 and min(steps) >= step:
                    return
            threading.Event().wait(0.01)

    def test_workers_and_the_server_may_end(self):
        workers = [self.start("w0"), self.start("w1")]
        self.await_step(5)
        workers[1].kill()
        workers[1] = self.start("w1")
        # Both have made steps since.
        self.await_step(STEPS // 4)
        self.server.restart()
        self.await_step(STEPS // 2)
        texts = [worker.communicate(timeout=200)[0] for worker in workers]
        self.assertEqual([worker.returncode for worker in workers], [0, 0])
        accuracies = [re.search("accuracy ([0-9.]+)", t)[1] for t in texts]
        self.assertEqual(accuracies[0], accuracies[1])
        self.assertGreater(float(accuracies[0]), 0.75)


if __name__ == "__main__":
    unittest.main()
