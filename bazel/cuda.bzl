"""cuda_library: CUDA sources compiled by nvcc and linked like a cc_library."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@cuda//:found.bzl", "CUDA_FOUND")

# For every target that needs the toolkit, tests included.
CUDA_COMPATIBLE = [] if CUDA_FOUND else ["@platforms//:incompatible"]

# Ampere, Hopper, Blackwell; PTX of the newest for what comes after.
_GENCODE = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=sm_90",
    "-gencode=arch=compute_100,code=sm_100",
    "-gencode=arch=compute_100,code=compute_100",
]

# No fused multiply-add that the source does not ask for: the CPU backend is
# compiled the same way, so both give the same bits.
_NVCC_FLAGS = [
    "-O3",
    "-std=c++20",
    "--fmad=false",
    "--expt-relaxed-constexpr",
    "-Xcompiler=-fPIC,-Wall",
]

def _cuda_library_impl(ctx):
    cc_toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    deps_context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    )
    headers = deps_context.compilation_context.headers
    include_dirs = depset(transitive = [
        deps_context.compilation_context.includes,
        deps_context.compilation_context.system_includes,
    ])

    objects = []
    for source in ctx.files.srcs:
        object = ctx.actions.declare_file(
            "_objs/%s/%s.o" % (ctx.label.name, source.basename),
        )
        args = ctx.actions.args()
        args.add_all(_NVCC_FLAGS + _GENCODE)
        args.add("-I.")
        args.add_all(include_dirs, before_each = "-isystem")
        args.add("-c", source)
        args.add("-o", object)
        ctx.actions.run(
            executable = ctx.executable._nvcc,
            arguments = [args],
            inputs = depset(
                [source] + ctx.files.hdrs,
                transitive = [headers],
            ),
            outputs = [object],
            mnemonic = "NvccCompile",
            progress_message = "Compiling %s with nvcc" % source.short_path,
            use_default_shell_env = True,
        )
        objects.append(object)

    compilation_outputs = cc_common.create_compilation_outputs(
        objects = depset(objects),
        pic_objects = depset(objects),
    )
    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        feature_configuration = features,
        cc_toolchain = cc_toolchain,
        compilation_outputs = compilation_outputs,
        linking_contexts = [deps_context.linking_context],
        name = ctx.label.name,
        disallow_dynamic_library = True,
    )
    compilation_context = cc_common.create_compilation_context(
        headers = depset(ctx.files.hdrs),
    )
    own = CcInfo(
        compilation_context = compilation_context,
        linking_context = linking_context,
    )
    return [
        DefaultInfo(files = depset(objects)),
        cc_common.merge_cc_infos(
            direct_cc_infos = [own],
            cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
        ),
    ]

_cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "_nvcc": attr.label(
            default = "@cuda//:nvcc",
            allow_single_file = True,
            executable = True,
            cfg = "host",
        ),
        "_cc_toolchain": attr.label(
            default = "@bazel_tools//tools/cpp:current_cc_toolchain",
        ),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    incompatible_use_toolchain_transition = True,
)

def cuda_library(name, **kwargs):
    """Like cc_library, for .cu sources; absent where there is no toolkit."""
    if CUDA_FOUND:
        _cuda_library(name = name, **kwargs)
