#include "examples/fashion_mnist/trainer.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "client/client.h"
#include "examples/fashion_mnist/dataset.h"
#include "examples/fashion_mnist/network.h"
#include "examples/fashion_mnist/worker.h"

namespace tensorkv::fashion_mnist {
namespace {

// Bounds the memory that an evaluation takes.
constexpr int64_t kEvaluationBatch = 1000;

// The server sums gradients over images; the weights move by their mean.
RuleSpec AveragingRule(const TrainingOptions& options) {
  RuleSpec rule = options.rule;
  rule.hyperparameters.emplace(
      "rescale_grad", 1.0 / (options.batch_size * options.num_workers));
  return rule;
}

absl::Status CreateModel(const TrainingOptions& options,
                         const NetworkSize& size, Client* client) {
  ASSIGN_OR_RETURN(const Parameters parameters,
                   InitialParameters(size, options.seed));
  NamespaceConfig config = {.mode = options.mode,
                            .rule = AveragingRule(options)};
  if (options.mode == Mode::kSync) config.num_workers = options.num_workers;
  RETURN_IF_ERROR(client->CreateNamespace(options.name_space, config));
  std::vector<InitEntry> entries;
  for (size_t i = 0; i < kNumParameters; ++i) {
    entries.push_back(
        {.key = std::string(kParameterKeys[i]), .tensor = parameters[i]});
  }
  return client->Init(std::move(entries));
}

double Accuracy(const Parameters& parameters, const Dataset& test_images) {
  std::vector<int64_t> numbers(test_images.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  int64_t correct = 0;
  for (int64_t begin = 0; begin < test_images.size();
       begin += kEvaluationBatch) {
    const auto batch = absl::MakeSpan(numbers).subspan(begin, kEvaluationBatch);
    correct += CountCorrect(parameters, MakeBatch(test_images, batch));
  }
  return static_cast<double>(correct) /
         static_cast<double>(std::max<int64_t>(1, test_images.size()));
}

// What the workers of one training share. Thread-safe.
class Training {
 public:
  // All outlive the training.
  Training(const TrainingOptions& options, const Dataset& test_images,
           Client* client, std::ostream* progress)
      : options_(options),
        test_images_(test_images),
        client_(*client),
        progress_(*progress),
        losses_(options.num_epochs) {}

  // A worker has finished an epoch. The last of them measures the result.
  absl::Status FinishEpoch(uint32_t epoch, double loss) {
    MutexLock lock(&mutex_);
    std::vector<double>& losses = losses_[epoch - 1];
    losses.push_back(loss);
    if (losses.size() < options_.num_workers) return absl::OkStatus();
    ASSIGN_OR_RETURN(
        const Parameters parameters,
        PullParameters(&client_, {.inputs = test_images_.image_size}));
    accuracy_ = Accuracy(parameters, test_images_);
    const double mean =
        std::accumulate(losses.begin(), losses.end(), 0.0) / losses.size();
    progress_ << absl::StrFormat("epoch %d/%d  loss %.4f  test accuracy %.4f",
                                 epoch, options_.num_epochs, mean, accuracy_)
              << std::endl;
    return absl::OkStatus();
  }

  // A worker has ended. After the first error the others wait for nobody.
  void FinishWorker(uint32_t rank, const absl::Status& status) {
    MutexLock lock(&mutex_);
    if (status.ok() || !status_.ok()) return;
    status_ = absl::Status(
        status.code(), absl::StrCat("worker ", rank, ": ", status.message()));
    client_.DeleteNamespace(options_.name_space).IgnoreError();  // It failed.
  }

  absl::StatusOr<double> Result() {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(status_);
    return accuracy_;
  }

 private:
  const TrainingOptions& options_;
  const Dataset& test_images_;
  Client& client_;
  std::ostream& progress_;
  Mutex mutex_;
  // For each epoch, those of the workers that have finished it.
  std::vector<std::vector<double>> losses_ ABSL_GUARDED_BY(mutex_);
  double accuracy_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<double> Train(const TrainingOptions& options,
                             std::ostream& progress) {
  ASSIGN_OR_RETURN(const Dataset images,
                   LoadDataset(options.data_dir, Split::kTrain));
  ASSIGN_OR_RETURN(const Dataset test_images,
                   LoadDataset(options.data_dir, Split::kTest));
  ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                   Client::Connect({.target = options.target,
                                    .credentials = options.credentials,
                                    .name_space = options.name_space}));
  RETURN_IF_ERROR(
      CreateModel(options, {.inputs = images.image_size}, client.get()));
  Training training(options, test_images, client.get(), &progress);
  std::vector<std::thread> workers;
  for (uint32_t rank = 0; rank < options.num_workers; ++rank) {
    workers.emplace_back([&, rank] {
      training.FinishWorker(
          rank,
          RunWorker(options, rank, images, [&](uint32_t epoch, double loss) {
            return training.FinishEpoch(epoch, loss);
          }));
    });
  }
  for (std::thread& worker : workers) worker.join();
  return training.Result();
}

}  // namespace tensorkv::fashion_mnist
