// The parts of messages with tensors, and their entries, as lists of their
// fields. data.proto and tensor.proto explain the fields.

#ifndef TENSORKV_CONTRACT_ENTRY_FIELDS_H_
#define TENSORKV_CONTRACT_ENTRY_FIELDS_H_

#include <cstdint>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "contract/data_requests.h"
#include "contract/encoding.h"
#include "contract/field_kinds.h"
#include "contract/packing_fields.h"
#include "contract/stream_requests.h"
#include "tensorkv/v1/call.pb.h"
#include "tensorkv/v1/data.pb.h"
#include "tensorkv/v1/snapshot.pb.h"
#include "tensorkv/v1/stream.pb.h"
#include "tensorkv/v1/tensor.pb.h"

namespace tensorkv::wire {

// --- Parts of messages ------------------------------------------------------

using CallIdFields = Fields<
    Bytes<v1::CallId::kClientIdFieldNumber, &CallId::client_id>,
    Number<v1::CallId::kSequenceFieldNumber, &CallId::sequence>,
    Number<v1::CallId::kAnsweredBelowFieldNumber, &CallId::answered_below>>;

// A rank, which must be there: 0 is written too.
struct Rank {
  static constexpr Tag kTag = NumberTag(v1::Worker::kRankFieldNumber);
  static void Read(MessageReader& in, Worker& worker) {
    if (!in.Accept(kTag)) return in.FailMissing("worker.rank");
    worker.rank = static_cast<uint32_t>(in.ReadNumberUpTo(UINT32_MAX));
  }
  static void Write(const Worker& worker, WireWriter& out) {
    out.PresentNumber(kTag, worker.rank);
  }
};

using WorkerFields =
    Fields<Rank, Number<v1::Worker::kEpochFieldNumber, &Worker::epoch>>;

using StripeFields =
    Fields<Number<v1::Stripe::kIndexFieldNumber, &Stripe::index>,
           Number<v1::Stripe::kCountFieldNumber, &Stripe::count>,
           Fixed<v1::Stripe::kGroupFieldNumber, &Stripe::group>>;

// Stripes are in the same field of all manifests.
inline constexpr int kStripeNumber = v1::PushManifest::kStripeFieldNumber;
static_assert(kStripeNumber == v1::InitManifest::kStripeFieldNumber);

// The only stripe of a call is left out.
inline void WriteStripe(const Stripe& stripe, WireWriter& out) {
  if (stripe == Stripe()) return;
  out.Message(RunTag(kStripeNumber), [&] { StripeFields::Write(stripe, out); });
}

// --- Entries ----------------------------------------------------------------

using InitEntryFields =
    Fields<Text<v1::InitEntry::kKeyFieldNumber, &InitEntry::key>,
           WholeTensor<v1::InitEntry::kTensorFieldNumber, &InitEntry::tensor>>;

using SetStateEntryFields = Fields<
    Text<v1::SetStateEntry::kKeyFieldNumber, &SetStateEntry::key>,
    Text<v1::SetStateEntry::kStateFieldNumber, &SetStateEntry::state>,
    WholeTensor<v1::SetStateEntry::kTensorFieldNumber, &SetStateEntry::tensor>>;

using GetStateEntryFields =
    Fields<Text<v1::GetStateEntry::kKeyFieldNumber, &GetStateEntry::key>,
           Text<v1::GetStateEntry::kStateFieldNumber, &GetStateEntry::state>>;

// Lists the fields that the entry `Entry` of a push has unless it skips: an
// encoding, a weight, then the fields `Between`, then the tensor.
template <typename Entry, typename... Between>
struct Contribution {
  using OfEntry = Weight<Entry::kWeightFieldNumber, &PushEntry::weight>;
  using AfterEncoding = Fields<OfEntry, Between...>;
  static constexpr Tag kEncoding = RunTag(Entry::kEncodingFieldNumber);
  static constexpr Tag kTensor = RunTag(Entry::kTensorFieldNumber);

  static void Read(MessageReader& in, PushEntry& entry) {
    if (entry.skip) return ReadNothing(in);
    if (in.Accept(kEncoding)) return ReadEncoded(in, entry);
    AfterEncoding::Read(in, entry);
    entry.tensor = in.ReadTensor(kTensor);
  }
  static void Write(const PushEntry& entry, WireWriter& out) {
    if (entry.skip) return;
    out.Tensor(kTensor, entry.dtype(), entry.shape(), PayloadOf(entry.tensor),
               out.options().elements);
    AfterEncoding::Write(entry, out);
    if (!entry.encoding) return;
    WriteEncoding(*entry.encoding, out);
  }

 private:
  ABSL_ATTRIBUTE_NOINLINE static void ReadEncoded(MessageReader& in,
                                                  PushEntry& entry) {
    Packing packing;
    in.ReadMessage([&] { PackingFields::Read(in, packing); });
    AfterEncoding::Read(in, entry);
    entry.encoding = in.ReadEncoded(kTensor, packing, &entry.tensor);
  }
  ABSL_ATTRIBUTE_NOINLINE static void WriteEncoding(const Encoding& encoding,
                                                    WireWriter& out) {
    out.Message(kEncoding,
                [&] { PackingFields::Write(encoding.packing(), out); });
  }
  // Reads an entry that skips, of which nothing may follow.
  ABSL_ATTRIBUTE_NOINLINE static void ReadNothing(MessageReader& in) {
    constexpr bool kHasRows = requires { Entry::kRowsFieldNumber; };
    PushEntry nothing;
    // A weight of nothing is taken.
    OfEntry::Read(in, nothing);
    if (in.ok() && in.bytes_left() > 0) {
      in.Fail(absl::InvalidArgumentError(
          kHasRows ? "rows: expected none with skip, got some"
                   : "tensor: expected none with skip, got one"));
    }
    in.payloads().push_back({});
  }
};

using PushedDeltaFields =
    Fields<Bytes<v1::PushedDelta::kBaseFieldNumber, &PushedDelta::base>,
           Fixed<v1::PushedDelta::kDigestFieldNumber, &PushedDelta::digest>>;

// What a contribution says of a delta, which few are.
struct DeltaOfEntry {
  static constexpr Tag kTag = RunTag(v1::PushEntry::kDeltaFieldNumber);
  static void Read(MessageReader& in, PushEntry& entry) {
    if (in.Accept(kTag)) ReadPresent(in, entry);
  }
  static void Write(const PushEntry& entry, WireWriter& out) {
    if (entry.delta) WritePresent(*entry.delta, out);
  }

 private:
  ABSL_ATTRIBUTE_NOINLINE static void ReadPresent(MessageReader& in,
                                                  PushEntry& entry) {
    auto delta = MakeRefCounted<PushedDelta>();
    in.ReadMessage([&] { PushedDeltaFields::Read(in, *delta); });
    entry.delta = std::move(delta);
  }
  ABSL_ATTRIBUTE_NOINLINE static void WritePresent(const PushedDelta& delta,
                                                   WireWriter& out) {
    out.Message(kTag, [&] { PushedDeltaFields::Write(delta, out); });
  }
};

using PushEntryFields =
    Fields<Text<v1::PushEntry::kKeyFieldNumber, &PushEntry::key>,
           Number<v1::PushEntry::kSkipFieldNumber, &PushEntry::skip>,
           Contribution<v1::PushEntry, DeltaOfEntry>>;

using PushRowsEntryFields = Fields<
    Text<v1::PushRowsEntry::kKeyFieldNumber, &PushEntry::key>,
    Number<v1::PushRowsEntry::kSkipFieldNumber, &PushEntry::skip>,
    Number<v1::PushRowsEntry::kUpdateAllRowsFieldNumber,
           &PushEntry::update_all_rows>,
    Contribution<v1::PushRowsEntry,
                 Rows<v1::PushRowsEntry::kRowsFieldNumber, &PushEntry::rows>>>;

using PullEntryFields = Fields<
    Text<v1::PullEntry::kKeyFieldNumber, &PullEntry::key>,
    Number<v1::PullEntry::kMinVersionFieldNumber, &PullEntry::min_version>,
    Bytes<v1::PullEntry::kHeldFieldNumber, &PullEntry::held>>;

using PullRowsEntryFields = Fields<
    Text<v1::PullRowsEntry::kKeyFieldNumber, &PullEntry::key>,
    Number<v1::PullRowsEntry::kMinVersionFieldNumber, &PullEntry::min_version>,
    Rows<v1::PullRowsEntry::kRowsFieldNumber, &PullEntry::rows>>;

using ValueChangeFields = Fields<
    Bytes<v1::ValueChange::kTokenFieldNumber, &ValueChange::token>,
    Number<v1::ValueChange::kUnchangedFieldNumber, &ValueChange::unchanged>,
    Message<Fixed<v1::Delta::kDigestFieldNumber, &Delta::digest>,
            v1::ValueChange::kDeltaFieldNumber, &ValueChange::delta>>;

// The change of a value, which few calls ask for.
struct ChangeOfValue {
  static constexpr Tag kTag = RunTag(v1::Value::kChangeFieldNumber);
  static void Read(MessageReader& in, Value& value) {
    if (in.Accept(kTag)) ReadPresent(in, value);
  }
  static void Write(const Value& value, WireWriter& out) {
    if (value.change) WritePresent(*value.change, out);
  }

 private:
  ABSL_ATTRIBUTE_NOINLINE static void ReadPresent(MessageReader& in,
                                                  Value& value) {
    auto change = MakeRefCounted<ValueChange>();
    in.ReadMessage([&] { ValueChangeFields::Read(in, *change); });
    value.change = std::move(change);
  }
  ABSL_ATTRIBUTE_NOINLINE static void WritePresent(const ValueChange& change,
                                                   WireWriter& out) {
    out.Message(kTag, [&] { ValueChangeFields::Write(change, out); });
  }
};

using ValueFields = Fields<
    Number<v1::Value::kVersionFieldNumber, &Value::version>,
    Number<v1::Value::kNumContributionsFieldNumber, &Value::num_contributions>,
    ChangeOfValue, WholeTensor<v1::Value::kTensorFieldNumber, &Value::tensor>>;

using PushResultFields =
    Fields<Number<v1::PushResult::kVersionFieldNumber, &PushResult::version>,
           Number<v1::PushResult::kStepFieldNumber, &PushResult::step>,
           Number<v1::PushResult::kRepeatedFieldNumber, &PushResult::repeated>,
           Bytes<v1::PushResult::kTokenFieldNumber, &PushResult::token>>;

using PublishedFields =
    Fields<Number<v1::PublishedSnapshot::kNumberFieldNumber,
                  &PublishedSnapshot::number>,
           Number<v1::PublishedSnapshot::kRevisionFieldNumber,
                  &PublishedSnapshot::revision>,
           Number<v1::PublishedSnapshot::kPartsMissingFieldNumber,
                  &PublishedSnapshot::parts_missing>>;

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_ENTRY_FIELDS_H_
