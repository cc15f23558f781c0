// What most tests include, for clang to read once: see bazel/test.bzl. Tests
// include what they use all the same.

#ifndef TENSORKV_TESTS_TESTING_COMMON_HEADERS_H_
#define TENSORKV_TESTS_TESTING_COMMON_HEADERS_H_

// IWYU pragma: begin_exports
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "contract/requests.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/tensor.h"
#include "tests/testing/status_matchers.h"
// IWYU pragma: end_exports

#endif  // TENSORKV_TESTS_TESTING_COMMON_HEADERS_H_
