// Labelled images, and the batches that training draws from them.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_DATASET_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_DATASET_H_

#include <cstdint>
#include <eigen3/Eigen/Core>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tensorkv::fashion_mnist {

using Matrix =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline constexpr int64_t kNumClasses = 10;

enum class Split { kTrain, kTest };

// Grey images with the class of each. A plain value.
//
// Invariants: pixels.size() == labels.size() * image_size; every label is
// below kNumClasses.
struct Dataset {
  int64_t image_size = 0;       // pixels of one image
  std::vector<uint8_t> pixels;  // [size, image_size], row-major
  std::vector<uint8_t> labels;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

// Images as a network takes them.
struct Batch {
  Matrix images;  // [size, image_size], about zero mean and unit deviation
  std::vector<uint8_t> labels;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

// Reads a split from the files that Fashion-MNIST is published as.
// Errors: NotFound if a file cannot be opened; InvalidArgument if gzip or the
// format is broken, a file has more than 256 MiB of elements, or images and
// labels do not belong together. Messages name the file.
absl::StatusOr<Dataset> LoadDataset(const std::string& data_dir, Split split);

// Returns every `num_shards`-th image, from number `index` on: shards are
// disjoint and together are `dataset`. REQUIRES: index < num_shards.
Dataset Shard(const Dataset& dataset, int64_t index, int64_t num_shards);

// Returns the images with these numbers. REQUIRES: each is in [0,
// dataset.size()).
Batch MakeBatch(const Dataset& dataset, absl::Span<const int64_t> numbers);

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_DATASET_H_
