#include "client/cli/npy_header.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

struct DTypeCode {
  DType dtype;
  absl::string_view code;
};

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

// Reads the few forms of Python literals that a header has.
class LiteralReader {
 public:
  explicit LiteralReader(absl::string_view text) : text_(text) {}

  absl::Status Error(absl::string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat("header: expected ", expected, " at character ", next_));
  }

  // Skips blanks and then `c`, if it comes next.
  bool TrySkip(char c) {
    SkipBlanks();
    if (next_ == text_.size() || text_[next_] != c) return false;
    ++next_;
    return true;
  }

  absl::Status Skip(char c) {
    if (TrySkip(c)) return absl::OkStatus();
    return Error(absl::StrCat("'", absl::string_view(&c, 1), "'"));
  }

  // A quoted string without escapes.
  absl::StatusOr<absl::string_view> String() {
    const bool is_double = TrySkip('"');
    if (!is_double && !TrySkip('\'')) return Error("a string");
    const size_t end = text_.find(is_double ? '"' : '\'', next_);
    if (end == absl::string_view::npos) return Error("the end of a string");
    const absl::string_view string = text_.substr(next_, end - next_);
    next_ = end + 1;
    return string;
  }

  absl::StatusOr<bool> Bool() {
    const absl::string_view word = Word();
    if (word == "True") return true;
    if (word == "False") return false;
    return Error("True or False");
  }

  // A tuple of whole numbers: (), (3,), (2, 3).
  absl::StatusOr<std::vector<int64_t>> Tuple() {
    RETURN_IF_ERROR(Skip('('));
    std::vector<int64_t> numbers;
    while (!TrySkip(')')) {
      int64_t number;
      if (!absl::SimpleAtoi(Word(), &number)) return Error("a dimension");
      numbers.push_back(number);
      if (TrySkip(',')) continue;
      RETURN_IF_ERROR(Skip(')'));
      break;
    }
    return numbers;
  }

  absl::Status End() {
    SkipBlanks();
    return next_ == text_.size() ? absl::OkStatus() : Error("the end");
  }

 private:
  void SkipBlanks() {
    while (next_ < text_.size() && absl::ascii_isspace(text_[next_])) ++next_;
  }

  absl::string_view Word() {
    SkipBlanks();
    const size_t start = next_;
    while (next_ < text_.size() &&
           (absl::ascii_isalnum(text_[next_]) || text_[next_] == '-')) {
      ++next_;
    }
    return text_.substr(start, next_ - start);
  }

  const absl::string_view text_;
  size_t next_ = 0;
};

struct Fields {
  std::optional<DType> dtype;
  std::optional<bool> is_fortran_order;
  std::optional<Shape> shape;
};

absl::Status ReadField(absl::string_view name, LiteralReader& reader,
                       Fields& fields) {
  if (name == "descr" && !fields.dtype) {
    ASSIGN_OR_RETURN(const absl::string_view descr, reader.String());
    ASSIGN_OR_RETURN(fields.dtype, ParseDescr(descr));
    return absl::OkStatus();
  }
  if (name == "fortran_order" && !fields.is_fortran_order) {
    ASSIGN_OR_RETURN(fields.is_fortran_order, reader.Bool());
    return absl::OkStatus();
  }
  if (name == "shape" && !fields.shape) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> dimensions, reader.Tuple());
    ASSIGN_OR_RETURN(fields.shape, Shape::Create(dimensions));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("header: expected descr, fortran_order and shape, each "
                   "once, got \"",
                   absl::CHexEscape(name), "\""));
}

absl::StatusOr<Fields> ReadFields(absl::string_view text) {
  LiteralReader reader(text);
  Fields fields;
  RETURN_IF_ERROR(reader.Skip('{'));
  while (!reader.TrySkip('}')) {
    ASSIGN_OR_RETURN(const absl::string_view name, reader.String());
    RETURN_IF_ERROR(reader.Skip(':'));
    RETURN_IF_ERROR(ReadField(name, reader, fields));
    if (reader.TrySkip(',')) continue;
    RETURN_IF_ERROR(reader.Skip('}'));
    break;
  }
  RETURN_IF_ERROR(reader.End());
  return fields;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text) {
  ASSIGN_OR_RETURN(Fields fields, ReadFields(text));
  if (!fields.dtype || !fields.is_fortran_order || !fields.shape) {
    return absl::InvalidArgumentError(
        "header: expected descr, fortran_order and shape, got only some");
  }
  if (*fields.is_fortran_order) {
    return absl::InvalidArgumentError(
        "fortran_order: expected C order; convert with "
        "numpy.ascontiguousarray(array)");
  }
  return NpyHeader{*fields.dtype, *std::move(fields.shape)};
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
