#include "client/cli/namespace_changes.h"

#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tensorkv {
namespace {

using Changes = std::vector<NamespaceChange>;

std::string WorkerText(const WorkerStatus& worker) {
  return absl::StrCat("rank ", worker.worker.rank, " (\"",
                      absl::CHexEscape(worker.name), "\")");
}

// Returns what has become of a worker that was there.
absl::string_view EndOf(const WorkerStatus& worker,
                        const NamespaceStatus& after) {
  for (const WorkerStatus& each : after.workers) {
    if (each.worker.epoch != worker.worker.epoch) continue;
    return each.has_left ? "worker left" : "worker lost";
  }
  return "worker gone";
}

// The live ones, by rank.
std::map<uint32_t, const WorkerStatus*> LiveWorkers(
    const NamespaceStatus& status) {
  std::map<uint32_t, const WorkerStatus*> live;
  for (const WorkerStatus& worker : status.workers) {
    if (worker.is_live) live[worker.worker.rank] = &worker;
  }
  return live;
}

void AddWorkers(const NamespaceStatus& before, const NamespaceStatus& after,
                Changes& changes) {
  const auto was_live = LiveWorkers(before);
  const auto is_live = LiveWorkers(after);
  for (const auto& [rank, worker] : was_live) {
    if (is_live.count(rank) > 0) continue;
    changes.push_back(
        {std::string(EndOf(*worker, after)), WorkerText(*worker)});
  }
  for (const auto& [rank, worker] : is_live) {
    const auto former = was_live.find(rank);
    if (former != was_live.end() &&
        former->second->worker.epoch == worker->worker.epoch) {
      continue;
    }
    changes.push_back({"worker joined", WorkerText(*worker)});
  }
}

std::map<std::string, std::string> RuleTexts(const NamespaceStatus& status) {
  std::map<std::string, std::string> texts;
  for (const RuleBinding& binding : status.rules) {
    texts[binding.key_pattern] = binding.rule.ToString();
  }
  return texts;
}

std::map<std::string, std::string> MultiplierTexts(
    const NamespaceStatus& status) {
  std::map<std::string, std::string> texts;
  for (const MultipliersBinding& binding : status.multipliers) {
    texts[binding.key_pattern] =
        absl::StrCat("lr_mult ", binding.multipliers.learning_rate,
                     ", wd_mult ", binding.multipliers.weight_decay);
  }
  return texts;
}

// Adds a line for each change of what is bound to patterns.
void AddBindings(absl::string_view what,
                 const std::map<std::string, std::string>& before,
                 const std::map<std::string, std::string>& after,
                 Changes& changes) {
  const auto add = [&](absl::string_view change, const std::string& pattern,
                       absl::string_view text) {
    changes.push_back(
        {absl::StrCat(what, change),
         absl::StrCat("\"", pattern.empty() ? "*" : absl::CHexEscape(pattern),
                      "\"", text)});
  };
  for (const auto& [pattern, text] : before) {
    if (after.count(pattern) == 0) add(" unset", pattern, "");
  }
  for (const auto& [pattern, text] : after) {
    const auto former = before.find(pattern);
    if (former != before.end() && former->second == text) continue;
    add(" set", pattern, absl::StrCat(": ", text));
  }
}

// A count that only grows.
void AddCount(absl::string_view what, uint64_t before, uint64_t after,
              Changes& changes) {
  if (after <= before) return;
  changes.push_back({std::string(what), absl::StrCat(after - before, " more, ",
                                                     after, " in all")});
}

uint64_t NumGuarded(const NamespaceStatus& status) {
  uint64_t guarded = 0;
  for (const GuardCounts& counts : status.guard_counts) {
    guarded += counts.not_finite + counts.too_large;
  }
  return guarded;
}

}  // namespace

std::vector<NamespaceChange> ChangesBetween(const NamespaceStatus& before,
                                            const NamespaceStatus& after) {
  if (before.uid != after.uid) {
    return {{"replaced", "by another namespace of this name"}};
  }
  Changes changes;
  AddWorkers(before, after, changes);
  if (before.num_keys != after.num_keys) {
    changes.push_back(
        {"keys", absl::StrCat(before.num_keys, " -> ", after.num_keys)});
  }
  AddBindings("rule", RuleTexts(before), RuleTexts(after), changes);
  AddBindings("multipliers", MultiplierTexts(before), MultiplierTexts(after),
              changes);
  AddCount("leases expired", before.lease_expirations, after.lease_expirations,
           changes);
  AddCount("rounds failed", before.rounds_failed, after.rounds_failed, changes);
  AddCount("pushes late", before.contributions_late, after.contributions_late,
           changes);
  AddCount("pushes repeated", before.contributions_duplicate,
           after.contributions_duplicate, changes);
  AddCount("pushes fenced", before.contributions_fenced,
           after.contributions_fenced, changes);
  AddCount("pushes guarded", NumGuarded(before), NumGuarded(after), changes);
  return changes;
}

}  // namespace tensorkv
