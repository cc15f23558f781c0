#include "kernels/cuda/staged_copies.h"

#include <algorithm>
#include <utility>

#include "base/answer.h"
#include "base/status_macros.h"
#include "kernels/last_of_many.h"

namespace tensorkv {
namespace {

// Starting a transfer takes about as long as copying so many bytes in parts.
constexpr size_t kMinDirectBytes = 64 << 10;

// The table of fewer copies takes longer than their parts.
constexpr size_t kMinMoved = 64;

}  // namespace

struct StagedCopies::HostCall {
  HostCall(std::vector<MemoryCopy> copies, PlanCallback done)
      : cursor(std::move(copies)), done(std::move(done)) {}

  // Guarded by the mutex of the copies until the call is done.
  CopyCursor cursor;
  int num_parts_under_way = 0;
  absl::Status status;
  PlanCallback done;
};

struct StagedCopies::HostPart {
  std::shared_ptr<HostCall> call;
  PinnedSlot slot;
  std::vector<MemoryCopy> pieces;
  // Set when the part is started.
  StagedPart staged;
  // Who empties the slot.
  Executor* emptying = nullptr;
};

struct StagedCopies::Move {
  absl::Status Enqueue(Stream& stream) const {
    UpdateTable::Place place = {.host = on_host->data(),
                                .device = on_device.data()};
    return table.CopyAndLaunch(place, stream);
  }

  UpdateTable table;
  // Where the table is.
  RefPtr<Buffer> on_host;
  DeviceMemory on_device;
};

absl::StatusOr<std::unique_ptr<StagedCopies>> StagedCopies::Create(
    DevicePool* pool, PinnedArena* arena, const StagedCopiesOptions& options) {
  Device* const device = &pool->device();
  std::unique_ptr<StagedCopies> copies(new StagedCopies(pool, arena, options));
  const size_t room = StagedPart::RoomFor(options.slot_bytes);
  for (auto* slots : {&copies->slots_to_device_, &copies->slots_to_host_}) {
    ASSIGN_OR_RETURN(*slots,
                     PinnedSlots::Create(device, options.num_slots, room));
  }
  for (auto* scratch :
       {&copies->scratch_to_device_, &copies->scratch_to_host_}) {
    ASSIGN_OR_RETURN(*scratch, pool->Allocate(room));
  }
  ASSIGN_OR_RETURN(copies->to_device_,
                   StreamLane::Create(device, StreamUse::kToDevice));
  ASSIGN_OR_RETURN(copies->to_host_,
                   StreamLane::Create(device, StreamUse::kToHost));
  RETURN_IF_ERROR(copies->ClearScratch());
  pool->FreeBehind(copies->to_device_.get());
  return copies;
}

StagedCopies::~StagedCopies() {
  if (to_device_) to_device_->WaitForCallbacks(to_device_->num_started());
  pool_.FreeBehind(nullptr);
}

// What lies between the pieces of a part is copied with them.
absl::Status StagedCopies::ClearScratch() {
  const Answer<absl::Status> cleared;
  RETURN_IF_ERROR(to_host_->Run(
      [this](Stream& stream) -> absl::Status {
        RETURN_IF_ERROR(pool_.OrderBehindAllocations(stream));
        return stream.SetZero(scratch_to_host_.data(),
                              scratch_to_host_.size_bytes());
      },
      [cleared](absl::Status status) { cleared.Set(std::move(status)); }));
  return cleared.Wait();
}

std::vector<MemoryCopy> StagedCopies::TakeDirect(
    std::vector<MemoryCopy>& copies, Direction direction) const {
  const bool to_device = direction == Direction::kToDevice;
  const auto direct = std::stable_partition(
      copies.begin(), copies.end(), [&](const MemoryCopy& copy) {
        return copy.size_bytes < kMinDirectBytes ||
               !arena_.CanRead(to_device ? copy.from : copy.to,
                               copy.size_bytes);
      });
  std::vector<MemoryCopy> taken(direct, copies.end());
  copies.erase(direct, copies.end());
  return taken;
}

// A part that cannot be started ends the call; what was started goes on.
absl::Status StagedCopies::ToDevice(absl::Span<const MemoryCopy> copies,
                                    PlanCallback done) {
  const auto call = std::make_shared<LastOfMany>(1, std::move(done));
  const auto end = [call](const absl::Status& status) { call->End(status); };
  std::vector<MemoryCopy> staged(copies.begin(), copies.end());
  const std::vector<MemoryCopy> direct =
      TakeDirect(staged, Direction::kToDevice);
  absl::Status started;
  if (!direct.empty()) {
    call->Add();
    started = to_device_->Run(
        [&](Stream& stream) { return CopyDirect(direct, stream); }, end);
  }
  if (auto move = TakeMove(staged, Direction::kToDevice);
      move != nullptr && started.ok()) {
    call->Add();
    started = StartMoveToDevice(std::move(move), end);
  }
  CopyCursor cursor(std::move(staged));
  while (started.ok() && !cursor.is_done()) {
    PinnedSlot slot = slots_to_device_->Acquire();
    StagedPart part(NextPieces(cursor), Direction::kToDevice,
                    scratch_to_device_.data());
    part.FillSlot(slot.data());  // the copy that page-locked memory costs
    call->Add();
    started = StartToDevice(std::move(slot), part, end);
  }
  call->End(started);
  return started;
}

absl::StatusOr<bool> StagedCopies::StartToDevice(
    absl::Span<const MemoryCopy> copies, StreamLane::Mark& mark) {
  std::vector<MemoryCopy> staged(copies.begin(), copies.end());
  const std::vector<MemoryCopy> direct =
      TakeDirect(staged, Direction::kToDevice);
  if (!staged.empty()) return false;
  RETURN_IF_ERROR(to_device_->Put(
      [&](Stream& stream) { return CopyDirect(direct, stream); }, mark));
  return true;
}

absl::Status StagedCopies::CopyDirect(absl::Span<const MemoryCopy> copies,
                                      Stream& stream) {
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(stream));
  for (const MemoryCopy& copy : copies) {
    RETURN_IF_ERROR(stream.CopyToDevice(copy.to, copy.from, copy.size_bytes));
  }
  return absl::OkStatus();
}

std::shared_ptr<StagedCopies::Move> StagedCopies::TakeMove(
    std::vector<MemoryCopy>& copies, Direction direction) {
  const bool to_device = direction == Direction::kToDevice;
  absl::Span<const char> block;  // where the last was
  const auto moved = std::stable_partition(
      copies.begin(), copies.end(), [&](const MemoryCopy& copy) {
        const char* const begin = to_device ? copy.from : copy.to;
        if (begin < block.data() || begin >= block.data() + block.size()) {
          block = arena_.BlockOf(begin);
        }
        return block.empty() || copy.size_bytes >= kMinDirectBytes;
      });
  const absl::Span<const MemoryCopy> small =
      absl::MakeConstSpan(copies).subspan(moved - copies.begin());
  std::shared_ptr<Move> move = MakeMove(small);
  if (move != nullptr) copies.erase(moved, copies.end());
  return move;
}

std::shared_ptr<StagedCopies::Move> StagedCopies::MakeMove(
    absl::Span<const MemoryCopy> copies) {
  if (copies.size() < kMinMoved) return nullptr;
  auto move = std::make_shared<Move>();
  move->table = StagedPart::TableOf(copies);
  const size_t size_bytes = move->table.size_bytes();
  absl::StatusOr<DeviceMemory> on_device = pool_.Allocate(size_bytes);
  if (!on_device.ok()) return nullptr;
  move->on_device = *std::move(on_device);
  move->on_host = arena_.Allocate(size_bytes, /*account=*/nullptr);
  if (!move->on_host) return nullptr;
  move->table.Write(move->on_host->mutable_data());
  return move;
}

absl::Status StagedCopies::StartMoveToDevice(std::shared_ptr<Move> move,
                                             PlanCallback done) {
  const Move& started = *move;
  return to_device_->Run(
      [&](Stream& stream) -> absl::Status {
        RETURN_IF_ERROR(pool_.OrderBehindAllocations(stream));
        return started.Enqueue(stream);
      },
      [move = std::move(move),
       done = std::move(done)](absl::Status status) mutable {
        move = nullptr;  // free before anybody hears of the end
        std::move(done)(std::move(status));
      });
}

absl::Status StagedCopies::StartToDevice(PinnedSlot slot,
                                         const StagedPart& part,
                                         PlanCallback done) {
  char* const data = slot.data();
  return to_device_->Run(
      [&](Stream& stream) -> absl::Status {
        RETURN_IF_ERROR(pool_.OrderBehindAllocations(stream));
        return part.Enqueue(data, stream);
      },
      [slot = std::move(slot),
       done = std::move(done)](absl::Status status) mutable {
        { const PinnedSlot released = std::move(slot); }
        std::move(done)(std::move(status));
      });
}

absl::Status StagedCopies::OrderToHost(Stream& stream) {
  RETURN_IF_ERROR(pool_.OrderBehindAllocations(stream));
  return to_device_->OrderBehind(stream);
}

void StagedCopies::ToHost(std::vector<MemoryCopy> copies, PlanCallback done) {
  const std::vector<MemoryCopy> direct = TakeDirect(copies, Direction::kToHost);
  std::shared_ptr<Move> move = TakeMove(copies, Direction::kToHost);
  auto call = std::make_shared<HostCall>(std::move(copies), std::move(done));
  if (direct.empty() && move == nullptr && call->cursor.is_done()) {
    return std::move(call->done)(absl::OkStatus());
  }
  call->num_parts_under_way = (direct.empty() ? 0 : 1) + (move ? 1 : 0);
  if (!call->cursor.is_done()) StartRest(call);
  if (!direct.empty()) StartDirectToHost(direct, call);
  if (move != nullptr) StartMoveToHost(std::move(move), std::move(call));
}

void StagedCopies::StartDirectToHost(absl::Span<const MemoryCopy> copies,
                                     std::shared_ptr<HostCall> call) {
  to_host_
      ->Run(
          [&](Stream& stream) -> absl::Status {
            RETURN_IF_ERROR(OrderToHost(stream));
            for (const MemoryCopy& copy : copies) {
              RETURN_IF_ERROR(
                  stream.CopyToHost(copy.to, copy.from, copy.size_bytes));
            }
            return absl::OkStatus();
          },
          [this, call = std::move(call)](absl::Status status) mutable {
            EndOnThread(std::move(call), std::move(status));
          })
      .IgnoreError();  // the callback is told
}

void StagedCopies::StartMoveToHost(std::shared_ptr<Move> move,
                                   std::shared_ptr<HostCall> call) {
  const Move& started = *move;
  to_host_
      ->Run(
          [&](Stream& stream) -> absl::Status {
            RETURN_IF_ERROR(OrderToHost(stream));
            return started.Enqueue(stream);
          },
          [this, move = std::move(move),
           call = std::move(call)](absl::Status status) mutable {
            move = nullptr;  // free before anybody hears of the end
            EndOnThread(std::move(call), std::move(status));
          })
      .IgnoreError();  // the callback is told
}

void StagedCopies::EndOnThread(std::shared_ptr<HostCall> call,
                               absl::Status status) {
  TakeEmptying().Submit(
      [this, call = std::move(call), status = std::move(status)] {
        if (EndPart(*call, status)) std::move(call->done)(call->status);
      });
}

void StagedCopies::StartRest(std::shared_ptr<HostCall> call) {
  {
    MutexLock lock(&mutex_);
    waiting_.push_back(std::move(call));
  }
  StartParts();
}

void StagedCopies::StartParts() {
  while (const std::shared_ptr<HostPart> part = TakePart()) StartToHost(part);
}

// Whoever finds no slot leaves its call to those who have them: they come here
// again when they are done.
std::shared_ptr<StagedCopies::HostPart> StagedCopies::TakePart() {
  MutexLock lock(&mutex_);
  if (waiting_.empty()) return nullptr;
  std::optional<PinnedSlot> slot = slots_to_host_->TryAcquire();
  if (!slot) return nullptr;
  std::shared_ptr<HostCall> call = std::move(waiting_.front());
  waiting_.pop_front();
  ++call->num_parts_under_way;
  auto part = std::make_shared<HostPart>();
  part->slot = *std::move(slot);
  part->pieces = NextPieces(call->cursor);
  part->emptying = &TakeEmptying();
  part->call = call;
  if (!call->cursor.is_done()) waiting_.push_back(std::move(call));
  return part;
}

void StagedCopies::StartToHost(const std::shared_ptr<HostPart>& part) {
  part->staged = StagedPart(std::move(part->pieces), Direction::kToHost,
                            scratch_to_host_.data());
  to_host_
      ->Run(
          [&](Stream& stream) -> absl::Status {
            RETURN_IF_ERROR(OrderToHost(stream));
            return part->staged.Enqueue(part->slot.data(), stream);
          },
          [this, part](absl::Status status) {
            part->emptying->Submit(
                [this, part, status] { FinishPart(*part, status); });
          })
      .IgnoreError();  // the callback is told
}

void StagedCopies::FinishPart(HostPart& part, absl::Status status) {
  if (status.ok()) part.staged.EmptySlot(part.slot.data());
  { const PinnedSlot released = std::move(part.slot); }
  StartParts();
  // Last: when the callbacks of all calls have begun, this object may go.
  const std::shared_ptr<HostCall> call = std::move(part.call);
  if (EndPart(*call, status)) std::move(call->done)(call->status);
}

bool StagedCopies::EndPart(HostCall& call, const absl::Status& status) {
  MutexLock lock(&mutex_);
  call.status.Update(status);
  return --call.num_parts_under_way == 0 && call.cursor.is_done();
}

}  // namespace tensorkv
