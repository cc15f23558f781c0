#include "service/store/keyspace/watch/watch_token.h"

#include <cstring>

#include "service/store/names.h"

namespace tensorkv {
namespace {

// The first byte, so that later servers can have another form.
constexpr char kWatchTokenForm = 1;
constexpr char kHasMore = 1;
constexpr char kIsListing = 2;
// That of a key, or of a series behind its mark.
constexpr size_t kMaxAfterBytes = kMaxKeyBytes + 1;

// Holds what a token has after its form and its flags.
struct WatchTokenNumbers {
  uint64_t incarnation;
  uint64_t position;
  uint64_t not_before;
};
constexpr size_t kWatchNumbersBegin = 2;
constexpr size_t kWatchAfterBegin =
    kWatchNumbersBegin + sizeof(WatchTokenNumbers);

}  // namespace

std::optional<WatchToken> WatchToken::Parse(absl::string_view token) {
  if (token.size() < kWatchAfterBegin || token[0] != kWatchTokenForm ||
      (token[1] & ~(kHasMore | kIsListing)) != 0) {
    return std::nullopt;
  }
  const absl::string_view after = token.substr(kWatchAfterBegin);
  const bool is_listing = (token[1] & kIsListing) != 0;
  if (after.size() > (is_listing ? kMaxAfterBytes : 0)) return std::nullopt;
  WatchTokenNumbers numbers;
  std::memcpy(&numbers, token.data() + kWatchNumbersBegin, sizeof(numbers));
  return WatchToken{.incarnation = numbers.incarnation,
                    .position = numbers.position,
                    .not_before = numbers.not_before,
                    .has_more = (token[1] & kHasMore) != 0,
                    .is_listing = is_listing,
                    .after = std::string(after)};
}

std::string WatchToken::ToString() const {
  const WatchTokenNumbers numbers = {incarnation, position, not_before};
  std::string token(kWatchAfterBegin, '\0');
  token[0] = kWatchTokenForm;
  token[1] = static_cast<char>((has_more ? kHasMore : 0) |
                               (is_listing ? kIsListing : 0));
  std::memcpy(&token[kWatchNumbersBegin], &numbers, sizeof(numbers));
  return token + after;
}

}  // namespace tensorkv
