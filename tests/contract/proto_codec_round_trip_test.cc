#include <utility>

#include "google/protobuf/util/message_differencer.h"
#include "tests/contract/generated_codec.h"
#include "tests/contract/random_messages.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::RandomMessages;

template <typename T>
absl::StatusOr<T> AsStatusOr(absl::StatusOr<T> value) {
  return value;
}
template <typename T>
absl::StatusOr<T> AsStatusOr(T value) {
  return value;
}

template <typename Proto>
auto Decode(Proto proto) {
  return AsStatusOr(FromProto(std::move(proto)));
}

template <typename Proto>
class RoundTripTest : public ::testing::Test {
 protected:
  // Expects that what is read of the message is written as the same.
  static void ExpectSurvives(const Proto& sent) {
    const auto value = Decode(sent);
    ASSERT_OK(value);
    Proto again;
    ToProto(*value, &again);
    EXPECT_TRUE(MessageDifferencer::Equals(sent, again))
        << sent.DebugString() << "\nbecame\n"
        << again.DebugString();
  }
};

using Protos = ::testing::Types<
    v1::Tensor, v1::InitRequest, v1::InitResponse, v1::PushRequest,
    v1::PushResponse, v1::PullRequest, v1::PullResponse, v1::PushPullRequest,
    v1::PushPullResponse, v1::PushRowsRequest, v1::PushRowsResponse,
    v1::PullRowsRequest, v1::PullRowsResponse, v1::SetStateRequest,
    v1::SetStateResponse, v1::GetStateRequest, v1::GetStateResponse,
    v1::InitManifest, v1::PushManifest, v1::PullManifest, v1::Rule,
    v1::NamespaceConfig, v1::ClusterPlacement>;
TYPED_TEST_SUITE(RoundTripTest, Protos);

TYPED_TEST(RoundTripTest, RandomMessagesSurvive) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    this->ExpectSurvives(RandomMessages(seed).Draw<TypeParam>());
    ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
  }
}

TYPED_TEST(RoundTripTest, DefaultValuesSurvive) {
  typename decltype(Decode(TypeParam()))::value_type value;
  TypeParam proto;

  ToProto(value, &proto);

  this->ExpectSurvives(proto);
}

}  // namespace
}  // namespace tensorkv
