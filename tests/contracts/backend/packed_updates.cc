#include "tests/contracts/backend/packed_updates.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/unpack.h"
#include "tensor/packing.h"
#include "tests/contracts/backend/exact_elements.h"
#include "tests/testing/device_tensors.h"

namespace tensorkv::testing {
namespace {

constexpr DType kFloats[] = {DType::kF32,  DType::kF64,      DType::kF16,
                             DType::kBF16, DType::kF8E4M3FN, DType::kF8E5M2};

uint8_t NumberOf(DType dtype) { return static_cast<uint8_t>(dtype); }

// Every kind with every element type and width, for `size` elements.
std::vector<Packing> Packings(uint64_t size) {
  std::vector<Packing> packings = {
      {.kind = PackingKind::kTwoBit, .scale = 0.3f},
      {.kind = PackingKind::kOneBit, .scale = 0.7f},
      {.kind = PackingKind::kTopK, .element_dtype = 1},
      {.kind = PackingKind::kTopK, .element_dtype = 1, .count = size}};
  for (const DType dtype : kFloats) {
    packings.push_back({.kind = PackingKind::kTopK,
                        .element_dtype = NumberOf(dtype),
                        .count = (size + 2) / 3});
    packings.push_back({.kind = PackingKind::kRandomK,
                        .element_dtype = NumberOf(dtype),
                        .block_size = 7,
                        .seed = 0x0123456789abcdef});
  }
  for (const uint8_t bits : {2, 4, 8}) {
    for (const bool is_natural : {false, true}) {
      packings.push_back({.kind = PackingKind::kDithering,
                          .bits = bits,
                          .is_natural = is_natural,
                          .scale = 0.9f});
    }
  }
  for (const DType dtype : {DType::kI8, DType::kF8E4M3FN, DType::kF8E5M2}) {
    packings.push_back({.kind = PackingKind::kBlocks,
                        .element_dtype = NumberOf(dtype),
                        .block_size = 100});
  }
  for (Packing& packing : packings) packing.num_elements = size;
  return packings;
}

void SetNumbers(DType dtype, int64_t count, char* out,
                std::mt19937_64& random) {
  Tensor numbers = *Tensor::Allocate(dtype, {count});
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int64_t i = 0; i < count; ++i) SetFloat(numbers, i, uniform(random));
  if (count > 0) std::memcpy(out, numbers.data(), numbers.size_bytes());
}

// A payload of any codes and elements, with indices and scales that are valid.
Tensor PayloadOf(const Packing& packing, std::mt19937_64& random) {
  const auto size = static_cast<int64_t>(packing.num_elements);
  const auto dtype = static_cast<DType>(packing.element_dtype);
  // Room for the longest.
  Tensor payload = *Tensor::Allocate(DType::kU8, {64 + 16 * size});
  char* const bytes = payload.mutable_data();
  // Any byte is a code, or an element that is small enough.
  for (int64_t i = 0; i < payload.num_elements(); ++i) {
    bytes[i] = static_cast<char>(random() % 0x70);
  }
  switch (packing.kind) {
    case PackingKind::kTopK: {
      std::vector<uint32_t> indices;
      for (uint32_t i = 0; i < size; ++i) indices.push_back(i);
      std::shuffle(indices.begin(), indices.end(), random);
      std::sort(indices.begin(), indices.begin() + packing.count);
      std::memcpy(bytes, indices.data(), packing.count * sizeof(uint32_t));
      SetNumbers(dtype, packing.count, bytes + TopKValuesOffset(packing),
                 random);
      break;
    }
    case PackingKind::kRandomK:
      SetNumbers(dtype, NumBlocks(packing), bytes, random);
      break;
    case PackingKind::kBlocks:
      SetNumbers(DType::kF32, NumBlocks(packing), bytes, random);
      break;
    default:
      for (int64_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(random());
  }
  return payload;
}

// What the payload decodes to, one element at a time.
template <typename T>
Tensor Unpacked(const Packing& packing, const Tensor& payload, DType dtype) {
  const auto size = static_cast<int64_t>(packing.num_elements);
  Tensor elements = *Tensor::Allocate(dtype, {size});
  for (int64_t i = 0; i < size; ++i) {
    elements.mutable_elements<T>()[i] =
        ops::UnpackElement<T>(packing, payload.data(), i);
  }
  return elements;
}

// The bits of a value after one update.
absl::StatusOr<std::string> Updated(
    Backend& backend, const UpdateRule& rule, const Tensor& stored,
    const std::vector<Tensor>& contributions,
    const std::vector<const Packing*>& packings) {
  ASSIGN_OR_RETURN(Tensor value, ToDevice(backend, stored));
  std::vector<Tensor> on_device;
  std::vector<TensorView> views;
  for (size_t i = 0; i < contributions.size(); ++i) {
    ASSIGN_OR_RETURN(Tensor moved, ToDevice(backend, contributions[i]));
    TensorView view = moved.view();
    if (!packings.empty() && packings[i] != nullptr) {
      view.dtype = DType::kF32;
      view.num_elements = stored.num_elements();
    }
    views.push_back(view);
    on_device.push_back(std::move(moved));
  }
  RETURN_IF_ERROR(backend.Apply({{.rule = &rule,
                                  .stored = value.view(),
                                  .contributions = views,
                                  .packings = packings,
                                  .value = value.mutable_view()}}));
  ASSIGN_OR_RETURN(const Tensor result, ToHost(backend, value));
  return std::string(result.data(), result.size_bytes());
}

absl::Status CheckPacked(Backend& backend, const UpdateRule& rule, DType dtype,
                         const Packing& packing, std::mt19937_64& random) {
  const auto size = static_cast<int64_t>(packing.num_elements);
  const Tensor payload = PayloadOf(packing, random);
  const Tensor unpacked = AccumulateType(dtype) == DType::kF64
                              ? Unpacked<double>(packing, payload, DType::kF64)
                              : Unpacked<float>(packing, payload, DType::kF32);
  Tensor plain = *Tensor::Allocate(DType::kF16, {size});
  SetNumbers(DType::kF16, size, plain.mutable_data(), random);
  Tensor stored = *Tensor::Allocate(dtype, {size});
  SetNumbers(dtype, size, stored.mutable_data(), random);
  const Packing* const p = &packing;
  const std::vector<std::vector<const Packing*>> orders = {
      {p}, {p, nullptr, p}, {nullptr, p}, {nullptr, nullptr, p, nullptr}};
  for (const auto& packings : orders) {
    std::vector<Tensor> packed;
    std::vector<Tensor> expected;
    for (const Packing* each : packings) {
      packed.push_back(each != nullptr ? payload : plain);
      expected.push_back(each != nullptr ? unpacked : plain);
    }
    ASSIGN_OR_RETURN(const std::string expected_bits,
                     Updated(backend, rule, stored, expected, {}));
    ASSIGN_OR_RETURN(const std::string bits,
                     Updated(backend, rule, stored, packed, packings));
    if (bits == expected_bits) continue;
    return absl::DataLossError(absl::StrCat(
        rule.spec().ToString(), " of ", packings.size(), " on ", NameOf(dtype),
        "[", size, "]: packing ", static_cast<int>(packing.kind), " of dtype ",
        packing.element_dtype, ", ", packing.bits, " bits"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPackedUpdates(Backend& backend) {
  std::mt19937_64 random(1);
  const UpdateRule assign;
  ASSIGN_OR_RETURN(
      UpdateRule accumulate,
      UpdateRule::Create({.name = "accumulate", .keep_master = false}));
  // The dtypes take turns: each packing meets all of them in one of the sizes.
  size_t number = 0;
  for (const uint64_t size : {1, 7, 9, 1031}) {
    for (const Packing& packing : Packings(size)) {
      const DType dtype = kFloats[number % 6];
      const DType other = kFloats[(number + 3) % 6];
      ++number;
      RETURN_IF_ERROR(CheckPacked(backend, assign, dtype, packing, random));
      RETURN_IF_ERROR(CheckPacked(backend, accumulate, other, packing, random));
    }
  }
  const Packing large = {
      .kind = PackingKind::kTwoBit, .scale = 0.5f, .num_elements = 70'001};
  return CheckPacked(backend, accumulate, DType::kF32, large, random);
}

}  // namespace tensorkv::testing
