#include "python/core/store.h"

#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "python/core/describe.h"
#include "python/core/gil_release.h"
#include "python/core/namespace_config.h"
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

// Where values go: to the first array of each key, which may be none, and from
// there to its others.
struct Outs {
  std::vector<Destination> first;
  std::vector<std::pair<size_t, Destination>> others;
};

void Add(const Destination& out, size_t index, absl::string_view key,
         Outs& outs) {
  Destination& first = outs.first[index];
  if (first.memory.data() == nullptr) {
    first = out;
    return;
  }
  if (first.dtype != out.dtype || first.shape != out.shape) {
    throw StatusError(absl::InvalidArgumentError(absl::StrCat(
        "out of key \"", key, "\": expected ",
        Description(first.dtype, first.shape), " as its first, got ",
        Description(out.dtype, out.shape))));
  }
  outs.others.emplace_back(index, out);
}

// An element of `arrays` is an array or a list of arrays.
Outs OutsOf(const std::vector<std::string>& keys, const py::list& arrays,
            Exports& exports) {
  Outs outs = {.first = std::vector<Destination>(keys.size())};
  for (size_t i = 0; i < keys.size(); ++i) {
    const py::object out = arrays[i];
    if (!PyList_CheckExact(out.ptr())) {
      Add(DestinationOf(out, keys[i], exports), i, keys[i], outs);
      continue;
    }
    for (const py::handle each : out) {
      Add(DestinationOf(each, keys[i], exports), i, keys[i], outs);
    }
  }
  return outs;
}

void CopyToOthers(const Outs& outs) {
  const GilRelease release;
  for (const auto& [index, other] : outs.others) {
    const absl::Span<const char> first = outs.first[index].memory;
    std::memcpy(other.memory.data(), first.data(), first.size());
  }
}

void CheckLengths(const std::vector<std::string>& keys,
                  const py::list& arrays) {
  if (keys.size() == arrays.size()) return;
  throw StatusError(absl::InvalidArgumentError(absl::StrCat(
      "expected ", keys.size(), " arrays, one per key, got ", arrays.size())));
}

using SharedOuts = std::shared_ptr<const Outs>;

SharedOuts GivenOuts(const std::vector<std::string>& keys,
                     const std::optional<py::list>& outs, Exports& exports) {
  if (!outs) return std::make_shared<const Outs>();
  CheckLengths(keys, *outs);
  return std::make_shared<const Outs>(OutsOf(keys, *outs, exports));
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

// Puts what a call has read into the inbox: arrays or, with `outs`, none. Holds
// what the call uses until then.
Client::Done<PullReply> PutValues(const std::shared_ptr<Inbox>& inbox,
                                  uint64_t call,
                                  const std::shared_ptr<Session>& session,
                                  const SharedExports& exports,
                                  const SharedOuts& outs) {
  return [=](absl::StatusOr<PullReply> reply) {
    inbox->Put(call, [=, reply = std::move(reply)]() mutable -> py::object {
      (void)session, (void)exports;
      std::vector<Value> values = ValueOrThrow(std::move(reply)).values;
      CopyToOthers(*outs);
      if (!outs->first.empty()) return py::list();
      return ArraysOf(std::move(values));
    });
  };
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

}  // namespace

Store::Store(std::shared_ptr<Session> session, ClientOptions options)
    : session_(std::move(session)),
      options_(std::move(options)),
      pid_(getpid()) {}

std::unique_ptr<Store> Store::Connect(const ClientOptions& options) {
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
    throw UnusableError("ForkedError",
                        "the store was opened before this process was forked; "
                        "open one in this process");
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
  const auto canceller = std::make_shared<Canceller>();
  auto call = [verb = std::move(verb), canceller](Session& session) mutable {
    if constexpr (std::is_invocable_v<Verb, Session&, SharedCanceller>) {
      return verb(session, canceller);
    } else {
      return verb(session);
    }
  };
  using Reply = std::invoke_result_t<decltype(call)&, Session&>;
  const std::shared_ptr<Session> session = this->session();
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
      canceller->CancelAndWait();
    }
    throw interruption;
  }
  return Take(*std::move(*reply));
}

void Store::Close(bool is_lost) {
  if (session_ == nullptr || getpid() != pid_) return;
  const LeaveCause cause = is_lost ? LeaveCause::kLost : LeaveCause::kDone;
  auto end = [last = std::move(session_), cause]() mutable {
    if (last->worker() != nullptr) last->worker()->Leave(cause).IgnoreError();
    last = nullptr;
  };
  if (!IsMainThread()) {
    const GilRelease release;
    end();
  } else if (!thread_.Run(std::move(end))) {
    throw py::error_already_set();
  }
}

void Store::Join(const std::string& name, double lease, double takeover_timeout,
                 double step_timeout) {
  const WorkerOptions options = {
      .name = name,
      .lease = SecondsOf("lease", lease),
      .takeover_timeout = SecondsOf("takeover_timeout", takeover_timeout),
      .step_timeout = SecondsOf("step_timeout", step_timeout),
      .keeps_copies = true};
  try {
    Call([=, client_options = options_](Session& session) {
      return session.Join(client_options, options);
    });
  } catch (const py::error_already_set&) {
    // Nobody knows what the session becomes.
    session_ = nullptr;
    throw;
  }
}

void Store::Init(const Keys& keys, const py::list& arrays,
                 const std::string& on_existing, const std::string& state) {
  CheckLengths(keys, arrays);
  const OnExisting existing = ByName<OnExisting>("on_existing", on_existing);
  const auto exports = std::make_shared<Exports>();
  std::vector<InitEntry> entries = EntriesOf<InitEntry>(keys, arrays, exports);
  for (InitEntry& entry : entries) entry.state = state;
  Call([=, entries = std::move(entries)](Session& session,
                                         SharedCanceller canceller) mutable {
    return session.Init(std::move(entries), existing, std::move(canceller));
  });
}

py::list Store::Push(const Keys& keys, const py::list& arrays, Step step,
                     const Weights& weights) {
  CheckLengths(keys, arrays);
  const auto exports = std::make_shared<Exports>();
  const PushReply reply =
      Call([=, entries = PushEntriesOf(keys, arrays, weights, exports)](
               Session& session, SharedCanceller canceller) mutable {
        return session.Push(std::move(entries), step, std::move(canceller));
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
          SharedCanceller canceller) mutable -> absl::StatusOr<PullReply> {
        ASSIGN_OR_RETURN(
            PullReply reply,
            std::move(read)(session, {.into = given->first,
                                      .canceller = std::move(canceller)}));
        if (!is_owned) RETURN_IF_ERROR(session.Own(reply));
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
                  Session& session, const ReadOptions& options) mutable {
                return session.PushPull(std::move(entries), step, options);
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
          Session& session, const ReadOptions& options) mutable {
        return session.Pull(std::move(request), options);
      },
      /*may_wait=*/wait || min_version > 0);
}

void Store::StartPush(const std::shared_ptr<Inbox>& inbox, uint64_t call,
                      const Keys& keys, const py::list& arrays, Step step,
                      const Weights& weights) {
  CheckLengths(keys, arrays);
  const std::shared_ptr<Session> session = StartingSession();
  const auto exports = std::make_shared<Exports>();
  auto entries = PushEntriesOf(keys, arrays, weights, exports);
  const GilRelease release;
  session->StartPush(
      std::move(entries), step, [=](absl::StatusOr<PushReply> reply) {
        // The session goes with the last call of a store that was closed.
        inbox->Put(
            call, [session, exports, reply = std::move(reply)]() -> py::object {
              return VersionsOf(ValueOrThrow(reply));
            });
      });
}

void Store::StartPushPull(const std::shared_ptr<Inbox>& inbox, uint64_t call,
                          const Keys& keys, const py::list& arrays,
                          const std::optional<py::list>& outs, Step step,
                          const Weights& weights) {
  CheckLengths(keys, arrays);
  const std::shared_ptr<Session> session = StartingSession();
  const auto exports = std::make_shared<Exports>();
  auto entries = PushEntriesOf(keys, arrays, weights, exports);
  const auto given = GivenOuts(keys, outs, *exports);
  const GilRelease release;
  session->StartPushPull(std::move(entries), step, given->first,
                         PutValues(inbox, call, session, exports, given));
}

void Store::StartPull(const std::shared_ptr<Inbox>& inbox, uint64_t call,
                      const Keys& keys, const std::optional<py::list>& outs,
                      bool wait, Version min_version, const std::string& state,
                      const std::string& dtype) {
  const std::shared_ptr<Session> session = StartingSession();
  const auto exports = std::make_shared<Exports>();
  const auto given = GivenOuts(keys, outs, *exports);
  PullRequest request = RequestOf(keys, wait, min_version, state, dtype);
  const GilRelease release;
  session->StartPull(std::move(request), given->first,
                     PutValues(inbox, call, session, exports, given));
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
      Call([=, entries = std::move(entries)](
               Session& session, SharedCanceller canceller) mutable {
        return session.PushRows(std::move(entries), step, std::move(canceller));
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
               SharedCanceller canceller) -> absl::StatusOr<PullReply> {
        ASSIGN_OR_RETURN(PullReply reply,
                         session.PullRows(entries, std::move(canceller)));
        RETURN_IF_ERROR(session.Own(reply));
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
  return Call([=](Session& session) {
    return session.client().Delete(keys, allow_missing);
  });
}

py::list Store::List(const std::string& prefix) {
  return Describe(Call([=](Session& session, SharedCanceller canceller) {
    return session.client().WithCanceller(std::move(canceller)).ListAll(prefix);
  }));
}

py::list Store::Stat(const Keys& keys, bool with_digest) {
  return Describe(Call([=](Session& session) {
    return session.client().Stat(keys, with_digest);
  }));
}

void Store::SetRule(const std::string& text,
                    const Hyperparameters& hyperparameters, bool keep_master,
                    const std::string& key_pattern) {
  RuleSpec rule = ValueOrThrow(ParseRuleSpec(text));
  for (const auto& [name, value] : hyperparameters) {
    rule.hyperparameters[name] = value;
  }
  rule.keep_master &= keep_master;
  Call([=](Session& session) {
    return session.client().SetRule(rule, key_pattern);
  });
}

void Store::SetMultipliers(double learning_rate, double weight_decay,
                           const std::string& key_pattern) {
  const Multipliers multipliers = {.learning_rate = learning_rate,
                                   .weight_decay = weight_decay};
  Call([=](Session& session) {
    return session.client().SetMultipliers(multipliers, key_pattern);
  });
}

void Store::SetHyperparameters(const Hyperparameters& hyperparameters,
                               const std::string& key_pattern) {
  Call([=](Session& session) {
    return session.client().SetHyperparameters(hyperparameters, key_pattern);
  });
}

bool Store::CreateNamespace(const std::string& name,
                            const NamespaceConfig& config) {
  return Call([=](Session& session) -> absl::StatusOr<bool> {
    const absl::Status status = session.client().CreateNamespace(name, config);
    if (ReasonOf(status) == Reason::kNamespaceExists) return false;
    RETURN_IF_ERROR(status);
    return true;
  });
}

py::dict Store::DescribeNamespace(const std::string& name) {
  return Describe(Call([=](Session& session) {
    return session.client().DescribeNamespace(name);
  }));
}

void Store::DeleteNamespace(const std::string& name) {
  Call(
      [=](Session& session) { return session.client().DeleteNamespace(name); });
}

void Store::Barrier(const std::string& name) {
  Call(
      [=](Session& session, SharedCanceller canceller) {
        return session.Barrier(name, std::move(canceller));
      },
      /*may_wait=*/true);
}

}  // namespace tensorkv::python
