#include "tests/history/history_checker.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"

namespace tensorkv::testing {
namespace {

using Kind = HistoryEvent::Kind;
using Events = std::vector<HistoryEvent>;

std::string Text(const HistoryEvent& event) {
  switch (event.kind) {
    case Kind::kPush:
      return absl::StrCat("client ", event.client, ": push to ", event.key,
                          " made version ", event.version);
    case Kind::kPull:
      return absl::StrCat("client ", event.client, ": pull of ", event.key,
                          " read ", event.value, ", version ", event.version);
    case Kind::kStep:
      return absl::StrCat("worker ", event.client, ": step ", event.step);
    case Kind::kRound:
      return absl::StrCat("worker ", event.client, ": step ", event.step,
                          " of ", event.key, " read ", event.value);
    case Kind::kBarrier:
      return absl::StrCat("worker ", event.client, ": barrier ", event.barrier);
  }
  return "";
}

Events Of(const Events& events, Kind kind) {
  Events found;
  for (const HistoryEvent& event : events) {
    if (event.kind == kind) found.push_back(event);
  }
  return found;
}

// One key's pushes and pulls.
class KeyChecker {
 public:
  KeyChecker(Events events, std::vector<std::string>& violations)
      : events_(std::move(events)), violations_(violations) {}

  void Check() {
    CheckVersions();
    CheckValues();
    CheckOrder();
  }

 private:
  void CheckVersions() {
    amounts_[1] = 0;
    for (const HistoryEvent& push : Of(events_, Kind::kPush)) {
      if (!amounts_.emplace(push.version, push.amount).second) {
        Report(push, "which another push made too");
      }
    }
    if (amounts_.rbegin()->first != amounts_.size()) {
      violations_.push_back(absl::StrCat(events_.front().key, ": ",
                                         amounts_.size() - 1,
                                         " pushes made the "
                                         "version ",
                                         amounts_.rbegin()->first));
    }
  }

  void CheckValues() {
    for (const HistoryEvent& pull : Of(events_, Kind::kPull)) {
      int64_t sum = 0;
      for (const auto& [version, amount] : amounts_) {
        if (version <= pull.version) sum += amount;
      }
      if (pull.is_torn) Report(pull, "torn");
      if (pull.value != sum) {
        Report(pull, absl::StrCat("where the pushes sum up to ", sum));
      }
    }
  }

  // Walks through time: what ends raises what may begin from then on.
  void CheckOrder() {
    Events by_end = events_;
    std::sort(by_end.begin(), by_end.end(),
              [](const auto& a, const auto& b) { return a.end < b.end; });
    std::sort(events_.begin(), events_.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
    Version newest = 1;
    auto ended = by_end.begin();
    for (const HistoryEvent& event : events_) {
      for (; ended != by_end.end() && ended->end < event.begin; ++ended) {
        newest = std::max(newest, ended->version);
      }
      // A push makes a newer one, a pull may read the same.
      const Version least = event.kind == Kind::kPush ? newest + 1 : newest;
      if (event.version < least) {
        Report(event, absl::StrCat("after version ", newest, " was there"));
      }
    }
  }

  void Report(const HistoryEvent& event, const std::string& what) {
    violations_.push_back(absl::StrCat(Text(event), ", ", what));
  }

  Events events_;
  std::vector<std::string>& violations_;
  std::map<Version, int64_t> amounts_;
};

}  // namespace

std::vector<std::string> OrderViolations(const Events& events) {
  std::map<std::string, Events> by_key;
  for (const HistoryEvent& event : events) {
    if (event.kind == Kind::kPush || event.kind == Kind::kPull) {
      by_key[event.key].push_back(event);
    }
  }
  std::vector<std::string> violations;
  for (auto& [key, its_events] : by_key) {
    KeyChecker(std::move(its_events), violations).Check();
  }
  return violations;
}

std::vector<std::string> StalenessViolations(const Events& events,
                                             int num_workers, Step staleness) {
  // When each worker began each step.
  std::map<std::pair<int, Step>, absl::Duration> begins;
  const Events steps = Of(events, Kind::kStep);
  for (const HistoryEvent& step : steps) {
    begins[{step.client, step.step}] = step.begin;
  }
  std::vector<std::string> violations;
  for (const HistoryEvent& step : steps) {
    if (step.step <= staleness + 1) continue;
    const Step needed = step.step - 1 - staleness;
    for (int worker = 0; worker < num_workers; ++worker) {
      const auto begun = begins.find({worker, needed});
      if (begun != begins.end() && begun->second <= step.end) continue;
      violations.push_back(absl::StrCat(Text(step), " ended before worker ",
                                        worker, " had begun step ", needed));
    }
  }
  return violations;
}

std::vector<std::string> RoundViolations(const Events& events,
                                         int num_workers) {
  struct Round {
    std::map<int, int64_t> amounts;  // by worker
    absl::Duration last_begin;
  };
  std::map<std::string, std::map<Step, Round>> by_key;
  const Events rounds = Of(events, Kind::kRound);
  for (const HistoryEvent& event : rounds) {
    Round& round = by_key[event.key][event.step];
    round.amounts[event.client] = event.amount;
    round.last_begin = std::max(round.last_begin, event.begin);
  }
  std::vector<std::string> violations;
  const auto report = [&](const HistoryEvent& event, const std::string& what) {
    violations.push_back(absl::StrCat(Text(event), ", ", what));
  };
  for (const HistoryEvent& event : rounds) {
    int64_t sum = 0;
    for (const auto& [step, round] : by_key[event.key]) {
      if (step > event.step) break;
      for (const auto& [worker, amount] : round.amounts) sum += amount;
    }
    const Round& round = by_key[event.key][event.step];
    if (event.is_torn) report(event, "torn");
    if (event.value != sum) {
      report(event, absl::StrCat("where the contributions sum up to ", sum));
    }
    if (static_cast<int>(round.amounts.size()) != num_workers ||
        event.end < round.last_begin) {
      report(event, "before all had contributed");
    }
  }
  return violations;
}

std::vector<std::string> RestoredRoundViolations(
    const Events& events, Step num_steps,
    const std::function<int64_t(const std::string& key, Step step)>&
        sum_after) {
  std::map<std::string, std::map<int64_t, Step>> steps_by_sum;
  std::vector<std::string> violations;
  for (const HistoryEvent& event : Of(events, Kind::kRound)) {
    std::map<int64_t, Step>& steps = steps_by_sum[event.key];
    if (steps.empty()) {
      for (Step step = 0; step <= num_steps; ++step) {
        steps[sum_after(event.key, step)] = step;
      }
    }
    const auto found = steps.find(event.value);
    if (found == steps.end()) {
      violations.push_back(
          absl::StrCat(Text(event), ", which is the sum after no step"));
    } else if (found->second < event.step) {
      violations.push_back(absl::StrCat(
          Text(event), ", which is the sum after step ", found->second));
    }
  }
  return violations;
}

std::vector<std::string> BarrierViolations(const Events& events,
                                           int num_workers) {
  std::map<std::string, Events> by_name;
  for (const HistoryEvent& event : Of(events, Kind::kBarrier)) {
    by_name[event.barrier].push_back(event);
  }
  std::vector<std::string> violations;
  for (const auto& [name, came] : by_name) {
    absl::Duration last_begin;
    for (const HistoryEvent& each : came) {
      last_begin = std::max(last_begin, each.begin);
    }
    for (const HistoryEvent& each : came) {
      if (static_cast<int>(came.size()) == num_workers &&
          each.end >= last_begin) {
        continue;
      }
      violations.push_back(
          absl::StrCat(Text(each), " ended before all had come"));
    }
  }
  return violations;
}

}  // namespace tensorkv::testing
