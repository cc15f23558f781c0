// The fields of the contract's messages with tensors, as they begin on the
// wire: number and wire type, which take one byte up to number 15.

#ifndef TENSORKV_CONTRACT_WIRE_TAGS_H_
#define TENSORKV_CONTRACT_WIRE_TAGS_H_

#include <cstdint>

#include "tensorkv/v1/data.pb.h"
#include "tensorkv/v1/stream.pb.h"
#include "tensorkv/v1/tensor.pb.h"

namespace tensorkv::wire {

using Tag = uint8_t;

// Return the tag of the field of that number, at most 15, which is a varint, or
// has 8 or 4 bytes.
consteval Tag NumberTag(int field) { return static_cast<Tag>(field << 3); }
consteval Tag Fixed64Tag(int field) { return static_cast<Tag>(field << 3 | 1); }
consteval Tag Fixed32Tag(int field) { return static_cast<Tag>(field << 3 | 5); }
// Strings, bytes, messages and packed numbers: a length comes first.
consteval Tag RunTag(int field) { return static_cast<Tag>(field << 3 | 2); }

// Requests have these fields under the same numbers.
inline constexpr Tag kNamespace =
    RunTag(v1::PushRequest::kNamespaceFieldNumber);
inline constexpr Tag kCallId = RunTag(v1::PushRequest::kCallIdFieldNumber);
inline constexpr Tag kNamespaceUid =
    Fixed64Tag(v1::PushRequest::kNamespaceUidFieldNumber);
inline constexpr Tag kWorker = RunTag(v1::PushRequest::kWorkerFieldNumber);
inline constexpr Tag kMaxReplyBytes =
    NumberTag(v1::PullRequest::kMaxReplyBytesFieldNumber);
inline constexpr Tag kEntries = RunTag(v1::PushRequest::kEntriesFieldNumber);

// Returns whether the message has the fields of kNamespace to kEntries, as far
// as it has them, under these numbers.
template <typename Message>
consteval bool HasUsualNumbers() {
  bool is_usual =
      RunTag(Message::kNamespaceFieldNumber) == kNamespace &&
      Fixed64Tag(Message::kNamespaceUidFieldNumber) == kNamespaceUid &&
      RunTag(Message::kEntriesFieldNumber) == kEntries;
  if constexpr (requires { Message::kCallIdFieldNumber; }) {
    is_usual &= RunTag(Message::kCallIdFieldNumber) == kCallId;
  }
  if constexpr (requires { Message::kWorkerFieldNumber; }) {
    is_usual &= RunTag(Message::kWorkerFieldNumber) == kWorker;
  }
  if constexpr (requires { Message::kMaxReplyBytesFieldNumber; }) {
    is_usual &= NumberTag(Message::kMaxReplyBytesFieldNumber) == kMaxReplyBytes;
  }
  return is_usual;
}
static_assert(HasUsualNumbers<v1::InitRequest>());
static_assert(HasUsualNumbers<v1::SetStateRequest>());
static_assert(HasUsualNumbers<v1::PushRequest>());
static_assert(HasUsualNumbers<v1::PushRowsRequest>());
static_assert(HasUsualNumbers<v1::PullRequest>());
static_assert(HasUsualNumbers<v1::PullRowsRequest>());
static_assert(HasUsualNumbers<v1::GetStateRequest>());

inline constexpr Tag kInitOnExisting =
    NumberTag(v1::InitRequest::kOnExistingFieldNumber);

inline constexpr Tag kInitEntryKey = RunTag(v1::InitEntry::kKeyFieldNumber);
inline constexpr Tag kInitEntryTensor =
    RunTag(v1::InitEntry::kTensorFieldNumber);

inline constexpr Tag kSetStateEntryKey =
    RunTag(v1::SetStateEntry::kKeyFieldNumber);
inline constexpr Tag kSetStateEntryState =
    RunTag(v1::SetStateEntry::kStateFieldNumber);
inline constexpr Tag kSetStateEntryTensor =
    RunTag(v1::SetStateEntry::kTensorFieldNumber);
inline constexpr Tag kGetStateEntryKey =
    RunTag(v1::GetStateEntry::kKeyFieldNumber);
inline constexpr Tag kGetStateEntryState =
    RunTag(v1::GetStateEntry::kStateFieldNumber);

inline constexpr Tag kPushPullPush =
    RunTag(v1::PushPullRequest::kPushFieldNumber);
static_assert(kMaxReplyBytes ==
              NumberTag(v1::PushPullRequest::kMaxReplyBytesFieldNumber));

inline constexpr Tag kPushStep = NumberTag(v1::PushRequest::kStepFieldNumber);
static_assert(kPushStep == NumberTag(v1::PushRowsRequest::kStepFieldNumber));

inline constexpr Tag kPushRowsEntryKey =
    RunTag(v1::PushRowsEntry::kKeyFieldNumber);
inline constexpr Tag kPushRowsEntrySkip =
    NumberTag(v1::PushRowsEntry::kSkipFieldNumber);
inline constexpr Tag kPushRowsEntryUpdateAllRows =
    NumberTag(v1::PushRowsEntry::kUpdateAllRowsFieldNumber);
inline constexpr Tag kPushRowsEntryEncoding =
    RunTag(v1::PushRowsEntry::kEncodingFieldNumber);
inline constexpr Tag kPushRowsEntryRows =
    RunTag(v1::PushRowsEntry::kRowsFieldNumber);
inline constexpr Tag kPushRowsEntryTensor =
    RunTag(v1::PushRowsEntry::kTensorFieldNumber);

inline constexpr Tag kPushEntryKey = RunTag(v1::PushEntry::kKeyFieldNumber);
inline constexpr Tag kPushEntrySkip =
    NumberTag(v1::PushEntry::kSkipFieldNumber);
inline constexpr Tag kPushEntryEncoding =
    RunTag(v1::PushEntry::kEncodingFieldNumber);
inline constexpr Tag kPushEntryWeight =
    Fixed64Tag(v1::PushEntry::kWeightFieldNumber);
inline constexpr Tag kPushEntryTensor =
    RunTag(v1::PushEntry::kTensorFieldNumber);

inline constexpr Tag kPushResults =
    RunTag(v1::PushResponse::kResultsFieldNumber);
static_assert(kPushResults ==
              RunTag(v1::PushRowsResponse::kResultsFieldNumber));
inline constexpr Tag kPushResultVersion =
    NumberTag(v1::PushResult::kVersionFieldNumber);
inline constexpr Tag kPushResultStep =
    NumberTag(v1::PushResult::kStepFieldNumber);
inline constexpr Tag kPushResultRepeated =
    NumberTag(v1::PushResult::kRepeatedFieldNumber);

inline constexpr Tag kPullWaitForKeys =
    NumberTag(v1::PullRequest::kWaitForKeysFieldNumber);
static_assert(kPullWaitForKeys ==
              NumberTag(v1::PullRowsRequest::kWaitForKeysFieldNumber));
inline constexpr Tag kPullDType = NumberTag(v1::PullRequest::kDtypeFieldNumber);
static_assert(kPullDType == NumberTag(v1::PushPullRequest::kDtypeFieldNumber));

inline constexpr Tag kPullRowsEntryKey =
    RunTag(v1::PullRowsEntry::kKeyFieldNumber);
inline constexpr Tag kPullRowsEntryMinVersion =
    NumberTag(v1::PullRowsEntry::kMinVersionFieldNumber);
inline constexpr Tag kPullRowsEntryRows =
    RunTag(v1::PullRowsEntry::kRowsFieldNumber);

inline constexpr Tag kPullEntryKey = RunTag(v1::PullEntry::kKeyFieldNumber);
inline constexpr Tag kPullEntryMinVersion =
    NumberTag(v1::PullEntry::kMinVersionFieldNumber);

inline constexpr Tag kPullStreamPull =
    RunTag(v1::PullStreamRequest::kPullFieldNumber);
inline constexpr Tag kPullStreamPullRows =
    RunTag(v1::PullStreamRequest::kPullRowsFieldNumber);
inline constexpr Tag kPullStreamGetState =
    RunTag(v1::PullStreamRequest::kGetStateFieldNumber);
inline constexpr Tag kPullStreamMaxPartBytes =
    NumberTag(v1::PullStreamRequest::kMaxPartBytesFieldNumber);
inline constexpr Tag kPullStreamAllowBatches =
    NumberTag(v1::PullStreamRequest::kAllowBatchesFieldNumber);

inline constexpr Tag kReplyValues =
    RunTag(v1::PullResponse::kValuesFieldNumber);
static_assert(kReplyValues == RunTag(v1::PushPullResponse::kValuesFieldNumber));
static_assert(kReplyValues == RunTag(v1::GetStateResponse::kValuesFieldNumber));
static_assert(kReplyValues == RunTag(v1::PullRowsResponse::kValuesFieldNumber));
static_assert(kReplyValues == RunTag(v1::PullManifest::kValuesFieldNumber));

inline constexpr Tag kValueVersion = NumberTag(v1::Value::kVersionFieldNumber);
inline constexpr Tag kValueNumContributions =
    NumberTag(v1::Value::kNumContributionsFieldNumber);
inline constexpr Tag kValueTensor = RunTag(v1::Value::kTensorFieldNumber);

inline constexpr Tag kTensorDType = NumberTag(v1::Tensor::kDtypeFieldNumber);
inline constexpr Tag kTensorShape = RunTag(v1::Tensor::kShapeFieldNumber);
inline constexpr Tag kTensorData = RunTag(v1::Tensor::kDataFieldNumber);

inline constexpr Tag kTwoBit = RunTag(v1::Encoding::kTwoBitFieldNumber);
inline constexpr Tag kOneBit = RunTag(v1::Encoding::kOneBitFieldNumber);
inline constexpr Tag kTopK = RunTag(v1::Encoding::kTopKFieldNumber);
inline constexpr Tag kRandomK = RunTag(v1::Encoding::kRandomKFieldNumber);
inline constexpr Tag kDithering = RunTag(v1::Encoding::kDitheringFieldNumber);
inline constexpr Tag kBlocks = RunTag(v1::Encoding::kBlocksFieldNumber);

inline constexpr Tag kTwoBitThreshold =
    Fixed32Tag(v1::TwoBitEncoding::kThresholdFieldNumber);
inline constexpr Tag kOneBitScale =
    Fixed32Tag(v1::OneBitEncoding::kScaleFieldNumber);
inline constexpr Tag kTopKCount =
    NumberTag(v1::TopKEncoding::kCountFieldNumber);
inline constexpr Tag kRandomKBlockSize =
    NumberTag(v1::RandomKEncoding::kBlockSizeFieldNumber);
inline constexpr Tag kRandomKSeed =
    Fixed64Tag(v1::RandomKEncoding::kSeedFieldNumber);
inline constexpr Tag kDitheringBits =
    NumberTag(v1::DitheringEncoding::kBitsFieldNumber);
inline constexpr Tag kDitheringNorm =
    Fixed32Tag(v1::DitheringEncoding::kNormFieldNumber);
inline constexpr Tag kDitheringNatural =
    NumberTag(v1::DitheringEncoding::kNaturalFieldNumber);
inline constexpr Tag kBlockElement =
    NumberTag(v1::BlockEncoding::kElementFieldNumber);
inline constexpr Tag kBlockSize =
    NumberTag(v1::BlockEncoding::kBlockSizeFieldNumber);

inline constexpr Tag kClientId = RunTag(v1::CallId::kClientIdFieldNumber);
inline constexpr Tag kSequence = NumberTag(v1::CallId::kSequenceFieldNumber);
inline constexpr Tag kAnsweredBelow =
    NumberTag(v1::CallId::kAnsweredBelowFieldNumber);

inline constexpr Tag kRank = NumberTag(v1::Worker::kRankFieldNumber);
inline constexpr Tag kEpoch = NumberTag(v1::Worker::kEpochFieldNumber);

inline constexpr Tag kChunkPart = RunTag(v1::PushChunk::kPartFieldNumber);
static_assert(kChunkPart == RunTag(v1::InitChunk::kPartFieldNumber));
static_assert(kChunkPart == RunTag(v1::PullChunk::kPartFieldNumber));

inline constexpr Tag kChunkManifest =
    RunTag(v1::PushChunk::kManifestFieldNumber);
static_assert(kChunkManifest == RunTag(v1::InitChunk::kManifestFieldNumber));
static_assert(kChunkManifest == RunTag(v1::PullChunk::kManifestFieldNumber));

inline constexpr Tag kManifestInit = RunTag(v1::InitManifest::kInitFieldNumber);
inline constexpr Tag kManifestSetState =
    RunTag(v1::InitManifest::kSetStateFieldNumber);
inline constexpr Tag kManifestPush = RunTag(v1::PushManifest::kPushFieldNumber);
inline constexpr Tag kManifestPushRows =
    RunTag(v1::PushManifest::kPushRowsFieldNumber);
inline constexpr Tag kManifestPushPull =
    RunTag(v1::PushManifest::kPushPullFieldNumber);

inline constexpr Tag kStripe = RunTag(v1::PushManifest::kStripeFieldNumber);
static_assert(kStripe == RunTag(v1::InitManifest::kStripeFieldNumber));
static_assert(kStripe == RunTag(v1::PullStreamRequest::kStripeFieldNumber));
inline constexpr Tag kStripeIndex = NumberTag(v1::Stripe::kIndexFieldNumber);
inline constexpr Tag kStripeCount = NumberTag(v1::Stripe::kCountFieldNumber);
inline constexpr Tag kStripeGroup = Fixed64Tag(v1::Stripe::kGroupFieldNumber);

inline constexpr Tag kChunkBatch = RunTag(v1::PullChunk::kBatchFieldNumber);

inline constexpr Tag kPartEntry = NumberTag(v1::Part::kEntryFieldNumber);
inline constexpr Tag kPartOffset = NumberTag(v1::Part::kOffsetFieldNumber);
inline constexpr Tag kPartData = RunTag(v1::Part::kDataFieldNumber);

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_WIRE_TAGS_H_
