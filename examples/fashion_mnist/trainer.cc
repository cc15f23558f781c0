#include "examples/fashion_mnist/trainer.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "client/client.h"
#include "examples/fashion_mnist/command_line.h"
#include "examples/fashion_mnist/dataset.h"
#include "examples/fashion_mnist/epoch_tracker.h"
#include "examples/fashion_mnist/network.h"
#include "examples/fashion_mnist/parameter_entries.h"
#include "examples/fashion_mnist/worker_group.h"

namespace tensorkv::fashion_mnist {
namespace {

// Bounds the memory that an evaluation takes.
constexpr int64_t kEvaluationBatch = 1000;

// The server sums gradients over images; the weights move by their mean.
RuleSpec AveragingRule(const TrainingOptions& options) {
  RuleSpec rule = options.rule;
  rule.hyperparameters.emplace(
      "rescale_grad",
      1.0 / (options.common.batch_size * options.common.num_workers));
  return rule;
}

NamespaceConfig ConfigOf(const TrainingOptions& options) {
  NamespaceConfig config{.mode = options.mode, .rule = AveragingRule(options)};
  if (options.mode == Mode::kSync) {
    config.num_workers = options.common.num_workers;
  }
  return config;
}

absl::Status CreateModel(const TrainingOptions& options,
                         const NetworkSize& size, Client& client) {
  ASSIGN_OR_RETURN(const Parameters parameters,
                   InitialParameters(size, options.common.seed));
  RETURN_IF_ERROR(
      client.CreateNamespace(options.common.name_space, ConfigOf(options)));
  return client.Init(InitEntries(parameters));
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

// Follows the workers of one training to its end.
class TrainingRun {
 public:
  TrainingRun(const TrainingOptions& options, const NetworkSize& size,
              const Dataset& test_images, Client& client,
              ProgressDisplay& display)
      : options_(options),
        size_(size),
        test_images_(test_images),
        client_(client),
        display_(display),
        tracker_(options.common.num_workers) {}

  absl::StatusOr<double> FollowToEnd(WorkerGroup& workers) {
    while (true) {
      ASSIGN_OR_RETURN(const std::vector<StepReport> reports,
                       workers.NextReports());
      if (reports.empty()) break;
      RETURN_IF_ERROR(Take(reports));
    }
    if (epoch_ <= options_.common.num_epochs) {
      return absl::InternalError("the workers ended before their last epoch");
    }
    return accuracy_;
  }

 private:
  absl::Status Take(const std::vector<StepReport>& reports) {
    for (const StepReport& report : reports) tracker_.Add(report);
    while (tracker_.IsComplete(epoch_)) {
      RETURN_IF_ERROR(Evaluate());
      display_.ShowEpoch(epoch_, tracker_.MeanLoss(epoch_), accuracy_);
      ++epoch_;
    }
    if (epoch_ <= options_.common.num_epochs) {
      display_.ShowProgress(epoch_, tracker_.Progress(epoch_),
                            tracker_.MeanLoss(epoch_));
    }
    return absl::OkStatus();
  }

  absl::Status Evaluate() {
    ASSIGN_OR_RETURN(const PullReply reply, client_.Pull(PullKeys()));
    ASSIGN_OR_RETURN(const Parameters parameters, ParametersOf(size_, reply));
    accuracy_ = Accuracy(parameters, test_images_);
    return absl::OkStatus();
  }

  const TrainingOptions& options_;
  const NetworkSize size_;
  const Dataset& test_images_;
  Client& client_;
  ProgressDisplay& display_;
  EpochTracker tracker_;
  uint32_t epoch_ = 1;  // the first that is not complete
  double accuracy_ = 0;
};

absl::StatusOr<std::unique_ptr<WorkerGroup>> StartWorkers(
    const TrainingOptions& options) {
  std::vector<std::vector<std::string>> arguments;
  for (uint32_t rank = 0; rank < options.common.num_workers; ++rank) {
    arguments.push_back(
        WorkerArguments({.common = options.common, .rank = rank}));
  }
  return WorkerGroup::Start(options.worker_executable, arguments);
}

}  // namespace

absl::StatusOr<double> Train(const TrainingOptions& options,
                             ProgressDisplay& display) {
  ASSIGN_OR_RETURN(const Dataset test_images,
                   LoadDataset(options.common.data_dir, Split::kTest));
  ClientOptions client_options;
  client_options.target = options.common.server;
  client_options.name_space = options.common.name_space;
  ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                   Client::Connect(client_options));
  const NetworkSize size{.inputs = test_images.image_size};
  RETURN_IF_ERROR(CreateModel(options, size, *client));
  ASSIGN_OR_RETURN(const std::unique_ptr<WorkerGroup> workers,
                   StartWorkers(options));
  return TrainingRun(options, size, test_images, *client, display)
      .FollowToEnd(*workers);
}

}  // namespace tensorkv::fashion_mnist
