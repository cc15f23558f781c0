#include "service/store/keyspace/pull/delta_job.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "service/store/byte_budget.h"
#include "service/store/counted_buffer.h"
#include "service/store/keyspace/pull/pull_cast.h"
#include "service/store/keyspace/snapshots/letting_go.h"
#include "service/store/keyspace/transaction.h"
#include "tensor/delta/delta_encoder.h"
#include "tensor/delta/delta_scratch.h"

namespace tensorkv {
namespace {

// What a thread of the pool encodes, in about 2 ms, before others have it.
constexpr size_t kBlocksPerTask = 4;
constexpr size_t kMostTasks = 4;

class DeltaJob : public std::enable_shared_from_this<DeltaJob> {
 public:
  DeltaJob(std::shared_ptr<NamespaceState> state, const DeltaId& id,
           Tensor from, Tensor to, bool is_small)
      : state_(std::move(state)),
        id_(id),
        is_small_(is_small),
        from_(std::move(from)),
        to_(std::move(to)) {}

  void Run() {
    TaskPool::Task task = [self = shared_from_this()] { self->Begin(); };
    if (is_small_ || !state_->Submit(std::move(task))) std::move(task)();
  }

 private:
  // Memory is taken when there is a thread for the work, not before.
  void Begin() {
    num_blocks_ = NumDeltaBlocks(SizeAsConverted());
    const size_t num_tasks = std::clamp<size_t>(num_blocks_ / kBlocksPerTask, 1,
                                                is_small_ ? 1 : kMostTasks);
    if (!Prepare(num_tasks).ok()) return End(nullptr, {});
    encoder_.emplace(from_.view(), to_.view(), id_.encodings);
    num_left_ = num_blocks_;
    for (size_t i = 1; i < num_tasks; ++i) SubmitSome();
    EncodeAll();
  }

  size_t SizeAsConverted() const {
    return static_cast<size_t>(to_.num_elements()) * SizeOf(id_.dtype);
  }

  // Reserves what the job takes: blocks that are encoded take less than the
  // value.
  absl::Status Prepare(size_t num_tasks) {
    ASSIGN_OR_RETURN(
        work_bytes_,
        Reservation::Create(
            state_->memory.host().values,
            SizeAsConverted() +
                num_tasks * DeltaEncoder::MaxScratchBytes(SizeAsConverted())));
    if (id_.dtype == to_.dtype()) return absl::OkStatus();
    PullReply both;
    both.values.push_back({.tensor = std::move(from_)});
    both.values.push_back({.tensor = std::move(to_)});
    PullCast cast(id_.dtype, both);
    RETURN_IF_ERROR(std::move(cast).Run(*state_, both));
    from_ = std::move(both.values[0].tensor);
    to_ = std::move(both.values[1].tensor);
    return absl::OkStatus();
  }

  bool SubmitSome() {
    return state_->Submit([self = shared_from_this()] { self->EncodeAll(); });
  }

  // Encodes some blocks, then has another task go on; all, where none can.
  void EncodeAll() {
    DeltaScratch scratch;
    do {
      for (size_t i = 0; i < kBlocksPerTask; ++i) {
        const size_t block = next_.fetch_add(1, std::memory_order_relaxed);
        // The encoder may have gone by now.
        if (block >= num_blocks_) return;
        encoder_->EncodeBlock(block, scratch);
        if (num_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
          return Finish();
        }
      }
    } while (is_small_ || !SubmitSome());
  }

  void Finish() {
    const size_t bytes = encoder_->size_bytes();
    if (bytes >= SizeAsConverted()) return End(nullptr, ReserveToKeep(0));
    Reservation kept = ReserveToKeep(bytes);
    absl::StatusOr<RefPtr<Buffer>> buffer = Allocate(bytes, kept);
    if (!buffer.ok()) return End(nullptr, {});
    encoder_->Write((*buffer)->mutable_data());
    auto delta = MakeRefCounted<MadeDelta>();
    delta->bytes = Tensor::Unchecked(
        DType::kU8, *Shape::Create({static_cast<int64_t>(bytes)}),
        *std::move(buffer));
    delta->digest = DigestOf(to_.view());
    End(std::move(delta), std::move(kept));
  }

  // Returns bytes for the cache to keep the delta; none if it cannot.
  Reservation ReserveToKeep(size_t bytes) {
    Transaction transaction(*state_, Transaction::Thread::kOwn);
    return MakeRoomForDelta(transaction, DeltaCache::BytesOf(id_, bytes));
  }

  // Allocates from what is kept; without that, from the budget, until the
  // delta is sent.
  absl::StatusOr<RefPtr<Buffer>> Allocate(size_t bytes, Reservation& kept) {
    const auto allocate = [](uint64_t size, RefPtr<MemoryAccount> account) {
      return HostBuffer::Allocate(size, std::move(account));
    };
    if (kept.bytes() > 0) {
      return AllocateReserved(kept.Split(bytes), allocate);
    }
    return AllocateCounted(state_->memory.host().values, bytes, allocate);
  }

  // What the job has taken is free before anybody hears of its end.
  void End(MadeDeltaPtr delta, Reservation kept) {
    encoder_.reset();
    work_bytes_.Clear();
    from_ = Tensor();
    to_ = Tensor();
    state_->deltas->Add(id_, std::move(delta), std::move(kept));
  }

  const std::shared_ptr<NamespaceState> state_;
  const DeltaId id_;
  const bool is_small_;
  Tensor from_;
  Tensor to_;
  Reservation work_bytes_;
  std::optional<DeltaEncoder> encoder_;
  size_t num_blocks_ = 0;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> num_left_{0};
};

}  // namespace

void MakeDelta(std::shared_ptr<NamespaceState> state, const DeltaId& id,
               Tensor from, Tensor to, bool is_small) {
  std::make_shared<DeltaJob>(std::move(state), id, std::move(from),
                             std::move(to), is_small)
      ->Run();
}

}  // namespace tensorkv
