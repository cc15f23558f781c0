#include "examples/fashion_mnist/dataset.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv::fashion_mnist {
namespace {

// Describe all pixels of the training images, as fractions of white.
constexpr float kPixelMean = 0.2860F;
constexpr float kPixelDeviation = 0.3530F;
constexpr float kWhite = 255.0F;

constexpr uint64_t kMaxBytes = uint64_t{256} << 20;

struct IdxFile {
  std::vector<int64_t> dimensions;
  std::vector<uint8_t> bytes;
};

bool Read(gzFile file, uint8_t* to, size_t size) {
  return gzread(file, to, size) == static_cast<int>(size);
}

// Returns whether all has been read, and gzip was right.
bool HasEnded(gzFile file) {
  int error = Z_OK;
  uint8_t more = 0;
  const int num_read = gzread(file, &more, 1);
  gzerror(file, &error);
  return num_read == 0 && error == Z_OK;
}

// Reads an IDX file, which gzip may have compressed: two zero bytes, the
// element type (8, unsigned byte), the rank, the dimensions (big-endian, 4
// bytes each), and the elements, row-major.
absl::StatusOr<IdxFile> ReadIdx(const std::string& path, uint8_t rank) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(
      gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  }
  const auto expected = [&path](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected ", what...));
  };
  const std::array<uint8_t, 4> magic = {0, 0, 8, rank};
  std::array<uint8_t, 4> word = {};
  if (!Read(file.get(), word.data(), word.size()) || word != magic) {
    return expected("an IDX file of unsigned bytes, of rank ", rank);
  }
  IdxFile idx;
  uint64_t size = 1;
  for (int i = 0; i < rank; ++i) {
    if (!Read(file.get(), word.data(), word.size())) {
      return expected(rank, " dimensions, got ", i);
    }
    idx.dimensions.push_back(int64_t{word[0]} << 24 | word[1] << 16 |
                             word[2] << 8 | word[3]);
    size *= idx.dimensions.back();
    if (size > kMaxBytes) return expected("at most ", kMaxBytes, " elements");
  }
  idx.bytes.resize(size);
  if (!Read(file.get(), idx.bytes.data(), size) || !HasEnded(file.get())) {
    return expected(size, " elements, got fewer or more, or gzip is broken");
  }
  return idx;
}

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
  ASSIGN_OR_RETURN(IdxFile images, ReadIdx(stem + "-images-idx3-ubyte.gz", 3));
  ASSIGN_OR_RETURN(IdxFile labels, ReadIdx(stem + "-labels-idx1-ubyte.gz", 1));
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
