// Asks for the right to make a call.

#ifndef TENSORKV_SERVICE_SECURITY_RIGHTS_STAGE_H_
#define TENSORKV_SERVICE_SECURITY_RIGHTS_STAGE_H_

#include "absl/status/status.h"
#include "service/security/access_control.h"
#include "service/store/call_stage.h"

namespace tensorkv {

// Checks by AccessControl::Check that the caller may make the call in its
// namespace, and has Audit hear how calls that need the right of an admin have
// ended. Errors: those of Check.
class RightsStage final : public CallStage {
 public:
  // `access` outlives the stage.
  explicit RightsStage(const AccessControl* access) : access_(*access) {}

  absl::Status Admit(const StagedCall& call) const override {
    return access_.Check(call.method, call.name_space, call.caller);
  }
  bool HearsEndOf(Method method) const override {
    return RightOf(method) == Right::kAdmin;
  }
  void Done(const StagedCall& call,
            const absl::Status& outcome) const override {
    access_.Audit(call.method, call.name_space, call.caller, outcome);
  }

 private:
  const AccessControl& access_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_RIGHTS_STAGE_H_
