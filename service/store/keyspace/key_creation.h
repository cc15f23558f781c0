// Init: makes keys with their values, their rules and the states of these.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_KEY_CREATION_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_KEY_CREATION_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// As in TensorStore.
void Init(NamespaceState& state, InitRequest request, CallContext context,
          ReplyCallback<InitReply> done);

// Whether the fields of an Init are right, whatever the store has.
absl::Status CheckFields(const NamespaceState& state,
                         const InitRequest& request);

// What the Init needs, as things are. Errors: those of Init.
absl::StatusOr<BytesNeeded> BytesToInit(const NamespaceState& state,
                                        const InitRequest& request);

// One Init on its way. Used by one thread.
//
// It makes the missing keys without the mutex, as matching patterns and copying
// elements take time, and then inserts them in one transaction, unless rules or
// other keys have changed meanwhile: then it makes what is missing yet.
class KeyCreation {
 public:
  KeyCreation(NamespaceState& state, InitRequest request,
              const CallContext& context)
      : transaction_(state, std::defer_lock),
        state_(state),
        request_(std::move(request)),
        context_(context),
        keys_(request_.entries.size()) {}

  absl::StatusOr<InitReply> Run();

 private:
  // Nothing if it must be tried again.
  absl::StatusOr<std::optional<InitReply>> Try();
  // Makes the keys that are `wanted` and missing; gives all keys the rules of
  // `bindings`, with their states.
  absl::Status MakeKeys(const std::vector<bool>& wanted,
                        const RuleBindings& bindings);
  absl::StatusOr<KeyPtr> MakeKey(const InitEntry& entry) const;
  // Finds the rules of all keys.
  absl::Status FindRules(const RuleBindings& bindings);
  absl::Status MakeStates();
  // For new keys, which have their rules: chooses their devices; gives them
  // their values, of which it may take memory out of the request.
  void PlaceKeys(absl::Span<const KeyPtr> keys) const;
  absl::Status MakeValues(absl::Span<const KeyPtr> keys);
  // The tensor's buffer, which is counted as a value from now on.
  RefPtr<Buffer> TakeAsValue(Tensor& tensor);
  // Whether there is a key for each entry that is wanted.
  bool Covers(const std::vector<bool>& wanted) const;

  // REQUIRES for these: the mutex is held.
  absl::StatusOr<std::optional<InitReply>> Insert(const RuleBindings& bindings);
  Version Replace(const StoredKey* existing, const KeyPtr& key,
                  RoundsOfKeys& ended);
  InitReply InsertKeys(const std::vector<bool>& wanted);

  Transaction transaction_;
  NamespaceState& state_;
  InitRequest request_;
  const CallContext& context_;
  // By entry: what one turn has made, the next one keeps.
  std::vector<KeyPtr> keys_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_KEY_CREATION_H_
