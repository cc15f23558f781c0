#include "base/byte_size.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tensorkv {
namespace {

struct Unit {
  absl::string_view name;
  uint64_t bytes;
};

constexpr Unit kUnits[] = {
    {"", 1},
    {"B", 1},
    {"KiB", uint64_t{1} << 10},
    {"MiB", uint64_t{1} << 20},
    {"GiB", uint64_t{1} << 30},
    {"TiB", uint64_t{1} << 40},
    {"kB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
};

// Returns 0 if there is no such unit.
uint64_t BytesOf(absl::string_view unit) {
  for (const Unit& known : kUnits) {
    if (known.name == unit) return known.bytes;
  }
  return 0;
}

}  // namespace

absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text) {
  size_t num_digits = 0;
  while (num_digits < text.size() && absl::ascii_isdigit(text[num_digits])) {
    ++num_digits;
  }
  const uint64_t unit = BytesOf(text.substr(num_digits));
  uint64_t count = 0;
  const uint64_t max = std::numeric_limits<int64_t>::max();
  if (unit == 0 || !absl::SimpleAtoi(text.substr(0, num_digits), &count) ||
      count > max / unit) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected bytes such as 1048576, 512MiB or 8GiB, got \"", text, "\""));
  }
  return count * unit;
}

}  // namespace tensorkv
