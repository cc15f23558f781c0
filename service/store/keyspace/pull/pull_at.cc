#include "service/store/keyspace/pull/pull_at.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/counted_buffer.h"
#include "service/store/keyspace/pull/changes_reply.h"
#include "service/store/keyspace/pull/held_values.h"
#include "service/store/keyspace/pull/pull_call.h"
#include "service/store/keyspace/pull/pull_cast.h"
#include "service/store/keyspace/pull/row_check.h"
#include "service/store/keyspace/snapshots/call_at_snapshot.h"
#include "service/store/keyspace/snapshots/named_values.h"
#include "service/store/keyspace/updates/row_batches.h"
#include "service/store/looks.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

absl::Status CheckFields(const PullRequest& request) {
  RETURN_IF_ERROR(CheckReference(*request.at));
  if (request.wait_for_keys) {
    return absl::InvalidArgumentError(
        "wait_for_keys: expected none with a snapshot, got one");
  }
  for (const PullEntry& entry : request.entries) {
    if (entry.min_version == 0) continue;
    return absl::InvalidArgumentError(
        "min_version: expected none with a snapshot, got one");
  }
  return absl::OkStatus();
}

// Checks that the snapshot gives values of the dtype `stored` as the request
// wants them. Errors: InvalidArgument.
absl::Status CheckDType(const PullRequest& request,
                        const NamedSnapshot& snapshot, absl::string_view key,
                        DType stored) {
  const DType given = CastOf(snapshot.dtype, stored);
  if (snapshot.dtype == DType::kUnknown || request.dtype == DType::kUnknown) {
    return CheckCast(request.dtype, key, given);
  }
  if (request.dtype == given) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "key ", Quoted(key), ": the snapshot gives it as ", NameOf(given),
      ", expected to pull it as that, got ", NameOf(request.dtype)));
}

// Reads all entries of the snapshot, whose values the reply keeps, and into
// `held`, unless it is null, what the caller holds of them. The request then
// has the dtype to which the values are to be converted. REQUIRES: the mutex is
// held.
absl::StatusOr<PullReply> ReadAll(const NamespaceState& state,
                                  PullRequest& request,
                                  const NamedSnapshot& snapshot,
                                  HeldValues* held) {
  PullReply reply;
  if (held != nullptr && snapshot.dtype != DType::kUnknown) {
    held->Convert(snapshot.dtype);
  }
  reply.snapshot_number = snapshot.number;
  reply.values.reserve(request.entries.size());
  for (const PullEntry& entry : request.entries) {
    CountLook();
    ASSIGN_OR_RETURN(ValueOfSnapshot value,
                     ValueAt(state, snapshot, entry.key));
    RETURN_IF_ERROR(
        CheckDType(request, snapshot, entry.key, value.tensor.dtype()));
    if (entry.rows) {
      RETURN_IF_ERROR(CheckRowIds(entry.key, value.tensor, *entry.rows));
    }
    const uint64_t revision = value.revision;
    reply.values.push_back({value.version, std::move(value.tensor)});
    if (held == nullptr) continue;
    held->Look(state, entry.key, reply.values.size() - 1, reply.values.back(),
               revision, /*is_present=*/false);
  }
  if (snapshot.dtype != DType::kUnknown) request.dtype = snapshot.dtype;
  return reply;
}

// Has the reply have rows of its values, in memory of the device that is
// counted as values.
absl::Status TakeRows(const NamespaceState& state, const PullRequest& request,
                      PullReply& reply) {
  for (size_t i = 0; i < reply.values.size(); ++i) {
    Tensor& value = reply.values[i].tensor;
    const RefPtr<const RowIds>& ids = request.entries[i].rows;
    ASSIGN_OR_RETURN(const Shape shape,
                     ShapeOfRows(value.shape(), ids->size()));
    ASSIGN_OR_RETURN(Tensor rows, Tensor::WithoutData(value.dtype(), shape));
    ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                     AllocateCounted(state.memory.device().values,
                                     rows.size_bytes(), state.device()));
    rows = Tensor::Unchecked(value.dtype(), shape, std::move(buffer));
    RETURN_IF_ERROR(CopyRows(state.device(), value.view(),
                             value.shape().dimensions()[0],
                             {{ids, rows.mutable_view()}}));
    value = std::move(rows);
  }
  return absl::OkStatus();
}

// Returns how many bytes the rows take, converted.
uint64_t BytesOfRows(const PullRequest& request, const PullReply& reply) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < reply.values.size(); ++i) {
    const Tensor& value = reply.values[i].tensor;
    const int64_t num_rows = value.shape().dimensions()[0];
    if (num_rows == 0) continue;
    const size_t row_bytes = value.num_elements() / num_rows *
                             SizeOf(CastOf(request.dtype, value.dtype()));
    bytes = SumOfBytes(bytes, row_bytes * request.entries[i].rows->size());
  }
  return bytes;
}

void SendRowsOf(NamespaceState& state, PullRequest request, ReplyTerms terms,
                PullReply reply, ReplyCallback<PullReply> done) {
  const bool is_small = state.device().is_host() &&
                        BytesOfRows(request, reply) <= kMaxBytesInline;
  TaskPool::Task task = [state = state.shared_from_this(),
                         request = std::move(request), terms = std::move(terms),
                         reply = std::move(reply),
                         done = std::move(done)]() mutable {
    absl::Status status = TakeRows(*state, request, reply);
    if (status.ok()) {
      return SendReply(*state, std::move(terms), std::move(reply),
                       std::move(done));
    }
    reply = {};  // and what was allocated is free
    std::move(done)(std::move(status));
  };
  if (is_small || !state.Submit(std::move(task))) std::move(task)();
}

// Answers with what was read, without the mutex.
void SendRead(NamespaceState& state, PullRequest request, ReplyTerms terms,
              absl::StatusOr<PullReply> reply, std::unique_ptr<HeldValues> held,
              ReplyCallback<PullReply> done) {
  if (!reply.ok()) return std::move(done)(reply.status());
  const bool is_of_rows =
      !request.entries.empty() && bool{request.entries.front().rows};
  if (held) {
    auto bases = std::move(*held).Name(request, *reply);
    request = {};
    return SendChanges(state, std::move(terms), std::move(bases),
                       *std::move(reply), std::move(done));
  }
  if (!is_of_rows) {
    return SendReply(state, std::move(terms), *std::move(reply),
                     std::move(done));
  }
  absl::Status status =
      CheckReplyBytes(BytesOfRows(request, *reply), terms.max_bytes);
  if (!status.ok()) {
    reply = PullReply();
    return std::move(done)(std::move(status));
  }
  SendRowsOf(state, std::move(request), std::move(terms), *std::move(reply),
             std::move(done));
}

}  // namespace

void StartPullAt(NamespaceState& state, PullRequest request,
                 CallContext context, ReplyCallback<PullReply> done) {
  absl::Status status = CheckFields(request);
  if (!status.ok()) return std::move(done)(std::move(status));
  const SnapshotReference at = *request.at;
  const RequestSize size = {.num_keys = request.entries.size(),
                            .bytes = WaitingBytes(state, request)};
  // Nobody reads it any more when it is sent.
  const auto shared = std::make_shared<PullRequest>(std::move(request));
  auto held =
      shared->changes ? std::make_unique<HeldValues>(state, *shared) : nullptr;
  ReplyTerms terms = {.dtype = shared->dtype,
                      .max_bytes = context.max_reply_bytes,
                      .deadline = state.Now() + context.timeout,
                      .cancellation = context.cancellation};
  const auto read = [&state, shared,
                     held = held.get()](NamedSnapshot& snapshot) {
    return ReadAll(state, *shared, snapshot, held);
  };
  StartAtSnapshot<PullReply>(
      state, at, context, read,
      [&state, shared, terms = std::move(terms), share = context.share,
       held = std::move(held),
       done = std::move(done)](absl::StatusOr<PullReply> reply) mutable {
        terms.share = share.lock();
        terms.is_of_snapshot = shared->dtype != terms.dtype;
        terms.dtype = shared->dtype;
        SendRead(state, std::move(*shared), std::move(terms), std::move(reply),
                 std::move(held), std::move(done));
      },
      size);
}

}  // namespace tensorkv
