"""The repository of the distribution's libraries, system.BUILD.

Debian 13's Abseil has parts in libraries of their own that Debian 12's lacks.
Python's headers are in a folder named after its version.
"""

_OPTIONAL = ["absl_string_view"]

def _has_library(ctx, name):
    find = "ls /usr/lib/lib%s.so /usr/lib/*/lib%s.so /usr/lib64/lib%s.so" % (name, name, name)
    return ctx.execute(["sh", "-c", find + " 2>/dev/null | grep -q ."]).return_code == 0

def _link_python_headers(ctx):
    find = "import sysconfig; print(sysconfig.get_path('include'))"
    found = ctx.execute(["/usr/bin/python3", "-c", find])
    folder = ctx.path(found.stdout.strip()) if found.return_code == 0 else None
    if folder and folder.get_child("Python.h").exists:
        ctx.symlink(folder, "python")

def _system_libraries_impl(ctx):
    ctx.symlink(ctx.attr.build_file, "BUILD")
    _link_python_headers(ctx)
    found = ["-l" + name for name in _OPTIONAL if _has_library(ctx, name)]
    ctx.file("optional.bzl", "OPTIONAL_ABSL_LINKOPTS = %r\n" % found)

system_libraries = repository_rule(
    implementation = _system_libraries_impl,
    attrs = {"build_file": attr.label(allow_single_file = True)},
    local = True,
)
