#include "kernels/cuda/pinned_copies.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// How many small copies have a table that travels with its launch.
constexpr size_t kMaxCopiesBeside =
    (kMaxTableBeside - UpdateTable::kMaxFunctorBytes) /
    (sizeof(UpdateEntry) + sizeof(SourceArray) +
     PinnedCopies::kMinTransferBytes / kChunkElements * sizeof(WorkChunk));
static_assert(kMaxCopiesBeside > 0);

// The kernel moves bytes as an update that assigns them.
UpdateTable TableOf(absl::Span<const MemoryCopy> copies) {
  UpdateTable table;
  for (const MemoryCopy& copy : copies) {
    const auto size = static_cast<int64_t>(copy.size_bytes);
    const TensorView from = {DType::kU8, size, copy.from};
    table.Add({{.rule = &UpdateRule::Assign(),
                .contributions = {&from, 1},
                .value = {DType::kU8, size, copy.to}}});
  }
  return table;
}

}  // namespace

PinnedCopies::PinnedCopies(std::vector<MemoryCopy> copies, DevicePool& pool,
                           PinnedArena& arena)
    : transfers_(std::move(copies)) {
  const auto first_small = std::stable_partition(
      transfers_.begin(), transfers_.end(), [](const MemoryCopy& copy) {
        return copy.size_bytes >= kMinTransferBytes;
      });
  const std::vector<MemoryCopy> small(first_small, transfers_.end());
  if (small.size() < kMinCopiesOfKernel) return;
  transfers_.erase(first_small, transfers_.end());
  if (AddKernel(small, pool, arena)) return;
  for (size_t i = 0; i < small.size(); i += kMaxCopiesBeside) {
    const auto some = absl::MakeConstSpan(small).subspan(i, kMaxCopiesBeside);
    if (AddKernel(some, pool, arena)) continue;
    transfers_.insert(transfers_.end(), some.begin(), some.end());
  }
}

bool PinnedCopies::AddKernel(absl::Span<const MemoryCopy> copies,
                             DevicePool& pool, PinnedArena& arena) {
  Kernel kernel = {.table = TableOf(copies)};
  const size_t size_bytes = kernel.table.size_bytes();
  char* host = nullptr;
  if (kernel.table.fits_launches()) {
    kernel.beside.resize(size_bytes);
    host = kernel.beside.data();
  } else {
    // The arena comes first: asking it in vain leaves the device alone.
    kernel.on_host = arena.Allocate(size_bytes, /*account=*/nullptr);
    if (!kernel.on_host) return false;
    absl::StatusOr<DeviceMemory> on_device = pool.Allocate(size_bytes);
    if (!on_device.ok()) return false;
    kernel.on_device = *std::move(on_device);
    host = kernel.on_host->mutable_data();
  }
  kernel.table.Write(host);
  kernels_.push_back(std::move(kernel));
  return true;
}

absl::Status PinnedCopies::Enqueue(bool to_device, Stream& stream) const {
  for (const MemoryCopy& copy : transfers_) {
    RETURN_IF_ERROR(
        to_device ? stream.CopyToDevice(copy.to, copy.from, copy.size_bytes)
                  : stream.CopyToHost(copy.to, copy.from, copy.size_bytes));
  }
  for (const Kernel& kernel : kernels_) {
    UpdateTable::Memory memory = {
        .host = kernel.on_host ? kernel.on_host->data() : kernel.beside.data(),
        .device = kernel.on_device.data()};
    RETURN_IF_ERROR(kernel.table.CopyAndLaunch(memory, stream));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
