#include "tests/testing/fake_gpu.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/testing/fake_stream_handle.h"
#include "tests/testing/guarded_memory.h"

namespace tensorkv::testing {

// All below are guarded by the GPU's mutex.

struct FakeGpu::EventState {
  int64_t num_recorded = 0;
  int64_t num_reached = 0;
};

// One piece of a stream's work.
struct FakeGpu::Work {
  // Runs without the mutex. Null for marks in the stream.
  absl::AnyInvocable<absl::Status()> run;
  // Runs even if the device has failed.
  absl::AnyInvocable<void()> after;
  // Null, or what must have come this far before.
  std::shared_ptr<const EventState> wait_for;
  int64_t wait_for_record = 0;
};

struct FakeGpu::Queue {
  explicit Queue(StreamUse use) : use(use) {}

  const StreamUse use;
  std::deque<Work> work;
  bool is_running = false;
  bool is_stopping = false;
  std::thread thread;
};

class FakeGpu::FakeEvent final : public Event {
 public:
  explicit FakeEvent(FakeGpu* gpu) : gpu_(*gpu) {
    MutexLock lock(&gpu_.mutex_);
    ++gpu_.num_events_;
  }
  ~FakeEvent() override {
    MutexLock lock(&gpu_.mutex_);
    --gpu_.num_events_;
  }

  absl::Status Wait() override {
    RETURN_IF_ERROR(gpu_.BeginCall());
    ++gpu_.num_waits_;
    {
      MutexLock lock(&gpu_.mutex_);
      const int64_t record = state_->num_recorded;
      while (state_->num_reached < record) gpu_.changed_.Wait(&gpu_.mutex_);
    }
    return gpu_.health_.status();
  }

 private:
  friend class FakeStream;
  FakeGpu& gpu_;
  const std::shared_ptr<EventState> state_ = std::make_shared<EventState>();
};

class FakeGpu::FakeStream final : public Stream, public FakeStreamHandle {
 public:
  FakeStream(FakeGpu* gpu, StreamUse use) : gpu_(*gpu), queue_(use) {
    MutexLock lock(&gpu_.mutex_);
    gpu_.queues_.push_back(&queue_);
    queue_.thread = std::thread([this] { gpu_.RunQueue(queue_); });
  }
  ~FakeStream() override {
    {
      MutexLock lock(&gpu_.mutex_);
      queue_.is_stopping = true;
      gpu_.changed_.SignalAll();
    }
    queue_.thread.join();
    MutexLock lock(&gpu_.mutex_);
    std::erase(gpu_.queues_, &queue_);
  }

  absl::Status CopyToDevice(void* device, const void* pinned,
                            size_t size_bytes) override {
    return Do([this, device, pinned, size_bytes]() -> absl::Status {
      RETURN_IF_ERROR(gpu_.CheckPinned(pinned, size_bytes));
      ASSIGN_OR_RETURN(char* const memory, gpu_.Find(device, size_bytes));
      std::memcpy(memory, pinned, size_bytes);
      gpu_.CountCopy();
      return absl::OkStatus();
    });
  }
  absl::Status CopyToHost(void* pinned, const void* device,
                          size_t size_bytes) override {
    return Do([this, pinned, device, size_bytes]() -> absl::Status {
      RETURN_IF_ERROR(gpu_.CheckPinned(pinned, size_bytes));
      ASSIGN_OR_RETURN(char* const memory, gpu_.Find(device, size_bytes));
      std::memcpy(pinned, memory, size_bytes);
      gpu_.CountCopy();
      return absl::OkStatus();
    });
  }

  absl::Status Launch(const UpdateLaunch& launch) override {
    return Do([this, launch,
               table = std::string(launch.table,
                                   launch.table_bytes)]() -> absl::Status {
      RETURN_IF_ERROR(gpu_.RunLaunch(launch, table));
      MutexLock lock(&gpu_.mutex_);
      ++gpu_.num_launches_;
      return absl::OkStatus();
    });
  }

  absl::Status Record(Event& event) override {
    RETURN_IF_ERROR(gpu_.BeginCall());
    const auto& state = static_cast<FakeEvent&>(event).state_;
    Work work;
    int64_t record;
    {
      MutexLock lock(&gpu_.mutex_);
      record = ++state->num_recorded;
    }
    work.after = [this, state, record] {
      MutexLock lock(&gpu_.mutex_);
      state->num_reached = std::max(state->num_reached, record);
    };
    gpu_.Enqueue(queue_, std::move(work));
    return absl::OkStatus();
  }

  absl::Status WaitFor(const Event& event) override {
    RETURN_IF_ERROR(gpu_.BeginCall());
    const auto& state = static_cast<const FakeEvent&>(event).state_;
    Work work;
    {
      MutexLock lock(&gpu_.mutex_);
      work.wait_for_record = state->num_recorded;
    }
    work.wait_for = state;
    gpu_.Enqueue(queue_, std::move(work));
    return absl::OkStatus();
  }

  absl::Status Synchronize() override {
    const absl::Status called = gpu_.BeginCall();
    ++gpu_.num_waits_;
    WaitUntilDone();
    RETURN_IF_ERROR(called);
    return gpu_.health_.status();
  }

  absl::StatusOr<bool> IsDone() override {
    RETURN_IF_ERROR(gpu_.BeginCall());
    MutexLock lock(&gpu_.mutex_);
    return queue_.work.empty() && !queue_.is_running;
  }
  void* handle() override { return static_cast<FakeStreamHandle*>(this); }

  void Enqueue(Start start) override {
    const auto state = std::make_shared<EventState>();
    const auto open = [gpu = &gpu_, state] {
      MutexLock lock(&gpu->mutex_);
      state->num_reached = 1;
      gpu->changed_.SignalAll();
    };
    const auto has_started = std::make_shared<bool>(false);
    Work work;
    work.run = [start = std::move(start), open, has_started]() -> absl::Status {
      *has_started = true;
      if (start(open)) return absl::OkStatus();
      open();
      return absl::InternalError("a library was given other addresses");
    };
    // Nothing is started on a device that has failed.
    work.after = [open, has_started] {
      if (!*has_started) open();
    };
    gpu_.Enqueue(queue_, std::move(work));
    Work stand_still;
    stand_still.wait_for = state;
    stand_still.wait_for_record = 1;
    gpu_.Enqueue(queue_, std::move(stand_still));
  }
  char* Find(const void* device, size_t size_bytes) const override {
    return gpu_.Find(device, size_bytes).value_or(nullptr);
  }

  // What is done even if the device has failed: memory comes and goes.
  void DoAlways(absl::AnyInvocable<void()> after) {
    Work work;
    work.after = std::move(after);
    gpu_.Enqueue(queue_, std::move(work));
  }

 private:
  void WaitUntilDone() {
    MutexLock lock(&gpu_.mutex_);
    while (!queue_.work.empty() || queue_.is_running) {
      gpu_.changed_.Wait(&gpu_.mutex_);
    }
  }
  absl::Status Do(absl::AnyInvocable<absl::Status()> run) {
    RETURN_IF_ERROR(gpu_.BeginCall());
    Work work;
    work.run = std::move(run);
    gpu_.Enqueue(queue_, std::move(work));
    return absl::OkStatus();
  }

  FakeGpu& gpu_;
  Queue queue_;
};

class FakeGpu::FakeDevice final : public Device {
 public:
  explicit FakeDevice(FakeGpu* gpu) : gpu_(*gpu) {}

  absl::string_view name() const override { return gpu_.name_; }
  DeviceHealth& health() override { return gpu_.health_; }
  absl::Duration spin_time() const override {
    return gpu_.options_.shuffle_seed ? absl::Microseconds(20)
                                      : absl::ZeroDuration();
  }
  bool CanRead(const void* data) override {
    return gpu_.FindToRead(data, 1).ok();
  }
  uint64_t BeginRange(const char*) override { return ++gpu_.num_open_ranges_; }
  void EndRange(uint64_t) override { --gpu_.num_open_ranges_; }

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(StreamUse use) override {
    RETURN_IF_ERROR(gpu_.BeginCall());
    return std::make_unique<FakeStream>(&gpu_, use);
  }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    RETURN_IF_ERROR(gpu_.BeginCall());
    return std::make_unique<FakeEvent>(&gpu_);
  }

  absl::StatusOr<void*> Allocate(size_t size_bytes, Stream& stream) override {
    RETURN_IF_ERROR(gpu_.BeginCall());
    ASSIGN_OR_RETURN(char* const memory, gpu_.NewMemory(size_bytes, false));
    ++gpu_.num_allocations_;
    static_cast<FakeStream&>(stream).DoAlways(
        [this, memory] { gpu_.SetThere(memory); });
    return DeviceAddressOf(memory);
  }
  absl::Status Free(void* data, Stream& stream) override {
    const absl::Status status = gpu_.BeginCall();
    static_cast<FakeStream&>(stream).DoAlways(
        [this, data] { gpu_.DeleteMemory(MemoryOf(data)); });
    return status;
  }

  absl::Status Trim(Stream& stream) override {
    RETURN_IF_ERROR(stream.Synchronize());
    RETURN_IF_ERROR(gpu_.BeginCall());
    gpu_.Trim();
    return absl::OkStatus();
  }

  absl::StatusOr<void*> AllocatePinned(size_t size_bytes) override {
    RETURN_IF_ERROR(gpu_.BeginCall());
    ASSIGN_OR_RETURN(char* const memory, gpu_.NewMemory(size_bytes, true));
    gpu_.SetThere(memory);
    return memory;
  }
  absl::Status FreePinned(void* data) override {
    const absl::Status status = gpu_.BeginCall();
    gpu_.DeleteMemory(static_cast<char*>(data));
    return status;
  }

 private:
  FakeGpu& gpu_;
};

FakeGpu::FakeGpu(const FakeGpuOptions& options)
    : options_(options),
      name_(absl::StrCat("fake:", options.ordinal)),
      health_(name_),
      random_(options.shuffle_seed.value_or(0)) {}

FakeGpu::~FakeGpu() {
  MutexLock lock(&mutex_);
  if (queues_.empty()) return;
  std::cerr << "FakeGpu: expected no stream to outlive it, got "
            << queues_.size() << "\n";
  std::abort();
}

std::unique_ptr<Device> FakeGpu::Open() {
  return std::make_unique<FakeDevice>(this);
}

// --- Faults -----------------------------------------------------------------

absl::Status FakeGpu::Fault::Next() {
  if (calls_left < 0 || calls_left-- > 0) return absl::OkStatus();
  has_come = true;
  return status;
}

void FakeGpu::FailCall(int64_t index, absl::Status status) {
  MutexLock lock(&mutex_);
  call_fault_ = {index, std::move(status)};
}

void FakeGpu::FailWork(int64_t index, absl::Status status) {
  MutexLock lock(&mutex_);
  work_fault_ = {index, std::move(status)};
}

bool FakeGpu::has_injected() const {
  MutexLock lock(&mutex_);
  return call_fault_.has_come || work_fault_.has_come;
}

absl::Status FakeGpu::BeginCall() {
  RETURN_IF_ERROR(health_.status());
  MutexLock lock(&mutex_);
  return call_fault_.Next();
}

// --- Streams ----------------------------------------------------------------

void FakeGpu::Hold(StreamUse use) {
  MutexLock lock(&mutex_);
  is_held_[static_cast<int>(use)] = true;
  turn_ = nullptr;
}

void FakeGpu::Release(StreamUse use) {
  MutexLock lock(&mutex_);
  is_held_[static_cast<int>(use)] = false;
  changed_.SignalAll();
}

void FakeGpu::WaitForQueued(StreamUse use, size_t num_work) {
  MutexLock lock(&mutex_);
  while (!HasQueuedLocked(use, num_work)) changed_.Wait(&mutex_);
}

bool FakeGpu::HasQueued(StreamUse use, size_t num_work) const {
  MutexLock lock(&mutex_);
  return HasQueuedLocked(use, num_work);
}

bool FakeGpu::HasQueuedLocked(StreamUse use, size_t num_work) const {
  return std::any_of(queues_.begin(), queues_.end(), [&](const Queue* queue) {
    return queue->use == use && queue->work.size() >= num_work;
  });
}

void FakeGpu::Enqueue(Queue& queue, Work work) {
  MutexLock lock(&mutex_);
  queue.work.push_back(std::move(work));
  changed_.SignalAll();
}

bool FakeGpu::HasRunnable(const Queue& queue) const {
  if (queue.work.empty() || is_held_[static_cast<int>(queue.use)]) return false;
  const Work& next = queue.work.front();
  return next.wait_for == nullptr ||
         next.wait_for->num_reached >= next.wait_for_record;
}

void FakeGpu::DrawTurn() {
  std::vector<Queue*> runnable;
  for (Queue* queue : queues_) {
    if (HasRunnable(*queue)) runnable.push_back(queue);
  }
  turn_ = runnable[random_() % runnable.size()];
  changed_.SignalAll();
}

bool FakeGpu::MayRun(Queue& queue) {
  if (!HasRunnable(queue)) return false;
  if (!options_.shuffle_seed) return true;
  if (turn_ == nullptr) DrawTurn();
  return turn_ == &queue;
}

void FakeGpu::RunQueue(Queue& queue) {
  mutex_.lock();
  for (;;) {
    while (!MayRun(queue)) {
      if (queue.is_stopping && queue.work.empty()) return mutex_.unlock();
      changed_.Wait(&mutex_);
    }
    Work work = std::move(queue.work.front());
    queue.work.pop_front();
    queue.is_running = true;
    mutex_.unlock();
    const absl::Status status = Perform(work);
    if (!status.ok())
      health_.MarkFailed(status).IgnoreError();  // that is the effect
    if (work.after) work.after();
    work = {};
    mutex_.lock();
    queue.is_running = false;
    turn_ = nullptr;
    changed_.SignalAll();
  }
}

absl::Status FakeGpu::Perform(Work& work) {
  if (!work.run || !health_.status().ok()) return absl::OkStatus();
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(work_fault_.Next());
  }
  return work.run();
}

// --- Memory -----------------------------------------------------------------

uint64_t FakeGpu::UsedBytes(bool is_pinned) const {
  uint64_t used_bytes = 0;
  for (const auto& [data, memory] : memory_) {
    if (memory.is_pinned == is_pinned) used_bytes += memory.size_bytes;
  }
  return used_bytes;
}

void FakeGpu::Trim() {
  MutexLock lock(&mutex_);
  reserved_bytes_ = UsedBytes(/*is_pinned=*/false);
}

uint64_t FakeGpu::reserved_bytes() const {
  MutexLock lock(&mutex_);
  return reserved_bytes_;
}

absl::StatusOr<char*> FakeGpu::NewMemory(size_t size_bytes, bool is_pinned) {
  MutexLock lock(&mutex_);
  const uint64_t used_bytes = UsedBytes(is_pinned);
  if (size_bytes > options_.memory_bytes - used_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(name_, " has no ", size_bytes, " bytes left"));
  }
  char* const memory = AllocateGuarded(size_bytes);
  memory_[memory] = {size_bytes, is_pinned};
  if (!is_pinned) {
    reserved_bytes_ = std::max(reserved_bytes_, used_bytes + size_bytes);
  }
  return memory;
}

void FakeGpu::SetThere(char* memory) {
  MutexLock lock(&mutex_);
  memory_[memory].is_there = true;
}

void FakeGpu::DeleteMemory(char* memory) {
  MutexLock lock(&mutex_);
  const auto found = memory_.find(memory);
  const size_t size_bytes = found->second.size_bytes;
  memory_.erase(found);
  FreeGuarded(memory, size_bytes);
}

absl::StatusOr<char*> FakeGpu::Find(const void* device,
                                    size_t size_bytes) const {
  char* const memory = MemoryOf(device);
  if (!IsDeviceAddress(device)) {
    return absl::InternalError("that is no address of the device");
  }
  RETURN_IF_ERROR(CheckRange(memory, size_bytes, /*is_pinned=*/false));
  return memory;
}

absl::StatusOr<char*> FakeGpu::FindToRead(const void* data,
                                          size_t size_bytes) const {
  if (!IsDeviceAddress(data)) {
    RETURN_IF_ERROR(CheckPinned(data, size_bytes));
    return static_cast<char*>(const_cast<void*>(data));
  }
  return Find(data, size_bytes);
}

absl::Status FakeGpu::CheckPinned(const void* pinned, size_t size_bytes) const {
  return CheckRange(static_cast<const char*>(pinned), size_bytes,
                    /*is_pinned=*/true);
}

absl::Status FakeGpu::CheckRange(const char* begin, size_t size_bytes,
                                 bool is_pinned) const {
  MutexLock lock(&mutex_);
  auto after = memory_.upper_bound(begin);
  if (after != memory_.begin()) {
    const auto& [start, memory] = *--after;
    if (memory.is_there && memory.is_pinned == is_pinned &&
        begin + size_bytes <= start + memory.size_bytes) {
      return absl::OkStatus();
    }
  }
  return absl::InternalError(
      absl::StrCat("no ", is_pinned ? "pinned" : "device", " memory of ",
                   size_bytes, " bytes at that address"));
}

void FakeGpu::CountCopy() {
  MutexLock lock(&mutex_);
  ++num_copies_;
}

FakeGpu::Usage FakeGpu::usage() const {
  MutexLock lock(&mutex_);
  Usage usage;
  for (const auto& [data, memory] : memory_) {
    (memory.is_pinned ? usage.pinned_bytes : usage.device_bytes) +=
        memory.size_bytes;
  }
  usage.num_streams = static_cast<int>(queues_.size());
  usage.num_events = num_events_;
  return usage;
}

int64_t FakeGpu::num_launches() const {
  MutexLock lock(&mutex_);
  return num_launches_;
}

int64_t FakeGpu::num_copies() const {
  MutexLock lock(&mutex_);
  return num_copies_;
}

}  // namespace tensorkv::testing
