"""Finds the CUDA toolkit, or makes a repository that says there is none.

`@cuda//:found.bzl` tells cuda.bzl, whose rules mark their targets incompatible
where there is no toolkit, so that they drop out of `//...`. The toolkit is that
of CUDA_HOME, else /usr/local/cuda; TENSORKV_CUDA=0 does without one that is
there.

nvcc compiles for the architectures that TENSORKV_CUDA_ARCHITECTURES names, with
spaces between them; each takes as long as the others.
"""

# Ampere, Hopper, Blackwell.
_ARCHITECTURES = "80 90 100"

_BUILD_WITH_CUDA = """
package(default_visibility = ["//visibility:public"])
exports_files(["nvcc"])
cc_library(
    name = "cudart",
    hdrs = glob(["include/**"]),
    includes = ["include"],
    srcs = ["lib/libcudart_static.a"],
    linkopts = ["-ldl", "-lrt", "-lpthread"],
)
"""

# No platform has the constraint, so what asks for it is built on none.
_BUILD_WITHOUT_CUDA = """
package(default_visibility = ["//visibility:public"])
cc_library(name = "cudart")
constraint_setting(name = "toolkit")
constraint_value(name = "toolkit_found", constraint_setting = ":toolkit")
"""

def _find_toolkit(ctx):
    if ctx.os.environ.get("TENSORKV_CUDA") == "0":
        return None
    for root in [ctx.os.environ.get("CUDA_HOME"), "/usr/local/cuda"]:
        if root and ctx.path(root + "/bin/nvcc").exists:
            return root
    return None

def _cuda_configure_impl(ctx):
    root = _find_toolkit(ctx)
    if root:
        ctx.symlink(root + "/include", "include")
        ctx.symlink(root + "/lib64/libcudart_static.a", "lib/libcudart_static.a")
        ctx.file(
            "nvcc",
            "#!/bin/sh\nexec %s/bin/nvcc \"$@\"\n" % root,
            executable = True,
        )
    ctx.file("BUILD", _BUILD_WITH_CUDA if root else _BUILD_WITHOUT_CUDA)
    architectures = ctx.os.environ.get(
        "TENSORKV_CUDA_ARCHITECTURES",
        _ARCHITECTURES,
    ).split(" ")
    ctx.file(
        "found.bzl",
        "CUDA_FOUND = %s\nCUDA_ARCHITECTURES = %s\n" %
        (bool(root), architectures),
    )

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    environ = ["CUDA_HOME", "TENSORKV_CUDA", "TENSORKV_CUDA_ARCHITECTURES"],
    local = True,
)
