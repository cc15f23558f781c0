#include "service/store/round_failures.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Statuses travel in HTTP/2 headers, which are small.
constexpr uint64_t kMostNamed = 4;

}  // namespace

void RoundFailures::Add(uint32_t rank, absl::string_view key, Step step,
                        absl::string_view reason) {
  Failures& failures = by_rank_[rank];
  if (++failures.count > kMostNamed) return;
  absl::StrAppend(&failures.text, failures.count > 1 ? "; " : "", "round ",
                  step, " of ", Quoted(key), " failed: ", reason);
}

absl::Status RoundFailures::Take(uint32_t rank) {
  const auto it = by_rank_.find(rank);
  if (it == by_rank_.end()) return absl::OkStatus();
  const Failures failures = std::move(it->second);
  by_rank_.erase(it);
  if (failures.count <= kMostNamed) return absl::AbortedError(failures.text);
  return absl::AbortedError(absl::StrCat(
      failures.text, "; and ", failures.count - kMostNamed, " more rounds"));
}

}  // namespace tensorkv
