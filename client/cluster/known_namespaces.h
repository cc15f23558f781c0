// Declares what a client of a cluster knows of its namespaces: how each server
// names what the namespace's home has named.

#ifndef TENSORKV_CLIENT_CLUSTER_KNOWN_NAMESPACES_H_
#define TENSORKV_CLIENT_CLUSTER_KNOWN_NAMESPACES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "contract/requests.h"

namespace tensorkv {

// Namespaces and workers have names of their own on every server: uids and
// epochs. Clients use those of the home, and this translates them. Servers are
// known by their names. Thread-safe.
class KnownNamespaces {
 public:
  template <typename Name>
  using ByServer = std::map<std::string, Name>;

  // Kind is what one server has told of a namespace. Another one of its name
  // has another uid, and may be of another kind.
  struct Kind {
    uint64_t uid = 0;
    // True if every server holds its keys.
    bool is_mirrored = false;
  };

  // Keeps what every server has told of one namespace.
  void Learn(const std::string& name_space, uint64_t home_uid, Mode mode,
             ByServer<uint64_t> uids);

  // Keeps what a server has told. Drops the mode if it was that of another
  // namespace.
  void LearnKind(const std::string& name_space, const std::string& server,
                 const Kind& kind);
  // Keeps that one cannot learn whether the namespace is mirrored: it is taken
  // for one that is not.
  void LearnNoKind(const std::string& name_space);
  // Returns what that server has told; nothing where it has not.
  std::optional<Kind> KindAt(const std::string& name_space,
                             const std::string& server) const;
  // Returns whether the namespace is mirrored, as the server says that has told
  // last; nothing where none has.
  std::optional<bool> IsMirrored(const std::string& name_space) const;
  // Drop what all servers have told of the kind, or one server: another
  // namespace may have the name by now.
  void ForgetKind(const std::string& name_space);
  void ForgetKindAt(const std::string& name_space, const std::string& server);

  // Returns the uid at `server` of the namespace that has `home_uid` at home,
  // or had so while another server was its home; nothing where that is another
  // one than what was learnt last, or unknown.
  std::optional<uint64_t> UidAt(const std::string& server,
                                const std::string& name_space,
                                uint64_t home_uid) const;
  // Returns whether the namespace that was learnt last has, or had, that uid at
  // home.
  bool Knows(const std::string& name_space, uint64_t home_uid) const;
  // Returns the mode that was learnt; kUnknown where none was.
  Mode ModeOf(const std::string& name_space) const;

  // Keeps that a worker has joined at `server`, and is to join at the others.
  void SetJoined(const std::string& name_space, const std::string& worker_name,
                 const std::string& server, const Worker& worker);
  // Keeps that the worker has joined everywhere, at home as `home`, at servers
  // of these incarnations. Returns one number for all incarnations. It changes
  // when the incarnation of a server changes, but not when servers come or go.
  uint64_t CompleteJoin(const std::string& name_space,
                        const std::string& worker_name, const Worker& home,
                        ByServer<uint64_t> incarnations);
  // Returns the epoch that a Join at `server` replaces which replaces
  // `home_epoch` at home: that worker's, or one of an earlier Join that did not
  // come to its end. Nothing where neither is known.
  std::optional<uint64_t> ReplacedAt(const std::string& server,
                                     const std::string& name_space,
                                     const std::string& worker_name,
                                     uint64_t home_epoch) const;

  // Returns the worker that is `home` at home, at another server. One that is
  // not known has an epoch there that nobody has, so that it is refused; one of
  // epoch 0 is itself.
  Worker WorkerAt(const std::string& server, const std::string& name_space,
                  const Worker& home) const;
  // Returns false for what WorkerAt returns of a worker that is not known.
  static bool IsSomebody(const Worker& worker);
  // Forgets the worker that is `home` at home.
  void Forget(const std::string& name_space, const Worker& home);

 private:
  struct Membership {
    // Nothing while the worker has not joined everywhere.
    std::optional<Worker> home;
    ByServer<Worker> workers;
    ByServer<uint64_t> incarnations;
    // For all of these.
    uint64_t incarnation = 0;
  };
  struct Namespace {
    uint64_t home_uid = 0;
    // Holds the uids that it has had at earlier homes.
    std::set<uint64_t> former_uids;
    Mode mode = Mode::kUnknown;
    ByServer<uint64_t> uids;
    // By the worker's name.
    std::map<std::string, Membership> memberships;
  };

  // Returns null where nothing was learnt.
  const Namespace* Find(const std::string& name_space) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the namespace that was learnt last, if it has, or had, that uid at
  // home.
  const Namespace* FindByUid(const std::string& name_space,
                             uint64_t home_uid) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Namespace> namespaces_ ABSL_GUARDED_BY(mutex_);
  struct Kinds {
    bool is_mirrored = false;
    ByServer<Kind> by_server;
  };
  std::map<std::string, Kinds> kinds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_KNOWN_NAMESPACES_H_
