"""What trainings did: tensorkv.History."""

import contextlib
import csv
import io
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest, full, new_namespace

try:
    import matplotlib
except ImportError:
    matplotlib = None
try:
    import tqdm
except ImportError:
    tqdm = None


class HistoryTest(StoreTest):

    def make_history(self):
        store = self.open("local")
        history = tensorkv.History(store)
        for loss in (0.5, 0.25):
            history.record(loss)
        history.record(np.float32(0.125), step=7)
        return history

    def test_records_are_in_order(self):
        record = self.make_history().as_dict()
        self.assertEqual(record["step"], [1, 2, 7])
        self.assertEqual(record["loss"], [0.5, 0.25, 0.125])
        self.assertEqual(record["seconds"], sorted(record["seconds"]))
        self.assertEqual(record["lag"], [0, 0, 0])

    def test_bytes_are_those_since_the_record_before(self):
        client = self.open_client(namespace=new_namespace())
        client.create_namespace(client.namespace)
        history = tensorkv.History(client)
        client.init("w", full(1))
        history.record(1)
        client.push("w", full(1))
        client.pull("w")
        history.record(1)
        history.record(1)
        record = history.as_dict()
        self.assertEqual(record["bytes_sent"], [24, 24, 0])
        self.assertEqual(record["bytes_received"], [0, 24, 0])

    def test_lag_is_how_far_the_last_worker_is_behind_the_first(self):
        name = new_namespace()
        first, last = (self.open_client(namespace=name) for _ in range(2))
        first.create_namespace(name, mode="bounded", num_workers=2, staleness=3)
        first.init("w", full(0))
        for i, client in enumerate((first, last)):
            client.join(f"worker-{i}")
        for step in (1, 2):
            first.push("w", full(1), step=step)
        last.push("w", full(1), step=1)
        history = tensorkv.History(last)
        history.record(1)
        last.push("w", full(1), step=2)
        history.record(1)
        self.assertEqual(history.as_dict()["lag"], [1, 0])

    def test_json_has_null_for_losses_that_are_no_numbers(self):
        history = self.make_history()
        history.record(float("nan"))
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "history.json")
            history.save(path)
            with open(path) as file:
                text = file.read()
        self.assertNotIn("NaN", text)
        self.assertIsNone(json.loads(text)["loss"][-1])

    def test_files_have_what_the_dict_has(self):
        history = self.make_history()
        with tempfile.TemporaryDirectory() as directory:
            as_json = os.path.join(directory, "history.json")
            history.save(as_json)
            with open(as_json) as file:
                self.assertEqual(json.load(file), history.as_dict())
            as_csv = os.path.join(directory, "history.csv")
            history.save(as_csv)
            with open(as_csv, newline="") as file:
                head, *rows = csv.reader(file)
            self.assertEqual(head, list(history.as_dict()))
            columns = [list(map(float, column)) for column in zip(*rows)]
            self.assertEqual(columns, list(history.as_dict().values()))
            with self.assertRaisesRegex(ValueError, "expected .csv or .json"):
                history.save(os.path.join(directory, "history"))
            self.assertEqual(len(os.listdir(directory)), 2)

    def progress_of(self, work):
        """What work() writes to standard error."""
        with contextlib.redirect_stderr(io.StringIO()) as text:
            work()
        return text.getvalue()

    def train_with_progress(self):
        history = tensorkv.History(
            self.open("local"), progress=True, num_steps=4
        )
        history.record(0.5)
        history.record(0.25, step=3)
        history.close()
        history.record(0.125)
        self.assertEqual(history.as_dict()["step"], [1, 3, 4])

    def save_with_progress(self):
        kv = self.open("local")
        kv.set_optimizer("adam")
        kv.init(["a", "b"], [full(0), full(1)])
        with tempfile.TemporaryDirectory() as folder:
            kv.save_optimizer_states(f"{folder}/states", progress=True)
            kv.load_optimizer_states(f"{folder}/states", progress=True)

    @unittest.skipUnless(tqdm, "tqdm is not installed")
    def test_progress_is_a_bar_of_tqdm(self):
        text = self.progress_of(self.train_with_progress)
        self.assertIn("3/4", text)
        self.assertIn("loss=0.25", text)
        text = self.progress_of(self.save_with_progress)
        self.assertIn("saving: 100%", text)
        self.assertIn("loading: 100%", text)

    def test_without_tqdm_there_is_no_bar(self):
        with mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}):
            for work in (self.train_with_progress, self.save_with_progress):
                self.assertEqual(self.progress_of(work), "")

    def test_a_plot_is_a_figure_of_matplotlib(self):
        history = self.make_history()
        if matplotlib is None:
            with self.assertRaises(ImportError):
                history.plot()
            return
        lines = history.plot().axes[0].get_lines()
        np.testing.assert_array_equal(lines[0].get_xdata(), [1, 2, 7])


if __name__ == "__main__":
    unittest.main()
