#include "client/pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "client/call_threads.h"
#include "client/internal/calls/call_queue.h"
#include "client/internal/calls/wait_queue.h"

namespace tensorkv {
namespace {

uint64_t HashOf(absl::string_view key) { return absl::HashOf(key); }

template <typename Entries>
std::vector<uint64_t> HashesOf(const Entries& entries) {
  std::vector<uint64_t> hashes;
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

}  // namespace

class Pipeline::Caller {
 public:
  explicit Caller(int max_threads) : threads_(max_threads) {}
  virtual ~Caller() = default;

  virtual void Push(std::vector<PushEntry> entries, const PushOptions& options,
                    const PipelineCallOptions& bounds,
                    Client::Done<PushReply> done) = 0;
  virtual void PushPull(std::vector<PushEntry> entries,
                        const PushOptions& options,
                        const PipelineCallOptions& bounds,
                        Client::Done<PullReply> done) = 0;
  virtual void Pull(PullRequest request, const PipelineCallOptions& bounds,
                    Client::Done<PullReply> done) = 0;

 protected:
  CallThreads threads_;
};

namespace {

int MaxRunning(const PipelineOptions& options) {
  return options.max_running > 0 ? options.max_running : options.max_in_flight;
}

}  // namespace

class Pipeline::OfClient final : public Caller {
 public:
  OfClient(Client& client, int max_threads)
      : Caller(max_threads), client_(client) {}

  void Push(std::vector<PushEntry> entries, const PushOptions& options,
            const PipelineCallOptions& bounds,
            Client::Done<PushReply> done) override {
    Bounded(bounds).StartPush(std::move(entries), options, threads_,
                              std::move(done));
  }
  void PushPull(std::vector<PushEntry> entries, const PushOptions& options,
                const PipelineCallOptions& bounds,
                Client::Done<PullReply> done) override {
    Bounded(bounds).StartPushPull(std::move(entries), options, threads_,
                                  std::move(done));
  }
  void Pull(PullRequest request, const PipelineCallOptions& bounds,
            Client::Done<PullReply> done) override {
    Bounded(bounds).StartPull(std::move(request), threads_, std::move(done));
  }

 private:
  Client Bounded(const PipelineCallOptions& bounds) const {
    Client client = client_;
    if (bounds.timeout) client = client.WithTimeout(*bounds.timeout);
    if (bounds.canceller) client = client.WithCanceller(bounds.canceller);
    if (!bounds.into.empty()) client = client.Into(bounds.into);
    return client;
  }

  Client& client_;
};

class Pipeline::OfWorker final : public Caller {
 public:
  OfWorker(WorkerClient& worker, int max_threads)
      : Caller(max_threads), worker_(worker) {}

  void Push(std::vector<PushEntry> entries, const PushOptions& options,
            const PipelineCallOptions& bounds,
            Client::Done<PushReply> done) override {
    absl::Status taken = CheckTaken(options);
    if (!taken.ok()) return std::move(done)(std::move(taken));
    worker_.StartPush(
        options.step, std::move(entries),
        {.canceller = bounds.canceller, .timeout = bounds.timeout}, threads_,
        std::move(done));
  }
  void PushPull(std::vector<PushEntry> entries, const PushOptions& options,
                const PipelineCallOptions& bounds,
                Client::Done<PullReply> done) override {
    absl::Status taken = CheckTaken(options);
    if (!taken.ok()) return std::move(done)(std::move(taken));
    worker_.StartPushPull(options.step, std::move(entries),
                          ReadingOf(options.reply_dtype, bounds), threads_,
                          std::move(done));
  }
  void Pull(PullRequest request, const PipelineCallOptions& bounds,
            Client::Done<PullReply> done) override {
    absl::Status taken = CheckTaken(request);
    if (!taken.ok()) return std::move(done)(std::move(taken));
    std::vector<std::string> keys;
    for (PullEntry& entry : request.entries) {
      keys.push_back(std::move(entry.key));
    }
    worker_.StartPull(keys, ReadingOf(request.dtype, bounds), threads_,
                      std::move(done));
  }

 private:
  static absl::Status CheckTaken(const PushOptions& options) {
    if (!options.is_encoded && !options.worker && !options.publish_as &&
        !options.with_tokens) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "push of a worker: expected no options but step and reply_dtype");
  }
  static absl::Status CheckTaken(const PullRequest& request) {
    const bool has_bounds = std::any_of(
        request.entries.begin(), request.entries.end(),
        [](const PullEntry& entry) { return entry.min_version > 0; });
    if (!has_bounds && !request.wait_for_keys && !request.at &&
        !request.changes) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "pull of a worker: expected keys and a dtype alone");
  }
  static ReadOptions ReadingOf(DType dtype, const PipelineCallOptions& bounds) {
    return {.dtype = dtype,
            .into = bounds.into,
            .canceller = bounds.canceller,
            .timeout = bounds.timeout};
  }

  WorkerClient& worker_;
};

Pipeline::Pipeline(Client* client, const PipelineOptions& options)
    : Pipeline(std::make_unique<OfClient>(*client, MaxRunning(options)),
               options) {}

Pipeline::Pipeline(WorkerClient* worker, const PipelineOptions& options)
    : Pipeline(std::make_unique<OfWorker>(*worker, MaxRunning(options)),
               options) {}

Pipeline::Pipeline(std::unique_ptr<Caller> caller,
                   const PipelineOptions& options)
    : caller_(std::move(caller)),
      queue_(std::make_unique<CallQueue>(
          CallQueue::Limits{.max_in_flight = options.max_in_flight,
                            .max_running = MaxRunning(options),
                            .max_bytes = options.max_bytes})) {}

Pipeline::~Pipeline() = default;

uint64_t Pipeline::num_blocked() const { return queue_->num_blocked(); }

template <typename Reply, typename Start>
std::future<absl::StatusOr<Reply>> Pipeline::Submit(
    std::vector<uint64_t> keys, uint64_t bytes,
    const PipelineCallOptions& bounds, Start start) {
  std::promise<absl::StatusOr<Reply>> promise;
  auto future = promise.get_future();
  absl::Status usable = CheckNotForked();
  if (!usable.ok()) {
    promise.set_value(std::move(usable));
    return future;
  }
  queue_->Add(
      {.keys = std::move(keys),
       .bytes = bytes,
       .priority = bounds.priority,
       .start = [this, bytes, bounds, promise = std::move(promise),
                 start = std::move(start)](CallQueue::Ticket ticket) mutable {
         std::move(start)(*caller_, bounds,
                          [this, ticket, bytes, promise = std::move(promise)](
                              absl::StatusOr<Reply> reply) mutable {
                            promise.set_value(std::move(reply));
                            queue_->OnEnded(ticket, bytes);
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
      [entries = EntryOf(key, std::move(contribution)), options](
          Caller& caller, const auto& bounds, auto done) mutable {
        caller.Push(std::move(entries), options, bounds,
                    ForOne(std::move(done)));
      });
}

std::future<absl::StatusOr<PushReply>> Pipeline::Push(
    std::vector<PushEntry> entries, const PushOptions& options,
    const PipelineCallOptions& bounds) {
  std::vector<uint64_t> keys = HashesOf(entries);
  const uint64_t bytes = BytesOf(entries);
  return Submit<PushReply>(
      std::move(keys), bytes, bounds,
      [entries = std::move(entries), options](
          Caller& caller, const auto& bounds, auto done) mutable {
        caller.Push(std::move(entries), options, bounds, std::move(done));
      });
}

std::future<absl::StatusOr<Value>> Pipeline::Pull(
    absl::string_view key, Version min_version,
    const PipelineCallOptions& bounds) {
  return Submit<Value>({HashOf(key)}, /*bytes=*/0, bounds,
                       [key = std::string(key), min_version](
                           Caller& caller, const auto& bounds, auto done) {
                         caller.Pull(
                             PullRequest{.entries = {{key, min_version}}},
                             bounds, ForOne(std::move(done)));
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
  std::vector<uint64_t> keys = HashesOf(request.entries);
  return Submit<PullReply>(
      std::move(keys), /*bytes=*/0, bounds,
      [request = std::move(request)](Caller& caller, const auto& bounds,
                                     auto done) mutable {
        caller.Pull(std::move(request), bounds, std::move(done));
      });
}

std::future<absl::StatusOr<Value>> Pipeline::PushPull(
    absl::string_view key, Tensor contribution, const PushOptions& options,
    const PipelineCallOptions& bounds) {
  const uint64_t bytes = contribution.size_bytes();
  return Submit<Value>(
      {HashOf(key)}, bytes, bounds,
      [entries = EntryOf(key, std::move(contribution)), options](
          Caller& caller, const auto& bounds, auto done) mutable {
        caller.PushPull(std::move(entries), options, bounds,
                        ForOne(std::move(done)));
      });
}

std::future<absl::StatusOr<PullReply>> Pipeline::PushPull(
    std::vector<PushEntry> entries, const PushOptions& options,
    const PipelineCallOptions& bounds) {
  std::vector<uint64_t> keys = HashesOf(entries);
  const uint64_t bytes = BytesOf(entries);
  return Submit<PullReply>(
      std::move(keys), bytes, bounds,
      [entries = std::move(entries), options](
          Caller& caller, const auto& bounds, auto done) mutable {
        caller.PushPull(std::move(entries), options, bounds, std::move(done));
      });
}

}  // namespace tensorkv
