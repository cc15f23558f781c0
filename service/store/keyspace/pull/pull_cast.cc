#include "service/store/keyspace/pull/pull_cast.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "kernels/backend.h"
#include "kernels/update_rule.h"
#include "service/store/counted_buffer.h"
#include "service/store/names.h"

namespace tensorkv {

absl::Status CheckCast(DType dtype) {
  if (dtype == DType::kUnknown || IsFloat(dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dtype of a pull: expected a float, got ", NameOf(dtype)));
}

absl::Status CheckCast(DType dtype, const StoredKey& key) {
  return CheckCast(dtype, key.name(), key.dtype());
}

absl::Status CheckCast(DType dtype, absl::string_view key, DType stored) {
  if (dtype == DType::kUnknown) return absl::OkStatus();
  const size_t size = SizeOf(dtype);
  if (IsFloat(stored) && size <= SizeOf(stored)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "key ", Quoted(key), ": expected a float of ", size,
      " bytes or more to pull as ", NameOf(dtype), ", got ", NameOf(stored)));
}

DType CastOf(DType dtype, DType stored) {
  const bool is_converted = dtype != DType::kUnknown && IsFloat(stored) &&
                            SizeOf(dtype) <= SizeOf(stored);
  return is_converted ? dtype : stored;
}

PullCast::PullCast(DType dtype, PullReply& reply) {
  stored_.reserve(reply.values.size());
  for (Value& value : reply.values) {
    Tensor& tensor = value.tensor;
    Tensor& stored = stored_.emplace_back();
    if (!value.is_whole()) continue;
    const DType wanted = CastOf(dtype, tensor.dtype());
    if (tensor.dtype() == wanted) continue;
    stored = std::move(tensor);
    // It is no larger than the stored one.
    tensor = *Tensor::WithoutData(wanted, stored.shape());
    size_bytes_ += stored.size_bytes() + tensor.size_bytes();
  }
}

absl::Status PullCast::Run(const NamespaceState& state, bool is_retained,
                           PullReply& reply) && {
  if (is_retained) {
    RETURN_IF_ERROR(state.memory.CheckRetained({.device = size_bytes_}));
  }
  const MemoryAccounts& memory = state.memory.device();
  const auto& account = is_retained ? memory.retained : memory.values;
  std::vector<TensorView> views(stored_.size());
  std::vector<TensorUpdate> casts;
  for (size_t i = 0; i < stored_.size(); ++i) {
    if (stored_[i].num_elements() == 0) continue;
    Tensor& tensor = reply.values[i].tensor;
    ASSIGN_OR_RETURN(
        RefPtr<Buffer> buffer,
        AllocateCounted(account, static_cast<uint64_t>(tensor.size_bytes()),
                        state.device()));
    tensor =
        Tensor::Unchecked(tensor.dtype(), tensor.shape(), std::move(buffer));
    views[i] = stored_[i].view();
    TensorUpdate& cast = casts.emplace_back();
    cast.rule = &UpdateRule::Assign();
    cast.contributions = absl::MakeConstSpan(&views[i], 1);
    cast.value = tensor.mutable_view();
  }
  const absl::Status status =
      casts.empty() ? absl::OkStatus() : state.device().Apply(casts);
  stored_.clear();
  return status;
}

void SendReply(NamespaceState& state, ReplyTerms terms, PullReply reply,
               ReplyCallback<PullReply> done) {
  std::optional<PullCast> cast;
  if (terms.dtype != DType::kUnknown) cast.emplace(terms.dtype, reply);
  absl::Status status = CheckReplyBytes(reply, terms.max_bytes);
  if (!status.ok()) {
    cast.reset();
    reply = {};
    return std::move(done)(std::move(status));
  }
  if (!cast) {
    return state.tensor_placement->Send(std::move(reply), std::move(done));
  }
  const bool is_small = cast->size_bytes() <= kMaxBytesInline;
  TaskPool::Task task = [state = state.shared_from_this(),
                         terms = std::move(terms), cast = *std::move(cast),
                         reply = std::move(reply),
                         done = std::move(done)]() mutable {
    absl::Status status;
    if (terms.cancellation && terms.cancellation->is_cancelled()) {
      status = absl::CancelledError("the caller has given up");
    }
    if (status.ok()) {
      status = std::move(cast).Run(*state, terms.is_of_snapshot, reply);
    }
    if (status.ok()) {
      return state->tensor_placement->Send(std::move(reply), std::move(done));
    }
    reply = {};  // and what was allocated is free
    std::move(done)(std::move(status));
  };
  if (is_small || !state.SubmitRead(std::move(task))) std::move(task)();
}

uint64_t BytesOf(const PullReply& reply) {
  uint64_t bytes = 0;
  for (const Value& value : reply.values) bytes += value.tensor.size_bytes();
  return bytes;
}

absl::Status CheckReplyBytes(const PullReply& reply, uint64_t max_bytes) {
  return CheckReplyBytes(BytesOf(reply), max_bytes);
}

absl::Status CheckReplyBytes(uint64_t bytes, uint64_t max_bytes) {
  if (bytes <= max_bytes) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(
          absl::StrCat("values of the reply: expected at most ", max_bytes,
                       " bytes, got ", bytes, "; pull fewer keys in one call")),
      Reason::kReplyTooLarge, {{"needed", bytes}, {"available", max_bytes}});
}

}  // namespace tensorkv
