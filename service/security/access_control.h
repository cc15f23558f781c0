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
#include "service/store/call_stage.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Knows the identities of callers and their rights, by two files that may
// change while the server runs. Without a policy everybody may do everything.
// Thread-safe.
//
// A call is checked twice: by Identify when it comes, before anything of it is
// decoded, and by Admit, as a stage, when its namespace is known. A call that
// waits goes on waiting although its caller loses the right.
class AccessControl final : public CallStage {
 public:
  struct Options {
    std::string policy_file;  // empty: no policy
    std::string token_file;   // empty: no tokens
    // Takes the line of Audit about a call. Must not block.
    std::function<void(const std::string& line)> on_audit;
    // Hears of each refused call; `line` makes a line about it, and is good
    // until this returns. Must not block.
    std::function<void(Method method, absl::FunctionRef<std::string()> line)>
        on_refused;
  };

  // Reads no file: with a file, all calls are refused until Load or Reload has
  // succeeded.
  explicit AccessControl(Options options);

  // Returns the files of the policy and of the tokens, in the order in which
  // Load takes their texts.
  std::vector<WatchedFile> files() const;
  // Decides by the texts of both files from now on; if one of them is wrong, or
  // empty, nothing changes. Errors: InvalidArgument, naming the file.
  absl::Status Load(const std::vector<FileText>& texts);
  // Reads both files, and loads what they say; blocks. Errors: those of Load,
  // and of reading.
  absl::Status Reload();

  // Checks that the user may connect by a Unix socket.
  // Errors: PermissionDenied (the policy names others).
  absl::Status AdmitUnixUser(uint32_t user) const;

  // Puts the caller's identity into `caller`, and checks that there is a
  // namespace where it may call `method`; for a method that concerns the whole
  // server, that it may call it at all. Errors: Unauthenticated ·
  // PermissionDenied.
  absl::Status Identify(Method method, const Peer& peer, Caller& caller) const;

  // Takes `load` of the caller's quota, and returns the share that it holds; an
  // empty one if the caller has no quota. Calls `address` for a caller without
  // an identity: each address has a quota of its own. Errors:
  // ResourceExhausted.
  absl::StatusOr<CallerQuotas::Share> TakeShare(
      const Caller& caller, const CallerLoad& load,
      absl::FunctionRef<std::string()> address) const;

  // Checks that the caller may make the call in its namespace. Errors:
  // Unauthenticated (it has no identity) · PermissionDenied.
  absl::Status Admit(const StagedCall& call) const override;
  // Returns whether the caller has the right of the method there, without a
  // line in the log.
  bool Allows(Method method, absl::string_view name_space,
              const Caller& caller) const;

  // Reports to on_audit how a call that needs the right of an admin has ended;
  // does nothing for other methods, or for a caller without an identity where
  // there is no policy. `subject` is the namespace, or what else the call is
  // about.
  void Audit(Method method, absl::string_view subject, const Caller& caller,
             const absl::Status& outcome) const;
  // Have calls that need the right of an admin audited when they have ended.
  bool HearsEndOf(Method method) const override {
    return RightOf(method) == Right::kAdmin;
  }
  void Done(const StagedCall& call,
            const absl::Status& outcome) const override {
    Audit(call.method, call.name_space, call.caller, outcome);
  }

  // Returns how much the files say, for the log: "grants=3 tokens=2".
  std::string Summary() const;

 private:
  // Rules holds what the files say.
  struct Rules {
    std::optional<Policy> policy;
    TokenFile tokens;
  };

  std::shared_ptr<const Rules> rules() const;
  // Reports to on_refused that the caller lacks the right, and returns the
  // error.
  absl::Status Refuse(Method method, Right lacking,
                      absl::string_view name_space, const Caller& caller) const;

  const Options options_;
  mutable CallerQuotas quotas_;
  mutable Mutex mutex_;
  std::shared_ptr<const Rules> rules_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_ACCESS_CONTROL_H_
