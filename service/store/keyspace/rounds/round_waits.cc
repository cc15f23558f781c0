// Says what rounds wait for, and what their contributors wait for.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "contract/reason.h"
#include "service/store/keyspace/rounds/rounds.h"
#include "service/store/names.h"

namespace tensorkv {

bool Rounds::IsOf(uint32_t rank, const OpenRounds::value_type& round) const {
  return round.second.contributors.contains(rank) &&
         policy_.workers->TakesPart(rank, round.first);
}

bool Rounds::Awaits(uint32_t rank, Step last) const {
  for (const auto& round : open_) {
    if (round.first > last) break;
    if (IsOf(rank, round)) return true;
  }
  for (auto closed = closed_.rbegin();
       closed != closed_.rend() && closed->version == 0; ++closed) {
    if (closed->step <= last && closed->contributors->Find(rank) != nullptr &&
        policy_.workers->TakesPart(rank, closed->step)) {
      return true;
    }
  }
  return false;
}

std::vector<uint32_t> Rounds::Missing(Step step, const Round& round) const {
  std::vector<uint32_t> missing;
  AddMissing(step, round, missing);
  return missing;
}

void Rounds::AddMissing(Step step, const Round& round,
                        std::vector<uint32_t>& to) const {
  // Ranks below the first that is missing are there, or not needed.
  auto next = round.contributors.lower_bound(round.first_missing);
  const uint32_t end = policy_.workers->end_rank();
  for (uint32_t rank = round.first_missing; rank < end; ++rank) {
    if (next != round.contributors.end() && next->first == rank) {
      ++next;
    } else if (policy_.workers->Needs(rank, step)) {
      to.push_back(rank);
    }
  }
}

std::vector<uint32_t> Rounds::LeftOf(uint32_t rank, Step step,
                                     const Round& round) const {
  const WorkerGroup& workers = *policy_.workers;
  if (!workers.LacksThoseWhoLeft()) return {};
  std::vector<uint32_t> missing;
  if (!IsComplete(step, round)) missing = Missing(step, round);
  std::vector<uint32_t> left = workers.LeftSince(missing, rank);
  const size_t num_possible =
      round.contributors.size() + missing.size() - left.size();
  const uint32_t quorum = policy_.QuorumOf(step);
  if (quorum > 0 && num_possible >= quorum) return {};
  if (!policy_.exchanges || round.is_exchanged) return left;
  for (uint32_t each = 0; each < workers.end_rank(); ++each) {
    if (workers.IsLackingElsewhere(each, step) &&
        workers.HasLeftSince(each, rank)) {
      left.push_back(each);
    }
  }
  return left;
}

bool Rounds::MayLack(absl::Span<const uint32_t> ranks) const {
  if (FirstWithout(ranks)) return true;
  if (!policy_.exchanges || open_.empty()) return false;
  return std::any_of(ranks.begin(), ranks.end(), [this](uint32_t rank) {
    return policy_.workers->IsLackingElsewhere(rank, last_open());
  });
}

absl::Status Rounds::CheckNobodyLeft(absl::string_view key, uint32_t rank,
                                     Step last) const {
  for (const auto& entry : open_) {
    const auto& [step, round] = entry;
    if (step > last) break;
    if (!IsOf(rank, entry)) continue;
    const std::vector<uint32_t> left = LeftOf(rank, step, round);
    if (left.empty()) continue;
    return WithReason(
        policy_.workers->LeftError(RoundName(step, key), left),
        Reason::kWorkerLeft,
        {{"key", key}, {"step", step}, {"ranks", absl::StrJoin(left, ",")}});
  }
  return absl::OkStatus();
}

uint32_t Rounds::NumContributions(uint32_t rank, Step last) const {
  for (auto closed = closed_.rbegin(); closed != closed_.rend(); ++closed) {
    if (closed->step > last || closed->contributors->Find(rank) == nullptr ||
        !policy_.workers->TakesPart(rank, closed->step)) {
      continue;
    }
    // Each server of several has the contributors of its own ranks.
    return policy_.exchanges
               ? policy_.workers->num_workers()
               : static_cast<uint32_t>(closed->contributors->by_rank.size());
  }
  return 0;
}

RoundFailurePtr Rounds::DescribeTimeout(Step step, absl::Duration time,
                                        absl::Duration now) const {
  const Round& round = open_.find(step)->second;
  if (IsComplete(step, round) || HasQuorum(step, round)) return nullptr;
  RoundFailure failure = {.ranks = Missing(step, round), .step = step};
  for (const auto& [rank, member] : round.contributors) {
    failure.came.push_back(rank);
  }
  const uint32_t quorum = policy_.QuorumOf(step);
  failure.text = absl::StrCat("its round_timeout of ",
                              absl::FormatDuration(time), " is over with ",
                              policy_.workers->Describe(failure.came, now));
  if (!failure.ranks.empty()) {
    absl::StrAppend(&failure.text, " and without ",
                    policy_.workers->Describe(failure.ranks, now));
  }
  if (quorum > 0) {
    absl::StrAppend(&failure.text, ", and needs ", quorum, " contributions");
  }
  return std::make_shared<const RoundFailure>(std::move(failure));
}

std::vector<std::pair<Step, std::vector<uint32_t>>> Rounds::Awaited() const {
  std::vector<std::pair<Step, std::vector<uint32_t>>> awaited;
  for (const auto& [step, round] : open_) {
    awaited.emplace_back(step, Missing(step, round));
  }
  return awaited;
}

absl::Status Rounds::DescribeAwaited(uint32_t rank, absl::string_view key,
                                     absl::Duration now) const {
  for (const auto& entry : open_) {
    if (!IsOf(rank, entry)) continue;
    const auto& [step, round] = entry;
    const std::vector<uint32_t> missing = Missing(step, round);
    return WithReason(
        absl::DeadlineExceededError(absl::StrCat(
            RoundName(step, key), ": ",
            missing.empty()
                ? "its sum is under way"
                : absl::StrCat("waiting for ",
                               policy_.workers->Describe(missing, now)))),
        Reason::kWaitEnded,
        {{"key", key}, {"step", step}, {"ranks", absl::StrJoin(missing, ",")}});
  }
  return WithReason(absl::DeadlineExceededError(absl::StrCat(
                        "key ", Quoted(key), ": its update is under way")),
                    Reason::kWaitEnded, {{"key", key}});
}

}  // namespace tensorkv
