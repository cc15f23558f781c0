"""Packs programs and the libraries they need into one relocatable archive.

What the system brings everywhere, glibc, is left out; every other library
comes along, with its licence, and is found relative to the program. Ends with
status 1 if a library is missing or needs a newer glibc than MAX_GLIBC.

Layout of the archive, below one folder with its name:
  bin/       the programs
  lib/       the libraries
  licenses/  a file for each package that a library comes from
  tests/     tests and benchmarks by their paths, if there are any; run-tests
             and run-bench at the top start them
"""

import argparse
import gzip
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

# Debian 12's. What needs more would not start there.
MAX_GLIBC = (2, 36)

GLIBC = re.compile(
    r"(ld-linux-|linux-vdso|lib(c|m|dl|pthread|rt|resolv|util)\.so)")

README = """\
{name}

  bin/tensorkv-server --help
  bin/tensorkv --help

Needs Linux with glibc {glibc} or newer and nothing else. The folder may be
moved; lib/ must stay beside bin/. licenses/ names the libraries' terms.
"""

RUN_TESTS = """\
#!/bin/bash
# Runs the tests of this package, or those whose names contain one of the
# arguments. What needs hardware that is missing is skipped, with its reason.
# The last line says how many programs passed; the exit status is 1 unless all.
cd "$(dirname "$0")/tests" || exit 1
passed=0 failed=()
while read -r test; do
  if (($#)); then
    for word in "$@"; do [[ $test == *"$word"* ]] && break; done
    [[ $test == *"$word"* ]] || continue
  fi
  echo "== $test"
  if "./$test" --gtest_brief=1; then ((++passed)); else failed+=("$test"); fi
done <tests.txt
for test in "${failed[@]}"; do echo "FAILED $test"; done
echo "$passed of $((passed + ${#failed[@]})) test programs passed"
((${#failed[@]} == 0))
"""

RUN_BENCH = """\
#!/bin/bash
# Measures the data path: see bench/data_path/data_path_benchmark --help for
# the arguments. Redis and memcached are measured too where they are installed.
root=$(cd "$(dirname "$0")" && pwd) || exit 1
bench=$root/tests/bench/data_path
exec "$bench/data_path_benchmark" --server="$root/bin/tensorkv-server" \\
  --reference_server="$bench/reference_server" --command="run-bench $*" "$@"
"""


def run(*command):
    return subprocess.run(
        [str(word) for word in command],
        check=True, capture_output=True, text=True).stdout


def needed_libraries(program):
    """The libraries outside glibc that the loader finds: name -> path."""
    found = {}
    for line in run("ldd", program).splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        name = name.split()[0]
        if GLIBC.match(pathlib.Path(name).name):
            continue
        if not arrow or rest.startswith("not found"):
            sys.exit("pack: error: %s needs %s, which is missing"
                     % (program, name))
        found[name] = pathlib.Path(rest.split()[0])
    return found


def newest_glibc(path):
    """The version of glibc that the file needs, as a pair."""
    versions = re.findall(r"\(?GLIBC_(\d+)\.(\d+)", run("objdump", "-T", path))
    return max(((int(a), int(b)) for a, b in versions), default=(0, 0))


def copy_license(library, folder):
    # The same file may be owned under the name that a merged /usr replaced.
    for path in (library, pathlib.Path("/usr" + str(library)),
                 library.resolve()):
        owner = subprocess.run(["dpkg", "-S", str(path)],
                               capture_output=True, text=True)
        if owner.returncode == 0:
            package = owner.stdout.split(":")[0]
            terms = pathlib.Path("/usr/share/doc", package, "copyright")
            shutil.copyfile(terms, folder / package)
            return
    sys.exit("pack: error: %s belongs to no package: which licence?" % library)


class Stage:
    """The folder that becomes the archive."""

    def __init__(self, root):
        self.root = root
        self.libraries = {}
        for name in ("bin", "lib", "licenses"):
            (root / name).mkdir(parents=True)

    def add_program(self, source, path):
        """Adds a program at `path` below the root."""
        self.libraries.update(needed_libraries(source))
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o755)
        run("strip", target)
        to_root = "/".join([".."] * (len(pathlib.Path(path).parts) - 1))
        # An RPATH, unlike a RUNPATH, also serves what the libraries need.
        run("patchelf", "--force-rpath", "--set-rpath",
            "$ORIGIN/%s/lib" % to_root, target)
        self.check_glibc(target)

    def add_libraries(self):
        for name, source in sorted(self.libraries.items()):
            target = self.root / "lib" / name
            shutil.copyfile(source.resolve(), target)
            run("strip", "--strip-unneeded", target)
            self.check_glibc(target)
            copy_license(source, self.root / "licenses")

    def check_glibc(self, path):
        if newest_glibc(path) > MAX_GLIBC:
            sys.exit("pack: error: %s needs glibc %d.%d, expected at most %d.%d"
                     % ((path.name,) + newest_glibc(path) + MAX_GLIBC))

    def check_relocation(self, path):
        """Whether the program finds its libraries in the archive."""
        for name, found in needed_libraries(self.root / path).items():
            if self.root.resolve() not in found.resolve().parents:
                sys.exit("pack: error: %s would take %s from %s"
                         % (path, name, found))

    def write(self, path, text, mode=0o644):
        target = self.root / path
        target.write_text(text)
        target.chmod(mode)


def archive(root, output):
    """The same content gives the same bytes."""
    def neutral(info):
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = "root"
        return info

    with open(output, "wb") as file, gzip.GzipFile(
            filename="", fileobj=file, mode="wb", mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for path in [root] + sorted(root.rglob("*")):
                tar.add(path, path.relative_to(root.parent), recursive=False,
                        filter=neutral)


def add_tests(stage, outputs_root, tests, benchmarks):
    for path in tests + benchmarks:
        stage.add_program(outputs_root / path, "tests/" + path)
    # Where tests look for it.
    server = stage.root / "tests/service/tensorkv-server"
    server.parent.mkdir(parents=True, exist_ok=True)
    server.symlink_to("../../bin/tensorkv-server")
    stage.write("tests/tests.txt", "".join(path + "\n" for path in tests))
    stage.write("run-tests", RUN_TESTS, 0o755)
    stage.write("run-bench", RUN_BENCH, 0o755)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--program", action="append", required=True,
                        type=pathlib.Path)
    parser.add_argument("--outputs_root", type=pathlib.Path,
                        help="what --test and --benchmark are below")
    parser.add_argument("--test", action="append", default=[])
    parser.add_argument("--benchmark", action="append", default=[])
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as work:
        stage = Stage(pathlib.Path(work, options.name))
        for program in options.program:
            stage.add_program(program, "bin/" + program.name)
        if options.test:
            add_tests(stage, options.outputs_root, options.test,
                      options.benchmark)
        stage.add_libraries()
        for program in options.program:
            stage.check_relocation("bin/" + program.name)
        for path in options.test + options.benchmark:
            stage.check_relocation("tests/" + path)
        stage.write("README", README.format(
            name=options.name, glibc="%d.%d" % MAX_GLIBC))
        archive(stage.root, options.output)
    print("package: %s (%.1f MB, %d libraries)" % (
        options.output, options.output.stat().st_size / 1e6,
        len(stage.libraries)))


if __name__ == "__main__":
    main()
