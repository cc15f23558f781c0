#include "tests/swarm/swarm.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "tests/swarm/scheduler.h"
#include "tests/swarm/world.h"

namespace tensorkv::swarm {
namespace {

// A seed takes milliseconds. A child that takes so long hangs.
constexpr unsigned kMostSecondsOfSeed = 60;
constexpr uint64_t kSeedsOfChild = 200;

// What a child tells its parent, in memory that both have.
struct Told {
  uint64_t seed = 0;
  uint64_t num_seeds = 0;
  uint64_t num_calls = 0;
  uint64_t num_clusters = 0;
  uint64_t num_cluster_calls = 0;
  bool has_found = false;
  char finding[8192] = {};
};

class SharedTold {
 public:
  SharedTold()
      : told_(mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    new (told_) Told();
  }
  ~SharedTold() { munmap(told_, sizeof(Told)); }
  SharedTold(const SharedTold&) = delete;
  SharedTold& operator=(const SharedTold&) = delete;

  Told* operator->() const { return static_cast<Told*>(told_); }
  void Find(absl::string_view finding) const {
    Told& told = *static_cast<Told*>(told_);
    const size_t size = std::min(finding.size(), sizeof(told.finding) - 1);
    memcpy(told.finding, finding.data(), size);
    told.finding[size] = '\0';
    told.has_found = true;
  }

 private:
  void* const told_;
};

// Runs `work` in a child, and waits for it. What a crash says, if it does.
template <typename Work>
std::optional<std::string> InChild(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    return absl::StrCat("a crash: ", strsignal(WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) != 0) {
    return absl::StrCat("a crash: status ", WEXITSTATUS(status));
  }
  return std::nullopt;
}

std::string KindOf(absl::string_view finding) {
  return std::string(finding.substr(0, finding.find(':')));
}

}  // namespace

Outcome RunStepped(const Plan& plan) {
  // Not destroyed if threads are left in it.
  auto* const scheduler = new Scheduler();
  auto* const world = new World(plan, scheduler);
  Outcome outcome;
  for (const Action& action : plan.actions) {
    world->Take(action);
    outcome.finding = world->finding();
    if (outcome.finding) return outcome;
  }
  world->Finish();
  outcome.finding = world->finding();
  if (outcome.finding) return outcome;
  outcome.num_calls = world->num_calls();
  delete world;
  delete scheduler;
  return outcome;
}

// What becomes of a namespace that is replaced cannot be told where calls run
// at the same time.
Outcome RunOnThreads(const Plan& plan, int num_threads) {
  World world(plan, nullptr);
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) {
    threads.emplace_back([&] {
      for (;;) {
        const size_t at = next.fetch_add(1);
        if (at >= plan.actions.size()) return;
        const Action& action = plan.actions[at];
        if (action.verb == Verb::kRestore ||
            action.verb == Verb::kDeleteNamespace) {
          continue;
        }
        world.Take(action);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  world.Finish();
  return {world.finding(), world.num_calls()};
}

std::optional<std::string> RunApart(const Plan& plan) {
  const SharedTold told;
  std::optional<std::string> crash = InChild([&] {
    alarm(kMostSecondsOfSeed);
    const Outcome outcome = RunStepped(plan);
    if (outcome.finding) told.Find(*outcome.finding);
  });
  if (told->has_found) return std::string(told->finding);
  return crash;
}

Plan Keep(const Plan& plan, const std::vector<size_t>& places) {
  Plan kept = plan;
  kept.actions.clear();
  for (const size_t place : places) {
    if (place < plan.actions.size())
      kept.actions.push_back(plan.actions[place]);
  }
  return kept;
}

// Leaves out runs of actions, first long ones and then single ones, as long as
// the rest finds the same.
std::vector<size_t> Shrink(const Plan& plan, absl::string_view finding) {
  const auto finds_same = [&](const Plan& rest) {
    const std::optional<std::string> found = RunApart(rest);
    return found && KindOf(*found) == KindOf(finding) &&
           KnownReason(rest, *found) == KnownReason(plan, finding);
  };
  std::vector<size_t> places(plan.actions.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = i;
  size_t size = places.size();
  while (size > 0) {
    bool has_shrunk = false;
    for (size_t end = places.size(); end > 0; end -= std::min(end, size)) {
      const size_t begin = end - std::min(end, size);
      std::vector<size_t> rest(places.begin(), places.begin() + begin);
      rest.insert(rest.end(), places.begin() + end, places.end());
      if (!finds_same(Keep(plan, rest))) continue;
      places = std::move(rest);
      has_shrunk = true;
      if (begin == 0) break;
      end = std::min(end, places.size() + size);
    }
    if (size == 1 && !has_shrunk) break;
    size = std::max<size_t>(1, std::min(size / 2, places.size()));
    if (places.empty()) break;
  }
  return places;
}

std::string Describe(const Plan& plan, const std::vector<size_t>& places,
                     absl::string_view finding) {
  std::string text = absl::StrCat("seed ", plan.seed, ": ", finding, "\n");
  if (plan.num_servers > 1) {
    absl::StrAppend(&text, "  ", plan.num_servers, " servers, ",
                    plan.num_partitions, " partitions",
                    plan.has_delays ? ", messages take their time\n" : "\n");
  }
  for (const SpacePlan& space : plan.spaces) {
    absl::StrAppend(&text, "  ", ToString(space), "\n");
  }
  for (const size_t place : places) {
    absl::StrAppend(&text, "  ", place, ": ", ToString(plan.actions[place]),
                    "\n");
  }
  absl::StrAppend(&text, "  again: tools/swarm --seed=", plan.seed,
                  " --steps=", absl::StrJoin(places, ","));
  return text;
}

namespace {

// Takes the seeds from told.seed to before `end`, or to the first that finds
// something.
void TakeSeeds(const SharedTold& told, uint64_t end) {
  for (; told->seed < end; ++told->seed) {
    alarm(kMostSecondsOfSeed);
    const Plan plan = MakePlan(told->seed);
    const Outcome outcome = RunStepped(plan);
    if (outcome.finding) return told.Find(*outcome.finding);
    ++told->num_seeds;
    told->num_calls += outcome.num_calls;
    if (plan.num_servers == 1) continue;
    ++told->num_clusters;
    told->num_cluster_calls += outcome.num_calls;
  }
}

void AddTo(Catch& caught, const SharedTold& told) {
  caught.num_seeds += told->num_seeds;
  caught.num_calls += told->num_calls;
  caught.num_clusters += told->num_clusters;
  caught.num_cluster_calls += told->num_cluster_calls;
}

// Returns whether the finding is not known.
bool AddTo(Catch& caught, const Plan& plan, const std::string& finding) {
  ++caught.num_seeds;
  if (!KnownReason(plan, finding).empty()) {
    ++caught.num_known;
    return false;
  }
  const std::vector<size_t> places = Shrink(plan, finding);
  const std::optional<std::string> again = RunApart(Keep(plan, places));
  caught.findings.push_back(Describe(plan, places, again ? *again : finding));
  return true;
}

}  // namespace

Catch Run(const Hunt& hunt) {
  Catch caught;
  const absl::Time start = absl::Now();
  uint64_t seed = hunt.first_seed;
  while (caught.num_seeds < hunt.num_seeds && absl::Now() - start < hunt.time) {
    const uint64_t end =
        seed + std::min(kSeedsOfChild, hunt.num_seeds - caught.num_seeds);
    const SharedTold told;
    told->seed = seed;
    const std::optional<std::string> crash =
        InChild([&] { TakeSeeds(told, end); });
    AddTo(caught, told);
    seed = told->seed;
    if (!told->has_found && !crash) continue;
    const std::string finding = told->has_found ? told->finding : *crash;
    if (AddTo(caught, MakePlan(seed++), finding) && hunt.stops) break;
  }
  caught.time = absl::Now() - start;
  return caught;
}

}  // namespace tensorkv::swarm
