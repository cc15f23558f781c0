// Makes keys: those of an Init, of a snapshot, of another server.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_KEY_CREATION_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_KEY_CREATION_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contract/requests.h"
#include "service/store/keyspace/key_removal.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/rules/rules_hold.h"
#include "service/store/keyspace/snapshots/taking.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// Says where keys are from: a call, a snapshot, or, of partitions that the
// fence keeps calls out of, another server.
enum class KeySource { kCall, kSnapshot, kServer };

// Fills in a key as CreateKeys says.
using MadeKey = absl::FunctionRef<absl::Status(Transaction& transaction,
                                               size_t entry, StoredKey& key)>;

// Returns the hashes of the names of all entries, for what is done while others
// wait.
std::vector<size_t> HashesOf(const InitRequest& request);

// Checks that the fields of an Init are right, whatever the store has.
absl::Status CheckFields(const NamespaceState& state,
                         const InitRequest& request);

// Returns which entries the call must create, as things are. REQUIRES: the
// mutex is held. Errors: those of Init that depend on keys.
absl::StatusOr<std::vector<bool>> EntriesToMake(const NamespaceState& state,
                                                const InitRequest& request,
                                                absl::Span<const size_t> hashes,
                                                KeySource source);

// Returns how many bytes the value takes of the device, besides memory that the
// tensor has, or that staging will give it.
inline uint64_t BytesOfNewValue(const TensorPlacement& tensor_placement,
                                const Tensor& tensor) {
  return tensor_placement.CanKeep(tensor) ? 0 : tensor.size_bytes();
}

// One Init on its way. Used by one thread.
//
// It makes the missing keys without the mutex, as matching patterns and copying
// elements take time, and then inserts them in one transaction, unless rules or
// other keys have changed meanwhile: then it makes what is missing yet.
class KeyCreation {
 public:
  // `made` is told of keys as CreateKeys says.
  KeyCreation(NamespaceState& state, InitRequest request, KeySource source,
              CallContext context, MadeKey made)
      : transaction_(state, std::defer_lock,
                     source == KeySource::kCall ? Transaction::Thread::kCaller
                                                : Transaction::Thread::kOwn),
        state_(state),
        request_(std::move(request)),
        source_(source),
        hashes_(HashesOf(request_)),
        context_(std::move(context)),
        made_(made),
        keys_(request_.entries.size()) {}

  // Makes the keys. Returns nothing if rules change faster than those of all
  // keys can be found: whoever has the RulesHold makes them by RunWith.
  absl::StatusOr<std::optional<InitReply>> Run();
  absl::StatusOr<InitReply> RunWith(const RulesHold& rules);

  const CallContext& context() const { return context_; }

 private:
  // Returns nothing if it must be tried again.
  absl::StatusOr<std::optional<InitReply>> Try();
  // Makes the keys that are `wanted` and missing; gives all keys the rules of
  // `bindings`, with their states.
  absl::Status MakeKeys(const std::vector<bool>& wanted,
                        const RuleBindings& bindings);
  // Finds the rules of all keys.
  absl::Status FindRules(const RuleBindings& bindings);
  absl::Status MakeStates();
  // Gives new keys their values, whose memory may be taken out of the request.
  absl::Status MakeValues(absl::Span<const KeyPtr> keys);
  // Returns the tensor's buffer, which is counted as a value from now on.
  RefPtr<Buffer> TakeAsValue(Tensor& tensor);
  // Returns whether there is a key for each entry that is wanted.
  bool Covers(const std::vector<bool>& wanted) const;

  // REQUIRES for these: the mutex is held.
  absl::StatusOr<std::optional<InitReply>> Insert(const RuleBindings& bindings);
  Version Replace(StoredKey* existing, size_t entry);
  absl::StatusOr<InitReply> InsertKeys(const std::vector<bool>& wanted);

  Transaction transaction_;
  NamespaceState& state_;
  InitRequest request_;
  const KeySource source_;
  const std::vector<size_t> hashes_;
  const CallContext context_;
  const MadeKey made_;
  // The key of each entry; what one attempt has made, the next one keeps.
  std::vector<KeyPtr> keys_;
  GoneKeys replaced_;
  Publication publication_;
};

// Makes the keys of an Init on this thread, which may have to wait for the end
// of a change of rules, and puts them into the namespace. `have_arrived` says
// that they come from elsewhere, of partitions that the fence keeps calls out
// of: then the fence is not asked. `made` fills in each key as the namespace
// gets it, before anybody can see it, with the mutex held; `entry` is its
// position in the request. What is to follow from the transaction is done when
// this returns. If `made` fails, the keys are there all the same.
// Errors: those of Init · those of `made`.
absl::Status CreateKeys(NamespaceState& state, InitRequest request,
                        bool have_arrived, MadeKey made);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_KEY_CREATION_H_
