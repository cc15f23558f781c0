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
    const Environment& environment, const std::string& id, int rank, int size,
    absl::Duration deadline) {
  ncclUniqueId unique;
  if (id.size() != sizeof(unique.internal)) {
    return absl::InvalidArgumentError(absl::StrCat("expected an id of ",
                                                   sizeof(unique.internal),
                                                   " bytes, got ", id.size()));
  }
  std::memcpy(unique.internal, id.data(), id.size());
  std::unique_ptr<NcclCommunicator> communicator(
      new NcclCommunicator(environment, rank));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t begun = environment.nccl.comm_init_rank_config(
      &communicator->comm_, size, unique, rank, &config);
  RETURN_IF_ERROR(communicator->WaitFor(
      begun, absl::StrCat("ncclCommInitRankConfig of ", size, " processes"),
      deadline));
  return communicator;
}

absl::Status NcclCommunicator::WaitFor(ncclResult_t begun,
                                       absl::string_view call,
                                       absl::Duration deadline) {
  const NcclFunctions& nccl = environment_.nccl;
  ncclResult_t result = begun;
  while (result == ncclInProgress && comm_ != nullptr &&
         environment_.now() < deadline) {
    environment_.pause();
    const ncclResult_t asked = nccl.comm_get_async_error(comm_, &result);
    if (asked != ncclSuccess) result = asked;
  }
  if (result == ncclSuccess) return absl::OkStatus();
  absl::Status status = StatusOfNccl(
      result, call, comm_ == nullptr ? "" : nccl.get_last_error(comm_));
  Abort();
  return status;
}

absl::Status NcclCommunicator::Enqueue(const Transfers& transfers,
                                       cudaStream_t stream) {
  const NcclFunctions& nccl = environment_.nccl;
  for (size_t peer = 0; peer < transfers.sends.size(); ++peer) {
    for (const absl::Span<const char> piece : transfers.sends[peer]) {
      const ncclResult_t result =
          nccl.send(piece.data(), piece.size(), ncclInt8,
                    static_cast<int>(peer), comm_, stream);
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
                    static_cast<int>(peer), comm_, stream);
      if (result == ncclInProgress) continue;
      RETURN_IF_ERROR(StatusOfNccl(
          result,
          absl::StrCat("ncclRecv of ", piece.size(), " bytes from ", peer)));
    }
  }
  return absl::OkStatus();
}

absl::Status NcclCommunicator::Exchange(
    const Transfers& transfers, cudaStream_t stream,
    const std::function<absl::StatusOr<bool>()>& is_done,
    absl::Duration deadline) {
  if (is_broken()) {
    return absl::UnavailableError(
        absl::StrCat("the communicator of rank ", rank_, " is broken"));
  }
  const NcclFunctions& nccl = environment_.nccl;
  absl::Status status = StatusOfNccl(nccl.group_start(), "ncclGroupStart");
  if (status.ok()) {
    status = Enqueue(transfers, stream);
    // A group that was begun must end, also before an abort.
    const ncclResult_t ended = nccl.group_end();
    if (status.ok()) status = WaitFor(ended, "ncclGroupEnd", deadline);
  }
  if (status.ok()) status = WaitUntilDone(is_done, deadline);
  if (!status.ok()) Abort();
  return status;
}

// Errors of other processes are told here alone: the stream just stands still.
absl::Status NcclCommunicator::WaitUntilDone(
    const std::function<absl::StatusOr<bool>()>& is_done,
    absl::Duration deadline) {
  for (;;) {
    ASSIGN_OR_RETURN(const bool done, is_done());
    if (done) return absl::OkStatus();
    ncclResult_t result = ncclSuccess;
    const NcclFunctions& nccl = environment_.nccl;
    const ncclResult_t asked = nccl.comm_get_async_error(comm_, &result);
    if (asked != ncclSuccess) result = asked;
    if (result != ncclSuccess && result != ncclInProgress) {
      return StatusOfNccl(result, "transfers", nccl.get_last_error(comm_));
    }
    if (environment_.now() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "transfers of rank ", rank_, " have not come to their end in time"));
    }
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
