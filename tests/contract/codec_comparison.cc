#include "tests/contract/codec_comparison.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "base/ref_counted.h"
#include "contract/message_writer.h"
#include "contract/payload_reader.h"
#include "contract/proto_codec.h"
#include "contract/stream_codec.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "tensor/bool_elements.h"
#include "tensor/buffer_pool.h"
#include "tests/contract/encoded_bytes.h"

namespace tensorkv::testing {
namespace {

using ::google::protobuf::io::ArrayInputStream;

constexpr uint32_t kMaxEntries = std::numeric_limits<uint32_t>::max();

// A message as the hand-written codec sees it: chunks, and a length that the
// transport gives.
struct Chunks {
  absl::string_view bytes;
  int chunk_bytes = 0;
  uint64_t message_bytes = 0;

  ArrayInputStream Stream() const {
    return ArrayInputStream(bytes.data(), static_cast<int>(bytes.size()),
                            chunk_bytes);
  }
};

// --- Values whose tensors wait for their payloads ---------------------------

InitRequest& ValueOf(DecodedInit& decoded) { return decoded.request; }
PushRequest& ValueOf(DecodedPush& decoded) { return decoded.request; }
PushPullRequest& ValueOf(DecodedPushPull& decoded) { return decoded.request; }
PullReply& ValueOf(DecodedPull& decoded) { return decoded.reply; }

std::vector<InitEntry>& EntriesOf(InitRequest& value) { return value.entries; }
std::vector<PushEntry>& EntriesOf(PushRequest& value) { return value.entries; }
std::vector<Value>& EntriesOf(PullReply& value) { return value.values; }

// Gives every tensor memory of its own.
template <typename Entry>
std::vector<Tensor*> AllocateTensors(std::vector<Entry>& entries) {
  std::vector<Tensor*> tensors;
  for (Entry& entry : entries) {
    Tensor& tensor = entry.tensor;
    tensor = Tensor::Allocate(tensor.dtype(), tensor.shape()).value();
    tensors.push_back(&tensor);
  }
  return tensors;
}

bool HasElementsOfItsType(const Tensor* tensor) {
  const auto size = static_cast<size_t>(tensor->size_bytes());
  return CheckBoolElements(tensor->dtype(), {tensor->data(), size}).ok();
}

// Reads with `kRead`, a function of payload_reader.h.
template <auto kRead>
auto ReadWithPayloads(const Chunks& chunks) {
  ArrayInputStream metadata = chunks.Stream();
  auto decoded = kRead(&metadata, chunks.message_bytes, kMaxEntries);
  using Value = std::remove_reference_t<decltype(ValueOf(*decoded))>;
  std::optional<Value> value;
  if (!decoded) return value;
  const std::vector<Tensor*> tensors =
      AllocateTensors(EntriesOf(ValueOf(*decoded)));
  ArrayInputStream payloads = chunks.Stream();
  // As who reads payloads does.
  if (ReadPayloads(&payloads, decoded->payloads, tensors) &&
      absl::c_all_of(tensors, HasElementsOfItsType)) {
    value = std::move(ValueOf(*decoded));
  }
  return value;
}

template <typename T>
absl::StatusOr<T> AsStatusOr(absl::StatusOr<T> value) {
  return value;
}
template <typename T>
absl::StatusOr<T> AsStatusOr(T value) {
  return value;
}

template <typename Proto>
auto FromBytes(absl::string_view bytes) {
  Proto proto;
  const bool parsed =
      proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  auto value = AsStatusOr(FromProto(std::move(proto)));
  using Value = typename decltype(value)::value_type;
  std::optional<Value> result;
  if (parsed && value.ok()) result = *std::move(value);
  return result;
}

template <typename Proto, typename Value>
std::string ToBytes(const Value& value) {
  Proto proto;
  ToProto(value, &proto);
  return proto.SerializeAsString();
}

// --- Both codecs, for every kind --------------------------------------------

struct Init {
  static constexpr auto ReadByHand = ReadWithPayloads<ReadInit>;
  static constexpr auto WriteByHand = EncodeInit;
  static constexpr auto Read = FromBytes<v1::InitRequest>;
  static constexpr auto Write = ToBytes<v1::InitRequest, InitRequest>;
};

struct Push {
  static constexpr auto ReadByHand = ReadWithPayloads<ReadPush>;
  static EncodedMessage WriteByHand(const PushRequest& request) {
    const auto pool = MakeRefCounted<BufferPool>(/*max_idle_bytes=*/1 << 20);
    return EncodePush(request, pool.get());
  }
  static constexpr auto Read = FromBytes<v1::PushRequest>;
  static constexpr auto Write = ToBytes<v1::PushRequest, PushRequest>;
};

struct PushPull {
  static constexpr auto ReadByHand = ReadWithPayloads<ReadPushPull>;
  static EncodedMessage WriteByHand(const PushPullRequest& request) {
    return EncodePushPull(request);
  }
  static constexpr auto Read = FromBytes<v1::PushPullRequest>;
  static constexpr auto Write = ToBytes<v1::PushPullRequest, PushPullRequest>;
};

struct Reply {
  static constexpr auto ReadByHand = ReadWithPayloads<ReadPullReply>;
  static constexpr auto WriteByHand = EncodePullReply;
  static constexpr auto Read = FromBytes<v1::PullResponse>;
  static constexpr auto Write = ToBytes<v1::PullResponse, PullReply>;
};

template <auto kRead>
auto ReadWhole(const Chunks& chunks) {
  ArrayInputStream in = chunks.Stream();
  return kRead(&in, chunks.message_bytes, kMaxEntries);
}

struct PushResults {
  static constexpr auto ReadByHand = ReadWhole<ReadPushReply>;
  static constexpr auto WriteByHand = EncodePushReply;
  static constexpr auto Read = FromBytes<v1::PushResponse>;
  static constexpr auto Write = ToBytes<v1::PushResponse, PushReply>;
};

struct Pull {
  static constexpr auto ReadByHand = ReadWhole<ReadPull>;
  static EncodedMessage WriteByHand(const PullRequest& request) {
    return EncodePull(request);
  }
  static constexpr auto Read = FromBytes<v1::PullRequest>;
  static constexpr auto Write = ToBytes<v1::PullRequest, PullRequest>;
};

struct PullStream {
  static constexpr auto ReadByHand = ReadWhole<ReadPullStream>;
  static EncodedMessage WriteByHand(const PullStreamRequest& request) {
    return EncodePullStream(request);
  }
  static constexpr auto Read = FromBytes<v1::PullStreamRequest>;
  static constexpr auto Write =
      ToBytes<v1::PullStreamRequest, PullStreamRequest>;
};

std::optional<DecodedPull> ReadBatch(ArrayInputStream* in,
                                     uint64_t message_bytes,
                                     uint32_t max_entries) {
  std::optional<DecodedPull> decoded(std::in_place);
  if (ReadPullBatch(in, message_bytes, max_entries, &*decoded)) return decoded;
  return std::nullopt;
}

struct PullBatch {
  static constexpr auto ReadByHand = ReadWithPayloads<ReadBatch>;
  static EncodedMessage WriteByHand(const PullReply& reply) {
    return EncodePullBatch(reply.values);
  }

  static std::optional<PullReply> Read(absl::string_view bytes) {
    v1::PullChunk chunk;
    if (!chunk.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
        !chunk.has_batch()) {
      return std::nullopt;
    }
    auto reply = FromProto(std::move(*chunk.mutable_batch()));
    if (!reply.ok()) return std::nullopt;
    return *std::move(reply);
  }

  static std::string Write(const PullReply& reply) {
    v1::PullChunk chunk;
    ToProto(reply, chunk.mutable_batch());
    return chunk.SerializeAsString();
  }
};

// A part with its data, and where in its entry it began.
struct PartValue {
  PartRange part;
  std::string data;
};

struct Part {
  static std::optional<PartValue> ReadByHand(const Chunks& chunks) {
    ArrayInputStream header = chunks.Stream();
    const std::optional<EncodedPart> encoded =
        ReadPart(&header, chunks.message_bytes);
    // The stream may be shorter than the chunk is said to be.
    if (!encoded || encoded->data.size_bytes > chunks.bytes.size()) {
      return std::nullopt;
    }
    PartValue value = {encoded->part, std::string(encoded->data.size_bytes, 0)};
    ArrayInputStream data = chunks.Stream();
    if (!CopyRange(&data, encoded->data, value.data.data())) {
      return std::nullopt;
    }
    return value;
  }

  static EncodedMessage WriteByHand(const PartValue& value) {
    std::string elements(value.part.offset, 0);
    elements += value.data;
    const auto size = static_cast<int64_t>(elements.size());
    return EncodePart(
        value.part,
        Tensor::CopyOf(DType::kU8, {size}, elements.data()).value());
  }

  static std::optional<PartValue> Read(absl::string_view bytes) {
    v1::PushChunk proto;
    if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
        !proto.has_part()) {
      return std::nullopt;
    }
    const v1::Part& part = proto.part();
    return PartValue{{part.entry(), part.offset(), part.data().size()},
                     part.data()};
  }

  static std::string Write(const PartValue& value) {
    v1::PushChunk proto;
    v1::Part& part = *proto.mutable_part();
    part.set_entry(value.part.entry);
    part.set_offset(value.part.offset);
    part.set_data(value.data);
    return proto.SerializeAsString();
  }
};

// Whether a test can have the tensor that the value is written from.
template <typename Value>
bool IsWritable(const Value&) {
  return true;
}
bool IsWritable(const PartValue& value) { return value.part.offset < 65'536; }
bool IsWritable(const PullStreamRequest& request) {
  const auto* const pull = std::get_if<PullRequest>(&request.request);
  return request.stripe == Stripe() && pull != nullptr &&
         absl::c_all_of(pull->entries,
                        [](const PullEntry& entry) { return !entry.rows; });
}

// What is wrong with how `value` is written, and that is read again.
template <typename Kind, typename Value>
std::string WritingDisagreement(const Value& value, int chunk_bytes) {
  const std::string canonical = Kind::Write(value);
  if (BytesOf(Kind::WriteByHand(value)) != canonical) {
    return "writes other bytes";
  }
  const auto again =
      Kind::ReadByHand({canonical, chunk_bytes, canonical.size()});
  const bool is_same = again && Kind::Write(*again) == canonical;
  return is_same ? "" : "does not read what the generated code writes";
}

template <typename Kind>
CodecComparison Compare(absl::string_view bytes, int chunk_bytes) {
  CodecComparison result;
  const auto by_hand = Kind::ReadByHand({bytes, chunk_bytes, bytes.size()});
  const auto expected = Kind::Read(bytes);
  result.is_read = by_hand.has_value();
  result.is_valid = expected.has_value();
  if (by_hand && !expected) {
    result.disagreement = "reads what is not valid";
  } else if (by_hand && Kind::Write(*by_hand) != Kind::Write(*expected)) {
    result.disagreement = "reads another value";
  } else if (Kind::ReadByHand({bytes, chunk_bytes, bytes.size() + 1})) {
    result.disagreement = "reads beyond the end of the stream";
  } else if (expected && IsWritable(*expected)) {
    result.disagreement = WritingDisagreement<Kind>(*expected, chunk_bytes);
  }
  return result;
}

}  // namespace

CodecComparison CompareCodecs(MessageKind kind, absl::string_view bytes,
                              int chunk_bytes) {
  switch (kind) {
    case MessageKind::kInit:
      return Compare<Init>(bytes, chunk_bytes);
    case MessageKind::kPush:
      return Compare<Push>(bytes, chunk_bytes);
    case MessageKind::kPushPull:
      return Compare<PushPull>(bytes, chunk_bytes);
    case MessageKind::kPullReply:
      return Compare<Reply>(bytes, chunk_bytes);
    case MessageKind::kPart:
      return Compare<Part>(bytes, chunk_bytes);
    case MessageKind::kPushReply:
      return Compare<PushResults>(bytes, chunk_bytes);
    case MessageKind::kPull:
      return Compare<Pull>(bytes, chunk_bytes);
    case MessageKind::kPullStream:
      return Compare<PullStream>(bytes, chunk_bytes);
    case MessageKind::kPullBatch:
      return Compare<PullBatch>(bytes, chunk_bytes);
  }
  return {};
}

}  // namespace tensorkv::testing
