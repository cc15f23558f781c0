// How the world saves the store and has it again.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/swarm/elements.h"
#include "tests/swarm/world.h"

namespace tensorkv::swarm {
namespace {

constexpr uint32_t kNumPartitions = 4;

// Bounds how many snapshots are taken at once.
constexpr int kMostSnapshots = 4;

// Returns what the stages of a move have brought in the end.
std::vector<SavedSpace> Joined(const std::vector<SavedSpace>& stages) {
  std::map<uint64_t, SavedSpace> joined;
  for (const SavedSpace& each : stages) {
    SavedSpace& all = joined[each.name_space.uid];
    all.name_space = each.name_space;
    if (!each.name_space.has_only_changes) all.keys.clear();
    std::set<std::string> gone(each.name_space.removed_keys.begin(),
                               each.name_space.removed_keys.end());
    for (const KeySnapshot& key : each.keys) gone.insert(key.key);
    std::erase_if(all.keys, [&gone](const KeySnapshot& key) {
      return gone.contains(key.key);
    });
    all.keys.insert(all.keys.end(), each.keys.begin(), each.keys.end());
  }
  std::vector<SavedSpace> spaces;
  for (auto& [uid, space] : joined) spaces.push_back(std::move(space));
  return spaces;
}

// Takes a snapshot at the pace of a disk or a network that the plan steps.
class Reader final : public SnapshotSink {
 public:
  // Is slow for that reason, if there is one.
  explicit Reader(std::optional<Pause> pause = std::nullopt) : pause_(pause) {}

  absl::Status Begin(NamespaceSnapshot name_space) override {
    saved_.push_back({std::move(name_space), {}});
    if (pause_) Scheduler::PauseHere(*pause_);
    return absl::OkStatus();
  }
  absl::Status Add(KeySnapshot key) override {
    key.value = CopyOf(key.value);
    for (StateSnapshot& state : key.states) {
      state.tensor = CopyOf(state.tensor);
    }
    saved_.back().keys.push_back(std::move(key));
    if (pause_) Scheduler::PauseHere(*pause_);
    return absl::OkStatus();
  }
  absl::Status End() override { return absl::OkStatus(); }
  void Paused(absl::Duration) override {}

  std::vector<SavedSpace> Take() { return std::move(saved_); }

 private:
  const std::optional<Pause> pause_;
  std::vector<SavedSpace> saved_;
};

}  // namespace

void World::Snapshot(const Action& action) {
  {
    MutexLock lock(&mutex_);
    if (num_snapshots_ == kMostSnapshots) return;
    ++num_snapshots_;
  }
  Run([this, server = servers_[action.server].get(),
       is_slow = action.how % 4 > 0] {
    Checkpoint(*server, is_slow).IgnoreError();  // such as that of a device
    MutexLock lock(&mutex_);
    --num_snapshots_;
  });
}

// Takes a snapshot of all that the server has.
absl::Status World::Checkpoint(Server& server, bool is_slow) {
  std::vector<Versions> floors;
  std::map<std::string, uint64_t> generations;
  uint64_t num_changes = 0;
  uint64_t number = 0;
  {
    MutexLock lock(&mutex_);
    number = ++server.last_snapshot;
    for (Space& space : spaces_) {
      floors.push_back(space.FloorsOf(ServerOf(servers_, server.name())));
      generations[space.plan.name] = space.generation;
    }
    num_changes = num_changes_;
  }
  Reader reader(is_slow ? std::optional(Pause::kReader) : std::nullopt);
  RETURN_IF_ERROR(server.store().TakeSnapshot({}, reader));
  std::vector<SavedSpace> saved = reader.Take();
  MutexLock lock(&mutex_);
  if (server.is_dead) return ServerIsGone();
  // Else its keys may be another server's, or not restored yet.
  const bool is_checked =
      !is_cluster() || (num_changes == num_changes_ && num_moving_ == 0 &&
                        NumLost(admin_.Placement()) == 0);
  for (const SavedSpace& each : saved) {
    for (uint32_t at = 0; is_checked && at < spaces_.size(); ++at) {
      const Space& space = spaces_[at];
      if (space.plan.name == each.name_space.name &&
          space.generation == generations[space.plan.name]) {
        CheckSaved(at, server, each, floors[at]);
      }
    }
  }
  if (number < server.saved_snapshot) return absl::OkStatus();
  server.saved_snapshot = number;
  server.saved = std::move(saved);
  server.saved_generations = std::move(generations);
  return absl::OkStatus();
}

void World::CheckSaved(uint32_t at, const Server& server,
                       const SavedSpace& saved, const Versions& floors) {
  Space& space = spaces_[at];
  std::map<uint32_t, Version> versions;
  for (const KeySnapshot& each : saved.keys) {
    const auto key = KeyOf(each.key);
    const uint32_t place = ServerOf(servers_, server.name());
    const bool is_its =
        !is_cluster() || plan_.is_mirrored || OwnerOf(space, key) == place;
    if (!is_its) continue;
    versions[key] = each.version;
    Observe(space, place, key, each.version, floors[key],
            ElementsOf(each.value), "a snapshot");
  }
  CheckWhole(at, versions, "a snapshot");
}

void World::CheckWhole(uint32_t at, const std::map<uint32_t, Version>& versions,
                       absl::string_view by) {
  const Space& space = spaces_[at];
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
                        versions.contains(key) ? versions.at(key) : 0);
      }
      Find(absl::StrCat(by, " has part of a call: ", call.what,
                        ": made, and in the snapshot:", parts));
    }
  }
}

void World::Restore(const Action& action) {
  std::vector<SavedSpace> saved;
  {
    MutexLock lock(&mutex_);
    if (!servers_[0]->saved || num_snapshots_ > 0 || num_moving_ > 0) return;
    for (const Space& space : spaces_) {
      // Workers that do not join hear from nobody that they are to go back.
      if (space.plan.is_orderly && !space.plan.joins) return;
    }
    ++num_restoring_;
    saved = *servers_[0]->saved;
  }
  Run([this, saved = std::move(saved)] {
    const auto restoration =
        servers_[0]->store().StartRestoration(OnExisting::kReplace);
    const absl::Status status = Fill(*restoration, saved);
    MutexLock lock(&mutex_);
    --num_restoring_;
    if (status.ok()) EndRestore(saved);
  });
}

void World::EndRestore(const std::vector<SavedSpace>& saved) {
  for (Space& space : spaces_) {
    for (const SavedSpace& each : saved) {
      if (each.name_space.name != space.plan.name) continue;
      // What it makes from now on is above all that it ever had.
      const auto ceilings = space.ceilings;
      const bool is_same = space.uid == each.name_space.uid;
      StartAnew(space);
      space.rules.reset();
      space.is_restored = true;
      if (is_same) space.ceilings = ceilings;
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
    const auto key = KeyOf(each.key);
    Elements momentum = {};
    if (!each.states.empty()) momentum = ElementsOf(each.states[0].tensor);
    const Step step = each.rounds.empty() ? 0 : each.rounds.back().step;
    space.keys[key] = Known::kYes;
    RaiseFloor(space, /*server=*/0, key, each.version);
    if (!is_stepped()) continue;
    space.ledgers[key].BeginAgain(each.version, ElementsOf(each.value),
                                  momentum, step, each.update_count);
  }
}

// Some partitions go to another server and come back from it at once, or stay
// after all. For who calls, the two servers are one.
void World::Move(const Action& action) {
  CallPtr call;
  {
    MutexLock lock(&mutex_);
    if (num_moving_ > 0 || num_restoring_ > 0 || !is_stepped()) return;
    for (const Space& space : spaces_) {
      if (space.plan.config.mode == Mode::kBounded) return;
    }
    ++num_moving_;
    has_moved_ = true;
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
        --num_moving_;
        return status;
      },
      nullptr);
}

absl::Status World::MovePartitions(const Action& action,
                                   const PartitionSet& set) {
  MemoryTensorStore& store = servers_[0]->store();
  const absl::StatusOr<std::vector<SavedSpace>> sent =
      SendPartitions(set, /*num_ahead=*/action.how / 8 % 4);
  if (!sent.ok() || action.how % 4 == 0) {
    store.Unfence();
    return sent.status();
  }
  store.FenceReads();
  store.GiveAway();
  // Nobody asks the other server before it has all keys.
  servers_[0]->backend().SetSlow(false);
  servers_[0]->backend().FailNext(0);
  const auto adoption = store.StartAdoption(set);
  const absl::Status status = Fill(*adoption, *sent);
  PartitionSet all = {.num_partitions = kNumPartitions};
  for (uint32_t i = 0; i < kNumPartitions; ++i) all.partitions.push_back(i);
  store.Own(all);
  MutexLock lock(&mutex_);
  EndMove(Joined(*sent), status.ok());
  return status;
}

// Returns what the stages of a move send: so many ahead, and the last one,
// after which the keys stay fenced.
absl::StatusOr<std::vector<SavedSpace>> World::SendPartitions(
    const PartitionSet& set, int num_ahead) {
  MemoryTensorStore& store = servers_[0]->store();
  Reader ahead(Pause::kNetwork);
  for (int i = 0; i < num_ahead; ++i) {
    RETURN_IF_ERROR(store.TakeChanges(set, ahead));
  }
  {
    MutexLock lock(&mutex_);
    fenced_ = set;
    fenced_since_ = ++moment_;
  }
  // Rounds that do not close end the move.
  int num_looks = 0;
  const absl::Status fenced = store.Fence(set, [&] {
    return ++num_looks < 8 ? absl::OkStatus()
                           : absl::UnavailableError("rounds are open");
  });
  {
    MutexLock lock(&mutex_);
    fenced_.reset();
  }
  RETURN_IF_ERROR(fenced);
  Reader last;
  RETURN_IF_ERROR(store.TakeSnapshotOfFenced(last));
  std::vector<SavedSpace> sent = ahead.Take();
  std::ranges::move(last.Take(), std::back_inserter(sent));
  return sent;
}

// The keys that have moved go on from there; nobody knows how if that failed.
void World::EndMove(const std::vector<SavedSpace>& moved, bool is_whole) {
  for (Space& space : spaces_) {
    for (const SavedSpace& each : moved) {
      if (each.name_space.uid != space.uid) continue;
      BeginAgain(space, each);
      if (is_whole) continue;
      for (KeyLedger& ledger : space.ledgers) ledger.Forget();
      space.keys.fill(Known::kUnknown);
    }
  }
}

}  // namespace tensorkv::swarm
