#include "service/store/stored_key.h"

#include <algorithm>
#include <new>
#include <utility>

#include "service/store/names.h"

namespace tensorkv {

// They fit into the bits of name_size_ and rank_.
static_assert(kMaxKeyBytes < 1 << 12 && Shape::kMaxRank < 1 << 4);

RefPtr<StoredKey> StoredKey::Create(absl::string_view name, DType dtype,
                                    const Shape& shape) {
  void* const memory = ::operator new(
      sizeof(StoredKey) + shape.rank() * sizeof(int64_t) + name.size());
  return RefPtr<StoredKey>(new (memory) StoredKey(name, dtype, shape));
}

StoredKey::StoredKey(absl::string_view name, DType dtype, const Shape& shape)
    : dtype_(dtype),
      rank_(static_cast<uint16_t>(shape.rank())),
      name_size_(static_cast<uint16_t>(name.size())) {
  std::copy(shape.dimensions().begin(), shape.dimensions().end(),
            const_cast<int64_t*>(dimensions().data()));
  std::copy(name.begin(), name.end(), const_cast<char*>(name_data()));
}

bool StoredKey::HasContribution(const Worker& worker, Step step) const {
  if (!contributions || worker.rank >= contributions->by_rank.size()) {
    return false;
  }
  const LastContributions::Of& last = contributions->by_rank[worker.rank];
  return last.epoch == worker.epoch && last.step == step;
}

uint64_t StoredKey::BytesToNote(uint32_t rank) const {
  const size_t size = contributions ? contributions->by_rank.size() : 0;
  if (rank < size) return 0;
  return (contributions ? 0 : sizeof(LastContributions)) +
         (rank + 1 - size) * sizeof(LastContributions::Of);
}

void StoredKey::NoteContribution(const Worker& worker, Step step,
                                 Reservation overhead) {
  if (!contributions) contributions = std::make_unique<LastContributions>();
  if (worker.rank >= contributions->by_rank.size()) {
    contributions->by_rank.resize(worker.rank + 1);
    contributions->by_rank.shrink_to_fit();
    contributions->overhead.Merge(std::move(overhead));
  }
  contributions->by_rank[worker.rank] = {worker.epoch, step};
}

StoredKey::~StoredKey() {
  if (!overhead_account_) return;
  overhead_account_->Release(static_cast<int64_t>(KeyOverheadBytes(name())));
}

}  // namespace tensorkv
