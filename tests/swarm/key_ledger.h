// What one key may hold, by what was pushed to it and answered.

#ifndef TENSORKV_TESTS_SWARM_KEY_LEDGER_H_
#define TENSORKV_TESTS_SWARM_KEY_LEDGER_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/requests.h"
#include "tests/swarm/plan.h"

namespace tensorkv::swarm {

// Small integers, so that every sum is exact, or what means make of them.
using Elements = std::array<double, kNumElements>;

std::string ToString(const Elements& elements);

// What one worker pushes for a key in one call, summed; where there are means,
// multiplied by what it weighs.
struct Contribution {
  // kPending may yet have an effect, or have it already; kMaybe as well, but
  // nobody will tell; kIn counts; kOut has none.
  enum class Fate : uint8_t { kPending, kIn, kMaybe, kOut };

  Elements elements = {};
  // Which rows it updates, a bit for each.
  uint8_t rows = (1 << kNumRows) - 1;
  // What it weighs in a mean.
  double weight = 1;
  bool skips = false;
  Fate fate = Fate::kPending;
  // Async and bounded: what it has made, if that is known.
  Version version = 0;
  // Sync: its round.
  Step step = 0;
  uint32_t rank = 0;

  bool may_count() const { return fate != Fate::kOut; }
};
using ContributionPtr = std::shared_ptr<Contribution>;

// One key of a namespace. Says of a value that was read whether the pushes that
// were answered, and those which are under way, can have made it: each counts
// once, in the order of versions or, of rounds, of steps.
class KeyLedger {
 public:
  KeyLedger(const SpacePlan& space, DType dtype)
      : space_(space), dtype_(dtype) {}

  // The key was created with that value.
  void Begin(Version version, const Elements& value);
  // The key was restored, or has come from another server: no round of it has
  // closed after `step`, none is open, and its next version is above all that
  // it has had.
  void BeginAgain(Version version, const Elements& value,
                  const Elements& momentum, Step step, uint64_t num_updates);
  // The key goes on at another server, as it was: from now on versions may
  // jump.
  void Move() { has_moved_ = true; }
  // Nothing that was pushed before concerns it.
  void Restart();
  // Nobody knows what the key holds. Until Begin, all is possible.
  void Forget();
  // A push begins.
  void Add(ContributionPtr contribution);
  // Contributions to rounds that have not closed are lost.
  void DropHeld();

  // Why the key cannot have had that value as that version; nothing if it can.
  std::optional<std::string> Observe(Version version, const Elements& value);

  // Why that version cannot be the result of so many updates.
  std::optional<std::string> CheckCount(Version version,
                                        uint64_t num_updates) const;

  bool is_known() const { return !states_.empty(); }

 private:
  // A push that nobody has told the version of, and the one that it may have
  // made.
  struct Guess {
    ContributionPtr push;
    Version version = 0;

    friend bool operator==(const Guess&, const Guess&) = default;
  };
  struct State {
    // Of the last round that has closed.
    Step step = 0;
    Version version = 0;
    Elements value = {};
    Elements momentum = {};
    uint64_t num_updates = 0;
    std::vector<Guess> guesses;
    // The next version may be any.
    bool may_jump = false;
    // What rounds have, as far as later ones could take it; sorted.
    std::vector<ContributionPtr> counted;

    friend bool operator==(const State&, const State&) = default;
  };
  using States = std::vector<State>;

  // What was looked for: states of an earlier moment than the present ones, or
  // too many to look at all, or all.
  enum class Reached : uint8_t { kEarlier, kTooMany, kAll };
  // Finds the states with that version and value that may follow.
  Reached Reach(Version version, const Elements& value, States& reached) const;
  // Says what is known, and what was brought since.
  std::string Describe() const;
  // Returns what the rule gets of contributions with that sum: it, or their
  // mean.
  Elements InputOf(Elements sum, double weight) const;
  // Returns the element as the key has it.
  double Rounded(double element) const;
  State Next(const State& state, const Elements& input, uint8_t rows) const;
  // What may follow, on the way to a version that was observed.
  void AddNextOfPushes(const State& state, Version observed,
                       States& next) const;
  // Returns false if there are too many to look at.
  bool AddNextOfRounds(const State& state, Version observed,
                       States& next) const;
  void AddJumps(const State& before, State state, Version observed,
                States& next) const;
  bool MayJump(const State& state) const {
    return state.may_jump || has_moved_;
  }
  // What a round may close with: one choice for each rank in turn, then of what
  // came late.
  struct Sum {
    Elements elements = {};
    uint8_t rows = 0;
    double weight = 0;
    uint32_t num_contributions = 0;
    uint32_t num_tensors = 0;
    std::vector<ContributionPtr> contributions;
  };
  using Choices = std::vector<std::vector<ContributionPtr>>;
  // Adds what the round of `step` may close with; its own ranks are the first
  // choices.
  void AddSums(Step step, const Choices& choices, size_t place, const Sum& sum,
               std::vector<Sum>& sums) const;
  void AddTo(Sum& sum, const ContributionPtr& contribution, Step step) const;
  // Adds the choices of late contributions that the round of `step` may take.
  void AddLate(const State& state, Step step, Choices& choices) const;
  uint32_t num_ranks() const {
    return std::max(space_.config.num_workers, space_.config.max_workers);
  }
  void DropHeldOfRounds();
  // Forgets what no observation asks for any more.
  void Prune();
  // Whether what has been told since bears the guesses out.
  static bool IsPossible(const State& state);
  static bool HasGuess(const State& state, const ContributionPtr& push);

  const SpacePlan& space_;
  const DType dtype_;
  bool has_moved_ = false;
  // Where the key may be; empty: nobody knows.
  States states_;
  std::vector<ContributionPtr> pushes_;
  std::map<Step, std::vector<ContributionPtr>> rounds_;
};

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_KEY_LEDGER_H_
