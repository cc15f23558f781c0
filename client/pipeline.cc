#include "client/pipeline.h"

#include <utility>

#include "absl/hash/hash.h"
#include "base/scoped_blocking_call.h"
#include "client/internal/calls/wait_queue.h"

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

// Returns the result of a call of one key for that key.
absl::StatusOr<PushResult> OnlyOne(absl::StatusOr<PushReply> reply) {
  if (!reply.ok()) return reply.status();
  return reply->results.front();
}
absl::StatusOr<Value> OnlyOne(absl::StatusOr<PullReply> reply) {
  if (!reply.ok()) return reply.status();
  return std::move(reply->values.front());
}

// Returns a callback that takes the reply of a call of one key, for one that
// takes what that has for the key.
template <typename Done>
auto ForOne(Done done) {
  return [done = std::move(done)](auto reply) mutable {
    std::move(done)(OnlyOne(std::move(reply)));
  };
}

std::vector<PushEntry> EntryOf(absl::string_view key, Tensor contribution) {
  std::vector<PushEntry> entries(1);
  entries[0].key = std::string(key);
  entries[0].tensor = std::move(contribution);
  return entries;
}

Client Bounded(Client client, const PipelineCallOptions& bounds) {
  if (bounds.timeout) client = client.WithTimeout(*bounds.timeout);
  if (bounds.canceller) client = client.WithCanceller(bounds.canceller);
  if (!bounds.into.empty()) client = client.Into(bounds.into);
  return client;
}

}  // namespace

Pipeline::Pipeline(Client* client, const PipelineOptions& options)
    : client_(*client),
      options_(options),
      max_running_(options.max_running > 0 ? options.max_running
                                           : options.max_in_flight),
      threads_(max_running_) {}

Pipeline::~Pipeline() {
  // A forked process has the calls of its parent, which end there.
  if (!CheckNotForked().ok()) return;
  const ScopedBlockingCall waits(ScopedBlockingCall::IfLast::kWait);
  MutexLock lock(&mutex_);
  while (num_in_flight_ > 0 || is_starting_) has_headroom_.Wait(&mutex_);
}

template <typename Reply, typename Start>
std::future<absl::StatusOr<Reply>> Pipeline::Submit(
    std::vector<KeyOrder::KeyHash> keys, uint64_t bytes,
    const PipelineCallOptions& bounds, Start start) {
  std::promise<absl::StatusOr<Reply>> promise;
  auto future = promise.get_future();
  absl::Status usable = CheckNotForked();
  if (!usable.ok()) {
    promise.set_value(std::move(usable));
    return future;
  }
  Enqueue({.keys = std::move(keys),
           .bytes = bytes,
           .priority = bounds.priority,
           .start = [this, bytes, client = Bounded(client_, bounds),
                     promise = std::move(promise),
                     start = std::move(start)](Ticket ticket) mutable {
             std::move(start)(
                 client, [this, ticket, bytes, promise = std::move(promise)](
                             absl::StatusOr<Reply> reply) mutable {
                   promise.set_value(std::move(reply));
                   OnEnded(ticket, bytes);
                 });
           }});
  return future;
}

std::future<absl::StatusOr<PushResult>> Pipeline::Push(
    absl::string_view key, Tensor contribution, const PushOptions& options,
    const PipelineCallOptions& bounds) {
  const uint64_t bytes = contribution.size_bytes();
  return Submit<PushResult>(
      {HashOf(key)}, bytes, bounds,
      [this, entries = EntryOf(key, std::move(contribution)), options](
          Client& client, auto done) mutable {
        client.StartPush(std::move(entries), options, threads_,
                         ForOne(std::move(done)));
      });
}

std::future<absl::StatusOr<PushReply>> Pipeline::Push(
    std::vector<PushEntry> entries, const PushOptions& options,
    const PipelineCallOptions& bounds) {
  std::vector<KeyOrder::KeyHash> keys = HashesOf(entries);
  const uint64_t bytes = BytesOf(entries);
  return Submit<PushReply>(std::move(keys), bytes, bounds,
                           [this, entries = std::move(entries), options](
                               Client& client, auto done) mutable {
                             client.StartPush(std::move(entries), options,
                                              threads_, std::move(done));
                           });
}

std::future<absl::StatusOr<Value>> Pipeline::Pull(
    absl::string_view key, Version min_version,
    const PipelineCallOptions& bounds) {
  return Submit<Value>(
      {HashOf(key)}, /*bytes=*/0, bounds,
      [this, key = std::string(key), min_version](Client& client, auto done) {
        client.StartPull(PullRequest{.entries = {{key, min_version}}}, threads_,
                         ForOne(std::move(done)));
      });
}

std::future<absl::StatusOr<PullReply>> Pipeline::Pull(
    absl::Span<const std::string> keys, const PipelineCallOptions& bounds) {
  PullRequest request;
  for (const std::string& key : keys) request.entries.push_back({key, 0});
  return Pull(std::move(request), bounds);
}

std::future<absl::StatusOr<PullReply>> Pipeline::Pull(
    PullRequest request, const PipelineCallOptions& bounds) {
  std::vector<KeyOrder::KeyHash> keys = HashesOf(request.entries);
  return Submit<PullReply>(
      std::move(keys), /*bytes=*/0, bounds,
      [this, request = std::move(request)](Client& client, auto done) mutable {
        client.StartPull(std::move(request), threads_, std::move(done));
      });
}

std::future<absl::StatusOr<Value>> Pipeline::PushPull(
    absl::string_view key, Tensor contribution, const PushOptions& options,
    const PipelineCallOptions& bounds) {
  const uint64_t bytes = contribution.size_bytes();
  return Submit<Value>({HashOf(key)}, bytes, bounds,
                       [this, entries = EntryOf(key, std::move(contribution)),
                        options](Client& client, auto done) mutable {
                         client.StartPushPull(std::move(entries), options,
                                              threads_,
                                              ForOne(std::move(done)));
                       });
}

std::future<absl::StatusOr<PullReply>> Pipeline::PushPull(
    std::vector<PushEntry> entries, const PushOptions& options,
    const PipelineCallOptions& bounds) {
  std::vector<KeyOrder::KeyHash> keys = HashesOf(entries);
  const uint64_t bytes = BytesOf(entries);
  return Submit<PullReply>(std::move(keys), bytes, bounds,
                           [this, entries = std::move(entries), options](
                               Client& client, auto done) mutable {
                             client.StartPushPull(std::move(entries), options,
                                                  threads_, std::move(done));
                           });
}

void Pipeline::Enqueue(Call call) {
  const Ticket ticket = AwaitTurn(call);
  MutexLock lock(&mutex_);
  ++next_admitted_;
  has_headroom_.SignalAll();
  ++num_in_flight_;
  bytes_in_flight_ += call.bytes;
  const bool may_run = order_.Add(ticket, std::move(call.keys));
  waiting_.emplace(ticket, std::move(call));
  if (may_run) MakeReady(ticket);
  StartReady();
}

Pipeline::Ticket Pipeline::AwaitTurn(const Call& call) {
  Ticket ticket = 0;
  {
    MutexLock lock(&mutex_);
    ticket = next_ticket_++;
    if (HasTurn(ticket, call)) return ticket;
  }
  const ScopedBlockingCall waits(ScopedBlockingCall::IfLast::kWait);
  MutexLock lock(&mutex_);
  while (!HasTurn(ticket, call)) has_headroom_.Wait(&mutex_);
  return ticket;
}

bool Pipeline::HasTurn(Ticket ticket, const Call& call) const {
  return ticket == next_admitted_ && HasHeadroomFor(call);
}

bool Pipeline::HasHeadroomFor(const Call& call) const {
  if (num_in_flight_ == 0) return true;
  return num_in_flight_ < options_.max_in_flight &&
         bytes_in_flight_ + call.bytes <= options_.max_bytes;
}

void Pipeline::MakeReady(Ticket ticket) {
  ready_.emplace(-int64_t{waiting_.at(ticket).priority}, ticket);
}

void Pipeline::StartReady() {
  if (is_starting_) return;
  is_starting_ = true;
  while (!ready_.empty() && num_running_ < max_running_) {
    const Ticket ticket = ready_.extract(ready_.begin()).value().second;
    Call call = std::move(waiting_.extract(ticket).mapped());
    ++num_running_;
    mutex_.unlock();
    std::move(call.start)(ticket);
    mutex_.lock();
  }
  is_starting_ = false;
  // The destructor may wait for that.
  if (num_in_flight_ == 0) has_headroom_.SignalAll();
}

void Pipeline::OnEnded(Ticket ticket, uint64_t bytes) {
  MutexLock lock(&mutex_);
  --num_running_;
  --num_in_flight_;
  bytes_in_flight_ -= bytes;
  for (const Ticket next : order_.Remove(ticket)) MakeReady(next);
  has_headroom_.SignalAll();
  StartReady();
}

}  // namespace tensorkv
