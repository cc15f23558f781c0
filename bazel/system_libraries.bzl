"""The repository of the distribution's libraries, system.BUILD.

Debian 13's Abseil has parts in libraries of their own that Debian 12's lacks.
Python's headers are in a folder named after its version. TENSORKV_PYTHON_ROOT
names another Debian whose Python is built for: tools/wheel --root.
"""

_OPTIONAL = ["absl_string_view"]

def _has_library(ctx, name):
    find = "ls /usr/lib/lib%s.so /usr/lib/*/lib%s.so /usr/lib64/lib%s.so" % (name, name, name)
    return ctx.execute(["sh", "-c", find + " 2>/dev/null | grep -q ."]).return_code == 0

# The headers of the Python that builds, or of another Debian's, below `root`,
# which has pybind11 for it.
def _link_python_headers(ctx, root):
    if root:
        found = ctx.execute(["sh", "-c", "ls -d %s/usr/include/python3.*" % root])
        folder = ctx.path(found.stdout.strip())
        machine = ctx.execute(["uname", "-m"]).stdout.strip() + "-linux-gnu"
        ctx.symlink(root + "/usr/include/pybind11", "pybind11")
        for path in [folder.basename, "%s/%s" % (machine, folder.basename)]:
            ctx.symlink("%s/usr/include/%s" % (root, path), path)
    else:
        find = "import sysconfig; print(sysconfig.get_path('include'))"
        found = ctx.execute(["/usr/bin/python3", "-c", find])
        folder = ctx.path(found.stdout.strip()) if found.return_code == 0 else None
    if folder and folder.get_child("Python.h").exists:
        ctx.symlink(folder, "python")

def _system_libraries_impl(ctx):
    ctx.symlink(ctx.attr.build_file, "BUILD")
    _link_python_headers(ctx, ctx.os.environ.get("TENSORKV_PYTHON_ROOT"))
    found = ["-l" + name for name in _OPTIONAL if _has_library(ctx, name)]
    ctx.file("optional.bzl", "OPTIONAL_ABSL_LINKOPTS = %r\n" % found)

system_libraries = repository_rule(
    implementation = _system_libraries_impl,
    attrs = {"build_file": attr.label(allow_single_file = True)},
    environ = ["TENSORKV_PYTHON_ROOT"],
    local = True,
)
