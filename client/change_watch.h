// Tells what changes in a namespace.
//
//   ChangeWatch watch(client, {.prefix = "policy/", .initial = true});
//   ASSIGN_OR_RETURN(const auto changes, watch.Next(absl::Seconds(10)));

#ifndef TENSORKV_CLIENT_CHANGE_WATCH_H_
#define TENSORKV_CLIENT_CHANGE_WATCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "contract/requests.h"

namespace tensorkv {

// WatchOptions says what a watch tells, and how often; watch.proto explains the
// fields. Without a prefix, a key or a series all keys are watched.
struct WatchOptions {
  std::optional<std::string> prefix;
  // In place of a prefix. A value that lies in slices over servers is not told,
  // and its key is waited for in vain.
  std::optional<std::string> key;
  // An empty one stands for all.
  std::optional<std::string> series;
  // Tells first what there is.
  bool initial = false;
  // Goes on from the token() of an earlier watch.
  std::string token;
  absl::Duration interval = absl::Milliseconds(100);
};

// A ChangeWatch is told of the changes of the client's namespace, in the order
// of their revisions: of what has changed several times, the newest version
// alone. Used by one thread at a time; the client's canceller ends its waits.
//
// Errors: those of Watch; InvalidArgument: both a key and a prefix; Aborted
// (REVISION_COMPACTED) where too much has changed since it was told last, or
// the namespace was created again: another watch begins anew then. A server
// that was started anew says SERVER_RESTARTED to the client, as in all calls.
// After Unavailable the watch goes on.
class ChangeWatch {
 public:
  // `client` outlives it. The watch begins with the first call of Begin or
  // Next.
  ChangeWatch(Client& client, WatchOptions options);

  // Returns once the watch has begun: what changes from now on it tells.
  absl::Status Begin();

  // Waits for what has changed since the watch was told last. Returns none when
  // `timeout` has passed: then nothing has, but for what is on its way. Asks at
  // least once, so that 0 tells what there is to tell now.
  absl::StatusOr<std::vector<v1::Change>> Next(absl::Duration timeout);

  // Tells `told` of changes, on this thread, as they come, until it returns
  // false or the watch fails.
  absl::Status Follow(
      absl::FunctionRef<bool(const std::vector<v1::Change>& changes)> told);

  // Shows how far Next, or Begin where that had nothing to tell, has told;
  // empty before.
  const std::string& token() const { return token_; }

 private:
  // Adds what comes within `max_wait` to told_.
  absl::Status Ask(absl::Duration max_wait);

  Client& client_;
  const absl::Duration longest_wait_;
  // Not OK: the options are no watch.
  absl::Status status_;
  // Its token is that of after told_.
  WatchRequest request_;
  std::string token_;
  // What the next Next returns.
  std::vector<v1::Change> told_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CHANGE_WATCH_H_
