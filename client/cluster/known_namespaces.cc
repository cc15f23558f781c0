#include "client/cluster/known_namespaces.h"

#include <algorithm>

namespace tensorkv {
namespace {

// No server gives it: they count from 1.
constexpr uint64_t kNobodysEpoch = UINT64_MAX;

std::string FullName(const std::string& name_space) {
  return name_space.empty() ? "default" : name_space;
}

bool AreSame(const Worker& a, const Worker& b) {
  return a.rank == b.rank && a.epoch == b.epoch;
}

}  // namespace

void KnownNamespaces::Learn(const std::string& name_space, uint64_t home_uid,
                            Mode mode, ByServer<uint64_t> uids) {
  MutexLock lock(&mutex_);
  Namespace& known = namespaces_[FullName(name_space)];
  // Another server is its home: all of them still have it by the same names.
  const bool is_the_same = std::ranges::any_of(uids, [&](const auto& uid) {
    const auto before = known.uids.find(uid.first);
    return before != known.uids.end() && before->second == uid.second;
  });
  if (!is_the_same) {
    known.former_uids.clear();
    // Workers that joined before anything was learnt have joined this one.
    if (known.home_uid != 0) known.memberships.clear();
  }
  if (known.home_uid != 0 && is_the_same) {
    known.former_uids.insert(known.home_uid);
  }
  known.home_uid = home_uid;
  known.mode = mode;
  known.uids = std::move(uids);
}

void KnownNamespaces::LearnKind(const std::string& name_space,
                                const std::string& server, const Kind& kind) {
  MutexLock lock(&mutex_);
  Kinds& kinds = kinds_[FullName(name_space)];
  kinds.is_mirrored = kind.is_mirrored;
  kinds.by_server[server] = kind;
  const auto known = namespaces_.find(FullName(name_space));
  if (known == namespaces_.end()) return;
  const auto uid = known->second.uids.find(server);
  if (uid == known->second.uids.end() || uid->second == kind.uid) return;
  known->second.mode = Mode::kUnknown;
}

void KnownNamespaces::LearnNoKind(const std::string& name_space) {
  MutexLock lock(&mutex_);
  kinds_[FullName(name_space)].is_mirrored = false;
}

std::optional<KnownNamespaces::Kind> KnownNamespaces::KindAt(
    const std::string& name_space, const std::string& server) const {
  MutexLock lock(&mutex_);
  const auto kinds = kinds_.find(FullName(name_space));
  if (kinds == kinds_.end()) return std::nullopt;
  const auto kind = kinds->second.by_server.find(server);
  if (kind == kinds->second.by_server.end()) return std::nullopt;
  return kind->second;
}

std::optional<bool> KnownNamespaces::IsMirrored(
    const std::string& name_space) const {
  MutexLock lock(&mutex_);
  const auto found = kinds_.find(FullName(name_space));
  if (found == kinds_.end()) return std::nullopt;
  return found->second.is_mirrored;
}

void KnownNamespaces::ForgetKind(const std::string& name_space) {
  MutexLock lock(&mutex_);
  kinds_.erase(FullName(name_space));
}

void KnownNamespaces::ForgetKindAt(const std::string& name_space,
                                   const std::string& server) {
  MutexLock lock(&mutex_);
  const auto kinds = kinds_.find(FullName(name_space));
  if (kinds != kinds_.end()) kinds->second.by_server.erase(server);
}

const KnownNamespaces::Namespace* KnownNamespaces::Find(
    const std::string& name_space) const {
  const auto found = namespaces_.find(FullName(name_space));
  return found == namespaces_.end() ? nullptr : &found->second;
}

const KnownNamespaces::Namespace* KnownNamespaces::FindByUid(
    const std::string& name_space, uint64_t home_uid) const {
  const Namespace* const known = Find(name_space);
  if (known == nullptr || known->home_uid == home_uid) return known;
  return known->former_uids.count(home_uid) > 0 ? known : nullptr;
}

bool KnownNamespaces::Knows(const std::string& name_space,
                            uint64_t home_uid) const {
  MutexLock lock(&mutex_);
  return FindByUid(name_space, home_uid) != nullptr;
}

bool KnownNamespaces::IsSomebody(const Worker& worker) {
  return worker.epoch != kNobodysEpoch;
}

std::optional<uint64_t> KnownNamespaces::UidAt(const std::string& server,
                                               const std::string& name_space,
                                               uint64_t home_uid) const {
  MutexLock lock(&mutex_);
  const Namespace* const known = FindByUid(name_space, home_uid);
  if (known == nullptr) return std::nullopt;
  const auto uid = known->uids.find(server);
  if (uid == known->uids.end()) return std::nullopt;
  return uid->second;
}

Mode KnownNamespaces::ModeOf(const std::string& name_space) const {
  MutexLock lock(&mutex_);
  const Namespace* const known = Find(name_space);
  return known == nullptr ? Mode::kUnknown : known->mode;
}

void KnownNamespaces::SetJoined(const std::string& name_space,
                                const std::string& worker_name,
                                const std::string& server,
                                const Worker& worker) {
  MutexLock lock(&mutex_);
  Membership& membership =
      namespaces_[FullName(name_space)].memberships[worker_name];
  const auto [known, is_new] = membership.workers.try_emplace(server, worker);
  // A Join that is repeated changes nothing.
  if (!is_new && AreSame(known->second, worker)) return;
  membership.home.reset();
  known->second = worker;
}

uint64_t KnownNamespaces::CompleteJoin(const std::string& name_space,
                                       const std::string& worker_name,
                                       const Worker& home,
                                       ByServer<uint64_t> incarnations) {
  MutexLock lock(&mutex_);
  Membership& membership =
      namespaces_[FullName(name_space)].memberships[worker_name];
  membership.home = home;
  bool is_another = membership.incarnations.empty();
  uint64_t sum = 0;
  for (const auto& [server, incarnation] : incarnations) {
    sum += incarnation;
    const auto before = membership.incarnations.find(server);
    is_another |= before != membership.incarnations.end() &&
                  before->second != incarnation;
  }
  membership.incarnations = std::move(incarnations);
  if (is_another) membership.incarnation = sum;
  return membership.incarnation;
}

std::optional<uint64_t> KnownNamespaces::ReplacedAt(
    const std::string& server, const std::string& name_space,
    const std::string& worker_name, uint64_t home_epoch) const {
  MutexLock lock(&mutex_);
  const Namespace* const known = Find(name_space);
  if (known == nullptr) return std::nullopt;
  const auto membership = known->memberships.find(worker_name);
  if (membership == known->memberships.end()) return std::nullopt;
  const Membership& known_as = membership->second;
  if (known_as.home && known_as.home->epoch != home_epoch) {
    return std::nullopt;
  }
  const auto worker = known_as.workers.find(server);
  if (worker == known_as.workers.end()) return std::nullopt;
  return worker->second.epoch;
}

Worker KnownNamespaces::WorkerAt(const std::string& server,
                                 const std::string& name_space,
                                 const Worker& home) const {
  if (home.epoch == 0) return home;
  MutexLock lock(&mutex_);
  if (const Namespace* const known = Find(name_space)) {
    for (const auto& [name, membership] : known->memberships) {
      if (!membership.home || !AreSame(*membership.home, home)) continue;
      const auto worker = membership.workers.find(server);
      if (worker != membership.workers.end()) return worker->second;
    }
  }
  return {.rank = home.rank, .epoch = kNobodysEpoch};
}

void KnownNamespaces::Forget(const std::string& name_space,
                             const Worker& home) {
  MutexLock lock(&mutex_);
  const auto known = namespaces_.find(FullName(name_space));
  if (known == namespaces_.end()) return;
  std::erase_if(known->second.memberships, [&](const auto& membership) {
    return membership.second.home && AreSame(*membership.second.home, home);
  });
}

}  // namespace tensorkv
