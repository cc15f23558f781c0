#include "service/store/keyspace/push/gradient_guard.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "kernels/gradient_norm.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

GradientNorm NormOf(const PushEntry& entry) {
  return entry.encoding ? NormOf(entry.encoding->packing(), entry.tensor.data())
                        : NormOf(entry.tensor.view());
}

// Takes a copy with memory of the server, unless nobody else sees the present
// one.
absl::Status MakeWritable(const RefPtr<BudgetAccount>& account,
                          Tensor& tensor) {
  if (IsCountedBy(*account, tensor) && tensor.buffer()->IsUnique()) {
    return absl::OkStatus();
  }
  Tensor copy = tensor;
  Tensor* const copies[] = {&copy};
  RETURN_IF_ERROR(AllocateStaged(account, copies));
  std::memcpy(copy.mutable_data(), tensor.data(), tensor.size_bytes());
  tensor = std::move(copy);
  return absl::OkStatus();
}

// Returns the fewest digits that give the number back.
std::string DigitsOf(double number) {
  char digits[32];
  return std::string(digits,
                     std::to_chars(digits, std::end(digits), number).ptr);
}

}  // namespace

absl::Status CheckGuard(const GradientGuard& guard) {
  for (const auto& [name, bound] :
       {std::pair("max_norm", guard.max_norm),
        std::pair("max_call_norm", guard.max_call_norm)}) {
    if (std::isfinite(bound) && bound >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": expected a finite number of at least 0, got ", bound));
  }
  if (guard.max_norm == 0 && guard.max_call_norm == 0 &&
      guard.on_large_norm != OnLargeNorm::kClip) {
    return absl::InvalidArgumentError(
        "on_large_norm: expected none without max_norm and max_call_norm, got "
        "one");
  }
  return absl::OkStatus();
}

absl::Status GuardedPush::MeasureAndClip(PushRequest& request) {
  if (!guard_.is_on()) return absl::OkStatus();
  Measure(request);
  double call_factor = 1;
  if (guard_.max_call_norm > 0) {
    call_norm_ = NormOfCall();
    call_factor = std::min(1.0, guard_.max_call_norm / call_norm_);
  }
  for (size_t i = 0; i < norms_.size(); ++i) {
    const double factor = call_factor * FactorOf(norms_[i]);
    if (norms_[i] == 0 || factor == 1) continue;
    findings_[i] = GuardFinding::kTooLarge;
    if (guard_.on_large_norm == OnLargeNorm::kRefuse) continue;
    RETURN_IF_ERROR(Clip(factor, request.entries[i]));
  }
  return absl::OkStatus();
}

void GuardedPush::Measure(const PushRequest& request) {
  findings_.resize(request.entries.size());
  norms_.resize(request.entries.size());
  for (size_t i = 0; i < norms_.size(); ++i) {
    const PushEntry& entry = request.entries[i];
    if (BringsNothing(entry) || !IsFloat(entry.dtype())) continue;
    const GradientNorm found = NormOf(entry);
    if (found.is_finite) {
      norms_[i] = found.norm;
    } else if (guard_.on_non_finite != OnNonFinite::kApply) {
      findings_[i] = GuardFinding::kNotFinite;
    }
  }
}

double GuardedPush::FactorOf(double norm) const {
  const bool is_large = guard_.max_norm > 0 && norm > guard_.max_norm;
  return is_large ? guard_.max_norm / norm : 1;
}

double GuardedPush::NormOfCall() const {
  std::vector<double> norms = norms_;
  for (double& norm : norms) {
    if (FactorOf(norm) < 1) norm = guard_.max_norm;
  }
  return NormOf({DType::kF64, static_cast<int64_t>(norms.size()), norms.data()})
      .norm;
}

absl::Status GuardedPush::Clip(double factor, PushEntry& entry) const {
  RETURN_IF_ERROR(MakeWritable(account_, entry.tensor));
  if (!entry.encoding) {
    Scale(factor, entry.tensor.mutable_view());
    return absl::OkStatus();
  }
  Packing packing = entry.encoding->packing();
  Scale(factor, packing, entry.tensor.mutable_data());
  ASSIGN_OR_RETURN(entry.encoding,
                   Encoding::Create(packing, entry.encoding->dtype(),
                                    entry.encoding->shape()));
  return absl::OkStatus();
}

template <typename Visitor>
void GuardedPush::ForEachFinding(const EntriesByKey& entries,
                                 Visitor visit) const {
  if (findings_.empty()) return;
  for (uint32_t first = 0; first < entries.keys.size(); ++first) {
    const EntriesByKey::KeyOfEntry& key = entries.keys[first];
    if (!key.is_first || key.is_repeat) continue;
    entries.ForEach(first, [&](uint32_t i) {
      if (findings_[i] != GuardFinding::kNothing) visit(i);
    });
  }
}

bool GuardedPush::Refuses(GuardFinding finding) const {
  return finding == GuardFinding::kNotFinite
             ? guard_.on_non_finite == OnNonFinite::kRefuse
             : guard_.on_large_norm == OnLargeNorm::kRefuse;
}

absl::Status GuardedPush::Refusal(const PushRequest& request,
                                  uint32_t position) const {
  const std::string& key = request.entries[position].key;
  const std::optional<Worker>& worker = request.worker;
  const auto error = [&](absl::string_view expected, absl::string_view actual) {
    return absl::InvalidArgumentError(
        absl::StrCat("key ", Quoted(key), ": contribution",
                     worker ? absl::StrCat(" of worker ", worker->rank) : "",
                     ": expected ", expected, ", got ", actual));
  };
  if (findings_[position] == GuardFinding::kNotFinite) {
    const absl::Status status = error("finite elements", "Inf or NaN");
    constexpr Reason kReason = Reason::kContributionNotFinite;
    return worker ? WithReason(status, kReason,
                               {{"key", key}, {"rank", worker->rank}})
                  : WithReason(status, kReason, {{"key", key}});
  }
  const bool is_large = FactorOf(norms_[position]) < 1;
  const std::string limit =
      DigitsOf(is_large ? guard_.max_norm : guard_.max_call_norm);
  const absl::Status status =
      error(absl::StrCat("a norm of at most ", limit,
                         is_large ? "" : ", all of the call together"),
            DigitsOf(is_large ? norms_[position] : call_norm_));
  constexpr Reason kReason = Reason::kContributionTooLarge;
  return worker ? WithReason(
                      status, kReason,
                      {{"key", key}, {"rank", worker->rank}, {"limit", limit}})
                : WithReason(status, kReason, {{"key", key}, {"limit", limit}});
}

absl::Status GuardedPush::Check(const PushRequest& request,
                                const EntriesByKey& entries,
                                std::vector<GuardCounts>& counts) const {
  absl::Status status;
  ForEachFinding(entries, [&](uint32_t i) {
    if (status.ok() && Refuses(findings_[i])) status = Refusal(request, i);
  });
  if (status.ok()) return status;
  ForEachFinding(entries, [&](uint32_t i) {
    Count(findings_[i], request.worker, counts);
  });
  return status;
}

// Where anybody may call himself any rank, only those count who have joined:
// there are no more counts than members.
void GuardedPush::Count(GuardFinding finding,
                        const std::optional<Worker>& worker,
                        std::vector<GuardCounts>& counts) const {
  std::optional<uint32_t> rank;
  if (worker && (worker->epoch != 0 || has_ranks_)) {
    rank = worker->rank;
  }
  auto it = std::lower_bound(
      counts.begin(), counts.end(), rank,
      [](const GuardCounts& each, const std::optional<uint32_t>& rank) {
        return each.rank < rank;
      });
  if (it == counts.end() || it->rank != rank) {
    it = counts.insert(it, {.rank = rank});
  }
  ++(finding == GuardFinding::kNotFinite ? it->not_finite : it->too_large);
}

void GuardedPush::SkipAndCount(const EntriesByKey& entries,
                               PushRequest& request,
                               std::vector<GuardCounts>& counts) const {
  ForEachFinding(entries, [&](uint32_t i) {
    Count(findings_[i], request.worker, counts);
    if (findings_[i] == GuardFinding::kNotFinite &&
        guard_.on_non_finite == OnNonFinite::kSkip) {
      request.entries[i].skip = true;
    }
  });
}

GuardEffects GuardedPush::Effects(const EntriesByKey& entries,
                                  bool is_refused) const {
  GuardEffects effects = {.is_refused = is_refused};
  for (const double norm : norms_) {
    effects.greatest_norm = std::max(effects.greatest_norm, norm);
  }
  if (is_refused) return effects;
  ForEachFinding(entries, [&](uint32_t i) {
    const bool is_large = findings_[i] == GuardFinding::kTooLarge;
    effects.num_clipped += is_large;
    effects.num_skipped +=
        !is_large && guard_.on_non_finite == OnNonFinite::kSkip;
  });
  return effects;
}

}  // namespace tensorkv
