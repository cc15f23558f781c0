#include "tests/swarm/plan.h"

#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "tests/swarm/random.h"

namespace tensorkv::swarm {
namespace {

constexpr size_t kNumVerbs = static_cast<size_t>(Verb::kCount);
constexpr size_t kFirstOfClusters = static_cast<size_t>(Verb::kLearn);
using Weights = std::array<uint32_t, kNumVerbs>;

uint32_t& Of(Weights& weights, Verb verb) {
  return weights[static_cast<size_t>(verb)];
}

// A mode's own options, of which most are left out.
void ChooseGroup(Random& random, SpacePlan& space) {
  NamespaceConfig& config = space.config;
  config.num_workers = random.Between(2, 3);
  if (random.OneIn(4)) config.on_worker_loss = OnWorkerLoss::kContinue;
  if (random.OneIn(5)) config.max_workers = config.num_workers + 1;
  if (config.mode == Mode::kBounded) {
    config.staleness = random.Below(3);
    return;
  }
  if (random.OneIn(3)) {
    config.quorum = random.Between(1, config.num_workers);
    config.quorum_grace = absl::Seconds(random.Between(0, 2));
  }
  if (random.OneIn(2)) config.max_open_rounds = random.Between(1, 4);
  if (random.OneIn(10)) {
    config.aggregation =
        random.OneIn(2) ? Aggregation::kMedian : Aggregation::kTrimmedMean;
    if (config.aggregation == Aggregation::kTrimmedMean) {
      config.trim_fraction = 0.125 * random.Between(0, 3);
    }
    space.is_exact = false;
  } else if (random.OneIn(4)) {
    config.rescale_partial_rounds = true;
  }
}

SpacePlan ChooseSpace(Random& random, uint32_t index) {
  constexpr Mode kModes[] = {Mode::kAsync, Mode::kSync, Mode::kSync,
                             Mode::kBounded};
  SpacePlan space;
  space.name = absl::StrCat("space", index);
  space.config.mode = kModes[random.Below(4)];
  space.rule = static_cast<Rule>(random.Below(4));
  space.config.rule = SpecOf(space.rule);
  if (space.is_group()) ChooseGroup(random, space);
  // Elastic groups have no other workers.
  space.joins = space.config.max_workers != 0 || random.OneIn(2);
  space.is_orderly = space.is_group() && random.OneIn(2);
  if (random.OneIn(10)) {
    space.config.gradient_guard.max_norm = 50;
    space.config.gradient_guard.on_large_norm =
        random.OneIn(2) ? OnLargeNorm::kClip : OnLargeNorm::kRefuse;
    space.is_exact = false;
  } else if (random.OneIn(6)) {
    space.config.gradient_guard.on_non_finite =
        random.OneIn(2) ? OnNonFinite::kSkip : OnNonFinite::kRefuse;
  }
  if (random.OneIn(6)) space.config.budget_bytes = 4096 << random.Below(3);
  return space;
}

// Those that every seed has, and others that few have.
Weights ChooseWeights(Random& random, const Plan& plan) {
  Weights weights = {};
  for (size_t i = 0; i < kFirstOfClusters; ++i) {
    if (random.OneIn(3)) weights[i] = random.Between(1, 4);
  }
  bool has_group = false;
  bool has_quorum = false;
  for (const SpacePlan& space : plan.spaces) {
    has_group |= space.joins;
    has_quorum |= space.config.quorum > 0 ||
                  space.config.round_timeout > absl::ZeroDuration();
  }
  Of(weights, Verb::kInit) += 2;
  Of(weights, Verb::kPull) += 2;
  Of(weights, Verb::kWork) += has_group || random.OneIn(2) ? 12 : 2;
  Of(weights, Verb::kSettle) += 2;
  Of(weights, Verb::kResume) *= 3;
  Of(weights, Verb::kResumeReader) *= 3;
  if (Of(weights, Verb::kDeleteNamespace) > 0) {
    Of(weights, Verb::kDeleteNamespace) = 1;
    Of(weights, Verb::kCreateNamespace) += 2;
  }
  if (Of(weights, Verb::kRestore) > 0) {
    Of(weights, Verb::kRestore) = 1;
    Of(weights, Verb::kSnapshot) += 1;
    Of(weights, Verb::kResumeReader) += 4;
  }
  if (Of(weights, Verb::kSlowDevice) > 0) Of(weights, Verb::kResume) += 8;
  if (Of(weights, Verb::kBarrier) > 0) {
    Of(weights, Verb::kBarrier) *= 3;
    Of(weights, Verb::kLeave) += random.Below(2);
  }
  if (Of(weights, Verb::kSetRule) > 0) {
    Of(weights, Verb::kStat) += 2;
    Of(weights, Verb::kUnsetRule) += random.Below(2);
  }
  if (plan.has_skips) Of(weights, Verb::kWorkerPull) += 3;
  if (has_quorum) Of(weights, Verb::kAdvance) += 2;
  if (Of(weights, Verb::kMove) > 0) {
    Of(weights, Verb::kMove) += 2;
    Of(weights, Verb::kFailDevice) += random.Below(3);
  }
  return weights;
}

// Several servers, of which each has some of the keys. Moves do not take
// bounded namespaces.
void ChooseCluster(Random& random, Plan& plan) {
  plan.num_servers = random.Between(2, 3);
  plan.num_partitions = 1 << random.Below(4);
  plan.is_mirrored = random.OneIn(3);
  plan.has_delays = !plan.is_mirrored && random.OneIn(2);
  for (SpacePlan& space : plan.spaces) {
    NamespaceConfig& config = space.config;
    if (config.mode == Mode::kBounded) config.mode = Mode::kSync;
    config.staleness = 0;
    config.max_workers = 0;
    space.joins = false;
    if (!plan.is_mirrored) continue;
    space.config = {.mode = Mode::kSync,
                    .num_workers = static_cast<uint32_t>(
                        random.Between(static_cast<int>(plan.num_servers), 4))};
    space.config.rule = SpecOf(space.rule);
    space.config.mirrored = true;
    space.is_orderly = true;
    space.is_exact = true;
  }
  // A sum is of whole tensors.
  if (plan.is_mirrored) plan.has_rows = false;
}

void ChooseClusterWeights(Random& random, Plan& plan, Weights& weights) {
  for (size_t i = kFirstOfClusters; i < kNumVerbs; ++i) {
    if (random.OneIn(2)) weights[i] = random.Between(1, 4);
  }
  Of(weights, Verb::kRestore) = 0;
  // Members join and leave while other things happen.
  Of(weights, Verb::kRejoin) += random.Between(1, 4);
  // It changes what is fixed in clusters.
  Of(weights, Verb::kUpdateNamespace) = 0;
  if (plan.is_mirrored) {
    // Nothing moves, and keys and their states stay as long as all servers do.
    for (const Verb each :
         {Verb::kMove, Verb::kLateMessage, Verb::kLose, Verb::kDelete,
          Verb::kDeleteNamespace, Verb::kPushRows, Verb::kSetState}) {
      Of(weights, each) = 0;
    }
    Of(weights, Verb::kWork) += 12;
    Of(weights, Verb::kResume) += 12;
    return;
  }
  Of(weights, Verb::kMove) += 4;
  Of(weights, Verb::kLearn) += 2;
  Of(weights, Verb::kPull) += 4;
  Of(weights, Verb::kResume) += plan.has_delays ? 12 : 6;
  if (Of(weights, Verb::kLose) > 0) {
    Of(weights, Verb::kLose) = 1;
    Of(weights, Verb::kSnapshot) += 3;
    Of(weights, Verb::kResumeReader) += 4;
    // Workers that do not join hear from nobody that they are to go back.
    for (SpacePlan& space : plan.spaces) space.is_orderly = false;
  }
  // Static workers do what they can only with groups.
  bool has_group = false;
  for (const SpacePlan& space : plan.spaces) has_group |= space.is_group();
  if (has_group) return;
  Of(weights, Verb::kWork) = 0;
  Of(weights, Verb::kPush) += 8;
}

// By choices of its own, too.
void ChooseMeans(uint64_t seed, Plan& plan) {
  Random random(seed * 3);
  for (SpacePlan& space : plan.spaces) {
    const bool is_mean = random.OneIn(3);
    NamespaceConfig& config = space.config;
    const bool may_add_as_they_come =
        config.mode == Mode::kSync && !config.mirrored &&
        (config.aggregation == Aggregation::kSum || space.has_means());
    if (random.OneIn(3) && may_add_as_they_come) {
      config.sum_order = SumOrder::kArrival;
    }
    if (!is_mean) continue;
    if (space.config.aggregation != Aggregation::kSum) continue;
    space.config.aggregation = Aggregation::kMean;
    space.config.rescale_partial_rounds = false;
  }
}

// Also by choices of its own.
void ChooseTimesOfRounds(uint64_t seed, Plan& plan) {
  Random random(seed * 5);
  for (SpacePlan& space : plan.spaces) {
    const bool has_timeout = random.OneIn(5);
    const bool carries = random.OneIn(2);
    const bool decays = random.OneIn(2);
    NamespaceConfig& config = space.config;
    if (config.mode != Mode::kSync || config.mirrored) continue;
    if (has_timeout) config.round_timeout = absl::Seconds(random.Between(1, 6));
    const bool adds =
        config.aggregation == Aggregation::kSum || space.has_means();
    if (!carries || !adds || config.quorum == 0) continue;
    config.late = Late::kCarry;
    config.rescale_partial_rounds = false;
    if (decays && space.has_means()) config.staleness_decay = 0.5;
  }
}

Verb Choose(Random& random, const Weights& weights) {
  uint32_t sum = 0;
  for (const uint32_t weight : weights) sum += weight;
  uint32_t left = random.Below(sum);
  size_t verb = 0;
  while (left >= weights[verb]) left -= weights[verb++];
  return static_cast<Verb>(verb);
}

// What calls bring, and how much room there is.
void ChooseOptions(Random& random, Plan& plan) {
  plan.has_deadlines = random.OneIn(2);
  plan.has_long_calls = random.OneIn(6);
  plan.has_rows = random.OneIn(4);
  plan.has_encodings = random.OneIn(4);
  plan.has_skips = random.OneIn(3);
  plan.has_cancelling_entries = random.OneIn(3);
  plan.budget_bytes = random.OneIn(8) ? 64 << 10 : 64 << 20;
  if (plan.spaces.size() < 2 || !random.OneIn(3)) return;
  // Together they may have more than there is.
  for (SpacePlan& space : plan.spaces) space.config.budget_bytes = 32 << 10;
  plan.budget_bytes = 40 << 10;
  plan.has_long_calls = true;
}

Action ChooseAction(Random& random, const Weights& weights,
                    uint32_t num_spaces) {
  Action action;
  action.verb = Choose(random, weights);
  action.actor = random.Below(kNumActors);
  action.space = random.Below(num_spaces);
  action.keys = 1 + random.Below((1 << kNumKeys) - 1);
  action.how = random.Below(256);
  action.number = static_cast<uint32_t>(random.Next());
  return action;
}

}  // namespace

Plan MakePlan(uint64_t seed, bool may_be_cluster) {
  Random random(seed);
  Plan plan;
  plan.seed = seed;
  const uint32_t num_spaces = random.OneIn(3) ? 2 : 1;
  for (uint32_t i = 0; i < num_spaces; ++i) {
    plan.spaces.push_back(ChooseSpace(random, i));
  }
  ChooseOptions(random, plan);
  // Its own choices, so that seeds of one server stay what they are.
  Random of_cluster(~seed);
  const bool is_cluster = may_be_cluster && of_cluster.Below(5) < 2;
  if (is_cluster) ChooseCluster(of_cluster, plan);
  ChooseMeans(seed, plan);
  ChooseTimesOfRounds(seed, plan);
  Weights weights = ChooseWeights(random, plan);
  if (is_cluster) ChooseClusterWeights(of_cluster, plan, weights);
  for (SpacePlan& space : plan.spaces) {
    space.is_updated =
        space.is_group() && Of(weights, Verb::kUpdateNamespace) > 0;
  }
  for (uint32_t i = 0; i < num_spaces; ++i) {
    plan.actions.push_back({.verb = Verb::kInit,
                            .space = static_cast<uint8_t>(i),
                            .keys = (1 << kNumKeys) - 1});
  }
  const size_t num_actions = 40u << random.Below(5);
  while (plan.actions.size() < num_actions) {
    plan.actions.push_back(ChooseAction(random, weights, num_spaces));
  }
  return plan;
}

bool HasHeadroom(const Plan& plan) {
  const bool has_budget = std::any_of(
      plan.spaces.begin(), plan.spaces.end(),
      [](const SpacePlan& space) { return space.config.budget_bytes > 0; });
  return plan.budget_bytes > 1 << 20 && !has_budget;
}

std::string KeyName(uint32_t key) { return absl::StrCat("k", key); }
uint32_t KeyOf(absl::string_view name) {
  return static_cast<uint32_t>(name[1] - '0');
}

DType KeyDType(const SpacePlan& space, uint32_t key) {
  const bool takes_integers =
      (space.rule == Rule::kAssign || space.rule == Rule::kAccumulate) &&
      (space.config.aggregation == Aggregation::kSum || space.has_means());
  return takes_integers && key + 1 == kNumKeys ? DType::kI32 : DType::kF32;
}

RuleSpec SpecOf(Rule rule) {
  switch (rule) {
    case Rule::kAssign:
      return {.name = "assign"};
    case Rule::kAccumulate:
      return {.name = "accumulate"};
    case Rule::kSgd:
      return {.name = "sgd", .hyperparameters = {{"learning_rate", 1}}};
    case Rule::kMomentum:
      return {
          .name = "sgd",
          .hyperparameters = {{"learning_rate", 1}, {"momentum", kMomentum}}};
  }
  return {};
}

RuleSpec VariantOf(Rule rule, uint32_t variant) {
  RuleSpec spec = SpecOf(rule);
  if (variant > 0 && spec.name == "sgd") {
    // More than any sum.
    spec.hyperparameters["clip_gradient"] = (1 << 20) + variant;
  }
  return spec;
}

bool Matches(absl::string_view pattern, absl::string_view key) {
  if (!absl::ConsumeSuffix(&pattern, "*")) return key == pattern;
  return absl::StartsWith(key, pattern);
}

bool IsOfKeys(Verb verb) {
  switch (verb) {
    case Verb::kInit:
    case Verb::kPush:
    case Verb::kPushPull:
    case Verb::kPushRows:
    case Verb::kPull:
    case Verb::kWorkerPull:
    case Verb::kWaitingPull:
    case Verb::kPullRows:
    case Verb::kSetState:
    case Verb::kGetState:
    case Verb::kDelete:
    case Verb::kStat:
    case Verb::kWork:
      return true;
    default:
      return false;
  }
}

absl::string_view NameOf(Verb verb) {
  switch (verb) {
#define TENSORKV_SWARM_NAME(name) \
  case Verb::k##name:             \
    return #name;
    TENSORKV_SWARM_VERBS(TENSORKV_SWARM_NAME)
#undef TENSORKV_SWARM_NAME
    case Verb::kCount:
      break;
  }
  return "?";
}

std::string ToString(const SpacePlan& space) {
  const NamespaceConfig& config = space.config;
  std::string text = absl::StrCat(space.name, ": ",
                                  config.mode == Mode::kAsync  ? "async"
                                  : config.mode == Mode::kSync ? "sync"
                                                               : "bounded",
                                  ", rule ", config.rule.ToString());
  const auto add = [&](bool is_set, const auto&... words) {
    if (is_set) absl::StrAppend(&text, ", ", words...);
  };
  add(config.num_workers > 0, config.num_workers, " workers",
      space.joins ? " that join" : "");
  add(config.max_workers > 0, "at most ", config.max_workers);
  add(config.staleness > 0, "staleness ", config.staleness);
  add(config.quorum > 0, "quorum ", config.quorum, " after ",
      absl::FormatDuration(config.quorum_grace));
  add(config.max_open_rounds > 0, config.max_open_rounds, " open rounds");
  add(config.on_worker_loss == OnWorkerLoss::kContinue, "CONTINUE");
  add(config.rescale_partial_rounds, "rescaled");
  add(space.has_means(), "mean");
  add(config.sum_order == SumOrder::kArrival, "in the order of arrival");
  add(config.round_timeout > absl::ZeroDuration(), "for at most ",
      absl::FormatDuration(config.round_timeout));
  add(space.carries(), "carries what is late");
  add(config.staleness_decay > 0, "times ", config.staleness_decay,
      " each step");
  add(config.aggregation == Aggregation::kMedian, "median");
  add(config.aggregation == Aggregation::kTrimmedMean, "mean without ",
      config.trim_fraction, " at both ends");
  add(config.gradient_guard.max_norm > 0, "norms up to ",
      config.gradient_guard.max_norm);
  add(space.has_infinities(), "infinities ",
      config.gradient_guard.on_non_finite == OnNonFinite::kSkip ? "skipped"
                                                                : "refused");
  add(config.budget_bytes > 0, config.budget_bytes, " bytes");
  add(config.mirrored, "mirrored");
  add(space.is_orderly, "all keys in every step");
  add(space.is_updated, "updated");
  return text;
}

std::string ToString(const Action& action) {
  std::string keys;
  for (uint32_t key = 0; key < kNumKeys; ++key) {
    if (action.keys >> key & 1) {
      absl::StrAppend(&keys, keys.empty() ? "" : ",", KeyName(key));
    }
  }
  return absl::StrCat(NameOf(action.verb), " actor=", action.actor,
                      " space=", action.space, " keys=", keys,
                      " how=", action.how, " number=", action.number,
                      action.server > 0 ? " server=" : "",
                      action.server > 0 ? absl::StrCat(action.server) : "");
}

}  // namespace tensorkv::swarm
