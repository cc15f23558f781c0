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

// Sets the number behind the colon.
absl::Status SetNumber(absl::string_view text, Compression& compression) {
  double number = 0;
  const bool is_number = absl::SimpleAtod(text, &number);
  const auto check = [&](bool is_good, absl::string_view expected) {
    return is_number && is_good ? absl::OkStatus() : Unexpected(expected, text);
  };
  constexpr double kMaxNumber = 1e30;
  constexpr double kMaxBlock = 1 << 30;
  const bool is_whole =
      number >= 1 && number <= kMaxBlock && number == static_cast<int>(number);
  switch (compression.kind) {
    case Kind::kTwoBit:
      compression.threshold = static_cast<float>(number);
      return check(compression.threshold > 0 && number < kMaxNumber,
                   "a positive threshold");
    case Kind::kOneBit:
      compression.threshold = static_cast<float>(number);
      return check(number > -kMaxNumber && number < kMaxNumber, "a threshold");
    case Kind::kTopK:
    case Kind::kRandomK:
      compression.fraction = number;
      return check(number > 0 && number <= 1,
                   "a fraction above 0 and at most 1");
    case Kind::kDithering:
      compression.bits = is_whole ? static_cast<uint32_t>(number) : 0;
      return check(number == 2 || number == 4 || number == 8, "2, 4 or 8 bits");
    case Kind::kBlocks:
      compression.block_size = is_whole ? static_cast<uint32_t>(number) : 0;
      return check(is_whole, "a number of elements");
    default:
      return Unexpected("no number", text);
  }
}

absl::Status SetOption(absl::string_view text, Compression& compression) {
  const bool is_dithering = compression.kind == Kind::kDithering;
  if (text == "feedback" || text == "no-feedback") {
    compression.feedback = text == "feedback";
    return absl::OkStatus();
  }
  if (text == "natural" && is_dithering) {
    compression.natural = true;
    return absl::OkStatus();
  }
  if (text == "l2" && is_dithering) {
    compression.l2 = true;
    return absl::OkStatus();
  }
  absl::string_view number = text;
  if (absl::ConsumePrefix(&number, "momentum=") &&
      absl::SimpleAtof(number, &compression.momentum) &&
      compression.momentum >= 0 && compression.momentum < 1) {
    return absl::OkStatus();
  }
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

}  // namespace tensorkv
