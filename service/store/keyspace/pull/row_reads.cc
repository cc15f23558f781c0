#include "service/store/keyspace/pull/row_reads.h"

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "service/store/counted_buffer.h"
#include "service/store/keyspace/pull/row_access.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/updates/update_runner.h"

namespace tensorkv {
namespace {

// Reserves what the accesses take.
absl::StatusOr<Reservation> ReserveAccesses(
    const NamespaceState& state, absl::Span<const RefPtr<const RowIds>> rows) {
  uint64_t bytes = rows.size() * kContributionOverheadBytes;
  for (const auto& ids : rows) bytes += ids->tensor().size_bytes();
  return Reservation::Create(state.memory.metadata(), bytes);
}

// Gives the rows memory on the device, which is counted as values.
absl::Status AllocateRows(const NamespaceState& state, PullReply& reply) {
  for (Value& value : reply.values) {
    Tensor& rows = value.tensor;
    ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                     AllocateCounted(state.memory.device().values,
                                     rows.size_bytes(), state.device()));
    rows = Tensor::Unchecked(rows.dtype(), rows.shape(), std::move(buffer));
  }
  return absl::OkStatus();
}

// A key and its access.
using AccessOfKey = std::pair<StoredKey*, PendingUpdate>;

// Makes one access for each key, however many entries of the call are of it.
std::vector<AccessOfKey> AccessesOf(absl::Span<const KeyPtr> keys,
                                    std::vector<RefPtr<const RowIds>> rows,
                                    const PullReply& reply,
                                    const RefPtr<QueuedCall>& call) {
  std::vector<AccessOfKey> accesses;
  absl::flat_hash_map<const StoredKey*, size_t> access_of;
  for (uint32_t i = 0; i < keys.size(); ++i) {
    const auto [found, is_new] =
        access_of.try_emplace(keys[i].get(), accesses.size());
    if (is_new) {
      PendingUpdate& made =
          accesses.emplace_back(keys[i].get(), PendingUpdate()).second;
      made.access = MakeRefCounted<RowAccess>();
      made.call = call;
    }
    PendingUpdate& update = accesses[found->second].second;
    static_cast<RowAccess&>(*update.access)
        .Add(std::move(rows[i]), reply.values[i].tensor);
    update.results.push_back(i);
  }
  return accesses;
}

}  // namespace

void SendRows(NamespaceState& state, absl::Span<const KeyPtr> keys,
              std::vector<RefPtr<const RowIds>> rows, PullReply reply,
              ReplyCallback<PullReply> done) {
  absl::StatusOr<Reservation> access_bytes = ReserveAccesses(state, rows);
  absl::Status status = access_bytes.status();
  if (status.ok()) status = AllocateRows(state, reply);
  if (!status.ok()) {
    // Memory that was taken is free before the answer goes out.
    access_bytes = status;
    reply = {};
    return std::move(done)(std::move(status));
  }
  const auto call = MakeRefCounted<QueuedCall>();
  std::vector<AccessOfKey> accesses =
      AccessesOf(keys, std::move(rows), reply, call);
  call->num_pending = accesses.size();
  call->reply.results.resize(keys.size());
  call->done =
      [&tensor_placement = *state.tensor_placement, reply = std::move(reply),
       access_bytes = *std::move(access_bytes),
       done = std::move(done)](absl::StatusOr<PushReply> versions) mutable {
        access_bytes.Clear();
        if (!versions.ok()) {
          reply = {};
          return std::move(done)(versions.status());
        }
        for (size_t i = 0; i < reply.values.size(); ++i) {
          reply.values[i].version = versions->results[i].version;
        }
        tensor_placement.Send(std::move(reply), std::move(done));
      };
  Transaction transaction(state);
  for (auto& [key, access] : accesses) {
    Enqueue(transaction, *key, std::move(access));
  }
}

}  // namespace tensorkv
