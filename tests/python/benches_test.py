"""The programs that measure weights and their readers, with little of each."""

import re
import subprocess
import sys
import unittest


def lines_of(program, *arguments):
    """What a program of bench/weights prints."""
    ran = subprocess.run(
        [
            *(sys.executable, f"bench/weights/{program}.py", "--ours=python"),
            *("--server=service/tensorkv-server", *arguments),
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    return ran.stdout.splitlines()


class BenchesTest(unittest.TestCase):

    def test_readers_of_each_system_that_is_installed_have_the_values(self):
        lines = lines_of(
            "readers", "--only=ours,gloo,safetensors,ray", "--turns=1",
            "--megabytes=1", "--readers=2",
        )

        found = [
            re.match(r"(ours, changes|ours|gloo|safetensors) +\d+\.\d\d ", line)
            for line in lines
        ]
        self.assertEqual(
            [each[1] for each in found if each],
            [
                *("ours, changes", "ours", "gloo", "safetensors"),
                *("ours", "gloo", "safetensors"),
            ],
        )
        self.assertEqual(
            [line for line in lines if "not run" in line],
            ["ray: not run: --ray was not given"],
        )

    def test_deltas_are_fewer_bytes_and_right(self):
        lines = lines_of(
            "deltas", "--turns=1", "--megabytes=4", "--trained_megabytes=0.2",
            "--later=2", "--fleet=4", "--bases=2",
        )

        rows = [line.split() for line in lines]
        shares = {
            (row[0], float(row[1])): float(row[3])
            for row in rows
            if row and row[0] in ("normal", "trained")
        }
        self.assertEqual(len(shares), 6)
        self.assertLess(shares["normal", 1e-6], 10)
        self.assertLess(shares["normal", 1e-6], shares["normal", 1e-5])
        self.assertRegex(lines[-1], "4 readers at 2 states.*the right one")

    def test_writers_are_measured_while_watches_are_told(self):
        lines = lines_of(
            "writers", "--turns=2", "--pushes=100", "--snapshots=20",
            "--watchers=8", "--interval=0.01",
        )

        told = [int(line.rpartition("; ")[2].split()[0]) for line in lines]
        self.assertEqual(told[:2], [0, 0])
        self.assertGreater(told[2], 0)


if __name__ == "__main__":
    unittest.main()
