// Decides who may call what.

#ifndef TENSORKV_SERVICE_SECURITY_ACCESS_CONTROL_H_
#define TENSORKV_SERVICE_SECURITY_ACCESS_CONTROL_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "base/watched_files.h"
#include "contract/method.h"
#include "service/security/caller_quotas.h"
#include "service/security/identity.h"
#include "service/security/policy.h"
#include "service/security/token_file.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Knows the identities of callers and their rights, by two files that may
// change while the server runs. Without a policy everybody may do everything.
// Thread-safe.
//
// A call passes twice: Admit when it comes, before anything of it is decoded,
// and Check when its namespace is known. A right that goes while a call waits
// does not end the wait.
class AccessControl {
 public:
  struct Options {
    std::string policy_file;  // empty: no policy
    std::string token_file;   // empty: no tokens
    // Hears of each call with the right of an admin that was made under a
    // policy, or by a caller with an identity. Must not block.
    std::function<void(const std::string& line)> made;
    // Hears of refused calls; `line` makes the words. Must not block.
    std::function<void(Method method, absl::FunctionRef<std::string()> line)>
        refused;
  };

  // Refuses every call until what the files say, if there are any, is taken.
  explicit AccessControl(Options options);

  // Returns the policy and the tokens, in the order in which Take takes them.
  std::vector<WatchedFile> files() const;
  // Goes by what both files say from now on; if one of them is wrong, or empty,
  // nothing changes. Errors: InvalidArgument, naming the file.
  absl::Status Take(const std::vector<FileText>& texts);
  // Reads both files, and takes what they say. Errors: as of Take.
  absl::Status Reload();

  // Checks that the user may connect by a Unix socket.
  // Errors: PermissionDenied (the policy names others).
  absl::Status AdmitUnixUser(uint32_t user) const;

  // Puts the caller's identity into `caller`, and tells whether there is a
  // namespace where it may make such calls; for a method that concerns the
  // whole server, whether it may make this one.
  // Errors: Unauthenticated · PermissionDenied.
  absl::Status Admit(Method method, const Peer& peer, Caller& caller) const;

  // Takes what the call adds to what its caller has under way, if the caller
  // has a quota. `address` is asked for where it has no identity.
  // Errors: ResourceExhausted.
  absl::StatusOr<CallerQuotas::Share> TakeShare(
      const Caller& caller, const CallerLoad& load,
      absl::FunctionRef<std::string()> address) const;

  // Checks that the caller may call `method` in `name_space`. Errors:
  // Unauthenticated (it has no identity) · PermissionDenied.
  absl::Status Check(Method method, absl::string_view name_space,
                     const Caller& caller) const;
  // Answers as Check does, but no line of the log comes of it.
  bool Allows(Method method, absl::string_view name_space,
              const Caller& caller) const;

  // Reports how a call of an admin ended; `subject` is its namespace, or the
  // name of a checkpoint.
  void Audit(Method method, absl::string_view subject, const Caller& caller,
             const absl::Status& outcome) const;

  // Returns how much the files say, for the log: "grants=3 tokens=2".
  std::string Summary() const;

 private:
  // Rules holds what the files say.
  struct Rules {
    std::optional<Policy> policy;
    TokenFile tokens;
  };

  std::shared_ptr<const Rules> rules() const;
  absl::Status Refuse(Method method, absl::string_view name_space,
                      const Caller& caller) const;

  const Options options_;
  mutable CallerQuotas quotas_;
  mutable Mutex mutex_;
  std::shared_ptr<const Rules> rules_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_ACCESS_CONTROL_H_
