#include "client/worker_attempt.h"

#include <algorithm>
#include <utility>

namespace tensorkv {
namespace {

bool HasRows(const std::vector<PushEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(),
                     [](const PushEntry& entry) { return bool{entry.rows}; });
}

}  // namespace

absl::StatusOr<PushReply> PushOnce(Client& client, const Worker& worker,
                                   Step step, std::vector<PushEntry> entries) {
  const PushOptions options = {
      .step = step, .is_encoded = true, .worker = worker};
  return HasRows(entries) ? client.PushRows(std::move(entries), options)
                          : client.Push(std::move(entries), options);
}

absl::Status AwaitRound(const Worker& worker, Step step,
                        const std::vector<PushEntry>& entries, Client waiter) {
  // There is no such call for rows; this one waits for later steps, too.
  if (HasRows(entries)) return waiter.Pull(KeysOf(entries)).status();
  return waiter
      .PushPull(entries, {.step = step, .is_encoded = true, .worker = worker})
      .status();
}

}  // namespace tensorkv
