#include "service/store/keyspace/stored_key.h"

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

std::optional<Contributor> StoredKey::FindContributor(uint32_t rank,
                                                      Step step) const {
  const LastContributions* const known = contributions();
  if (known == nullptr || rank >= known->by_rank.size()) return std::nullopt;
  const LastContributions::Of& last = known->by_rank[rank];
  if (last.step != step) return std::nullopt;
  return Contributor{rank, last.identity};
}

std::vector<ContributionSnapshot> LastContributions::ToSnapshot() const {
  std::vector<ContributionSnapshot> last;
  for (uint32_t rank = 0; rank < by_rank.size(); ++rank) {
    const Of& of = by_rank[rank];
    if (of.step > 0) last.push_back({{rank, of.identity}, of.step});
  }
  return last;
}

uint64_t StoredKey::num_updates_ahead() const {
  uint64_t num_ahead = runs_update ? 1 : 0;
  if (!extras_) return num_ahead;
  for (const PendingUpdate& each : extras_->pending) num_ahead += !each.access;
  return num_ahead;
}

PendingUpdate StoredKey::TakePending() {
  PendingUpdate update = std::move(extras_->pending.front());
  extras_->pending.pop_front();
  if (extras_->pending.empty() && !extras_->contributions) extras_.reset();
  return update;
}

namespace {

// Returns how many ranks a key has place for that had it for `size` and meets
// `rank`.
size_t PlacesFor(uint32_t rank, size_t size) {
  return rank < size ? size : std::max(rank + size_t{1}, 2 * size);
}

}  // namespace

uint64_t StoredKey::BytesToRecord(uint32_t rank) const {
  const LastContributions* const known = contributions();
  const size_t size = known == nullptr ? 0 : known->by_rank.size();
  return (known == nullptr ? sizeof(Extras) + sizeof(LastContributions) : 0) +
         (PlacesFor(rank, size) - size) * sizeof(LastContributions::Of);
}

void StoredKey::RecordContribution(const Contributor& by, Step step,
                                   Reservation overhead) {
  std::unique_ptr<LastContributions>& known = extras().contributions;
  if (!known) known = std::make_unique<LastContributions>();
  std::vector<LastContributions::Of>& by_rank = known->by_rank;
  const size_t places = PlacesFor(by.rank, by_rank.size());
  if (places > by_rank.size()) {
    by_rank.reserve(places);
    by_rank.resize(places);
    known->overhead.Merge(std::move(overhead));
  }
  by_rank[by.rank] = {by.identity, step};
}

StoredKey::~StoredKey() {
  if (!overhead_account_) return;
  overhead_account_->Release(static_cast<int64_t>(KeyOverheadBytes(name())));
}

}  // namespace tensorkv
