// How the world changes rules, and creates, updates and deletes namespaces.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "tests/service/store/init_now.h"
#include "tests/swarm/random.h"
#include "tests/swarm/world.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/rule_requests.h"

namespace tensorkv::swarm {
namespace {

// A call that changes the rules of the namespace of that name.
struct Ruling {
  Verb verb = Verb::kSetRule;
  std::string name;
  std::string pattern;
  uint32_t variant = 0;
  RuleSpec rule;
  std::optional<CallId> id;

  absl::Status Make(MemoryTensorStore& store) const {
    switch (verb) {
      case Verb::kSetRule:
        return testing::MakeNow(store,
                                Named(testing::SetRuleOf(rule, pattern, name)));
      case Verb::kUnsetRule:
        return testing::MakeNow(
            store, Named(testing::OfPattern<UnsetRuleRequest>(pattern, name)));
      case Verb::kSetMultipliers:
        return testing::MakeNow(
            store, Named(testing::SetMultipliersOf({.weight_decay = 2}, pattern,
                                                   name)));
      case Verb::kUnsetMultipliers:
        return testing::MakeNow(
            store,
            Named(testing::OfPattern<UnsetMultipliersRequest>(pattern, name)));
      default:
        return testing::MakeNow(
                   store, Named(testing::SetHyperparametersOf(
                              rule.hyperparameters, /*key_pattern=*/"", name)))
            .status();
    }
  }

  // Returns the request under the call's id, if it has one.
  template <typename Request>
  Request Named(Request request) const {
    if (id) SetCallId(*id, request);
    return request;
  }

  bool binds() const {
    return verb == Verb::kSetRule || verb == Verb::kUnsetRule;
  }

  void Record(Space& space) const {
    const auto at = std::ranges::find(
        *space.rules, pattern, [](const auto& each) { return each.first; });
    const bool is_bound = at != space.rules->end();
    if (verb == Verb::kUnsetRule) {
      if (is_bound) space.rules->erase(at);
    } else if (is_bound) {
      at->second = variant;
    } else {
      space.rules->emplace_back(pattern, variant);
    }
  }
};

}  // namespace

// Sets a variant of the plan's rule, or multipliers of a weight decay that is
// 0: the same values follow.
void World::ChangeRules(const Action& action) {
  CallPtr call;
  constexpr absl::string_view kPatterns[] = {"k*", "k1", "k1*", "*"};
  Ruling ruling = {.verb = action.verb,
                   .pattern = std::string(kPatterns[action.how % 4])};
  if (!is_cluster() && action.verb == Verb::kSetRule) {
    ruling.variant = action.how / 4 % 4;
  }
  {
    MutexLock lock(&mutex_);
    call = NewCall(action, /*changes=*/true);
    const SpacePlan& plan = spaces_[action.space].plan;
    ruling.name = plan.name;
    ruling.rule = VariantOf(plan.rule, ruling.variant);
    ruling.id = call->id;
  }
  Ask(
      call,
      [=, this, store = &servers_[action.server]->store()] {
        bool is_first = false;
        {
          MutexLock lock(&mutex_);
          is_first = call->answer.empty();
          BeginRuling(spaces_[call->space]);
        }
        const absl::Status status = ruling.Make(*store);
        MutexLock lock(&mutex_);
        Space& space = spaces_[call->space];
        const bool is_alone = EndRuling(space);
        if (call->generation != space.generation || !space.rules ||
            !ruling.binds()) {
          return status;
        }
        if (!is_first || !is_alone || num_moving_ > 0 || num_restoring_ > 0) {
          space.rules.reset();
        } else if (status.ok()) {
          ruling.Record(space);
        }
        return status;
      },
      nullptr);
}

namespace {

// What the step changes of the namespace.
UpdateNamespaceRequest UpdateOf(const SpacePlan& plan, const Action& action) {
  NamespaceConfig config;
  const bool is_sync = plan.config.mode == Mode::kSync;
  const bool sums = plan.config.aggregation == Aggregation::kSum;
  const uint32_t choice = action.how % 4;
  if (is_sync && choice == 1) {
    config.quorum = action.number % (plan.config.num_workers + 1);
    return testing::UpdateOf(plan.name, config, {"quorum"});
  }
  if (is_sync && choice == 2 && action.how / 4 % 2 > 0) {
    config.round_timeout = absl::Seconds(action.number % 4);
    return testing::UpdateOf(plan.name, config, {"round_timeout"});
  }
  if (is_sync && choice == 2) {
    config.quorum_grace = absl::Seconds(action.number % 3);
    return testing::UpdateOf(plan.name, config, {"quorum_grace"});
  }
  if (is_sync && choice == 3 && sums && !plan.carries()) {
    config.rescale_partial_rounds = action.number % 2 > 0;
    return testing::UpdateOf(plan.name, config, {"rescale_partial_rounds"});
  }
  config.on_worker_loss =
      action.number % 2 > 0 ? OnWorkerLoss::kContinue : OnWorkerLoss::kFail;
  return testing::UpdateOf(plan.name, config, {"on_worker_loss"});
}

}  // namespace

void World::UpdateNamespace(const Action& action) {
  CallPtr call;
  UpdateNamespaceRequest request;
  {
    MutexLock lock(&mutex_);
    Space& space = spaces_[action.space];
    if (!space.plan.is_updated) return;
    call = NewCall(action, /*changes=*/false);
    request = UpdateOf(space.plan, action);
    space.may_time_out |= request.config().round_timeout().seconds() > 0;
  }
  Ask(
      call,
      [request, store = &servers_[action.server]->store()] {
        return testing::MakeNow(*store, request).status();
      },
      nullptr);
}

void World::ChangeNamespaces(const Action& action) {
  CallPtr call;
  CreateNamespaceRequest request;
  const uint32_t at = action.space;
  const bool creates = action.verb == Verb::kCreateNamespace;
  {
    MutexLock lock(&mutex_);
    // A server that gets keys of a namespace makes it.
    if (!creates && num_moving_ > 0) return;
    if (!creates && is_cluster() && NumLost(admin_.Placement()) > 0) return;
    call = NewCall(action, /*changes=*/false);
    ++num_naming_;
    const SpacePlan& plan = spaces_[at].plan;
    request = testing::CreateOf(plan.name, plan.config, OnExisting::kKeep);
  }
  Ask(
      call,
      [this, at, request, creates] {
        const absl::Status status = creates
                                        ? CreateAt(at, request)
                                        : DeleteAt(at, request.namespace_());
        MutexLock lock(&mutex_);
        --num_naming_;
        return status;
      },
      nullptr);
}

// By the uid that it has at home: what is created meanwhile stays.
absl::Status World::DeleteAt(uint32_t at, const std::string& name) {
  const std::vector<Server*> servers = HomeFirst(name);
  DeleteNamespaceRequest request = testing::RemoveOf(name);
  absl::Status status;
  for (Server* const server : servers) {
    if (request.namespace_uid() == 0) {
      const auto home =
          server->store().DescribeNamespace(testing::DescribeOf(name));
      if (!home.ok()) return home.status();
      request.set_namespace_uid(home->status().uid());
      status = testing::MakeNow(server->store(), request);
    } else {
      testing::MakeNow(server->store(), request).IgnoreError();  // not there
    }
  }
  MutexLock lock(&mutex_);
  Space& space = spaces_[at];
  if (space.uid != request.namespace_uid()) return status;
  space.exists = false;
  space.uid = 0;
  StartAnew(space);
  return status;
}

// At all servers: one that has come since has none yet.
absl::Status World::CreateAt(uint32_t at,
                             const CreateNamespaceRequest& request) {
  CreateNamespaceRequest next = request;
  for (Server* const server : HomeFirst(request.namespace_())) {
    const auto reply = CreateThere(*server, next);
    MutexLock lock(&mutex_);
    Space& space = spaces_[at];
    // It was updated, so that it is there with another configuration.
    const bool differs = ReasonOf(reply.status()) == Reason::kExistsDifferently;
    if (space.plan.is_updated && space.exists && differs) continue;
    // Another client has created a later one meanwhile.
    if (ReasonOf(reply.status()) == Reason::kNamespaceReplaced) {
      return reply.status();
    }
    space.exists = reply.ok();
    if (!reply.ok()) return reply.status();
    next.set_namespace_uid(reply->uid());
    if (space.uid == reply->uid()) continue;
    StartAnew(space);
    space.uid = reply->uid();
  }
  return absl::OkStatus();
}

}  // namespace tensorkv::swarm
