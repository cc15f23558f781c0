// Reads and changes the entries of requests, which are structs in calls with
// tensors and names of keys in others, and what answers them.

#ifndef TENSORKV_CLIENT_CLUSTER_REQUEST_ENTRIES_H_
#define TENSORKV_CLIENT_CLUSTER_REQUEST_ENTRIES_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "contract/request_fields.h"
#include "contract/requests.h"
#include "contract/snapshot_references.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace tensorkv {

// Returns the entries of a request, or the names of its keys. REQUIRES:
// kNamesKeys.
template <typename Request>
auto& MutableEntriesIn(Request& request) {
  if constexpr (requires { request.entries; }) {
    return request.entries;
  } else {
    return *request.mutable_keys();
  }
}
// Remove all entries of a request, or names of keys, and append one.
template <typename Request>
void ClearEntries(Request& request) {
  if constexpr (requires { request.entries; }) {
    request.entries.clear();
  } else {
    request.clear_keys();
  }
}
template <typename Request, typename Entry>
void AddEntry(Entry entry, Request& request) {
  if constexpr (requires { request.entries; }) {
    request.entries.push_back(std::move(entry));
  } else {
    request.add_keys(std::move(entry));
  }
}
// Return the key that an entry is about.
inline const std::string& KeyIn(const std::string& key) { return key; }
template <typename Entry>
const std::string& KeyIn(const Entry& entry) {
  return entry.key;
}

// Requests that may read a snapshot, and which one a request reads; null if it
// reads none.
template <typename Request>
inline constexpr bool kMayReadSnapshot =
    kNamesKeys<Request> &&
    (
        requires(const Request& request) { request.at.has_value(); } ||
        requires(const Request& request) { request.has_at(); });
template <>
inline constexpr bool kMayReadSnapshot<ListRequest> = true;
template <typename Request>
const SnapshotReference* SnapshotIn(const Request& request) {
  if constexpr (requires { request.has_at(); }) {
    return request.has_at() ? &request.at() : nullptr;
  } else if constexpr (requires { request.at.has_value(); }) {
    return request.at ? &*request.at : nullptr;
  } else {
    return nullptr;
  }
}
// Has a request read that snapshot. REQUIRES: kMayReadSnapshot.
template <typename Request>
void SetSnapshot(SnapshotReference at, Request& request) {
  if constexpr (requires { request.mutable_at(); }) {
    *request.mutable_at() = std::move(at);
  } else {
    request.at = std::move(at);
  }
}

// Returns the answers of a reply that has one for each entry of its request.
template <typename Reply>
auto& AnswersIn(Reply& reply) {
  if constexpr (requires { reply.versions; }) {
    return reply.versions;
  } else if constexpr (requires { reply.results; }) {
    return reply.results;
  } else if constexpr (requires { reply.values; }) {
    return reply.values;
  } else {
    return *reply.mutable_keys();
  }
}

// Do to the entries of requests and the answers of replies, in vectors and in
// repeated fields, what their names say.
template <typename Entry>
void Reserve(size_t size, std::vector<Entry>& entries) {
  entries.reserve(size);
}
template <typename Entry>
void Reserve(size_t size, google::protobuf::RepeatedPtrField<Entry>& entries) {
  entries.Reserve(static_cast<int>(size));
}
template <typename Answer>
void Resize(size_t size, std::vector<Answer>& answers) {
  answers.resize(size);
}
template <typename Answer>
void Resize(size_t size, google::protobuf::RepeatedPtrField<Answer>& answers) {
  Reserve(size, answers);
  while (static_cast<size_t>(answers.size()) < size) answers.Add();
}
template <typename Answer>
void Append(Answer answer, std::vector<Answer>& answers) {
  answers.push_back(std::move(answer));
}
template <typename Answer>
void Append(Answer answer,
            google::protobuf::RepeatedPtrField<Answer>& answers) {
  answers.Add(std::move(answer));
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_REQUEST_ENTRIES_H_
