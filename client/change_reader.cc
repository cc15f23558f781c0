#include "client/change_reader.h"

#include <utility>

#include "base/status_macros.h"
#include "contract/snapshot_references.h"
#include "tensor/delta/delta_decoder.h"

namespace tensorkv {

absl::StatusOr<PullReply> ChangeReader::Pull(PullRequest request) {
  PullChanges& changes = request.changes.emplace();
  changes.add_encodings(v1::DELTA_ENCODING_SPARSE);
  changes.add_encodings(v1::DELTA_ENCODING_XOR_ZSTD);
  changes.add_encodings(v1::DELTA_ENCODING_ONE_ULP);
  changes.add_encodings(v1::DELTA_ENCODING_ONE_ULP_ZSTD);
  Show(request);
  ASSIGN_OR_RETURN(PullReply reply, client_.PullLent(request));
  ASSIGN_OR_RETURN(bool is_complete, Complete(request, reply));
  if (!is_complete) {
    for (PullEntry& entry : request.entries) entry.held.clear();
    if (reply.snapshot_number > 0) {
      request.at = SnapshotOf(request.at->series(), reply.snapshot_number);
    }
    ASSIGN_OR_RETURN(reply, client_.PullLent(request));
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
  counts_.bytes += value.tensor.size_bytes();
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
  ASSIGN_OR_RETURN(Tensor whole, Tensor::Allocate(held.dtype(), held.shape()));
  const absl::Status status = DecodeDelta(
      {value.tensor.data(), static_cast<size_t>(value.tensor.size_bytes())},
      value.change->delta->digest, held.view(), whole.mutable_view());
  if (!status.ok()) {
    ++counts_.rejected;
    return false;
  }
  ++counts_.deltas;
  value.tensor = std::move(whole);
  return true;
}

void ChangeReader::Hold(const PullRequest& request, PullReply& reply) {
  for (size_t i = 0; i < reply.values.size(); ++i) {
    Value& value = reply.values[i];
    if (!value.change || value.change->token.empty()) continue;
    held_[request.entries[i].key] = {value.change->token, value.tensor};
    value.change = nullptr;
  }
}

}  // namespace tensorkv
