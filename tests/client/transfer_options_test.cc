#include "client/transfer_options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

TEST(TransferOptionsTest, DefaultsAndExtremesAreValid) {
  EXPECT_THAT(CheckTransferOptions({}), IsOk());
  EXPECT_THAT(CheckTransferOptions({.stream_threshold_bytes = 0,
                                    .part_bytes = 1,
                                    .min_stripe_bytes = 1,
                                    .bulk_connections = 64}),
              IsOk());
}

TEST(TransferOptionsTest, OptionsThatMakeNoSenseAreInvalid) {
  EXPECT_THAT(
      CheckTransferOptions({.part_bytes = 0}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("part_bytes")));
  EXPECT_THAT(CheckTransferOptions({.min_stripe_bytes = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("min_stripe_bytes")));
  EXPECT_THAT(CheckTransferOptions({.bulk_connections = -1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected 0 to 64, got -1")));
  EXPECT_THAT(CheckTransferOptions({.bulk_connections = 65}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("bulk_connections")));
}

TEST(TransferOptionsTest, ConnectionsAreAsAskedForOrUpToFour) {
  EXPECT_EQ(NumBulkConnections({.bulk_connections = 7}), 7);
  EXPECT_GE(NumBulkConnections({}), 1);
  EXPECT_LE(NumBulkConnections({}), 4);
}

}  // namespace
}  // namespace tensorkv
