#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/cpu/key_sums.h"
#include "kernels/cpu/range_update.h"
#include "kernels/cpu/supported_kernels.h"
#include "kernels/cpu/work_partition.h"
#include "kernels/update_check.h"

namespace tensorkv {
namespace {

// Values of many small tensors, and rows of a table, lie all over the memory.
// What follows their first lines the processor foresees.
constexpr size_t kPrefetchDistance = 8;
constexpr size_t kPrefetchedBytes = 256;
constexpr size_t kCacheLineBytes = 64;

void PrefetchStart(const MutableTensorView& tensor) {
  const auto* const data = static_cast<const char*>(tensor.data);
  const size_t size = std::min(tensor.size_bytes(), kPrefetchedBytes);
  for (size_t at = 0; at < size; at += kCacheLineBytes) {
    __builtin_prefetch(data + at, /*rw=*/1);
  }
}

void PrefetchStart(const TensorUpdate& update) {
  PrefetchStart(update.value);
  for (const MutableTensorView& state : update.states) PrefetchStart(state);
}

// Runs what lies between two places of the batch.
void UpdatePart(const KernelTable& kernels,
                absl::Span<const TensorUpdate> batch, const KeySums& sums,
                BatchPosition begin, BatchPosition end) {
  for (size_t i = begin.update; i < end.update; ++i) {
    if (i + kPrefetchDistance < end.update) {
      PrefetchStart(batch[i + kPrefetchDistance]);
    }
    if (!sums.HasUpdated(i)) {
      UpdateRange(kernels, batch[i], begin.element, batch[i].value.num_elements,
                  sums.Of(i));
    }
    begin.element = 0;
  }
  if (end.element > 0 && !sums.HasUpdated(end.update)) {
    UpdateRange(kernels, batch[end.update], begin.element, end.element,
                sums.Of(end.update));
  }
}

void Copy(absl::Span<const MemoryCopy> copies) {
  for (const MemoryCopy& copy : copies) {
    if (copy.size_bytes == 0) continue;
    std::memcpy(copy.to, copy.from, copy.size_bytes);
  }
}

}  // namespace

CpuBackend::CpuBackend(int num_threads)
    : CpuBackend(num_threads, *SupportedKernels().back()) {}

CpuBackend::CpuBackend(int num_threads, const KernelTable& kernels)
    : kernels_(kernels), threads_(num_threads) {}

absl::StatusOr<RefPtr<Buffer>> CpuBackend::Allocate(
    size_t size_bytes, RefPtr<MemoryAccount> account) {
  return HostBuffer::Allocate(size_bytes, std::move(account));
}

absl::Status CpuBackend::Submit(Plan plan, PlanCallback done) {
  const absl::Status status = Run(std::move(plan));
  std::move(done)(status);
  return status;
}

absl::Status CpuBackend::Run(Plan plan) {
  RETURN_IF_ERROR(CheckBatch(plan.updates));
  Copy(plan.uploads);
  for (const MutableTensorView& tensor : plan.zeros) {
    if (tensor.num_elements == 0) continue;
    std::memset(tensor.data, 0, tensor.size_bytes());
  }
  if (!plan.updates.empty()) Update(plan.updates);
  Copy(plan.downloads);
  return absl::OkStatus();
}

void CpuBackend::Update(absl::Span<const TensorUpdate> batch) {
  const KeySums sums(kernels_, threads_, batch);
  const std::vector<BatchPosition> ends = PartitionWork(batch, kBlockElements);
  threads_.ParallelFor(ends.size(), [&](size_t position) {
    const size_t part = sums.IndexAt(position, ends.size());
    const BatchPosition begin = part == 0 ? BatchPosition() : ends[part - 1];
    UpdatePart(kernels_, batch, sums, begin, ends[part]);
  });
}

}  // namespace tensorkv
