// The calls of data.proto, which explains their fields.

#ifndef TENSORKV_CONTRACT_DATA_REQUESTS_H_
#define TENSORKV_CONTRACT_DATA_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/ref_counted.h"
#include "contract/call_fields.h"
#include "contract/encoding.h"
#include "contract/row_ids.h"
#include "contract/snapshot_references.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"
#include "tensorkv/v1/data.pb.h"

namespace tensorkv {

// Creates a key with `tensor`.
struct InitEntry {
  std::string key;
  Tensor tensor;
};

struct InitRequest {
  std::string name_space;
  std::optional<CallId> call_id;
  OnExisting on_existing = OnExisting::kFail;
  std::vector<InitEntry> entries;
  uint64_t namespace_uid = 0;
  // Has the call take a snapshot.
  std::optional<PublishAs> publish_as;
};

// The snapshot that a call has taken.
struct PublishedSnapshot {
  uint64_t number = 0;
  uint64_t revision = 0;
  // Counts the other parts that were yet to come, where the call was of one.
  uint32_t parts_missing = 0;
};

struct InitReply {
  std::vector<Version> versions;
  // Nothing unless the call was to take a snapshot.
  std::optional<PublishedSnapshot> published;
};

// What a push needs to know of a delta besides its bytes.
struct PushedDelta final : RefCounted {
  // Names the value that the delta changes, by its token.
  std::string base;
  // Is that of the bytes of the new value.
  uint64_t digest = 0;
};

// A contribution to one key. Where `encoding` is set, `tensor` is the payload
// of an encoded tensor, u8 of rank 1. Where `rows` is set, as a PushRows has
// it, `tensor` has only these rows of the key, one below the other. Where
// `delta` is set, `tensor` is a delta's bytes, u8 of rank 1.
struct PushEntry {
  // Return the dtype and the shape of the contribution once it is decoded.
  DType dtype() const { return encoding ? encoding->dtype() : tensor.dtype(); }
  const Shape& shape() const {
    return encoding ? encoding->shape() : tensor.shape();
  }

  std::string key;
  // True if the call contributes nothing to the key; `tensor` is then empty.
  bool skip = false;
  Tensor tensor;
  RefPtr<const Encoding> encoding;
  // What the contribution weighs in the mean of a namespace that has means.
  double weight = 1;
  RefPtr<const RowIds> rows;
  // Only with `rows`: the rows that are not named are updated too, as if a
  // contribution of zeros had come for them.
  bool update_all_rows = false;
  RefPtr<const PushedDelta> delta;
};

struct PushRequest {
  std::string name_space;
  std::optional<CallId> call_id;
  std::optional<Worker> worker;
  Step step = 0;
  std::vector<PushEntry> entries;
  uint64_t namespace_uid = 0;
  // Has the call take a snapshot. A PushPull has none.
  std::optional<PublishAs> publish_as;
  // Has the results have tokens. Neither a PushPull nor a PushRows has it.
  bool with_tokens = false;
};

struct PushResult {
  // The version that the contribution has made; 0 while its round is open.
  Version version = 0;
  // The step whose round the contribution has joined; 0 without rounds.
  Step step = 0;
  // True if the contribution was there already: it is not added again.
  bool repeated = false;
  // Names the value of `version` where tokens were asked for; else empty.
  std::string token;
};

struct PushReply {
  std::vector<PushResult> results;
  // Nothing unless the call was to take a snapshot.
  std::optional<PublishedSnapshot> published;
};

struct PullEntry {
  std::string key;
  // Waits until the key has this version; 0 takes any.
  Version min_version = 0;
  // A PullRows reads only these rows; other pulls have none.
  RefPtr<const RowIds> rows;
  // The token of the value that the caller holds; empty: none.
  std::string held;
};

using v1::PullChanges;

struct PullRequest {
  std::string name_space;
  std::optional<Worker> worker;
  // Waits for keys that do not exist, instead of NotFound.
  bool wait_for_keys = false;
  // The dtype to which the values are converted; kUnknown leaves them as they
  // are stored.
  DType dtype = DType::kUnknown;
  std::vector<PullEntry> entries;
  uint64_t namespace_uid = 0;
  // The longest reply that the caller takes; 0 sets no bound.
  uint64_t max_reply_bytes = 0;
  // From how many bytes on the values come by a ticket; 0: never.
  uint64_t ticket_from_bytes = 0;
  // The snapshot that is read; nothing: the present values.
  std::optional<SnapshotReference> at;
  // Asks for what has changed since what the caller holds.
  std::optional<PullChanges> changes;
};

struct Delta {
  uint64_t digest = 0;
};

// What has changed of one slice of a value.
struct SliceChange {
  uint64_t size_bytes = 0;
  bool unchanged = false;
  std::optional<Delta> delta;
  // With a delta: its bytes.
  Tensor tensor;
};

// Says of a value what has changed since the one that the caller holds.
struct ValueChange final : RefCounted {
  std::string token;
  bool unchanged = false;
  std::optional<Delta> delta;
  // Only from clients of a cluster, of a value in slices some of which have
  // come as changes: all of them, one after the other. The others are in their
  // places in the value's tensor.
  std::vector<SliceChange> slices;
};

struct Value {
  // Returns whether `tensor` is the value: neither nothing, a delta nor slices.
  bool is_whole() const {
    return !change ||
           (!change->unchanged && !change->delta && change->slices.empty());
  }

  Version version = 0;
  Tensor tensor;
  // How many contributions the round had for which the call waited; 0 if none.
  uint32_t num_contributions = 0;
  // Null unless the call asks for changes.
  RefPtr<const ValueChange> change;
};

// Names values that a server holds for a PullStream.
struct Ticket {
  std::string id;
  // Counts the bytes of all values together.
  uint64_t size_bytes = 0;
};

struct PullReply {
  std::vector<Value> values;
  // Where it is there, the encoded reply has no elements of the values.
  std::optional<Ticket> ticket;
  // The number of the snapshot that was read; 0 if it was none.
  uint64_t snapshot_number = 0;
};

// Pushes the entries, and then pulls their keys as a PullRequest with these
// fields does.
struct PushPullRequest : PushRequest {
  uint64_t max_reply_bytes = 0;
  uint64_t ticket_from_bytes = 0;
  DType dtype = DType::kUnknown;
};

using PushPullReply = PullReply;

// In a request of rows every entry has `rows`, unless it skips.
struct PushRowsRequest : PushRequest {};
struct PullRowsRequest : PullRequest {};

using PushRowsReply = PushReply;
using PullRowsReply = PullReply;

template <typename Request>
inline constexpr bool kIsOfRows = std::is_same_v<Request, PushRowsRequest> ||
                                  std::is_same_v<Request, PullRowsRequest>;

// --- States -----------------------------------------------------------------

struct SetStateEntry {
  std::string key;
  std::string state;
  Tensor tensor;
};

struct SetStateRequest {
  std::string name_space;
  std::optional<CallId> call_id;
  std::vector<SetStateEntry> entries;
  uint64_t namespace_uid = 0;
};

struct GetStateEntry {
  std::string key;
  std::string state;
};

struct GetStateRequest {
  std::string name_space;
  std::optional<Worker> worker;
  std::vector<GetStateEntry> entries;
  uint64_t namespace_uid = 0;
  // The longest reply that the caller takes; 0 sets no bound.
  uint64_t max_reply_bytes = 0;
  uint64_t ticket_from_bytes = 0;
};

using SetStateReply = InitReply;
using GetStateReply = PullReply;

template <typename Request>
inline constexpr bool kIsOfStates = std::is_same_v<Request, SetStateRequest> ||
                                    std::is_same_v<Request, GetStateRequest>;

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_DATA_REQUESTS_H_
