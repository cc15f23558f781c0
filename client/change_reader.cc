#include "client/change_reader.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "contract/snapshot_references.h"
#include "tensor/delta/delta_decoder.h"

namespace tensorkv {

absl::StatusOr<PullReply> ChangeReader::Pull(Client& client,
                                             PullRequest request) {
  PullChanges& changes = request.changes.emplace();
  changes.add_encodings(v1::DELTA_ENCODING_SPARSE);
  changes.add_encodings(v1::DELTA_ENCODING_XOR_ZSTD);
  changes.add_encodings(v1::DELTA_ENCODING_ONE_ULP);
  changes.add_encodings(v1::DELTA_ENCODING_ONE_ULP_ZSTD);
  Show(request);
  ASSIGN_OR_RETURN(PullReply reply, client.Pull(request));
  ASSIGN_OR_RETURN(bool is_complete, Complete(request, reply));
  if (!is_complete) {
    for (PullEntry& entry : request.entries) entry.held.clear();
    if (reply.snapshot_number > 0) {
      request.at = SnapshotOf(request.at->series(), reply.snapshot_number);
    }
    ASSIGN_OR_RETURN(reply, client.Pull(request));
    ASSIGN_OR_RETURN(is_complete, Complete(request, reply));
    if (!is_complete) {
      return absl::InternalError("a value that nobody holds came as a change");
    }
  }
  Hold(request, reply);
  return reply;
}

void ChangeReader::Show(PullRequest& request) const {
  for (PullEntry& entry : request.entries) {
    const auto held = held_.find(entry.key);
    if (held != held_.end()) entry.held = held->second.token;
  }
}

absl::StatusOr<bool> ChangeReader::Complete(const PullRequest& request,
                                            PullReply& reply) {
  if (reply.values.size() != request.entries.size()) return false;
  for (size_t i = 0; i < reply.values.size(); ++i) {
    ASSIGN_OR_RETURN(const bool is_complete,
                     Complete(request.entries[i], reply.values[i]));
    if (!is_complete) return false;
  }
  return true;
}

absl::StatusOr<bool> ChangeReader::Complete(const PullEntry& entry,
                                            Value& value) {
  const bool is_in_slices = value.change && !value.change->slices.empty();
  if (!is_in_slices) counts_.bytes += value.tensor.size_bytes();
  if (value.is_whole()) {
    ++counts_.wholes;
    return true;
  }
  const auto found = held_.find(entry.key);
  if (entry.held.empty() || found == held_.end()) return false;
  const Tensor& held = found->second.value;
  if (value.change->unchanged) {
    ++counts_.unchanged;
    value.tensor = held;
    return true;
  }
  if (!value.change->slices.empty()) return CompleteSlices(held, value);
  ASSIGN_OR_RETURN(Tensor whole, Tensor::Allocate(held.dtype(), held.shape()));
  if (!Decode(*value.change->delta, value.tensor, held.view(),
              whole.mutable_view())) {
    return false;
  }
  value.tensor = std::move(whole);
  return true;
}

bool ChangeReader::Decode(const Delta& delta, const Tensor& bytes,
                          TensorView held, MutableTensorView out) {
  const absl::Status status =
      DecodeDelta({bytes.data(), static_cast<size_t>(bytes.size_bytes())},
                  delta.digest, held, out);
  ++(status.ok() ? counts_.deltas : counts_.rejected);
  return status.ok();
}

bool ChangeReader::CompleteSlices(const Tensor& held, Value& value) {
  Tensor& whole = value.tensor;
  if (held.dtype() != whole.dtype() || held.shape() != whole.shape()) {
    return false;
  }
  const size_t element_bytes = SizeOf(whole.dtype());
  size_t begin = 0;
  for (const SliceChange& slice : value.change->slices) {
    const size_t bytes = slice.size_bytes;
    const char* const from = held.data() + begin;
    char* const to = whole.mutable_data() + begin;
    begin += bytes;
    if (slice.unchanged) {
      ++counts_.unchanged;
      std::memcpy(to, from, bytes);
    } else if (slice.delta) {
      counts_.bytes += slice.tensor.size_bytes();
      const auto num_elements = static_cast<int64_t>(bytes / element_bytes);
      if (!Decode(*slice.delta, slice.tensor,
                  {held.dtype(), num_elements, from},
                  {held.dtype(), num_elements, to})) {
        return false;
      }
    } else {
      ++counts_.wholes;
      counts_.bytes += bytes;
    }
  }
  return true;
}

void ChangeReader::Hold(const PullRequest& request, PullReply& reply) {
  held_.clear();
  for (size_t i = 0; i < reply.values.size(); ++i) {
    Value& value = reply.values[i];
    if (!value.change || value.change->token.empty()) continue;
    held_[request.entries[i].key] = {value.change->token, value.tensor};
    value.change = nullptr;
  }
}

}  // namespace tensorkv
