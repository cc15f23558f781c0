#include "client/compression/compression.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

using Kind = Compression::Kind;

absl::Status Unexpected(absl::string_view expected, absl::string_view actual) {
  return absl::InvalidArgumentError(absl::StrCat(
      "compression: expected ", expected, ", got \"", actual, "\""));
}

// Sets what the name alone says.
absl::Status SetKind(absl::string_view name, bool has_number,
                     Compression& compression) {
  constexpr struct {
    absl::string_view name;
    Kind kind;
  } kKinds[] = {{"none", Kind::kNone},          {"2bit", Kind::kTwoBit},
                {"1bit", Kind::kOneBit},        {"sign", Kind::kSign},
                {"topk", Kind::kTopK},          {"randomk", Kind::kRandomK},
                {"dithering", Kind::kDithering}};
  for (const auto& each : kKinds) {
    if (each.name != name) continue;
    compression.kind = each.kind;
    return absl::OkStatus();
  }
  constexpr DType kCasts[] = {DType::kF16, DType::kBF16, DType::kF8E4M3FN,
                              DType::kF8E5M2};
  for (const DType dtype : kCasts) {
    if (NameOf(dtype) != name) continue;
    compression.dtype = dtype;
    const bool has_blocks = has_number && SizeOf(dtype) == 1;
    compression.kind = has_blocks ? Kind::kBlocks : Kind::kCast;
    compression.feedback = SizeOf(dtype) == 1;
    return absl::OkStatus();
  }
  if (name == NameOf(DType::kI8)) {
    compression.kind = Kind::kBlocks;
    return absl::OkStatus();
  }
  return Unexpected(
      "2bit, 1bit, sign, topk, randomk, dithering, i8, f16, bf16, f8e4m3fn, "
      "f8e5m2 or none",
      name);
}

constexpr double kMaxNumber = 1e30;
constexpr double kMaxBlock = 1 << 30;

bool IsWhole(double number) {
  return number >= 1 && number <= kMaxBlock &&
         number == static_cast<int>(number);
}

// NumberOfKind says what may stand behind the colon of a kind.
struct NumberOfKind {
  Kind kind;
  absl::string_view expected;
  bool (*is_right)(double number);
  void (*set)(double number, Compression& compression);
};

void SetThreshold(double number, Compression& compression) {
  compression.threshold = static_cast<float>(number);
}

bool IsFraction(double number) { return number > 0 && number <= 1; }
void SetFraction(double number, Compression& compression) {
  compression.fraction = number;
}

constexpr NumberOfKind kNumbers[] = {
    {Kind::kTwoBit, "a positive threshold",
     [](double number) {
       return static_cast<float>(number) > 0 && number < kMaxNumber;
     },
     SetThreshold},
    {Kind::kOneBit, "a threshold",
     [](double number) { return number > -kMaxNumber && number < kMaxNumber; },
     SetThreshold},
    {Kind::kTopK, "a fraction above 0 and at most 1", IsFraction, SetFraction},
    {Kind::kRandomK, "a fraction above 0 and at most 1", IsFraction,
     SetFraction},
    {Kind::kDithering, "2, 4 or 8 bits",
     [](double number) { return number == 2 || number == 4 || number == 8; },
     [](double number, Compression& compression) {
       compression.bits = static_cast<uint32_t>(number);
     }},
    {Kind::kBlocks, "a number of elements", IsWhole,
     [](double number, Compression& compression) {
       compression.block_size = static_cast<uint32_t>(number);
     }}};

absl::Status SetNumber(absl::string_view text, Compression& compression) {
  for (const NumberOfKind& each : kNumbers) {
    if (each.kind != compression.kind) continue;
    double number = 0;
    if (!absl::SimpleAtod(text, &number) || !each.is_right(number)) {
      return Unexpected(each.expected, text);
    }
    each.set(number, compression);
    return absl::OkStatus();
  }
  return Unexpected("no number", text);
}

bool SetMomentum(absl::string_view text, Compression& compression) {
  return absl::ConsumePrefix(&text, "momentum=") &&
         absl::SimpleAtof(text, &compression.momentum) &&
         compression.momentum >= 0 && compression.momentum < 1;
}

absl::Status SetOption(absl::string_view text, Compression& compression) {
  constexpr struct {
    absl::string_view name;
    bool Compression::*flag;
    bool value;
    bool is_of_dithering;
  } kFlags[] = {{"feedback", &Compression::feedback, true, false},
                {"no-feedback", &Compression::feedback, false, false},
                {"natural", &Compression::natural, true, true},
                {"l2", &Compression::l2, true, true}};
  const bool is_dithering = compression.kind == Kind::kDithering;
  for (const auto& each : kFlags) {
    if (each.name != text || (each.is_of_dithering && !is_dithering)) continue;
    compression.*each.flag = each.value;
    return absl::OkStatus();
  }
  if (SetMomentum(text, compression)) return absl::OkStatus();
  return Unexpected(absl::StrCat(is_dithering ? "natural, l2, " : "",
                                 "feedback, no-feedback or momentum from 0 to "
                                 "below 1"),
                    text);
}

}  // namespace

absl::string_view NameOf(Compression::Kind kind) {
  constexpr absl::string_view kNames[] = {"none",      "2bit",   "1bit",
                                          "sign",      "topk",   "randomk",
                                          "dithering", "blocks", "cast"};
  return kNames[static_cast<int>(kind)];
}

absl::StatusOr<Compression> Compression::Parse(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  const std::pair<absl::string_view, absl::string_view> kind =
      absl::StrSplit(parts[0], absl::MaxSplits(':', 1));
  const bool has_number = parts[0].size() > kind.first.size();
  Compression compression;
  RETURN_IF_ERROR(SetKind(kind.first, has_number, compression));
  if (has_number) RETURN_IF_ERROR(SetNumber(kind.second, compression));
  for (size_t i = 1; i < parts.size(); ++i) {
    RETURN_IF_ERROR(SetOption(parts[i], compression));
  }
  return compression;
}

bool CompressionRule::Matches(absl::string_view key) const {
  const absl::string_view pattern = key_pattern;
  if (pattern.empty()) return true;
  size_t p = 0;
  size_t t = 0;
  // The last star, and where what it stands for ends.
  size_t star = absl::string_view::npos;
  size_t star_end = 0;
  while (t < key.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = t;
    } else if (p < pattern.size() && pattern[p] == key[t]) {
      ++p;
      ++t;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      t = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == absl::string_view::npos;
}

}  // namespace tensorkv
