#include "service/store/keyspace/gradient_guard.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "kernels/gradient_norm.h"
#include "service/store/keyspace/staged_tensors.h"
#include "service/store/keyspace/worker_group.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

GradientNorm NormOf(const PushEntry& entry) {
  return entry.encoding ? NormOf(entry.encoding->packing(), entry.tensor.data())
                        : NormOf(entry.tensor.view());
}

// A copy with memory of the server, unless nobody else sees the present one.
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

// The rank that counts: there may be no more of them than workers.
std::optional<uint32_t> RankOf(const std::optional<Worker>& worker) {
  if (!worker || worker->rank >= kMaxWorkers) return std::nullopt;
  return worker->rank;
}

}  // namespace

absl::Status CheckGuard(const GradientGuard& guard) {
  if (!std::isfinite(guard.max_norm) || guard.max_norm < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_norm: expected a finite number of at least 0, got ",
                     guard.max_norm));
  }
  if (guard.max_norm == 0 && guard.on_large_norm != OnLargeNorm::kClip) {
    return absl::InvalidArgumentError(
        "on_large_norm: expected none without max_norm, got one");
  }
  return absl::OkStatus();
}

void Count(GuardFinding finding, const std::optional<Worker>& worker,
           std::vector<GuardCounts>& counts) {
  const std::optional<uint32_t> rank = RankOf(worker);
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

absl::Status GuardedPush::Look(PushRequest& request) {
  if (!guard_.is_on()) return absl::OkStatus();
  for (size_t i = 0; i < request.entries.size(); ++i) {
    PushEntry& entry = request.entries[i];
    if (entry.skip || !IsFloat(entry.dtype())) continue;
    GuardFinding finding = GuardFinding::kNothing;
    RETURN_IF_ERROR(LookAt(entry, finding));
    if (finding == GuardFinding::kNothing) continue;
    findings_.resize(request.entries.size());
    findings_[i] = finding;
  }
  return absl::OkStatus();
}

absl::Status GuardedPush::LookAt(PushEntry& entry, GuardFinding& finding) {
  const GradientNorm found = NormOf(entry);
  if (!found.is_finite) {
    if (guard_.on_non_finite != OnNonFinite::kApply) {
      finding = GuardFinding::kNotFinite;
    }
    return absl::OkStatus();
  }
  if (guard_.max_norm == 0 || found.norm <= guard_.max_norm) {
    return absl::OkStatus();
  }
  finding = GuardFinding::kTooLarge;
  if (guard_.on_large_norm == OnLargeNorm::kRefuse) return absl::OkStatus();
  return Clip(guard_.max_norm / found.norm, entry);
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
  const std::string by =
      request.worker ? absl::StrCat(" of worker ", request.worker->rank) : "";
  const bool is_finite = findings_[position] == GuardFinding::kTooLarge;
  const Reason reason = is_finite ? Reason::kContributionTooLarge
                                  : Reason::kContributionNotFinite;
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(
      "key ", Quoted(key), ": contribution", by, ": expected ",
      is_finite ? absl::StrCat("a norm of at most ", guard_.max_norm,
                               ", got a larger one")
                : "finite elements, got Inf or NaN"));
  if (!request.worker) {
    return is_finite ? WithReason(status, reason,
                                  {{"key", key}, {"limit", guard_.max_norm}})
                     : WithReason(status, reason, {{"key", key}});
  }
  const uint32_t rank = request.worker->rank;
  return is_finite
             ? WithReason(
                   status, reason,
                   {{"key", key}, {"rank", rank}, {"limit", guard_.max_norm}})
             : WithReason(status, reason, {{"key", key}, {"rank", rank}});
}

absl::Status GuardedPush::Check(const PushRequest& request,
                                const EntriesByKey& entries) const {
  absl::Status status;
  ForEachFinding(entries, [&](uint32_t i) {
    if (status.ok() && Refuses(findings_[i])) status = Refusal(request, i);
  });
  return status;
}

void GuardedPush::TakeEffect(const EntriesByKey& entries, PushRequest& request,
                             std::vector<GuardCounts>& counts) const {
  ForEachFinding(entries, [&](uint32_t i) {
    Count(findings_[i], request.worker, counts);
    if (findings_[i] == GuardFinding::kNotFinite &&
        guard_.on_non_finite == OnNonFinite::kSkip) {
      request.entries[i].skip = true;
    }
  });
}

}  // namespace tensorkv
