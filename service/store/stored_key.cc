#include "service/store/stored_key.h"

#include <algorithm>
#include <new>

#include "service/store/names.h"

namespace tensorkv {

static_assert(kMaxKeyBytes <= UINT16_MAX && Shape::kMaxRank <= UINT8_MAX);

RefPtr<StoredKey> StoredKey::Create(absl::string_view name, DType dtype,
                                    const Shape& shape) {
  void* const memory = ::operator new(
      sizeof(StoredKey) + shape.rank() * sizeof(int64_t) + name.size());
  return RefPtr<StoredKey>(new (memory) StoredKey(name, dtype, shape));
}

StoredKey::StoredKey(absl::string_view name, DType dtype, const Shape& shape)
    : dtype_(dtype),
      rank_(static_cast<uint8_t>(shape.rank())),
      name_size_(static_cast<uint16_t>(name.size())) {
  std::copy(shape.dimensions().begin(), shape.dimensions().end(),
            const_cast<int64_t*>(dimensions().data()));
  std::copy(name.begin(), name.end(), const_cast<char*>(name_data()));
}

StoredKey::~StoredKey() {
  if (!overhead_account_) return;
  overhead_account_->Release(static_cast<int64_t>(KeyOverheadBytes(name())));
}

}  // namespace tensorkv
