"""cuda_library: CUDA sources compiled by nvcc and linked like a cc_library."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@cuda//:found.bzl", "CUDA_ARCHITECTURES", "CUDA_FOUND")

# For every target that needs the toolkit, tests included.
CUDA_COMPATIBLE = [] if CUDA_FOUND else ["@cuda//:toolkit_found"]

# PTX of the newest is for what comes after.
_GENCODE = [
    "-gencode=arch=compute_%s,code=sm_%s" % (number, number)
    for number in CUDA_ARCHITECTURES
] + ["-gencode=arch=compute_{0},code=compute_{0}".format(CUDA_ARCHITECTURES[-1])]

# No fused multiply-add that the source does not ask for: the CPU backend is
# compiled the same way, so both give the same bits. Code for GPUs is not packed
# otherwise; packed, it is a seventh as large.
_NVCC_FLAGS = [
    "-O3",
    "--compress-mode=size",
    "-std=c++20",
    "--fmad=false",
    "--expt-relaxed-constexpr",
    "-Xcompiler=-fPIC,-Wall,-ffp-contract=off",
]

def _compile(ctx, source, compilation_context):
    object = ctx.actions.declare_file(
        "_objs/%s/%s.o" % (ctx.label.name, source.basename),
    )
    include_dirs = depset(transitive = [
        compilation_context.includes,
        compilation_context.system_includes,
    ])
    args = ctx.actions.args()
    args.add_all(_NVCC_FLAGS + _GENCODE)
    args.add("-I.")
    args.add("-I" + ctx.bin_dir.path)
    args.add_all(include_dirs, before_each = "-isystem")
    args.add("-c", source)
    args.add("-o", object)
    ctx.actions.run(
        executable = ctx.executable._nvcc,
        arguments = [args],
        inputs = depset(
            [source] + ctx.files.hdrs,
            transitive = [compilation_context.headers],
        ),
        outputs = [object],
        mnemonic = "NvccCompile",
        progress_message = "Compiling %s with nvcc" % source.short_path,
        use_default_shell_env = True,
    )
    return object

def _linking_context(ctx, objects, dependencies):
    cc_toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        feature_configuration = features,
        cc_toolchain = cc_toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = objects,
            pic_objects = objects,
        ),
        linking_contexts = [dependencies.linking_context],
        name = ctx.label.name,
        disallow_dynamic_library = True,
    )
    return linking_context

def _cuda_library_impl(ctx):
    dependencies = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    )
    objects = depset([
        _compile(ctx, source, dependencies.compilation_context)
        for source in ctx.files.srcs
    ])
    own = CcInfo(
        compilation_context = cc_common.create_compilation_context(
            headers = depset(ctx.files.hdrs),
        ),
        linking_context = _linking_context(ctx, objects, dependencies),
    )
    return [
        DefaultInfo(files = objects),
        cc_common.merge_cc_infos(cc_infos = [own, dependencies]),
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

def cuda_library(name, target_compatible_with = [], **kwargs):
    """Like cc_library, for .cu sources; incompatible where there is no toolkit.

    Args:
      name: of the library.
      target_compatible_with: as for every rule.
      **kwargs: srcs (.cu), hdrs, deps, testonly, visibility.
    """
    library = _cuda_library if CUDA_FOUND else native.cc_library
    library(
        name = name,
        target_compatible_with = target_compatible_with + CUDA_COMPATIBLE,
        **kwargs
    )
