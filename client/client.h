// The C++ client of TensorKV.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
//                    Client::Connect({.target = "127.0.0.1:7363"}));
//   RETURN_IF_ERROR(client->Init("w", weights));
//   RETURN_IF_ERROR(client->Push("w", gradient).status());
//   ASSIGN_OR_RETURN(Value value, client->Pull("w"));

#ifndef TENSORKV_CLIENT_CLIENT_H_
#define TENSORKV_CLIENT_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/call_threads.h"
#include "client/canceller.h"
#include "client/client_options.h"
#include "client/compression/compression.h"
#include "client/connection.h"
#include "client/destination.h"
#include "client/leave_cause.h"
#include "client/namespace_verbs.h"
#include "client/push_options.h"
#include "client/transfer_options.h"
#include "contract/requests.h"

namespace tensorkv {

class Residuals;

// A client of one namespace of a server. Thread-safe; two pushes at once
// should name their step.
//
// Every verb takes one key, or many in one call. A call over many keys is all
// or nothing. Values come back in the order of the keys. Errors are those of
// the verb in proto/tensorkv/v1/, as "Push to 127.0.0.1:7363: ...";
// DeadlineExceeded after options.timeout; Unavailable where no server answers;
// ResourceExhausted for a call whose keys alone exceed
// options.max_message_bytes; Internal where a reply does not fit its request.
//
// Tensors may be of any size, one or all of a call together. They are sent
// from where they are: nobody may write their elements before the call has
// ended or, if it failed, before their buffers have one owner again
// (Buffer::IsUnique), since the last bytes may still be on their way.
//
// Calls are numbered, so that one that is repeated is applied once, and
// repeated while the server is Unavailable, until the timeout. One that fails
// so even then, or with DeadlineExceeded, may or may not have been applied.
//
// With a target "cluster:..." all this is about several servers as one store.
// What a verb says of a call it says of the keys of each server then:
// docs/cluster.md.
//
// A server that was restarted without the state that this client has seen
// refuses calls but DescribeNamespace with FailedPrecondition: connect anew.
class Client : public NamespaceVerbs {
 public:
  // Connects in the background: a server that is down shows at the first call.
  // Errors: InvalidArgument for options that cannot work · FailedPrecondition
  // in a process that was forked after a client was made: it can make no calls.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(
      const ClientOptions& options);

  // Makes a client over any connection, such as one to a store in this process
  // (client/local/), used as it is: without retries and metrics. Of `options`,
  // target only names the other side in errors, unless it is empty.
  Client(std::unique_ptr<Connection> connection, const ClientOptions& options);

  // Return a client that shares all with this one, whose calls have another
  // timeout, or end when somebody cancels:
  // client->WithTimeout(absl::Seconds(1)).Pull("w"). Shared are connections,
  // membership, steps, and what pushes have left out. KeepAlive and Leave have
  // their own timeout, and nobody ends them early.
  Client WithTimeout(absl::Duration timeout) const;
  // Returns such a client with that timeout, or with this one's where it is
  // shorter.
  Client NoLongerThan(absl::Duration timeout) const;
  Client WithCanceller(std::shared_ptr<Canceller> canceller) const;

  // Returns a client that shares all with this one, but what its calls read is
  // copied once, into memory of the caller, one destination per key:
  // client->Into({weights}).Pull("w"). The tensors of the reply are that
  // memory. Where a push brings its tensors from it, they are copied once more.
  // Others must not read or write it during a call; one that fails may have
  // written any of it, and nobody writes it after a call has returned.
  // `destinations` outlives the calls. Errors: also InvalidArgument where
  // number, dtype, shape or bytes of the destinations are others; nothing is
  // written then. A PushPull is not made either, but where the key is stored as
  // another float dtype than the destination's.
  Client Into(absl::Span<const Destination> destinations) const;

  // Creates keys with these values. `on_existing` says what to do about keys
  // that exist.
  absl::Status Init(absl::string_view key, Tensor value,
                    OnExisting on_existing = OnExisting::kFail);
  // Sets `*versions`, if given: those of the keys after the call.
  absl::Status Init(std::vector<InitEntry> entries,
                    OnExisting on_existing = OnExisting::kFail,
                    std::vector<Version>* versions = nullptr);
  // Does what Init does, and takes a snapshot of what there is then.
  absl::StatusOr<InitReply> InitAndPublish(std::vector<InitEntry> entries,
                                           OnExisting on_existing,
                                           PublishAs publish_as);

  // Contributes tensors, encoded as the options ask for; in a sync namespace,
  // to the round of the step. What was encoded for a step goes out again when
  // one of the next pushes brings the same elements for that step; one without
  // a step that was certainly not made is forgotten, with what it left out.
  absl::StatusOr<PushResult> Push(absl::string_view key, Tensor contribution,
                                  const PushOptions& options = {});
  absl::StatusOr<PushReply> Push(std::vector<PushEntry> entries,
                                 const PushOptions& options = {});

  // Returns `entries` as Push encodes them, for callers that may push them
  // again and again, with PushOptions::is_encoded; each time they count as
  // pushed once. With step 0 the entries are new ones, else perhaps those of
  // the step that were encoded before. With `left`, as Compressor::Compress has
  // it, they count once it says so. Errors: those of Compressor::Compress.
  absl::StatusOr<std::vector<PushEntry>> Encode(Step step,
                                                std::vector<PushEntry> entries,
                                                Residuals* left = nullptr);
  // Encodes pushes as `compression` says from now on. Forgets what pushes have
  // left out so far.
  void SetCompression(const CompressionOptions& compression);
  // Forgets what pushes have left out, which is of no use once the server has
  // gone back to an earlier state.
  void ForgetResiduals();

  // Reads values; `min_version` waits for that version of the key. The
  // request's namespace and worker are filled in. With a `dtype` the server
  // converts them: f16 halves what f32 takes on the wire. With `at` the values
  // are those of a snapshot, whatever the keys are by now.
  absl::StatusOr<Value> Pull(absl::string_view key, Version min_version = 0);
  absl::StatusOr<PullReply> Pull(absl::Span<const std::string> keys);
  absl::StatusOr<PullReply> Pull(PullRequest request);

  // Push, then Pull of the same keys, in one round trip.
  absl::StatusOr<Value> PushPull(absl::string_view key, Tensor contribution,
                                 const PushOptions& options = {});
  absl::StatusOr<PullReply> PushPull(std::vector<PushEntry> entries,
                                     const PushOptions& options = {});

  // These do Push, Pull and PushPull for callers who do not wait: `done` gets
  // what the verb returns, on any thread, perhaps before this returns. It may
  // make calls that block, but must not wait in other ways for what calls
  // bring: those of all clients end on a few threads. Only what has to block
  // meanwhile runs on `threads`, which outlive the call; this client need not.
  // Calls that did so end there, too, and must not wait for others that have
  // to, for which no thread of theirs may be left. Pipeline adds an order and
  // bounds.
  template <typename Reply>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Reply>) &&>;
  void StartPush(std::vector<PushEntry> entries, const PushOptions& options,
                 CallThreads& threads, Done<PushReply> done);
  // Pulls as StartPush pushes: on `threads` runs only what has to block.
  void StartPull(PullRequest request, CallThreads& threads,
                 Done<PullReply> done);
  void StartPushPull(std::vector<PushEntry> entries, const PushOptions& options,
                     CallThreads& threads, Done<PullReply> done);

  // Contributes rows: each entry has ids (RowIds::Create), and as many rows in
  // its tensor. As Push, but only casts and blocks are encoded, without what
  // they have left out (Compressor says why); a step may have both.
  absl::StatusOr<PushResult> PushRows(absl::string_view key,
                                      RefPtr<const RowIds> rows,
                                      Tensor contribution,
                                      const PushOptions& options = {});
  absl::StatusOr<PushReply> PushRows(std::vector<PushEntry> entries,
                                     const PushOptions& options = {});

  // Reads rows, in the order of their ids and as they are stored.
  absl::StatusOr<Value> PullRows(absl::string_view key,
                                 RefPtr<const RowIds> rows,
                                 Version min_version = 0);
  absl::StatusOr<PullReply> PullRows(PullRowsRequest request);

  // Sets states of keys that exist, such as "momentum": KeyStatus lists those
  // that a key has.
  absl::Status SetState(absl::string_view key, absl::string_view state,
                        Tensor value);
  // Sets `*versions`, if given: those of the keys.
  absl::Status SetState(std::vector<SetStateEntry> entries,
                        std::vector<Version>* versions = nullptr);
  // Reads states, in the order of the entries.
  absl::StatusOr<Value> GetState(absl::string_view key,
                                 absl::string_view state);
  absl::StatusOr<GetStateReply> GetState(std::vector<GetStateEntry> entries);

  // Does Init with KEEP, then Pull: every caller gets the first writer's
  // values.
  absl::StatusOr<PullReply> Broadcast(std::vector<InitEntry> entries);

  // These change the membership of the namespace; WorkerClient looks after it.
  // Join makes this client the worker of that name: its calls are signed so,
  // and its steps go on from where the worker is. A client that is the worker
  // already follows its own epoch. With a uid, any incarnation of the server
  // will do that has the namespace of that uid, such as one that was started
  // from a checkpoint: later calls are for that incarnation. Leave makes it
  // nobody again, unless it fails and may be made again.
  absl::StatusOr<JoinReply> Join(absl::string_view worker_name,
                                 absl::Duration lease,
                                 uint64_t namespace_uid = 0,
                                 std::optional<uint32_t> rank = std::nullopt);
  absl::StatusOr<KeepAliveReply> KeepAlive(absl::Duration timeout);
  absl::Status Leave(absl::Duration timeout,
                     LeaveCause cause = LeaveCause::kDone);
  absl::Status Barrier(absl::string_view barrier);
  // Returns the worker that signs this client's calls.
  std::optional<Worker> worker() const;
  // Returns how its tensors travel, as its options say.
  const TransferOptions& transfer() const;

  // Returns the step of the last push that succeeded, counted for a client with
  // a rank. A push that failed leaves it; a PushPull whose wait failed may
  // stand, and then that is AlreadyExists. A worker that is back sets what it
  // had reached.
  Step step() const;
  void set_step(Step step);

 private:
  friend struct ClientTasks;
  // A Shared holds what a client and those made of it have in common.
  struct Shared;

  Client(const std::shared_ptr<Shared>& shared, CallOptions call_options);
  template <typename Request>
  void StartPush(std::vector<PushEntry> entries, const PushOptions& options,
                 CallThreads& threads, Done<ReplyTo<Request>> done);

  std::shared_ptr<Shared> shared_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLIENT_H_
