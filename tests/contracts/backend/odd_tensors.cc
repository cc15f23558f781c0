#include "tests/contracts/backend/odd_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/contracts/backend/exact_elements.h"
#include "tests/testing/device_tensors.h"

namespace tensorkv::testing {
namespace {

// Elements of memory before and behind a shifted tensor, together.
constexpr int64_t kBorder = 16;

// Small enough that every dtype has the sum of two of them.
int64_t ValueAt(int64_t i) { return i % 4; }
int64_t ContributionAt(int64_t i) { return i % 5; }

double NumberAt(const Tensor& tensor, int64_t i) {
  return IsFloat(tensor.dtype()) ? FloatAt(tensor, i)
                                 : static_cast<double>(IntegerAt(tensor, i));
}

// The elements f(0), f(1), … from `shift` on, and 1 all around them.
template <typename Function>
Tensor Bordered(DType dtype, int64_t shift, int64_t size, Function f) {
  Tensor tensor = *Tensor::Filled(dtype, {size + kBorder}, 1);
  for (int64_t i = 0; i < size; ++i) {
    IsFloat(dtype) ? SetFloat(tensor, shift + i, f(i))
                   : SetInteger(tensor, shift + i, f(i));
  }
  return tensor;
}

double ExpectedAt(DType dtype, int64_t i, int64_t size) {
  if (i < 0 || i >= size) return 1;
  const int64_t sum = ValueAt(i) + ContributionAt(i);
  return dtype == DType::kBool ? sum != 0 : sum;
}

// A host tensor with every pattern of a dtype of 1 or 2 bytes, in order.
Tensor EveryPattern(DType dtype) {
  const size_t size = SizeOf(dtype);
  const int64_t num_patterns = int64_t{1} << (8 * size);
  Tensor tensor = *Tensor::Allocate(dtype, {num_patterns});
  for (int64_t pattern = 0; pattern < num_patterns; ++pattern) {
    std::memcpy(tensor.mutable_data() + pattern * size, &pattern, size);
  }
  return tensor;
}

// What the rule assign makes of one contribution, in host memory.
absl::StatusOr<Tensor> Assigned(Backend& backend, const Tensor& contribution,
                                DType dtype) {
  const UpdateRule assign;
  ASSIGN_OR_RETURN(const Tensor source, ToDevice(backend, contribution));
  ASSIGN_OR_RETURN(const Tensor empty,
                   Tensor::Allocate(dtype, contribution.shape()));
  ASSIGN_OR_RETURN(Tensor value, ToDevice(backend, empty));
  const TensorView view = source.view();
  RETURN_IF_ERROR(backend.Apply({{.rule = &assign,
                                  .contributions = {&view, 1},
                                  .value = value.mutable_view()}}));
  return ToHost(backend, value);
}

absl::Status CheckIsWidened(Backend& backend, const Tensor& patterns) {
  ASSIGN_OR_RETURN(const Tensor wide, Assigned(backend, patterns, DType::kF32));
  for (int64_t i = 0; i < patterns.num_elements(); ++i) {
    const double expected = FloatAt(patterns, i);
    const double actual = FloatAt(wide, i);
    const bool is_same = std::isnan(expected)
                             ? std::isnan(actual)
                             : actual == expected && std::signbit(actual) ==
                                                         std::signbit(expected);
    if (is_same) continue;
    return absl::DataLossError(absl::StrCat(NameOf(patterns.dtype()),
                                            " pattern ", i, ": expected ",
                                            expected, ", got ", actual));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckEveryPattern(Backend& backend) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF8E4M3FN,
                            DType::kF8E5M2, DType::kI16, DType::kU8}) {
    const Tensor patterns = EveryPattern(dtype);
    ASSIGN_OR_RETURN(const Tensor assigned, Assigned(backend, patterns, dtype));
    if (std::memcmp(assigned.data(), patterns.data(), patterns.size_bytes()) !=
        0) {
      return absl::DataLossError(
          absl::StrCat(NameOf(dtype), ": expected the same bits, got others"));
    }
    if (IsFloat(dtype)) RETURN_IF_ERROR(CheckIsWidened(backend, patterns));
  }
  return absl::OkStatus();
}

absl::Status CheckSmallCopies(Backend& backend) {
  constexpr size_t kSize = 60'000;
  ASSIGN_OR_RETURN(const RefPtr<Buffer> device,
                   backend.Allocate(kSize, /*account=*/nullptr));
  std::string sent(kSize, 0);
  for (size_t i = 0; i < kSize; ++i) sent[i] = static_cast<char>(i * i % 251);
  std::vector<MemoryCopy> there;
  for (size_t at = 0, size = 0; at < kSize; at += size) {
    size = std::min((size + 1) % 37, kSize - at);
    there.push_back({sent.data() + at, device->mutable_data() + at, size});
  }
  std::string received(kSize, 0);
  std::vector<MemoryCopy> back;
  for (size_t at = 0, size = 0; at < kSize; at += size) {
    size = std::min((size + 5) % 61, kSize - at);
    back.push_back({device->data() + at, received.data() + at, size});
  }
  RETURN_IF_ERROR(backend.CopyToDevice(there));
  RETURN_IF_ERROR(CopyToHost(backend, std::move(back)).Wait());
  return received == sent ? absl::OkStatus()
                          : absl::DataLossError("other bytes came back");
}

absl::Status CheckShiftedSum(Backend& backend, DType dtype, int64_t shift,
                             int64_t size) {
  static const auto* const kAdd =
      new UpdateRule(*UpdateRule::Create({"accumulate"}));
  const int64_t other_shift = (5 * shift + 2) % 8;
  ASSIGN_OR_RETURN(Tensor value,
                   ToDevice(backend, Bordered(dtype, shift, size, ValueAt)));
  ASSIGN_OR_RETURN(
      const Tensor contribution,
      ToDevice(backend, Bordered(dtype, other_shift, size, ContributionAt)));
  const TensorView view = {dtype, size,
                           contribution.data() + other_shift * SizeOf(dtype)};
  const MutableTensorView sum = {dtype, size,
                                 value.mutable_data() + shift * SizeOf(dtype)};
  RETURN_IF_ERROR(backend.Apply({{.rule = kAdd,
                                  .stored = sum,
                                  .contributions = {&view, 1},
                                  .value = sum}}));

  ASSIGN_OR_RETURN(const Tensor result, ToHost(backend, value));
  for (int64_t i = -shift; i < size + kBorder - shift; ++i) {
    const double expected = ExpectedAt(dtype, i, size);
    const double actual = NumberAt(result, shift + i);
    if (actual == expected) continue;
    return absl::DataLossError(absl::StrCat(
        NameOf(dtype), "[", size, "] shifted by ", shift, ": element ", i,
        ": expected ", expected, ", got ", actual));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv::testing
