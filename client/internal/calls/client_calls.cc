#include "client/internal/calls/client_calls.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error_from.h"
#include "base/status_macros.h"
#include "client/internal/calls/awaited.h"
#include "client/internal/transfer/delivery.h"

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
Task<absl::StatusOr<ReplyTo<Request>>> ClientCalls::Make(
    Request& request, const CallOptions& options, CallThreads* threads,
    bool* is_answered) {
  if constexpr (kHasCallId<Request>) {
    const CallIdLeases::Lease call = call_ids_.Acquire();
    SetCallId(call.id(), request);
    co_return co_await Attempt(request, options, threads, is_answered);
  } else {
    co_return co_await Attempt(request, options, threads, is_answered);
  }
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> ClientCalls::Attempt(
    const Request& request, const CallOptions& options, CallThreads* threads,
    bool* is_answered) {
  const Canceller::Use use(options.canceller);
  ReplyTo<Request> reply;
  absl::Status status = absl::CancelledError();
  if (use.may_begin()) {
    const absl::StatusOr<CallOptions> of_call = OptionsOf(request, options);
    status = of_call.status();
    if (of_call.ok()) {
      const AnyCall call(request, reply);
      status = co_await MadeCall(*connection_, call, *of_call, threads);
    }
  }
  if (is_answered != nullptr) *is_answered = status.ok();
  co_return Outcome(request, options, std::move(status), reply);
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

absl::Status ClientCalls::Explain(Method method,
                                  const absl::Status& status) const {
  if (target_.empty()) return status;
  return ErrorFrom(absl::StrCat(NameOf(method), PrepositionOf(method), target_),
                   status);
}

#define TENSORKV_INSTANTIATE(name, ...)                            \
  template Task<absl::StatusOr<name##Reply>> ClientCalls::Make(    \
      name##Request& request, const CallOptions& options,          \
      CallThreads* threads, bool* is_answered);                    \
  template Task<absl::StatusOr<name##Reply>> ClientCalls::Attempt( \
      const name##Request& request, const CallOptions& options,    \
      CallThreads* threads, bool* is_answered);
TENSORKV_UNARY_METHODS(TENSORKV_INSTANTIATE)
#undef TENSORKV_INSTANTIATE

}  // namespace tensorkv
