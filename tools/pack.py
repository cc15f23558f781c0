"""Packs programs and the libraries they need into one relocatable archive.

What the system brings everywhere, glibc, is left out; every other library
comes along, with its licence, and is found relative to the program. Ends with
status 1 if a library is missing, if something needs a newer glibc than
MAX_GLIBC, or if the archive is larger than MAX_BYTES.

Layout of the archive, below one folder with its name:
  README, REVISION
  bin/       the programs
  lib/       the libraries
  licenses/  a file for each package that comes along
  tests/     tests, benchmarks and what they start, by their paths in the build;
             tests.txt and benchmarks.txt list them for run-tests and run-bench
             at the top
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Debian 12's. What needs more would not start there.
MAX_GLIBC = (2, 36)
# So that it can be sent wherever it is needed.
MAX_BYTES = 60_000_000

SCRIPTS = pathlib.Path(__file__).parent / "packaged"

GLIBC = re.compile(
    r"(ld-linux-|linux-vdso|lib(c|m|dl|pthread|rt|resolv|util)\.so)")

README = """\
{name}

  bin/tensorkv-server --help
  bin/tensorkv --help

Needs Linux with glibc {glibc} or newer and {needs}.
The folder may be moved. licenses/ has the terms of what comes along.
"""

TESTS_README = """
  run-tests    tests this machine: run-tests --help
  run-bench    measures it: run-bench --help
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


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def packages_of(libraries):
    """The packages that the files belong to."""
    # A file may be owned under the name that a merged /usr replaced.
    names = {library: {str(library), "/usr" + str(library),
                       str(library.resolve())} for library in libraries}
    # Ends with status 1 for those of the names that nobody owns.
    listed = subprocess.run(["dpkg", "-S"] + sorted(set().union(
        *names.values())), capture_output=True, text=True).stdout
    owners = {}
    for line in listed.splitlines():
        owner, _, path = line.rpartition(": ")
        owners[path] = owner.split(":")[0]
    packages = set()
    for library in libraries:
        found = [owners[name] for name in names[library] if name in owners]
        if not found:
            sys.exit("pack: error: %s belongs to no package: which licence?"
                     % library)
        packages.add(found[0])
    return packages


class Stage:
    """The folder that becomes the archive."""

    def __init__(self, root):
        self.root = root
        self.programs = set()
        self.libraries = {}

    def add_program(self, source, path):
        """Adds a program at `path` below the root."""
        self.programs.add(path)
        self.libraries.update(needed_libraries(source))
        target = self.add_file(source, path)
        run("strip", target)
        # An RPATH, unlike a RUNPATH, also serves what the libraries need.
        run("patchelf", "--force-rpath", "--set-rpath",
            "$ORIGIN/%slib" % self.up_from(path), target)
        self.check_glibc(target)

    def add_libraries(self):
        for name, source in sorted(self.libraries.items()):
            target = self.add_file(source, "lib/" + name)
            run("strip", "--strip-unneeded", target)
            self.check_glibc(target)
        for package in packages_of(self.libraries.values()):
            self.add_license(package)

    def check_glibc(self, path):
        if newest_glibc(path) > MAX_GLIBC:
            sys.exit("pack: error: %s needs glibc %d.%d, expected at most %d.%d"
                     % ((path.name,) + newest_glibc(path) + MAX_GLIBC))

    def check_relocation(self):
        """Whether the programs find their libraries in the archive."""
        for path in sorted(self.programs):
            for name, found in needed_libraries(self.root / path).items():
                if self.root.resolve() not in found.resolve().parents:
                    sys.exit("pack: error: %s would take %s from %s"
                             % (path, name, found))

    def add_license(self, package):
        self.add_file(pathlib.Path("/usr/share/doc", package, "copyright"),
                      "licenses/" + package)

    def add_file(self, source, path):
        target = self.at(path)
        shutil.copyfile(source, target)
        target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
        return target

    def write(self, path, text):
        target = self.at(path)
        target.write_text(text)
        target.chmod(0o644)

    def link(self, path, to):
        """Makes `path` a link to `to`, both below the root."""
        self.at(path).symlink_to(self.up_from(path) + to)

    def at(self, path):
        """The place of a new file."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    @staticmethod
    def up_from(path):
        return "../" * path.count("/")


def archive(root, output):
    """The same content gives the same bytes."""
    run("tar", "--create", "--file", output, "--use-compress-program=gzip -n",
        "--sort=name", "--mtime=@0", "--owner=root:0", "--group=root:0",
        "--directory", root.parent, root.name)


def add_tests(stage, options):
    """Adds what is below tests/, where it would be in the build."""
    tests = [test.split(":") for test in options.test]
    below = [path for _, path in tests] + options.benchmark + sorted(
        set(options.data))
    for path in below:
        if path in options.program:
            stage.link("tests/" + path, "bin/" + pathlib.Path(path).name)
        elif is_elf(options.outputs_root / path):
            stage.add_program(options.outputs_root / path, "tests/" + path)
        else:
            stage.add_file(options.outputs_root / path, "tests/" + path)
    stage.write("tests/tests.txt",
                "".join("%s %s\n" % (kind, path) for kind, path in tests))
    stage.write("tests/benchmarks.txt",
                "".join(path + "\n" for path in options.benchmark))
    for script in ("run-tests", "run-bench"):
        stage.add_file(SCRIPTS / script, script)


def add_licenses(stage, options):
    for package in options.license:
        stage.add_license(package)
    for pair in options.license_file:
        name, _, path = pair.partition("=")
        stage.add_file(pathlib.Path(path), "licenses/" + name)


def write_texts(stage, options):
    text = README.format(name=options.name, glibc="%d.%d" % MAX_GLIBC,
                         needs=options.needs)
    stage.write("README", text + (TESTS_README if options.test else ""))
    stage.write("REVISION", options.revision + "\n")


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--revision", default="unknown")
    parser.add_argument("--needs", default="nothing else",
                        help="what the README says besides glibc")
    parser.add_argument("--outputs_root", required=True, type=pathlib.Path,
                        help="what all PATHs are below")
    repeated = dict(action="append", default=[])
    parser.add_argument("--program", metavar="PATH", **repeated)
    parser.add_argument("--test", metavar="KIND:PATH", **repeated,
                        help="KIND is host, device or gpu: see run-tests")
    parser.add_argument("--benchmark", metavar="PATH", **repeated)
    parser.add_argument("--data", metavar="PATH", **repeated,
                        help="what tests and benchmarks start or read")
    parser.add_argument("--license", metavar="PACKAGE", **repeated,
                        help="of which only headers are used")
    parser.add_argument("--license_file", metavar="NAME=FILE", **repeated)
    return parser.parse_args()


def main():
    options = parse_options()
    with tempfile.TemporaryDirectory() as work:
        stage = Stage(pathlib.Path(work, options.name))
        for path in options.program:
            stage.add_program(options.outputs_root / path,
                              "bin/" + pathlib.Path(path).name)
        if options.test:
            add_tests(stage, options)
        stage.add_libraries()
        stage.check_relocation()
        add_licenses(stage, options)
        write_texts(stage, options)
        unchecked = pathlib.Path(work, "archive")
        archive(stage.root, unchecked)
        size = unchecked.stat().st_size
        if size > MAX_BYTES:
            sys.exit("pack: error: %d bytes, expected at most %d"
                     % (size, MAX_BYTES))
        shutil.move(unchecked, options.output)
    print("package: %s (%.1f MB, %d libraries)" % (
        options.output, size / 1e6, len(stage.libraries)))


if __name__ == "__main__":
    main()
