"""Summaries and pictures of namespaces."""

import io
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import tensorkv
from stores import ADDRESS, StoreTest, new_namespace

_SVG = "{http://www.w3.org/2000/svg}"


def summary_of(store):
    file = io.StringIO()
    tensorkv.print_summary(store, file)
    return file.getvalue().splitlines()


def run_command(*arguments):
    """What `python -m tensorkv` prints."""
    return subprocess.run(
        [sys.executable, "-m", "tensorkv", *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


class PicturesTest(StoreTest):
    def make_model(self):
        name = new_namespace()
        self.open_client().create_namespace(name)
        client = self.open_client(namespace=name)
        client.set_rule("sgd", learning_rate=0.1, momentum=0.9)
        client.init(
            ["fc.w", "fc.b", "head", "fc.act/scale"],
            [
                np.ones((256, 4), np.float32),
                np.ones(4, np.float32),
                np.ones((2, 3), np.float64),
                np.ones((), np.float32),
            ],
        )
        client.push("fc.w", np.ones((256, 4), np.float32))
        return client

    def test_a_summary_has_a_line_per_key_and_group(self):
        lines = summary_of(self.make_model())
        cells = [line.split() for line in lines]
        self.assertEqual(
            [line[0] for line in cells[3:]],
            ["fc.", "act/", "scale", "b", "w", "head"],
        )
        self.assertIn("scalar", cells[5])
        self.assertEqual(
            cells[7][1:7], ["256x4", "f32", "4", "KiB", "4", "KiB"]
        )
        self.assertEqual(cells[7][7:], ["2", "sgd"])
        self.assertEqual(cells[8][1:3], ["2x3", "f64"])
        self.assertEqual(cells[3][1:3], ["3", "keys"])

    def test_the_flow_says_who_works_how(self):
        name = new_namespace()
        client = self.open_client()
        client.create_namespace(
            name, mode="sync", num_workers=2, aggregation="median"
        )
        worker = self.open_client(namespace=name)
        worker.join("first")
        flow = summary_of(self.open_client(namespace=name))[0]
        for part in (
            "1 of 2 workers",
            "first: rank 0, step ",
            "sync rounds, median",
            "0 open, 0 closed, 0 failed",
            "assign",
            "0 keys",
        ):
            self.assertIn(part, flow)

    def test_a_store_in_the_process_has_a_summary(self):
        store = self.open("local")
        store.init(3, np.ones(2, np.float32))
        lines = summary_of(store)
        self.assertTrue(lines[-1].startswith("3 "), lines[-1])

    def test_a_picture_has_all_that_the_summary_has(self):
        client = self.make_model()
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "store.svg")
            svg = tensorkv.plot_store(client, path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), svg)
        root = ElementTree.fromstring(svg)
        texts = {element.text for element in root.iter(_SVG + "text")}
        for line in summary_of(client)[3:]:
            self.assertIn(line.split()[0], {text.strip() for text in texts})
        self.assertIn("4 keys", texts)

    def test_the_command_shows_the_same(self):
        client = self.make_model()
        place = ["--server", ADDRESS, "--namespace", client.namespace]
        self.assertEqual(
            run_command("summary", *place).splitlines(), summary_of(client)
        )
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "store.svg")
            self.assertEqual(run_command("plot", *place, "-o", path), "")
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), tensorkv.plot_store(client))
        with mock.patch.dict(os.environ, TENSORKV_SERVER=ADDRESS):
            self.assertEqual(
                run_command("plot", *place[2:]),
                tensorkv.plot_store(client) + "\n",
            )

    def test_the_command_says_what_is_wrong(self):
        command = [sys.executable, "-m", "tensorkv", "summary"]
        place = ["--server", ADDRESS, "--namespace", new_namespace()]
        ended = subprocess.run(
            command + place, capture_output=True, text=True
        )
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stderr, "^tensorkv: DescribeNamespace.*\n$")
        self.assertEqual(ended.stdout, "")

    def test_names_that_are_markup_stay_names(self):
        client = self.open_client(namespace=self.make_model().namespace)
        name = '<script>"&\uffffé'
        client.init(name, np.ones(1, np.float32))
        root = ElementTree.fromstring(tensorkv.plot_store(client))
        self.assertEqual(list(root.iter(_SVG + "script")), [])
        self.assertIn(
            name.replace("\uffff", "\ufffd"),
            [element.text for element in root.iter(_SVG + "text")],
        )

    def test_a_key_may_have_the_name_of_a_group(self):
        client = self.make_model()
        client.init(["fc.", "fc"], [np.ones(1, np.float32)] * 2)
        names = [line.split()[0] for line in summary_of(client)[3:]]
        self.assertEqual(names.count("fc."), 1)
        self.assertEqual(names.count("fc"), 1)
        self.assertIn("(empty)", names)


if __name__ == "__main__":
    unittest.main()
