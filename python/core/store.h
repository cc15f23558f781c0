// The class behind tensorkv.Client: Python's arguments to the client's calls.

#ifndef TENSORKV_PYTHON_CORE_STORE_H_
#define TENSORKV_PYTHON_CORE_STORE_H_

#include <pybind11/pybind11.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "contract/requests.h"
#include "python/core/call_scope.h"
#include "python/core/call_thread.h"
#include "python/core/inbox.h"
#include "python/core/open_calls.h"
#include "python/core/python_memory.h"
#include "python/core/session.h"
#include "python/core/status_error.h"

namespace tensorkv::python {

// A session as Python uses it. Every call releases the GIL, and is bounded by
// the CallScope of its thread. On Python's main thread signals interrupt the
// calls to a server, and those to a store in this process that may wait. In a
// forked child every call raises ForkedError, since neither threads nor
// connections survive a fork.
class Store {
 public:
  // Connects to a server. Throws StatusError, as every method does;
  // UnusableError in a child that was forked after a store of the process had
  // connected: gRPC would wait for threads that the child does not have.
  static std::unique_ptr<Store> Connect(const ClientOptions& options);
  // Opens a store in this process, as Session::Embed does.
  static std::unique_ptr<Store> Embed(int num_threads);
  ~Store();

  // Adds the class Store. store_bindings.cc defines this, and the parts of it
  // that follow.
  static void Register(pybind11::module_& module);

 private:
  static void RegisterOpening(pybind11::class_<Store>& store);
  static void RegisterValues(pybind11::class_<Store>& store);
  static void RegisterStarted(pybind11::class_<Store>& store);
  static void RegisterKeys(pybind11::class_<Store>& store);
  static void RegisterNamespaces(pybind11::class_<Store>& store);
  static void RegisterState(pybind11::class_<Store>& store);

  using Keys = std::vector<std::string>;
  using Weights = std::vector<double>;
  using Reader =
      absl::AnyInvocable<absl::StatusOr<PullReply>(
                             Session&, absl::Span<const Destination> into,
                             const CallBounds&) &&>;

  Store(std::shared_ptr<Session> session, ClientOptions options);

  // Returns the session. Throws UnusableError in a forked child and where the
  // store is closed.
  const std::shared_ptr<Session>& session() const;
  // Returns the session. Throws as session() does, and StatusError
  // (FAILED_PRECONDITION) where the session may not start calls.
  const std::shared_ptr<Session>& StartingSession() const;
  // Runs `verb(Session&, const CallBounds&)`, or `verb(Client)`, without the
  // GIL. Returns the value that the verb returns, or throws its error.
  // `may_wait` says that the verb may wait for other callers even in a store in
  // this process. Where signals interrupt a call, nobody writes its arrays any
  // more when this throws, and nobody reads them but a connection that has yet
  // to let go of what an Init, or a push of a session that has not joined, has
  // sent from there. The verb itself may take longer to end, as SharedCanceller
  // says.
  template <typename Verb>
  auto Call(Verb verb, bool may_wait = false);

  // Ends the calls that are under way, and the session, whose worker leaves, as
  // lost or as done. Waits for that.
  void Close(bool is_lost);
  // Ends the calls that are under way, and has the worker leave when the
  // process ends.
  void CloseAtExit();
  bool is_closed() const { return session_ == nullptr; }
  // Makes the session a worker. Returns whether a worker of that name had been
  // lost. Times are in seconds.
  bool Join(const std::string& name, double lease, double takeover_timeout,
            double step_timeout, std::optional<uint32_t> rank);
  // Returns the step that the worker makes next. Joins a server again that has
  // been restarted.
  Step Resume();
  pybind11::list Init(const Keys& keys, const pybind11::list& arrays,
                      const std::string& on_existing, const std::string& state);
  // Returns the versions of the keys; of a worker none. `weights` has one
  // weight for each key, or none.
  pybind11::list Push(const Keys& keys, const pybind11::list& arrays, Step step,
                      const Weights& weights);
  pybind11::list PushPull(const Keys& keys, const pybind11::list& arrays,
                          const std::optional<pybind11::list>& outs, Step step,
                          const Weights& weights);
  pybind11::list Pull(const Keys& keys,
                      const std::optional<pybind11::list>& outs, bool wait,
                      Version min_version, const std::string& state,
                      const std::string& dtype);
  // Returns the values as objects with version and dtype, for callers who make
  // no arrays of NumPy of them.
  pybind11::list PullMemory(const Keys& keys, bool wait, Version min_version,
                            const std::string& dtype);
  std::vector<Value> PullValues(const Keys& keys,
                                const std::optional<pybind11::list>& outs,
                                bool wait, Version min_version,
                                const std::string& state,
                                const std::string& dtype);
  // Makes the call `read`. Returns the values that it has read, or none where
  // they went to `outs`.
  std::vector<Value> Receive(const Keys& keys,
                             const std::optional<pybind11::list>& outs,
                             const SharedExports& exports, Reader read,
                             bool may_wait = false);
  // These begin calls for callers who do not wait. The inbox gets what Push,
  // PushPull and Pull return, under the number `call`. The CallScope of the
  // thread bounds them.
  void StartPush(const std::shared_ptr<Inbox>& inbox, uint64_t call,
                 const Keys& keys, const pybind11::list& arrays, Step step,
                 const Weights& weights);
  void StartPushPull(const std::shared_ptr<Inbox>& inbox, uint64_t call,
                     const Keys& keys, const pybind11::list& arrays,
                     const std::optional<pybind11::list>& outs, Step step,
                     const Weights& weights);
  void StartPull(const std::shared_ptr<Inbox>& inbox, uint64_t call,
                 const Keys& keys, const std::optional<pybind11::list>& outs,
                 bool wait, Version min_version, const std::string& state,
                 const std::string& dtype);
  pybind11::list PushRows(const Keys& keys, const pybind11::list& row_ids,
                          const pybind11::list& arrays, Step step,
                          bool update_all_rows);
  pybind11::list PullRows(const Keys& keys, const pybind11::list& row_ids);
  void SetCompression(const std::string& text, uint64_t min_bytes);
  uint64_t Delete(const Keys& keys, bool allow_missing);
  pybind11::list List(const std::string& prefix);
  pybind11::list Stat(const Keys& keys, bool with_digest);
  void SetRule(const std::string& text, const Hyperparameters& hyperparameters,
               bool keep_master, const std::string& key_pattern);
  void SetMultipliers(double learning_rate, double weight_decay,
                      const std::string& key_pattern);
  void SetHyperparameters(const Hyperparameters& hyperparameters,
                          const std::string& key_pattern);
  // Returns false where a namespace of that name exists, whatever its
  // configuration.
  bool CreateNamespace(const std::string& name, const NamespaceConfig& config);
  pybind11::dict DescribeNamespace(const std::string& name);
  pybind11::list ListNamespaces();
  void DeleteNamespace(const std::string& name);
  void Barrier(const std::string& name);
  pybind11::dict SaveCheckpoint(const std::string& name,
                                const std::vector<std::string>& namespaces);
  pybind11::dict RestoreCheckpoint(const std::string& name,
                                   const std::vector<std::string>& namespaces,
                                   const std::string& as_namespace,
                                   const std::string& on_existing);
  pybind11::list ListCheckpoints();
  pybind11::dict DescribeServer();

  std::shared_ptr<Session> session_;
  const std::shared_ptr<OpenCalls> calls_ = std::make_shared<OpenCalls>();
  ClientOptions options_;
  const pid_t pid_;
  CallThread thread_;
};

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_STORE_H_
