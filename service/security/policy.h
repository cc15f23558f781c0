// Says who may do what.

#ifndef TENSORKV_SERVICE_SECURITY_POLICY_H_
#define TENSORKV_SERVICE_SECURITY_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "contract/method.h"
#include "service/store/names.h"

namespace tensorkv {

// CallerLoad counts what a caller has under way; or bounds it, where 0 is no
// bound.
struct CallerLoad {
  uint64_t calls = 0;
  uint64_t streams = 0;
  uint64_t bytes = 0;

  friend bool operator==(const CallerLoad&, const CallerLoad&) = default;
};

// A Policy grants rights to identities in namespaces, and allows nothing else;
// and it has the quotas of callers. Immutable, thread-safe.
class Policy {
 public:
  // `text` is a Policy of policy.proto in the text format.
  // Errors: InvalidArgument, naming the line or the grant.
  static absl::StatusOr<Policy> Parse(const std::string& text);

  bool AllowsIn(absl::string_view name_space, Right right,
                absl::string_view caller) const;
  bool AllowsSomewhere(Right right, absl::string_view caller) const;
  // Returns whether a grant for the namespace pattern "*" itself has the right:
  // only such a grant is for the server as a whole.
  bool AllowsForServer(Right right, absl::string_view caller) const;

  // Returns whether the user may connect by a Unix socket.
  bool AllowsUnixUser(uint32_t user) const;

  // Returns whether the caller is a front, which calls for others.
  bool IsFront(absl::string_view caller) const;

  // Returns the bounds of the first quota that names the caller; no bounds if
  // none does.
  CallerLoad QuotaOf(absl::string_view caller) const;
  bool has_quotas() const { return !quotas_.empty(); }

  size_t num_grants() const { return grants_.size(); }

 private:
  // A Pattern may be moved: `glob` refers to `text`, which stays where it is.
  struct Pattern {
    explicit Pattern(std::string pattern);

    std::unique_ptr<const std::string> text;
    Glob glob;
  };
  using Patterns = std::vector<Pattern>;
  struct Grant {
    bool Has(Right wanted, absl::string_view caller) const;

    Patterns callers;
    Patterns namespaces;
    // Has a bit for each right, by its number.
    uint32_t rights = 0;
  };

  struct Quota {
    Patterns callers;
    CallerLoad bounds;
  };

  // Returns whether one of `patterns` names the caller.
  static bool Names(const Patterns& patterns, absl::string_view caller);
  // Contains compares the patterns themselves with `text`; Matches matches
  // them.
  static bool Contains(const Patterns& patterns, absl::string_view text);
  static bool Matches(const Patterns& patterns, absl::string_view text);

  std::vector<Grant> grants_;
  std::vector<Quota> quotas_;
  std::vector<uint32_t> unix_users_;  // empty: all
  Patterns fronts_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_POLICY_H_
