// Watches: what they have told is what there is, once all is quiet.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/duration.h"
#include "contract/reason.h"
#include "tests/service/store/init_now.h"
#include "tests/swarm/world.h"

namespace tensorkv::swarm {
namespace {

WatchRequest RequestOf(const Action& action, const std::string& token,
                       bool initial) {
  WatchRequest request;
  request.set_prefix("");
  request.set_series("");
  request.set_token(token);
  request.set_initial(initial);
  request.set_max_changes(action.how % 3);
  EncodeDuration(absl::Milliseconds(action.how / 4 % 3 * 50),
                 request.mutable_interval());
  EncodeDuration(absl::Milliseconds(action.number % 5000),
                 request.mutable_max_wait());
  return request;
}

std::string NameIn(const v1::Change& change) {
  return change.series().empty() ? change.key()
                                 : absl::StrCat("series ", change.series());
}

// Adds what a server has told. Where two have told of a key, as one that has
// moved, the higher revision counts.
void Add(uint32_t server, const v1::Change& change, Watched& watched) {
  const bool is_key = change.series().empty();
  Watched::Told told = {.server = server,
                        .revision = change.revision(),
                        .number = is_key ? change.version() : change.number(),
                        .is_deleted = change.deleted()};
  Watched::Told& before = watched.told[NameIn(change)];
  if (before.server != server && before.revision > told.revision) return;
  told.revision = std::max(told.revision, before.revision);
  before = told;
}

std::string Text(const std::map<std::string, uint64_t>& versions) {
  std::string text;
  for (const auto& [key, version] : versions) {
    absl::StrAppend(&text, " ", key, "@", version);
  }
  return text;
}

}  // namespace

// Several may be under way: those whose token is old by then tell nothing new.
void World::Watch(Action action) {
  CallPtr call;
  {
    MutexLock lock(&mutex_);
    Space& space = spaces_[action.space];
    const std::vector<uint32_t> servers = WatchedServers(space);
    if (std::ranges::count(servers, action.server) == 0) {
      action.server = servers[action.number % servers.size()];
    }
    call = NewCall(action, /*changes=*/false);
    call->keys = 0;
    // Keys may have come from others.
    const bool initial = is_cluster() || action.number % 4 != 0;
    WatchRequest request =
        RequestOf(action, space.watched.at[action.server].token, initial);
    request.set_namespace_(space.plan.name);
    call->make = [this, request](const CallPtr& made) {
      CallContext context;
      ReplyCallback<WatchReply> done;
      {
        MutexLock lock(&mutex_);
        const AttemptPtr attempt = Begin(made, /*blocks=*/false);
        context = ContextOf(*attempt);
        done = Ending<WatchReply>(
            attempt,
            [this, attempt, request](const absl::StatusOr<WatchReply>& reply) {
              EndAttempt(attempt, reply.status(), reply.status().ToString());
              TakeWatched(*attempt->call, request, reply);
            });
      }
      At(*made).front().Make(request, context, std::move(done));
    };
  }
  Run([call] { call->make(call); });
}

std::vector<uint32_t> World::WatchedServers(const Space& space) {
  if (!is_cluster()) return {0};
  if (plan_.is_mirrored) return {OwnerOf(space, std::nullopt)};
  std::vector<uint32_t> live;
  for (uint32_t i = 0; i < servers_.size(); ++i) {
    if (!servers_[i]->is_dead) live.push_back(i);
  }
  return live;
}

void World::TakeWatched(const Call& call, const WatchRequest& request,
                        const absl::StatusOr<WatchReply>& reply) {
  Space& space = spaces_[call.space];
  Watched::AtServer& its = space.watched.at[call.server];
  if (call.generation != space.generation || its.token != request.token()) {
    return;
  }
  const bool is_over = ReasonOf(reply.status()) == Reason::kRevisionCompacted ||
                       absl::IsNotFound(reply.status());
  if (is_over && !its.token.empty()) {
    space.watched = {};
    return;
  }
  its.status = reply.status();
  its.is_done = !reply.ok();
  if (!reply.ok()) return;
  if (its.token.empty()) space.watched.is_whole = request.initial();
  its.token = reply->token();
  its.is_done = reply->changes().empty() && !reply->has_more();
  for (const v1::Change& change : reply->changes()) {
    Add(call.server, change, space.watched);
    if (change.deleted()) continue;
    const std::string name = NameIn(change);
    const uint64_t number = std::max(change.version(), change.number());
    uint64_t& floor = its.floors[name];
    if (number < floor) {
      Find(absl::StrCat("a watch goes back: ", name, " was told as ", floor,
                        ", then as ", number));
    }
    floor = number;
  }
}

// REQUIRES: nothing is under way.
void World::CheckWatches() {
  // What has ended may not have been taken note of when a watch has waited in
  // vain. Threads may do so only after many watches: time flies here.
  const int max_calls = is_stepped() ? 40 : 4000;
  for (uint32_t at = 0; at < plan_.spaces.size(); ++at) {
    std::string fault;
    for (int i = 0; i < max_calls; ++i) {
      fault = "more and more, though all is quiet";
      if (!WatchInVain(at)) continue;
      Run([&] { fault = CompareWatched(at); });
      if (is_stepped()) scheduler_->Settle();
      if (fault.empty()) break;
    }
    if (fault.empty()) continue;
    MutexLock lock(&mutex_);
    Find(absl::StrCat("a watch has told ", fault));
  }
}

bool World::WatchInVain(uint32_t at) {
  std::vector<uint32_t> servers;
  {
    MutexLock lock(&mutex_);
    servers = WatchedServers(spaces_[at]);
  }
  for (const uint32_t server : servers) {
    Watch({.verb = Verb::kWatch,
           .space = static_cast<uint8_t>(at),
           .how = 3,
           .number = 1001,
           .server = static_cast<uint8_t>(server)});
  }
  EndWaits();
  MutexLock lock(&mutex_);
  Watched& watched = spaces_[at].watched;
  return std::ranges::all_of(
      servers, [&](uint32_t each) { return watched.at[each].is_done; });
}

absl::StatusOr<std::map<std::string, uint64_t>> World::ListThere(uint32_t at) {
  std::vector<uint32_t> servers;
  {
    MutexLock lock(&mutex_);
    servers = WatchedServers(spaces_[at]);
  }
  std::map<std::string, uint64_t> there;
  for (const uint32_t server : servers) {
    ListRequest list;
    list.set_namespace_(plan_.spaces[at].name);
    const auto reply = servers_[server]->front().MakeAndWait(list);
    // Not all servers may have the namespace.
    if (absl::IsNotFound(reply.status())) continue;
    if (!reply.ok()) return reply.status();
    for (const KeyStatus& key : reply->keys()) there[key.key()] = key.version();
  }
  return there;
}

std::string World::CompareWatched(uint32_t at) {
  const auto there = ListThere(at);
  const auto snapshots = ListSeries(at);
  MutexLock lock(&mutex_);
  Watched& watched = spaces_[at].watched;
  absl::Status status = there.status();
  for (const auto& [server, its] : watched.at) {
    if (!absl::IsNotFound(its.status)) status.Update(its.status);
  }
  if (!status.ok()) {
    if (!HasHeadroom(plan_)) return "";
    return absl::StrCat("an error, or a list has failed, though all is quiet: ",
                        status.ToString());
  }
  std::map<std::string, uint64_t> told;
  if (!watched.is_whole) told = *there;
  for (const auto& [name, last] : watched.told) {
    if (name.starts_with("series ")) continue;
    told.erase(name);
    if (!last.is_deleted) told[name] = last.number;
  }
  if (told != *there) {
    return absl::StrCat("something else than there is:", Text(told),
                        ", and there is", Text(*there));
  }
  for (const auto& [series, number] : snapshots) {
    // Later ones may have gone since.
    const uint64_t last = watched.told[absl::StrCat("series ", series)].number;
    if (!watched.is_whole || last >= number) continue;
    return absl::StrCat("snapshot ", last, " of ", series, ", and there is ",
                        number);
  }
  return "";
}

std::map<std::string, uint64_t> World::ListSeries(uint32_t at) {
  std::map<std::string, uint64_t> newest;
  if (is_cluster()) return newest;
  ListSnapshotsRequest list;
  list.set_namespace_(plan_.spaces[at].name);
  const auto snapshots = testing::MakeNow(servers_[0]->store(), list);
  if (!snapshots.ok()) return newest;
  for (const v1::SnapshotStatus& each : snapshots->snapshots()) {
    newest[each.series()] = each.number();
  }
  return newest;
}

}  // namespace tensorkv::swarm
