"""What a type checker says of programs."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = pathlib.Path(__file__).parent / "types"


@unittest.skipUnless(importlib.util.find_spec("mypy"), "there is no mypy")
class TypesTest(unittest.TestCase):

    def test_mistakes_are_found_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as cache:
            checked = subprocess.run(
                [
                    *(sys.executable, "-m", "mypy", f"--cache-dir={cache}"),
                    f"--config-file={PROGRAMS}/mypy.ini",
                    *PROGRAMS.glob("*.py"),
                ],
                env={**os.environ, "MYPYPATH": f"python:{PROGRAMS}/stubs"},
                stdout=subprocess.PIPE,
                text=True,
            )
        found = re.findall(r"(\w+\.py):(\d+): error:", checked.stdout)
        expected = {
            (path.name, str(number))
            for path in PROGRAMS.glob("*.py")
            for number, line in enumerate(
                path.read_text().splitlines(), start=1
            )
            if line.endswith("# E")
        }
        self.assertGreater(len(expected), 10)
        self.assertEqual(set(found), expected, checked.stdout)


if __name__ == "__main__":
    unittest.main()
