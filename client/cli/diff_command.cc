#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/elements.h"
#include "client/cli/plain_text.h"
#include "contract/snapshot_references.h"
#include "nlohmann/json.hpp"

namespace tensorkv {
namespace {

// Bounds what is pulled of each snapshot in one call.
constexpr uint64_t kPulledBytes = 64 << 20;

struct DiffFlags {
  std::string series;
  uint64_t from = 0;
  uint64_t to = 0;
  std::string prefix;
};

// Says how a key differs from one snapshot to the other.
struct KeyChange {
  // "added", "removed", "reshaped", "converted" or "changed".
  std::string what;
  uint64_t num_elements = 0;
  // Only of a key that has changed; the norms only of floats.
  std::optional<uint64_t> num_changed;
  std::optional<double> norm_of_change;
  std::optional<double> norm_before;
};

using Changes = std::map<std::string, KeyChange>;
using Keys = std::map<std::string, KeyStatus>;

absl::StatusOr<Keys> KeysAt(const DiffFlags& flags, uint64_t number,
                            Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<KeyStatus> statuses,
                   invocation.client.ListAll(flags.prefix,
                                             SnapshotOf(flags.series, number)));
  Keys keys;
  for (const KeyStatus& status : statuses) keys[status.key()] = status;
  return keys;
}

uint64_t NumElements(const KeyStatus& key) {
  uint64_t count = 1;
  for (const int64_t dimension : key.shape()) count *= dimension;
  return count;
}

bool HaveSameShape(const KeyStatus& a, const KeyStatus& b) {
  return a.dtype() == b.dtype() &&
         std::equal(a.shape().begin(), a.shape().end(), b.shape().begin(),
                    b.shape().end());
}

// Returns the norm of the elements, without those of `other`, unless it is
// null.
absl::StatusOr<double> NormOf(const Tensor& tensor, const Tensor* other) {
  ASSIGN_OR_RETURN(const Tensor elements, ConvertedTo(DType::kF64, tensor));
  Tensor others;
  if (other != nullptr) {
    ASSIGN_OR_RETURN(others, ConvertedTo(DType::kF64, *other));
  }
  double sum = 0;
  for (int64_t i = 0; i < elements.num_elements(); ++i) {
    double element = elements.elements<double>()[i];
    if (other != nullptr) element -= others.elements<double>()[i];
    sum += element * element;
  }
  return std::sqrt(sum);
}

uint64_t NumDifferent(const Tensor& a, const Tensor& b) {
  const size_t size = SizeOf(a.dtype());
  uint64_t count = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    count += std::memcmp(a.data() + i * size, b.data() + i * size, size) != 0;
  }
  return count;
}

// Returns the change between two values of one dtype and shape.
absl::StatusOr<KeyChange> ChangeBetween(const Tensor& before,
                                        const Tensor& after) {
  KeyChange change = {
      .what = "changed",
      .num_elements = static_cast<uint64_t>(before.num_elements()),
      .num_changed = NumDifferent(before, after)};
  if (!IsFloat(before.dtype())) return change;
  ASSIGN_OR_RETURN(change.norm_of_change, NormOf(after, &before));
  ASSIGN_OR_RETURN(change.norm_before, NormOf(before, nullptr));
  return change;
}

absl::Status Compare(const DiffFlags& flags,
                     const std::vector<std::string>& keys,
                     Invocation& invocation, Changes& changes) {
  const auto pull = [&](uint64_t number) {
    PullRequest request = {.at = SnapshotOf(flags.series, number)};
    for (const std::string& key : keys) request.entries.push_back({key});
    return invocation.client.Pull(std::move(request));
  };
  ASSIGN_OR_RETURN(const PullReply before, pull(flags.from));
  ASSIGN_OR_RETURN(const PullReply after, pull(flags.to));
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSIGN_OR_RETURN(KeyChange change, ChangeBetween(before.values[i].tensor,
                                                     after.values[i].tensor));
    if (change.num_changed > 0) changes[keys[i]] = std::move(change);
  }
  return absl::OkStatus();
}

// Compares the values of keys that both snapshots have; one version is one
// value.
absl::Status CompareValues(const DiffFlags& flags, const Keys& before,
                           const Keys& after, Invocation& invocation,
                           Changes& changes) {
  std::vector<std::string> keys;
  uint64_t bytes = 0;
  for (const auto& [name, key] : before) {
    const auto other = after.find(name);
    if (other == after.end() || key.version() == other->second.version() ||
        !HaveSameShape(key, other->second)) {
      continue;
    }
    if (bytes > 0 && bytes + key.value_bytes() > kPulledBytes) {
      RETURN_IF_ERROR(Compare(flags, keys, invocation, changes));
      keys.clear();
      bytes = 0;
    }
    keys.push_back(name);
    bytes += key.value_bytes();
  }
  if (keys.empty()) return absl::OkStatus();
  return Compare(flags, keys, invocation, changes);
}

// Adds the keys that only one of the snapshots has, or as others.
void CompareKeys(const Keys& before, const Keys& after, Changes& changes) {
  for (const auto& [name, key] : before) {
    const auto other = after.find(name);
    if (other == after.end()) {
      changes[name] = {.what = "removed", .num_elements = NumElements(key)};
    } else if (!HaveSameShape(key, other->second)) {
      const bool has_same_dtype = key.dtype() == other->second.dtype();
      changes[name] = {.what = has_same_dtype ? "reshaped" : "converted",
                       .num_elements = NumElements(other->second)};
    }
  }
  for (const auto& [name, key] : after) {
    if (before.contains(name)) continue;
    changes[name] = {.what = "added", .num_elements = NumElements(key)};
  }
}

std::string JsonOf(const std::string& key, const KeyChange& change) {
  nlohmann::ordered_json json = {{"key", key},
                                 {"change", change.what},
                                 {"num_elements", change.num_elements}};
  if (change.num_changed) json["num_changed"] = *change.num_changed;
  if (change.norm_before) {
    json["norm_of_change"] = *change.norm_of_change;
    json["norm_before"] = *change.norm_before;
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string LineOf(const std::string& key, const KeyChange& change) {
  std::string line =
      absl::StrFormat("%-9s %12d", change.what, change.num_elements);
  if (change.num_changed) {
    absl::StrAppendFormat(&line, " %8.4f%%",
                          100.0 * static_cast<double>(*change.num_changed) /
                              static_cast<double>(change.num_elements));
  } else {
    absl::StrAppendFormat(&line, " %9s", "");
  }
  if (change.norm_before) {
    absl::StrAppendFormat(&line, " %12.5g %12.5g", *change.norm_of_change,
                          *change.norm_before);
  } else {
    absl::StrAppendFormat(&line, " %12s %12s", "", "");
  }
  return absl::StrCat(line, "  ", PlainText(key), "\n");
}

void PrintChanges(const Changes& changes, uint64_t num_keys,
                  Invocation& invocation) {
  if (invocation.flags.is_json()) {
    for (const auto& [key, change] : changes) {
      invocation.out << JsonOf(key, change) << "\n";
    }
    return;
  }
  if (!changes.empty()) {
    invocation.out << absl::StrFormat("%-9s %12s %9s %12s %12s  %s\n", "CHANGE",
                                      "ELEMENTS", "CHANGED", "NORM_OF_IT",
                                      "NORM_BEFORE", "KEY");
  }
  for (const auto& [key, change] : changes) {
    invocation.out << LineOf(key, change);
  }
  invocation.out << changes.size() << " of " << num_keys
                 << " keys have changed\n";
}

absl::Status RunDiff(const DiffFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const Keys before, KeysAt(flags, flags.from, invocation));
  ASSIGN_OR_RETURN(const Keys after, KeysAt(flags, flags.to, invocation));
  Changes changes;
  CompareKeys(before, after, changes);
  RETURN_IF_ERROR(CompareValues(flags, before, after, invocation, changes));
  const auto num_added = std::count_if(
      changes.begin(), changes.end(),
      [](const auto& each) { return each.second.what == "added"; });
  PrintChanges(changes, before.size() + num_added, invocation);
  return absl::OkStatus();
}

}  // namespace

void AddDiffCommand(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<DiffFlags>();
  CLI::App* const diff = app.add_subcommand(
      "diff", "Print what has changed from one snapshot to another");
  diff->add_option("series", flags->series, "What both are called")->required();
  diff->add_option("from", flags->from, "The number of the one")->required();
  diff->add_option("to", flags->to, "The number of the other")->required();
  diff->add_option("-p,--prefix", flags->prefix,
                   "Only keys that begin like this");
  OnRun(*diff, action, flags, RunDiff);
}

}  // namespace tensorkv
