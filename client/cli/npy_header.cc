#include "client/cli/npy_header.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace tensorkv {
namespace {

struct DTypeCode {
  DType dtype;
  absl::string_view code;
};

// An error shows so many bytes of a header.
constexpr size_t kMaxShownBytes = 128;

constexpr DTypeCode kDTypeCodes[] = {
    {DType::kF32, "<f4"}, {DType::kF64, "<f8"}, {DType::kF16, "<f2"},
    {DType::kI8, "|i1"},  {DType::kU8, "|u1"},  {DType::kI16, "<i2"},
    {DType::kI32, "<i4"}, {DType::kI64, "<i8"}, {DType::kBool, "|b1"},
    {DType::kU16, "<u2"}, {DType::kU32, "<u4"}, {DType::kU64, "<u8"},
};

absl::StatusOr<DType> ParseDescr(absl::string_view descr) {
  for (const auto& [dtype, code] : kDTypeCodes) {
    if (descr == code) return dtype;
  }
  if (!descr.empty() && descr[0] == '>') {
    return absl::InvalidArgumentError(
        absl::StrCat("descr: expected little-endian elements, got '", descr,
                     "'; convert with array.astype('<", descr.substr(1), "')"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("descr: expected <f2, <f4, <f8, |i1, |u1, <i2, <u2, <i4, "
                   "<u4, <i8, <u8 or "
                   "|b1, got '",
                   absl::CHexEscape(descr), "'"));
}

// Returns the dict as JSON, which has other quotes, words and brackets, and no
// comma before a bracket that closes.
std::string JsonOf(absl::string_view dict) {
  std::string json;
  for (const char c : absl::StrReplaceAll(dict, {{"'", "\""},
                                                 {"True", "true"},
                                                 {"False", "false"},
                                                 {"(", "["},
                                                 {")", "]"}})) {
    if (c == ']' || c == '}') {
      absl::StripTrailingAsciiWhitespace(&json);
      if (absl::EndsWith(json, ",")) json.pop_back();
    }
    json += c;
  }
  return json;
}

bool IsShape(const nlohmann::json& shape) {
  return shape.is_array() &&
         std::all_of(shape.begin(), shape.end(), [](const auto& dimension) {
           return dimension.is_number_integer();
         });
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text) {
  const nlohmann::json header =
      nlohmann::json::parse(JsonOf(text), /*cb=*/nullptr,
                            /*allow_exceptions=*/false);
  if (!header.is_object() || header.size() != 3 ||
      !header.value("descr", nlohmann::json()).is_string() ||
      !header.value("fortran_order", nlohmann::json()).is_boolean() ||
      !IsShape(header.value("shape", nlohmann::json()))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "header: expected a dict of descr, fortran_order and shape, got ",
        absl::CHexEscape(text.substr(0, kMaxShownBytes))));
  }
  NpyHeader parsed;
  ASSIGN_OR_RETURN(parsed.dtype,
                   ParseDescr(header["descr"].get_ref<const std::string&>()));
  if (header["fortran_order"]) {
    return absl::InvalidArgumentError(
        "fortran_order: expected C order; convert with "
        "numpy.ascontiguousarray(array)");
  }
  ASSIGN_OR_RETURN(parsed.shape,
                   Shape::Create(header["shape"].get<std::vector<int64_t>>()));
  return parsed;
}

std::string FormatNpyHeader(const NpyHeader& header) {
  absl::string_view descr;
  for (const auto& [dtype, code] : kDTypeCodes) {
    if (dtype == header.dtype) descr = code;
  }
  // A tuple of one needs its comma.
  const absl::string_view comma = header.shape.rank() == 1 ? "," : "";
  return absl::StrCat(
      "{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
      absl::StrJoin(header.shape.dimensions(), ", "), comma, "), }");
}

}  // namespace tensorkv
