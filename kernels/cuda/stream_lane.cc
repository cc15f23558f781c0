#include "kernels/cuda/stream_lane.h"

#include <algorithm>
#include <chrono>

#include "base/status_macros.h"

namespace tensorkv {
namespace {

// Returns what a profile shows while the device has something of a stream to
// do: the name of the metric that counts it (docs/operations.md).
const char* RangeOf(StreamUse use) {
  switch (use) {
    case StreamUse::kToDevice:
      return "tensorkv_copied_bytes_total{direction=to_device}";
    case StreamUse::kToHost:
      return "tensorkv_copied_bytes_total{direction=to_host}";
    case StreamUse::kCompute:
      return "tensorkv_device_batch_seconds";
    case StreamUse::kMemory:
    case StreamUse::kLink:
      break;
  }
  return "tensorkv_device_memory_used_bytes";
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamLane>> StreamLane::Create(Device* device,
                                                               StreamUse use) {
  ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, device->CreateStream(use));
  return std::unique_ptr<StreamLane>(
      new StreamLane(device, use, std::move(stream)));
}

// The waiter gets its task with the mutex held: it waits in the stream's order.
absl::Status StreamLane::Run(
    absl::FunctionRef<absl::Status(Stream& stream)> start, DoneCallback done) {
  MutexLock lock(&mutex_);
  const uint64_t range = device_.BeginRange(RangeOf(use_));
  const absl::Status started = start(*stream_);
  absl::StatusOr<std::unique_ptr<Event>> event = RecordedEvent();
  last_ = event.ok() ? event->get() : nullptr;
  num_enqueued_awaited_ = num_enqueued_;
  waiter_.Submit([this, started, event = std::move(event), range,
                  done = std::move(done)]() mutable {
    AwaitAndCall(std::move(started), std::move(event), range, std::move(done));
    SpinForMore();
  });
  ++num_started_;
  return started;
}

// Its event is there for others, who record it further behind.
absl::Status StreamLane::Enqueue(
    absl::FunctionRef<absl::Status(Stream& stream)> start, Mark& mark) {
  MutexLock lock(&mutex_);
  mark = {.number = ++num_enqueued_,
          .range = device_.BeginRange(RangeOf(use_))};
  const absl::Status started = start(*stream_);
  absl::StatusOr<std::unique_ptr<Event>> event = RecordedEvent();
  last_ = event.ok() ? event->get() : nullptr;
  if (event.ok()) events_.push_back(*std::move(event));
  return started;
}

void StreamLane::EndEnqueued(const Mark& mark) {
  device_.EndRange(mark.range);
  MutexLock lock(&mutex_);
  num_enqueued_awaited_ = std::max(num_enqueued_awaited_, mark.number);
}

void StreamLane::WhenDone(DoneCallback done) {
  Run([](Stream&) { return absl::OkStatus(); }, std::move(done)).IgnoreError();
}

void StreamLane::AwaitAndCall(absl::Status started,
                              absl::StatusOr<std::unique_ptr<Event>> event,
                              uint64_t range, DoneCallback done) {
  started.Update(OutcomeOf(std::move(event)));
  device_.EndRange(range);
  std::move(done)(std::move(started));
  done = nullptr;  // what it has kept goes before others hear of the end
  MutexLock lock(&mutex_);
  ++num_ended_;
  changed_.SignalAll();
}

// What is started meanwhile finds the waiter awake.
void StreamLane::SpinForMore() {
  const auto end = std::chrono::steady_clock::now() +
                   absl::ToChronoNanoseconds(device_.spin_time());
  while (num_started_ == num_ended_ && std::chrono::steady_clock::now() < end) {
  }
}

absl::Status StreamLane::OrderBehind(Stream& stream) {
  MutexLock lock(&mutex_);
  if (num_ended_ == num_started_ && num_enqueued_ == num_enqueued_awaited_) {
    return absl::OkStatus();
  }
  if (last_ != nullptr && stream.WaitFor(*last_).ok()) return absl::OkStatus();
  return stream_->Synchronize();
}

uint64_t StreamLane::num_started() const {
  MutexLock lock(&mutex_);
  return num_started_;
}

void StreamLane::WaitForCallbacks(uint64_t num) const {
  MutexLock lock(&mutex_);
  while (num_ended_ < num) changed_.Wait(&mutex_);
}

absl::StatusOr<std::unique_ptr<Event>> StreamLane::RecordedEvent() {
  ASSIGN_OR_RETURN(std::unique_ptr<Event> event, ReuseOrCreateEvent());
  RETURN_IF_ERROR(stream_->Record(*event));
  return event;
}

absl::StatusOr<std::unique_ptr<Event>> StreamLane::ReuseOrCreateEvent() {
  if (events_.empty()) return device_.CreateEvent();
  std::unique_ptr<Event> event = std::move(events_.back());
  events_.pop_back();
  return event;
}

// Where the event does not tell that the work is done, the stream does; if that
// does not either, nothing that the device does can be known any more.
absl::Status StreamLane::OutcomeOf(
    absl::StatusOr<std::unique_ptr<Event>> event) {
  absl::Status status = event.status();
  if (event.ok()) {
    status = (*event)->Wait();
    MutexLock lock(&mutex_);
    events_.push_back(*std::move(event));
  }
  if (status.ok()) return status;
  const absl::Status synchronized = stream_->Synchronize();
  if (synchronized.ok()) return absl::OkStatus();
  return device_.health().MarkFailed(synchronized);
}

}  // namespace tensorkv
