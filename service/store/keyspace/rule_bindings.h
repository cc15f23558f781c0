// Which rule governs which keys of a namespace.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_RULE_BINDINGS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_RULE_BINDINGS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "contract/requests.h"
#include "kernels/update_rule.h"
#include "service/store/byte_budget.h"

namespace tensorkv {

using SharedRule = std::shared_ptr<const UpdateRule>;

// Patterns and their rules. A value type: the store changes a copy, checks
// what follows from it, and then keeps it. Not thread-safe.
class RuleBindings {
 public:
  static constexpr size_t kMaxPatterns = 1024;

  // `default_rule` governs what no pattern matches.
  explicit RuleBindings(SharedRule default_rule);

  // The rules of `keys`: of each that of the matching pattern added last. They
  // stay where they are as long as the bindings. Asks `go_on` now and then; an
  // error of it ends the search.
  absl::StatusOr<std::vector<const SharedRule*>> Find(
      absl::Span<const absl::string_view> keys,
      absl::FunctionRef<absl::Status()> go_on) const;

  // The rule bound to exactly this pattern; null if there is none.
  SharedRule Get(absl::string_view pattern) const;

  // Binds `rule` to `pattern`, in the place of the rule it had.
  // Errors: ResourceExhausted (more than 1024 patterns).
  absl::Status Set(absl::string_view pattern, SharedRule rule);

  // Unbinds `pattern`, unless that is the empty one.
  void Remove(absl::string_view pattern);

  // Keeps `overhead` reserved as long as a copy of these bindings has the
  // pattern. REQUIRES: the pattern is bound.
  void Charge(absl::string_view pattern, Reservation overhead);

  size_t num_patterns() const { return bindings_.size() - 1; }

  // In order of precedence, the default last.
  std::vector<RuleBinding> List() const;

 private:
  struct Binding {
    std::string pattern;
    SharedRule rule;
    std::shared_ptr<const Reservation> overhead;
  };

  // The default first, then patterns as they were added.
  std::vector<Binding> bindings_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_RULE_BINDINGS_H_
