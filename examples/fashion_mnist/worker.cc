#include "examples/fashion_mnist/worker.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "client/client.h"
#include "examples/fashion_mnist/dataset.h"
#include "examples/fashion_mnist/network.h"
#include "examples/fashion_mnist/parameter_entries.h"
#include "examples/fashion_mnist/step_report.h"

namespace tensorkv::fashion_mnist {
namespace {

// A client in the group of workers, with its part of the images.
class ShardTrainer {
 public:
  ShardTrainer(const WorkerOptions& options, int report_fd,
               std::unique_ptr<Client> client, const Dataset& dataset)
      : options_(options),
        report_fd_(report_fd),
        client_(std::move(client)),
        size_{.inputs = dataset.image_size},
        shard_(Shard(dataset, options.rank, options.common.num_workers)),
        steps_per_epoch_(dataset.size() / options.common.num_workers /
                         options.common.batch_size) {}

  absl::Status Run() {
    if (steps_per_epoch_ == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected at least one batch of ", options_.common.batch_size,
          " images in a shard, got ", shard_.size(), " images"));
    }
    ASSIGN_OR_RETURN(const PullReply reply, client_->Pull(PullKeys()));
    ASSIGN_OR_RETURN(parameters_, ParametersOf(size_, reply));
    for (uint32_t epoch = 1; epoch <= options_.common.num_epochs; ++epoch) {
      RETURN_IF_ERROR(RunEpoch(epoch));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status RunEpoch(uint32_t epoch) {
    const std::vector<int64_t> order = ShuffledNumbers(epoch);
    const uint32_t batch_size = options_.common.batch_size;
    for (uint32_t step = 0; step < steps_per_epoch_; ++step) {
      const auto numbers =
          absl::MakeSpan(order).subspan(step * batch_size, batch_size);
      ASSIGN_OR_RETURN(const double loss, TakeStep(numbers));
      RETURN_IF_ERROR(
          WriteReport(report_fd_, {.epoch = epoch,
                                   .step = step + 1,
                                   .num_steps = steps_per_epoch_,
                                   .mean_loss = static_cast<float>(loss)}));
    }
    return absl::OkStatus();
  }

  // Returns the mean loss over the batch.
  absl::StatusOr<double> TakeStep(absl::Span<const int64_t> numbers) {
    const Batch batch = MakeBatch(shard_, numbers);
    ASSIGN_OR_RETURN(const Gradient gradient,
                     ComputeGradient(parameters_, batch));
    ASSIGN_OR_RETURN(const PullReply reply,
                     client_->PushPull(PushEntries(gradient.sums)));
    ASSIGN_OR_RETURN(parameters_, ParametersOf(size_, reply));
    return gradient.loss_sum / static_cast<double>(batch.size());
  }

  std::vector<int64_t> ShuffledNumbers(uint32_t epoch) const {
    std::vector<int64_t> numbers(shard_.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    std::seed_seq seed{options_.common.seed, uint64_t{options_.rank},
                       uint64_t{epoch}};
    std::mt19937_64 random(seed);
    std::shuffle(numbers.begin(), numbers.end(), random);
    return numbers;
  }

  const WorkerOptions options_;
  const int report_fd_;
  const std::unique_ptr<Client> client_;
  const NetworkSize size_;
  const Dataset shard_;
  const uint32_t steps_per_epoch_;
  Parameters parameters_;  // the latest from the server
};

}  // namespace

absl::Status RunWorker(const WorkerOptions& options, int report_fd) {
  ASSIGN_OR_RETURN(const Dataset dataset,
                   LoadDataset(options.common.data_dir, Split::kTrain));
  ClientOptions client_options;
  client_options.target = options.common.server;
  client_options.name_space = options.common.name_space;
  client_options.rank = options.rank;
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                   Client::Connect(client_options));
  return ShardTrainer(options, report_fd, std::move(client), dataset).Run();
}

}  // namespace tensorkv::fashion_mnist
