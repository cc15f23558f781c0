#include "contract/grpc_bytes.h"

#include <cstddef>
#include <vector>

#include "base/ref_counted.h"
#include "grpcpp/support/slice.h"
#include "tensor/buffer.h"

namespace tensorkv {
namespace {

// What gRPC keeps within a slice, without an allocation
// (GRPC_SLICE_INLINED_SIZE in 1.51).
constexpr size_t kInlinedBytes = 23;

void DropBuffer(void* buffer) { static_cast<Buffer*>(buffer)->Unref(); }

grpc::Slice ToSlice(const EncodedMessage::Piece& piece) {
  if (piece.size_bytes <= kInlinedBytes) {
    return grpc::Slice(piece.data, piece.size_bytes);
  }
  // gRPC only reads, whatever its constructor takes.
  return grpc::Slice(const_cast<char*>(piece.data), piece.size_bytes,
                     DropBuffer, RefPtr<Buffer>(piece.buffer).release());
}

}  // namespace

grpc::ByteBuffer ToByteBuffer(const EncodedMessage& message) {
  std::vector<grpc::Slice> slices;
  slices.reserve(message.pieces().size());
  for (const EncodedMessage::Piece& piece : message.pieces()) {
    slices.push_back(ToSlice(piece));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace tensorkv
