#include "client/internal/client_calls.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error_from.h"
#include "base/status_macros.h"
#include "client/internal/delivery.h"

namespace tensorkv {
namespace {

template <typename Request>
constexpr bool kReadsValues = requires(const Request& request,
                                       ReplyTo<Request>& reply) {
  request.entries, reply.values;
};
template <typename Request>
constexpr bool kCarriesTensors = requires(const Request& request) {
  request.entries.begin()->tensor;
};

absl::Status CheckCount(size_t num_entries, size_t num_answers) {
  if (num_answers == num_entries) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("expected an answer to each of ",
                                          num_entries, " entries, got ",
                                          num_answers));
}

// Checks that a reply that answers entry by entry answers each.
template <typename Request>
absl::Status CheckComplete(const Request& request,
                           const ReplyTo<Request>& reply) {
  if constexpr (requires { request.entries, reply.results; }) {
    return CheckCount(request.entries.size(), reply.results.size());
  } else if constexpr (requires { request.entries, reply.values; }) {
    return CheckCount(request.entries.size(), reply.values.size());
  } else if constexpr (requires { request.keys(), reply.keys(); }) {
    return CheckCount(request.keys_size(), reply.keys_size());
  }
  return absl::OkStatus();
}

// Returns whether the received values may be written over the sent ones.
template <typename Entries>
bool Overlap(const Entries& entries,
             absl::Span<const Destination> destinations) {
  const auto is_within = [&](const Tensor& tensor) {
    return absl::c_any_of(destinations, [&](const Destination& destination) {
      const char* const begin = destination.memory.data();
      return tensor.data() < begin + destination.memory.size() &&
             begin < tensor.data() + tensor.size_bytes();
    });
  };
  return absl::c_any_of(
      entries, [&](const auto& entry) { return is_within(entry.tensor); });
}

// Checks that entries have ids of rows as their call has: how it travels, as
// one message or as a stream, must not decide what it does.
template <typename Request>
absl::Status CheckRows(const Request& request) {
  if constexpr (requires { request.entries.front().rows; }) {
    for (size_t i = 0; i < request.entries.size(); ++i) {
      const auto& entry = request.entries[i];
      if constexpr (requires { entry.skip; }) {
        if (entry.skip) continue;
      }
      if (bool{entry.rows} == kIsOfRows<Request>) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "entry ", i, " (\"", absl::CHexEscape(entry.key), "\"): rows: ",
          kIsOfRows<Request> ? "missing" : "expected none, got some"));
    }
  }
  return absl::OkStatus();
}

// Checks that tensors that are to be sent have memory, which moved ones lack.
template <typename Request>
absl::Status CheckTensors(const Request& request) {
  if constexpr (kCarriesTensors<Request>) {
    for (size_t i = 0; i < request.entries.size(); ++i) {
      const auto& entry = request.entries[i];
      if constexpr (requires { entry.skip; }) {
        if (entry.skip) continue;
      }
      const Tensor& tensor = entry.tensor;
      if (tensor.has_data() || tensor.size_bytes() == 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "entry ", i, " (\"", absl::CHexEscape(entry.key), "\"): expected ",
          tensor.Description(), " with elements, got none"));
    }
  }
  return absl::OkStatus();
}

// Returns the connection's options of a call. A push whose values are received
// where they are sent from is sent again from there if the reply breaks, so
// these are written when the call has ended.
template <typename Request>
absl::StatusOr<CallOptions> OptionsOf(const Request& request,
                                      const CallOptions& options) {
  RETURN_IF_ERROR(CheckRows(request));
  RETURN_IF_ERROR(CheckTensors(request));
  CallOptions of_call = options;
  if constexpr (kReadsValues<Request>) {
    const absl::Span<const Destination> destinations = options.destinations;
    if (destinations.empty()) return of_call;
    RETURN_IF_ERROR(CheckDestinations(destinations, request.entries.size()));
    if constexpr (kCarriesTensors<Request>) {
      RETURN_IF_ERROR(CheckContributions(request, destinations));
      if (Overlap(request.entries, destinations)) of_call.destinations = {};
    }
  }
  return of_call;
}

absl::string_view PrepositionOf(Method method) {
  switch (method) {
    case Method::kPush:
    case Method::kPushRows:
      return " to ";
    case Method::kPull:
    case Method::kPullRows:
    case Method::kGetState:
      return " from ";
    case Method::kPushPull:
      return " with ";
    default:
      return " on ";
  }
}

}  // namespace

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ClientCalls::Call(Request& request,
                                                   const CallOptions& options,
                                                   bool* is_answered) {
  if constexpr (kHasCallId<Request>) {
    const CallIdLeases::Lease call = call_ids_.Acquire();
    SetCallId(call.id(), request);
    return Send(request, options, is_answered);
  } else {
    return Send(request, options, is_answered);
  }
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ClientCalls::Send(const Request& request,
                                                   const CallOptions& options,
                                                   bool* is_answered) {
  const Canceller::Use use(options.canceller);
  ReplyTo<Request> reply;
  absl::Status status = absl::CancelledError();
  if (use.may_begin()) {
    const absl::StatusOr<CallOptions> of_call = OptionsOf(request, options);
    status = of_call.ok()
                 ? connection_->Attempt(AnyCall(request, reply), *of_call)
                 : of_call.status();
  }
  if (is_answered != nullptr) *is_answered = status.ok();
  return Outcome(request, options, std::move(status), reply);
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> ClientCalls::Outcome(
    const Request& request, const CallOptions& options, absl::Status status,
    ReplyTo<Request>& reply) const {
  if (status.ok()) status = CheckComplete(request, reply);
  if constexpr (kReadsValues<Request>) {
    const auto key_of = [&](size_t i) -> absl::string_view {
      return request.entries[i].key;
    };
    if (status.ok()) {
      status = Deliver(options.destinations, key_of, reply.values);
    }
  }
  if (status.ok()) return std::move(reply);
  if (options.canceller != nullptr && options.canceller->is_cancelled()) {
    // It is all one what broke first because of it, or at the same time.
    status =
        absl::CancelledError("cancelled by the caller; it may have been made");
  }
  return Explain(kMethodOf<Request>, status);
}

// A call that nobody waits for, from its beginning to its end.
template <typename Request>
struct ClientCalls::Started {
  Started(CallIdLeases& call_ids, Request of_call, const CallOptions& options)
      : request(std::move(of_call)), options(options), use(options.canceller) {
    if constexpr (kHasCallId<Request>) {
      lease.reset(new CallIdLeases::Lease(call_ids.Acquire()));
      SetCallId(lease->id(), request);
    }
  }

  // Null for a call that has no name.
  std::unique_ptr<const CallIdLeases::Lease> lease;
  Request request;
  ReplyTo<Request> reply;
  const CallOptions options;
  const Canceller::Use use;
};

template <typename Request>
void ClientCalls::Start(
    Request request, const CallOptions& options, CallThreads& threads,
    absl::AnyInvocable<void(absl::StatusOr<ReplyTo<Request>>) &&> done,
    bool* is_answered) {
  auto call = std::make_unique<Started<Request>>(call_ids_, std::move(request),
                                                 options);
  absl::StatusOr<CallOptions> of_call = absl::CancelledError();
  if (call->use.may_begin()) of_call = OptionsOf(call->request, options);
  Started<Request>& started = *call;
  auto end = [this, call = std::move(call), done = std::move(done),
              is_answered](absl::Status status) mutable {
    if (is_answered != nullptr) *is_answered = status.ok();
    absl::StatusOr<ReplyTo<Request>> outcome =
        Outcome(call->request, call->options, std::move(status), call->reply);
    call = nullptr;
    std::move(done)(std::move(outcome));
  };
  if (!of_call.ok()) return end(of_call.status());
  connection_->Start(AnyCall(started.request, started.reply), *of_call, threads,
                     std::move(end));
}

absl::Status ClientCalls::Explain(Method method,
                                  const absl::Status& status) const {
  if (target_.empty()) return status;
  return ErrorFrom(absl::StrCat(NameOf(method), PrepositionOf(method), target_),
                   status);
}

#define TENSORKV_INSTANTIATE(name, ...)                                       \
  template absl::StatusOr<name##Reply> ClientCalls::Call(                     \
      name##Request& request, const CallOptions& options, bool* is_answered); \
  template absl::StatusOr<name##Reply> ClientCalls::Send(                     \
      const name##Request& request, const CallOptions& options,               \
      bool* is_answered);
TENSORKV_UNARY_METHODS(TENSORKV_INSTANTIATE)
#undef TENSORKV_INSTANTIATE

#define TENSORKV_INSTANTIATE(name)                                             \
  template void ClientCalls::Start(                                            \
      name##Request request, const CallOptions& options, CallThreads& threads, \
      absl::AnyInvocable<void(absl::StatusOr<name##Reply>) &&> done,           \
      bool* is_answered);
TENSORKV_INSTANTIATE(Push)
TENSORKV_INSTANTIATE(Pull)
TENSORKV_INSTANTIATE(PushPull)
#undef TENSORKV_INSTANTIATE

}  // namespace tensorkv
