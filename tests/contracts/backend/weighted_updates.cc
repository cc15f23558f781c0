#include "tests/contracts/backend/weighted_updates.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tensor/packing.h"
#include "tests/contracts/backend/exact_elements.h"
#include "tests/contracts/backend/update_case.h"
#include "tests/contracts/backend/update_oracle.h"
#include "tests/testing/device_tensors.h"

namespace tensorkv::testing {
namespace weighted_updates {

constexpr DType kFloats[] = {DType::kF32,  DType::kF64,      DType::kF16,
                             DType::kBF16, DType::kF8E4M3FN, DType::kF8E5M2};
constexpr DType kIntegers[] = {DType::kI8,  DType::kU8,  DType::kI16,
                               DType::kU16, DType::kI32, DType::kU32,
                               DType::kI64, DType::kU64, DType::kBool};
constexpr double kWeights[] = {1, 0.25, 3, 60000, 1e-3, 1e18, 7};
constexpr float kThreshold = 0.375f;

// Contributions, what they are (plain elements, or 2-bit codes), and what they
// weigh.
struct Weighted {
  DType dtype;  // of the value
  int64_t num_elements;
  std::vector<Tensor> contributions;
  std::vector<bool> is_packed;
  std::vector<double> weights;
  double total = 0;
};

Tensor AnyContribution(DType dtype, int64_t num_elements, bool is_packed,
                       std::mt19937_64& random) {
  if (is_packed) num_elements = (num_elements + 3) / 4;
  Tensor tensor =
      *Tensor::Allocate(is_packed ? DType::kU8 : dtype, {num_elements});
  for (int64_t i = 0; i < num_elements; ++i) {
    if (IsFloat(tensor.dtype())) {
      SetFloat(tensor, i, std::normal_distribution<double>()(random));
    } else {
      // Some lie at the ends of the dtype's range.
      const int64_t ends[] = {INT64_MAX, INT64_MIN, 0, -1};
      SetInteger(tensor, i,
                 static_cast<int64_t>(random() % 3 == 0 ? ends[random() % 4]
                                                        : random()));
    }
  }
  return tensor;
}

Weighted AnyWeighted(DType dtype, int64_t num_elements, uint32_t size,
                     std::mt19937_64& random) {
  Weighted weighted = {dtype, num_elements, {}, {}, {}, 0};
  for (uint32_t k = 0; k < size; ++k) {
    const bool is_packed = IsFloat(dtype) && random() % 5 == 0;
    const DType brought =
        IsFloat(dtype) ? kFloats[random() % std::size(kFloats)] : dtype;
    weighted.contributions.push_back(
        AnyContribution(brought, num_elements, is_packed, random));
    weighted.is_packed.push_back(is_packed);
    weighted.weights.push_back(kWeights[random() % std::size(kWeights)]);
    weighted.total += weighted.weights.back();
  }
  // Others may weigh besides.
  if (random() % 3 == 0) weighted.total += 2.5;
  return weighted;
}

// The element of an integer tensor as a number.
double IntegerOf(const Tensor& tensor, int64_t i) {
  const int64_t bits = IntegerAt(tensor, i);
  return tensor.dtype() == DType::kU64 ? static_cast<double>(uint64_t(bits))
                                       : static_cast<double>(bits);
}

double ElementOf(const Weighted& weighted, size_t contribution, int64_t i) {
  const Tensor& tensor = weighted.contributions[contribution];
  if (weighted.is_packed[contribution]) {
    const uint8_t byte = tensor.elements<uint8_t>()[i / 4];
    constexpr double kValues[] = {0, 0, -kThreshold, kThreshold};
    return kValues[byte >> (6 - 2 * (i % 4)) & 3];
  }
  return IsFloat(tensor.dtype()) ? FloatAt(tensor, i) : IntegerOf(tensor, i);
}

// What is computed of numbers of f32 in f64 and rounded again is what f32 has.
double ExpectedAt(const Weighted& weighted, int64_t i) {
  const bool is_float = IsFloat(weighted.dtype);
  const DType wide = is_float ? AccumulateType(weighted.dtype) : DType::kF64;
  double sum = 0;
  for (size_t k = 0; k < weighted.contributions.size(); ++k) {
    const double product =
        RoundTo(wide, RoundTo(wide, weighted.weights[k]) *
                          RoundTo(wide, ElementOf(weighted, k, i)));
    sum = k == 0 ? product : RoundTo(wide, sum + product);
  }
  const double mean = RoundTo(wide, sum / RoundTo(wide, weighted.total));
  return is_float ? RoundTo(weighted.dtype, mean) : std::nearbyint(mean);
}

// Applies assign with the contributions from `first` to `end`.
absl::Status Apply(Backend& backend, const Weighted& weighted, size_t first,
                   size_t end, absl::Span<const TensorView> before,
                   double total, MutableTensorView value) {
  const UpdateRule assign;
  const int64_t num_elements = weighted.num_elements;
  const Packing packing = {.kind = PackingKind::kTwoBit,
                           .scale = kThreshold,
                           .num_elements = static_cast<uint64_t>(num_elements)};
  std::vector<Tensor> on_device;
  std::vector<TensorView> views(before.begin(), before.end());
  std::vector<const Packing*> packings(before.size());
  std::vector<double> weights(before.size(), 1);
  for (size_t k = first; k < end; ++k) {
    ASSIGN_OR_RETURN(Tensor moved,
                     ToDevice(backend, weighted.contributions[k]));
    TensorView view = moved.view();
    if (weighted.is_packed[k]) view = {DType::kF32, num_elements, view.data};
    views.push_back(view);
    packings.push_back(weighted.is_packed[k] ? &packing : nullptr);
    weights.push_back(weighted.weights[k]);
    on_device.push_back(std::move(moved));
  }
  const ContributionWeights of_all = {.each = weights, .total = total};
  return backend.Apply({{.rule = &assign,
                         .contributions = views,
                         .packings = packings,
                         .weights = &of_all,
                         .value = value}});
}

absl::StatusOr<Tensor> NewTensor(Backend& backend, DType dtype, int64_t size) {
  ASSIGN_OR_RETURN(const Tensor zeros, Tensor::Filled(dtype, {size}, 0));
  return ToDevice(backend, zeros);
}

absl::Status CheckWeighted(Backend& backend, const Weighted& weighted) {
  ASSIGN_OR_RETURN(Tensor value,
                   NewTensor(backend, weighted.dtype, weighted.num_elements));
  const size_t size = weighted.contributions.size();
  RETURN_IF_ERROR(Apply(backend, weighted, 0, size, {}, weighted.total,
                        value.mutable_view()));
  ASSIGN_OR_RETURN(const Tensor mean, ToHost(backend, value));
  for (int64_t i = 0; i < weighted.num_elements; ++i) {
    const double expected = ExpectedAt(weighted, i);
    const double actual =
        IsFloat(weighted.dtype) ? FloatAt(mean, i) : IntegerOf(mean, i);
    // The largest integers of 64 bits are no f64.
    if (actual == expected || (expected >= 0x1p63 && actual >= 0x1p63)) {
      continue;
    }
    return absl::DataLossError(absl::StrCat(
        NameOf(weighted.dtype), "[", weighted.num_elements, "], of ", size,
        ", element ", i, ": expected ", expected, ", got ", actual));
  }
  if (!IsFloat(weighted.dtype) || size < 2) return absl::OkStatus();
  // Some are summed ahead.
  ASSIGN_OR_RETURN(Tensor sum,
                   NewTensor(backend, AccumulateType(weighted.dtype),
                             weighted.num_elements));
  RETURN_IF_ERROR(
      Apply(backend, weighted, 0, size / 2, {}, 0, sum.mutable_view()));
  RETURN_IF_ERROR(Apply(backend, weighted, size / 2, size, {sum.view()},
                        weighted.total, value.mutable_view()));
  ASSIGN_OR_RETURN(const Tensor again, ToHost(backend, value));
  if (std::memcmp(again.data(), mean.data(), mean.size_bytes()) == 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("summed ahead: ", NameOf(weighted.dtype), " of ", size));
}

// Compares what a rule makes of contributions with weights with what it makes
// of their mean.
absl::Status CheckRule(Backend& backend, const UpdateCase& update_case) {
  const std::vector<double> weights = {3, 0.5, 1, 20, 7};
  const ContributionWeights of_all = {.each = weights, .total = 33};
  const auto weigh = [&](TensorUpdate& update) { update.weights = &of_all; };
  ASSIGN_OR_RETURN(DeviceUpdate weighted,
                   DeviceUpdate::Create(backend, update_case));
  TensorUpdate update = weighted.view();
  weigh(update);
  ASSIGN_OR_RETURN(Tensor mean,
                   NewTensor(backend, AccumulateType(update_case.dtype),
                             update_case.num_elements));
  const UpdateRule assign;
  TensorUpdate of_mean = {.rule = &assign,
                          .contributions = update.contributions,
                          .value = mean.mutable_view()};
  weigh(of_mean);
  RETURN_IF_ERROR(backend.Apply({of_mean}));
  RETURN_IF_ERROR(backend.Apply({update}));

  ASSIGN_OR_RETURN(DeviceUpdate plain,
                   DeviceUpdate::Create(backend, update_case));
  const TensorView contribution = mean.view();
  update = plain.view();
  update.contributions = {&contribution, 1};
  RETURN_IF_ERROR(backend.Apply({update}));

  ASSIGN_OR_RETURN(const std::string bits, weighted.ResultBytes(backend));
  ASSIGN_OR_RETURN(const std::string expected, plain.ResultBytes(backend));
  if (bits == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("weighted: ", update_case.ToString()));
}

absl::Status CheckRules(Backend& backend) {
  size_t number = 0;
  for (const OracleRule& rule : OracleRules()) {
    RETURN_IF_ERROR(
        CheckRule(backend, {.rule = &rule,
                            .dtype = kFloats[number++ % std::size(kFloats)],
                            .contribution_dtypes = {DType::kF32, DType::kF64},
                            .num_contributions = 5,
                            .num_elements = 1031,
                            .update_count = 2}));
  }
  return absl::OkStatus();
}

absl::Status CheckAll(Backend& backend) {
  std::mt19937_64 random(1);
  // One size is more than a block, and one is of several parts.
  for (const int64_t num_elements : {1, 9, 1031}) {
    for (const uint32_t size : {1, 2, 5, 9}) {
      for (const DType dtype : kFloats) {
        RETURN_IF_ERROR(CheckWeighted(
            backend, AnyWeighted(dtype, num_elements, size, random)));
      }
      for (const DType dtype : kIntegers) {
        RETURN_IF_ERROR(CheckWeighted(
            backend, AnyWeighted(dtype, num_elements, size, random)));
      }
    }
  }
  RETURN_IF_ERROR(
      CheckWeighted(backend, AnyWeighted(DType::kBF16, 70'001, 3, random)));
  return CheckRules(backend);
}

}  // namespace weighted_updates

absl::Status CheckWeightedUpdates(Backend& backend) {
  return weighted_updates::CheckAll(backend);
}

}  // namespace tensorkv::testing
