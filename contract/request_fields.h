// Reads and sets the fields that requests of several kinds have, in the structs
// of calls with tensors and in the messages of all others alike.

#ifndef TENSORKV_CONTRACT_REQUEST_FIELDS_H_
#define TENSORKV_CONTRACT_REQUEST_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "contract/call_fields.h"
#include "tensorkv/v1/call.pb.h"
#include "tensorkv/v1/membership.pb.h"

namespace tensorkv {

// Requests that are about one namespace.
template <typename Request>
inline constexpr bool kHasNamespace = requires(const Request& request) {
  request.name_space;
}
|| requires(const Request& request) { request.namespace_(); };

// Returns the name in the request. REQUIRES: kHasNamespace.
template <typename Request>
const std::string& NamespaceIn(const Request& request) {
  if constexpr (requires { request.name_space; }) {
    return request.name_space;
  } else {
    return request.namespace_();
  }
}
template <typename Request>
void SetNamespace(std::string name, Request& request) {
  if constexpr (requires { request.name_space; }) {
    request.name_space = std::move(name);
  } else {
    request.set_namespace_(std::move(name));
  }
}

// Returns the uid in the request; 0 where there is none.
template <typename Request>
uint64_t NamespaceUidIn(const Request& request) {
  if constexpr (requires { request.namespace_uid(); }) {
    return request.namespace_uid();
  } else if constexpr (requires { request.namespace_uid; }) {
    return request.namespace_uid;
  } else {
    return 0;
  }
}
// Does nothing to a request that has no such field.
template <typename Request>
void SetNamespaceUid(uint64_t uid, Request& request) {
  if constexpr (requires { request.set_namespace_uid(uid); }) {
    request.set_namespace_uid(uid);
  } else if constexpr (requires { request.namespace_uid = uid; }) {
    request.namespace_uid = uid;
  }
}

inline CallId CallIdOf(const v1::CallId& proto) {
  return {.client_id = proto.client_id(),
          .sequence = proto.sequence(),
          .answered_below = proto.answered_below()};
}

// Requests that may have a call_id.
template <typename Request>
inline constexpr bool kHasCallId = requires(Request& request) {
  request.call_id.has_value();
}
|| requires(Request& request) { request.mutable_call_id(); };

// Returns the call_id of the request; nothing where it has none.
template <typename Request>
std::optional<CallId> CallIdIn(const Request& request) {
  if constexpr (requires { request.has_call_id(); }) {
    if (!request.has_call_id()) return std::nullopt;
    return CallIdOf(request.call_id());
  } else if constexpr (kHasCallId<Request>) {
    return request.call_id;
  } else {
    return std::nullopt;
  }
}
// REQUIRES: kHasCallId.
template <typename Request>
void SetCallId(const CallId& id, Request& request) {
  if constexpr (requires { request.mutable_call_id(); }) {
    v1::CallId& its = *request.mutable_call_id();
    its.set_client_id(id.client_id);
    its.set_sequence(id.sequence);
    its.set_answered_below(id.answered_below);
  } else {
    request.call_id = id;
  }
}

// Requests that have an entry, or a name, for each key that they are about.
template <typename Request>
inline constexpr bool kNamesKeys = requires(const Request& request) {
  request.entries;
}
|| requires(const Request& request) { request.keys(); };

// Returns the entries of a request, or the names of its keys. REQUIRES:
// kNamesKeys.
template <typename Request>
const auto& EntriesIn(const Request& request) {
  if constexpr (requires { request.entries; }) {
    return request.entries;
  } else {
    return request.keys();
  }
}

// A worker without a rank is one that no group has.
inline Worker WorkerOf(const v1::Worker& proto) {
  return {.rank = proto.has_rank() ? proto.rank() : UINT32_MAX,
          .epoch = proto.epoch()};
}
inline void SetWorker(const Worker& worker, v1::Worker* proto) {
  proto->set_rank(worker.rank);
  proto->set_epoch(worker.epoch);
}

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_REQUEST_FIELDS_H_
