// How the world saves the store and has it again.

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/swarm/elements.h"
#include "tests/swarm/world.h"

namespace tensorkv::swarm {
namespace {

constexpr uint32_t kNumPartitions = 4;

// With memory of their own, as if they had been read from a disk.
std::vector<KeySnapshot> CopiesOf(std::vector<KeySnapshot> keys) {
  for (KeySnapshot& key : keys) {
    key.value = CopyOf(key.value);
    for (StateSnapshot& state : key.states) {
      state.tensor = CopyOf(state.tensor);
    }
  }
  return keys;
}

}  // namespace

// Takes a snapshot at the pace of a disk that the plan steps.
class World::Reader final : public SnapshotSink {
 public:
  explicit Reader(bool is_slow) : is_slow_(is_slow) {}

  absl::Status Begin(NamespaceSnapshot name_space) override {
    saved_.push_back({std::move(name_space), {}});
    if (is_slow_) Scheduler::PauseHere(Pause::kReader);
    return absl::OkStatus();
  }
  absl::Status Add(KeySnapshot key) override {
    key.value = CopyOf(key.value);
    for (StateSnapshot& state : key.states) {
      state.tensor = CopyOf(state.tensor);
    }
    saved_.back().keys.push_back(std::move(key));
    if (is_slow_) Scheduler::PauseHere(Pause::kReader);
    return absl::OkStatus();
  }
  absl::Status End() override { return absl::OkStatus(); }
  void Paused(absl::Duration) override {}

  std::vector<SavedSpace> Take() { return std::move(saved_); }

 private:
  const bool is_slow_;
  std::vector<SavedSpace> saved_;
};

void World::Snapshot(const Action& action) {
  {
    MutexLock lock(&mutex_);
    if (num_snapshots_ > 0) return;
    ++num_snapshots_;
  }
  Run([this, action] {
    std::vector<std::array<Version, kNumKeys>> floors;
    std::vector<uint64_t> generations;
    {
      MutexLock lock(&mutex_);
      for (const Space& space : spaces_) {
        floors.push_back(space.floors);
        generations.push_back(space.generation);
      }
    }
    Reader reader(/*is_slow=*/action.how % 4 > 0);
    const absl::Status status = store_->TakeSnapshot({}, reader);
    std::vector<SavedSpace> saved = reader.Take();
    MutexLock lock(&mutex_);
    --num_snapshots_;
    if (!status.ok()) return;
    for (const SavedSpace& each : saved) {
      for (uint32_t at = 0; at < spaces_.size(); ++at) {
        if (spaces_[at].plan.name != each.name_space.name ||
            spaces_[at].generation != generations[at]) {
          continue;
        }
        CheckSaved(at, each, floors[at]);
      }
    }
    saved_ = std::move(saved);
  });
}

void World::CheckSaved(uint32_t at, const SavedSpace& saved,
                       const std::array<Version, kNumKeys>& floors) {
  Space& space = spaces_[at];
  std::map<uint32_t, Version> versions;
  for (const KeySnapshot& each : saved.keys) {
    const auto key = static_cast<uint32_t>(each.key[1] - '0');
    versions[key] = each.version;
    Observe(space, key, each.version, floors[key], ElementsOf(each.value),
            "a snapshot");
  }
  for (const WholeCall& call : whole_calls_) {
    if (call.space != at || call.generation != space.generation) continue;
    int num_in = 0;
    int num_out = 0;
    for (const auto& [key, version] : call.versions) {
      const auto has = versions.find(key);
      if (has == versions.end()) continue;
      ++(has->second >= version ? num_in : num_out);
    }
    if (num_in > 0 && num_out > 0) {
      std::string parts;
      for (const auto& [key, version] : call.versions) {
        absl::StrAppend(&parts, " ", KeyName(key), " version ", version, ", ",
                        versions.contains(key) ? versions[key] : 0);
      }
      Find(absl::StrCat("a snapshot has part of a call: ", call.what,
                        ": made, and in the snapshot:", parts));
    }
  }
}

void World::Restore(const Action& action) {
  std::vector<SavedSpace> saved;
  {
    MutexLock lock(&mutex_);
    if (!saved_ || num_snapshots_ > 0) return;
    for (const Space& space : spaces_) {
      // Workers that do not join hear from nobody that they are to go back.
      if (space.plan.is_orderly && !space.plan.joins) return;
    }
    saved = *saved_;
  }
  Run([this, saved = std::move(saved)] {
    const auto restoration = store_->StartRestoration(OnExisting::kReplace);
    absl::Status status;
    for (const SavedSpace& each : saved) {
      std::vector<KeySnapshot> keys = CopiesOf(each.keys);
      status.Update(restoration->Begin(each.name_space));
      if (status.ok()) status.Update(restoration->Add(std::move(keys)));
    }
    if (status.ok()) status = restoration->Commit();
    MutexLock lock(&mutex_);
    if (status.ok()) EndRestore(saved);
  });
}

void World::EndRestore(const std::vector<SavedSpace>& saved) {
  for (Space& space : spaces_) {
    for (const SavedSpace& each : saved) {
      if (each.name_space.name != space.plan.name) continue;
      StartAnew(space);
      space.uid = each.name_space.uid;
      space.exists = true;
      for (const WorkerSnapshot& worker : each.name_space.workers) {
        const uint32_t rank = worker.worker.rank;
        if (rank >= kNumActors) continue;
        uint32_t place = rank;
        if (!worker.name.empty()) {
          space.last_actor[rank] = worker.name.back() - '0';
          place = space.PlaceOf(space.last_actor[rank], rank);
        }
        space.most_reached[place] = worker.step;
        space.has_left[rank] = worker.has_left;
      }
      BeginAgain(space, each);
    }
  }
}

// The keys go on from where they were saved.
void World::BeginAgain(Space& space, const SavedSpace& saved) {
  for (const KeySnapshot& each : saved.keys) {
    const auto key = static_cast<uint32_t>(each.key[1] - '0');
    Elements momentum = {};
    if (!each.states.empty()) momentum = ElementsOf(each.states[0].tensor);
    const Step step = each.rounds.empty() ? 0 : each.rounds.back().step;
    space.keys[key] = Known::kYes;
    RaiseFloor(space, key, each.version);
    if (!is_stepped()) continue;
    space.ledgers[key].BeginAgain(each.version, ElementsOf(each.value),
                                  momentum, step);
  }
}

// Some partitions go to another server and come back from it at once, or stay
// after all. For who calls, the two servers are one.
void World::Move(const Action& action) {
  CallPtr call;
  {
    MutexLock lock(&mutex_);
    if (is_moving_ || !is_stepped()) return;
    for (const Space& space : spaces_) {
      if (space.plan.config.mode == Mode::kBounded) return;
    }
    is_moving_ = true;
    call = NewCall(action, /*changes=*/false);
  }
  PartitionSet set = {.num_partitions = kNumPartitions};
  for (uint32_t i = 0; i < kNumPartitions; ++i) {
    if (action.number >> i & 1) set.partitions.push_back(i);
  }
  Ask(
      call,
      [this, action, set] {
        const absl::Status status = MovePartitions(action, set);
        MutexLock lock(&mutex_);
        is_moving_ = false;
        return status;
      },
      nullptr);
}

absl::Status World::MovePartitions(const Action& action,
                                   const PartitionSet& set) {
  // Rounds that do not close end the move.
  int num_looks = 0;
  absl::Status status = store_->Hold(set, [&] {
    return ++num_looks < 5 ? absl::OkStatus()
                           : absl::UnavailableError("rounds are open");
  });
  Reader reader(/*is_slow=*/false);
  if (status.ok()) status = store_->TakeSnapshotOfHeld(reader);
  if (!status.ok() || action.how % 4 == 0) {
    store_->Release();
    return status;
  }
  store_->Close();
  static_cast<PartitionMoves&>(*store_).Leave();
  const std::vector<SavedSpace> saved = reader.Take();
  // Nobody asks the other server before it has all keys.
  backend_.SetSlow(false);
  backend_.FailNext(0);
  const auto adoption = store_->StartAdoption(set);
  for (const SavedSpace& each : saved) {
    std::vector<KeySnapshot> keys = CopiesOf(each.keys);
    status.Update(adoption->Begin(each.name_space));
    if (status.ok()) status.Update(adoption->Add(std::move(keys)));
  }
  if (status.ok()) status = adoption->Commit();
  MutexLock lock(&mutex_);
  for (Space& space : spaces_) {
    for (const SavedSpace& each : saved) {
      if (each.name_space.uid != space.uid) continue;
      BeginAgain(space, each);
      if (!status.ok()) {
        for (KeyLedger& ledger : space.ledgers) ledger.Forget();
      }
    }
  }
  return status;
}

}  // namespace tensorkv::swarm
