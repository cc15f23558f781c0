#include "service/server/event_log.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/shown_text.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// By kind.
constexpr absl::string_view kNames[] = {
    "namespace created",  "namespace updated", "namespace deleted",
    "rule changed",       "worker joined",     "worker left",
    "worker lost",        "round failed",      "peer refused",
    "admin call refused", "call failed",       "slow call"};

}  // namespace

EventLog::EventLog(Alarms* alarms, Sink sink)
    : alarms_(*alarms), sink_(std::move(sink)) {
  static_assert(std::size(kNames) == kNumKinds);
}

absl::string_view EventLog::NameOf(size_t kind) { return kNames[kind]; }

void EventLog::Report(StoreEvent event, absl::string_view name_space,
                      absl::string_view detail) {
  Write(static_cast<size_t>(event), [&] {
    return absl::StrCat("namespace=", Quoted(name_space, kMaxNamespaceBytes),
                        detail.empty() ? "" : " ", detail);
  });
}

void EventLog::LogPeerRefused(absl::string_view reason) {
  Write(kPeerRefused, [reason] { return std::string(reason); });
}

void EventLog::LogCallRefused(bool takes_admin,
                              absl::FunctionRef<std::string()> line) {
  Write(takes_admin ? kAdminsCallRefused : kPeerRefused, line);
}

void EventLog::LogCallFailed(absl::FunctionRef<std::string()> line) {
  Write(kCallFailed, line);
}

void EventLog::LogSlowCall(absl::FunctionRef<std::string()> line) {
  Write(kSlowCall, line);
}

void EventLog::Write(size_t kind, absl::FunctionRef<std::string()> text) {
  if (Admit(kind)) sink_(absl::StrCat(NameOf(kind), ": ", text()));
}

bool EventLog::Admit(size_t kind) {
  const absl::Duration now = alarms_.Now();
  MutexLock lock(&mutex_);
  Window& window = windows_[kind];
  // A window with suppressed lines ends when these are reported.
  if (window.num_suppressed == 0 && now - window.start >= kWindow) {
    window = {.start = now};
  }
  if (window.num_lines < kLinesPerWindow) {
    ++window.num_lines;
    return true;
  }
  if (window.num_suppressed++ == 0) {
    alarms_.Schedule(window.start + kWindow,
                     [this, kind] { ReportSuppressed(kind); });
  }
  return false;
}

void EventLog::ReportSuppressed(size_t kind) {
  uint64_t num_suppressed = 0;
  {
    MutexLock lock(&mutex_);
    num_suppressed = std::exchange(windows_[kind], Window()).num_suppressed;
  }
  sink_(absl::StrCat(NameOf(kind), ": ", num_suppressed, " more in the last ",
                     absl::FormatDuration(kWindow)));
}

}  // namespace tensorkv
