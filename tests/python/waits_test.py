"""What a worker that waits says."""

import logging
import os
import sys
import threading
import unittest

import tensorkv
from tensorkv._waits import WaitLog, whom
from tensorkv.dist_kvstore import silent_of

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest, full


def worker(rank, step, live=True, left=False, lease_remaining=9.0):
    return tensorkv.WorkerStatus(
        name=f"w{rank}",
        rank=rank,
        epoch=1,
        live=live,
        lease_remaining=lease_remaining if live else 0.0,
        left=left,
        step=step,
    )


class Warnings(logging.Handler):
    """Says when there is one."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.text = None
        self.came = threading.Event()

    def emit(self, record):
        self.text = record.getMessage()
        self.came.set()


class WhomTest(unittest.TestCase):

    def test_names_those_who_are_behind(self):
        members = [
            worker(0, 7),
            worker(1, 6),
            worker(2, 7, live=False),
            worker(3, 7, live=False, left=True),
        ]
        self.assertEqual(
            whom(members, 5, 0, 7),
            "rank 1 (w1, at step 6), rank 2 (w2, lost at step 7), "
            "rank 3 (w3, left at step 7), rank 4, which has not joined",
        )

    def test_a_barrier_needs_all_others(self):
        members = [worker(0, 7), worker(1, 9)]
        self.assertEqual(whom(members, 0, 1, 0), "rank 0 (w0, at step 7)")

    def test_where_nobody_is_behind_it_is_the_server(self):
        self.assertEqual(whom([worker(0, 7)], 1, 0, 7), "the server")


class SilentTest(unittest.TestCase):

    def test_who_joins_waits_for_the_place_of_one_that_may_be_lost(self):
        members = [
            worker(0, 7),
            worker(1, 7, lease_remaining=1.0),
            # Its lease has ended since the place was refused.
            worker(2, 7, live=False),
            worker(3, 7, live=False, left=True),
        ]
        self.assertEqual(
            silent_of(members, lease=10),
            {"rank 1 (w1)": 1.0, "rank 2 (w2)": 0.0},
        )


class WaitLogTest(StoreTest):

    def setUp(self):
        self.warnings = Warnings()
        log = logging.getLogger("tensorkv")
        log.addHandler(self.warnings)
        self.addCleanup(log.removeHandler, self.warnings)

    def test_a_call_that_waits_says_for_whom(self):
        kv = self.open("dist_sync", num_workers=2, warn_after=0.05)
        kv.init("w", full(0))

        def wait():
            with self.assertRaises(tensorkv.ClosedError):
                kv.push_pull("w", full(1))

        waiting = threading.Thread(target=wait)
        waiting.start()
        self.assertTrue(self.warnings.came.wait(60))
        kv.close()
        waiting.join()
        self.assertRegex(
            self.warnings.text,
            "^push_pull of step 1 has waited .* for rank 1, which has not join",
        )

    def test_a_server_that_does_not_answer_is_named(self):
        def describe():
            raise tensorkv.UnavailableError("no answer")

        waits = WaitLog(0, describe, 0.05)
        self.addCleanup(waits.close)
        with waits.watch("pull after step 3", 3):
            self.assertTrue(self.warnings.came.wait(60))
        self.assertRegex(
            self.warnings.text, "^pull after step 3 .* the server .no answer.$"
        )


if __name__ == "__main__":
    unittest.main()
