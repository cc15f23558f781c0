// Snapshots that several pushes publish in parts: each part is that of one
// revision, and of one push.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "contract/snapshot_references.h"
#include "tests/swarm/elements.h"
#include "tests/swarm/world.h"

namespace tensorkv::swarm {
namespace {

constexpr uint32_t kNumParts = 2;

// Returns whether parts of that number have prefixes: part i has each second
// key from key i on. Others have the keys of their calls.
bool HasPrefixes(uint64_t number) { return number % 2 == 0; }

}  // namespace

void World::PublishPart(const Action& action, Call& call,
                        PushRequest& request) const {
  const bool applies_at_once =
      spaces_[action.space].plan.config.mode != Mode::kSync;
  if (is_cluster() || !applies_at_once || action.how % 4 != 3) return;
  for (const auto& [key, contribution] : call.contributions) {
    // The key would have the version of another push.
    if (contribution->skips) return;
  }
  const auto next = next_parts_.find(action.space);
  const uint64_t first = next == next_parts_.end() ? 1 : next->second;
  call.part_of = first + (action.number % 4 == 0 ? 1 : 0);
  const uint32_t index = call.part_index = action.how / 4 % kNumParts;
  PublishAs& part = request.publish_as.emplace();
  part.set_series(kPartsSeries);
  part.set_number(call.part_of);
  part.mutable_part()->set_index(index);
  part.mutable_part()->set_count(kNumParts);
  if (action.how / 8 % 4 == 1) part.set_keep_last(2);
  if (action.how / 8 % 4 == 2) part.mutable_time_to_live()->set_seconds(20);
  if (!HasPrefixes(call.part_of)) return;
  for (uint32_t key = index; key < kNumKeys; key += kNumParts) {
    part.add_prefixes(KeyName(key));
  }
}

void World::PassPart(const Call& call) {
  if (call.part_of == 0) return;
  uint64_t& next = next_parts_[call.space];
  next = std::max(next, call.part_of + 1);
}

void World::RecordPart(const Call& call, const PublishedSnapshot& published,
                       const std::map<uint32_t, Version>& versions) {
  if (published.number != call.part_of) {
    Find(absl::StrCat("a part gets another number: ", call.what, ": ",
                      published.number, ", not ", call.part_of));
  }
  if (published.parts_missing == 0) PassPart(call);
  PartsRead& parts = parts_[{call.space, call.generation, published.number}];
  if (!HasPrefixes(published.number)) {
    parts.calls.push_back(versions);
  } else {
    for (const auto& [key, version] : versions) {
      if (key % kNumParts != call.part_index) continue;
      // Another push of the part may come later.
      parts.least[key] = std::max(parts.least[key], version);
    }
  }
  CheckCallsOf(published.number, parts);
}

void World::CheckOfParts(uint32_t at, const PullRequest& request,
                         const PullReply& reply) {
  Space& space = spaces_[at];
  const uint64_t number = reply.snapshot_number;
  PartsRead& parts = parts_[{at, space.generation, number}];
  for (size_t i = 0; i < request.entries.size(); ++i) {
    const uint32_t key = KeyOf(request.entries[i].key);
    const Version version = reply.values[i].version;
    const Elements value = ElementsOf(reply.values[i].tensor);
    const std::string what = absl::StrCat(
        "snapshot ", number, " of parts: ", KeyName(key), " version ", version);
    const Version had = parts.versions.try_emplace(key, version).first->second;
    if (had != version) Find(absl::StrCat(what, ", and ", had));
    const auto known =
        values_.try_emplace({space.uid, key, version}, value).first;
    if (known->second != value) {
      Find(absl::StrCat(what, ": ", ToString(known->second), " and ",
                        ToString(value)));
    }
  }
  // What has one revision has whole calls.
  for (uint32_t index = 0; HasPrefixes(number) && index < kNumParts; ++index) {
    std::map<uint32_t, Version> part = parts.versions;
    std::erase_if(part, [index](const auto& each) {
      return each.first % kNumParts != index;
    });
    CheckWhole(at, part, "a part of a snapshot");
  }
  CheckCallsOf(number, parts);
}

void World::CheckCallsOf(uint64_t number, const PartsRead& parts) {
  for (const auto& [key, version] : parts.versions) {
    const auto least = parts.least.find(key);
    if (least == parts.least.end() || least->second <= version) continue;
    Find(absl::StrCat("snapshot ", number,
                      " lacks the push of a part: ", KeyName(key), " version ",
                      version, ", at least ", least->second));
  }
  for (const auto& call : parts.calls) {
    int num_in = 0;
    int num_out = 0;
    for (const auto& [key, version] : call) {
      const auto has = parts.versions.find(key);
      if (has == parts.versions.end()) continue;
      ++(has->second == version ? num_in : num_out);
    }
    if (num_in == 0 || num_out == 0) continue;
    std::string text;
    for (const auto& [key, version] : call) {
      absl::StrAppend(&text, " ", KeyName(key), " version ", version);
    }
    Find(absl::StrCat("snapshot ", number, " has some keys of a part:", text));
  }
}

}  // namespace tensorkv::swarm
