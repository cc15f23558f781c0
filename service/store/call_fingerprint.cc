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
#include "absl/types/span.h"

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

  void Add(absl::Duration duration) { Add(absl::ToInt64Nanoseconds(duration)); }

  template <typename T>
  void Add(const std::optional<T>& value) {
    Add(value.has_value());
    if (value) Add(*value);
  }

  template <typename T>
  void Add(absl::Span<const T> values) {
    Add(values.size());
    for (const T& value : values) Add(value);
  }
  template <typename T>
  void Add(const std::vector<T>& values) {
    Add(absl::MakeConstSpan(values));
  }

  // Takes in several parts.
  template <typename... Parts>
  void AddAll(const Parts&... parts) {
    (Add(parts), ...);
  }

  void Add(const Worker& worker) { AddAll(worker.rank, worker.epoch); }

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
    AddAll(packing.kind, packing.element_dtype, packing.bits,
           packing.is_natural, packing.scale, packing.block_size, packing.count,
           packing.seed, encoding.shape().dimensions());
  }

  void Add(const Hyperparameters& hyperparameters) {
    Add(hyperparameters.size());
    for (const auto& [name, value] : hyperparameters) AddAll(name, value);
  }

  void Add(const Multipliers& multipliers) {
    AddAll(multipliers.learning_rate, multipliers.weight_decay);
  }

  void Add(const RuleSpec& rule) {
    AddAll(rule.name, rule.hyperparameters, rule.keep_master, rule.expression,
           rule.schedule.name, rule.schedule.arguments, rule.schedule.steps);
  }

  void Add(const InitEntry& entry) { AddAll(entry.key, entry.tensor); }

  void Add(const SetStateEntry& entry) {
    AddAll(entry.key, entry.state, entry.tensor);
  }

  uint64_t digest() const { return digest_; }

 private:
  void AddBytes(const void* bytes, size_t size) {
    digest_ = XXH3_64bits_withSeed(bytes, size, digest_);
  }

  uint64_t digest_;
};

template <typename... Parts>
uint64_t DigestOf(char verb, const Parts&... parts) {
  Hasher hasher(verb);
  hasher.AddAll(parts...);
  return hasher.digest();
}

// Returns the fingerprint of a push. Of its entries most fields are at their
// default, and are left out there.
uint64_t FingerprintOfPush(Hasher hasher, const PushRequest& request) {
  hasher.AddAll(request.worker, request.step);
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
    hasher.AddAll(entry.update_all_rows, entry.rows->tensor());
  }
  return hasher.digest();
}

}  // namespace

uint64_t Fingerprint(const InitRequest& request) {
  return DigestOf('i', request.on_existing, request.entries);
}

uint64_t Fingerprint(const PushRequest& request) {
  return FingerprintOfPush(Hasher('p'), request);
}

uint64_t Fingerprint(const PushPullRequest& request) {
  Hasher hasher('q');
  hasher.Add(request.dtype);
  return FingerprintOfPush(hasher, request);
}

uint64_t Fingerprint(const SetStateRequest& request) {
  return DigestOf('s', request.entries);
}

uint64_t Fingerprint(const DeleteRequest& request) {
  return DigestOf('d', request.allow_missing, request.keys);
}

uint64_t Fingerprint(const JoinRequest& request) {
  return DigestOf('j', request.worker_name, request.replaces_epoch,
                  request.lease, request.rank, request.epoch);
}

uint64_t Fingerprint(const LeaveRequest& request) {
  return DigestOf('e', request.worker, request.lost, request.step);
}

uint64_t Fingerprint(const BarrierRequest& request) {
  return DigestOf('b', request.worker, request.barrier);
}

uint64_t Fingerprint(const SetRuleRequest& request) {
  return DigestOf('r', request.key_pattern, request.rule);
}

uint64_t Fingerprint(const UnsetRuleRequest& request) {
  return DigestOf('u', request.key_pattern);
}

uint64_t Fingerprint(const SetMultipliersRequest& request) {
  return DigestOf('m', request.key_pattern, request.multipliers);
}

uint64_t Fingerprint(const UnsetMultipliersRequest& request) {
  return DigestOf('o', request.key_pattern);
}

uint64_t Fingerprint(const SetHyperparametersRequest& request) {
  return DigestOf('h', request.key_pattern, request.hyperparameters);
}

uint64_t Fingerprint(const DeleteNamespaceRequest& request) {
  return DigestOf('x', request.name_space);
}

uint64_t Fingerprint(const CreateNamespaceRequest& request) {
  const NamespaceConfig& config = request.config;
  const GradientGuard& guard = config.gradient_guard;
  return DigestOf('n', request.name_space, request.namespace_uid,
                  request.on_existing, config.mode, config.num_workers,
                  config.rule, config.budget_bytes, config.max_open_rounds,
                  config.max_workers, config.staleness, config.on_worker_loss,
                  config.rescale_partial_rounds, config.quorum,
                  config.quorum_grace, guard.on_non_finite, guard.max_norm,
                  guard.on_large_norm, guard.max_call_norm, config.aggregation,
                  config.trim_fraction, config.mirrored);
}

}  // namespace tensorkv
