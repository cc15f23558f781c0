#include "service/store/names.h"

#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

constexpr size_t kMaxShownBytes = 80;

// The bytes of the UTF-8 sequence that `text` starts with, 0 if it is none
// (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF).
size_t Utf8SequenceLength(absl::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool is_overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) ||
                           (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool is_surrogate = byte(0) == 0xed && byte(1) >= 0xa0;
  const bool is_too_large = byte(0) == 0xf4 && byte(1) >= 0x90;
  return is_overlong || is_surrogate || is_too_large ? 0 : length;
}

// Whether the UTF-8 sequence that `text` starts with is a control character:
// below U+0020, or U+007F to U+009F.
bool IsControl(absl::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x20 || first == 0x7f) return true;
  return first == 0xc2 && static_cast<uint8_t>(text[1]) < 0xa0;
}

// Whether every byte of `word` is at least 0x20 and below 0x7f. A borrow or
// carry comes only from a byte that is not.
bool IsPlain(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kHighBits = 0x80 * kOnes;
  const uint64_t too_low = word - 0x20 * kOnes;
  const uint64_t too_high = word + kOnes;
  return ((word | too_low | too_high) & kHighBits) == 0;
}

// Whether `name` is ASCII without control characters, as most names are.
bool IsPlain(absl::string_view name) {
  uint64_t word = 0x2020202020202020;
  if (name.size() < sizeof(uint32_t)) {
    for (const char c : name) word = word << 8 | static_cast<uint8_t>(c);
    return IsPlain(word);
  }
  if (name.size() < sizeof(word)) {
    uint32_t ends[2];  // they overlap
    std::memcpy(&ends[0], name.data(), sizeof(uint32_t));
    std::memcpy(&ends[1], name.data() + name.size() - sizeof(uint32_t),
                sizeof(uint32_t));
    return IsPlain(uint64_t{ends[0]} << 32 | ends[1]);
  }
  const size_t last = name.size() - sizeof(word);
  for (size_t i = 0; i < last; i += sizeof(word)) {
    std::memcpy(&word, name.data() + i, sizeof(word));
    if (!IsPlain(word)) return false;
  }
  std::memcpy(&word, name.data() + last, sizeof(word));
  return IsPlain(word);
}

absl::Status CheckCharacters(absl::string_view subject,
                             absl::string_view name) {
  if (IsPlain(name)) return absl::OkStatus();
  for (size_t i = 0; i < name.size();) {
    const size_t length = Utf8SequenceLength(name.substr(i));
    if (length == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(subject, " ", Quoted(name),
                       ": expected valid UTF-8, got another byte at ", i));
    }
    if (IsControl(name.substr(i))) {
      return absl::InvalidArgumentError(absl::StrCat(
          subject, " ", Quoted(name),
          ": expected no control characters, got one at byte ", i));
    }
    i += length;
  }
  return absl::OkStatus();
}

absl::Status CheckName(absl::string_view subject, absl::string_view name,
                       size_t max_bytes) {
  if (name.empty() || name.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(subject, " ", Quoted(name), ": expected 1 to ", max_bytes,
                     " bytes, got ", name.size()));
  }
  return CheckCharacters(subject, name);
}

}  // namespace

std::string Quoted(absl::string_view name) {
  if (name.size() <= kMaxShownBytes) {
    return absl::StrCat("\"", absl::Utf8SafeCEscape(name), "\"");
  }
  // Part of a character would be no UTF-8, which clients in Python and
  // protobuf do not read.
  size_t end = kMaxShownBytes;
  while (end > 0 && (name[end] & 0xC0) == 0x80) --end;
  return absl::StrCat("\"", absl::Utf8SafeCEscape(name.substr(0, end)),
                      "...\"");
}

absl::Status CheckKey(absl::string_view key) {
  if (!key.empty() && key.size() <= kMaxKeyBytes && IsPlain(key)) {
    return absl::OkStatus();
  }
  return CheckName("key", key, kMaxKeyBytes);
}

absl::Status CheckNamespaceName(absl::string_view name) {
  return CheckName("namespace", name, kMaxNamespaceBytes);
}

absl::Status CheckWorkerName(absl::string_view name) {
  return CheckName("worker", name, kMaxNamespaceBytes);
}

absl::Status CheckBarrierName(absl::string_view name) {
  return CheckName("barrier", name, kMaxNamespaceBytes);
}

absl::Status CheckKeyPattern(absl::string_view pattern) {
  if (pattern.empty()) return absl::OkStatus();
  return CheckName("key pattern", pattern, kMaxPatternBytes);
}

}  // namespace tensorkv
