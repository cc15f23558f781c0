// Binds values to patterns of keys.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_RULES_PATTERN_BINDINGS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_RULES_PATTERN_BINDINGS_H_

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "contract/slices.h"
#include "service/store/byte_budget.h"
#include "service/store/names.h"

namespace tensorkv {

inline constexpr size_t kMaxPatterns = 1024;

// Patterns and the T of each, a shared pointer. A value type: the store changes
// a copy, checks what follows from it, and then keeps it. Not thread-safe.
template <typename T>
class PatternBindings {
 public:
  // `default_value` is bound to what no pattern matches, by the empty pattern.
  explicit PatternBindings(T default_value) {
    bindings_.push_back({"", std::move(default_value), nullptr});
  }

  // Returns the bindings of `keys`: for each that of the matching pattern added
  // last. The results stay where they are as long as the bindings. Asks `go_on`
  // now and then; an error of it ends the search.
  absl::StatusOr<std::vector<const T*>> Find(
      absl::Span<const absl::string_view> keys,
      absl::FunctionRef<absl::Status()> go_on) const;

  // Returns the binding of exactly this pattern; null if there is none.
  T Get(absl::string_view pattern) const {
    for (const Binding& binding : bindings_) {
      if (binding.pattern == pattern) return binding.value;
    }
    return nullptr;
  }

  // Binds `value` to `pattern`, in the place of what it had.
  // Errors: ResourceExhausted (more than 1024 patterns).
  absl::Status Set(absl::string_view pattern, T value);

  // Unbinds `pattern`, unless that is the empty one.
  void Remove(absl::string_view pattern) {
    if (pattern.empty()) return;
    std::erase_if(bindings_, [&](const Binding& binding) {
      return binding.pattern == pattern;
    });
  }

  // Keeps `overhead` reserved as long as a copy of these bindings has the
  // pattern. REQUIRES: the pattern is bound.
  void Charge(absl::string_view pattern, Reservation overhead) {
    for (Binding& binding : bindings_) {
      if (binding.pattern != pattern) continue;
      binding.overhead =
          std::make_shared<const LastingReservation>(std::move(overhead));
    }
  }

  size_t num_patterns() const { return bindings_.size() - 1; }

 protected:
  struct Binding {
    std::string pattern;
    T value;
    std::shared_ptr<const LastingReservation> overhead;
  };

  // Returns the default first, then patterns as they were added.
  const std::vector<Binding>& bindings() const { return bindings_; }

 private:
  // Says how many pairs of key and pattern are tried before the caller is
  // asked.
  static constexpr size_t kMatchesPerCheck = 1024;

  std::vector<Binding> bindings_;
};

template <typename T>
absl::StatusOr<std::vector<const T*>> PatternBindings<T>::Find(
    absl::Span<const absl::string_view> keys,
    absl::FunctionRef<absl::Status()> go_on) const {
  std::vector<const T*> found(keys.size(), &bindings_.front().value);
  std::vector<size_t> open(keys.size());  // positions of those without pattern
  std::iota(open.begin(), open.end(), size_t{0});
  size_t num_matches = 0;
  for (size_t i = bindings_.size() - 1; i > 0 && !open.empty(); --i) {
    num_matches += open.size();
    if (num_matches > kMatchesPerCheck) {
      num_matches = 0;
      RETURN_IF_ERROR(go_on());
    }
    const Binding& binding = bindings_[i];
    Glob glob(binding.pattern);
    const auto is_found = [&](size_t position) {
      if (!glob.Matches(WholeKeyOf(keys[position]))) return false;
      found[position] = &binding.value;
      return true;
    };
    open.erase(std::remove_if(open.begin(), open.end(), is_found), open.end());
  }
  return found;
}

template <typename T>
absl::Status PatternBindings<T>::Set(absl::string_view pattern, T value) {
  for (Binding& binding : bindings_) {
    if (binding.pattern != pattern) continue;
    binding.value = std::move(value);
    return absl::OkStatus();
  }
  if (bindings_.size() > kMaxPatterns) {
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "key pattern ", Quoted(pattern), ": expected at most ",
            kMaxPatterns, " patterns in a namespace, got one more")),
        Reason::kLimitReached, {{"limit", kMaxPatterns}});
  }
  bindings_.push_back({std::string(pattern), std::move(value), nullptr});
  return absl::OkStatus();
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_RULES_PATTERN_BINDINGS_H_
