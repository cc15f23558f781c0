#include "service/store/names.h"

#include "absl/strings/str_cat.h"
#include "base/shown_text.h"

namespace tensorkv {
namespace {

constexpr size_t kMaxShownBytes = 80;

// Returns the bytes of the UTF-8 sequence that `text` starts with, 0 if it is
// none (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF).
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

// Returns whether the UTF-8 sequence that `text` starts with is a control
// character: below U+0020, or U+007F to U+009F.
bool IsControl(absl::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x20 || first == 0x7f) return true;
  return first == 0xc2 && static_cast<uint8_t>(text[1]) < 0xa0;
}

absl::Status CheckCharacters(absl::string_view subject,
                             absl::string_view name) {
  if (IsPrintableAscii(name)) return absl::OkStatus();
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
  return Quoted(name, kMaxShownBytes);
}

absl::Status CheckAnyKey(absl::string_view key) {
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
