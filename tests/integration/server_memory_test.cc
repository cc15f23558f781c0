// What the server's memory looks like from outside: after a burst it comes
// back, and large buffers are used again.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/internal/transfer/grpc_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/contracts/caller.h"
#include "tests/integration/server_process.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

class ServerMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef SYSTEM_ALLOCATOR
    GTEST_SKIP() << "built with the system's allocator";
#endif
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--listen=127.0.0.1:0", "--metrics_listen=", "--budget=4GiB",
        "--idle_memory=3s"});
    connection_ =
        GrpcConnection::Create({.target = server_->AwaitAddress()}).value();
  }

  Caller store() const { return Caller(*connection_, ""); }

  int64_t ResidentBytes() const {
    return server_->StatusField("VmRSS:") * 1024;
  }
  int64_t PageFaults() const {
    constexpr int kMinorFaults = 9;
    std::ifstream in(absl::StrCat("/proc/", server_->pid(), "/stat"));
    std::string field;
    for (int i = 0; i <= kMinorFaults; ++i) in >> field;
    return std::stoll(field);
  }

  // Creates keys of that size, so many bytes in all.
  std::vector<std::string> Fill(const std::string& prefix, int64_t total_bytes,
                                int64_t key_bytes) {
    constexpr int64_t kCallBytes = 16 * kMebibyte;
    const Tensor value = Full({key_bytes / 4}, 1);
    std::vector<std::string> names;
    for (int64_t bytes = 0; bytes < total_bytes; bytes += kCallBytes) {
      std::vector<InitEntry> entries;
      for (int64_t i = 0; i < kCallBytes / key_bytes; ++i) {
        names.push_back(absl::StrCat(prefix, names.size()));
        entries.push_back({names.back(), value});
      }
      EXPECT_OK(store().InitMany(std::move(entries)));
    }
    return names;
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Connection> connection_;
};

// The server gives memory back by itself, some seconds after it was freed.
bool WithinAMinute(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_F(ServerMemoryTest, ComesBackAfterABurst) {
  Fill("live/", 128 * kMebibyte, 64 * 1024);
  const int64_t before = ResidentBytes();

  std::vector<std::string> burst = Fill("small/", 256 * kMebibyte, 4096);
  for (const std::string& name :
       Fill("large/", 256 * kMebibyte, 16 * kMebibyte)) {
    burst.push_back(name);
  }
  EXPECT_GT(ResidentBytes(), before + 512 * kMebibyte);
  ASSERT_OK(store().Delete(std::move(burst)));

  // Some of it stays between what lives.
  const int64_t most = before + 512 * kMebibyte / 10;
  EXPECT_TRUE(WithinAMinute([&] { return ResidentBytes() < most; }))
      << ResidentBytes() / kMebibyte << " MiB, before the burst "
      << before / kMebibyte;
}

TEST_F(ServerMemoryTest, LargeBuffersAreUsedAgain) {
  // Without huge pages.
  constexpr int64_t kBytes = 4 * kMebibyte;
  const Tensor tensor = Full({kBytes / 4}, 1);
  ASSERT_OK(store().Init("w", tensor));
  const auto faults_of_a_push = [&] {
    const int64_t before = PageFaults();
    EXPECT_OK(store().Push("w", tensor));
    return PageFaults() - before;
  };

  int64_t least = faults_of_a_push();
  for (int i = 0; i < 20; ++i) least = std::min(least, faults_of_a_push());

  // Without it, a push touches every page of its tensor for the first time.
  EXPECT_LT(least, kBytes / sysconf(_SC_PAGESIZE) / 10);
}

}  // namespace
}  // namespace tensorkv::testing
