#include "bench/data_path/peers/payload.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv::bench {
namespace {

// What repeats in large tensors: numbers take longer to make than to copy.
constexpr size_t kPatternElements = 256 << 10;

absl::StatusOr<Tensor> Allocate(int64_t size_bytes) {
  return Tensor::Allocate(DType::kF32,
                          {size_bytes / static_cast<int64_t>(sizeof(float))});
}

}  // namespace

absl::StatusOr<Tensor> MakeValues(int64_t size_bytes) {
  ASSIGN_OR_RETURN(Tensor tensor, Allocate(size_bytes));
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

absl::StatusOr<Tensor> MakeRoom(int64_t size_bytes) {
  ASSIGN_OR_RETURN(Tensor tensor, Allocate(size_bytes));
  std::memset(tensor.mutable_data(), 0, size_bytes);
  return tensor;
}

absl::StatusOr<Payload> MakePayload(const Workload& workload) {
  Payload payload;
  ASSIGN_OR_RETURN(payload.values, MakeValues(workload.bytes_per_lane()));
  for (int lane = 0; workload.pulls() && lane < workload.in_flight; ++lane) {
    ASSIGN_OR_RETURN(Tensor room, MakeRoom(workload.bytes_per_lane()));
    payload.rooms.push_back(std::move(room));
  }
  return payload;
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
