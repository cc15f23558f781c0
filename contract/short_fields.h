// Reads the fields that most entries of large messages have, in the form that
// writers usually give them, from one chunk.

#ifndef TENSORKV_CONTRACT_SHORT_FIELDS_H_
#define TENSORKV_CONTRACT_SHORT_FIELDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "contract/data_requests.h"
#include "contract/wire_reader.h"
#include "contract/wire_tags.h"
#include "tensor/tensor.h"

namespace tensorkv::wire {

inline constexpr size_t kMaxShortKeyBytes = 0x7F;

// Reads a short key, with its tag, at the beginning of `fields`. Returns how
// many bytes of `fields` the tag and the key take; 0 if there is no such key,
// or one in another form.
inline size_t ReadShortKey(absl::string_view fields, Tag tag,
                           absl::string_view* key) {
  if (fields.size() < 2 || fields[0] != static_cast<char>(tag)) return 0;
  const size_t size = static_cast<uint8_t>(fields[1]);
  if (size == 0 || size > kMaxShortKeyBytes || size > fields.size() - 2) {
    return 0;
  }
  *key = fields.substr(2, size);
  return IsAscii(*key) ? 2 + size : 0;
}

inline constexpr size_t kMaxShortNumberBytes = 4;

// Reads a number of at most 28 bits, with its tag, at the beginning of
// `fields`. Returns how many bytes of `fields` they take; 0 if there is no such
// number, or one in another form.
inline size_t ReadShortNumber(absl::string_view fields, Tag tag,
                              uint64_t* number) {
  if (fields.empty() || fields[0] != static_cast<char>(tag)) return 0;
  uint64_t bits = 0;
  const size_t end = std::min(fields.size(), 1 + kMaxShortNumberBytes);
  for (size_t i = 1; i < end; ++i) {
    const auto byte = static_cast<uint8_t>(fields[i]);
    bits |= static_cast<uint64_t>(byte & 0x7F) << (7 * (i - 1));
    if (byte >= 0x80) continue;
    *number = bits;
    return byte == 0 ? 0 : i + 1;
  }
  return 0;
}

// Reads a length of up to 14 bits in its shortest form, at the beginning of
// `fields`. Returns how many bytes of `fields` the length takes; 0 if there is
// none in that form.
inline size_t ReadShortLength(absl::string_view fields, size_t* length) {
  if (fields.size() < 2) return 0;
  const size_t first = static_cast<uint8_t>(fields[0]);
  *length = first;
  if (first < 0x80) return 1;
  const size_t second = static_cast<uint8_t>(fields[1]);
  *length = second << 7 | (first & 0x7F);
  return second == 0 || second >= 0x80 ? 0 : 2;
}

// A Text becomes a string where emplace_back constructs one, so that the string
// is built in place.
struct Text {
  operator std::string() const { return std::string(bytes); }
  absl::string_view bytes;
};

// Holds the fields of one entry that stand before its tensor. Read reads them
// at the beginning of `fields`, and returns how many bytes they take; 0 if they
// are not in their usual form. AddTo appends an entry with the fields that were
// read and a copy of `type`, a tensor without data that gives the entry's dtype
// and shape.
//
// AddTo gives all members of an entry a value, in their order: for a member
// that is left out, the compiler clears the entry first, which takes as long as
// the rest. ExpectMembers, which nobody calls, compiles only while an entry has
// exactly these members, so that whoever adds a member to it changes AddTo too.
template <typename Entry>
struct ShortFields;

template <>
struct ShortFields<InitEntry> {
  size_t Read(absl::string_view fields) {
    return ReadShortKey(fields, kInitEntryKey, &key);
  }
  void AddTo(std::vector<InitEntry>* entries, const Tensor& type) const {
    entries->emplace_back(Text{key}, type);
  }
  static void ExpectMembers(const InitEntry& entry) {
    [[maybe_unused]] const auto& [key, tensor] = entry;
  }
  absl::string_view key;
};

template <>
struct ShortFields<PushEntry> {
  size_t Read(absl::string_view fields) {
    return ReadShortKey(fields, kPushEntryKey, &key);
  }
  void AddTo(std::vector<PushEntry>* entries, const Tensor& type) const {
    entries->emplace_back(Text{key}, /*skip=*/false, type,
                          /*encoding=*/nullptr, /*weight=*/0.0,
                          /*rows=*/nullptr, /*update_all_rows=*/false);
  }
  static void ExpectMembers(const PushEntry& entry) {
    [[maybe_unused]] const auto& [key, skip, tensor, encoding, weight, rows,
                                  update_all_rows] = entry;
  }
  absl::string_view key;
};

template <>
struct ShortFields<Value> {
  size_t Read(absl::string_view fields) {
    const size_t size = ReadShortNumber(fields, kValueVersion, &version);
    if (size == 0) return 0;
    uint64_t number = 0;
    const size_t more =
        ReadShortNumber(fields.substr(size), kValueNumContributions, &number);
    num_contributions = static_cast<uint32_t>(number);
    return size + more;
  }
  void AddTo(std::vector<Value>* values, const Tensor& type) const {
    values->emplace_back(version, type, num_contributions);
  }
  static void ExpectMembers(const Value& value) {
    [[maybe_unused]] const auto& [version, tensor, num_contributions] = value;
  }
  uint64_t version = 0;
  uint32_t num_contributions = 0;
};

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_SHORT_FIELDS_H_
