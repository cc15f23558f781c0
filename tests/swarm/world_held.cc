// Readers that hold values, and are told what has changed since.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensor/delta/delta_decoder.h"
#include "tensor/delta/delta_encoder.h"
#include "tests/swarm/elements.h"
#include "tests/swarm/random.h"
#include "tests/swarm/world.h"

namespace tensorkv::swarm {
namespace {

// Readers show one of the values of a key that were read last.
constexpr size_t kMostHeld = 4;

}  // namespace

void World::ShowHeld(const Action& action, PullRequest& request) const {
  if (action.how / 4 % 2 == 0) return;
  request.changes.emplace();
  for (int i = 0; i < kNumDeltaEncodings; ++i) {
    request.changes->add_encodings(static_cast<v1::DeltaEncoding>(i));
  }
  Random random(action.number);
  for (PullEntry& entry : request.entries) {
    // At times that of another key.
    const uint32_t key =
        random.OneIn(8) ? random.Below(kNumKeys) : KeyOf(entry.key);
    const auto held = held_.find({action.space, key});
    if (held == held_.end()) continue;
    entry.held = held->second[random.Below(held->second.size())];
  }
}

PullReply World::MakeWhole(uint32_t at, const PullRequest& request,
                           PullReply reply) {
  if (!request.changes) return reply;
  for (size_t i = 0; i < reply.values.size(); ++i) {
    const PullEntry& entry = request.entries[i];
    Value& value = reply.values[i];
    if (!value.change || value.change->token.empty()) {
      Find(absl::StrCat("a value without a token: ", entry.key));
      continue;
    }
    const ValueChange& change = *value.change;
    if (!value.is_whole()) {
      const auto found = by_token_.find(entry.held);
      if (found == by_token_.end()) {
        Find(absl::StrCat("a change of what nobody holds: ", entry.key));
        continue;
      }
      const Tensor& held = found->second;
      Tensor whole = CopyOf(held);
      if (change.delta &&
          !DecodeDelta({value.tensor.data(),
                        static_cast<size_t>(value.tensor.size_bytes())},
                       change.delta->digest, held.view(), whole.mutable_view())
               .ok()) {
        Find(absl::StrCat("a wrong delta: ", entry.key, " version ",
                          value.version));
      }
      value.tensor = std::move(whole);
    }
    const auto [known, is_new] =
        by_token_.try_emplace(change.token, CopyOf(value.tensor));
    if (!is_new) {
      if (DigestOf(known->second.view()) != DigestOf(value.tensor.view())) {
        Find(absl::StrCat("one token names two values: ", entry.key,
                          " version ", value.version));
      }
      continue;
    }
    std::vector<std::string>& held = held_[{at, KeyOf(entry.key)}];
    held.push_back(change.token);
    if (held.size() > kMostHeld) held.erase(held.begin());
  }
  return reply;
}

}  // namespace tensorkv::swarm
