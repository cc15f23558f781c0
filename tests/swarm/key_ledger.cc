#include "tests/swarm/key_ledger.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tensorkv::swarm {
namespace {

// So many are looked at before an observation is taken for possible.
constexpr size_t kMostStates = 4000;
// So many are kept as possible.
constexpr size_t kMostReached = 500;
// So many steps are looked at that may have contributions yet to be carried.
constexpr int kMostLateSteps = 8;

bool HasRow(uint8_t rows, int element) {
  return rows >> (element / kRowSize) & 1;
}

}  // namespace

std::string ToString(const Elements& elements) {
  return absl::StrCat("[", absl::StrJoin(elements, " "), "]");
}

void KeyLedger::Begin(Version version, const Elements& value) {
  states_ = {{.version = version, .value = value}};
  // Those who pushed to the new value may have heard of it before.
  std::erase_if(pushes_, [version](const ContributionPtr& each) {
    return each->fate != Contribution::Fate::kPending &&
           each->version <= version;
  });
  DropHeldOfRounds();
}

void KeyLedger::BeginAgain(Version version, const Elements& value,
                           const Elements& momentum, Step step,
                           uint64_t num_updates) {
  DropHeld();
  states_ = {{.step = step,
              .version = version,
              .value = value,
              .momentum = momentum,
              .num_updates = num_updates,
              .may_jump = true}};
}

void KeyLedger::Restart() {
  has_moved_ = false;
  states_.clear();
  pushes_.clear();
  rounds_.clear();
}

void KeyLedger::Forget() {
  states_.clear();
  DropHeld();
}

void KeyLedger::DropHeld() {
  std::erase_if(pushes_, [](const ContributionPtr& each) {
    return each->fate != Contribution::Fate::kPending;
  });
  DropHeldOfRounds();
}

void KeyLedger::DropHeldOfRounds() {
  for (auto& [step, round] : rounds_) {
    std::erase_if(round, [](const ContributionPtr& each) {
      return each->fate != Contribution::Fate::kPending;
    });
  }
}

void KeyLedger::Add(ContributionPtr contribution) {
  std::vector<ContributionPtr>& others =
      space_.config.mode == Mode::kSync ? rounds_[contribution->step] : pushes_;
  // A repeat of its call is the same contribution.
  if (std::find(others.begin(), others.end(), contribution) != others.end()) {
    return;
  }
  others.push_back(std::move(contribution));
}

bool KeyLedger::IsPossible(const State& state) {
  return std::all_of(state.guesses.begin(), state.guesses.end(),
                     [](const Guess& guess) {
                       return guess.push->may_count() &&
                              (guess.push->version == 0 ||
                               guess.push->version == guess.version);
                     });
}

bool KeyLedger::HasGuess(const State& state, const ContributionPtr& push) {
  return std::any_of(state.guesses.begin(), state.guesses.end(),
                     [&](const Guess& guess) { return guess.push == push; });
}

void KeyLedger::Prune() {
  if (states_.empty()) return;
  Version version = UINT64_MAX;
  Step step = UINT64_MAX;
  for (const State& state : states_) {
    version = std::min(version, state.version);
    step = std::min(step, state.step);
  }
  std::erase_if(pushes_, [&](const ContributionPtr& each) {
    if (!each->may_count()) return true;
    if (each->version > 0) return each->version <= version;
    return std::all_of(states_.begin(), states_.end(), [&](const State& state) {
      return HasGuess(state, each);
    });
  });
  auto end = rounds_.upper_bound(step);
  for (int n = 0; space_.carries() && n < kMostLateSteps; ++n) {
    if (end != rounds_.begin()) --end;
  }
  rounds_.erase(rounds_.begin(), end);
  for (State& state : states_) {
    std::erase_if(state.counted, [this](const ContributionPtr& each) {
      return !rounds_.contains(each->step);
    });
  }
}

// Two that are rounded to f32 once, or twice by way of f64, are the same.
double KeyLedger::Rounded(double element) const {
  return dtype_ == DType::kF32 ? static_cast<float>(element)
                               : std::nearbyint(element);
}

Elements KeyLedger::InputOf(Elements sum, double weight) const {
  if (!space_.has_means()) return sum;
  for (double& element : sum) element = Rounded(element / weight);
  return sum;
}

KeyLedger::State KeyLedger::Next(const State& state, const Elements& input,
                                 uint8_t rows) const {
  State next = state;
  ++next.version;
  ++next.num_updates;
  next.may_jump = false;
  for (int i = 0; i < kNumElements; ++i) {
    if (!HasRow(rows, i)) continue;
    switch (space_.rule) {
      case Rule::kAssign:
        next.value[i] = input[i];
        break;
      case Rule::kAccumulate:
        next.value[i] = Rounded(next.value[i] + input[i]);
        break;
      case Rule::kSgd:
        next.value[i] = Rounded(next.value[i] - input[i]);
        break;
      case Rule::kMomentum:
        // Each is rounded once, as the store's are.
        next.momentum[i] = Rounded(kMomentum * next.momentum[i] - input[i]);
        next.value[i] = Rounded(next.value[i] + next.momentum[i]);
        break;
    }
  }
  return next;
}

void KeyLedger::AddNextOfPushes(const State& state, Version observed,
                                States& next) const {
  // None whose version is known is passed over.
  Version known = UINT64_MAX;
  for (const ContributionPtr& each : pushes_) {
    if (each->skips || each->version <= state.version) continue;
    known = std::min(known, each->version);
  }
  for (const ContributionPtr& each : pushes_) {
    if (each->skips || each->version != known || known > observed) continue;
    if (known != state.version + 1 && !MayJump(state)) continue;
    next.push_back(
        Next(state, InputOf(each->elements, each->weight), each->rows));
    next.back().version = known;
  }
  if (known == state.version + 1) return;
  observed = std::min(observed, known - 1);
  for (const ContributionPtr& each : pushes_) {
    if (each->version != 0 || each->skips || !each->may_count()) continue;
    if (HasGuess(state, each)) continue;
    State guessed =
        Next(state, InputOf(each->elements, each->weight), each->rows);
    guessed.guesses.push_back({each, guessed.version});
    AddJumps(state, std::move(guessed), observed, next);
  }
}

// The first update after a restore, or one after a move, may have made any of
// the last versions, or the next one.
void KeyLedger::AddJumps(const State& before, State state, Version observed,
                         States& next) const {
  const Version most_updates =
      std::max<Version>(4, pushes_.size() + rounds_.size());
  if (!MayJump(before)) return next.push_back(std::move(state));
  if (observed - before.version > most_updates) next.push_back(state);
  for (Version back = 0; back < most_updates; ++back) {
    if (observed - back <= before.version) return;
    next.push_back(state);
    next.back().version = observed - back;
    if (!state.guesses.empty()) {
      next.back().guesses.back().version = observed - back;
    }
  }
}

void KeyLedger::AddTo(Sum& sum, const ContributionPtr& contribution,
                      Step step) const {
  if (space_.carries()) sum.contributions.push_back(contribution);
  if (contribution->step == step) ++sum.num_contributions;
  if (contribution->skips) return;
  const double decay = space_.config.staleness_decay;
  const double factor =
      decay == 0 ? 1
                 : std::pow(decay, static_cast<double>(step) -
                                       static_cast<double>(contribution->step));
  ++sum.num_tensors;
  sum.rows |= contribution->rows;
  sum.weight += factor * contribution->weight;
  for (int i = 0; i < kNumElements; ++i) {
    sum.elements[i] += factor * contribution->elements[i];
  }
}

void KeyLedger::AddSums(Step step, const Choices& choices, size_t place,
                        const Sum& sum, std::vector<Sum>& sums) const {
  if (sums.size() > kMostStates) return;
  if (place == choices.size()) {
    if (sum.num_tensors > 0) sums.push_back(sum);
    return;
  }
  if (place >= num_ranks() || !space_.is_whole()) {
    AddSums(step, choices, place + 1, sum, sums);
  }
  for (const ContributionPtr& each : choices[place]) {
    Sum with = sum;
    AddTo(with, each, step);
    AddSums(step, choices, place + 1, with, sums);
  }
}

// Each counts once, and one for each rank and step.
void KeyLedger::AddLate(const State& state, Step step, Choices& choices) const {
  if (!space_.carries()) return;
  for (auto it = rounds_.begin(); it != rounds_.lower_bound(step); ++it) {
    Choices by_rank(num_ranks());
    for (const ContributionPtr& each : it->second) {
      if (each->may_count()) by_rank[each->rank].push_back(each);
    }
    for (const ContributionPtr& each : state.counted) {
      if (each->step == it->first) by_rank[each->rank].clear();
    }
    for (std::vector<ContributionPtr>& each : by_rank) {
      if (!each.empty()) choices.push_back(std::move(each));
    }
  }
}

bool KeyLedger::AddNextOfRounds(const State& state, Version observed,
                                States& next) const {
  for (auto it = rounds_.upper_bound(state.step); it != rounds_.end(); ++it) {
    Choices choices(num_ranks());
    for (const ContributionPtr& each : it->second) {
      if (each->may_count()) choices[each->rank].push_back(each);
    }
    AddLate(state, it->first, choices);
    std::vector<Sum> sums;
    AddSums(it->first, choices, 0, {}, sums);
    if (sums.size() > kMostStates) return false;
    for (const Sum& sum : sums) {
      State closed = Next(state, InputOf(sum.elements, sum.weight), sum.rows);
      closed.step = it->first;
      closed.counted.insert(closed.counted.end(), sum.contributions.begin(),
                            sum.contributions.end());
      std::sort(closed.counted.begin(), closed.counted.end());
      AddJumps(state, closed, observed, next);
      if (!space_.may_rescale()) continue;
      for (uint32_t of = sum.num_contributions + 1; of <= num_ranks(); ++of) {
        Elements scaled = sum.elements;
        for (double& each : scaled) each *= 1.0 * of / sum.num_contributions;
        State rescaled = Next(state, scaled, sum.rows);
        rescaled.step = it->first;
        AddJumps(state, rescaled, observed, next);
      }
    }
  }
  return true;
}

std::optional<std::string> KeyLedger::CheckCount(Version version,
                                                 uint64_t num_updates) const {
  std::string expected;
  for (const State& state : states_) {
    if (state.version != version || !IsPossible(state)) continue;
    if (state.num_updates == num_updates) return std::nullopt;
    absl::StrAppend(&expected, " ", state.num_updates);
  }
  if (expected.empty()) return std::nullopt;
  return absl::StrCat("version ", version, " is told to be of ", num_updates,
                      " updates, expected", expected);
}

std::optional<std::string> KeyLedger::Observe(Version version,
                                              const Elements& value) {
  std::erase_if(states_, [](const State& each) { return !IsPossible(each); });
  if (states_.empty()) return std::nullopt;
  States reached;
  switch (Reach(version, value, reached)) {
    case Reached::kEarlier:
      return std::nullopt;
    case Reached::kTooMany:
      states_.clear();
      return std::nullopt;
    case Reached::kAll:
      break;
  }
  if (!reached.empty()) {
    states_ = std::move(reached);
    Prune();
    return std::nullopt;
  }
  const std::string expected = Describe();
  states_.clear();
  return absl::StrCat("version ", version, " is ", ToString(value), "; it was",
                      expected);
}

KeyLedger::Reached KeyLedger::Reach(Version version, const Elements& value,
                                    States& reached) const {
  States open = states_;
  size_t num_looked_at = 0;
  while (!open.empty()) {
    const State state = open.back();
    open.pop_back();
    if (state.version > version) return Reached::kEarlier;
    if (state.version == version) {
      if (state.value != value ||
          std::find(reached.begin(), reached.end(), state) != reached.end()) {
        continue;
      }
      reached.push_back(state);
      if (reached.size() > kMostReached) return Reached::kTooMany;
      continue;
    }
    if (++num_looked_at > kMostStates || open.size() > 4 * kMostStates) {
      return Reached::kTooMany;
    }
    if (space_.config.mode != Mode::kSync) {
      AddNextOfPushes(state, version, open);
    } else if (!AddNextOfRounds(state, version, open)) {
      return Reached::kTooMany;
    }
  }
  return Reached::kAll;
}

std::string KeyLedger::Describe() const {
  std::string known;
  for (const State& state : states_) {
    absl::StrAppend(&known, " version ", state.version, " ",
                    ToString(state.value), " after step ", state.step);
  }
  for (const ContributionPtr& each : pushes_) {
    absl::StrAppend(&known, ", pushed ", ToString(each->elements),
                    " as version ", each->version);
  }
  for (const auto& [step, round] : rounds_) {
    for (const ContributionPtr& each : round) {
      absl::StrAppend(&known, ", step ", step, " of rank ", each->rank,
                      each->skips ? " skip" : ToString(each->elements),
                      " of weight ", each->weight);
    }
  }
  return known;
}

}  // namespace tensorkv::swarm
