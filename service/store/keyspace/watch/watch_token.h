// Shows where a watch is.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_WATCH_TOKEN_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_WATCH_TOKEN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// WatchToken is what the server needs of a watch, and keeps nowhere else.
struct WatchToken {
  // Returns nothing for bytes that ToString has not made.
  static std::optional<WatchToken> Parse(absl::string_view token);
  std::string ToString() const;

  // That of the log.
  uint64_t incarnation = 0;
  // Is in the log, that of the last change that was told.
  uint64_t position = 0;
  // What was listed may have changes up to this revision.
  uint64_t not_before = 0;
  // There is more to tell at once.
  bool has_more = false;
  // What there is, is yet to be listed, after this name: of a key or, behind
  // kSeriesMark, of a series.
  bool is_listing = false;
  std::string after;

  // Is in no name, and comes after all keys as keys come before it.
  static constexpr char kSeriesMark = '\4';
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_WATCH_TOKEN_H_
