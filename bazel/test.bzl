"""tensorkv_cc_test: a cc_test with GoogleTest's main and the matchers.

Tags that tools/package looks at: tests tagged "gpu" use a GPU where there is
one; those tagged "device" keep tensors where TENSORKV_TEST_DEVICE says.
"""

def tensorkv_cc_test(name, deps = [], data = [], size = "small", **kwargs):
    native.cc_test(
        name = name,
        size = size,
        data = data + ["//tests/testing:tsan.supp"],
        deps = deps + [
            "//tests/testing:status_matchers",
            "//tests/testing:tsan_options",
            "@system//:gtest_main",
        ],
        **kwargs
    )
