#include "client/cli/npy.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/elements.h"
#include "client/cli/npy_header.h"

namespace tensorkv {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
constexpr size_t kVersionBytes = 2;
// Where NumPy puts the elements: at a multiple of this.
constexpr size_t kAlignment = 64;

struct Sections {
  absl::string_view header;
  absl::string_view elements;
};

// Cuts `bytes` after a header whose length is `length_bytes` long.
absl::StatusOr<Sections> Cut(absl::string_view bytes, size_t length_bytes) {
  const size_t start = kMagic.size() + kVersionBytes + length_bytes;
  if (bytes.size() < start) {
    return absl::InvalidArgumentError("header: the file ends before it");
  }
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    const auto byte = static_cast<uint8_t>(bytes[start - length_bytes + i]);
    length |= size_t{byte} << (8 * i);
  }
  if (bytes.size() - start < length) {
    return absl::InvalidArgumentError(
        absl::StrCat("header: expected ", length, " bytes, got ",
                     bytes.size() - start, " before the end of the file"));
  }
  return Sections{bytes.substr(start, length), bytes.substr(start + length)};
}

absl::StatusOr<Sections> Split(absl::string_view bytes) {
  if (bytes.size() < kMagic.size() + kVersionBytes ||
      bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("not a .npy file");
  }
  const int version = static_cast<uint8_t>(bytes[kMagic.size()]);
  if (version == 1) return Cut(bytes, 2);
  if (version == 2) return Cut(bytes, 4);
  return absl::InvalidArgumentError(
      absl::StrCat("version: expected 1 or 2, got ", version));
}

bool NumPyHas(DType dtype) {
  return dtype != DType::kBF16 && dtype != DType::kF8E4M3FN &&
         dtype != DType::kF8E5M2;
}

// Returns magic, version, length, and the header padded with blanks and a
// newline.
std::string FormatPreamble(const Tensor& tensor) {
  const std::string header = FormatNpyHeader({tensor.dtype(), tensor.shape()});
  const size_t unpadded = kMagic.size() + kVersionBytes + 2 + header.size() + 1;
  const size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  // At most eight dimensions: it always fits into two bytes.
  const size_t length = header.size() + padding + 1;
  const char preamble[] = {'\x01', '\x00', static_cast<char>(length & 0xff),
                           static_cast<char>(length >> 8)};
  return absl::StrCat(kMagic, absl::string_view(preamble, sizeof(preamble)),
                      header, std::string(padding, ' '), "\n");
}

}  // namespace

absl::StatusOr<Tensor> ParseNpy(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Sections sections, Split(bytes));
  ASSIGN_OR_RETURN(const NpyHeader header, ParseNpyHeader(sections.header));
  ASSIGN_OR_RETURN(const int64_t expected,
                   SizeInBytes(header.dtype, header.shape));
  if (sections.elements.size() != static_cast<uint64_t>(expected)) {
    return absl::InvalidArgumentError(
        absl::StrCat("elements: expected ", expected, " bytes for ",
                     Description(header.dtype, header.shape), ", got ",
                     sections.elements.size()));
  }
  return Tensor::CopyOf(header.dtype, header.shape, sections.elements.data());
}

absl::StatusOr<std::string> FormatNpy(const Tensor& tensor) {
  if (!NumPyHas(tensor.dtype())) {
    ASSIGN_OR_RETURN(const Tensor wide, ConvertedTo(DType::kF32, tensor));
    return FormatNpy(wide);
  }
  std::string bytes = FormatPreamble(tensor);
  bytes.append(tensor.data(), tensor.size_bytes());
  return bytes;
}

}  // namespace tensorkv
