// Watches: what they have told is what there is, once all is quiet.

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/duration.h"
#include "contract/reason.h"
#include "tests/service/store/init_now.h"
#include "tests/swarm/world.h"

namespace tensorkv::swarm {
namespace {

WatchRequest RequestOf(const Action& action, const Watched& watched) {
  WatchRequest request;
  request.set_prefix("");
  request.set_series("");
  request.set_token(watched.token);
  request.set_initial(true);
  request.set_max_changes(action.how % 3);
  EncodeDuration(absl::Milliseconds(action.how / 4 % 3 * 50),
                 request.mutable_interval());
  EncodeDuration(absl::Milliseconds(action.number % 5000),
                 request.mutable_max_wait());
  return request;
}

}  // namespace

// Several may be under way: those whose token is old by then tell nothing new.
void World::Watch(const Action& action) {
  if (is_cluster()) return;
  CallPtr call;
  {
    MutexLock lock(&mutex_);
    call = NewCall(action, /*changes=*/false);
    Space& space = spaces_[action.space];
    WatchRequest request = RequestOf(action, space.watched);
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

void World::TakeWatched(const Call& call, const WatchRequest& request,
                        const absl::StatusOr<WatchReply>& reply) {
  Space& space = spaces_[call.space];
  Watched& watched = space.watched;
  if (call.generation != space.generation || watched.token != request.token()) {
    return;
  }
  const bool is_compacted =
      ReasonOf(reply.status()) == Reason::kRevisionCompacted;
  if (is_compacted) {
    watched.token.clear();
    watched.told.clear();
  }
  watched.is_done = !reply.ok() && !is_compacted;
  if (!reply.ok()) return;
  watched.token = reply->token();
  watched.is_done = reply->changes().empty() && !reply->has_more();
  for (const v1::Change& change : reply->changes()) {
    const bool is_key = change.series().empty();
    const std::string name =
        is_key ? change.key() : absl::StrCat("series ", change.series());
    if (change.deleted()) {
      watched.told.erase(name);
      continue;
    }
    const uint64_t number = is_key ? change.version() : change.number();
    uint64_t& floor = watched.floors[name];
    if (number < floor) {
      Find(absl::StrCat("a watch goes back: ", name, " was told as ", floor,
                        ", then as ", number));
    }
    floor = watched.told[name] = number;
  }
}

// REQUIRES: nothing is under way.
void World::CheckWatches() {
  if (is_cluster()) return;
  constexpr int kMostCalls = 40;
  for (uint32_t at = 0; at < plan_.spaces.size(); ++at) {
    // What the first one has waited for in vain may be told the next one: it
    // may not have been taken note of when the call ended.
    int num_in_vain = 0;
    for (int i = 0; i < kMostCalls && num_in_vain < 2; ++i) {
      Watch({.verb = Verb::kWatch,
             .space = static_cast<uint8_t>(at),
             .how = 3,
             .number = 1000});
      EndWaits();
      MutexLock lock(&mutex_);
      num_in_vain = spaces_[at].watched.is_done ? num_in_vain + 1 : 0;
    }
    if (num_in_vain < 2) {
      MutexLock lock(&mutex_);
      Find("a watch is told more and more, though all is quiet");
    }
    Run([this, at] { CompareWatched(at); });
    if (is_stepped()) scheduler_->Settle();
  }
}

void World::CompareWatched(uint32_t at) {
  ListRequest list;
  list.set_namespace_(plan_.spaces[at].name);
  const auto reply = testing::MakeNow(servers_[0]->store(), list);
  if (absl::IsNotFound(reply.status())) return;
  if (!reply.ok()) {
    MutexLock lock(&mutex_);
    return Find(absl::StrCat("a list failed, though all is quiet: ",
                             reply.status().ToString()));
  }
  std::map<std::string, uint64_t> there;
  for (const KeyStatus& key : reply->keys()) there[key.key()] = key.version();
  ListSnapshotsRequest list_snapshots;
  list_snapshots.set_namespace_(plan_.spaces[at].name);
  const auto snapshots = testing::MakeNow(servers_[0]->store(), list_snapshots);
  MutexLock lock(&mutex_);
  std::map<std::string, uint64_t> told = spaces_[at].watched.told;
  if (snapshots.ok()) {
    for (const v1::SnapshotStatus& each : snapshots->snapshots()) {
      // Later ones may have gone since.
      if (told[absl::StrCat("series ", each.series())] >= each.number()) {
        continue;
      }
      Find(absl::StrCat("a watch has not told snapshot ", each.number(), " of ",
                        each.series()));
    }
  }
  std::erase_if(
      told, [](const auto& each) { return each.first.starts_with("series "); });
  if (told == there) return;
  std::string text = "a watch has told something else than there is:";
  for (const auto& [key, version] : told) {
    absl::StrAppend(&text, " ", key, "@", version);
  }
  absl::StrAppend(&text, ", and there is");
  for (const auto& [key, version] : there) {
    absl::StrAppend(&text, " ", key, "@", version);
  }
  Find(text);
}

}  // namespace tensorkv::swarm
