"""Libraries and tests that are compiled as one unit."""

def _include_all_impl(ctx):
    unit = ctx.actions.declare_file(ctx.label.name + ".cc")
    files = [f.short_path for f in ctx.files.srcs if f.extension == "cc"]
    lines = ["#include \"%s\"" % f for f in files]
    ctx.actions.write(unit, "\n".join(lines) + "\n")
    return [DefaultInfo(files = depset([unit]))]

include_all = rule(
    doc = """A translation unit that includes all sources: headers are parsed once.

The sources see each other's names. Where those collide, a file puts its own
into a namespace that has its name instead of into an unnamed one.""",
    implementation = _include_all_impl,
    attrs = {"srcs": attr.label_list(allow_files = True)},
)

def tensorkv_cc_library(
        name,
        srcs,
        copts = [],
        textual_hdrs = [],
        testonly = None,
        **kwargs):
    """A cc_library that is compiled as one unit.

    Most of the time of compiling a source is spent on headers. With
    --define=separate_sources=yes each is compiled by itself: a change of one
    takes less time then, and what it does not include is missed.

    Args:
      name: of the library.
      srcs: the sources, and headers that only they include.
      copts: as cc_library takes them.
      textual_hdrs: as cc_library takes them.
      testonly: as cc_library takes it.
      **kwargs: what else cc_library takes.
    """
    include_all(name = name + "_unit", srcs = srcs, testonly = testonly)
    headers = [f for f in srcs if f.endswith(".h")]
    native.cc_library(
        name = name,
        srcs = select({
            "//bazel:separate_sources": srcs,
            "//conditions:default": [":%s_unit" % name] + headers,
        }),
        # The compiler takes the sources for headers.
        copts = copts + ["-Wno-subobject-linkage"],
        testonly = testonly,
        textual_hdrs = textual_hdrs + [f for f in srcs if f.endswith(".cc")],
        **kwargs
    )
