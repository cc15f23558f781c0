#include "contract/wire_reader.h"

#include <algorithm>
#include <cstring>

#include "base/error_from.h"
#include "google/protobuf/stubs/common.h"

namespace tensorkv::wire {

void WireReader::Fail() {
  static const auto& kCause = *new absl::Status(absl::InvalidArgumentError(
      "not a message of that type, or in another form than writers give it"));
  Fail(kCause);
}

void WireReader::Fail(const absl::Status& cause) {
  if (ok_) status_ = cause;
  ok_ = false;
  next_ = end_;
  SetLimit(0);
}

void WireReader::Explain(absl::string_view subject) {
  status_ = ErrorFrom(subject, status_);
}

bool WireReader::NextChunk() {
  const void* data = nullptr;
  int size = 0;
  while (ok_ && size == 0) {
    if (!in_.Next(&data, &size)) Fail();
  }
  if (!ok_) return false;
  next_ = static_cast<const uint8_t*>(data);
  end_ = next_ + size;
  chunk_end_ += size;
  SetLimit(limit_);
  return true;
}

uint64_t WireReader::ReadLongNumber() {
  constexpr int kBitsPerByte = 7;
  constexpr int kLastShift = 63;
  uint64_t number = 0;
  for (int shift = 0; shift <= kLastShift; shift += kBitsPerByte) {
    if (next_ == end_ && !NextChunk()) return 0;
    const uint8_t byte = *next_++;
    number |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte >= 0x80) continue;
    const bool is_shortest = byte != 0 || shift == 0;
    const bool fits = shift < kLastShift || byte == 1;
    if (is_shortest && fits) return number;
    break;
  }
  Fail();
  return 0;
}

void WireReader::BeginMessage(uint64_t size_bytes) {
  if (size_bytes > bytes_left()) Fail();
  if (ok_) SetLimit(position() + size_bytes);
}

void WireReader::ReadChunks(uint64_t size_bytes, std::string* bytes) {
  bytes->clear();
  while (size_bytes > 0) {
    if (next_ == end_ && !NextChunk()) break;
    const size_t size = std::min<uint64_t>(size_bytes, bytes_in_chunk());
    bytes->append(reinterpret_cast<const char*>(next_), size);
    next_ += size;
    size_bytes -= size;
  }
}

void WireReader::CheckUtf8(const std::string& text) {
  if (!google::protobuf::internal::IsStructurallyValidUTF8(text)) Fail();
}

void WireReader::SkipChunks(uint64_t size_bytes) {
  while (size_bytes > bytes_in_chunk()) {
    size_bytes -= bytes_in_chunk();
    next_ = end_;
    if (!NextChunk()) return;
  }
  next_ += size_bytes;
}

void WireReader::Copy(uint64_t size_bytes, char* destination) {
  while (size_bytes > 0) {
    if (next_ == end_ && !NextChunk()) return;
    const size_t size = std::min<uint64_t>(size_bytes, bytes_in_chunk());
    std::memcpy(destination, next_, size);
    destination += size;
    next_ += size;
    size_bytes -= size;
  }
}

}  // namespace tensorkv::wire
