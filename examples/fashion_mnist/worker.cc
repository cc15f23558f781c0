#include "examples/fashion_mnist/worker.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace tensorkv::fashion_mnist {
namespace {

absl::StatusOr<Parameters> ParametersOf(const NetworkSize& size,
                                        const PullReply& reply) {
  Parameters parameters;
  for (size_t i = 0; i < kNumParameters; ++i) {
    parameters[i] = reply.values[i].tensor;
  }
  RETURN_IF_ERROR(CheckParameters(size, parameters));
  return parameters;
}

// Returns the order of a shard's images in one epoch.
std::vector<int64_t> ShuffledNumbers(int64_t size,
                                     const TrainingOptions& options,
                                     uint32_t rank, uint32_t epoch) {
  std::vector<int64_t> numbers(size);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::seed_seq seed{options.seed, uint64_t{rank}, uint64_t{epoch}};
  std::mt19937_64 random(seed);
  std::shuffle(numbers.begin(), numbers.end(), random);
  return numbers;
}

// Pushes a gradient, and takes the weights that come of it.
absl::Status TakeStep(const Gradient& gradient, const NetworkSize& size,
                      Client* client, Parameters* parameters) {
  std::vector<PushEntry> entries;
  for (size_t i = 0; i < kNumParameters; ++i) {
    entries.push_back(
        {.key = std::string(kParameterKeys[i]), .tensor = gradient.sums[i]});
  }
  ASSIGN_OR_RETURN(const PullReply reply, client->PushPull(std::move(entries)));
  ASSIGN_OR_RETURN(*parameters, ParametersOf(size, reply));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Parameters> PullParameters(Client* client,
                                          const NetworkSize& size) {
  ASSIGN_OR_RETURN(const PullReply reply,
                   client->Pull(std::vector<std::string>(
                       kParameterKeys.begin(), kParameterKeys.end())));
  return ParametersOf(size, reply);
}

absl::Status RunWorker(
    const TrainingOptions& options, uint32_t rank, const Dataset& images,
    absl::FunctionRef<absl::Status(uint32_t epoch, double loss)> on_epoch) {
  const uint32_t batch_size = options.batch_size;
  const int64_t num_steps = images.size() / options.num_workers / batch_size;
  if (num_steps == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected at least one batch of ", batch_size, " images for each of ",
        options.num_workers, " workers, got ", images.size(), " images"));
  }
  const Dataset shard = Shard(images, rank, options.num_workers);
  const NetworkSize size = {.inputs = images.image_size};
  ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                   Client::Connect({.target = options.target,
                                    .credentials = options.credentials,
                                    .name_space = options.name_space,
                                    .rank = rank,
                                    .compression = options.compression}));
  ASSIGN_OR_RETURN(Parameters parameters, PullParameters(client.get(), size));
  for (uint32_t epoch = 1; epoch <= options.num_epochs; ++epoch) {
    const std::vector<int64_t> order =
        ShuffledNumbers(shard.size(), options, rank, epoch);
    double loss = 0;
    for (int64_t step = 0; step < num_steps; ++step) {
      const Batch batch = MakeBatch(
          shard, absl::MakeSpan(order).subspan(step * batch_size, batch_size));
      ASSIGN_OR_RETURN(const Gradient gradient,
                       ComputeGradient(parameters, batch));
      RETURN_IF_ERROR(TakeStep(gradient, size, client.get(), &parameters));
      loss += gradient.loss_sum;
    }
    const auto num_images = static_cast<double>(num_steps * batch_size);
    RETURN_IF_ERROR(on_epoch(epoch, loss / num_images));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv::fashion_mnist
