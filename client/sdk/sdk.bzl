"""What a shared library for others is made of."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _headers_of_impl(ctx):
    return [DefaultInfo(files = depset(transitive = [
        dep[CcInfo].compilation_context.headers
        for dep in ctx.attr.deps
    ]))]

# The headers of `deps` and of all that they depend on.
headers_of = rule(
    implementation = _headers_of_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)

def _all_of_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
    )

    found = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    )
    inputs = [
        cc_common.create_linker_input(
            owner = entry.owner,
            libraries = depset([
                cc_common.create_library_to_link(
                    actions = ctx.actions,
                    feature_configuration = features,
                    cc_toolchain = toolchain,
                    static_library = library.static_library,
                    pic_static_library = library.pic_static_library,
                    alwayslink = True,
                )
                for library in entry.libraries
            ]),
            user_link_flags = depset(entry.user_link_flags),
            additional_inputs = depset(entry.additional_inputs),
        )
        for entry in found.linking_context.linker_inputs.to_list()
    ]
    return [CcInfo(linking_context = cc_common.create_linking_context(
        linker_inputs = depset(inputs, order = "topological"),
    ))]

# `deps` and all that they depend on, to be linked as a whole: nothing within a
# shared library refers to what only its users call.
all_of = rule(
    implementation = _all_of_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(
            default = "@bazel_tools//tools/cpp:current_cc_toolchain",
        ),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
