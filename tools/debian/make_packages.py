"""Makes Debian packages of an archive that tools/pack.py has made.

tensorkv has the command line client, tensorkv-server the server and a systemd
unit. The libraries that came along stay in /usr/lib/tensorkv, so that the
packages install on every Debian and Ubuntu with a glibc that is new enough.

Of an archive of tools/pack_sdk.py: the library and what programs are built
with, for the distribution that they were made on.
"""

import argparse
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

import man_page

HERE = pathlib.Path(__file__).parent
MAINTAINER = "TensorKV maintainers <root@localhost>"
PRIVATE = "usr/lib/tensorkv"
SUMMARY = "networked key-value store of tensors"
ABOUT = """\
 TensorKV owns the tensors of a training, sums what its workers push, applies
 update rules, and serves the values to any gRPC client."""

PROGRAMS = {
    "tensorkv": dict(
        section="net", program="tensorkv", chapter=1, depends="libc6 (>= {glibc})",
        summary="command line client of a " + SUMMARY,
        about=ABOUT + "\n .\n This package has the command line client.",
        # Debian built the libraries so, and they are on board on purpose.
        overrides=["embedded-library", "hardening-no-fortify-functions",
                   "library-not-linked-against-libc",
                   "shared-library-lacks-prerequisites"]),
    "tensorkv-server": dict(
        section="net", program="tensorkv-server", chapter=8,
        depends="libc6 (>= {glibc}), adduser, init-system-helpers (>= 1.52), "
                "tensorkv (= {version})",
        summary="server of a " + SUMMARY,
        about=ABOUT + "\n .\n This package has the server.",
        overrides=["hardening-no-fortify-functions"]),
}

# The files are patterns below the archive's folder.
SDK = {
    "libtensorkv{series}": dict(
        section="libs", files=["lib/libtensorkv.so.*"],
        depends="libc6 (>= {glibc}), {libraries}",
        summary="C++ client of a " + SUMMARY,
        about=ABOUT + "\n .\n This package has the library.",
        # The API is C++, whose symbols nobody keeps a list of.
        overrides=["no-symbols-control-file"]),
    "libtensorkv-dev": dict(
        section="libdevel",
        files=["include/**/*.h", "lib/libtensorkv.so", "lib/*/**/*.cmake",
               "lib/*/*.pc"],
        depends="libtensorkv{series} (= {version}), libabsl-dev, "
                "libprotobuf-dev",
        summary="C++ client of a %s (development files)" % SUMMARY,
        about=ABOUT + "\n .\n This package has headers, and what pkg-config and "
                      "CMake need.",
        # It is the same for all: its paths are relative.
        overrides=["pkg-config-unavailable-for-cross-compilation"]),
}

CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size_kib}
Depends: {depends}
Section: {section}
Priority: optional
Description: {summary}
{about}
"""

COPYRIGHT = """\
TensorKV {version} was packaged from its own source.
"""

COPYRIGHT_OF_LIBRARIES = """
The folder licenses beside this file has the terms of what comes along in
/usr/lib/tensorkv/lib, by the packages of Debian that it was taken from.
"""


def run(*command):
    return subprocess.run([str(word) for word in command], check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def libraries_of(program):
    """The names of the libraries in the archive that a program loads."""
    found = re.findall(r"^\s*(\S+) => (\S+)", run("ldd", program), re.M)
    folder = (program.parent.parent / "lib").resolve()
    return {name for name, path in found
            if pathlib.Path(path).resolve().parent == folder}


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)


def compressed(text):
    return gzip.compress(text.encode(), mtime=0)


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


class Package:
    """A folder that becomes a package."""

    def __init__(self, root, name, own, facts):
        self.root, self.name, self.facts = root, name, facts
        self.own = {key: value.format(**facts) if key == "depends" else value
                    for key, value in own.items()}

    def add_program(self, source, libraries):
        program = self.own["program"]
        copy(source / "bin" / program, self.root / PRIVATE / "bin" / program)
        for library in libraries:
            copy(source / "lib" / library,
                 self.root / PRIVATE / "lib" / library)
        link = self.root / "usr/bin" / program
        link.parent.mkdir(parents=True)
        link.symlink_to("../lib/tensorkv/bin/" + program)
        chapter = self.own["chapter"]
        write(self.root / ("usr/share/man/man%d/%s.%d.gz"
                           % (chapter, program, chapter)),
              compressed(man_page.of(source / "bin" / program, chapter,
                                     self.own["summary"])))

    def add_files(self, source):
        for pattern in self.own["files"]:
            for path in sorted(source.glob(pattern)):
                target = self.root / "usr" / path.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target, follow_symlinks=False)

    def add_documents(self, source):
        folder = self.root / "usr/share/doc" / self.name
        licenses = sorted((source / "licenses").glob("*"))
        write(folder / "copyright", COPYRIGHT.format(**self.facts) + (
            COPYRIGHT_OF_LIBRARIES if licenses else ""))
        write(folder / "changelog.gz", compressed(
            "{name} ({version}) stable; urgency=medium\n\n"
            "  * Package revision {revision}.\n\n"
            " -- {maintainer}  {date}\n".format(name=self.name, **self.facts)))
        write(self.root / "usr/share/lintian/overrides" / self.name,
              "".join("%s: %s\n" % (self.name, tag)
                      for tag in self.own["overrides"]))
        for license in licenses:
            copy(license, folder / "licenses" / license.name)

    def add_service(self):
        write(self.root / "usr/lib/systemd/system/tensorkv-server.service",
              (HERE / "tensorkv-server.service").read_text())
        write(self.root / "etc/tensorkv/server.conf",
              (HERE / "tensorkv-server.conf").read_text())
        write(self.root / "DEBIAN/conffiles", "/etc/tensorkv/server.conf\n")
        for script in ("postinst", "prerm", "postrm"):
            write(self.root / "DEBIAN" / script,
                  (HERE / ("tensorkv-server." + script)).read_text(), 0o755)

    def add_library(self):
        series = self.facts["series"]
        write(self.root / "DEBIAN/shlibs", "libtensorkv %s %s (>= %s)\n" % (
            series, self.name, self.facts["version"]))
        write(self.root / "DEBIAN/triggers", "activate-noawait ldconfig\n")

    def build(self, output):
        files = sorted(path for path in self.root.rglob("*")
                       if path.is_file() and not path.is_symlink()
                       and "DEBIAN" not in path.relative_to(self.root).parts)
        for path in files:
            path.chmod(0o755 if os.access(path, os.X_OK) else 0o644)
        facts = dict(self.facts, **self.own, name=self.name, size_kib=sum(
            (path.stat().st_size + 1023) // 1024 for path in files))
        write(self.root / "DEBIAN/control", CONTROL.format(**facts))
        write(self.root / "DEBIAN/md5sums", "".join(
            "%s  %s\n" % (hashlib.md5(path.read_bytes()).hexdigest(),
                          path.relative_to(self.root)) for path in files))
        for folder in [self.root, *self.root.rglob("*")]:
            if folder.is_dir():
                folder.chmod(0o755)
        file = output / "{name}_{version}_{architecture}.deb".format(**facts)
        run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", self.root,
            file)
        print("package: %s (%.1f MB)" % (file, file.stat().st_size / 1e6))


def facts_of(source, date):
    """What the archive says of itself, by its name and its README."""
    version, variant = re.fullmatch(
        r"tensorkv-(?:sdk-)?(.+?)-linux-[^-]+(?:-(\w+))?", source.name).groups()
    readme = (source / "README").read_text()
    return dict(
        version=version if variant in (None, "cpu")
        else version + "+" + variant,
        revision=(source / "REVISION").read_text().strip(),
        glibc=re.search(r"glibc (\d\S*)", readme)[1],
        architecture=run("dpkg", "--print-architecture").strip(),
        maintainer=MAINTAINER, date=date)


def facts_of_library(source):
    """The series of versions that its name has, and what it depends on."""
    library, = source.glob("lib/libtensorkv.so.*")
    readme = (source / "README").read_text()
    return dict(series=library.name.partition(".so.")[2], libraries=", ".join(
        re.search(r"apt-get install (.*) libabsl-dev", readme)[1].split()))


def make_programs(source, work, facts, output):
    packed = set()
    for name, own in PROGRAMS.items():
        package = Package(work / name, name, own, facts)
        libraries = libraries_of(source / "bin" / own["program"]) - packed
        packed |= libraries
        package.add_program(source, libraries)
        package.add_documents(source)
        if name == "tensorkv-server":
            package.add_service()
        package.build(output)


def make_sdk(source, work, facts, output):
    for pattern, own in SDK.items():
        name = pattern.format(**facts)
        package = Package(work / name, name, own, facts)
        package.add_files(source)
        package.add_documents(source)
        if own["section"] == "libs":
            package.add_library()
        package.build(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archive", required=True, type=pathlib.Path)
    parser.add_argument("--output_folder", required=True, type=pathlib.Path)
    parser.add_argument("--date", required=True,
                        help="of the changelog, as RFC 5322 has it")
    options = parser.parse_args()
    options.output_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        with tarfile.open(options.archive) as archive:
            archive.extractall(work)
        source, = pathlib.Path(work).iterdir()
        facts = facts_of(source, options.date)
        root = pathlib.Path(work, "root")
        if (source / "include").exists():
            facts.update(facts_of_library(source))
            make_sdk(source, root, facts, options.output_folder)
        else:
            make_programs(source, root, facts, options.output_folder)


if __name__ == "__main__":
    main()
