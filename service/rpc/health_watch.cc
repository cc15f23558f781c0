#include "service/rpc/health_watch.h"

#include <utility>

namespace tensorkv {

HealthWatch::HealthWatch(Status status,
                         std::function<void(HealthWatch*)> on_done)
    : on_done_(std::move(on_done)), wanted_(status) {
  // Every watch begins with the current state; none equals UNKNOWN.
  Send(status);
}

void HealthWatch::Send(Status status) {
  Change([&] {
    if (!is_ending_) wanted_ = status;
  });
}

void HealthWatch::End() {
  Change([&] { is_ending_ = true; });
}

void HealthWatch::OnWriteDone(bool ok) {
  Change([&] {
    is_writing_ = false;
    if (!ok) Abandon();
  });
}

void HealthWatch::OnCancel() {
  Change([&] { Abandon(); });
}

void HealthWatch::OnDone() {
  on_done_(this);
  delete this;
}

void HealthWatch::Change(absl::FunctionRef<void()> change) {
  Action action;
  {
    MutexLock lock(&mutex_);
    change();
    action = NextAction();
  }
  // With no lock held: gRPC may delete this watch before Finish returns.
  if (action == Action::kWrite) StartWrite(&sent_);
  if (action == Action::kFinish) {
    Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                        "the server is shutting down"));
  }
}

void HealthWatch::Abandon() {
  is_ending_ = true;
  wanted_ = sent_.status();
}

HealthWatch::Action HealthWatch::NextAction() {
  if (is_writing_ || is_finished_) return Action::kNone;
  if (wanted_ != sent_.status()) {
    is_writing_ = true;
    sent_.set_status(wanted_);
    return Action::kWrite;
  }
  if (!is_ending_) return Action::kNone;
  is_finished_ = true;
  return Action::kFinish;
}

}  // namespace tensorkv
