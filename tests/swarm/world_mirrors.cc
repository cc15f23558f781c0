// How the world's servers hold the same keys, and what they say to each other.

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/swarm/world.h"
#include "tests/testing/key_requests.h"

namespace tensorkv::swarm {

class World::Mirror final : public UniformMirrorPeer<World::Mirror> {
 public:
  Mirror(World* world, Server* from, Server* to)
      : world_(*world), from_(*from), to_(*to) {}

  // Messages are under way as long as the scheduler leaves them.
  template <typename Request>
  void Send(Request request, absl::Duration timeout,
            MirrorCallback<Request> done) {
    using Reply = absl::StatusOr<PeerResponse<Request>>;
    // Called once, by whichever comes first.
    const auto shared =
        std::make_shared<MirrorCallback<Request>>(std::move(done));
    const auto end_once = [shared](Reply reply) {
      if (*shared == nullptr) return;
      MirrorCallback<Request> callback = std::exchange(*shared, nullptr);
      std::move(callback)(std::move(reply));
    };
    const absl::Status lost = absl::UnavailableError(
        absl::StrCat("server ", to_.name(), ": no answer"));
    world_.alarms_.Schedule(world_.alarms_.Now() + timeout,
                            [=] { end_once(lost); });
    if (Link::TakeOne(from_.link().messages_to_lose)) return end_once(lost);
    const bool loses_answer = Link::TakeOne(from_.link().answers_to_lose);
    Scheduler* const scheduler = world_.scheduler_;
    scheduler->Post([=, to = &to_, request = std::move(request)] {
      to->exchange().Handle(request, [=](Reply reply) {
        if (loses_answer) reply = lost;
        scheduler->Post(
            [end_once, reply = std::move(reply)] { end_once(reply); });
      });
    });
  }

 private:
  World& world_;
  Server& from_;
  Server& to_;
};

void World::ConnectMirrors() {
  std::vector<std::string> names;
  for (const auto& server : servers_) names.push_back(server->name());
  for (uint32_t i = 0; i < servers_.size(); ++i) {
    servers_[i]->exchange().SetGroup(names, i, [&](const std::string& name) {
      return std::make_shared<Mirror>(this, servers_[i].get(),
                                      servers_[ServerOf(servers_, name)].get());
    });
  }
}

// A worker pushes to the server of its rank, and everybody reads anywhere.
// Keys are created once, at all.
std::vector<Action> World::PartsOfMirrored(Action part) {
  std::vector<Action> parts;
  Space& space = spaces_[part.space];
  const Member& member = space.members[part.actor];
  switch (part.verb) {
    case Verb::kInit:
      part.keys = (1 << kNumKeys) - 1;
      if (space.first_init.keys == 0) space.first_init = part;
      part = space.first_init;
      for (part.server = 0; part.server < servers_.size(); ++part.server) {
        if (!space.has_init[part.server]) parts.push_back(part);
      }
      return parts;
    case Verb::kWork:
    case Verb::kPush:
    case Verb::kPushPull:
    case Verb::kWorkerPull:
      part.server = member.worker.rank % servers_.size();
      break;
    default:
      part.server = AnyServer(servers_, part.number >> 8);
  }
  return {part};
}

// They have the same values in the same versions from the start.
void World::EndInitMirrored(const Call& call,
                            const std::map<uint32_t, Elements>& values,
                            const InitReply& reply) {
  Space& space = spaces_[call.space];
  space.has_init[call.server] = true;
  const auto have =
      static_cast<size_t>(std::ranges::count(space.has_init, true));
  size_t entry = 0;
  for (const auto& [key, value] : values) {
    const Version version = reply.versions[entry++];
    const bool is_first = !space.ledgers[key].is_known();
    if (have == 1 && is_first) space.ledgers[key].Begin(version, value);
    if (have == servers_.size()) space.keys[key] = Known::kYes;
    RaiseFloor(space, call.server, key, version);
  }
}

// Has time pass until all that is under way has ended.
void World::AwaitEnd() {
  constexpr int kMostSeconds = 150;
  for (int i = 0; i < kMostSeconds; ++i) {
    Advance(absl::Seconds(1));
    scheduler_->Settle();
    MutexLock lock(&mutex_);
    if (under_way_.empty() && i > 5) return;
  }
}

// Has workers push until all servers have made the same sums of all steps: what
// counts at one of them comes to the others.
void World::Agree() {
  constexpr int kMostTurns = 20;
  AwaitEnd();
  for (uint32_t at = 0; at < plan_.spaces.size(); ++at) {
    Action action = {.verb = Verb::kInit, .space = static_cast<uint8_t>(at)};
    Take(action);
    AwaitEnd();
    action.verb = Verb::kWork;
    bool has_agreed = false;
    for (int turn = 0; !has_agreed && turn < kMostTurns; ++turn) {
      // Who is ahead hears now and then of rounds that have failed.
      for (const uint32_t rank : Ranks(at, /*all=*/turn % 4 == 3)) {
        action.actor = static_cast<uint8_t>(rank);
        action.how = 2;
        ++action.number;
        Take(action);
      }
      AwaitEnd();
      has_agreed = HasAgreed(at);
    }
    MutexLock lock(&mutex_);
    if (!has_agreed && HasHeadroom(plan_)) {
      Find(absl::StrCat("servers that hold the same keys never agree: ",
                        plan_.spaces[at].name));
    }
    if (finding_) return;
  }
}

std::vector<uint32_t> World::Ranks(uint32_t at, bool all) {
  MutexLock lock(&mutex_);
  const Space& space = spaces_[at];
  Step least = UINT64_MAX;
  for (uint32_t i = 0; i < space.plan.num_ranks(); ++i) {
    least = std::min(least, space.members[i].next);
  }
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < space.plan.num_ranks(); ++i) {
    if (all || space.members[i].next == least) ranks.push_back(i);
  }
  return ranks;
}

// Whether all workers are at one step, and all servers have what they pushed
// before.
bool World::HasAgreed(uint32_t at) {
  bool has_agreed = true;
  Run([&, this] {
    for (uint32_t key = 0; key < kNumKeys; ++key) {
      std::vector<Version> versions;
      for (const auto& server : servers_) {
        const auto reply = server->front().MakeAndWait(
            testing::StatOf({KeyName(key)}, plan_.spaces[at].name));
        versions.push_back(reply.ok() ? reply->keys(0).version() : 0);
      }
      const auto [least, most] = std::ranges::minmax(versions);
      has_agreed = has_agreed && least == most && least > 1;
    }
    MutexLock lock(&mutex_);
    const Space& space = spaces_[at];
    for (uint32_t i = 0; i < space.plan.num_ranks(); ++i) {
      has_agreed = has_agreed && space.members[i].next == space.members[0].next;
    }
  });
  scheduler_->Settle();
  return has_agreed;
}

}  // namespace tensorkv::swarm
