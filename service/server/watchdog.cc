#include "service/server/watchdog.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tensorkv {
namespace {

std::vector<Watchdog::Part> WithAlarms(std::vector<Watchdog::Part> parts) {
  // The round of probes itself is the probe of what it runs on.
  parts.insert(parts.begin(),
               {.name = "alarms",
                .probe = [](Watchdog::Done done) { std::move(done)(); }});
  return parts;
}

}  // namespace

Watchdog::Watchdog(std::vector<Part> parts, Options options, Alarms* alarms)
    : parts_(WithAlarms(std::move(parts))),
      options_(std::move(options)),
      alarms_(*alarms),
      watched_(parts_.size(), Watched{.last_beat = alarms->Now()}) {
  alarms_.Schedule(alarms_.Now(), [this] { Probe(); });
}

void Watchdog::Probe() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    {
      MutexLock lock(&mutex_);
      if (std::exchange(watched_[i].is_probed, true)) continue;
      watched_[i].probed_at = alarms_.Now();
    }
    parts_[i].probe([this, i] { Beat(i); });
  }
  MutexLock lock(&mutex_);
  Report();
  alarms_.Schedule(alarms_.Now() + options_.period, [this] { Probe(); });
}

void Watchdog::Beat(size_t i) {
  MutexLock lock(&mutex_);
  watched_[i].last_beat = alarms_.Now();
  watched_[i].is_probed = false;
  watched_[i].num_stuck = 0;
}

void Watchdog::TellIfStuck(size_t i) {
  constexpr int kNumRounds = 2;
  Watched& watched = watched_[i];
  const bool is_stuck =
      watched.is_probed && alarms_.Now() - watched.probed_at > LimitOf(i);
  if (!is_stuck || ++watched.num_stuck != kNumRounds) return;
  if (parts_[i].on_stuck) parts_[i].on_stuck();
}

void Watchdog::Report() {
  const absl::Duration now = alarms_.Now();
  for (size_t i = 0; i < parts_.size(); ++i) {
    TellIfStuck(i);
    Watched& watched = watched_[i];
    const bool stands_still = now - watched.last_beat > LimitOf(i);
    if (stands_still == watched.is_reported) continue;
    watched.is_reported = stands_still;
    if (options_.log == nullptr) continue;
    options_.log(absl::StrCat(
        parts_[i].name, stands_still ? " stands still" : " goes on again"));
  }
}

std::vector<Watchdog::Age> Watchdog::ages() const {
  std::vector<Age> ages;
  MutexLock lock(&mutex_);
  const absl::Duration now = alarms_.Now();
  for (size_t i = 0; i < parts_.size(); ++i) {
    ages.push_back({parts_[i].name, now - watched_[i].last_beat});
  }
  return ages;
}

absl::Status Watchdog::status() const {
  std::vector<std::string> stalled;
  const std::vector<Age> all = ages();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].age <= LimitOf(i)) continue;
    stalled.push_back(absl::StrCat(all[i].part, " for ",
                                   absl::ToInt64Seconds(all[i].age), " s"));
  }
  if (stalled.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("no progress: ", absl::StrJoin(stalled, ", ")));
}

}  // namespace tensorkv
