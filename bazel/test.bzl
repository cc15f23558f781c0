"""Test programs with GoogleTest's main and the matchers.

tensorkv_cc_tests makes one program of several files. Most of the time of
compiling a test is spent on headers, so a folder has a few such programs, and a
new test file joins one of them. tensorkv_cc_test is for a suite that needs a
process, a size or tags of its own.

Tags that tools/test looks at:
  single_threaded  has no second thread, and stays out of tsan
  no_tsan          tsan cannot run it, or finds there what other tests show it
  sanitizers_only  a whole run leaves it to asan and tsan

Tags that tools/package looks at:
  gpu     uses a GPU where there is one
  device  keeps tensors where TENSORKV_TEST_DEVICE says
"""

load("//bazel:library.bzl", "include_all")

# Arguments of a suite for backends. A comparison with the oracle computes for
# minutes where it is sanitized, and makes no accesses that batches of the same
# updates do not make. What holds for every rule holds however slots are sized.
# Failures that are injected are for asan.
BACKEND_CONTRACT_ARGS = select({
    "//bazel:tsan": ["--gtest_filter=-*Oracle:OneThread/*:*FakeGpu/*Bits*:*FakeGpu/*Packed*:*FakeGpu/*EveryRule:*EveryInstructionSet*:CudaBackendTest.GivesTheBits*:CudaBackendTest.FailureOfAny*"],
    "//service:system_allocator": ["--gtest_filter=-*Oracle:OneThread/*:Shuffled*/*Bits*:*FakeGpu/*EveryRule:CudaBackendTest.GivesTheBits*"],
    "//conditions:default": ["--gtest_filter=-FakeGpu/*EveryRule:CudaBackendTest.FailureOfAny*"],
})

def tensorkv_cc_tests(name, srcs, deps = [], **kwargs):
    """A test program of several files, compiled as one unit."""
    include_all(name = name + "_unit", srcs = srcs, testonly = True)
    native.cc_library(
        name = name + "_files",
        testonly = True,
        textual_hdrs = srcs,
        visibility = ["//visibility:private"],
    )
    tensorkv_cc_test(
        name = name,
        srcs = [":%s_unit" % name],
        deps = deps + [":%s_files" % name],
        **kwargs
    )

def tensorkv_cc_test(
        name,
        deps = [],
        data = [],
        copts = [],
        size = "small",
        **kwargs):
    """A test program. What most include is precompiled for clang, which takes a
    third less time then: that is a tenth of tools/test."""
    native.cc_test(
        name = name,
        size = size,
        data = data + ["//tests/testing:tsan.supp"],
        copts = copts + select({
            "//service:system_allocator": [
                "-include-pch",
                "$(BINDIR)/tests/testing/common_headers.pch",
                "-Xclang",
                "-isysroot",
                "-Xclang",
                ".",
            ],
            "//conditions:default": [],
        }),
        deps = deps + [
            "//tests/testing:status_matchers",
            "//tests/testing:tsan_options",
            "@system//:gtest_main",
        ] + select({
            "//service:system_allocator": ["//tests/testing:common_headers"],
            "//conditions:default": [],
        }),
        **kwargs
    )
