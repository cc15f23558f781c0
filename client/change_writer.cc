#include "client/change_writer.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "client/internal/steady_now.h"
#include "contract/reason.h"
#include "tensor/delta/delta_encoder.h"

namespace tensorkv {
namespace {

// Returns whether the key has the entry's tensor afterwards, and nothing else.
bool IsWhole(const PushEntry& entry) {
  return !entry.skip && !entry.encoding && !entry.rows && !entry.delta &&
         entry.weight == 1;
}

bool IsDelta(const PushEntry& entry) { return bool{entry.delta}; }

// Smaller tensors go whole: a delta comes with a token and a digest.
constexpr int64_t kLeastDeltaBytes = 1024;

// Returns whether the server takes no such deltas, but perhaps the wholes. In a
// cluster some servers may have taken theirs.
bool AsksForWholes(const absl::Status& status) {
  switch (ReasonOf(status)) {
    case Reason::kBaseChanged:
    case Reason::kDeltaMalformed:
    case Reason::kOutcomeUnknown:
      return true;
    default:
      return absl::IsUnimplemented(status);
  }
}

// Has the entry be the whole of which the error says that its delta is refused.
// Returns false if it names none.
bool ReplaceRefused(const absl::Status& status,
                    const std::vector<PushEntry>& wholes,
                    std::vector<PushEntry>& sent) {
  const auto info = ErrorInfoOf(status);
  if (!info) return false;
  const auto key = info->metadata.find("key");
  if (key == info->metadata.end()) return false;
  for (size_t i = 0; i < sent.size(); ++i) {
    if (!sent[i].delta || sent[i].key != key->second) continue;
    sent[i] = wholes[i];
    return true;
  }
  return false;
}

// Returns what takes `to` from `from`; nothing where the whole is no larger.
std::optional<PushEntry> DeltaEntry(const std::string& key,
                                    const std::string& base, const Tensor& from,
                                    const Tensor& to) {
  const auto bytes = EncodeDelta(from.view(), to.view(), DeltaEncodings::All());
  if (!bytes) return std::nullopt;
  absl::StatusOr<Tensor> tensor = Tensor::CopyOf(
      DType::kU8, {static_cast<int64_t>(bytes->size())}, bytes->data());
  if (!tensor.ok()) return std::nullopt;
  auto delta = MakeRefCounted<PushedDelta>();
  delta->base = base;
  delta->digest = DigestOf(to.view());
  PushEntry entry = {.key = key, .tensor = *std::move(tensor)};
  entry.delta = std::move(delta);
  return entry;
}

}  // namespace

absl::StatusOr<PushReply> ChangeWriter::Push(Client& client,
                                             std::vector<PushEntry> entries,
                                             PushOptions options,
                                             absl::Duration timeout) {
  const absl::Duration end = SteadyNow() + timeout;
  options.is_encoded = true;
  options.with_tokens = true;
  absl::StatusOr<PushReply> reply =
      SendAll(client, entries, DeltasOf(entries), options, end);
  if (reply.ok()) Hold(std::move(entries), *reply);
  return reply;
}

absl::StatusOr<PushReply> ChangeWriter::SendAll(
    const Client& client, const std::vector<PushEntry>& wholes,
    std::vector<PushEntry> sent, const PushOptions& options,
    absl::Duration end) {
  for (bool is_first = true; absl::c_any_of(sent, IsDelta); is_first = false) {
    absl::StatusOr<PushReply> reply = Send(client, sent, options, end);
    if (!AsksForWholes(reply.status())) return reply;
    ++counts_.rejected;
    if (is_first && ReplaceRefused(reply.status(), wholes, sent)) continue;
    sent = wholes;
  }
  return Send(client, std::move(sent), options, end);
}

std::vector<PushEntry> ChangeWriter::DeltasOf(
    const std::vector<PushEntry>& entries) const {
  std::vector<PushEntry> deltas;
  deltas.reserve(entries.size());
  for (const PushEntry& entry : entries) {
    const auto held = held_.find(entry.key);
    if (IsWhole(entry) && held != held_.end() &&
        held->second.value.dtype() == entry.tensor.dtype() &&
        held->second.value.shape() == entry.tensor.shape() &&
        entry.tensor.size_bytes() >= kLeastDeltaBytes) {
      const Held& from = held->second;
      auto delta = DeltaEntry(entry.key, from.token, from.value, entry.tensor);
      if (delta) {
        deltas.push_back(*std::move(delta));
        continue;
      }
    }
    deltas.push_back(entry);
  }
  return deltas;
}

absl::StatusOr<PushReply> ChangeWriter::Send(const Client& client,
                                             std::vector<PushEntry> entries,
                                             const PushOptions& options,
                                             absl::Duration end) {
  const absl::Duration left = end - SteadyNow();
  if (left <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError("a push of what has changed");
  }
  for (const PushEntry& entry : entries) {
    if (entry.skip) continue;
    ++(entry.delta ? counts_.deltas : counts_.wholes);
    counts_.bytes += entry.tensor.size_bytes();
  }
  return client.NoLongerThan(left).Push(std::move(entries), options);
}

// Keeps the tensors that have got tokens. It keeps none of a result that is
// `repeated`, as the key may have somebody else's value by then.
void ChangeWriter::Hold(std::vector<PushEntry> entries, PushReply& reply) {
  for (size_t i = 0; i < entries.size(); ++i) {
    PushEntry& entry = entries[i];
    if (entry.skip) continue;
    const bool has_token = i < reply.results.size() &&
                           !reply.results[i].token.empty() &&
                           !reply.results[i].repeated;
    if (!has_token || !IsWhole(entry)) {
      held_.erase(entry.key);
    } else {
      held_[entry.key] = {std::move(reply.results[i].token),
                          std::move(entry.tensor)};
    }
  }
}

}  // namespace tensorkv
