// How the world's namespaces and members are called at all servers of a
// cluster.

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "tests/service/store/init_now.h"
#include "tests/swarm/world.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv::swarm {
namespace {

// Longer than the leases of members.
constexpr absl::Duration kAllLeases = absl::Seconds(10);

// So few that two Joins of one are often under way.
constexpr uint32_t kNumMembers = 2;

std::string MemberName(uint32_t actor) { return absl::StrCat("member", actor); }

CreateNamespaceRequest OfMembers() {
  return testing::CreateOf(std::string(kMembers),
                           {.mode = Mode::kSync, .num_workers = kNumMembers},
                           OnExisting::kKeep);
}

}  // namespace

std::vector<Server*> World::HomeFirst(const std::string& name) {
  std::vector<Server*> servers;
  MutexLock lock(&mutex_);
  for (const auto& server : servers_) {
    if (!server->is_dead) servers.push_back(server.get());
  }
  if (!is_cluster()) return servers;
  const ClusterPlacement& placement = admin_.Placement();
  const std::string& home =
      placement.servers[tensorkv::OwnerOf(placement, name, "")].name;
  const auto found = std::ranges::find(servers, home, &Server::name);
  if (found != servers.end()) std::swap(*found, servers.front());
  return servers;
}

absl::StatusOr<CreateNamespaceReply> World::CreateThere(
    Server& server, const CreateNamespaceRequest& request) {
  auto reply = testing::MakeNow(server.store(), request);
  if (ReasonOf(reply.status()) != Reason::kNamespaceReplaced) return reply;
  uint64_t earlier = 0;
  if (!absl::SimpleHexAtoi(ErrorInfoOf(reply.status())->metadata["uid"],
                           &earlier) ||
      earlier > request.namespace_uid()) {
    return reply;
  }
  testing::MakeNow(server.store(),
                   testing::RemoveOf(request.namespace_(), earlier))
      .IgnoreError();  // it has gone
  return testing::MakeNow(server.store(), request);
}

absl::StatusOr<Worker> World::JoinMember(uint32_t actor, bool is_slow) {
  JoinRequest request = testing::JoinOf(std::string(kMembers),
                                        MemberName(actor), absl::Seconds(3));
  {
    MutexLock lock(&mutex_);
    request.set_replaces_epoch(begun_[actor]);
    joined_[actor] = {};
  }
  const std::vector<Server*> servers = HomeFirst(request.namespace_());
  // All of them have it before anybody may be refused as a member.
  CreateNamespaceRequest create = OfMembers();
  for (Server* const server : servers) {
    const auto created = CreateThere(*server, create);
    if (!created.ok()) return created.status();
    create.set_namespace_uid(created->uid());
  }
  // Another namespace may have the name by now.
  request.set_namespace_uid(create.namespace_uid());
  Worker joined;
  for (Server* const server : servers) {
    if (is_slow && request.epoch() != 0) Scheduler::PauseHere(Pause::kNetwork);
    const auto reply = testing::MakeNow(server->store(), request);
    if (!reply.ok()) return reply.status();
    joined = WorkerOf(reply->worker());
    if (request.epoch() != 0) continue;
    request.set_epoch(joined.epoch);
    request.set_rank(joined.rank);
    MutexLock lock(&mutex_);
    begun_[actor] = joined.epoch;
  }
  MutexLock lock(&mutex_);
  // It may have begun another Join meanwhile.
  if (begun_[actor] == joined.epoch) joined_[actor] = joined;
  return joined;
}

void World::JoinEverywhere(const Action& action) {
  const uint32_t actor = action.actor % kNumMembers;
  Run([this, actor, is_slow = action.how % 4 > 0] {
    JoinMember(actor, is_slow).status().IgnoreError();  // others may live
  });
}

void World::LeaveEverywhere(const Action& action) {
  Worker member;
  {
    MutexLock lock(&mutex_);
    member = std::exchange(joined_[action.actor % kNumMembers], {});
  }
  if (member.epoch == 0) return;
  const auto request =
      testing::RequestOfMember<LeaveRequest>(std::string(kMembers), member);
  Run([this, request] {
    for (Server* const server : HomeFirst(request.namespace_())) {
      Scheduler::PauseHere(Pause::kNetwork);
      testing::MakeNow(server->store(), request)
          .IgnoreError();  // it may be lost
    }
  });
}

// Compares what the servers say at one moment, and finds nothing where the look
// at one of them has had to wait.
void World::CheckIds() {
  const auto is_now = std::make_shared<std::atomic<bool>>(true);
  std::vector<std::string> names = {std::string(kMembers)};
  for (const SpacePlan& each : plan_.spaces) names.push_back(each.name);
  Run([this, is_now, names] {
    for (const std::string& name : names) {
      uint64_t uid = 0;
      for (Server* const server : HomeFirst(name)) {
        const auto reply =
            server->store().DescribeNamespace(testing::DescribeOf(name));
        if (!reply.ok()) continue;
        const NamespaceStatus& status = reply->status();
        MutexLock lock(&mutex_);
        if (!*is_now) return;
        if (name == kMembers) CheckMembers(*server, status);
        if (uid == 0) uid = status.uid();
        if (status.uid() == uid || num_naming_ > 0) continue;
        Find(absl::StrCat("a namespace has two uids: ", name, " at ",
                          server->name()));
      }
    }
  });
  *is_now = false;
}

void World::CheckMembers(Server& server, const NamespaceStatus& status) {
  for (const WorkerStatus& each : status.workers()) {
    const std::pair<std::string, uint32_t> its = {each.name(),
                                                  each.worker().rank()};
    const auto [known, is_new] = epochs_.emplace(each.worker().epoch(), its);
    if (known->second != its) {
      Find(absl::StrCat("an epoch is two workers': ", each.name(), ", rank ",
                        each.worker().rank(), ", and ", known->second.first,
                        ", rank ", known->second.second));
    }
    uint64_t& highest = highest_epochs_[{&server, each.worker().rank()}];
    if (each.worker().epoch() < highest) {
      Find(absl::StrCat("an earlier epoch has come back: ", each.name(), " at ",
                        server.name()));
    }
    highest = std::max(highest, each.worker().epoch());
  }
}

// Whatever has broken off, everybody can join everywhere in the end.
void World::CheckJoins() {
  Advance(kAllLeases);
  scheduler_->Settle();
  Run([this] {
    for (uint32_t actor = 0; actor < kNumMembers; ++actor) {
      const absl::StatusOr<Worker> joined = JoinMember(actor, false);
      if (!joined.ok()) {
        MutexLock lock(&mutex_);
        if (!HasHeadroom(plan_)) return;
        return Find(
            absl::StrCat("a member cannot join: ", joined.status().ToString()));
      }
      for (Server* const server : HomeFirst(std::string(kMembers))) {
        const auto status = testing::MakeNow(
            server->store(), testing::RequestOfMember<KeepAliveRequest>(
                                 std::string(kMembers), *joined));
        MutexLock lock(&mutex_);
        if (!status.ok()) {
          Find(absl::StrCat("a member has not joined ", server->name(), ": ",
                            status.status().ToString()));
        }
      }
    }
  });
  scheduler_->Settle();
}

}  // namespace tensorkv::swarm
