#include "kernels/nccl/nccl_communicator.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/nccl/nccl_status.h"

namespace tensorkv {

absl::StatusOr<std::string> NcclCommunicator::NewId(const NcclFunctions& nccl) {
  ncclUniqueId id;
  RETURN_IF_ERROR(StatusOfNccl(nccl.get_unique_id(&id), "ncclGetUniqueId"));
  return std::string(id.internal, sizeof(id.internal));
}

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Create(
    const Environment& environment, const std::string& id, uint32_t rank,
    uint32_t size, MayWait may_wait) {
  ncclUniqueId unique;
  if (id.size() != sizeof(unique.internal)) {
    return absl::InvalidArgumentError(absl::StrCat("expected an id of ",
                                                   sizeof(unique.internal),
                                                   " bytes, got ", id.size()));
  }
  std::memcpy(unique.internal, id.data(), id.size());
  std::unique_ptr<NcclCommunicator> communicator(
      new NcclCommunicator(environment, rank));
  RETURN_IF_ERROR(environment.begin());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t begun = environment.nccl.comm_init_rank_config(
      &communicator->comm_, static_cast<int>(size), unique,
      static_cast<int>(rank), &config);
  RETURN_IF_ERROR(communicator->WaitFor(
      begun, absl::StrCat("ncclCommInitRankConfig of ", size, " processes"),
      may_wait));
  return communicator;
}

absl::Status NcclCommunicator::WaitFor(ncclResult_t begun,
                                       absl::string_view call,
                                       MayWait may_wait) {
  const NcclFunctions& nccl = environment_.nccl;
  ncclResult_t result = begun;
  absl::Status waiting;
  while (result == ncclInProgress && comm_ != nullptr) {
    waiting = may_wait();
    if (!waiting.ok()) break;
    environment_.pause();
    const ncclResult_t asked = nccl.comm_get_async_error(comm_, &result);
    if (asked != ncclSuccess) result = asked;
  }
  if (result == ncclSuccess) return absl::OkStatus();
  absl::Status status =
      waiting.ok()
          ? StatusOfNccl(result, call,
                         comm_ == nullptr ? "" : nccl.get_last_error(comm_))
          : absl::Status(waiting.code(),
                         absl::StrCat(call, ": ", waiting.message()));
  Abort();
  return status;
}

absl::Status NcclCommunicator::Enqueue(const Transfers& transfers) {
  const NcclFunctions& nccl = environment_.nccl;
  for (size_t peer = 0; peer < transfers.sends.size(); ++peer) {
    for (const absl::Span<const char> piece : transfers.sends[peer]) {
      const ncclResult_t result =
          nccl.send(piece.data(), piece.size(), ncclInt8,
                    static_cast<int>(peer), comm_, environment_.stream);
      if (result == ncclInProgress) continue;
      RETURN_IF_ERROR(StatusOfNccl(
          result,
          absl::StrCat("ncclSend of ", piece.size(), " bytes to ", peer)));
    }
  }
  for (size_t peer = 0; peer < transfers.receives.size(); ++peer) {
    for (const absl::Span<char> piece : transfers.receives[peer]) {
      const ncclResult_t result =
          nccl.recv(piece.data(), piece.size(), ncclInt8,
                    static_cast<int>(peer), comm_, environment_.stream);
      if (result == ncclInProgress) continue;
      RETURN_IF_ERROR(StatusOfNccl(
          result,
          absl::StrCat("ncclRecv of ", piece.size(), " bytes from ", peer)));
    }
  }
  return absl::OkStatus();
}

absl::Status NcclCommunicator::Exchange(const Transfers& transfers,
                                        MayWait may_wait) {
  if (is_broken()) {
    return absl::UnavailableError(
        absl::StrCat("the communicator of rank ", rank_, " is broken"));
  }
  const NcclFunctions& nccl = environment_.nccl;
  absl::Status status = environment_.begin();
  if (status.ok()) status = StatusOfNccl(nccl.group_start(), "ncclGroupStart");
  if (status.ok()) {
    status = Enqueue(transfers);
    // A group that was begun must end, also before an abort.
    const ncclResult_t ended = nccl.group_end();
    if (status.ok()) status = WaitFor(ended, "ncclGroupEnd", may_wait);
  }
  if (status.ok()) status = WaitUntilDone(may_wait);
  if (!status.ok()) Abort();
  return status;
}

// Errors of other processes are told here alone: the stream just stands still.
absl::Status NcclCommunicator::WaitUntilDone(MayWait may_wait) {
  for (;;) {
    ASSIGN_OR_RETURN(const bool done, environment_.is_done());
    if (done) return absl::OkStatus();
    ncclResult_t result = ncclSuccess;
    const NcclFunctions& nccl = environment_.nccl;
    const ncclResult_t asked = nccl.comm_get_async_error(comm_, &result);
    if (asked != ncclSuccess) result = asked;
    if (result != ncclSuccess && result != ncclInProgress) {
      return StatusOfNccl(result, "transfers", nccl.get_last_error(comm_));
    }
    RETURN_IF_ERROR(may_wait());
    environment_.pause();
  }
}

void NcclCommunicator::Abort() {
  if (comm_ == nullptr) return;
  // There is nothing left to do about an error of this.
  environment_.nccl.comm_abort(comm_);
  comm_ = nullptr;
}

}  // namespace tensorkv
