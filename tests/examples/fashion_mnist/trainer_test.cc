#include "examples/fashion_mnist/trainer.h"

#include <cstdint>
#include <filesystem>
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

constexpr uint32_t kWidth = 4;

// Writes images of noise in which one bright pixel tells the class.
void WriteSplit(const std::string& prefix, uint32_t num_images,
                uint32_t width) {
  std::mt19937 random(5);
  std::string pixels;
  std::string labels;
  for (uint32_t i = 0; i < num_images; ++i) {
    const uint32_t label = i % kNumClasses;
    for (uint32_t pixel = 0; pixel < width * width; ++pixel) {
      const uint32_t noise = random() % 100;
      pixels.push_back(static_cast<char>(pixel == label ? 250 : noise));
    }
    labels.push_back(static_cast<char>(label));
  }
  WriteGzip(prefix + "-images-idx3-ubyte.gz",
            IdxBytes({num_images, width, width}, pixels));
  WriteGzip(prefix + "-labels-idx1-ubyte.gz", IdxBytes({num_images}, labels));
}

class TrainerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::filesystem::create_directories(DataDir());
    WriteSplit(DataDir() + "/train", 400, kWidth);
    WriteSplit(DataDir() + "/t10k", 100, kWidth);
  }

  void SetUp() override {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    ASSERT_OK_AND_ASSIGN(server_, Server::Create(options));
  }

  static std::string DataDir() { return ::testing::TempDir() + "/images"; }

  TrainingOptions Options(const std::string& name_space) const {
    TrainingOptions options;
    options.target = server_->address();
    options.name_space = name_space;
    options.data_dir = DataDir();
    options.num_workers = 2;
    options.num_epochs = 4;
    options.batch_size = 20;
    options.rule = {.name = "sgd", .hyperparameters = {{"learning_rate", 0.3}}};
    return options;
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
  ASSERT_OK_AND_ASSIGN(const double accuracy, Train(Options("sync"), log_));

  EXPECT_GT(accuracy, 0.95);
  EXPECT_THAT(log_.str(),
              AllOf(StartsWith("epoch 1/4  loss "), HasSubstr("epoch 4/4")));
}

TEST_F(TrainerTest, AsyncWorkersLearnTheImages) {
  TrainingOptions options = Options("async");
  options.mode = Mode::kAsync;

  ASSERT_OK_AND_ASSIGN(const double accuracy, Train(options, log_));

  EXPECT_GT(accuracy, 0.95);
}

TEST_F(TrainerTest, SyncTrainingGivesTheSameBitsAgain) {
  ASSERT_OK(Train(Options("one"), log_));
  ASSERT_OK(Train(Options("two"), log_));

  EXPECT_THAT(FirstWeights("one"), ElementsAreArray(FirstWeights("two")));
}

TEST_F(TrainerTest, BatchLargerThanAShardEndsTheTraining) {
  TrainingOptions options = Options("large");
  options.batch_size = 201;

  EXPECT_THAT(Train(options, log_),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(StartsWith("worker "), HasSubstr("201 images"))));
}

TEST_F(TrainerTest, AWorkerThatFailsEndsTheTrainingAndItsNamespace) {
  // The worker that ends the first epoch finds test images of another size;
  // the other one waits for it in a round.
  const std::string mixed = ::testing::TempDir() + "/mixed";
  std::filesystem::create_directories(mixed);
  WriteSplit(mixed + "/train", 400, kWidth);
  WriteSplit(mixed + "/t10k", 100, kWidth + 1);
  TrainingOptions options = Options("fails");
  options.data_dir = mixed;

  EXPECT_THAT(Train(options, log_),
              StatusIs(StatusCode::kInvalidArgument, StartsWith("worker ")));

  EXPECT_THAT(Connect("fails")->DescribeNamespace("fails"),
              StatusIs(StatusCode::kNotFound));
}

TEST_F(TrainerTest, NamespaceInUseIsLeftAlone) {
  const std::unique_ptr<Client> client = Connect("used");
  ASSERT_OK(client->CreateNamespace("used", NamespaceConfig{}));

  EXPECT_THAT(Train(Options("used"), log_),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("used")));

  ASSERT_OK_AND_ASSIGN(const NamespaceStatus status,
                       client->DescribeNamespace("used"));
  EXPECT_EQ(status.config().mode(), v1::MODE_ASYNC);
  EXPECT_EQ(status.num_keys(), 0);
}

TEST_F(TrainerTest, WrongRuleIsInvalid) {
  TrainingOptions options = Options("rule");
  options.rule.name = "magic";

  EXPECT_THAT(Train(options, log_),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("magic")));
}

}  // namespace
}  // namespace tensorkv::fashion_mnist
