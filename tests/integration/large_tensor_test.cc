// A tensor larger than any message, and what it costs the server's memory.
// TENSORKV_TEST_TENSOR_MIB says how large; more than 4 GiB takes minutes:
//
//   bazel test --test_env=TENSORKV_TEST_TENSOR_MIB=5120 --test_timeout=900
//       --test_output=all //tests/integration:memory_test

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/internal/transfer/grpc_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/buffer.h"
#include "tests/contracts/caller.h"
#include "tests/integration/server_process.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {
namespace {

constexpr int64_t kMiB = 1 << 20;
// What the process has besides the tensor: code, gRPC, parts under way.
constexpr int64_t kBesides = 256 * kMiB;

int64_t TensorBytes() {
  const char* mib = std::getenv("TENSORKV_TEST_TENSOR_MIB");
  return (mib == nullptr ? 256 : std::atoll(mib)) * kMiB;
}

// Differs from element to element and does not repeat.
uint64_t ElementAt(uint64_t index) { return (index + 1) * 0x9E3779B97F4A7C15; }

Tensor Pattern(int64_t size_bytes) {
  RefPtr<Buffer> buffer = HostBuffer::Allocate(size_bytes).value();
  char* data = buffer->mutable_data();
  for (int64_t i = 0; i < size_bytes / 8; ++i) {
    const uint64_t element = ElementAt(i);
    std::memcpy(data + i * 8, &element, 8);
  }
  return Tensor::FromBuffer(DType::kI64, {size_bytes / 8}, std::move(buffer))
      .value();
}

bool IsPattern(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.shape().num_elements(); ++i) {
    uint64_t element;
    std::memcpy(&element, tensor.data() + i * 8, 8);
    if (element != ElementAt(i)) return false;
  }
  return true;
}

class LargeTensorTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef SYSTEM_ALLOCATOR
    GTEST_SKIP() << "a sanitizer's allocator keeps what is freed";
#endif
    const int64_t budget = 4 * bytes_ + kBesides;
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--listen=127.0.0.1:0",
        "--metrics_listen=", absl::StrCat("--budget=", budget / kMiB, "MiB")});
    connection_ =
        GrpcConnection::Create({.target = server_->AwaitAddress()}).value();
  }

  Caller store() const {
    return Caller(*connection_, "").WithTimeout(absl::Minutes(10));
  }

  void ExpectPeakBelow(double tensors, const char* when) {
    const int64_t peak = server_->StatusField("VmHWM:") * 1024;
    std::printf("tensor of %ld MiB: peak of the server %s: %ld MiB\n",
                static_cast<long>(bytes_ / kMiB), when,
                static_cast<long>(peak / kMiB));
    EXPECT_LT(peak, tensors * bytes_ + kBesides) << when;
  }

  const int64_t bytes_ = TensorBytes();
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(LargeTensorTest, IsThereOnceInTheServer) {
  ASSERT_OK(store().Init("w", Pattern(bytes_)));
  {
    const absl::StatusOr<Value> pulled = store().Pull("w");
    ASSERT_OK(pulled);
    EXPECT_EQ(pulled->tensor.size_bytes(), bytes_);
    EXPECT_TRUE(IsPattern(pulled->tensor));
  }
  ExpectPeakBelow(1.3, "after init and pull");
}

// The value that is there stays whole until the other one is.
TEST_F(LargeTensorTest, IsThereTwiceDuringAPush) {
  ASSERT_OK(store().Init("w", *Tensor::Filled(DType::kI64, {bytes_ / 8}, 0)));
  ASSERT_OK(store().Push("w", Pattern(bytes_)));
  {
    const absl::StatusOr<Value> pulled = store().Pull("w");
    ASSERT_OK(pulled);
    EXPECT_EQ(pulled->version, 2u);
    EXPECT_TRUE(IsPattern(pulled->tensor));
  }
  ExpectPeakBelow(2.3, "after init, push and pull");
}

}  // namespace
}  // namespace tensorkv::testing
