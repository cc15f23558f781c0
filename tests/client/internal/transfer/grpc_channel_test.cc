#include "client/internal/transfer/grpc_channel.h"

#include <cstdlib>

#include "grpc/grpc.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

// gRPC's end may take as long as 10 s. A process of its own has no other user.
TEST(GrpcChannelDeathTest, EndsWithoutEndingGrpc) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        OpenChannel("127.0.0.1:1").reset();
        std::exit(grpc_is_initialized() != 0 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tensorkv
