"""Packs the C++ client for programs outside this repository.

Layout of the archive, below one folder with its name:
  README, REVISION
  include/tensorkv/  the public headers, and what those include, whose includes
                     begin with tensorkv/; v1/ has the messages of proto/
  lib/               the library, for find_package and pkg-config

Ends with status 1 if a public header includes anything but the standard
library, Abseil, protobuf, and headers of the folders that HEADERS_FROM names.
"""

import argparse
import pathlib
import re
import sys
import tempfile

import pack

PUBLIC = ["base/status_macros.h", "client/change_reader.h",
          "client/change_watch.h", "client/change_writer.h", "client/client.h",
          "client/client_observer.h", "client/pipeline.h",
          "client/worker_client.h", "contract/reason.h", "tensor/elements.h"]
HEADERS_FROM = ("base", "client", "contract", "tensor", "tensorkv/v1")
# Headers of other packages, which stay as they are.
OTHERS = ("absl/", "google/protobuf/")
INCLUDE = re.compile(r'^#include "(.*)"$', re.M)
SYSTEM_INCLUDE = re.compile(r"^\s*#\s*include\s*<(.*?)>", re.M)
# The standard library's headers: no folder and, but for C's, no suffix.
STANDARD = re.compile(r"[a-z_]+|std\w+\.h|sys/\w+\.h")
# What protoc writes includes protobuf's headers so.
PROTOBUF = re.compile(r"google/protobuf/\S+")
LIBRARY = "libtensorkv.so"
# Of Abseil, what the public headers include, as pkg-config and CMake name it.
ABSL = ["any_invocable", "core_headers", "flat_hash_map", "flat_hash_set",
        "function_ref", "inlined_vector", "span", "status", "statusor",
        "strings", "time"]


def fail(message):
    sys.exit("pack_sdk: error: " + message)


def find(path, sources):
    """A header of one of the folders `sources`, or of proto/ below them."""
    for folder in sources:
        for file in (folder / path, folder / "proto" / path):
            if file.is_file():
                return file
    return fail("there is no " + path)


def headers(sources):
    """Path and text of each header that programs may reach."""
    texts, left = {}, list(PUBLIC)
    while left:
        path = left.pop()
        if path in texts or path.startswith(OTHERS):
            continue
        if not path.startswith(tuple(folder + "/" for folder in HEADERS_FROM)):
            fail("the public headers include " + path)
        texts[path] = find(path, sources).read_text()
        left += INCLUDE.findall(texts[path])
        for name in SYSTEM_INCLUDE.findall(texts[path]):
            if not (STANDARD.fullmatch(name) or
                    path.endswith(".pb.h") and PROTOBUF.fullmatch(name)):
                fail("%s includes <%s>" % (path, name))
    return texts


def installed_path(path):
    """Where a header is below include/."""
    return path if path.startswith("tensorkv/") else "tensorkv/" + path


def installed(text):
    """A header as it is below include/."""
    return INCLUDE.sub(
        lambda found: found[0] if found[1].startswith(OTHERS)
        else '#include "%s"' % installed_path(found[1]), text)


def needed_packages(library):
    """The packages of the libraries that it names, less glibc."""
    names = re.findall(r"NEEDED.*\[(.*)\]", pack.run("readelf", "-d", library))
    found = pack.needed_libraries(library)
    return sorted(pack.packages_of([found[name] for name in names
                                    if name in found]))


def version_of(package):
    """Of what the library is built with, as pkg-config has it."""
    return pack.run("pkg-config", "--modversion", package).strip()


def facts_of(options, soname):
    version = re.search(r'kVersion\[\] = "(.*)"',
                        find("base/version.h", options.sources).read_text())[1]
    example = (options.templates / "example.cc").read_text()
    absl_version = version_of("absl_status")
    return {
        "NAME": options.name, "VERSION": version, "SONAME": soname,
        "GLIBC": "%d.%d" % pack.MAX_GLIBC,
        "PACKAGES": " ".join(needed_packages(options.library)),
        "ABSL_VERSION": absl_version,
        "ABSL_PC": ", ".join("absl_%s = %s" % (name, absl_version)
                             for name in ABSL),
        "ABSL_CMAKE": ";".join("absl::" + name for name in ABSL),
        "PROTOBUF_VERSION": version_of("protobuf"),
        "EXAMPLE": re.sub("^(?=.)", "  ", example, flags=re.M),
    }


def stage_files(stage, options):
    soname = options.library.name
    for path, text in headers(options.sources).items():
        stage.write("include/" + installed_path(path), installed(text))
    library = stage.add_file(options.library, "lib/" + soname)
    pack.run("strip", "--strip-unneeded", library)
    library.chmod(0o644)
    stage.check_glibc(library)
    (stage.root / "lib" / LIBRARY).symlink_to(soname)
    facts = facts_of(options, soname)
    for template, path in (
            ("README.in", "README"),
            ("tensorkv.pc.in", "lib/pkgconfig/tensorkv.pc"),
            ("TensorKVConfig.cmake.in",
             "lib/cmake/TensorKV/TensorKVConfig.cmake"),
            ("TensorKVConfigVersion.cmake.in",
             "lib/cmake/TensorKV/TensorKVConfigVersion.cmake")):
        stage.write(path, re.sub("@([A-Z_]+)@", lambda name: facts[name[1]],
                                 (options.templates / template).read_text()))
    stage.write("REVISION", options.revision + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--revision", default="unknown")
    parser.add_argument("--sources", required=True, type=pathlib.Path,
                        nargs="+", help="what the paths of headers are below, "
                        "or below proto/ of it")
    parser.add_argument("--templates", required=True, type=pathlib.Path)
    parser.add_argument("--library", required=True, type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        stage = pack.Stage(pathlib.Path(work, options.name))
        stage_files(stage, options)
        pack.archive(stage.root, options.output)
    print("package: %s (%.1f MB)" % (
        options.output, options.output.stat().st_size / 1e6))


if __name__ == "__main__":
    main()
