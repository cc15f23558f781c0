#include "tensor/bool_elements.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tensorkv {

absl::Status CheckBoolElements(DType dtype, absl::string_view bytes) {
  if (dtype != DType::kBool) return absl::OkStatus();
  // Without a branch per byte, so that it runs at the memory's speed.
  uint8_t bits = 0;
  for (const char byte : bytes) bits |= static_cast<uint8_t>(byte);
  if (bits <= 1) return absl::OkStatus();
  const auto is_no_bool = [](char byte) {
    return static_cast<uint8_t>(byte) > 1;
  };
  const auto found = std::find_if(bytes.begin(), bytes.end(), is_no_bool);
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor: expected bools of 0 or 1, got ", static_cast<uint8_t>(*found)));
}

}  // namespace tensorkv
