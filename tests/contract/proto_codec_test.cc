#include "contract/proto_codec.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "tests/contract/generated_codec.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace proto_codec_test {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::FieldsAre;
using ::testing::Optional;
using ::testing::SizeIs;

template <typename Proto>
auto Decode(Proto proto) {
  return FromProto(std::move(proto));
}

template <typename Proto>
Proto Parse(const std::string& text) {
  Proto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  return proto;
}

// --- Fields by name ---------------------------------------------------------

TEST(ProtoCodecTest, InitRequestFields) {
  ASSERT_OK_AND_ASSIGN(
      const InitRequest request, Decode(Parse<v1::InitRequest>(R"pb(
        namespace: "n"
        call_id { client_id: "\xff" sequence: 2 answered_below: 1 }
        on_existing: ON_EXISTING_KEEP
        entries {
          key: "w"
          tensor { dtype: DTYPE_I16 shape: 2 data: "ABCD" }
        })pb")));

  EXPECT_EQ(request.name_space, "n");
  EXPECT_THAT(request.call_id, Optional(FieldsAre("\xff", 2, 1)));
  EXPECT_EQ(request.on_existing, OnExisting::kKeep);
  ASSERT_THAT(request.entries, SizeIs(1));
  EXPECT_EQ(request.entries[0].key, "w");
  EXPECT_EQ(request.entries[0].tensor.Description(), "i16[2]");
  EXPECT_THAT(request.entries[0].tensor.elements<int16_t>(),
              ElementsAre(0x4241, 0x4443));
}

TEST(ProtoCodecTest, PushRequestFields) {
  ASSERT_OK_AND_ASSIGN(
      const PushRequest request, Decode(Parse<v1::PushRequest>(R"pb(
        namespace: "n"
        call_id { client_id: "c" sequence: 2 answered_below: 2 }
        worker { rank: 3 epoch: 4 }
        step: 5
        entries {
          key: "w"
          tensor { dtype: DTYPE_U8 data: "A" }
        }
        entries { key: "v" skip: true }
        with_tokens: true
        entries {
          key: "d"
          delta { base: "b" digest: 6 }
          tensor { dtype: DTYPE_U8 shape: 2 data: "AB" }
        })pb")));

  EXPECT_EQ(request.name_space, "n");
  EXPECT_THAT(request.call_id, Optional(FieldsAre("c", 2, 2)));
  EXPECT_THAT(request.worker, Optional(FieldsAre(3, 4)));
  EXPECT_EQ(request.step, 5);
  EXPECT_TRUE(request.with_tokens);
  ASSERT_THAT(request.entries, SizeIs(3));
  EXPECT_FALSE(request.entries[0].skip);
  EXPECT_EQ(request.entries[0].tensor.Description(), "u8[]");
  EXPECT_FALSE(request.entries[0].delta);
  EXPECT_EQ(request.entries[1].key, "v");
  EXPECT_TRUE(request.entries[1].skip);
  ASSERT_TRUE(request.entries[2].delta);
  EXPECT_EQ(request.entries[2].delta->base, "b");
  EXPECT_EQ(request.entries[2].delta->digest, 6);
  EXPECT_EQ(request.entries[2].tensor.Description(), "u8[2]");
}

TEST(ProtoCodecTest, PushPullRequestIsItsPushAndWhatItBringsBack) {
  ASSERT_OK_AND_ASSIGN(
      const PushPullRequest request,
      Decode(Parse<v1::PushPullRequest>("max_reply_bytes: 7 dtype: DTYPE_F16 "
                                        "push { namespace: 'n' step: 5 }")));

  EXPECT_EQ(request.name_space, "n");
  EXPECT_EQ(request.step, 5);
  EXPECT_EQ(request.max_reply_bytes, 7);
  EXPECT_EQ(request.dtype, DType::kF16);
}

TEST(ProtoCodecTest, StateRequestFields) {
  ASSERT_OK_AND_ASSIGN(
      const SetStateRequest set,
      Decode(Parse<v1::SetStateRequest>(
          "namespace: 'n' call_id { sequence: 2 } namespace_uid: 9 entries { "
          "key: 'w' state: 's' tensor { dtype: DTYPE_U8 data: 'A' } }")));
  ASSERT_OK_AND_ASSIGN(
      const GetStateRequest get,
      Decode(Parse<v1::GetStateRequest>(
          "namespace: 'n' namespace_uid: 9 worker { rank: 3 } "
          "max_reply_bytes: 7 entries { key: 'w' state: 's' }")));

  EXPECT_EQ(set.name_space, "n");
  EXPECT_THAT(set.call_id, Optional(FieldsAre("", 2, 0)));
  EXPECT_EQ(set.namespace_uid, 9);
  ASSERT_THAT(set.entries, SizeIs(1));
  EXPECT_EQ(set.entries[0].key, "w");
  EXPECT_EQ(set.entries[0].state, "s");
  EXPECT_EQ(set.entries[0].tensor.Description(), "u8[]");
  EXPECT_EQ(get.name_space, "n");
  EXPECT_EQ(get.namespace_uid, 9);
  EXPECT_THAT(get.worker, Optional(FieldsAre(3, 0)));
  EXPECT_EQ(get.max_reply_bytes, 7);
  EXPECT_THAT(get.entries, ElementsAre(FieldsAre("w", "s")));
}

TEST(ProtoCodecTest, PushReplyFields) {
  const PushReply reply = Decode(
      Parse<v1::PushResponse>("results { version: 1 step: 2 token: \"t\" }"));

  ASSERT_THAT(reply.results, SizeIs(1));
  EXPECT_THAT(reply.results[0], FieldsAre(1, 2, false, "t"));
}

TEST(ProtoCodecTest, PullRequestFields) {
  ASSERT_OK_AND_ASSIGN(const PullRequest request,
                       Decode(Parse<v1::PullRequest>(R"pb(
                         namespace: "n"
                         worker { rank: 3 epoch: 4 }
                         wait_for_keys: true
                         entries { key: "w" min_version: 5 })pb")));

  EXPECT_EQ(request.name_space, "n");
  EXPECT_THAT(request.worker, Optional(FieldsAre(3, 4)));
  EXPECT_TRUE(request.wait_for_keys);
  ASSERT_THAT(request.entries, SizeIs(1));
  EXPECT_EQ(request.entries[0].key, "w");
  EXPECT_EQ(request.entries[0].min_version, 5);
}

TEST(ProtoCodecTest, DTypeAndShapeOfAKey) {
  const auto key =
      Parse<v1::KeyStatus>("key: 'w' dtype: DTYPE_BF16 shape: [ 2, 3 ]");

  EXPECT_EQ(DTypeOf(key), DType::kBF16);
  EXPECT_THAT(ShapeOf(key), testing::IsOkAndHolds(Shape({2, 3})));
}

TEST(ProtoCodecTest, NamespaceConfigFields) {
  ASSERT_OK_AND_ASSIGN(const NamespaceConfig config,
                       Decode(Parse<v1::NamespaceConfig>(R"pb(
                         mode: MODE_SYNC
                         num_workers: 4
                         max_workers: 20
                         rule { name: "sgd" }
                         budget_bytes: 5
                         staleness: 21
                         on_worker_loss: ON_WORKER_LOSS_CONTINUE
                         rescale_partial_rounds: true
                         quorum: 3
                         quorum_grace { nanos: 22 }
                         max_open_rounds: 6
                         gradient_guard {
                           on_non_finite: ON_NON_FINITE_SKIP
                           max_norm: 33
                           on_large_norm: ON_LARGE_NORM_REFUSE
                           max_call_norm: 36
                         }
                         aggregation: AGGREGATION_TRIMMED_MEAN
                         trim_fraction: 0.375
                         sum_order: SUM_ORDER_ARRIVAL
                         round_timeout { nanos: 23 }
                         late: LATE_CARRY
                         staleness_decay: 0.75
                       )pb")));

  const RuleSpec sgd = {.name = "sgd", .hyperparameters = {}};
  EXPECT_EQ(config,
            (NamespaceConfig{Mode::kSync,
                             4,
                             20,
                             sgd,
                             5,
                             21,
                             OnWorkerLoss::kContinue,
                             true,
                             3,
                             absl::Nanoseconds(22),
                             6,
                             {OnNonFinite::kSkip, 33, OnLargeNorm::kRefuse, 36},
                             Aggregation::kTrimmedMean,
                             0.375,
                             SumOrder::kArrival,
                             /*mirrored=*/false,
                             /*max_retained_bytes=*/0,
                             absl::Nanoseconds(23),
                             Late::kCarry,
                             0.75}));
}

// Maps are filled without reflection, which the library's and the generated
// code disagree about under ThreadSanitizer.
TEST(ProtoCodecTest, RuleFields) {
  auto proto = Parse<v1::Rule>("name: 'adam' keep_master: false");
  (*proto.mutable_hyperparameters())["beta1"] = 0.5;

  const RuleSpec rule = {"adam", {{"beta1", 0.5}}, /*keep_master=*/false};
  EXPECT_EQ(FromProto(proto), rule);
}

TEST(ProtoCodecTest, MultipliersAreOneWhereTheyAreAbsent) {
  EXPECT_TRUE(FromProto(Parse<v1::Multipliers>("learning_rate: 0.5")) ==
              (Multipliers{0.5, 1}));
  EXPECT_TRUE(FromProto(Parse<v1::Multipliers>("weight_decay: 0")) ==
              (Multipliers{1, 0}));
  v1::Multipliers proto;
  ToProto(Multipliers{0, 0}, &proto);
  EXPECT_TRUE(FromProto(proto) == (Multipliers{0, 0}));
}

// --- What a newer server says besides ---------------------------------------

TEST(ProtoCodecTest, UnknownDTypeOfOneKeyLeavesTheOthersReadable) {
  const auto reply = Parse<v1::ListResponse>(
      "keys { key: 'new' dtype: 77 }"
      "keys { key: 'w' dtype: DTYPE_U16 }");

  EXPECT_EQ(DTypeOf(reply.keys(0)), DType::kUnknown);
  EXPECT_EQ(DTypeOf(reply.keys(1)), DType::kU16);
}

TEST(ProtoCodecTest, UnknownModeOfANamespaceLeavesTheRestReadable) {
  ASSERT_OK_AND_ASSIGN(const NamespaceConfig config,
                       Decode(Parse<v1::NamespaceConfig>(
                           "mode: 9 on_worker_loss: 9 quorum: 2")));

  EXPECT_EQ(config.mode, Mode::kUnknown);
  EXPECT_EQ(config.on_worker_loss, OnWorkerLoss::kUnknown);
  EXPECT_EQ(config.quorum, 2u);
}

// --- What absent and unspecified fields mean --------------------------------

TEST(ProtoCodecTest, WhatIsAbsentOfANamespaceHasItsDefault) {
  ASSERT_OK_AND_ASSIGN(
      const NamespaceConfig config,
      KnownConfig(Parse<v1::NamespaceConfig>("budget_bytes: 1")));

  EXPECT_EQ(config.mode, Mode::kAsync);
  EXPECT_EQ(config.rule.name, "assign");
}

TEST(ProtoCodecTest, AbsentCallerStaysAbsent) {
  ASSERT_OK_AND_ASSIGN(const PushRequest absent, Decode(v1::PushRequest()));
  ASSERT_OK_AND_ASSIGN(
      const PushRequest present,
      Decode(Parse<v1::PushRequest>("call_id {} worker { rank: 0 }")));

  EXPECT_FALSE(absent.call_id);
  EXPECT_FALSE(absent.worker);
  EXPECT_THAT(present.call_id, Optional(FieldsAre("", 0, 0)));
  EXPECT_THAT(present.worker, Optional(FieldsAre(0, 0)));
}

TEST(ProtoCodecTest, SkippedEntriesCarryNoTensor) {
  PushRequest request;
  request.entries.push_back({.key = "w", .skip = true, .tensor = Tensor()});
  v1::PushRequest proto;

  ToProto(request, &proto);

  EXPECT_FALSE(proto.entries(0).has_tensor());
}

TEST(ProtoCodecTest, DTypesHaveTheNumbersOfTheContract) {
  for (DType dtype : kAllDTypes) {
    EXPECT_EQ(v1::DType_Name(static_cast<int>(dtype)),
              absl::StrCat("DTYPE_", absl::AsciiStrToUpper(NameOf(dtype))));
  }
  EXPECT_EQ(std::size(kAllDTypes), v1::DType_MAX);
}

// --- Whose memory a tensor is -----------------------------------------------

v1::Tensor LargeTensor() {
  v1::Tensor proto;
  proto.set_dtype(v1::DTYPE_F64);
  proto.add_shape(100);
  proto.set_data(std::string(800, 'x'));
  return proto;
}

TEST(ProtoCodecTest, TensorTakesThePayloadWithoutACopy) {
  v1::Tensor proto = LargeTensor();
  const char* const payload = proto.data().data();

  ASSERT_OK_AND_ASSIGN(const Tensor tensor, FromProto(std::move(proto)));

  EXPECT_EQ(tensor.data(), payload);
}

TEST(ProtoCodecTest, TensorOutlivesItsMessage) {
  auto proto = std::make_unique<v1::PushRequest>();
  v1::PushEntry& entry = *proto->add_entries();
  entry.set_key("w");
  *entry.mutable_tensor() = LargeTensor();

  ASSERT_OK_AND_ASSIGN(const PushRequest request, FromProto(std::move(*proto)));
  proto = nullptr;

  EXPECT_EQ(request.entries[0].tensor.data()[799], 'x');
}

TEST(ProtoCodecTest, TensorsAreAlignedToTheirElements) {
  v1::Tensor proto;
  proto.set_dtype(v1::DTYPE_F64);
  proto.set_data("12345678");  // short enough to lie inside the string object

  ASSERT_OK_AND_ASSIGN(const Tensor tensor, FromProto(std::move(proto)));

  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 8, 0);
  EXPECT_EQ(tensor.data()[7], '8');
}

TEST(ProtoCodecTest, TensorWithoutElementsNeedsNoLocation) {
  ASSERT_OK_AND_ASSIGN(
      const Tensor tensor,
      Decode(Parse<v1::Tensor>("dtype: DTYPE_F32 shape: [ 3, 0 ]")));

  EXPECT_EQ(tensor.Description(), "f32[3,0]");
  EXPECT_EQ(tensor.size_bytes(), 0);
}

}  // namespace proto_codec_test
}  // namespace tensorkv
