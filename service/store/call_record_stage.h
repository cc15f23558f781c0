// Notes what calls are about, for the log.

#ifndef TENSORKV_SERVICE_STORE_CALL_RECORD_STAGE_H_
#define TENSORKV_SERVICE_STORE_CALL_RECORD_STAGE_H_

#include "absl/status/status.h"
#include "service/store/call_stage.h"
#include "service/store/names.h"

namespace tensorkv {

// Sets the namespace and the id of each call in the caller's CallRecord, if it
// has one. Admits every call.
class CallRecordStage final : public CallStage {
 public:
  absl::Status Admit(const StagedCall& call) const override {
    if (call.caller.record != nullptr) {
      call.caller.record->SetCall(
          call.name_space.empty() ? kDefaultNamespace : call.name_space,
          call.call_id());
    }
    return absl::OkStatus();
  }
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_RECORD_STAGE_H_
