#include "tensor/delta/one_ulp_code.h"

#include <bit>
#include <cstring>

namespace tensorkv::one_ulp {
namespace {

// Codes up to kMaxChange are of changes: twice the gap, and the sign.
constexpr size_t kMaxGap = 125;
constexpr uint8_t kMaxChange = 2 * kMaxGap + 1;
constexpr uint8_t kSkip = 252;       // kSkipped unchanged elements
constexpr uint8_t kSkipMany = 253;   // as many as the u16 says that follows
constexpr uint8_t kMagnitude = 254;  // the next change has a magnitude
constexpr size_t kSkipped = 126;
constexpr size_t kMaxSkipped = UINT16_MAX;
// Above that a kSkipMany takes no more bytes than kSkips.
constexpr size_t kFewSkipped = 3 * kSkipped;

constexpr uint32_t kLeastMagnitude = 2;
constexpr uint8_t kLargeMagnitude = UINT8_MAX;  // a u16 follows

uint16_t Load16(const char* at) {
  uint16_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

void Store16(uint16_t value, char* at) {
  std::memcpy(at, &value, sizeof(value));
}

uint64_t Load64(const char* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// Writes the code of a block. The memory is as long as the code may be.
class Writer {
 public:
  Writer(char* codes, char* magnitudes)
      : codes_(codes), magnitudes_(magnitudes) {}

  // The element at `position`, above those before, has changed.
  void Change(size_t position, uint16_t from, uint16_t to) {
    ++num_changes_;
    size_t gap = position - next_;
    if (gap > kMaxGap) gap = Skip(gap);
    next_ = position + 1;
    const auto difference = static_cast<uint16_t>(to - from);
    const bool is_negative = (difference & 0x8000) != 0;
    const uint32_t magnitude =
        is_negative ? 0x10000u - difference : uint32_t{difference};
    if (magnitude != 1) WriteMagnitude(magnitude);
    *codes_++ = static_cast<char>(2 * gap + is_negative);
  }

  char* codes() const { return codes_; }
  char* magnitudes() const { return magnitudes_; }
  size_t num_changes() const { return num_changes_; }

 private:
  // Returns what is left of the gap.
  size_t Skip(size_t gap) {
    while (gap > kFewSkipped) {
      const size_t skipped = gap < kMaxSkipped ? gap : kMaxSkipped;
      *codes_++ = static_cast<char>(kSkipMany);
      Store16(static_cast<uint16_t>(skipped), codes_);
      codes_ += 2;
      gap -= skipped;
    }
    for (; gap > kMaxGap; gap -= kSkipped) {
      *codes_++ = static_cast<char>(kSkip);
    }
    return gap;
  }

  void WriteMagnitude(uint32_t magnitude) {
    *codes_++ = static_cast<char>(kMagnitude);
    const uint32_t above = magnitude - kLeastMagnitude;
    if (above < kLargeMagnitude) {
      *magnitudes_++ = static_cast<char>(above);
      return;
    }
    *magnitudes_++ = static_cast<char>(kLargeMagnitude);
    Store16(static_cast<uint16_t>(magnitude), magnitudes_);
    magnitudes_ += 2;
  }

  char* codes_;
  char* magnitudes_;
  size_t next_ = 0;
  size_t num_changes_ = 0;
};

// Reads what Writer writes. Every read is checked.
class Reader {
 public:
  explicit Reader(const Code& code)
      : code_(code.codes.data()),
        codes_end_(code_ + code.codes.size()),
        magnitude_(code.magnitudes.data()),
        magnitudes_end_(magnitude_ + code.magnitudes.size()) {}

  bool Apply(char* values, size_t num_elements) {
    size_t position = 0;
    while (code_ != codes_end_) {
      const auto code = static_cast<uint8_t>(*code_++);
      uint32_t magnitude = 1;
      uint8_t change = code;
      if (code > kMaxChange) {
        if (code == kMagnitude) {
          if (!ReadMagnitude(change, magnitude)) return false;
        } else {
          if (!Skip(code, position)) return false;
          continue;
        }
      }
      position += change / 2;
      if (position >= num_elements) return false;
      char* const at = values + 2 * position++;
      const uint32_t value = Load16(at);
      Store16(static_cast<uint16_t>(change % 2 == 0 ? value + magnitude
                                                    : value - magnitude),
              at);
    }
    return magnitude_ == magnitudes_end_;
  }

 private:
  // The sum of what codes skip cannot overflow: they are fewer than 2^48 bytes.
  bool Skip(uint8_t code, size_t& position) {
    if (code == kSkip) {
      position += kSkipped;
      return true;
    }
    if (code != kSkipMany || codes_end_ - code_ < 2) return false;
    position += Load16(code_);
    code_ += 2;
    return true;
  }

  bool ReadMagnitude(uint8_t& change, uint32_t& magnitude) {
    if (code_ == codes_end_ || magnitude_ == magnitudes_end_) return false;
    change = static_cast<uint8_t>(*code_++);
    if (change > kMaxChange) return false;
    const auto above = static_cast<uint8_t>(*magnitude_++);
    magnitude = above + kLeastMagnitude;
    if (above != kLargeMagnitude) return true;
    if (magnitudes_end_ - magnitude_ < 2) return false;
    magnitude = Load16(magnitude_);
    magnitude_ += 2;
    return true;
  }

  const char* code_;
  const char* const codes_end_;
  const char* magnitude_;
  const char* const magnitudes_end_;
};

}  // namespace

Code Encode(const char* from, const char* to, size_t num_elements,
            DeltaScratch& scratch) {
  GrowTo(MaxCodes(num_elements), scratch.codes);
  GrowTo(MaxMagnitudes(num_elements), scratch.magnitudes);
  char* const codes = scratch.codes.data();
  char* const magnitudes = scratch.magnitudes.data();
  Writer out(codes, magnitudes);
  constexpr size_t kPerWord = sizeof(uint64_t) / sizeof(uint16_t);
  size_t i = 0;
  for (; i + kPerWord <= num_elements; i += kPerWord) {
    const uint64_t before = Load64(from + 2 * i);
    const uint64_t after = Load64(to + 2 * i);
    for (uint64_t changed = before ^ after; changed != 0;) {
      const int bit = std::countr_zero(changed) & ~15;
      out.Change(i + bit / 16, static_cast<uint16_t>(before >> bit),
                 static_cast<uint16_t>(after >> bit));
      changed &= ~(uint64_t{UINT16_MAX} << bit);
    }
  }
  for (; i < num_elements; ++i) {
    const uint16_t before = Load16(from + 2 * i);
    const uint16_t after = Load16(to + 2 * i);
    if (before != after) out.Change(i, before, after);
  }
  return {{codes, static_cast<size_t>(out.codes() - codes)},
          {magnitudes, static_cast<size_t>(out.magnitudes() - magnitudes)},
          out.num_changes()};
}

absl::Status Apply(const Code& code, char* values, size_t num_elements) {
  if (Reader(code).Apply(values, num_elements)) return absl::OkStatus();
  return absl::InvalidArgumentError("malformed code of one ulp");
}

}  // namespace tensorkv::one_ulp
