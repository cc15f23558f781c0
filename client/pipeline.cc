#include "client/pipeline.h"

#include <system_error>
#include <type_traits>
#include <utility>

#include "absl/hash/hash.h"

namespace tensorkv {
namespace {

KeyOrder::KeyHash HashOf(absl::string_view key) { return absl::HashOf(key); }

template <typename Entries>
std::vector<KeyOrder::KeyHash> HashesOf(const Entries& entries) {
  std::vector<KeyOrder::KeyHash> hashes;
  hashes.reserve(entries.size());
  for (const auto& entry : entries) hashes.push_back(HashOf(entry.key));
  return hashes;
}

uint64_t BytesOf(const std::vector<PushEntry>& entries) {
  uint64_t bytes = 0;
  for (const PushEntry& entry : entries) bytes += entry.tensor.size_bytes();
  return bytes;
}

}  // namespace

Pipeline::Pipeline(Client* client, const PipelineOptions& options)
    : client_(*client),
      options_(options),
      max_threads_(options.max_running > 0 ? options.max_running
                                           : options.max_in_flight) {
  MutexLock lock(&mutex_);
  threads_.emplace_back([this] { Serve(); });
}

Pipeline::~Pipeline() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    while (num_in_flight_ > 0) has_room_.Wait(&mutex_);
    is_stopping_ = true;
    has_work_.SignalAll();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

template <typename Verb>
auto Pipeline::Submit(std::vector<KeyOrder::KeyHash> keys, uint64_t bytes,
                      int priority, Verb verb) {
  std::promise<std::invoke_result_t<Verb>> promise;
  auto future = promise.get_future();
  Enqueue(
      {.keys = std::move(keys),
       .bytes = bytes,
       .priority = priority,
       .run = [promise = std::move(promise), verb = std::move(verb)]() mutable {
         promise.set_value(verb());
       }});
  return future;
}

std::future<absl::StatusOr<PushResult>> Pipeline::Push(
    absl::string_view key, Tensor contribution, const PushOptions& options,
    int priority) {
  const uint64_t bytes = contribution.size_bytes();
  return Submit({HashOf(key)}, bytes, priority,
                [this, key = std::string(key),
                 contribution = std::move(contribution), options]() mutable {
                  return client_.Push(key, std::move(contribution), options);
                });
}

std::future<absl::StatusOr<PushReply>> Pipeline::Push(
    std::vector<PushEntry> entries, const PushOptions& options, int priority) {
  std::vector<KeyOrder::KeyHash> keys = HashesOf(entries);
  const uint64_t bytes = BytesOf(entries);
  return Submit(std::move(keys), bytes, priority,
                [this, entries = std::move(entries), options]() mutable {
                  return client_.Push(std::move(entries), options);
                });
}

std::future<absl::StatusOr<Value>> Pipeline::Pull(absl::string_view key,
                                                  Version min_version,
                                                  int priority) {
  return Submit({HashOf(key)}, /*bytes=*/0, priority,
                [this, key = std::string(key), min_version] {
                  return client_.Pull(key, min_version);
                });
}

std::future<absl::StatusOr<PullReply>> Pipeline::Pull(
    absl::Span<const std::string> keys, int priority) {
  PullRequest request;
  for (const std::string& key : keys) request.entries.push_back({key, 0});
  return Pull(std::move(request), priority);
}

std::future<absl::StatusOr<PullReply>> Pipeline::Pull(PullRequest request,
                                                      int priority) {
  std::vector<KeyOrder::KeyHash> keys = HashesOf(request.entries);
  return Submit(std::move(keys), /*bytes=*/0, priority,
                [this, request = std::move(request)]() mutable {
                  return client_.Pull(std::move(request));
                });
}

std::future<absl::StatusOr<Value>> Pipeline::PushPull(
    absl::string_view key, Tensor contribution, const PushOptions& options,
    int priority) {
  const uint64_t bytes = contribution.size_bytes();
  return Submit({HashOf(key)}, bytes, priority,
                [this, key = std::string(key),
                 contribution = std::move(contribution), options]() mutable {
                  return client_.PushPull(key, std::move(contribution),
                                          options);
                });
}

std::future<absl::StatusOr<PullReply>> Pipeline::PushPull(
    std::vector<PushEntry> entries, const PushOptions& options, int priority) {
  std::vector<KeyOrder::KeyHash> keys = HashesOf(entries);
  const uint64_t bytes = BytesOf(entries);
  return Submit(std::move(keys), bytes, priority,
                [this, entries = std::move(entries), options]() mutable {
                  return client_.PushPull(std::move(entries), options);
                });
}

void Pipeline::Enqueue(Call call) {
  MutexLock lock(&mutex_);
  const Ticket ticket = next_ticket_++;
  while (ticket != next_admitted_ || !HasRoomFor(call)) {
    has_room_.Wait(&mutex_);
  }
  ++next_admitted_;
  has_room_.SignalAll();
  ++num_in_flight_;
  bytes_in_flight_ += call.bytes;
  const bool may_run = order_.Add(ticket, std::move(call.keys));
  waiting_.emplace(ticket, std::move(call));
  if (may_run) MakeReady(ticket);
}

bool Pipeline::HasRoomFor(const Call& call) const {
  if (num_in_flight_ == 0) return true;
  return num_in_flight_ < options_.max_in_flight &&
         bytes_in_flight_ + call.bytes <= options_.max_bytes;
}

void Pipeline::MakeReady(Ticket ticket) {
  ready_.emplace(-int64_t{waiting_.at(ticket).priority}, ticket);
  const bool all_are_busy =
      ready_.size() > static_cast<size_t>(num_idle_threads_);
  const bool may_start = threads_.size() < static_cast<size_t>(max_threads_);
  if (all_are_busy && may_start) StartThread();
  has_work_.Signal();
}

void Pipeline::StartThread() {
  try {
    threads_.emplace_back([this] { Serve(); });
  } catch (const std::system_error&) {
    // The system has no more threads to give; those that are there do the work.
  }
}

void Pipeline::Serve() {
  mutex_.lock();
  for (;;) {
    ++num_idle_threads_;
    while (ready_.empty() && !is_stopping_) has_work_.Wait(&mutex_);
    --num_idle_threads_;
    if (ready_.empty()) break;
    RunNext();
  }
  mutex_.unlock();
}

void Pipeline::RunNext() {
  const Ticket ticket = ready_.extract(ready_.begin()).value().second;
  Call call = std::move(waiting_.extract(ticket).mapped());
  mutex_.unlock();
  std::move(call.run)();
  call.run = nullptr;  // what it holds goes without the lock
  mutex_.lock();
  --num_in_flight_;
  bytes_in_flight_ -= call.bytes;
  for (const Ticket next : order_.Remove(ticket)) MakeReady(next);
  has_room_.SignalAll();
}

}  // namespace tensorkv
