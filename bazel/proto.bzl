"""cc_grpc_library: C++ messages and gRPC stubs of a set of .proto files."""

def cc_grpc_library(
        name,
        srcs,
        grpc = [],
        well_known_deps = ["@system//:grpc"],
        copts = [],
        **kwargs):
    """Generates C++ from `srcs`; those also in `grpc` get service stubs.

    Args:
      name: the cc_library with all generated code.
      srcs: .proto files, relative to this package.
      grpc: those of `srcs` that define services.
      well_known_deps: what the generated code links.
      copts: for the generated code.
      **kwargs: passed to the cc_library.
    """
    stems = [src[:-len(".proto")] for src in srcs]
    service_stems = [src[:-len(".proto")] for src in grpc]
    headers = [s + ".pb.h" for s in stems] + [s + ".grpc.pb.h" for s in service_stems]
    sources = [s + ".pb.cc" for s in stems] + [s + ".grpc.pb.cc" for s in service_stems]
    root = "$(RULEDIR)"
    native.genrule(
        name = name + "_generated",
        srcs = srcs,
        outs = headers + sources,
        cmd = " && ".join([
            "protoc -I%s --cpp_out=%s %s" % (
                native.package_name(),
                root,
                " ".join(["$(location %s)" % src for src in srcs]),
            ),
        ] + [
            "protoc -I%s --grpc_out=generate_mock_code=false:%s --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin $(location %s)" % (
                native.package_name(),
                root,
                src,
            )
            for src in grpc
        ]),
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        # Included as "tensorkv/v1/...", the path protoc writes.
        includes = ["."],
        copts = ["-w"] + copts,
        deps = well_known_deps,
        **kwargs
    )
