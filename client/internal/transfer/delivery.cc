#include "client/internal/transfer/delivery.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "tensor/buffer.h"

namespace tensorkv {
namespace {

bool HasMemory(const Destination& destination) {
  return destination.memory.data() != nullptr;
}

// Returns whether the value goes there. What has changed goes nowhere.
bool IsFor(const Destination& destination, const Value& value) {
  return HasMemory(destination) && value.is_whole();
}

bool Fits(const Destination& destination, const Value& value) {
  if (!IsFor(destination, value)) return true;
  return destination.dtype == value.tensor.dtype() &&
         destination.shape == value.tensor.shape();
}

void SetMemory(const Destination& destination, Tensor& tensor) {
  const absl::Span<char> memory = destination.memory;
  tensor.SetBuffer(
      MakeRefCounted<AdoptedBuffer>(memory.data(), memory.size(), [] {}), 0);
}

absl::Status OutDoesNotFit(absl::string_view key, absl::string_view expected,
                           const Destination& destination) {
  return absl::InvalidArgumentError(
      absl::StrCat("out of key \"", key, "\": expected ", expected, ", got ",
                   Description(destination.dtype, destination.shape)));
}

}  // namespace

absl::Status CheckDestinations(absl::Span<const Destination> destinations,
                               size_t num_entries) {
  if (destinations.size() != num_entries) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", num_entries, " destinations, one per key, ",
                     "got ", destinations.size()));
  }
  for (const Destination& destination : destinations) {
    const auto& [dtype, shape, memory] = destination;
    const size_t size_bytes = shape.num_elements() * SizeOf(dtype);
    if (!HasMemory(destination) || memory.size() == size_bytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("destination of ", Description(dtype, shape),
                     ": expected ", size_bytes, " bytes, got ", memory.size()));
  }
  return absl::OkStatus();
}

absl::Status CheckContributions(const PushPullRequest& request,
                                absl::Span<const Destination> destinations) {
  for (size_t i = 0; i < destinations.size(); ++i) {
    const PushEntry& entry = request.entries[i];
    // The ids of rows say how many are read; who skips brings no shape.
    if (!HasMemory(destinations[i]) || entry.skip || entry.rows) continue;
    const DType dtype = destinations[i].dtype;
    DType expected = request.dtype;
    if (expected == DType::kUnknown) {
      const bool both_float = IsFloat(entry.dtype()) && IsFloat(dtype);
      expected = both_float ? dtype : entry.dtype();
    }
    if (dtype == expected && destinations[i].shape == entry.shape()) continue;
    return OutDoesNotFit(entry.key, Description(expected, entry.shape()),
                         destinations[i]);
  }
  return absl::OkStatus();
}

void PlaceInto(absl::Span<const Destination> destinations,
               absl::Span<Value> values) {
  if (destinations.size() != values.size()) return;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!Fits(destinations[i], values[i])) return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsFor(destinations[i], values[i])) {
      SetMemory(destinations[i], values[i].tensor);
    }
  }
}

absl::Status Deliver(absl::Span<const Destination> destinations,
                     absl::FunctionRef<absl::string_view(size_t)> key_of,
                     std::vector<Value>& values) {
  for (size_t i = 0; i < destinations.size(); ++i) {
    if (Fits(destinations[i], values[i])) continue;
    return OutDoesNotFit(key_of(i), values[i].tensor.Description(),
                         destinations[i]);
  }
  for (size_t i = 0; i < destinations.size(); ++i) {
    Tensor& tensor = values[i].tensor;
    if (!IsFor(destinations[i], values[i])) continue;
    char* const memory = destinations[i].memory.data();
    if (tensor.data() == memory || tensor.num_elements() == 0) continue;
    // Values of a store in process, or in an unusual form, are elsewhere.
    std::memcpy(memory, tensor.data(), tensor.size_bytes());
    SetMemory(destinations[i], tensor);
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
