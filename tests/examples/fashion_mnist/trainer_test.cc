#include "examples/fashion_mnist/trainer.h"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "examples/fashion_mnist/network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tests/examples/fashion_mnist/idx_bytes.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::fashion_mnist {
namespace {

using ::absl::StatusCode;
using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kWorkerExecutable[] = "examples/fashion_mnist/fashion_mnist";
constexpr uint32_t kWidth = 4;

// Writes images of noise in which one bright pixel tells the class.
void WriteSplit(const std::string& prefix, uint32_t num_images) {
  std::mt19937 random(5);
  std::string pixels;
  std::string labels;
  for (uint32_t i = 0; i < num_images; ++i) {
    const uint32_t label = i % kNumClasses;
    for (uint32_t pixel = 0; pixel < kWidth * kWidth; ++pixel) {
      const uint32_t noise = random() % 100;
      pixels.push_back(static_cast<char>(pixel == label ? 250 : noise));
    }
    labels.push_back(static_cast<char>(label));
  }
  WriteGzip(prefix + "-images-idx3-ubyte.gz",
            IdxBytes({num_images, kWidth, kWidth}, pixels));
  WriteGzip(prefix + "-labels-idx1-ubyte.gz", IdxBytes({num_images}, labels));
}

class TrainerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::filesystem::create_directories(DataDir());
    WriteSplit(DataDir() + "/train", 400);
    WriteSplit(DataDir() + "/t10k", 100);
  }

  void SetUp() override {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    ASSERT_OK_AND_ASSIGN(server_, Server::Create(options));
  }

  static std::string DataDir() { return ::testing::TempDir() + "/images"; }

  TrainingOptions Options(const std::string& name_space) const {
    TrainingOptions options;
    options.common.server = server_->address();
    options.common.name_space = name_space;
    options.common.data_dir = DataDir();
    options.common.num_workers = 2;
    options.common.num_epochs = 4;
    options.common.batch_size = 20;
    options.rule = {.name = "sgd", .hyperparameters = {{"learning_rate", 0.3}}};
    options.worker_executable = kWorkerExecutable;
    return options;
  }

  absl::StatusOr<double> TrainQuietly(const TrainingOptions& options) {
    ProgressDisplay display(log_, /*is_terminal=*/false,
                            options.common.num_epochs);
    return Train(options, display);
  }

  std::unique_ptr<Client> Connect(const std::string& name_space) {
    ClientOptions options;
    options.target = server_->address();
    options.name_space = name_space;
    auto client = Client::Connect(options);
    EXPECT_OK(client);
    return *std::move(client);
  }

  std::vector<float> FirstWeights(const std::string& name_space) {
    const auto value = Connect(name_space)->Pull(kParameterKeys[0]);
    EXPECT_OK(value);
    const auto elements = value->tensor.elements<float>();
    return {elements.begin(), elements.end()};
  }

  std::ostringstream log_;
  std::unique_ptr<Server> server_;
};

TEST_F(TrainerTest, SyncWorkersLearnTheImages) {
  ASSERT_OK_AND_ASSIGN(const double accuracy, TrainQuietly(Options("sync")));

  EXPECT_GT(accuracy, 0.95);
  EXPECT_THAT(log_.str(),
              AllOf(StartsWith("epoch 1/4  loss "), HasSubstr("epoch 4/4")));
}

TEST_F(TrainerTest, AsyncWorkersLearnTheImages) {
  TrainingOptions options = Options("async");
  options.mode = Mode::kAsync;

  ASSERT_OK_AND_ASSIGN(const double accuracy, TrainQuietly(options));

  EXPECT_GT(accuracy, 0.95);
}

TEST_F(TrainerTest, SyncTrainingGivesTheSameBitsAgain) {
  ASSERT_OK(TrainQuietly(Options("one")));
  ASSERT_OK(TrainQuietly(Options("two")));

  EXPECT_THAT(FirstWeights("one"), ElementsAreArray(FirstWeights("two")));
}

TEST_F(TrainerTest, WorkerThatDiesEndsTheTraining) {
  const std::string script = ::testing::TempDir() + "/worker.sh";
  std::ofstream(script) << "#!/bin/sh\n"
                        << "case \"$*\" in *--rank=1) exit 7 ;; esac\n"
                        << "exec " << kWorkerExecutable << " \"$@\"\n";
  ASSERT_EQ(chmod(script.c_str(), 0755), 0);
  TrainingOptions options = Options("dies");
  options.worker_executable = script;

  EXPECT_THAT(
      TrainQuietly(options),
      StatusIs(StatusCode::kInternal,
               AllOf(StartsWith("worker 1: "), HasSubstr("exit status 7"))));
}

TEST_F(TrainerTest, BatchLargerThanAShardEndsTheTraining) {
  TrainingOptions options = Options("large");
  options.common.batch_size = 201;

  EXPECT_THAT(TrainQuietly(options),
              StatusIs(StatusCode::kInternal, StartsWith("worker ")));
}

TEST_F(TrainerTest, NamespaceInUseIsLeftAlone) {
  const std::unique_ptr<Client> client = Connect("used");
  ASSERT_OK(client->CreateNamespace("used", NamespaceConfig{}));

  EXPECT_THAT(TrainQuietly(Options("used")),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("used")));

  ASSERT_OK_AND_ASSIGN(const NamespaceStatus status,
                       client->DescribeNamespace("used"));
  EXPECT_EQ(status.config.mode, Mode::kAsync);
  EXPECT_EQ(status.num_keys, 0);
}

TEST_F(TrainerTest, WrongRuleIsInvalid) {
  TrainingOptions options = Options("rule");
  options.rule.name = "magic";

  EXPECT_THAT(TrainQuietly(options),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("magic")));
}

}  // namespace
}  // namespace tensorkv::fashion_mnist
