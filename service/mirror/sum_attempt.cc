#include "service/mirror/sum_attempt.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/counted_buffer.h"

namespace tensorkv {
namespace {

// Returns where the next tensor may begin.
uint64_t Aligned(uint64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

double WeightOf(const v1::ContributedTensor& announced) {
  return announced.has_weight() ? announced.weight() : 1;
}

// An announcement may be of what was contributed before, and has been dropped.
bool IsWhatWasContributed(const v1::TensorsOfMember& announced,
                          const RoundToSum& round) {
  return std::ranges::equal(
      announced.tensors(), round.tensors,
      [](const v1::ContributedTensor& a, const ContributedTensor& b) {
        return a.rank() == b.rank &&
               a.dtype() == static_cast<v1::DType>(b.dtype) &&
               WeightOf(a) == b.weight;
      });
}

}  // namespace

absl::StatusOr<SumAttempt> SumAttempt::Create(
    MirrorGroupPtr group, std::vector<Round> rounds,
    const RefPtr<BudgetAccount>& account, Backend* device) {
  SumAttempt attempt(std::move(group), account, device);
  attempt.rounds_.reserve(rounds.size());
  for (Round& round : rounds) {
    RETURN_IF_ERROR(attempt.Add(std::move(round)));
  }
  return attempt;
}

ElementRange SumAttempt::RangeOfMember(size_t place, uint32_t member) const {
  return RangeOf(rounds_[place].own.num_elements, place, member,
                 group_->size());
}

absl::Status SumAttempt::Add(Round round) {
  Summing& summing = rounds_.emplace_back();
  summing.own = std::move(round.own);
  summing.sum.version_floor = round.of_all.version_floor();
  const auto malformed = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("round ", summing.own.step, " of \"", summing.own.key,
                     "\": expected what all servers have announced"));
  };
  if (round.of_all.members_size() != static_cast<int>(group_->size())) {
    return malformed();
  }
  for (uint32_t member = 0; member < group_->size(); ++member) {
    for (const auto& tensor : round.of_all.members(member).tensors()) {
      ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(tensor.dtype()));
      const bool is_summed = dtype == summing.own.dtype ||
                             (IsFloat(dtype) && IsFloat(summing.own.dtype));
      const double weight = WeightOf(tensor);
      if (!is_summed || !(weight > 0 && std::isfinite(weight))) {
        return malformed();
      }
      summing.tensors.push_back({tensor.rank(), member, dtype, weight});
    }
  }
  if (!IsWhatWasContributed(round.of_all.members(group_->own), summing.own)) {
    return malformed();
  }
  if (device_ == nullptr) {
    if (summing.own.device != nullptr) {
      RETURN_IF_ERROR(PlaceOnHost(summing.own));
    }
  } else if (summing.own.device != device_) {
    return absl::FailedPreconditionError(
        absl::StrCat("round ", summing.own.step, " of \"", summing.own.key,
                     "\": expected its tensors on ", device_->name()));
  }
  // Tensors of one worker stay in their order.
  std::stable_sort(
      summing.tensors.begin(), summing.tensors.end(),
      [](const Tensor& a, const Tensor& b) { return a.rank < b.rank; });
  return Allocate(summing, rounds_.size() - 1);
}

absl::Status SumAttempt::PlaceOnHost(RoundToSum& round) {
  for (ContributedTensor& tensor : round.tensors) {
    const uint64_t bytes = round.num_elements * SizeOf(tensor.dtype);
    ASSIGN_OR_RETURN(
        RefPtr<Buffer> buffer,
        AllocateCounted(
            account_, bytes, [&](uint64_t size, RefPtr<MemoryAccount> account) {
              return round.device->AllocateStaging(size, std::move(account));
            }));
    char* const on_host = buffer->mutable_data();
    copied_.push_back(std::exchange(tensor.buffer, std::move(buffer)));
    copies_.push_back({std::exchange(tensor.data, on_host), on_host, bytes});
    gathers_from_ = round.device;
  }
  return absl::OkStatus();
}

void SumAttempt::Gather(PlanCallback done) {
  gathers_from_->CopyToHost(std::exchange(copies_, {}), std::move(done));
}

absl::StatusOr<RefPtr<Buffer>> SumAttempt::AllocateForSums(
    const RoundToSum& round, uint64_t bytes) const {
  if (device_ == nullptr) {
    return AllocateCounted(account_, bytes, &HostBuffer::Allocate);
  }
  return AllocateCounted(round.device_account, bytes,
                         [&](uint64_t size, RefPtr<MemoryAccount> account) {
                           return device_->Allocate(size, std::move(account));
                         });
}

absl::Status SumAttempt::Allocate(Summing& summing, size_t place) {
  summing.sum.num_tensors = static_cast<uint32_t>(summing.tensors.size());
  if (summing.tensors.empty()) return absl::OkStatus();
  const uint64_t sum_bytes =
      summing.own.num_elements * SizeOf(AccumulateType(summing.own.dtype));
  ASSIGN_OR_RETURN(summing.sum.buffer, AllocateForSums(summing.own, sum_bytes));
  summing.sum.is_on_device = device_ != nullptr;
  const ElementRange range = RangeOfMember(place, group_->own);
  uint64_t bytes = 0;
  for (const Tensor& tensor : summing.tensors) {
    if (tensor.member == group_->own) continue;
    bytes += Aligned(range.count * SizeOf(tensor.dtype));
  }
  if (range.count == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(summing.received, AllocateForSums(summing.own, bytes));
  size_t next_own = 0;
  uint64_t offset = 0;
  for (Tensor& tensor : summing.tensors) {
    if (tensor.member == group_->own) {
      tensor.range = summing.own.tensors[next_own++].data +
                     range.first * SizeOf(tensor.dtype);
    } else {
      tensor.range = summing.received->data() + offset;
      offset += Aligned(range.count * SizeOf(tensor.dtype));
    }
  }
  return absl::OkStatus();
}

RangesToReceive SumAttempt::ContributionsToReceive() {
  RangesToReceive receives(group_->size());
  for (size_t place = 0; place < rounds_.size(); ++place) {
    const int64_t count = RangeOfMember(place, group_->own).count;
    if (count == 0) continue;
    for (const Tensor& tensor : rounds_[place].tensors) {
      if (tensor.member == group_->own) continue;
      // The memory is `received`, which is this attempt's own.
      receives[tensor.member].push_back(absl::MakeSpan(
          const_cast<char*>(tensor.range), count * SizeOf(tensor.dtype)));
    }
  }
  return receives;
}

RangesToSend SumAttempt::ContributionsToSend() const {
  RangesToSend sends(group_->size());
  for (uint32_t to = 0; to < group_->size(); ++to) {
    if (to == group_->own) continue;
    for (size_t place = 0; place < rounds_.size(); ++place) {
      const ElementRange range = RangeOfMember(place, to);
      if (range.count == 0) continue;
      for (const ContributedTensor& tensor : rounds_[place].own.tensors) {
        const size_t size = SizeOf(tensor.dtype);
        sends[to].push_back(absl::MakeConstSpan(
            tensor.data + range.first * size, range.count * size));
      }
    }
  }
  return sends;
}

RangesToReceive SumAttempt::SumsToReceive() {
  RangesToReceive receives(group_->size());
  for (uint32_t from = 0; from < group_->size(); ++from) {
    if (from == group_->own) continue;
    for (size_t place = 0; place < rounds_.size(); ++place) {
      const ElementRange range = RangeOfMember(place, from);
      Summing& summing = rounds_[place];
      if (range.count == 0 || !summing.sum.buffer) continue;
      const size_t size = SizeOf(AccumulateType(summing.own.dtype));
      receives[from].push_back(absl::MakeSpan(
          summing.sum.buffer->mutable_data() + range.first * size,
          range.count * size));
    }
  }
  return receives;
}

RangesToSend SumAttempt::SumsToSend() const {
  std::vector<absl::Span<const char>> own;
  for (size_t place = 0; place < rounds_.size(); ++place) {
    const ElementRange range = RangeOfMember(place, group_->own);
    const Summing& summing = rounds_[place];
    if (range.count == 0 || !summing.sum.buffer) continue;
    const size_t size = SizeOf(AccumulateType(summing.own.dtype));
    own.push_back(absl::MakeConstSpan(
        summing.sum.buffer->data() + range.first * size, range.count * size));
  }
  RangesToSend sends(group_->size(), own);
  sends[group_->own].clear();
  return sends;
}

absl::Status SumAttempt::SumOwnRanges(Backend& host) const {
  // The updates refer to these.
  std::vector<std::vector<TensorView>> views(rounds_.size());
  std::vector<std::vector<double>> each_weight(rounds_.size());
  std::vector<ContributionWeights> weights(rounds_.size());
  std::vector<TensorUpdate> updates;
  for (size_t place = 0; place < rounds_.size(); ++place) {
    const ElementRange range = RangeOfMember(place, group_->own);
    const Summing& summing = rounds_[place];
    if (range.count == 0 || !summing.sum.buffer) continue;
    for (const Tensor& tensor : summing.tensors) {
      views[place].push_back({tensor.dtype, range.count, tensor.range});
      each_weight[place].push_back(tensor.weight);
      weights[place].total += tensor.weight;
    }
    const DType dtype = AccumulateType(summing.own.dtype);
    updates.push_back({.rule = &UpdateRule::Assign(),
                       .contributions = views[place],
                       .value = {dtype, range.count,
                                 summing.sum.buffer->mutable_data() +
                                     range.first * SizeOf(dtype)}});
    // A single contribution is its own mean.
    if (!summing.own.is_mean || views[place].size() < 2) continue;
    weights[place].each = each_weight[place];
    updates.back().weights = &weights[place];
  }
  return (device_ == nullptr ? host : *device_).Apply(updates);
}

std::vector<SumOfRound> SumAttempt::TakeSums() {
  std::vector<SumOfRound> sums;
  sums.reserve(rounds_.size());
  for (Summing& summing : rounds_) sums.push_back(std::move(summing.sum));
  return sums;
}

}  // namespace tensorkv
