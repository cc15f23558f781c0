// The messages with tensors, as lists of their fields: what reads and writes
// them goes by these lists. data.proto explains the fields.

#ifndef TENSORKV_CONTRACT_MESSAGE_FIELDS_H_
#define TENSORKV_CONTRACT_MESSAGE_FIELDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "contract/data_requests.h"
#include "contract/entry_fields.h"
#include "contract/field_kinds.h"
#include "tensorkv/v1/data.pb.h"
#include "tensorkv/v1/stream.pb.h"

namespace tensorkv::wire {

// Returns how many entries there are if they are all like the first one, of so
// many bytes; but not so many that they take much more memory than the message
// has bytes. Entries without a tensor have a few times the bytes that encode
// them.
template <typename Entry>
uint64_t NumLikeFirst(const MessageReader& in, uint64_t bytes) {
  constexpr bool kHasTensor = requires(Entry & entry) { entry.tensor; };
  constexpr uint64_t kLeastBytes =
      kHasTensor ? sizeof(Entry) : sizeof(Entry) / 8;
  return std::min<uint64_t>(in.max_entries(),
                            1 + in.bytes_left() / std::max(bytes, kLeastBytes));
}

// Has the error say which entry it is about.
template <typename Entry>
void ExplainEntry(MessageReader& in, size_t index, const Entry& entry) {
  if constexpr (requires { entry.key; }) {
    in.Explain(EntryName(static_cast<int>(index), entry.key));
  } else {
    in.Explain(absl::StrCat("entry ", index));
  }
}

// Writes messages of the fields `Inner`, one for each entry. All that an entry
// calls becomes part of this function, and of Entries::Read.
template <typename Inner, typename Entry>
[[gnu::flatten]] void WriteEntries(Tag tag, absl::Span<const Entry> entries,
                                   WireWriter& out) {
  for (size_t i = entries.size(); i > 0; --i) {
    out.Message(tag, [&] { Inner::Write(entries[i - 1], out); });
  }
}

// The entries of a call, or of its reply: messages of the fields `Inner`.
template <typename Inner, int kNumber, auto kMember>
struct Entries {
  template <typename T>
  [[gnu::flatten]] static void Read(MessageReader& in, T& message) {
    auto& entries = message.*kMember;
    using Entry = std::remove_cvref_t<decltype(entries[0])>;
    const uint64_t begin = in.position();
    for (size_t size = entries.size(); in.Accept(RunTag(kNumber)); ++size) {
      if (size == in.max_entries()) return in.Fail();
      Entry& entry = entries.emplace_back();
      in.ReadMessage([&] { Inner::Read(in, entry); });
      if (!in.ok()) return ExplainEntry(in, size, entry);
      if (size > 0) continue;
      entries.reserve(NumLikeFirst<Entry>(in, in.position() - begin));
      if (!in.payloads().empty()) in.payloads().reserve(entries.capacity());
    }
  }
  template <typename T>
  static void Write(const T& message, WireWriter& out) {
    WriteEntries<Inner>(RunTag(kNumber), absl::MakeConstSpan(message.*kMember),
                        out);
  }
};

// --- Calls ------------------------------------------------------------------

// With what the message of a request begins.
template <typename Proto, typename Request>
using ChangeFields =
    Fields<Text<Proto::kNamespaceFieldNumber, &Request::name_space>,
           Message<CallIdFields, Proto::kCallIdFieldNumber, &Request::call_id>,
           Fixed<Proto::kNamespaceUidFieldNumber, &Request::namespace_uid>>;
template <typename Proto, typename Request>
using WorkerField =
    Message<WorkerFields, Proto::kWorkerFieldNumber, &Request::worker>;
template <typename Proto, typename Request>
using ReadFields =
    Fields<Text<Proto::kNamespaceFieldNumber, &Request::name_space>,
           Fixed<Proto::kNamespaceUidFieldNumber, &Request::namespace_uid>,
           WorkerField<Proto, Request>>;

// Lists the fields of a push, of which those of `Between` come before entries.
template <typename Proto, typename EntryFields, typename... Between>
using PushFields = Fields<
    ChangeFields<Proto, PushRequest>, WorkerField<Proto, PushRequest>,
    Number<Proto::kStepFieldNumber, &PushRequest::step>,
    Generated<Proto::kPublishAsFieldNumber, &PushRequest::publish_as>,
    Between...,
    Entries<EntryFields, Proto::kEntriesFieldNumber, &PushRequest::entries>>;

template <typename Proto, typename Request>
using MaxReplyBytes =
    ReplyBound<Proto::kMaxReplyBytesFieldNumber, &Request::max_reply_bytes,
               &ReplyBounds::max_reply_bytes>;
template <typename Proto, typename Request>
using TicketFromBytes =
    ReplyBound<Proto::kTicketFromBytesFieldNumber, &Request::ticket_from_bytes,
               &ReplyBounds::ticket_from_bytes>;

// Lists the fields of a pull before its dtype and its entries.
template <typename Proto>
using PullFields =
    Fields<ReadFields<Proto, PullRequest>,
           Number<Proto::kWaitForKeysFieldNumber, &PullRequest::wait_for_keys>,
           MaxReplyBytes<Proto, PullRequest>>;

// Bounds a PullChanges, so that it names each encoding some times at most:
// calls that wait keep it.
inline constexpr size_t kMaxChangesBytes = 64;

// Has the fields of the message of a request or reply.
template <typename Call>
struct FieldsOf;
template <>
struct FieldsOf<InitRequest>
    : Fields<ChangeFields<v1::InitRequest, InitRequest>,
             Choice<v1::InitRequest::kOnExistingFieldNumber,
                    &InitRequest::on_existing>,
             Generated<v1::InitRequest::kPublishAsFieldNumber,
                       &InitRequest::publish_as>,
             Entries<InitEntryFields, v1::InitRequest::kEntriesFieldNumber,
                     &InitRequest::entries>> {};
template <>
struct FieldsOf<SetStateRequest>
    : Fields<
          ChangeFields<v1::SetStateRequest, SetStateRequest>,
          Entries<SetStateEntryFields, v1::SetStateRequest::kEntriesFieldNumber,
                  &SetStateRequest::entries>> {};
template <>
struct FieldsOf<PushRequest>
    : PushFields<v1::PushRequest, PushEntryFields,
                 Number<v1::PushRequest::kWithTokensFieldNumber,
                        &PushRequest::with_tokens>> {};
template <>
struct FieldsOf<PushRowsRequest>
    : PushFields<v1::PushRowsRequest, PushRowsEntryFields> {};
template <>
struct FieldsOf<PullRequest>
    : Fields<PullFields<v1::PullRequest>,
             Choice<v1::PullRequest::kDtypeFieldNumber, &PullRequest::dtype>,
             Generated<v1::PullRequest::kAtFieldNumber, &PullRequest::at>,
             Generated<v1::PullRequest::kChangesFieldNumber,
                       &PullRequest::changes, kMaxChangesBytes>,
             TicketFromBytes<v1::PullRequest, PullRequest>,
             Entries<PullEntryFields, v1::PullRequest::kEntriesFieldNumber,
                     &PullRequest::entries>> {};
template <>
struct FieldsOf<PullRowsRequest>
    : Fields<
          PullFields<v1::PullRowsRequest>,
          Generated<v1::PullRowsRequest::kAtFieldNumber, &PullRequest::at>,
          TicketFromBytes<v1::PullRowsRequest, PullRequest>,
          Entries<PullRowsEntryFields, v1::PullRowsRequest::kEntriesFieldNumber,
                  &PullRequest::entries>> {};
template <>
struct FieldsOf<GetStateRequest>
    : Fields<
          ReadFields<v1::GetStateRequest, GetStateRequest>,
          MaxReplyBytes<v1::GetStateRequest, GetStateRequest>,
          TicketFromBytes<v1::GetStateRequest, GetStateRequest>,
          Entries<GetStateEntryFields, v1::GetStateRequest::kEntriesFieldNumber,
                  &GetStateRequest::entries>> {};

// The push in a PushPullRequest, which must be there.
struct PushInPushPull {
  static constexpr Tag kTag = RunTag(v1::PushPullRequest::kPushFieldNumber);
  static void Read(MessageReader& in, PushRequest& push) {
    if (!in.Accept(kTag)) return in.FailMissing("push");
    in.ReadMessage([&] { FieldsOf<PushRequest>::Read(in, push); });
  }
  static void Write(const PushRequest& push, WireWriter& out) {
    out.Message(kTag, [&] { FieldsOf<PushRequest>::Write(push, out); });
  }
};
template <>
struct FieldsOf<PushPullRequest>
    : Fields<MaxReplyBytes<v1::PushPullRequest, PushPullRequest>,
             Choice<v1::PushPullRequest::kDtypeFieldNumber,
                    &PushPullRequest::dtype>,
             TicketFromBytes<v1::PushPullRequest, PushPullRequest>,
             PushInPushPull> {};

// The ticket of a reply with values. Those have no elements then.
struct TicketOfReply {
  using InnerFields =
      Fields<Bytes<v1::Ticket::kIdFieldNumber, &Ticket::id>,
             Number<v1::Ticket::kSizeBytesFieldNumber, &Ticket::size_bytes>>;
  using Inner = Message<InnerFields, v1::PullResponse::kTicketFieldNumber,
                        &PullReply::ticket>;
  static void Read(MessageReader& in, PullReply& reply) {
    Inner::Read(in, reply);
    if (reply.ticket) in.LeaveOutElements();
  }
  static void Write(const PullReply& reply, WireWriter& out) {
    Inner::Write(reply, out);
  }
};

// Other replies with results, or with values, have the same form.
template <>
struct FieldsOf<PushReply>
    : Fields<Entries<PushResultFields, v1::PushResponse::kResultsFieldNumber,
                     &PushReply::results>,
             Message<PublishedFields, v1::PushResponse::kPublishedFieldNumber,
                     &PushReply::published>> {};
template <>
struct FieldsOf<PullReply>
    : Fields<Number<v1::PullResponse::kSnapshotNumberFieldNumber,
                    &PullReply::snapshot_number>,
             TicketOfReply,
             Entries<ValueFields, v1::PullResponse::kValuesFieldNumber,
                     &PullReply::values>> {};
static_assert(RunTag(v1::PushResponse::kResultsFieldNumber) ==
              RunTag(v1::PushRowsResponse::kResultsFieldNumber));
template <typename Proto>
inline constexpr bool kHasValuesOfAPull =
    RunTag(Proto::kValuesFieldNumber) ==
    RunTag(v1::PullResponse::kValuesFieldNumber);
template <typename Proto>
inline constexpr bool kHasTicketOfAPull =
    RunTag(Proto::kTicketFieldNumber) ==
    RunTag(v1::PullResponse::kTicketFieldNumber);
static_assert(kHasTicketOfAPull<v1::PushPullResponse> &&
              kHasTicketOfAPull<v1::PullRowsResponse> &&
              kHasTicketOfAPull<v1::GetStateResponse>);
static_assert(kHasValuesOfAPull<v1::PushPullResponse> &&
              kHasValuesOfAPull<v1::PullRowsResponse> &&
              kHasValuesOfAPull<v1::GetStateResponse> &&
              kHasValuesOfAPull<v1::PullManifest>);

// --- Streams ----------------------------------------------------------------

// All chunks have their manifest, and their part, in the same field.
inline constexpr Tag kChunkManifest =
    RunTag(v1::PushChunk::kManifestFieldNumber);
static_assert(kChunkManifest == RunTag(v1::InitChunk::kManifestFieldNumber));
static_assert(kChunkManifest == RunTag(v1::PullChunk::kManifestFieldNumber));
inline constexpr Tag kChunkPart = RunTag(v1::PushChunk::kPartFieldNumber);
static_assert(kChunkPart == RunTag(v1::InitChunk::kPartFieldNumber));
static_assert(kChunkPart == RunTag(v1::PullChunk::kPartFieldNumber));

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_MESSAGE_FIELDS_H_
