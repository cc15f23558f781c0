#include "client/internal/transfer/stream_policy.h"

#include <algorithm>

namespace tensorkv {
namespace {

// A part of its own costs about as much as sending so many bytes more: a list
// of tensors that are smaller on average is faster as one message.
constexpr uint64_t kMinMeanPartBytes = 64 << 10;

// Bounds what an entry takes in a message beside its key and its elements: a
// shape of rank 8, numbers, tags and lengths. The request itself has less.
constexpr uint64_t kMaxEntryOverheadBytes = 192;

// Returns what an entry may have of any length besides its key and elements:
// ids of rows, which are in the manifest of a stream, and the name of a state.
uint64_t BytesBesides(const InitEntry&) { return 0; }
uint64_t BytesBesides(const SetStateEntry& entry) { return entry.state.size(); }
uint64_t BytesBesides(const PushEntry& entry) {
  return entry.rows ? entry.rows->tensor().size_bytes() : 0;
}

}  // namespace

template <typename Request>
bool StreamPolicy::ShouldStreamRequest(const Request& request) const {
  uint64_t payload_bytes = 0;
  uint64_t metadata_bytes = request.name_space.size() + kMaxEntryOverheadBytes;
  for (const auto& entry : request.entries) {
    payload_bytes += entry.tensor.size_bytes();
    metadata_bytes +=
        entry.key.size() + BytesBesides(entry) + kMaxEntryOverheadBytes;
  }
  if (payload_bytes + metadata_bytes > max_message_bytes_) return true;
  const uint64_t least_mean = std::min(kMinMeanPartBytes, threshold_bytes_);
  return payload_bytes >= threshold_bytes_ &&
         payload_bytes >= request.entries.size() * least_mean;
}

bool StreamPolicy::ShouldStream(const InitRequest& request) const {
  return ShouldStreamRequest(request);
}

bool StreamPolicy::ShouldStream(const SetStateRequest& request) const {
  return ShouldStreamRequest(request);
}

bool StreamPolicy::ShouldStream(const PushRequest& request) const {
  return ShouldStreamRequest(request);
}

}  // namespace tensorkv
