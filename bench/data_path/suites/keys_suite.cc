#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/suites/population.h"
#include "bench/data_path/suites/suites.h"
#include "bench/harness/clocks.h"

namespace tensorkv::bench {
namespace {

constexpr int64_t kMostKeys = 1'000'000;
constexpr int64_t kFewestKeys = 100;

// A verb, and how its load is made.
struct KeyVerb {
  const char* name;
  std::unique_ptr<Load> (Population::*make_load)();
  int64_t bytes;
};
constexpr KeyVerb kVerbs[] = {
    {"list", &Population::MakeListLoad, 0},
    {"stat", &Population::MakeStatLoad, 0},
    {"push", &Population::MakePushLoad,
     Population::kKeysPerCall* Population::kValueBytes}};

std::vector<int64_t> KeyCounts(const Plan& plan) {
  if (plan.is_quick) return {10'000, kMostKeys};
  return {1'000, 10'000, 100'000, kMostKeys};
}

constexpr char kMemoryPerKey[] = "memory per key beyond its value";

std::string MemoryName(const char* moment) {
  return absl::StrCat(kMemoryPerKey, ", after ", moment);
}

// What the server has more than it had, per key, beyond the values.
Figure MemoryFigure(const char* moment, const ServerProcess& server,
                    int64_t bytes_before) {
  const double bytes = ResidentBytesOf(server.pid()) - bytes_before;
  return {.name = MemoryName(moment),
          .value = bytes / kMostKeys - Population::kValueBytes,
          .unit = "bytes"};
}

std::string RowName(const KeyVerb& verb, int64_t num_keys) {
  return absl::StrCat("keys/", verb.name, "/", num_keys);
}

// Whether any row is asked for: the keys take a while to make.
bool WantsAny(const RowRunner& runner) {
  for (const int64_t count : KeyCounts(runner.plan())) {
    for (const KeyVerb& verb : kVerbs) {
      if (runner.Wants(RowName(verb, count))) return true;
    }
  }
  return runner.Wants(kMemoryPerKey);
}

absl::Status Measure(ServerLauncher* launcher, RowRunner* runner,
                     Section* section) {
  ASSIGN_OR_RETURN(const ServerProcess server,
                   launcher->StartTensorkv(Transport::kTcp));
  const int64_t bytes_before = ResidentBytesOf(server.pid());
  ASSIGN_OR_RETURN(const std::unique_ptr<Population> most,
                   Population::Create(server, kMostKeys));
  section->figures.push_back(MemoryFigure("init", server, bytes_before));
  RETURN_IF_ERROR(most->PushAll());
  section->figures.push_back(MemoryFigure("push", server, bytes_before));
  ASSIGN_OR_RETURN(const std::unique_ptr<Population> few,
                   Population::Create(server, kFewestKeys));
  for (const int64_t count : KeyCounts(runner->plan())) {
    std::unique_ptr<Population> between;
    if (count != kMostKeys) {
      ASSIGN_OR_RETURN(between, Population::Create(server, count));
    }
    Population& many = between ? *between : *most;
    for (const KeyVerb& verb : kVerbs) {
      runner->MeasureBeside(
          RowName(verb, count), verb.bytes,
          {"tensorkv", [&] { return (many.*verb.make_load)(); }},
          {"100 keys", [&] { return ((*few).*verb.make_load)(); }}, section);
    }
  }
  return absl::OkStatus();
}

}  // namespace

Section MeasureKeys(ServerLauncher* launcher, RowRunner* runner) {
  Section section = {.title = "Cost per key, TCP",
                     .unit = Unit::kNanosecondsPerKey};
  for (const char* moment : {"init", "push"}) {
    section.goals.push_back({.name = MemoryName(moment),
                             .kind = Goal::Kind::kFigure,
                             .bound = 300});
  }
  // "Flat": the caches hold fewer of so many keys, and no more than that.
  for (const KeyVerb& verb : kVerbs) {
    section.goals.push_back({.name = RowName(verb, kMostKeys),
                             .bound = 0.5,
                             .reference = "100 keys"});
  }
  if (!WantsAny(*runner) || !runner->HasTimeFor(section.title, &section)) {
    return section;
  }
  const absl::Status status = Measure(launcher, runner, &section);
  if (!status.ok()) runner->LeaveOut("keys", status, &section);
  return section;
}

}  // namespace tensorkv::bench
