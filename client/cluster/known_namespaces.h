// Remembers what a client of a cluster has been told of namespaces.

#ifndef TENSORKV_CLIENT_CLUSTER_KNOWN_NAMESPACES_H_
#define TENSORKV_CLIENT_CLUSTER_KNOWN_NAMESPACES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/cluster/cluster_servers.h"
#include "client/cluster/share_outcomes.h"
#include "client/cluster/split_layout.h"
#include "client/cluster/waits.h"
#include "client/internal/calls/task.h"
#include "contract/requests.h"

namespace tensorkv {

// Holds what is known of the namespace that has this uid. But for the layouts
// it never changes.
struct KnownNamespace {
  // 0: the caller may not know which one it is.
  uint64_t uid = 0;
  // True if every server holds its keys.
  bool is_mirrored = false;
  Mode mode = Mode::kUnknown;
  // The layouts of keys that were read last; null where none were.
  SplitLayoutsPtr layouts;
};

// Has the request mean the namespace that is known, unless it means another.
template <typename Request>
void NameUid(const KnownNamespace& known, Request& request) {
  if (NamespaceUidIn(request) == 0) SetNamespaceUid(known.uid, request);
}

// Returns what a server tells of a namespace.
KnownNamespace KnownBy(const NamespaceStatus& status);

// Keeps which namespace was there last, by its name. Another one may have the
// name by now: servers refuse calls with the uid of one that they do not have,
// and then it is forgotten. Thread-safe.
class KnownNamespaces {
 public:
  // `servers` outlives it.
  explicit KnownNamespaces(ClusterServers* servers) : servers_(*servers) {}

  // Returns which namespace is known by that name, and has that uid unless it
  // is 0; asks the server where none is. It is one without uid where the server
  // has none: the call that follows tells best what is wrong.
  Task<absl::StatusOr<KnownNamespace>> KnowAt(const std::string& server,
                                              const std::string& name_space,
                                              uint64_t uid,
                                              const CallLimit& limit);
  // Asks the server, which has refused a call for `known`, what there is by
  // now. Errors: NotFound · FailedPrecondition (NAMESPACE_REPLACED): the
  // namespace is of another kind (mirrored or not).
  Task<absl::Status> KnowAnew(const std::string& server,
                              const std::string& name_space,
                              const CallLimit& limit, KnownNamespace& known);
  // Has `make` make the call for the namespace that KnowAt returns. Where it
  // was replaced meanwhile, and the request itself names none by its uid, makes
  // it again for the next.
  template <typename Request, typename Make>
  Task<absl::StatusOr<ReplyTo<Request>>> MakeFor(const std::string& server,
                                                 const Request& request,
                                                 const CallLimit& limit,
                                                 const Make& make) {
    for (int attempt = 0;; ++attempt) {
      CO_ASSIGN_OR_RETURN(const KnownNamespace known,
                          co_await KnowAt(server, NamespaceIn(request),
                                          NamespaceUidIn(request), limit));
      Request made = request;
      NameUid(known, made);
      NameAttempt("=", attempt, made);
      absl::StatusOr<ReplyTo<Request>> reply = co_await make(made, known);
      const bool finds_another =
          IsOfFormerNamespace(reply.status()) && NamespaceUidIn(request) == 0;
      if (!finds_another || attempt == kMostReplacements) co_return reply;
      Forget(NamespaceIn(request), known.uid);
    }
  }

  std::optional<KnownNamespace> Find(const std::string& name) const {
    MutexLock lock(&mutex_);
    const auto found = namespaces_.find(FullName(name));
    if (found == namespaces_.end()) return std::nullopt;
    return found->second.known;
  }
  // Returns the mode that is known; kUnknown if none is.
  Mode ModeOf(const std::string& name) const {
    return Find(name).value_or(KnownNamespace()).mode;
  }
  // Keeps what a server has told. The layouts of the same namespace stay.
  void Learn(const std::string& name, const KnownNamespace& told) {
    MutexLock lock(&mutex_);
    Entry& entry = namespaces_[FullName(name)];
    Entry former = std::exchange(entry, {.known = told});
    if (former.known.uid != told.uid) return;
    entry.known.layouts = std::move(former.known.layouts);
    entry.whole = std::move(former.whole);
  }
  // Keeps the layouts of the namespace that is known by that name, if any is.
  // Null: its keys may be others by now.
  void LearnLayouts(const std::string& name, SplitLayoutsPtr layouts) {
    MutexLock lock(&mutex_);
    const auto found = namespaces_.find(FullName(name));
    if (found == namespaces_.end()) return;
    if (layouts == nullptr) found->second.whole.clear();
    found->second.known.layouts = std::move(layouts);
  }
  // Forgets whatever has that name, or the namespace of that uid alone.
  void Forget(const std::string& name,
              std::optional<uint64_t> uid = std::nullopt) {
    MutexLock lock(&mutex_);
    const auto found = namespaces_.find(FullName(name));
    if (found == namespaces_.end()) return;
    if (!uid || found->second.known.uid == *uid) namespaces_.erase(found);
  }

  // Returns whether SetKnownWhole was called for the key, and that was not
  // forgotten since.
  bool IsKnownWhole(const std::string& name, const std::string& key) const {
    MutexLock lock(&mutex_);
    const auto found = namespaces_.find(FullName(name));
    return found != namespaces_.end() && found->second.whole.contains(key);
  }
  // Keeps that the key was found not to be in slices, so that later calls do
  // not look again. May forget other keys.
  void SetKnownWhole(const std::string& name, const std::string& key) {
    MutexLock lock(&mutex_);
    const auto found = namespaces_.find(FullName(name));
    if (found == namespaces_.end()) return;
    std::set<std::string>& whole = found->second.whole;
    if (whole.size() >= kMostKnownWhole) whole.clear();
    whole.insert(key);
  }

 private:
  // Bounds how often a namespace may be replaced while a call is made.
  static constexpr int kMostReplacements = 4;
  // Rather ask again than keep more.
  static constexpr size_t kMostKnownWhole = 100'000;

  struct Entry {
    KnownNamespace known;
    // Keys that are known not to be in slices.
    std::set<std::string> whole = {};
  };

  // Asks a server which namespace has that name. A caller who may not know it
  // is told of one without uid that is not mirrored. Errors: NotFound.
  Task<absl::StatusOr<KnownNamespace>> AskAt(const std::string& server,
                                             const std::string& name_space,
                                             const CallLimit& limit);
  static std::string FullName(const std::string& name) {
    return name.empty() ? "default" : name;
  }

  ClusterServers& servers_;
  mutable Mutex mutex_;
  std::map<std::string, Entry> namespaces_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_KNOWN_NAMESPACES_H_
