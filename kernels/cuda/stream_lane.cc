#include "kernels/cuda/stream_lane.h"

#include "base/status_macros.h"

namespace tensorkv {

absl::StatusOr<std::unique_ptr<StreamLane>> StreamLane::Create(Device* device,
                                                               StreamUse use) {
  ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, device->CreateStream(use));
  return std::unique_ptr<StreamLane>(new StreamLane(device, std::move(stream)));
}

void StreamLane::WhenDone(DoneCallback done) {
  waiter_.Submit(
      [this, event = RecordedEvent(), done = std::move(done)]() mutable {
        std::move(done)(OutcomeOf(std::move(event)));
      });
}

absl::StatusOr<std::unique_ptr<Event>> StreamLane::RecordedEvent() {
  ASSIGN_OR_RETURN(std::unique_ptr<Event> event, TakeEvent());
  RETURN_IF_ERROR(stream_->Record(*event));
  return event;
}

absl::StatusOr<std::unique_ptr<Event>> StreamLane::TakeEvent() {
  {
    MutexLock lock(&mutex_);
    if (!events_.empty()) {
      std::unique_ptr<Event> event = std::move(events_.back());
      events_.pop_back();
      return event;
    }
  }
  return device_.CreateEvent();
}

void StreamLane::Reuse(std::unique_ptr<Event> event) {
  MutexLock lock(&mutex_);
  events_.push_back(std::move(event));
}

// Where the event does not tell that the work is done, the stream does; if that
// does not either, nothing that the device does can be known any more.
absl::Status StreamLane::OutcomeOf(
    absl::StatusOr<std::unique_ptr<Event>> event) {
  absl::Status status = event.status();
  if (event.ok()) {
    status = (*event)->Wait();
    Reuse(*std::move(event));
  }
  if (status.ok()) return status;
  const absl::Status synchronized = stream_->Synchronize();
  if (synchronized.ok()) return absl::OkStatus();
  return device_.health().Fail(synchronized);
}

}  // namespace tensorkv
