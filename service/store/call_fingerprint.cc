#include "service/store/call_fingerprint.h"

// The hashed text is short: a call of the library would take longer.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/time/time.h"

namespace tensorkv {
namespace {

constexpr size_t kMaxElementBytes = 64;
// Says how far ahead of an entry the elements of others are fetched.
constexpr size_t kEntriesAhead = 8;

// Takes in the parts of a request, one after another: bytes are hashed with the
// digest of what came before as their seed, numbers are mixed into it.
class Hasher {
 public:
  explicit Hasher(char verb) : digest_(verb) {}

  template <
      typename T,
      std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>, int> = 0>
  void Add(T value) {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 by the golden ratio
    uint64_t number = 0;
    std::memcpy(&number, &value, sizeof(value));
    digest_ = std::rotl((digest_ ^ number) * kOdd, 32);
  }

  void Add(const std::string& text) { AddBytes(text.data(), text.size()); }

  void Add(const Worker& worker) {
    Add(worker.rank);
    Add(worker.epoch);
  }

  void Add(const std::optional<Worker>& worker) {
    Add(worker.has_value());
    if (worker) Add(*worker);
  }

  void Add(const Tensor& tensor) {
    const Shape& shape = tensor.shape();
    Add(static_cast<int>(tensor.dtype()) << 8 | shape.rank());
    for (const int64_t dimension : shape.dimensions()) Add(dimension);
    if (!tensor.has_data()) return;
    AddBytes(tensor.data(),
             std::min<size_t>(tensor.size_bytes(), kMaxElementBytes));
  }

  void Add(const Encoding& encoding) {
    const Packing& packing = encoding.packing();
    Add(packing.kind);
    Add(packing.element_dtype);
    Add(packing.bits);
    Add(packing.is_natural);
    Add(packing.scale);
    Add(packing.block_size);
    Add(packing.count);
    Add(packing.seed);
    for (const int64_t dimension : encoding.shape().dimensions()) {
      Add(dimension);
    }
  }

  void Add(const Hyperparameters& hyperparameters) {
    Add(hyperparameters.size());
    for (const auto& [name, value] : hyperparameters) {
      Add(name);
      Add(value);
    }
  }

  void Add(const RuleSpec& rule) {
    Add(rule.name);
    Add(rule.hyperparameters);
    Add(rule.keep_master);
    Add(rule.expression);
    Add(rule.schedule.name);
    Add(rule.schedule.arguments);
    for (const uint64_t step : rule.schedule.steps) Add(step);
  }

  uint64_t digest() const { return digest_; }

 private:
  void AddBytes(const void* bytes, size_t size) {
    digest_ = XXH3_64bits_withSeed(bytes, size, digest_);
  }

  uint64_t digest_;
};

// Returns the fingerprint of a push. Fields are added only where they are not
// at their default, which leaves the fingerprints of calls that were saved
// before.
uint64_t FingerprintOfPush(Hasher hasher, const PushRequest& request) {
  hasher.Add(request.worker);
  hasher.Add(request.step);
  const std::vector<PushEntry>& entries = request.entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    const PushEntry& entry = entries[i];
    if (i + kEntriesAhead < entries.size()) {
      __builtin_prefetch(entries[i + kEntriesAhead].tensor.data());
    }
    hasher.Add(entry.key);
    if (entry.skip) hasher.Add(entry.skip);
    hasher.Add(entry.tensor);
    if (entry.encoding) hasher.Add(*entry.encoding);
    if (entry.weight != 0) hasher.Add(entry.weight);
    if (!entry.rows) continue;
    hasher.Add(entry.updates_all_rows);
    hasher.Add(entry.rows->tensor());
  }
  return hasher.digest();
}

}  // namespace

uint64_t Fingerprint(const InitRequest& request) {
  Hasher hasher('i');
  hasher.Add(request.on_existing);
  for (const InitEntry& entry : request.entries) {
    hasher.Add(entry.key);
    hasher.Add(entry.state);
    hasher.Add(entry.tensor);
  }
  return hasher.digest();
}

uint64_t Fingerprint(const PushRequest& request) {
  return FingerprintOfPush(Hasher('p'), request);
}

uint64_t PushPullFingerprint(const PushRequest& request) {
  Hasher hasher('q');
  if (request.reply_dtype != DType::kUnknown) hasher.Add(request.reply_dtype);
  return FingerprintOfPush(hasher, request);
}

uint64_t Fingerprint(const DeleteRequest& request) {
  Hasher hasher('d');
  hasher.Add(request.allow_missing);
  for (const std::string& key : request.keys) hasher.Add(key);
  return hasher.digest();
}

uint64_t Fingerprint(const JoinRequest& request) {
  Hasher hasher('j');
  hasher.Add(request.worker_name);
  hasher.Add(request.replaces_epoch);
  hasher.Add(absl::ToInt64Nanoseconds(request.lease));
  hasher.Add(request.rank.has_value());
  hasher.Add(request.rank.value_or(0));
  return hasher.digest();
}

uint64_t Fingerprint(const LeaveRequest& request) {
  Hasher hasher('e');
  hasher.Add(request.worker);
  hasher.Add(request.is_lost);
  hasher.Add(request.step.has_value());
  hasher.Add(request.step.value_or(0));
  return hasher.digest();
}

uint64_t Fingerprint(const BarrierRequest& request) {
  Hasher hasher('b');
  hasher.Add(request.worker);
  hasher.Add(request.barrier);
  return hasher.digest();
}

uint64_t Fingerprint(const SetRuleRequest& request) {
  Hasher hasher('r');
  hasher.Add(request.key_pattern);
  if (request.rule) hasher.Add(*request.rule);
  if (request.multipliers) {
    hasher.Add(request.multipliers->learning_rate);
    hasher.Add(request.multipliers->weight_decay);
  }
  return hasher.digest();
}

uint64_t Fingerprint(const UnsetRuleRequest& request) {
  Hasher hasher('u');
  hasher.Add(request.key_pattern);
  hasher.Add(request.multipliers);
  return hasher.digest();
}

uint64_t Fingerprint(const SetHyperparametersRequest& request) {
  Hasher hasher('h');
  hasher.Add(request.key_pattern);
  hasher.Add(request.hyperparameters);
  return hasher.digest();
}

uint64_t Fingerprint(const CreateNamespaceRequest& request) {
  Hasher hasher('n');
  hasher.Add(request.name_space);
  hasher.Add(request.on_existing);
  hasher.Add(request.config.mode);
  hasher.Add(request.config.num_workers);
  hasher.Add(request.config.rule);
  hasher.Add(request.config.budget_bytes);
  hasher.Add(request.config.max_open_rounds);
  hasher.Add(request.config.max_workers);
  hasher.Add(request.config.staleness);
  hasher.Add(request.config.on_worker_loss);
  hasher.Add(request.config.rescale_partial_rounds);
  hasher.Add(request.config.quorum);
  hasher.Add(absl::ToInt64Nanoseconds(request.config.quorum_grace));
  hasher.Add(request.config.gradient_guard.on_non_finite);
  hasher.Add(request.config.gradient_guard.max_norm);
  hasher.Add(request.config.gradient_guard.on_large_norm);
  hasher.Add(request.config.gradient_guard.max_call_norm);
  hasher.Add(request.config.aggregation);
  hasher.Add(request.config.trim_fraction);
  hasher.Add(request.config.mirrored);
  return hasher.digest();
}

}  // namespace tensorkv
