#include "examples/fashion_mnist/dataset.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "examples/fashion_mnist/idx_file.h"

namespace tensorkv::fashion_mnist {
namespace {

// Describe all pixels of the training images, as fractions of white.
constexpr float kPixelMean = 0.2860F;
constexpr float kPixelDeviation = 0.3530F;
constexpr float kWhite = 255.0F;

absl::Status CheckLabels(const IdxFile& labels, int64_t num_images) {
  if (labels.dimensions != std::vector<int64_t>{num_images}) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", num_images, " labels, one per image, got ",
                     labels.bytes.size()));
  }
  for (const uint8_t label : labels.bytes) {
    if (label >= kNumClasses) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected labels below ", kNumClasses, ", got ", label));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Dataset> LoadDataset(const std::string& data_dir, Split split) {
  const std::string stem =
      absl::StrCat(data_dir, split == Split::kTrain ? "/train" : "/t10k");
  ASSIGN_OR_RETURN(IdxFile images, ReadIdxFile(stem + "-images-idx3-ubyte.gz"));
  if (images.dimensions.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        stem, " images: expected rank 3, got rank ", images.dimensions.size()));
  }
  ASSIGN_OR_RETURN(IdxFile labels, ReadIdxFile(stem + "-labels-idx1-ubyte.gz"));
  RETURN_IF_ERROR(CheckLabels(labels, images.dimensions[0]));
  return Dataset{.image_size = images.dimensions[1] * images.dimensions[2],
                 .pixels = std::move(images.bytes),
                 .labels = std::move(labels.bytes)};
}

Dataset Shard(const Dataset& dataset, int64_t index, int64_t num_shards) {
  Dataset shard;
  shard.image_size = dataset.image_size;
  for (int64_t i = index; i < dataset.size(); i += num_shards) {
    const auto image = dataset.pixels.begin() + i * dataset.image_size;
    shard.pixels.insert(shard.pixels.end(), image, image + dataset.image_size);
    shard.labels.push_back(dataset.labels[i]);
  }
  return shard;
}

Batch MakeBatch(const Dataset& dataset, absl::Span<const int64_t> numbers) {
  Batch batch;
  batch.images.resize(static_cast<Eigen::Index>(numbers.size()),
                      dataset.image_size);
  float* out = batch.images.data();
  for (const int64_t number : numbers) {
    const auto image = dataset.pixels.begin() + number * dataset.image_size;
    out = std::transform(
        image, image + dataset.image_size, out, [](uint8_t pixel) {
          return (static_cast<float>(pixel) / kWhite - kPixelMean) /
                 kPixelDeviation;
        });
    batch.labels.push_back(dataset.labels[number]);
  }
  return batch;
}

}  // namespace tensorkv::fashion_mnist
