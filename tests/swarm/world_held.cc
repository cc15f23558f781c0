// Readers that hold values, and are told what has changed since; and pushes of
// what has changed.

#include <cstddef>
#include <cstdint>
#include <map>
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

// Returns a delta, be it smaller than the whole or not.
std::string DeltaOf(const Tensor& from, const Tensor& to) {
  DeltaEncoder encoder(from.view(), to.view(), DeltaEncodings::All());
  DeltaScratch scratch;
  for (size_t i = 0; i < encoder.num_blocks(); ++i) {
    encoder.EncodeBlock(i, scratch);
  }
  std::string delta(encoder.size_bytes(), '\0');
  encoder.Write(delta.data());
  return delta;
}

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

// Some push what has changed since a value that was read, which the key may
// have no more; and some what is no delta.
void World::MakeDeltas(const Action& action, PushRequest& request) const {
  const Space& space = spaces_[action.space];
  Random random(~uint64_t{action.number});
  if (space.plan.is_group() || space.plan.rule != Rule::kAssign ||
      space.plan.has_means() || random.OneIn(2)) {
    return;
  }
  request.with_tokens = random.OneIn(4);
  std::map<std::string, int> num_entries;
  for (const PushEntry& entry : request.entries) ++num_entries[entry.key];
  for (PushEntry& entry : request.entries) {
    const auto held = held_.find({action.space, KeyOf(entry.key)});
    if (held == held_.end() || entry.skip || entry.encoding || entry.rows ||
        num_entries[entry.key] > 1) {
      continue;
    }
    const std::vector<std::string>& tokens = held->second;
    const std::string& base =
        random.OneIn(4) ? tokens[random.Below(tokens.size())] : tokens.back();
    const Tensor& from = by_token_.at(base);
    if (from.dtype() != entry.tensor.dtype()) continue;
    auto delta = MakeRefCounted<PushedDelta>();
    delta->base = base;
    delta->digest = DigestOf(entry.tensor.view());
    if (random.OneIn(8)) delta->digest ^= 1;
    std::string bytes = DeltaOf(from, entry.tensor);
    if (random.OneIn(8)) bytes.resize(random.Below(bytes.size()));
    entry.tensor = *Tensor::CopyOf(
        DType::kU8, {static_cast<int64_t>(bytes.size())}, bytes.data());
    entry.delta = std::move(delta);
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
