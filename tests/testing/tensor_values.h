// Tensors written as numbers, and read back as numbers, for tests.
//
//   ASSERT_OK(store.Init("w", Full({2, 3}, 2)));
//   EXPECT_THAT(store.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(2))));

#ifndef TENSORKV_TESTS_TESTING_TENSOR_VALUES_H_
#define TENSORKV_TESTS_TESTING_TENSOR_VALUES_H_

#include <string>
#include <vector>

#include "contract/requests.h"
#include "gmock/gmock.h"
#include "tensor/tensor.h"

namespace tensorkv::testing {

// A tensor of `shape` with every element `value`, rounded to `dtype`.
Tensor Full(Shape shape, double value, DType dtype = DType::kF32);

// A tensor of `shape` with these elements, rounded to `dtype`.
// REQUIRES: as many elements as the shape has.
Tensor TensorOf(Shape shape, const std::vector<double>& elements,
                DType dtype = DType::kF32);

// A vector of as many elements as given.
Tensor Vector(const std::vector<double>& elements, DType dtype = DType::kF32);

// All elements, as doubles, exactly (i64 beyond 2^53 excepted).
std::vector<double> ElementsOf(const Tensor& tensor);

// The raw bytes, for comparisons bit by bit.
std::string BytesOf(const Tensor& tensor);

// Whether all elements have the bits of the first. Quick on large tensors, as
// is IsFilled.
bool IsUniform(const Tensor& tensor);

// Whether there are elements, and all are `value`, rounded to the dtype.
bool IsFilled(const Tensor& tensor, double value);

inline auto HasElements(const std::vector<double>& elements) {
  return ::testing::ResultOf("elements", ElementsOf,
                             ::testing::ElementsAreArray(elements));
}

MATCHER_P(IsFilledWith, value,
          "is a tensor filled with " + ::testing::PrintToString(value)) {
  if (IsFilled(arg, value)) return true;
  *result_listener << arg.Description() << " of "
                   << ::testing::PrintToString(ElementsOf(arg));
  return false;
}

// A Value whose tensor or version matches.
MATCHER_P(HasTensor, matcher, ::testing::DescribeMatcher<Tensor>(matcher)) {
  return ::testing::ExplainMatchResult(matcher, arg.tensor, result_listener);
}
MATCHER_P(HasVersion, version,
          "has version " + ::testing::PrintToString(version)) {
  *result_listener << "version " << arg.version;
  return arg.version == static_cast<Version>(version);
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_TENSOR_VALUES_H_
