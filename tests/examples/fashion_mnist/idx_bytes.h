// Builds IDX files for tests.

#ifndef TENSORKV_TESTS_EXAMPLES_FASHION_MNIST_IDX_BYTES_H_
#define TENSORKV_TESTS_EXAMPLES_FASHION_MNIST_IDX_BYTES_H_

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tensorkv::fashion_mnist {

// An IDX file of unsigned bytes.
inline std::string IdxBytes(const std::vector<uint32_t>& dimensions,
                            const std::string& elements) {
  std::string file("\0\0\x08", 3);
  file.push_back(static_cast<char>(dimensions.size()));
  for (const uint32_t dimension : dimensions) {
    for (const int shift : {24, 16, 8, 0}) {
      file.push_back(static_cast<char>(dimension >> shift & 0xFF));
    }
  }
  return file + elements;
}

// Writes `contents` compressed by gzip.
inline void WriteGzip(const std::string& path, const std::string& contents) {
  gzFile file = gzopen(path.c_str(), "wb1");
  ASSERT_NE(file, nullptr) << path;
  ASSERT_EQ(gzwrite(file, contents.data(), contents.size()),
            static_cast<int>(contents.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

}  // namespace tensorkv::fashion_mnist

#endif  // TENSORKV_TESTS_EXAMPLES_FASHION_MNIST_IDX_BYTES_H_
