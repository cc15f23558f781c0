#include "service/store/call_dispatch.h"

#include <algorithm>

#include "service/store/names.h"

namespace tensorkv {

CallDispatch::CallDispatch(Parts parts) : parts_(std::move(parts)) {
  for (const Method method : kUnaryMethods) {
    ends_are_heard_[static_cast<size_t>(method)] = std::any_of(
        parts_.stages.begin(), parts_.stages.end(),
        [method](const CallStage* stage) { return stage->HearsEndOf(method); });
  }
}

absl::StatusOr<std::vector<NamespaceStatus>> CallDispatch::ListNamespaces(
    absl::string_view after, size_t max_namespaces,
    const CallContext& context) const {
  return parts_.namespaces->ListNamespaces(
      after, max_namespaces,
      [&](absl::string_view name) {
        return !parts_.shows || parts_.shows(name, context.caller);
      },
      context);
}

absl::Status CallDispatch::AdmitCall(const StagedCall& call) const {
  if (CallRecord* const record = call.caller.record.get()) {
    record->SetCall(
        call.name_space.empty() ? kDefaultNamespace : call.name_space,
        call.call_id());
  }
  for (size_t i = 0; i < parts_.stages.size(); ++i) {
    absl::Status refusal = parts_.stages[i]->Admit(call);
    if (refusal.ok()) continue;
    TellEnd(call, refusal, i);
    return refusal;
  }
  return absl::OkStatus();
}

void CallDispatch::TellEnd(const StagedCall& call, const absl::Status& outcome,
                           size_t num_stages) const {
  for (size_t i = num_stages; i > 0; --i) {
    const CallStage& stage = *parts_.stages[i - 1];
    if (stage.HearsEndOf(call.method)) stage.Done(call, outcome);
  }
}

}  // namespace tensorkv
