// Reads and changes the entries of requests, which are structs in calls with
// tensors and names of keys in others, and what answers them.

#ifndef TENSORKV_CLIENT_CLUSTER_REQUEST_ENTRIES_H_
#define TENSORKV_CLIENT_CLUSTER_REQUEST_ENTRIES_H_

#include <string>
#include <utility>

#include "contract/request_fields.h"

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

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_REQUEST_ENTRIES_H_
