#include "contract/payload_reader.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/tensor_reader.h"
#include "contract/wire_reader.h"
#include "contract/wire_tags.h"
#include "tensor/tensor.h"

namespace tensorkv {
namespace {

using ::google::protobuf::io::ZeroCopyInputStream;
using wire::FailMissing;
using wire::ReadDTypeIfPresent;
using wire::ReadEnum;
using wire::ReadPacking;
using wire::ReadRows;
using wire::TensorReader;
using wire::ValueOr;
using wire::WireReader;

// --- Parts of messages ------------------------------------------------------

void Read(WireReader& in, CallId* call_id) {
  if (in.Accept(wire::kClientId)) call_id->client_id = in.ReadBytes();
  if (in.Accept(wire::kSequence)) call_id->sequence = in.ReadNumber();
  call_id->answered_below =
      in.Accept(wire::kAnsweredBelow) ? in.ReadNumber() : 0;
}

void Read(WireReader& in, Worker* worker) {
  if (!in.Accept(wire::kRank)) return FailMissing(in, "worker.rank");
  worker->rank = in.ReadNumberUpTo(std::numeric_limits<uint32_t>::max());
  if (in.Accept(wire::kEpoch)) worker->epoch = in.ReadNumber();
}

// Reads a CallId or Worker, if there is one.
template <typename T>
void ReadIfPresent(WireReader& in, wire::Tag tag, std::optional<T>* value) {
  if (!in.Accept(tag)) return;
  in.ReadMessage([&] { Read(in, &value->emplace()); });
}

// --- Entries ----------------------------------------------------------------

// Each reads the fields of one entry and appends it, built in place: to clear
// an entry first would take as long as to read it.

std::string ReadTextIfPresent(WireReader& in, wire::Tag tag) {
  return in.Accept(tag) ? in.ReadText() : std::string();
}

// Has an error name the entry of that key.
template <typename Entry>
ABSL_ATTRIBUTE_ALWAYS_INLINE bool IsRead(WireReader& in,
                                         const std::vector<Entry>& entries,
                                         const std::string& key) {
  if (!in.ok()) in.Explain(EntryName(static_cast<int>(entries.size()), key));
  return in.ok();
}

void ReadEntry(WireReader& in, TensorReader& tensors,
               std::vector<InitEntry>* entries) {
  std::string key = ReadTextIfPresent(in, wire::kInitEntryKey);
  const Tensor& tensor = tensors.Read(in, wire::kInitEntryTensor);
  if (!IsRead(in, *entries, key)) return;
  entries->emplace_back(std::move(key), tensor);
}

void ReadEntry(WireReader& in, TensorReader& tensors,
               std::vector<SetStateEntry>* entries) {
  std::string key = ReadTextIfPresent(in, wire::kSetStateEntryKey);
  std::string state = ReadTextIfPresent(in, wire::kSetStateEntryState);
  const Tensor& tensor = tensors.Read(in, wire::kSetStateEntryTensor);
  if (!IsRead(in, *entries, key)) return;
  entries->emplace_back(std::move(key), std::move(state), tensor);
}

// Reads a double that writers leave out where it is 0.
double ReadDoubleIfPresent(WireReader& in, wire::Tag tag) {
  return in.Accept(tag) ? std::bit_cast<double>(in.ReadFixed64()) : 0;
}

// Appends an entry that skips, of which nothing may follow.
void AddSkip(WireReader& in, TensorReader& tensors, absl::string_view subject,
             PushEntry entry, std::vector<PushEntry>* entries) {
  if (in.ok() && in.bytes_left() > 0) {
    in.Fail(absl::InvalidArgumentError(subject));
  }
  if (!IsRead(in, *entries, entry.key)) return;
  tensors.ReadNothing();
  entries->push_back(std::move(entry));
}

// Reads what follows the tag of an encoding.
void ReadEncodedEntry(WireReader& in, TensorReader& tensors, std::string key,
                      std::vector<PushEntry>* entries) {
  PushEntry entry = {.key = std::move(key)};
  const Packing packing = ReadPacking(in);
  entry.weight = ReadDoubleIfPresent(in, wire::kPushEntryWeight);
  entry.encoding =
      tensors.ReadEncoded(in, wire::kPushEntryTensor, packing, &entry.tensor);
  if (IsRead(in, *entries, entry.key)) entries->push_back(std::move(entry));
}

void ReadEntry(WireReader& in, TensorReader& tensors,
               std::vector<PushEntry>* entries) {
  std::string key = ReadTextIfPresent(in, wire::kPushEntryKey);
  const bool skip = in.Accept(wire::kPushEntrySkip) && in.ReadBool();
  if (!skip && in.Accept(wire::kPushEntryEncoding)) {
    return ReadEncodedEntry(in, tensors, std::move(key), entries);
  }
  const double weight = ReadDoubleIfPresent(in, wire::kPushEntryWeight);
  if (skip) {
    return AddSkip(in, tensors, "tensor: expected none with skip, got one",
                   {.key = std::move(key), .skip = true}, entries);
  }
  const Tensor& tensor = tensors.Read(in, wire::kPushEntryTensor);
  if (!IsRead(in, *entries, key)) return;
  entries->emplace_back(std::move(key), /*skip=*/false, tensor,
                        /*encoding=*/nullptr, weight, /*rows=*/nullptr,
                        /*update_all_rows=*/false);
}

void ReadRowsEntry(WireReader& in, TensorReader& tensors,
                   std::vector<PushEntry>* entries) {
  PushEntry entry;
  entry.key = ReadTextIfPresent(in, wire::kPushRowsEntryKey);
  entry.skip = in.Accept(wire::kPushRowsEntrySkip) && in.ReadBool();
  entry.update_all_rows =
      in.Accept(wire::kPushRowsEntryUpdateAllRows) && in.ReadBool();
  if (entry.skip) {
    return AddSkip(in, tensors, "rows: expected none with skip, got some",
                   std::move(entry), entries);
  }
  std::optional<Packing> packing;
  if (in.Accept(wire::kPushRowsEntryEncoding)) packing = ReadPacking(in);
  entry.rows = ReadRows(in, wire::kPushRowsEntryRows);
  if (packing) {
    entry.encoding = tensors.ReadEncoded(in, wire::kPushRowsEntryTensor,
                                         *packing, &entry.tensor);
  } else {
    entry.tensor = tensors.Read(in, wire::kPushRowsEntryTensor);
  }
  if (!IsRead(in, *entries, entry.key)) return;
  entries->push_back(std::move(entry));
}

void ReadEntry(WireReader& in, TensorReader& tensors,
               std::vector<Value>* values) {
  const uint64_t version = in.Accept(wire::kValueVersion) ? in.ReadNumber() : 0;
  const uint64_t num_contributions = in.Accept(wire::kValueNumContributions)
                                         ? in.ReadNumberUpTo(UINT32_MAX)
                                         : 0;
  const Tensor& tensor = tensors.Read(in, wire::kValueTensor);
  if (!in.ok()) return in.Explain(absl::StrCat("entry ", values->size()));
  values->emplace_back(version, tensor,
                       static_cast<uint32_t>(num_contributions));
}

void ReadEntry(WireReader& in, TensorReader&, std::vector<PullEntry>* entries) {
  std::string key = ReadTextIfPresent(in, wire::kPullEntryKey);
  const uint64_t min_version =
      in.Accept(wire::kPullEntryMinVersion) ? in.ReadNumber() : 0;
  if (in.ok()) entries->emplace_back(std::move(key), min_version, nullptr);
}

void ReadRowsEntry(WireReader& in, TensorReader&,
                   std::vector<PullEntry>* entries) {
  PullEntry entry;
  entry.key = ReadTextIfPresent(in, wire::kPullRowsEntryKey);
  if (in.Accept(wire::kPullRowsEntryMinVersion)) {
    entry.min_version = in.ReadNumber();
  }
  entry.rows = ReadRows(in, wire::kPullRowsEntryRows);
  if (IsRead(in, *entries, entry.key)) entries->push_back(std::move(entry));
}

void ReadEntry(WireReader& in, TensorReader&,
               std::vector<GetStateEntry>* entries) {
  std::string key = ReadTextIfPresent(in, wire::kGetStateEntryKey);
  std::string state = ReadTextIfPresent(in, wire::kGetStateEntryState);
  if (in.ok()) entries->emplace_back(std::move(key), std::move(state));
}

void ReadEntry(WireReader& in, TensorReader&,
               std::vector<PushResult>* results) {
  const uint64_t version =
      in.Accept(wire::kPushResultVersion) ? in.ReadNumber() : 0;
  const uint64_t step = in.Accept(wire::kPushResultStep) ? in.ReadNumber() : 0;
  const bool repeated = in.Accept(wire::kPushResultRepeated) && in.ReadBool();
  if (in.ok()) results->emplace_back(version, step, repeated);
}

// Reads the entries of one message and the places of their payloads.
class EntryReader {
 public:
  EntryReader(uint32_t max_entries, Elements elements,
              std::vector<PayloadRange>* payloads)
      : max_entries_(max_entries), elements_(elements), payloads_(*payloads) {}

  template <typename Entry>
  void Read(WireReader& in, wire::Tag tag, std::vector<Entry>* entries) const {
    ReadAll(in, tag, entries, [entries](WireReader& in, TensorReader& tensors) {
      ReadEntry(in, tensors, entries);
    });
  }
  template <typename Entry>
  void ReadRows(WireReader& in, wire::Tag tag,
                std::vector<Entry>* entries) const {
    ReadAll(in, tag, entries, [entries](WireReader& in, TensorReader& tensors) {
      ReadRowsEntry(in, tensors, entries);
    });
  }

 private:
  template <typename Entry, typename ReadOne>
  void ReadAll(WireReader& in, wire::Tag tag, std::vector<Entry>* entries,
               ReadOne read_one) const {
    const uint64_t begin = in.position();
    TensorReader tensors(elements_, &payloads_);
    while (in.Accept(tag)) {
      if (entries->size() == max_entries_) return in.Fail();
      in.ReadMessage([&] { read_one(in, tensors); });
      if (entries->size() != 1) continue;
      entries->reserve(NumLikeFirst<Entry>(in, in.position() - begin));
      if (!payloads_.empty()) payloads_.reserve(entries->capacity());
    }
  }

  // Returns how many entries there are if they are all like the first one, of
  // so many bytes; but not so many that they take much more memory than the
  // message has bytes. Entries without a tensor have a few times the bytes that
  // encode them.
  template <typename Entry>
  uint64_t NumLikeFirst(const WireReader& in, uint64_t bytes) const {
    constexpr bool kHasTensor = requires(Entry & entry) { entry.tensor; };
    constexpr uint64_t kLeastBytes =
        kHasTensor ? sizeof(Entry) : sizeof(Entry) / 8;
    return std::min<uint64_t>(
        max_entries_, 1 + in.bytes_left() / std::max(bytes, kLeastBytes));
  }

  const uint32_t max_entries_;
  const Elements elements_;
  std::vector<PayloadRange>& payloads_;
};

// --- Messages ---------------------------------------------------------------

// Reads the fields with which requests begin, under the same numbers in all of
// them.
template <typename Request>
void ReadCaller(WireReader& in, Request* request) {
  if (in.Accept(wire::kNamespace)) request->name_space = in.ReadText();
  if constexpr (requires { request->call_id; }) {
    ReadIfPresent(in, wire::kCallId, &request->call_id);
  }
  if (in.Accept(wire::kNamespaceUid)) {
    request->namespace_uid = in.ReadFixed64();
  }
  if constexpr (requires { request->worker; }) {
    ReadIfPresent(in, wire::kWorker, &request->worker);
  }
}

void Read(WireReader& in, const EntryReader& entries, InitRequest* request) {
  ReadCaller(in, request);
  if (in.Accept(wire::kInitOnExisting)) {
    const auto number = static_cast<v1::OnExisting>(ReadEnum(in));
    request->on_existing =
        ValueOr(in, DecodeOnExisting(number), OnExisting::kFail);
  }
  entries.Read(in, wire::kEntries, &request->entries);
}

void Read(WireReader& in, const EntryReader& entries,
          SetStateRequest* request) {
  ReadCaller(in, request);
  entries.Read(in, wire::kEntries, &request->entries);
}

void Read(WireReader& in, const EntryReader& entries, PushRequest* request) {
  ReadCaller(in, request);
  if (in.Accept(wire::kPushStep)) request->step = in.ReadNumber();
  entries.Read(in, wire::kEntries, &request->entries);
}

void Read(WireReader& in, const EntryReader& entries,
          PushRowsRequest* request) {
  ReadCaller(in, request);
  if (in.Accept(wire::kPushStep)) request->step = in.ReadNumber();
  entries.ReadRows(in, wire::kEntries, &request->entries);
}

void Read(WireReader& in, const EntryReader& entries,
          PushPullRequest* request) {
  if (in.Accept(wire::kMaxReplyBytes)) {
    request->max_reply_bytes = in.ReadNumber();
  }
  request->dtype = ReadDTypeIfPresent(in, wire::kPullDType);
  if (!in.Accept(wire::kPushPullPush)) return FailMissing(in, "push");
  PushRequest* const push = request;
  in.ReadMessage([&] { Read(in, entries, push); });
}

// Reads what a pull has before its entries.
void ReadAllButEntries(WireReader& in, PullRequest* request) {
  ReadCaller(in, request);
  if (in.Accept(wire::kPullWaitForKeys)) request->wait_for_keys = in.ReadBool();
  if (in.Accept(wire::kMaxReplyBytes)) {
    request->max_reply_bytes = in.ReadNumber();
  }
}

void Read(WireReader& in, const EntryReader& entries, PullRequest* request) {
  ReadAllButEntries(in, request);
  request->dtype = ReadDTypeIfPresent(in, wire::kPullDType);
  entries.Read(in, wire::kEntries, &request->entries);
}

void Read(WireReader& in, const EntryReader& entries,
          PullRowsRequest* request) {
  ReadAllButEntries(in, request);
  entries.ReadRows(in, wire::kEntries, &request->entries);
}

void Read(WireReader& in, const EntryReader& entries,
          GetStateRequest* request) {
  ReadCaller(in, request);
  if (in.Accept(wire::kMaxReplyBytes)) {
    request->max_reply_bytes = in.ReadNumber();
  }
  entries.Read(in, wire::kEntries, &request->entries);
}

void Read(WireReader& in, const EntryReader& entries,
          PullStreamRequest* stream) {
  if (!in.Accept(wire::kPullStreamPull)) return in.Fail();
  PullRequest& pull = stream->request;
  in.ReadMessage([&] { Read(in, entries, &pull); });
  if (in.Accept(wire::kPullStreamMaxPartBytes)) {
    stream->options.max_part_bytes = in.ReadNumber();
  }
  if (in.Accept(wire::kPullStreamAllowBatches)) {
    stream->options.allow_batches = in.ReadBool();
  }
}

void Read(WireReader& in, const EntryReader& entries, PullReply* reply) {
  entries.Read(in, wire::kReplyValues, &reply->values);
}

void Read(WireReader& in, const EntryReader& entries, PushReply* reply) {
  entries.Read(in, wire::kPushResults, &reply->results);
}

// Returns the error of `in`; OK if all of the message was read.
absl::Status Finish(WireReader& in, uint64_t message_bytes) {
  if (in.ok() && in.position() != message_bytes) in.Fail();
  return in.status();
}

}  // namespace

template <typename Call>
absl::StatusOr<Decoded<Call>> ReadCall(ZeroCopyInputStream* stream,
                                       uint64_t message_bytes,
                                       uint32_t max_entries,
                                       Elements elements) {
  absl::StatusOr<Decoded<Call>> decoded(absl::in_place);
  WireReader in(stream, message_bytes);
  if (message_bytes > wire::kMaxMessageBytes) in.Fail();
  const EntryReader entries(max_entries, elements, &decoded->payloads);
  Read(in, entries, &decoded->call);
  RETURN_IF_ERROR(Finish(in, message_bytes));
  return decoded;
}

#define TENSORKV_INSTANTIATE(Call)                 \
  template absl::StatusOr<Decoded<Call>> ReadCall( \
      ZeroCopyInputStream*, uint64_t, uint32_t, Elements)
TENSORKV_INSTANTIATE(InitRequest);
TENSORKV_INSTANTIATE(SetStateRequest);
TENSORKV_INSTANTIATE(PushRequest);
TENSORKV_INSTANTIATE(PushRowsRequest);
TENSORKV_INSTANTIATE(PushPullRequest);
TENSORKV_INSTANTIATE(PullRequest);
TENSORKV_INSTANTIATE(PullRowsRequest);
TENSORKV_INSTANTIATE(GetStateRequest);
TENSORKV_INSTANTIATE(PullStreamRequest);
TENSORKV_INSTANTIATE(PullReply);
TENSORKV_INSTANTIATE(PushReply);
#undef TENSORKV_INSTANTIATE

absl::Status ReadPullBatch(ZeroCopyInputStream* stream, uint64_t message_bytes,
                           uint32_t max_entries, Decoded<PullReply>* decoded) {
  WireReader in(stream, message_bytes);
  if (message_bytes > wire::kMaxMessageBytes || !in.Accept(wire::kChunkBatch)) {
    in.Fail();
  }
  const EntryReader entries(max_entries, Elements::kPresent,
                            &decoded->payloads);
  in.ReadMessage([&] { Read(in, entries, &decoded->call); });
  return Finish(in, message_bytes);
}

}  // namespace tensorkv
