// The class behind tensorkv.Client: Python's arguments to the client's calls.

#ifndef TENSORKV_PYTHON_CORE_STORE_H_
#define TENSORKV_PYTHON_CORE_STORE_H_

#include <pybind11/pybind11.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "contract/requests.h"
#include "python/core/call_scope.h"
#include "python/core/call_thread.h"
#include "python/core/gil_release.h"
#include "python/core/open_calls.h"
#include "python/core/python_memory.h"
#include "python/core/session.h"
#include "python/core/shared_change_reader.h"
#include "python/core/shared_change_writer.h"
#include "python/core/snapshot_arguments.h"
#include "python/core/status_error.h"

namespace tensorkv::python {

// A session as Python uses it. Every call releases the GIL, and is bounded by
// the CallScope of its thread. On Python's main thread signals interrupt the
// calls to a server, and those to a store in this process that may wait. In a
// forked child every call raises ForkedError, since neither threads nor
// connections survive a fork.
class Store {
 public:
  // Throws StatusError: every method does for its arguments, and RaisedError
  // for the error of a call. Also UnusableError in a child that
  // was forked after a store of the process had connected: gRPC would wait for
  // threads that the child does not have.
  static std::unique_ptr<Store> Connect(const ClientOptions& options);
  static std::unique_ptr<Store> Embed(int num_threads);
  ~Store();

  // Is defined, with its parts below, in store_bindings.cc.
  static void Register(pybind11::module_& module);

 private:
  static void RegisterOpening(pybind11::class_<Store>& store);
  static void RegisterValues(pybind11::class_<Store>& store);
  static void RegisterKeys(pybind11::class_<Store>& store);
  // Is defined in snapshot_bindings.cc.
  static void RegisterSnapshots(pybind11::class_<Store>& store);
  // Is defined in watch_bindings.cc.
  static void RegisterWatches(pybind11::class_<Store>& store);
  static void RegisterNamespaces(pybind11::class_<Store>& store);
  static void RegisterServer(pybind11::class_<Store>& store);
  static void RegisterState(pybind11::class_<Store>& store);

  using Keys = std::vector<std::string>;
  using Weights = std::vector<double>;
  using Reader =
      absl::AnyInvocable<absl::StatusOr<PullReply>(
                             Session&, absl::Span<const Destination> into,
                             const CallBounds&) &&>;

  Store(std::shared_ptr<Session> session, ClientOptions options);

  // Throws UnusableError.
  const std::shared_ptr<Session>& session() const;
  // Returns what `verb(Session&, const CallBounds&)`, or `verb(Client)`,
  // returns, without its status. `may_wait` says that it may wait for others
  // even in a store in this process. Where signals interrupt a call, nobody
  // writes its arrays any more when this throws, and nobody reads them but a
  // connection that has yet to let go of what was sent from there: by an Init,
  // or a push of a session that has not joined. The verb itself may take longer
  // to end, as SharedCanceller says.
  template <typename Verb>
  auto Call(Verb verb, bool may_wait = false);
  // Waits for the call: on this thread, unless signals interrupt it.
  void RunCall(const SharedCanceller& canceller, bool is_interruptible,
               absl::AnyInvocable<void() &&> call);
  // Throws the error that a call has ended with, if there is one, as
  // RaiseInPython does; Cancelled becomes ClosedError if the store was closed
  // meanwhile. REQUIRES: the GIL.
  void RaiseIfError(const absl::Status& status) const;

  // Ends the calls that are under way, and the session, whose worker is lost
  // then or done.
  void Close(bool is_lost);
  // Ends the calls that are under way, and has the worker leave when the
  // process ends.
  void CloseAtExit();
  bool is_closed() const { return session_ == nullptr; }
  // Returns whether a worker of that name had been lost.
  bool Join(const std::string& name, double lease, double takeover_timeout,
            double step_timeout, std::optional<uint32_t> rank);
  // Init and Push return the versions, or what is told of the snapshot that
  // they have taken.
  pybind11::object Init(const Keys& keys, const pybind11::list& arrays,
                        const std::string& on_existing,
                        const std::optional<PublishFields>& publish_as);
  pybind11::list SetState(const Keys& keys, const std::string& state,
                          const pybind11::list& arrays);
  pybind11::list GetState(const Keys& keys, const std::string& state,
                          const std::optional<pybind11::list>& outs);
  // `weights` has one for each key, or none.
  pybind11::object Push(const Keys& keys, const pybind11::list& arrays,
                        Step step, const Weights& weights,
                        const std::optional<PublishFields>& publish_as);
  // Pushes of what `changes` holds only what has changed, and returns what is
  // told of the snapshot.
  pybind11::object PushChanges(
      const Keys& keys, const pybind11::list& arrays,
      const PublishFields& publish_as,
      const std::shared_ptr<SharedChangeWriter>& changes);
  // Pushes as that rank of a group whose workers do not join. Without arrays it
  // skips the keys.
  void PushAs(uint32_t rank, const Keys& keys, const pybind11::list& arrays,
              Step step, const Weights& weights);
  pybind11::list PushPull(const Keys& keys, const pybind11::list& arrays,
                          const std::optional<pybind11::list>& outs, Step step,
                          const Weights& weights);
  pybind11::list Pull(const Keys& keys,
                      const std::optional<pybind11::list>& outs, bool wait,
                      Version min_version, const std::string& dtype,
                      const std::optional<AtFields>& at);
  // Returns values of a snapshot with their versions and dtypes, for who makes
  // no arrays of them. Those of `changes`, unless it is null, must not be
  // written.
  pybind11::list PullMemory(const Keys& keys, const std::string& dtype,
                            const AtFields& at,
                            const std::shared_ptr<SharedChangeReader>& changes);
  std::vector<Value> PullValues(const Keys& keys,
                                const std::optional<pybind11::list>& outs,
                                PullRequest request);
  // Returns what was read, unless it went to `outs`.
  std::vector<Value> Receive(const Keys& keys,
                             const std::optional<pybind11::list>& outs,
                             const SharedExports& exports, Reader read,
                             bool may_wait = false);
  pybind11::object PushRows(const Keys& keys, const pybind11::list& row_ids,
                            const pybind11::list& arrays, Step step,
                            bool update_all_rows, const Weights& weights,
                            const std::optional<PublishFields>& publish_as);
  pybind11::list PullRows(const Keys& keys, const pybind11::list& row_ids,
                          const std::optional<AtFields>& at);
  void SetCompression(const std::string& text, uint64_t min_bytes);

  std::shared_ptr<Session> session_;
  const std::shared_ptr<OpenCalls> calls_ = std::make_shared<OpenCalls>();
  ClientOptions options_;
  const pid_t pid_;
  CallThread thread_;
};

template <typename Verb>
auto Store::Call(Verb verb, bool may_wait) {
  const CallBounds bounds = CallScope::Current();
  auto call = [verb = std::move(verb), bounds](Session& session) mutable {
    if constexpr (std::is_invocable_v<Verb, Client>) {
      return verb(session.Bounded(bounds));
    } else {
      return verb(session, bounds);
    }
  };
  using Reply = std::invoke_result_t<decltype(call)&, Session&>;
  const std::shared_ptr<Session> session = this->session();
  auto reply = std::make_shared<std::optional<Reply>>();
  RunCall(bounds.canceller, may_wait || !session->is_embedded(),
          [=, call = std::move(call)]() mutable {
            reply->emplace(call(*session));
          });
  if constexpr (std::is_same_v<Reply, absl::Status>) {
    RaiseIfError(**reply);
  } else {
    RaiseIfError((*reply)->status());
    return **std::move(*reply);
  }
}

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_STORE_H_
