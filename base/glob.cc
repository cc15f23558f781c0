#include "base/glob.h"

namespace tensorkv {
namespace {

bool IsContinuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

// Takes what `pattern`, which has no '*', matches from the beginning of `text`.
bool TakeHead(absl::string_view pattern, absl::string_view& text) {
  for (const char c : pattern) {
    if (text.empty() || (c != '?' && c != text.front())) return false;
    text.remove_prefix(1);
    if (c != '?') continue;
    while (!text.empty() && IsContinuation(text.front())) text.remove_prefix(1);
  }
  return true;
}

// Compares from the end of both.
bool TakeTail(absl::string_view pattern, absl::string_view& text) {
  for (; !pattern.empty(); pattern.remove_suffix(1)) {
    const char c = pattern.back();
    while (c == '?' && text.size() > 1 && IsContinuation(text.back())) {
      text.remove_suffix(1);
    }
    if (text.empty() || (c != '?' && c != text.back())) return false;
    text.remove_suffix(1);
  }
  return true;
}

}  // namespace

Glob::Glob(absl::string_view pattern) : head_(pattern) {
  const size_t first_star = pattern.find('*');
  if (first_star == absl::string_view::npos) return;
  const size_t end = pattern.rfind('*') + 1;
  head_ = pattern.substr(0, first_star);
  middle_ = pattern.substr(first_star, end - first_star);
  tail_ = pattern.substr(end);
}

bool Glob::Matches(absl::string_view text) const {
  if (!TakeHead(head_, text)) return false;
  if (middle_.empty()) return text.empty();
  if (!TakeTail(tail_, text)) return false;
  if (middle_.find_first_not_of('*') == absl::string_view::npos) return true;
  Compile();
  return ContainsMiddle(text);
}

void Glob::Compile() const {
  if (compiled_ != nullptr ||
      middle_.find_first_not_of('*') == absl::string_view::npos) {
    return;
  }
  compiled_ = std::make_unique<Middle>();
  Middle& middle = *compiled_;
  for (const char c : middle_) {
    const size_t word = middle.num_items / 64;
    const uint64_t bit = uint64_t{1} << middle.num_items % 64;
    if (c == '*') {
      middle.loops[word] |= bit;
      continue;
    }
    ++middle.num_items;
    if (c != '?') {
      middle.matches[static_cast<uint8_t>(c)][word] |= bit;
      continue;
    }
    for (size_t byte = 0; byte < middle.matches.size(); ++byte) {
      if (!IsContinuation(byte)) middle.matches[byte][word] |= bit;
    }
    middle.in_sequence[middle.num_items / 64] |= uint64_t{1}
                                                 << middle.num_items % 64;
  }
}

bool Glob::ContainsMiddle(absl::string_view text) const {
  const Middle& middle = *compiled_;
  const size_t last_word = middle.num_items / 64;
  const uint64_t last_bit = uint64_t{1} << middle.num_items % 64;
  Bits reached = {1};
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    const Bits& matches = middle.matches[byte];
    const uint64_t continues = IsContinuation(byte) ? ~uint64_t{0} : 0;
    uint64_t carry = 0;
    for (size_t i = 0; i <= last_word; ++i) {
      const uint64_t matched = reached[i] & matches[i];
      const uint64_t stays =
          middle.loops[i] | (middle.in_sequence[i] & continues);
      reached[i] = (reached[i] & stays) | matched << 1 | carry;
      carry = matched >> 63;
    }
    // A '*' follows the last item: the rest matches, whatever it is.
    if ((reached[last_word] & last_bit) != 0) return true;
  }
  return false;
}

}  // namespace tensorkv
