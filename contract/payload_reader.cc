#include "contract/payload_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "contract/encoding.h"
#include "contract/short_fields.h"
#include "contract/wire_reader.h"
#include "contract/wire_tags.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace tensorkv {
namespace {

using ::google::protobuf::io::ZeroCopyInputStream;
using wire::WireReader;

// --- Parts of messages ------------------------------------------------------

void Read(WireReader& in, CallId* call_id) {
  if (in.Accept(wire::kClientId)) in.ReadBytes(&call_id->client_id);
  if (in.Accept(wire::kSequence)) call_id->sequence = in.ReadNumber();
  call_id->answered_below =
      in.Accept(wire::kAnsweredBelow) ? in.ReadNumber() : 0;
}

void Read(WireReader& in, Worker* worker) {
  if (!in.Accept(wire::kRank)) return in.Fail();
  worker->rank = in.ReadNumberUpTo(std::numeric_limits<uint32_t>::max());
  if (in.Accept(wire::kEpoch)) worker->epoch = in.ReadNumber();
}

void Read(WireReader& in, OnExisting* on_existing) {
  switch (in.ReadNumber()) {
    case v1::ON_EXISTING_UNSPECIFIED:
    case v1::ON_EXISTING_FAIL:
      *on_existing = OnExisting::kFail;
      break;
    case v1::ON_EXISTING_KEEP:
      *on_existing = OnExisting::kKeep;
      break;
    case v1::ON_EXISTING_REPLACE:
      *on_existing = OnExisting::kReplace;
      break;
    default:
      in.Fail();
  }
}

absl::StatusOr<Shape> ReadShape(WireReader& in) {
  std::array<int64_t, Shape::kMaxRank> dimensions;
  size_t rank = 0;
  if (in.Accept(wire::kTensorShape)) {
    in.ReadMessage([&] {
      for (; in.bytes_left() > 0 && rank < dimensions.size(); ++rank) {
        dimensions[rank] = static_cast<int64_t>(in.ReadNumber());
      }
    });
  }
  return Shape::Create(absl::MakeConstSpan(dimensions).first(rank));
}

PayloadRange ReadPayloadRange(WireReader& in) {
  const uint64_t size_bytes = in.ReadLength();
  const PayloadRange range = {in.position(), size_bytes};
  in.Skip(size_bytes);
  return range;
}

constexpr uint64_t kMaxDType = std::size(kAllDTypes);

// What a Tensor says of its elements.
struct TensorType {
  DType dtype = DType::kUnknown;
  Shape shape;
};

TensorType ReadType(WireReader& in, PayloadRange* payload) {
  const uint64_t dtype =
      in.Accept(wire::kTensorDType) ? in.ReadNumberUpTo(kMaxDType) : 0;
  const absl::StatusOr<Shape> shape = ReadShape(in);
  if (in.Accept(wire::kTensorData)) *payload = ReadPayloadRange(in);
  if (!in.ok() || dtype == 0 || !shape.ok()) {
    in.Fail();
    return {};
  }
  return {static_cast<DType>(dtype), *shape};
}

void Read(WireReader& in, Tensor* tensor, PayloadRange* payload) {
  const TensorType type = ReadType(in, payload);
  if (!in.ok()) return;
  absl::StatusOr<Tensor> read = Tensor::WithoutData(type.dtype, type.shape);
  if (!read.ok()) return in.Fail();
  *tensor = *std::move(read);
  const uint64_t expected_bytes = tensor->size_bytes();
  if (payload->size_bytes != expected_bytes) in.Fail();
}

// Reads the tensors of one message. Most of them have the type of the one
// before: then all that comes before the elements is the same bytes again, and
// says the same again.
class TensorReader {
 public:
  // Reads all of an entry that has little, in its usual form, before a tensor
  // of the type of the one before, if all up to its elements is in one chunk.
  // That is what most entries are; of all others nothing is read, and it is
  // false.
  template <typename Entry>
  bool ReadEntry(WireReader& in, std::vector<Entry>* entries,
                 std::vector<PayloadRange>* payloads) const;

  // Reads the field `tag`, which must be there.
  void Read(WireReader& in, wire::Tag tag, Tensor* tensor,
            PayloadRange* payload) {
    if (size_ > 0 && in.AcceptBytes({header_.data(), size_})) {
      *payload = {in.position(), payload_bytes_};
      if (payload_bytes_ > in.bytes_left()) return in.Fail();
      in.Skip(payload_bytes_);
      *tensor = type_;
      return;
    }
    const absl::string_view ahead = in.Peek(header_.size());
    std::copy(ahead.begin(), ahead.end(), header_.begin());
    size_ = 0;
    const uint64_t begin = in.position();
    if (!in.Accept(tag)) return in.Fail();
    in.ReadMessage([&] { tensorkv::Read(in, tensor, payload); });
    const bool is_whole =
        payload->size_bytes > 0 && payload->offset - begin <= ahead.size();
    if (!in.ok() || !is_whole) return;
    size_ = payload->offset - begin;
    payload_bytes_ = payload->size_bytes;
    type_ = *tensor;
  }

 private:
  // What came before the elements of the last one, from its tag on. Empty if
  // that was not in one chunk, or longer.
  std::array<char, 32> header_;
  size_t size_ = 0;
  uint64_t payload_bytes_ = 0;
  Tensor type_;  // without data
};

// How far ahead of an entry the memory of others is fetched.
constexpr size_t kEntriesAhead = 6;

template <typename Entry>
bool TensorReader::ReadEntry(WireReader& in, std::vector<Entry>* entries,
                             std::vector<PayloadRange>* payloads) const {
  if (size_ == 0) return false;
  const absl::string_view ahead =
      in.Peek(4 + wire::kMaxShortKeyBytes + header_.size());
  size_t length = 0;
  const size_t begin = wire::ReadShortLength(ahead, &length);
  if (begin == 0 || begin + length > in.bytes_left()) return false;
  // Entries of a kind follow one another at equal distances. What is left of
  // their elements here is fetched by whoever reads these.
  const char* const later = ahead.data() + kEntriesAhead * (begin + length);
  __builtin_prefetch(later);
  __builtin_prefetch(later + 64);
  wire::ShortFields<Entry> fields;
  const size_t before = fields.Read(ahead.substr(begin));
  const size_t payload_begin = begin + before + size_;
  if (before == 0 || payload_begin > ahead.size() ||
      length != before + size_ + payload_bytes_ ||
      std::memcmp(ahead.data() + begin + before, header_.data(), size_) != 0) {
    return false;
  }
  fields.AddTo(entries, type_);
  payloads->push_back({in.position() + payload_begin, payload_bytes_});
  in.Skip(begin + length);
  return true;
}

float ReadFloat(WireReader& in) {
  return std::bit_cast<float>(in.ReadFixed32());
}

void ReadTwoBit(WireReader& in, Packing* packing) {
  if (in.Accept(wire::kTwoBitThreshold)) packing->scale = ReadFloat(in);
}

void ReadOneBit(WireReader& in, Packing* packing) {
  if (in.Accept(wire::kOneBitScale)) packing->scale = ReadFloat(in);
}

void ReadTopK(WireReader& in, Packing* packing) {
  if (in.Accept(wire::kTopKCount)) packing->count = in.ReadNumber();
}

void ReadRandomK(WireReader& in, Packing* packing) {
  constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
  if (in.Accept(wire::kRandomKBlockSize)) {
    packing->block_size = in.ReadNumberUpTo(kMax);
  }
  if (in.Accept(wire::kRandomKSeed)) packing->seed = in.ReadFixed64();
}

void ReadDithering(WireReader& in, Packing* packing) {
  constexpr uint64_t kMaxBits = 8;
  if (in.Accept(wire::kDitheringBits)) {
    packing->bits = in.ReadNumberUpTo(kMaxBits);
  }
  if (in.Accept(wire::kDitheringNorm)) packing->scale = ReadFloat(in);
  if (in.Accept(wire::kDitheringNatural)) {
    packing->is_natural = in.ReadNumberUpTo(1) == 1;
  }
}

void ReadBlocks(WireReader& in, Packing* packing) {
  constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
  if (in.Accept(wire::kBlockElement)) {
    packing->element_dtype = in.ReadNumberUpTo(kMaxDType);
  }
  if (in.Accept(wire::kBlockSize)) {
    packing->block_size = in.ReadNumberUpTo(kMax);
  }
}

void Read(WireReader& in, Packing* packing) {
  using ReadKind = void (*)(WireReader&, Packing*);
  constexpr struct {
    wire::Tag tag;
    PackingKind kind;
    ReadKind read;
  } kKinds[] = {{wire::kTwoBit, PackingKind::kTwoBit, ReadTwoBit},
                {wire::kOneBit, PackingKind::kOneBit, ReadOneBit},
                {wire::kTopK, PackingKind::kTopK, ReadTopK},
                {wire::kRandomK, PackingKind::kRandomK, ReadRandomK},
                {wire::kDithering, PackingKind::kDithering, ReadDithering},
                {wire::kBlocks, PackingKind::kBlocks, ReadBlocks}};
  for (const auto& [tag, kind, read] : kKinds) {
    if (!in.Accept(tag)) continue;
    packing->kind = kind;
    return in.ReadMessage([&, read = read] { read(in, packing); });
  }
  in.Fail();
}

// Reads a tensor that is packed like that.
void Read(WireReader& in, const Packing& packing, PushEntry* entry,
          PayloadRange* payload) {
  const TensorType type = ReadType(in, payload);
  if (!in.ok()) return;
  absl::StatusOr<RefPtr<const Encoding>> encoding =
      Encoding::Create(packing, type.dtype, type.shape);
  if (!encoding.ok()) return in.Fail();
  const int64_t bytes = (*encoding)->payload_bytes();
  if (payload->size_bytes != static_cast<uint64_t>(bytes)) return in.Fail();
  entry->encoding = *std::move(encoding);
  entry->tensor = *Tensor::WithoutData(DType::kU8, {bytes});
}

// Reads a CallId or Worker, if there is one.
template <typename T>
void ReadIfPresent(WireReader& in, wire::Tag tag, std::optional<T>* value) {
  if (!in.Accept(tag)) return;
  in.ReadMessage([&] { Read(in, &value->emplace()); });
}

// --- Entries ----------------------------------------------------------------

void Read(WireReader& in, TensorReader& tensors, InitEntry* entry,
          PayloadRange* payload) {
  if (in.Accept(wire::kInitEntryKey)) in.ReadText(&entry->key);
  tensors.Read(in, wire::kInitEntryTensor, &entry->tensor, payload);
}

void Read(WireReader& in, TensorReader& tensors, PushEntry* entry,
          PayloadRange* payload) {
  if (in.Accept(wire::kPushEntryKey)) in.ReadText(&entry->key);
  if (in.Accept(wire::kPushEntrySkip)) entry->skip = in.ReadNumberUpTo(1) == 1;
  if (entry->skip) return;  // whatever follows is left over
  Packing packing;
  const bool is_encoded = in.Accept(wire::kPushEntryEncoding);
  if (is_encoded) in.ReadMessage([&] { Read(in, &packing); });
  if (in.Accept(wire::kPushEntryWeight)) {
    entry->weight = std::bit_cast<double>(in.ReadFixed64());
  }
  if (!is_encoded) {
    return tensors.Read(in, wire::kPushEntryTensor, &entry->tensor, payload);
  }
  if (!in.Accept(wire::kPushEntryTensor)) return in.Fail();
  in.ReadMessage([&] { Read(in, packing, entry, payload); });
}

void Read(WireReader& in, TensorReader& tensors, Value* value,
          PayloadRange* payload) {
  if (in.Accept(wire::kValueVersion)) value->version = in.ReadNumber();
  if (in.Accept(wire::kValueNumContributions)) {
    value->num_contributions =
        static_cast<uint32_t>(in.ReadNumberUpTo(UINT32_MAX));
  }
  tensors.Read(in, wire::kValueTensor, &value->tensor, payload);
}

// --- Messages ---------------------------------------------------------------

// Returns how many entries there are if the first one, which was just read from
// `begin` on, is like the others; but no more than there are if each has
// `least_bytes`.
uint64_t NumLikeFirst(const WireReader& in, uint64_t begin,
                      uint64_t least_bytes, uint32_t max_entries) {
  const uint64_t bytes = std::max(in.position() - begin, least_bytes);
  return std::min<uint64_t>(max_entries, 1 + in.bytes_left() / bytes);
}

// Reads the entries of one message and the places of their payloads.
class EntryReader {
 public:
  EntryReader(uint32_t max_entries, std::vector<PayloadRange>* payloads)
      : max_entries_(max_entries), payloads_(*payloads) {}

  template <typename Entry>
  void Read(WireReader& in, wire::Tag tag, std::vector<Entry>* entries) const {
    const uint64_t begin = in.position();
    TensorReader tensors;
    while (in.Accept(tag)) {
      if (entries->size() == max_entries_) return in.Fail();
      if (tensors.ReadEntry(in, entries, &payloads_)) continue;
      Entry& entry = entries->emplace_back();
      PayloadRange& payload = payloads_.emplace_back();
      in.ReadMessage([&] { tensorkv::Read(in, tensors, &entry, &payload); });
      if (entries->size() > 1) continue;
      // For no more bytes than the message has, whatever the others are.
      entries->reserve(NumLikeFirst(in, begin, sizeof(Entry), max_entries_));
      payloads_.reserve(entries->capacity());
    }
  }

 private:
  const uint32_t max_entries_;
  std::vector<PayloadRange>& payloads_;
};

void Read(WireReader& in, const EntryReader& entries, InitRequest* request) {
  if (in.Accept(wire::kInitNamespace)) in.ReadText(&request->name_space);
  ReadIfPresent(in, wire::kInitCallId, &request->call_id);
  if (in.Accept(wire::kInitNamespaceUid)) {
    request->namespace_uid = in.ReadFixed64();
  }
  if (in.Accept(wire::kInitOnExisting)) Read(in, &request->on_existing);
  entries.Read(in, wire::kInitEntries, &request->entries);
}

void Read(WireReader& in, const EntryReader& entries, PushRequest* request) {
  if (in.Accept(wire::kPushNamespace)) in.ReadText(&request->name_space);
  ReadIfPresent(in, wire::kPushCallId, &request->call_id);
  if (in.Accept(wire::kPushNamespaceUid)) {
    request->namespace_uid = in.ReadFixed64();
  }
  ReadIfPresent(in, wire::kPushWorker, &request->worker);
  if (in.Accept(wire::kPushStep)) request->step = in.ReadNumber();
  entries.Read(in, wire::kPushEntries, &request->entries);
}

void Read(WireReader& in, const EntryReader& entries,
          PushPullRequest* request) {
  if (in.Accept(wire::kPushPullMaxReplyBytes)) {
    request->max_reply_bytes = in.ReadNumber();
  }
  if (in.Accept(wire::kPushPullDType)) {
    request->dtype = static_cast<DType>(in.ReadNumberUpTo(kMaxDType));
  }
  if (!in.Accept(wire::kPushPullPush)) return in.Fail();
  PushRequest* const push = request;
  in.ReadMessage([&] { Read(in, entries, push); });
}

void Read(WireReader& in, const EntryReader& entries, PullReply* reply) {
  entries.Read(in, wire::kReplyValues, &reply->values);
}

// --- Messages without payloads ----------------------------------------------

void Read(WireReader& in, PullEntry* entry) {
  if (in.Accept(wire::kPullEntryKey)) in.ReadText(&entry->key);
  if (in.Accept(wire::kPullEntryMinVersion)) {
    entry->min_version = in.ReadNumber();
  }
}

// Reads all of an entry that has nothing but a short key, in ASCII and in this
// chunk, as most have. All others are left as they are, and it is false.
bool ReadAtOnce(WireReader& in, PullEntry* entry) {
  const absl::string_view ahead = in.Peek(3 + wire::kMaxShortKeyBytes);
  if (ahead.empty()) return false;
  const size_t length = static_cast<uint8_t>(ahead[0]);
  if (length >= 0x80 || length >= ahead.size() || length >= in.bytes_left()) {
    return false;
  }
  absl::string_view key;
  const size_t size =
      wire::ReadShortKey(ahead.substr(1, length), wire::kPullEntryKey, &key);
  if (size != length || size == 0) return false;
  entry->key.append(key.data(), key.size());
  in.Skip(1 + length);
  return true;
}

// Reads a result at once if it has a version alone; else false, and nothing of
// it has been read.
bool ReadAtOnce(WireReader& in, PushResult* result) {
  const absl::string_view ahead = in.Peek(2 + wire::kMaxShortNumberBytes);
  if (ahead.empty()) return false;
  const size_t length = static_cast<uint8_t>(ahead[0]);
  if (length >= ahead.size() || length >= in.bytes_left()) return false;
  const size_t size = wire::ReadShortNumber(
      ahead.substr(1, length), wire::kPushResultVersion, &result->version);
  if (size == length && size > 0) {
    in.Skip(1 + length);
    return true;
  }
  result->version = 0;
  return false;
}

void Read(WireReader& in, PushResult* result) {
  if (in.Accept(wire::kPushResultVersion)) result->version = in.ReadNumber();
  if (in.Accept(wire::kPushResultStep)) result->step = in.ReadNumber();
  if (in.Accept(wire::kPushResultRepeated)) {
    result->repeated = in.ReadNumberUpTo(1) == 1;
  }
}

template <typename Entry>
void ReadEntries(WireReader& in, wire::Tag tag, uint32_t max_entries,
                 std::vector<Entry>* entries) {
  // An entry has a few times the bytes that encode it.
  constexpr uint64_t kLeastBytes = sizeof(Entry) / 8;
  const uint64_t begin = in.position();
  while (in.Accept(tag)) {
    if (entries->size() == max_entries) return in.Fail();
    Entry& entry = entries->emplace_back();
    if (entries->size() > 1 && ReadAtOnce(in, &entry)) continue;
    in.ReadMessage([&] { Read(in, &entry); });
    if (entries->size() > 1) continue;
    entries->reserve(NumLikeFirst(in, begin, kLeastBytes, max_entries));
  }
}

void Read(WireReader& in, uint32_t max_entries, PullRequest* request) {
  if (in.Accept(wire::kPullNamespace)) in.ReadText(&request->name_space);
  if (in.Accept(wire::kPullNamespaceUid)) {
    request->namespace_uid = in.ReadFixed64();
  }
  ReadIfPresent(in, wire::kPullWorker, &request->worker);
  if (in.Accept(wire::kPullWaitForKeys)) {
    request->wait_for_keys = in.ReadNumberUpTo(1) == 1;
  }
  if (in.Accept(wire::kPullMaxReplyBytes)) {
    request->max_reply_bytes = in.ReadNumber();
  }
  if (in.Accept(wire::kPullDType)) {
    request->dtype = static_cast<DType>(in.ReadNumberUpTo(kMaxDType));
  }
  ReadEntries(in, wire::kPullEntries, max_entries, &request->entries);
}

// Returns what `read_fields` reads of a message, if that is all of it.
template <typename Result, typename ReadFields>
std::optional<Result> ReadMetadata(ZeroCopyInputStream* stream,
                                   uint64_t message_bytes,
                                   ReadFields read_fields) {
  if (message_bytes > wire::kMaxMessageBytes) return std::nullopt;
  Result result;
  WireReader in(stream, message_bytes);
  read_fields(in, result);
  if (!in.ok() || in.position() != message_bytes) return std::nullopt;
  return result;
}

// Reads the whole of `in`.
template <typename Decoded, typename ReadFields>
std::optional<Decoded> ReadWhole(ZeroCopyInputStream* stream,
                                 uint64_t message_bytes, uint32_t max_entries,
                                 ReadFields read_fields) {
  return ReadMetadata<Decoded>(
      stream, message_bytes, [&](WireReader& in, Decoded& decoded) {
        read_fields(in, EntryReader(max_entries, &decoded.payloads), decoded);
      });
}

}  // namespace

std::optional<DecodedInit> ReadInit(ZeroCopyInputStream* in,
                                    uint64_t message_bytes,
                                    uint32_t max_entries) {
  return ReadWhole<DecodedInit>(
      in, message_bytes, max_entries,
      [](WireReader& in, const EntryReader& entries, DecodedInit& decoded) {
        Read(in, entries, &decoded.request);
      });
}

std::optional<DecodedPush> ReadPush(ZeroCopyInputStream* in,
                                    uint64_t message_bytes,
                                    uint32_t max_entries) {
  return ReadWhole<DecodedPush>(
      in, message_bytes, max_entries,
      [](WireReader& in, const EntryReader& entries, DecodedPush& decoded) {
        Read(in, entries, &decoded.request);
      });
}

std::optional<DecodedPushPull> ReadPushPull(ZeroCopyInputStream* in,
                                            uint64_t message_bytes,
                                            uint32_t max_entries) {
  return ReadWhole<DecodedPushPull>(
      in, message_bytes, max_entries,
      [](WireReader& in, const EntryReader& entries, DecodedPushPull& decoded) {
        Read(in, entries, &decoded.request);
      });
}

std::optional<DecodedPull> ReadPullReply(ZeroCopyInputStream* in,
                                         uint64_t message_bytes,
                                         uint32_t max_entries) {
  return ReadWhole<DecodedPull>(
      in, message_bytes, max_entries,
      [](WireReader& in, const EntryReader& entries, DecodedPull& decoded) {
        Read(in, entries, &decoded.reply);
      });
}

bool ReadPullBatch(ZeroCopyInputStream* stream, uint64_t message_bytes,
                   uint32_t max_entries, DecodedPull* decoded) {
  if (message_bytes > wire::kMaxMessageBytes) return false;
  WireReader in(stream, message_bytes);
  if (!in.Accept(wire::kChunkBatch)) return false;
  const EntryReader entries(max_entries, &decoded->payloads);
  in.ReadMessage([&] { Read(in, entries, &decoded->reply); });
  return in.ok() && in.position() == message_bytes;
}

std::optional<PullRequest> ReadPull(ZeroCopyInputStream* in,
                                    uint64_t message_bytes,
                                    uint32_t max_entries) {
  return ReadMetadata<PullRequest>(
      in, message_bytes, [max_entries](WireReader& in, PullRequest& request) {
        Read(in, max_entries, &request);
      });
}

std::optional<PullStreamRequest> ReadPullStream(ZeroCopyInputStream* in,
                                                uint64_t message_bytes,
                                                uint32_t max_entries) {
  return ReadMetadata<PullStreamRequest>(
      in, message_bytes,
      [max_entries](WireReader& in, PullStreamRequest& stream) {
        if (!in.Accept(wire::kPullStreamPull)) return in.Fail();
        auto& pull = stream.request.emplace<PullRequest>();
        in.ReadMessage([&] { Read(in, max_entries, &pull); });
        if (in.Accept(wire::kPullStreamMaxPartBytes)) {
          stream.max_part_bytes = in.ReadNumber();
        }
        if (in.Accept(wire::kPullStreamAllowBatches)) {
          stream.allow_batches = in.ReadNumberUpTo(1) == 1;
        }
      });
}

std::optional<PushReply> ReadPushReply(ZeroCopyInputStream* in,
                                       uint64_t message_bytes,
                                       uint32_t max_results) {
  return ReadMetadata<PushReply>(
      in, message_bytes, [max_results](WireReader& in, PushReply& reply) {
        ReadEntries(in, wire::kPushResults, max_results, &reply.results);
      });
}

}  // namespace tensorkv
