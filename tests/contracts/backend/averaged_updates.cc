#include "tests/contracts/backend/averaged_updates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
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
namespace averaged_updates {

constexpr DType kFloats[] = {DType::kF32,  DType::kF64,      DType::kF16,
                             DType::kBF16, DType::kF8E4M3FN, DType::kF8E5M2};

constexpr float kThreshold = 0.375f;

// Contributions and what they are: plain elements, or 2-bit codes.
struct Averaged {
  DType dtype;  // of the value
  int64_t num_elements;
  uint32_t num_averaged;
  std::vector<Tensor> contributions;
  std::vector<bool> is_packed;
};

double AnyNumber(std::mt19937_64& random) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kSpecial[] = {NAN, kInf, -kInf, 0.0,      -0.0,
                                 1.0, 1.0,  -1.0,  0x1p-149, 300.0};
  if (random() % 3 == 0) return kSpecial[random() % std::size(kSpecial)];
  return std::normal_distribution<double>()(random);
}

Tensor AnyContribution(DType dtype, int64_t num_elements, bool is_packed,
                       std::mt19937_64& random) {
  if (is_packed) {
    Tensor codes = *Tensor::Allocate(DType::kU8, {(num_elements + 3) / 4});
    for (uint8_t& code : codes.mutable_elements<uint8_t>()) {
      code = static_cast<uint8_t>(random());
    }
    return codes;
  }
  Tensor numbers = *Tensor::Allocate(dtype, {num_elements});
  for (int64_t i = 0; i < num_elements; ++i) {
    SetFloat(numbers, i, AnyNumber(random));
  }
  return numbers;
}

Averaged AnyAveraged(DType dtype, int64_t num_elements, uint32_t size,
                     uint32_t num_averaged, std::mt19937_64& random) {
  Averaged averaged = {dtype, num_elements, num_averaged, {}, {}};
  for (uint32_t k = 0; k < size; ++k) {
    averaged.is_packed.push_back(random() % 5 == 0);
    averaged.contributions.push_back(
        AnyContribution(kFloats[random() % std::size(kFloats)], num_elements,
                        averaged.is_packed.back(), random));
  }
  return averaged;
}

double ElementOf(const Averaged& averaged, size_t contribution, int64_t i) {
  const Tensor& tensor = averaged.contributions[contribution];
  if (!averaged.is_packed[contribution]) return FloatAt(tensor, i);
  const uint8_t byte = tensor.elements<uint8_t>()[i / 4];
  constexpr double kValues[] = {0, 0, -kThreshold, kThreshold};
  return kValues[byte >> (6 - 2 * (i % 4)) & 3];
}

// A sum of two numbers of the accumulate type in f64, and a quotient, rounded
// again, are those of that type.
double ExpectedAt(const Averaged& averaged, int64_t i) {
  const DType accumulate = AccumulateType(averaged.dtype);
  const size_t size = averaged.contributions.size();
  std::vector<double> numbers;
  for (size_t k = 0; k < size; ++k) {
    numbers.push_back(RoundTo(accumulate, ElementOf(averaged, k, i)));
  }
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (std::isnan(numbers[a])) return false;
    return std::isnan(numbers[b]) || numbers[a] < numbers[b];
  });
  const size_t num_left_out = (size - averaged.num_averaged) / 2;
  std::vector<size_t> kept(order.begin() + num_left_out,
                           order.end() - num_left_out);
  std::sort(kept.begin(), kept.end());
  double sum = numbers[kept[0]];
  for (size_t k = 1; k < kept.size(); ++k) {
    sum = RoundTo(accumulate, sum + numbers[kept[k]]);
  }
  return RoundTo(averaged.dtype,
                 RoundTo(accumulate, sum / averaged.num_averaged));
}

absl::StatusOr<Tensor> Updated(Backend& backend, const Averaged& averaged) {
  const UpdateRule assign;
  const int64_t num_elements = averaged.num_elements;
  const Packing packing = {.kind = PackingKind::kTwoBit,
                           .scale = kThreshold,
                           .num_elements = static_cast<uint64_t>(num_elements)};
  ASSIGN_OR_RETURN(const Tensor empty,
                   Tensor::Filled(averaged.dtype, {num_elements}, 0));
  ASSIGN_OR_RETURN(Tensor value, ToDevice(backend, empty));
  std::vector<Tensor> on_device;
  std::vector<TensorView> views;
  std::vector<const Packing*> packings;
  for (size_t k = 0; k < averaged.contributions.size(); ++k) {
    ASSIGN_OR_RETURN(Tensor moved,
                     ToDevice(backend, averaged.contributions[k]));
    TensorView view = moved.view();
    if (averaged.is_packed[k]) view = {DType::kF32, num_elements, view.data};
    views.push_back(view);
    packings.push_back(averaged.is_packed[k] ? &packing : nullptr);
    on_device.push_back(std::move(moved));
  }
  RETURN_IF_ERROR(backend.Apply({{.rule = &assign,
                                  .contributions = views,
                                  .packings = packings,
                                  .num_averaged = averaged.num_averaged,
                                  .value = value.mutable_view()}}));
  return ToHost(backend, value);
}

bool IsSame(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

absl::Status CheckAveraged(Backend& backend, const Averaged& averaged) {
  ASSIGN_OR_RETURN(const Tensor value, Updated(backend, averaged));
  for (int64_t i = 0; i < averaged.num_elements; ++i) {
    const double expected = ExpectedAt(averaged, i);
    if (IsSame(FloatAt(value, i), expected)) continue;
    return absl::DataLossError(absl::StrCat(
        NameOf(averaged.dtype), "[", averaged.num_elements, "], ",
        averaged.num_averaged, " of ", averaged.contributions.size(),
        ", element ", i, ": expected ", expected, ", got ", FloatAt(value, i)));
  }
  return absl::OkStatus();
}

// The mean of the middle of a case's contributions, in its accumulate dtype.
absl::StatusOr<Tensor> MeanOf(Backend& backend, absl::Span<const TensorView> of,
                              DType dtype, uint32_t num_averaged) {
  const UpdateRule assign;
  ASSIGN_OR_RETURN(const Tensor empty,
                   Tensor::Filled(dtype, {of[0].num_elements}, 0));
  ASSIGN_OR_RETURN(Tensor mean, ToDevice(backend, empty));
  RETURN_IF_ERROR(backend.Apply({{.rule = &assign,
                                  .contributions = of,
                                  .num_averaged = num_averaged,
                                  .value = mean.mutable_view()}}));
  return mean;
}

// Compares what a rule makes of contributions that it averages with what it
// makes of their mean.
absl::Status CheckRule(Backend& backend, const UpdateCase& update_case) {
  constexpr uint32_t kNumAveraged = 3;
  ASSIGN_OR_RETURN(DeviceUpdate averaged,
                   DeviceUpdate::Create(backend, update_case));
  TensorUpdate update = averaged.view();
  update.num_averaged = kNumAveraged;
  ASSIGN_OR_RETURN(const Tensor mean,
                   MeanOf(backend, update.contributions,
                          AccumulateType(update_case.dtype), kNumAveraged));
  RETURN_IF_ERROR(backend.Apply({update}));

  ASSIGN_OR_RETURN(DeviceUpdate plain,
                   DeviceUpdate::Create(backend, update_case));
  const TensorView contribution = mean.view();
  update = plain.view();
  update.contributions = {&contribution, 1};
  RETURN_IF_ERROR(backend.Apply({update}));

  ASSIGN_OR_RETURN(const std::string bits, averaged.ResultBytes(backend));
  ASSIGN_OR_RETURN(const std::string expected, plain.ResultBytes(backend));
  if (bits == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("averaged: ", update_case.ToString()));
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
  // The dtypes take turns. One size is more than a block.
  size_t number = 0;
  for (const int64_t num_elements : {1, 9, 300, 1031}) {
    for (const auto& [size, num_averaged] :
         std::vector<std::pair<uint32_t, uint32_t>>{
             {1, 1}, {2, 2}, {3, 1}, {3, 3}, {4, 2}, {5, 3}, {8, 2}, {41, 9}}) {
      const DType dtype = kFloats[number++ % std::size(kFloats)];
      RETURN_IF_ERROR(CheckAveraged(
          backend,
          AnyAveraged(dtype, num_elements, size, num_averaged, random)));
    }
  }
  // More than are in memory at a time; elements of several parts.
  RETURN_IF_ERROR(
      CheckAveraged(backend, AnyAveraged(DType::kF32, 51, 700, 100, random)));
  RETURN_IF_ERROR(
      CheckAveraged(backend, AnyAveraged(DType::kBF16, 70'001, 3, 1, random)));
  return CheckRules(backend);
}

}  // namespace averaged_updates

absl::Status CheckAveragedUpdates(Backend& backend) {
  return averaged_updates::CheckAll(backend);
}

}  // namespace tensorkv::testing
