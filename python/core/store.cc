#include "python/core/store.h"

#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/algorithm/container.h"
#include "python/core/arguments.h"
#include "python/core/describe.h"
#include "python/core/exit_leaves.h"
#include "python/core/gil_release.h"
#include "python/core/outs.h"
#include "python/core/pulled_arrays.h"
#include "python/core/python_memory.h"
#include "python/core/snapshot_arguments.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

// Python runs signal handlers on this thread alone.
bool IsMainThread() { return getpid() == gettid(); }

// Returns {key, tensor} for each array.
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

// Returns the same with the weights, of which there are as many or none.
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

PullRequest RequestOf(const std::vector<std::string>& keys,
                      const std::string& dtype,
                      const std::optional<AtFields>& at,
                      Version min_version = 0) {
  PullRequest request;
  if (!dtype.empty()) request.dtype = ValueOrThrow(ParseDType(dtype));
  request.at = ReferenceOf(at);
  request.entries.reserve(keys.size());
  for (const std::string& key : keys) {
    request.entries.push_back({key, min_version});
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

// Returns what the reply tells of the snapshot that the call was to take.
// Throws StatusError.
template <typename Reply>
py::dict PublishedIn(const Reply& reply) {
  if (reply.published) return Describe(*reply.published);
  throw StatusError(absl::UnimplementedError(
      "publish_as: the call was made, but its server takes no snapshots"));
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

void Store::RunCall(const SharedCanceller& canceller, bool is_interruptible,
                    absl::AnyInvocable<void() &&> call) {
  const OpenCalls::Call open(calls_, canceller);
  if (!is_interruptible || !IsMainThread()) {
    const GilRelease release;
    std::move(call)();
  } else if (!thread_.Run(std::move(call))) {
    py::error_already_set interruption;
    {
      const GilRelease release;
      canceller->CancelAndWait();
    }
    throw interruption;
  }
}

void Store::RaiseIfError(const absl::Status& status) const {
  if (absl::IsCancelled(status) && calls_->has_ended()) {
    RaiseInPython(UnusableError(
        "ClosedError", "the store was closed while the call was under way"));
  }
  if (!status.ok()) RaiseInPython(status);
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

py::object Store::Init(const Keys& keys, const py::list& arrays,
                       const std::string& on_existing,
                       const std::optional<PublishFields>& publish_as) {
  CheckLengths(keys, arrays);
  const OnExisting existing = ByName<OnExisting>("on_existing", on_existing);
  const std::optional<PublishAs> wanted = SnapshotWanted(publish_as);
  const auto exports = std::make_shared<Exports>();
  const InitReply reply =
      Call([=, entries = EntriesOf<InitEntry>(keys, arrays, exports)](
               Session& session, const CallBounds& bounds) mutable {
        return session.Init(std::move(entries), existing, wanted, bounds);
      });
  if (publish_as) return PublishedIn(reply);
  return py::cast(reply.versions);
}

py::list Store::SetState(const Keys& keys, const std::string& state,
                         const py::list& arrays) {
  CheckLengths(keys, arrays);
  const auto exports = std::make_shared<Exports>();
  std::vector<SetStateEntry> entries =
      EntriesOf<SetStateEntry>(keys, arrays, exports);
  for (SetStateEntry& entry : entries) entry.state = state;
  const SetStateReply reply =
      Call([=, entries = std::move(entries)](Session& session,
                                             const CallBounds& bounds) mutable {
        return session.SetState(std::move(entries), bounds);
      });
  return py::cast(reply.versions);
}

py::list Store::GetState(const Keys& keys, const std::string& state,
                         const std::optional<py::list>& outs) {
  std::vector<GetStateEntry> entries;
  entries.reserve(keys.size());
  for (const std::string& key : keys) entries.push_back({key, state});
  return ArraysOf(
      Receive(keys, outs, std::make_shared<Exports>(),
              [entries = std::move(entries)](Session& session,
                                             absl::Span<const Destination> into,
                                             const CallBounds& bounds) mutable {
                return session.GetState(std::move(entries), into, bounds);
              }));
}

py::object Store::Push(const Keys& keys, const py::list& arrays, Step step,
                       const Weights& weights,
                       const std::optional<PublishFields>& publish_as) {
  CheckLengths(keys, arrays);
  const PushOptions options = {.step = step,
                               .publish_as = SnapshotWanted(publish_as)};
  const auto exports = std::make_shared<Exports>();
  const PushReply reply =
      Call([=, entries = PushEntriesOf(keys, arrays, weights, exports)](
               Session& session, const CallBounds& bounds) mutable {
        return session.Push(std::move(entries), options, bounds);
      });
  if (publish_as) return PublishedIn(reply);
  return VersionsOf(reply);
}

py::object Store::PushChanges(
    const Keys& keys, const py::list& arrays, const PublishFields& publish_as,
    const std::shared_ptr<SharedChangeWriter>& changes) {
  CheckLengths(keys, arrays);
  const PushOptions options = {.publish_as = SnapshotWanted(publish_as)};
  const auto exports = std::make_shared<Exports>();
  return PublishedIn(
      Call([=, entries = PushEntriesOf(keys, arrays, {}, exports)](
               Session& session, const CallBounds& bounds) mutable {
        return session.PushChanges(std::move(entries), options, *changes,
                                   bounds);
      }));
}

void Store::PushAs(uint32_t rank, const Keys& keys, const py::list& arrays,
                   Step step, const Weights& weights) {
  const auto exports = std::make_shared<Exports>();
  std::vector<PushEntry> entries;
  if (py::len(arrays) == 0) {
    for (const std::string& key : keys) {
      entries.push_back({.key = key, .skip = true});
    }
  } else {
    CheckLengths(keys, arrays);
    entries = PushEntriesOf(keys, arrays, weights, exports);
  }
  const PushOptions options = {.step = step, .worker = Worker{.rank = rank}};
  Call([=, entries = std::move(entries)](Session& session,
                                         const CallBounds& bounds) mutable {
    return session.Push(std::move(entries), options, bounds);
  });
}

std::vector<Value> Store::Receive(const Keys& keys,
                                  const std::optional<py::list>& outs,
                                  const SharedExports& exports, Reader read,
                                  bool may_wait) {
  const SharedOuts given = GivenOuts(keys, outs, *exports);
  PullReply reply = Call(
      [=, read = std::move(read)](Session& session,
                                  const CallBounds& bounds) mutable {
        return std::move(read)(session, given->first, bounds);
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
                                     PullRequest request) {
  const bool may_wait =
      request.at || request.wait_for_keys ||
      absl::c_any_of(request.entries, [](const PullEntry& entry) {
        return entry.min_version > 0;
      });
  return Receive(
      keys, outs, std::make_shared<Exports>(),
      [request = std::move(request)](Session& session,
                                     absl::Span<const Destination> into,
                                     const CallBounds& bounds) mutable {
        return session.Pull(std::move(request), into, bounds);
      },
      may_wait);
}

py::list Store::Pull(const Keys& keys, const std::optional<py::list>& outs,
                     bool wait, Version min_version, const std::string& dtype,
                     const std::optional<AtFields>& at) {
  PullRequest request = RequestOf(keys, dtype, at, min_version);
  request.wait_for_keys = wait;
  return ArraysOf(PullValues(keys, outs, std::move(request)));
}

py::list Store::PullMemory(const Keys& keys, const std::string& dtype,
                           const AtFields& at,
                           const std::shared_ptr<SharedChangeReader>& changes) {
  PullRequest request = RequestOf(keys, dtype, at);
  if (changes == nullptr) {
    return MemoryOf(PullValues(keys, std::nullopt, std::move(request)));
  }
  return MemoryOf(
      Call([=](Client client) { return changes->Pull(client, request); },
           /*may_wait=*/true)
          .values);
}

py::object Store::PushRows(const Keys& keys, const py::list& row_ids,
                           const py::list& arrays, Step step,
                           bool update_all_rows, const Weights& weights,
                           const std::optional<PublishFields>& publish_as) {
  CheckLengths(keys, row_ids);
  CheckLengths(keys, arrays);
  const auto exports = std::make_shared<Exports>();
  std::vector<PushEntry> entries =
      PushEntriesOf(keys, arrays, weights, exports);
  for (size_t i = 0; i < keys.size(); ++i) {
    entries[i].rows = RowIdsOf(row_ids[i], keys[i]);
    entries[i].update_all_rows = update_all_rows;
  }
  const PushOptions options = {.step = step,
                               .publish_as = SnapshotWanted(publish_as)};
  const PushReply reply =
      Call([=, entries = std::move(entries)](Session& session,
                                             const CallBounds& bounds) mutable {
        return session.PushRows(std::move(entries), options, bounds);
      });
  if (publish_as) return PublishedIn(reply);
  return VersionsOf(reply);
}

py::list Store::PullRows(const Keys& keys, const py::list& row_ids,
                         const std::optional<AtFields>& at) {
  CheckLengths(keys, row_ids);
  PullRowsRequest request;
  request.at = ReferenceOf(at);
  for (size_t i = 0; i < keys.size(); ++i) {
    request.entries.push_back(
        {.key = keys[i], .rows = RowIdsOf(row_ids[i], keys[i])});
  }
  const bool may_wait = at.has_value();
  return ArraysOf(Call(
                      [=](Session& session, const CallBounds& bounds) {
                        return session.PullRows(request, bounds);
                      },
                      may_wait)
                      .values);
}

void Store::SetCompression(const std::string& text, uint64_t min_bytes) {
  const Compression compression = ValueOrThrow(Compression::Parse(text));
  options_.compression = {.rules = {{"", compression}}, .min_bytes = min_bytes};
  session()->client().SetCompression(options_.compression);
}

}  // namespace tensorkv::python
