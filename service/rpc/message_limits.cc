#include "service/rpc/message_limits.h"

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace tensorkv {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedInputStream;

// One field takes so many, rounded up: a string, a map node, a small message.
constexpr uint64_t kBytesPerField = 64;
// One byte of packed numbers may be a 64-bit number of its own.
constexpr uint64_t kBytesPerPackedByte = 8;
// An entry with a key and a tensor of rank 8 stays below this.
constexpr uint64_t kBytesPerEntry = 2048;
// For what every call may have besides entries.
constexpr uint64_t kBytesPerCall = 64 * 1024;

// The contract nests messages 5 deep.
constexpr int kMaxDepth = 16;

// Walks the fields of one encoded message and adds up what they would cost.
class Census {
 public:
  enum class Result { kComplete, kMalformed, kOverBound };

  Census(CodedInputStream* input, uint64_t bound)
      : input_(*input), bound_(bound) {}

  Result Count(const Descriptor& type, int depth = 0) {
    if (depth > kMaxDepth) return Result::kMalformed;
    while (const uint32_t tag = input_.ReadTag()) {
      if (!Add(kBytesPerField)) return Result::kOverBound;
      const Result result = CountField(type, tag, depth);
      if (result != Result::kComplete) return result;
    }
    return input_.ConsumedEntireMessage() ? Result::kComplete
                                          : Result::kMalformed;
  }

 private:
  Result CountField(const Descriptor& type, uint32_t tag, int depth) {
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return CountRun(
            type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag)),
            depth);
      // Groups hide their fields from this count; proto3 has none.
      case WireFormatLite::WIRETYPE_START_GROUP:
      case WireFormatLite::WIRETYPE_END_GROUP:
        return Result::kMalformed;
      default:
        return WireFormatLite::SkipField(&input_, tag) ? Result::kComplete
                                                       : Result::kMalformed;
    }
  }

  // Counts a message, packed numbers, or bytes; `field` is null for unknown
  // fields.
  Result CountRun(const FieldDescriptor* field, int depth) {
    int length = 0;
    if (!input_.ReadVarintSizeAsInt(&length)) return Result::kMalformed;
    if (field != nullptr && field->message_type() != nullptr) {
      return CountNested(*field->message_type(), length, depth + 1);
    }
    const bool is_packed = field != nullptr && field->is_packable();
    if (is_packed && !Add(length * kBytesPerPackedByte)) {
      return Result::kOverBound;
    }
    return input_.Skip(length) ? Result::kComplete : Result::kMalformed;
  }

  Result CountNested(const Descriptor& type, int length, int depth) {
    const auto outer = input_.PushLimit(length);
    Result result = Count(type, depth);
    // The bytes may end before the message does.
    if (result == Result::kComplete && input_.BytesUntilLimit() != 0) {
      result = Result::kMalformed;
    }
    input_.PopLimit(outer);
    return result;
  }

  bool Add(uint64_t bytes) {
    total_ += bytes;
    return total_ <= bound_;
  }

  CodedInputStream& input_;
  const uint64_t bound_;
  uint64_t total_ = 0;
};

}  // namespace

bool HasMoreFieldsThan(size_t max_fields, const grpc::ByteBuffer& bytes) {
  grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(&bytes));
  if (!reader.status().ok()) return false;
  CodedInputStream input(&reader);
  size_t num_fields = 0;
  size_t num_runs = 0;
  while (const uint32_t tag = input.ReadTag()) {
    if (++num_fields > max_fields) return true;
    int length = 0;
    const bool is_run = WireFormatLite::GetTagWireType(tag) ==
                        WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (!is_run) {
      if (!WireFormatLite::SkipField(&input, tag)) return false;
      continue;
    }
    if (!input.ReadVarintSizeAsInt(&length)) return false;
    const uint64_t end =
        static_cast<uint64_t>(input.CurrentPosition()) + length;
    // The fields of the push of a PushPull are those that follow.
    if (++num_runs == 1 && end == bytes.Length()) continue;
    if (!input.Skip(length)) return false;
  }
  return false;
}

absl::Status CheckStructure(const grpc::ByteBuffer& bytes,
                            const Descriptor& type,
                            const MessageLimits& limits) {
  // The reader only reads, whatever its constructor takes.
  grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(&bytes));
  if (!reader.status().ok()) {
    return absl::InternalError(reader.status().error_message());
  }
  CodedInputStream input(&reader);
  Census census(&input, limits.max_entries * kBytesPerEntry + kBytesPerCall);
  switch (census.Count(type)) {
    case Census::Result::kComplete:
      return absl::OkStatus();
    case Census::Result::kOverBound:
      return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                            type.name(), ": more fields than a call of ",
                            limits.max_entries, " entries may have")),
                        Reason::kLimitReached, {{"limit", limits.max_entries}});
    case Census::Result::kMalformed:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("malformed ", type.name(), ": not a message of that type"));
}

}  // namespace tensorkv
