// Who may do what.

#ifndef TENSORKV_SERVICE_SECURITY_POLICY_H_
#define TENSORKV_SERVICE_SECURITY_POLICY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/security/method_rights.h"
#include "service/store/names.h"

namespace tensorkv {

// Grants of rights to identities in namespaces; nothing else is allowed.
// Immutable, thread-safe.
class Policy {
 public:
  // `text` is a Policy of policy.proto in the text format.
  // Errors: InvalidArgument, naming the line or the grant.
  static absl::StatusOr<Policy> Parse(const std::string& text);

  bool AllowsIn(absl::string_view name_space, Right right,
                absl::string_view caller) const;
  bool AllowsSomewhere(Right right, absl::string_view caller) const;
  // By grants for the namespaces "*".
  bool AllowsForServer(Right right, absl::string_view caller) const;

  size_t num_grants() const { return grants_.size(); }

 private:
  // Stays where it is, ready to be matched.
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
    Right right;
  };

  static bool Contains(const Patterns& patterns, absl::string_view text);
  static bool Matches(const Patterns& patterns, absl::string_view text);

  std::vector<Grant> grants_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_POLICY_H_
