#include "bench/data_path/workload.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv::bench {
namespace {

// What repeats in large tensors: numbers take longer to make than to copy.
constexpr size_t kPatternElements = 256 << 10;

}  // namespace

absl::string_view NameOf(Verb verb) {
  constexpr absl::string_view kNames[] = {"push", "pull", "pushpull"};
  return kNames[static_cast<int>(verb)];
}

std::string ByteText(int64_t bytes) {
  constexpr absl::string_view kUnits[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  while (unit < 3 && bytes > 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrCat(bytes, kUnits[unit]);
}

std::string SizeText(int64_t bytes_per_key, int64_t num_keys) {
  return absl::StrCat(num_keys == 1 ? "" : absl::StrCat(num_keys, "x"),
                      ByteText(bytes_per_key));
}

std::string KeyText(int lane, int64_t index) {
  return absl::StrCat("k", lane, ".", index);
}

absl::StatusOr<Tensor> MakeValues(int64_t size_bytes) {
  ASSIGN_OR_RETURN(Tensor tensor, MakeZeros(size_bytes));
  const absl::Span<float> elements = tensor.mutable_elements<float>();
  std::minstd_rand random;
  for (float& element : elements.subspan(0, kPatternElements)) {
    element = static_cast<float>(random() % 65'536) / 65'536;
  }
  for (size_t i = kPatternElements; i < elements.size();
       i += kPatternElements) {
    const size_t count = std::min(kPatternElements, elements.size() - i);
    std::copy_n(elements.begin(), count, elements.begin() + i);
  }
  return tensor;
}

absl::StatusOr<Tensor> MakeZeros(int64_t size_bytes) {
  ASSIGN_OR_RETURN(
      Tensor tensor,
      Tensor::Allocate(DType::kF32,
                       {size_bytes / static_cast<int64_t>(sizeof(float))}));
  std::memset(tensor.mutable_data(), 0, size_bytes);
  return tensor;
}

absl::Status CheckEnds(absl::string_view sent, absl::string_view received) {
  if (sent.size() != received.size()) {
    return absl::InternalError(absl::StrCat("expected ", sent.size(),
                                            " bytes, got ", received.size()));
  }
  if (sent.empty() ||
      (sent.front() == received.front() && sent.back() == received.back())) {
    return absl::OkStatus();
  }
  return absl::InternalError("expected the bytes that were sent, got others");
}

}  // namespace tensorkv::bench
