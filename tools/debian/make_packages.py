"""Makes Debian packages of an archive that tools/pack.py has made.

tensorkv has the command line client, tensorkv-server the server and a systemd
unit. The libraries that came along stay in /usr/lib/tensorkv, so that the
packages install on every Debian and Ubuntu with a glibc that is new enough.
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

PACKAGES = {
    "tensorkv": dict(
        program="tensorkv", section=1, depends="libc6 (>= {glibc})",
        summary="command line client of a " + SUMMARY,
        about=ABOUT + "\n .\n This package has the command line client.",
        # Debian built the libraries so, and they are on board on purpose.
        overrides=["embedded-library", "hardening-no-fortify-functions",
                   "library-not-linked-against-libc",
                   "shared-library-lacks-prerequisites"]),
    "tensorkv-server": dict(
        program="tensorkv-server", section=8,
        depends="libc6 (>= {glibc}), adduser, init-system-helpers (>= 1.52), "
                "tensorkv (= {version})",
        summary="server of a " + SUMMARY,
        about=ABOUT + "\n .\n This package has the server.",
        overrides=["hardening-no-fortify-functions"]),
}

CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size_kib}
Depends: {depends}
Section: net
Priority: optional
Description: {summary}
{about}
"""

COPYRIGHT = """\
TensorKV {version} was packaged from its own source.

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

    def __init__(self, root, name, facts):
        self.root, self.name, self.facts = root, name, facts
        self.own = PACKAGES[name]

    def add_program(self, source, libraries):
        program = self.own["program"]
        copy(source / "bin" / program, self.root / PRIVATE / "bin" / program)
        for library in libraries:
            copy(source / "lib" / library,
                 self.root / PRIVATE / "lib" / library)
        link = self.root / "usr/bin" / program
        link.parent.mkdir(parents=True)
        link.symlink_to("../lib/tensorkv/bin/" + program)
        section = self.own["section"]
        write(self.root / ("usr/share/man/man%d/%s.%d.gz"
                           % (section, program, section)),
              compressed(man_page.of(source / "bin" / program, section,
                                     self.own["summary"])))

    def add_documents(self, source):
        folder = self.root / "usr/share/doc" / self.name
        write(folder / "copyright", COPYRIGHT.format(**self.facts))
        write(folder / "changelog.gz", compressed(
            "{name} ({version}) stable; urgency=medium\n\n"
            "  * Package revision {revision}.\n\n"
            " -- {maintainer}  {date}\n".format(name=self.name, **self.facts)))
        write(self.root / "usr/share/lintian/overrides" / self.name,
              "".join("%s: %s\n" % (self.name, tag)
                      for tag in self.own["overrides"]))
        for license in sorted((source / "licenses").iterdir()):
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

    def build(self, output):
        files = sorted(path for path in self.root.rglob("*")
                       if path.is_file() and not path.is_symlink()
                       and "DEBIAN" not in path.relative_to(self.root).parts)
        for path in files:
            path.chmod(0o755 if os.access(path, os.X_OK) else 0o644)
        facts = dict(self.facts, **self.own, name=self.name, size_kib=sum(
            (path.stat().st_size + 1023) // 1024 for path in files))
        facts["depends"] = self.own["depends"].format(**self.facts)
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
        r"tensorkv-(.+?)-linux-[^-]+-(\w+)", source.name).groups()
    glibc = re.search(r"glibc (\d\S*)", (source / "README").read_text())[1]
    return dict(
        version=version if variant == "cpu" else version + "+" + variant,
        revision=(source / "REVISION").read_text().strip(), glibc=glibc,
        architecture=run("dpkg", "--print-architecture").strip(),
        maintainer=MAINTAINER, date=date)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archive", required=True, type=pathlib.Path)
    parser.add_argument("--output_folder", required=True, type=pathlib.Path)
    parser.add_argument("--date", required=True,
                        help="of the changelog, as RFC 5322 has it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        with tarfile.open(options.archive) as archive:
            archive.extractall(work)
        source, = pathlib.Path(work).iterdir()
        facts = facts_of(source, options.date)
        options.output_folder.mkdir(parents=True, exist_ok=True)
        packed = set()
        for name, own in PACKAGES.items():
            package = Package(pathlib.Path(work, "root", name), name, facts)
            libraries = libraries_of(source / "bin" / own["program"]) - packed
            packed |= libraries
            package.add_program(source, libraries)
            package.add_documents(source)
            if name == "tensorkv-server":
                package.add_service()
            package.build(options.output_folder)


if __name__ == "__main__":
    main()
