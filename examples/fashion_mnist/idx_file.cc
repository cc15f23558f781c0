#include "examples/fashion_mnist/idx_file.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv::fashion_mnist {
namespace {

constexpr size_t kMaxContents = size_t{256} << 20;
constexpr size_t kReadSize = size_t{1} << 20;
constexpr char kUnsignedByte = 0x08;
constexpr size_t kMagicSize = 4;
constexpr size_t kDimensionSize = 4;

struct GzipClose {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, GzipClose>;

uint32_t BigEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (const char byte : bytes) {
    value = value << 8 | static_cast<uint8_t>(byte);
  }
  return value;
}

absl::StatusOr<size_t> ParseRank(absl::string_view contents) {
  if (contents.size() < kMagicSize) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected an IDX header, got ", contents.size(), " bytes"));
  }
  if (contents[0] != 0 || contents[1] != 0 || contents[2] != kUnsignedByte) {
    return absl::InvalidArgumentError(
        "expected an IDX file of unsigned bytes, got another magic number");
  }
  return static_cast<uint8_t>(contents[3]);
}

// Reads until the end of the file.
absl::StatusOr<std::string> Decompress(gzFile file) {
  std::string contents;
  while (true) {
    const size_t used = contents.size();
    contents.resize(used + kReadSize);
    const int count = gzread(file, contents.data() + used, kReadSize);
    contents.resize(used + (count > 0 ? count : 0));
    int error = Z_OK;
    const char* message = gzerror(file, &error);
    if (count < 0 || error != Z_OK) return absl::InvalidArgumentError(message);
    if (count == 0) return contents;
    if (contents.size() > kMaxContents) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected at most ", kMaxContents, " bytes, got more"));
    }
  }
}

absl::StatusOr<IdxFile> ReadGzip(gzFile file) {
  ASSIGN_OR_RETURN(const std::string contents, Decompress(file));
  return ParseIdx(contents);
}

}  // namespace

absl::StatusOr<IdxFile> ParseIdx(absl::string_view contents) {
  ASSIGN_OR_RETURN(const size_t rank, ParseRank(contents));
  const size_t header_size = kMagicSize + rank * kDimensionSize;
  if (contents.size() < header_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a header of ", header_size, " bytes, got ", contents.size()));
  }

  IdxFile file;
  const absl::string_view elements = contents.substr(header_size);
  uint64_t num_elements = 1;
  for (size_t i = 0; i < rank; ++i) {
    const uint32_t dimension = BigEndian(
        contents.substr(kMagicSize + i * kDimensionSize, kDimensionSize));
    file.dimensions.push_back(dimension);
    if (__builtin_mul_overflow(num_elements, uint64_t{dimension},
                               &num_elements)) {
      return absl::InvalidArgumentError("the dimensions overflow");
    }
  }
  if (elements.size() != num_elements) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected ", num_elements, " elements, got ", elements.size()));
  }
  file.bytes.assign(elements.begin(), elements.end());
  return file;
}

absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path) {
  const GzipFile file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  }
  absl::StatusOr<IdxFile> contents = ReadGzip(file.get());
  if (contents.ok()) return contents;
  return absl::Status(contents.status().code(),
                      absl::StrCat(path, ": ", contents.status().message()));
}

}  // namespace tensorkv::fashion_mnist
