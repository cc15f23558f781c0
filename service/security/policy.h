// Who may do what.

#ifndef TENSORKV_SERVICE_SECURITY_POLICY_H_
#define TENSORKV_SERVICE_SECURITY_POLICY_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/security/method_rights.h"

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
  struct Grant {
    bool Has(Right wanted, absl::string_view caller) const;

    std::vector<std::string> callers;
    std::vector<std::string> namespaces;
    Right right;
  };

  std::vector<Grant> grants_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_POLICY_H_
