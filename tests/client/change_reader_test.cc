#include "client/change_reader.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/status_macros.h"
#include "client/local/local_connection.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::absl::StatusCode;
using testing::Full;
using testing::StatusIs;

constexpr int64_t kNumElements = 1000;

// A store in this process, whose replies are spoilt as a test asks.
class SpoiltConnection final : public Connection {
 public:
  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override {
    RETURN_IF_ERROR(store_.Attempt(call, options));
    return call.Visit([this](const auto& request, auto& reply) {
      if constexpr (std::is_same_v<std::decay_t<decltype(request)>,
                                   PullRequest>) {
        Spoil(reply);
      }
      return absl::OkStatus();
    });
  }

  bool spoils_deltas = false;
  bool says_unchanged = false;
  // Comes in place of deltas: its first half as it is, and of the second that
  // it is unchanged.
  std::optional<Tensor> slices;

 private:
  void Spoil(PullReply& reply) const {
    for (Value& value : reply.values) {
      if (!value.change) continue;
      auto change = MakeRefCounted<ValueChange>();
      change->token = value.change->token;
      change->delta = value.change->delta;
      change->unchanged = value.change->unchanged || says_unchanged;
      if (spoils_deltas && change->delta) change->delta->digest ^= 1;
      if (slices && change->delta) {
        change->delta = std::nullopt;
        value.tensor = *slices;
        const auto half = static_cast<uint64_t>(slices->size_bytes() / 2);
        change->slices = {{.size_bytes = half},
                          {.size_bytes = half, .unchanged = true}};
      }
      value.change = std::move(change);
    }
  }

  LocalConnection store_;
};

class ChangeReaderTest : public ::testing::Test {
 protected:
  // Publishes the next snapshot of "w", which has `element` at `position`.
  void Publish(int64_t position, float element) {
    Tensor tensor = Full({kNumElements}, 1);
    tensor.mutable_elements<float>()[position] = element;
    PublishAs publish_as;
    publish_as.set_series("s");
    EXPECT_OK(client_.InitAndPublish({{"w", std::move(tensor)}},
                                     OnExisting::kReplace, publish_as));
  }

  // Returns the element that the reader gets of the latest.
  absl::StatusOr<float> Read(int64_t position) {
    PullRequest request = {.entries = {{"w"}}, .at = LatestSnapshot("s")};
    absl::StatusOr<PullReply> reply = reader_.Pull(client_, std::move(request));
    if (!reply.ok()) return reply.status();
    const Tensor& tensor = reply->values.front().tensor;
    EXPECT_EQ(tensor.Description(), "f32[1000]");
    return tensor.elements<float>()[position];
  }

  std::unique_ptr<SpoiltConnection> owned_ =
      std::make_unique<SpoiltConnection>();
  SpoiltConnection& connection_ = *owned_;
  Client client_{std::move(owned_), {.target = "local"}};
  ChangeReader reader_;
};

TEST_F(ChangeReaderTest, ReadsTheWholeThenWhatHasChangedThenNothing) {
  Publish(0, 5);
  EXPECT_THAT(Read(0), testing::IsOkAndHolds(5));
  EXPECT_EQ(reader_.counts().wholes, 1);
  const uint64_t bytes = reader_.counts().bytes;

  Publish(3, 7);
  EXPECT_THAT(Read(3), testing::IsOkAndHolds(7));
  EXPECT_THAT(Read(0), testing::IsOkAndHolds(1));

  EXPECT_EQ(reader_.counts().deltas, 1);
  EXPECT_EQ(reader_.counts().unchanged, 1);
  EXPECT_LT(reader_.counts().bytes - bytes, 50);
}

TEST_F(ChangeReaderTest, DeltaOfAnotherDigestIsPulledWhole) {
  Publish(0, 5);
  EXPECT_THAT(Read(0), testing::IsOkAndHolds(5));
  Publish(3, 7);
  connection_.spoils_deltas = true;

  EXPECT_THAT(Read(3), testing::IsOkAndHolds(7));

  EXPECT_EQ(reader_.counts().rejected, 1);
  EXPECT_EQ(reader_.counts().wholes, 2);
}

TEST_F(ChangeReaderTest, SlicesAreMadeWholeOfWhatIsHeld) {
  Publish(900, 5);
  EXPECT_THAT(Read(900), testing::IsOkAndHolds(5));
  Publish(3, 7);
  connection_.slices = Full({kNumElements}, 2);

  EXPECT_THAT(Read(3), testing::IsOkAndHolds(2));

  EXPECT_EQ(reader_.counts().wholes, 2);
  EXPECT_EQ(reader_.counts().unchanged, 1);
  EXPECT_THAT(Read(900), testing::IsOkAndHolds(5));
}

TEST_F(ChangeReaderTest, SlicesOfAnotherShapeArePulledWhole) {
  Publish(900, 5);
  EXPECT_THAT(Read(900), testing::IsOkAndHolds(5));
  Publish(3, 7);
  connection_.slices = Full({kNumElements / 2}, 2);

  EXPECT_THAT(Read(3), testing::IsOkAndHolds(7));
}

TEST_F(ChangeReaderTest, UnchangedThatNobodyHoldsIsAnError) {
  Publish(0, 5);
  connection_.says_unchanged = true;

  EXPECT_THAT(Read(0), StatusIs(StatusCode::kInternal));
}

TEST_F(ChangeReaderTest, ErrorLeavesWhatItHolds) {
  Publish(0, 5);
  EXPECT_THAT(Read(0), testing::IsOkAndHolds(5));

  EXPECT_THAT(reader_.Pull(client_, {.entries = {{"w"}, {"missing"}}}),
              StatusIs(StatusCode::kNotFound));

  EXPECT_THAT(Read(0), testing::IsOkAndHolds(5));
  EXPECT_EQ(reader_.counts().unchanged, 1);
}

TEST_F(ChangeReaderTest, HoldsWhatItHasReadLastAlone) {
  Publish(0, 5);
  EXPECT_THAT(Read(0), testing::IsOkAndHolds(5));
  ASSERT_OK(client_.Init("other", Full({2}, 1)));
  ASSERT_OK(reader_.Pull(client_, {.entries = {{"other"}}}));

  EXPECT_THAT(Read(0), testing::IsOkAndHolds(5));

  EXPECT_EQ(reader_.counts().wholes, 3);
}

TEST_F(ChangeReaderTest, AfterClearTheWholeComes) {
  Publish(0, 5);
  EXPECT_THAT(Read(0), testing::IsOkAndHolds(5));

  reader_.Clear();

  EXPECT_THAT(Read(0), testing::IsOkAndHolds(5));
  EXPECT_EQ(reader_.counts().wholes, 2);
}

}  // namespace
}  // namespace tensorkv
