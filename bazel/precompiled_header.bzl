"""A header that clang reads once for many translation units."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    cc_toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    dependencies = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    precompiled = ctx.actions.declare_file(ctx.label.name + ".pch")
    cpp = ctx.fragments.cpp
    command = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = ACTION_NAMES.cpp_compile,
        variables = cc_common.create_compile_variables(
            feature_configuration = features,
            cc_toolchain = cc_toolchain,
            source_file = ctx.file.header.path,
            output_file = precompiled.path,
            use_pic = True,
            user_compile_flags = cpp.copts + cpp.cxxopts + ctx.attr.copts + [
                # Once here instead of in each unit.
                "-fpch-instantiate-templates",
                # A copy of the header from a cache is as good.
                "-Xclang",
                "-fno-pch-timestamp",
                "-Xclang",
                "-relocatable-pch",
                "-x",
                "c++-header",
            ],
            include_directories = dependencies.includes,
            quote_include_directories = dependencies.quote_includes,
            system_include_directories = dependencies.system_includes,
            preprocessor_defines = dependencies.defines,
        ),
    )
    compiler = cc_common.get_tool_for_action(
        feature_configuration = features,
        action_name = ACTION_NAMES.cpp_compile,
    )
    ctx.actions.run_shell(
        # The names of files are relative to where each action runs.
        command = "%s \"$@\" -Xclang -isysroot -Xclang \"$PWD\"" % compiler,
        arguments = command,
        inputs = depset(
            [ctx.file.header],
            transitive = [dependencies.headers, cc_toolchain.all_files],
        ),
        outputs = [precompiled],
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling %s" % ctx.file.header.short_path,
        use_default_shell_env = True,
    )
    return [
        DefaultInfo(files = depset([precompiled])),
        CcInfo(compilation_context = cc_common.create_compilation_context(
            headers = depset(
                [precompiled, ctx.file.header],
                transitive = [dependencies.headers],
            ),
        )),
    ]

precompiled_header = rule(
    doc = """A header for -include-pch, as an input of what depends on it.

A unit that includes it has the same options: optimisation, sanitizers, macros.
Libraries that its sources need are dependencies of the unit's own.""",
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "header": attr.label(allow_single_file = [".h"], mandatory = True),
        "_cc_toolchain": attr.label(
            default = "@bazel_tools//tools/cpp:current_cc_toolchain",
        ),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    incompatible_use_toolchain_transition = True,
)
