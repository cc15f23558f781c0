"""What the documentation says: its transcripts are run as they stand."""

import ast
import doctest
import os
import pathlib
import re
import unittest

import tensorkv.kvstore


class TranscriptsTest(unittest.TestCase):

    def run_page(self, page):
        failed, attempted = doctest.testfile(
            os.path.abspath(page), module_relative=False
        )
        self.assertEqual(failed, 0)
        self.assertGreater(attempted, 10)

    def test_kvstore_page_on_a_store_in_this_process(self):
        self.run_page("python/kvstore.md")

    def test_tests_that_the_kvstore_page_names_are_there(self):
        named = set(
            re.findall(
                r"`(test_\w+)`", pathlib.Path("python/kvstore.md").read_text()
            )
        )
        tests = pathlib.Path(__file__).parent.glob("*_test.py")
        defined = set(
            re.findall(
                r"def (test_\w+)\(",
                "".join(path.read_text() for path in tests),
            )
        )
        self.assertGreater(len(named), 30)
        self.assertEqual(named - defined, set())

    def test_readme(self):
        self.run_page("python/README.md")

    def test_docstrings(self):
        self.assertEqual(doctest.testmod(tensorkv.kvstore).failed, 0)

    def test_docstrings_name_no_file_that_a_wheel_lacks(self):
        for path in pathlib.Path("python/tensorkv").rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                    self.assertNotRegex(
                        ast.get_docstring(node) or "",
                        r"\b(client|contract|docs|proto|service)/|\.(md|h)\b",
                    )


if __name__ == "__main__":
    unittest.main()
