#include "service/store/keyspace/pull/delta_job.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "service/store/counted_buffer.h"
#include "tensor/delta/delta_encoder.h"

namespace tensorkv {

DeltaJob::DeltaJob(DeltaId id, Tensor from, Tensor to, Backend* host)
    : id_(std::move(id)),
      from_(std::move(from)),
      to_(std::move(to)),
      host_(*host),
      hash_(XXH3_createState(), &XXH3_freeState) {
  XXH3_64bits_reset(hash_.get());
}

// Blocks are encoded by themselves, so that a delta is what those of its steps
// are, one after the other.
absl::Status DeltaJob::Step(DeltaCache& cache, DeltaJobScratch& scratch) {
  const size_t bytes = std::min(kStepBytes, value_bytes() - next_);
  ASSIGN_OR_RETURN(const TensorView from,
                   Convert(from_, next_, bytes, scratch.from));
  ASSIGN_OR_RETURN(const TensorView to, Convert(to_, next_, bytes, scratch.to));
  DeltaEncoder encoder(from, to, id_.encodings);
  for (size_t i = 0; i < encoder.num_blocks(); ++i) {
    encoder.EncodeBlock(i, scratch.blocks);
  }
  const size_t encoded_bytes = encoder.size_bytes();
  ASSIGN_OR_RETURN(Reservation reservation, cache.Reserve(encoded_bytes));
  pieces_bytes_.Merge(std::move(reservation));
  encoder.Write(pieces_.emplace_back(encoded_bytes, '\0').data());
  encoded_bytes_ += encoded_bytes;
  XXH3_64bits_update(hash_.get(), to.data, bytes);
  // The whole takes no more.
  next_ = encoded_bytes_ >= value_bytes() ? value_bytes() : next_ + bytes;
  return absl::OkStatus();
}

absl::StatusOr<TensorView> DeltaJob::Convert(const Tensor& value, size_t begin,
                                             size_t bytes,
                                             std::string& memory) const {
  const auto num_elements = static_cast<int64_t>(bytes / SizeOf(id_.dtype));
  const size_t first = begin / SizeOf(id_.dtype);
  const TensorView stored = {value.dtype(), num_elements,
                             value.data() + first * SizeOf(value.dtype())};
  if (value.dtype() == id_.dtype) return stored;
  GrowTo(bytes, memory);
  TensorUpdate cast;
  cast.rule = &UpdateRule::Assign();
  cast.contributions = absl::MakeConstSpan(&stored, 1);
  cast.value = {id_.dtype, num_elements, memory.data()};
  RETURN_IF_ERROR(host_.Apply(absl::MakeConstSpan(&cast, 1)));
  return TensorView(cast.value);
}

absl::StatusOr<CachedDeltaPtr> DeltaJob::Finish(DeltaCache& cache) {
  if (encoded_bytes_ >= value_bytes()) return nullptr;
  ASSIGN_OR_RETURN(Reservation reservation, cache.Reserve(encoded_bytes_));
  ASSIGN_OR_RETURN(
      const RefPtr<Buffer> buffer,
      AllocateReserved(std::move(reservation),
                       [](uint64_t size, RefPtr<MemoryAccount> account) {
                         return HostBuffer::Allocate(size, std::move(account));
                       }));
  char* out = buffer->mutable_data();
  for (const std::string& piece : pieces_) {
    std::memcpy(out, piece.data(), piece.size());
    out += piece.size();
  }
  auto delta = MakeRefCounted<CachedDelta>();
  delta->bytes = Tensor::Unchecked(
      DType::kU8, *Shape::Create({static_cast<int64_t>(encoded_bytes_)}),
      buffer);
  delta->digest = XXH3_64bits_digest(hash_.get());
  return delta;
}

}  // namespace tensorkv
