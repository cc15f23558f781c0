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

inline constexpr Tag kInitNamespace =
    RunTag(v1::InitRequest::kNamespaceFieldNumber);
inline constexpr Tag kInitCallId = RunTag(v1::InitRequest::kCallIdFieldNumber);
inline constexpr Tag kInitNamespaceUid =
    Fixed64Tag(v1::InitRequest::kNamespaceUidFieldNumber);
inline constexpr Tag kInitOnExisting =
    NumberTag(v1::InitRequest::kOnExistingFieldNumber);
inline constexpr Tag kInitEntries =
    RunTag(v1::InitRequest::kEntriesFieldNumber);

inline constexpr Tag kInitEntryKey = RunTag(v1::InitEntry::kKeyFieldNumber);
inline constexpr Tag kInitEntryTensor =
    RunTag(v1::InitEntry::kTensorFieldNumber);

inline constexpr Tag kPushPullMaxReplyBytes =
    NumberTag(v1::PushPullRequest::kMaxReplyBytesFieldNumber);
inline constexpr Tag kPushPullDType =
    NumberTag(v1::PushPullRequest::kDtypeFieldNumber);
inline constexpr Tag kPushPullPush =
    RunTag(v1::PushPullRequest::kPushFieldNumber);

inline constexpr Tag kPushNamespace =
    RunTag(v1::PushRequest::kNamespaceFieldNumber);
inline constexpr Tag kPushCallId = RunTag(v1::PushRequest::kCallIdFieldNumber);
inline constexpr Tag kPushNamespaceUid =
    Fixed64Tag(v1::PushRequest::kNamespaceUidFieldNumber);
inline constexpr Tag kPushWorker = RunTag(v1::PushRequest::kWorkerFieldNumber);
inline constexpr Tag kPushStep = NumberTag(v1::PushRequest::kStepFieldNumber);
inline constexpr Tag kPushEntries =
    RunTag(v1::PushRequest::kEntriesFieldNumber);

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
inline constexpr Tag kPushResultVersion =
    NumberTag(v1::PushResult::kVersionFieldNumber);
inline constexpr Tag kPushResultStep =
    NumberTag(v1::PushResult::kStepFieldNumber);
inline constexpr Tag kPushResultRepeated =
    NumberTag(v1::PushResult::kRepeatedFieldNumber);

inline constexpr Tag kPullNamespace =
    RunTag(v1::PullRequest::kNamespaceFieldNumber);
inline constexpr Tag kPullNamespaceUid =
    Fixed64Tag(v1::PullRequest::kNamespaceUidFieldNumber);
inline constexpr Tag kPullWorker = RunTag(v1::PullRequest::kWorkerFieldNumber);
inline constexpr Tag kPullWaitForKeys =
    NumberTag(v1::PullRequest::kWaitForKeysFieldNumber);
inline constexpr Tag kPullMaxReplyBytes =
    NumberTag(v1::PullRequest::kMaxReplyBytesFieldNumber);
inline constexpr Tag kPullDType = NumberTag(v1::PullRequest::kDtypeFieldNumber);
inline constexpr Tag kPullEntries =
    RunTag(v1::PullRequest::kEntriesFieldNumber);

inline constexpr Tag kPullEntryKey = RunTag(v1::PullEntry::kKeyFieldNumber);
inline constexpr Tag kPullEntryMinVersion =
    NumberTag(v1::PullEntry::kMinVersionFieldNumber);

inline constexpr Tag kPullStreamPull =
    RunTag(v1::PullStreamRequest::kPullFieldNumber);
inline constexpr Tag kPullStreamMaxPartBytes =
    NumberTag(v1::PullStreamRequest::kMaxPartBytesFieldNumber);
inline constexpr Tag kPullStreamAllowBatches =
    NumberTag(v1::PullStreamRequest::kAllowBatchesFieldNumber);

inline constexpr Tag kReplyValues =
    RunTag(v1::PullResponse::kValuesFieldNumber);
static_assert(kReplyValues == RunTag(v1::PushPullResponse::kValuesFieldNumber));
static_assert(kReplyValues == RunTag(v1::GetStateResponse::kValuesFieldNumber));

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

inline constexpr Tag kChunkBatch = RunTag(v1::PullChunk::kBatchFieldNumber);

inline constexpr Tag kPartEntry = NumberTag(v1::Part::kEntryFieldNumber);
inline constexpr Tag kPartOffset = NumberTag(v1::Part::kOffsetFieldNumber);
inline constexpr Tag kPartData = RunTag(v1::Part::kDataFieldNumber);

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_WIRE_TAGS_H_
