// The calls of data.proto.

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
#include "tensor/dtype.h"
#include "tensor/rule_spec.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace tensorkv {

struct InitEntry {
  std::string key;
  Tensor tensor;
  std::string state;
};

struct InitRequest {
  std::string name_space;
  std::optional<CallId> call_id;
  OnExisting on_existing = OnExisting::kFail;
  std::vector<InitEntry> entries;
  uint64_t namespace_uid = 0;
};

struct InitReply {
  std::vector<Version> versions;
};

// What is pushed is a tensor, or where `encoding` is set an encoded one: then
// `tensor` is its payload, u8 of rank 1. Where `rows` is set it is rows of one,
// which a PushRows brings; then `tensor` has them one below the other.
struct PushEntry {
  // What the contribution is once it is decoded.
  DType dtype() const { return encoding ? encoding->dtype() : tensor.dtype(); }
  const Shape& shape() const {
    return encoding ? encoding->shape() : tensor.shape();
  }

  std::string key;
  bool skip = false;
  Tensor tensor;
  RefPtr<const Encoding> encoding;
  // In the mean of the rule `average`; 0 stands for 1.
  double weight = 0;
  RefPtr<const RowIds> rows;
  // Only with `rows`: those that are not named get zeros.
  bool updates_all_rows = false;
};

struct PushRequest {
  std::string name_space;
  std::optional<CallId> call_id;
  std::optional<Worker> worker;
  Step step = 0;
  std::vector<PushEntry> entries;
  uint64_t namespace_uid = 0;
  uint64_t max_reply_bytes = 0;
  // What a PushPull converts the values to; as they are stored if unknown.
  DType reply_dtype = DType::kUnknown;
};

struct PushResult {
  Version version = 0;
  Step step = 0;
  bool repeated = false;
};

struct PushReply {
  std::vector<PushResult> results;
};

struct PullEntry {
  std::string key;
  Version min_version = 0;
  std::string state;
  // A PullRows reads these alone.
  RefPtr<const RowIds> rows;
};

struct PullRequest {
  std::string name_space;
  std::optional<Worker> worker;
  bool wait_for_keys = false;
  // What the values are converted to; as they are stored if unknown.
  DType dtype = DType::kUnknown;
  std::vector<PullEntry> entries;
  uint64_t namespace_uid = 0;
  uint64_t max_reply_bytes = 0;
};

struct Value {
  Version version = 0;
  Tensor tensor;
  uint32_t num_contributions = 0;
};

struct PullReply {
  std::vector<Value> values;
};

// What is pushed; its keys are pulled.
struct PushPullRequest : PushRequest {};

using PushPullReply = PullReply;

// Requests all of whose entries have rows, but for those which skip.
struct PushRowsRequest : PushRequest {};
struct PullRowsRequest : PullRequest {};

using PushRowsReply = PushReply;
using PullRowsReply = PullReply;

template <typename Request>
inline constexpr bool kIsOfRows = std::is_same_v<Request, PushRowsRequest> ||
                                  std::is_same_v<Request, PullRowsRequest>;

// --- Streams ----------------------------------------------------------------

// A count of 0 on the wire is 1 here.
struct Stripe {
  uint32_t index = 0;
  uint32_t count = 1;
  // The stripes of one attempt share it; 0 for a stream by itself.
  uint64_t group = 0;

  friend bool operator==(const Stripe&, const Stripe&) = default;
};

// The tensors of a manifest have no data. A PullManifest is a PullReply whose
// tensors have none.
struct InitManifest {
  InitRequest request;
  Stripe stripe;
};

struct PushManifest {
  PushRequest request;
  Stripe stripe;
};

struct PullStreamRequest {
  PullRequest request;
  Stripe stripe;
  uint64_t max_part_bytes = 0;
  bool takes_batches = false;
};

// --- Keys -------------------------------------------------------------------

struct DeleteRequest {
  std::string name_space;
  std::optional<CallId> call_id;
  std::vector<std::string> keys;
  bool allow_missing = false;
  uint64_t namespace_uid = 0;
};

struct DeleteReply {
  uint64_t num_deleted = 0;
};

struct ListRequest {
  std::string name_space;
  std::string prefix;
  uint32_t page_size = 0;
  std::string page_token;
};

struct KeyStatus {
  std::string key;
  DType dtype = DType::kF32;
  Shape shape;
  Version version = 0;
  uint64_t value_bytes = 0;
  uint64_t state_bytes = 0;
  RuleSpec rule;
  uint64_t update_count = 0;
  Multipliers multipliers;
  // What the next update would take.
  double learning_rate = 0;
  double weight_decay = 0;
  std::vector<std::string> states;
  std::optional<uint64_t> digest;
};

struct ListReply {
  std::vector<KeyStatus> keys;
  std::string next_page_token;
  uint64_t placement_version = 0;
};

struct StatRequest {
  std::string name_space;
  std::vector<std::string> keys;
  bool with_digest = false;
};

struct StatReply {
  std::vector<KeyStatus> keys;
};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_DATA_REQUESTS_H_
