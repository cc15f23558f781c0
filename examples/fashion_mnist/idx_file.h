// Reads IDX files, the format that Fashion-MNIST is published in.

#ifndef TENSORKV_EXAMPLES_FASHION_MNIST_IDX_FILE_H_
#define TENSORKV_EXAMPLES_FASHION_MNIST_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorkv::fashion_mnist {

// An array of unsigned bytes, row-major.
//
// Invariant: the product of the dimensions is bytes.size().
struct IdxFile {
  std::vector<int64_t> dimensions;
  std::vector<uint8_t> bytes;
};

// Reads the contents of an IDX file: two zero bytes, the element type (0x08,
// unsigned byte), the rank, the dimensions (big-endian, 4 bytes each), and the
// elements.
// Errors: InvalidArgument if the contents are anything else, or longer or
// shorter than the dimensions say.
absl::StatusOr<IdxFile> ParseIdx(absl::string_view contents);

// Reads the IDX file at `path`, which gzip may have compressed.
// Errors: NotFound if it cannot be opened; InvalidArgument if gzip or the
// format is broken, or the contents exceed 256 MiB. Messages name the file.
absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path);

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_EXAMPLES_FASHION_MNIST_IDX_FILE_H_
