// Named snapshots: what each has is the same whenever it is read.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/duration.h"
#include "contract/reason.h"
#include "contract/snapshot_references.h"
#include "tests/swarm/elements.h"
#include "tests/swarm/world.h"

namespace tensorkv::swarm {
namespace {

constexpr char kSeries[] = "s";

// Returns whether a step is about a snapshot of parts, but where it takes one.
bool IsAboutParts(const Action& action) { return action.how / 32 % 4 == 3; }

std::string SeriesOf(const Action& action) {
  return IsAboutParts(action) ? kPartsSeries : kSeries;
}

// Returns which snapshot a step is about: of numbers that there may be.
SnapshotReference ReferenceOf(const Action& action) {
  const uint64_t number = 1 + action.number % 24;
  switch (action.how / 8 % 4) {
    case 0:
      return LatestSnapshot(SeriesOf(action));
    case 1:
      return SnapshotAtLeast(SeriesOf(action), number);
    default:
      return SnapshotOf(SeriesOf(action), number);
  }
}

PublishAs PublicationOf(const Action& action) {
  PublishAs publish_as;
  publish_as.set_series(kSeries);
  if (action.how / 8 % 3 == 1) publish_as.set_keep_last(3);
  if (action.how / 8 % 5 == 1)
    publish_as.mutable_time_to_live()->set_seconds(20);
  if (action.how / 32 % 4 == 1) publish_as.add_prefixes(KeyName(1));
  return publish_as;
}

}  // namespace

void World::PublishWith(const Action& action, PushRequest& request) const {
  const bool applies_at_once =
      spaces_[action.space].plan.config.mode != Mode::kSync;
  if (is_cluster() || !applies_at_once || action.how % 4 != 2) return;
  request.publish_as = PublicationOf(action);
}

template <typename Request>
void World::StartNamed(const Action& action, bool changes, Request request,
                       std::function<void(const ReplyTo<Request>&)> check) {
  CallPtr call;
  {
    MutexLock lock(&mutex_);
    call = NewCall(action, changes);
    SetNamespace(spaces_[action.space].plan.name, request);
    if constexpr (kHasCallId<Request>) {
      if (call->id) SetCallId(*call->id, request);
    }
    call->make = [this, request, check](const CallPtr& made) {
      CallContext context;
      ReplyCallback<ReplyTo<Request>> done;
      {
        MutexLock lock(&mutex_);
        const AttemptPtr attempt = Begin(made, /*blocks=*/false);
        context = ContextOf(*attempt);
        done = Ending<ReplyTo<Request>>(
            attempt, [this, attempt,
                      check](const absl::StatusOr<ReplyTo<Request>>& reply) {
              std::string text = reply.status().ToString();
              if constexpr (std::is_same_v<Request, CreateSnapshotRequest>) {
                if (reply.ok()) absl::StrAppend(&text, reply->number());
              }
              EndAttempt(attempt, reply.status(), text);
              const Call& call = *attempt->call;
              if (!reply.ok() ||
                  call.generation != spaces_[call.space].generation) {
                return;
              }
              if (check) check(*reply);
            });
      }
      At(*made).front().Make(request, context, std::move(done));
    };
  }
  Run([call] { call->make(call); });
}

void World::NamedSnapshot(const Action& action) {
  if (is_cluster()) return;
  switch (action.how % 8) {
    case 0:
    case 1:
      return CreateNamed(action);
    case 2: {
      DeleteSnapshotRequest request;
      request.set_series(SeriesOf(action));
      if (action.how / 8 % 4 > 0) request.set_number(1 + action.number % 24);
      return StartNamed(action, /*changes=*/true, request, {});
    }
    case 3: {
      LeaseSnapshotRequest request;
      *request.mutable_at() = ReferenceOf(action);
      request.set_lease("lease");
      request.mutable_duration()->set_seconds(action.number % 3 * 20);
      return StartNamed(action, /*changes=*/false, request, {});
    }
    default:
      return PullNamed(action);
  }
}

void World::CreateNamed(const Action& action) {
  const PublishAs terms = PublicationOf(action);
  CreateSnapshotRequest request;
  request.set_series(terms.series());
  *request.mutable_prefixes() = terms.prefixes();
  request.set_keep_last(terms.keep_last());
  if (terms.has_time_to_live()) {
    *request.mutable_time_to_live() = terms.time_to_live();
  }
  StartNamed(action, /*changes=*/true, request, {});
}

void World::PullNamed(const Action& action) {
  PullRequest request = {.at = ReferenceOf(action)};
  for (uint32_t key = 0; key < kNumKeys; ++key) {
    if (action.keys >> key & 1) request.entries.push_back({KeyName(key)});
  }
  {
    MutexLock lock(&mutex_);
    ShowHeld(action, request);
  }
  StartNamed<PullRequest>(
      action, /*changes=*/false, request,
      [this, at = action.space, of_parts = IsAboutParts(action),
       request](const PullReply& reply) {
        const PullReply whole = MakeWhole(at, request, reply);
        if (of_parts) return CheckOfParts(at, request, whole);
        CheckNamed(at, request, whole);
      });
}

void World::CheckNamed(uint32_t at, const PullRequest& request,
                       const PullReply& reply) {
  Space& space = spaces_[at];
  const uint64_t number = reply.snapshot_number;
  std::map<uint32_t, Version>& versions =
      named_[{at, space.generation, number}];
  for (size_t i = 0; i < request.entries.size(); ++i) {
    const uint32_t key = KeyOf(request.entries[i].key);
    const Version version = reply.values[i].version;
    const Elements value = ElementsOf(reply.values[i].tensor);
    const std::string what = absl::StrCat("snapshot ", number, ": ",
                                          KeyName(key), " version ", version);
    const Version had = versions.try_emplace(key, version).first->second;
    if (had != version) {
      Find(absl::StrCat("a snapshot has another version than before: ", what,
                        ", and ", had));
    }
    const auto known =
        values_.try_emplace({space.uid, key, version}, value).first;
    if (known->second != value) {
      Find(absl::StrCat("a snapshot has another value: ", what, ": ",
                        ToString(known->second), " and ", ToString(value)));
    }
  }
  CheckWhole(at, versions, "a named snapshot");
  // Later ones have no older versions.
  for (const auto& [other, its] : named_) {
    const auto& [its_space, its_generation, its_number] = other;
    if (its_space != at || its_generation != space.generation) continue;
    for (const auto& [key, version] : its) {
      const auto here = versions.find(key);
      if (here == versions.end()) continue;
      if (its_number < number ? version > here->second
                              : version < here->second) {
        Find(absl::StrCat("snapshots ", its_number, " and ", number,
                          " have versions ", version, " and ", here->second,
                          " of ", KeyName(key)));
      }
    }
  }
}

void World::RecordPublished(uint32_t at, uint64_t number,
                            const std::map<uint32_t, Version>& versions) {
  std::map<uint32_t, Version>& has =
      named_[{at, spaces_[at].generation, number}];
  for (const auto& [key, version] : versions) {
    if (has.try_emplace(key, version).first->second == version) continue;
    Find(absl::StrCat("snapshot ", number, " lacks its own push: ",
                      KeyName(key), " version ", version, ", not ", has[key]));
  }
}

}  // namespace tensorkv::swarm
