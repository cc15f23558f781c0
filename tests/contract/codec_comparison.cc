#include "tests/contract/codec_comparison.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "base/ref_counted.h"
#include "contract/message_writer.h"
#include "contract/payload_reader.h"
#include "contract/stream_codec.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "tensor/bool_elements.h"
#include "tensor/buffer_pool.h"
#include "tests/contract/encoded_bytes.h"
#include "tests/contract/generated_codec.h"

namespace tensorkv::testing {
namespace {

using ::google::protobuf::io::ArrayInputStream;
using ::google::protobuf::io::CodedOutputStream;
using ::google::protobuf::io::StringOutputStream;

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

template <typename Call>
auto& EntriesOf(Call& call) {
  return call.entries;
}
std::vector<Value>& EntriesOf(PullReply& reply) { return reply.values; }

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

// Gives the tensors of a call their payloads, as who reads payloads does.
template <typename Call>
std::optional<Call> WithPayloads(const Chunks& chunks,
                                 absl::StatusOr<Decoded<Call>> decoded) {
  if (!decoded.ok()) return std::nullopt;
  if constexpr (std::is_same_v<Call, PullReply>) {
    // The values have no elements.
    if (decoded->call.ticket) return std::move(decoded->call);
  }
  const std::vector<Tensor*> tensors =
      AllocateTensors(EntriesOf(decoded->call));
  ArrayInputStream payloads = chunks.Stream();
  if (ReadPayloads(&payloads, decoded->payloads, tensors) &&
      absl::c_all_of(tensors, HasElementsOfItsType)) {
    return std::move(decoded->call);
  }
  return std::nullopt;
}

template <typename Call>
std::optional<Call> ReadWithPayloads(const Chunks& chunks) {
  ArrayInputStream metadata = chunks.Stream();
  return WithPayloads(
      chunks, ReadCall<Call>(&metadata, chunks.message_bytes, kMaxEntries));
}

// Reads a call without payloads.
template <typename Call>
std::optional<Call> ReadWhole(const Chunks& chunks) {
  ArrayInputStream in = chunks.Stream();
  auto decoded = ReadCall<Call>(&in, chunks.message_bytes, kMaxEntries);
  if (!decoded.ok()) return std::nullopt;
  return std::move(decoded->call);
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
  proto.DiscardUnknownFields();  // as who takes every form does
  auto value = AsStatusOr(FromProto(std::move(proto)));
  using Value = typename decltype(value)::value_type;
  std::optional<Value> result;
  if (parsed && value.ok()) result = *std::move(value);
  return result;
}

// Writes the entries of maps in order.
template <typename Proto, typename Value>
std::string ToBytes(const Value& value) {
  Proto proto;
  ToProto(value, &proto);
  std::string bytes;
  {
    StringOutputStream stream(&bytes);
    CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    proto.SerializeToCodedStream(&out);
  }
  return bytes;
}

// --- Both codecs, for every kind --------------------------------------------

// A request that `kRead` reads by hand.
template <typename Request, typename Proto, auto kRead>
struct RequestCodec {
  static constexpr auto ReadByHand = kRead;
  static EncodedMessage WriteByHand(const Request& request) {
    const auto pool = MakeRefCounted<BufferPool>(/*max_idle_bytes=*/1 << 20);
    return EncodeRequest(request, std::nullopt, pool.get());
  }
  static constexpr auto Read = FromBytes<Proto>;
  static constexpr auto Write = ToBytes<Proto, Request>;
};

using Init =
    RequestCodec<InitRequest, v1::InitRequest, ReadWithPayloads<InitRequest>>;
using Push =
    RequestCodec<PushRequest, v1::PushRequest, ReadWithPayloads<PushRequest>>;
using PushPull = RequestCodec<PushPullRequest, v1::PushPullRequest,
                              ReadWithPayloads<PushPullRequest>>;
using PushRows = RequestCodec<PushRowsRequest, v1::PushRowsRequest,
                              ReadWithPayloads<PushRowsRequest>>;
using SetState = RequestCodec<SetStateRequest, v1::SetStateRequest,
                              ReadWithPayloads<SetStateRequest>>;
using Pull = RequestCodec<PullRequest, v1::PullRequest, ReadWhole<PullRequest>>;
using PullRows = RequestCodec<PullRowsRequest, v1::PullRowsRequest,
                              ReadWhole<PullRowsRequest>>;
using GetState = RequestCodec<GetStateRequest, v1::GetStateRequest,
                              ReadWhole<GetStateRequest>>;

struct Reply {
  static constexpr auto ReadByHand = ReadWithPayloads<PullReply>;
  static constexpr auto WriteByHand = EncodePullReply;
  static constexpr auto Read = FromBytes<v1::PullResponse>;
  static constexpr auto Write = ToBytes<v1::PullResponse, PullReply>;
};

struct PushResults {
  static constexpr auto ReadByHand = ReadWhole<PushReply>;
  static constexpr auto WriteByHand = EncodePushReply;
  static constexpr auto Read = FromBytes<v1::PushResponse>;
  static constexpr auto Write = ToBytes<v1::PushResponse, PushReply>;
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
// Several entries of a map are written in any order.
template <typename Call>
requires requires(const Call& call) { call.publish_as; }
bool IsWritable(const Call& call) {
  return !call.publish_as || call.publish_as->metadata_size() <= 1;
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
    case MessageKind::kPushRows:
      return Compare<PushRows>(bytes, chunk_bytes);
    case MessageKind::kPullRows:
      return Compare<PullRows>(bytes, chunk_bytes);
    case MessageKind::kSetState:
      return Compare<SetState>(bytes, chunk_bytes);
    case MessageKind::kGetState:
      return Compare<GetState>(bytes, chunk_bytes);
  }
  return {};
}

}  // namespace tensorkv::testing
