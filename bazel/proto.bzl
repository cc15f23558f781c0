"""C++ messages and gRPC stubs of .proto files."""

def _generated_library(name, srcs, imports, options, extension, copts, **kwargs):
    stems = [src[:-len(".proto")] + extension for src in srcs]
    native.genrule(
        name = name + "_generated",
        srcs = srcs + imports,
        outs = [stem + end for stem in stems for end in [".cc", ".h"]],
        cmd = "protoc -I%s %s %s" % (
            native.package_name(),
            options,
            " ".join(["$(location %s)" % src for src in srcs]),
        ),
    )
    native.cc_library(
        name = name,
        srcs = [stem + ".cc" for stem in stems],
        hdrs = [stem + ".h" for stem in stems],
        # Included as "tensorkv/v1/...", the path protoc writes.
        includes = ["."],
        copts = ["-w"] + copts,
        **kwargs
    )

def cc_messages_library(name, srcs, copts = [], **kwargs):
    """The messages of `srcs`.

    Args:
      name: the cc_library.
      srcs: .proto files, relative to this package.
      copts: for the generated code.
      **kwargs: what else cc_library takes.
    """
    _generated_library(
        name = name,
        srcs = srcs,
        imports = [],
        options = "--cpp_out=$(RULEDIR)",
        extension = ".pb",
        copts = copts,
        deps = ["@system//:protobuf"],
        **kwargs
    )

def cc_grpc_library(
        name,
        srcs,
        messages = None,
        imports = [],
        copts = [],
        **kwargs):
    """The stubs of the services in `srcs`.

    Args:
      name: the cc_library.
      srcs: .proto files, relative to this package.
      messages: the library with their messages; without it, one is made.
      imports: other .proto files that they import.
      copts: for the generated code.
      **kwargs: what else cc_library takes.
    """
    if not messages:
        messages = name + "_messages"
        cc_messages_library(name = messages, srcs = srcs, copts = copts, **kwargs)
    _generated_library(
        name = name,
        srcs = srcs,
        imports = imports,
        options = "--grpc_out=generate_mock_code=false:$(RULEDIR) " +
                  "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin",
        extension = ".grpc.pb",
        copts = copts,
        deps = [messages, "@system//:grpc"],
        **kwargs
    )
