// Gives the results of pushes the tokens of their values.

#include <algorithm>
#include <utility>
#include <vector>

#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull/value_token.h"

namespace tensorkv {
namespace {

// What the token of an entry's value has besides the version.
struct PushedValue {
  uint64_t key_hash = 0;
  // kUnknown: there is no token.
  DType dtype = DType::kUnknown;
};

// Returns the dtype of the value that the entry makes: a push that asks for
// tokens brings values as they are stored.
DType DTypeOfValue(const PushEntry& entry) {
  if (entry.skip) return DType::kUnknown;
  if (!entry.delta) return entry.dtype();
  const auto base = ValueToken::Parse(entry.delta->base);
  return base ? base->dtype : DType::kUnknown;
}

void AddTokens(const TokenNumbers& tokens,
               const std::vector<PushedValue>& values,
               std::vector<PushResult>& results) {
  for (size_t i = 0; i < std::min(values.size(), results.size()); ++i) {
    PushResult& result = results[i];
    // The version of what was there already may be somebody else's.
    if (result.repeated || values[i].dtype == DType::kUnknown) continue;
    result.token = ValueToken{.incarnation = tokens.incarnation(),
                              .key_hash = values[i].key_hash,
                              .version = result.version,
                              // Whatever the value becomes, the search for it
                              // begins with the latest.
                              .revision = UINT64_MAX,
                              .dtype = values[i].dtype}
                       .ToString();
  }
}

}  // namespace

// What is remembered of a call has no tokens: they are made again for a repeat.
// A key that has gone meanwhile gets one that names nothing.
ReplyCallback<PushReply> Namespace::WithTokens(
    const PushRequest& request, ReplyCallback<PushReply> done) const {
  const bool takes_deltas =
      state_->mode->applies_at_once() && state_->device().is_host();
  if (!takes_deltas) return done;
  std::vector<PushedValue> values;
  values.reserve(request.entries.size());
  for (const PushEntry& entry : request.entries) {
    values.push_back({state_->tokens.HashOf(entry.key), DTypeOfValue(entry)});
  }
  return [state = state_, values = std::move(values),
          done = std::move(done)](absl::StatusOr<PushReply> reply) mutable {
    if (reply.ok()) AddTokens(state->tokens, values, reply->results);
    std::move(done)(std::move(reply));
  };
}

}  // namespace tensorkv
