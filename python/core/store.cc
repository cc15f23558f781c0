#include "python/core/store.h"

#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <utility>

#include "base/status_macros.h"
#include "contract/reason.h"
#include "python/core/describe.h"
#include "python/core/exit_leaves.h"
#include "python/core/gil_release.h"
#include "python/core/namespace_config.h"
#include "python/core/outs.h"
#include "python/core/pulled_arrays.h"
#include "python/core/python_memory.h"
#include "python/core/seconds_of.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

// Python runs signal handlers on this thread alone.
bool IsMainThread() { return getpid() == gettid(); }

// {key, tensor} for each array.
template <typename Entry>
std::vector<Entry> EntriesOf(const std::vector<std::string>& keys,
                             const py::list& arrays,
                             const SharedExports& exports) {
  std::vector<Entry> entries(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    entries[i].key = keys[i];
    entries[i].tensor = TensorOf(arrays[i], keys[i], exports);
  }
  return entries;
}

// The same with the weights, of which there are as many or none.
std::vector<PushEntry> PushEntriesOf(const std::vector<std::string>& keys,
                                     const py::list& arrays,
                                     const std::vector<double>& weights,
                                     const SharedExports& exports) {
  std::vector<PushEntry> entries = EntriesOf<PushEntry>(keys, arrays, exports);
  for (size_t i = 0; i < std::min(keys.size(), weights.size()); ++i) {
    entries[i].weight = weights[i];
  }
  return entries;
}

PullRequest RequestOf(const std::vector<std::string>& keys, bool wait,
                      Version min_version, const std::string& state,
                      const std::string& dtype) {
  PullRequest request;
  if (!dtype.empty()) request.dtype = ValueOrThrow(ParseDType(dtype));
  request.wait_for_keys = wait;
  request.entries.reserve(keys.size());
  for (const std::string& key : keys) {
    request.entries.push_back({key, min_version, state});
  }
  return request;
}

// Copies the ids: they are checked once, and used later.
RefPtr<const RowIds> RowIdsOf(py::handle array, absl::string_view key) {
  const Tensor ids = TensorOf(array, key, std::make_shared<Exports>());
  return ValueOrThrow(RowIds::Create(
      ValueOrThrow(Tensor::CopyOf(ids.dtype(), ids.shape(), ids.data()))));
}

py::list VersionsOf(const PushReply& reply) {
  py::list versions;
  for (const PushResult& result : reply.results) {
    versions.append(result.version);
  }
  return versions;
}

struct Nothing {};
Nothing Take(const absl::Status& status) {
  ThrowIfError(status);
  return {};
}
template <typename T>
T Take(absl::StatusOr<T> value) {
  return ValueOrThrow(std::move(value));
}

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

// Returns the error of a call that the end of the store has ended.
std::optional<UnusableError> ErrorOfEnd(const OpenCalls& calls,
                                        const absl::Status& status) {
  if (!absl::IsCancelled(status) || !calls.has_ended()) return std::nullopt;
  return UnusableError("ClosedError",
                       "the store was closed while the call was under way");
}

// What a call has come to. Throws UnusableError where the store was closed
// meanwhile.
template <typename Reply>
auto Outcome(const OpenCalls& calls, Reply reply) {
  if (const auto error = ErrorOfEnd(calls, StatusOf(reply))) throw *error;
  return Take(std::move(reply));
}

// Returns the same as Outcome, on a thread that has waited, perhaps until the
// interpreter ends.
template <typename Reply>
auto OutcomeOfWait(const OpenCalls& calls, Reply reply) {
  const absl::Status& status = StatusOf(reply);
  if (const auto error = ErrorOfEnd(calls, status)) RaiseInPython(*error);
  if (!status.ok()) RaiseInPython(status);
  return Take(std::move(reply));
}

// What a call that was started uses until its outcome was taken: the session
// goes with the last call of a store that was closed.
struct Started {
  const std::shared_ptr<Session> session;
  const std::shared_ptr<OpenCalls> calls;
  const CallBounds bounds;
  const SharedExports exports;
  const OpenCalls::Call call{calls, bounds.canceller};
};
using SharedStarted = std::shared_ptr<const Started>;

// Puts what a call has read into the inbox: arrays or, with `outs`, none.
Client::Done<PullReply> PutValues(const std::shared_ptr<Inbox>& inbox,
                                  uint64_t call, const SharedStarted& started,
                                  const SharedOuts& outs) {
  return [=](absl::StatusOr<PullReply> reply) {
    inbox->Put(call, [=, reply = std::move(reply)]() mutable -> py::object {
      std::vector<Value> values =
          Outcome(*started->calls, std::move(reply)).values;
      CopyToOthers(*outs);
      if (!outs->first.empty()) return py::list();
      return ArraysOf(std::move(values));
    });
  };
}

// Where gRPC runs; 0 while it runs nowhere.
std::atomic<pid_t> grpc_pid = 0;

void CheckMayConnect() {
  pid_t none = 0;
  if (grpc_pid.compare_exchange_strong(none, getpid()) || none == getpid()) {
    return;
  }
  throw UnusableError(
      "ForkedError",
      "this process was forked after its parent had made a client, and has "
      "none of the threads that clients need: fork before the first client is "
      "made, or let multiprocessing use \"spawn\" (of a DataLoader "
      "multiprocessing_context=\"spawn\")");
}

}  // namespace

Store::Store(std::shared_ptr<Session> session, ClientOptions options)
    : session_(std::move(session)),
      options_(std::move(options)),
      pid_(getpid()) {}

std::unique_ptr<Store> Store::Connect(const ClientOptions& options) {
  CheckMayConnect();
  absl::StatusOr<std::shared_ptr<Session>> session;
  {
    const GilRelease release;
    session = Session::Connect(options);
  }
  return std::unique_ptr<Store>(
      new Store(ValueOrThrow(std::move(session)), options));
}

std::unique_ptr<Store> Store::Embed(int num_threads) {
  const GilRelease release;
  return std::unique_ptr<Store>(new Store(Session::Embed(num_threads), {}));
}

Store::~Store() {
  if (getpid() != pid_) {
    // Its threads are not in this process; nobody could wait for them.
    new std::shared_ptr<Session>(std::move(session_));
    thread_.Abandon();
    return;
  }
  if (session_ == nullptr) return;
  const GilRelease release;
  session_ = nullptr;
}

const std::shared_ptr<Session>& Store::session() const {
  if (getpid() != pid_) {
    throw UnusableError(
        "ForkedError",
        session_ != nullptr && session_->is_embedded()
            ? "the store was opened before this process was forked; open one "
              "in this process"
            : "the store was opened before this process was forked, and has "
              "none of its threads here: fork before the first client is made, "
              "or let multiprocessing use \"spawn\"");
  }
  if (session_ == nullptr) {
    throw UnusableError("ClosedError", "the store is closed");
  }
  return session_;
}

const std::shared_ptr<Session>& Store::StartingSession() const {
  const std::shared_ptr<Session>& session = this->session();
  if (session->may_start()) return session;
  throw StatusError(absl::FailedPreconditionError(
      "the client has joined its namespace while the call waited for its "
      "turn"));
}

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
  const OpenCalls::Call open(calls_, bounds.canceller);
  auto reply = std::make_shared<std::optional<Reply>>();
  if ((session->is_embedded() && !may_wait) || !IsMainThread()) {
    const GilRelease release;
    reply->emplace(call(*session));
  } else if (!thread_.Run([=, call = std::move(call)]() mutable {
               reply->emplace(call(*session));
             })) {
    py::error_already_set interruption;
    {
      const GilRelease release;
      bounds.canceller->CancelAndWait();
    }
    throw interruption;
  }
  return OutcomeOfWait(*calls_, *std::move(*reply));
}

void Store::Close(bool is_lost) {
  if (session_ == nullptr || getpid() != pid_) return;
  auto end = [last = std::move(session_), calls = calls_, is_lost]() mutable {
    calls->CancelAll();
    last->Leave(is_lost);
    last = nullptr;
  };
  if (!IsMainThread()) {
    const GilRelease release;
    end();
  } else if (!thread_.Run(std::move(end))) {
    throw py::error_already_set();
  }
}

void Store::CloseAtExit() {
  if (session_ == nullptr || getpid() != pid_) return;
  std::shared_ptr<Session> last = std::move(session_);
  const GilRelease release;
  calls_->CancelAll();
  LeaveAtExit(std::move(last));
}

bool Store::Join(const std::string& name, double lease, double takeover_timeout,
                 double step_timeout, std::optional<uint32_t> rank) {
  const WorkerOptions options = {
      .name = name,
      .rank = rank,
      .lease = SecondsOf("lease", lease),
      .takeover_timeout = SecondsOf("takeover_timeout", takeover_timeout),
      .step_timeout = SecondsOf("step_timeout", step_timeout),
      .keeps_copies = true};
  try {
    Call([=, client_options = options_](Session& session, const CallBounds&) {
      return session.Join(client_options, options);
    });
  } catch (const RaisedError&) {
    throw;
  } catch (const py::error_already_set&) {
    // Nobody knows what the session becomes.
    session_ = nullptr;
    throw;
  }
  return session()->worker()->was_lost();
}

Step Store::Resume() {
  return Call([](Session& session, const CallBounds& bounds) {
    return session.Resume(bounds);
  });
}

py::list Store::Init(const Keys& keys, const py::list& arrays,
                     const std::string& on_existing, const std::string& state) {
  CheckLengths(keys, arrays);
  const OnExisting existing = ByName<OnExisting>("on_existing", on_existing);
  const auto exports = std::make_shared<Exports>();
  std::vector<InitEntry> entries = EntriesOf<InitEntry>(keys, arrays, exports);
  for (InitEntry& entry : entries) entry.state = state;
  const InitReply reply =
      Call([=, entries = std::move(entries)](Session& session,
                                             const CallBounds& bounds) mutable {
        return session.Init(std::move(entries), existing, bounds);
      });
  return py::cast(reply.versions);
}

py::list Store::Push(const Keys& keys, const py::list& arrays, Step step,
                     const Weights& weights) {
  CheckLengths(keys, arrays);
  const auto exports = std::make_shared<Exports>();
  const PushReply reply =
      Call([=, entries = PushEntriesOf(keys, arrays, weights, exports)](
               Session& session, const CallBounds& bounds) mutable {
        return session.Push(std::move(entries), step, bounds);
      });
  return VersionsOf(reply);
}

std::vector<Value> Store::Receive(const Keys& keys,
                                  const std::optional<py::list>& outs,
                                  const SharedExports& exports, Reader read,
                                  bool may_wait) {
  const SharedOuts given = GivenOuts(keys, outs, *exports);
  const bool is_owned = outs.has_value();
  PullReply reply = Call(
      [=, read = std::move(read)](
          Session& session,
          const CallBounds& bounds) mutable -> absl::StatusOr<PullReply> {
        ASSIGN_OR_RETURN(PullReply reply,
                         std::move(read)(session, given->first, bounds));
        if (!is_owned) RETURN_IF_ERROR(session.Unshare(reply));
        return reply;
      },
      may_wait);
  CopyToOthers(*given);
  if (outs) return {};
  return std::move(reply.values);
}

py::list Store::PushPull(const Keys& keys, const py::list& arrays,
                         const std::optional<py::list>& outs, Step step,
                         const Weights& weights) {
  CheckLengths(keys, arrays);
  const auto exports = std::make_shared<Exports>();
  return ArraysOf(
      Receive(keys, outs, exports,
              [=, entries = PushEntriesOf(keys, arrays, weights, exports)](
                  Session& session, absl::Span<const Destination> into,
                  const CallBounds& bounds) mutable {
                return session.PushPull(std::move(entries), step, into, bounds);
              }));
}

std::vector<Value> Store::PullValues(const Keys& keys,
                                     const std::optional<py::list>& outs,
                                     bool wait, Version min_version,
                                     const std::string& state,
                                     const std::string& dtype) {
  return Receive(
      keys, outs, std::make_shared<Exports>(),
      [request = RequestOf(keys, wait, min_version, state, dtype)](
          Session& session, absl::Span<const Destination> into,
          const CallBounds& bounds) mutable {
        return session.Pull(std::move(request), into, bounds);
      },
      /*may_wait=*/wait || min_version > 0);
}

void Store::StartPush(const std::shared_ptr<Inbox>& inbox, uint64_t call,
                      const Keys& keys, const py::list& arrays, Step step,
                      const Weights& weights) {
  CheckLengths(keys, arrays);
  const SharedStarted started(new Started{StartingSession(), calls_,
                                          CallScope::Current(),
                                          std::make_shared<Exports>()});
  auto entries = PushEntriesOf(keys, arrays, weights, started->exports);
  const GilRelease release;
  started->session->StartPush(
      std::move(entries), step, started->bounds,
      [=](absl::StatusOr<PushReply> reply) {
        inbox->Put(call, [started, reply = std::move(reply)]() -> py::object {
          return VersionsOf(Outcome(*started->calls, reply));
        });
      });
}

void Store::StartPushPull(const std::shared_ptr<Inbox>& inbox, uint64_t call,
                          const Keys& keys, const py::list& arrays,
                          const std::optional<py::list>& outs, Step step,
                          const Weights& weights) {
  CheckLengths(keys, arrays);
  const SharedStarted started(new Started{StartingSession(), calls_,
                                          CallScope::Current(),
                                          std::make_shared<Exports>()});
  auto entries = PushEntriesOf(keys, arrays, weights, started->exports);
  const SharedOuts given = GivenOuts(keys, outs, *started->exports);
  const GilRelease release;
  started->session->StartPushPull(std::move(entries), step, given->first,
                                  started->bounds,
                                  PutValues(inbox, call, started, given));
}

void Store::StartPull(const std::shared_ptr<Inbox>& inbox, uint64_t call,
                      const Keys& keys, const std::optional<py::list>& outs,
                      bool wait, Version min_version, const std::string& state,
                      const std::string& dtype) {
  const SharedStarted started(new Started{StartingSession(), calls_,
                                          CallScope::Current(),
                                          std::make_shared<Exports>()});
  const SharedOuts given = GivenOuts(keys, outs, *started->exports);
  PullRequest request = RequestOf(keys, wait, min_version, state, dtype);
  const GilRelease release;
  started->session->StartPull(std::move(request), given->first, started->bounds,
                              PutValues(inbox, call, started, given));
}

py::list Store::Pull(const Keys& keys, const std::optional<py::list>& outs,
                     bool wait, Version min_version, const std::string& state,
                     const std::string& dtype) {
  return ArraysOf(PullValues(keys, outs, wait, min_version, state, dtype));
}

py::list Store::PullMemory(const Keys& keys, bool wait, Version min_version,
                           const std::string& dtype) {
  py::list values;
  for (Value& value : PullValues(keys, std::nullopt, wait, min_version,
                                 /*state=*/"", dtype)) {
    values.append(PulledArray(std::move(value)));
  }
  return values;
}

py::list Store::PushRows(const Keys& keys, const py::list& row_ids,
                         const py::list& arrays, Step step,
                         bool update_all_rows) {
  CheckLengths(keys, row_ids);
  CheckLengths(keys, arrays);
  const auto exports = std::make_shared<Exports>();
  std::vector<PushEntry> entries = EntriesOf<PushEntry>(keys, arrays, exports);
  for (size_t i = 0; i < keys.size(); ++i) {
    entries[i].rows = RowIdsOf(row_ids[i], keys[i]);
    entries[i].updates_all_rows = update_all_rows;
  }
  return VersionsOf(
      Call([=, entries = std::move(entries)](Session& session,
                                             const CallBounds& bounds) mutable {
        return session.PushRows(std::move(entries), step, bounds);
      }));
}

py::list Store::PullRows(const Keys& keys, const py::list& row_ids) {
  CheckLengths(keys, row_ids);
  std::vector<PullEntry> entries;
  for (size_t i = 0; i < keys.size(); ++i) {
    entries.push_back({.key = keys[i], .rows = RowIdsOf(row_ids[i], keys[i])});
  }
  PullReply reply =
      Call([=](Session& session,
               const CallBounds& bounds) -> absl::StatusOr<PullReply> {
        ASSIGN_OR_RETURN(PullReply reply, session.PullRows(entries, bounds));
        RETURN_IF_ERROR(session.Unshare(reply));
        return reply;
      });
  return ArraysOf(std::move(reply.values));
}

void Store::SetCompression(const std::string& text, uint64_t min_bytes) {
  const Compression compression = ValueOrThrow(Compression::Parse(text));
  options_.compression = {.rules = {{"", compression}}, .min_bytes = min_bytes};
  session()->client().SetCompression(options_.compression);
}

uint64_t Store::Delete(const Keys& keys, bool allow_missing) {
  return Call(
      [=](Client client) { return client.Delete(keys, allow_missing); });
}

py::list Store::List(const std::string& prefix) {
  return Describe(Call([=](Client client) { return client.ListAll(prefix); }));
}

py::list Store::Stat(const Keys& keys, bool with_digest) {
  return Describe(
      Call([=](Client client) { return client.Stat(keys, with_digest); }));
}

void Store::SetRule(const std::string& text,
                    const Hyperparameters& hyperparameters, bool keep_master,
                    const std::string& key_pattern) {
  RuleSpec rule = ValueOrThrow(ParseRuleSpec(text));
  for (const auto& [name, value] : hyperparameters) {
    rule.hyperparameters[name] = value;
  }
  rule.keep_master &= keep_master;
  Call([=](Client client) { return client.SetRule(rule, key_pattern); });
}

void Store::SetMultipliers(double learning_rate, double weight_decay,
                           const std::string& key_pattern) {
  const Multipliers multipliers = {.learning_rate = learning_rate,
                                   .weight_decay = weight_decay};
  Call([=](Client client) {
    return client.SetMultipliers(multipliers, key_pattern);
  });
}

void Store::SetHyperparameters(const Hyperparameters& hyperparameters,
                               const std::string& key_pattern) {
  Call([=](Client client) {
    return client.SetHyperparameters(hyperparameters, key_pattern);
  });
}

bool Store::CreateNamespace(const std::string& name,
                            const NamespaceConfig& config) {
  return Call([=](Client client) -> absl::StatusOr<bool> {
    const absl::Status status = client.CreateNamespace(name, config);
    if (ReasonOf(status) == Reason::kNamespaceExists) return false;
    RETURN_IF_ERROR(status);
    return true;
  });
}

py::dict Store::DescribeNamespace(const std::string& name) {
  return Describe(
      Call([=](Client client) { return client.DescribeNamespace(name); }));
}

py::list Store::ListNamespaces() {
  py::list list;
  for (const NamespaceStatus& status :
       Call([](Client client) { return client.ListNamespaces(); })) {
    list.append(Describe(status));
  }
  return list;
}

void Store::DeleteNamespace(const std::string& name) {
  Call([=](Client client) { return client.DeleteNamespace(name); });
}

py::dict Store::SaveCheckpoint(const std::string& name,
                               const std::vector<std::string>& namespaces) {
  return Describe(Call(
      [=](Client client) { return client.SaveCheckpoint(name, namespaces); }));
}

py::dict Store::RestoreCheckpoint(const std::string& name,
                                  const std::vector<std::string>& namespaces,
                                  const std::string& as_namespace,
                                  const std::string& on_existing) {
  const RestoreCheckpointRequest request = {
      .name = name,
      .namespaces = namespaces,
      .as_namespace = as_namespace,
      .on_existing = ByName<OnExisting>("on_existing", on_existing)};
  return Describe(
      Call([=](Client client) { return client.RestoreCheckpoint(request); }));
}

py::list Store::ListCheckpoints() {
  py::list list;
  for (const CheckpointStatus& status :
       Call([](Client client) { return client.ListCheckpoints(); })) {
    list.append(Describe(status));
  }
  return list;
}

py::dict Store::DescribeServer() {
  return Describe(Call([](Client client) { return client.DescribeServer(); }));
}

void Store::Barrier(const std::string& name) {
  Call([=](Session& session,
           const CallBounds& bounds) { return session.Barrier(name, bounds); },
       /*may_wait=*/true);
}

}  // namespace tensorkv::python
