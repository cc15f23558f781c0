// How the world's servers form a cluster, move partitions, and are lost.

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "service/cluster/placement_changes.h"
#include "tests/swarm/world.h"
#include "tests/testing/key_requests.h"

namespace tensorkv::swarm {
namespace {

// Of a seed together, those included that are lost.
constexpr size_t kMostServers = 6;
constexpr size_t kMostMessagesRemembered = 6;
// As the calls of a server to another one.
constexpr int kMostAttempts = 3;

}  // namespace

void World::StartCluster() {
  servers_.reserve(kMostServers);
  for (uint32_t i = 0; i < plan_.num_servers; ++i) AddServer();
  if (!is_cluster()) return;
  ClusterPlacement placement = {.cluster = "swarm", .version = 1};
  for (const auto& server : servers_) {
    placement.servers.push_back({.name = server->name(), .live = true});
  }
  for (uint32_t i = 0; i < plan_.num_partitions; ++i) {
    placement.owners.push_back(i % plan_.num_servers);
  }
  admin_.records()
      .CreatePlacement(placement)
      .IgnoreError();  // there is none yet
  for (const auto& server : servers_) {
    Learn(*server);
    server->link().is_slow = plan_.has_delays;
  }
  if (plan_.is_mirrored) ConnectMirrors();
}

void World::AddServer() {
  MemoryTensorStoreOptions options;
  options.budget_bytes = plan_.budget_bytes;
  options.max_wait = kMostWait;
  if (is_stepped()) {
    options.pool = std::make_shared<ScheduledTasks>(scheduler_);
  }
  if (!is_cluster()) {
    servers_.push_back(
        std::make_unique<Server>("", options, &alarms_, Server::Peers()));
    return;
  }
  const size_t at = servers_.size();
  Server::Peers peers = {.etcd = &admin_.etcd(), .runner = sums_.get()};
  peers.call = [this, at](const ClusterServer& to, const MoveRequest& request) {
    return Deliver(*servers_[at], to, request);
  };
  peers.checkpoints = {
      .restore_last_of =
          [this](const std::string& server, Restoration& to) {
            return RestoreLastOf(server, to);
          },
      .state_has_changed = [] {},
      .save = [this, at] { return Checkpoint(*servers_[at], false); }};
  peers.goes_on = [this, at, num_looks = 0]() mutable {
    // Rounds that do not close end the move.
    const bool ends = servers_[at]->is_dead || ++num_looks % 6 == 0;
    return ends ? absl::UnavailableError("rounds are open") : absl::OkStatus();
  };
  servers_.push_back(std::make_unique<Server>(absl::StrCat("s", at), options,
                                              &alarms_, std::move(peers)));
}

std::vector<Action> World::PartsOf(const Action& action) {
  Action part = action;
  if (action.verb == Verb::kList) part.keys = (1 << kNumKeys) - 1;
  if (!is_cluster()) return {part};
  MutexLock lock(&mutex_);
  if (IsOfKeys(action.verb)) {
    return plan_.is_mirrored ? PartsOfMirrored(part) : PartsByOwner(part);
  }
  switch (action.verb) {
    case Verb::kBarrier:
      part.server = OwnerOf(spaces_[action.space], std::nullopt);
      return {part};
    case Verb::kSetRule:
    case Verb::kUnsetRule:
    case Verb::kSetHyperparameters:
    case Verb::kSetMultipliers:
    case Verb::kUnsetMultipliers: {
      std::vector<Action> all;
      for (part.server = 0; part.server < servers_.size(); ++part.server) {
        if (!servers_[part.server]->is_dead) all.push_back(part);
      }
      return all;
    }
    case Verb::kList:
      part.server = AnyServer(servers_, action.how);
      if (plan_.is_mirrored) return {part};
      part.keys = 0;
      for (uint32_t key = 0; key < kNumKeys; ++key) {
        const bool is_its = OwnerOf(spaces_[action.space], key) == part.server;
        part.keys |= is_its << key;
      }
      return {part};
    default:
      part.server = AnyServer(servers_, action.number >> 8);
      return {part};
  }
}

std::vector<Action> World::PartsByOwner(Action part) {
  const uint8_t keys = part.keys;
  if (part.how / 16 % 4 == 0) placements_seen_[part.actor] = admin_.Placement();
  std::map<uint32_t, Action> parts;
  for (uint32_t key = 0; key < kNumKeys; ++key) {
    if ((keys >> key & 1) == 0) continue;
    part.server = OwnerFor(part.actor, spaces_[part.space], key);
    part.keys = 0;
    parts.try_emplace(part.server, part).first->second.keys |= 1 << key;
  }
  std::vector<Action> all;
  for (auto& [server, each] : parts) all.push_back(each);
  return all;
}

// As PeerCalls, over links that lose, repeat and delay.
absl::Status World::Deliver(Server& from, const ClusterServer& to,
                            const MoveRequest& request) {
  const uint32_t at = ServerOf(servers_, to.name);
  Server& receiver = *servers_[at];
  {
    MutexLock lock(&mutex_);
    messages_.emplace_back(at, request);
    if (messages_.size() > kMostMessagesRemembered) {
      messages_.erase(messages_.begin());
    }
  }
  absl::Status status;
  for (int i = 0; i < kMostAttempts; ++i) {
    status = from.link().Send();
    if (status.ok() && receiver.link().is_cut) status = ServerIsGone();
    if (status.ok()) {
      status = receiver.Handle(request);
      if (Link::TakeOne(from.link().messages_to_repeat)) {
        status = receiver.Handle(request);
      }
      const absl::Status heard = from.link().Hear();
      if (!heard.ok()) status = heard;
      if (receiver.link().is_cut) status = ServerIsGone();
    }
    if (!absl::IsUnavailable(status)) break;
  }
  return status;
}

absl::Status World::RestoreLastOf(const std::string& server, Restoration& to) {
  std::vector<SavedSpace> saved;
  {
    MutexLock lock(&mutex_);
    const auto& last = servers_[ServerOf(servers_, server)]->saved;
    if (!last) return absl::NotFoundError("there is no checkpoint");
    saved = *last;
  }
  return Fill(to, saved);
}

void World::MoveOrRestore(Server& server, const ClusterServer* to,
                          uint32_t chosen) {
  {
    MutexLock lock(&mutex_);
    if (server.is_dead || server.is_moving) return;
    server.is_moving = true;
    ++num_moving_;
    ++num_changes_;
    for (Space& space : spaces_) {
      for (KeyLedger& ledger : space.ledgers) ledger.Move();
    }
  }
  std::optional<ClusterServer> receiver;
  if (to != nullptr) receiver = *to;
  Run([this, &server, receiver, chosen] {
    // It is made again.
    server.MoveOrRestore(receiver ? &*receiver : nullptr, chosen).IgnoreError();
    MutexLock lock(&mutex_);
    server.is_moving = false;
    --num_moving_;
    ++num_changes_;
  });
}

void World::MoveSome(const Action& action) {
  ClusterServer to;
  {
    MutexLock lock(&mutex_);
    const uint32_t receiver = AnyServer(servers_, action.number >> 16);
    to.name = servers_[receiver]->name();
    if (receiver == action.server) return;
  }
  // All of them in one of four.
  MoveOrRestore(*servers_[action.server], &to,
                action.how % 4 == 0 ? UINT32_MAX : action.number);
}

void World::Learn(Server& server) {
  {
    MutexLock lock(&mutex_);
    if (!is_cluster() || server.is_dead) return;
  }
  Run([this, &server] {
    server.Learn().IgnoreError();  // etcd may be away
    MutexLock lock(&mutex_);
    ++num_changes_;
  });
}

void World::Disturb(const Action& action) {
  Link& link = servers_[action.server]->link();
  const int times = 1 + action.how / 8 % 4;
  switch (action.how % 8) {
    case 0:
    case 1:
      link.is_slow = true;
      return;
    case 2:
      link.is_slow = false;
      return;
    case 3:
      link.messages_to_lose = times;
      return;
    case 4:
    case 5:
      link.answers_to_lose = times;
      return;
    default:
      link.messages_to_repeat = times;
  }
}

// A message that was lost, or has come, comes now.
void World::DeliverLate(const Action& action) {
  std::pair<uint32_t, MoveRequest> message;
  {
    MutexLock lock(&mutex_);
    if (messages_.empty()) return;
    message = messages_[action.number % messages_.size()];
    if (servers_[message.first]->is_dead) return;
    ++num_moving_;
    ++num_changes_;
  }
  Run([this, message = std::move(message)] {
    servers_[message.first]->Handle(message.second).IgnoreError();
    MutexLock lock(&mutex_);
    --num_moving_;
    ++num_changes_;
  });
}

// The server dies, and counts as lost: others restore what it had by its last
// checkpoint, or nothing.
void World::Lose(const Action& action) {
  Server& lost = *servers_[action.server];
  {
    MutexLock lock(&mutex_);
    const auto num_live = std::ranges::count_if(
        servers_, [](const auto& each) { return !each->is_dead; });
    if (lost.is_dead || num_live < 2) return;
    lost.is_dead = true;
    lost.link().is_cut = true;
    admin_.etcd().EndLease(lost.lease());
    ++num_changes_;
    bool is_given_up = action.how % 4 == 0 || !lost.saved;
    for (const Space& space : spaces_) {
      is_given_up |=
          lost.saved_generations[space.plan.name] != space.generation;
    }
    CountAsLost(lost, is_given_up);
    // Nobody knows what else it would have told.
    for (Space& space : spaces_) space.watched = {};
    // Its callers hear nothing any more.
    for (const AttemptPtr& attempt : std::vector<AttemptPtr>(under_way_)) {
      if (&At(*attempt->call) != &lost) continue;
      attempt->is_lost = true;
      if (const auto lose = std::move(attempt->lose)) lose();
    }
    whole_calls_.clear();
  }
  if (action.how % 8 < 4 && servers_.size() < kMostServers) AddToCluster();
}

void World::CountAsLost(const Server& lost, bool is_given_up) {
  const ClusterReading reading = *admin_.records().Read();
  ResizeClusterRequest request = TakeoverOf({lost.name()}, reading);
  request.set_give_up(is_given_up);
  const absl::StatusOr<ResizedCluster> resized = Resized(request, reading);
  if (!resized.ok()) {
    return Find(
        absl::StrCat("a server cannot be lost: ", resized.status().ToString()));
  }
  for (const LostPartitions& each : resized->placement.lost) {
    if (each.server == lost.name()) {
      LoseKeys(lost, each.partitions, is_given_up);
    }
  }
  admin_.records()
      .ReplacePlacementAndWanted(resized->placement, resized->wanted, reading,
                                 {lost.name()})
      .IgnoreError();  // nobody else writes meanwhile
}

void World::AddToCluster() {
  AddServer();
  servers_.back()->link().is_slow = plan_.has_delays;
  const ClusterReading reading = *admin_.records().Read();
  ResizeClusterRequest request;
  request.add_add(servers_.back()->name());
  const absl::StatusOr<ResizedCluster> resized = Resized(request, reading);
  admin_.records()
      .SetWanted(resized->wanted, reading.wanted_revision)
      .IgnoreError();
  for (uint32_t at = 0; at < plan_.spaces.size(); ++at) {
    ChangeNamespaces(
        {.verb = Verb::kCreateNamespace, .space = static_cast<uint8_t>(at)});
  }
  Learn(*servers_.back());
}

// What the keys are once they have been restored.
void World::LoseKeys(const Server& lost,
                     const std::vector<uint32_t>& partitions,
                     bool is_given_up) {
  for (Space& space : spaces_) {
    const SavedSpace* saved = nullptr;
    if (lost.saved && !is_given_up) {
      for (const SavedSpace& each : *lost.saved) {
        if (each.name_space.name == space.plan.name) saved = &each;
      }
    }
    for (uint32_t key = 0; key < kNumKeys; ++key) {
      const uint32_t partition =
          PartitionOf(space.plan.name, KeyName(key), plan_.num_partitions);
      if (std::ranges::count(partitions, partition) == 0) continue;
      for (const AttemptPtr& attempt : under_way_) {
        if (&spaces_[attempt->call->space] != &space) continue;
        attempt->floors[key] = 0;
        attempt->known_before[key] = Known::kUnknown;
      }
      space.is_contended[key] = space.num_changing[key] > 0;
      space.floors[key] = 0;
      space.keys[key] = Known::kNo;
      space.ledgers[key].Forget();
      if (saved == nullptr) continue;
      SavedSpace its = {saved->name_space, {}};
      for (const KeySnapshot& each : saved->keys) {
        if (each.key == KeyName(key)) its.keys.push_back(each);
      }
      BeginAgain(space, its);
    }
  }
}

// Ends what is under way, and has all servers know, restore and settle.
void World::Heal() {
  for (const auto& server : servers_) {
    Link& link = server->link();
    link.is_slow = false;
    link.messages_to_lose = 0;
    link.answers_to_lose = 0;
    link.messages_to_repeat = 0;
  }
  scheduler_->Settle();
  // Once for each server that may be restored, and once to settle.
  for (size_t i = 0; i < kMostServers; ++i) {
    for (const auto& server : servers_) {
      Learn(*server);
      MoveOrRestore(*server, nullptr, 0);
      scheduler_->Settle();
    }
  }
  for (const auto& server : servers_) Learn(*server);
  scheduler_->Settle();
  {
    MutexLock lock(&mutex_);
    if (num_moving_ > 0) Find("a move stands still");
    if (NumLost(admin_.Placement()) > 0 && HasHeadroom(plan_)) {
      Find("a partition is never restored");
    }
    for (const auto& server : servers_) {
      if (server->is_dead || !server->is_unsettled()) continue;
      Find("a move is never settled");
    }
    if (finding_) return;
  }
  CheckIds();
  CheckJoins();
  if (plan_.is_mirrored) return Agree();
  CheckServing();
}

// No key is served by two servers at any moment.
void World::CheckServing() {
  const auto is_now = std::make_shared<std::atomic<bool>>(true);
  Run([this, is_now] {
    for (const SpacePlan& each : plan_.spaces) {
      for (uint32_t key = 0; key < kNumKeys; ++key) {
        int num_serving = 0;
        for (const auto& server : servers_) {
          if (server->is_dead) continue;
          const absl::Status status =
              server->front()
                  .MakeAndWait(testing::StatOf({KeyName(key)}, each.name))
                  .status();
          const bool is_absent = ReasonOf(status) == Reason::kKeyNotFound;
          num_serving += status.ok() || is_absent ? 1 : 0;
        }
        MutexLock lock(&mutex_);
        // Else it has waited, and others have gone on.
        if (num_serving < 2 || !*is_now) continue;
        Find(absl::StrCat("a key is served by ", num_serving,
                          " servers: ", each.name, " ", KeyName(key)));
      }
    }
  });
  *is_now = false;
}

}  // namespace tensorkv::swarm
