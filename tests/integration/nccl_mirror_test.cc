// Two servers on one GPU that mirror: their slices go by the machine's NCCL.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cluster/connect.h"
#include "client/local/local_connection.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/nccl/nccl_library.h"
#include "tests/contracts/caller.h"
#include "tests/service/child_process.h"
#include "tests/testing/background.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Background;
using testing::BytesOf;
using testing::Caller;
using testing::ChildProcess;
using testing::Full;
using testing::HasReason;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr char kLibrary[] = "libnccl.so.2";
constexpr uint32_t kServers = 2;

// One that is in slices, and one that a server sums whole.
constexpr std::pair<const char*, int64_t> kKeys[] = {{"big", 3'000'001},
                                                     {"small", 100}};

// A process of mirror_server.
class GpuServer {
 public:
  explicit GpuServer(const std::string& name) : name_(name) {
    fifo_ = absl::StrCat(::testing::TempDir(), "/", name, ".", getpid(), ".",
                         ++num_fifos_);
    EXPECT_EQ(mkfifo(fifo_.c_str(), 0600), 0);
    // For reading, too: then it does not wait for the process.
    lines_ = open(fifo_.c_str(), O_RDWR | O_CLOEXEC);
    process_ = std::make_unique<ChildProcess>(std::vector<std::string>{
        "tests/integration/mirror_server", name, fifo_, kLibrary});
    const std::string line = process_->WaitForLine("listening on ");
    address_ = std::string(absl::StripPrefix(line, "listening on "));
    EXPECT_NE(address_, "");
  }
  ~GpuServer() {
    process_ = nullptr;
    close(lines_);
    unlink(fifo_.c_str());
  }

  std::string Placed() const { return absl::StrCat(name_, "=", address_); }
  const std::string& address() const { return address_; }
  std::string Ask(const std::string& line, const std::string& answer) {
    const std::string whole = absl::StrCat(line, "\n");
    EXPECT_EQ(write(lines_, whole.data(), whole.size()),
              static_cast<ssize_t>(whole.size()));
    return process_->WaitForLine(answer);
  }
  void Kill() { process_->Signal(SIGKILL); }

 private:
  static int num_fifos_;
  const std::string name_;
  std::string fifo_;
  int lines_ = -1;
  std::unique_ptr<ChildProcess> process_;
  std::string address_;
};
int GpuServer::num_fifos_ = 0;

class NcclMirrorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<int> num_gpus = NumCudaDevices();
    if (!num_gpus.ok() || *num_gpus == 0) GTEST_SKIP() << "there is no GPU";
    const absl::Status nccl = LoadNccl(kLibrary).status();
    if (!nccl.ok()) GTEST_SKIP() << nccl;
    for (uint32_t i = 0; i < kServers; ++i) StartServer(i);
    Connect();
  }

  void StartServer(uint32_t i) {
    servers_[i] = nullptr;
    servers_[i] = std::make_unique<GpuServer>(absl::StrCat("s", i));
  }
  // Has all servers know each other, and creates a namespace.
  void Connect() {
    ++version_;
    std::string place = absl::StrCat("place ", version_);
    std::string target = "cluster:";
    for (const auto& server : servers_) {
      absl::StrAppend(&place, " ", server->Placed());
      absl::StrAppend(&target, target.back() == ':' ? "" : ",",
                      server->address());
    }
    for (const auto& server : servers_) {
      ASSERT_NE(server->Ask(place, absl::StrCat("placed ", version_)), "");
    }
    ASSERT_OK_AND_ASSIGN(connection_,
                         ConnectTo({.target = target}, nullptr, Backoff()));
    one_ = std::make_unique<LocalConnection>(LocalConnectionOptions());
    Prepare(Mirrored(), /*mirrored=*/true);
    Prepare(One(), /*mirrored=*/false);
  }
  static void Prepare(const Caller& store, bool mirrored) {
    NamespaceConfig config = {.mode = Mode::kSync, .num_workers = kServers};
    config.mirrored = mirrored;
    config.rule.name = "accumulate";
    ASSERT_OK(store.Create(config));
    for (const auto& [key, size] : kKeys) {
      ASSERT_OK(store.Init(key, Full({size}, 1)));
    }
  }
  std::string space() const { return absl::StrCat("ddp", version_); }
  Caller Mirrored() { return Caller(*connection_, space()); }
  Caller One() { return Caller(*one_, space()); }

  // Of which the sum depends on the order.
  static Tensor GradientOf(int64_t size, uint32_t rank, Step step) {
    std::minstd_rand random(static_cast<uint32_t>(1 + rank * 7919 + step));
    Tensor tensor = Full({size}, 0);
    for (float& element : tensor.mutable_elements<float>()) {
      element = static_cast<float>(random()) / 1e9f - 1;
    }
    return tensor;
  }
  static absl::Status MakeStep(const Caller& worker, uint32_t rank, Step step) {
    std::vector<PushEntry> pushed;
    std::vector<PullEntry> pulled;
    for (const auto& [key, size] : kKeys) {
      pushed.push_back({.key = key, .tensor = GradientOf(size, rank, step)});
      pulled.push_back({.key = key});
    }
    const absl::Status status =
        worker.PushMany(std::move(pushed), step).status();
    return status.ok() ? worker.PullMany(std::move(pulled)).status() : status;
  }
  static void MakeRounds(const Caller& store, Step last) {
    using Work = std::function<absl::Status()>;
    std::vector<std::unique_ptr<Background<Work>>> workers;
    for (uint32_t rank = 0; rank < kServers; ++rank) {
      workers.push_back(std::make_unique<Background<Work>>([=] {
        absl::Status status;
        for (Step step = 1; step <= last && status.ok(); ++step) {
          status = MakeStep(store.As(rank), rank, step);
        }
        return status;
      }));
    }
    for (const auto& worker : workers) EXPECT_OK(worker->Result());
  }
  // After rounds on both sides. Workers pull from different servers.
  void ExpectBitsOfOneServer() {
    for (const auto& [key, size] : kKeys) {
      const absl::StatusOr<Value> expected = One().Pull(key);
      ASSERT_OK(expected);
      for (uint32_t rank = 0; rank < kServers; ++rank) {
        const absl::StatusOr<Value> value = Mirrored().As(rank).Pull(key);
        ASSERT_OK(value);
        EXPECT_EQ(value->version, expected->version);
        EXPECT_TRUE(BytesOf(value->tensor) == BytesOf(expected->tensor)) << key;
      }
    }
  }

  uint64_t version_ = 0;
  std::unique_ptr<GpuServer> servers_[kServers];
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<LocalConnection> one_;
};

TEST_F(NcclMirrorTest, HundredRoundsHaveTheBitsOfOneServer) {
  MakeRounds(Mirrored(), 100);

  MakeRounds(One(), 100);
  ExpectBitsOfOneServer();
  for (const auto& server : servers_) {
    const std::string line = server->Ask("count", "exchanges: ");
    uint64_t num_whole = 0;
    uint64_t num_on_gpus = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "exchanges: %lu, on GPUs: %lu",
                          &num_whole, &num_on_gpus),
              2)
        << line;
    // The big key alone has an exchange in each round.
    EXPECT_GE(num_on_gpus, 100u);
    EXPECT_EQ(num_on_gpus, num_whole);
  }
}

// It is killed while its round is open: the other waits for it, and the GPUs,
// which have met, are idle.
TEST_F(NcclMirrorTest, ServerThatIsKilledFailsItsRoundAndComesBack) {
  MakeRounds(Mirrored(), 5);
  const Caller worker = Mirrored().As(0);
  ASSERT_OK(worker.Push("big", GradientOf(3'000'001, 0, 6), 6));
  servers_[1]->Kill();
  EXPECT_THAT(worker.WithTimeout(absl::Seconds(60)).Pull("big").status(),
              AllOf(HasReason(Reason::kRoundFailed),
                    StatusIs(absl::StatusCode::kAborted, HasSubstr("s1"))));

  // What it had is lost: all begin again.
  StartServer(1);
  Connect();
  MakeRounds(Mirrored(), 5);

  MakeRounds(One(), 5);
  ExpectBitsOfOneServer();
}

}  // namespace
}  // namespace tensorkv
