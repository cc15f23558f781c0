#include "service/server/call_log.h"

#include <xxhash.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/shown_text.h"

namespace tensorkv {
namespace {

// Bounds what a line takes of a text that somebody else has chosen.
constexpr size_t kMaxTextBytes = 512;

std::string Shown(absl::string_view text) {
  return Quoted(text, kMaxTextBytes);
}

// Whoever knows the identity of a client could ask for its answers: the log
// tells clients from one another by a part of a digest.
std::string TextOf(const CallId& id) {
  return absl::StrFormat("%08x:%d",
                         static_cast<uint32_t>(XXH3_64bits(
                             id.client_id.data(), id.client_id.size())),
                         id.sequence);
}

std::string TimeText(absl::Duration time) {
  return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1)));
}

bool IsFaultOfServer(absl::StatusCode code) {
  return code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kInternal ||
         code == absl::StatusCode::kDataLoss;
}

std::string LineOf(Method method, const CallOutcome& outcome) {
  const Caller& caller = *outcome.caller;
  std::string line =
      absl::StrCat("method=", NameOf(method), " caller=", Shown(caller.name),
                   " outcome=", absl::StatusCodeToString(outcome.code),
                   " took=", TimeText(outcome.duration));
  const auto add = [&line](absl::string_view name, absl::string_view value) {
    if (!value.empty()) absl::StrAppend(&line, " ", name, "=", value);
  };
  add("arriving", TimeText(outcome.arriving));
  add("leaving", TimeText(outcome.leaving));
  if (caller.record != nullptr) {
    const CallRecord::Fields fields = caller.record->fields();
    if (!fields.name_space.empty()) add("namespace", Shown(fields.name_space));
    if (fields.call_id) add("call_id", TextOf(*fields.call_id));
    if (!fields.awaited.empty()) add("waited_for", Shown(fields.awaited));
  }
  add("trace", caller.trace);
  if (outcome.code != absl::StatusCode::kOk) {
    add("error", Shown(outcome.message));
  }
  return line;
}

}  // namespace

void CallLog::Handled(Method method, const CallOutcome& outcome) {
  inner_.Handled(method, outcome);
  if (outcome.caller == nullptr) return;
  const auto line = [&] { return LineOf(method, outcome); };
  if (IsFaultOfServer(outcome.code)) {
    log_.LogCallFailed(line);
  } else if (outcome.duration >= slow_call_) {
    log_.LogSlowCall(line);
  }
}

}  // namespace tensorkv
