"""What type checkers say of programs, and of the package itself."""

import ast
import importlib.util
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import tensorkv
from tensorkv import _core

FOLDER = pathlib.Path(__file__).parent / "types"
PROGRAMS = sorted(FOLDER.glob("*.py"))
PACKAGE = pathlib.Path(inspect.getfile(_core)).parent

# Where tools/setup puts pyright, with the Node.js that it runs in.
PYRIGHT = os.environ.get("TENSORKV_PYRIGHT", "/usr/local/lib/tensorkv-pyright")


def vars_of(cls):
    """What a class has, its bases included."""
    return {name: getattr(cls, name) for name in dir(cls)}


def names_of(arguments):
    """The names of a function's arguments, as its source has them."""
    several = [arguments.vararg, arguments.kwarg]
    return {
        each.arg
        for each in arguments.args + arguments.kwonlyargs + several
        if each is not None
    }


class TypesTest(unittest.TestCase):

    def run_checker(self, *command, **variables):
        # What a sanitizer has Python load is not for the checkers.
        preloaded = dict(variables, LD_PRELOAD="", PYTHONPATH=PYRIGHT)
        return subprocess.run(
            [sys.executable, "-m", *command],
            env={**os.environ, **preloaded},
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    def assert_finds_mistakes(self, found, output):
        """Whether these are the lines that end with an E, and no others."""
        expected = {
            (path.name, number)
            for path in PROGRAMS
            for number, line in enumerate(
                path.read_text().splitlines(), start=1
            )
            if line.endswith("# E")
        }
        self.assertGreater(len(expected), 10)
        self.assertEqual(set(found), expected, output)

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "there is no mypy")
    def test_mypy_finds_mistakes_of_programs_and_none_of_the_package(self):
        with tempfile.TemporaryDirectory() as cache:
            said = self.run_checker(
                *("mypy", f"--cache-dir={cache}"),
                f"--config-file={FOLDER}/mypy.ini",
                *(*PROGRAMS, PACKAGE),
                MYPYPATH=f"{PACKAGE.parent}:{FOLDER}/stubs",
            )
        errors = re.findall(r"([\w/.]+):(\d+): error:", said)
        found = [(pathlib.Path(path).name, int(line)) for path, line in errors]
        self.assert_finds_mistakes(found, said)

    @unittest.skipUnless(os.path.isdir(PYRIGHT), "there is no pyright")
    def test_pyright_finds_mistakes_of_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            # It takes no folder that is not below that of its configuration.
            for name, path in {"types": FOLDER, "python": PACKAGE.parent}.items():
                os.symlink(path.resolve(), f"{folder}/{name}")
            config = pathlib.Path(folder, "pyrightconfig.json")
            config.write_text(
                json.dumps(
                    {
                        "include": ["types"],
                        "extraPaths": ["python"],
                        "stubPath": "types/stubs",
                    }
                )
            )
            said = self.run_checker(
                *("pyright", f"--project={folder}", "--outputjson"),
                *("--pythonpath", sys.executable),
            )
        found = [
            (
                pathlib.Path(each["file"]).name,
                each["range"]["start"]["line"] + 1,
            )
            for each in json.loads(said)["generalDiagnostics"]
            if each["severity"] == "error"
        ]
        self.assert_finds_mistakes(found, said)

    def test_the_stub_of_coroutines_has_the_verbs_and_their_arguments(self):
        stub = ast.parse((PACKAGE / "aio.pyi").read_text())
        classes = {
            "ClientCoroutines": tensorkv.Client,
            "KVStoreCoroutines": tensorkv.KVStore,
        }
        said = {each.name: each for each in stub.body if hasattr(each, "name")}
        for name, cls in classes.items():
            verbs = {
                verb: method
                for verb, method in vars_of(cls).items()
                if not verb.startswith("_") and inspect.isfunction(method)
            }
            arguments = {}
            for each in said[name].body:
                if isinstance(each, ast.AsyncFunctionDef):
                    has = arguments.setdefault(each.name, set())
                    has.update(names_of(each.args))
                elif isinstance(each, ast.Assign):
                    arguments[each.targets[0].id] = None
            self.assertEqual(set(arguments) ^ set(verbs), set(), name)
            for verb, has in arguments.items():
                if has is not None:
                    takes = set(inspect.signature(verbs[verb]).parameters)
                    self.assertEqual(has, takes, f"{name}.{verb}")

    def test_the_stub_of_the_extension_has_what_that_has(self):
        stub = ast.parse((PACKAGE / "_core.pyi").read_text())
        for cls in stub.body:
            if not isinstance(cls, ast.ClassDef):
                continue
            found = vars(getattr(_core, cls.name))
            said = {
                each.name: len(each.args.args + each.args.posonlyargs)
                for each in cls.body
            }
            self.assertEqual(
                {name for name in said if not name.startswith("_")},
                {name for name in found if not name.startswith("_")},
            )
            for name, count in said.items():
                signature = re.match(
                    rf"{name}\((.*)\) -> ", found[name].__doc__ or ""
                )
                if signature and not name.startswith("_"):
                    arguments = re.findall(r"\b(?:self|arg\d+):", signature[1])
                    self.assertEqual(len(arguments), count, name)


if __name__ == "__main__":
    unittest.main()
