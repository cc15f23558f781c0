// This makes calls of a client, or of a worker, that the caller does not wait
// for.
//
//   Pipeline pipeline(client.get());
//   std::future<absl::StatusOr<Value>> weights = pipeline.Pull("w");
//   std::future<absl::StatusOr<PushResult>> pushed = pipeline.Push("b", grad);
//   ASSIGN_OR_RETURN(Value value, weights.get());

#ifndef TENSORKV_CLIENT_PIPELINE_H_
#define TENSORKV_CLIENT_PIPELINE_H_

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/canceller.h"
#include "client/client.h"
#include "client/destination.h"
#include "client/worker_client.h"
#include "contract/requests.h"

namespace tensorkv {

class CallQueue;

struct PipelineOptions {
  // So many calls may have been submitted and not have ended. A server takes as
  // many calls of a connection at a time as its --max_streams says, 128 by
  // default: with as many here that wait, other calls of the client wait behind
  // them.
  int max_in_flight = 16;
  // So many calls may run at the same time; 0 stands for all that are in
  // flight. With fewer, priorities choose among those that wait. A call that
  // waits for other workers runs all the while: with fewer, workers may wait
  // for one another in a circle until their timeouts, so leave it at 0 there.
  int max_running = 0;
  // The tensors that these calls send may have so many bytes together. A call
  // with more goes alone.
  uint64_t max_bytes = uint64_t{256} << 20;
};

// These bound one call, and say where what it reads may go. For what is not
// set, the client's own options hold.
struct PipelineCallOptions {
  // Orders calls: of those that nothing but max_running keeps from running, the
  // one with the highest priority runs next, of several the first submitted.
  int priority = 0;
  // The timeout begins when the call runs.
  std::optional<absl::Duration> timeout;
  // Client::WithCanceller and Client::Into say what these do. A call that is
  // cancelled before it runs ends when it is due.
  std::shared_ptr<Canceller> canceller;
  absl::Span<const Destination> into;
};

// A Pipeline runs calls of a client, or of a worker, and hands out their
// results as futures. It is thread-safe.
//
// Threads: a call that goes as one message each way takes none, however long
// it waits; gRPC tells when it has ended. Calls take one each of the pipeline's
// threads that go as streams, as TransferOptions says, or to a store in this
// process; compressed pushes take one while they are encoded. To a cluster each
// stream has a thread of the client's.
//
// Order: calls with a key in common run one after another, in the order in
// which they were submitted; other calls run at the same time and may overtake
// one another. A call that fails does not stop those behind it.
//
// Backpressure: a verb blocks while as many calls or bytes are under way as the
// options allow; after that it returns at once. Verbs that block go on in the
// order in which they came, whatever the size of their calls; num_blocked tells
// how many there are.
//
// Steps: calls that run at the same time cannot count the steps of a worker,
// so a worker's pushes name theirs (PushOptions::step).
//
// Errors: the futures have those of the client's verbs. Timeouts begin when a
// call runs, not when it is submitted.
class Pipeline {
 public:
  // `client` must outlive the pipeline. REQUIRES: max_in_flight > 0,
  // max_running >= 0.
  explicit Pipeline(Client* client, const PipelineOptions& options = {});
  // Makes the calls of a worker, which must outlive the pipeline: they recover
  // as its verbs do. Its pushes name their step, which is all of PushOptions
  // but reply_dtype that they take, and its pulls read keys, perhaps with a
  // dtype. Before WorkerClient::Resume all futures of pushes are to be ready:
  // one that has not begun would count for the state that is there then. Errors
  // of the futures: also InvalidArgument for what the verbs do not take.
  explicit Pipeline(WorkerClient* worker, const PipelineOptions& options = {});
  // The destructor waits for all calls.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // These do what Client's verbs do. Nobody may write the elements of a tensor
  // before the future is ready; Client says what holds for a call that failed.
  std::future<absl::StatusOr<PushResult>> Push(
      absl::string_view key, Tensor contribution,
      const PushOptions& options = {}, const PipelineCallOptions& bounds = {});
  std::future<absl::StatusOr<PushReply>> Push(
      std::vector<PushEntry> entries, const PushOptions& options = {},
      const PipelineCallOptions& bounds = {});
  std::future<absl::StatusOr<Value>> Pull(
      absl::string_view key, Version min_version = 0,
      const PipelineCallOptions& bounds = {});
  std::future<absl::StatusOr<PullReply>> Pull(
      absl::Span<const std::string> keys,
      const PipelineCallOptions& bounds = {});
  std::future<absl::StatusOr<PullReply>> Pull(
      PullRequest request, const PipelineCallOptions& bounds = {});
  std::future<absl::StatusOr<Value>> PushPull(
      absl::string_view key, Tensor contribution,
      const PushOptions& options = {}, const PipelineCallOptions& bounds = {});
  std::future<absl::StatusOr<PullReply>> PushPull(
      std::vector<PushEntry> entries, const PushOptions& options = {},
      const PipelineCallOptions& bounds = {});

  // Returns how many calls of the verbs above block at present.
  uint64_t num_blocked() const;

 private:
  // Makes the calls, of a client or of a worker.
  class Caller;
  class OfClient;
  class OfWorker;

  Pipeline(std::unique_ptr<Caller> caller, const PipelineOptions& options);

  // Returns a future for the reply of what `start(caller, bounds, done)`
  // begins.
  template <typename Reply, typename Start>
  std::future<absl::StatusOr<Reply>> Submit(std::vector<uint64_t> keys,
                                            uint64_t bytes,
                                            const PipelineCallOptions& bounds,
                                            Start start);

  const std::unique_ptr<Caller> caller_;
  const std::unique_ptr<CallQueue> queue_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_PIPELINE_H_
